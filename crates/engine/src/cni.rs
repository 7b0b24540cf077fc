//! A machine's pod network over time: looked at until it works, tried with a sandbox, and brought back as the cluster
//! has it.

use std::sync::Arc;
use std::time::Duration;

use carrick_cluster::{ClusterClient, config_maps, nodes};
use carrick_core::cni::sync::{self, ClusterCniConfig, SyncRefusal};
use carrick_core::cni::wait::{self, NetworkState, WaitReason};
use carrick_core::cni::{ConfigMapKey, Flavour};
use carrick_core::fact::{Facts, Source, Why, containerd_config};
use carrick_core::redact::redact;
use carrick_host::cri::sandbox::{self, TriedSandbox};
use carrick_host::{Host, Progress, cri, gather};
use tokio::time::{Instant, sleep, timeout, timeout_at};

use crate::credentials::{self, NoCredential};

/// Between two looks: what comes up is noticed within a second.
const PAUSE: Duration = Duration::from_secs(1);
/// One look, whatever hangs: the person is to hear something every ten seconds.
const LOOK: Duration = Duration::from_secs(8);
/// Nobody waits longer than this without a word.
const WORD: Duration = Duration::from_secs(10);
/// After a file was written, containerd has loaded it within a second.
const LOADED: Duration = Duration::from_secs(10);

/// A machine whose network is looked at, and by whom the cluster is asked.
pub struct Network<'a> {
    pub machine: &'a Arc<dyn Host>,
    /// An admin's credential; without it the kubelet's own is used.
    pub admin: Option<&'a ClusterClient>,
    pub time_box: Duration,
}

/// How long is waited.
#[derive(Clone, Copy, Debug)]
pub struct WaitPolicy {
    pub tries: u32,
    pub every: Duration,
}

impl WaitPolicy {
    pub fn whole(self) -> Duration {
        self.every.saturating_mul(self.tries)
    }
}

/// How the waiting ended.
#[derive(Debug)]
pub enum CniWaitEnd {
    Works { says: String, after: Duration },
    TimedOut { reason: WaitReason, after: Duration },
    CannotTell(WaitReason),
}

