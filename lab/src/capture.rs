//! `fault` and `capture`: a broken machine for a person to look at, and what a person would see of it, kept for tests.
//!
//! A capture is a folder: what kubeadm printed, the journals, the state of units, the runtime and the files, the Node and
//! its CSRs, all with secrets taken out, and `expected.toml`, which says what was done to the machine.

use std::fs;
use std::path::{Path, PathBuf};

use carrick_core::redact::redact;
use serde::Serialize;

use crate::build;
use crate::cache::{Cache, discard};
use crate::cluster::Cluster;
use crate::error::{During, Error, Result};
use crate::fault::{self, Fault, Patience, Registered, Scene};
use crate::lab::Lab;
use crate::machine::Machine;
use crate::run::Done;
use crate::{say, up};

/// The lab captures are made in, beside a person's and the tests'.
const LAB: &str = "capture";

#[derive(clap::Args)]
pub struct Options {
    /// The faults to capture; all of them where none is named
    names: Vec<String>,
    /// Where the captures go, each in a folder by its fault's name
    #[arg(long)]
    out: PathBuf,
    /// Let kubeadm wait for as long as it does by default: minutes
    #[arg(long)]
    full: bool,
}

/// Puts a machine of a running lab into a broken state, and leaves it so.
pub fn put_in(cache: &Cache, lab: &str, name: &str, machine: &str) -> Result<()> {
    let fault = fault::find(name)?.fault;
    let parts = build::build(cache)?;
    let lab = Lab::take(cache, lab)?;
    let record = lab.running()?;
    lab.enter()?;
    let machine = Machine::attach(&lab, &parts, record.machine(machine)?);
    let cluster = Cluster::attach(&lab, &parts, &record)?;
    let mut scene = Scene::new(&lab, &parts, &cluster, machine.into(), Patience::Short)?;
    (fault.put_in)(&mut scene)?;
    say::line(&format!("{}: {}", scene.node_name(), fault.about));
    say::plain(&format!("now try:  cargo xtask lab shell {} {}", scene.node_name(), scene.join_line()));
    Ok(())
}

pub fn capture(cache: &Cache, lab: Option<&str>, options: &Options) -> Result<()> {
    let wanted: Vec<&Registered> = match options.names.as_slice() {
        [] => fault::FAULTS.iter().collect(),
        names => names.iter().map(|name| fault::find(name)).collect::<Result<_>>()?,
    };
    let parts = build::build(cache)?;
    let lab = Lab::take(cache, lab.unwrap_or(LAB))?;
    lab.clear_leftovers()?;
    lab.prepare()?;
    let cluster = up::start_cluster(&lab, &parts)?;
    let patience = if options.full { Patience::AsKubeadm } else { Patience::Short };
    for registered in wanted {
        let worker = up::worker(&lab, &parts, registered.fault.on)?;
        let mut scene = Scene::new(&lab, &parts, &cluster, worker, patience)?;
        let place = options.out.join(registered.name);
        let captured = one(&mut scene, registered, &place);
        scene.clear()?;
        scene.machine.remove()?;
        cluster.delete_node(scene.node_name())?;
        captured.map_err(|error| Error::Said(format!("{}: {error}", registered.name)))?;
        say::line(&format!("captured {} in {}", registered.name, place.display()));
    }
    lab.clear()
}

fn one(scene: &mut Scene, registered: &Registered, place: &Path) -> Result<()> {
    (registered.fault.put_in)(scene)?;
    (registered.fault.shows)(scene)?;
    discard(place)?;
    fs::create_dir_all(place).at("make", place)?;
    let attempts = scene.attempts();
    for (n, attempt) in attempts.iter().enumerate() {
        keep(place, &format!("kubeadm-{}.out", n + 1), &attempt.out)?;
        keep(place, &format!("kubeadm-{}.err", n + 1), &attempt.err)?;
    }
    for (file, argv) in MACHINE {
        keep(place, file, &scene.machine.run(*argv).done()?.text())?;
    }
    keep(place, "state.txt", &scene.machine.run(["sh", "-c", include_str!("../files/state.sh")]).done()?.text())?;
    for (file, words) in CLUSTER {
        keep(place, file, &scene.kubectl(words).done()?.text())?;
    }
    keep(place, "node.yaml", &scene.kubectl(&["get", "node", scene.node_name(), "-o", "yaml"]).done()?.text())?;
    keep(place, "expected.toml", &expected(registered, &attempts)?)
}

const MACHINE: &[(&str, &[&str])] = &[
    ("kubelet.journal", &["journalctl", "-b", "-u", "kubelet", "--no-pager", "-o", "short-iso"]),
    ("containerd.journal", &["journalctl", "-b", "-u", "containerd", "--no-pager", "-o", "short-iso"]),
    ("kubelet.status", &["systemctl", "status", "kubelet", "--no-pager", "-l"]),
    ("containerd.status", &["systemctl", "status", "containerd", "--no-pager", "-l"]),
    ("images.txt", &["ctr", "-n", "k8s.io", "images", "ls", "-q"]),
    ("containers.txt", &["ctr", "-n", "k8s.io", "containers", "ls"]),
];

const CLUSTER: &[(&str, &[&str])] = &[
    ("csrs.txt", &["get", "certificatesigningrequests", "-o", "wide"]),
    ("nodes.txt", &["get", "nodes", "-o", "wide"]),
    ("pods.txt", &["get", "pods", "-A", "-o", "wide"]),
    ("events.txt", &["get", "events", "-A", "--sort-by=.lastTimestamp"]),
];

fn keep(place: &Path, file: &str, text: &str) -> Result<()> {
    fs::write(place.join(file), redact(text)).at("write", &place.join(file))
}

/// What was done, and what came of it. The cause is written from the fault, never from what was seen.
#[derive(Serialize)]
struct Expected<'a> {
    fault: &'a str,
    about: &'a str,
    cause: &'a str,
    machine: &'a str,
    kubeadm: Vec<Attempt>,
}

#[derive(Serialize)]
struct Attempt {
    exit: i32,
    seconds: f64,
}

fn expected(registered: &Registered, attempts: &[Done]) -> Result<String> {
    let Fault { about, cause, on, .. } = registered.fault;
    let kubeadm = attempts
        .iter()
        .map(|done| Attempt { exit: done.code(), seconds: (done.took.as_secs_f64() * 10.0).round() / 10.0 });
    let expected = Expected { fault: registered.name, about, cause, machine: on.name(), kubeadm: kubeadm.collect() };
    toml::to_string(&expected).map_err(|error| Error::Said(format!("cannot write expected.toml: {error}")))
}
