//! Who may do what: kubeadm's default roles, the Node authorizer, and the admission plugin NodeRestriction.

use serde_json::Value;

use super::object::text;
use super::request::Asked;
use super::resource::{ACCESS_REVIEWS, NODES, PODS, REQUESTS, Resource, SELF_REVIEWS};
use super::selector::Selector;
use super::status::StatusError;
use super::store::{Key, Store};
use super::user::User;

/// A right of kubeadm's clusters. An empty name is any.
struct Rule {
    /// A group, or `User NAME`.
    who: &'static str,
    verbs: &'static [&'static str],
    resource: &'static str,
    namespace: &'static str,
    name: &'static str,
    /// What gives it: a RoleBinding or ClusterRoleBinding of kubeadm's.
    binding: &'static str,
}

const JOINING: &str = "system:bootstrappers:kubeadm:default-node-token";

#[rustfmt::skip]
const RULES: &[Rule] = &[
    Rule { who: "User system:anonymous", verbs: &["get"], resource: "configmaps", namespace: "kube-public", name: "cluster-info", binding: "kubeadm:bootstrap-signer-clusterinfo" },
    Rule { who: JOINING, verbs: &["create", "get", "list", "watch"], resource: REQUESTS, namespace: "", name: "", binding: "kubeadm:kubelet-bootstrap" },
    Rule { who: JOINING, verbs: &["create"], resource: "certificatesigningrequests/nodeclient", namespace: "", name: "", binding: "kubeadm:node-autoapprove-bootstrap" },
    Rule { who: JOINING, verbs: &["get"], resource: NODES, namespace: "", name: "", binding: "kubeadm:get-nodes" },
    Rule { who: JOINING, verbs: &["get"], resource: "configmaps", namespace: "kube-system", name: "kubelet-config", binding: "kubeadm:kubelet-config" },
    Rule { who: JOINING, verbs: &["get"], resource: "configmaps", namespace: "kube-system", name: "kubeadm-config", binding: "kubeadm:nodes-kubeadm-config" },
    Rule { who: "system:nodes", verbs: &["get"], resource: "configmaps", namespace: "kube-system", name: "kubelet-config", binding: "kubeadm:kubelet-config" },
    Rule { who: "system:nodes", verbs: &["get"], resource: "configmaps", namespace: "kube-system", name: "kubeadm-config", binding: "kubeadm:nodes-kubeadm-config" },
];

/// Groups that may do everything.
const ADMINS: [&str; 2] = ["system:masters", "kubeadm:cluster-admins"];
/// What anybody may read.
const PUBLIC: [&str; 4] = ["/version", "/healthz", "/livez", "/readyz"];

pub(crate) fn authorize(user: &User, asked: &Asked, selector: &Selector, store: &Store) -> Result<(), StatusError> {
    if ADMINS.iter().any(|group| user.is_in(group)) {
        return Ok(());
    }
    let Some(resource) = asked.resource else {
        return if PUBLIC.contains(&asked.path.as_str()) {
            Ok(())
        } else {
            let why = format!("User {:?} cannot {} path {:?}", user.name, asked.verb, asked.path);
            Err(StatusError::forbidden_path(&why))
        };
    };
    // Kubernetes' own system:basic-user.
    let of_itself = [SELF_REVIEWS, ACCESS_REVIEWS].contains(&resource.plural) && asked.verb == "create";
    if of_itself && user.is_in("system:authenticated") {
        return Ok(());
    }
    let reason = match user.node().map(|node| of_node(node, asked, resource, selector, store)) {
        Some(Ok(())) => return Ok(()),
        Some(Err(reason)) => reason,
        None => String::new(),
    };
    let is_bound = |rule: &&Rule| !store.is_unbound(rule.binding);
    if RULES.iter().filter(is_bound).any(|rule| rule.allows(user, asked, resource)) {
        return Ok(());
    }
    Err(StatusError::forbidden(resource, asked_name(asked, selector), &cannot(user, asked, resource, &reason)))
}

/// A list by name is one of that object.
fn asked_name<'a>(asked: &'a Asked, selector: &'a Selector) -> &'a str {
    if asked.name.is_empty() { selector.name.as_deref().unwrap_or_default() } else { &asked.name }
}

fn cannot(user: &User, asked: &Asked, resource: &Resource, reason: &str) -> String {
    let what = if asked.subresource.is_empty() {
        resource.plural.to_owned()
    } else {
        format!("{}/{}", resource.plural, asked.subresource)
    };
    let place = if asked.namespace.is_empty() {
        "at the cluster scope".to_owned()
    } else {
        format!("in the namespace {:?}", asked.namespace)
    };
    let reason = if reason.is_empty() { String::new() } else { format!(": {reason}") };
    let (name, verb, group) = (&user.name, asked.verb, resource.group);
    format!("User {name:?} cannot {verb} resource {what:?} in API group {group:?} {place}{reason}")
}

