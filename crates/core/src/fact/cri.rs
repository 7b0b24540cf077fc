//! What the container runtime says of itself over CRI.
//!
//! Calls, kept as JSON of the shape `crictl info` prints, so that an answer over the socket and a pasted `crictl info`
//! are one fact: `cri status` (the verbose Status) and `cri runtime-config` (containerd 2.0 and later;
//! `Unimplemented` says that the runtime does not know the call); `cri images`, `cri containers` and `cri pods` as `crictl images -o json`,
//! `crictl ps -o json` and `crictl pods -o json`.

use jiff::Timestamp;
use serde_json::Value;

use super::keep::USUAL;
use super::{Capture, Facts, Known, Missing, Query, Source, Why};

/// For who may not open the socket but may run crictl: over SSH, sudo gives the one and not the other.
pub const CRICTL: Query = Query { name: "crictl info", argv: &["crictl", "--timeout", "3s", "info"], keep: USUAL };

pub const SOURCES: &[Source] = &[
    Source::Cri("status"),
    Source::Cri("runtime-config"),
    Source::Cri("images"),
    Source::Cri("containers"),
    Source::Cri("pods"),
    Source::Query(&CRICTL),
];

/// The runtime's view of itself and of its network.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuntimeInfo {
    /// The endpoint that answered.
    pub endpoint: Option<String>,
    /// What the runtime calls itself: `containerd`, `cri-o`, `docker`. `crictl info` does not say.
    pub name: Option<String>,
    pub conditions: Vec<Condition>,
    /// `OK`, or why the CNI configuration could not be loaded; absent outside containerd.
    pub last_cni_load: Option<String>,
    pub cni_conf_dir: Option<String>,
    pub cni_bin_dirs: Vec<String>,
    /// How many configuration files are loaded, from the first by name; containerd's default is 1.
    pub cni_max_conf: Option<u64>,
    /// Names of the networks that are loaded, loopback apart.
    pub cni_networks: Vec<String>,
    pub sandbox_image: Option<String>,
    pub snapshotter: Option<String>,
    /// Where containerd keeps what lasts.
    pub root: Option<String>,
    /// Of the default runtime: `Some(true)` is the systemd driver, `Some(false)` is cgroupfs.
    pub systemd_cgroup: Option<bool>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    pub kind: String,
    pub status: bool,
    pub reason: String,
    pub message: String,
}

impl RuntimeInfo {
    pub fn condition(&self, kind: &str) -> Option<&Condition> {
        self.conditions.iter().find(|condition| condition.kind == kind)
    }
}