impl Network<'_> {
    pub fn host(&self) -> &dyn Host {
        self.machine.as_ref()
    }

    /// What matters of the network now.
    pub async fn look(&self) -> Result<Facts, String> {
        let progress = Progress::default();
        let looked = timeout(LOOK, async {
            let sources = wait::sources();
            let endpoints = cri::endpoints(self.host());
            let status = cri::observe_status(self.host(), &endpoints, self.time_box);
            let (mut seen, status) = tokio::join!(self.host().observe(&sources, &progress), status);
            seen.push(status);
            let (mut facts, _) = gather(self.host().name(), self.host().now(), seen);
            self.ask_for_node(&mut facts).await;
            facts
        });
        let waits = |_| format!("no answer in {} s: {}", LOOK.as_secs(), progress.now());
        looked.await.map_err(waits)
    }

    /// The kubelet's own credential, where no admin's was given and the machine has joined.
    async fn own(&self, facts: &Facts) -> Result<Option<ClusterClient>, NoCredential> {
        if self.admin.is_some() || facts.has_kubelet_conf() == Ok(false) {
            return Ok(None);
        }
        credentials::of_kubelet(self.machine).await.map(Some)
    }

    /// What the kubelet has told the cluster of itself; nothing where the machine has not joined.
    async fn ask_for_node(&self, facts: &mut Facts) {
        let key = Source::Api("node").key();
        let certificate = facts.client_certificate();
        let name = certificate.as_ref().ok().and_then(|own| own.common_name.strip_prefix("system:node:"));
        let Some(name) = name.map(str::to_owned) else { return };
        let own = match self.own(facts).await {
            Ok(own) => own,
            Err(why) => {
                facts.insert(key, Err(why.into()));
                return;
            }
        };
        let Some(client) = self.admin.or(own.as_ref()) else { return };
        let told = nodes::summary(client, &name).await.map_err(Why::from);
        facts.insert(
            key,
            told.map(|mut capture| {
                capture.text = redact(&capture.text);
                capture
            }),
        );
    }

    /// Looks until the network works, and with `sandbox` until a pod gets an address. `tell` hears a reason when it
    /// changes, and at least every ten seconds.
    pub async fn wait(
        &self,
        patience: WaitPolicy,
        sandbox: Option<&sandbox::SandboxOptions<'_>>,
        tell: &mut (dyn FnMut(Duration, &WaitReason) + Send),
    ) -> CniWaitEnd {
        until(patience, async || self.now(sandbox).await, tell).await
    }

    async fn now(&self, sandbox: Option<&sandbox::SandboxOptions<'_>>) -> NetworkState {
        let facts = match self.look().await {
            Ok(facts) => facts,
            Err(says) => return NetworkState::Waits(plain(says)),
        };
        let (says, how) = match (wait::now(&facts), sandbox) {
            (NetworkState::Works(says), Some(how)) => (says, how),
            (now, _) => return now,
        };
        if let Some(flavour) = facts.pod_network().ok().flatten().map(|found| found.flavour).filter(|it| it.needs_pod) {
            let why = "'s plugin asks the cluster for the Pod: a sandbox without one proves nothing";
            return NetworkState::CannotTell(plain(format!("{}{why}", flavour.name)));
        }
        match sandbox::try_one(self.host(), how).await {
            Ok(TriedSandbox { addresses, left, .. }) => {
                let addresses: Vec<String> = addresses.iter().map(ToString::to_string).collect();
                let left = left.map(|left| format!("; it could not be taken away: {left}")).unwrap_or_default();
                NetworkState::Works(format!("{says}; a sandbox got {}{left}", addresses.join(", ")))
            }
            Err(failed) => NetworkState::Waits(plain(format!("a sandbox gets no address: {failed}"))),
        }
    }

    /// What the cluster has for this machine's file: the first network that can be read, else the first complaint.
    pub async fn wanted(&self, facts: &Facts) -> Result<ClusterCniConfig, NoClusterConfig> {
        let own = self.own(facts).await.map_err(|why| NoClusterConfig::Credential(why.to_string()))?;
        let client = self.admin.or(own.as_ref()).ok_or(NoClusterConfig::NotJoined)?;
        let name = facts.kubelet_node_name().unwrap_or_else(|_| "NODE".to_owned());
        let mut first = None;
        for flavour in sync::networks(facts) {
            let found = match sync::key(flavour, &name) {
                Ok(key) => self.config_map(client, facts, flavour, key).await,
                Err(refusal) => Err(refusal.into()),
            };
            match found {
                Ok(wanted) => return Ok(wanted),
                Err(complaint) => first = first.or(Some(complaint)),
            }
        }
        Err(first.unwrap_or(NoClusterConfig::NotJoined))
    }

    async fn config_map(
        &self,
        client: &ClusterClient,
        facts: &Facts,
        flavour: &'static Flavour,
        key: &ConfigMapKey,
    ) -> Result<ClusterCniConfig, NoClusterConfig> {
        let data = config_maps::value(client, key.namespace, key.name, key.key).await;
        let data = data.map_err(Why::from).map_err(|why| NoClusterConfig::ConfigMap {
            name: format!("{}/{}", key.namespace, key.name),
            why: match (&why, self.admin) {
                (Why::Denied, None) => format!(
                    "the node's own credential may not read it: it may only while a pod of {} is bound to this node; give \
                     --kubeconfig",
                    flavour.name
                ),
                (Why::Denied, Some(_)) => "the user of --kubeconfig may not read it".to_owned(),
                (Why::Absent, _) => format!("the cluster has none: {} is not deployed as its manifest does", flavour.name),
                _ => why.to_string(),
            },
        })?;
        Ok(ClusterCniConfig::of(facts, flavour, key, data)?)
    }

    /// Whether the file holds exactly what it should.
    pub async fn is_same(&self, wanted: &ClusterCniConfig) -> Result<bool, carrick_host::Trouble> {
        use carrick_host::PathEntry;
        let there = self.host().look(&wanted.path).await?;
        Ok(matches!(there, Some(PathEntry::File(file)) if file.bytes == wanted.text.as_bytes()))
    }

    /// Waits until the runtime has loaded it, for a moment; the last look.
    pub async fn confirm(&self, wanted: &ClusterCniConfig) -> Result<(bool, Facts), String> {
        let begun = Instant::now();
        loop {
            let looked = self.look().await;
            let loaded = looked.as_ref().is_ok_and(|facts| sync::is_loaded(facts, wanted) == Ok(true));
            if loaded || begun.elapsed() > LOADED {
                return looked.map(|facts| (loaded, facts));
            }
            sleep(PAUSE).await;
        }
    }
}

