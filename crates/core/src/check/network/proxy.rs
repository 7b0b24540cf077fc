//! No proxy stands between this machine and its cluster.
//!
//! kubeadm and containerd send HTTPS to the proxy of their environment, also what goes to the API server and to
//! services, unless `no_proxy` spares those addresses. A join then times out, or ends at a proxy that refuses the
//! cluster's certificate. `no_proxy` takes ranges: `10.96.0.0/12`.
//!
//! See it yourself: `env | grep -i _proxy; cat /etc/environment; systemctl show containerd -p Environment`
//! Fix: `export no_proxy=localhost,127.0.0.1,APISERVER,10.244.0.0/16,10.96.0.0/12`, and the same in
//! /etc/environment and in containerd's drop-in.

use crate::catalogue::{Class, Role, Stops};
use crate::check::{Check, CheckPolicy, Evidence, FixedBy, InJoin, Needed, Subsystem, Verdict, nothing, pass, warn};
use crate::fact::cidr::Cidr;
use crate::fact::proxy::{Proxy, UnitProxy};
use crate::fact::{Facts, Known, Missing, Why};
use crate::id;
use crate::names::Names;

pub const CHECK: Check = Check {
    id: "network.proxy",
    title: "no proxy stands between the machine and its cluster",
    subsystem: Subsystem::Network,
    kubeadm: &["HTTPProxy", "HTTPProxyCIDR"],
    class: Class::Configuration,
    role: Role::Root,
    stops: Stops::Node,
    needed: Needed::Always,
    in_join: InJoin::Blocks,
    fixed_by: FixedBy::Operator("which addresses go past the proxy is a choice"),
    accounts_for: nothing,
    judge,
};

fn judge(facts: &Facts, _: &CheckPolicy) -> Known<Verdict> {
    // A unit that nobody read is told by the checks of units.
    if let Some(set) = facts.kubelet_proxy().ok().flatten()
        && let Some(verdict) = of_kubelet(facts, &set)
    {
        return Ok(verdict);
    }
    let proxy = facts.proxy()?;
    if proxy.proxies().next().is_none() {
        return Ok(pass("no proxy is set"));
    }
    if proxy.exceptions().next().is_none() {
        return Ok(cited(&proxy, warn("a proxy is set and no_proxy is not: the cluster would be asked through it"))
            .fix("export no_proxy=localhost,127.0.0.1,APISERVER,PODS,SERVICES    # and in /etc/environment")
            .explains([id!("kubeadm.discovery-timeout")]));
    }
    let cluster = match facts.cluster_network() {
        Ok(cluster) => cluster,
        Err(Missing { why: Why::NotAsked, .. }) => {
            return Ok(pass("a proxy is set, with no_proxy; --api holds it against the cluster"));
        }
        Err(missing) => return Err(missing),
    };
    let ranges: Vec<Cidr> = cluster.pods.into_iter().chain(cluster.services).collect();
    let through: Vec<String> =
        ranges.into_iter().filter(|range| !proxy.spares(*range)).map(|range| range.to_string()).collect();
    if through.is_empty() {
        return Ok(pass("a proxy is set, and no_proxy spares the cluster"));
    }
    let known = proxy.exceptions().collect::<Vec<_>>().join(",");
    Ok(cited(&proxy, warn(format!("no_proxy does not spare the cluster's {}", through.join(", "))))
        .fix(format!("export no_proxy={known},{}    # and in /etc/environment", through.join(","))))
}

/// What its unit sends to a proxy, the kubelet asks nobody else for.
fn of_kubelet(facts: &Facts, set: &UnitProxy) -> Option<Verdict> {
    let known = Names::of(facts);
    let is_spared = match known.get("server_host") {
        Some(server) => set.proxy.spares_host(server),
        None => set.proxy.exceptions().next().is_some(),
    };
    let file = &set.seen.source;
    let drop_in = "/etc/systemd/system/kubelet.service.d/zz-no-proxy.conf";
    let kept: String = set.proxy.exceptions().map(|entry| format!("{entry},")).collect();
    let reload = "systemctl daemon-reload && systemctl restart kubelet";
    (!is_spared).then(|| {
        warn(format!("{} sends the kubelet's requests to a proxy", file.rsplit('/').next().unwrap_or(file)))
            .seen([set.seen.clone()])
            .fix(format!(
                "mkdir -p /etc/systemd/system/kubelet.service.d && printf '[Service]\\nEnvironment=\"NO_PROXY={kept}localhost,127.0.0.1,\
                 {{server_host}},.svc,.cluster.local\"\\n' >{drop_in} && {reload}"
            ))
            .fix(format!("sed -i.before '{}s/^/# /' {file} && {reload}    # or the kubelet needs no proxy", set.seen.line.unwrap_or(1)))
            .explains([
                id!("api.kubelet-unanswered"),
                id!("kubelet.no-certificate"),
                id!("kubelet.cannot-report"),
                id!("kubeadm.tls-timeout"),
                id!("node.never-registered"),
                id!("node.not-ready"),
            ])
    })
}

