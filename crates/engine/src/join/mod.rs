//! Joining a machine, and proving that it has joined.
//!
//! * [`driver`]: carries a join out: [`begin`] until kubeadm runs, [`watch`] while it does and after, [`end`]
//! * [`record`]: what was done, written down
//! * [`unit`]: kubeadm in a transient unit, which outlives us
//! * [`token`]: a bootstrap token of our own
//! * [`discovery`]: a file that says who the cluster is
//! * [`observer`]: what is looked at
//! * [`verify`]: whether a machine has really joined
//!
//! What follows from what is seen is decided in `carrick_core::join`.

pub mod begin;
pub mod discovery;
pub mod driver;
mod end;
pub mod observer;
mod record;
pub mod token;
pub mod unit;
pub mod verify;
mod watch;
