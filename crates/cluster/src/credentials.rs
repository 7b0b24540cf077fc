//! Who asks an API server, and whom it trusts: an admin's kubeconfig, the kubelet's own, or a bootstrap token.
//!
//! What is secret ends in TLS settings and in a header that does not print itself; no complaint repeats it.

use std::fmt;
use std::sync::Arc;

use carrick_core::discovery::{Endpoint, Token};
use carrick_core::fact::kubeconfig::{self, KubeconfigCluster, KubeconfigUser};
use hyper::header::HeaderValue;
use rustls::ClientConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};

use crate::http;
use crate::tls::{self, ClientIdentity, Trust};

/// Whom to ask, whom to trust, and who asks.
#[derive(Clone)]
pub struct ClusterCredentials {
    pub(crate) server: Endpoint,
    /// What stands before every path where a gateway serves several clusters: `/k8s/clusters/c-1`.
    pub(crate) prefix: String,
    /// Whom the server's certificate must be for.
    pub(crate) name: ServerName<'static>,
    pub(crate) tls: Arc<ClientConfig>,
    pub(crate) bearer: Option<HeaderValue>,
    /// The CA it trusts, as PEM.
    pub(crate) ca: String,
}

impl fmt::Debug for ClusterCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<redacted> at {}{}", self.server, self.prefix)
    }
}

impl ClusterCredentials {
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
        let (server, prefix) = server(&cluster)?;
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
            None => ("server", server.host.as_str()),
        };
        let name =
            ServerName::try_from(name.to_owned()).map_err(|_| format!("{field}: {name:?} is not a host name"))?;
        Ok(ClusterCredentials { server, prefix, name, tls, bearer, ca: ca.text })
    }

    /// Asks with a bootstrap token, trusting this CA alone.
    pub fn of_token(server: &Endpoint, ca: &str, token: &Token) -> Result<Self, String> {
        let tls = tls::settings(&Trust::Ca(ca), None).map_err(|error| tls::explain(&error))?;
        let name = ServerName::try_from(server.host.clone());
        let name = name.map_err(|_| format!("{:?} is not a host name", server.host))?;
        let (server, prefix, bearer) = (server.clone(), String::new(), Some(by_token(token)?));
        Ok(ClusterCredentials { server, prefix, name, tls, bearer, ca: ca.to_owned() })
    }

    /// Asks as a pod's service account, trusting the CA that is mounted beside its token.
    pub fn of_service_account(server: &Endpoint, ca: &str, token: &str) -> Result<Self, String> {
        let tls = tls::settings(&Trust::Ca(ca), None).map_err(|error| tls::explain(&error))?;
        let name = ServerName::try_from(server.host.clone());
        let name = name.map_err(|_| format!("{:?} is not a host name", server.host))?;
        let token = Some(token.trim()).filter(|token| !token.is_empty()).and_then(http::bearer);
        let bearer = Some(token.ok_or("the service account's token is empty, or fits no header")?);
        Ok(ClusterCredentials { server: server.clone(), prefix: String::new(), name, tls, bearer, ca: ca.to_owned() })
    }

    pub fn server(&self) -> &Endpoint {
        &self.server
    }

    /// The CA it trusts, as PEM.
    pub fn ca(&self) -> &str {
        &self.ca
    }
}

fn by_token(token: &Token) -> Result<HeaderValue, String> {
    http::bearer(&format!("{}.{}", token.id, token.secret())).ok_or_else(|| "the token fits no header".to_owned())
}

/// What Carrick does not do is refused, not passed over: the answer would be another user's, or come from anybody.
fn supported(cluster: &KubeconfigCluster, user: &KubeconfigUser) -> Result<(), String> {
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
fn server(cluster: &KubeconfigCluster) -> Result<(Endpoint, String), String> {
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

fn identity(
    user: &KubeconfigUser,
    read: &impl Fn(&str) -> Result<String, String>,
) -> Result<Option<ClientIdentity>, String> {
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
            Ok(Some(ClientIdentity { chain, key }))
        }
    }
}

/// The token; the one in a file goes first, as in kubectl.
fn bearer(
    user: &KubeconfigUser,
    read: &impl Fn(&str) -> Result<String, String>,
) -> Result<Option<HeaderValue>, String> {
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

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use proptest::prelude::*;
    use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
    use serde_json::json;

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
            let admin = ClusterCredentials::parse(&with(&cluster, user), read(&made)).unwrap();
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
            let complaint = ClusterCredentials::parse(&with(cluster, user), read(&made)).expect_err(part);
            assert!(complaint.contains(part), "{part}: {complaint}");
            assert!(!complaint.contains(SECRET), "{complaint}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes: Vec<u8>, server in ".*", pem in ".*") {
            let text = String::from_utf8_lossy(&bytes);
            let _ = ClusterCredentials::parse(&text, |_| Ok(pem.clone()));
            let own = json!({ "server": server, "certificate-authority": "ca", "token": text }).to_string();
            let own = own.trim_matches(['{', '}']);
            let _ = ClusterCredentials::parse(&with(own, &own.replace("certificate-authority", "client-key")), |_| Ok(pem.clone()));
        }
    }
}
