//! Another machine, through the system's OpenSSH client: the user's configuration, agent, jump hosts and keys count.
//!
//! One connection a run, which later calls share. All facts come in one round trip: a constant script on `sh -s`, one line
//! a job after it, framed lines back (observe.sh says how). Nothing is installed there; what changes something is in
//! `change`, and only whoever holds a `Host` gets there.

mod change;
mod transcript;

use std::ffi::OsStr;
use std::fs::Permissions;
use std::io;
use std::net::IpAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::process::Stdio;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use carrick_core::fact::keep::ERRORS;
use carrick_core::fact::{Source, Why, shown};
use carrick_core::redact::redact;
use jiff::{SignedDuration, Timestamp};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader, Join, ReadBuf};
use tokio::net::UnixStream;
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::time::{Instant, timeout, timeout_at};

use crate::command::{self, last_line, whole_lines};
use crate::local;
use crate::probe::{BoxFuture, ByteStream, Observation, Probe, Progress, TIME_BOX, Target};
use transcript::{Ask, Transcript};

const SCRIPT: &str = include_str!("observe.sh");

/// A login that prompts, waits for a second factor or asks about a host key: sshd itself gives up after two minutes.
const LOGIN: Duration = Duration::from_mins(2);
/// For what the client only has to ask of the connection that is already there.
const CONTROL: Duration = Duration::from_secs(5);
/// Until the shell there has read its rc files and our script.
const BEGINNING: Duration = Duration::from_secs(15);
/// After the time box: for what is still on the wire.
const GRACE: Duration = Duration::from_secs(1);
/// However slow the link: what has not come by then will not come.
const LONGEST: Duration = Duration::from_secs(30);
/// Of what a client complains of: a message, not a flood of it.
const MOST_SAID: usize = 4096;
/// Our connection ends by itself this long after a crash of ours.
const PERSIST: &str = "ControlPersist=60";

/// How to reach a machine.
#[derive(Clone, Debug)]
pub struct SshOptions {
    /// Never ask anything: a machine that would need a password is unreachable.
    pub batch: bool,
    /// Look as root, through `sudo -n`. Sockets are still opened as the user who logged in.
    pub sudo: bool,
    /// For each source.
    pub time_box: Duration,
    pub connect_timeout: Duration,
    /// Instead of ~/.ssh/config.
    pub config: Option<PathBuf>,
    /// As after `ssh -o`.
    pub settings: Vec<String>,
    /// The socket on which alone the container runtime there is asked.
    pub runtime: Option<String>,
}

impl Default for SshOptions {
    fn default() -> Self {
        SshOptions {
            batch: true,
            sudo: false,
            time_box: TIME_BOX,
            connect_timeout: Duration::from_secs(10),
            config: None,
            settings: Vec::new(),
            runtime: None,
        }
    }
}

/// A machine that could not be reached, and what ssh said of it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{destination}: {reason}")]
pub struct Unreachable {
    pub destination: String,
    pub reason: String,
}

/// A machine that was reached over SSH.
pub struct Ssh {
    destination: String,
    options: SshOptions,
    /// Holds the control socket, the client's log and the sockets of forwards; ours alone.
    dir: TempDir,
    forwards: AtomicUsize,
    /// How far the clock there is ahead of ours, in seconds.
    ahead: AtomicI64,
    held: change::Held,
}

impl Ssh {
    /// The same machine, whose container runtime is asked on this socket alone.
    pub fn with_runtime(mut self, socket: Option<String>) -> Self {
        self.options.runtime = socket;
        self
    }

    /// Logs in. What is given is one a later call can use.
    pub async fn connect(destination: &str, options: SshOptions) -> Result<Self, Unreachable> {
        let unreachable = |reason: String| Unreachable { destination: destination.to_owned(), reason };
        check_destination(destination).map_err(unreachable)?;
        let dir = private_dir().map_err(|error| unreachable(format!("no place for the control socket: {error}")))?;
        let ssh = Ssh {
            destination: destination.to_owned(),
            options,
            dir,
            forwards: AtomicUsize::new(0),
            ahead: AtomicI64::new(0),
            held: change::Held::default(),
        };
        ssh.log_in().await.map_err(unreachable)?;
        if ssh.options.sudo {
            ssh.try_sudo().await.map_err(unreachable)?;
        }
        Ok(ssh)
    }

