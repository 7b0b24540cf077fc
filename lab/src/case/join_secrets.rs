//! The token of a join is in no command line while it goes on, and nowhere on the machine afterwards.

use std::path::Path;
use std::time::Duration;

use super::{Bench, Case, Needs};
use crate::demand;
use crate::error::{Error, Result};
use crate::join::{install, is_joined, join, line};
use crate::machine::{Kind, Machine};
use crate::run::{Look, Run, wait_for};

pub const CASE: Case = Case {
    about: "during a join the token is in no command line and no environment; after it, in no file, log or unit",
    needs: Needs::Cluster,
    run,
};

const STRACE: &str = "/usr/bin/strace";
const TRACE: &str = "/root/execve";

/// Where a join could have put it. Of `/run` only what is of this machine's own: no mounts of pods.
const PLACES: [&str; 6] = ["/etc", "/run", "/var/lib/carrick", "/var/lib/kubelet", "/var/log", "/tmp"];

fn run(bench: &mut Bench) -> Result<()> {
    let (cluster, worker) = (bench.cluster()?, bench.worker(Kind::Debian12)?);
    install(bench, &worker)?;
    let token = cluster.join.iter().skip_while(|word| *word != "--token").nth(1);
    let secret = token.and_then(|token| token.split_once('.')).map(|(_, secret)| secret.to_owned());
    let secret = secret.ok_or_else(|| Error::Said("kubeadm printed no token".to_owned()))?;
    bring_strace(&worker)?;
    watch(&worker)?;
    let done = join(&worker, &[], &["-"], &line(cluster))?;
    worker.ok(["systemctl", "stop", "watch"])?;
    bench.say(done.text());
    demand!(!done.text().contains(&secret), "carrick itself prints it");
    done.success()?;
    is_joined(cluster, &worker)?;
    let trace = worker.ok(["cat", TRACE])?;
    for program in ["/usr/local/bin/carrick", "/usr/bin/kubeadm", "systemd-run"] {
        demand!(trace.contains(program), "strace did not see {program}: what it did not see proves nothing");
    }
    let told = trace.lines().find(|line| line.contains(&secret));
    demand!(told.is_none(), "it was in a command line or an environment: {}", told.unwrap_or_default());
    bench.say(format_args!("{} programs were executed meanwhile", trace.lines().count()));
    is_nowhere(&worker, &secret)
}

/// No file has it, no unit, no line of the journal.
fn is_nowhere(worker: &Machine, secret: &str) -> Result<()> {
    let asked = |script: &str| worker.run(["sh", "-c", script]).input(secret).deadline(Duration::from_mins(2)).done();
    let files = asked(&format!("grep -rlsF --devices=skip -f - {}", PLACES.join(" ")))?.out;
    demand!(files.trim().is_empty(), "it is in {files}");
    for (what, script) in [
        ("the journal", "pattern=$(cat); journalctl -o export --no-pager | grep -acF -e \"$pattern\""),
        ("a unit", "pattern=$(cat); systemctl show '*' --all --no-pager | grep -acF -e \"$pattern\""),
    ] {
        let count = asked(script)?.out;
        demand!(count.trim() == "0", "{what} has it, {} times", count.trim());
    }
    Ok(())
}

/// Every execution, its arguments and its environment, of all that systemd and sshd start.
fn watch(worker: &Machine) -> Result<()> {
    let script = format!(
        "systemd-run --quiet --unit=watch {STRACE} -f -v -s 65536 -e trace=execve -o {TRACE} -p 1 -p \"$(pgrep -o -x sshd)\""
    );
    worker.ok(["sh", "-ec", &script])?;
    wait_for("strace to have attached", Duration::from_secs(20), || {
        let tracer = worker.ok(["sh", "-c", "grep TracerPid /proc/1/status /proc/$(pgrep -o -x sshd)/status"])?;
        let attached = tracer.lines().all(|line| !line.ends_with("\t0"));
        Ok(if attached { Look::Seen(()) } else { Look::NotYet(tracer) })
    })
}

/// The strace of this machine, with the libraries it needs and the lab's machine has not.
fn bring_strace(worker: &Machine) -> Result<()> {
    let listed = Run::new("ldd").arg(STRACE).ok()?;
    for library in listed.split_whitespace().filter(|word| word.starts_with('/')) {
        if !worker.run(["test", "-e", library]).done()?.status.success() {
            worker.replace(library, Path::new(library))?;
        }
    }
    worker.replace(STRACE, Path::new(STRACE))
}
