//! Walks the path to the API server as kubeadm's discovery would, a layer at a time, and says which layer failed.
//!
//! The token is sent only over a connection whose certificate was made by the CA that the pin or the token's own signature
//! vouches for.

use std::net::IpAddr;
use std::time::Duration;
use std::{fmt, io};

use carrick_core::discovery::{self, ClusterInfo, Discovery, Endpoint, Token, Unsigned};
use carrick_core::fact::api_path::{ApiPath, Clocks, PathReason, PathStep, StepOutcome, Walked};
use carrick_core::fact::bootstrap_token::{TokenRights, TokenSeen, TokenSignature};
use carrick_core::fact::{Capture, Why};
use hyper::StatusCode;
use hyper::header::HeaderValue;
use serde_json::{Value, json};
use tokio::time::error::Elapsed;
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
    let mut walk = Walk {
        dialer,
        target,
        until: Instant::now() + DEADLINE,
        steps: Vec::new(),
        clocks: None,
        ca_pins: Vec::new(),
        advertised: None,
        token: None,
    };
    let mut found = match walk.find_trust().await {
        Some((connection, info)) => {
            let mut found = vec![("cluster-ca", Ok(Capture::text(info.ca)))];
            found.extend(walk.documents(connection, node).await);
            found
        }
        None => Vec::new(),
    };
    let Walk { steps, clocks, ca_pins, advertised, token, .. } = walk;
    let (endpoint, token_given) = (target.endpoint.to_string(), target.token.is_some());
    let path = ApiPath { endpoint, steps, clocks, ca_pins, advertised, token_given, token };
    let path = serde_json::to_string_pretty(&path).map(Capture::text).map_err(|error| Why::Broken(error.to_string()));
    found.insert(0, ("path", path));
    for name in ["cluster-ca", "version", "kubelet-config", "kubeadm-config", "node"] {
        if !found.iter().any(|(there, _)| *there == name) {
            let why = if target.token.is_some() {
                Why::Unreachable("the API server was not reached".into())
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
    advertised: Option<String>,
    token: Option<TokenSeen>,
}

/// Why a connection that is to be trusted was not made.
enum Unopened {
    NoAnswer,
    NotDialled(String),
    Untrusted(io::Error),
    Broken(String),
}

impl fmt::Display for Unopened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unopened::NoAnswer => f.write_str("no answer"),
            Unopened::Untrusted(error) => f.write_str(&tls::explain(error)),
            Unopened::NotDialled(says) | Unopened::Broken(says) => f.write_str(says),
        }
    }
}

