//! How bytes get from the machine that is to join to the API server.

use std::future::Future;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;

use carrick_core::fact::Why;
use jiff::Timestamp;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, timeout};

/// Names may resolve to many addresses; kubeadm would try them one after the other.
const ADDRESSES: usize = 3;

pub type DialFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A byte stream in both directions.
pub trait DialedStream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> DialedStream for T {}

/// The machine's own resolver, network and clock, wherever that machine is.
pub trait Dialer: Send + Sync {
    fn resolve<'a>(&'a self, name: &'a str) -> DialFuture<'a, Result<Vec<IpAddr>, Why>>;
    fn dial(&self, address: IpAddr, port: u16) -> DialFuture<'_, io::Result<Box<dyn DialedStream>>>;
    fn now(&self) -> Timestamp;
}

/// The first address that answers, tried one after the other; or why none did. Each has its part of the time that is left, so
/// that one which swallows packets does not take it all.
pub(crate) async fn dial_any(
    dialer: &dyn Dialer,
    addresses: &[IpAddr],
    port: u16,
    until: Instant,
) -> Result<(Box<dyn DialedStream>, IpAddr), Vec<(IpAddr, io::Error)>> {
    let mut errors = Vec::new();
    let addresses = addresses.get(..ADDRESSES).unwrap_or(addresses);
    for (at, &address) in addresses.iter().enumerate() {
        let left = u32::try_from(addresses.len() - at).unwrap_or(u32::MAX);
        let time = until.saturating_duration_since(Instant::now()) / left;
        match timeout(time, dialer.dial(address, port)).await {
            Ok(Ok(stream)) => return Ok((stream, address)),
            Ok(Err(error)) => errors.push((address, error)),
            Err(_) => errors.push((address, io::ErrorKind::TimedOut.into())),
        }
    }
    Err(errors)
}
