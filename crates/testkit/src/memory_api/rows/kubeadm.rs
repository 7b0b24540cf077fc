//! What the server in memory knows by itself and a bare kube-apiserver has to be told: kubeadm's roles, and the definition of
//! NodeReadinessRules. On a cluster of kubeadm's the roles are there, and stay as they are.

use std::time::Duration;

use serde_json::{Value, json};

use super::{Ask, NAMESPACE, RowServer, create, get, rules};

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const JOINING: &str = "system:bootstrappers:kubeadm:default-node-token";
const APPROVED: &str = "system:certificates.k8s.io:certificatesigningrequests:nodeclient";
/// A new definition is served within a second.
const SERVED: Duration = Duration::from_secs(20);

pub(super) fn objects() -> Vec<Ask> {
    let group = |name: &str| json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": name});
    let anybody = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "system:anonymous"});
    let nodes = json!([group("system:nodes"), group(JOINING)]);
    let get_nodes = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "kubeadm:get-nodes"},
        "rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["nodes"]}],
    });
    let mut objects = vec![
        create(format!("{RBAC}/clusterroles"), get_nodes),
        binding("kubeadm:get-nodes", "kubeadm:get-nodes", &json!([group(JOINING)])),
        binding("kubeadm:kubelet-bootstrap", "system:node-bootstrapper", &json!([group(JOINING)])),
        binding("kubeadm:node-autoapprove-bootstrap", APPROVED, &json!([group(JOINING)])),
    ];
    for (namespace, name, map, subjects) in [
        ("kube-public", "kubeadm:bootstrap-signer-clusterinfo", "cluster-info", json!([anybody])),
        ("kube-system", "kubeadm:kubelet-config", "kubelet-config", nodes.clone()),
        ("kube-system", "kubeadm:nodes-kubeadm-config", "kubeadm-config", nodes),
    ] {
        objects.extend(reading(namespace, name, map, &subjects));
    }
    objects.push(create(DEFINITIONS, rules::definition()));
    objects
}

fn binding(name: &str, role: &str, subjects: &Value) -> Ask {
    create(
        format!("{RBAC}/clusterrolebindings"),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}, "subjects": subjects,
        }),
    )
}

/// A role that reads one ConfigMap, and who has it.
fn reading(namespace: &str, name: &str, map: &str, subjects: &Value) -> [Ask; 2] {
    let place = format!("{RBAC}/namespaces/{namespace}");
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": name},
        "rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["configmaps"], "resourceNames": [map]}],
    });
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name}, "subjects": subjects,
    });
    [create(format!("{place}/roles"), role), create(format!("{place}/rolebindings"), binding)]
}

pub(super) async fn wait_for_rules(real: &impl RowServer) -> Result<(), String> {
    let begun = tokio::time::Instant::now();
    loop {
        let ask = get("/apis/readiness.node.x-k8s.io/v1alpha1/nodereadinessrules");
        let answer = real.send(ask.who, ask.request(&[])?).await?;
        if answer.status == 200 {
            return Ok(());
        }
        if begun.elapsed() > SERVED {
            return Err(format!("NodeReadinessRules are not served after {} s: {}", SERVED.as_secs(), answer.body));
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// What no cluster has without the rows: removed after them.
pub(super) fn made_here() -> [String; 3] {
    [
        format!("{DEFINITIONS}/nodereadinessrules.readiness.node.x-k8s.io"),
        "/api/v1/namespaces/kube-system/secrets/bootstrap-token-rowrow".to_owned(),
        format!("/api/v1/namespaces/{NAMESPACE}"),
    ]
}
