//! Walks the path to the API server as kubeadm's discovery would, a layer at a time, and says which layer failed.
//!
//! The token is sent only over a connection whose certificate was made by the CA that the pin or the token's own signature
//! vouches for.

use std::io;
use std::net::IpAddr;
use std::time::Duration;

use carrick_core::discovery::Discovery;
use carrick_core::discovery::{self, ClusterInfo};
use carrick_core::fact::api_path::{ApiPath, Clocks, PathReason, PathStep, StepOutcome, Walked};
use carrick_core::fact::{Capture, Why};
use hyper::StatusCode;
use serde_json::Value;
use tokio::time::{Instant, timeout_at};

use crate::client::is_name;
use crate::dialer::{DialedStream, Dialer, dial_any};
use crate::http::{self, Connection, Response};
use crate::tls::{self, Trust};

/// A layer that has not answered by then has failed: a person waits for this, and a healthy path takes 50 ms.
const DEADLINE: Duration = Duration::from_millis(2800);

const CLUSTER_INFO: &str = "/api/v1/namespaces/kube-public/configmaps/cluster-info";
const KUBELET_CONFIG: &str = "/api/v1/namespaces/kube-system/configmaps/kubelet-config";
const KUBEADM_CONFIG: &str = "/api/v1/namespaces/kube-system/configmaps/kubeadm-config";

/// What the walk found, by the name of its fact: `path`, `cluster-ca`, `version` …
pub type PathFacts = Vec<(&'static str, Result<Capture, Why>)>;

/// Walks the whole path. `node` is the name this machine would register under.
pub async fn walk(dialer: &dyn Dialer, target: &Discovery, node: Option<&str>) -> PathFacts {
    let mut walk =
        Walk { dialer, target, until: Instant::now() + DEADLINE, steps: Vec::new(), clocks: None, ca_pins: Vec::new() };
    let mut found = match walk.find_trust().await {
        Some((mut connection, info)) => {
            let mut found = vec![("cluster-ca", Ok(Capture::text(info.ca)))];
            found.extend(walk.documents(&mut connection, node).await);
            found
        }
        None => Vec::new(),
    };
    let Walk { steps, clocks, ca_pins, .. } = walk;
    let path = ApiPath { endpoint: target.endpoint.to_string(), steps, clocks, ca_pins };
    let path = serde_json::to_string_pretty(&path).map(Capture::text).map_err(|error| Why::Broken(error.to_string()));
    found.insert(0, ("path", path));
    for name in ["cluster-ca", "version", "kubelet-config", "kubeadm-config", "node"] {
        if !found.iter().any(|(there, _)| *there == name) {
            let why = if target.token.is_some() {
                Why::Broken("the API server was not reached".into())
            } else {
                Why::NotAsked
            };
            found.push((name, Err(why)));
        }
    }
    found
}

struct Walk<'a> {
    dialer: &'a dyn Dialer,
    target: &'a Discovery,
    until: Instant,
    steps: Vec<Walked>,
    clocks: Option<Clocks>,
    ca_pins: Vec<String>,
}

