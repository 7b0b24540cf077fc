//! The path to the API server, layer by layer, as it was walked from the machine.
//!
//! `api path` is JSON; the documents found on the way are captures of their own: `api cluster-ca` (PEM), `api version`,
//! `api kubelet-config`, `api kubeadm-config`, `api node`.
//!
//! Shared: `cluster::path` walks it, the family `api` judges it; no source of a machine.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::bootstrap_token::TokenSeen;
use super::{Facts, Known, Missing};

/// A step on the way to the cluster, in the order they are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PathStep {
    Dns,
    Tcp,
    Tls,
    Http,
    /// The ConfigMap `cluster-info`, read without credentials.
    ClusterInfo,
    /// Its signature, made with the token.
    Token,
    /// Its CA, against the pinned keys.
    CaPin,
    /// TLS once more, now believing nothing but that CA.
    Certificate,
    /// TLS with the API server that cluster-info names: kubeadm goes on with that.
    Advertised,
    /// Whether the API server accepts the token.
    Auth,
}

impl PathStep {
    /// The check that judges it.
    pub fn check(self) -> &'static str {
        match self {
            PathStep::Dns => "api.dns",
            PathStep::Tcp => "api.tcp",
            PathStep::Tls => "api.tls",
            PathStep::Http => "api.http",
            PathStep::ClusterInfo => "api.cluster-info",
            PathStep::Token => "api.token",
            PathStep::CaPin => "api.ca-pin",
            PathStep::Certificate => "api.certificate",
            PathStep::Advertised => "api.advertised",
            PathStep::Auth => "api.auth",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", content = "detail", rename_all = "kebab-case")]
pub enum StepOutcome {
    Ok(String),
    /// What went wrong, in one sentence.
    Failed(String),
    /// Nothing to do here: no name to resolve, no token given.
    NotNeeded(String),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Walked {
    pub step: PathStep,
    #[serde(flatten)]
    pub state: StepOutcome,
    /// Of a step that failed, where something follows from why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<PathReason>,
}

/// Why a step failed, as far as a decision hangs on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PathReason {
    /// Nothing came within the walk's time.
    NoAnswer,
    /// To this machine's clock the server's certificate is of the future.
    NotYetValid,
    /// Whoever has no credentials may not (403).
    Forbidden,
    /// Whoever has no credentials is not answered (401).
    Unauthenticated,
    /// Of a step that went well: at another address than was asked for.
    OtherAddress,
}

impl Walked {
    pub fn new(step: PathStep, state: StepOutcome) -> Self {
        Walked { step, state, reason: None }
    }

    /// The check that tells why it failed.
    pub fn check(&self) -> &'static str {
        match (self.step, self.reason) {
            (PathStep::ClusterInfo, Some(PathReason::Forbidden)) => "api.cluster-info-role",
            (PathStep::ClusterInfo, Some(PathReason::Unauthenticated)) => "api.anonymous-auth",
            (step, _) => step.check(),
        }
    }
}

/// The server's clock and the machine's, read at the same moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Clocks {
    pub server: Timestamp,
    pub here: Timestamp,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApiPath {
    pub endpoint: String,
    pub steps: Vec<Walked>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub clocks: Option<Clocks>,
    /// The keys of the CA in cluster-info, as they are pinned: `sha256:…`.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub ca_pins: Vec<String>,
    /// The API server that cluster-info names.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub advertised: Option<String>,
    #[serde(default)]
    pub token_given: bool,
    /// What was seen of the token, as far as the walk came to it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub token: Option<TokenSeen>,
}

impl ApiPath {
    pub fn at(&self, step: PathStep) -> Option<&StepOutcome> {
        self.steps.iter().find(|walked| walked.step == step).map(|walked| &walked.state)
    }

    pub fn reason_at(&self, step: PathStep) -> Option<PathReason> {
        self.steps.iter().find(|walked| walked.step == step)?.reason
    }

    /// The step that failed: nothing behind it was reached.
    pub fn failed(&self) -> Option<&Walked> {
        self.steps.iter().find(|walked| matches!(walked.state, StepOutcome::Failed(_)))
    }
}

impl Facts {
    pub fn api_path(&self) -> Known<ApiPath> {
        serde_json::from_str(&self.api("path")?.text).map_err(|error| Missing::broken("api path", error))
    }
}
