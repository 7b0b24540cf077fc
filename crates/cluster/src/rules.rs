//! NodeReadinessRules: followed and patched.

use std::borrow::Cow;

use carrick_core::rule::{GROUP, KIND, NodeReadinessRule, PLURAL, RuleJob, RuleJobKind, VERSION};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use kube::api::Patch;
use serde_json::Value;

use crate::client::ClusterClient;
use crate::error::{ApiError, ApiProblem};
use crate::watch::{Watch, WatchedObject};

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

impl WatchedObject for NodeReadinessRule {
    fn version(&self) -> &str {
        &self.metadata.resource_version
    }
}

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
    let patch = Patch::Merge(&job.patch);
    let written: NodeReadinessRule = match job.kind {
        RuleJobKind::AddFinalizer | RuleJobKind::RemoveFinalizer => {
            client.patch::<RuleKind, _>(&job.rule, &patch).await?
        }
        RuleJobKind::Status => client.patch_status::<RuleKind, _>(&job.rule, &patch).await?,
    };
    let gone = written.metadata.deletion_timestamp.is_some() && written.metadata.finalizers.is_empty();
    Ok((!gone).then_some(written))
}

fn read(client: &ClusterClient, rule: Value) -> Result<NodeReadinessRule, ApiError> {
    serde_json::from_value(rule).map_err(|_| client.error(ApiProblem::Unexpected("it is no NodeReadinessRule")))
}
