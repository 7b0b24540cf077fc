//! A cluster: `kubeadm init` on one machine, flannel, and what is asked of it with kubectl.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::build::Parts;
use crate::build::go::{FLANNEL, KUBERNETES};
use crate::build::image::BUSYBOX;
use crate::error::{During, Error, Result, said};
use crate::lab::{Lab, Record};
use crate::machine::{Images, Kind, Machine};
use crate::run::{Done, Polled, Run, wait_for};

/// Eight seconds on an idle machine; kubeadm itself gives up after four minutes.
const INIT_DEADLINE: Duration = Duration::from_mins(5);
/// kubeadm's own longest wait is five minutes; it must be the one that gives up.
const JOIN_DEADLINE: Duration = Duration::from_secs(330);
const READY_DEADLINE: Duration = Duration::from_mins(2);
/// crictl is neither in Debian nor in the Go module proxy, and kubeadm 1.29 asks for it.
pub const NO_CRICTL: &str = "--ignore-preflight-errors=FileExisting-crictl";

pub struct Cluster {
    pub control: Arc<Machine>,
    pub kubeconfig: PathBuf,
    /// Words of the command that joins a worker, as kubeadm prints it.
    pub join: Vec<String>,
    pub times: Vec<(&'static str, Duration)>,
    kubectl: PathBuf,
}

impl Cluster {
    /// A control plane on a machine of its own, Ready, with flannel.
    pub fn start(lab: &Lab, parts: &Parts) -> Result<Self> {
        let site = lab.site();
        let name = site.control_name;
        let control = Machine::start(lab, parts, name, site.control(), Kind::Debian12, Images::ControlPlane)?;
        let boot = control.boot;
        let address = site.control().to_string();
        let fill = |text: &str, version: &str| {
            let text = text.replace("@ADDRESS@", &address).replace("@NAME@", name);
            text.replace("@VERSION@", version).replace("@PODS@", &site.pods())
        };
        let config = fill(include_str!("../files/kubeadm-init.yaml"), KUBERNETES);
        control.write("/root/kubeadm-init.yaml", &config)?;
        let init = control.run(["kubeadm", "init", "--config", "/root/kubeadm-init.yaml"]).deadline(INIT_DEADLINE);
        let init = init.narrated("waiting for kubeadm init").done()?.success()?.took;
        let kubeconfig = lab.disk().join("admin.conf");
        fs::write(&kubeconfig, control.read("/etc/kubernetes/admin.conf")?).at("write", &kubeconfig)?;
        let printed = control.ok(["kubeadm", "token", "create", "--print-join-command"])?;
        let join = printed.split_whitespace().map(str::to_owned).collect();
        let kubectl = parts.programs("kube")?.join("kubectl");
        let mut cluster = Self { control: Arc::new(control), kubeconfig, join, times: Vec::new(), kubectl };
        let flannel = fill(include_str!("../files/flannel.yaml"), FLANNEL);
        cluster.apply(&flannel.replace("@BUSYBOX@", BUSYBOX))?;
        let ready = cluster.wait_ready(name)?;
        cluster.times =
            vec![("boot of the control plane", boot), ("kubeadm init", init), ("control plane Ready", ready)];
        Ok(cluster)
    }

    /// A cluster that another run started.
    pub fn attach(lab: &Lab, parts: &Parts, record: &Record) -> Result<Self> {
        let control = Machine::attach(lab, parts, record.machine(lab.site().control_name)?);
        let join = record.join.as_deref().unwrap_or_default().split_whitespace().map(str::to_owned).collect();
        let kubeconfig = record.kubeconfig.clone().unwrap_or_default();
        let kubectl = parts.programs("kube")?.join("kubectl");
        Ok(Self { control: Arc::new(control), kubeconfig, join, times: Vec::new(), kubectl })
    }

    pub fn kubectl<A: AsRef<str>>(&self, args: impl IntoIterator<Item = A>) -> Run {
        let args: Vec<String> = args.into_iter().map(|arg| arg.as_ref().to_owned()).collect();
        kubectl(&self.kubectl, &self.kubeconfig).args(args)
    }

    /// The program itself.
    pub fn kubectl_program(&self) -> &Path {
        &self.kubectl
    }

    pub fn apply(&self, manifests: &str) -> Result<()> {
        self.kubectl(["apply", "-f", "-"]).input(manifests).ok().map(drop)
    }

    /// An object as the API server has it.
    pub fn get<A: AsRef<str>>(&self, args: impl IntoIterator<Item = A>) -> Result<Value> {
        let args = args.into_iter().map(|arg| arg.as_ref().to_owned());
        let text = self.kubectl(["get", "-o", "json"].map(str::to_owned).into_iter().chain(args)).ok()?;
        serde_json::from_str(&text).map_err(|error| Error::Said(format!("kubectl printed no JSON: {error}")))
    }

