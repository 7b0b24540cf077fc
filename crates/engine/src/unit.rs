//! kubeadm in a transient unit of systemd: it outlives our process and the SSH link, and is found again by its name. While
//! one runs, nobody else changes the machine.

use std::time::Duration;

use carrick_core::fact::unit::{UnitState, parse_show};
use carrick_core::join::place;
use carrick_core::redact::redact;
use carrick_host::{File, Host, PathEntry, Trouble, WriteMode};
use tokio::time::{Instant, sleep};

/// One of Carrick's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransientUnit {
    pub name: &'static str,
    /// What runs in it, for whoever finds it running.
    pub does: &'static str,
    /// Removed by the unit itself when its program ends, however it ends, and also where none of us comes back.
    removes: Option<&'static str>,
    /// It stays where its program ended well, for whoever comes back to read that. One that does not is told by what it did.
    remains: bool,
}

pub const JOIN: TransientUnit =
    TransientUnit { name: place::UNIT, does: "kubeadm join", removes: Some(place::CONFIG), remains: true };
pub const RESET: TransientUnit =
    TransientUnit { name: "carrick-kubeadm-reset.service", does: "kubeadm reset", removes: None, remains: false };
const ALL: [TransientUnit; 2] = [JOIN, RESET];

const SHORT: Duration = Duration::from_secs(20);
/// kubeadm ends at once when it is told to; systemd gives it ten seconds, and kills it then.
const STOP: Duration = Duration::from_secs(20);
const AGAIN: Duration = Duration::from_millis(200);

/// How a unit is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnitProgress {
    /// No unit of this name.
    None,
    Running,
    /// With a status, or killed without one.
    Ended(Option<i32>),
}

impl UnitProgress {
    pub fn is_running(self) -> bool {
        match self {
            UnitProgress::Running => true,
            UnitProgress::None | UnitProgress::Ended(_) => false,
        }
    }
}

/// The unit that runs here and is not one of these: as good as a lock.
pub async fn at_work(host: &dyn Host, but: &[TransientUnit]) -> Result<Option<TransientUnit>, Trouble> {
    for unit in ALL.into_iter().filter(|unit| !but.contains(unit)) {
        if state(host, unit).await?.is_running() {
            return Ok(Some(unit));
        }
    }
    Ok(None)
}

/// Starts a program in a unit. `log`, where it writes to, is made anew, for root alone.
pub async fn start(host: &dyn Host, unit: TransientUnit, program: &[&str], log: &str) -> Result<(), Trouble> {
    clear(host, unit).await?;
    host.write(log, &File::new("", 0o600), WriteMode::Replace).await?;
    let (name, describes) =
        (format!("--unit={}", unit.name), format!("--description={}, started by carrick", unit.does));
    let output = format!("--property=StandardOutput=append:{log}");
    let mut argv = vec![
        "systemd-run",
        "--quiet",
        "--no-ask-password",
        // A unit of this type is started once its program has ended: that is not waited for here.
        "--no-block",
        &name,
        &describes,
        // What is to be removed goes at the end: by ExecStartPost where it ended
        // well, by ExecStopPost where it did not.
        "--property=Type=oneshot",
        "--property=TimeoutStopSec=10",
        if unit.remains { "--property=RemainAfterExit=yes" } else { "--property=RemainAfterExit=no" },
        &output,
        "--property=StandardError=inherit",
        "--setenv=PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/opt/bin",
    ];
    let removes = unit
        .removes
        .map(|path| ["ExecStartPost", "ExecStopPost"].map(|when| format!("--property={when}=-/bin/rm -f {path}")));
    argv.extend(removes.iter().flatten().map(String::as_str));
    argv.push("--");
    argv.extend(program);
    host.run(&argv, SHORT).await?.well(&["systemd-run", unit.does]).map(drop)
}

/// Runs a program in a unit that does not remain, to its end. Where it fails: its last words. Whoever stops the unit ends it
/// as well as itself: the caller looks at what it did.
pub async fn run(
    host: &dyn Host,
    unit: TransientUnit,
    program: &[&str],
    log: &str,
    limit: Duration,
) -> Result<(), Trouble> {
    start(host, unit, program, log).await?;
    let ended = ends_within(host, unit, limit).await?;
    let said = match host.look(log).await? {
        Some(PathEntry::File(file)) => redact(&String::from_utf8_lossy(&file.bytes)),
        _ => String::new(),
    };
    clear(host, unit).await?;
    let last = || said.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or("no reason given");
    match ended {
        UnitProgress::Ended(Some(0)) | UnitProgress::None => host.remove(log).await,
        UnitProgress::Ended(Some(status)) => Err(Trouble::new(unit.does, format!("exit {status}: {}", last()))),
        UnitProgress::Running => Err(Trouble::new(unit.does, format!("no end in {} s", limit.as_secs()))),
        UnitProgress::Ended(None) => Err(Trouble::new(unit.does, format!("was killed: {}", last()))),
    }
}

