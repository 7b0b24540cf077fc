//! What Carrick knows and how it judges. Pure: facts in, findings out; no clock, no I/O, no async.
//!
//! * [`fact`]: what was seen of a machine, and why something was not seen
//! * [`catalogue`]: what is known about an id: what a join does about it, whether it says why
//! * [`check`]: one file per prerequisite of a join; the registry finds them
//! * [`cni`]: pod networks, one file per flavour: status, lint, wait, sync
//! * [`signature`]: failures as they read in text, one TOML file each
//! * [`diagnose`]: the true cause out of any text
//! * [`names`]: what remedies leave open, and what is put in
//! * [`plan`]: changes as data, and what no plan may touch
//! * [`fix`]: what `check --fix` would change, one file per fix
//! * [`record`]: what was changed, as it is written down on the machine
//! * [`join`]: a join as data: its inputs, its states, the evidence that it holds
//! * [`reset`]: what `reset` would change to take a worker out of its cluster, or why it would not
//! * [`rule`]: NodeReadinessRule: which taint keeps pods off a node until its conditions hold
//! * [`lease`]: who leads, of several that could
//! * [`judge`]: facts of a machine to what a report shows of them
//! * [`report`]: what every renderer prints
//! * [`shown`]: what of a text a person is shown, so that no terminal obeys it
//! * [`redact`]: takes secrets out of everything that is read, before anything else sees it
//! * [`StopSignal`]: signals that ask for an end
//! * [`discovery`]: what kubeadm's token discovery proves: the JWS, the pinned key

pub mod catalogue;
pub mod check;
pub mod cni;
pub mod diagnose;
pub mod discovery;
pub mod fact;
pub mod fix;
pub mod join;
pub mod judge;
pub mod lease;
pub mod names;
pub mod plan;
pub mod record;
pub mod redact;
pub mod report;
pub mod reset;
pub mod rule;
pub mod shown;
pub mod signature;
mod stop;
#[cfg(any(test, feature = "testing"))]
pub mod testing;

pub use stop::StopSignal;
