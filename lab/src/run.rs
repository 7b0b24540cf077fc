//! Commands: an argv, a deadline, and what came of it. Nothing here goes through a shell.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::error::{During, Error, Result};
use crate::stop;

/// Long enough for anything that only talks to this machine.
const USUAL_DEADLINE: Duration = Duration::from_mins(1);
/// This very program, also where a newer one was built in its place meanwhile.
pub const OWN: &str = "/proc/self/exe";
/// A command that is asked to end gets this long: a lab among them has machines to take away.
const END: Duration = Duration::from_secs(30);
/// How often a command is looked at; short against anything the lab measures.
const LOOK: Duration = Duration::from_millis(10);

pub struct Run {
    command: Command,
    deadline: Duration,
    narrated: Option<String>,
    input: Option<Vec<u8>>,
    awaited: Option<String>,
}

#[derive(Clone)]
pub struct Done {
    pub status: ExitStatus,
    pub out: String,
    pub err: String,
    pub took: Duration,
    /// How long it ran until it said what was listened for.
    pub heard: Option<Duration>,
    line: String,
}

impl Run {
    pub fn new(program: impl AsRef<OsStr>) -> Self {
        Self { command: Command::new(program), deadline: USUAL_DEADLINE, narrated: None, input: None, awaited: None }
    }

    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.command.arg(arg);
        self
    }

    pub fn args<A: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.command.args(args);
        self
    }

    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    pub fn without_env(mut self, name: &str) -> Self {
        self.command.env_remove(name);
        self
    }

    pub fn within(mut self, directory: &Path) -> Self {
        self.command.current_dir(directory);
        self
    }

    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Says every so often that this is still going on.
    pub fn narrated(mut self, what: impl Into<String>) -> Self {
        self.narrated = Some(what.into());
        self
    }

    pub fn input(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.input = Some(bytes.into());
        self
    }

    /// Notes when it says these words, to either stream.
    pub fn listen_for(mut self, words: impl Into<String>) -> Self {
        self.awaited = Some(words.into());
        self
    }

    /// Runs it to its end, whatever its status.
    pub fn done(mut self) -> Result<Done> {
        stop::check()?;
        let line = self.line();
        let begun = Instant::now();
        self.command.stdin(if self.input.is_some() { Stdio::piped() } else { Stdio::null() });
        self.command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = self.command.spawn().during(|| format!("cannot run `{line}`"))?;
        if let (Some(bytes), Some(mut stdin)) = (self.input.take(), child.stdin.take()) {
            // A command that does not want its input closes the pipe; its exit status tells the rest.
            thread::spawn(move || std::io::Write::write_all(&mut stdin, &bytes));
        }
        let out = gather(child.stdout.take());
        let err = gather(child.stderr.take());
        let (awaited, mut heard) = (self.awaited, None);
        let mut listen = || {
            let said = |words: &String| out.says(words) || err.says(words);
            if heard.is_none() && awaited.as_ref().is_some_and(said) {
                heard = Some(begun.elapsed());
            }
        };
        let ended = wait(&mut child, begun, self.deadline, self.narrated.as_deref(), &mut listen);
        // Before the streams are read to their ends: something that goes on running may hold them open.
        let took = begun.elapsed();
        let (out, err) = (out.text(), err.text());
        let last_words = |words: &String| (out.contains(words) || err.contains(words)).then_some(took);
        let heard = heard.or_else(|| awaited.as_ref().and_then(last_words));
        match ended.during(|| format!("cannot wait for `{line}`"))? {
            Ended::Itself(status) => Ok(Done { status, out, err, took, heard, line }),
            Ended::Stopped => Err(Error::Stopped),
            Ended::TooLate => {
                Err(Error::Deadline { what: format!("`{line}`"), after: self.deadline, last: err + &out })
            }
        }
    }

    /// Runs it; anything but success is an error. Gives its output.
    pub fn ok(self) -> Result<String> {
        self.done()?.success().map(|done| done.out)
    }

    /// As the person would type it, for messages.
    fn line(&self) -> String {
        let words = std::iter::once(self.command.get_program()).chain(self.command.get_args());
        words.map(OsStr::to_string_lossy).collect::<Vec<_>>().join(" ")
    }

    pub fn into_command(self) -> Command {
        self.command
    }
}

impl Done {
    pub fn success(self) -> Result<Self> {
        if self.status.success() {
            return Ok(self);
        }
        Err(Error::Command {
            ending: format!("ended with {}", self.status),
            said: self.out + &self.err,
            command: self.line,
        })
    }

    pub fn code(&self) -> i32 {
        self.status.code().unwrap_or(-1)
    }

    /// Both streams, for looking for a sentence that a program may print to either.
    pub fn text(&self) -> String {
        format!("{}{}", self.out, self.err)
    }
}

/// What a stream has said so far. Something a command left running may hold the stream open for ever: when the command
/// has ended, the rest is waited for a moment only.
struct Gathered {
    bytes: Arc<Mutex<Vec<u8>>>,
    whole: Receiver<()>,
}

impl Gathered {
    /// So far.
    fn says(&self, words: &str) -> bool {
        self.bytes.lock().is_ok_and(|bytes| String::from_utf8_lossy(&bytes).contains(words))
    }

