//! Everything the lab needs that is not on the machine already, in the order it can be made. See `cache` for when it is.

pub mod go;
pub mod image;
pub mod root;
mod template;

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Instant;
use std::{fs, thread};

use self::go::Programs;
use self::image::Archives;
use self::root::Suite;
use crate::cache::{Cache, Key, discard};
use crate::error::{During, Result, said};
use crate::{lab, lock, say};

/// What machines are made from.
pub struct Parts {
    pub programs: Programs,
    pub bookworm: PathBuf,
    pub trixie: PathBuf,
    pub node: PathBuf,
    pub old_node: PathBuf,
    pub images: Archives,
    pub templates: Templates,
    /// The key the lab logs in with.
    pub key: PathBuf,
}

/// `/var/lib/containerd` with the images unpacked: copying it takes a tenth of the time of importing them.
#[derive(Default)]
pub struct Templates {
    pub control: PathBuf,
    pub bookworm: PathBuf,
    pub trixie: PathBuf,
}

pub fn build(cache: &Cache) -> Result<Parts> {
    let begun = Instant::now();
    lab::preflight_to_build(cache)?;
    let _lock = lock::waiting(&cache.root().join("lock"), "the lab's cache")?;
    let (programs, bookworm, trixie) = thread::scope(|scope| {
        // debootstrap waits for the network and for one core, Go takes what is left.
        let roots = scope.spawn(|| Ok((Suite::Bookworm.build(cache)?, Suite::Trixie.build(cache)?)));
        let programs = Programs::build(cache)?;
        let (bookworm, trixie) = roots.join().unwrap_or_else(|_| said("making the Debian roots panicked"))?;
        Result::Ok((programs, bookworm, trixie))
    })?;
    let node = root::node_layer(cache, &programs)?;
    let old_node = root::old_layer(cache, &programs)?;
    let images = image::build(cache, &programs, &bookworm)?;
    let key = build_key(cache)?;
    let mut parts = Parts { programs, bookworm, trixie, node, old_node, images, templates: Templates::default(), key };
    parts.templates = template::build(cache, &parts)?;
    link_current(cache.root(), &parts.programs)?;
    cache.prune()?;
    let place = cache.root().display();
    match cache.built().as_slice() {
        [] => say::line(&format!("everything was built before; nothing to do (in {place})")),
        built => say::line(&format!("built {} in {} (in {place})", built.join(", "), say::seconds(begun.elapsed()))),
    }
    Ok(parts)
}

/// The key the lab logs in to its machines with.
pub fn build_key(cache: &Cache) -> Result<PathBuf> {
    Ok(cache.entry("key", Key::new(), template::login_key)?.join("id"))
}

/// `current/` has every program under its own name, for tests that want a kube-apiserver and know nothing of the lab.
fn link_current(root: &Path, programs: &Programs) -> Result<()> {
    let (raw, place) = (root.join("current-new"), root.join("current"));
    discard(&raw)?;
    fs::create_dir_all(&raw).at("make", &raw)?;
    for program in programs.current() {
        let link = raw.join(program.file_name().unwrap_or_default());
        symlink(&program, &link).at("link", &link)?;
    }
    discard(&place)?;
    fs::rename(&raw, &place).at("put in place", &place)
}
