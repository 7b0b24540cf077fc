//! What it takes to change a machine. Whoever only holds a [`Probe`] cannot.

use std::time::Duration;

use carrick_core::fact::{Missing, Why};

use crate::probe::{BoxFuture, Probe};

/// What is read whole, to be put back byte for byte: configuration is small. The kernel's table of mounts is not (4 MB with 500
/// pods), and what would be deleted hangs on it.
pub(crate) const LARGEST: u64 = 16 << 20;

/// What is kept of a command's output. The longest that is needed whole is a ruleset: twice what a plan is made from, so that
/// carrying one out never fails for size.
pub(crate) const MOST_OUTPUT: usize = 16 << 20;

/// What was read in part is not judged as if it were all.
pub(crate) fn too_long() -> String {
    format!("there is more of it than {} MiB", LARGEST >> 20)
}

/// A file operation is over in milliseconds, on a slow disk in a second.
pub(crate) const FILE_TIME: Duration = Duration::from_secs(20);

/// What a file is called while it is being filled: beside the one it will replace, so that the rename stays on one
/// filesystem, and always the same, so that what a kill left behind can be found.
pub fn beside(path: &str) -> String {
    let (dir, name) = path.rsplit_once('/').unwrap_or(("", path));
    format!("{dir}/.{name}.carrick")
}

/// Beside a lock: who changes the machine over SSH holds this one, each command for itself, because the session that
/// holds the lock ends with the link, and a command does not. Whoever takes the lock finds it free as well.
pub(crate) fn of_commands(lock: &str) -> String {
    format!("{lock}.commands")
}

/// A machine that can be changed. Paths are absolute; links are never followed.
pub trait Host: Probe {
    /// What is at a path; `None`: nothing.
    fn look<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<Option<PathEntry>, Trouble>>;

    /// All names in a directory, in no order. One that is not there has none.
    fn list<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<Vec<String>, Trouble>>;

    /// Makes a file hold exactly these bytes, on disk before this returns.
    fn write<'a>(&'a self, path: &'a str, file: &'a File, how: WriteMode) -> BoxFuture<'a, Result<(), Trouble>>;

    /// Makes a link, in the place of what is there.
    fn link<'a>(&'a self, path: &'a str, to: &'a str) -> BoxFuture<'a, Result<(), Trouble>>;

    /// Makes a directory; the one it is in must be there.
    fn make_dir<'a>(&'a self, path: &'a str, mode: u32) -> BoxFuture<'a, Result<(), Trouble>>;

    fn set_mode<'a>(&'a self, path: &'a str, mode: u32) -> BoxFuture<'a, Result<(), Trouble>>;

    /// Removes a file, a link or an empty directory. That it is not there is fine.
    fn remove<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<(), Trouble>>;

    /// Runs a command to its end; what it prints is bounded, and without secrets.
    fn run<'a>(&'a self, argv: &'a [&'a str], limit: Duration) -> BoxFuture<'a, Result<CommandOutput, Trouble>>;

    /// Takes the machine's lock, which ends with the guard, or with us. `holder`: a line about who holds it.
    fn lock<'a>(&'a self, path: &'a str, holder: &'a str) -> BoxFuture<'a, Result<Lock, Locked>>;
}

/// What is at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathEntry {
    File(File),
    Dir {
        mode: u32,
        uid: u32,
        gid: u32,
    },
    /// And where it leads to.
    Link(String),
    /// A device, a socket: nothing Carrick writes to.
    Other(&'static str),
}

/// A file, whole.
#[derive(Clone, PartialEq, Eq)]
pub struct File {
    pub bytes: Vec<u8>,
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
}

impl File {
    /// One of root's.
    pub fn new(bytes: impl Into<Vec<u8>>, mode: u32) -> Self {
        File { bytes: bytes.into(), mode, uid: 0, gid: 0 }
    }
}

impl std::fmt::Debug for File {
    /// Not its bytes: they may hold a key.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let File { bytes, mode, uid, gid } = self;
        write!(f, "File({} bytes, {mode:04o}, {uid}:{gid})", bytes.len())
    }
}

/// How a file comes to hold something new.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteMode {
    /// A new file takes the old one's place: nobody ever sees half of it.
    Replace,
    /// The file there is stays the same one, for who watches it.
    InPlace,
    /// At its end.
    Append,
}

/// A command's end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommandOutput {
    /// As a shell would give it.
    pub exit: i32,
    pub out: String,
    pub errors: String,
    /// There was more of it than is kept: what is here is its beginning.
    pub cut: bool,
}

impl CommandOutput {
    /// All that it printed, where it ended well; otherwise the last thing it said.
    pub fn well(self, argv: &[&str]) -> Result<String, Trouble> {
        if self.exit == 0 {
            return if self.cut { Err(Trouble::new(argv.join(" "), too_long())) } else { Ok(self.out) };
        }
        let said = crate::command::last_line(if self.errors.trim().is_empty() { &self.out } else { &self.errors });
        Err(Trouble::new(argv.join(" "), format!("exit {}: {said}", self.exit)))
    }
}

/// Something that could not be done to a machine: the thing, and why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}: {why}")]
pub struct Trouble {
    pub what: String,
    pub why: String,
    /// The machine was not reached: nothing was done there, and nothing is wrong with what was to be done.
    pub of_the_link: bool,
}

impl Trouble {
    pub fn new(what: impl Into<String>, why: impl std::fmt::Display) -> Self {
        Trouble { what: what.into(), why: why.to_string(), of_the_link: false }
    }

    /// A fact without which it cannot be done.
    pub fn missing(what: impl Into<String>, missing: &Missing) -> Self {
        Trouble { of_the_link: missing.why.is_of_the_link(), ..Trouble::new(what, missing) }
    }

    /// A call that failed, as trouble with what was to be done.
    pub fn because(what: impl Into<String>, why: &Why) -> Self {
        Trouble { of_the_link: why.is_of_the_link(), ..Trouble::new(what, why) }
    }
}

/// The machine's lock; whoever else asks meanwhile is told of us. It ends when this is dropped.
#[derive(Debug)]
pub struct Lock {
    _held: Box<dyn std::any::Any + Send + Sync>,
}

impl Lock {
    pub fn new(held: impl std::any::Any + Send + Sync) -> Self {
        Lock { _held: Box::new(held) }
    }
}

/// Why the lock was not to be had.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Locked {
    /// What the holder wrote about itself.
    #[error("another run is at work on this machine: {0}")]
    By(String),
    #[error(transparent)]
    Trouble(#[from] Trouble),
}
