//! The configuration that wins by its name is the pod network's.
//!
//! containerd loads the first file by name and no other. A file that someone left there (`00-placeholder.conflist`,
//! `10-containerd-net.conflist`) wins over `10-flannel.conflist`: the node is Ready, and every node gives its pods
//! addresses of the same range. Two pod networks' files mean that one of them is a leftover; one with only a loopback
//! leaves pods without a network.
//!
//! See it yourself: `ls /etc/cni/net.d`
//! Fix: move the file that is not the pod network's away: `mv /etc/cni/net.d/FILE /root/`, then `ip link del cni0`
//! if it is there.

use crate::catalogue::{Class, Role, Stops};
use crate::check::{
    Check, CheckPolicy, Evidence, FixedBy, InJoin, Needed, Subsystem, Verdict, fail, nothing, pass, warn,
};
use crate::cni::Flavour;
use crate::fact::cni::{Candidate, Program};
use crate::fact::{Facts, Known, Missing};
use crate::id;

pub const CHECK: Check = Check {
    id: "cni.first-file-wins",
    title: "the configuration that wins by its name is the pod network's",
    subsystem: Subsystem::Cni,
    kubeadm: &[],
    class: Class::Transient,
    role: Role::Root,
    stops: Stops::Network,
    needed: Needed::Always,
    in_join: InJoin::Blocks,
    fixed_by: FixedBy::Operator("which pod network is meant is a choice"),
    accounts_for: nothing,
    judge,
};

/// The last by name of what the usual pod networks write: a file that sorts before it takes the place of one of them.
const LAST_USUAL: &str = "10-kuberouter.conflist";

fn judge(facts: &Facts, policy: &CheckPolicy) -> Known<Verdict> {
    if let Some(left) = left_behind(facts, policy)? {
        return Ok(left);
    }
    let in_use = || if policy.cni_expected { Ok(true) } else { facts.has_kubelet_conf() };
    of_files(&facts.cni_candidates()?, facts.cni_loads(), facts.network_at_work(), in_use)
}

/// Before a join a file whose own plugin is not installed is of a network that was here before: every network installs its
/// plugin before its file, and only once the machine has joined.
fn left_behind(facts: &Facts, policy: &CheckPolicy) -> Known<Option<Verdict>> {
    let Some((winner, conf)) = facts.cni_winner().unwrap_or_default() else { return Ok(None) };
    if policy.cni_expected || facts.has_kubelet_conf()? {
        return Ok(None);
    }
    // A file of the network's own name is replaced by the network itself.
    let is_left = |flavour: &&Flavour| facts.network_at_work() != Some(flavour) && flavour.file != winner.name;
    let Some(flavour) = winner.flavour().filter(is_left) else { return Ok(None) };
    let is_missing = |plugin: &&str| facts.cni_program(plugin).is_ok_and(|program| program == Program::Missing);
    let own = conf.plugins.iter().map(|plugin| plugin.kind.as_str()).filter(|kind| flavour.plugins.contains(kind));
    let Some(missing) = own.into_iter().find(is_missing) else { return Ok(None) };
    let says = format!("{} is left of a {} network: its plugin is not installed here", winner.name, flavour.name);
    let explained = [id!("cni.plugins"), id!("cni.stale-bridge"), id!("pod.no-address")];
    let absent = Evidence::of(facts.cni_bin_dirs().join(", "), format!("no {missing}"));
    Ok(Some(wrong(&winner, &[], fail(says)).seen(absent).explains(explained)))
}