    /// Plain `kubeadm join`, whatever comes of it.
    pub fn try_join(&self, worker: &Machine, more: &[&str]) -> Result<Done> {
        let mut argv = self.join.clone();
        argv.extend(more.iter().map(|&word| word.to_owned()));
        if worker.identity.kind == Kind::Debian12Kube129 {
            argv.push(NO_CRICTL.to_owned());
        }
        worker.run(argv).deadline(JOIN_DEADLINE).done()
    }

    /// Plain `kubeadm join` that must succeed; how long it took.
    pub fn join(&self, worker: &Machine) -> Result<Duration> {
        Ok(self.try_join(worker, &[])?.success()?.took)
    }

    /// Waits until the API server says Ready=True of a node; how long it took.
    pub fn wait_ready(&self, node: &str) -> Result<Duration> {
        let begun = Instant::now();
        let object = format!("node/{node}");
        let timeout = format!("--timeout={}s", READY_DEADLINE.as_secs());
        // kubectl watches, which costs two cores less than asking again and again.
        for what in ["--for=create", "--for=condition=Ready"] {
            let waited = self.kubectl(["wait", what, &object, &timeout]).deadline(READY_DEADLINE * 2).done()?;
            if !waited.status.success() {
                let node = self.kubectl(["get", "node", node, "-o", "json"]).done()?;
                let ready = serde_json::from_str(&node.out).map(|node: Value| condition(&node, "Ready").to_string());
                let last = format!("{}{}", waited.err, ready.unwrap_or(node.err));
                return Err(Error::Deadline { what: format!("{object} to be Ready"), after: begun.elapsed(), last });
            }
        }
        Ok(begun.elapsed())
    }

    /// Runs a web server in a pod on the node and asks it for a page from the control plane; how long until it answered.
    pub fn pod_answers(&self, machine: &Machine) -> Result<Duration> {
        let begun = Instant::now();
        let node = machine.identity.name.as_str();
        has_subnet(machine)?;
        self.apply(&include_str!("../files/pod.yaml").replace("@NODE@", node).replace("@BUSYBOX@", BUSYBOX))?;
        let what = format!("the pod on {node} to answer the control plane");
        let answered = wait_for(&what, READY_DEADLINE, || {
            let pod = self.get(["pod", &format!("web-{node}")])?;
            let Some(address) = pod["status"]["podIP"].as_str() else {
                return Ok(Polled::NotYet(pod["status"].to_string()));
            };
            let page = self.control.run(["curl", "-sS", "-m", "2", &format!("http://{address}/")]).done()?;
            Ok(if page.out.trim() == format!("web-{node}") { Polled::Seen(()) } else { Polled::NotYet(page.text()) })
        });
        if let Err(error) = answered {
            let events = self.kubectl(["describe", "pod", &format!("web-{node}")]).done()?.text();
            return said(format!("{error}\n{events}"));
        }
        self.kubectl(["delete", "pod", &format!("web-{node}"), "--grace-period=0", "--force"]).ok()?;
        Ok(begun.elapsed())
    }

    /// Says to the API server that a node is no longer heard of, as its controllers would after 50 s.
    pub fn declare_lost(&self, node: &str) -> Result<()> {
        let patch = json!({ "status": { "conditions": [{ "type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown", "message": "Kubelet stopped posting node status." }] } });
        self.kubectl(["patch", "node", node, "--subresource=status", "--type=strategic", "-p", &patch.to_string()])
            .ok()
            .map(drop)
    }

    /// Says to the API server that a node's kubelet last renewed its lease so long ago.
    pub fn age_lease(&self, node: &str, age: SignedDuration) -> Result<()> {
        let now = Timestamp::now();
        let renewed = now.checked_sub(age).unwrap_or(now).strftime("%Y-%m-%dT%H:%M:%S.000000Z").to_string();
        let patch = json!({ "spec": { "renewTime": renewed } }).to_string();
        self.kubectl(["patch", "lease", "-n", "kube-node-lease", node, "--type=merge", "-p", &patch]).ok().map(drop)
    }

    pub fn delete_node(&self, node: &str) -> Result<()> {
        self.kubectl(["delete", "node", node, "--ignore-not-found"]).ok().map(drop)
    }
}

/// Waits until flannel has written down the node's range. The node is Ready before that, and a pod that comes in between fails
/// once and is tried again after ten seconds.
fn has_subnet(machine: &Machine) -> Result<()> {
    const SCRIPT: &str = "for i in $(seq 1200); do [ -s /run/flannel/subnet.env ] && exit; sleep 0.1; done; exit 1";
    machine.run(["sh", "-c", SCRIPT]).deadline(READY_DEADLINE * 2).ok().map(drop)
}

pub fn kubectl(program: &Path, kubeconfig: &Path) -> Run {
    Run::new(program).env("KUBECONFIG", kubeconfig)
}

/// A Node's condition by its type; Null where it has none.
pub fn condition<'a>(node: &'a Value, kind: &str) -> &'a Value {
    static NONE: Value = Value::Null;
    let conditions = node["status"]["conditions"].as_array();
    conditions.and_then(|all| all.iter().find(|condition| condition["type"] == kind)).unwrap_or(&NONE)
}