impl Walk<'_> {
    /// From the name to a connection that can be trusted; `None` where a step failed.
    async fn find_trust(&mut self) -> Option<(Connection, ClusterInfo)> {
        let addresses = self.dns().await?;
        let (stream, address) = self.tcp(&addresses).await?;
        let mut connection = self.tls(stream).await?;
        let response = self.http(&mut connection).await?;
        let info = self.cluster_info(&response)?;
        self.ca_pins = discovery::pins(&info.ca).unwrap_or_default();
        if self.token(&info).is_none() {
            self.ask_unsigned(address, &info).await;
            return None;
        }
        self.ca_pin(&info)?;
        let connection = self.certificate(address, &info).await?;
        let connection = self.advertised(connection, address, &info).await?;
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
            StatusCode::FORBIDDEN => self.failed_for(
                PathReason::Forbidden,
                PathStep::ClusterInfo,
                "kube-public/cluster-info may not be read without credentials (403)",
            ),
            StatusCode::UNAUTHORIZED => self.failed_for(
                PathReason::Unauthenticated,
                PathStep::ClusterInfo,
                "the API server answers nobody without credentials (401)",
            ),
            StatusCode::NOT_FOUND => {
                self.failed(PathStep::ClusterInfo, "the cluster has no ConfigMap kube-public/cluster-info (404)")
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
        let verified = info.verify(token);
        let signature = match &verified {
            Ok(()) => TokenSignature::Fits,
            Err(Unsigned::NoSignature(_)) => TokenSignature::Missing,
            Err(Unsigned::WrongSecret(_)) => TokenSignature::Wrong,
            Err(Unsigned::Unreadable(..)) => TokenSignature::Unreadable,
        };
        self.token = Some(TokenSeen::new(&token.id, signature, info.signed_for_others(&token.id)));
        match verified {
            Ok(()) => self.ok(PathStep::Token, format!("cluster-info is signed with token {}", token.id), ()),
            Err(unsigned) => self.failed(PathStep::Token, unsigned.to_string()),
        }
    }

    /// Whether the API server accepts a token that cluster-info does not prove itself for: it is sent only where the cluster's
    /// CA was pinned, and that CA vouches for the server.
    async fn ask_unsigned(&mut self, address: IpAddr, info: &ClusterInfo) -> Option<()> {
        let token = self.target.token.clone()?;
        let is_pinned = self.target.pins.iter().any(|pin| self.ca_pins.contains(&pin.to_string()));
        let endpoint = self.target.endpoint.clone();
        let connection = if is_pinned { self.open(&endpoint, &[address], &info.ca).await.ok()? } else { return None };
        let mut asker = Asker::new(connection, &token, self.until);
        let (accepted, groups) = asker.review_self().await?;
        let seen = self.token.as_mut()?;
        (seen.accepted, seen.groups) = (Some(accepted), groups);
        Some(())
    }

    fn ca_pin(&mut self, info: &ClusterInfo) -> Option<()> {
        if let Err(error) = discovery::pins(&info.ca) {
            return self.failed(PathStep::CaPin, format!("the CA in cluster-info cannot be read: {error}"));
        }
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
        let endpoint = self.target.endpoint.clone();
        match self.open(&endpoint, &[address], &info.ca).await {
            Ok(connection) => {
                let says = format!("the cluster's CA vouches for {}", endpoint.host);
                self.ok(PathStep::Certificate, says, connection)
            }
            Err(Unopened::NoAnswer) => self.no_answer(PathStep::Certificate, "the second connection gets no answer"),
            Err(Unopened::Untrusted(error)) if tls::is_not_yet_valid(&error) => {
                let says = "this machine's clock is behind: to it the API server's certificate is not valid yet";
                self.failed_for(
                    PathReason::NotYetValid,
                    PathStep::Certificate,
                    format!("{says} ({})", tls::explain(&error)),
                )
            }
            Err(unopened) => self.failed(PathStep::Certificate, unopened.to_string()),
        }
    }

    /// kubeadm believes cluster-info, and goes on with the server that it names.
    async fn advertised(&mut self, connection: Connection, address: IpAddr, info: &ClusterInfo) -> Option<Connection> {
        let Some(named) = endpoint_of(&info.server) else {
            let says = format!("cluster-info names no API server that can be asked: {:?}", info.server);
            return self.failed(PathStep::Advertised, says);
        };
        self.advertised = Some(named.to_string());
        if named == self.target.endpoint {
            return self.ok(PathStep::Advertised, format!("cluster-info names {named}, too"), connection);
        }
        let unreached = |why: &dyn fmt::Display| {
            format!("cluster-info names {named}: kubeadm goes on with that, and it does not answer from here: {why}")
        };
        let addresses = match named.address() {
            Some(address) => Ok(vec![address]),
            None => timeout_at(self.until, self.dialer.resolve(&named.host)).await.unwrap_or(Err(Why::TimedOut)),
        };
        let addresses = match addresses {
            Ok(addresses) if !addresses.is_empty() => addresses,
            Ok(_) => return self.failed(PathStep::Advertised, unreached(&"its name does not resolve")),
            Err(why) => return self.failed(PathStep::Advertised, unreached(&format!("its name: {why}"))),
        };
        match self.open(&named, &addresses, &info.ca).await {
            Ok(connection) => {
                let is_other = named.port != self.target.endpoint.port || !addresses.contains(&address);
                let reason = is_other.then_some(PathReason::OtherAddress);
                let state = StepOutcome::Ok(format!("cluster-info names {named}, which answers"));
                self.steps.push(Walked { step: PathStep::Advertised, state, reason });
                Some(connection)
            }
            Err(unopened) => self.failed(PathStep::Advertised, unreached(&unopened)),
        }
    }

    /// A connection to whom the cluster's CA vouches for.
    async fn open(&self, endpoint: &Endpoint, addresses: &[IpAddr], ca: &str) -> Result<Connection, Unopened> {
        let says = |errors: Vec<(IpAddr, io::Error)>| {
            let each: Vec<String> = errors.iter().map(|(at, error)| format!("{at}: {}", in_words(error))).collect();
            Unopened::NotDialled(each.join("; "))
        };
        let (stream, _) = dial_any(self.dialer, addresses, endpoint.port, self.until).await.map_err(says)?;
        let trust = Trust::Ca(ca);
        let shaking = tls::handshake(stream, &endpoint.host, &trust, self.dialer.now());
        let stream = timeout_at(self.until, shaking).await.map_err(|_| Unopened::NoAnswer)?;
        Connection::open(stream.map_err(Unopened::Untrusted)?, endpoint).await.map_err(Unopened::Broken)
    }

    /// What only the cluster knows: needs a token, and a token goes only to a cluster that has proved itself.
    async fn documents(&mut self, connection: Connection, node: Option<&str>) -> PathFacts {
        let Some(token) = self.target.token.clone() else {
            self.not_needed(PathStep::Auth, "no token was given", ());
            return Vec::new();
        };
        let mut asker = Asker::new(connection, &token, self.until);
        let kubelet_config = match asker.get(KUBELET_CONFIG).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => return self.failed(PathStep::Auth, error).unwrap_or_default(),
            Err(_) => {
                return self.no_answer(PathStep::Auth, "a request with the token gets no answer").unwrap_or_default();
            }
        };
        let mut rights = TokenRights { kubelet_config: Some(kubelet_config.status.as_u16()), ..TokenRights::default() };
        let mut found = vec![("kubelet-config", entry(&kubelet_config, "kubelet"))];
        let accepted = self.auth(kubelet_config.status, &token.id);
        if accepted == Some(true) {
            if let Ok(Ok(response)) = asker.get(KUBEADM_CONFIG).await {
                rights.kubeadm_config = Some(response.status.as_u16());
                found.push(("kubeadm-config", entry(&response, "ClusterConfiguration")));
            }
            if let Ok(Ok(response)) = asker.get("/version").await {
                found.push(("version", whole(&response)));
            }
            let (answer, object) = asker.node(node).await;
            rights.node = answer;
            found.extend(object.map(|object| ("node", object)));
            rights.requests = asker.may_create("").await;
            rights.approval = asker.may_create("nodeclient").await;
        }
        let groups = match accepted {
            Some(true) if rights.is_refused_any() => asker.review_self().await.and_then(|(_, groups)| groups),
            _ => None,
        };
        if let Some(seen) = &mut self.token {
            (seen.accepted, seen.groups, seen.rights) = (accepted, groups, rights);
        }
        found
    }

    /// What the first answer to a token says of it: whether it is accepted, where that can be told.
    fn auth(&mut self, status: StatusCode, id: &str) -> Option<bool> {
        match status {
            StatusCode::UNAUTHORIZED => {
                self.failed::<()>(PathStep::Auth, format!("the API server does not accept token {id} (401)"));
                Some(false)
            }
            status if status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error() => {
                self.failed::<()>(PathStep::Auth, format!("with token {id} the API server answers {status}"));
                None
            }
            _ => {
                self.ok(PathStep::Auth, format!("the API server accepts token {id}"), ());
                Some(true)
            }
        }
    }
}

