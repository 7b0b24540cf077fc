//! What a real cluster's controllers do, each for itself: none runs unless a test starts it.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use jiff::Timestamp;
use rcgen::{CertificateParams, DnType, KeyPair};
use serde_json::{Value, json};

use super::object::{text, time};
use super::resource::{NODES, REQUESTS, Resource};
use super::store::{Key, Store};
use super::user::entry;
use crate::credentials::Authority;

/// The signer of a kubelet's first certificate.
const KUBELET_SIGNER: &str = "kubernetes.io/kube-apiserver-client-kubelet";

#[derive(Clone)]
pub enum Controller {
    /// Signs cluster-info for every bootstrap token that may sign.
    TokenSigner,
    /// Approves what a joining kubelet asks for.
    Approver,
    /// Denies it, in these words.
    Denier(String),
    /// Signs what was approved.
    Signer(Arc<Authority>),
    /// Gives every Node a range of pod addresses: 10.244.N.0/24.
    PodCidr,
    /// Taints every Node that is not Ready, and takes that away from one that is.
    NodeLifecycle,
}

impl Controller {
    /// What it would write now: objects, changed.
    pub(super) fn act(&self, store: &Store, now: Timestamp) -> Vec<Value> {
        match self {
            Controller::TokenSigner => sign_cluster_info(store, now),
            Controller::Approver => {
                decide(store, now, "Approved", "Auto approving kubelet client certificate after SubjectAccessReview.")
            }
            Controller::Denier(why) => decide(store, now, "Denied", why),
            Controller::Signer(authority) => sign_requests(store, authority),
            Controller::PodCidr => give_ranges(store),
            Controller::NodeLifecycle => taint_by_condition(store),
        }
    }
}

fn all(store: &Store, group: &str, plural: &str, namespace: &str) -> Vec<Value> {
    let resource = Resource::find(group, "v1", plural);
    resource.map(|it| store.all(it, namespace).into_iter().cloned().collect()).unwrap_or_default()
}

fn sign_cluster_info(store: &Store, now: Timestamp) -> Vec<Value> {
    let Some(maps) = Resource::find("", "v1", "configmaps") else { return Vec::new() };
    let Some(old) = store.get(&Key::new(maps, "kube-public", "cluster-info")) else { return Vec::new() };
    let mut new = old.clone();
    let kubeconfig = text(old, "/data/kubeconfig").to_owned();
    if let Some(data) = new.get_mut("data").and_then(Value::as_object_mut) {
        data.retain(|key, _| !key.starts_with("jws-kubeconfig-"));
        for secret in all(store, "", "secrets", "kube-system") {
            let alive = entry(&secret, "expiration").is_none_or(|at| at.parse::<Timestamp>().is_ok_and(|at| at > now));
            let signs = entry(&secret, "usage-bootstrap-signing").as_deref() == Some("true");
            if let (Some(id), Some(key), true) =
                (entry(&secret, "token-id"), entry(&secret, "token-secret"), alive && signs)
            {
                data.insert(format!("jws-kubeconfig-{id}"), signature(&id, &key, &kubeconfig).into());
            }
        }
    }
    if new == *old { Vec::new() } else { vec![new] }
}

/// A detached JWS: HS256 with the secret half of the token.
fn signature(id: &str, secret: &str, kubeconfig: &str) -> String {
    let header = URL_SAFE_NO_PAD.encode(json!({"alg": "HS256", "kid": id}).to_string());
    let signed = format!("{header}.{}", URL_SAFE_NO_PAD.encode(kubeconfig));
    let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, secret.as_bytes());
    format!("{header}..{}", URL_SAFE_NO_PAD.encode(ring::hmac::sign(&key, signed.as_bytes())))
}

