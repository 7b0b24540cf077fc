//! For tests only: a real API server to talk to, Nodes as real clusters have them, a machine in memory, and the guard of tests
//! that need a program.
//!
//! A test that starts [`Api`] needs etcd and kube-apiserver and belongs to the lab (`cargo xtask lab test`), not to
//! `cargo test --workspace`.

mod api;
mod credentials;
mod machine;
mod need;
mod node;

pub use api::{Api, Error};
pub use machine::Machine;
pub use need::{need, skip};
pub use node::{node, nodes};
