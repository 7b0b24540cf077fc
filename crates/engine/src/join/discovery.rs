//! Discovery by a file: a kubeconfig on the machine says who the cluster is, and perhaps who may ask it.

use std::sync::Arc;

use carrick_cluster::ClusterClient;
use carrick_core::fact::pki;
use carrick_core::join::request::{BadInput, Request};
use carrick_host::Host;

use crate::credentials;

const FIELD: &str = "discovery.file.kubeConfigPath";

/// What kubeadm will find in the file that the request names, for us to ask the same cluster. `None`: no file is named.
pub async fn read(machine: &Arc<dyn Host>, request: &mut Request) -> Result<Option<ClusterClient>, BadInput> {
    let Some(path) = request.discovery_file.clone() else { return Ok(None) };
    let bad = |why: String| BadInput::of(FIELD, format!("{path}: {why}"));
    if path.starts_with("https://") {
        return Err(bad("is fetched by nobody but kubeadm; put the file on the machine, and name that".to_owned()));
    }
    if !path.starts_with('/') {
        return Err(bad("is taken from the folder kubeadm runs in, which is /; give the whole path".to_owned()));
    }
    let client = credentials::of_file(machine, &path, request.token.as_ref()).await;
    let client = client.map_err(|why| BadInput::of(FIELD, why.to_string()))?;
    let trusted = pki::parse_certificates(client.ca()).unwrap_or_default();
    request.pins = trusted.iter().filter_map(|ca| ca.pin.parse().ok()).collect();
    request.api = Some(client.server().clone());
    Ok(Some(client))
}
