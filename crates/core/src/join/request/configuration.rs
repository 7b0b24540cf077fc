//! The JoinConfiguration that kubeadm gets: what was asked for, put over what the person's own file says.
//!
//! kubeadm's waits are set longer than Carrick's, so that it is Carrick which decides, and kubeadm never ends in the middle
//! of a phase by itself.

use std::fmt;

use jiff::SignedDuration;
use serde_json::{Map, Value, json};

use super::file::KubeadmApiVersion;
use super::yaml;
use super::{BadInput, Request};
use crate::fact::version::Version;
use crate::join::state::{JoinPolicy, Stage};

/// By how much kubeadm waits longer than Carrick: enough to stop it in order.
const MARGIN: SignedDuration = SignedDuration::from_secs(60);

/// kubeadm's file. The token is in it: `Debug` shows nothing of it.
#[derive(Clone, PartialEq, Eq)]
pub struct Rendered(String);

impl Rendered {
    /// For the one who writes it, 0600.
    pub fn text(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Rendered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Rendered(<redacted>)")
    }
}

/// What this kubeadm reads.
pub fn beta_of(kubeadm: Version) -> KubeadmApiVersion {
    if (kubeadm.major, kubeadm.minor) >= (1, 31) { KubeadmApiVersion::V4 } else { KubeadmApiVersion::V3 }
}

/// The file for this kubeadm.
pub fn render(request: &Request, kubeadm: Version, policy: &JoinPolicy) -> Result<Rendered, BadInput> {
    request.complete(false)?;
    let beta = beta_of(kubeadm);
    let mut root = match &request.document {
        Some(document) if document.beta > beta => {
            let known = beta.api_version();
            return Err(BadInput::of("apiVersion", format!("kubeadm {kubeadm} reads no newer than {known}")));
        }
        Some(document) => document.fields().clone(),
        None => Map::new(),
    };
    let written = request.document.as_ref().map_or(beta, |document| document.beta);
    root.insert("apiVersion".into(), beta.api_version().into());
    root.insert("kind".into(), "JoinConfiguration".into());
    change(&mut root, "discovery", |discovery| put_discovery(discovery, request));
    change(&mut root, "nodeRegistration", |node| put_registration(node, request, written, beta));
    put_waits(&mut root, beta, policy);
    if let Some(directory) = &request.patches {
        root.insert("patches".into(), json!({ "directory": directory }));
    }
    if !request.skip_phases.is_empty() {
        root.insert("skipPhases".into(), json!(request.skip_phases));
    }
    // First what it is, as people write it.
    let mut ordered = Map::new();
    for key in ["apiVersion", "kind"] {
        ordered.extend(root.shift_remove(key).map(|value| (key.to_owned(), value)));
    }
    ordered.extend(root);
    Ok(Rendered(yaml::document(&ordered)))
}

/// Changes the mapping under a key; where there is none, one is made.
fn change(parent: &mut Map<String, Value>, key: &str, edit: impl FnOnce(&mut Map<String, Value>)) {
    let mut fields = match parent.get_mut(key).map(Value::take) {
        Some(Value::Object(fields)) => fields,
        _ => Map::new(),
    };
    edit(&mut fields);
    parent.insert(key.to_owned(), Value::Object(fields));
}

fn put_discovery(discovery: &mut Map<String, Value>, request: &Request) {
    let token = request.token.as_ref().map(|token| format!("{}.{}", token.id, token.secret()));
    if let Some(file) = &request.discovery_file {
        change(discovery, "file", |by_file| {
            by_file.insert("kubeConfigPath".into(), json!(file));
        });
        if let Some(token) = token {
            discovery.insert("tlsBootstrapToken".into(), json!(token));
        }
        return;
    }
    let before = discovery.get("bootstrapToken").and_then(|by_token| by_token.get("token")).and_then(Value::as_str);
    if before.is_some() && before != token.as_deref() {
        // The file's second token belonged to its first, which is another one now.
        discovery.shift_remove("tlsBootstrapToken");
    }
    change(discovery, "bootstrapToken", |by_token| {
        if let Some(api) = &request.api {
            by_token.insert("apiServerEndpoint".into(), json!(api.to_string()));
        }
        if !request.pins.is_empty() {
            let pins: Vec<String> = request.pins.iter().map(ToString::to_string).collect();
            by_token.insert("caCertHashes".into(), json!(pins));
        }
        if request.skip_ca_check {
            by_token.insert("unsafeSkipCAVerification".into(), json!(true));
        }
        by_token.insert("token".into(), json!(token));
    });
}

