//! The image every pod begins with is not there, and a registry has it: carrick has the runtime pull it, and joins.

use super::{Bench, Case};
use crate::build::{Part, image};
use crate::coverage::Covers;
use crate::demand;
use crate::error::Result;
use crate::fault::{self, KubeadmTimeouts, Scene};
use crate::join::{fresh, joins};
use crate::machine::Kind;
use crate::need::Need;
use crate::registry::Registry;
use crate::tier::Tier;

pub const CASE: Case = Case {
    about: "carrick join of a machine without the pause image has the runtime pull it from a registry, and joins",
    tier: Tier::Standard,
    covers: &[Covers::Verb("join")],
    needs: &[Need::Cluster, Need::Machine(Kind::Debian12)],
    run,
};

/// All names are looked up there, as behind a mirror.
const MIRROR: &str = r#"mkdir -p /etc/containerd/certs.d/registry.k8s.io
printf '[host."http://%s"]\n  capabilities = ["pull", "resolve"]\n' "$1" > /etc/containerd/certs.d/registry.k8s.io/hosts.toml
printf '\n[plugins."io.containerd.grpc.v1.cri".registry]\n  config_path = "/etc/containerd/certs.d"\n' >> /etc/containerd/config.toml
systemctl restart containerd"#;
const HAS: &str = "ctr -n k8s.io images ls -q name==registry.k8s.io/pause:3.10.1";

fn run(bench: &mut Bench) -> Result<()> {
    let (cluster, worker) = (bench.cluster()?, fresh(bench)?);
    let archive = bench.parts.place(Part::Images)?.join(image::WORKER);
    let registry = Registry::start(bench.lab.site().gateway(), &archive, image::PAUSE)?;
    let mut scene = Scene::new(bench.lab, bench.parts, cluster, worker.clone(), KubeadmTimeouts::Short)?;
    (fault::find("pause-image-missing")?.fault.put_in)(&mut scene)?;
    worker.ok(["sh", "-ec", MIRROR, "sh", &registry.address.to_string()])?;
    let before = worker.ok(["sh", "-ec", HAS])?;
    demand!(before.trim().is_empty(), "the pause image is still there: {before}");
    let done = joins(bench, &worker)?;
    bench.time("join", done.took);
    let asked = registry.asked();
    bench.say(format_args!("the registry was asked for {asked:#?}"));
    demand!(asked.iter().any(|path| path.contains("/pause/manifests/")), "nobody asked the registry: {asked:?}");
    let after = worker.ok(["sh", "-ec", HAS])?;
    demand!(!after.trim().is_empty(), "the pause image is not there after the join");
    Ok(())
}
