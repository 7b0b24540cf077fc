//! This machine.
//!
//! Files and directories are read on threads of their own, because a read from a hung mount cannot be called off; commands
//! run in process groups of their own, because a command that is killed may leave children. Everything runs at once: were
//! there a limit, sixteen hung commands would keep the seventeenth from being asked.

mod change;

use std::ffi::OsString;
use std::fs::{self, File, FileType, OpenOptions};
use std::io::{self, Read as _};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd as _;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use carrick_core::fact::keep::{ERRORS, Keep, USUAL, of_file};
use carrick_core::fact::{Source, Why, dir_key, file_key, shown};
use jiff::Timestamp;
use rustix::fs::OFlags;
use rustix::process::{Pid, Signal, kill_process_group};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::net::{TcpStream, UnixStream};
use tokio::process::{Child, Command};
use tokio::sync::oneshot;
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::{Instant, timeout, timeout_at};

use crate::command::{self, Intake};
use crate::listing;
use crate::probe::{
    BoxFuture, ByteStream, Kept, MOST_ENTRIES, MOST_FILES, Observation, Probe, Progress, Read, SLACK, TREE_FILE, Target,
};

/// What a command that has ended may still have in its pipes; a child that it left behind may hold them open for ever.
const DRAIN: Duration = Duration::from_millis(200);

/// Read at once.
const CHUNK: usize = 64 << 10;

/// Where tools are found when the caller has no PATH.
const USUAL_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// What a command gets to see of our environment: a proxy is a fact about the session it runs in.
const PASSED_ON: [&str; 9] = [
    "HOME",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "all_proxy",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "ALL_PROXY",
];

/// The machine this process runs on.
pub struct Local {
    name: String,
    time_box: Duration,
    runtime: Option<String>,
    /// The machine's lock, while we have it: whoever changes the machine for us holds it, too.
    held: change::Held,
}

impl Local {
    pub fn new(time_box: Duration) -> Self {
        let name = fs::read_to_string("/proc/sys/kernel/hostname").map(|name| name.trim().to_owned());
        let name = name.unwrap_or_else(|_| "localhost".to_owned());
        Local { name, time_box, runtime: None, held: change::Held::default() }
    }

    /// The same machine, whose container runtime is asked on this socket alone.
    pub fn with_runtime(self, socket: Option<String>) -> Self {
        Local { runtime: socket, ..self }
    }
}

impl Probe for Local {
    fn runtime(&self) -> Option<&str> {
        self.runtime.as_deref()
    }

    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn observe<'a>(&'a self, sources: &'a [Source], progress: &'a Progress) -> BoxFuture<'a, Vec<Observation>> {
        Box::pin(async move {
            let mut looks = JoinSet::new();
            for (at, source) in sources.iter().copied().enumerate() {
                let (progress, time_box) = (progress.clone(), self.time_box);
                progress.begin(shown(&source.key()));
                looks.spawn(async move {
                    let seen = look(source, time_box).await;
                    progress.end(shown(&source.key()));
                    (at, seen)
                });
            }
            let mut seen = looks.join_all().await;
            seen.sort_by_key(|(at, _)| *at);
            seen.into_iter().flat_map(|(_, seen)| seen).collect()
        })
    }

    fn resolve<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Vec<IpAddr>, Why>> {
        Box::pin(async move {
            if let Ok(address) = name.parse() {
                return Ok(vec![address]);
            }
            let (capture, _) = query(&command::resolver(name)?, USUAL, self.time_box).await?;
            command::addresses(&capture)
        })
    }

    fn connect<'a>(&'a self, target: &'a Target) -> BoxFuture<'a, io::Result<Box<dyn ByteStream>>> {
        Box::pin(async move {
            Ok(match target {
                Target::Tcp { host, port } => {
                    Box::new(TcpStream::connect((host.as_str(), *port)).await?) as Box<dyn ByteStream>
                }
                Target::Unix(path) => Box::new(UnixStream::connect(path).await?),
                Target::Within { network, to } => Box::new(connect_within(network.clone(), *to).await?),
            })
        })
    }
}