fn put_registration(
    node: &mut Map<String, Value>,
    request: &Request,
    written: KubeadmApiVersion,
    beta: KubeadmApiVersion,
) {
    let socket = request.cri_socket.as_ref().map(ToString::to_string);
    for (key, value) in [("name", &request.node_name), ("criSocket", &socket)] {
        if let Some(value) = value {
            node.insert(key.into(), json!(value));
        }
    }
    if !request.taints.is_empty() {
        let own = node.get("taints").and_then(Value::as_array).cloned().unwrap_or_default();
        let taints: Vec<Value> = own.into_iter().chain(request.taints.iter().map(|taint| json!(taint))).collect();
        node.insert("taints".into(), json!(taints));
    }
    // Beside "all" kubeadm takes no other name, and not every version takes it from a file: its command line says it.
    if request.ignores_all() {
        node.shift_remove("ignorePreflightErrors");
    } else if !request.ignore.is_empty() {
        node.insert("ignorePreflightErrors".into(), json!(request.ignore));
    }
    let mut args = extra_args(node.shift_remove("kubeletExtraArgs"), written);
    if !request.labels.is_empty() {
        let labels = request.labels.iter().map(ToString::to_string);
        let before = args.iter().position(|(name, _)| name == "node-labels").map(|at| args.remove(at).1);
        let all: Vec<String> = before.filter(|labels| !labels.is_empty()).into_iter().chain(labels).collect();
        args.push(("node-labels".into(), all.join(",")));
    }
    if !args.is_empty() {
        node.insert("kubeletExtraArgs".into(), rendered_args(args, beta));
    }
}

/// The kubelet's flags as they were written: a map in v1beta3, a list, in which a name may stand twice, in v1beta4.
fn extra_args(written: Option<Value>, beta: KubeadmApiVersion) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    match (beta, written) {
        (KubeadmApiVersion::V3, Some(Value::Object(flags))) => {
            flags.iter().map(|(name, value)| (name.clone(), text(value))).collect()
        }
        (KubeadmApiVersion::V4, Some(Value::Array(flags))) => {
            let part = |flag: &Value, key: &str| flag.get(key).map(text).unwrap_or_default();
            flags.iter().map(|flag| (part(flag, "name"), part(flag, "value"))).collect()
        }
        _ => Vec::new(),
    }
}

fn rendered_args(args: Vec<(String, String)>, beta: KubeadmApiVersion) -> Value {
    match beta {
        KubeadmApiVersion::V3 => Value::Object(args.into_iter().map(|(name, value)| (name, json!(value))).collect()),
        KubeadmApiVersion::V4 => {
            args.into_iter().map(|(name, value)| json!({ "name": name, "value": value })).collect()
        }
    }
}

/// Sets kubeadm's waits past ours. What the person's file says stays where it is longer still.
fn put_waits(root: &mut Map<String, Value>, beta: KubeadmApiVersion, policy: &JoinPolicy) {
    let joining = policy.wait(Stage::Joining).saturating_add(MARGIN);
    let bootstrap = policy.bootstrap().saturating_add(MARGIN);
    if beta == KubeadmApiVersion::V3 {
        change(root, "discovery", |discovery| put_wait(discovery, "timeout", joining));
        return;
    }
    // v1beta4 has discovery's among the others.
    let mut before = None;
    change(root, "discovery", |discovery| before = discovery.shift_remove("timeout"));
    change(root, "timeouts", |waits| {
        if let Some(before) = before {
            waits.entry("discovery").or_insert(before);
        }
        put_wait(waits, "discovery", joining);
        put_wait(waits, "kubernetesAPICall", joining);
        put_wait(waits, "kubeletHealthCheck", bootstrap);
        put_wait(waits, "tlsBootstrap", bootstrap);
    });
}

fn put_wait(waits: &mut Map<String, Value>, key: &str, least: SignedDuration) {
    let said = waits.get(key).and_then(Value::as_str).and_then(parse_wait);
    if said.is_none_or(|said| said < least) {
        waits.insert(key.into(), json!(format!("{}s", least.as_secs())));
    }
}