impl Walk<'_> {
    /// From the name to a connection that can be trusted; `None` where a step failed.
    async fn find_trust(&mut self) -> Option<(Connection, ClusterInfo)> {
        let addresses = self.dns().await?;
        let (stream, address) = self.tcp(&addresses).await?;
        let mut connection = self.tls(stream).await?;
        let response = self.http(&mut connection).await?;
        let info = self.cluster_info(&response)?;
        self.token(&info)?;
        self.ca_pin(&info)?;
        let connection = self.certificate(address, &info).await?;
        Some((connection, info))
    }

    #[allow(clippy::unnecessary_wraps)] // As `failed`: a step ends in one expression.
    fn ok<T>(&mut self, step: PathStep, detail: impl Into<String>, value: T) -> Option<T> {
        self.steps.push(Walked::new(step, StepOutcome::Ok(detail.into())));
        Some(value)
    }

    fn failed<T>(&mut self, step: PathStep, detail: impl Into<String>) -> Option<T> {
        self.steps.push(Walked::new(step, StepOutcome::Failed(detail.into())));
        None
    }

    fn failed_for<T>(&mut self, reason: PathReason, step: PathStep, detail: impl Into<String>) -> Option<T> {
        self.steps.push(Walked { reason: Some(reason), ..Walked::new(step, StepOutcome::Failed(detail.into())) });
        None
    }

    fn no_answer<T>(&mut self, step: PathStep, detail: impl Into<String>) -> Option<T> {
        self.failed_for(PathReason::NoAnswer, step, detail)
    }

    #[allow(clippy::unnecessary_wraps)] // As `failed`.
    fn not_needed<T>(&mut self, step: PathStep, detail: impl Into<String>, value: T) -> Option<T> {
        self.steps.push(Walked::new(step, StepOutcome::NotNeeded(detail.into())));
        Some(value)
    }

    async fn dns(&mut self) -> Option<Vec<IpAddr>> {
        if let Some(address) = self.target.endpoint.address() {
            return self.not_needed(PathStep::Dns, format!("{address} is an address"), vec![address]);
        }
        let host = self.target.endpoint.host.clone();
        match timeout_at(self.until, self.dialer.resolve(&host)).await {
            Ok(Ok(addresses)) if !addresses.is_empty() => {
                let shown: Vec<String> = addresses.iter().map(ToString::to_string).collect();
                self.ok(PathStep::Dns, format!("{host} is {}", shown.join(", ")), addresses)
            }
            Ok(Ok(_) | Err(Why::Absent)) => {
                self.failed(PathStep::Dns, format!("{host} does not resolve on this machine"))
            }
            Ok(Err(why)) => self.failed(PathStep::Dns, format!("{host} cannot be resolved: {why}")),
            Err(_) => self.no_answer(PathStep::Dns, format!("{host}: the resolver does not answer")),
        }
    }

    async fn tcp(&mut self, addresses: &[IpAddr]) -> Option<(Box<dyn DialedStream>, IpAddr)> {
        let port = self.target.endpoint.port;
        match dial_any(self.dialer, addresses, port, self.until).await {
            Ok((stream, address)) => {
                self.ok(PathStep::Tcp, format!("{address} port {port} answers"), (stream, address))
            }
            Err(errors) => {
                let says =
                    |(address, error): &(IpAddr, io::Error)| format!("{address} port {port}: {}", in_words(error));
                self.failed(PathStep::Tcp, errors.iter().map(says).collect::<Vec<_>>().join("; "))
            }
        }
    }

    async fn tls(&mut self, stream: Box<dyn DialedStream>) -> Option<Connection> {
        let host = self.target.endpoint.host.clone();
        match timeout_at(self.until, tls::handshake(stream, &host, &Trust::Anybody, self.dialer.now())).await {
            Err(_) => self.no_answer(PathStep::Tls, "connected, but the TLS handshake gets no answer (MTU? a proxy?)"),
            Ok(Err(error)) => self.failed(PathStep::Tls, tls::explain(&error)),
            Ok(Ok(stream)) => {
                let shown = tls::shown_certificate(&stream).and_then(|der| discovery::describe(&der).ok());
                let shown = shown.map_or("a certificate".to_owned(), |shown| shown.to_string());
                match Connection::open(stream, &self.target.endpoint).await {
                    Ok(connection) => self.ok(PathStep::Tls, shown, connection),
                    Err(error) => self.failed(PathStep::Tls, error),
                }
            }
        }
    }

    async fn http(&mut self, connection: &mut Connection) -> Option<Response> {
        let response = match timeout_at(self.until, connection.get(CLUSTER_INFO, None)).await {
            Err(_) => return self.no_answer(PathStep::Http, "TLS works, but a request gets no answer"),
            Ok(Err(error)) => return self.failed(PathStep::Http, error),
            Ok(Ok(response)) => response,
        };
        let here = self.dialer.now();
        self.clocks = response.date.map(|server| Clocks { server, here });
        if !response.json {
            let server = response.server.as_deref().unwrap_or("something");
            return self.failed(
                PathStep::Http,
                format!(
                    "{server} answers {}, but not as an API server does: a proxy or another service?",
                    response.status
                ),
            );
        }
        self.ok(PathStep::Http, "an API server answers", response)
    }

    fn cluster_info(&mut self, response: &Response) -> Option<ClusterInfo> {
        match response.status {
            StatusCode::OK => match ClusterInfo::parse(&response.body) {
                Ok(info) => self.ok(PathStep::ClusterInfo, format!("names {}", info.server), info),
                Err(error) => self.failed(PathStep::ClusterInfo, format!("kube-public/cluster-info: {error}")),
            },
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => self.failed(
                PathStep::ClusterInfo,
                format!("kube-public/cluster-info may not be read without credentials ({})", response.status.as_u16()),
            ),
            StatusCode::NOT_FOUND => {
                self.failed(PathStep::ClusterInfo, "there is no kube-public/cluster-info in this cluster")
            }
            status => {
                self.failed(PathStep::ClusterInfo, format!("kube-public/cluster-info: the API server answers {status}"))
            }
        }
    }

    fn token(&mut self, info: &ClusterInfo) -> Option<()> {
        let Some(token) = &self.target.token else {
            return self.not_needed(PathStep::Token, "no token was given", ());
        };
        match info.verify(token) {
            Ok(()) => self.ok(PathStep::Token, format!("cluster-info is signed with token {}", token.id), ()),
            Err(unsigned) => self.failed(PathStep::Token, unsigned.to_string()),
        }
    }

    fn ca_pin(&mut self, info: &ClusterInfo) -> Option<()> {
        self.ca_pins = match discovery::pins(&info.ca) {
            Ok(pins) => pins,
            Err(error) => {
                return self.failed(PathStep::CaPin, format!("the CA in cluster-info cannot be read: {error}"));
            }
        };
        let pins: Vec<String> = self.target.pins.iter().map(ToString::to_string).collect();
        match pins.iter().find(|pin| self.ca_pins.contains(pin)) {
            Some(pin) => self.ok(PathStep::CaPin, format!("the CA's key is {pin}"), ()),
            None if pins.is_empty() => self.not_needed(PathStep::CaPin, "no --ca-hash was given", ()),
            None => {
                let there = self.ca_pins.join(", ");
                self.failed(PathStep::CaPin, format!("the cluster's CA is {there}, not the one that was given"))
            }
        }
    }

    async fn certificate(&mut self, address: IpAddr, info: &ClusterInfo) -> Option<Connection> {
        let host = self.target.endpoint.host.clone();
        let opened = async {
            let stream = self.dialer.dial(address, self.target.endpoint.port).await?;
            tls::handshake(stream, &host, &Trust::Ca(&info.ca), self.dialer.now()).await
        };
        match timeout_at(self.until, opened).await {
            Err(_) => self.no_answer(PathStep::Certificate, "the second connection gets no answer"),
            Ok(Err(error)) if tls::is_not_yet_valid(&error) => {
                let says = "this machine's clock is behind: to it the API server's certificate is not valid yet";
                self.failed_for(
                    PathReason::NotYetValid,
                    PathStep::Certificate,
                    format!("{says} ({})", tls::explain(&error)),
                )
            }
            Ok(Err(error)) => self.failed(PathStep::Certificate, tls::explain(&error)),
            Ok(Ok(stream)) => match Connection::open(stream, &self.target.endpoint).await {
                Ok(connection) => {
                    self.ok(PathStep::Certificate, format!("the cluster's CA vouches for {host}"), connection)
                }
                Err(error) => self.failed(PathStep::Certificate, error),
            },
        }
    }

    /// What only the cluster knows: needs a token, and a token goes only to a cluster that has proved itself.
    async fn documents(&mut self, connection: &mut Connection, node: Option<&str>) -> PathFacts {
        let Some(token) = self.target.token.clone() else {
            self.not_needed(PathStep::Auth, "no token was given", ());
            return Vec::new();
        };
        let until = self.until;
        let bearer = http::bearer(&format!("{}.{}", token.id, token.secret()));
        let mut get = async |path: &str| timeout_at(until, connection.get(path, bearer.as_ref())).await;
        let kubelet_config = match get(KUBELET_CONFIG).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => return self.failed(PathStep::Auth, error).unwrap_or_default(),
            Err(_) => {
                return self.no_answer(PathStep::Auth, "a request with the token gets no answer").unwrap_or_default();
            }
        };
        match kubelet_config.status {
            StatusCode::OK => self.ok(PathStep::Auth, format!("token {} may read kubelet-config", token.id), ()),
            status => self.failed(PathStep::Auth, refusal(status, &token.id)),
        };
        let mut found = vec![("kubelet-config", entry(&kubelet_config, "kubelet"))];
        if let Ok(Ok(response)) = get(KUBEADM_CONFIG).await {
            found.push(("kubeadm-config", entry(&response, "ClusterConfiguration")));
        }
        if let Ok(Ok(response)) = get("/version").await {
            found.push(("version", whole(&response)));
        }
        match node {
            Some(name) if !is_name(name) => {
                found.push(("node", Err(Why::Broken(format!("{name:?} is not a name in Kubernetes")))));
            }
            Some(name) => {
                if let Ok(Ok(response)) = get(&format!("/api/v1/nodes/{name}")).await {
                    found.push(("node", whole(&response)));
                }
            }
            None => {}
        }
        found
    }
}

