//! What `reset` looks at on the machine beyond a check, and how often it plans. What it makes of it: `carrick_core::reset`.

use std::time::Duration;

use carrick_core::fact::{Facts, Source};
use carrick_core::reset;
use carrick_host::{Probe, Progress, cri, gather};

use crate::act::Grounded;

/// How often a plan is made. Right after a join the kubelet mounts what its first pods need: a second plan, made when it has
/// stopped, knows of that.
const PLANS: usize = 3;

/// How often what came back meanwhile is removed: an agent of the pod network writes until its container has ended, which is
/// while `kubeadm reset` runs.
pub const ROUNDS: usize = 3;

/// Plans and carries out; again where the plan did not fit any more when the point of no return was reached.
pub async fn until_it_fits<T, E>(
    mut plan_and_carry_out: impl AsyncFnMut() -> Result<T, E>,
    is_outdated: impl Fn(&E) -> bool,
) -> Result<T, E> {
    for _ in 1..PLANS {
        match plan_and_carry_out().await {
            Err(stopped) if is_outdated(&stopped) => {}
            done => return done,
        }
    }
    plan_and_carry_out().await
}

/// Looks for what is left, and removes it, until nothing is. What is still there after the last round comes out; so does at
/// once what another join has made since, which nobody asked to be taken out.
pub async fn until_all_is_gone<E>(
    mut left: impl AsyncFnMut() -> Result<Vec<Grounded>, E>,
    mut remove: impl AsyncFnMut(&[Grounded]) -> Result<(), E>,
) -> Result<Vec<Grounded>, E> {
    for _ in 0..ROUNDS {
        let steps = left().await?;
        if steps.is_empty() || steps.iter().any(is_of_another_join) {
            return Ok(steps);
        }
        remove(&steps).await?;
    }
    left().await
}

/// Whether a join has begun anew: its kubelet runs, or its credentials are there.
pub fn is_of_another_join(left: &Grounded) -> bool {
    reset::is_of_a_live_join(&left.step.effect)
}

/// Adds to the facts of a machine what a reset has to know.
pub async fn look(probe: &dyn Probe, mut facts: Facts, time_box: Duration) -> Facts {
    let (sources, progress): (Vec<Source>, _) = (reset::sources().collect(), Progress::default());
    let endpoints = cri::endpoints(probe);
    let (mut seen, pods) =
        tokio::join!(probe.observe(&sources, &progress), cri::pods::observe(probe, &endpoints, time_box));
    seen.push(pods);
    let (more, _) = gather(probe.name(), probe.now(), seen);
    for (key, capture) in more.iter() {
        facts.insert(key.to_owned(), capture.clone());
    }
    facts
}