    async fn log_in(&self) -> Result<(), String> {
        let mut login = Command::new("ssh");
        if let Some(config) = &self.options.config {
            login.arg("-F").arg(config);
        }
        login.arg("-E").arg(self.log()).arg("-S").arg(self.socket()).args(["-N", "-T"]);
        let timeout = format!("ConnectTimeout={}", self.options.connect_timeout.as_secs().max(1));
        let batch = if self.options.batch { "BatchMode=yes" } else { "BatchMode=no" };
        // What the user's configuration would add to a session of theirs is not wanted in ours.
        let ours = ["ControlMaster=yes", PERSIST, "ServerAliveInterval=5", "ServerAliveCountMax=3", "LogLevel=INFO"];
        let not_theirs = ["ClearAllForwardings=yes", "ForwardAgent=no", "ForwardX11=no", "PermitLocalCommand=no"];
        let settings = self.options.settings.iter().map(String::as_str);
        for setting in ours.into_iter().chain(not_theirs).chain([&*timeout, batch, "Compression=yes"]).chain(settings) {
            login.args(["-o", setting]);
        }
        login.arg("--").arg(&self.destination);
        if self.options.batch {
            login.process_group(0);
        }
        let limit = if self.options.batch { self.options.connect_timeout + BEGINNING } else { LOGIN };
        match local::run(login, ERRORS, limit).await {
            Ok((capture, _)) if capture.exit == Some(0) => Ok(()),
            Ok((capture, _)) => Err(self.reason(&capture.errors)),
            Err(Why::NoTool) => Err("the ssh client is not installed here".to_owned()),
            Err(Why::Denied) => Err(self.reason("")),
            Err(Why::TimedOut) => Err(format!("no answer in {} s", limit.as_secs())),
            Err(why) => Err(why.to_string()),
        }
    }

    /// What went wrong, in one line: what a jump host said, else what our own client wrote in its log.
    fn reason(&self, errors: &str) -> String {
        let log = std::fs::read_to_string(self.log()).unwrap_or_default();
        let said = redact(if errors.trim().is_empty() { &log } else { errors });
        let line = last_line(&said);
        line.strip_prefix("ssh: ").unwrap_or(line).to_owned()
    }

    async fn try_sudo(&self) -> Result<(), String> {
        let mut command = self.client();
        command.arg("--").arg(&self.destination).arg("sudo -n true");
        match local::run(command, ERRORS, BEGINNING).await {
            Ok((capture, _)) if capture.exit == Some(0) => Ok(()),
            Ok((capture, _)) => Err(last_line(&capture.errors).to_owned()),
            Err(why) => Err(format!("sudo: {why}")),
        }
    }

    /// A client that uses the connection there is, and never makes another: without the user's configuration, with a proxy
    /// that always fails.
    fn client(&self) -> Command {
        let mut client = Command::new("ssh");
        client.args(["-F", "/dev/null", "-T", "-S"]).arg(self.socket()).process_group(0).kill_on_drop(true);
        client.args(["-o", "ControlMaster=no", "-o", "BatchMode=yes", "-o", "ProxyCommand=false"]);
        client
    }

    fn socket(&self) -> PathBuf {
        self.dir.path().join("s")
    }

    fn log(&self) -> PathBuf {
        self.dir.path().join("log")
    }

