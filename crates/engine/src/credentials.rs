//! The kubelet's own credential, with which a node may speak of itself.

use std::collections::BTreeMap;
use std::time::Duration;

use carrick_cluster::client::Client;
use carrick_core::fact::kubeconfig;
use carrick_host::Host;
use carrick_host::host::Entry;

/// The client certificate is a link to the one of this year.
const LINKS: Duration = Duration::from_secs(10);

/// A client with the kubelet's certificate. What is read here goes nowhere else.
pub async fn of_kubelet(host: &dyn Host) -> Result<Client, String> {
    let conf = read(host, kubeconfig::KUBELET).await?;
    let (_, user) = kubeconfig::current(&conf).map_err(|error| format!("{}: {error}", kubeconfig::KUBELET))?;
    let mut files = BTreeMap::new();
    for path in [user.client_certificate, user.client_key].into_iter().flatten().filter(|path| !path.is_empty()) {
        if let std::collections::btree_map::Entry::Vacant(vacant) = files.entry(path) {
            let text = read(host, vacant.key()).await?;
            vacant.insert(text);
        }
    }
    let read = |path: &str| files.get(path).cloned().ok_or_else(|| format!("{path} was not read"));
    Client::parse(&conf, read).map_err(|error| format!("{}: {error}", kubeconfig::KUBELET))
}

/// A file of the machine, wherever links lead.
pub(crate) async fn read(host: &dyn Host, path: &str) -> Result<String, String> {
    let argv = ["readlink", "-f", "--", path];
    let ended = host.run(&argv, LINKS).await.map_err(|trouble| trouble.to_string())?;
    let target = ended.well(&argv).map_err(|_| format!("{path}: not there"))?;
    match host.look(target.trim_end_matches('\n')).await.map_err(|trouble| trouble.to_string())? {
        Some(Entry::File(file)) => String::from_utf8(file.bytes).map_err(|_| format!("{path}: not text")),
        _ => Err(format!("{path}: not there")),
    }
}
