//! How another machine is changed: a constant script on `sh -s`, one call a round trip (change.sh has the calls).
//!
//! What a file is to hold goes over stdin, never over a command line.

use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use carrick_core::fact::Why;
use carrick_core::redact::redact;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, Command};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use super::{GRACE, MOST_SAID, Ssh, nonce, quote};
use crate::command::{last_line, whole_lines};
use crate::host::{
    CommandOutput, FILE_TIME, File, Host, LARGEST, Lock, Locked, MOST_OUTPUT, PathEntry, Trouble, WriteMode, too_long,
};
use crate::probe::BoxFuture;

const SCRIPT: &str = include_str!("change.sh");

/// The machine's lock, while we think that we have it: its path, and the word in it that says that it is ours.
pub(super) type Held = Arc<Mutex<Option<(String, String)>>>;

/// How a call of [`SCRIPT`] ended, and what it printed.
struct Answer {
    exit: i32,
    out: Vec<u8>,
    errors: String,
    /// There was more of it.
    cut: bool,
}

/// How [`SCRIPT`] ends where the lock is not ours any more.
const LOST: i32 = 97;

/// A call that changes something, as it is made while we have the lock. The machine itself looks whether that still holds:
/// here it could be lost between a look and the call.
fn guarded<'a>(held: Option<&'a (String, String)>, words: &[&'a str]) -> Vec<&'a str> {
    let guard = held.map(|(path, nonce)| ["locked", path, nonce]);
    guard.into_iter().flatten().chain(words.iter().copied()).collect()
}

impl Ssh {
    fn held(&self) -> Option<(String, String)> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// One call of the script: its answer without the noise before it.
    async fn order(&self, words: &[&str], limit: Duration, most: u64) -> Result<Answer, Why> {
        let nonce = nonce(self.dir.path());
        let mut child =
            self.orderly(limit).spawn().map_err(|error| Why::Broken(format!("ssh could not be run: {error}")))?;
        let script = order_script(&nonce, words);
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let write = async {
            if let Some(mut stdin) = stdin {
                // Where it cannot be written there is no answer, and that is told.
                let _ = stdin.write_all(script.as_bytes()).await;
            }
        };
        let (mut out, mut errors) = (Vec::new(), Vec::new());
        let read = async {
            if let Some(stdout) = stdout {
                let mut stdout = stdout.take(most);
                let _ = stdout.read_to_end(&mut out).await;
                let _ = tokio::io::copy(&mut stdout.into_inner(), &mut tokio::io::sink()).await;
            }
        };
        let complain = async {
            if let Some(stderr) = stderr {
                let mut stderr = stderr.take(most);
                let _ = stderr.read_to_end(&mut errors).await;
                let _ = tokio::io::copy(&mut stderr.into_inner(), &mut tokio::io::sink()).await;
            }
        };
        let all = async {
            tokio::join!(write, read, complain);
            child.wait().await
        };
        let begun = Instant::now();
        let status = match timeout(limit + GRACE, all).await {
            // How ssh tells of what `timeout` there killed; a command that killed itself did so earlier.
            Ok(Ok(status)) if matches!(status.code(), Some(137 | 255)) && begun.elapsed() >= limit => None,
            Ok(status) => Some(status.map_err(|error| Why::Broken(error.to_string()))?),
            Err(_) => None,
        };
        let status = status.ok_or_else(|| Why::Broken(format!("no end in {} s", limit.as_secs())))?;
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        let errors = redact(&String::from_utf8_lossy(whole_lines(&errors, most)));
        match after_noise(whole_lines(&out, most), &nonce) {
            Some(answer) if status.code() == Some(LOST) && answer == format!("lost {nonce}\n").as_bytes() => {
                Err(Why::NoShell("the link was gone for so long that the machine's lock is lost".to_owned()))
            }
            Some(answer) => {
                let (exit, out, cut) = (status.code().unwrap_or(255), answer.to_vec(), out.len() >= most);
                Ok(Answer { exit, out, errors, cut })
            }
            None => Err(Why::NoShell(last_line(&errors).to_owned())),
        }
    }

    fn orderly(&self, limit: Duration) -> Command {
        let mut shell = self.client();
        let sudo = if self.options.sudo { "sudo -n " } else { "" };
        let order = format!("{sudo}timeout -s KILL {} sh -s", limit.as_secs().max(1));
        shell.arg("--").arg(&self.destination).arg(order);
        shell.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        shell
    }

    /// One that changes a file.
    async fn change(&self, path: &str, words: &[&str]) -> Result<(), Trouble> {
        let held = self.held();
        self.file_order(path, &guarded(held.as_ref(), words)).await.map(drop)
    }

    async fn file_order(&self, path: &str, words: &[&str]) -> Result<Vec<u8>, Trouble> {
        let most = LARGEST + (64 << 10);
        match self.order(words, FILE_TIME, most).await {
            Ok(Answer { cut: true, .. }) => Err(Trouble::new(path, too_long())),
            Ok(Answer { exit: 0, out, .. }) => Ok(out),
            Ok(Answer { errors, .. }) => {
                Err(Trouble::new(path, last_line(&errors).rsplit(": ").next().unwrap_or_default()))
            }
            Err(why) => Err(Trouble::because(path, &why)),
        }
    }
}

/// The whole of it stands in one `{ … }`: a script that was cut off runs not at all. What it calls has no stdin but the
/// rest of ours, which is empty, or the line that keeps a lock.
fn order_script(nonce: &str, words: &[&str]) -> String {
    let words: Vec<String> = words.iter().map(|word| quote(word)).collect();
    let largest = LARGEST + 1;
    format!(
        "{SCRIPT}\n{{ largest={largest}\nnonce={nonce}\nprintf 'carrick %s\\n' $nonce\n{}\nexit\n}}\n",
        words.join(" ")
    )
}

fn after_noise<'a>(out: &'a [u8], nonce: &str) -> Option<&'a [u8]> {
    let mark = format!("carrick {nonce}\n");
    let at = out.windows(mark.len()).position(|window| window == mark.as_bytes())?;
    out.get(at + mark.len()..)
}