fn cited(proxy: &Proxy, verdict: Verdict) -> Verdict {
    let settings = proxy.settings.iter();
    verdict.seen(settings.map(|s| Evidence::at(s.source, s.line, format!("{}={}", s.name, s.value))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Outcome::{Pass, Unknown, Warn};
    use crate::fact::Source;
    use crate::fact::proxy::{ENVIRONMENT, ETC_ENVIRONMENT};
    use crate::fact::unit::{KUBELET, sample};
    use crate::testing::{facts, table};

    const CONFIG: &str = "networking:\n  podSubnet: 10.244.0.0/16\n  serviceSubnet: 10.96.0.0/12\n";

    fn env(text: &str) -> Facts {
        facts().with_query(&ENVIRONMENT, text).without_file(ETC_ENVIRONMENT)
    }

    const DROP_IN: &str = "/etc/systemd/system/kubelet.service.d/20-proxy.conf";

    /// Of a cluster at 10.77.0.11.
    fn kubelet(variables: &str) -> Facts {
        let drop_in = format!("[Service]\nEnvironment=\"{variables}\"\n");
        let path = r#"{"endpoint":"10.77.0.11:6443","steps":[]}"#;
        env("").with_api("path", path).with_query(&KUBELET, &sample::and_drop_in(DROP_IN, &drop_in))
    }

    #[test]
    fn judges() {
        let with = |no_proxy: &str| env(&format!("HTTPS_PROXY=http://proxy:3128\nNO_PROXY={no_proxy}\n"));
        table(
            &CHECK,
            [
                ("none", env(""), Pass),
                ("only exceptions", env("no_proxy=localhost\n"), Pass),
                ("without exceptions", env("https_proxy=http://proxy:3128\n"), Warn),
                ("in /etc/environment", env("").with_file(ETC_ENVIRONMENT, "http_proxy=\"http://proxy:3128\"\n"), Warn),
                ("with exceptions, cluster not asked", with("localhost"), Pass),
                ("the cluster is spared", with("10.0.0.0/8").with_api("kubeadm-config", CONFIG), Pass),
                ("the services are not", with("10.244.0.0/16").with_api("kubeadm-config", CONFIG), Warn),
                (
                    "the cluster did not answer",
                    with("10.0.0.0/8").without(Source::Api("kubeadm-config"), Why::TimedOut),
                    Unknown,
                ),
                ("not looked", facts(), Unknown),
                ("a drop-in of the kubelet's sends it there", kubelet("HTTPS_PROXY=http://proxy:3128"), Warn),
                ("and spares the cluster", kubelet("HTTPS_PROXY=http://proxy:3128\" \"NO_PROXY=10.0.0.0/8"), Pass),
                ("and spares others", kubelet("HTTPS_PROXY=http://proxy:3128\" \"NO_PROXY=localhost"), Warn),
                ("only plain HTTP", kubelet("HTTP_PROXY=http://proxy:3128"), Pass),
            ],
        );
        let verdict = CHECK.verdict(&kubelet("HTTPS_PROXY=http://proxy:3128"), &CheckPolicy::default());
        assert_eq!(verdict.says, "20-proxy.conf sends the kubelet's requests to a proxy");
        assert!(verdict.remedy[0].contains("NO_PROXY=localhost,127.0.0.1,10.77.0.11,"), "{:?}", verdict.remedy);
        assert!(verdict.remedy[1].contains(&format!("'2s/^/# /' {DROP_IN} ")), "{:?}", verdict.remedy);
        let verdict = CHECK.verdict(&with("10.244.0.0/16").with_api("kubeadm-config", CONFIG), &CheckPolicy::default());
        assert_eq!(verdict.says, "no_proxy does not spare the cluster's 10.96.0.0/12");
        assert!(verdict.remedy[0].starts_with("export no_proxy=10.244.0.0/16,10.96.0.0/12 "));
        assert_eq!(verdict.evidence[0].text, "https_proxy=http://proxy:3128");
    }
}
