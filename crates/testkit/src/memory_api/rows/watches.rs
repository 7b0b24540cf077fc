//! Watches: from a version, from the beginning, with all that was there first; of whole objects and of metadata.

use serde_json::json;

use super::{PARTIAL, Row, Who, create, delete, get, merge, nodes, row, rules};

const RULES: &str = "/apis/readiness.node.x-k8s.io/v1alpha1/nodereadinessrules";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/row/leases";

pub(super) fn rows() -> Vec<Row> {
    let ours = "labelSelector=row%3Dnodes&watch=true&timeoutSeconds=1";
    let one = "/api/v1/nodes/row-n1";
    let initial = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let from = "resourceVersion=${0/metadata/resourceVersion}";
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "row-1", "namespace": "row"},
        "spec": {"holderIdentity": "row", "renewTime": "2026-11-16T12:00:00.000000Z"},
    });
    vec![
        row(
            "a watch goes on where a list ended",
            [
                get("/api/v1/namespaces/row/configmaps").only_status(),
                create(LEASES, lease),
                merge(format!("{LEASES}/row-1"), json!({"spec": {"holderIdentity": "other"}})),
                delete(format!("{LEASES}/row-1")),
                get(format!("{LEASES}?watch=true&timeoutSeconds=1&{from}")),
                get(format!("{LEASES}?watch=true&timeoutSeconds=1&allowWatchBookmarks=true&{from}")),
                get(format!("{LEASES}?watch=true&timeoutSeconds=1&allowWatchBookmarks=true&{from}")).accepting(PARTIAL),
                get(format!("{LEASES}?watch=true&timeoutSeconds=1&allowWatchBookmarks=true")),
            ],
        ),
        row(
            "a watch of Nodes tells what is there first",
            [
                nodes::made(),
                get(format!("/api/v1/nodes?{ours}")),
                get(format!("/api/v1/nodes?{ours}&{initial}")),
                get(format!("/api/v1/nodes?{ours}&{initial}")).accepting(PARTIAL),
                get(format!("/api/v1/nodes?{ours}&allowWatchBookmarks=true&resourceVersion=0")),
                get(format!("/api/v1/nodes?watch=true&timeoutSeconds=1&{initial}")),
                get(format!("/api/v1/nodes?watch=true&timeoutSeconds=1&{initial}")).accepting(PARTIAL),
                get("/api/v1/nodes?watch=true&timeoutSeconds=1&allowWatchBookmarks=true&resourceVersion=0"),
                get("/api/v1/nodes?fieldSelector=metadata.name%3Drow-n1&watch=true&timeoutSeconds=1").by(Who::Node),
                get("/api/v1/nodes?watch=true&timeoutSeconds=1").by(Who::Token),
            ],
        ),
        row(
            "who no longer fits the selector is told as gone",
            [
                nodes::made(),
                get("/api/v1/nodes?labelSelector=row%3Dnodes").only_status(),
                merge(one, json!({"metadata": {"labels": {"row": "other"}}})),
                merge(one, json!({"metadata": {"labels": {"row": "nodes"}}})),
                // Its controllers have written in between: only who comes and goes is alike everywhere.
                get(format!("/api/v1/nodes?{ours}&resourceVersion=${{1/metadata/resourceVersion}}")).only_comings(),
            ],
        ),
        row(
            "a watch of rules",
            [
                create(RULES, rules::rule("row-1")),
                get(format!("{RULES}?watch=true&timeoutSeconds=1&{initial}")),
                merge(format!("{RULES}/row-1/status"), json!({"status": {"observedGeneration": 1}})),
                get(format!("{RULES}?watch=true&timeoutSeconds=1&allowWatchBookmarks=true&{from}")),
                // Nobody ever saw a rule so early: the stream begins, and says that it is too late.
                get(format!("{RULES}?watch=true&timeoutSeconds=1&allowWatchBookmarks=true&resourceVersion=1")),
            ],
        ),
        row(
            "a watch of the pods of a node",
            [
                get("/api/v1/pods?fieldSelector=spec.nodeName%3Drow-n1&watch=true&timeoutSeconds=1").by(Who::Node),
                get("/api/v1/pods?watch=true&timeoutSeconds=1").by(Who::Node),
            ],
        ),
    ]
}
