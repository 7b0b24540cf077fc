//! Joining a machine, and proving that it has joined.
//!
//! * [`join()`]: carries a join out: `begin` until kubeadm runs, `watch` while it does and after, `end`
//! * `listen`: what its programs say meanwhile
//! * `record`: what was done, written down; [`joins`]: all that were
//! * `token`: a bootstrap token of our own; `minted`: those that are still to be revoked
//! * [`discovery`]: a file that says who the cluster is
//! * [`NodeObserver`]: what is looked at; `trial_pods`: a throw-away Pod, where only that shows something
//! * [`inspect`]: the look that live diagnosis takes, before *joined* is said
//! * [`verify`]: whether a machine has really joined
//!
//! What follows from what is seen is decided in `carrick_core::join`.

mod begin;
pub mod discovery;
mod driver;
mod end;
pub mod inspect;
mod listen;
mod minted;
mod observer;
mod past;
mod record;
mod token;
mod trial_pods;
pub mod verify;
mod watch;

pub use begin::{PlannedJoin, plan};
pub use driver::{Fixer, JoinOptions, JoinProgress, JoinReport, NotFixed, join};
pub use observer::NodeObserver;
pub use past::joins;