/// Asks with the token, over a connection whose other end has proved itself.
struct Asker {
    connection: Connection,
    bearer: Option<HeaderValue>,
    until: Instant,
}

impl Asker {
    fn new(connection: Connection, token: &Token, until: Instant) -> Self {
        Asker { connection, bearer: http::bearer(&format!("{}.{}", token.id, token.secret())), until }
    }

    async fn get(&mut self, path: &str) -> Result<Result<Response, String>, Elapsed> {
        timeout_at(self.until, self.connection.get(path, self.bearer.as_ref())).await
    }

    async fn review(&mut self, path: &str, review: &Value) -> Option<Response> {
        timeout_at(self.until, self.connection.review(path, review, self.bearer.as_ref())).await.ok()?.ok()
    }

    /// The Node of this name: the status of the answer, and what it is.
    async fn node(&mut self, name: Option<&str>) -> (Option<u16>, Option<Result<Capture, Why>>) {
        match name {
            Some(name) if !is_name(name) => {
                (None, Some(Err(Why::Broken(format!("{name:?} is not a name in Kubernetes")))))
            }
            Some(name) => match self.get(&format!("/api/v1/nodes/{name}")).await {
                Ok(Ok(response)) => (Some(response.status.as_u16()), Some(whole(&response))),
                Ok(Err(_)) | Err(_) => (None, None),
            },
            None => (None, None),
        }
    }

    /// Whether the API server accepts it, and the groups it is in. Every API server from 1.28 on says so to whom it knows; one that
    /// does not knows who asks all the same.
    async fn review_self(&mut self) -> Option<(bool, Option<Vec<String>>)> {
        let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
        let response = self.review("/apis/authentication.k8s.io/v1/selfsubjectreviews", &review).await?;
        let groups = || {
            let answer: Value = serde_json::from_str(&response.body).ok()?;
            let groups = answer.pointer("/status/userInfo/groups")?.as_array()?;
            Some(groups.iter().filter_map(Value::as_str).map(str::to_owned).collect())
        };
        match response.status {
            StatusCode::CREATED => Some((true, groups())),
            StatusCode::UNAUTHORIZED => Some((false, None)),
            StatusCode::FORBIDDEN | StatusCode::NOT_FOUND => Some((true, None)),
            _ => None,
        }
    }

    /// Whether it may create CertificateSigningRequests, or the subresource by which kube-controller-manager tells whose it approves.
    async fn may_create(&mut self, subresource: &str) -> Option<bool> {
        let mut attributes =
            json!({"group": "certificates.k8s.io", "resource": "certificatesigningrequests", "verb": "create"});
        if !subresource.is_empty() {
            attributes["subresource"] = subresource.into();
        }
        let review = json!({
            "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": attributes},
        });
        let response = self.review("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", &review).await?;
        let answer: Value = serde_json::from_str(&response.body).ok()?;
        answer.pointer("/status/allowed")?.as_bool().filter(|_| response.status == StatusCode::CREATED)
    }
}

/// The API server in cluster-info's kubeconfig, as an address: a URL that names no port has that of https.
fn endpoint_of(server: &str) -> Option<Endpoint> {
    let bare = server.strip_prefix("https://")?.trim_end_matches('/');
    bare.parse().or_else(|_| format!("{bare}:443").parse()).ok()
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
