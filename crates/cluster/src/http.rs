//! A few requests over one connection, for the walk along the path. No pool, no redirects, no proxy: the point is to see what
//! this very path answers.

use std::error::Error;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, DATE, HOST, HeaderValue, USER_AGENT};
use hyper::http::request::Builder;
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use jiff::Timestamp;
use jiff::fmt::rfc2822;
use serde_json::Value;

use carrick_core::discovery::Endpoint;

/// A kubelet-config is 2 kB, a busy Node 60 kB.
const LARGEST_ANSWER: usize = 4 << 20;

/// Who asks, for the API server's log.
pub(crate) const AGENT: &str = concat!("carrick/", env!("CARGO_PKG_VERSION"));

pub(crate) struct Connection {
    sender: SendRequest<Full<Bytes>>,
    host: String,
}

pub(crate) struct Response {
    pub status: StatusCode,
    pub json: bool,
    pub date: Option<Timestamp>,
    pub server: Option<String>,
    pub body: String,
}

impl Connection {
    pub(crate) async fn open<S>(stream: S, endpoint: &Endpoint) -> Result<Self, String>
    where
        S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
    {
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(|error| error.to_string())?;
        // Ends with the sender; its error comes out of the request that is under way.
        tokio::spawn(connection);
        Ok(Connection { sender, host: endpoint.to_string() })
    }

    /// `authorization` is what [`bearer`] makes of a token.
    pub(crate) async fn get(&mut self, path: &str, authorization: Option<&HeaderValue>) -> Result<Response, String> {
        self.send(Request::get(path), Bytes::new(), authorization).await
    }

    /// A question that is asked by POST: a review, of which nothing is kept.
    pub(crate) async fn review(
        &mut self,
        path: &str,
        review: &Value,
        authorization: Option<&HeaderValue>,
    ) -> Result<Response, String> {
        let request = Request::post(path).header(CONTENT_TYPE, "application/json");
        self.send(request, Bytes::from(review.to_string()), authorization).await
    }

    async fn send(
        &mut self,
        request: Builder,
        body: Bytes,
        authorization: Option<&HeaderValue>,
    ) -> Result<Response, String> {
        let mut request = request.header(HOST, &self.host).header(ACCEPT, "application/json").header(USER_AGENT, AGENT);
        if let Some(authorization) = authorization {
            request = request.header(AUTHORIZATION, authorization);
        }
        let request = request.body(Full::new(body)).map_err(|error| in_full(&error))?;
        self.sender.ready().await.map_err(|error| in_full(&error))?;
        let response = self.sender.send_request(request).await.map_err(|error| in_full(&error))?;
        let header = |name| response.headers().get(name).and_then(|value| value.to_str().ok());
        let (status, date) = (response.status(), header(DATE).and_then(parse_date));
        let json = header(CONTENT_TYPE).is_some_and(|kind| kind.contains("json"));
        let server = header(hyper::header::SERVER).map(str::to_owned);
        let body = Limited::new(response.into_body(), LARGEST_ANSWER).collect().await;
        let body = body.map_err(|error| in_full(error.as_ref()))?;
        let body = String::from_utf8_lossy(&body.to_bytes()).into_owned();
        Ok(Response { status, json, date, server, body })
    }
}

/// A token as a header that nothing prints; `None` where it holds what no header can.
pub(crate) fn bearer(token: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_str(&format!("Bearer {token}")).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// With what is behind it: hyper's own words are "connection error", the reason comes after.
fn in_full(error: &(dyn Error + 'static)) -> String {
    let causes = std::iter::successors(Some(error), |&error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

/// `Sun, 15 Nov 2026 18:01:30 GMT`.
pub(crate) fn parse_date(text: &str) -> Option<Timestamp> {
    rfc2822::DateTimeParser::new().parse_timestamp(text).ok()
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn a_token_is_sent_and_not_printed() {
        let header = bearer("abcdef.0123456789abcdef").expect("a header");
        assert_eq!(header.to_str().ok(), Some("Bearer abcdef.0123456789abcdef"));
        assert_eq!(format!("{header:?}"), "Sensitive");
        assert_eq!(bearer("two\nlines"), None);
    }

    // As hyper wraps what went wrong below it.
    #[derive(Debug)]
    struct Outer(io::Error);
    impl std::fmt::Display for Outer {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("connection error")
        }
    }
    impl Error for Outer {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            Some(&self.0)
        }
    }

    #[test]
    fn an_error_is_told_with_its_cause() {
        let body = Limited::new(Full::new(Bytes::from("four")), 3);
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let error = runtime.block_on(body.collect()).expect_err("too long");
        assert_eq!(in_full(error.as_ref()), "length limit exceeded");
        let error = Outer(io::Error::other("peer closed"));
        assert_eq!(in_full(&error), "connection error: peer closed");
    }

    #[test]
    fn reads_the_date_an_api_server_sends() {
        let date = parse_date("Sun, 15 Nov 2026 18:01:30 GMT");
        assert_eq!(date.map(|date| date.to_string()).as_deref(), Some("2026-11-15T18:01:30Z"));
        assert_eq!(parse_date("yesterday"), None);
    }
}
