//! How machines are looked at, and changed.
//!
//! * [`Probe`]: what every way of looking can do
//! * [`Host`]: what it takes to change one; whoever holds a `Probe` cannot
//! * [`Local`]: this machine
//! * [`Ssh`]: another machine, with the system's OpenSSH client, in one round trip
//! * [`cri`]: the container runtime, over its socket, on either
//! * [`dial`]: whether an address answers, from the machine or from a network of its pods
//! * [`bundle`]: a machine's facts in a file
//!
//! Nothing that is read leaves this crate without having gone through [`carrick_core::fact::keep::Keeper`]: secrets out,
//! length bounded. Nothing that is read is judged here.
//!
//! # Ending the program
//! A read from a hung mount cannot be called off: its thread stays behind when the time box is over. A runtime that is
//! dropped waits for such threads, so whoever owns the runtime ends it with
//! [`shutdown_background`](tokio::runtime::Runtime::shutdown_background), or ends the process.

pub mod bundle;
mod command;
pub mod cri;
pub mod dial;
mod host;
mod listing;
mod local;
mod probe;
mod ssh;

pub use host::{CommandOutput, File, Host, Lock, Locked, PathEntry, Trouble, WriteMode, beside};
pub use local::Local;
pub use probe::{BoxFuture, ByteStream, Observation, Probe, Progress, Redactions, Target, gather};
pub use ssh::{Ssh, SshOptions};
