//! Discovery by a file: a kubeconfig on the machine says who the cluster is, and perhaps who may ask it.

use std::collections::BTreeMap;

use carrick_cluster::client::Client;
use carrick_core::fact::{kubeconfig, pki};
use carrick_core::join::input::{BadInput, Request};
use carrick_host::Host;

use crate::credentials;

const FIELD: &str = "discovery.file.kubeConfigPath";

/// What kubeadm will find in the file that the request names, for us to ask the same cluster. `None`: no file is named.
pub async fn read(host: &dyn Host, request: &mut Request) -> Result<Option<Client>, BadInput> {
    let Some(path) = request.discovery_file.clone() else { return Ok(None) };
    let bad = |why: String| BadInput::of(FIELD, format!("{path}: {why}"));
    if path.starts_with("https://") {
        return Err(bad("is fetched by nobody but kubeadm; put the file on the machine, and name that".to_owned()));
    }
    if !path.starts_with('/') {
        return Err(bad("is taken from the folder kubeadm runs in, which is /; give the whole path".to_owned()));
    }
    let client = client(host, &path, request).await.map_err(bad)?;
    let trusted = pki::parse_certificates(client.ca()).unwrap_or_default();
    request.pins = trusted.iter().filter_map(|ca| ca.pin.parse().ok()).collect();
    request.api = Some(client.endpoint().clone());
    Ok(Some(client))
}

async fn client(host: &dyn Host, path: &str, request: &Request) -> Result<Client, String> {
    let text = credentials::read(host, path).await?;
    let (cluster, user) = kubeconfig::of_discovery(&text)?;
    let mut files = BTreeMap::new();
    let named = [cluster.certificate_authority, user.client_certificate, user.client_key, user.token_file];
    for file in named.into_iter().flatten().filter(|file| !file.is_empty()) {
        let text = credentials::read(host, &file).await?;
        files.insert(file, text);
    }
    let read = |path: &str| files.get(path).cloned().ok_or_else(|| format!("{path} was not read"));
    Client::parse_or_token(&text, request.token.as_ref(), read)
}