/// `crictl info`, of containerd or CRI-O.
pub fn parse_status(text: &str) -> Result<RuntimeInfo, String> {
    let root: Value = serde_json::from_str(text).map_err(|error| format!("not JSON: {error}"))?;
    let conditions = root.pointer("/status/conditions").and_then(Value::as_array).ok_or("no status.conditions")?;
    let config = root.get("config");
    let cni = config.and_then(|config| config.get("cni"));
    let loaded = root.get("cniconfig");
    let text = |value: Option<&Value>| value.and_then(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned);
    let texts = |value: Option<&Value>| -> Vec<String> {
        value.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let mut cni_bin_dirs = texts(loaded.and_then(|loaded| loaded.get("PluginDirs")));
    if cni_bin_dirs.is_empty() {
        cni_bin_dirs = texts(cni.and_then(|cni| cni.get("binDirs")));
    }
    if cni_bin_dirs.is_empty() {
        cni_bin_dirs.extend(text(cni.and_then(|cni| cni.get("binDir"))));
    }
    Ok(RuntimeInfo {
        endpoint: text(root.get("endpoint")),
        name: text(root.pointer("/version/runtimeName")),
        conditions: conditions.iter().map(condition).collect(),
        last_cni_load: text(root.get("lastCNILoadStatus")),
        cni_conf_dir: text(loaded.and_then(|loaded| loaded.get("PluginConfDir")))
            .or_else(|| text(cni.and_then(|cni| cni.get("confDir")))),
        cni_bin_dirs,
        cni_max_conf: loaded.and_then(|loaded| loaded.get("PluginMaxConfNum")).and_then(Value::as_u64),
        cni_networks: networks(loaded),
        sandbox_image: text(config.and_then(|config| config.get("sandboxImage"))),
        snapshotter: text(config.and_then(|config| config.pointer("/containerd/snapshotter"))),
        root: text(config.and_then(|config| config.get("containerdRootDir"))),
        systemd_cgroup: config.and_then(systemd_cgroup),
    })
}

fn condition(value: &Value) -> Condition {
    let text = |key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    Condition {
        kind: text("type"),
        status: value.get("status").and_then(Value::as_bool).unwrap_or(false),
        reason: text("reason"),
        message: text("message"),
    }
}

fn networks(loaded: Option<&Value>) -> Vec<String> {
    let networks = loaded.and_then(|loaded| loaded.get("Networks")).and_then(Value::as_array);
    let names =
        networks.into_iter().flatten().filter_map(|network| network.pointer("/Config/Name").and_then(Value::as_str));
    names.filter(|name| *name != "cni-loopback").map(str::to_owned).collect()
}

fn systemd_cgroup(config: &Value) -> Option<bool> {
    let containerd = config.get("containerd")?;
    let name = containerd.get("defaultRuntimeName").and_then(Value::as_str).unwrap_or("runc");
    let runtime = containerd.get("runtimes")?.get(name)?;
    // Absent options mean cgroupfs: it is runc's default.
    Some(runtime.pointer("/options/SystemdCgroup").and_then(Value::as_bool).unwrap_or(false))
}

/// What CRI's RuntimeConfig answers: the cgroup driver the runtime uses.
pub fn parse_driver(text: &str) -> Result<String, String> {
    let root: Value = serde_json::from_str(text).map_err(|error| format!("not JSON: {error}"))?;
    let driver = root.pointer("/linux/cgroupDriver").and_then(Value::as_str).ok_or("no linux.cgroupDriver")?;
    Ok(driver.to_lowercase())
}

/// A container of a pod that runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunningContainer {
    pub id: String,
    /// What its pod calls it.
    pub name: String,
    /// The id of its pod's sandbox.
    pub sandbox: String,
    pub created_at: Option<Timestamp>,
}

/// Of `crictl ps -a -o json`, those that run.
fn parse_running(text: &str) -> Result<Vec<RunningContainer>, String> {
    let root: Value = serde_json::from_str(text).map_err(|error| format!("not JSON: {error}"))?;
    let containers = root.get("containers").and_then(Value::as_array).ok_or("no containers")?;
    let runs = |one: &&Value| one.get("state").and_then(Value::as_str) == Some("CONTAINER_RUNNING");
    let part = |one: &Value, pointer: &str| one.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    let container = |one: &Value| RunningContainer {
        id: part(one, "/id"),
        name: part(one, "/metadata/name"),
        sandbox: part(one, "/podSandboxId"),
        created_at: nanoseconds(&part(one, "/createdAt")),
    };
    Ok(containers.iter().filter(runs).map(container).collect())
}

/// A time as JSON of a protobuf has it: a number of 64 bits is a text.
pub(crate) fn nanoseconds(text: &str) -> Option<Timestamp> {
    Timestamp::from_nanosecond(text.parse().ok().filter(|nanos| *nanos > 0)?).ok()
}

/// Whether this is what crictl prints, and a bundle of an older Carrick has, of a runtime that listens and does not know CRI:
/// containerd without its plugin. Who asks the socket itself has gRPC's code instead: [`Why::Unimplemented`].
pub fn is_printed_as_unimplemented(line: &str) -> bool {
    line.contains("unknown service") || line.contains("Unimplemented")
}

impl Facts {
    pub fn runtime_status(&self) -> Known<RuntimeInfo> {
        let asked = self.cri("status");
        let shut = matches!(asked, Err(Missing { why: Why::Denied | Why::NotCollected, .. }));
        // crictl asks the runtime of its own configuration, which need not be the one that was named.
        let status = match self.crictl_info().filter(|_| shut && self.named_socket().is_none()) {
            Some(printed) => printed,
            None => asked?,
        };
        parse_status(&status.text).map_err(|detail| Missing::broken("cri status", detail))
    }

    fn crictl_info(&self) -> Option<&Capture> {
        self.query(&CRICTL).ok().filter(|capture| capture.exit == Some(0))
    }

    /// `systemd` or `cgroupfs`, from the runtime itself.
    pub fn runtime_driver(&self) -> Known<String> {
        parse_driver(&self.cri("runtime-config")?.text).map_err(|detail| Missing::broken("cri runtime-config", detail))
    }

