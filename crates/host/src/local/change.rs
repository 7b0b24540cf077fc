//! How this machine is changed.

use std::fs::{self, OpenOptions, Permissions};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::fs::{
    DirBuilderExt as _, FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _,
};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use carrick_core::fact::Why;
use carrick_core::fact::keep::Keep;
use rustix::fs::{FlockOperation, OFlags};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::{Local, query_with};
use crate::host::{
    CommandOutput, FILE_TIME, File, Host, LARGEST, Lock, Locked, MOST_OUTPUT, PathEntry, Trouble, WriteMode, beside,
    of_commands, too_long,
};
use crate::probe::BoxFuture;

/// Of permissions: everything `chmod` sets.
const MODE: u32 = 0o7777;
/// How long the line about a lock's holder may be.
const HOLDER: u64 = 4096;

impl Host for Local {
    fn look<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<Option<PathEntry>, Trouble>> {
        boxed(path, look)
    }

    fn list<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<Vec<String>, Trouble>> {
        boxed(path, |path| names(path, LARGEST))
    }

    fn write<'a>(&'a self, path: &'a str, file: &'a File, how: WriteMode) -> BoxFuture<'a, Result<(), Trouble>> {
        let file = file.clone();
        boxed(path, move |path| match how {
            WriteMode::Replace => replace(path, &file),
            WriteMode::InPlace => in_place(path, &file),
            WriteMode::Append => append(path, &file),
        })
    }

    fn link<'a>(&'a self, path: &'a str, to: &'a str) -> BoxFuture<'a, Result<(), Trouble>> {
        let to = to.to_owned();
        boxed(path, move |path| {
            let temporary = clear_beside(path)?;
            std::os::unix::fs::symlink(to, &temporary)?;
            fs::rename(&temporary, path)?;
            sync_parent(path)
        })
    }

    fn make_dir<'a>(&'a self, path: &'a str, mode: u32) -> BoxFuture<'a, Result<(), Trouble>> {
        boxed(path, move |path| {
            match fs::DirBuilder::new().mode(mode).create(path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(()),
                created => created?,
            }
            // What the umask took away.
            fs::set_permissions(path, Permissions::from_mode(mode))?;
            sync_parent(path)
        })
    }

    fn set_mode<'a>(&'a self, path: &'a str, mode: u32) -> BoxFuture<'a, Result<(), Trouble>> {
        boxed(path, move |path| {
            if fs::symlink_metadata(path)?.is_symlink() {
                return Err(io::Error::other("is a link"));
            }
            fs::set_permissions(path, Permissions::from_mode(mode))
        })
    }

    fn remove<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<(), Trouble>> {
        boxed(path, |path| {
            let removed = match fs::symlink_metadata(path) {
                Ok(metadata) if metadata.is_dir() => fs::remove_dir(path),
                Ok(_) => fs::remove_file(path),
                Err(error) => Err(error),
            };
            match removed {
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
                removed => removed.and_then(|()| sync_parent(path)),
            }
        })
    }

    fn run<'a>(&'a self, argv: &'a [&'a str], limit: Duration) -> BoxFuture<'a, Result<CommandOutput, Trouble>> {
        Box::pin(async move {
            match query_with(self.held.stdin(), argv, Keep::Head(MOST_OUTPUT), limit).await {
                Ok((capture, _)) => {
                    let (exit, cut) = (capture.exit.unwrap_or(-1), !capture.is_whole());
                    Ok(CommandOutput { exit, out: capture.text, errors: capture.errors, cut })
                }
                Err(Why::TimedOut) => Err(Trouble::new(argv.join(" "), format!("no end in {} s", limit.as_secs()))),
                Err(why) => Err(Trouble::new(argv.join(" "), why)),
            }
        })
    }

    fn lock<'a>(&'a self, path: &'a str, holder: &'a str) -> BoxFuture<'a, Result<Lock, Locked>> {
        let (place, holder, held) = (path.to_owned(), holder.to_owned(), self.held.clone());
        Box::pin(async move {
            let taken = spawn_blocking(move || lock(&place, &holder, held)).await;
            taken
                .unwrap_or_else(|failed| Err(io::Error::other(failed)))
                .map_or_else(|error| Err(Trouble::new(path, reason(&error)).into()), |taken| taken.map_err(Locked::By))
        })
    }
}

