//! What kubeadm's token discovery proves: that a `cluster-info` was signed by someone who knows the token, and that the CA
//! in it is the pinned one.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::Value;

use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer, X509Certificate};

use super::Token;
use crate::fact::pki::parse_certificates;

/// The ConfigMap every joining machine reads first, without credentials.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterInfo {
    /// The signed text.
    kubeconfig: String,
    /// Detached signatures, by token id.
    signatures: Vec<(String, String)>,
    /// The cluster's CA, PEM.
    pub ca: String,
    /// Where the cluster says it is.
    pub server: String,
}

/// Why a `cluster-info` does not prove itself for a token.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unsigned {
    #[error("cluster-info is not signed for token {0}")]
    NoSignature(String),
    #[error("the signature does not fit: the secret half of token {0} is wrong")]
    WrongSecret(String),
    #[error("the signature for token {0} cannot be read: {1}")]
    Unreadable(String, String),
}

impl ClusterInfo {
    /// From the ConfigMap as the API server gives it.
    pub fn parse(json: &str) -> Result<Self, String> {
        let root: Value = serde_json::from_str(json).map_err(|error| format!("not JSON: {error}"))?;
        let data = root.get("data").and_then(Value::as_object).ok_or("the ConfigMap has no data")?;
        let kubeconfig = data.get("kubeconfig").and_then(Value::as_str).ok_or("the ConfigMap has no kubeconfig")?;
        let signatures = data
            .iter()
            .filter_map(|(key, value)| {
                Some((key.strip_prefix("jws-kubeconfig-")?.to_owned(), value.as_str()?.to_owned()))
            })
            .collect();
        let cluster = cluster_of(kubeconfig)?;
        Ok(ClusterInfo { kubeconfig: kubeconfig.to_owned(), signatures, ca: cluster.0, server: cluster.1 })
    }

    /// How many tokens beside this one it is signed for.
    pub fn signed_for_others(&self, id: &str) -> usize {
        self.signatures.iter().filter(|(signed, _)| signed != id).count()
    }

    /// Whether someone who knows the token signed this.
    pub fn verify(&self, token: &Token) -> Result<(), Unsigned> {
        let id = || token.id.clone();
        let unreadable = |detail: &str| Unsigned::Unreadable(id(), detail.to_owned());
        let (_, jws) = self
            .signatures
            .iter()
            .find(|(signed, _)| *signed == token.id)
            .ok_or_else(|| Unsigned::NoSignature(id()))?;
        let (header, signature) = jws.split_once("..").ok_or_else(|| unreadable("not a detached JWS"))?;
        let algorithm = URL_SAFE_NO_PAD
            .decode(header)
            .ok()
            .and_then(|json| serde_json::from_slice::<Value>(&json).ok())
            .and_then(|header| header.get("alg").and_then(Value::as_str).map(str::to_owned));
        if algorithm.as_deref() != Some("HS256") {
            return Err(unreadable("its header does not say HS256"));
        }
        let signature = URL_SAFE_NO_PAD.decode(signature).map_err(|_| unreadable("its signature is not base64url"))?;
        let signed = format!("{header}.{}", URL_SAFE_NO_PAD.encode(&self.kubeconfig));
        let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, token.secret().as_bytes());
        ring::hmac::verify(&key, signed.as_bytes(), &signature).map_err(|_| Unsigned::WrongSecret(id()))
    }
}

/// CA and server of the one cluster in a kubeconfig.
fn cluster_of(kubeconfig: &str) -> Result<(String, String), String> {
    let root: Value =
        serde_saphyr::from_str(kubeconfig).map_err(|error| format!("its kubeconfig is not YAML: {error}"))?;
    let text = |key: &str| root.pointer(&format!("/clusters/0/cluster/{key}")).and_then(Value::as_str);
    let data = text("certificate-authority-data").ok_or("its kubeconfig has no certificate-authority-data")?;
    let ca = STANDARD.decode(data.trim()).map_err(|_| "its certificate-authority-data is not base64")?;
    let ca = String::from_utf8(ca).map_err(|_| "its CA is not PEM")?;
    Ok((ca, text("server").unwrap_or_default().to_owned()))
}