/// How the unit is now.
pub async fn state(host: &dyn Host, unit: TransientUnit) -> Result<UnitProgress, Trouble> {
    let argv = ["systemctl", "show", "--property=Id,LoadState,ActiveState,SubState,Result,ExecMainStatus", unit.name];
    let shown = host.run(&argv, SHORT).await?.well(&argv)?;
    let shown = parse_show(&shown);
    Ok(shown.iter().find(|shown| shown.id == unit.name).map_or(UnitProgress::None, judge))
}

/// For how long its program has run, the time included in which the machine slept; `None`: it does not run, or nobody can say.
pub async fn runs_for(host: &dyn Host, unit: TransientUnit) -> Option<Duration> {
    let argv = ["systemctl", "show", "--property=Id,MainPID", unit.name];
    let shown = host.run(&argv, SHORT).await.ok()?.well(&argv).ok()?;
    let pid = parse_show(&shown).iter().find(|shown| shown.id == unit.name)?.main_pid?.to_string();
    let argv = ["ps", "-o", "etimes=", "-p", &pid];
    let seconds = host.run(&argv, SHORT).await.ok()?.well(&argv).ok()?;
    seconds.trim().parse().ok().map(Duration::from_secs)
}

/// An unknown unit says `Result=success` and `ExecMainStatus=0`, too: whether it is there comes first.
fn judge(unit: &UnitState) -> UnitProgress {
    let status = unit.exec_main_status;
    match (unit.load_state.as_str(), unit.active_state.as_str(), unit.sub_state.as_str(), unit.result.as_str()) {
        (load, ..) if load != "loaded" => UnitProgress::None,
        (_, "active", "exited", _) | (_, "failed", _, "exit-code") => UnitProgress::Ended(status),
        (_, "failed", ..) => UnitProgress::Ended(None),
        (_, "inactive", ..) => UnitProgress::None,
        _ => UnitProgress::Running,
    }
}

/// Gives it this long to end by itself; how it is then.
pub async fn ends_within(host: &dyn Host, unit: TransientUnit, limit: Duration) -> Result<UnitProgress, Trouble> {
    let begun = Instant::now();
    loop {
        match state(host, unit).await? {
            UnitProgress::Running if begun.elapsed() < limit => sleep(AGAIN).await,
            last => return Ok(last),
        }
    }
}

/// Ends it, and gives its name free: a unit that failed keeps it until `reset-failed`, one that ended well until `stop`.
pub async fn clear(host: &dyn Host, unit: TransientUnit) -> Result<(), Trouble> {
    if state(host, unit).await? == UnitProgress::None {
        return Ok(());
    }
    host.run(&["systemctl", "stop", unit.name], STOP).await?;
    host.run(&["systemctl", "reset-failed", unit.name], SHORT).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unit_tells_how_kubeadm_ended() {
        // As systemd 252 shows them.
        let rows = [
            (
                "LoadState=not-found\nActiveState=inactive\nSubState=dead\nResult=success\nExecMainStatus=0",
                UnitProgress::None,
            ),
            (
                "LoadState=loaded\nActiveState=active\nSubState=running\nResult=success\nExecMainStatus=0",
                UnitProgress::Running,
            ),
            (
                "LoadState=loaded\nActiveState=activating\nSubState=start\nResult=success\nExecMainStatus=0",
                UnitProgress::Running,
            ),
            (
                "LoadState=loaded\nActiveState=active\nSubState=exited\nResult=success\nExecMainStatus=0",
                UnitProgress::Ended(Some(0)),
            ),
            (
                "LoadState=loaded\nActiveState=failed\nSubState=failed\nResult=exit-code\nExecMainStatus=1",
                UnitProgress::Ended(Some(1)),
            ),
            (
                "LoadState=loaded\nActiveState=failed\nSubState=failed\nResult=exit-code\nExecMainStatus=203",
                UnitProgress::Ended(Some(203)),
            ),
            (
                "LoadState=loaded\nActiveState=failed\nSubState=failed\nResult=signal\nExecMainStatus=9",
                UnitProgress::Ended(None),
            ),
            (
                "LoadState=loaded\nActiveState=failed\nSubState=failed\nResult=timeout\nExecMainStatus=15",
                UnitProgress::Ended(None),
            ),
        ];
        for (shown, expected) in rows {
            let states = parse_show(&format!("Id={}\n{shown}\n", JOIN.name));
            assert_eq!(judge(&states[0]), expected, "{shown}");
        }
    }
}
