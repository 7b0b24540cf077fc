//! `fault` and `capture`: a broken machine for a person to look at, and what a person would see of it, kept for tests.
//!
//! A capture is a folder with three files: `paste.txt`, what somebody would paste into a chat; `bundle.tar.gz`, what
//! `carrick collect` makes of the same machine; `expected.toml`, which says what was done to it. Secrets are taken out.
//!
//! Each lane of a recording has a control plane of its own, so that no machine sees the faults of another.

mod bundle;
mod paste;
mod sound;

use std::collections::VecDeque;
use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::build::{self, Part, Parts};
use crate::cache::{Cache, discard};
use crate::cluster::Cluster;
use crate::error::{During, Error, Result, said};
use crate::fault::{self, FAULTS, Fault, KubeadmTimeouts, RegisteredFault, Scene};
use crate::lab::Lab;
use crate::machine::{Machine, net};
use crate::need::Need;
use crate::run::Done;
use crate::{need, say, stop, up};

use self::paste::PasteStyle;

/// The labs captures are made in, one a lane, beside a person's and the tests'.
const LAB: &str = "capture";
/// A control plane takes a gigabyte and a half, and a tenth of a core while nothing happens.
const MOST_LANES: usize = 8;
/// Where captures are kept, and where those are that nobody looks at who writes signatures.
const KEPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/captures");
const KEPT_AGAIN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/captures-again");

#[derive(clap::Args)]
pub struct Options {
    /// The captures to make, by name; all of them where none is named
    names: Vec<String>,
    /// Where they go, each in a folder by its name (default: lab/captures, with --again lab/captures-again)
    #[arg(long)]
    out: Option<PathBuf>,
    /// Let kubeadm wait for as long as it does by default: minutes
    #[arg(long)]
    full: bool,
    /// Only the third that is set aside, with other names, addresses, order and format
    #[arg(long)]
    again: bool,
    /// How many at a time, each with a control plane of its own
    #[arg(long, default_value_t = 4)]
    jobs: usize,
    /// Say which there are, and make none
    #[arg(long)]
    list: bool,
}

/// Puts a machine of a running lab into a broken state, and leaves it so.
pub fn put_in(cache: &Cache, lab: &str, name: &str, machine: &str) -> Result<()> {
    let fault = fault::find(name)?.fault;
    let parts = build::build(cache, parts_for(fault))?;
    let lab = Lab::take(cache, lab)?;
    let record = lab.running()?;
    lab.enter()?;
    let machine = Machine::attach(&lab, &parts, record.machine(machine)?);
    let cluster = Cluster::attach(&lab, &parts, &record)?;
    let mut scene = Scene::new(&lab, &parts, &cluster, machine.into(), KubeadmTimeouts::Short)?;
    (fault.put_in)(&mut scene)?;
    say::line(&format!("{}: {}", scene.node_name(), fault.about));
    say::plain(&format!("now try:  cargo xtask lab shell {} {}", scene.node_name(), scene.join_line()));
    Ok(())
}

fn parts_for(fault: &Fault) -> impl Iterator<Item = Part> {
    fault.needs().into_iter().flat_map(Need::parts)
}

/// All that can be captured: the faults, and machines with nothing wrong.
fn all() -> impl Iterator<Item = &'static RegisteredFault> {
    FAULTS.iter().chain(sound::SOUND)
}

/// Whether a capture is one of the third that is set aside: FNV-1a (64 bits) of its name, divisible by three.
fn is_set_aside(name: &str) -> bool {
    fnv_1a(name).is_multiple_of(3)
}

fn fnv_1a(name: &str) -> u64 {
    const BASIS: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0100_0000_01b3;
    name.bytes().fold(BASIS, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(PRIME))
}

fn chosen(options: &Options) -> Result<Vec<&'static RegisteredFault>> {
    let known = || all().map(|one| one.name).collect::<Vec<_>>().join(", ");
    let unknown = options.names.iter().find(|name| all().all(|one| one.name != **name));
    if let Some(name) = unknown {
        return said(format!("no capture \"{name}\"; there are: {}", known()));
    }
    let named = |one: &&RegisteredFault| options.names.is_empty() || options.names.iter().any(|name| name == one.name);
    Ok(all().filter(named).filter(|one| !options.again || is_set_aside(one.name)).collect())
}