    /// One round trip. `done` is told of every job that ends, by its place.
    async fn ask(&self, asks: &[Ask], sudo: bool, mut done: impl FnMut(usize)) -> Transcript {
        let nonce = nonce(self.dir.path());
        let mut transcript = Transcript::new(&nonce, self.options.time_box);
        let mut child = match self.shell(sudo).spawn() {
            Ok(child) => child,
            Err(error) => {
                transcript.lose(Why::Broken(format!("ssh could not be run: {error}")));
                return transcript;
            }
        };
        let script = script(&nonce, self.options.time_box, asks);
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        let write = async {
            if let Some(mut stdin) = stdin {
                // Where it cannot be written the answer will be missing, and that is told.
                let _ = stdin.write_all(script.as_bytes()).await;
            }
        };
        let read = async {
            if let Some(stdout) = stdout {
                self.listen(stdout, &mut transcript, &mut done).await;
            }
        };
        tokio::join!(write, read);
        if !transcript.has_begun() {
            let mut said = Vec::new();
            if let Some(stderr) = child.stderr.take() {
                let _ = timeout(GRACE, stderr.take(MOST_SAID as u64).read_to_end(&mut said)).await;
            }
            transcript.lose(no_shell(transcript.noise(), whole_lines(&said, MOST_SAID)));
        }
        transcript
    }

    fn shell(&self, sudo: bool) -> Command {
        let mut shell = self.client();
        // Whatever hangs there is gone soon after we have stopped waiting.
        let limit = (self.options.time_box + LONGEST).as_secs() + 1;
        let sudo = if sudo { "sudo -n " } else { "" };
        shell.arg("--").arg(&self.destination).arg(format!("{sudo}timeout -s KILL {limit} sh -s"));
        shell.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        shell
    }

    async fn listen(&self, mut stdout: ChildStdout, transcript: &mut Transcript, done: &mut impl FnMut(usize)) {
        let begun = Instant::now();
        let mut heard = begun;
        let mut chunk = vec![0; 64 << 10];
        loop {
            let deadline = match transcript.begun() {
                None => begun + BEGINNING,
                Some(begun) => {
                    let boxed = begun + self.options.time_box;
                    (boxed + GRACE).max(heard + GRACE).min(boxed + LONGEST)
                }
            };
            match timeout_at(deadline, stdout.read(&mut chunk)).await {
                Ok(Ok(length @ 1..)) => {
                    heard = Instant::now();
                    let silent = !transcript.has_begun();
                    transcript.feed(chunk.get(..length).unwrap_or_default(), heard, done);
                    if let Some(there) = transcript.clock().filter(|_| silent) {
                        self.ahead.store(there.saturating_sub(Timestamp::now().as_second()), Ordering::Relaxed);
                    }
                }
                Ok(_) => return transcript.lose(Why::Broken("the connection ended before this was read".to_owned())),
                Err(_) => return transcript.time_out(),
            }
            if transcript.has_ended() {
                return;
            }
        }
    }

    /// A connection from there to a TCP address, as the client's own stdin and stdout.
    async fn tunnel(&self, host: &str, port: u16) -> io::Result<Box<dyn ByteStream>> {
        let address = if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
        let mut client = self.client();
        client.args(["-o", "LogLevel=DEBUG1", "-W", &address]).arg("--").arg(&self.destination);
        let mut child = client.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let (Some(stdin), Some(stdout), Some(stderr)) = (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err(io::Error::other("ssh has no pipes"));
        };
        let mut said = BufReader::new(stderr);
        let mut line = String::new();
        loop {
            line.clear();
            if said.read_line(&mut line).await? == 0 {
                return Err(refusal(&self.log()));
            }
            // The only word the client has for "the other end has connected".
            if line.contains("master session id") {
                return Ok(Box::new(Tunnel { io: tokio::io::join(stdout, stdin), _child: child, _said: said }));
            }
        }
    }

