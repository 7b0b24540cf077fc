//! The one setting of the real kernel the lab may change: how many inotify instances root may have. Every systemd,
//! containerd and kubelet takes some, and all machines are one root to the kernel.

use std::fs;
use std::path::{Path, PathBuf};

use crate::error::{During, Result};

pub const SETTING: &str = "/proc/sys/fs/inotify/max_user_instances";
/// About forty a machine, and room for twenty machines beside what the rest of the machine uses.
const ENOUGH: u32 = 1024;

/// Raises it where it is too low, having written down what it was.
pub fn raise(notes: &Path) -> Result<()> {
    raise_at(Path::new(SETTING), notes)
}

/// Puts back what it was, once the last lab is gone.
pub fn put_back(notes: &Path) -> Result<()> {
    put_back_at(Path::new(SETTING), notes)
}

fn raise_at(setting: &Path, notes: &Path) -> Result<()> {
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

fn put_back_at(setting: &Path, notes: &Path) -> Result<()> {
    let note = note(notes);
    let Ok(old) = fs::read_to_string(&note) else { return Ok(()) };
    fs::write(setting, old).at("write", setting)?;
    fs::remove_file(&note).at("remove", &note)
}

fn note(notes: &Path) -> PathBuf {
    notes.join("max_user_instances.before")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the setting is after two labs came and went, and while they were there.
    fn with_two_labs(before: &str) -> (String, String) {
        let dir = tempfile::tempdir().expect("a scratch folder");
        let setting = dir.path().join("setting");
        let read = || fs::read_to_string(&setting).expect("it is there").trim().to_owned();
        fs::write(&setting, before).expect("ours to write");
        raise_at(&setting, dir.path()).expect("raised");
        raise_at(&setting, dir.path()).expect("raised again");
        let during = read();
        put_back_at(&setting, dir.path()).expect("put back");
        put_back_at(&setting, dir.path()).expect("nothing to put back");
        (during, read())
    }

    #[test]
    fn too_low_a_value_is_raised_and_put_back() {
        assert_eq!(with_two_labs("128\n"), ("1024".to_owned(), "128".to_owned()));
    }

    #[test]
    fn a_value_that_will_do_is_left_alone() {
        assert_eq!(with_two_labs("1024\n"), ("1024".to_owned(), "1024".to_owned()));
        assert_eq!(with_two_labs("8192\n"), ("8192".to_owned(), "8192".to_owned()));
    }
}
