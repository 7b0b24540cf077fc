//! Joining a machine, and proving that it has joined.
//!
//! * [`look`]: what is looked at
//! * [`verify`]: whether a machine has really joined
//!
//! What follows from what is seen is decided in `carrick_core::join`.

pub mod look;
pub mod verify;
