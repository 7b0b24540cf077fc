//! The kubelet's configuration: the file on this machine, what `--config-dir` lays over it, and the one the cluster gives to
//! every node that joins.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::evidence::Evidence;
use super::keep::USUAL;
use super::{Facts, Known, Missing, OrAbsent, Query, Source, Why};
use crate::join::taint::Taint;

pub const FILE: &str = "/var/lib/kubelet/config.yaml";
/// What kubeadm 1.34 writes of this machine alone into the configuration, its runtime's socket; it stays where a join fails.
pub const INSTANCE: &str = "/var/lib/kubelet/instance-config.yaml";
/// Where systemd-resolved keeps the real name servers. Clusters made on Ubuntu tell every node to read it.
pub const RESOLVED: &str = "/run/systemd/resolve/resolv.conf";

/// The directory of `--config-dir`, of the kubelet that runs, else of the one that would, and its files: `DIRECTORY` first, then
/// each with its path. The kubelet follows links to files, and none to directories.
pub const DROP_INS: Query = Query {
    name: "files of the kubelet's --config-dir",
    argv: &[
        "sh",
        "-c",
        r#"pid=$(systemctl show -p MainPID --value kubelet.service)
runs() { tr '\0' ' ' <"/proc/$pid/cmdline"; echo; }
would() { cat /etc/sysconfig/kubelet /etc/default/kubelet /var/lib/kubelet/kubeadm-flags.env; systemctl cat kubelet; }
flag() { grep -v '^ *#' | grep -oE -e '--config-dir[= ]"?/[^" ]+' | head -n 1 | sed 's/^[^/]*//'; }
if [ "${pid:-0}" -gt 0 ]; then dir=$(runs | flag); else dir=$(would 2>/dev/null | flag); fi
[ -n "$dir" ] || exit 0
echo "==> $dir <=="
[ -d "$dir" ] || exit 0
files=$(find "$dir/" -name '*.conf' ! -type d) || exit 1
printf '%s\n' "$files" | while read -r file; do
  [ -z "$file" ] || { echo "==> $file <=="; cat "$file" || exit 1; echo; }
done"#,
    ],
    keep: USUAL,
};

pub const SOURCES: &[Source] = &[
    Source::File(FILE),
    Source::File(INSTANCE),
    Source::File(RESOLVED),
    Source::File("/etc/resolv.conf"),
    Source::Query(&DROP_INS),
];

/// A file of `--config-dir`, and what it sets.
#[derive(Clone, Debug, PartialEq)]
pub struct DropIn {
    pub path: String,
    pub text: String,
    sets: Map<String, Value>,
}

/// What of a KubeletConfiguration matters for a join. What is not written is `None`: the kubelet's default.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct KubeletConfig {
    pub kind: Option<String>,
    pub cgroup_driver: Option<String>,
    pub fail_swap_on: Option<bool>,
    #[serde(rename = "failCgroupV1")]
    pub fail_cgroup_v1: Option<bool>,
    pub resolv_conf: Option<String>,
    #[serde(rename = "clusterDNS")]
    pub cluster_dns: Option<Vec<String>>,
    pub static_pod_path: Option<String>,
    pub container_runtime_endpoint: Option<String>,
    pub rotate_certificates: Option<bool>,
    #[serde(rename = "serverTLSBootstrap")]
    pub server_tls_bootstrap: Option<bool>,
    /// What it taints its Node with when it makes it.
    pub register_with_taints: Option<Vec<Taint>>,
    /// 0: it has none.
    pub healthz_port: Option<u16>,
    /// Below what the kubelet evicts pods, by signal: where one is set, the others have none.
    pub eviction_hard: Option<BTreeMap<String, String>>,
    pub merge_default_eviction_settings: Option<bool>,
}

/// The kubelet's own `evictionHard`.
const EVICTION_HARD: [(&str, &str); 5] = [
    ("memory.available", "100Mi"),
    ("nodefs.available", "10%"),
    ("nodefs.inodesFree", "5%"),
    ("imagefs.available", "15%"),
    ("imagefs.inodesFree", "5%"),
];

/// What has to be free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Threshold {
    /// In hundredths of a percent of the whole.
    Share(u64),
    /// Bytes, or inodes.
    Amount(u64),
}

