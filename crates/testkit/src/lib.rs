//! For tests only: an API server in memory, a real one to hold it against, Nodes as real clusters have them, a machine in
//! memory, and the guard of tests that need a program.
//!
//! A test that starts [`Api`] needs etcd and kube-apiserver and belongs to the lab (`cargo xtask lab test`), not to
//! `cargo test --workspace`.

mod api;
mod caller;
mod credentials;
mod machine;
pub mod memory_api;
mod need;
mod node;
mod runtime;
mod worker;

pub use api::{Api, Error};
pub use caller::Caller;
pub use credentials::{Authority, Issued};
pub use machine::{Machine, Script};
pub use memory_api::MemoryApi;
pub use need::{need, skip};
pub use node::{node, nodes};
pub use worker::{API, Kubeadm, MemoryCluster, NODE, SYSTEM_UUID, Worker};
