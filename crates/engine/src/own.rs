//! A machine's own way into its cluster: the kubelet's kubeconfig, with its certificate and key.
//!
//! They are read for the one question that is asked with them, and kept nowhere: not in facts, not in a report.

use std::collections::BTreeMap;
use std::time::Duration;

use carrick_cluster::admin::Admin;
use carrick_core::fact::kubeconfig::{self, KUBELET};
use carrick_host::Host;
use carrick_host::host::Entry;

/// To look where a link leads.
const LINK_TIME: Duration = Duration::from_secs(5);

/// The kubelet's credential; `None` where the machine has not joined.
pub async fn client(host: &dyn Host) -> Result<Option<Admin>, String> {
    let Some(text) = read(host, KUBELET).await? else { return Ok(None) };
    let (cluster, user) = kubeconfig::current(&text).map_err(|why| format!("{KUBELET}: {why}"))?;
    let named = [user.client_certificate, user.client_key, user.token_file, cluster.certificate_authority];
    let mut files = BTreeMap::new();
    for path in named.into_iter().flatten().filter(|path| !path.is_empty()) {
        if !files.contains_key(&path) {
            files.insert(path.clone(), read(host, &path).await?);
        }
    }
    let given = |path: &str| match files.get(path) {
        Some(Some(text)) => Ok(text.clone()),
        _ => Err(format!("{path} is not there")),
    };
    Admin::parse(&text, given).map(Some).map_err(|why| format!("{KUBELET}: {why}"))
}

/// A file's text; `None` where it is not there. The kubelet's certificate is a link to the newest.
async fn read(host: &dyn Host, path: &str) -> Result<Option<String>, String> {
    let mut entry = host.look(path).await.map_err(|trouble| trouble.to_string())?;
    if matches!(entry, Some(Entry::Other("a link"))) {
        let argv = ["readlink", "-f", "--", path];
        let led = host.run(&argv, LINK_TIME).await.and_then(|ended| ended.well(&argv));
        let led = led.map_err(|trouble| trouble.to_string())?;
        entry = host.look(led.trim_end_matches('\n')).await.map_err(|trouble| trouble.to_string())?;
    }
    match entry {
        None => Ok(None),
        Some(Entry::File(file)) => {
            String::from_utf8(file.bytes).map(Some).map_err(|_| format!("{path}: it is not text"))
        }
        Some(_) => Err(format!("{path}: it is not a file")),
    }
}
