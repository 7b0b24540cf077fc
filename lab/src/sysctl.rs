//! The one setting of the real kernel the lab may change: how many inotify instances root may have. Every systemd,
//! containerd and kubelet takes some, and all machines are one root to the kernel.

use std::fs;
use std::path::{Path, PathBuf};

use crate::error::{During, Result};

const SETTING: &str = "/proc/sys/fs/inotify/max_user_instances";
/// About forty a machine, and room for twenty machines beside what the rest of the machine uses.
const ENOUGH: u32 = 1024;

/// Raises it where it is too low, having written down what it was.
pub fn raise(notes: &Path) -> Result<()> {
    let setting = Path::new(SETTING);
    let old = fs::read_to_string(setting).at("read", setting)?;
    if old.trim().parse::<u32>().is_ok_and(|have| have >= ENOUGH) {
        return Ok(());
    }
    // A note that is there is of the first lab; this value may already be a lab's.
    if !note(notes).exists() {
        fs::write(note(notes), old.trim()).at("write", &note(notes))?;
    }
    fs::write(setting, ENOUGH.to_string()).at("write", setting)
}

/// Puts back what it was, once the last lab is gone.
pub fn put_back(notes: &Path) -> Result<()> {
    let (note, setting) = (note(notes), Path::new(SETTING));
    let Ok(old) = fs::read_to_string(&note) else { return Ok(()) };
    fs::write(setting, old).at("write", setting)?;
    fs::remove_file(&note).at("remove", &note)
}

fn note(notes: &Path) -> PathBuf {
    notes.join("max_user_instances.before")
}
