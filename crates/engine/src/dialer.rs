//! A machine's network and clock, for `carrick_cluster` to reach the API server through.

use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use carrick_cluster::{ClusterClient, ClusterCredentials, DialFuture, DialedStream, Dialer};
use carrick_core::fact::Why;
use carrick_host::{Probe, Target};
use jiff::Timestamp;
use tokio::time::Instant;

/// A client that asks from a machine. It does not keep the machine: whoever lets go of that closes it (an SSH connection, say),
/// whatever a client has still spawned.
pub fn client(credentials: &ClusterCredentials, machine: Weak<dyn Probe>) -> ClusterClient {
    ClusterClient::new(credentials, Arc::new(OfMachine::new(machine)))
}

/// The same, for one who asks all day.
pub fn patient_client(credentials: &ClusterCredentials, machine: Weak<dyn Probe>, deadline: Duration) -> ClusterClient {
    ClusterClient::patient(credentials, Arc::new(OfMachine::new(machine)), deadline)
}

/// For as long as the machine is looked at anyhow.
pub(crate) struct FromMachine<'a>(pub(crate) &'a dyn Probe);

impl Dialer for FromMachine<'_> {
    fn resolve<'a>(&'a self, name: &'a str) -> DialFuture<'a, Result<Vec<IpAddr>, Why>> {
        self.0.resolve(name)
    }

    fn dial(&self, address: IpAddr, port: u16) -> DialFuture<'_, io::Result<Box<dyn DialedStream>>> {
        Box::pin(async move {
            let stream = self.0.connect(&Target::Tcp { host: address.to_string(), port }).await?;
            Ok(Box::new(stream) as Box<dyn DialedStream>)
        })
    }

    fn now(&self) -> Timestamp {
        self.0.now()
    }
}

/// For as long as somebody else holds the machine.
struct OfMachine {
    machine: Weak<dyn Probe>,
    /// Its clock, when it was last seen: for who still asks when the machine was let go. Another machine's clock is no stand-in.
    clock: Mutex<(Timestamp, Instant)>,
}

const LET_GO: &str = "the connection to the machine is closed";

impl OfMachine {
    fn new(machine: Weak<dyn Probe>) -> Self {
        // Of a machine that was never there nobody knows the time; at this one no certificate is valid.
        let now = machine.upgrade().map_or(Timestamp::UNIX_EPOCH, |machine| machine.now());
        OfMachine { machine, clock: Mutex::new((now, Instant::now())) }
    }
}

impl Dialer for OfMachine {
    fn resolve<'a>(&'a self, name: &'a str) -> DialFuture<'a, Result<Vec<IpAddr>, Why>> {
        Box::pin(async move {
            let machine = self.machine.upgrade().ok_or_else(|| Why::Broken(LET_GO.to_owned()))?;
            machine.resolve(name).await
        })
    }

    fn dial(&self, address: IpAddr, port: u16) -> DialFuture<'_, io::Result<Box<dyn DialedStream>>> {
        Box::pin(async move {
            let machine = self.machine.upgrade().ok_or_else(|| io::Error::other(LET_GO))?;
            FromMachine(machine.as_ref()).dial(address, port).await
        })
    }

    fn now(&self) -> Timestamp {
        let mut clock = self.clock.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(machine) = self.machine.upgrade() {
            *clock = (machine.now(), Instant::now());
        }
        let (then, seen) = *clock;
        then.checked_add(seen.elapsed()).unwrap_or(then)
    }
}

/// For tests: clients without a machine, of API servers that are not there, or in memory.
#[cfg(test)]
pub(crate) mod stub {
    use carrick_cluster::ApiProblem;
    use carrick_testkit::MemoryApi;
    use carrick_testkit::memory_api::User;
    use http_body_util::BodyExt as _;
    use rcgen::{CertificateParams, KeyPair};
    use tower::BoxError;

    use super::*;

    /// A clock, and no network.
    struct Clock(Timestamp);

    impl Dialer for Clock {
        fn resolve<'a>(&'a self, _: &'a str) -> DialFuture<'a, Result<Vec<IpAddr>, Why>> {
            Box::pin(async { Err(Why::Absent) })
        }

