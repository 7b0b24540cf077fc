//! A JoinConfiguration, v1beta3 or v1beta4, alone or among other documents of a file.
//!
//! What this program does not know of it is kept as it was written: [`super::configuration`] puts it into what kubeadm gets.

use std::fmt;

use serde_json::{Map, Value};

use super::{BadInput, Request, all, node_name, parsed};

/// How messages call the whole of it.
const FILE: &str = "--config";
const GROUP: &str = "kubeadm.k8s.io/";

/// The versions of kubeadm's configuration that are in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum KubeadmApiVersion {
    /// All that kubeadm up to 1.30 knows; no `timeouts`.
    V3,
    /// From 1.31 on.
    V4,
}

impl KubeadmApiVersion {
    pub fn api_version(self) -> &'static str {
        match self {
            KubeadmApiVersion::V3 => "kubeadm.k8s.io/v1beta3",
            KubeadmApiVersion::V4 => "kubeadm.k8s.io/v1beta4",
        }
    }
}

/// The document as it was written. There is a token in it: `Debug` shows its version alone.
#[derive(Clone, PartialEq)]
pub struct Document {
    pub beta: KubeadmApiVersion,
    fields: Map<String, Value>,
}

impl fmt::Debug for Document {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "JoinConfiguration {} <redacted>", self.beta.api_version())
    }
}

impl Document {
    /// For the one who writes kubeadm's file.
    pub fn fields(&self) -> &Map<String, Value> {
        &self.fields
    }
}

/// The JoinConfiguration of a file, whatever else is in it: kubeadm passes over the rest, too.
pub fn from_text(text: &str) -> Result<Request, BadInput> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(text).map_err(|error| {
        // The complaint itself may repeat a value, and the value may be the token.
        let place = error.location().map_or_else(String::new, |location| format!("line {} ", location.line()));
        BadInput::of(FILE, format!("{place}is not YAML"))
    })?;
    let kind = |document: &Value| document.get("kind").and_then(Value::as_str).unwrap_or("none").to_owned();
    let others: Vec<String> = documents.iter().filter(|document| !document.is_null()).map(kind).collect();
    let mut ours = documents.into_iter().filter(|document| kind(document) == "JoinConfiguration");
    match (ours.next(), ours.next()) {
        (Some(Value::Object(fields)), None) => of(fields),
        (Some(_), Some(_)) => Err(BadInput::of(FILE, "there are two JoinConfigurations in it")),
        _ if others.is_empty() => Err(BadInput::of(FILE, "it is empty")),
        _ => Err(BadInput::of("kind", format!("{}, where a JoinConfiguration is needed", others.join(", ")))),
    }
}

fn of(fields: Map<String, Value>) -> Result<Request, BadInput> {
    let version = fields.get("apiVersion").and_then(Value::as_str).unwrap_or_default();
    let known = [KubeadmApiVersion::V3, KubeadmApiVersion::V4].into_iter().find(|beta| beta.api_version() == version);
    let beta = known
        .ok_or_else(|| BadInput::of("apiVersion", format!("{version:?} is not {GROUP}v1beta3 or {GROUP}v1beta4")))?;
    if fields.get("controlPlane").is_some_and(|value| !value.is_null()) {
        return Err(BadInput::control_plane("controlPlane"));
    }
    if fields.get("dryRun") == Some(&Value::Bool(true)) {
        return Err(BadInput::of("dryRun", "carrick join --plan shows what would be done"));
    }
    let root = Value::Object(fields);
    let mut request = Request::default();
    read_discovery(&root, &mut request)?;
    read_registration(&root, beta, &mut request)?;
    let Value::Object(fields) = root else { return Ok(request) };
    Ok(Request { document: Some(Document { beta, fields }), ..request })
}

