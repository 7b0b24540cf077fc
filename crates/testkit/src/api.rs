//! etcd and kube-apiserver on free ports of the loopback, for as long as a test holds them.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::credentials::{self, ADMIN_TOKEN, Authority, NOBODY_TOKEN};

/// Three seconds on an idle machine; tests start many at a time.
const READY: Duration = Duration::from_secs(90);

/// How soon a server that ended by itself is noticed.
const LOOK: Duration = Duration::from_millis(200);

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{program} is neither in $KUBEBUILDER_ASSETS nor in the lab's cache ({}); `cargo xtask lab build` makes it", .looked.display())]
    NoProgram { program: &'static str, looked: PathBuf },
    #[error("{what}: {source}")]
    Io { what: String, source: io::Error },
    #[error("the API server was not ready after {} s; its logs are in {}; {last}", .after.as_secs(), .logs.display())]
    NotReady { after: Duration, logs: PathBuf, last: String },
    #[error("kubectl {words} failed: {said}")]
    Kubectl { words: String, said: String },
}

pub struct Api {
    folder: Option<TempDir>,
    url: String,
    authority: Authority,
    etcd: u16,
    secure: u16,
    programs: Programs,
    // Dropped first of all that matters: they end the processes.
    server: Option<Keeper>,
    store: Option<Keeper>,
}

struct Programs {
    server: PathBuf,
    kubectl: PathBuf,
}

impl Api {
    /// A fresh, empty API server, ready to be talked to.
    pub fn start() -> Result<Self, Error> {
        Self::start_with(&[])
    }

    /// The same, with flags of kube-apiserver besides: `("feature-gates", "WatchList=false")`.
    pub fn start_with(flags: &[(&str, &str)]) -> Result<Self, Error> {
        let [etcd, server, kubectl] = ["etcd", "kube-apiserver", "kubectl"].map(find);
        let (etcd, server, kubectl) = (etcd?, server?, kubectl?);
        let folder =
            tempfile::Builder::new().prefix("carrick-api-").tempdir().map_err(during("cannot make a folder"))?;
        let authority = credentials::write(folder.path()).map_err(during("cannot make certificates"))?;
        let [client, peer, secure] = free_ports().map_err(during("no port is free"))?;
        let store =
            Keeper::start(etcd_command(&etcd, folder.path(), client, peer)).map_err(during("cannot start etcd"))?;
        let mut api = Self {
            url: format!("https://127.0.0.1:{secure}"),
            authority,
            etcd: client,
            secure,
            programs: Programs { server, kubectl },
            server: None,
            store: Some(store),
            folder: Some(folder),
        };
        let kubeconfig = api.kubeconfig_text(ADMIN_TOKEN);
        fs::write(api.kubeconfig(), kubeconfig).map_err(during("cannot write a kubeconfig"))?;
        api.start_server(flags)?;
        Ok(api)
    }

    /// kube-apiserver is killed; etcd goes on.
    pub fn kill_server(&mut self) {
        self.server.take();
    }

    /// Another one, on the same port and the same etcd.
    pub fn start_server(&mut self, flags: &[(&str, &str)]) -> Result<(), Error> {
        self.kill_server();
        let command = server_command(&self.programs.server, self.place(), self.etcd, self.secure, flags);
        self.server = Some(Keeper::start(command).map_err(during("cannot start kube-apiserver"))?);
        self.wait()
    }

