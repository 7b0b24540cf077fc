//! Credentials that lie on the machine: the kubelet's own, with which a node may speak of itself, and a discovery file's.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use carrick_cluster::{ClusterClient, ClusterCredentials};
use carrick_core::discovery::Token;
use carrick_core::fact::{Why, kubeconfig};
use carrick_core::redact::redact;
use carrick_host::{Host, PathEntry, Trouble};

use crate::dialer;

/// The client certificate is a link to the one of this year.
const LINKS: Duration = Duration::from_secs(10);

/// Why a credential that lies on a machine is of no use.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoCredential {
    /// It could not be read: what it is worth is not known.
    #[error("{0}")]
    Unread(Trouble),
    /// It was read, or is not there.
    #[error("{0}")]
    Unfit(String),
}

impl From<NoCredential> for Why {
    fn from(why: NoCredential) -> Why {
        match why {
            NoCredential::Unread(trouble) if trouble.of_the_link => Why::NoShell(redact(&trouble.to_string())),
            NoCredential::Unread(trouble) => Why::Broken(redact(&trouble.to_string())),
            NoCredential::Unfit(why) => Why::Broken(redact(&why)),
        }
    }
}

/// A client with the kubelet's certificate. What is read here goes nowhere else.
pub(crate) async fn of_kubelet(machine: &Arc<dyn Host>) -> Result<ClusterClient, NoCredential> {
    of_file(machine, kubeconfig::KUBELET, None).await
}

/// A client as a kubeconfig on the machine says, and with the token where that names nobody who may ask.
pub(crate) async fn of_file(
    machine: &Arc<dyn Host>,
    path: &str,
    token: Option<&Token>,
) -> Result<ClusterClient, NoCredential> {
    let at_fault = |error: String| NoCredential::Unfit(format!("{path}: {error}"));
    let conf = read(machine.as_ref(), path).await?;
    let (cluster, user) = match token {
        Some(_) => kubeconfig::of_discovery(&conf),
        None => kubeconfig::current(&conf),
    }
    .map_err(at_fault)?;
    let mut files = BTreeMap::new();
    let named = [cluster.certificate_authority, user.client_certificate, user.client_key, user.token_file];
    for file in named.into_iter().flatten().filter(|file| !file.is_empty()) {
        if let std::collections::btree_map::Entry::Vacant(vacant) = files.entry(file) {
            let text = read(machine.as_ref(), vacant.key()).await?;
            vacant.insert(text);
        }
    }
    let read = |file: &str| files.get(file).cloned().ok_or_else(|| format!("{file} was not read"));
    let credentials = ClusterCredentials::parse_or_token(&conf, token, read).map_err(at_fault)?;
    Ok(dialer::client(&credentials, Arc::<dyn Host>::downgrade(machine)))
}

async fn read(host: &dyn Host, path: &str) -> Result<String, NoCredential> {
    let argv = ["readlink", "-f", "--", path];
    let unfit = |why: &str| NoCredential::Unfit(format!("{path}: {why}"));
    let ended = host.run(&argv, LINKS).await.map_err(NoCredential::Unread)?;
    let target = ended.well(&argv).map_err(|_| unfit("not there"))?;
    match host.look(target.trim_end_matches('\n')).await.map_err(NoCredential::Unread)? {
        Some(PathEntry::File(file)) => String::from_utf8(file.bytes).map_err(|_| unfit("not text")),
        _ => Err(unfit("not there")),
    }
}
