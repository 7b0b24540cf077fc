//! Who leads: core's election, carried out.

use std::time::Duration;

use carrick_cluster::{ClusterClient, leases};
use carrick_core::lease::{CONTROLLER_LEASE, Election, LeaseAction, LeaseAnswer};
use tokio::sync::watch;
use tokio::time::{sleep_until, timeout};

use super::{Clock, ElectionOptions, NoticeLevel, NoticeSink, notice, wall};

pub(super) const NAME: &str = "election";

/// Ends with an error when it led and does so no more; with none when it was told to end, and has given the lease up.
pub(super) async fn lead(
    client: ClusterClient,
    options: ElectionOptions,
    clock: Clock,
    leads: watch::Sender<Option<Duration>>,
    mut end: watch::Receiver<bool>,
    notices: NoticeSink,
) -> (&'static str, Result<(), String>) {
    let ElectionOptions { namespace, identity, timing } = options;
    let mut election = Election::new(identity, timing);
    let mut last_error = String::new();
    let mut holder = None::<String>;
    loop {
        let action = election.act(clock.now(), wall(&client));
        match &action {
            LeaseAction::StepDown => {
                leads.send_replace(None);
                return (NAME, Err("the lease could not be renewed in time, or another instance has it".to_owned()));
            }
            LeaseAction::WaitUntil(until) => {
                tokio::select! {
                    () = sleep_until(clock.0 + *until) => {}
                    ended = end.wait_for(|end| *end) => {
                        drop(ended);
                        break;
                    }
                }
                continue;
            }
            _ => {}
        }
        // A request that hangs must not outlive what it is for.
        let until = election.leads_until().map_or(timing.retry * 2, |until| until.saturating_sub(clock.now()));
        let asked = leases::elect(&client, &namespace, CONTROLLER_LEASE, &action);
        let (answer, error) = timeout(until, asked).await.unwrap_or((LeaseAnswer::Failed, None));
        if let Some(error) = error.map(|error| error.to_string()).filter(|error| *error != last_error) {
            notice(&notices, NoticeLevel::Warning, format!("lease {namespace}/{CONTROLLER_LEASE}: {error}"));
            last_error = error;
        }
        election.answer(answer, clock.now());
        let (now_leads, led) = (election.is_leader(clock.now()), leads.borrow().is_some());
        leads.send_replace(election.leads_until().filter(|_| now_leads));
        if led != now_leads {
            let says = if now_leads { "this instance leads" } else { "this instance does not lead any more" };
            notice(&notices, NoticeLevel::Info, says);
        }
        let seen = election.holder().map(str::to_owned);
        if !now_leads && seen != holder {
            notice(&notices, NoticeLevel::Info, format!("{} leads; standing by", seen.as_deref().unwrap_or("nobody")));
        }
        holder = seen;
    }
    leads.send_replace(None);
    if let Some(action) = election.release(wall(&client)) {
        let given = timeout(timing.retry, leases::elect(&client, &namespace, CONTROLLER_LEASE, &action)).await;
        let given = matches!(given, Ok((LeaseAnswer::Written(_), _)));
        let says =
            if given { "the lease was given up" } else { "the lease could not be given up: it expires by itself" };
        notice(&notices, NoticeLevel::Info, says);
    }
    (NAME, Ok(()))
}