/// Longer than anybody waits for it; the thread that dials ends then, too.
const LONGEST_DIAL: Duration = Duration::from_secs(10);

/// Dials on a thread of its own: it moves into that network for good, and ends there.
async fn connect_within(network: String, to: SocketAddr) -> io::Result<TcpStream> {
    let (sender, dialled) = oneshot::channel();
    let dial = move || -> io::Result<std::net::TcpStream> {
        let network = File::open(network)?;
        move_into_link_name_space(network.as_fd(), Some(LinkNameSpaceType::Network))?;
        std::net::TcpStream::connect_timeout(&to, LONGEST_DIAL)
    };
    // Whoever does not wait any longer does not want the answer.
    std::thread::Builder::new().name("dial".to_owned()).spawn(move || drop(sender.send(dial())))?;
    let stream = dialled.await.map_err(|_| io::Error::other("the thread that dials has ended"))??;
    stream.set_nonblocking(true)?;
    TcpStream::from_std(stream)
}

async fn look(source: Source, time_box: Duration) -> Vec<Observation> {
    let deadline = Instant::now() + time_box;
    match source {
        Source::File(path) => {
            let read = within(deadline, move || read_file(Path::new(path), of_file(path))).await;
            vec![Observation::new(file_key(path), read)]
        }
        Source::Dir(path) => {
            let read = within(deadline, move || list(Path::new(path))).await;
            vec![Observation::new(dir_key(path), read.map(|listed| listed.kept))]
        }
        Source::Tree(path) => look_at_tree(path, deadline).await,
        Source::Query(asked) => vec![Observation::new(source.key(), query(asked.argv, asked.keep, time_box).await)],
        Source::Cri(_) | Source::Api(_) => Vec::new(),
    }
}

/// The listing, then every file in it side by side, all in the one time box.
async fn look_at_tree(path: &'static str, deadline: Instant) -> Vec<Observation> {
    let listed = match within(deadline, move || list(Path::new(path))).await {
        Ok(listed) => listed,
        Err(why) => return vec![Observation::new(dir_key(path), Err(why))],
    };
    let mut seen = vec![Observation::new(dir_key(path), Ok(listed.kept))];
    let mut reads = JoinSet::new();
    for (at, file) in listed.files.into_iter().enumerate() {
        reads.spawn(async move {
            let key = file_key(&file.to_string_lossy());
            (at, Observation::new(key, within(deadline, move || read_file(&file, TREE_FILE)).await))
        });
    }
    let mut read = reads.join_all().await;
    read.sort_by_key(|(at, _)| *at);
    seen.extend(read.into_iter().map(|(_, observation)| observation));
    seen
}

/// Runs what may block for ever on a thread of its own, and stops waiting for it at the deadline.
async fn within<T: Send + 'static>(
    deadline: Instant,
    work: impl FnOnce() -> Result<T, Why> + Send + 'static,
) -> Result<T, Why> {
    match timeout_at(deadline, spawn_blocking(work)).await {
        Ok(Ok(result)) => result,
        Ok(Err(failed)) => Err(Why::Broken(format!("reading failed: {failed}"))),
        Err(_) => Err(Why::TimedOut),
    }
}

fn read_file(path: &Path, keep: Keep) -> Read {
    // Before it is opened: opening a device can do something.
    must_be_file(fs::metadata(path).map_err(|error| why(&error))?.file_type())?;
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC).bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path).map_err(|error| why(&error))?;
    // And after: another may have taken its place.
    must_be_file(file.metadata().map_err(|error| why(&error))?.file_type())?;
    read_opened(file, keep).map_err(|error| why(&error))
}