/// A file operation on a thread of its own: a path may lie on a mount that hangs.
fn boxed<T: Send + 'static>(
    path: &str,
    work: impl FnOnce(&Path) -> io::Result<T> + Send + 'static,
) -> BoxFuture<'_, Result<T, Trouble>> {
    let place = PathBuf::from(path);
    Box::pin(async move {
        let done = timeout(FILE_TIME, spawn_blocking(move || work(&place))).await;
        match done {
            Ok(Ok(Ok(value))) => Ok(value),
            Ok(Ok(Err(error))) => Err(Trouble::new(path, reason(&error))),
            Ok(Err(failed)) => Err(Trouble::new(path, failed)),
            Err(_) => Err(Trouble::new(path, format!("no answer in {} s", FILE_TIME.as_secs()))),
        }
    })
}

/// `No space left on device (os error 28)`: the number is of no use to a reader.
fn reason(error: &io::Error) -> String {
    // What the kernel calls a link where none is followed: "Too many levels of symbolic links".
    if rustix::io::Errno::from_io_error(error) == Some(rustix::io::Errno::LOOP) {
        return "is a link".to_owned();
    }
    error.to_string().split(" (os error").next().unwrap_or_default().to_owned()
}

/// The names in a directory, where they are no more bytes than this.
fn names(path: &Path, most: u64) -> io::Result<Vec<String>> {
    let entries = match fs::read_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let (mut names, mut bytes) = (Vec::new(), 0);
    for entry in entries {
        let name = entry?.file_name().to_string_lossy().into_owned();
        // As they come over SSH: each with an end.
        bytes += name.len() as u64 + 1;
        if bytes >= most {
            return Err(io::Error::other(too_long()));
        }
        names.push(name);
    }
    Ok(names)
}

fn look(path: &Path) -> io::Result<Option<PathEntry>> {
    let metadata = match fs::symlink_metadata(path) {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        metadata => metadata?,
    };
    let (mode, uid, gid, kind) = (metadata.mode() & MODE, metadata.uid(), metadata.gid(), metadata.file_type());
    if kind.is_dir() {
        return Ok(Some(PathEntry::Dir { mode, uid, gid }));
    }
    if kind.is_symlink() {
        return Ok(Some(PathEntry::Link(fs::read_link(path)?.to_string_lossy().into_owned())));
    }
    if !kind.is_file() {
        let what = if kind.is_socket() { "a socket" } else { "a device" };
        return Ok(Some(PathEntry::Other(what)));
    }
    let mut bytes = Vec::new();
    let opened = OpenOptions::new().read(true).custom_flags(no_follow()).open(path)?;
    opened.take(LARGEST + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LARGEST {
        return Err(io::Error::other(format!("is larger than {} MiB", LARGEST >> 20)));
    }
    Ok(Some(PathEntry::File(File { bytes, mode, uid, gid })))
}

fn no_follow() -> i32 {
    (OFlags::NOFOLLOW | OFlags::CLOEXEC).bits().cast_signed()
}

/// The name under which something new is made; what a kill left there is gone.
fn clear_beside(path: &Path) -> io::Result<PathBuf> {
    let temporary = PathBuf::from(beside(&path.to_string_lossy()));
    match fs::remove_file(&temporary) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(temporary),
    }
}

fn replace(path: &Path, new: &File) -> io::Result<()> {
    let temporary = clear_beside(path)?;
    let placed = fill(&temporary, new).and_then(|()| fs::rename(&temporary, path));
    if placed.is_err() {
        // The disk may be full because of it.
        let _ = fs::remove_file(&temporary);
    }
    placed.and_then(|()| sync_parent(path))
}

fn fill(path: &Path, new: &File) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).custom_flags(no_follow()).open(path)?;
    file.write_all(&new.bytes)?;
    own(&file, new)?;
    file.sync_all()
}

fn own(file: &fs::File, new: &File) -> io::Result<()> {
    let metadata = file.metadata()?;
    if (metadata.uid(), metadata.gid()) != (new.uid, new.gid) {
        std::os::unix::fs::fchown(file, Some(new.uid), Some(new.gid))?;
    }
    file.set_permissions(Permissions::from_mode(new.mode))
}

