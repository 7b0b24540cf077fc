//! Who may not: what a bootstrap token, a node, a stranger and nobody are told.

use serde_json::json;

use super::{Row, Who, create, get, nodes, pods, row};

const CLUSTER_INFO: &str = "/api/v1/namespaces/kube-public/configmaps/cluster-info";
const KUBELET_CONFIG: &str = "/api/v1/namespaces/kube-system/configmaps/kubelet-config";
const KUBEADM_CONFIG: &str = "/api/v1/namespaces/kube-system/configmaps/kubeadm-config";

pub(super) fn rows() -> Vec<Row> {
    vec![
        row(
            "cluster-info is for who has no credentials",
            [
                get(CLUSTER_INFO).by(Who::Anonymous).only_status(),
                get(CLUSTER_INFO).by(Who::Token).only_status(),
                get(CLUSTER_INFO).by(Who::Stranger),
                get(CLUSTER_INFO).only_status(),
                get("/api/v1/namespaces/kube-public/configmaps/other").by(Who::Anonymous),
                get("/api/v1/namespaces/kube-public/configmaps").by(Who::Anonymous),
            ],
        ),
        row(
            "a token reads what a join needs",
            [
                nodes::made(),
                get("/api/v1/nodes/row-n1").by(Who::Token).only_status(),
                get("/api/v1/nodes/row-none").by(Who::Token),
                get("/api/v1/nodes").by(Who::Token),
                get(KUBELET_CONFIG).by(Who::Token).only_status(),
                get(KUBEADM_CONFIG).by(Who::Token).only_status(),
                get("/api/v1/namespaces/kube-system/configmaps/other").by(Who::Token),
                create("/api/v1/nodes", nodes::node("row-n2")).by(Who::Token),
            ],
        ),
        row(
            "a node reads what its kubelet needs",
            [
                nodes::made(),
                get(KUBELET_CONFIG).by(Who::Node).only_status(),
                get(KUBEADM_CONFIG).by(Who::Node).only_status(),
                get("/api/v1/namespaces/kube-system/configmaps/other").by(Who::Node),
                get("/apis/certificates.k8s.io/v1/certificatesigningrequests").by(Who::Node).only_status(),
                create(
                    "/api/v1/namespaces/row/pods",
                    json!({
                        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "row-1"},
                        "spec": {"nodeName": "row-n1", "containers": [{"name": "a", "image": "a:1"}]},
                    }),
                )
                .by(Who::Node),
            ],
        ),
        who_asks(),
        needed_by_pods(),
        row(
            "nobody and strangers",
            [
                get("/api/v1/nodes").by(Who::Anonymous),
                get("/api/v1/nodes/row-n1").by(Who::Anonymous),
                get("/api/v1/nodes/row-n1").by(Who::Stranger),
                create("/api/v1/nodes", nodes::node("row-n1")).by(Who::Anonymous),
            ],
        ),
    ]
}

/// Whoever is known may ask who it is, and what it may.
fn who_asks() -> Row {
    const SELF: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    const ACCESS: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let itself = || create(SELF, json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}));
    let access = |verb: &str, subresource: &str| {
        let mut review = json!({
            "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": {
                "group": "certificates.k8s.io", "resource": "certificatesigningrequests", "verb": verb,
            }},
        });
        if !subresource.is_empty() {
            review["spec"]["resourceAttributes"]["subresource"] = subresource.into();
        }
        create(ACCESS, review)
    };
    row(
        "who asks is told who it is and what it may",
        [
            itself().by(Who::Token),
            itself().by(Who::Node),
            itself().by(Who::Anonymous),
            itself().by(Who::Stranger),
            access("create", "").by(Who::Token),
            access("create", "nodeclient").by(Who::Token),
            access("delete", "").by(Who::Token),
            access("create", "nodeclient").by(Who::Node),
            access("create", "").by(Who::Anonymous),
            access("create", "").by(Who::Stranger),
        ],
    )
}

/// The Node authorizer: a kubelet reads what the pods on its node name, however they do, and nothing else.
fn needed_by_pods() -> Row {
    const MAPS: &str = "/api/v1/namespaces/row/configmaps";
    const SECRETS: &str = "/api/v1/namespaces/row/secrets";
    const PODS: &str = "/api/v1/namespaces/row/pods";
    let object = |kind: &str, name: &str| json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": "row"}});
    let mut pod = pods::pod("row-1");
    pod["spec"]["volumes"] = json!([
        {"name": "map", "configMap": {"name": "row-mounted"}},
        {"name": "secret", "secret": {"secretName": "row-mounted"}},
        {"name": "both", "projected": {"sources": [
            {"configMap": {"name": "row-projected"}}, {"secret": {"name": "row-projected"}},
        ]}},
    ]);
    pod["spec"]["containers"][0]["env"] = json!([
        {"name": "A", "valueFrom": {"configMapKeyRef": {"name": "row-key", "key": "a"}}},
        {"name": "B", "valueFrom": {"secretKeyRef": {"name": "row-key", "key": "b"}}},
    ]);
    pod["spec"]["containers"][0]["envFrom"] =
        json!([{"configMapRef": {"name": "row-all"}}, {"secretRef": {"name": "row-all"}}]);
    pod["spec"]["imagePullSecrets"] = json!([{"name": "row-pulls"}]);
    let mut elsewhere = pods::pod("row-2");
    elsewhere["spec"]["nodeName"] = "row-n2".into();
    elsewhere["spec"]["volumes"] = json!([{"name": "map", "configMap": {"name": "row-other"}}]);
    let mut asks = vec![nodes::made(), create("/api/v1/nodes", nodes::node("row-n2"))];
    asks.push(create(MAPS, object("ConfigMap", "row-mounted")));
    asks.push(create(SECRETS, object("Secret", "row-mounted")));
    asks.push(get(format!("{MAPS}/row-mounted")).by(Who::Node));
    asks.push(get(format!("{SECRETS}/row-mounted")).by(Who::Node));
    asks.push(create(PODS, pod));
    asks.push(create(PODS, elsewhere));
    // What is allowed and not there is not found; what is not allowed is forbidden, there or not.
    for name in ["row-mounted", "row-projected", "row-key", "row-all", "row-pulls", "row-other"] {
        asks.push(get(format!("{MAPS}/{name}")).by(Who::Node));
        asks.push(get(format!("{SECRETS}/{name}")).by(Who::Node));
    }
    asks.push(get(format!("{SECRETS}?fieldSelector=metadata.name%3Drow-mounted")).by(Who::Node));
    asks.push(get(format!("{SECRETS}?fieldSelector=metadata.name%3Drow-other")).by(Who::Node));
    asks.push(get("/api/v1/namespaces/kube-system/secrets/row-mounted").by(Who::Node));
    row("a node reads what its pods name, and nothing else", asks)
}