/// Reads what is kept and a little more, whatever size the file claims: those in /proc claim none.
fn read_opened(file: File, keep: Keep) -> io::Result<Kept> {
    let mut intake = Intake::new(keep);
    let mut bounded = file.take((keep.limit() + SLACK) as u64);
    let mut chunk = vec![0; CHUNK];
    loop {
        match bounded.read(&mut chunk) {
            Ok(0) if bounded.limit() == 0 => return Ok(intake.finish_cut()),
            Ok(0) => return Ok(intake.finish()),
            Ok(length) => intake.push(chunk.get(..length).unwrap_or_default()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

fn must_be_file(kind: FileType) -> Result<(), Why> {
    if kind.is_file() { Ok(()) } else { Err(Why::Broken(format!("is a {}, not a file", kind_name(kind)))) }
}

/// What a thing in a directory is called; observe.sh uses the same words.
pub(crate) fn kind_name(kind: FileType) -> &'static str {
    match kind {
        _ if kind.is_file() => "file",
        _ if kind.is_dir() => "directory",
        _ if kind.is_symlink() => "link",
        _ if kind.is_fifo() => "fifo",
        _ if kind.is_socket() => "socket",
        _ => "device",
    }
}

/// A directory as it was listed.
struct Listed {
    kept: Kept,
    /// The regular files in it, links to such included, by name.
    files: Vec<PathBuf>,
}

fn list(path: &Path) -> Result<Listed, Why> {
    let kind = fs::metadata(path).map_err(|error| why(&error))?.file_type();
    if !kind.is_dir() {
        return Err(Why::Broken(format!("is a {}, not a directory", kind_name(kind))));
    }
    let (mut entries, mut files) = (Vec::new(), Vec::new());
    // One more than is kept, so that the listing can say that there are more.
    for found in fs::read_dir(path).map_err(|error| why(&error))?.take(MOST_ENTRIES + 1) {
        let found = found.map_err(|error| why(&error))?;
        let metadata = match fs::symlink_metadata(found.path()) {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue, // Gone since.
            Err(error) => return Err(why(&error)),
        };
        let kind = metadata.file_type();
        let target = if kind.is_symlink() { fs::read_link(found.path()).ok() } else { None };
        let target = target.map(|target| target.to_string_lossy().into_owned());
        if kind.is_file() || (kind.is_symlink() && found.path().is_file()) {
            files.push(found.file_name());
        }
        entries.push(listing::entry(found.file_name().to_string_lossy().into_owned(), &metadata, target));
    }
    Ok(Listed { kept: listing::capture(entries), files: worth_reading(path, files) })
}

/// The first files by name, hidden ones last, as a shell's `*` and `.*` find them.
fn worth_reading(dir: &Path, mut names: Vec<OsString>) -> Vec<PathBuf> {
    // No configuration file has a line break in its name, and no line of evidence could show it.
    names.retain(|name| !name.as_encoded_bytes().contains(&b'\n'));
    names.sort_by_key(|name| (name.as_encoded_bytes().starts_with(b"."), name.clone()));
    names.truncate(MOST_FILES);
    names.into_iter().map(|name| dir.join(name)).collect()
}

fn why(error: &io::Error) -> Why {
    // `Invalid argument (os error 22)`: the number is of no use to a reader.
    let text = error.to_string();
    command::why(text.split(" (os error").next().unwrap_or_default())
}

async fn query(argv: &[&str], keep: Keep, time_box: Duration) -> Read {
    query_with(Stdio::null(), argv, keep, time_box).await
}

/// The same, with something to hold as its stdin.
async fn query_with(stdin: Stdio, argv: &[&str], keep: Keep, time_box: Duration) -> Read {
    let Some((program, arguments)) = argv.split_first() else {
        return Err(Why::NoTool);
    };
    let mut path = std::env::var_os("PATH").unwrap_or_else(|| USUAL_PATH.into());
    path.push(":/usr/sbin:/sbin");
    let mut asked = Command::new(program);
    asked.args(arguments).env_clear().env("PATH", path).env("LC_ALL", "C").process_group(0);
    asked.envs(PASSED_ON.iter().filter_map(|name| Some((name, std::env::var_os(name)?))));
    run_with(stdin, asked, keep, time_box).await
}

/// Runs a command to its end, or to the end of its time box, and kills its whole group then.
pub(crate) async fn run(command: Command, keep: Keep, time_box: Duration) -> Read {
    run_with(Stdio::null(), command, keep, time_box).await
}

async fn run_with(stdin: Stdio, mut command: Command, keep: Keep, time_box: Duration) -> Read {
    command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied) => {
            return Err(Why::NoTool);
        }
        Err(error) => return Err(why(&error)),
    };
    let mut group = Group::of(&child);
    let (mut out, mut errors) = (Intake::new(keep), Intake::new(ERRORS));
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let status = {
        let pumps = async { tokio::join!(pump(stdout, &mut out), pump(stderr, &mut errors)) };
        timeout(time_box, ended(&mut child, pumps, &mut group)).await
    };
    match status {
        Ok(Ok(status)) => command::finished(out, errors, exit(status)),
        Ok(Err(error)) => Err(why(&error)),
        Err(_) => Err(Why::TimedOut),
    }
}

/// Waits for the end of a command, and of its output as far as that can be waited for.
async fn ended(child: &mut Child, pumps: impl Future, group: &mut Group) -> io::Result<ExitStatus> {
    tokio::pin!(pumps);
    tokio::select! {
        status = child.wait() => {
            if timeout(DRAIN, &mut pumps).await.is_ok() {
                group.spare();
            }
            status
        }
        _ = &mut pumps => {
            let status = child.wait().await;
            group.spare();
            status
        }
    }
}

async fn pump(from: Option<impl AsyncRead + Unpin>, intake: &mut Intake) {
    let Some(mut from) = from else { return };
    let mut chunk = vec![0; CHUNK];
    while let Ok(length @ 1..) = from.read(&mut chunk).await {
        intake.push(chunk.get(..length).unwrap_or_default());
    }
}

/// As a shell would give it.
fn exit(status: ExitStatus) -> i32 {
    status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(-1)
}

/// A command's process group. It is killed when this is dropped, unless all of it is known to have ended.
struct Group(Option<Pid>);

impl Group {
    fn of(child: &Child) -> Self {
        Group(child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw))
    }

    fn spare(&mut self) {
        self.0 = None;
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(group) = self.0 {
            // Where the command has no group of its own there is none of this number, and `kill_on_drop` does it.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_read_that_hangs_is_given_up_at_the_deadline() {
        let begun = Instant::now();
        let deadline = begun + Duration::from_millis(100);
        let (held, release) = std::sync::mpsc::channel::<()>();
        let read = within(deadline, move || release.recv().map_err(|_| Why::Absent)).await;
        assert_eq!(read, Err(Why::TimedOut));
        assert!(begun.elapsed() < Duration::from_secs(2));
        drop(held);
    }

    #[test]
    fn a_hung_read_does_not_keep_the_program_from_ending() {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        let (held, release) = std::sync::mpsc::channel::<()>();
        let deadline = Duration::from_millis(50);
        let read = runtime.block_on(async {
            within(Instant::now() + deadline, move || release.recv().map_err(|_| Why::Absent)).await
        });
        assert_eq!(read, Err(Why::TimedOut));
        let begun = Instant::now();
        runtime.shutdown_background();
        assert!(begun.elapsed() < Duration::from_secs(2));
        drop(held);
    }

    #[test]
    fn hidden_files_come_last_and_the_number_is_bounded() {
        let mut names: Vec<OsString> = (0..200).map(|n| format!("{n:03}").into()).collect();
        names.extend([".hidden".into(), "two\nlines".into()]);
        let files = worth_reading(Path::new("/d"), names);
        assert_eq!((files.len(), files[0].to_str()), (MOST_FILES, Some("/d/000")));
        let files = worth_reading(Path::new("/d"), vec![".a".into(), "b".into(), "x\ny".into()]);
        assert_eq!(files, [PathBuf::from("/d/b"), PathBuf::from("/d/.a")]);
    }

    #[test]
    fn a_signal_is_an_exit_status_as_in_a_shell() {
        assert_eq!(exit(ExitStatus::from_raw(9)), 137);
        assert_eq!(exit(ExitStatus::from_raw(3 << 8)), 3);
    }
}