    /// The images the runtime has: every name of each.
    pub fn runtime_images(&self) -> Known<Vec<String>> {
        let root: Value = serde_json::from_str(&self.cri("images")?.text)
            .map_err(|error| Missing::broken("cri images", format!("not JSON: {error}")))?;
        let images = root.get("images").and_then(Value::as_array).into_iter().flatten();
        let names = images.filter_map(|image| image.get("repoTags").and_then(Value::as_array)).flatten();
        Ok(names.filter_map(Value::as_str).map(str::to_owned).collect())
    }

    /// How many containers of pods run.
    pub fn running_containers(&self) -> Known<usize> {
        self.containers().map(|containers| containers.len())
    }

    /// The containers of pods that run.
    pub fn containers(&self) -> Known<Vec<RunningContainer>> {
        let text = &self.cri("containers")?.text;
        parse_running(text).map_err(|detail| Missing::broken("cri containers", detail))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::facts;

    const CONTAINERD: &str = r#"{"endpoint":"unix:///run/containerd/containerd.sock",
        "status":{"conditions":[{"type":"RuntimeReady","status":true,"reason":"","message":""},
            {"type":"NetworkReady","status":false,"reason":"NetworkPluginNotReady","message":"Network plugin returns error: cni plugin not initialized"},
            {"type":"ContainerdHasNoDeprecationWarnings","status":false,"reason":"ContainerdHasDeprecationWarnings","message":"{\"io.containerd.deprecation/x\":\"y\"}"}]},
        "cniconfig":{"PluginDirs":["/opt/cni/bin"],"PluginConfDir":"/etc/cni/net.d","PluginMaxConfNum":1,"Prefix":"eth",
            "Networks":[{"Config":{"Name":"cni-loopback","CNIVersion":"0.3.1"},"IFName":"lo"},{"Config":{"Name":"cbr0"},"IFName":"eth0"}]},
        "config":{"containerd":{"snapshotter":"overlayfs","defaultRuntimeName":"runc","runtimes":{"runc":{"options":{"SystemdCgroup":true}}}},
            "cni":{"binDir":"/ignored","confDir":"/ignored","maxConfNum":1},"sandboxImage":"registry.k8s.io/pause:3.8"},
        "golang":"go1.22","lastCNILoadStatus":"cni config load failed: no network config found in /etc/cni/net.d: cni plugin not initialized"}"#;

    #[test]
    fn crictls_word_counts_where_the_socket_is_shut() {
        let denied = || facts().without(Source::Cri("status"), Why::Denied);
        assert!(denied().runtime_status().is_err());
        assert!(denied().with_query(&CRICTL, CONTAINERD).runtime_status().is_ok());
        assert!(denied().with_exit(&CRICTL, 1, CONTAINERD, "").runtime_status().is_err());
        let mut named = denied().with_query(&CRICTL, CONTAINERD);
        named.name_socket("/run/cri-dockerd.sock");
        assert!(named.runtime_status().is_err());
        let dead = facts().without(Source::Cri("status"), Why::Broken("connection refused".into()));
        assert!(dead.with_query(&CRICTL, CONTAINERD).runtime_status().is_err());
    }

    #[test]
    fn reads_containerds_answer() {
        let read = facts().with_cri("status", CONTAINERD).runtime_status().expect("known");
        assert_eq!(read.endpoint.as_deref(), Some("unix:///run/containerd/containerd.sock"));
        assert!(read.condition("RuntimeReady").expect("there").status);
        let network = read.condition("NetworkReady").expect("there");
        assert_eq!((network.status, network.reason.as_str()), (false, "NetworkPluginNotReady"));
        assert!(network.message.ends_with("cni plugin not initialized"));
        assert!(read.last_cni_load.as_deref().is_some_and(|text| text.starts_with("cni config load failed")));
        assert_eq!((read.cni_conf_dir.as_deref(), read.cni_max_conf), (Some("/etc/cni/net.d"), Some(1)));
        assert_eq!((read.cni_bin_dirs, read.cni_networks), (vec!["/opt/cni/bin".to_owned()], vec!["cbr0".to_owned()]));
        assert_eq!(read.sandbox_image.as_deref(), Some("registry.k8s.io/pause:3.8"));
        assert_eq!((read.snapshotter.as_deref(), read.systemd_cgroup), (Some("overlayfs"), Some(true)));
    }

