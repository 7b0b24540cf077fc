//! Who may not: what a bootstrap token, a node, a stranger and nobody are told.

use serde_json::json;

use super::{Row, Who, create, get, nodes, row};

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
