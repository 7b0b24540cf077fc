//! kubelet and kubeadm fit the cluster's API server.
//!
//! A kubelet may be as new as the API server, or three minor versions older; a newer one may speak of what the server
//! does not know. kubeadm joins clusters of its own minor version or one older; an older kubeadm may not understand the
//! cluster's configuration. On a join kubeadm itself compares none of this with the server.
//!
//! See it yourself: `kubectl version`, `kubelet --version`
//! Mend it: install kubelet and kubeadm of the server's minor version

use crate::catalogue::{Class, Role, Stops};
use crate::check::{
    Check, CheckPolicy, Evidence, FixedBy, InJoin, Needed, Subsystem, Verdict, fail, nothing, pass, warn,
};
use crate::fact::version::{self, KUBEADM, KUBELET};
use crate::fact::{Facts, Known, Missing};

pub const CHECK: Check = Check {
    id: "kubeadm.skew",
    title: "kubelet and kubeadm fit the cluster's version",
    subsystem: Subsystem::Kubelet,
    kubeadm: &[],
    class: Class::Configuration,
    role: Role::Root,
    stops: Stops::Nothing,
    needed: Needed::ToJoin,
    in_join: InJoin::Blocks,
    fixed_by: FixedBy::PACKAGES,
    accounts_for: nothing,
    judge,
};

/// How many minor versions older than the server a kubelet may be (version skew policy, since 1.28).
const KUBELET_OLDER: u32 = 3;
/// How many minor versions newer than the server kubeadm may be.
const KUBEADM_NEWER: u32 = 1;

fn judge(facts: &Facts, _: &CheckPolicy) -> Known<Verdict> {
    let server = server_version(facts)?;
    let kubelet = facts.kubelet_version()?;
    let kubeadm = facts.kubeadm_version()?;
    if server.major != 1 || kubelet.major != 1 || kubeadm.major != 1 {
        return Err(Missing::broken("versions", "only Kubernetes 1 is understood"));
    }
    let verdict = if kubelet.minor > server.minor {
        fail(format!("kubelet {kubelet} is newer than the API server {server}"))
    } else if server.minor - kubelet.minor > KUBELET_OLDER {
        fail(format!("kubelet {kubelet} is too old for the API server {server}"))
    } else if kubeadm.minor > server.minor + KUBEADM_NEWER {
        fail(format!("kubeadm {kubeadm} is too new for the API server {server}"))
    } else if kubeadm.minor < server.minor {
        warn(format!("kubeadm {kubeadm} is older than the API server {server}"))
    } else {
        return Ok(pass(format!("API server {server}, kubelet {kubelet}, kubeadm {kubeadm}")));
    };
    let wanted = format!("{}.{}", server.major, server.minor);
    Ok(verdict
        .seen([
            Evidence::of("API server /version", server.to_string()),
            Evidence::of(KUBELET.name, kubelet.to_string()),
            Evidence::of(KUBEADM.name, kubeadm.to_string()),
        ])
        .fix(format!("{}    # from the repository of v{wanted}", facts.install("kubelet kubeadm"))))
}

fn server_version(facts: &Facts) -> Known<version::Version> {
    let broken = |detail: &str| Missing::broken("API server /version", detail);
    let answer: serde_json::Value =
        serde_json::from_str(&facts.api("version")?.text).map_err(|error| broken(&format!("not JSON: {error}")))?;
    let text = answer.get("gitVersion").and_then(serde_json::Value::as_str).ok_or_else(|| broken("no gitVersion"))?;
    version::parse(text).ok_or_else(|| broken("gitVersion is no version"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Outcome::{Fail, Pass, Skip, Unknown, Warn};
    use crate::fact::{Source, Why};
    use crate::testing::{facts, judge_row, table};

    fn with(server: &str, kubelet: &str, kubeadm: &str) -> Facts {
        facts()
            .with_api("version", &format!(r#"{{"major":"1","minor":"34","gitVersion":"v{server}"}}"#))
            .with_query(&KUBELET, &format!("Kubernetes v{kubelet}\n"))
            .with_query(&KUBEADM, &format!("v{kubeadm}\n"))
    }

    #[test]
    fn judges() {
        table(
            &CHECK,
            [
                ("the same", with("1.34.4", "1.34.1", "1.34.4"), Pass),
                ("kubelet three older, kubeadm one newer", with("1.34.4", "1.31.0", "1.35.0"), Pass),
                ("kubelet newer", with("1.34.4", "1.35.0", "1.35.0"), Fail),
                ("kubelet four older", with("1.34.4", "1.30.14", "1.34.4"), Fail),
                ("kubeadm two newer", with("1.34.4", "1.34.4", "1.36.0"), Fail),
                ("kubeadm older", with("1.34.4", "1.33.0", "1.33.0"), Warn),
                ("another major", with("2.0.0", "1.34.4", "1.34.4"), Unknown),
                ("kubelet of another major", with("1.34.4", "2.0.0", "1.34.4"), Unknown),
                ("kubeadm of another major", with("1.34.4", "1.34.4", "2.0.0"), Unknown),
                ("no answer", with("", "1.34.4", "1.34.4").with_api("version", "Forbidden"), Unknown),
                ("no version in it", with("", "1.34.4", "1.34.4"), Unknown),
                ("no kubelet", with("1.34.4", "", "1.34.4").without(Source::Query(&KUBELET), Why::NoTool), Unknown),
            ],
        );
        let unasked = facts().with_query(&KUBELET, "Kubernetes v1.34.4\n");
        judge_row(&CHECK, &CheckPolicy::default(), "the cluster was not asked", &unasked, Skip);
        let says = CHECK.verdict(&with("1.34.4", "1.36.0", "1.34.4"), &CheckPolicy::default()).says;
        assert_eq!(says, "kubelet 1.36.0 is newer than the API server 1.34.4");
    }
}
