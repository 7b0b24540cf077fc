//! Image stores with the images unpacked, made once by a machine that lives for as long as that takes.

use std::path::Path;
use std::time::{Duration, Instant};
use std::{fs, thread};

use super::{Parts, Templates};
use crate::cache::{Cache, Key};
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

pub fn build(cache: &Cache, parts: &Parts) -> Result<Templates> {
    let one = |name: &str, kind: Kind, root: &Path, archive: &Path| {
        let images = archive.parent().unwrap_or(archive);
        let key = Key::new().entry(root).entry(images).entry(archive).part(include_str!("../../files/containerd.toml"));
        let entry = cache.entry(&format!("store-{name}"), key, |place| make(cache, parts, kind, archive, place));
        entry.map(|entry| entry.join("containerd"))
    };
    Ok(Templates {
        bookworm: one("debian12", Kind::Debian12, &parts.bookworm, &parts.images.worker)?,
        trixie: one("debian13", Kind::Debian13, &parts.trixie, &parts.images.worker)?,
        control: one("control", Kind::Debian12, &parts.bookworm, &parts.images.control)?,
    })
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