    fn text(self) -> String {
        const REST: Duration = Duration::from_secs(2);
        let _ = self.whole.recv_timeout(REST);
        let bytes = self.bytes.lock().map(|bytes| bytes.clone()).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

fn gather(stream: Option<impl Read + Send + 'static>) -> Gathered {
    let bytes = Arc::new(Mutex::new(Vec::new()));
    let (done, whole) = mpsc::channel();
    let kept = Arc::clone(&bytes);
    thread::spawn(move || {
        let mut piece = [0; 8192];
        let mut stream = stream;
        while let Some(Ok(size @ 1..)) = stream.as_mut().map(|stream| stream.read(&mut piece)) {
            if let Ok(mut kept) = kept.lock() {
                kept.extend_from_slice(piece.get(..size).unwrap_or_default());
            }
        }
        let _ = done.send(());
    });
    Gathered { bytes, whole }
}

fn wait(
    child: &mut Child,
    begun: Instant,
    deadline: Duration,
    narrated: Option<&str>,
    listen: &mut dyn FnMut(),
) -> std::io::Result<Ended> {
    const NARRATE: Duration = Duration::from_secs(30);
    let mut next_word = NARRATE;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Ended::Itself(status));
        }
        if stop::asked() {
            end(child)?;
            return Ok(Ended::Stopped);
        }
        if begun.elapsed() > deadline {
            child.kill()?;
            child.wait()?;
            return Ok(Ended::TooLate);
        }
        if let Some(what) = narrated.filter(|_| begun.elapsed() > next_word) {
            crate::say::line(&format!("still {what}, {} s", begun.elapsed().as_secs()));
            next_word += NARRATE;
        }
        listen();
        thread::sleep(LOOK);
    }
}

/// How a command's time ended.
enum Ended {
    Itself(ExitStatus),
    Stopped,
    TooLate,
}

/// Asks a command to end, and ends it where it does not.
fn end(child: &mut Child) -> std::io::Result<()> {
    if let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        kill_process(pid, Signal::TERM)?;
    }
    let begun = Instant::now();
    while child.try_wait()?.is_none() {
        if begun.elapsed() > END {
            child.kill()?;
        }
        thread::sleep(LOOK);
    }
    Ok(())
}

/// Waits, unless the run is asked to stop.
pub fn pause(time: Duration) -> Result<()> {
    let begun = Instant::now();
    while begun.elapsed() < time {
        stop::check()?;
        thread::sleep(LOOK.min(time));
    }
    Ok(())
}

/// Looks again and again until `look` gives something, or the deadline passes; `what` is what is waited for.
pub fn wait_for<T>(what: &str, deadline: Duration, mut look: impl FnMut() -> Result<Polled<T>>) -> Result<T> {
    const PAUSE: Duration = Duration::from_millis(200);
    let begun = Instant::now();
    loop {
        let last = match look()? {
            Polled::Seen(value) => return Ok(value),
            Polled::NotYet(last) => last,
        };
        if begun.elapsed() > deadline {
            return Err(Error::Deadline { what: what.to_owned(), after: begun.elapsed(), last });
        }
        pause(PAUSE)?;
    }
}

pub enum Polled<T> {
    Seen(T),
    /// What was seen instead, for the message when time is up.
    NotYet(String),
}

/// The program's place, looked for as a shell would.
pub fn which(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_else(|| OsString::from("/usr/sbin:/usr/bin:/sbin:/bin"));
    std::env::split_paths(&path).map(|dir| dir.join(program)).find(|file| file.is_file())
}

/// A word for a POSIX shell, for the one place where there is no argv: the far side of ssh.
pub fn shell_word(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

pub fn open_log(path: &Path) -> Result<File> {
    File::create(path).at("write", path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_takes_too_long_is_ended_and_said() {
        let error = Run::new("sleep").arg("30").deadline(Duration::from_millis(50)).done().err().expect("too long");
        assert!(error.to_string().starts_with("waited 0 s for `sleep 30`"), "{error}");
    }

    #[test]
    fn a_command_that_leaves_something_running_is_not_waited_for() {
        let begun = Instant::now();
        let said = Run::new("sh").args(["-c", "echo done; sleep 20 &"]).ok().expect("it ended");
        assert_eq!(said, "done\n");
        assert!(begun.elapsed() < Duration::from_secs(10));
    }

    #[test]
    fn what_is_listened_for_is_heard() {
        for (words, is_heard) in [("two", true), ("three", false)] {
            let done =
                Run::new("sh").args(["-c", "echo one; echo two >&2"]).listen_for(words).done().expect("it ended");
            assert_eq!(done.heard.is_some(), is_heard, "{words}");
            assert!(done.heard <= Some(done.took), "{:?} of {:?}", done.heard, done.took);
        }
    }

    #[test]
    fn a_failing_command_says_its_last_words() {
        let error = Run::new("sh").args(["-c", "echo why >&2; exit 3"]).ok().expect_err("it failed");
        assert!(error.to_string().contains("exit status: 3") && error.to_string().contains("\n    why"), "{error}");
    }

    #[test]
    fn words_survive_a_shell() {
        for word in ["", "plain", "two words", "it's", "$HOME `id` \"x\" \\ ; & |", "new\nline"] {
            let printed = Run::new("sh").args(["-c", &format!("printf %s {}", shell_word(word))]).ok().expect("printf");
            assert_eq!(printed, word);
        }
    }
}
