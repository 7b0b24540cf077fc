//! A TCP handshake with an address: whether it answers, from the machine itself or from within a pod's network on it.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::task::Poll;
use std::time::Duration;

use carrick_core::join::verify::Dialled;
use tokio::time::timeout;

use crate::probe::{BoxFuture, Probe, Target};

/// Dials all of them side by side. `network`: the path of the network namespace to dial from; the machine's own without.
pub async fn dial(probe: &dyn Probe, network: Option<&str>, to: &[SocketAddr], limit: Duration) -> Vec<Dialled> {
    let dials = to.iter().map(|&to| -> BoxFuture<'_, Dialled> { Box::pin(dial_one(probe, network, to, limit)) });
    side_by_side(dials.collect()).await
}

async fn dial_one(probe: &dyn Probe, network: Option<&str>, to: SocketAddr, limit: Duration) -> Dialled {
    let target = match network {
        Some(network) => Target::Within { network: network.to_owned(), to },
        None => Target::Tcp { host: to.ip().to_string(), port: to.port() },
    };
    match timeout(limit, probe.connect(&target)).await {
        Err(_) => Dialled::Silent,
        Ok(connected) => connected.map_or_else(|error| of_error(&error), |_| Dialled::Answered),
    }
}

/// All of them, in their order.
async fn side_by_side<T>(mut futures: Vec<BoxFuture<'_, T>>) -> Vec<T> {
    let mut done: Vec<Option<T>> = futures.iter().map(|_| None).collect();
    poll_fn(|cx| {
        for (future, done) in futures.iter_mut().zip(&mut done).filter(|(_, done)| done.is_none()) {
            if let Poll::Ready(value) = future.as_mut().poll(cx) {
                *done = Some(value);
            }
        }
        if done.iter().all(Option::is_some) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    done.into_iter().flatten().collect()
}

/// Of what the machine's own network says. What ssh or the kernel refuse to try says nothing of the other end.
fn of_error(error: &io::Error) -> Dialled {
    match error.kind() {
        io::ErrorKind::TimedOut => Dialled::Silent,
        io::ErrorKind::ConnectionRefused | io::ErrorKind::ConnectionReset => Dialled::Refused,
        io::ErrorKind::HostUnreachable => Dialled::Unreachable("no route to host".to_owned()),
        io::ErrorKind::NetworkUnreachable => Dialled::Unreachable("network is unreachable".to_owned()),
        _ => Dialled::NotDialled(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener};

    use super::*;
    use crate::Local;

    const LIMIT: Duration = Duration::from_secs(5);

    #[tokio::test]
    async fn who_listens_answers_and_who_does_not_refuses() {
        let listens = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let closed = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let to = [listens.local_addr().unwrap(), closed.local_addr().unwrap()];
        drop(closed);
        let local = Local::new(LIMIT);
        assert_eq!(dial(&local, None, &to, LIMIT).await, [Dialled::Answered, Dialled::Refused]);
        // Into our own network anybody may move who may move at all.
        let within = dial(&local, Some("/proc/self/ns/net"), &to, LIMIT).await;
        let not_root = matches!(within.as_slice(), [Dialled::NotDialled(_), Dialled::NotDialled(_)]);
        assert!(not_root || within == [Dialled::Answered, Dialled::Refused], "{within:?}");
        let gone = dial(&local, Some("/absent/net"), &to[..1], LIMIT).await;
        assert!(matches!(gone.as_slice(), [Dialled::NotDialled(_)]), "{gone:?}");
    }

    #[test]
    fn only_the_network_itself_says_something_of_the_other_end() {
        for (kind, expected) in [
            (io::ErrorKind::TimedOut, Dialled::Silent),
            (io::ErrorKind::ConnectionRefused, Dialled::Refused),
            (io::ErrorKind::HostUnreachable, Dialled::Unreachable("no route to host".into())),
            (io::ErrorKind::Unsupported, Dialled::NotDialled("unsupported".into())),
            (io::ErrorKind::PermissionDenied, Dialled::NotDialled("permission denied".into())),
        ] {
            assert_eq!(of_error(&kind.into()), expected, "{kind:?}");
        }
    }
}