    /// A connection from there to a socket, through one of ours that is gone as soon as it has been used.
    async fn forward(&self, path: &str) -> io::Result<Box<dyn ByteStream>> {
        if !path.starts_with('/') || path.contains([':', '\\']) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("{path:?} is not the path of a socket")));
        }
        self.must_be_socket(path).await?;
        let number = self.forwards.fetch_add(1, Ordering::Relaxed);
        let ours = self.dir.path().join(format!("f{number}"));
        let mut forward = ours.clone().into_os_string();
        forward.push(":");
        forward.push(path);
        self.control("forward", &forward).await?;
        let stream = UnixStream::connect(&ours).await;
        let cancelled = self.control("cancel", &forward).await;
        let _ = std::fs::remove_file(&ours);
        cancelled?;
        Ok(Box::new(Forwarded { stream: stream?, answered: false, log: self.log() }))
    }

    /// sshd does not say why it could not connect to a socket; its place in the file system does.
    async fn must_be_socket(&self, path: &str) -> io::Result<()> {
        const LOOK: &str =
            r#"ls -d -- "$1" >/dev/null && if [ ! -S "$1" ]; then exit 3; elif [ ! -w "$1" ]; then exit 4; fi"#;
        let ask = Ask::command(&["sh", "-c", LOOK, "sh", path]);
        let transcript = self.ask(std::slice::from_ref(&ask), false, |_| {}).await;
        let denied = || io::Error::from(io::ErrorKind::PermissionDenied);
        match transcript.answer(0, &ask).pop().map(|observation| observation.capture) {
            Some(Ok(capture)) => match (capture.exit, command::why(&capture.errors)) {
                (Some(0), _) => Ok(()),
                (Some(3), _) => Err(io::Error::other("is not a socket")),
                (Some(4), _) | (_, Why::Denied) => Err(denied()),
                (_, Why::Absent) => Err(io::ErrorKind::NotFound.into()),
                (_, why) => Err(io::Error::other(why.to_string())),
            },
            Some(Err(Why::Denied)) => Err(denied()),
            Some(Err(Why::TimedOut)) => Err(io::ErrorKind::TimedOut.into()),
            Some(Err(why)) => Err(io::Error::other(why.to_string())),
            None => Err(io::Error::other("no answer")),
        }
    }

    async fn control(&self, order: &str, forward: &OsStr) -> io::Result<()> {
        let mut client = self.client();
        client.args(["-O", order, "-L"]).arg(forward).arg("--").arg(&self.destination);
        match local::run(client, ERRORS, CONTROL).await {
            Ok((capture, _)) if capture.exit == Some(0) => Ok(()),
            Ok((capture, _)) => Err(io::Error::other(format!("ssh -O {order}: {}", last_line(&capture.errors)))),
            Err(why) => Err(io::Error::other(format!("ssh -O {order}: {why}"))),
        }
    }
}

impl Drop for Ssh {
    fn drop(&mut self) {
        let mut exit = std::process::Command::new("ssh");
        exit.args(["-F", "/dev/null", "-O", "exit", "-S"]).arg(self.socket()).arg("--").arg(&self.destination);
        exit.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let Ok(mut child) = exit.spawn() else { return };
        // A word over a local socket to a process that does nothing else. Were it lost, the connection ends by itself.
        for _ in 0..100 {
            if !matches!(child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = child.kill();
        let _ = child.wait();
    }
}

impl Probe for Ssh {
    fn runtime(&self) -> Option<&str> {
        self.options.runtime.as_deref()
    }

    fn name(&self) -> &str {
        &self.destination
    }

    fn now(&self) -> Timestamp {
        let ahead = SignedDuration::from_secs(self.ahead.load(Ordering::Relaxed));
        Timestamp::now().checked_add(ahead).unwrap_or_else(|_| Timestamp::now())
    }

    fn observe<'a>(&'a self, sources: &'a [Source], progress: &'a Progress) -> BoxFuture<'a, Vec<Observation>> {
        Box::pin(async move {
            let asks: Vec<Ask> = sources.iter().filter_map(Ask::of).collect();
            let names: Vec<String> = asks.iter().map(|ask| shown(&ask.key()).to_owned()).collect();
            for name in &names {
                progress.begin(name);
            }
            let done = |at: usize| names.get(at).map_or((), |name| progress.end(name));
            let transcript = self.ask(&asks, self.options.sudo, done).await;
            for name in &names {
                progress.end(name);
            }
            asks.iter().enumerate().flat_map(|(at, ask)| transcript.answer(at, ask)).collect()
        })
    }

    fn resolve<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Vec<IpAddr>, Why>> {
        Box::pin(async move {
            if let Ok(address) = name.parse() {
                return Ok(vec![address]);
            }
            let ask = Ask::command(&command::resolver(name)?);
            let transcript = self.ask(std::slice::from_ref(&ask), false, |_| {}).await;
            let answer = transcript.answer(0, &ask).pop().map_or(Err(Why::NotCollected), |answer| answer.capture);
            command::addresses(&answer?)
        })
    }