pub fn capture(cache: &Cache, lab: Option<&str>, options: &Options) -> Result<ExitCode> {
    let wanted = chosen(options)?;
    if options.list {
        for one in wanted {
            let aside = if is_set_aside(one.name) { "set aside" } else { "" };
            say::plain(&format!("{:<32} {:<28} {:<9} {}", one.name, one.fault.cause, aside, one.fault.about));
        }
        return Ok(ExitCode::SUCCESS);
    }
    let begun = Instant::now();
    need::for_machines("capture")?;
    let parts = build::build(cache, wanted.iter().flat_map(|one| parts_for(one.fault)))?;
    let labs = take_labs(cache, lab.unwrap_or(LAB), options)?;
    let recording = Recording {
        parts: &parts,
        cache,
        patience: if options.full { KubeadmTimeouts::AsKubeadm } else { KubeadmTimeouts::Short },
        again: options.again,
        out: options.out.clone().unwrap_or_else(|| PathBuf::from(if options.again { KEPT_AGAIN } else { KEPT })),
        queue: Mutex::new(wanted.into_iter().collect()),
        endings: Mutex::default(),
    };
    thread::scope(|scope| {
        for lab in &labs {
            scope.spawn(|| {
                if let Err(error) = recording.lane(lab) {
                    recording.end("a lane", Err(error));
                }
            });
        }
    });
    // All at once: this process is in the groups of the last of them, and so is whatever the others started.
    for lab in &labs {
        lab.clear()?;
    }
    stop::check()?;
    recording.sum_up(begun.elapsed())
}

/// The labs of the lanes, and none of an earlier run left that had more of them.
fn take_labs(cache: &Cache, name: &str, options: &Options) -> Result<Vec<Lab>> {
    let site = if options.again { net::OTHER } else { net::USUAL };
    let mut labs = Vec::new();
    for n in 1..=MOST_LANES {
        let lab = Lab::take(cache, &format!("{name}-{n}"))?.with_site(site).with_own_disk();
        lab.clear_leftovers()?;
        if n <= options.jobs.max(1) {
            labs.push(lab);
        }
    }
    Ok(labs)
}

struct Recording<'a> {
    parts: &'a Parts,
    cache: &'a Cache,
    patience: KubeadmTimeouts,
    again: bool,
    out: PathBuf,
    queue: Mutex<VecDeque<&'static RegisteredFault>>,
    endings: Mutex<Vec<(&'static str, Result<Size>)>>,
}

/// How large a capture is, in bytes.
#[derive(Clone, Copy, Default)]
struct Size {
    paste: u64,
    bundle: u64,
}

