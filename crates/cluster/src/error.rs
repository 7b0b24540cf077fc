//! Why the API server gave no answer, or none that can be used. What is decided on is the variant, never its text.

use std::error::Error;
use std::fmt;
use std::io;
use std::time::Duration;

use carrick_core::discovery::Endpoint;
use carrick_core::fact::Why;
use carrick_core::redact::redact;
use hyper::StatusCode;
use hyper::header::{HeaderMap, RETRY_AFTER};
use jiff::Timestamp;
use rustls::CertificateError;
use rustls::pki_types::UnixTime;
use serde_json::Value;

/// What a server may say about its refusal: a Status object's message has a line or two.
const LONGEST_MESSAGE: usize = 500;

/// A server may ask to be left alone for longer than a person waits without a word.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// A request that came to nothing: which API server, and what about it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("API server {server} {problem}")]
pub struct ApiError {
    pub server: Endpoint,
    pub problem: ApiProblem,
}

/// Read after "API server HOST:PORT".
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApiProblem {
    #[error("did not answer within {} s", .0.as_secs())]
    TimedOut(Duration),
    #[error("refused the connection")]
    Refused,
    #[error("is unreachable: {0}")]
    Unreachable(String),
    /// Its name, as the machine's resolver takes it.
    #[error("has a name that does not resolve on this machine: {0}")]
    Unresolved(Why),
    #[error("closed the connection before it had answered")]
    Closed,
    #[error("does not speak TLS: a plain HTTP port, or a proxy")]
    NotTls,
    /// Its certificate is of another CA than the one that is trusted.
    #[error("has a certificate of another CA than this cluster's")]
    UntrustedCa,
    #[error("has a certificate that is not valid before {from}; this machine's clock says {now}")]
    NotYetValid { from: Timestamp, now: Timestamp },
    #[error("has a certificate that expired at {until}; this machine's clock says {now}")]
    Expired { until: Timestamp, now: Timestamp },
    /// In rustls' words, which list the names it is for.
    #[error("has a certificate for other names: {0}")]
    OtherName(String),
    /// Any other end of a handshake; an alert of the server's, mostly.
    #[error("ended the TLS handshake: {0}")]
    Tls(String),
    #[error("does not answer as an HTTP server does: {0}")]
    NotHttp(String),
    /// 401.
    #[error("does not accept the credential (401 Unauthorized{0})")]
    Unauthorized(ServerMessage),
    /// 403.
    #[error("denied the request (403 Forbidden{0})")]
    Forbidden(ServerMessage),
    /// 404.
    #[error("has no such object (404 Not Found{0})")]
    NotFound(ServerMessage),
    /// 409: the object was changed meanwhile, is another one by now, or exists already.
    #[error("refused the change (409 Conflict{0})")]
    Conflict(ServerMessage),
    /// 410: a list's next page is not to be had any more.
    #[error("has dropped what was asked for (410 Gone{0})")]
    Gone(ServerMessage),
    /// 422.
    #[error("rejected the object (422 Unprocessable Entity{0})")]
    Invalid(ServerMessage),
    /// 429: a disruption budget's, or of a server with too much to do.
    #[error("refused the request for now (429 Too Many Requests{said})")]
    TooManyRequests { retry_after: Option<Duration>, said: ServerMessage },
    #[error("answered {0}{1}")]
    Status(StatusCode, ServerMessage),
    #[error("sent an answer of more than {0} bytes")]
    TooLarge(usize),
    /// Without a word of the answer: it may be a Secret.
    #[error("sent an answer that is not JSON, by line {line} column {column}")]
    NotJson { line: usize, column: usize },
    #[error("sent an answer that is not what was asked for: {0}")]
    Unexpected(&'static str),
    /// The request itself cannot be made.
    #[error("was not asked: {0}")]
    BadRequest(String),
}

/// The server's own words about a refusal, where it had any; secrets redacted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerMessage(pub Option<String>);

impl fmt::Display for ServerMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.as_ref().map_or(Ok(()), |said| write!(f, ": {said}"))
    }
}

impl ServerMessage {
    /// A Status object's message; a gateway, or a server with too much to do, answers in plain text.
    pub(crate) fn of(body: &[u8]) -> Self {
        let status: Option<Value> = serde_json::from_slice(body).ok();
        let message = match &status {
            Some(status) => status.get("message").and_then(Value::as_str).unwrap_or_default(),
            None => std::str::from_utf8(body).unwrap_or_default().lines().next().unwrap_or_default(),
        };
        let short: String = redact(message).chars().take(LONGEST_MESSAGE).collect();
        ServerMessage(Some(short.trim().to_owned()).filter(|said| !said.is_empty() && !said.starts_with('<')))
    }
}