impl Threshold {
    /// `10%`, `7.5%`, `1Gi`, `500M`; `0%` and `100%` are none. `None`: it is not understood.
    pub fn parse(text: &str) -> Option<Option<Self>> {
        const UNITS: [(&str, u64); 9] = [
            ("Ki", 1 << 10),
            ("Mi", 1 << 20),
            ("Gi", 1 << 30),
            ("Ti", 1 << 40),
            ("k", 1000),
            ("M", 1_000_000),
            ("G", 1_000_000_000),
            ("T", 1_000_000_000_000),
            ("", 1),
        ];
        if let Some(percent) = text.strip_suffix('%') {
            let (whole, rest) = percent.split_once('.').unwrap_or((percent, "0"));
            let rest: u64 = format!("{rest:0<2}").get(..2)?.parse().ok()?;
            let share = whole.parse::<u64>().ok()?.checked_mul(100)?.checked_add(rest)?;
            return Some(Some(Threshold::Share(share)).filter(|_| share != 0 && share != 10_000));
        }
        let (number, unit) = UNITS.iter().find_map(|(name, unit)| Some((text.strip_suffix(name)?, unit)))?;
        Some(Some(Threshold::Amount(number.parse::<u64>().ok()?.checked_mul(*unit)?)))
    }

    /// How much of this whole has to be free.
    pub fn of(self, whole: u64) -> u64 {
        match self {
            Threshold::Share(share) => {
                u64::try_from(u128::from(whole) * u128::from(share) / 10_000).unwrap_or(u64::MAX)
            }
            Threshold::Amount(amount) => amount,
        }
    }
}

impl std::fmt::Display for Threshold {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Threshold::Share(share) if share % 100 == 0 => write!(f, "{} %", share / 100),
            Threshold::Share(share) => write!(f, "{}.{:02} %", share / 100, share % 100),
            Threshold::Amount(amount) => f.write_str(&super::space::shown_bytes(*amount)),
        }
    }
}

pub fn parse(text: &str) -> Result<KubeletConfig, String> {
    let config: KubeletConfig = from_yaml(text)?;
    match config.kind.as_deref() {
        Some("KubeletConfiguration") => Ok(config),
        Some(kind) => Err(format!("its kind is {kind}, not KubeletConfiguration")),
        None => Err("it has no kind".to_owned()),
    }
}

/// YAML, or in one line why it is not.
pub fn from_yaml<T: serde::de::DeserializeOwned>(text: &str) -> Result<T, String> {
    serde_saphyr::from_str(text).map_err(|error| {
        let said = error.to_string();
        format!("not YAML as expected: {}", said.lines().next().unwrap_or_default())
    })
}

/// What [`DROP_INS`] prints: the directory, and its files in the order in which the kubelet reads them: depth first, each
/// directory by name.
pub fn parse_drop_ins(text: &str) -> (Option<String>, Vec<(String, String)>) {
    let mut parts: Vec<(String, String)> = Vec::new();
    for line in text.lines() {
        match line.strip_prefix("==> ").and_then(|rest| rest.strip_suffix(" <==")) {
            Some(path) => parts.push((path.replace("//", "/"), String::new())),
            None => parts.last_mut().into_iter().for_each(|(_, text)| {
                text.push_str(line);
                text.push('\n');
            }),
        }
    }
    let mut parts = parts.into_iter();
    let dir = parts.next().map(|(dir, _)| dir);
    let mut files: Vec<(String, String)> = parts.collect();
    files.sort_by(|(a, _), (b, _)| a.split('/').cmp(b.split('/')));
    (dir, files)
}

/// As RFC 7396 merges: objects key by key, everything else as a whole; `null` takes a key away.
fn merge(into: &mut Map<String, Value>, from: &Map<String, Value>) {
    for (key, value) in from {
        match (value, into.get_mut(key)) {
            (Value::Null, _) => drop(into.remove(key)),
            (Value::Object(from), Some(Value::Object(into))) => merge(into, from),
            (value, _) => drop(into.insert(key.clone(), value.clone())),
        }
    }
}

impl Facts {
    /// The kubelet's `--config-dir`: of the one that runs, else of the one that would.
    pub fn kubelet_config_dir(&self) -> Option<String> {
        let would = || self.kubelet_command().ok()?.flag("--config-dir").map(|(dir, _)| dir.to_owned());
        let dir = match self.kubelet_process() {
            Ok(Some(process)) => process.flag("--config-dir").map(str::to_owned),
            _ => would(),
        };
        dir.filter(|dir| dir.starts_with('/'))
    }