    #[test]
    fn reads_cri_os_answer_which_has_less() {
        let text = r#"{"status":{"conditions":[{"type":"NetworkReady","status":false,"reason":"NetworkPluginNotReady",
            "message":"Network plugin returns error: no CNI configuration file in /etc/cni/net.d/. Has your network provider started?"}]},
            "config":{"sandboxImage":"registry.k8s.io/pause:3.10"}}"#;
        let read = parse_status(text).expect("read");
        assert_eq!((&read.cni_conf_dir, read.systemd_cgroup, &read.last_cni_load), (&None, None, &None));
        assert_eq!(read.sandbox_image.as_deref(), Some("registry.k8s.io/pause:3.10"));
        assert!(read.condition("RuntimeReady").is_none());
    }

    #[test]
    fn directories_and_driver_come_from_the_configuration_where_nothing_is_loaded() {
        let with = |config: &str| {
            parse_status(&format!(r#"{{"status":{{"conditions":[]}},"config":{config}}}"#)).expect("read")
        };
        let read = with(
            r#"{"cni":{"binDir":"/b","confDir":"/c"},"containerd":{"defaultRuntimeName":"kata","runtimes":{"runc":{"options":{"SystemdCgroup":true}},"kata":{}}}}"#,
        );
        assert_eq!(
            (read.cni_bin_dirs, read.cni_conf_dir.as_deref(), read.systemd_cgroup),
            (vec!["/b".to_owned()], Some("/c"), Some(false))
        );
        assert_eq!(with(r#"{"cni":{"binDir":"","binDirs":["/a","/b"]}}"#).cni_bin_dirs, ["/a", "/b"]);
        assert_eq!(
            with(r#"{"containerd":{"runtimes":{"runc":{"options":{"SystemdCgroup":true}}}}}"#).systemd_cgroup,
            Some(true)
        );
        assert_eq!(with(r#"{"containerd":{"runtimes":{}}}"#).systemd_cgroup, None);
    }

    #[test]
    fn reads_driver_and_images() {
        let known = facts().with_cri("runtime-config", r#"{"linux":{"cgroupDriver":"SYSTEMD"}}"#).with_cri(
            "images",
            r#"{"images":[{"id":"a","repoTags":["x:1","y:1"]},{"id":"b","repoTags":[]},{"id":"c"}]}"#,
        );
        assert_eq!(known.runtime_driver().as_deref(), Ok("systemd"));
        assert_eq!(known.runtime_images(), Ok(vec!["x:1".to_owned(), "y:1".to_owned()]));
        assert!(known.with_cri("images", "no").runtime_images().is_err());
        let listed = r#"{"containers":[{"state":"CONTAINER_RUNNING"},{"state":"CONTAINER_EXITED"},{}]}"#;
        assert_eq!(facts().with_cri("containers", listed).running_containers(), Ok(1));
        assert!(facts().with_cri("containers", "{}").running_containers().is_err());
        assert!(facts().running_containers().is_err());
        assert!(parse_driver("{}").is_err());
        assert!(parse_status("{}").is_err());
    }

    #[test]
    fn tells_a_runtime_without_cri() {
        assert!(is_printed_as_unimplemented("unknown service runtime.v1.RuntimeService"));
        assert!(is_printed_as_unimplemented("rpc error: code = Unimplemented"));
        assert!(!is_printed_as_unimplemented("connection refused"));
    }

    proptest! {
        #[test]
        fn any_text_is_an_answer_or_an_error(text in "(status|conditions|config|containerd|[\\[\\]{}:,\"0-9]|.)*") {
            let known = facts().with_cri("status", &text).with_cri("runtime-config", &text).with_cri("images", &text);
            let known = known.with_cri("containers", &text);
            let _ = (known.runtime_status(), known.runtime_driver(), known.runtime_images(), known.running_containers());
        }

        #[test]
        fn any_json_is_an_answer_or_an_error(conditions in "[0-9]{1,3}|null|\"x\"|\\[\\]|\\[[0-9]\\]|\\[null\\]", config in "[0-9]|null|\\[\\]|\\{\"containerd\":[0-9]\\}") {
            let _ = parse_status(&format!(r#"{{"status":{{"conditions":{conditions}}},"config":{config},"cniconfig":{config}}}"#));
        }
    }
}
