//! What the tests of this crate share: a place to work in, and the real servers they talk to.
#![allow(dead_code)] // Each test binary uses its part.
#![allow(clippy::unwrap_used)] // These are tests, though clippy sees no #[test] around them.

use std::fs;
use std::io::Write as _;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use carrick_core::fact::keep::Keep;
use carrick_core::fact::{Capture, Query, Source, Why};
use carrick_host::{Observation, Ssh, SshOptions};
use carrick_testkit::{need, skip};
use tempfile::TempDir;

/// Sources are constants; those of a test name places that are made at run time.
pub(crate) fn leak(text: impl Into<String>) -> &'static str {
    Box::leak(text.into().into_boxed_str())
}

pub(crate) fn path(dir: &Path, name: &str) -> &'static str {
    leak(dir.join(name).to_str().unwrap())
}

pub(crate) fn query(name: &str, argv: &[&str], keep: Keep) -> Source {
    let argv: Vec<&'static str> = argv.iter().map(|&word| leak(word)).collect();
    Source::Query(Box::leak(Box::new(Query { name: leak(name), argv: Box::leak(argv.into_boxed_slice()), keep })))
}

pub(crate) fn shell(name: &str, script: &str) -> Source {
    query(name, &["sh", "-c", script], carrick_core::fact::keep::USUAL)
}

/// What was seen under a key.
pub(crate) fn seen<'a>(observations: &'a [Observation], key: &str) -> &'a Result<Capture, Why> {
    let found = observations.iter().find(|observation| observation.key == key);
    &found.unwrap_or_else(|| panic!("nothing under {key:?}")).capture
}

pub(crate) fn text<'a>(observations: &'a [Observation], key: &str) -> &'a str {
    seen(observations, key).as_ref().unwrap_or_else(|why| panic!("{key}: {why}")).text.as_str()
}

/// A file that may not be read, by root neither.
pub(crate) fn denied() -> &'static str {
    let write_only = ["/proc/sys/vm/compact_memory", "/proc/sys/net/ipv4/route/flush"];
    write_only.into_iter().find(|path| Path::new(path).exists()).unwrap()
}