/// Never empty in between: what is longer is cut only after what is new stands.
fn in_place(path: &Path, new: &File) -> io::Result<()> {
    let made = !path.exists();
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(false).mode(0o600).custom_flags(no_follow()).open(path)?;
    file.write_all(&new.bytes)?;
    file.set_len(new.bytes.len() as u64)?;
    own(&file, new)?;
    file.sync_all()?;
    if made { sync_parent(path) } else { Ok(()) }
}

fn append(path: &Path, new: &File) -> io::Result<()> {
    let made = !path.exists();
    let mut options = OpenOptions::new();
    let mut file = options.append(true).create(true).mode(new.mode).custom_flags(no_follow()).open(path)?;
    let before = file.seek(io::SeekFrom::End(0))?;
    if let Err(error) = file.write_all(&new.bytes) {
        // Half a line would be taken for a torn journal.
        let _ = file.set_len(before);
        return Err(error);
    }
    file.sync_all()?;
    if made { sync_parent(path) } else { Ok(()) }
}

fn sync_parent(path: &Path) -> io::Result<()> {
    fs::File::open(path.parent().unwrap_or(Path::new("/")))?.sync_all()
}

/// The lock's file, while we hold the lock.
#[derive(Clone, Default)]
pub(super) struct Held(Arc<Mutex<Option<fs::File>>>);

impl Held {
    /// For a command that changes the machine. A lock is held for as long as anybody has its file open: a command that
    /// outlives us keeps the next run away until it has ended. Whoever reads from it finds its end, as in /dev/null.
    fn stdin(&self) -> Stdio {
        let held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        held.as_ref().and_then(|file| file.try_clone().ok()).map_or_else(Stdio::null, Stdio::from)
    }

    fn set(&self, file: Option<fs::File>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = file;
    }
}

/// Lets go of the lock's file when it is dropped.
struct Holding(Held);

impl Drop for Holding {
    fn drop(&mut self) {
        self.0.set(None);
    }
}

/// The kernel gives the lock back when its holder dies: nothing is ever left to be cleaned up. `Ok(Err(holder))`: taken.
fn lock(path: &str, holder: &str, held: Held) -> io::Result<Result<Lock, String>> {
    let mut file = open_lock(path, true)?;
    let at_work = match open_lock(&of_commands(path), false) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => false,
        commands => is_taken(&commands?)?,
    };
    if is_taken(&file)? || at_work {
        let mut said = String::new();
        file.take(HOLDER).read_to_string(&mut said)?;
        return Ok(Err(said.lines().next().unwrap_or_default().trim().to_owned()));
    }
    file.set_len(0)?;
    file.write_all(holder.as_bytes())?;
    held.set(Some(file));
    Ok(Ok(Lock::new(Holding(held))))
}

fn open_lock(path: &str, create: bool) -> io::Result<fs::File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(create).truncate(false).mode(0o600).custom_flags(no_follow()).open(path)
}