/// What `look` prints: a line, and after it a file's bytes.
fn entry(answer: &[u8]) -> Result<Option<PathEntry>, String> {
    let end = answer.iter().position(|&byte| byte == b'\n').ok_or("no answer")?;
    let (line, bytes) = (answer.get(..end).unwrap_or_default(), answer.get(end + 1..).unwrap_or_default());
    let line = String::from_utf8_lossy(line);
    if let Some(to) = line.strip_prefix("link ") {
        return Ok(Some(PathEntry::Link(to.to_owned())));
    }
    let words: Vec<&str> = line.split(' ').collect();
    let octal = |text: &str| u32::from_str_radix(text, 8).map_err(|_| format!("{text:?} is not a mode"));
    let number = |text: &str| text.parse::<u32>().map_err(|_| format!("{text:?} is not an owner"));
    Ok(Some(match words.as_slice() {
        ["none"] => return Ok(None),
        ["dir", mode, uid, gid] => PathEntry::Dir { mode: octal(mode)?, uid: number(uid)?, gid: number(gid)? },
        ["file", ..] if bytes.len() as u64 > LARGEST => return Err(format!("is larger than {} MiB", LARGEST >> 20)),
        ["file", mode, uid, gid] => {
            PathEntry::File(File { bytes: bytes.to_vec(), mode: octal(mode)?, uid: number(uid)?, gid: number(gid)? })
        }
        ["other", "a", "socket"] => PathEntry::Other("a socket"),
        ["other", ..] => PathEntry::Other("a device"),
        _ => return Err(format!("{line:?} is no answer")),
    }))
}

impl Host for Ssh {
    fn look<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<Option<PathEntry>, Trouble>> {
        Box::pin(async move {
            let answer = self.file_order(path, &["look", path]).await?;
            entry(&answer).map_err(|why| Trouble::new(path, why))
        })
    }

    fn list<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<Vec<String>, Trouble>> {
        Box::pin(async move {
            let answer = self.file_order(path, &["list", path]).await?;
            Ok(String::from_utf8_lossy(&answer).split_terminator('\0').map(str::to_owned).collect())
        })
    }

    fn write<'a>(&'a self, path: &'a str, file: &'a File, how: WriteMode) -> BoxFuture<'a, Result<(), Trouble>> {
        Box::pin(async move {
            let call = match how {
                WriteMode::Replace => "replace",
                WriteMode::InPlace => "in_place",
                WriteMode::Append => "append",
            };
            let (mode, owner) = (format!("{:o}", file.mode), format!("{}:{}", file.uid, file.gid));
            let (size, bytes) = (file.bytes.len().to_string(), BASE64_STANDARD.encode(&file.bytes));
            self.change(path, &[call, path, &mode, &owner, &size, &bytes]).await
        })
    }

    fn link<'a>(&'a self, path: &'a str, to: &'a str) -> BoxFuture<'a, Result<(), Trouble>> {
        Box::pin(async move { self.change(path, &["link", path, to]).await })
    }

    fn make_dir<'a>(&'a self, path: &'a str, mode: u32) -> BoxFuture<'a, Result<(), Trouble>> {
        Box::pin(async move { self.change(path, &["make_dir", path, &format!("{mode:o}")]).await })
    }

    fn set_mode<'a>(&'a self, path: &'a str, mode: u32) -> BoxFuture<'a, Result<(), Trouble>> {
        Box::pin(async move { self.change(path, &["set_mode", path, &format!("{mode:o}")]).await })
    }

    fn remove<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<(), Trouble>> {
        Box::pin(async move { self.change(path, &["remove", path]).await })
    }

    fn run<'a>(&'a self, argv: &'a [&'a str], limit: Duration) -> BoxFuture<'a, Result<CommandOutput, Trouble>> {
        Box::pin(async move {
            let what = || argv.join(" ");
            // `command` runs no function of ours that has the same name.
            let words: Vec<&str> = ["command"].into_iter().chain(argv.iter().copied()).collect();
            let held = self.held();
            match self.order(&guarded(held.as_ref(), &words), limit, MOST_OUTPUT as u64).await {
                Ok(Answer { exit: 127, out, errors, .. }) if out.is_empty() && errors.contains("not found") => {
                    Err(Trouble::new(what(), "the command is not installed"))
                }
                Ok(Answer { exit, out, errors, cut }) => {
                    Ok(CommandOutput { exit, out: redact(&String::from_utf8_lossy(&out)), errors, cut })
                }
                Err(why) => Err(Trouble::because(what(), &why)),
            }
        })
    }

    fn lock<'a>(&'a self, path: &'a str, holder: &'a str) -> BoxFuture<'a, Result<Lock, Locked>> {
        Box::pin(async move {
            let trouble = |why: String| Locked::from(Trouble::new(path, why));
            let answer = timeout(FILE_TIME, self.hold(path, holder)).await;
            match answer.unwrap_or_else(|_| Err(format!("no answer in {} s", FILE_TIME.as_secs()))).map_err(trouble)? {
                Ok(held) => Ok(Lock::new(held)),
                Err(said) => Err(Locked::By(said)),
            }
        })
    }
}

