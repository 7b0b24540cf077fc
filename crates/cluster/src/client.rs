//! Who asks an API server, and whom it believes: an admin's kubeconfig, the kubelet's own, or a bootstrap token.
//!
//! What is secret ends in TLS settings and in a header that does not print itself; no complaint repeats it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use carrick_core::aim::{Endpoint, Token};
use carrick_core::fact::kubeconfig::{self, Cluster, User};
use carrick_core::fact::{Capture, Why};
use carrick_core::redact::redact;
use hyper::header::HeaderValue;
use hyper::{Method, StatusCode};
use rustls::ClientConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::http::{self, Body, Connection, Response};
use crate::path::{ADDRESSES, in_words};
use crate::tls::{self, Identity, Trust};
use crate::way::{Stream, Way};

/// A person waits for this; a healthy cluster takes 50 ms.
const DEADLINE: Duration = Duration::from_secs(3);

const DAEMON_SETS: &str = "/apis/apps/v1/daemonsets";

/// Whom to ask, whom to believe, and who asks.
pub struct Client {
    endpoint: Endpoint,
    /// What stands before every path where a gateway serves several clusters: `/k8s/clusters/c-1`.
    prefix: String,
    /// Whom the server's certificate must be for.
    name: ServerName<'static>,
    tls: Arc<ClientConfig>,
    bearer: Option<HeaderValue>,
    /// The CA it believes, as PEM.
    ca: String,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<redacted> at {}{}", self.endpoint, self.prefix)
    }
}

impl Client {
    /// Takes a kubeconfig apart; `read` gives the content of a file it names. A complaint names the field.
    pub fn parse(text: &str, read: impl Fn(&str) -> Result<String, String>) -> Result<Self, String> {
        Self::parse_or_token(text, None, read)
    }

    /// The same; where the kubeconfig names a cluster and nobody who may ask it, a bootstrap token does.
    pub fn parse_or_token(
        text: &str,
        token: Option<&Token>,
        read: impl Fn(&str) -> Result<String, String>,
    ) -> Result<Self, String> {
        let (cluster, user) = match token {
            Some(_) => kubeconfig::of_discovery(text)?,
            None => kubeconfig::current(text)?,
        };
        supported(&cluster, &user)?;
        let (endpoint, prefix) = server(&cluster)?;
        let ca = Pem::of(
            "certificate-authority",
            cluster.certificate_authority_data.as_deref(),
            cluster.certificate_authority.as_deref(),
        );
        let ca = ca.read(&read)?.ok_or("it has no certificate-authority-data: no other CA would be believed")?;
        let identity = identity(&user, &read)?;
        let token = token.map(by_token).transpose()?.filter(|_| identity.is_none());
        let bearer = bearer(&user, &read)?.or(token);
        if identity.is_none() && bearer.is_none() {
            return Err("its user has neither client-certificate-data nor a token".to_owned());
        }
        // In two steps, so that the complaint is about the right field.
        tls::settings(&Trust::Ca(&ca.text), None)
            .map_err(|_| format!("{}: it holds no CA certificate that can be used", ca.field))?;
        let tls = tls::settings(&Trust::Ca(&ca.text), identity)
            .map_err(|error| format!("client-certificate and client-key: {}", tls::explain(&error)))?;
        let (field, name) = match filled(cluster.tls_server_name.as_deref()) {
            Some(name) => ("tls-server-name", name),
            None => ("server", endpoint.host.as_str()),
        };
        let name =
            ServerName::try_from(name.to_owned()).map_err(|_| format!("{field}: {name:?} is not a host name"))?;
        Ok(Client { endpoint, prefix, name, tls, bearer, ca: ca.text })
    }

    /// Asks with a bootstrap token, believing this CA alone.
    pub fn with_token(endpoint: &Endpoint, ca: &str, token: &Token) -> Result<Self, String> {
        let tls = tls::settings(&Trust::Ca(ca), None).map_err(|error| tls::explain(&error))?;
        let name = ServerName::try_from(endpoint.host.clone());
        let name = name.map_err(|_| format!("{:?} is not a host name", endpoint.host))?;
        let bearer = by_token(token)?;
        Ok(Client {
            endpoint: endpoint.clone(),
            prefix: String::new(),
            name,
            tls,
            bearer: Some(bearer),
            ca: ca.to_owned(),
        })
    }

