//! Everything the lab needs that is not on the machine already, in the order it can be made. See `cache` for when it is.

pub mod go;
pub mod image;
pub mod root;
mod template;

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Instant;
use std::{fs, io, thread};

use self::root::Suite;
use crate::cache::{Cache, CacheKey, discard};
use crate::error::{During, Result, said};
use crate::machine::Kind;
use crate::need::{DEBOOTSTRAP, KEYGEN, Tools};
use crate::{lock, say};

/// What machines are made from, in the order in which it can be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// The programs of a module in `lab/go`.
    Programs(&'static str),
    Root(Suite),
    /// The layer that makes a root a node.
    Node,
    /// On top of that, kubeadm and kubelet 1.29.
    OldNode,
    /// The container images, as archives.
    Images,
    /// `/var/lib/containerd` with the images unpacked: copying it takes a tenth of the time of importing them.
    Store(Store),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Store {
    Debian12,
    Debian13,
    ControlPlane,
}

impl Part {
    pub const CONTROL_PLANE: &[Self] = &[Self::Root(Suite::Bookworm), Self::Node, Self::Store(Store::ControlPlane)];

    /// What a worker of a kind is made of.
    pub fn of(kind: Kind) -> Vec<Self> {
        let (suite, store) = match kind {
            Kind::Debian12 | Kind::Debian12Kube129 => (Suite::Bookworm, Store::Debian12),
            Kind::Debian13 => (Suite::Trixie, Store::Debian13),
        };
        let old = (kind == Kind::Debian12Kube129).then_some(Self::OldNode);
        [Self::Root(suite), Self::Node, Self::Store(store)].into_iter().chain(old).collect()
    }

    /// What has to be there first.
    fn below(self) -> &'static [Self] {
        match self {
            Self::Programs(_) | Self::Root(_) => &[],
            Self::Node => &[Self::Programs("kube"), Self::Programs("cni-flannel")],
            Self::OldNode => &[Self::Programs("kube-1.29")],
            Self::Images => image::BELOW,
            Self::Store(Store::Debian12 | Store::ControlPlane) => {
                &[Self::Images, Self::Root(Suite::Bookworm), Self::Node]
            }
            Self::Store(Store::Debian13) => &[Self::Images, Self::Root(Suite::Trixie), Self::Node],
        }
    }
}

/// Parts, and all that they are made from.
pub fn with_all_below(parts: impl IntoIterator<Item = Part>) -> BTreeSet<Part> {
    let mut open: Vec<Part> = parts.into_iter().collect();
    let mut all = BTreeSet::new();
    while let Some(part) = open.pop() {
        if all.insert(part) {
            open.extend(part.below());
        }
    }
    all
}

/// What was built for this run.
pub struct Parts {
    places: BTreeMap<Part, PathBuf>,
    /// The key the lab logs in with.
    pub key: PathBuf,
}

impl Parts {
    pub fn place(&self, part: Part) -> Result<&Path> {
        match self.places.get(&part) {
            Some(place) => Ok(place),
            None => said(format!("{part:?} was not built: nothing that was chosen said that it needs it")),
        }
    }

    /// The folder of a module's programs.
    pub fn programs(&self, module: &'static str) -> Result<&Path> {
        self.place(Part::Programs(module))
    }
}

/// Everything that any machine of the lab is made of.
pub fn everything() -> Vec<Part> {
    Kind::ALL.into_iter().flat_map(Part::of).chain(Part::CONTROL_PLANE.iter().copied()).collect()
}

/// Builds parts, with all that they are made from, where they are not there yet.
pub fn build(cache: &Cache, wanted: impl IntoIterator<Item = Part>) -> Result<Parts> {
    let begun = Instant::now();
    let wanted = with_all_below(wanted);
    let mut tools = Tools::default();
    tools_to_build(cache, &wanted, &mut tools)?;
    tools.ask()?;
    has_room(cache)?;
    let _lock = lock::waiting(&cache.root().join("lock"), "the lab's cache")?;
    let mut parts = Parts { places: BTreeMap::new(), key: build_key(cache)? };
    let (roots, programs) = thread::scope(|scope| {
        // debootstrap waits for the network and for one core, Go takes what is left.
        let roots = scope.spawn(|| build_roots(cache, &wanted));
        let programs = go::build(cache, &wanted)?;
        Result::Ok((roots.join().unwrap_or_else(|_| said("making the Debian roots panicked"))?, programs))
    })?;
    parts.places.extend(roots.into_iter().chain(programs));
    for part in wanted {
        let place = match part {
            Part::Programs(_) | Part::Root(_) => continue,
            Part::Node => root::node_layer(cache, &parts)?,
            Part::OldNode => root::old_layer(cache, &parts)?,
            Part::Images => image::build(cache, &parts)?,
            Part::Store(store) => template::build(cache, &parts, store)?,
        };
        parts.places.insert(part, place);
    }
    link_current(cache)?;
    cache.prune()?;
    let place = cache.root().display();
    match cache.built().as_slice() {
        [] => say::line(&format!("everything was built before; nothing to do (in {place})")),
        built => say::line(&format!("built {} in {} (in {place})", built.join(", "), say::seconds(begun.elapsed()))),
    }
    Ok(parts)
}

fn build_roots(cache: &Cache, wanted: &BTreeSet<Part>) -> Result<Vec<(Part, PathBuf)>> {
    let roots = wanted.iter().filter_map(|part| match part {
        Part::Root(suite) => Some(suite.build(cache).map(|place| (*part, place))),
        _ => None,
    });
    roots.collect()
}

/// What has to be installed here to make what is not there yet.
pub fn tools_to_build(cache: &Cache, wanted: &BTreeSet<Part>, tools: &mut Tools) -> Result<()> {
    if cache.find("key", CacheKey::new()).is_none() {
        tools.wanted(&[KEYGEN], "the key to log in with");
    }
    for part in wanted {
        match part {
            Part::Programs(module) => go::tools_to_build(cache, module, tools)?,
            Part::Root(suite) if !suite.is_built(cache) => {
                tools.wanted(&[DEBOOTSTRAP], &format!("making a Debian root ({})", suite.name()));
            }
            _ => {}
        }
    }
    Ok(())
}

fn has_room(cache: &Cache) -> Result<()> {
    /// Roots, images and stores take 5 GB, a test run with several machines another two.
    const NEEDED_GB: u64 = 8;
    let space = rustix::fs::statvfs(cache.root()).map_err(io::Error::from).at("look at the room in", cache.root())?;
    let free = space.f_bavail.saturating_mul(space.f_frsize) / 1_000_000_000;
    if free < NEEDED_GB {
        return said(format!("the lab needs {NEEDED_GB} GB free in {} and has {free} GB", cache.root().display()));
    }
    Ok(())
}

/// The key the lab logs in to its machines with.
pub fn build_key(cache: &Cache) -> Result<PathBuf> {
    Ok(cache.entry("key", CacheKey::new(), template::login_key)?.join("id"))
}

/// `current/` has every program that is built under its own name, for tests that want a kube-apiserver and know nothing of
/// the lab.
fn link_current(cache: &Cache) -> Result<()> {
    let root = cache.root();
    let (raw, place) = (root.join("current-new"), root.join("current"));
    discard(&raw)?;
    fs::create_dir_all(&raw).at("make", &raw)?;
    for program in go::current(cache)? {
        let link = raw.join(program.file_name().unwrap_or_default());
        symlink(&program, &link).at("link", &link)?;
    }
    discard(&place)?;
    fs::rename(&raw, &place).at("put in place", &place)
}
