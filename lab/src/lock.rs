//! One at a time: a lock that says who holds it and since when. The kernel frees it when its holder ends, however it ends.

use std::fs::{File, OpenOptions};
use std::io::{Read as _, Seek as _, Write as _};
use std::path::Path;

use jiff::Timestamp;
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use crate::error::{During, Result, said};
use crate::say;

/// Held for as long as it lives.
pub struct Lock(#[allow(dead_code, reason = "held, not read")] File);

#[derive(Serialize, Deserialize)]
struct Holder {
    pid: u32,
    command: String,
    since: Timestamp,
}

/// Takes the lock, or says who has it.
pub fn take(path: &Path, what: &str) -> Result<Lock> {
    let mut file = open(path)?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => sign(file, path),
        Err(rustix::io::Errno::WOULDBLOCK) => said(format!("{what} is in use: {}", holder(&mut file))),
        Err(error) => Err(error).at("lock", path),
    }
}

/// Takes the lock, waiting for whoever has it.
pub fn waiting(path: &Path, what: &str) -> Result<Lock> {
    let mut file = open(path)?;
    if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
        say::line(&format!("waiting for {what}: {}", holder(&mut file)));
        flock(&file, FlockOperation::LockExclusive).at("lock", path)?;
    }
    sign(file, path)
}

fn open(path: &Path) -> Result<File> {
    OpenOptions::new().create(true).read(true).write(true).truncate(false).open(path).at("open", path)
}

fn sign(mut file: File, path: &Path) -> Result<Lock> {
    let command = std::env::args().skip(1).collect::<Vec<_>>().join(" ");
    let holder = Holder { pid: std::process::id(), command, since: Timestamp::now() };
    let text = serde_json::to_string(&holder).unwrap_or_default();
    file.set_len(0).and_then(|()| file.rewind()).and_then(|()| file.write_all(text.as_bytes())).at("write", path)?;
    Ok(Lock(file))
}

fn holder(file: &mut File) -> String {
    let mut text = String::new();
    let read = file.rewind().and_then(|()| file.read_to_string(&mut text));
    match read.ok().and_then(|_| serde_json::from_str::<Holder>(&text).ok()) {
        Some(holder) => format!(
            "`lab {}` (process {}) holds it since {} ({} s)",
            holder.command,
            holder.pid,
            holder.since.strftime("%H:%M:%S UTC"),
            Timestamp::now().duration_since(holder.since).as_secs(),
        ),
        None => "another process holds it and has not said which".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_is_told_who_the_first_is() {
        let dir = tempfile::tempdir().expect("a scratch folder");
        let path = dir.path().join("lock");
        let first = take(&path, "the lab").expect("nobody has it");
        let refused = take(&path, "the lab").err().expect("it is taken").to_string();
        assert!(
            refused.starts_with("the lab is in use: `lab ") && refused.contains(&std::process::id().to_string()),
            "{refused}"
        );
        drop(first);
        // A child that another test has just forked holds a copy until it executes its program.
        let free = (0..100).find_map(|_| {
            std::thread::sleep(std::time::Duration::from_millis(50));
            take(&path, "the lab").ok()
        });
        assert!(free.is_some(), "it is free again");
    }
}
