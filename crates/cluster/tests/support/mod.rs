//! The way to a server on loopback, and the least of HTTP that such a server needs.
#![allow(clippy::unwrap_used)] // What cannot be set up fails the test.

use std::io;
use std::net::{IpAddr, Ipv4Addr};

use carrick_cluster::way::{Answer, Stream, Way};
use carrick_core::fact::Why;
use jiff::Timestamp;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

pub const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// This machine, with a resolver that knows what a test says.
pub struct Here {
    pub names: Vec<IpAddr>,
}

impl Way for Here {
    fn resolve<'a>(&'a self, _: &'a str) -> Answer<'a, Result<Vec<IpAddr>, Why>> {
        Box::pin(async { if self.names.is_empty() { Err(Why::Absent) } else { Ok(self.names.clone()) } })
    }

    fn dial(&self, address: IpAddr, port: u16) -> Answer<'_, io::Result<Box<dyn Stream>>> {
        Box::pin(async move { Ok(Box::new(TcpStream::connect((address, port)).await?) as Box<dyn Stream>) })
    }

    fn now(&self) -> Timestamp {
        "2026-11-15T12:00:00Z".parse().unwrap()
    }
}

pub async fn read_request(stream: &mut (impl AsyncReadExt + Unpin)) -> Option<String> {
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        request.push(stream.read_u8().await.ok()?);
    }
    String::from_utf8(request).ok()
}
