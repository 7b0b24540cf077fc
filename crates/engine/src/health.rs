//! Whether the kubelet of a machine still works: what it answers over the machine's loopback, and its Node's lease.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use carrick_cluster::leases;
use carrick_core::fact::kubelet_health::{HEALTHZ, LEASE};
use carrick_core::fact::unit::UnitState;
use carrick_core::fact::{Capture, Facts, Source, Why};
use carrick_core::redact::redact;
use carrick_host::{ByteStream, Host, Probe, Target};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::timeout;

use crate::credentials;

/// A kubelet answers in a millisecond; one on a machine that is starved in a second or two.
pub(crate) const ANSWERS: Duration = Duration::from_secs(3);
/// Its answer is a line and a few headers.
const LONGEST: usize = 4096;
const REQUEST: &[u8] = b"GET /healthz HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n";

/// The kubelet's answer. `TimedOut`: it takes the connection, and does not answer; `Absent`: nobody listens there.
pub(crate) async fn healthz(probe: &dyn Probe, port: u16, time_box: Duration) -> Result<String, Why> {
    said(probe, port, time_box, |answer| answer.contains(&b'\n')).await
}

/// All that a program says to this over the machine's loopback, headers and all.
pub(crate) async fn answer(probe: &dyn Probe, port: u16, time_box: Duration) -> Result<String, Why> {
    said(probe, port, time_box, |_| false).await
}

async fn said(probe: &dyn Probe, port: u16, time_box: Duration, is_enough: fn(&[u8]) -> bool) -> Result<String, Why> {
    let target = Target::Tcp { host: "127.0.0.1".to_owned(), port };
    // Who cannot even be connected to is another matter than who does not answer.
    let Ok(connected) = timeout(time_box, probe.connect(&target)).await else {
        return Err(Why::Unreachable("no connection in time".to_owned()));
    };
    let of_io = |error: io::Error| match error.kind() {
        io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound => Why::Absent,
        _ => Why::Broken(redact(&error.to_string())),
    };
    let stream = connected.map_err(of_io)?;
    let answered = timeout(time_box, ask(stream, is_enough)).await.map_err(|_| Why::TimedOut)?;
    match answered.map_err(of_io)? {
        // It hung up: over SSH a connection that is refused looks so.
        bytes if bytes.is_empty() => Err(Why::Absent),
        bytes => Ok(redact(&String::from_utf8_lossy(&bytes))),
    }
}

async fn ask(mut stream: Box<dyn ByteStream>, is_enough: fn(&[u8]) -> bool) -> io::Result<Vec<u8>> {
    stream.write_all(REQUEST).await?;
    let mut answer = Vec::new();
    let mut buffer = [0; 1024];
    while answer.len() < LONGEST && !is_enough(&answer) {
        match stream.read(&mut buffer).await? {
            0 => break,
            read => answer.extend_from_slice(buffer.get(..read).unwrap_or_default()),
        }
    }
    Ok(answer)
}

/// Adds to the facts of a live machine when its kubelet last renewed its Node's lease, asked with the kubelet's own
/// credential. Where nothing runs there is nothing to ask.
pub async fn add_lease(machine: &Arc<dyn Host>, facts: &mut Facts) {
    let runs = facts.unit_state("kubelet").is_ok_and(|state| state.is_active());
    let Some(node) = facts.kubelet_node_name().ok().filter(|_| runs && facts.client_certificate().is_ok()) else {
        return;
    };
    let lease = match credentials::of_kubelet(machine).await {
        Err(why) => Err(why.into()),
        Ok(own) => leases::of_node(&own, &node).await.map_err(Why::from),
    };
    facts.insert(Source::Api(LEASE).key(), lease.map(|lease| Capture::text(redact(&lease.to_string()))));
}

/// What the kubelet answers, as a fact; `None` where none runs, or it answers nowhere.
pub(crate) async fn observe(probe: &dyn Probe, facts: &Facts) -> Option<(&'static str, Result<Capture, Why>)> {
    facts.unit_state("kubelet").ok().filter(UnitState::is_active)?;
    let port = facts.kubelet_healthz_port()?;
    Some((HEALTHZ, healthz(probe, port, ANSWERS).await.map(Capture::text)))
}
