//! Leases: of nodes, and of who leads.

use serde_json::{Value, json};

use super::{NODE, Row, Who, create, delete, delete_with, get, merge, row, update};
use crate::memory_api::rows::nodes;

const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/row/leases";
const OF_NODES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
const OWN: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/row-n1";

fn lease(name: &str, namespace: &str) -> Value {
    json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name, "namespace": namespace},
        "spec": {"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": "2026-11-16T12:00:00.000000Z"},
    })
}

fn renewed(name: &str, namespace: &str, version: &str) -> Value {
    let mut lease = lease(name, namespace);
    lease["metadata"]["resourceVersion"] = version.into();
    lease["spec"]["renewTime"] = "2026-11-16T12:00:10.000000Z".into();
    lease
}

pub(super) fn rows() -> Vec<Row> {
    let one = format!("{LEASES}/row-1");
    let tried = format!("{OF_NODES}?dryRun=All");
    let made = |name: &str| create(LEASES, lease(name, "row"));
    vec![
        row(
            "a lease is made, read, renewed and given up",
            [
                made("row-1"),
                made("row-1"),
                get(&one),
                update(&one, renewed("row-1", "row", "${0/metadata/resourceVersion}")),
                update(&one, renewed("row-1", "row", "${0/metadata/resourceVersion}")),
                update(&one, lease("row-1", "row")),
                merge(&one, json!({"spec": {"renewTime": "2026-11-16T12:00:20.000000Z"}})),
                merge(&one, json!({"spec": {"renewTime": "2026-11-16T12:00:20.000000Z"}})),
                delete_with(
                    &one,
                    json!({
                        "apiVersion": "v1", "kind": "DeleteOptions",
                        "preconditions": {"uid": "11111111-2222-3333-4444-555555555555"},
                    }),
                ),
                delete(&one),
                get(&one),
            ],
        ),
        row(
            "leases come page by page",
            [
                made("row-1"),
                made("row-2"),
                made("row-3"),
                get(LEASES),
                get(format!("{LEASES}?limit=2")),
                get(format!("{LEASES}?limit=2&continue=${{4/metadata/continue}}")),
                get(format!("{LEASES}?limit=1")),
                delete(format!("{LEASES}/row-2")),
                // What it was at the first page is what the second goes on with.
                get(format!("{LEASES}?limit=1&continue=${{6/metadata/continue}}")),
                get(format!("{LEASES}?limit=1&continue=nonsense")).only_status(),
                get(format!("{LEASES}?fieldSelector=metadata.name%3Drow-3")),
                get(format!("{LEASES}?fieldSelector=spec.holderIdentity%3Drow-3")),
            ],
        ),
        row(
            "a namespace that is not there",
            [
                create("/apis/coordination.k8s.io/v1/namespaces/row-none/leases", lease("row-1", "row-none")),
                get("/apis/coordination.k8s.io/v1/namespaces/row-none/leases"),
                create(LEASES, lease("row-1", "row-none")),
            ],
        ),
        row(
            "a kubelet has its own lease, and no other",
            [
                nodes::made(),
                create(&tried, lease(NODE, "kube-node-lease")).by(Who::Node),
                create(OF_NODES, lease(NODE, "kube-node-lease")).by(Who::Node),
                create(&tried, lease(NODE, "kube-node-lease")).by(Who::Node),
                create(&tried, lease("row-n2", "kube-node-lease")).by(Who::Node),
                create(OF_NODES, lease("row-n2", "kube-node-lease")).by(Who::Node),
                get(OWN).by(Who::Node),
                get(format!("{OF_NODES}/row-n2")).by(Who::Node),
                get(OF_NODES).by(Who::Node),
                update(format!("{OWN}?dryRun=All"), renewed(NODE, "kube-node-lease", "${2/metadata/resourceVersion}"))
                    .by(Who::Node),
                update(OWN, renewed(NODE, "kube-node-lease", "${2/metadata/resourceVersion}")).by(Who::Node),
                create(LEASES, lease(NODE, "row")).by(Who::Node),
                get(OWN).by(Who::Token),
                delete(OWN).by(Who::Node),
            ],
        ),
    ]
}
