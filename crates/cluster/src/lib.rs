//! How Carrick speaks with a cluster. The only crate that knows `kube`, and where an object is served.
//!
//! * [`ClusterCredentials`]: who asks an API server, and whom it trusts
//! * [`ClusterClient`]: the one client; below it `service` (what every request has, and typed errors) and `connections`
//! * [`ApiError`]: why there is no answer
//! * [`nodes`], [`pods`], [`leases`], [`rules`], [`events`], [`reviews`], [`certificate_requests`], [`config_maps`],
//!   [`daemon_sets`], [`bootstrap_tokens`]: what is asked and said, a module a resource
//! * [`Watch`]: follows all objects of a kind
//! * [`trial_pods`]: a throw-away Pod on one node
//! * [`Dialer`]: how bytes get from the machine to the API server; whoever knows machines brings one
//! * [`path`]: walks that way layer by layer, without a credential, and says which one failed
//! * `tls`, `http`: the two layers that need a protocol
//!
//! This crate does not know machines; carrick-engine brings the two together.

pub mod bootstrap_tokens;
pub mod certificate_requests;
mod client;
pub mod config_maps;
mod connections;
mod credentials;
pub mod daemon_sets;
mod dialer;
mod error;
pub mod events;
mod http;
pub mod leases;
pub mod nodes;
pub mod path;
pub mod pods;
pub mod reviews;
pub mod rules;
mod service;
mod tls;
pub mod trial_pods;
mod watch;

pub use client::ClusterClient;
pub use credentials::ClusterCredentials;
pub use dialer::{DialFuture, DialedStream, Dialer};
pub use error::{ApiError, ApiProblem, ServerMessage};
pub use watch::{Watch, Watched};
