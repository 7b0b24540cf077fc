//! What every way of looking at a machine can do.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use carrick_core::fact::keep::Keep;
use carrick_core::fact::{Capture, Facts, Source, Why};
use carrick_core::redact::Redaction;
use jiff::Timestamp;
use tokio::io::{AsyncRead, AsyncWrite};

/// How long one source may take unless the user says otherwise: a healthy `systemctl` answers in 50 ms, a busy one in two
/// seconds, a hung one never.
pub(crate) const TIME_BOX: Duration = Duration::from_secs(5);

/// How many entries of a directory are listed: the fullest that matters, /opt/cni/bin or a busy /etc/systemd/system, has
/// a few hundred.
pub(crate) const MOST_ENTRIES: usize = 4096;

/// How many files of a tree are read, by name. The rest of the listing tells that there are more.
pub(crate) const MOST_FILES: usize = 128;

/// What is kept of each file in a tree: configuration, of which 256 KiB is far more than anyone writes.
pub(crate) const TREE_FILE: Keep = Keep::Head(256 << 10);

/// Read beyond what is kept, so that a secret that crosses the limit is still seen whole, and masked.
pub(crate) const SLACK: usize = 64 << 10;

pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A machine that can be looked at. There is no way to change it through this.
pub trait Probe: Send + Sync {
    /// How the operator calls the machine.
    fn name(&self) -> &str;

    /// The time by the machine's own clock, known once something was observed.
    fn now(&self) -> Timestamp;

    /// Reads all sources side by side, each in its own time box. Takes files, directories, trees and queries; the
    /// runtime's and the cluster's answers come over [`Probe::connect`].
    fn observe<'a>(&'a self, sources: &'a [Source], progress: &'a Progress) -> BoxFuture<'a, Vec<Observation>>;

    /// What the machine itself takes a name for, through its own resolver. `Absent`: it knows no such name.
    fn resolve<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Vec<IpAddr>, Why>>;

    /// A connection as the machine itself would make it. The caller bounds the wait.
    fn connect<'a>(&'a self, target: &'a Target) -> BoxFuture<'a, io::Result<Box<dyn ByteStream>>>;

    /// The socket of the container runtime, where somebody named one: no other is asked then.
    fn runtime(&self) -> Option<&str> {
        None
    }
}

/// What a connection is made to, seen from the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    Tcp {
        host: String,
        port: u16,
    },
    Unix(String),
    /// From within a network namespace of the machine, by its path: as a pod in it would. Over SSH nobody gets into one:
    /// `Unsupported`.
    Within {
        network: String,
        to: SocketAddr,
    },
}

pub trait ByteStream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> ByteStream for T {}

/// What one look gave. A tree gives several: its listing, and each file in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observation {
    pub key: String,
    pub capture: Result<Capture, Why>,
    pub redactions: Vec<Redaction>,
}

impl Observation {
    pub(crate) fn new(key: String, read: Read) -> Self {
        match read {
            Ok((capture, redactions)) => Observation { key, capture: Ok(capture), redactions },
            Err(why) => Observation { key, capture: Err(why), redactions: Vec::new() },
        }
    }
}

/// What is kept of one thing, and what was taken out of it.
pub(crate) type Kept = (Capture, Vec<Redaction>);

/// What became of reading one thing.
pub(crate) type Read = Result<Kept, Why>;

/// What was taken out, by the key of the capture it was taken from.
pub type Redactions = BTreeMap<String, Vec<Redaction>>;

/// Puts observations together as the facts of one machine.
pub fn gather(host: &str, taken_at: Timestamp, observations: Vec<Observation>) -> (Facts, Redactions) {
    let mut facts = Facts::new(host, taken_at);
    let mut redactions = Redactions::new();
    for Observation { key, capture, redactions: found } in observations {
        if !found.is_empty() {
            redactions.insert(key.clone(), found);
        }
        facts.insert(key, capture);
    }
    (facts, redactions)
}

/// How far an observation is: shared, cheap to ask, for the person who waits.
#[derive(Clone, Debug, Default)]
pub struct Progress(Arc<Mutex<Ledger>>);

#[derive(Debug, Default)]
struct Ledger {
    done: usize,
    pending: Vec<String>,
}

/// The state of a [`Progress`] at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProgressSnapshot {
    pub done: usize,
    pub total: usize,
    /// What is still out, in the order it was asked for.
    pub pending: Vec<String>,
}

impl fmt::Display for ProgressSnapshot {
    /// `12 of 150, waiting for: systemctl show, nft list ruleset and 3 more`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const NAMED: usize = 2;
        write!(f, "{} of {}", self.done, self.total)?;
        let named: Vec<&str> = self.pending.iter().take(NAMED).map(String::as_str).collect();
        match self.pending.len().saturating_sub(NAMED) {
            _ if named.is_empty() => Ok(()),
            0 => write!(f, ", waiting for: {}", named.join(", ")),
            more => write!(f, ", waiting for: {} and {more} more", named.join(", ")),
        }
    }
}

impl Progress {
    pub fn now(&self) -> ProgressSnapshot {
        let ledger = self.ledger();
        ProgressSnapshot {
            done: ledger.done,
            total: ledger.done + ledger.pending.len(),
            pending: ledger.pending.clone(),
        }
    }

    pub fn begin(&self, name: &str) {
        self.ledger().pending.push(name.to_owned());
    }

    pub fn end(&self, name: &str) {
        let mut ledger = self.ledger();
        if let Some(at) = ledger.pending.iter().position(|pending| pending == name) {
            ledger.pending.remove(at);
            ledger.done += 1;
        }
    }

    fn ledger(&self) -> std::sync::MutexGuard<'_, Ledger> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_names_what_is_still_out() {
        let progress = Progress::default();
        for name in ["/etc/fstab", "systemctl show", "nft list ruleset", "ss -lntup"] {
            progress.begin(name);
        }
        assert_eq!(progress.now().to_string(), "0 of 4, waiting for: /etc/fstab, systemctl show and 2 more");
        progress.end("/etc/fstab");
        progress.end("never begun");
        progress.end("ss -lntup");
        assert_eq!(progress.now().to_string(), "2 of 4, waiting for: systemctl show, nft list ruleset");
        progress.end("systemctl show");
        progress.end("nft list ruleset");
        assert_eq!(progress.now().to_string(), "4 of 4");
    }
}