/// Go's durations, as far as anybody writes them: `5m0s`, `1h30m`, `90s`; `500ms` is nothing here.
fn parse_wait(text: &str) -> Option<SignedDuration> {
    let mut total: i64 = 0;
    let mut digits = String::new();
    for c in text.trim().chars() {
        if c.is_ascii_digit() {
            digits.push(c);
            continue;
        }
        let unit = match c {
            'h' => 3600,
            'm' => 60,
            's' => 1,
            _ => return None,
        };
        let number: i64 = digits.parse().ok()?;
        digits.clear();
        total = total.checked_add(number.checked_mul(unit)?)?;
    }
    digits.is_empty().then_some(SignedDuration::from_secs(total))
}

#[cfg(test)]
mod tests {
    use super::super::{file, line};
    use super::*;
    use proptest::prelude::*;

    const LINE: &str = "kubeadm join 10.0.0.11:6443 --token abcdef.0123456789abcdef --discovery-token-ca-cert-hash \
                        sha256:8c1f8c1f8c1f8c1f8c1f8c1f8c1f8c1f8c1f8c1f8c1f8c1f8c1f8c1f8c1f8c1f --node-name w1 \
                        --cri-socket unix:///run/containerd/containerd.sock --ignore-preflight-errors Swap";

    fn version(minor: u32) -> Version {
        Version { major: 1, minor, patch: 4 }
    }

    fn rendered(request: &Request, minor: u32) -> Value {
        let rendered = render(request, version(minor), &JoinPolicy::default()).unwrap();
        assert!(!format!("{rendered:?}").contains("abcdef"));
        serde_saphyr::from_str(rendered.text()).unwrap()
    }

    #[test]
    fn a_line_becomes_a_file_for_either_kubeadm() {
        let mut request = line::from_text(LINE).unwrap();
        request.labels = vec!["disk=ssd".parse().unwrap(), "rack=7".parse().unwrap()];
        request.taints = vec!["gate:NoSchedule".parse().unwrap()];
        let discovery = json!({
            "apiServerEndpoint": "10.0.0.11:6443",
            "caCertHashes": ["sha256:8c1f8c1f8c1f8c1f8c1f8c1f8c1f8c1f8c1f8c1f8c1f8c1f8c1f8c1f8c1f8c1f"],
            "token": "abcdef.0123456789abcdef",
        });
        let node = |args: Value| {
            json!({
                "name": "w1",
                "criSocket": "unix:///run/containerd/containerd.sock",
                "taints": [{"key": "gate", "effect": "NoSchedule"}],
                "ignorePreflightErrors": ["Swap"],
                "kubeletExtraArgs": args,
            })
        };
        assert_eq!(
            rendered(&request, 34),
            json!({
                "apiVersion": "kubeadm.k8s.io/v1beta4",
                "kind": "JoinConfiguration",
                "discovery": {"bootstrapToken": discovery},
                "nodeRegistration": node(json!([{"name": "node-labels", "value": "disk=ssd,rack=7"}])),
                "timeouts": {"discovery": "180s", "kubernetesAPICall": "180s", "kubeletHealthCheck": "330s", "tlsBootstrap": "330s"},
            })
        );
        assert_eq!(
            rendered(&request, 30),
            json!({
                "apiVersion": "kubeadm.k8s.io/v1beta3",
                "kind": "JoinConfiguration",
                "discovery": {"bootstrapToken": discovery, "timeout": "180s"},
                "nodeRegistration": node(json!({"node-labels": "disk=ssd,rack=7"})),
            })
        );
    }

    #[test]
    fn begins_with_what_it_is() {
        let text = render(&line::from_text(LINE).unwrap(), version(34), &JoinPolicy::default()).unwrap();
        assert!(
            text.text().starts_with("apiVersion: \"kubeadm.k8s.io/v1beta4\"\nkind: \"JoinConfiguration\"\n"),
            "{}",
            text.text()
        );
    }

    const OWN: &str = "\
apiVersion: kubeadm.k8s.io/v1beta3
kind: JoinConfiguration
caCertPath: /etc/kubernetes/pki/ca.crt
discovery:
  bootstrapToken: {apiServerEndpoint: 'cp:6443', token: abcdef.0123456789abcdef, unsafeSkipCAVerification: true}
  tlsBootstrapToken: zyxwvu.0123456789abcdef
  timeout: 20m0s
nodeRegistration:
  imagePullPolicy: Never
  taints: [{key: own, effect: NoExecute}]
  kubeletExtraArgs: {node-labels: own=1, v: 4, max-pods: '50'}
patches: {directory: /p}
";

