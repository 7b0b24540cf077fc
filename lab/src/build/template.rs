//! Image stores with the images unpacked, made once by a machine that lives for as long as that takes.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{fs, thread};

use super::root::Suite;
use super::{Part, Parts, Store, image};
use crate::cache::{Cache, CacheKey};
use crate::error::{During, Result, said};
use crate::lab::Lab;
use crate::machine::{Images, Kind, Machine};
use crate::run::Run;
use crate::say;

/// The import itself takes seven seconds.
const IMPORT_DEADLINE: Duration = Duration::from_mins(3);

pub fn login_key(place: &Path) -> Result<()> {
    let file = place.join("id");
    Run::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-C", "carrick-lab", "-f"]).arg(file).ok()?;
    Ok(())
}

pub fn build(cache: &Cache, parts: &Parts, store: Store) -> Result<PathBuf> {
    let (name, kind, suite, archive) = match store {
        Store::Debian12 => ("debian12", Kind::Debian12, Suite::Bookworm, image::WORKER),
        Store::Debian13 => ("debian13", Kind::Debian13, Suite::Trixie, image::WORKER),
        Store::ControlPlane => ("control", Kind::Debian12, Suite::Bookworm, image::CONTROL),
    };
    let (root, images) = (parts.place(Part::Root(suite))?, parts.place(Part::Images)?);
    let archive = images.join(archive);
    let key =
        CacheKey::new().entry(root).entry(images).entry(&archive).part(include_str!("../../files/containerd.toml"));
    let entry = cache.entry(&format!("store-{name}"), key, |place| make(cache, parts, kind, &archive, place))?;
    Ok(entry.join("containerd"))
}

fn make(cache: &Cache, parts: &Parts, kind: Kind, archive: &Path, place: &Path) -> Result<()> {
    let begun = Instant::now();
    // A thread of its own, for it moves into the lab's network; what is built after this needs the real one.
    let made = thread::scope(|scope| scope.spawn(|| unpack(cache, parts, kind, archive, place)).join());
    made.unwrap_or_else(|_| said("unpacking the images panicked"))?;
    say::line(&format!("unpacked the images for {} in {}", kind.name(), say::seconds(begun.elapsed())));
    Ok(())
}

fn unpack(cache: &Cache, parts: &Parts, kind: Kind, archive: &Path, place: &Path) -> Result<()> {
    let lab = Lab::take(cache, "build")?;
    lab.clear()?;
    lab.prepare()?;
    let Some(address) = lab.site().worker(1) else { return said("no address is free") };
    let machine = Machine::start(&lab, parts, "unpacker", address, kind, Images::Nothing)?;
    // The folder is on the same disk as the cache: the archive is linked, not copied.
    let inside = machine.disk().plain("kubelet").join("images.tar");
    fs::hard_link(archive, &inside).at("link", &inside)?;
    let import = ["ctr", "-n", "k8s.io", "images", "import", "/var/lib/kubelet/images.tar"];
    machine.run(import).deadline(IMPORT_DEADLINE).ok()?;
    machine.ok(["systemctl", "stop", "containerd"])?;
    let store = place.join("containerd");
    fs::rename(machine.disk().plain("containerd"), &store).at("put in place", &store)?;
    machine.remove()?;
    lab.clear()
}
