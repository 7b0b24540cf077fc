//! Which cluster a machine is to join (endpoint, token, pinned keys), and what proves that it is the one: its signed
//! `cluster-info`.
//!
//! What a person types is taken apart here, and refused in one line that says what was expected.

mod cluster_info;

pub use cluster_info::{CertificateSubject, ClusterInfo, Unsigned, describe, pins};

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// Where to join, and what proves that it is the right place.
#[derive(Clone, Debug)]
pub struct Discovery {
    pub endpoint: Endpoint,
    pub token: Option<Token>,
    pub pins: Vec<Pin>,
}

/// `HOST:PORT` of an API server or the load balancer before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// A name or an address, without brackets.
    pub host: String,
    pub port: u16,
}

impl Endpoint {
    pub fn address(&self) -> Option<IpAddr> {
        self.host.parse().ok()
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.address() {
            Some(IpAddr::V6(address)) => write!(f, "[{address}]:{}", self.port),
            _ => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

impl FromStr for Endpoint {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bare = text.strip_prefix("https://").unwrap_or(text).trim_end_matches('/');
        if bare.parse::<IpAddr>().is_ok() || !bare.contains(':') {
            let host = if bare.contains(':') { format!("[{bare}]") } else { bare.to_owned() };
            return Err(format!("{text:?} has no port; an API server usually listens on {host}:6443"));
        }
        let (host, port) = bare.rsplit_once(':').unwrap_or((bare, ""));
        let number = port.parse().ok().filter(|port| *port > 0);
        let port = number.ok_or_else(|| format!("{text:?}: {port:?} is not a port"))?;
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        match host.parse::<IpAddr>() {
            // An address in its usual form: `0::1` and `::1` are one.
            Ok(address) => Ok(Endpoint { host: address.to_string(), port }),
            Err(_) if is_dns_name(host) => Ok(Endpoint { host: host.to_owned(), port }),
            Err(_) => Err(format!("{text:?}: {host:?} is neither an address nor a host name")),
        }
    }
}

/// A name DNS can hold: letters, digits and hyphens between dots.
pub fn is_dns_name(name: &str) -> bool {
    let label = |label: &str| {
        (1..=63).contains(&label.len())
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    name.len() <= 253 && name.strip_suffix('.').unwrap_or(name).split('.').all(label)
}

/// A bootstrap token. Its secret is shown to nobody: `{:?}` and `{}` give the id alone.
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    pub id: String,
    secret: String,
}

impl Token {
    /// For the one who proves or presents the token.
    pub fn secret(&self) -> &str {
        &self.secret
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.<redacted>", self.id)
    }
}

impl FromStr for Token {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let part = |part: &str, length| {
            part.len() == length && part.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
        };
        match text.trim().split_once('.') {
            Some((id, secret)) if part(id, 6) && part(secret, 16) => {
                Ok(Token { id: id.to_owned(), secret: secret.to_owned() })
            }
            // The value is not repeated: half a token is still half a secret.
            _ => Err("not a bootstrap token (6 characters, a dot, 16 characters, of a-z and 0-9)".to_owned()),
        }
    }
}

/// The SHA-256 of a CA's public key, as `--discovery-token-ca-cert-hash` takes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pin(String);

impl fmt::Display for Pin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for Pin {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let hex = text.strip_prefix("sha256:").unwrap_or_default().to_ascii_lowercase();
        if hex.len() == 64 && hex.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Ok(Pin(format!("sha256:{hex}")));
        }
        Err(format!("{text:?} is not sha256:<64 hex digits>; how to print it: carrick explain api.ca-pin"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn reads_endpoints() {
        for (text, shown) in [
            ("10.0.0.11:6443", "10.0.0.11:6443"),
            ("https://10.0.0.11:6443", "10.0.0.11:6443"),
            ("https://cp.example.org:443/", "cp.example.org:443"),
            ("[fd00::1]:6443", "[fd00::1]:6443"),
            ("[fd00:0::1]:6443", "[fd00::1]:6443"),
        ] {
            assert_eq!(text.parse::<Endpoint>().map(|endpoint| endpoint.to_string()), Ok(shown.to_owned()), "{text}");
        }
    }

    #[test]
    fn refuses_what_is_no_endpoint_and_says_why() {
        for (text, part) in [
            ("10.0.0.11", "no port; an API server usually listens on 10.0.0.11:6443"),
            ("fd00::1", "listens on [fd00::1]:6443"),
            ("cp:http", "\"http\" is not a port"),
            ("cp:70000", "\"70000\" is not a port"),
            ("cp:0", "\"0\" is not a port"),
            ("-oProxyCommand=x:1", "neither an address nor a host name"),
            ("a b:1", "neither"),
            (":6443", "neither"),
            ("", "no port"),
        ] {
            let error = text.parse::<Endpoint>().unwrap_err();
            assert!(error.contains(part), "{text:?}: {error}");
        }
    }

    #[test]
    fn a_token_never_shows_its_secret() {
        let token: Token = "abcdef.0123456789abcdef\n".parse().unwrap();
        assert_eq!((token.id.as_str(), token.secret()), ("abcdef", "0123456789abcdef"));
        assert_eq!(format!("{token:?}"), "abcdef.<redacted>");
        for text in ["abcdef", "abcdef.0123456789abcde", "ABCDEF.0123456789abcdef", "abcdef.0123456789abcdeg!", ""] {
            let error = text.parse::<Token>().unwrap_err();
            assert!(text.is_empty() || !error.contains(text), "{error}");
        }
    }

    #[test]
    fn a_pin_is_a_sha256() {
        let hex = "8C1F".repeat(16);
        assert_eq!(
            format!("sha256:{hex}").parse::<Pin>().unwrap().to_string(),
            format!("sha256:{}", hex.to_lowercase())
        );
        for text in [hex.as_str(), "sha256:8c1f", "sha512:00", ""] {
            assert!(text.parse::<Pin>().unwrap_err().contains("sha256:<64 hex digits>"));
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in ".*") {
            let _ = (text.parse::<Endpoint>(), text.parse::<Token>(), text.parse::<Pin>());
        }
    }
}