impl ApiProblem {
    /// It is what the server said, and not that it said nothing.
    pub(crate) fn is_answer(&self) -> bool {
        match self {
            ApiProblem::Unauthorized(_)
            | ApiProblem::Forbidden(_)
            | ApiProblem::NotFound(_)
            | ApiProblem::Conflict(_)
            | ApiProblem::Gone(_)
            | ApiProblem::Invalid(_)
            | ApiProblem::TooManyRequests { .. }
            | ApiProblem::Status(..)
            | ApiProblem::TooLarge(_)
            | ApiProblem::NotJson { .. }
            | ApiProblem::Unexpected(_) => true,
            ApiProblem::TimedOut(_)
            | ApiProblem::Refused
            | ApiProblem::Unreachable(_)
            | ApiProblem::Unresolved(_)
            | ApiProblem::Closed
            | ApiProblem::NotTls
            | ApiProblem::UntrustedCa
            | ApiProblem::NotYetValid { .. }
            | ApiProblem::Expired { .. }
            | ApiProblem::OtherName(_)
            | ApiProblem::Tls(_)
            | ApiProblem::NotHttp(_)
            | ApiProblem::BadRequest(_) => false,
        }
    }
}

impl ApiError {
    /// Whether the same request may well succeed a little later, with nothing changed by anybody.
    pub fn may_pass(&self) -> bool {
        match &self.problem {
            ApiProblem::TimedOut(_)
            | ApiProblem::Refused
            | ApiProblem::Unreachable(_)
            | ApiProblem::Closed
            | ApiProblem::TooManyRequests { .. } => true,
            ApiProblem::Status(status, _) => status.is_server_error(),
            ApiProblem::Unresolved(why) => why.may_pass(),
            ApiProblem::NotTls
            | ApiProblem::UntrustedCa
            | ApiProblem::NotYetValid { .. }
            | ApiProblem::Expired { .. }
            | ApiProblem::OtherName(_)
            | ApiProblem::Tls(_)
            | ApiProblem::NotHttp(_)
            | ApiProblem::Unauthorized(_)
            | ApiProblem::Forbidden(_)
            | ApiProblem::NotFound(_)
            | ApiProblem::Conflict(_)
            | ApiProblem::Gone(_)
            | ApiProblem::Invalid(_)
            | ApiProblem::TooLarge(_)
            | ApiProblem::NotJson { .. }
            | ApiProblem::Unexpected(_)
            | ApiProblem::BadRequest(_) => false,
        }
    }

    pub fn is_not_found(&self) -> bool {
        matches!(self.problem, ApiProblem::NotFound(_))
    }

    pub fn is_conflict(&self) -> bool {
        matches!(self.problem, ApiProblem::Conflict(_))
    }

    /// For how long the server asks to be left alone; never longer than a person waits without a word.
    pub fn retry_after(&self) -> Option<Duration> {
        match self.problem {
            ApiProblem::TooManyRequests { retry_after, .. } => retry_after.map(|asked| asked.min(LONGEST_PAUSE)),
            _ => None,
        }
    }
}

/// The one place where an answer that did not come becomes a fact that is not known.
impl From<ApiError> for Why {
    fn from(error: ApiError) -> Self {
        match &error.problem {
            ApiProblem::TimedOut(_) => Why::TimedOut,
            ApiProblem::Unauthorized(_) | ApiProblem::Forbidden(_) => Why::Denied,
            ApiProblem::NotFound(_) => Why::Absent,
            ApiProblem::Refused | ApiProblem::Unreachable(_) | ApiProblem::Closed => {
                Why::Unreachable(error.to_string())
            }
            ApiProblem::Unresolved(why) if why.may_pass() => Why::Unreachable(error.to_string()),
            ApiProblem::TooManyRequests { .. } => Why::Busy(error.to_string()),
            ApiProblem::Status(status, _) if status.is_server_error() => Why::Busy(error.to_string()),
            ApiProblem::Unresolved(_)
            | ApiProblem::NotTls
            | ApiProblem::UntrustedCa
            | ApiProblem::NotYetValid { .. }
            | ApiProblem::Expired { .. }
            | ApiProblem::OtherName(_)
            | ApiProblem::Tls(_)
            | ApiProblem::NotHttp(_)
            | ApiProblem::Conflict(_)
            | ApiProblem::Gone(_)
            | ApiProblem::Invalid(_)
            | ApiProblem::Status(..)
            | ApiProblem::TooLarge(_)
            | ApiProblem::NotJson { .. }
            | ApiProblem::Unexpected(_)
            | ApiProblem::BadRequest(_) => Why::Broken(error.to_string()),
        }
    }
}

impl ApiProblem {
    /// Of an answer that is no success.
    pub(crate) fn of_status(status: StatusCode, headers: &HeaderMap, body: &[u8]) -> Self {
        let said = ServerMessage::of(body);
        match status {
            StatusCode::UNAUTHORIZED => ApiProblem::Unauthorized(said),
            StatusCode::FORBIDDEN => ApiProblem::Forbidden(said),
            StatusCode::NOT_FOUND => ApiProblem::NotFound(said),
            StatusCode::CONFLICT => ApiProblem::Conflict(said),
            StatusCode::GONE => ApiProblem::Gone(said),
            StatusCode::UNPROCESSABLE_ENTITY => ApiProblem::Invalid(said),
            StatusCode::TOO_MANY_REQUESTS => {
                let seconds = headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
                ApiProblem::TooManyRequests { retry_after: seconds.map(Duration::from_secs), said }
            }
            status => ApiProblem::Status(status, said),
        }
    }