        fn dial(&self, _: IpAddr, _: u16) -> DialFuture<'_, io::Result<Box<dyn DialedStream>>> {
            Box::pin(async { Err(io::ErrorKind::NetworkUnreachable.into()) })
        }

        fn now(&self) -> Timestamp {
            self.0
        }
    }

    fn credentials() -> ClusterCredentials {
        let ca = CertificateParams::default().self_signed(&KeyPair::generate().unwrap()).unwrap().pem();
        let token = "abcdef.0123456789abcdef".parse().unwrap();
        ClusterCredentials::of_token(&"10.0.0.11:6443".parse().unwrap(), &ca, &token).unwrap()
    }

    /// Says the same to everything: a status and a body, or why there is none; `None`: nothing, ever.
    pub(crate) fn saying(said: Option<Result<(u16, &'static str), ApiProblem>>) -> ClusterClient {
        let carrier = tower::service_fn(move |_| {
            let said = said.clone();
            async move {
                let Some(said) = said else { return std::future::pending().await };
                let (status, body) = said?;
                Ok::<_, BoxError>(http::Response::builder().status(status).body(body.to_owned())?)
            }
        });
        ClusterClient::over(&credentials(), Arc::new(Clock(Timestamp::UNIX_EPOCH)), carrier)
    }

    /// Forbids everything but to ask who one is: somebody of this group.
    pub(crate) fn forbidding_all_but_reviews(group: &'static str) -> ClusterClient {
        let carrier = tower::service_fn(move |request: http::Request<_>| {
            let is_review = request.uri().path().ends_with("/selfsubjectreviews");
            let (status, body) = if is_review {
                (201, serde_json::json!({ "status": { "userInfo": { "groups": [group] } } }).to_string())
            } else {
                (403, "{}".to_owned())
            };
            async move { Ok::<_, BoxError>(http::Response::builder().status(status).body(body)?) }
        });
        ClusterClient::over(&credentials(), Arc::new(Clock(Timestamp::UNIX_EPOCH)), carrier)
    }

    /// What is said to each path, with what was sent along.
    pub(crate) fn answering(says: fn(&str, &str) -> String) -> ClusterClient {
        let carrier = tower::service_fn(move |request| answer(request, says));
        ClusterClient::over(&credentials(), Arc::new(Clock(Timestamp::UNIX_EPOCH)), carrier)
    }

    async fn answer<B>(
        request: http::Request<B>,
        says: fn(&str, &str) -> String,
    ) -> Result<http::Response<String>, BoxError>
    where
        B: hyper::body::Body,
        B::Error: Into<BoxError>,
    {
        let path = request.uri().path().to_owned();
        let body = request.into_body().collect().await.map_err(Into::into)?.to_bytes();
        Ok(http::Response::builder().status(201).body(says(&path, &String::from_utf8_lossy(&body)))?)
    }

    /// A clock that goes on with tokio's, and that somebody may set.
    struct Running(Arc<Mutex<Timestamp>>, Instant);

    impl Dialer for Running {
        fn resolve<'a>(&'a self, _: &'a str) -> DialFuture<'a, Result<Vec<IpAddr>, Why>> {
            Box::pin(async { Err(Why::Absent) })
        }

        fn dial(&self, _: IpAddr, _: u16) -> DialFuture<'_, io::Result<Box<dyn DialedStream>>> {
            Box::pin(async { Err(io::ErrorKind::NetworkUnreachable.into()) })
        }

        fn now(&self) -> Timestamp {
            let set = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
            set.checked_add(self.1.elapsed()).unwrap_or(set)
        }
    }

    /// An admin who asks an API server in memory, all day, from a machine whose clock says this at first.
    pub(crate) fn asking_for_long(api: &MemoryApi, now: Timestamp) -> ClusterClient {
        asking_by(api, Arc::new(Mutex::new(now)))
    }

    /// The same; its clock may be set while it asks.
    pub(crate) fn asking_by(api: &MemoryApi, clock: Arc<Mutex<Timestamp>>) -> ClusterClient {
        let clock = Arc::new(Running(clock, Instant::now()));
        ClusterClient::over(&credentials(), clock, api.service_for(Some(User::admin())))
    }

    /// An admin who asks an API server in memory from a machine at this time.
    pub(crate) fn asking(api: &MemoryApi, now: Timestamp) -> ClusterClient {
        ClusterClient::over(&credentials(), Arc::new(Clock(now)), api.service_for(Some(User::admin())))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use carrick_cluster::{ApiProblem, nodes};
    use carrick_core::fact::Source;
    use carrick_host::{Observation, Progress};
    use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
    use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio_rustls::TlsAcceptor;

    use super::*;

    /// A machine that notes when it is closed, as `Ssh` ends its connection. What it dials is an API server that answers `{}`.
    struct Closing {
        closed: Arc<AtomicBool>,
        server: TlsAcceptor,
    }

    impl Drop for Closing {
        fn drop(&mut self) {
            self.closed.store(true, Ordering::Relaxed);
        }
    }

    impl Probe for Closing {
        fn name(&self) -> &'static str {
            "w1"
        }

        fn now(&self) -> Timestamp {
            "2026-11-15T12:00:00Z".parse().unwrap()
        }

        fn observe<'a>(&'a self, _: &'a [Source], _: &'a Progress) -> carrick_host::BoxFuture<'a, Vec<Observation>> {
            Box::pin(async { Vec::new() })
        }

        fn resolve<'a>(&'a self, _: &'a str) -> carrick_host::BoxFuture<'a, Result<Vec<IpAddr>, Why>> {
            Box::pin(async { Err(Why::Absent) })
        }

        fn connect<'a>(
            &'a self,
            _: &'a Target,
        ) -> carrick_host::BoxFuture<'a, io::Result<Box<dyn carrick_host::ByteStream>>> {
            Box::pin(async {
                let (ours, theirs) = tokio::io::duplex(1 << 14);
                tokio::spawn(answers(self.server.clone(), theirs));
                Ok(Box::new(ours) as Box<dyn carrick_host::ByteStream>)
            })
        }
    }

    async fn answers(server: TlsAcceptor, stream: tokio::io::DuplexStream) {
        let mut stream = server.accept(stream).await.unwrap();
        let mut seen = Vec::new();
        while let Ok(byte) = stream.read_u8().await {
            seen.push(byte);
            if seen.ends_with(b"\r\n\r\n") {
                stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}").await.unwrap();
            }
        }
    }

    /// The CA's PEM, and a server of it.
    fn server() -> (String, TlsAcceptor) {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let ca = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let key = KeyPair::generate().unwrap();
        let own = CertificateParams::new(vec!["10.0.0.11".to_owned()]).unwrap().signed_by(&key, &ca).unwrap();
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config =
            rustls::ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let chain = vec![CertificateDer::from(own.der().to_vec())];
        let config = config.with_no_client_auth().with_single_cert(chain, key).unwrap();
        (ca.pem(), TlsAcceptor::from(Arc::new(config)))
    }

    #[tokio::test(start_paused = true)]
    async fn a_machine_is_closed_though_a_client_and_its_connection_still_live() {
        let (closed, (ca, server)) = (Arc::new(AtomicBool::new(false)), server());
        let machine = Arc::new(Closing { closed: closed.clone(), server });
        let token = "abcdef.0123456789abcdef".parse().unwrap();
        let credentials = ClusterCredentials::of_token(&"10.0.0.11:6443".parse().unwrap(), &ca, &token).unwrap();
        let client = client(&credentials, Arc::<Closing>::downgrade(&machine));
        let now = machine.now();
        assert_eq!(client.now(), now);
        assert!(nodes::get(&client, "w1").await.is_ok());
        drop(machine);
        assert!(closed.load(Ordering::Relaxed), "nothing else holds it");
        assert!(nodes::get(&client, "w1").await.is_ok(), "the connection lives as long as it is used");
        tokio::time::advance(Duration::from_mins(1)).await;
        let problem = nodes::get(&client, "w1").await.unwrap_err().problem;
        assert_eq!(problem, ApiProblem::Unreachable(LET_GO.to_owned()), "and no other is made");
        let passed = client.now().duration_since(now).as_secs();
        assert_eq!(passed, 60, "the machine's clock, not ours, also when it is gone");
    }
}
