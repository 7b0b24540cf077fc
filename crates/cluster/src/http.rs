//! A few GETs over one connection. No pool, no redirects, no proxy: the point is to see what this very path answers.

use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, DATE, HOST, HeaderValue, USER_AGENT};
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use jiff::Timestamp;
use jiff::fmt::rfc2822;

use carrick_core::aim::{Endpoint, Token};

/// A kubelet-config is 2 kB, a busy Node 60 kB.
const LARGEST_ANSWER: usize = 4 << 20;

pub struct Connection {
    sender: SendRequest<Empty<Bytes>>,
    host: String,
}

pub struct Response {
    pub status: StatusCode,
    pub json: bool,
    pub date: Option<Timestamp>,
    pub server: Option<String>,
    pub body: String,
}

impl Connection {
    pub async fn open<S>(stream: S, endpoint: &Endpoint) -> Result<Self, String>
    where
        S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
    {
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(|error| error.to_string())?;
        // Ends with the sender; its error comes out of the request that is under way.
        tokio::spawn(connection);
        Ok(Connection { sender, host: endpoint.to_string() })
    }

    pub async fn get(&mut self, path: &str, token: Option<&Token>) -> Result<Response, String> {
        let mut request = Request::get(path)
            .header(HOST, &self.host)
            .header(ACCEPT, "application/json")
            .header(USER_AGENT, concat!("carrick/", env!("CARGO_PKG_VERSION")));
        if let Some(token) = token {
            let bearer = format!("Bearer {}.{}", token.id, token.secret());
            let mut bearer = HeaderValue::from_str(&bearer).map_err(|_| "the token cannot be sent".to_owned())?;
            bearer.set_sensitive(true);
            request = request.header(AUTHORIZATION, bearer);
        }
        let request = request.body(Empty::new()).map_err(|error| error.to_string())?;
        self.sender.ready().await.map_err(|error| error.to_string())?;
        let response = self.sender.send_request(request).await.map_err(|error| error.to_string())?;
        let header = |name| response.headers().get(name).and_then(|value| value.to_str().ok());
        let (status, date) = (response.status(), header(DATE).and_then(parse_date));
        let json = header(CONTENT_TYPE).is_some_and(|kind| kind.contains("json"));
        let server = header(hyper::header::SERVER).map(str::to_owned);
        let body =
            Limited::new(response.into_body(), LARGEST_ANSWER).collect().await.map_err(|error| error.to_string())?;
        let body = String::from_utf8_lossy(&body.to_bytes()).into_owned();
        Ok(Response { status, json, date, server, body })
    }
}

/// `Sun, 15 Nov 2026 18:01:30 GMT`.
fn parse_date(text: &str) -> Option<Timestamp> {
    rfc2822::DateTimeParser::new().parse_timestamp(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_date_an_api_server_sends() {
        let date = parse_date("Sun, 15 Nov 2026 18:01:30 GMT");
        assert_eq!(date.map(|date| date.to_string()).as_deref(), Some("2026-11-15T18:01:30Z"));
        assert_eq!(parse_date("yesterday"), None);
    }
}