    fn connect<'a>(&'a self, target: &'a Target) -> BoxFuture<'a, io::Result<Box<dyn ByteStream>>> {
        Box::pin(async move {
            match target {
                Target::Tcp { host, port } => self.tunnel(host, *port).await,
                Target::Unix(path) => self.forward(path).await,
                Target::Within { .. } => Err(io::ErrorKind::Unsupported.into()),
            }
        })
    }
}

/// ssh takes a destination apart itself, and a ProxyCommand of the user's may paste it into a shell.
fn check_destination(destination: &str) -> Result<(), String> {
    let strange = |c: char| !(c.is_alphanumeric() || "@._-:[]%/+~=,".contains(c));
    match destination.chars().find(|&c| strange(c)) {
        Some(c) => Err(format!("{c:?} cannot be part of an ssh destination")),
        None if destination.is_empty() => Err("the ssh destination is empty".to_owned()),
        None if destination.starts_with('-') => Err("an ssh destination cannot begin with '-'".to_owned()),
        None => Ok(()),
    }
}

/// A directory of ours, with a path short enough for a socket's name (108 bytes, of which ssh wants 17 for itself).
fn private_dir() -> io::Result<TempDir> {
    let usual = std::env::temp_dir();
    // A % in a control path means something to ssh.
    let unfit = usual.as_os_str().len() > 60 || usual.as_os_str().as_encoded_bytes().contains(&b'%');
    let place = if unfit { Path::new("/tmp") } else { &usual };
    tempfile::Builder::new().prefix("carrick-").permissions(Permissions::from_mode(0o700)).tempdir_in(place)
}

/// What no noise can hold: the name of our directory is random.
fn nonce(dir: &Path) -> String {
    let name = dir.file_name().map(OsStr::to_string_lossy).unwrap_or_default();
    name.chars().filter(char::is_ascii_alphanumeric).collect()
}

/// The whole of it stands in one `{ … }`: a script that was cut off runs not at all. `cat`, because what jobs write at once
/// to a pipe stays whole, and what sshd gives us need not be one.
fn script(nonce: &str, time_box: Duration, asks: &[Ask]) -> String {
    let mut script = format!("{SCRIPT}\n{{\nbegin {nonce} {}\n", time_box.as_secs_f64());
    for (id, ask) in asks.iter().enumerate() {
        script.push_str(&ask.line(id));
        script.push('\n');
    }
    script.push_str("finish\n} | cat\n");
    script
}

/// A text as one word of a POSIX shell. The only place where something is quoted.
pub(crate) fn quote(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// What was said instead of running our script.
fn no_shell(noise: &str, errors: &[u8]) -> Why {
    let errors = String::from_utf8_lossy(errors);
    let said = if errors.trim().is_empty() { noise } else { &errors };
    Why::NoShell(last_line(&redact(said)).to_owned())
}

/// Why a connection from there was not made: our client's log has the words of sshd.
fn refusal(log: &Path) -> io::Error {
    let log = std::fs::read_to_string(log).unwrap_or_default();
    let line = log.lines().rfind(|line| line.contains("open failed: ")).unwrap_or_default();
    let reason = line.trim_end().rsplit(": ").next().unwrap_or_default();
    match reason {
        _ if line.contains("administratively prohibited") => {
            io::Error::new(io::ErrorKind::PermissionDenied, "sshd there does not allow forwarding")
        }
        // The second is all that sshd says of a socket that is there and that nobody listens on.
        "Connection refused" | "open failed" => io::ErrorKind::ConnectionRefused.into(),
        "Connection timed out" => io::ErrorKind::TimedOut.into(),
        "No route to host" => io::ErrorKind::HostUnreachable.into(),
        "Network is unreachable" => io::ErrorKind::NetworkUnreachable.into(),
        "" => io::Error::other("the connection ended"),
        _ => io::Error::other(reason.to_owned()),
    }
}

/// The stdin and stdout of a client that stands for a TCP connection.
struct Tunnel {
    io: Join<ChildStdout, ChildStdin>,
    _child: Child,
    /// Kept open: the client must be able to say its last words.
    _said: BufReader<ChildStderr>,
}

/// Our end of a socket there. That nobody listens there shows only when it ends before a single byte came.
struct Forwarded {
    stream: UnixStream,
    answered: bool,
    log: PathBuf,
}

impl AsyncRead for Forwarded {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(cx, buf);
        if polled.is_ready() && !self.answered {
            self.answered = buf.filled().len() > before;
            if !self.answered && buf.remaining() > 0 {
                return Poll::Ready(Err(refusal(&self.log)));
            }
        }
        polled
    }
}