/// The session that holds a lock there: it ends when its stdin does, which ends with us, or when it has heard nothing for
/// half a minute.
struct Session {
    beats: JoinHandle<()>,
    _child: Child,
    held: Held,
}

/// Often enough that a machine has to be deaf for long to miss them all.
const BEAT: Duration = Duration::from_secs(5);

impl Session {
    fn kept(mut stdin: ChildStdin, child: Child, held: Held) -> Self {
        let beats = tokio::spawn(async move {
            while stdin.write_all(b"\n").await.is_ok() {
                sleep(BEAT).await;
            }
        });
        Session { beats, _child: child, held }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.beats.abort();
        *self.held.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// A lock outlives no run of ours; a run that takes longer than this has lost its machine.
const LONGEST_HELD: Duration = Duration::from_hours(24);

impl Ssh {
    async fn hold(&self, path: &str, holder: &str) -> Result<Result<Session, String>, String> {
        let nonce = nonce(self.dir.path());
        let mut child = self.orderly(LONGEST_HELD).spawn().map_err(|error| format!("ssh could not be run: {error}"))?;
        let (Some(mut stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return Err("ssh has no pipes".to_owned());
        };
        let script = order_script(&nonce, &["hold", path, holder.trim_end(), &nonce]);
        stdin.write_all(script.as_bytes()).await.map_err(|error| error.to_string())?;
        let mut lines = BufReader::new(stdout).take(64 << 10).lines();
        let mark = format!("carrick {nonce}");
        loop {
            match lines.next_line().await.map_err(|error| error.to_string())? {
                None => {
                    return Err(complaint(&mut child).await);
                }
                Some(line) if line.ends_with(&mark) => break,
                Some(_) => {}
            }
        }
        match lines.next_line().await.map_err(|error| error.to_string())?.as_deref() {
            Some("held") => {
                *self.held.lock().unwrap_or_else(PoisonError::into_inner) = Some((path.to_owned(), nonce));
                Ok(Ok(Session::kept(stdin, child, self.held.clone())))
            }
            Some(said) => Ok(Err(said.strip_prefix("taken ").unwrap_or(said).trim().to_owned())),
            None => Err(complaint(&mut child).await),
        }
    }
}

/// The last line of what it complained of.
async fn complaint(child: &mut Child) -> String {
    let mut said = Vec::new();
    if let Some(stderr) = child.stderr.take() {
        let _ = stderr.take(MOST_SAID as u64).read_to_end(&mut said).await;
    }
    last_line(&redact(&String::from_utf8_lossy(whole_lines(&said, MOST_SAID)))).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_an_entry_or_says_why_not() {
        let file = PathEntry::File(File { bytes: b"a\n\0".to_vec(), mode: 0o644, uid: 0, gid: 7 });
        assert_eq!(entry(b"file 644 0 7\na\n\0"), Ok(Some(file)));
        assert_eq!(entry(b"none\n"), Ok(None));
        assert_eq!(entry(b"dir 1777 0 0\n"), Ok(Some(PathEntry::Dir { mode: 0o1777, uid: 0, gid: 0 })));
        assert_eq!(entry(b"link a b\n"), Ok(Some(PathEntry::Link("a b".into()))));
        for broken in [&b""[..], b"file 9 0 0\n", b"file 644 0\n", b"file 644 x 0\n", b"hello\n"] {
            assert!(entry(broken).is_err(), "{broken:?}");
        }
    }

    #[test]
    fn noise_before_the_answer_is_skipped() {
        assert_eq!(after_noise(b"Welcome!\ncarrick x1\nnone\n", "x1"), Some(&b"none\n"[..]));
        assert_eq!(after_noise(b"Welcome!\n", "x1"), None);
    }
}