    /// Whatever lies at the bottom of an error of hyper, of TLS or of the machine's network.
    pub(crate) fn of(error: &(dyn Error + 'static)) -> Self {
        for cause in std::iter::successors(Some(error), |&error| error.source()) {
            if let Some(problem) = cause.downcast_ref::<ApiProblem>() {
                return problem.clone();
            }
            if let Some(tls) = cause.downcast_ref::<rustls::Error>() {
                return Self::of_tls(tls);
            }
            if let Some(io) = cause.downcast_ref::<io::Error>() {
                return Self::of_io(io);
            }
            if let Some(hyper) = cause.downcast_ref::<hyper::Error>()
                && (hyper.is_parse() || hyper.source().is_none())
            {
                return if hyper.is_parse() { ApiProblem::NotHttp(hyper.to_string()) } else { ApiProblem::Closed };
            }
        }
        ApiProblem::NotHttp(error.to_string())
    }

    pub(crate) fn of_io(error: &io::Error) -> Self {
        // What TLS says comes wrapped in one of these.
        if let Some(tls) = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
            return Self::of_tls(tls);
        }
        match error.kind() {
            io::ErrorKind::ConnectionRefused => ApiProblem::Refused,
            io::ErrorKind::HostUnreachable => ApiProblem::Unreachable("no route to host".to_owned()),
            io::ErrorKind::NetworkUnreachable => ApiProblem::Unreachable("network is unreachable".to_owned()),
            io::ErrorKind::TimedOut => ApiProblem::Unreachable("connection timed out".to_owned()),
            io::ErrorKind::UnexpectedEof
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::NotConnected
            | io::ErrorKind::BrokenPipe => ApiProblem::Closed,
            _ => ApiProblem::Unreachable(error.to_string()),
        }
    }

    fn of_tls(error: &rustls::Error) -> Self {
        use CertificateError as Certificate;
        let time = |at: &UnixTime| i64::try_from(at.as_secs()).ok().and_then(|at| Timestamp::from_second(at).ok());
        let time = |at: &UnixTime| time(at).unwrap_or(Timestamp::MAX);
        match error {
            rustls::Error::InvalidMessage(_) => ApiProblem::NotTls,
            rustls::Error::InvalidCertificate(certificate) => match certificate {
                // A CA that was made anew has the old one's name and another key.
                Certificate::UnknownIssuer | Certificate::BadSignature => ApiProblem::UntrustedCa,
                Certificate::NotValidYetContext { time: now, not_before } => {
                    ApiProblem::NotYetValid { from: time(not_before), now: time(now) }
                }
                Certificate::ExpiredContext { time: now, not_after } => {
                    ApiProblem::Expired { until: time(not_after), now: time(now) }
                }
                Certificate::NotValidForName | Certificate::NotValidForNameContext { .. } => {
                    ApiProblem::OtherName(certificate.to_string())
                }
                other => ApiProblem::Tls(other.to_string()),
            },
            other => ApiProblem::Tls(other.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_quoted_in_a_line_and_without_secrets() {
        for (body, expected) in [
            (r#"{"kind":"Status","message":"nodes \"w1\" is forbidden"}"#, Some("nodes \"w1\" is forbidden")),
            ("Too many requests, please try again later.\nmore\n", Some("Too many requests, please try again later.")),
            ("<html><body>502</body></html>", None),
            ("{}", None),
            ("", None),
        ] {
            assert_eq!(ServerMessage::of(body.as_bytes()).0.as_deref(), expected, "{body}");
        }
        let token = ServerMessage::of(br#"{"message":"token abcdef.0123456789abcdef is unknown"}"#).to_string();
        assert!(!token.contains("0123456789abcdef"), "{token}");
        assert_eq!(ServerMessage::of("x".repeat(9000).as_bytes()).0.map(|said| said.len()), Some(LONGEST_MESSAGE));
        assert_eq!(ServerMessage::of(&[0xff, 0xfe]), ServerMessage(None));
    }

    #[test]
    fn an_io_error_is_told_by_its_kind() {
        for (kind, expected) in [
            (io::ErrorKind::ConnectionRefused, ApiProblem::Refused),
            (io::ErrorKind::HostUnreachable, ApiProblem::Unreachable("no route to host".into())),
            (io::ErrorKind::NetworkUnreachable, ApiProblem::Unreachable("network is unreachable".into())),
            (io::ErrorKind::TimedOut, ApiProblem::Unreachable("connection timed out".into())),
            (io::ErrorKind::ConnectionReset, ApiProblem::Closed),
            (io::ErrorKind::UnexpectedEof, ApiProblem::Closed),
        ] {
            assert_eq!(ApiProblem::of(&io::Error::from(kind)), expected, "{kind:?}");
        }
        let other = ApiProblem::of(&io::Error::other("ssh has no pipes"));
        assert_eq!(other, ApiProblem::Unreachable("ssh has no pipes".into()));
    }
}