/// The files of one directory, of which the first `loads` are loaded. `at_work`: the network of which something else
/// than a file tells. `in_use`: what is there is already somebody's choice.
pub fn of_files(
    files: &[Candidate],
    loads: usize,
    at_work: Option<&Flavour>,
    in_use: impl FnOnce() -> Known<bool>,
) -> Known<Verdict> {
    let Some(winner) = files.first() else {
        return Ok(pass("no configuration yet: normal before a join"));
    };
    let conf = match winner.conf.clone()? {
        Ok(conf) => conf,
        Err(broken) => return Err(Missing::broken(&winner.path, broken)),
    };
    let losers = files.get(loads..).unwrap_or_default();
    if conf.is_loopback_only() {
        let says = format!("{} wins and has only a loopback: pods get no network", winner.name);
        return Ok(wrong(winner, losers, fail(says)));
    }
    let shadowed = losers.iter().find_map(|loser| loser.flavour().map(|flavour| (loser, flavour)));
    Ok(match (winner.flavour(), shadowed) {
        (None, Some((loser, flavour))) => {
            let says = format!("{} wins over {}'s {}", winner.name, flavour.name, loser.name);
            wrong(winner, losers, fail(says)).explains([
                id!("cni.plugins"),
                id!("cni.stale-bridge"),
                id!("pod.no-address"),
            ])
        }
        (Some(flavour), Some((loser, other))) if flavour != other && !flavour.calls_another => {
            two_networks(winner, losers, (flavour, loser, other), at_work)
        }
        (None, None) if winner.name.as_str() < LAST_USUAL && !in_use()? => {
            let says = format!("{} is no pod network known here, and would win over it", winner.name);
            wrong(winner, losers, warn(says))
        }
        (flavour, _) => {
            let network = flavour.map_or("no known pod network", |flavour| flavour.name);
            pass(format!("{} is loaded ({network})", winner.name))
        }
    })
}

/// One of two is a leftover: the one of which nothing else tells.
fn two_networks(
    winner: &Candidate,
    losers: &[Candidate],
    (flavour, loser, other): (&Flavour, &Candidate, &Flavour),
    at_work: Option<&Flavour>,
) -> Verdict {
    let explained = [id!("cni.plugins"), id!("cni.stale-bridge"), id!("pod.no-address")];
    if at_work == Some(other) {
        let says = format!("{}'s {} wins over {}'s {}", flavour.name, winner.name, other.name, loser.name);
        return wrong(winner, losers, fail(says)).explains(explained);
    }
    let says = format!("{} and {} are both here: {} wins", flavour.name, other.name, winner.name);
    let verdict = wrong(loser, losers, warn(says)).seen(Evidence::of(&winner.path, "is loaded")).explains(explained);
    if at_work.is_some() {
        return verdict;
    }
    let which = format!("mv {} /root/    # or {}: the one that is not this cluster's", loser.path, winner.path);
    Verdict { remedy: vec!["kubectl get daemonsets -A    # which of the two is it?".to_owned(), which], ..verdict }
}