/// Takes it where it is free.
fn is_taken(file: &fs::File) -> io::Result<bool> {
    match rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(false),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(true),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host() -> Local {
        Local::new(Duration::from_secs(5))
    }

    fn mine(bytes: &str, mode: u32) -> File {
        let (uid, gid) = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
        File { uid, gid, ..File::new(bytes, mode) }
    }

    #[tokio::test]
    async fn a_file_is_replaced_whole_or_written_in_place() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        let path = path.to_str().unwrap();
        assert_eq!(host().look(path).await, Ok(None));
        host().write(path, &mine("long text", 0o640), WriteMode::Replace).await.unwrap();
        let inode = fs::metadata(path).unwrap().ino();
        host().write(path, &mine("short", 0o644), WriteMode::InPlace).await.unwrap();
        assert_eq!(fs::metadata(path).unwrap().ino(), inode);
        host().write(path, &mine("!", 0o600), WriteMode::Append).await.unwrap();
        assert_eq!(host().look(path).await, Ok(Some(PathEntry::File(mine("short!", 0o644)))));
        host().write(path, &mine("new", 0o600), WriteMode::Replace).await.unwrap();
        assert_ne!(fs::metadata(path).unwrap().ino(), inode);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        host().remove(path).await.unwrap();
        host().remove(path).await.unwrap();
        assert_eq!(host().look(path).await, Ok(None));
    }

    #[tokio::test]
    async fn a_link_is_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let (target, link) = (dir.path().join("target"), dir.path().join("link"));
        fs::write(&target, "theirs").unwrap();
        std::os::unix::fs::symlink(&target, &link).unwrap();
        let link = link.to_str().unwrap();
        assert_eq!(host().look(link).await, Ok(Some(PathEntry::Link(target.to_string_lossy().into_owned()))));
        assert!(host().write(link, &mine("ours", 0o644), WriteMode::InPlace).await.is_err());
        assert!(host().write(link, &mine("ours", 0o644), WriteMode::Append).await.is_err());
        assert!(host().set_mode(link, 0o777).await.is_err());
        assert_eq!(fs::read_to_string(&target).unwrap(), "theirs");
    }

    #[tokio::test]
    async fn what_a_kill_left_beside_a_file_is_written_over() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(".f.carrick"), "half").unwrap();
        let path = dir.path().join("f");
        host().write(path.to_str().unwrap(), &mine("whole", 0o644), WriteMode::Replace).await.unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "whole");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[tokio::test]
    async fn the_second_is_told_who_holds_the_lock_and_has_it_after() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let path = path.to_str().unwrap();
        let held = host().lock(path, "carrick reset, process 17").await.unwrap();
        let told = host().lock(path, "me").await.unwrap_err();
        assert_eq!(told, Locked::By("carrick reset, process 17".into()));
        drop(held);
        assert!(host().lock(path, "me").await.is_ok());
    }

    #[tokio::test]
    async fn a_command_that_outlives_us_keeps_the_lock() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let (path, host, other) = (path.to_str().unwrap(), host(), host());
        let held = host.lock(path, "carrick reset, process 17\n").await.unwrap();
        assert_eq!(host.run(&["cat"], Duration::from_secs(5)).await.unwrap().out, "", "who reads finds nothing");
        // In a session of its own nothing of ours ends it.
        host.run(&["setsid", "sleep", "1"], Duration::from_secs(5)).await.unwrap();
        drop((held, host));
        let told = other.lock(path, "me").await.unwrap_err();
        assert_eq!(told, Locked::By("carrick reset, process 17".into()));
        tokio::time::sleep(Duration::from_millis(1500)).await;
        assert!(other.lock(path, "me").await.is_ok());
    }

    #[tokio::test]
    async fn what_was_read_in_part_is_not_taken_for_all() {
        let argv = ["head", "-c", "16777300", "/dev/zero"];
        let ended = host().run(&argv, Duration::from_secs(20)).await.unwrap();
        assert!(ended.cut && !ended.out.is_empty());
        let why = "head -c 16777300 /dev/zero: there is more of it than 16 MiB";
        assert_eq!(ended.well(&argv).unwrap_err().to_string(), why);
        let whole = host().run(&["head", "-c", "100", "/dev/zero"], Duration::from_secs(20)).await.unwrap();
        assert_eq!((whole.cut, whole.out.len()), (false, 100));

        let dir = tempfile::tempdir().unwrap();
        for name in ["one", "two"] {
            fs::write(dir.path().join(name), "").unwrap();
        }
        assert_eq!(names(dir.path(), 9).unwrap().len(), 2);
        assert_eq!(names(dir.path(), 8).unwrap_err().to_string(), "there is more of it than 16 MiB");
        assert_eq!(names(&dir.path().join("three"), 8).unwrap(), [""; 0]);
    }

    #[tokio::test]
    async fn a_command_that_fails_is_told_by_its_last_words() {
        let argv = ["sh", "-c", "echo out; echo first >&2; echo last >&2; exit 3"];
        let ended = host().run(&argv, Duration::from_secs(5)).await.unwrap();
        assert_eq!(ended.well(&["x", "y"]).unwrap_err().to_string(), "x y: exit 3: last");
        let missing = host().run(&["no-such-tool"], Duration::from_secs(5)).await.unwrap_err();
        assert_eq!(missing.to_string(), "no-such-tool: the command is not installed");
    }
}
