//! NodeReadinessRules: followed and patched.

use std::borrow::Cow;

use carrick_core::rule::{GROUP, KIND, NodeReadinessRule, PLURAL, RuleJob, RuleJobKind, VERSION};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use kube::api::Patch;
use serde_json::Value;

use crate::client::ClusterClient;
use crate::error::{ApiError, ApiProblem};
use crate::watch::Watch;

/// Where rules are served; their content is core's.
pub struct RuleKind(ObjectMeta);

impl Resource for RuleKind {
    type DynamicType = ();
    type Scope = kube::core::ClusterResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        KIND.into()
    }

    fn group((): &()) -> Cow<'_, str> {
        GROUP.into()
    }

    fn version((): &()) -> Cow<'_, str> {
        VERSION.into()
    }

    fn plural((): &()) -> Cow<'_, str> {
        PLURAL.into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.0
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.0
    }
}

pub type RuleWatch = Watch<RuleKind, NodeReadinessRule>;

/// Follows all rules.
pub fn watch(client: &ClusterClient) -> RuleWatch {
    Watch::new(client.clone())
}

pub async fn get(client: &ClusterClient, name: &str) -> Result<NodeReadinessRule, ApiError> {
    read(client, client.get::<RuleKind>(None, name).await?)
}

/// All rules there are.
pub async fn list(client: &ClusterClient) -> Result<Vec<NodeReadinessRule>, ApiError> {
    client.list::<RuleKind, _>(None, |rule| serde_json::from_value(rule).ok()).await
}

/// Carries out what the index wants; the rule as it is then, `None` where it went with its last finalizer.
pub async fn write(client: &ClusterClient, job: &RuleJob) -> Result<Option<NodeReadinessRule>, ApiError> {
    let patch = Patch::Merge(job.patch.clone());
    let written = match job.kind {
        RuleJobKind::AddFinalizer | RuleJobKind::RemoveFinalizer => client.patch::<RuleKind>(&job.rule, &patch).await?,
        RuleJobKind::Status => client.patch_status::<RuleKind>(&job.rule, &patch).await?,
    };
    let gone = written.pointer("/metadata/deletionTimestamp").is_some()
        && written.pointer("/metadata/finalizers").and_then(Value::as_array).is_none_or(Vec::is_empty);
    if gone { Ok(None) } else { read(client, written).map(Some) }
}

fn read(client: &ClusterClient, rule: Value) -> Result<NodeReadinessRule, ApiError> {
    serde_json::from_value(rule).map_err(|_| client.error(ApiProblem::Unexpected("it is no NodeReadinessRule")))
}