    /// The CA it believes, as PEM.
    pub fn ca(&self) -> &str {
        &self.ca
    }

    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Name and status of every DaemonSet. Their pod templates are left out: environments hold what is nobody's business.
    pub async fn daemon_sets(&self, way: &dyn Way) -> Result<Capture, Why> {
        // A list is there even where it is empty: who has none is no API server.
        let no_list = |why| if why == Why::Absent { self.broken("answers 404 Not Found") } else { why };
        let list = self.get(way, DAEMON_SETS).await.map_err(no_list)?;
        statuses(&list).map(Capture::text).map_err(|detail| self.broken(&detail))
    }

    /// One object, or a list. `Absent`: there is none of this name.
    pub async fn get(&self, way: &dyn Way, path: &str) -> Result<Value, Why> {
        self.object(way, Method::GET, path, None).await
    }

    /// Changes a part of an object: what `part` names.
    pub async fn merge(&self, way: &dyn Way, path: &str, part: &Value) -> Result<Value, Why> {
        let body = Body { kind: "application/merge-patch+json", text: part.to_string() };
        self.object(way, Method::PATCH, path, Some(body)).await
    }

    /// The same, for lists whose entries have a name of their own: conditions, taints.
    pub async fn strategic_merge(&self, way: &dyn Way, path: &str, part: &Value) -> Result<Value, Why> {
        let body = Body { kind: "application/strategic-merge-patch+json", text: part.to_string() };
        self.object(way, Method::PATCH, path, Some(body)).await
    }

    pub async fn create(&self, way: &dyn Way, path: &str, object: &Value) -> Result<Value, Why> {
        let body = Body { kind: "application/json", text: object.to_string() };
        self.object(way, Method::POST, path, Some(body)).await
    }

    /// That there is none is fine.
    pub async fn delete(&self, way: &dyn Way, path: &str) -> Result<(), Why> {
        gone(self.object(way, Method::DELETE, path, None).await)
    }

    /// Deletes this very object as it was seen: not another that has its name by now, and not one that has changed since.
    pub async fn delete_as_seen(&self, way: &dyn Way, path: &str, seen: &Value) -> Result<(), Why> {
        let part = |key: &str| seen.pointer(&format!("/metadata/{key}")).and_then(Value::as_str);
        let (Some(uid), Some(version)) = (part("uid"), part("resourceVersion")) else {
            return Err(Why::Broken(format!("{path}: what was seen of it has no uid")));
        };
        let preconditions = json!({"uid": uid, "resourceVersion": version});
        let options = json!({"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": preconditions});
        let body = Body { kind: "application/json", text: options.to_string() };
        gone(self.object(way, Method::DELETE, path, Some(body)).await)
    }

    async fn object(&self, way: &dyn Way, method: Method, path: &str, body: Option<Body>) -> Result<Value, Why> {
        let response = self.bounded(way, method, path, body).await?;
        match response.status {
            status if status.is_success() => serde_json::from_str(&response.body)
                .map_err(|error| self.broken(&format!("its answer is not JSON: {error}"))),
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Err(Why::Denied),
            StatusCode::NOT_FOUND => Err(Why::Absent),
            status => Err(self.broken(&format!("answers {status}{}", message(&response.body)))),
        }
    }

    /// One question, whatever the answer, as long as there is one in time.
    pub(crate) async fn bounded(
        &self,
        way: &dyn Way,
        method: Method,
        path: &str,
        body: Option<Body>,
    ) -> Result<Response, Why> {
        let response = timeout(DEADLINE, self.ask(way, method, path, body)).await;
        let response = response.map_err(|_| self.broken(&format!("no answer within {} s", DEADLINE.as_secs())))?;
        response.map_err(|detail| self.broken(&detail))
    }

