//! The API server of a test whose process was killed without warning does not live on.

use std::fs;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use carrick_testkit::Api;
use rustix::process::Signal;

use super::{Bench, Case};
use crate::demand;
use crate::error::{Error, Result};
use crate::need::Need;
use crate::run::{Polled, wait_for};
use crate::say;
use crate::tier::Tier;

pub const CASE: Case = Case {
    about: "the testkit's etcd and API server end when the process that started them gets SIGKILL",
    tier: Tier::Full,
    covers: &[],
    needs: &[Need::ApiServer],
    run,
};

/// The verb (not for people) under which the lab starts such a server, says where it is, and holds it.
pub const HOLD: &str = "hold-api";

/// Holds a server until it is killed.
pub fn hold() -> Result<()> {
    let api = Api::start().map_err(|error| Error::Said(error.to_string()))?;
    let folder = api.kubeconfig().parent().map(|folder| folder.display().to_string()).unwrap_or_default();
    say::plain(&format!("{} {folder}", api.url()));
    loop {
        std::thread::park();
    }
}

fn run(bench: &mut Bench) -> Result<()> {
    let mut child = bench.start_until("https://", "case-api", &[HOLD])?;
    let said = child.last_words.clone();
    let (url, folder) = said.trim().split_once(' ').unwrap_or_default();
    let address = url.trim_start_matches("https://");
    let servers = || processes_with(folder);
    demand!(servers() == 2, "{} processes work in {folder:?}, not etcd and kube-apiserver", servers());
    demand!(TcpStream::connect(address).is_ok(), "nothing listens at {url}");
    let begun = Instant::now();
    child.end_with(Signal::KILL, Duration::from_secs(5))?;
    wait_for("etcd and kube-apiserver to end", Duration::from_secs(10), || {
        let listens = TcpStream::connect(address).is_ok();
        let gone = servers() == 0 && !listens;
        Ok(if gone { Polled::Seen(()) } else { Polled::NotYet(format!("{} run, listening: {listens}", servers())) })
    })?;
    bench.time("ended", begun.elapsed());
    // Nobody was left to remove it.
    crate::cache::discard(folder.as_ref())
}

/// How many processes have this on their command line.
fn processes_with(folder: &str) -> usize {
    let pids = fs::read_dir("/proc").into_iter().flatten().flatten();
    let lines = pids.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
    lines.filter(|line| !folder.is_empty() && String::from_utf8_lossy(line).contains(folder)).count()
}
