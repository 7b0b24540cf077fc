//! Leases: a node's, which its kubelet renews every ten seconds, and the one that says who leads.

use carrick_core::lease::{LeaseAction, LeaseAnswer, LeaseRecord, StoredLease};
use hyper::StatusCode;
use k8s_openapi::api::coordination::v1::Lease;
use serde_json::{Value, json};

use crate::client::ClusterClient;
use crate::error::{ApiError, ApiProblem};

const OF_NODES: &str = "kube-node-lease";
/// How the API server begins to say that it did not ask a webhook.
const NO_DRY_RUN: &str = "does not support dry run";

/// For `carrick_core::join::observed` to read.
pub async fn of_node(client: &ClusterClient, node: &str) -> Result<Value, ApiError> {
    client.get::<Lease>(Some(OF_NODES), node).await
}

/// Why the API server does not take this node's lease: asked by the node itself, without making or renewing one. `None` where it
/// does, or nothing was said about that.
pub async fn refusal(own: &ClusterClient, node: &str) -> Option<String> {
    let asked = match of_node(own, node).await {
        Ok(mut lease) => {
            lease["spec"]["renewTime"] = own.now().strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string().into();
            own.would_replace::<Lease>(OF_NODES, node, &lease).await
        }
        Err(error) if error.is_not_found() => {
            let lease = json!({
                "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
                "metadata": { "name": node, "namespace": OF_NODES },
                "spec": { "holderIdentity": node, "leaseDurationSeconds": 40 },
            });
            own.would_create::<Lease>(OF_NODES, &lease).await
        }
        Err(_) => return None,
    };
    match asked.err()?.problem {
        // A webhook that does not know dry runs has said nothing about the lease.
        ApiProblem::Status(StatusCode::BAD_REQUEST, said) if said.to_string().contains(NO_DRY_RUN) => None,
        // Nor has a gateway, or a server that starts: a webhook that must be asked and is down is a 500.
        ApiProblem::Status(
            StatusCode::BAD_GATEWAY | StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT,
            _,
        ) => None,
        ApiProblem::Forbidden(said) | ApiProblem::Invalid(said) | ApiProblem::Status(_, said) => said.0,
        _ => None,
    }
}

/// Carries out what an election wants. The error is for the log: the answer says all that counts.
pub async fn elect(
    client: &ClusterClient,
    namespace: &str,
    name: &str,
    action: &LeaseAction,
) -> (LeaseAnswer, Option<ApiError>) {
    let object = |record: &LeaseRecord, version: Option<&str>| {
        let mut metadata = json!({ "name": name, "namespace": namespace });
        if let Some(version) = version {
            metadata["resourceVersion"] = version.into();
        }
        json!({ "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": record })
    };
    let answered = match action {
        LeaseAction::Read => client.get::<Lease>(Some(namespace), name).await,
        LeaseAction::Create(record) => client.create::<Lease>(namespace, &object(record, None)).await,
        LeaseAction::Replace { record, resource_version } => {
            client.replace::<Lease>(namespace, name, &object(record, Some(resource_version))).await
        }
        LeaseAction::WaitUntil(_) | LeaseAction::StepDown => return (LeaseAnswer::Failed, None),
    };
    match answered {
        Ok(lease) => match (stored(&lease), action) {
            (Some(lease), LeaseAction::Read) => (LeaseAnswer::Read(Some(lease)), None),
            (Some(lease), _) => (LeaseAnswer::Written(lease), None),
            (None, _) => (LeaseAnswer::Failed, None),
        },
        Err(error) if error.is_not_found() && *action == LeaseAction::Read => (LeaseAnswer::Read(None), None),
        // It was deleted, or made by somebody else.
        Err(error) if error.is_not_found() || error.is_conflict() => (LeaseAnswer::Conflict, Some(error)),
        Err(error) => (LeaseAnswer::Failed, Some(error)),
    }
}

fn stored(lease: &Value) -> Option<StoredLease> {
    let record = serde_json::from_value(lease.get("spec")?.clone()).ok()?;
    let resource_version = lease.pointer("/metadata/resourceVersion")?.as_str()?.to_owned();
    Some(StoredLease { record, resource_version })
}
