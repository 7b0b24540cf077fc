//! kubeadm in a transient unit of systemd: it outlives our process and the SSH link, and is found again by its name.

use std::time::Duration;

use carrick_core::fact::unit::{UnitState, parse_show};
use carrick_host::{File, Host, How, Trouble};
use tokio::time::{Instant, sleep};

pub(super) const UNIT: &str = "carrick-kubeadm.service";

const SHORT: Duration = Duration::from_secs(20);
/// kubeadm ends at once when it is told to; systemd gives it 90 s.
const STOP: Duration = Duration::from_secs(100);
const AGAIN: Duration = Duration::from_millis(200);

/// How kubeadm is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kubeadm {
    /// No unit of this name.
    None,
    /// Since then, in microseconds after the boot.
    Running { since: Option<u64> },
    /// With a status, or killed without one.
    Ended(Option<i32>),
}

/// Starts kubeadm. `log` is made anew, for root alone; the configuration holds the token and is root's alone, too. `more`
/// is what kubeadm takes on its command line alone.
pub(super) async fn start(
    host: &dyn Host,
    kubeadm: &str,
    config: &str,
    log: &str,
    more: &[&str],
) -> Result<(), Trouble> {
    clear(host).await?;
    host.write(log, &File::new("", 0o600), How::Replace).await?;
    let output = format!("StandardOutput=append:{log}");
    let argv = [
        "systemd-run",
        "--quiet",
        "--no-ask-password",
        &format!("--unit={UNIT}"),
        "--description=kubeadm join, started by carrick",
        "--property=RemainAfterExit=yes",
        &format!("--property={output}"),
        "--property=StandardError=inherit",
        "--setenv=PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/opt/bin",
        "--",
        kubeadm,
        "join",
        "--config",
        config,
        "--v=5",
    ];
    let argv: Vec<&str> = argv.iter().chain(more).copied().collect();
    host.run(&argv, SHORT).await?.well(&["systemd-run", "kubeadm", "join"]).map(drop)
}

/// How the unit is now.
pub(super) async fn state(host: &dyn Host) -> Result<Kubeadm, Trouble> {
    let argv = [
        "systemctl",
        "show",
        "--property=Id,LoadState,ActiveState,SubState,Result,ExecMainStatus,ExecMainStartTimestampMonotonic",
        UNIT,
    ];
    let shown = host.run(&argv, SHORT).await?.well(&argv)?;
    Ok(parse_show(&shown).first().map_or(Kubeadm::None, judge))
}

/// An unknown unit says `Result=success` and `ExecMainStatus=0`, too: whether it is there comes first.
fn judge(unit: &UnitState) -> Kubeadm {
    let status = unit.exec_main_status;
    match (unit.load_state.as_str(), unit.active_state.as_str(), unit.sub_state.as_str(), unit.result.as_str()) {
        (load, ..) if load != "loaded" => Kubeadm::None,
        (_, "active", "exited", _) | (_, "failed", _, "exit-code") => Kubeadm::Ended(status),
        (_, "failed", ..) => Kubeadm::Ended(None),
        (_, "inactive", ..) => Kubeadm::None,
        _ => Kubeadm::Running { since: unit.started_after_boot },
    }
}

/// Gives it this long to end by itself; how it is then.
pub(super) async fn ends_within(host: &dyn Host, limit: Duration) -> Result<Kubeadm, Trouble> {
    let begun = Instant::now();
    loop {
        match state(host).await? {
            Kubeadm::Running { .. } if begun.elapsed() < limit => sleep(AGAIN).await,
            last => return Ok(last),
        }
    }
}

/// Ends it, and gives its name free: a unit that failed keeps it until `reset-failed`, one that ended well until `stop`.
pub(super) async fn clear(host: &dyn Host) -> Result<(), Trouble> {
    if state(host).await? == Kubeadm::None {
        return Ok(());
    }
    host.run(&["systemctl", "stop", UNIT], STOP).await?;
    host.run(&["systemctl", "reset-failed", UNIT], SHORT).await?;
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
                Kubeadm::None,
            ),
            (
                "LoadState=loaded\nActiveState=active\nSubState=running\nResult=success\nExecMainStatus=0\nExecMainStartTimestampMonotonic=990000000",
                Kubeadm::Running { since: Some(990_000_000) },
            ),
            (
                "LoadState=loaded\nActiveState=active\nSubState=exited\nResult=success\nExecMainStatus=0",
                Kubeadm::Ended(Some(0)),
            ),
            (
                "LoadState=loaded\nActiveState=failed\nSubState=failed\nResult=exit-code\nExecMainStatus=1",
                Kubeadm::Ended(Some(1)),
            ),
            (
                "LoadState=loaded\nActiveState=failed\nSubState=failed\nResult=exit-code\nExecMainStatus=203",
                Kubeadm::Ended(Some(203)),
            ),
            (
                "LoadState=loaded\nActiveState=failed\nSubState=failed\nResult=signal\nExecMainStatus=9",
                Kubeadm::Ended(None),
            ),
            (
                "LoadState=loaded\nActiveState=failed\nSubState=failed\nResult=timeout\nExecMainStatus=15",
                Kubeadm::Ended(None),
            ),
        ];
        for (shown, expected) in rows {
            let states = parse_show(&format!("Id={UNIT}\n{shown}\n"));
            assert_eq!(judge(&states[0]), expected, "{shown}");
        }
    }
}