/// Who a certificate says it is, as far as a person needs it to compare.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateSubject {
    pub subject: String,
    pub names: Vec<String>,
}

impl std::fmt::Display for CertificateSubject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} for {}", self.subject, self.names.join(", "))
    }
}

/// Reads a certificate, DER.
pub fn describe(der: &[u8]) -> Result<CertificateSubject, String> {
    let (_, certificate) = X509Certificate::from_der(der).map_err(|error| error.to_string())?;
    let names = certificate.subject_alternative_name().ok().flatten();
    let names = names.map(|names| names.value.general_names.iter().filter_map(alternative_name).collect());
    Ok(CertificateSubject { subject: certificate.subject().to_string(), names: names.unwrap_or_default() })
}

fn alternative_name(name: &GeneralName<'_>) -> Option<String> {
    match name {
        GeneralName::DNSName(name) => Some((*name).to_owned()),
        GeneralName::IPAddress(bytes) => match bytes.len() {
            4 => <[u8; 4]>::try_from(*bytes).ok().map(|bytes| std::net::IpAddr::from(bytes).to_string()),
            _ => <[u8; 16]>::try_from(*bytes).ok().map(|bytes| std::net::IpAddr::from(bytes).to_string()),
        },
        _ => None,
    }
}

/// The keys of the certificates in a PEM text, as they are pinned: `sha256:<hex of the SPKI's SHA-256>`.
pub fn pins(pem: &str) -> Result<Vec<String>, String> {
    Ok(parse_certificates(pem)?.into_iter().map(|certificate| certificate.pin).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Signed by a real bootstrap signer (kube-controller-manager 1.34.4) for the token abcdef.0123456789abcdef.
    const REAL: &str = include_str!("../../tests/discovery/cluster-info.json");

    fn token(text: &str) -> Token {
        text.parse().unwrap()
    }

    #[test]
    fn a_real_cluster_info_proves_itself_for_its_token_only() {
        let info = ClusterInfo::parse(REAL).unwrap();
        assert!(info.ca.starts_with("-----BEGIN CERTIFICATE-----"));
        assert_eq!(info.server, "https://10.77.0.11:6443");
        assert_eq!(info.verify(&token("abcdef.0123456789abcdef")), Ok(()));
        assert_eq!(info.verify(&token("abcdef.0123456789abcdee")), Err(Unsigned::WrongSecret("abcdef".into())));
        assert_eq!(info.verify(&token("zzzzzz.0123456789abcdef")), Err(Unsigned::NoSignature("zzzzzz".into())));
    }

    #[test]
    fn a_changed_kubeconfig_is_not_proved() {
        let changed = REAL.replace("10.77.0.11", "10.77.0.12");
        let info = ClusterInfo::parse(&changed).unwrap();
        assert_eq!(info.verify(&token("abcdef.0123456789abcdef")), Err(Unsigned::WrongSecret("abcdef".into())));
    }

    #[test]
    fn a_signature_of_another_kind_is_not_trusted() {
        let header = |json: &str| URL_SAFE_NO_PAD.encode(json);
        for jws in [
            "",
            "no-dots",
            &format!("{}..AA", header(r#"{"alg":"none"}"#)),
            &format!("{}..!", header(r#"{"alg":"HS256"}"#)),
        ] {
            let mut info = ClusterInfo::parse(REAL).unwrap();
            info.signatures = vec![("abcdef".into(), jws.to_owned())];
            assert!(matches!(info.verify(&token("abcdef.0123456789abcdef")), Err(Unsigned::Unreadable(..))), "{jws:?}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_a_cluster_info_or_not(text in ".*") {
            let _ = ClusterInfo::parse(&text);
        }
    }
}
