//! Which machine is meant, and how it is looked at: this one, one over SSH, or a bundle of what was seen before.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use carrick_cluster::{ClusterClient, ClusterCredentials};
use carrick_core::discovery::{Discovery, Endpoint, Pin, Token};
use carrick_core::fact::Facts;
use carrick_core::join::request::Socket;
use carrick_engine::dialer;
use carrick_engine::{kubelets_socket, observe};
use carrick_host::{Host, Local, Probe, Progress, Redactions, Ssh, SshOptions, bundle};
use tokio::time::Instant;

use crate::exit::Failure;
use crate::terminal::{self, LiveLine};

/// The machine to look at.
#[derive(Debug, clap::Args)]
pub struct MachineArgs {
    /// Look at this machine over SSH instead: [user@]host, as your ssh knows it
    #[arg(short = 'H', long, value_name = "DEST")]
    host: Option<String>,
    /// With -H: become root there with `sudo -n`
    #[arg(long, requires = "host")]
    sudo: bool,
    /// With -H: read this instead of ~/.ssh/config, as `ssh -F` does
    #[arg(long, value_name = "FILE", requires = "host")]
    ssh_config: Option<PathBuf>,
    /// The only container runtime to look at: unix:///PATH or a path, as kubeadm takes it
    #[arg(long, value_name = "SOCKET")]
    cri_socket: Option<String>,
    /// How long one source may take to answer, in seconds
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = seconds)]
    time_box: Duration,
}

impl MachineArgs {
    /// No other machine is asked for.
    pub fn is_here(&self) -> bool {
        self.host.is_none()
    }
}

/// The cluster to look at from there.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct ClusterArgs {
    /// The API server the machine is to join
    #[arg(long, value_name = "HOST:PORT")]
    api: Option<Endpoint>,
    /// A file with the bootstrap token, `-` for stdin
    #[arg(long, value_name = "FILE", requires = "api")]
    token_file: Option<PathBuf>,
    /// The pinned key of the cluster's CA, as kubeadm prints it
    #[arg(long, value_name = "sha256:HEX", requires = "api")]
    ca_hash: Vec<Pin>,
    /// An admin's kubeconfig: shows the state of the pod network's DaemonSet, too
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
}

impl ClusterArgs {
    /// No cluster is asked for.
    pub fn is_nobody(&self) -> bool {
        self.api.is_none() && self.kubeconfig.is_none()
    }
}

/// An admin's way into the cluster, for verbs that need no more of it.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct CredentialArgs {
    /// An admin's kubeconfig; without it the cluster is asked with the node's own credential, which may see less
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
}

impl CredentialArgs {
    pub fn admin(&self) -> Result<Option<ClusterCredentials>, Failure> {
        self.kubeconfig.as_deref().map(read_kubeconfig).transpose()
    }
}

/// Who asks with these credentials, from this machine.
pub fn client(host: &Arc<dyn Host>, credentials: &ClusterCredentials) -> ClusterClient {
    dialer::client(credentials, Arc::<dyn Host>::downgrade(host))
}

impl From<CredentialArgs> for ClusterArgs {
    fn from(CredentialArgs { kubeconfig }: CredentialArgs) -> Self {
        ClusterArgs { api: None, token_file: None, ca_hash: Vec::new(), kubeconfig }
    }
}

pub fn seconds(text: &str) -> Result<Duration, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.1..=600.0).contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        _ => Err("not a number of seconds between 0.1 and 600".to_owned()),
    }
}

impl ClusterArgs {
    /// An API server was named.
    pub fn is_named(&self) -> bool {
        self.api.is_some()
    }

    pub fn admin(&self) -> Result<Option<ClusterCredentials>, Failure> {
        self.kubeconfig.as_deref().map(read_kubeconfig).transpose()
    }

    fn target(self) -> Result<Option<Discovery>, Failure> {
        let Some(endpoint) = self.api else { return Ok(None) };
        let token = self.token_file.as_deref().map(read_token).transpose()?;
        Ok(Some(Discovery { endpoint, token, pins: self.ca_hash }))
    }
}

/// A token is 23 bytes; what is much longer is another file.
const LONGEST_TOKEN_FILE: u64 = 4096;

pub fn read_token(path: &Path) -> Result<Token, Failure> {
    let name = path.display();
    let mut text = String::new();
    let read = if path == Path::new("-") {
        std::io::stdin().take(LONGEST_TOKEN_FILE).read_to_string(&mut text)
    } else {
        std::fs::File::open(path).and_then(|file| file.take(LONGEST_TOKEN_FILE).read_to_string(&mut text))
    };
    read.map_err(|error| Failure::usage(format!("--token-file {name}: {error}")))?;
    text.parse().map_err(|error| Failure::usage(format!("--token-file {name}: {error}")))
}

