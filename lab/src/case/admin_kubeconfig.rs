//! `carrick diagnose --kubeconfig` against a real API server: by token, by client certificate, and as somebody without rights.

use std::fs;
use std::time::Duration;

use carrick_testkit::Api;
use serde_json::{Value, json};

use super::{Bench, Case};
use crate::coverage::Covers;
use crate::demand;
use crate::error::{During, Error, Result};
use crate::need::Need;
use crate::run::Run;
use crate::tier::Tier;

pub const CASE: Case = Case {
    about: "with an admin's kubeconfig the diagnosis tells the state of the pod network's DaemonSet; others learn why not",
    tier: Tier::Quick,
    covers: &[Covers::Verb("diagnose"), Covers::Promise(8)],
    needs: &[Need::ApiServer],
    run,
};

/// One look at a machine that is busy with other cases.
const DEADLINE: Duration = Duration::from_mins(1);

fn run(bench: &mut Bench) -> Result<()> {
    let carrick = bench.carrick()?;
    let api = Api::start().map_err(told)?;
    make_daemon_set(bench, &api)?;
    for (who, kubeconfig, says) in [
        ("admin by token", api.kubeconfig_text(api.admin_token()), "kube-flannel/kube-flannel-ds: 2 of 3 ready"),
        ("admin by certificate", api.kubeconfig_with_certificate(), "kube-flannel/kube-flannel-ds: 2 of 3 ready"),
        ("nobody", api.kubeconfig_text(api.nobody_token()), "may not list them"),
        ("a stranger", api.kubeconfig_text("stranger"), "is not accepted"),
    ] {
        // Beside the API server's own files, which it names.
        let file = api.kubeconfig().with_file_name("asked");
        fs::write(&file, kubeconfig).at("write", &file)?;
        let words = ["diagnose", "--output", "json", "--kubeconfig"];
        let done = Run::new(&carrick).args(words).arg(&file).deadline(DEADLINE).done()?;
        bench.time(who, done.took);
        let report: Value = serde_json::from_str(&done.out).map_err(|_| Error::Said(done.text()))?;
        let pieces = report["pod_network"].as_array().cloned().unwrap_or_default();
        let piece = pieces.iter().find(|piece| piece["what"] == "daemon set");
        let there = piece.and_then(|piece| piece["says"].as_str()).unwrap_or_default();
        demand!(there.contains(says), "{who} was told {there:?}");
        demand!(!done.out.contains(api.admin_token()), "{who}: the report holds the token");
    }
    Ok(())
}

/// No controller is there to change the status again.
fn make_daemon_set(bench: &Bench, api: &Api) -> Result<()> {
    let labels = json!({ "app": "flannel" });
    let flannel = json!({
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": { "name": "kube-flannel-ds", "namespace": "kube-flannel" },
        "spec": {
            "selector": { "matchLabels": labels },
            "template": {
                "metadata": { "labels": labels },
                "spec": { "containers": [{ "name": "flannel", "image": "flannel" }] },
            },
        },
    });
    let file = bench.logs.join("flannel.json");
    fs::write(&file, flannel.to_string()).at("write", &file)?;
    let status =
        r#"{"status":{"desiredNumberScheduled":3,"currentNumberScheduled":3,"numberMisscheduled":0,"numberReady":2}}"#;
    let (namespace, set) = ("--namespace=kube-flannel", "daemonset/kube-flannel-ds");
    api.kubectl(&["create", "namespace", "kube-flannel"]).map_err(told)?;
    api.kubectl(&["create", "-f", &file.display().to_string()]).map_err(told)?;
    api.kubectl(&["patch", set, namespace, "--subresource=status", "--type=merge", "-p", status]).map_err(told)?;
    Ok(())
}

#[allow(clippy::needless_pass_by_value, reason = "the shape map_err wants")]
fn told(error: carrick_testkit::Error) -> Error {
    Error::Said(error.to_string())
}
