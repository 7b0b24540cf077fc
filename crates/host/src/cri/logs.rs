//! Where containers of pods write to, and how they ended: what `crictl ps -a` and `crictl inspect` would say of them.

use std::time::Duration;

use carrick_core::fact::Why;
use jiff::Timestamp;

use super::message::{
    Container, ContainerMetadata, ContainerStatus, ContainerStatusRequest, ContainerStatusResponse,
    ListContainersRequest, ListContainersResponse,
};
use super::{CONTAINER_EXITED, CONTAINER_RUNNING, boxed, call, reach, why};
use crate::probe::Probe;

/// What the kubelet calls a container's pod by.
pub const POD: &str = "io.kubernetes.pod.name";
pub const NAMESPACE: &str = "io.kubernetes.pod.namespace";

/// A node's network and kube-proxy have a dozen, their ended ones included; nobody asks a runtime for more than this.
const MOST: usize = 32;

/// A container that runs, or has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerLog {
    pub id: String,
    /// `NAMESPACE/NAME`
    pub pod: String,
    pub name: String,
    /// Its exit status, and when that was.
    pub ended: Option<(i32, Option<Timestamp>)>,
    /// The file that its output goes to.
    pub path: String,
}

/// Those of the pods that are asked for by name, and not those that `is_known` already. All in one time box.
pub async fn list(
    probe: &dyn Probe,
    endpoints: &[&str],
    time_box: Duration,
    is_wanted: impl Fn(&str) -> bool + Send,
    is_known: impl Fn(&str) -> bool + Send,
) -> Result<Vec<ContainerLog>, Why> {
    let listing = async {
        let (_, channel) = reach(probe, endpoints, time_box).await?;
        let asked = ListContainersRequest::default();
        let listed = call::<_, ListContainersResponse>(channel.clone(), "Runtime", "ListContainers", asked).await;
        let listed = listed.map_err(|status| why(&status))?.containers.into_iter();
        let counts = |it: &Container| {
            let is_pods = it.labels.get(POD).is_some_and(|pod| is_wanted(pod));
            is_pods && matches!(it.state, CONTAINER_RUNNING | CONTAINER_EXITED) && !is_known(&it.id)
        };
        let mut logs = Vec::new();
        for container in listed.filter(counts).take(MOST) {
            let asked = ContainerStatusRequest { container_id: container.id.clone() };
            let status = call::<_, ContainerStatusResponse>(channel.clone(), "Runtime", "ContainerStatus", asked).await;
            // One that is gone in between said nothing more.
            logs.extend(status.ok().and_then(|status| status.status).map(|status| log(container, status)));
        }
        Ok(logs)
    };
    boxed(time_box, listing).await
}

fn log(container: Container, status: ContainerStatus) -> ContainerLog {
    let Container { id, metadata, labels, .. } = container;
    let ContainerMetadata { name, .. } = metadata.unwrap_or_default();
    let label = |key| labels.get(key).map(String::as_str).unwrap_or_default();
    let at = Timestamp::from_nanosecond(i128::from(status.finished_at)).ok().filter(|_| status.finished_at > 0);
    let ended = (status.state == CONTAINER_EXITED).then_some((status.exit_code, at));
    ContainerLog { id, pod: format!("{}/{}", label(NAMESPACE), label(POD)), name, ended, path: status.log_path }
}

#[cfg(test)]
mod tests {
    use prost::Message as _;

    use super::*;

    #[test]
    fn a_container_is_read_with_its_pod_its_end_and_its_log() {
        let labels = [(POD, "kube-flannel-ds-x"), (NAMESPACE, "kube-flannel")];
        let container = Container {
            id: "a".into(),
            metadata: Some(ContainerMetadata { name: "kube-flannel".into(), attempt: 1 }),
            state: CONTAINER_EXITED,
            labels: labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into(),
            ..Container::default()
        };
        let status = ContainerStatus {
            state: CONTAINER_EXITED,
            finished_at: 1_794_744_000_000_000_000,
            exit_code: 255,
            log_path: "/var/log/pods/x/kube-flannel/1.log".into(),
        };
        let status = ContainerStatus::decode(status.encode_to_vec().as_slice()).unwrap();
        let read = log(Container::decode(container.encode_to_vec().as_slice()).unwrap(), status);
        let at = Timestamp::from_second(1_794_744_000).ok();
        let (pod, path) = ("kube-flannel/kube-flannel-ds-x".into(), "/var/log/pods/x/kube-flannel/1.log".into());
        assert_eq!(
            read,
            ContainerLog { id: "a".into(), pod, name: "kube-flannel".into(), ended: Some((255, at)), path }
        );
    }
}