impl Recording<'_> {
    /// Makes captures one after another, until none is left to make.
    fn lane(&self, lab: &Lab) -> Result<()> {
        lab.prepare()?;
        let cluster = up::start_cluster(lab, self.parts)?;
        while !stop::asked()
            && let Some(one) = self.queue.lock().ok().and_then(|mut queue| queue.pop_front())
        {
            let begun = Instant::now();
            let made = self.one(lab, &cluster, one);
            let took = say::seconds(begun.elapsed());
            match &made {
                Ok(size) => say::line(&format!(
                    "captured {:<32} {took:>8}  paste {} kB, bundle {} kB",
                    one.name,
                    size.paste.div_ceil(1000),
                    size.bundle.div_ceil(1000)
                )),
                // Given up, not failed.
                Err(_) if stop::asked() => return Ok(()),
                Err(error) => say::line(&format!("FAILED   {:<32} {took:>8}  {error}", one.name)),
            }
            self.end(one.name, made);
        }
        Ok(())
    }

    fn end(&self, name: &'static str, made: Result<Size>) {
        if let Ok(mut endings) = self.endings.lock() {
            endings.push((name, made));
        }
    }

    fn one(&self, lab: &Lab, cluster: &Cluster, one: &RegisteredFault) -> Result<Size> {
        let worker = up::worker(lab, self.parts, one.fault.on)?;
        let mut scene = Scene::new(lab, self.parts, cluster, worker, self.patience)?;
        let made = fault::show(&mut scene, one.fault).and_then(|()| self.keep(&scene, one));
        let cleared = scene.clear().and_then(|()| scene.machine.remove()).and_then(|()| forget(cluster));
        made.and_then(|size| cleared.map(|()| size))
    }

    /// Writes the capture beside its place, and puts it there when it is whole.
    fn keep(&self, scene: &Scene, one: &RegisteredFault) -> Result<Size> {
        let (raw, place) = (self.out.join(format!(".{}", one.name)), self.out.join(one.name));
        discard(&raw)?;
        fs::create_dir_all(&raw).at("make", &raw)?;
        let manner = PasteStyle { iso: self.again, reversed: self.again, banners: fnv_1a(one.name) % 7 < 2 };
        let paste = paste::of(scene, &manner)?;
        let written = |file: &str, bytes: &[u8]| fs::write(raw.join(file), bytes).at("write", &raw.join(file));
        written("paste.txt", self.unlabbed(&paste).as_bytes())?;
        let bundle = bundle::of(scene, |text| self.unlabbed(text))?;
        written("bundle.tar.gz", &bundle)?;
        written("expected.toml", expected(one, &scene.attempts())?.as_bytes())?;
        discard(&place)?;
        fs::rename(&raw, &place).at("put in place", &place)?;
        let size = |file: &str| fs::metadata(place.join(file)).map(|file| file.len()).unwrap_or_default();
        Ok(Size { paste: size("paste.txt"), bundle: size("bundle.tar.gz") })
    }

    /// A machine's mounts name places outside of it: whose home the cache is in is nobody's business.
    fn unlabbed(&self, text: &str) -> String {
        text.replace(&self.cache.root().display().to_string(), "/var/lib/carrick-lab")
    }

    fn sum_up(self, took: Duration) -> Result<ExitCode> {
        let endings = self.endings.into_inner().or_else(|_| said("a capture took the recorder down with it"))?;
        let made: Vec<Size> = endings.iter().filter_map(|(_, made)| made.as_ref().ok().copied()).collect();
        for (name, error) in endings.iter().filter_map(|(name, made)| Some((name, made.as_ref().err()?))) {
            say::plain(&format!("\n{name}: {error}"));
        }
        let failed = endings.len() - made.len();
        let bytes: u64 = made.iter().map(|size| size.paste + size.bundle).sum();
        say::plain(&format!(
            "\n{} captured, {failed} failed in {}: {} kB in {}",
            made.len(),
            say::seconds(took),
            bytes / 1000,
            self.out.display()
        ));
        Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

/// Takes away what one capture left in the cluster, so that the next one finds it as new.
fn forget(cluster: &Cluster) -> Result<()> {
    let control = &cluster.control.identity.name;
    let (nodes, pods) = (format!("metadata.name!={control}"), format!("spec.nodeName!={control}"));
    for words in [
        &["delete", "nodes", "--field-selector", &nodes][..],
        &["delete", "pods", "--all-namespaces", "--field-selector", &pods, "--grace-period=0", "--force"],
        &["delete", "certificatesigningrequests", "--all"],
        &["delete", "events", "--all", "--all-namespaces"],
    ] {
        cluster.kubectl(words).ok()?;
    }
    Ok(())
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

fn expected(one: &RegisteredFault, attempts: &[Done]) -> Result<String> {
    let Fault { about, cause, on, .. } = one.fault;
    let kubeadm = attempts
        .iter()
        .map(|done| Attempt { exit: done.code(), seconds: (done.took.as_secs_f64() * 10.0).round() / 10.0 });
    let expected = Expected { fault: one.name, about, cause, machine: on.name(), kubeadm: kubeadm.collect() };
    toml::to_string(&expected).map_err(|error| Error::Said(format!("cannot write expected.toml: {error}")))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn about_a_third_is_set_aside_and_the_choice_does_not_change() {
        // The published test vectors of FNV-1a.
        assert_eq!((fnv_1a(""), fnv_1a("a")), (0xcbf2_9ce4_8422_2325, 0xaf63_dc4c_8601_ec8c));
        let (aside, all_of_them) = (all().filter(|one| is_set_aside(one.name)).count(), all().count());
        assert!((all_of_them / 4..=all_of_them / 2).contains(&aside), "{aside} of {all_of_them}");
    }

    #[test]
    fn names_are_unique() {
        let names: BTreeSet<&str> = all().map(|one| one.name).collect();
        assert_eq!(names.len(), all().count());
    }

    /// What only the cluster, or time, can tell: no check of a machine about to join judges it.
    const BEYOND_CHECKS: &[&str] = &[
        "none",
        "api.slow",
        "cni.daemon-crash-loop",
        "csr.denied",
        "csr.pending",
        "kube-proxy.crash-loop",
        "node.deleted",
    ];

    #[test]
    fn a_cause_is_a_checks_id_or_one_that_no_check_can_have() {
        let checks: BTreeSet<&str> = carrick_core::check::CHECKS.iter().map(|one| one.check.id).collect();
        for one in all() {
            let cause = one.fault.cause;
            assert!(checks.contains(cause) != BEYOND_CHECKS.contains(&cause), "{}: {cause}", one.name);
        }
    }
}
