//! `up` and `down`: a lab that stays, for a person to work in.

use std::sync::Arc;
use std::thread;

use crate::build::{self, Part, Parts};
use crate::cache::Cache;
use crate::cluster::Cluster;
use crate::error::{Error, Result, said};
use crate::lab::{Lab, Record};
use crate::machine::{Images, Kind, Machine};
use crate::{say, stop};

pub fn up(cache: &Cache, name: &str, workers: u8, kind: Option<Kind>, join: bool) -> Result<()> {
    let lab = Lab::take(cache, name)?;
    let kinds: Vec<Kind> = (0..usize::from(workers)).map(|n| kind.unwrap_or(Kind::ALL[n % Kind::ALL.len()])).collect();
    let needed = kinds.iter().flat_map(|kind| Part::of(*kind)).chain(Part::CONTROL_PLANE.iter().copied());
    let parts = build::build(cache, needed)?;
    lab.clear_leftovers()?;
    let made = make(&lab, &parts, kinds, join);
    if stop::asked() {
        lab.clear()?;
    }
    made
}

fn make(lab: &Lab, parts: &Parts, kinds: Vec<Kind>, join: bool) -> Result<()> {
    lab.prepare()?;
    let cluster = start_cluster(lab, parts)?;
    let workers = start_workers(lab, parts, kinds)?;
    if join {
        for worker in &workers {
            let joined = cluster.join(worker)?;
            let ready = cluster.wait_ready(&worker.identity.name)?;
            say::line(&format!(
                "{} joined in {}, Ready {} later",
                worker.identity.name,
                say::seconds(joined),
                say::seconds(ready)
            ));
        }
    }
    let machines = std::iter::once(&cluster.control).chain(&workers).map(|machine| machine.identity.clone());
    lab.record(&Record {
        disk: lab.disk().to_owned(),
        machines: machines.collect(),
        kubeconfig: Some(cluster.kubeconfig.clone()),
        join: Some(cluster.join.join(" ")),
    })?;
    tell(&cluster, &workers, join);
    Ok(())
}

pub fn start_cluster(lab: &Lab, parts: &Parts) -> Result<Cluster> {
    say::line("starting the control plane");
    let cluster = Cluster::start(lab, parts)?;
    for (what, took) in &cluster.times {
        say::line(&format!("{what}: {}", say::seconds(*took)));
    }
    Ok(cluster)
}

fn start_workers(lab: &Lab, parts: &Parts, kinds: Vec<Kind>) -> Result<Vec<Arc<Machine>>> {
    thread::scope(|scope| {
        let numbered = kinds.into_iter().map(|kind| (lab.next_worker(), kind));
        let starting: Vec<_> = numbered.map(|(n, kind)| scope.spawn(move || nth_worker(lab, parts, n, kind))).collect();
        let started =
            starting.into_iter().map(|thread| thread.join().unwrap_or_else(|_| said("starting a worker panicked")));
        started.collect()
    })
}

/// A fresh worker with a name and an address of its own, booted, not joined.
pub fn worker(lab: &Lab, parts: &Parts, kind: Kind) -> Result<Arc<Machine>> {
    nth_worker(lab, parts, lab.next_worker(), kind)
}

fn nth_worker(lab: &Lab, parts: &Parts, n: u8, kind: Kind) -> Result<Arc<Machine>> {
    let address =
        lab.site().worker(n).ok_or_else(|| Error::Said("the lab has no address left for another worker".to_owned()))?;
    let machine = Machine::start(lab, parts, &lab.site().worker_name(n), address, kind, Images::Worker)?;
    Ok(Arc::new(machine))
}

fn tell(cluster: &Cluster, workers: &[Arc<Machine>], joined: bool) {
    for machine in std::iter::once(&cluster.control).chain(workers) {
        let identity = &machine.identity;
        let boot = say::seconds(machine.boot);
        say::plain(&format!(
            "  {:<6} {:<14} {:<18} booted in {boot}",
            identity.name,
            identity.address,
            identity.kind.name()
        ));
    }
    if !joined && !workers.is_empty() {
        say::plain(&format!("join one with:  cargo xtask lab shell w1 {}", cluster.join.join(" ")));
    }
    say::plain("look around:    cargo xtask lab shell cp1 · cargo xtask lab kubectl get nodes · cargo xtask lab down");
}

/// Cuts the power of machines, all at once, and boots them again with their disks as they are.
pub fn power_cut(cache: &Cache, name: &str, machines: &[String]) -> Result<()> {
    let lab = Lab::take(cache, name)?;
    // They are there; only the way into them is needed.
    let parts = build::build(cache, [])?;
    let record = lab.running()?;
    lab.enter()?;
    let named = machines.iter().map(|name| Ok(Machine::attach(&lab, &parts, record.machine(name)?)));
    let machines: Vec<Machine> = named.collect::<Result<_>>()?;
    for machine in &machines {
        machine.cut_power()?;
    }
    for machine in &machines {
        let took = machine.boot()?;
        say::line(&format!("{} booted again in {}", machine.identity.name, say::seconds(took)));
    }
    Ok(())
}

pub fn down(cache: &Cache, name: &str) -> Result<()> {
    let lab = Lab::take(cache, name)?;
    let was_there = lab.is_there();
    lab.clear()?;
    say::line(&if was_there { format!("the lab \"{name}\" is gone") } else { format!("there was no lab \"{name}\"") });
    Ok(())
}
