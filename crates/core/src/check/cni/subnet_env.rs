//! flannel has said which pod addresses are this machine's.
//!
//! flannel's init container writes the configuration before flannel itself writes /run/flannel/subnet.env, and /run is
//! empty after every boot: until then the node is Ready and every pod fails with "open /run/flannel/subnet.env: no such
//! file". Seconds are normal; longer means that flannel does not run. Never write the file by hand: it must agree with
//! the cluster's pod range.
//!
//! See it yourself: `cat /run/flannel/subnet.env; crictl ps --name kube-flannel`
//! Fix: `crictl logs $(crictl ps -aq --name kube-flannel | head -1)` says why flannel does not run

use crate::catalogue::{Class, Role, Stops};
use crate::check::{
    Check, CheckPolicy, Evidence, FixedBy, InJoin, Needed, Subsystem, Verdict, fail, nothing, pass, skip, warn,
};
use crate::cni::flannel;
use crate::fact::cni::SUBNET_ENV;
use crate::fact::{Facts, Known, Missing, Why};
use crate::id;

pub const CHECK: Check = Check {
    id: "cni.subnet-env",
    title: "flannel has said which pod addresses are this machine's",
    subsystem: Subsystem::Cni,
    kubeadm: &[],
    class: Class::Transient,
    role: Role::Root,
    stops: Stops::Network,
    needed: Needed::Always,
    in_join: InJoin::Blocks,
    fixed_by: FixedBy::Operator("flannel writes it; by hand it would not agree with the cluster"),
    accounts_for: nothing,
    judge,
};

const LOGS: &str = "tail -n 20 /var/log/pods/*/kube-flannel*/*.log";

fn judge(facts: &Facts, _: &CheckPolicy) -> Known<Verdict> {
    if facts.cni_flavour()? != Some(&flannel::FLAVOUR) {
        return Ok(skip("flannel is not configured here"));
    }
    let Some(env) = facts.flannel()? else {
        return Ok(warn("flannel is configured and has not started: no pod gets an address")
            .seen(Evidence::of(SUBNET_ENV, "not there"))
            .fix(LOGS)
            .explains([id!("pod.no-address")]));
    };
    let Some((network, subnet)) = env.network.zip(env.subnet).or(env.network_v6.zip(env.subnet_v6)) else {
        return Ok(fail("subnet.env does not say FLANNEL_NETWORK and FLANNEL_SUBNET")
            .seen(Evidence::of(SUBNET_ENV, "no FLANNEL_NETWORK or no FLANNEL_SUBNET"))
            .fix(format!("rm {SUBNET_ENV} && {RESTART}"))
            .explains([id!("pod.no-address")]));
    };
    let cluster = match facts.cluster_network() {
        Ok(cluster) => cluster.pods,
        Err(Missing { why: Why::NotAsked, .. }) => Vec::new(),
        Err(missing) => return Err(missing),
    };
    if !cluster.is_empty() && !cluster.iter().any(|pods| pods.network() == network.network()) {
        let pods = cluster.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        return Ok(fail(format!("flannel's network is {network}, the cluster's pods are in {pods}"))
            .seen([
                Evidence::of(SUBNET_ENV, format!("FLANNEL_NETWORK={network}")),
                Evidence::of("kubeadm-config", format!("podSubnet: {pods}")),
            ])
            .fix(format!(
                "kubectl -n kube-flannel edit configmap kube-flannel-cfg    # Network: {pods}, then {RESTART}"
            ))
            .explains([id!("pod.no-address")]));
    }
    Ok(pass(format!("this machine's pods are in {}", subnet.network())))
}

const RESTART: &str = "kubectl -n kube-flannel rollout restart ds kube-flannel-ds";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Outcome::{Fail, Pass, Skip, Unknown, Warn};
    use crate::fact::Source;
    use crate::testing::{facts, table};

    const IPV6: &str = "FLANNEL_IPV6_NETWORK=fd00:244::/56\nFLANNEL_IPV6_SUBNET=fd00:244:0:1::1/64\nFLANNEL_MTU=1430\nFLANNEL_IPMASQ=true\n";
    const V6_PODS: &str = "networking:\n  podSubnet: fd00:244::/56\n";

    fn with(kind: &str, env: &str) -> Facts {
        facts()
            .with_dir("/etc/cni/net.d", &[("-rw-r--r--", "10-x.conflist")])
            .with_file("/etc/cni/net.d/10-x.conflist", &format!(r#"{{"name":"x","plugins":[{{"type":"{kind}"}}]}}"#))
            .with_file(SUBNET_ENV, env)
    }

    #[test]
    fn judges() {
        let env =
            "FLANNEL_NETWORK=10.244.0.0/16\nFLANNEL_SUBNET=10.244.1.1/24\nFLANNEL_MTU=1450\nFLANNEL_IPMASQ=true\n";
        let pods = |range: &str| {
            with("flannel", env).with_api("kubeadm-config", &format!("networking:\n  podSubnet: {range}\n"))
        };
        table(
            &CHECK,
            [
                ("as it should be", with("flannel", env), Pass),
                ("as the cluster says", pods("10.244.0.0/16"), Pass),
                ("both families", pods("10.244.0.0/16,fd00::/56"), Pass),
                ("another range", pods("10.200.0.0/16"), Fail),
                ("IPv6 alone", with("flannel", IPV6), Pass),
                ("IPv6 alone, as the cluster says", with("flannel", IPV6).with_api("kubeadm-config", V6_PODS), Pass),
                ("half of IPv6", with("flannel", "FLANNEL_IPV6_NETWORK=fd00:244::/56\n"), Fail),
                ("the cluster has none", with("flannel", env).with_api("kubeadm-config", "networking: {}\n"), Pass),
                ("not yet", with("flannel", "").without_file(SUBNET_ENV), Warn),
                ("JSON in it", with("flannel", r#"{"Network": "10.244.0.0/16"}"#), Fail),
                ("no subnet", with("flannel", "FLANNEL_NETWORK=10.244.0.0/16\n"), Fail),
                ("calico", with("calico", "").without_file(SUBNET_ENV), Skip),
                ("no pod network", facts().with_dir("/etc/cni/net.d", &[]), Skip),
                (
                    "the cluster did not answer",
                    with("flannel", env).without(Source::Api("kubeadm-config"), Why::TimedOut),
                    Unknown,
                ),
                ("denied", with("flannel", env).without(Source::File(SUBNET_ENV), Why::Denied), Unknown),
                ("not root", facts().without(Source::Tree("/etc/cni/net.d"), Why::Denied), Unknown),
            ],
        );
        let verdict = CHECK.verdict(&pods("10.200.0.0/16"), &CheckPolicy::default());
        assert_eq!(verdict.says, "flannel's network is 10.244.0.0/16, the cluster's pods are in 10.200.0.0/16");
        assert_eq!(
            CHECK.verdict(&pods("10.244.0.0/16"), &CheckPolicy::default()).says,
            "this machine's pods are in 10.244.1.0/24"
        );
    }
}
