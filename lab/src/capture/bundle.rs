//! The machine as `carrick collect` writes it: the same probe, over the machine's own sshd, with the cluster as the
//! machine sees it by the token of its join.

use std::fs;
use std::time::Duration;

use carrick_core::discovery::Discovery;
use carrick_core::fact::{Capture, Facts, Why};
use carrick_engine::observe;
use carrick_host::{Progress, Redactions, Ssh, SshOptions, bundle};

use crate::error::{During, Error, Result};
use crate::fault::Scene;
use crate::stop;

/// As `--time-box` sets it: several machines share the processors while they are recorded, and a source that was too slow for
/// that reason alone would pass for a symptom.
const TIME_BOX: Duration = Duration::from_secs(25);

/// How often a machine is looked at until everything on it answers, and how long it is left alone in between.
const LOOKS: u32 = 4;
const PAUSE: Duration = Duration::from_secs(4);

/// The bundle's bytes; `clean` passes over every text in it.
pub fn of(scene: &Scene, clean: impl Fn(&str) -> String) -> Result<Vec<u8>> {
    let (seen, redactions) = look(scene)?;
    let mut facts = Facts::new(seen.host.clone(), seen.taken_at);
    for (key, capture) in seen.iter() {
        let clean = |capture: Capture| Capture { text: clean(&capture.text), ..capture };
        facts.insert(key.to_owned(), capture.clone().map(clean));
    }
    let mut bytes = Vec::new();
    bundle::write(&facts, &redactions, &mut bytes).during(|| "cannot write the bundle".to_owned())?;
    Ok(bytes)
}

fn look(scene: &Scene) -> Result<(Facts, Redactions)> {
    let config = scene.lab.disk().join(format!("{}.ssh", scene.node_name()));
    fs::write(&config, scene.machine.ssh_config()).at("write", &config)?;
    let target = target(scene)?;
    // On this thread: it is in the lab's network, as is all it starts.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.during(|| "no runtime".to_owned())?.block_on(async {
        let options = SshOptions { config: Some(config), time_box: TIME_BOX, ..SshOptions::default() };
        let probe = Ssh::connect(scene.node_name(), options).await;
        let probe = probe.map_err(|unreachable| Error::Said(unreachable.to_string()))?;
        let mut looks = LOOKS;
        loop {
            stop::check()?;
            let seen = observe(&probe, Some(&target), None, TIME_BOX, &Progress::default()).await;
            looks -= 1;
            if looks == 0 || is_settled(&seen.0) {
                return Ok(seen);
            }
            tokio::time::sleep(PAUSE).await;
        }
    })
}

/// Whether everything answered. What did not may have been kept from it by the recorder's other machines: it is looked at
/// again, and what is still so in the end is the fault's.
fn is_settled(facts: &Facts) -> bool {
    let answered = facts.iter().all(|(_, capture)| !matches!(capture, Err(Why::TimedOut)));
    answered && facts.api("path").is_ok_and(|path| !path.text.contains("\"state\": \"failed\""))
}

/// What the operator has in hand: the words of the join command.
fn target(scene: &Scene) -> Result<Discovery> {
    let unfit = |what: &str, error: &dyn std::fmt::Display| Error::Said(format!("the join's {what}: {error}"));
    let endpoint = format!("{}:6443", scene.lab.site().control());
    let endpoint = endpoint.parse().map_err(|error| unfit("endpoint", &error))?;
    let token = scene.plan.token.parse().map_err(|error| unfit("token", &error))?;
    let pin = scene.plan.ca_hash.parse().map_err(|error| unfit("CA hash", &error))?;
    Ok(Discovery { endpoint, token: Some(token), pins: vec![pin] })
}