/// One with many clusters is 100 kB; what is much longer is another file.
const LONGEST_KUBECONFIG: u64 = 1 << 20;

pub fn read_kubeconfig(path: &Path) -> Result<ClusterCredentials, Failure> {
    let refused = |why: String| Failure::usage(format!("--kubeconfig {}: {why}", path.display()));
    let text = read_short(path).map_err(refused)?;
    // A relative path in it begins where the kubeconfig is, as for kubectl.
    let beside = |name: &str| {
        let file = path.with_file_name("").join(name);
        read_short(&file).map_err(|error| format!("{}: {error}", file.display()))
    };
    ClusterCredentials::parse(&text, beside).map_err(refused)
}

pub fn read_short(path: &Path) -> Result<String, String> {
    read_at_most(path, LONGEST_KUBECONFIG)
}

/// A text that a person hands over. How long one is that is no file, only reading it tells.
pub fn read_at_most(path: &Path, longest: u64) -> Result<String, String> {
    let mut text = String::new();
    let read = std::fs::File::open(path).and_then(|file| file.take(longest + 1).read_to_string(&mut text));
    match read {
        Err(error) => Err(error.to_string()),
        Ok(size) if size as u64 > longest => Err(format!("longer than {longest} bytes")),
        Ok(_) => Ok(text),
    }
}

/// What was seen of a machine, and what was taken out of it.
pub type Inspection = (Facts, Redactions);

impl MachineArgs {
    pub fn time_box(&self) -> Duration {
        self.time_box
    }

    /// `--cri-socket`, as typed.
    pub fn cri_socket(&self) -> Option<&str> {
        self.cri_socket.as_deref()
    }

    /// Looks at the machine, saying what it waits for when that takes more than a second.
    pub async fn observe(&self, cluster: ClusterArgs) -> Result<Inspection, Failure> {
        let host = self.host().await?;
        let admin = cluster.admin()?.map(|admin| client(&host, &admin));
        self.observe_on(host.as_ref(), admin.as_ref(), cluster).await
    }

    /// The machine, to look at and to change.
    pub async fn host(&self) -> Result<Arc<dyn Host>, Failure> {
        let socket = self.cri_socket.as_ref().map(|text| text.parse::<Socket>()).transpose();
        self.host_with(socket.map_err(|why| Failure::usage(format!("--cri-socket: {why}")))?.as_ref()).await
    }

    /// The same, with the socket that something else than the flag may have named; where nothing did, a kubelet that has
    /// joined says which it is.
    pub async fn host_with(&self, socket: Option<&Socket>) -> Result<Arc<dyn Host>, Failure> {
        let named = socket.map(|socket| socket.path().to_owned());
        let socket = async |probe: &dyn Probe| match named {
            Some(named) => Some(named),
            None => kubelets_socket(probe).await,
        };
        Ok(match &self.host {
            None => {
                let local = Local::new(self.time_box);
                let socket = socket(&local).await;
                Arc::new(local.with_runtime(socket))
            }
            Some(destination) => {
                let ssh = self.connect(destination).await?;
                let socket = socket(&ssh).await;
                Arc::new(ssh.with_runtime(socket))
            }
        })
    }

    /// Looks at a machine that was reached before; `admin` asks from there.
    pub async fn observe_on(
        &self,
        probe: &dyn Probe,
        admin: Option<&ClusterClient>,
        cluster: ClusterArgs,
    ) -> Result<Inspection, Failure> {
        let target = cluster.target()?;
        let mut line = LiveLine::new();
        let progress = Progress::default();
        let looking = observe(probe, target.as_ref(), admin, self.time_box, &progress);
        tokio::pin!(looking);
        let mut tick = tokio::time::interval_at(Instant::now() + QUIET, Duration::from_millis(200));
        loop {
            tokio::select! {
                seen = &mut looking => return Ok(seen),
                _ = tick.tick() => line.show(&format!("{}: {}", probe.name(), progress.now())),
            }
        }
    }

    async fn connect(&self, destination: &str) -> Result<Ssh, Failure> {
        let batch = !terminal::is_live();
        let config = self.ssh_config.clone();
        let options = SshOptions { batch, sudo: self.sudo, time_box: self.time_box, config, ..SshOptions::default() };
        Ssh::connect(destination, options).await.map_err(|unreachable| Failure::unreachable(unreachable.to_string()))
    }
}

/// A person notices a wait of a second; before that, a line would only flicker.
pub const QUIET: Duration = Duration::from_secs(1);

/// Reads a bundle: the facts of another time and place.
pub fn open_bundle(path: &Path) -> Result<Facts, Failure> {
    bundle::open(path).map_err(|error| Failure::usage(error.to_string()))
}