impl AsyncRead for Tunnel {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, buf)
    }
}

impl AsyncWrite for Tunnel {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

impl AsyncWrite for Forwarded {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        match Pin::new(&mut self.stream).poll_write(cx, buf) {
            Poll::Ready(Err(_)) if !self.answered => Poll::Ready(Err(refusal(&self.log))),
            polled => polled,
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use carrick_testkit::need;
    use proptest::prelude::*;
    use std::io::Write as _;

    /// What a shell takes a quoted text for, when the script comes on stdin as it does over SSH.
    fn unquoted(shell: &[&str], text: &str) -> String {
        let mut command = std::process::Command::new(shell[0]);
        let mut child =
            command.args(&shell[1..]).arg("-s").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        write!(child.stdin.take().unwrap(), "LC_ALL=C\nprintf %s {}\n", quote(text)).unwrap();
        String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap()
    }

    fn shells() -> Vec<Vec<&'static str>> {
        let mut shells = vec![vec!["dash"], vec!["bash"]];
        shells.extend(need("busybox").then(|| vec!["busybox", "sh"]));
        shells
    }

    /// The script as a shell runs it, without ssh around it.
    fn told_by(shell: &[&str], path: Option<&Path>, asks: &[Ask]) -> Transcript {
        let mut command = std::process::Command::new(shell[0]);
        if let Some(path) = path {
            command.env("PATH", path);
        }
        command.args(&shell[1..]).arg("-s").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(script("n0", TIME_BOX, asks).as_bytes()).unwrap();
        let out = child.wait_with_output().unwrap().stdout;
        assert!(
            out.split(|&byte| byte == b'\n').all(|line| line.len() < 4096),
            "a longer line would not be written at once"
        );
        let mut transcript = Transcript::new("n0", TIME_BOX);
        transcript.feed(&out, Instant::now(), &mut |_| {});
        assert!(transcript.has_ended(), "{shell:?}");
        transcript
    }

    fn asks() -> Vec<Ask> {
        const QUESTIONS: [&[&str]; 4] = [
            &["sh", "-c", "seq 1 100000; seq 1 100000 >&2; exit 3"],
            &["carrick-no-such-tool"],
            &["sh", "-c", "printf '<>\\000\\377'; kill -KILL $$"],
            &["cat"],
        ];
        let files = ["/proc/version", "/absent", "/etc/passwd/below", "/etc", "/proc/self/mem"];
        let mut asks: Vec<Ask> = files.into_iter().map(|path| Ask::File(path.into())).collect();
        asks.extend(QUESTIONS.into_iter().map(Ask::command));
        asks.extend(["/etc/default", "/absent", "/etc/passwd"].into_iter().map(|path| Ask::Tree(path.into())));
        asks
    }

    fn answers(transcript: &Transcript, asks: &[Ask]) -> Vec<Observation> {
        asks.iter().enumerate().flat_map(|(at, ask)| transcript.answer(at, ask)).collect()
    }

    #[test]
    fn every_shell_tells_the_same() {
        let asks = asks();
        let by_dash = answers(&told_by(&["dash"], None, &asks), &asks);
        assert_eq!(by_dash[0].capture.as_ref().map(|capture| capture.text.starts_with("Linux")), Ok(true));
        for shell in shells() {
            for (seen, by_dash) in answers(&told_by(&shell, None, &asks), &asks).iter().zip(&by_dash) {
                assert!(seen == by_dash, "{shell:?}: {}", seen.key);
            }
        }
    }

