//! The host still has the name under which it has joined.
//!
//! A kubelet takes its name when it starts, from `--hostname-override` or from the host, and a node may speak of no Node
//! but its own. One that runs goes on under the name it has; started again on a host that was renamed (DHCP, cloud-init, a
//! typed `hostname`) it asks under the new name with the certificate of the old one, and is refused: its Node is NotReady
//! from then on.
//!
//! See it yourself: `hostname`, `openssl x509 -noout -subject -in /var/lib/kubelet/pki/kubelet-client-current.pem`
//! Fix: `hostnamectl hostname OLD-NAME`, and `systemctl restart kubelet` where it was started since; to have the machine
//! in the cluster under its new name: `carrick reset`, then `carrick join`

use crate::catalogue::{Class, Role, Stops};
use crate::check::{
    Check, CheckPolicy, Evidence, FixedBy, InJoin, Needed, Subsystem, Verdict, fail, nothing, pass, skip, warn,
};
use crate::fact::identity::HOSTNAME;
use crate::fact::join_state::JoinState;
use crate::fact::{Facts, Known, pki};
use crate::id;

pub const CHECK: Check = Check {
    id: "machine.renamed",
    title: "the host has the name under which it has joined",
    subsystem: Subsystem::Machine,
    kubeadm: &[],
    class: Class::Configuration,
    role: Role::Root,
    stops: Stops::Node,
    needed: Needed::Always,
    in_join: InJoin::Decided,
    fixed_by: FixedBy::Operator("which of the two names is meant is a choice"),
    accounts_for: nothing,
    judge,
};

fn judge(facts: &Facts, _: &CheckPolicy) -> Known<Verdict> {
    let (node, runs) = match facts.join_state()? {
        JoinState::Joined { node, .. } => (node, true),
        JoinState::Stopped { node, .. } => (node, false),
        JoinState::Unjoined | JoinState::Left { .. } => return Ok(skip("this machine has not joined")),
    };
    let coming = facts.coming_node_name()?;
    if coming == node {
        return Ok(pass(format!("it has joined as {node}, and is called so")));
    }
    let verdict = if runs {
        warn(format!("the host is called {coming} now; it has joined as {node}: the next start of its kubelet fails"))
    } else {
        fail(format!("the host is called {coming} now; it has joined as {node}: its kubelet cannot start as that"))
    };
    Ok(verdict
        .seen([Evidence::of(HOSTNAME, facts.hostname()?), Evidence::of(pki::CLIENT, format!("CN=system:node:{node}"))])
        .fix(format!("hostnamectl hostname {node}"))
        .fix(format!("carrick reset    # or, to have it as {coming}: then carrick join"))
        .explains([id!("kubelet.wrong-node-name")]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Outcome::{Fail, Pass, Skip, Unknown, Warn};
    use crate::fact::join_state::sample::{clean, joined, kubelet_state};
    use crate::fact::pki::sample::SampleAuthority;
    use crate::fact::{Source, Why, unit};
    use crate::testing::table;

    #[test]
    fn judges() {
        let ca = SampleAuthority::make();
        let renamed = || joined(&ca).with_file(HOSTNAME, "w1-dhcp\n");
        let named = "KUBELET_EXTRA_ARGS=--hostname-override=w1\n";
        table(
            &CHECK,
            [
                ("never joined", clean(), Skip),
                ("as it joined", joined(&ca), Pass),
                ("renamed", renamed(), Warn),
                ("renamed, and stopped", renamed().with_query(&unit::SHOW, &kubelet_state("inactive", "dead")), Fail),
                (
                    "renamed, and the kubelet is told its name",
                    renamed().with_query(&unit::KUBELET, &unit::sample::packaged()).with_file(unit::DEFAULTS, named),
                    Pass,
                ),
                ("its name cannot be read", joined(&ca).without(Source::File(HOSTNAME), Why::Denied), Unknown),
            ],
        );
        let verdict = CHECK.verdict(&renamed(), &CheckPolicy::default());
        assert_eq!(
            verdict.says,
            "the host is called w1-dhcp now; it has joined as w1: the next start of its kubelet fails"
        );
        assert_eq!(verdict.remedy[0], "hostnamectl hostname w1");
    }
}