/// Looks again and again, for as long as there is patience.
async fn until(
    patience: WaitPolicy,
    mut look: impl AsyncFnMut() -> NetworkState,
    tell: &mut (dyn FnMut(Duration, &WaitReason) + Send),
) -> CniWaitEnd {
    let begun = Instant::now();
    let word = patience.every.clamp(PAUSE, WORD);
    let mut last = plain("the machine is being looked at".to_owned());
    let mut due = begun + word;
    loop {
        let now = {
            let looking = look();
            tokio::pin!(looking);
            loop {
                if let Ok(now) = timeout_at(due, &mut looking).await {
                    break now;
                }
                tell(begun.elapsed(), &last);
                due += word;
            }
        };
        let reason = match now {
            NetworkState::Works(says) => return CniWaitEnd::Works { says, after: begun.elapsed() },
            NetworkState::CannotTell(reason) => return CniWaitEnd::CannotTell(reason),
            NetworkState::Waits(reason) => reason,
        };
        let left = patience.whole().saturating_sub(begun.elapsed());
        if left.is_zero() {
            return CniWaitEnd::TimedOut { reason, after: begun.elapsed() };
        }
        if reason != last || Instant::now() + PAUSE > due {
            tell(begun.elapsed(), &reason);
            due = Instant::now() + word;
        }
        last = reason;
        sleep(PAUSE.min(left)).await;
    }
}

/// The image that sandboxes start from, by containerd's configuration; nothing where that does not say.
pub async fn sandbox_image(host: &dyn Host) -> Option<String> {
    let seen = host.observe(containerd_config::SOURCES, &Progress::default()).await;
    let (facts, _) = gather(host.name(), host.now(), seen);
    facts.containerd_config().ok().and_then(|effective| effective.config.sandbox_image)
}

fn plain(says: String) -> WaitReason {
    WaitReason { id: None, says, evidence: Vec::new(), remedy: Vec::new(), is_network: true }
}

/// Why it is not known what the cluster has.
#[derive(Debug, thiserror::Error)]
pub enum NoClusterConfig {
    #[error("this machine has not joined, and no --kubeconfig was given: there is no cluster to ask")]
    NotJoined,
    #[error("the kubelet's own credential cannot be used: {0}; give --kubeconfig")]
    Credential(String),
    #[error("ConfigMap {name}: {why}")]
    ConfigMap { name: String, why: String },
    #[error(transparent)]
    Refused(#[from] SyncRefusal),
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The word a look gives at a time, and how long the look takes.
    async fn waited(
        patience: WaitPolicy,
        look_takes: u64,
        says: impl Fn(u64) -> NetworkState,
    ) -> (CniWaitEnd, Vec<u64>) {
        let begun = Instant::now();
        let mut words = Vec::new();
        let look = async || {
            let now = says(begun.elapsed().as_secs());
            sleep(Duration::from_secs(look_takes)).await;
            now
        };
        let ended = until(patience, look, &mut |at, _| words.push(at.as_secs())).await;
        (ended, words)
    }

    const USUAL: WaitPolicy = WaitPolicy { tries: 30, every: Duration::from_secs(10) };

    fn waits(says: &str) -> NetworkState {
        NetworkState::Waits(plain(says.to_owned()))
    }

    fn longest_silence(words: &[u64], end: u64) -> u64 {
        let ends = words.iter().copied().chain([end]);
        std::iter::once(0).chain(words.iter().copied()).zip(ends).map(|(from, to)| to - from).max().unwrap_or_default()
    }

    #[tokio::test(start_paused = true)]
    async fn it_ends_as_soon_as_it_works() {
        let (ended, words) = waited(USUAL, 0, |_| NetworkState::Works("so".to_owned())).await;
        assert!(matches!(ended, CniWaitEnd::Works { after, .. } if after.is_zero()) && words.is_empty());
        let (ended, words) =
            waited(USUAL, 0, |at| if at < 14 { waits("a") } else { NetworkState::Works("so".to_owned()) }).await;
        assert!(matches!(ended, CniWaitEnd::Works { after, .. } if after == Duration::from_secs(14)), "{ended:?}");
        assert_eq!(words, [0, 10]);
        let (ended, _) = waited(USUAL, 0, |_| NetworkState::CannotTell(plain("denied".to_owned()))).await;
        assert!(matches!(ended, CniWaitEnd::CannotTell(_)));
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_waits_longer_than_ten_seconds_without_a_word_nor_longer_than_said() {
        for look_takes in [0, 1, 4, 8, 40] {
            let (ended, words) = waited(USUAL, look_takes, |_| waits("a")).await;
            let CniWaitEnd::TimedOut { after, .. } = ended else { panic!("{ended:?}") };
            assert!((300..=300 + look_takes).contains(&after.as_secs()), "{look_takes}: {after:?}");
            assert!(longest_silence(&words, after.as_secs()) <= 10, "{look_takes}: {words:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_new_reason_is_told_at_once() {
        let short = WaitPolicy { tries: 2, every: Duration::from_secs(5) };
        let (ended, words) = waited(short, 0, |at| waits(if at < 3 { "a" } else { "b" })).await;
        assert!(matches!(ended, CniWaitEnd::TimedOut { reason, .. } if reason.says == "b"));
        assert_eq!(words, [0, 3, 8]);
    }
}
