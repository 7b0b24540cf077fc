//! What the container runtime says of itself over CRI.
//!
//! Two calls, kept as JSON of the shape `crictl info` prints, so that an answer over the socket and a pasted `crictl info`
//! are one fact: `cri status` (the verbose Status) and `cri runtime-config` (containerd 2.0 and later; `Broken` says the
//! runtime does not know the call).

use serde_json::Value;

use super::{Facts, Known, Missing, Source};

pub const SOURCES: &[Source] = &[Source::Cri("status"), Source::Cri("runtime-config"), Source::Cri("images")];

/// The runtime's view of itself and of its network.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuntimeStatus {
    /// The endpoint that answered.
    pub endpoint: Option<String>,
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

impl RuntimeStatus {
    pub fn condition(&self, kind: &str) -> Option<&Condition> {
        self.conditions.iter().find(|condition| condition.kind == kind)
    }
}

/// `crictl info`, of containerd or CRI-O.
pub fn parse_status(text: &str) -> Result<RuntimeStatus, String> {
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
    Ok(RuntimeStatus {
        endpoint: text(root.get("endpoint")),
        conditions: conditions.iter().map(condition).collect(),
        last_cni_load: text(root.get("lastCNILoadStatus")),
        cni_conf_dir: text(loaded.and_then(|loaded| loaded.get("PluginConfDir")))
            .or_else(|| text(cni.and_then(|cni| cni.get("confDir")))),
        cni_bin_dirs,
        cni_max_conf: loaded.and_then(|loaded| loaded.get("PluginMaxConfNum")).and_then(Value::as_u64),
        cni_networks: networks(loaded),
        sandbox_image: text(config.and_then(|config| config.get("sandboxImage"))),
        snapshotter: text(config.and_then(|config| config.pointer("/containerd/snapshotter"))),
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
    let names = networks.into_iter().flatten().filter_map(|network| network.pointer("/Config/Name").and_then(Value::as_str));
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

impl Facts {
    pub fn runtime_status(&self) -> Known<RuntimeStatus> {
        parse_status(&self.cri("status")?.text).map_err(|detail| Missing::broken("cri status", detail))
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
}
