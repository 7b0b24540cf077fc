//! The link over which a join was typed is cut in the middle of it, and whoever typed it is gone: when the link is back, the
//! next run joins, whatever of the first one still goes on.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::{Bench, Case};
use crate::coverage::Covers;
use crate::demand;
use crate::error::{During, Result};
use crate::join::{PROGRAM, fresh, is_joined, line};
use crate::machine::{Kind, Machine};
use crate::need::Need;
use crate::run::{Polled, Run, pause, wait_for};
use crate::tier::Tier;

pub const CASE: Case = Case {
    about: "the network cable is pulled while kubeadm works, of a join typed in an ssh session and of one with -H: the next run joins",
    tier: Tier::Standard,
    covers: &[Covers::Verb("join"), Covers::Promise(7)],
    needs: &[Need::Cluster, Need::Machine(Kind::Debian12)],
    run,
};

/// kubeadm is at work, and the kubelet has no certificate yet.
pub const POINT: &str = r#""state":"joining""#;
/// Longer than kubeadm's first tries to reach the API server again.
const CUT: Duration = Duration::from_secs(4);
/// What was cut off learns of it when it next sends something, and is at work until then: whoever comes meanwhile is told so.
const LEARNT: Duration = Duration::from_mins(1);
const AT_WORK: &str = "another run is at work on this machine";
/// Longer than the longest of its own waits.
const JOIN: Duration = Duration::from_mins(6);

fn run(bench: &mut Bench) -> Result<()> {
    in_a_session(bench)?;
    from_afar(bench)
}

/// As a person does: logged in there, in a terminal.
fn in_a_session(bench: &mut Bench) -> Result<()> {
    let worker = fresh(bench)?;
    let typed = line(bench.cluster()?);
    worker.write("/root/join-line", &typed)?;
    let script = format!("exec {PROGRAM} join --events - < /root/join-line");
    let session = worker.in_terminal(["sh", "-c", &script]);
    let again = || worker.run([PROGRAM, "join", "-"]).input(typed.as_str());
    cut(bench, &worker, "session", session, "", again)
}

/// carrick runs here, and reaches the machine over SSH.
fn from_afar(bench: &mut Bench) -> Result<()> {
    let worker = fresh(bench)?;
    let afar = RemoteCarrick::to(bench, &worker)?;
    cut(bench, &worker, "-H", afar.join(&["--events", "-"]), &afar.line, || afar.join(&["-"]).input(afar.line.as_str()))
}

/// carrick here, for a machine there.
pub struct RemoteCarrick {
    program: PathBuf,
    host: String,
    config: PathBuf,
    pub line: String,
}

impl RemoteCarrick {
    pub fn to(bench: &mut Bench, worker: &Machine) -> Result<Self> {
        let (program, line) = (bench.carrick()?, line(bench.cluster()?));
        let config = bench.logs.join("ssh_config");
        std::fs::write(&config, worker.ssh_config()).at("write", &config)?;
        Ok(Self { program, host: worker.identity.name.clone(), config, line })
    }

    pub fn join(&self, more: &[&str]) -> Run {
        self.does("join", more)
    }

    /// A verb for that machine, with these words behind it.
    pub fn does(&self, verb: &str, more: &[&str]) -> Run {
        Run::new(&self.program).args([verb, "-H", &self.host, "--ssh-config"]).arg(&self.config).args(more)
    }

    /// The same with both streams in one, for who listens to what it says while it works.
    pub fn says(&self, verb: &str, more: &[&str]) -> Run {
        let run = Run::new("sh").args(["-c", "exec \"$@\" 2>&1", "sh"]).arg(&self.program);
        run.args([verb, "-H", &self.host, "--ssh-config"]).arg(&self.config).args(more)
    }
}

fn cut(bench: &mut Bench, worker: &Machine, how: &str, first: Run, input: &str, again: impl Fn() -> Run) -> Result<()> {
    let cluster = bench.cluster()?;
    let mut running = bench.start(first.into_command(), input, POINT)?;
    let unplugged = worker.unplug()?;
    // Nothing that its end sends gets through.
    let ended = running.end_with(Signal::KILL, Duration::from_secs(10))?;
    demand!(ended == 128 + Signal::KILL.as_raw(), "it had ended with {ended} before it was cut off");
    pause(CUT)?;
    let node = cluster.kubectl(["get", "node", &worker.identity.name]).done()?;
    demand!(node.err.contains("NotFound"), "it was not cut off in the middle: {}", node.text());
    unplugged.plug_in()?;
    let begun = Instant::now();
    joins_again(bench, again)?;
    bench.time(format!("{how}: joined after the cut"), begun.elapsed());
    is_joined(cluster, worker)
}

/// The next run, which has to join; one that is told that another is at work comes again.
pub fn joins_again(bench: &mut Bench, again: impl Fn() -> Run) -> Result<()> {
    let done = wait_for("what was cut off to let go of the machine", LEARNT, || {
        let done = again().deadline(JOIN).done()?;
        bench.say(format_args!("the next run ended with {}\n{}", done.code(), done.text()));
        Ok(if done.text().contains(AT_WORK) { Polled::NotYet(done.text()) } else { Polled::Seen(done) })
    })?;
    demand!(done.code() == 0, "the next run ended with {}:\n{}", done.code(), done.text());
    Ok(())
}