    fn broken(&self, detail: &str) -> Why {
        Why::Broken(format!("{}: {detail}", self.endpoint))
    }

    /// One question on a connection of its own; whatever the answer.
    pub async fn ask(&self, way: &dyn Way, method: Method, path: &str, body: Option<Body>) -> Result<Response, String> {
        let stream = self.dial(way).await?;
        let stream = tls::connect(stream, self.name.clone(), self.tls.clone()).await;
        let stream = stream.map_err(|error| tls::explain(&error))?;
        let mut connection = Connection::open(stream, &self.endpoint).await?;
        let path = format!("{}{path}", self.prefix);
        connection.send(method, &path, self.bearer.as_ref(), body).await
    }

    async fn dial(&self, way: &dyn Way) -> Result<Box<dyn Stream>, String> {
        let addresses = match self.endpoint.address() {
            Some(address) => vec![address],
            None => way.resolve(&self.endpoint.host).await.map_err(|why| format!("cannot be resolved: {why}"))?,
        };
        let mut last = "the name has no address".to_owned();
        for address in addresses.into_iter().take(ADDRESSES) {
            match way.dial(address, self.endpoint.port).await {
                Ok(stream) => return Ok(stream),
                Err(error) => last = in_words(&error),
            }
        }
        Err(last)
    }
}

fn by_token(token: &Token) -> Result<HeaderValue, String> {
    http::bearer(&format!("{}.{}", token.id, token.secret())).ok_or_else(|| "the token fits no header".to_owned())
}

/// Whether a complaint of a [`Client`] is that the server's certificate is of another CA than the one that is believed.
pub fn is_of_another_ca(complaint: &str) -> bool {
    // As rustls names it; a test holds it to that.
    ["UnknownIssuer", "BadSignature"].iter().any(|kind| complaint.contains(kind))
}

/// What Carrick does not do is refused, not passed over: the answer would be another user's, or come from anybody.
fn supported(cluster: &Cluster, user: &User) -> Result<(), String> {
    const INSTEAD: &str = "is not supported: give one with a client certificate or a token, as kubeadm's admin.conf";
    let refused = if cluster.insecure_skip_tls_verify == Some(true) {
        "insecure-skip-tls-verify is refused: credentials would go to whoever answers; name the CA in certificate-authority-data".to_owned()
    } else if filled(cluster.proxy_url.as_deref()).is_some() {
        "proxy-url is not supported: the cluster is asked directly".to_owned()
    } else if user.exec.is_some() {
        format!("exec (a credential plugin) {INSTEAD}")
    } else if user.auth_provider.is_some() {
        format!("auth-provider {INSTEAD}")
    } else if filled(user.username.as_deref()).is_some() {
        format!("username (basic authentication) {INSTEAD}")
    } else if filled(user.acts_as.as_deref()).is_some() {
        "as (impersonation) is not supported".to_owned()
    } else {
        return Ok(());
    };
    Err(refused)
}

/// `https://HOST[:PORT][/PREFIX]`.
fn server(cluster: &Cluster) -> Result<(Endpoint, String), String> {
    let text = filled(cluster.server.as_deref()).ok_or("it has no server")?;
    if text.contains(['@', '?', '#']) {
        // Not repeated: before an @ stands a password.
        return Err("server: more than https://HOST:PORT/PATH".to_owned());
    }
    let Some(rest) = text.strip_prefix("https://") else {
        return Err(format!("server: {text:?} does not begin with https://"));
    };
    let (authority, prefix) = rest.find('/').map_or((rest, ""), |slash| rest.split_at(slash));
    let has_port = !authority.ends_with(']') && authority.contains(':');
    let authority = if has_port { authority.to_owned() } else { format!("{authority}:443") };
    let endpoint = authority.parse().map_err(|error| format!("server: {error}"))?;
    if !prefix.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(format!("server: {prefix:?} is not a path"));
    }
    Ok((endpoint, prefix.trim_end_matches('/').to_owned()))
}

