//! For tests only: a real API server to talk to, and Nodes as real clusters have them.
//!
//! A test that starts [`Api`] needs etcd and kube-apiserver and belongs to the lab (`cargo xtask lab test`), not to
//! `cargo test --workspace`.

mod api;
mod credentials;
mod node;

pub use api::{Api, Error};
pub use node::{node, nodes};