fn wrong(away: &Candidate, losers: &[Candidate], verdict: Verdict) -> Verdict {
    let shown = |candidate: &Candidate, word: &str| {
        let kinds = match &candidate.conf {
            Ok(Ok(conf)) => conf.plugins.iter().map(|plugin| plugin.kind.as_str()).collect::<Vec<_>>().join(", "),
            Ok(Err(broken)) => broken.to_string(),
            Err(missing) => missing.why.to_string(),
        };
        Evidence::of(&candidate.path, format!("{word} ({kinds})"))
    };
    let winner = (!losers.contains(away)).then(|| shown(away, "is loaded"));
    verdict
        .seen(winner)
        .seen(losers.iter().map(|loser| shown(loser, "is not loaded")))
        .fix(format!("mv {} /root/", away.path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Outcome::{Fail, Pass, Unknown, Warn};
    use crate::fact::net::LINKS;
    use crate::fact::{Source, Why};
    use crate::testing::{facts, judge_row, table};

    /// Files with the one plugin each.
    fn net_d(files: &[(&str, &str)]) -> Facts {
        let entries: Vec<(&str, &str)> = files.iter().map(|(name, _)| ("-rw-r--r--", *name)).collect();
        let fresh = facts().with_dir("/etc/cni/net.d", &entries).without_file("/etc/kubernetes/kubelet.conf");
        files.iter().fold(fresh, |facts, (name, kind)| {
            let text = format!(r#"{{"name":"n","type":"{kind}","plugins":[{{"type":"{kind}"}}]}}"#);
            facts.with_file(&format!("/etc/cni/net.d/{name}"), &text)
        })
    }

    const FLANNEL: (&str, &str) = ("10-flannel.conflist", "flannel");

    #[test]
    fn judges() {
        let foreign = net_d(&[("10-containerd-net.conflist", "bridge")]);
        table(
            &CHECK,
            [
                ("none yet", net_d(&[]), Pass),
                ("flannel's alone", net_d(&[FLANNEL]), Pass),
                ("a later file of someone else's", net_d(&[FLANNEL, ("87-podman.conflist", "bridge")]), Pass),
                ("a placeholder before flannel's", net_d(&[("00-placeholder.conflist", "bridge"), FLANNEL]), Fail),
                ("and one between", net_d(&[("00-a.conf", "bridge"), ("05-b.conf", "bridge"), FLANNEL]), Fail),
                ("a loopback first", net_d(&[("00-loopback.conf", "loopback"), FLANNEL]), Fail),
                ("only a loopback", net_d(&[("99-loopback.conf", "loopback")]), Fail),
                ("calico's beside flannel's", net_d(&[("10-calico.conflist", "calico"), FLANNEL]), Warn),
                (
                    "calico's left before flannel's, whose interface is there",
                    net_d(&[("05-old.conflist", "calico"), FLANNEL]).with_query(&LINKS, r#"[{"ifname":"flannel.1"}]"#),
                    Fail,
                ),
                (
                    "flannel's left behind calico's, whose interface is there",
                    net_d(&[("05-old.conflist", "calico"), FLANNEL]).with_query(&LINKS, r#"[{"ifname":"cali12"}]"#),
                    Warn,
                ),
                ("flannel's twice", net_d(&[FLANNEL, ("20-flannel.conflist", "flannel")]), Pass),
                ("multus before flannel", net_d(&[("00-multus.conf", "multus"), FLANNEL]), Pass),
                ("someone else's before a join", foreign.clone(), Warn),
                ("someone else's that will lose", net_d(&[("87-podman.conflist", "bridge")]), Pass),
                ("one's own on a joined machine", foreign.clone().with_file("/etc/kubernetes/kubelet.conf", ""), Pass),
                (
                    "joined or not is not known",
                    foreign.clone().without(Source::File("/etc/kubernetes/kubelet.conf"), Why::TimedOut),
                    Unknown,
                ),
                (
                    "the first is broken",
                    net_d(&[FLANNEL]).with_file("/etc/cni/net.d/10-flannel.conflist", "{"),
                    Unknown,
                ),
                ("not root", facts().without(Source::Tree("/etc/cni/net.d"), Why::Denied), Unknown),
            ],
        );
        let all = r#"{"status":{"conditions":[]},"cniconfig":{"PluginMaxConfNum":0}}"#;
        let both =
            net_d(&[("00-placeholder.conflist", "bridge"), FLANNEL]).with_file("/etc/kubernetes/kubelet.conf", "");
        judge_row(&CHECK, &CheckPolicy::default(), "all are loaded", &both.with_cri("status", all), Pass);
        judge_row(&CHECK, &CheckPolicy { cni_expected: true }, "one's own, as expected", &foreign, Pass);
        let old = net_d(&[("05-old.conflist", "calico"), FLANNEL]);
        let fix = |facts: Facts| CHECK.verdict(&facts, &CheckPolicy::default()).remedy.join("\n");
        let link = |name: &str| old.clone().with_query(&LINKS, &format!(r#"[{{"ifname":"{name}"}}]"#));
        assert_eq!(fix(link("flannel.1")), "mv /etc/cni/net.d/05-old.conflist /root/");
        assert_eq!(fix(link("cali12")), "mv /etc/cni/net.d/10-flannel.conflist /root/");
        assert!(fix(old).starts_with("kubectl get daemonsets -A"));
        let verdict = CHECK.verdict(&net_d(&[("00-placeholder.conflist", "bridge"), FLANNEL]), &CheckPolicy::default());
        assert_eq!(verdict.says, "00-placeholder.conflist wins over flannel's 10-flannel.conflist");
        assert_eq!(verdict.evidence[0], Evidence::of("/etc/cni/net.d/00-placeholder.conflist", "is loaded (bridge)"));
        assert_eq!(verdict.evidence[1], Evidence::of("/etc/cni/net.d/10-flannel.conflist", "is not loaded (flannel)"));
        assert_eq!(verdict.remedy, ["mv /etc/cni/net.d/00-placeholder.conflist /root/"]);
        let both = CHECK.verdict(&net_d(&[("10-calico.conflist", "calico"), FLANNEL]), &CheckPolicy::default());
        assert_eq!(both.says, "calico and flannel are both here: 10-calico.conflist wins");
        assert_eq!(both.remedy.len(), 2, "{:?}", both.remedy);
        let texts: Vec<&str> = both.evidence.iter().map(|evidence| evidence.text.as_str()).collect();
        assert_eq!(texts, ["is not loaded (flannel)", "is loaded"]);
    }
}