    /// The files of `--config-dir`, in the order in which the kubelet reads them; none where it has no such flag.
    pub fn kubelet_drop_ins(&self) -> Known<Vec<DropIn>> {
        let Some(dir) = self.kubelet_config_dir() else { return Ok(Vec::new()) };
        let said = self.whole(&DROP_INS)?;
        if said.exit.is_some_and(|exit| exit != 0) || !said.errors.trim().is_empty() {
            let error = said.errors.lines().next().unwrap_or("ended with an error");
            return Err(Missing::broken(DROP_INS.name, error));
        }
        let (listed, files) = parse_drop_ins(&said.text);
        if listed.is_none_or(|listed| listed.trim_end_matches('/') != dir.trim_end_matches('/')) {
            return Err(Missing { source_name: DROP_INS.name.to_owned(), why: Why::NotCollected });
        }
        let read = |(path, text): (String, String)| {
            let sets = match from_yaml::<Value>(&text) {
                Ok(Value::Object(sets)) => sets,
                Ok(_) => return Err(Missing::broken(&path, "not a mapping")),
                Err(detail) => return Err(Missing::broken(&path, detail)),
            };
            Ok(DropIn { path, text, sets })
        };
        files.into_iter().map(read).collect()
    }

    /// What kubeadm wrote at the last join, and what is laid over it.
    pub fn kubelet_config(&self) -> Known<KubeletConfig> {
        let file = self.file(FILE)?;
        let config = parse(&file.text).map_err(|detail| Missing::broken(FILE, detail))?;
        self.laid_over(config, FILE, &file.text)
    }

    fn laid_over(&self, config: KubeletConfig, source: &str, text: &str) -> Known<KubeletConfig> {
        let drop_ins = self.kubelet_drop_ins()?;
        if drop_ins.is_empty() {
            return Ok(config);
        }
        let broken = |detail: String| Missing::broken(source, detail);
        let mut merged = from_yaml::<Map<String, Value>>(text).map_err(broken)?;
        // The file's defaults are filled in before anything is laid over it.
        if merged.get("evictionHard").is_none_or(Value::is_null) {
            merged.insert("evictionHard".to_owned(), json!(BTreeMap::from(EVICTION_HARD)));
        }
        for drop_in in &drop_ins {
            merge(&mut merged, &drop_in.sets);
        }
        serde_json::from_value(Value::Object(merged))
            .map_err(|error| Missing::broken(DROP_INS.name, format!("not a configuration: {error}")))
    }

    /// Where a key of the kubelet's configuration is set: in the last file that does.
    pub fn kubelet_config_line(&self, key: &str) -> Option<Evidence> {
        let is_it = |line: &str| line.trim_start().trim_start_matches('"').starts_with(key);
        let cite = |path: &str, text: &str| {
            let (at, line) = (1u32..).zip(text.lines()).find(|(_, line)| is_it(line))?;
            Some(Evidence::at(path, at, line.trim()))
        };
        let laid_over = self.kubelet_drop_ins().unwrap_or_default();
        let found = laid_over.iter().rev().find(|drop_in| drop_in.sets.contains_key(key));
        found.map_or_else(|| cite(FILE, &self.file(FILE).ok()?.text), |drop_in| cite(&drop_in.path, &drop_in.text))
    }

    /// What the kubelet will go by: once joined the file; before that the cluster's, which a join puts in the file's place.
    /// `None` where nobody asked the cluster: the defaults.
    pub fn coming_kubelet_config(&self) -> Known<Option<KubeletConfig>> {
        if self.has_kubelet_conf()? {
            return self.kubelet_config().or_absent();
        }
        match self.cluster_kubelet_config() {
            Err(Missing { why: Why::NotAsked, .. }) => Ok(None),
            Ok(config) => {
                self.laid_over(config, "the cluster's kubelet-config", &self.api("kubelet-config")?.text).map(Some)
            }
            Err(missing) => Err(missing),
        }
    }

    /// What has to be free for the kubelet not to evict pods; `None`: it goes by no such signal.
    pub fn eviction_threshold(&self, signal: &str) -> Known<Option<Threshold>> {
        const FLAG: &str = "--eviction-hard";
        let not_asked = || Missing { source_name: "the cluster's kubelet-config".to_owned(), why: Why::NotAsked };
        let usual = || EVICTION_HARD.iter().find(|(name, _)| *name == signal).map(|(_, value)| (*value).to_owned());
        let of_flag = self.kubelet_command().ok().and_then(|it| it.flag(FLAG).map(|(value, _)| value.to_owned()));
        let set = if let Some(flag) = of_flag {
            let mut parts = flag.split(',').filter_map(|part| part.split_once('<'));
            parts.find(|(name, _)| *name == signal).map(|(_, value)| value.to_owned())
        } else {
            let config = self.coming_kubelet_config()?.ok_or_else(not_asked)?;
            let keeps = config.merge_default_eviction_settings == Some(true);
            match config.eviction_hard {
                Some(set) => set.get(signal).cloned().or_else(|| usual().filter(|_| keeps)),
                None => usual(),
            }
        };
        let Some(set) = set else { return Ok(None) };
        Threshold::parse(&set).ok_or_else(|| Missing::broken("evictionHard", format!("{signal}: {set:?} is no amount")))
    }

