//! No earlier join has left a CA certificate.
//!
//! kubeadm refuses to join while /etc/kubernetes/pki/ca.crt is there, and where it is told not to look
//! (`--ignore-preflight-errors`) it keeps the old file: the kubelet would then refuse every client of the new cluster.
//! Every cluster's CA is called "kubernetes"; only the key tells them apart. While a CA is rotated the file holds two, and
//! so does what the cluster shows: one that both have makes it that cluster's.
//!
//! See it yourself: `openssl x509 -noout -subject -dates -in /etc/kubernetes/pki/ca.crt`
//! Fix: `rm /etc/kubernetes/pki/ca.crt` on a worker; never on a control plane

use crate::catalogue::{Class, Role, Stops};
use crate::check::{
    Check, CheckPolicy, Evidence, FixedBy, InJoin, Needed, Subsystem, Verdict, fail, nothing, pass, warn,
};
use crate::fact::join_state::JoinState;
use crate::fact::pki::{CA, Certificate, shown_pins};
use crate::fact::{Facts, Known, Missing, OrAbsent, Why};
use crate::join::prepare::Preparation;

pub const CHECK: Check = Check {
    id: "stale.ca",
    title: "no earlier join has left a CA certificate",
    subsystem: Subsystem::Kubelet,
    kubeadm: &["FileAvailable--etc-kubernetes-pki-ca.crt"],
    class: Class::Transient,
    role: Role::Root,
    stops: Stops::Traffic,
    needed: Needed::Leftover,
    in_join: InJoin::SetRight(Preparation::Leftovers),
    fixed_by: FixedBy::LEFTOVERS,
    accounts_for: nothing,
    judge,
};

fn judge(facts: &Facts, _: &CheckPolicy) -> Known<Verdict> {
    if facts.file(CA).or_absent()?.is_none() {
        return Ok(pass("there is no ca.crt"));
    }
    let here = facts.ca_certificates().unwrap_or_default();
    let cluster = asked(facts)?;
    let is_here = |ca: &Certificate| here.iter().any(|it| it.pin == ca.pin);
    let differs = cluster.as_ref().is_some_and(|cluster| !cluster.iter().any(is_here));
    let pins = if here.is_empty() { "it holds no certificate".to_owned() } else { shown_pins(&here) };
    let joined = matches!(facts.join_state()?, JoinState::Joined { .. });
    let says = match (&cluster, differs, joined) {
        (_, true, _) => "ca.crt is another cluster's: the join would fail",
        (_, false, true) => "ca.crt is that of the cluster this machine has joined",
        (Some(_), false, false) => "ca.crt is left by an earlier join to this cluster: kubeadm stops",
        (None, false, false) => "ca.crt is left by an earlier join: kubeadm stops",
    };
    let verdict = if joined && !differs { warn(says) } else { fail(says) };
    let remedy =
        if joined { "kubeadm reset    # only to take it out of that cluster".to_owned() } else { format!("rm {CA}") };
    Ok(verdict
        .seen(Evidence::of(CA, pins))
        .seen(cluster.filter(|_| differs).map(|cluster| Evidence::of("the cluster's CA", shown_pins(&cluster))))
        .fix(remedy))
}

/// The cluster's CAs; `None` where the cluster was not asked.
fn asked(facts: &Facts) -> Known<Option<Vec<Certificate>>> {
    match facts.cluster_cas() {
        Ok(cas) => Ok(Some(cas)),
        Err(Missing { why: Why::NotAsked, .. }) => Ok(None),
        Err(missing) => Err(missing),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Outcome::{Fail, Pass, Unknown, Warn};
    use crate::fact::join_state::sample::{clean, joined};
    use crate::fact::pki::sample::SampleAuthority;
    use crate::fact::{Source, kubeconfig};
    use crate::testing::table;

    #[test]
    fn judges() {
        let (ca, other) = (SampleAuthority::make(), SampleAuthority::make());
        let left = || clean().with_file(CA, &ca.pem);
        let both = format!("{}{}", other.pem, ca.pem);
        table(
            &CHECK,
            [
                ("none", clean(), Pass),
                ("left", left(), Fail),
                ("left by this cluster", left().with_api("cluster-ca", &ca.pem), Fail),
                ("left by another", left().with_api("cluster-ca", &other.pem), Fail),
                ("joined", joined(&ca), Warn),
                ("joined to this cluster", joined(&ca).with_api("cluster-ca", &ca.pem), Warn),
                ("joined to another", joined(&ca).with_api("cluster-ca", &other.pem), Fail),
                ("joined, and the CA is rotated", joined(&ca).with_api("cluster-ca", &both), Warn),
                ("joined, and ca.crt has both", joined(&ca).with_file(CA, &both).with_api("cluster-ca", &ca.pem), Warn),
                ("no certificate in it", clean().with_file(CA, "").with_api("cluster-ca", &ca.pem), Fail),
                ("the cluster's answer is no CA", left().with_api("cluster-ca", ""), Unknown),
                ("joined or not is not known", left().without(Source::File(kubeconfig::KUBELET), Why::Denied), Unknown),
                ("not readable", clean().without(Source::File(CA), Why::Denied), Unknown),
            ],
        );
        let verdict = CHECK.verdict(&left().with_api("cluster-ca", &other.pem), &CheckPolicy::default());
        assert_eq!(verdict.says, "ca.crt is another cluster's: the join would fail");
        assert_eq!(verdict.evidence.len(), 2);
        assert_eq!(verdict.remedy, ["rm /etc/kubernetes/pki/ca.crt"]);
        let verdict = CHECK.verdict(&left().with_api("cluster-ca", &ca.pem), &CheckPolicy::default());
        assert_eq!(
            (verdict.says.as_str(), verdict.evidence.len()),
            ("ca.crt is left by an earlier join to this cluster: kubeadm stops", 1)
        );
        let verdict = CHECK.verdict(&joined(&ca), &CheckPolicy::default());
        assert!(verdict.remedy[0].starts_with("kubeadm reset"));
    }
}