fn identity(user: &User, read: &impl Fn(&str) -> Result<String, String>) -> Result<Option<Identity>, String> {
    let certificate =
        Pem::of("client-certificate", user.client_certificate_data.as_deref(), user.client_certificate.as_deref());
    let key = Pem::of("client-key", user.client_key_data.as_deref(), user.client_key.as_deref());
    match (certificate.read(read)?, key.read(read)?) {
        (None, None) => Ok(None),
        (Some(_), None) => Err("it has a client certificate and no client-key-data".to_owned()),
        (None, Some(_)) => Err("it has a client key and no client-certificate-data".to_owned()),
        (Some(certificate), Some(key)) => {
            let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(certificate.text.as_bytes()).collect();
            let chain = chain.ok().filter(|chain| !chain.is_empty());
            let chain = chain.ok_or_else(|| format!("{}: it holds no certificate in PEM", certificate.field))?;
            // The reader's own words may quote a line of the key.
            let key = PrivateKeyDer::from_pem_slice(key.text.as_bytes())
                .map_err(|_| format!("{}: it holds no private key in PEM, or an encrypted one", key.field))?;
            Ok(Some(Identity { chain, key }))
        }
    }
}

/// The token; the one in a file goes first, as in kubectl.
fn bearer(user: &User, read: &impl Fn(&str) -> Result<String, String>) -> Result<Option<HeaderValue>, String> {
    let (field, token) = match (filled(user.token_file.as_deref()), filled(user.token.as_deref())) {
        (Some(file), _) => ("tokenFile", read(file).map_err(|error| format!("tokenFile: {error}"))?),
        (None, Some(token)) => ("token", token.to_owned()),
        (None, None) => return Ok(None),
    };
    let token = Some(token.trim()).filter(|token| !token.is_empty());
    let bearer = token.and_then(http::bearer).ok_or_else(|| format!("{field}: it holds no token"))?;
    Ok(Some(bearer))
}

/// A field that holds PEM itself (`FIELD-data`), or names its file.
struct Pem<'a> {
    field: &'static str,
    data: Option<&'a str>,
    file: Option<&'a str>,
}

struct PemText {
    /// Where it stood, as the kubeconfig spells it.
    field: String,
    text: String,
}

impl<'a> Pem<'a> {
    fn of(field: &'static str, data: Option<&'a str>, file: Option<&'a str>) -> Self {
        Pem { field, data: filled(data), file: filled(file) }
    }

    fn read(&self, read: &impl Fn(&str) -> Result<String, String>) -> Result<Option<PemText>, String> {
        let field = self.field;
        let (field, text) = match (self.data, self.file) {
            (Some(data), _) => (format!("{field}-data"), kubeconfig::decode(data).ok_or("not base64".to_owned())),
            (None, Some(file)) => (field.to_owned(), read(file)),
            (None, None) => return Ok(None),
        };
        let text = text.map_err(|error| format!("{field}: {error}"))?;
        Ok(Some(PemText { field, text }))
    }
}

/// An empty field is no field, as for kubectl.
fn filled(text: Option<&str>) -> Option<&str> {
    text.filter(|text| !text.is_empty())
}

/// What a Status object says, as `: nodes "w1" is forbidden: …`.
pub(crate) fn message(body: &str) -> String {
    let status: Option<Value> = serde_json::from_str(body).ok();
    let message = status.as_ref().and_then(|status| status.get("message")?.as_str());
    message.map(|message| format!(": {}", redact(message))).unwrap_or_default()
}

fn statuses(list: &Value) -> Result<String, String> {
    let items = list.get("items").and_then(Value::as_array).ok_or("its answer is not a list of DaemonSets")?;
    let short = |item: &Value| {
        json!({
            "metadata": { "namespace": item.pointer("/metadata/namespace"), "name": item.pointer("/metadata/name") },
            "status": item.get("status"),
        })
    };
    Ok(json!({ "kind": "DaemonSetList", "items": items.iter().map(short).collect::<Vec<_>>() }).to_string())
}