fn decide(store: &Store, now: Timestamp, kind: &str, message: &str) -> Vec<Value> {
    let undecided = |request: &Value| {
        let decided =
            request.pointer("/status/conditions").and_then(Value::as_array).is_some_and(|all| !all.is_empty());
        let of_kubelet = text(request, "/spec/signerName") == KUBELET_SIGNER;
        let groups = request.pointer("/spec/groups").and_then(Value::as_array);
        let may = ["system:bootstrappers:kubeadm:default-node-token", "system:nodes"];
        !decided && of_kubelet && groups.into_iter().flatten().any(|group| may.iter().any(|may| group == may))
    };
    let requests = all(store, "certificates.k8s.io", REQUESTS, "").into_iter().filter(undecided);
    let decided = requests.map(|mut request| {
        request["status"]["conditions"] = json!([{
            "type": kind, "status": "True", "reason": "AutoApproved", "message": message,
            "lastUpdateTime": time(now), "lastTransitionTime": time(now),
        }]);
        request
    });
    decided.collect()
}

fn sign_requests(store: &Store, authority: &Authority) -> Vec<Value> {
    let due = |request: &Value| {
        let conditions = request.pointer("/status/conditions").and_then(Value::as_array);
        let approved = conditions.into_iter().flatten().any(|it| it["type"] == "Approved");
        approved && text(request, "/status/certificate").is_empty()
    };
    let requests = all(store, "certificates.k8s.io", REQUESTS, "").into_iter().filter(due);
    let signed = requests.filter_map(|mut request| {
        let asked = STANDARD.decode(text(&request, "/spec/request")).ok()?;
        let certificate = authority.sign(std::str::from_utf8(&asked).ok()?).ok()?;
        request["status"]["certificate"] = STANDARD.encode(certificate).into();
        Some(request)
    });
    signed.collect()
}

fn give_ranges(store: &Store) -> Vec<Value> {
    let nodes = all(store, "", NODES, "");
    let taken: Vec<String> = nodes.iter().map(|node| text(node, "/spec/podCIDR").to_owned()).collect();
    let mut free = (0..=255u8).map(|n| format!("10.244.{n}.0/24")).filter(|range| !taken.contains(range));
    let without = nodes.into_iter().filter(|node| text(node, "/spec/podCIDR").is_empty());
    let given = without.filter_map(|mut node| {
        let range = free.next()?;
        node["spec"]["podCIDR"] = range.clone().into();
        node["spec"]["podCIDRs"] = json!([range]);
        Some(node)
    });
    given.collect()
}

fn taint_by_condition(store: &Store) -> Vec<Value> {
    const NOT_READY: &str = "node.kubernetes.io/not-ready";
    let changed = all(store, "", NODES, "").into_iter().filter_map(|node| {
        let conditions = node.pointer("/status/conditions").and_then(Value::as_array);
        let ready = conditions.into_iter().flatten().any(|it| it["type"] == "Ready" && it["status"] == "True");
        let taints = node.pointer("/spec/taints").and_then(Value::as_array).cloned().unwrap_or_default();
        let mut wanted: Vec<Value> = taints.iter().filter(|taint| taint["key"] != NOT_READY).cloned().collect();
        if !ready {
            wanted.push(json!({"key": NOT_READY, "effect": "NoSchedule"}));
        }
        let mut new = node.clone();
        match new.get_mut("spec").and_then(Value::as_object_mut) {
            Some(spec) if wanted.is_empty() => drop(spec.remove("taints")),
            _ => new["spec"]["taints"] = wanted.into(),
        }
        (new != node).then_some(new)
    });
    changed.collect()
}

/// What a kubelet asks for: its request as the API has it (PEM in base64), and the key, PEM.
#[allow(clippy::expect_used, reason = "a key can be made, or no test can be run")]
pub fn certificate_request(node: &str) -> (String, String) {
    let mut params = CertificateParams::new(Vec::new()).expect("no names are no bad names");
    params.distinguished_name.push(DnType::CommonName, format!("system:node:{node}"));
    params.distinguished_name.push(DnType::OrganizationName, "system:nodes");
    let key = KeyPair::generate().expect("random numbers");
    let request = params.serialize_request(&key).and_then(|request| request.pem()).expect("a request");
    (STANDARD.encode(request), key.serialize_pem())
}

/// Some certificate, as the API has it.
#[allow(clippy::expect_used, reason = "a key can be made, or no test can be run")]
pub(super) fn sample_certificate() -> String {
    let key = KeyPair::generate().expect("random numbers");
    let params = CertificateParams::new(Vec::new()).expect("no names are no bad names");
    STANDARD.encode(params.self_signed(&key).expect("a certificate").pem())
}