pub(crate) fn fifo(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

/// Waits for something that takes a moment; false where it did not come.
pub(crate) fn soon(mut holds: impl FnMut() -> bool) -> bool {
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(10) {
        if holds() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    false
}

/// A real sshd on loopback, for this user, with keys and a configuration of its own.
pub(crate) struct Sshd {
    child: Child,
    pub(crate) dir: TempDir,
}

impl Sshd {
    /// None, after saying so, where there is no sshd.
    pub(crate) fn start(more: &str) -> Option<Self> {
        if !need("sshd") {
            return None;
        }
        // Where sshd, run by root, wants an empty directory to be.
        let _ = fs::create_dir_all("/run/sshd");
        let dir = tempfile::Builder::new().prefix("sshd-").tempdir_in("/tmp").unwrap();
        for key in ["host", "user"] {
            let mut keygen = Command::new("ssh-keygen");
            keygen.args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(dir.path().join(key));
            assert!(keygen.status().unwrap().success());
        }
        fs::copy(dir.path().join("user.pub"), dir.path().join("authorized_keys")).unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let at = dir.path().display();
        let server = format!(
            "Port {port}\nListenAddress 127.0.0.1\nHostKey {at}/host\nAuthorizedKeysFile {at}/authorized_keys\n\
             PidFile none\nStrictModes no\nUsePAM no\nPermitRootLogin yes\nPrintMotd no\n{more}\n"
        );
        fs::write(dir.path().join("sshd_config"), server).unwrap();
        let host = fs::read_to_string(dir.path().join("host.pub")).unwrap();
        fs::write(dir.path().join("known_hosts"), format!("[127.0.0.1]:{port} {host}")).unwrap();
        let client = format!(
            "Host *\n  HostName 127.0.0.1\n  Port {port}\n  User {}\n  IdentityFile {at}/user\n  IdentitiesOnly yes\n  \
             UserKnownHostsFile {at}/known_hosts\n  GlobalKnownHostsFile /dev/null\n  StrictHostKeyChecking yes\n",
            user()
        );
        fs::write(dir.path().join("config"), client).unwrap();
        let log = fs::File::create(dir.path().join("sshd.log")).unwrap();
        let mut sshd = Command::new("/usr/sbin/sshd");
        sshd.args(["-D", "-e", "-f"]).arg(dir.path().join("sshd_config"));
        let child = sshd.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn().unwrap();
        let sshd = Sshd { child, dir };
        assert!(soon(|| TcpStream::connect(("127.0.0.1", port)).is_ok()), "sshd: {}", sshd.log());
        Some(sshd)
    }

    pub(crate) fn options(&self) -> SshOptions {
        SshOptions { config: Some(self.dir.path().join("config")), ..SshOptions::default() }
    }

    pub(crate) async fn connect(&self, time_box: Duration) -> Ssh {
        let options = SshOptions { time_box, ..self.options() };
        Ssh::connect("w1", options).await.unwrap_or_else(|error| panic!("{error}\n{}", self.log()))
    }

    /// Adds to the client's configuration, before the rest: the first value counts.
    pub(crate) fn configure(&self, more: &str) {
        let path = self.dir.path().join("config");
        let rest = fs::read_to_string(&path).unwrap();
        fs::write(path, format!("Host *\n{more}\n{rest}")).unwrap();
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.dir.path().join("sshd.log")).unwrap_or_default()
    }

    /// The processes that serve connections: what is killed when a link is cut.
    pub(crate) fn sessions(&self) -> Vec<u32> {
        children(self.child.id())
    }
}

impl Drop for Sshd {
    fn drop(&mut self) {
        for session in self.sessions() {
            kill(session);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn kill(pid: u32) {
    let _ = Command::new("kill").args(["-KILL", &pid.to_string()]).stderr(Stdio::null()).status();
}

fn children(of: u32) -> Vec<u32> {
    let tasks = fs::read_to_string(format!("/proc/{of}/task/{of}/children")).unwrap_or_default();
    tasks.split_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}

pub(crate) fn alive(pid: u32) -> bool {
    // A zombie is not alive; who reaps it is another's business.
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().next()).is_some_and(|state| state != "Z")
}

fn user() -> String {
    String::from_utf8(Command::new("id").arg("-un").output().unwrap().stdout).unwrap().trim().to_owned()
}

/// A script that stands in for a program.
pub(crate) fn program(path: &Path, script: &str) {
    fs::File::create(path).unwrap().write_all(script.as_bytes()).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// A real containerd with a root, a state and a socket of its own.
pub(crate) struct Containerd {
    child: Child,
    pub(crate) dir: TempDir,
}

impl Containerd {
    /// None, after saying so, where there is no containerd, or where we are not root.
    pub(crate) fn start(more: &str) -> Option<Self> {
        let root = rustix::process::geteuid().is_root() || skip("containerd wants root");
        if !root || !need("containerd") {
            return None;
        }
        let dir = tempfile::Builder::new().prefix("containerd-").tempdir_in("/tmp").unwrap();
        let at = dir.path().display();
        let config = format!(
            "version = 2\nroot = \"{at}/root\"\nstate = \"{at}/state\"\n{more}\n[grpc]\naddress = \"{at}/sock\"\n\
             [plugins.\"io.containerd.internal.v1.opt\"]\npath = \"{at}/opt\"\n\
             [plugins.\"io.containerd.grpc.v1.cri\".containerd]\nsnapshotter = \"native\"\n\
             [plugins.\"io.containerd.grpc.v1.cri\".cni]\nconf_dir = \"{at}/net.d\"\nbin_dir = \"{at}/bin\"\n"
        );
        fs::write(dir.path().join("config.toml"), config).unwrap();
        let log = fs::File::create(dir.path().join("log")).unwrap();
        let mut containerd = Command::new("containerd");
        containerd.arg("--config").arg(dir.path().join("config.toml"));
        let child = containerd.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn().unwrap();
        let containerd = Containerd { child, dir };
        let log = containerd.dir.path().join("log");
        // Booted is said before CRI answers: its last word before that is of its streaming server.
        let words = ["containerd successfully booted", "Start streaming server"];
        let words = if more.contains("disabled_plugins") { &words[..1] } else { &words[..] };
        let up = || {
            let said = fs::read_to_string(&log).unwrap_or_default();
            words.iter().all(|word| said.contains(word))
        };
        assert!(soon(up), "{}", fs::read_to_string(&log).unwrap_or_default());
        Some(containerd)
    }

    pub(crate) fn socket(&self) -> &'static str {
        path(self.dir.path(), "sock")
    }

    /// As a crash would: the socket stays where it is.
    pub(crate) fn crash(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Containerd {
    fn drop(&mut self) {
        self.crash();
    }
}

/// A mount behind which nobody answers: a FUSE file system whose server is there and does nothing.
pub(crate) struct HungMount {
    child: Child,
    pub(crate) dir: PathBuf,
}

impl HungMount {
    /// None, after saying so, where this user may not mount.
    pub(crate) fn mount(dir: &Path) -> Option<Self> {
        let script = "exec 9<>/dev/fuse && mount -i -n -t fuse -o fd=9,rootmode=40000,user_id=0,group_id=0 none \"$1\" && \
                      echo mounted && read never";
        let mut shell = Command::new("sh");
        shell.args(["-c", script, "sh"]).arg(dir).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = shell.spawn().unwrap();
        let mut said = [0; 7];
        let mounted = std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut said).is_ok();
        if !mounted {
            let _ = child.wait();
            skip("this user may not mount");
            return None;
        }
        Some(HungMount { child, dir: dir.to_owned() })
    }
}

impl Drop for HungMount {
    fn drop(&mut self) {
        // With its server gone, whoever still waits is sent away.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = Command::new("umount").args(["-n", "-l"]).arg(&self.dir).status();
    }
}