/// What is not there any more is as good as deleted.
fn gone(answer: Result<Value, Why>) -> Result<(), Why> {
    match answer {
        Ok(_) | Err(Why::Absent) => Ok(()),
        Err(why) => Err(why),
    }
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use proptest::prelude::*;
    use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};

    use super::*;

    /// What must never be seen outside.
    const SECRET: &str = "s3cret";

    struct Made {
        ca: String,
        certificate: String,
        key: String,
    }

    fn made() -> Made {
        let mut ca = CertificateParams::default();
        ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let ca = CertifiedIssuer::self_signed(ca, KeyPair::generate().unwrap()).unwrap();
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::default().signed_by(&key, &ca).unwrap();
        Made { ca: ca.pem(), certificate: certificate.pem(), key: key.serialize_pem() }
    }

    fn with(cluster: &str, user: &str) -> String {
        format!(
            "{{current-context: c, contexts: [{{name: c, context: {{cluster: k, user: u}}}}], \
             clusters: [{{name: k, cluster: {{{cluster}}}}}], users: [{{name: u, user: {{{user}}}}}]}}"
        )
    }

    fn data(field: &str, text: &str) -> String {
        format!("{field}-data: {}", STANDARD.encode(text))
    }

    /// The files of the tests: `ca`, `token`, `empty`.
    fn read(made: &Made) -> impl Fn(&str) -> Result<String, String> {
        |name| match name {
            "ca" => Ok(made.ca.clone()),
            "token" => Ok(format!("{SECRET}\n")),
            "empty" => Ok(String::new()),
            _ => Err(format!("{name}: not there")),
        }
    }

    #[test]
    fn reads_what_kubectl_reads() {
        let made = made();
        let ca = data("certificate-authority", &made.ca);
        let own = format!("{}, {}", data("client-certificate", &made.certificate), data("client-key", &made.key));
        let bearer = Some("Bearer s3cret");
        for (cluster, user, at, sent) in [
            (format!("server: 'https://10.0.0.11:6443', {ca}"), own.as_str(), "10.0.0.11:6443", None),
            ("server: 'https://cp', certificate-authority: ca".into(), "token: s3cret", "cp:443", bearer),
            (format!("server: 'https://[fd00::1]/', {ca}"), "tokenFile: token, token: x", "[fd00::1]:443", bearer),
            (format!("server: 'https://gw/k8s/c-1/', {ca}"), "token: s3cret", "gw:443/k8s/c-1", bearer),
            (
                format!("server: 'https://10.0.0.11:6443', tls-server-name: cp, {ca}"),
                "token: s3cret, exec: null, username: ''",
                "10.0.0.11:6443",
                bearer,
            ),
        ] {
            let admin = Client::parse(&with(&cluster, user), read(&made)).unwrap();
            assert_eq!(format!("{admin:?}"), format!("<redacted> at {at}"));
            let there = admin.bearer.as_ref().map(|bearer| bearer.to_str().unwrap());
            assert_eq!((there, admin.tls.client_auth_cert_resolver.has_certs()), (sent, sent.is_none()), "{at}");
        }
    }

    #[test]
    fn refuses_the_rest_by_the_name_of_the_field_and_without_the_secret() {
        let (made, other) = (made(), made().key);
        let good = format!("server: 'https://cp:6443', {}", data("certificate-authority", &made.ca));
        let token = "token: s3cret";
        let certificate = data("client-certificate", &made.certificate);
        for (cluster, user, part) in [
            ("", token, "it has no server"),
            ("server: 'http://cp:8080'", token, "server: \"http://cp:8080\" does not begin with https://"),
            ("server: 'https://admin:s3cret@cp'", token, "server: more than"),
            ("server: 'https://cp:x'", token, "server: \"cp:x\": \"x\" is not a port"),
            ("server: 'https://c p'", token, "server: \"c p:443\": \"c p\" is neither"),
            ("server: 'https://cp'", token, "no certificate-authority-data"),
            (
                "server: 'https://cp', certificate-authority: nowhere",
                token,
                "certificate-authority: nowhere: not there",
            ),
            ("server: 'https://cp', certificate-authority: empty", token, "certificate-authority: it holds no CA"),
            ("server: 'https://cp', certificate-authority-data: '*'", token, "certificate-authority-data: not base64"),
            (
                "server: 'https://cp', certificate-authority-data: czNjcmV0",
                token,
                "certificate-authority-data: it holds no",
            ),
            ("server: 'https://cp', insecure-skip-tls-verify: true", token, "insecure-skip-tls-verify is refused"),
            (&format!("{good}, proxy-url: 'http://s3cret'"), token, "proxy-url is not supported"),
            (&format!("{good}, tls-server-name: 'c p'"), token, "tls-server-name: \"c p\""),
            (
                &good,
                "exec: {command: aws, env: [{name: A, value: s3cret}]}",
                "exec (a credential plugin) is not supported",
            ),
            (&good, "auth-provider: {name: oidc, config: {id-token: s3cret}}", "auth-provider is not supported"),
            (&good, "username: admin, password: s3cret", "username (basic authentication) is not supported"),
            (&good, "as: root, token: s3cret", "as (impersonation) is not supported"),
            (&good, "", "neither client-certificate-data nor a token"),
            (&good, "tokenFile: empty", "tokenFile: it holds no token"),
            (&good, "tokenFile: nowhere", "tokenFile: nowhere: not there"),
            (&good, "token: \"s3cret\\nx\"", "token: it holds no token"),
            (&good, "token: [s3cret]", "line 1 is not as in a kubeconfig"),
            (&good, &certificate, "no client-key-data"),
            (&good, &data("client-key", &made.key), "no client-certificate-data"),
            (
                &good,
                &format!("{certificate}, {}", data("client-key", SECRET)),
                "client-key-data: it holds no private key",
            ),
            (
                &good,
                &format!(
                    "{certificate}, {}",
                    data("client-key", "-----BEGIN s3cret\n-----BEGIN PRIVATE KEY-----\ns3cret\n")
                ),
                "client-key-data: it holds no private key",
            ),
            (
                &good,
                &format!(
                    "{certificate}, {}",
                    data("client-key", "-----BEGIN PRIVATE KEY-----\nczNjcmV0\n-----END PRIVATE KEY-----\n")
                ),
                "client-certificate and client-key: ",
            ),
            (&good, &format!("{certificate}, {}", data("client-key", &other)), "client-certificate and client-key: "),
            (
                &good,
                &format!("client-certificate: empty, {}", data("client-key", &made.key)),
                "client-certificate: it holds no",
            ),
        ] {
            let complaint = Client::parse(&with(cluster, user), read(&made)).expect_err(part);
            assert!(complaint.contains(part), "{part}: {complaint}");
            assert!(!complaint.contains(SECRET), "{complaint}");
        }
    }

    #[test]
    fn keeps_names_and_states_and_no_pod_template() {
        let item = r#"{"metadata":{"name":"a","namespace":"b","annotations":{"x":"s3cret"}},"spec":{"template":"s3cret"},"status":{"numberReady":2}}"#;
        let kept = statuses(&serde_json::from_str(&format!(r#"{{"items":[{item}]}}"#)).unwrap()).unwrap();
        let short = r#"{"metadata":{"namespace":"b","name":"a"},"status":{"numberReady":2}}"#;
        assert_eq!(kept, format!(r#"{{"kind":"DaemonSetList","items":[{short}]}}"#));
        for list in [json!([]), json!({}), json!({"items": 1})] {
            assert!(statuses(&list).is_err(), "{list}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes: Vec<u8>, server in ".*", pem in ".*") {
            let text = String::from_utf8_lossy(&bytes);
            let _ = (Client::parse(&text, |_| Ok(pem.clone())), message(&text));
            let own = json!({ "server": server, "certificate-authority": "ca", "token": text }).to_string();
            let own = own.trim_matches(['{', '}']);
            let _ = Client::parse(&with(own, &own.replace("certificate-authority", "client-key")), |_| Ok(pem.clone()));
        }
    }
}