fn refusal(status: StatusCode, id: &str) -> String {
    match status {
        StatusCode::UNAUTHORIZED => format!(
            "token {id} may sign, but not authenticate (401): it was made without that usage, or has just expired"
        ),
        StatusCode::FORBIDDEN => format!(
            "token {id} may not read kubelet-config (403): it is not in system:bootstrappers:kubeadm:default-node-token"
        ),
        status => format!("with token {id} the API server answers {status}"),
    }
}

/// A whole answer; "not found" is a fact.
fn whole(response: &Response) -> Result<Capture, Why> {
    match response.status {
        StatusCode::OK => Ok(Capture::text(&response.body)),
        StatusCode::NOT_FOUND => Err(Why::Absent),
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Err(Why::Denied),
        status if status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error() => {
            Err(Why::Busy(format!("the API server answers {status}")))
        }
        status => Err(Why::Broken(format!("the API server answers {status}"))),
    }
}

/// One entry of a ConfigMap.
fn entry(response: &Response, key: &str) -> Result<Capture, Why> {
    let text = whole(response)?.text;
    let root: Value = serde_json::from_str(&text).map_err(|error| Why::Broken(format!("not JSON: {error}")))?;
    let value = root.pointer(&format!("/data/{key}")).and_then(Value::as_str);
    value.map(Capture::text).ok_or_else(|| Why::Broken(format!("the ConfigMap has no {key:?}")))
}

fn in_words(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => "connection refused: nothing listens there".to_owned(),
        io::ErrorKind::HostUnreachable => "no route to the host, or its firewall rejects".to_owned(),
        io::ErrorKind::NetworkUnreachable => "no route to that network".to_owned(),
        io::ErrorKind::TimedOut => "no answer: packets are dropped on the way (a firewall?)".to_owned(),
        _ => error.to_string(),
    }
}
