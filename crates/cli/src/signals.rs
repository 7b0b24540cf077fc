//! Signals. SIGINT and SIGTERM ask for an end, SIGHUP tells that nobody watches any more; what follows is for the verb to
//! decide as soon as it changes something, and the end of the process until then. A second one always is.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use carrick_core::StopSignal;
use carrick_engine::{Stop, StopTeller};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// What the process was told.
#[derive(Clone)]
pub struct Signals {
    stop: Stop,
    heeded: Arc<AtomicBool>,
}

impl Signals {
    /// For a verb that changes something: from now on the first signal is left to it.
    pub fn heed(&self) -> Stop {
        self.heeded.store(true, Ordering::Relaxed);
        self.stop.clone()
    }
}

/// Listens from now on. The future comes back where the process is to end at once.
pub fn listen() -> std::io::Result<(Signals, impl Future<Output = StopSignal>)> {
    let (teller, stop) = StopTeller::new();
    let mut sources = vec![
        (StopSignal::Interrupt, signal(SignalKind::interrupt())?),
        (StopSignal::Terminate, signal(SignalKind::terminate())?),
    ];
    // Who started us with nohup wants us to go on without a terminal.
    if !ignores_hangup(&std::fs::read_to_string("/proc/self/status").unwrap_or_default()) {
        sources.push((StopSignal::Hangup, signal(SignalKind::hangup())?));
    }
    let signals = Signals { stop, heeded: Arc::default() };
    let heeded = signals.heeded.clone();
    let ended = async move {
        let first = next(&mut sources).await;
        teller.tell(first);
        if !heeded.load(Ordering::Relaxed) {
            return first;
        }
        next(&mut sources).await
    };
    Ok((signals, ended))
}

async fn next(sources: &mut [(StopSignal, Signal)]) -> StopSignal {
    std::future::poll_fn(|context| {
        for (kind, source) in sources.iter_mut() {
            if source.poll_recv(context).is_ready() {
                return std::task::Poll::Ready(*kind);
            }
        }
        std::task::Poll::Pending
    })
    .await
}

/// SIGHUP is the first bit of the mask of what is ignored.
fn ignores_hangup(status: &str) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nohup_is_known_by_the_mask() {
        for (status, expected) in [
            ("Name:\tcarrick\nSigIgn:\t0000000000001001\n", true),
            ("SigIgn:\t0000000000001000\n", false),
            ("SigBlk:\t0000000000000001\n", false),
            ("", false),
        ] {
            assert_eq!(ignores_hangup(status), expected, "{status:?}");
        }
    }
}