    /// The processes of kube-apiserver and of etcd.
    pub fn processes(&self) -> [Option<u32>; 2] {
        [&self.server, &self.store].map(|keeper| keeper.as_ref().map(|keeper| keeper.process))
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    /// The certificate authority to trust; it signs whatever a test asks for.
    pub fn authority(&self) -> &Authority {
        &self.authority
    }

    /// The port of its etcd on the loopback.
    pub fn etcd(&self) -> u16 {
        self.etcd
    }

    /// Has an etcd on the loopback forget what was before a revision.
    pub fn compact(etcd: u16, revision: &str) -> io::Result<()> {
        let body = json!({ "revision": revision, "physical": true }).to_string();
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, etcd))?;
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        let head = "POST /v3/kv/compaction HTTP/1.0\r\nContent-Type: application/json\r\nContent-Length";
        write!(stream, "{head}: {}\r\n\r\n{body}", body.len())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        if answer.split(' ').nth(1) == Some("200") { Ok(()) } else { Err(io::Error::other(answer)) }
    }

    /// A bearer token of system:masters.
    pub fn admin_token(&self) -> &'static str {
        ADMIN_TOKEN
    }

    /// A bearer token of somebody without any right.
    pub fn nobody_token(&self) -> &'static str {
        NOBODY_TOKEN
    }

    /// The admin's kubeconfig.
    pub fn kubeconfig(&self) -> PathBuf {
        self.place().join("kubeconfig")
    }

    /// A kubeconfig for the holder of a token.
    pub fn kubeconfig_text(&self, token: &str) -> String {
        self.kubeconfig_of(&json!({ "token": token }))
    }

    /// The admin's, with a client certificate: the files are named as kubectl takes them, beside [`Self::kubeconfig`].
    pub fn kubeconfig_with_certificate(&self) -> String {
        self.kubeconfig_of(&json!({ "client-certificate": "admin.crt", "client-key": "admin.key" }))
    }

    fn kubeconfig_of(&self, user: &Value) -> String {
        let authority = self.place().join("ca.crt");
        json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{ "name": "testkit", "cluster": { "server": self.url, "certificate-authority": authority } }],
            "users": [{ "name": "user", "user": user }],
            "contexts": [{ "name": "testkit", "context": { "cluster": "testkit", "user": "user" } }],
            "current-context": "testkit",
        })
        .to_string()
    }

    /// What was asked of the API server so far: events of audit.k8s.io/v1.
    pub fn audit(&self) -> Result<Vec<Value>, Error> {
        let text = fs::read_to_string(self.place().join("audit.log")).map_err(during("cannot read the audit log"))?;
        // The last line may still be being written.
        Ok(text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect())
    }

    /// kubectl as the admin; what it printed.
    pub fn kubectl(&self, words: &[&str]) -> Result<String, Error> {
        let done = Command::new(&self.programs.kubectl)
            .env("KUBECONFIG", self.kubeconfig())
            .args(words)
            .stdin(Stdio::null())
            .output();
        let done = done.map_err(during("cannot run kubectl"))?;
        if done.status.success() {
            return Ok(String::from_utf8_lossy(&done.stdout).into_owned());
        }
        Err(Error::Kubectl { words: words.join(" "), said: String::from_utf8_lossy(&done.stderr).into_owned() })
    }

    /// Keeps the logs, and says where they are.
    pub fn keep_logs(&mut self) -> PathBuf {
        match self.folder.take() {
            Some(folder) => folder.keep(),
            None => PathBuf::new(),
        }
    }

    fn place(&self) -> &Path {
        self.folder.as_ref().map_or(Path::new(""), TempDir::path)
    }

    fn wait(&mut self) -> Result<(), Error> {
        let begun = Instant::now();
        loop {
            let last = match self.kubectl(&["get", "--raw=/readyz", "--request-timeout=5s"]) {
                Ok(_) => return Ok(()),
                Err(error) => error.to_string(),
            };
            let ended = [&self.server, &self.store].iter().any(|keeper| keeper.as_ref().is_none_or(Keeper::has_ended));
            if ended || begun.elapsed() > READY {
                let last = if ended { "etcd or kube-apiserver ended by itself".to_owned() } else { last };
                return Err(Error::NotReady { after: begun.elapsed(), logs: self.keep_logs(), last });
            }
            thread::sleep(Duration::from_millis(100));
        }
    }
}

impl Drop for Api {
    fn drop(&mut self) {
        self.server.take();
        self.store.take();
        if thread::panicking() && self.folder.is_some() {
            let logs = self.keep_logs();
            #[allow(clippy::print_stderr)] // The test harness shows it under the failed test.
            {
                eprintln!("the API server's logs are in {}", logs.display());
            }
        }
    }
}

/// A thread that starts a process and outlives it. The kernel ends a process told to die with its parent when the *thread*
/// that started it ends, and a test's thread may end before the test's server should.
struct Keeper {
    process: u32,
    ended: Arc<AtomicBool>,
    release: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Keeper {
    fn start(command: io::Result<Command>) -> io::Result<Self> {
        let (release, released) = mpsc::channel::<()>();
        let (started, starting) = mpsc::channel();
        let ended = Arc::new(AtomicBool::new(false));
        let noted = Arc::clone(&ended);
        let thread = thread::spawn(move || {
            let child: io::Result<Child> = command.and_then(|mut command| command.spawn());
            match child {
                Ok(mut child) => {
                    let _ = started.send(Ok(child.id()));
                    // Nothing is ever sent: the wait ends when the other end is dropped.
                    while released.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
                        if !matches!(child.try_wait(), Ok(None)) {
                            noted.store(true, Ordering::Relaxed);
                        }
                    }
                    let _ = child.kill();
                    let _ = child.wait();
                }
                Err(error) => drop(started.send(Err(error))),
            }
        });
        let process = starting.recv().unwrap_or_else(|_| Err(io::Error::other("the thread that starts it ended")))?;
        Ok(Self { process, ended, release: Some(release), thread: Some(thread) })
    }

