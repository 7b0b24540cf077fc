//! How bytes get from the machine that is to join to the API server.

use std::future::Future;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;

use carrick_core::fact::Why;
use jiff::Timestamp;
use tokio::io::{AsyncRead, AsyncWrite};

pub type Answer<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A byte stream in both directions.
pub trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

/// The machine's own resolver, network and clock, wherever that machine is.
pub trait Dialer: Send + Sync {
    fn resolve<'a>(&'a self, name: &'a str) -> Answer<'a, Result<Vec<IpAddr>, Why>>;
    fn dial(&self, address: IpAddr, port: u16) -> Answer<'_, io::Result<Box<dyn Stream>>>;
    fn now(&self) -> Timestamp;
}
