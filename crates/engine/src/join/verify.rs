//! Whether this machine has really joined: everything there is to see of it, judged by `core::join::verify`.

use std::time::Duration;

use carrick_core::fact::{Facts, Why};
use carrick_core::join::sight;
use carrick_core::join::verify::{Certificate, Lease, Seen, Until, first_missing};
use tokio::time::{Instant, sleep};

use super::look::Eyes;

/// A kubelet renews its lease every 10 s, with a jitter of 4 %.
const RENEWAL: Duration = Duration::from_secs(12);
const AGAIN: Duration = Duration::from_secs(1);

/// Fills in all that can be seen. `soak`: for how long the node's agents are watched. `tell` hears what is waited for.
pub async fn look(
    eyes: &mut Eyes<'_>,
    until: Until,
    soak: Option<Duration>,
    tell: &mut (dyn FnMut(&str) + Send),
) -> Seen {
    let facts = eyes.machine().await;
    let mut seen = of_machine(eyes, &facts);
    if seen.certificate == Ok(Certificate::Trusted)
        && let Err(why) = eyes.take_own().await
    {
        seen.node = Err(Why::Broken(why));
        return seen;
    }
    let object = eyes.node_object().await;
    seen.node = eyes.node(&object);
    let begun = Instant::now();
    let first = eyes.lease().await;
    seen.lease = first.clone().map(|renewal| Lease { first: renewal.clone(), last: renewal });
    while let Some(("verify.lease", says)) = first_missing(&seen, Until::Registered) {
        let Ok(lease) = &mut seen.lease else { break };
        if begun.elapsed() > RENEWAL {
            break;
        }
        tell(&says);
        sleep(AGAIN).await;
        if let Ok(last) = eyes.lease().await {
            lease.last = last;
        }
    }
    if until == Until::Verified {
        tell("a sandbox is tried");
        seen.sandbox = eyes.sandbox(&facts, &object).await;
    }
    if let Some(soak) = soak {
        seen.pods = watch(eyes, soak, tell).await;
    }
    seen
}

/// What the machine itself shows.
pub fn of_machine(eyes: &Eyes<'_>, facts: &Facts) -> Seen {
    Seen {
        kubelet: sight::kubelet(facts),
        certificate: sight::certificate(facts, eyes.ca.as_ref()),
        cluster: sight::cluster(facts, eyes.ca.as_ref()),
        runtime: sight::runtime(facts),
        ..Seen::default()
    }
}

async fn watch(
    eyes: &Eyes<'_>,
    soak: Duration,
    tell: &mut (dyn FnMut(&str) + Send),
) -> Result<Vec<carrick_core::join::verify::Pod>, Why> {
    let (begun, before) = (Instant::now(), eyes.agents().await?);
    while begun.elapsed() < soak {
        let left = soak.saturating_sub(begun.elapsed());
        tell(&format!("{} agents are watched for {} s more", before.len(), left.as_secs()));
        sleep(left.min(Duration::from_secs(5))).await;
        let so_far = sight::restarted(&before, &eyes.agents().await?);
        if so_far.iter().any(|pod| pod.restarts > 0) {
            return Ok(so_far);
        }
    }
    Ok(sight::restarted(&before, &eyes.agents().await?))
}