    #[test]
    fn a_persons_own_file_loses_nothing() {
        let mut request = file::from_text(OWN).unwrap();
        request.labels = vec!["disk=ssd".parse().unwrap()];
        let new = rendered(&request, 35);
        for (pointer, expected) in [
            ("/caCertPath", json!("/etc/kubernetes/pki/ca.crt")),
            ("/discovery/tlsBootstrapToken", json!("zyxwvu.0123456789abcdef")),
            ("/discovery/timeout", Value::Null),
            ("/timeouts/discovery", json!("20m0s")),
            ("/nodeRegistration/imagePullPolicy", json!("Never")),
            ("/nodeRegistration/taints", json!([{"key": "own", "effect": "NoExecute"}])),
            (
                "/nodeRegistration/kubeletExtraArgs",
                json!([{"name": "v", "value": "4"}, {"name": "max-pods", "value": "50"}, {"name": "node-labels", "value": "own=1,disk=ssd"}]),
            ),
            ("/patches/directory", json!("/p")),
        ] {
            assert_eq!(new.pointer(pointer).cloned().unwrap_or_default(), expected, "{pointer}");
        }
        request.token = Some("aaaaaa.0123456789abcdef".parse().unwrap());
        let new = rendered(&request, 29);
        assert_eq!(new.pointer("/discovery/tlsBootstrapToken"), None, "it belonged to the token before");
        assert_eq!(new.pointer("/discovery/timeout"), Some(&json!("20m0s")));
        assert_eq!(new.pointer("/nodeRegistration/kubeletExtraArgs/max-pods"), Some(&json!("50")));
    }

    #[test]
    fn all_that_is_ignored_is_passed_on() {
        let own = OWN.replace("  imagePullPolicy", "  ignorePreflightErrors: [Swap, Mem]\n  imagePullPolicy");
        for (typed, expected) in [
            (&[][..], json!(["Swap", "Mem"])),
            (&["mem", "NumCPU"], json!(["Swap", "Mem", "NumCPU"])),
            (&["NumCPU", "all"], Value::Null),
        ] {
            let mut request = file::from_text(&own).unwrap();
            request.ignore_also(typed.iter().map(|&name| name.to_owned()));
            let file = rendered(&request, 34);
            let passed = file.pointer("/nodeRegistration/ignorePreflightErrors").cloned().unwrap_or_default();
            assert_eq!((passed, request.ignores_all()), (expected, typed.contains(&"all")), "{typed:?}");
        }
    }

    #[test]
    fn refuses_what_this_kubeadm_cannot_read() {
        let text =
            "apiVersion: kubeadm.k8s.io/v1beta4\nkind: JoinConfiguration\ndiscovery: {file: {kubeConfigPath: /x}}\n";
        let request = file::from_text(text).unwrap();
        let error = render(&request, version(30), &JoinPolicy::default()).unwrap_err().to_string();
        assert_eq!(error, "apiVersion: kubeadm 1.30.4 reads no newer than kubeadm.k8s.io/v1beta3");
        assert_eq!(rendered(&request, 31).pointer("/discovery"), Some(&json!({"file": {"kubeConfigPath": "/x"}})));
        assert_eq!(render(&Request::default(), version(34), &JoinPolicy::default()).unwrap_err().field, "--api");
    }

    #[test]
    fn reads_durations_as_go_writes_them() {
        for (text, seconds) in [
            ("5m0s", Some(300)),
            ("1h1m1s", Some(3661)),
            ("90s", Some(90)),
            ("500ms", None),
            ("9", None),
            ("s", None),
            ("", Some(0)),
        ] {
            assert_eq!(parse_wait(text).map(|wait| wait.as_secs()), seconds, "{text}");
        }
    }

    proptest! {
        #[test]
        fn kubeadm_always_waits_longer_than_carrick(own in "[0-9]{0,4}[hms]?([0-9]{1,3}s)?", seconds in 1u32..90_000, minor in 28u32..36) {
            let text = OWN.replace("20m0s", &format!("'{own}'"));
            let policy = JoinPolicy { join_timeout: seconds, ..JoinPolicy::default() };
            let rendered = render(&file::from_text(&text).unwrap(), version(minor), &policy).unwrap();
            let root: Value = serde_saphyr::from_str(rendered.text()).unwrap();
            let wait = |pointer: &str| root.pointer(pointer).and_then(Value::as_str).and_then(parse_wait);
            let discovery = wait("/discovery/timeout").or(wait("/timeouts/discovery"));
            prop_assert!(discovery.unwrap() > policy.wait(Stage::Joining));
            if minor >= 31 {
                prop_assert!(wait("/timeouts/tlsBootstrap").unwrap() > policy.bootstrap());
            }
        }
    }
}