impl Rule {
    fn allows(&self, user: &User, asked: &Asked, resource: &Resource) -> bool {
        let who = match self.who.strip_prefix("User ") {
            Some(name) => user.name == name,
            None => user.is_in(self.who),
        };
        let fits = |rule: &str, asked: &str| rule.is_empty() || rule == asked;
        let (of, subresource) = self.resource.split_once('/').unwrap_or((self.resource, ""));
        who && self.verbs.contains(&asked.verb)
            && of == resource.plural
            && subresource == asked.subresource
            && fits(self.namespace, &asked.namespace)
            && fits(self.name, &asked.name)
    }
}

/// The Node authorizer of 1.34, with selectors. `Err`: no opinion, and why.
fn of_node(node: &str, asked: &Asked, resource: &Resource, selector: &Selector, store: &Store) -> Result<(), String> {
    let verb = asked.verb;
    let unrelated = format!("no relationship found between node '{node}' and this object");
    match (resource.plural, asked.subresource.as_str()) {
        ("secrets" | "configmaps", _) if !["get", "list", "watch"].contains(&verb) => {
            Err("can only read resources of this type".to_owned())
        }
        ("secrets" | "configmaps", _) if asked.namespace.is_empty() => {
            Err("can only read namespaced object of this type".to_owned())
        }
        ("secrets" | "configmaps", _) => match asked_name(asked, selector) {
            "" => Err("No Object name found".to_owned()),
            name if needs(store, node, resource, &asked.namespace, name) => Ok(()),
            _ => Err(unrelated),
        },
        ("leases", _) if !["get", "create", "update", "patch", "delete"].contains(&verb) => {
            Err("can only get, create, update, patch, or delete a node lease".to_owned())
        }
        ("leases", _) if asked.namespace != "kube-node-lease" => {
            Err("can only access leases in the \"kube-node-lease\" system namespace".to_owned())
        }
        ("leases", _) if verb != "create" && asked.name != node => {
            Err("can only access node lease with the same name as the requesting node".to_owned())
        }
        (NODES, "") if ["get", "list", "watch"].contains(&verb) => match asked_name(asked, selector) {
            name if name == node => Ok(()),
            "" => Err(format!("node '{node}' cannot read all nodes, only its own Node object")),
            name => Err(format!("node '{node}' cannot read '{name}', only its own Node object")),
        },
        (PODS, "") if verb == "get" => {
            let pod = store.get(&Key::new(resource, &asked.namespace, &asked.name));
            if pod.is_some_and(|pod| is_on(pod, node)) { Ok(()) } else { Err(unrelated) }
        }
        (PODS, "") if verb == "list" || verb == "watch" => match &selector.node {
            Some(of) if of == node => Ok(()),
            _ => Err("can only list/watch pods with spec.nodeName field selector".to_owned()),
        },
        (plural, sub) if NODE_RULES.iter().any(|rule| rule.0 == plural && rule.1 == sub && rule.2.contains(&verb)) => {
            Ok(())
        }
        _ => Err(String::new()),
    }
}

/// What a node may do besides; NodeRestriction says to which objects.
const NODE_RULES: &[(&str, &str, &[&str])] = &[
    ("leases", "", &["get", "create", "update", "patch", "delete"]),
    (NODES, "", &["create", "update", "patch"]),
    (NODES, "status", &["update", "patch"]),
    (PODS, "", &["create", "delete"]),
    (PODS, "status", &["update", "patch"]),
    (PODS, "eviction", &["create"]),
    (REQUESTS, "", &["create", "get", "list", "watch"]),
    ("events", "", &["create", "update", "patch"]),
];

fn is_on(pod: &Value, node: &str) -> bool {
    pod.pointer("/spec/nodeName").and_then(Value::as_str) == Some(node)
}

/// A pod of the node needs it: the Node authorizer's graph, as far as pods without storage go.
fn needs(store: &Store, node: &str, resource: &Resource, namespace: &str, name: &str) -> bool {
    let Some(pods) = Resource::find("", "v1", PODS) else { return false };
    let of_secrets = resource.plural == "secrets";
    let mut on_node = store.all(pods, namespace).into_iter().filter(|pod| is_on(pod, node));
    on_node.any(|pod| named_by(pod, of_secrets).contains(&name))
}

/// The Secrets, or the ConfigMaps, that a pod names: as volumes, in its environment, to pull its images.
fn named_by(pod: &Value, of_secrets: bool) -> Vec<&str> {
    let [volume, projected, from, key] = if of_secrets {
        ["/secret/secretName", "/secret/name", "/secretRef/name", "/valueFrom/secretKeyRef/name"]
    } else {
        ["/configMap/name", "/configMap/name", "/configMapRef/name", "/valueFrom/configMapKeyRef/name"]
    };
    let mut names: Vec<&str> = Vec::new();
    for it in entries(pod, "/spec/volumes") {
        names.push(text(it, volume));
        names.extend(entries(it, "/projected/sources").map(|source| text(source, projected)));
    }
    for kind in ["/spec/containers", "/spec/initContainers", "/spec/ephemeralContainers"] {
        for container in entries(pod, kind) {
            names.extend(entries(container, "/envFrom").map(|it| text(it, from)));
            names.extend(entries(container, "/env").map(|it| text(it, key)));
        }
    }
    if of_secrets {
        names.extend(entries(pod, "/spec/imagePullSecrets").map(|it| text(it, "/name")));
    }
    names
}