    #[test]
    fn the_tools_of_busybox_will_do_but_for_directories() {
        if !need("busybox") {
            return;
        }
        let bin = tempfile::tempdir().unwrap();
        let busybox = ["/bin/busybox", "/usr/bin/busybox"].into_iter().find(|path| Path::new(path).exists()).unwrap();
        let install = std::process::Command::new(busybox).args(["--install", "-s"]).arg(bin.path()).status().unwrap();
        assert!(install.success());
        let shell = bin.path().join("sh");
        let asks = asks();
        let here = answers(&told_by(&["dash"], None, &asks), &asks);
        let there = answers(&told_by(&[shell.to_str().unwrap()], Some(bin.path()), &asks), &asks);
        for (here, there) in here.iter().zip(&there).take_while(|(here, _)| !here.key.starts_with("dir ")) {
            let text = |seen: &Observation| seen.capture.clone().map(|capture| (capture.text, capture.exit));
            assert_eq!(text(here), text(there), "{}", here.key);
        }
        let listing = there.iter().find(|seen| seen.key == "dir /etc/default").unwrap();
        assert_eq!(listing.capture, Err(Why::Broken("find there has no -printf, which listing over SSH needs".into())));
    }

    #[test]
    fn a_machine_without_base64_says_so() {
        let bin = tempfile::tempdir().unwrap();
        for tool in ["timeout", "head", "tail", "cat", "find"] {
            std::os::unix::fs::symlink(Path::new("/usr/bin").join(tool), bin.path().join(tool)).unwrap();
        }
        let asks = [Ask::File("/etc/passwd".into())];
        let why = answers(&told_by(&["/bin/sh"], Some(bin.path()), &asks), &asks).remove(0).capture.unwrap_err();
        assert_eq!(why.to_string(), "the machine has no `base64 -w`, which looking over SSH needs");
    }

    #[test]
    fn quoting_holds_for_what_shells_like_to_take_apart() {
        let texts = [
            "",
            " ",
            "'",
            "''",
            "a'b",
            "\\",
            "\\'",
            "$(id)",
            "`id`",
            "$HOME",
            "*",
            "~",
            "!x",
            "a\nb\n",
            "-n",
            "%s",
            "\r",
            "ä\u{301}",
            "#",
            "\\\n",
            "a\\",
        ];
        for shell in shells() {
            for text in texts {
                assert_eq!(unquoted(&shell, text), text, "{shell:?}");
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]
        #[test]
        fn any_text_survives_every_shell(text in "([^\0]|['\"\\\\$`!\n]){0,40}") {
            for shell in shells() {
                prop_assert_eq!(&unquoted(&shell, &text), &text, "{:?}", shell);
            }
        }
    }

    #[test]
    fn a_destination_is_not_an_option_nor_a_command() {
        for good in ["w1", "root@10.0.0.1", "ssh://root@[fe80::1%25eth0]:2222", "user+x@host.example.org"] {
            assert_eq!(check_destination(good), Ok(()), "{good}");
        }
        for bad in ["", "-oProxyCommand=id", "a b", "a;id", "$(id)", "a'b", "a\nb", "`id`"] {
            assert!(check_destination(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn the_log_tells_why_a_connection_was_not_made() {
        let log = tempfile::NamedTempFile::new().unwrap();
        let rows = [
            ("channel 2: open failed: connect failed: Connection refused\r\n", io::ErrorKind::ConnectionRefused),
            ("channel 2: open failed: connect failed: No route to host\r\n", io::ErrorKind::HostUnreachable),
            ("channel 2: open failed: administratively prohibited: open failed\r\n", io::ErrorKind::PermissionDenied),
            ("channel 2: open failed: connect failed: open failed\r\n", io::ErrorKind::ConnectionRefused),
            ("channel 2: open failed: connect failed: Name or service not known\r\n", io::ErrorKind::Other),
            ("", io::ErrorKind::Other),
        ];
        for (line, kind) in rows {
            std::fs::write(log.path(), line).unwrap();
            assert_eq!(refusal(log.path()).kind(), kind, "{line:?}");
        }
    }
}