    /// Whether the process ended without being told to.
    fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.release.take();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn during(what: &str) -> impl FnOnce(io::Error) -> Error {
    let what = what.to_owned();
    |source| Error::Io { what, source }
}

/// `$KUBEBUILDER_ASSETS` as other projects use it, else what the lab built.
fn find(program: &'static str) -> Result<PathBuf, Error> {
    let named = std::env::var_os("KUBEBUILDER_ASSETS").map(PathBuf::from);
    let cache = std::env::var_os("CARRICK_LAB_CACHE").map(PathBuf::from).or_else(|| {
        let caches = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
        let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
        caches.or_else(home).map(|caches| caches.join("carrick-lab"))
    });
    let looked = named.or(cache.map(|cache| cache.join("current"))).unwrap_or_default();
    let place = looked.join(program);
    if place.is_file() { Ok(place) } else { Err(Error::NoProgram { program, looked }) }
}

/// Ports nobody listens on now. Held open until all are known, so that they differ.
fn free_ports() -> io::Result<[u16; 3]> {
    let one = || TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
    let listeners = [one()?, one()?, one()?];
    let mut ports = [0; 3];
    for (port, listener) in ports.iter_mut().zip(&listeners) {
        *port = listener.local_addr()?.port();
    }
    Ok(ports)
}

/// A command whose output goes to a log, and which the kernel ends with the thread that started it.
fn tied(program: &Path, log: &Path) -> io::Result<Command> {
    let log = File::create(log)?;
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "--"]).arg(program);
    command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
    Ok(command)
}

fn etcd_command(program: &Path, folder: &Path, client: u16, peer: u16) -> io::Result<Command> {
    let mut command = tied(program, &folder.join("etcd.log"))?;
    let (client, peer) = (format!("http://127.0.0.1:{client}"), format!("http://127.0.0.1:{peer}"));
    command.arg("--data-dir").arg(folder.join("etcd"));
    command.args(["--listen-client-urls", &client, "--advertise-client-urls", &client]);
    command.args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer]);
    command.args(["--initial-cluster", &format!("default={peer}")]);
    // What a test writes need not survive a power cut.
    command.arg("--unsafe-no-fsync");
    // Every version of 15,000 nodes, until the API server compacts.
    command.arg("--quota-backend-bytes=8589934592");
    Ok(command)
}

fn server_command(
    program: &Path,
    folder: &Path,
    etcd: u16,
    secure: u16,
    flags: &[(&str, &str)],
) -> io::Result<Command> {
    let mut command = tied(program, &folder.join("kube-apiserver.log"))?;
    let file = |name: &str| folder.join(name).display().to_string();
    for (flag, value) in [
        ("etcd-servers", format!("http://127.0.0.1:{etcd}")),
        ("bind-address", "127.0.0.1".to_owned()),
        // Without it the server looks for a default route, which a network namespace need not have.
        ("advertise-address", "127.0.0.1".to_owned()),
        ("secure-port", secure.to_string()),
        ("tls-cert-file", file("server.crt")),
        ("tls-private-key-file", file("server.key")),
        ("client-ca-file", file("ca.crt")),
        ("token-auth-file", file("users.csv")),
        ("service-account-issuer", "https://kubernetes.default.svc".to_owned()),
        ("service-account-key-file", file("account.pub")),
        ("service-account-signing-key-file", file("account.key")),
        ("service-cluster-ip-range", "10.0.0.0/24".to_owned()),
        // As kubeadm sets it up.
        ("authorization-mode", "Node,RBAC".to_owned()),
        ("enable-admission-plugins", "NodeRestriction".to_owned()),
        ("enable-bootstrap-token-auth", "true".to_owned()),
        // No controller makes service accounts here; pods could not be created.
        ("disable-admission-plugins", "ServiceAccount".to_owned()),
        // The loopback is no address for the cluster's own service; nobody asks for it.
        ("endpoint-reconciler-type", "none".to_owned()),
        ("audit-policy-file", file("audit.yaml")),
        ("audit-log-path", file("audit.log")),
    ] {
        command.arg(format!("--{flag}={value}"));
    }
    command.args(flags.iter().map(|(flag, value)| format!("--{flag}={value}")));
    Ok(command)
}