fn entries<'a>(object: &'a Value, pointer: &str) -> impl Iterator<Item = &'a Value> {
    object.pointer(pointer).and_then(Value::as_array).into_iter().flatten()
}

/// The admission plugin NodeRestriction: what a node may write where it may write at all.
pub(crate) fn admit(
    user: &User,
    asked: &Asked,
    resource: &Resource,
    name: &str,
    before: Option<&Value>,
    after: Option<&Value>,
) -> Result<(), StatusError> {
    let Some(node) = user.node() else { return Ok(()) };
    let refused = |why: String| Err(StatusError::forbidden(resource, name, &why));
    match (resource.plural, asked.subresource.as_str()) {
        (NODES, _) => match of_own_node(node, name, before, after) {
            Some(why) => refused(why),
            None => Ok(()),
        },
        ("leases", _) if name != node => {
            refused("can only access node lease with the same name as the requesting node".to_owned())
        }
        (PODS, "") if asked.verb == "delete" && !before.is_some_and(|pod| is_on(pod, node)) => {
            refused(format!("node {node:?} can only delete pods with spec.nodeName set to itself"))
        }
        (PODS, "") if asked.verb == "create" => {
            let mirror = after.and_then(|pod| pod.pointer("/metadata/annotations/kubernetes.io~1config.mirror"));
            if mirror.is_some() {
                return Ok(());
            }
            let key = "kubernetes.io/config.mirror";
            refused(format!("pod does not have {key:?} annotation, node {node:?} can only create mirror pods"))
        }
        (PODS, "status") if !before.is_some_and(|pod| is_on(pod, node)) => {
            refused(format!("node {node:?} can only update pod status for pods with spec.nodeName set to itself"))
        }
        (PODS, "eviction") if !before.is_some_and(|pod| is_on(pod, node)) => {
            refused(format!("node {node} can only evict pods with spec.nodeName set to itself"))
        }
        _ => Ok(()),
    }
}

fn of_own_node(node: &str, name: &str, before: Option<&Value>, after: Option<&Value>) -> Option<String> {
    if name != node {
        return Some(format!("node {node:?} is not allowed to modify node {name:?}"));
    }
    let after = after?;
    let part = |object: Option<&Value>, pointer: &str| object.and_then(|object| object.pointer(pointer)).cloned();
    if before.is_some() && part(before, "/spec/taints") != part(Some(after), "/spec/taints") {
        return Some(format!("node {node:?} is not allowed to modify taints"));
    }
    let labels = |object: Option<&Value>| {
        part(object, "/metadata/labels").and_then(|labels| labels.as_object().cloned()).unwrap_or_default()
    };
    let (old, new) = (labels(before), labels(Some(after)));
    let changed = new.iter().filter(|(key, value)| old.get(*key) != Some(value)).map(|(key, _)| key);
    let removed = old.keys().filter(|key| !new.contains_key(*key));
    let mut refused: Vec<&str> = changed.chain(removed).filter(|key| !is_of_kubelet(key)).map(String::as_str).collect();
    refused.sort_unstable();
    if refused.is_empty() {
        return None;
    }
    let labels = refused.join(", ");
    Some(match before {
        None => format!("node {node:?} is not allowed to set the following labels: {labels}"),
        Some(_) => format!("is not allowed to modify labels: {labels}"),
    })
}

/// Labels of Kubernetes' own that a kubelet sets; and all that are not Kubernetes' own.
fn is_of_kubelet(label: &str) -> bool {
    const OWN: [&str; 13] = [
        "kubernetes.io/hostname",
        "kubernetes.io/arch",
        "kubernetes.io/os",
        "beta.kubernetes.io/arch",
        "beta.kubernetes.io/os",
        "beta.kubernetes.io/instance-type",
        "node.kubernetes.io/instance-type",
        "failure-domain.beta.kubernetes.io/zone",
        "failure-domain.beta.kubernetes.io/region",
        "failure-domain.kubernetes.io/zone",
        "failure-domain.kubernetes.io/region",
        "topology.kubernetes.io/zone",
        "topology.kubernetes.io/region",
    ];
    let of = label.split_once('/').map_or("", |(namespace, _)| namespace);
    let within = |domain: &str| of == domain || of.ends_with(&format!(".{domain}"));
    if within("node-restriction.kubernetes.io") {
        return false;
    }
    let kubelets = within("kubelet.kubernetes.io") || within("node.kubernetes.io");
    OWN.contains(&label) || kubelets || !(within("kubernetes.io") || within("k8s.io"))
}