fn read_discovery(root: &Value, request: &mut Request) -> Result<(), BadInput> {
    let token = "discovery.bootstrapToken.token";
    let bootstrap = "discovery.tlsBootstrapToken";
    for field in [token, bootstrap] {
        if let Some(text) = text(root, field)? {
            request.token = request.token.take().map_or_else(|| parsed(field, text), Ok).map(Some)?;
        }
    }
    let place = "discovery.bootstrapToken.apiServerEndpoint";
    request.api = text(root, place)?.map(|text| parsed(place, text)).transpose()?;
    let hashes = "discovery.bootstrapToken.caCertHashes";
    request.pins = all(hashes, &texts(root, hashes)?)?;
    request.skip_ca_check = at(root, "discovery.bootstrapToken.unsafeSkipCAVerification") == Some(&Value::Bool(true));
    request.discovery_file = text(root, "discovery.file.kubeConfigPath")?.map(str::to_owned);
    if request.api.is_some() && request.discovery_file.is_some() {
        return Err(BadInput::of("discovery", "bootstrapToken and file are both there; kubeadm takes one of them"));
    }
    Ok(())
}

fn read_registration(root: &Value, beta: KubeadmApiVersion, request: &mut Request) -> Result<(), BadInput> {
    let name = "nodeRegistration.name";
    request.node_name = text(root, name)?.map(|text| node_name(name, text)).transpose()?;
    let socket = "nodeRegistration.criSocket";
    request.cri_socket = text(root, socket)?.map(|text| parsed(socket, text)).transpose()?;
    request.ignore_also(texts(root, "nodeRegistration.ignorePreflightErrors")?);
    let args = at(root, "nodeRegistration.kubeletExtraArgs");
    let (fits, shape) = match beta {
        KubeadmApiVersion::V3 => (args.is_none_or(Value::is_object), "a map of flags in v1beta3"),
        KubeadmApiVersion::V4 => (args.is_none_or(Value::is_array), "a list of name and value in v1beta4"),
    };
    if !fits {
        return Err(BadInput::of("nodeRegistration.kubeletExtraArgs", format!("it is {shape}")));
    }
    Ok(())
}

/// What stands at `a.b.c`; null is nothing.
fn at<'a>(root: &'a Value, field: &str) -> Option<&'a Value> {
    root.pointer(&format!("/{}", field.replace('.', "/"))).filter(|value| !value.is_null())
}

fn text<'a>(root: &'a Value, field: &str) -> Result<Option<&'a str>, BadInput> {
    match at(root, field) {
        None => Ok(None),
        Some(Value::String(text)) if text.is_empty() => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(BadInput::of(field, "it is not a text")),
    }
}

