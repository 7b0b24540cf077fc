//! A kubelet that runs on a machine which has not joined is stopped: it holds port 10250, or runs alone. kubeadm starts it again
//! during the join. Where static pods lie in /etc/kubernetes/manifests it may serve them, and is left alone; so is one with a
//! kubeconfig that is not kubeadm's, which may be in a cluster. `carrick undo` starts it again.

use super::Fix;
use crate::fact::join_state::{JoinState, MANIFESTS};
use crate::fact::listen::Proto;
use crate::fact::{Facts, Known, OrAbsent};
use crate::plan::Effect;

pub const FIX: Fix =
    Fix { fixes: &["kubelet.standalone", "network.ports"], does: "stops the kubelet; kubeadm starts it again", plan };

fn plan(facts: &Facts) -> Known<Vec<Effect>> {
    let unjoined = facts.join_state()? == JoinState::Unjoined;
    let has_pods = facts.dir(MANIFESTS).or_absent()?.is_some_and(|entries| !entries.is_empty());
    if !unjoined || has_pods || !facts.unit_state("kubelet")?.is_active() || facts.foreign_kubeconfig()?.is_some() {
        return Ok(Vec::new());
    }
    let in_the_way = holds_port(facts)? || runs_alone(facts)?;
    Ok(in_the_way.then(|| Effect::Run { unit: "kubelet".to_owned(), running: false }).into_iter().collect())
}

fn holds_port(facts: &Facts) -> Known<bool> {
    let is_kubelets = |name: &str| name == "kubelet";
    Ok(facts.listeners()?.iter().any(|listener| {
        (listener.proto, listener.port) == (Proto::Tcp, 10250)
            && listener.owner.as_ref().is_some_and(|owner| is_kubelets(&owner.name))
    }))
}

fn runs_alone(facts: &Facts) -> Known<bool> {
    Ok(facts.kubelet_process()?.is_some_and(|process| !process.has_flag("--kubeconfig")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fact::pki::{self, sample::SampleAuthority};
    use crate::fact::unit::SHOW;
    use crate::fact::{kubeconfig, listen, process};
    use crate::testing::{facts, plans};

    #[test]
    fn a_kubelet_that_came_too_early_is_stopped() {
        let with = |active: &str, ports: &str, process: &str| {
            facts()
                .without_file(kubeconfig::KUBELET)
                .without_file(pki::CLIENT)
                .without_file(pki::CA)
                .without_dir(MANIFESTS)
                .with_query(&SHOW, &format!("Id=kubelet.service\nLoadState=loaded\nActiveState={active}\nMainPID=77\n"))
                .with_query(&listen::LISTENERS, ports)
                .with_query(&process::KUBELET, process)
        };
        let port = "tcp LISTEN 0 128 *:10250 *:* users:((\"kubelet\",pid=77,fd=3))\n";
        let other = port.replace("kubelet", "nginx");
        let (alone, joined) =
            ("77 /usr/bin/kubelet\n", "77 /usr/bin/kubelet --kubeconfig=/etc/kubernetes/kubelet.conf\n");
        plans(
            &FIX,
            [
                ("holds the port", with("active", port, joined), &["stop kubelet"]),
                ("runs alone", with("active", "", alone), &["stop kubelet"]),
                ("neither", with("active", "", joined), &[]),
                (
                    "somebody else's node",
                    with("active", port, "77 /usr/bin/kubelet --kubeconfig=/var/lib/kubelet/kubeconfig\n"),
                    &[],
                ),
                (
                    "a node whose kubelet.conf was removed",
                    with("active", port, joined)
                        .with_file(pki::CLIENT, &SampleAuthority::make().node("system:node:w1", 2027)),
                    &[],
                ),
                ("waits for its configuration", with("activating", "", ""), &[]),
                ("another program's port", with("active", &other, joined), &[]),
                (
                    "it serves static pods",
                    with("active", port, alone).with_dir(MANIFESTS, &[("-rw-r--r--", "a.yaml")]),
                    &[],
                ),
                ("it has joined", with("active", port, alone).with_file(kubeconfig::KUBELET, "{"), &[]),
            ],
        );
    }
}