    /// What the cluster will give to this machine.
    pub fn cluster_kubelet_config(&self) -> Known<KubeletConfig> {
        parse(&self.api("kubelet-config")?.text)
            .map_err(|detail| Missing::broken("the cluster's kubelet-config", detail))
    }
}

/// A configuration as kubeadm writes it, for tests.
#[cfg(any(test, feature = "testing"))]
pub mod sample {
    pub fn with(lines: &str) -> String {
        format!(
            "apiVersion: kubelet.config.k8s.io/v1beta1
authentication:
  anonymous:
    enabled: false
  webhook:
    cacheTTL: 0s
    enabled: true
clusterDNS:
- 10.96.0.10
clusterDomain: cluster.local
containerRuntimeEndpoint: \"\"
kind: KubeletConfiguration
rotateCertificates: true
staticPodPath: /etc/kubernetes/manifests
{lines}"
        )
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::fact::Why;
    use crate::testing::facts;

    #[test]
    fn reads_what_kubeadm_writes() {
        let text = sample::with(
            "cgroupDriver: systemd\nresolvConf: /run/systemd/resolve/resolv.conf\nfailSwapOn: false\nfailCgroupV1: false\nserverTLSBootstrap: true\n",
        );
        let read = facts().with_file(FILE, &text).kubelet_config().expect("known");
        assert_eq!(read.cgroup_driver.as_deref(), Some("systemd"));
        assert_eq!(read.resolv_conf.as_deref(), Some(RESOLVED));
        assert_eq!(
            (read.fail_swap_on, read.fail_cgroup_v1, read.server_tls_bootstrap),
            (Some(false), Some(false), Some(true))
        );
        assert_eq!(read.cluster_dns.as_deref(), Some(["10.96.0.10".to_owned()].as_slice()));
        assert_eq!(
            (read.static_pod_path.as_deref(), read.rotate_certificates),
            (Some("/etc/kubernetes/manifests"), Some(true))
        );
    }

    fn with_dir(files: &str) -> Facts {
        use crate::fact::unit;
        facts()
            .with_query(&unit::KUBELET, &unit::sample::packaged())
            .with_file(unit::DEFAULTS, "KUBELET_EXTRA_ARGS=--config-dir=/etc/kubelet.d\n")
            .with_file(FILE, &sample::with("cgroupDriver: systemd\nhealthzPort: 10248\n"))
            .with_query(&DROP_INS, files)
    }

    #[test]
    fn files_of_config_dir_are_laid_over_in_their_order() {
        let files = "==> /etc/kubelet.d <==\n\
            ==> /etc/kubelet.d//90-b.conf <==\nkind: KubeletConfiguration\nresolvConf: /b\nhealthzPort: null\n\n\
            ==> /etc/kubelet.d//10-a.conf <==\n{\"kind\": \"KubeletConfiguration\", \"resolvConf\": \"/a\", \"failSwapOn\": false}\n\n\
            ==> /etc/kubelet.d//20/x.conf <==\nevictionHard:\n  nodefs.available: 5%\n\n";
        let known = with_dir(files);
        let order: Vec<String> = known.kubelet_drop_ins().unwrap().into_iter().map(|it| it.path).collect();
        assert_eq!(order, ["/etc/kubelet.d/10-a.conf", "/etc/kubelet.d/20/x.conf", "/etc/kubelet.d/90-b.conf"]);
        let config = known.kubelet_config().unwrap();
        assert_eq!((config.resolv_conf.as_deref(), config.fail_swap_on), (Some("/b"), Some(false)));
        assert_eq!((config.healthz_port, config.cgroup_driver.as_deref()), (None, Some("systemd")));
        assert_eq!(
            known.kubelet_config_line("resolvConf"),
            Some(Evidence::at("/etc/kubelet.d/90-b.conf", 2, "resolvConf: /b"))
        );
        assert_eq!(known.kubelet_config_line("cgroupDriver").map(|it| it.source), Some(FILE.to_owned()));
        let joined = known.with_file(crate::fact::kubeconfig::KUBELET, "");
        assert_eq!(joined.eviction_threshold("nodefs.available"), Ok(Some(Threshold::Share(500))));
        assert_eq!(
            joined.eviction_threshold("imagefs.available"),
            Ok(Some(Threshold::Share(1500))),
            "the defaults stay"
        );
    }

    #[test]
    fn what_may_be_laid_over_and_cannot_be_read_is_missing() {
        for known in [
            with_dir(""),
            with_dir("==> /etc/other.d <==\n"),
            with_dir("==> /etc/kubelet.d <==\n==> /etc/kubelet.d/a.conf <==\na: [\n"),
            with_dir("").with_exit(&DROP_INS, 0, "==> /etc/kubelet.d <==\n", "cat: a.conf: Permission denied\n"),
            with_dir("").without(Source::Query(&DROP_INS), Why::TimedOut),
        ] {
            assert!(known.kubelet_config().is_err(), "{:?}", known.query(&DROP_INS));
        }
        assert!(with_dir("==> /etc/kubelet.d/ <==\n").kubelet_config().is_ok(), "there is none");
        let plain = facts().with_file(FILE, &sample::with(""));
        assert!(plain.kubelet_config().is_ok(), "no such flag is known");
    }

    #[test]
    fn thresholds_are_the_kubelets_own() {
        for (text, threshold) in [
            ("10%", Some(Some(Threshold::Share(1000)))),
            ("7.5%", Some(Some(Threshold::Share(750)))),
            ("0%", Some(None)),
            ("100%", Some(None)),
            ("1Gi", Some(Some(Threshold::Amount(1 << 30)))),
            ("500M", Some(Some(Threshold::Amount(500_000_000)))),
            ("1024", Some(Some(Threshold::Amount(1024)))),
            ("much", None),
            ("%", None),
        ] {
            assert_eq!(Threshold::parse(text), threshold, "{text}");
        }
        assert_eq!((Threshold::Share(750).of(1000), Threshold::Amount(7).of(1000)), (75, 7));
        let of = |lines: &str, signal: &str| {
            let cluster = facts().without_file(crate::fact::kubeconfig::KUBELET);
            cluster.with_api("kubelet-config", &sample::with(lines)).eviction_threshold(signal)
        };
        assert_eq!(of("", "nodefs.available"), Ok(Some(Threshold::Share(1000))));
        let one = "evictionHard:\n  nodefs.available: 1Gi\n";
        assert_eq!(of(one, "nodefs.available"), Ok(Some(Threshold::Amount(1 << 30))));
        assert_eq!(of(one, "imagefs.available"), Ok(None), "who sets one has no other");
        let merged = format!("{one}mergeDefaultEvictionSettings: true\n");
        assert_eq!(of(&merged, "imagefs.available"), Ok(Some(Threshold::Share(1500))));
        assert!(of("evictionHard:\n  nodefs.available: x\n", "nodefs.available").is_err());
        let not_asked = facts().without_file(crate::fact::kubeconfig::KUBELET);
        assert_eq!(not_asked.eviction_threshold("nodefs.available").unwrap_err().why, Why::NotAsked);
        let flag = not_asked
            .with_query(&crate::fact::unit::KUBELET, &crate::fact::unit::sample::packaged())
            .with_file(crate::fact::unit::DEFAULTS, "KUBELET_EXTRA_ARGS=--eviction-hard=nodefs.available<3%\n");
        assert_eq!(flag.eviction_threshold("nodefs.available"), Ok(Some(Threshold::Share(300))));
        assert_eq!(flag.eviction_threshold("imagefs.available"), Ok(None));
    }

    #[test]
    fn what_is_not_a_configuration_says_why() {
        assert_eq!(parse("kind: Pod\n"), Err("its kind is Pod, not KubeletConfiguration".to_owned()));
        assert_eq!(parse("a: 1\n"), Err("it has no kind".to_owned()));
        assert!(parse("a: [").unwrap_err().starts_with("not YAML as expected: "));
        assert_eq!(facts().cluster_kubelet_config().unwrap_err().why, Why::NotAsked);
        let known = facts().with_api("kubelet-config", &sample::with(""));
        assert_eq!(known.cluster_kubelet_config().expect("known").cgroup_driver, None);
    }

    proptest! {
        #[test]
        fn any_text_is_a_configuration_or_an_error(text in "(kind: KubeletConfiguration|cgroupDriver|[:\\-\n &*!\\[{]|.)*") {
            let _ = parse(&text);
            let _ = (parse_drop_ins(&text), Threshold::parse(&text));
            let _ = with_dir(&format!("==> /etc/kubelet.d <==\n{text}")).kubelet_config();
        }
    }
}