fn texts(root: &Value, field: &str) -> Result<Vec<String>, BadInput> {
    let none = Vec::new();
    let values = match at(root, field) {
        None => &none,
        Some(Value::Array(values)) => values,
        Some(_) => return Err(BadInput::of(field, "it is not a list")),
    };
    let text = |value: &Value| {
        value.as_str().map(str::to_owned).ok_or_else(|| BadInput::of(field, "it is not a list of texts"))
    };
    values.iter().map(text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    pub(super) const V4: &str = "\
apiVersion: kubeadm.k8s.io/v1beta4
kind: JoinConfiguration
discovery:
  bootstrapToken:
    apiServerEndpoint: 10.0.0.11:6443
    token: abcdef.0123456789abcdef
    caCertHashes: [\"sha256:8c1f8c1f8c1f8c1f8c1f8c1f8c1f8c1f8c1f8c1f8c1f8c1f8c1f8c1f8c1f8c1f\"]
nodeRegistration:
  name: W1
  criSocket: unix:///run/containerd/containerd.sock
  kubeletExtraArgs: [{name: node-labels, value: disk=ssd}]
";

    #[test]
    fn reads_a_configuration_alone_or_among_others() {
        let v3 = V4
            .replace("v1beta4", "v1beta3")
            .replace("[{name: node-labels, value: disk=ssd}]", "{node-labels: disk=ssd}");
        let among =
            format!("---\napiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n---\n{V4}---\n");
        for (text, beta) in [(V4, KubeadmApiVersion::V4), (&v3, KubeadmApiVersion::V3), (&among, KubeadmApiVersion::V4)]
        {
            let request = from_text(text).unwrap();
            assert_eq!(request.api.as_ref().unwrap().to_string(), "10.0.0.11:6443");
            assert_eq!(request.token.as_ref().unwrap().id, "abcdef");
            assert_eq!((request.pins.len(), request.node_name.as_deref()), (1, Some("w1")));
            assert_eq!(request.document.as_ref().unwrap().beta, beta);
            assert!(!format!("{request:?}").contains("0123456789abcdef"), "{request:?}");
            assert_eq!(request.complete(false), Ok(()));
        }
    }

    #[test]
    fn what_the_file_ignores_is_ignored() {
        let text = V4.to_owned() + "  ignorePreflightErrors: [Swap, Mem, swap]\n";
        assert_eq!(from_text(&text).unwrap().ignore, ["Swap", "Mem"]);
    }

    #[test]
    fn discovery_may_be_by_file() {
        let text = "apiVersion: kubeadm.k8s.io/v1beta4\nkind: JoinConfiguration\ndiscovery:\n  file: {kubeConfigPath: /x}\n  \
                    tlsBootstrapToken: abcdef.0123456789abcdef\n";
        let request = from_text(text).unwrap();
        assert_eq!((request.discovery_file.as_deref(), request.token.unwrap().id), (Some("/x"), "abcdef".to_owned()));
    }

    #[test]
    fn refuses_with_the_field_and_never_with_the_token() {
        let with = |from: &str, to: &str| V4.replace(from, to);
        for (text, expected) in [
            (with("kind: Join", "kind: Init"), "kind: InitConfiguration, where a JoinConfiguration is needed"),
            ("a: 1\n".into(), "kind: none, where"),
            (String::new(), "--config: it is empty"),
            (with("v1beta4", "v1beta2"), "apiVersion: \"kubeadm.k8s.io/v1beta2\" is not kubeadm.k8s.io/v1beta3 or"),
            (
                V4.to_owned() + "controlPlane: {}\n",
                "controlPlane: this is a control-plane join line; carrick joins workers",
            ),
            (V4.to_owned() + "dryRun: true\n", "dryRun: carrick join --plan"),
            (format!("{V4}---\n{V4}"), "--config: there are two JoinConfigurations"),
            (with("abcdef.", "abcdef"), "discovery.bootstrapToken.token: not a bootstrap token"),
            (with("token: abcdef.", "token: [abcdef."), "--config: line"),
            (with("token: abcdef.0123456789abcdef", "token: 7"), "discovery.bootstrapToken.token: it is not a text"),
            (
                with("10.0.0.11:6443", "10.0.0.11"),
                "discovery.bootstrapToken.apiServerEndpoint: \"10.0.0.11\" has no port",
            ),
            (with("\"sha256:8c", "\"8c"), "discovery.bootstrapToken.caCertHashes: "),
            (
                with("caCertHashes: [", "caCertHashes: [7, "),
                "discovery.bootstrapToken.caCertHashes: it is not a list of texts",
            ),
            (with("name: W1", "name: Bad_Host"), "nodeRegistration.name: \"Bad_Host\" is not a node name"),
            (
                V4.to_owned() + "  ignorePreflightErrors: Swap\n",
                "nodeRegistration.ignorePreflightErrors: it is not a list",
            ),
            (with("criSocket: unix://", "criSocket: tcp://"), "nodeRegistration.criSocket: \"tcp:///run/containerd"),
            (with("v1beta4", "v1beta3"), "nodeRegistration.kubeletExtraArgs: it is a map of flags in v1beta3"),
            (
                with("nodeReg", "  file: {kubeConfigPath: /x}\nnodeReg"),
                "discovery: bootstrapToken and file are both there",
            ),
        ] {
            let error = from_text(&text).map(|request| format!("{request:?}")).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}\n  {expected}");
            assert!(!error.contains("0123456789abcdef"), "{error}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_a_configuration_or_an_error(
            change in "[a-z0-9:{}\\[\\]\"' \n|>&*!%@-]{0,12}", at in 0usize..400
        ) {
            let at = (0..=at.min(V4.len())).rev().find(|at| V4.is_char_boundary(*at)).unwrap_or(0);
            let (before, after) = V4.split_at(at);
            let shown = match from_text(&format!("{before}{change}{after}")) {
                Ok(request) => format!("{request:?}"),
                Err(bad) => bad.to_string(),
            };
            prop_assert!(!shown.contains("0123456789abcdef"), "{}", shown);
        }

        #[test]
        fn any_bytes_are_read(text in ".*") {
            let _ = from_text(&text);
        }
    }
}
