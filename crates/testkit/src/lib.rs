//! For tests only: a real API server to talk to, Nodes as real clusters have them, and a machine in memory.
//!
//! A test that starts [`Api`] needs etcd and kube-apiserver and belongs to the lab (`cargo xtask lab test`), not to
//! `cargo test --workspace`.

mod api;
mod credentials;
mod machine;
mod node;

pub use api::{Api, Error};
pub use machine::Machine;
pub use node::{node, nodes};
