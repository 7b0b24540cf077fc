//! No earlier join has left a certificate that the kubelet would take for its own.
//!
//! A kubelet that finds kubelet-client-current.pem, not expired, uses it and never asks for another, whoever signed it.
//! kubeadm sees that the files load and says "This node has joined the cluster"; the API server answers Unauthorized
//! for ever. kubeadm does not look at this file before a join. Every cluster's CA is called "kubernetes": only the
//! signature tells.
//!
//! See it yourself: `openssl x509 -noout -subject -issuer -dates -in /var/lib/kubelet/pki/kubelet-client-current.pem`
//! Mend it: `rm /var/lib/kubelet/pki/kubelet-client-*.pem`, or `kubeadm reset`

use crate::catalogue::{About, Class, Role, Stops};
use crate::check::{
    Check, CheckPolicy, Evidence, FixedBy, InJoin, Needed, Subsystem, Verdict, fail, nothing, pass, warn,
};
use crate::fact::join_state::JoinState;
use crate::fact::pki::{CLIENT, Certificate};
use crate::fact::{Facts, Known, Missing, OrAbsent, Why};
use crate::id;
use crate::join::prepare::Preparation;

pub const CHECK: Check = Check {
    id: "stale.client-certificate",
    title: "the kubelet has no certificate of another cluster or machine",
    subsystem: Subsystem::Kubelet,
    kubeadm: &[],
    class: Class::Transient,
    role: Role::Root,
    stops: Stops::Node,
    needed: Needed::Leftover,
    in_join: InJoin::SetRight(Preparation::Leftovers),
    fixed_by: FixedBy::LEFTOVERS,
    accounts_for: nothing,
    judge,
};

fn judge(facts: &Facts, _: &CheckPolicy) -> Known<Verdict> {
    let Some(client) = facts.client_certificate().or_absent()? else {
        return Ok(pass("the kubelet has no certificate yet"));
    };
    let state = facts.join_state()?;
    let days = |text: &str| text.split('T').next().unwrap_or_default().to_owned();
    let until = days(&client.not_after.to_string());
    let dates = Evidence::of(CLIENT, format!("valid from {} to {until}", days(&client.not_before.to_string())));
    if facts.taken_at >= client.not_after {
        let says = format!("the kubelet's certificate expired on {until}");
        // Without kubelet.conf a kubelet asks for a new one, with the token: the old one is only in the way of the
        // reader.
        let verdict =
            if state == JoinState::Unjoined { warn(says) } else { fail(says).explains([id!("node.not-ready")]) };
        return Ok(mend(verdict, &state).seen(dates));
    }
    if facts.taken_at < client.not_before {
        return Ok(fail("the kubelet's certificate is not valid yet: is the clock right?")
            .seen(dates)
            .fix("timedatectl status"));
    }
    let own = facts.own_common_name()?;
    if client.common_name != own {
        let seen = Evidence::of(CLIENT, format!("CN={}, this machine is {own}", client.common_name));
        return Ok(mend(fail(format!("the kubelet's certificate is {}'s", client.common_name)), &state)
            .seen(seen)
            .explains(LATER));
    }
    Ok(match authority(facts)? {
        Some((ca, whose)) if !client.is_signed_by(&ca) => {
            let seen = Evidence::of(CLIENT, format!("not signed by {whose} {}", ca.pin));
            mend(fail("the kubelet's certificate is another cluster's"), &state).seen(seen).explains(LATER)
        }
        Some(_) => pass(format!("issued to {own} by this cluster, until {until}")).seen(dates),
        None if matches!(state, JoinState::Joined { .. }) => {
            pass(format!("issued to {own}, until {until}")).seen(dates)
        }
        None => {
            let says = "an earlier join left a certificate: give --api to see if it fits";
            mend(warn(says), &state).seen(dates)
        }
    })
}

/// What follows where the kubelet takes a certificate that the cluster does not know.
const LATER: [About<'static>; 1] = [id!("node.never-registered")];

/// The CA to hold the certificate against: the cluster's, else the one in kubelet.conf.
fn authority(facts: &Facts) -> Known<Option<(Certificate, &'static str)>> {
    match facts.cluster_ca() {
        Ok(ca) => Ok(Some((ca, "the cluster's CA"))),
        Err(Missing { why: Why::NotAsked, .. }) => {
            let own = facts.kubelet_kubeconfig().ok().and_then(|conf| conf.ca());
            Ok(own.map(|ca| (ca, "the CA in kubelet.conf")))
        }
        Err(missing) => Err(missing),
    }
}

fn mend(verdict: Verdict, state: &JoinState) -> Verdict {
    match state {
        JoinState::Unjoined => verdict.fix("rm /var/lib/kubelet/pki/kubelet-client-*.pem"),
        _ => verdict.fix("kubeadm reset"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Outcome::{Fail, Pass, Unknown, Warn};
    use crate::fact::join_state::sample::{SERVER, clean, joined};
    use crate::fact::pki::sample::Authority;
    use crate::fact::{Source, kubeconfig};
    use crate::testing::table;

    #[test]
    fn judges() {
        let (ca, other) = (Authority::make(), Authority::make());
        let mut early = joined(&ca);
        early.taken_at = jiff::Timestamp::from_second(0).unwrap();
        let left = |until| clean().with_file(CLIENT, &ca.node("system:node:w1", until));
        table(
            &CHECK,
            [
                ("none", clean(), Pass),
                ("joined", joined(&ca), Pass),
                ("joined to this cluster", joined(&ca).with_api("cluster-ca", &ca.pem), Pass),
                (
                    "joined, the CA not in kubelet.conf",
                    joined(&ca).with_file(kubeconfig::KUBELET, &kubeconfig::sample::kubelet(SERVER, "")),
                    Pass,
                ),
                ("left by this cluster", left(2027).with_api("cluster-ca", &ca.pem), Pass),
                ("left by some cluster", left(2027), Warn),
                ("left by another cluster", left(2027).with_api("cluster-ca", &other.pem), Fail),
                (
                    "another cluster's kubelet.conf",
                    joined(&ca).with_file(CLIENT, &other.node("system:node:w1", 2027)),
                    Fail,
                ),
                ("another machine's", joined(&ca).with_file(CLIENT, &ca.node("system:node:w2", 2027)), Fail),
                ("expired and left", left(2026), Warn),
                ("expired and joined", joined(&ca).with_file(CLIENT, &ca.node("system:node:w1", 2026)), Fail),
                ("not valid yet", early, Fail),
                ("no certificate in it", clean().with_file(CLIENT, "<redacted:private-key>\n"), Unknown),
                ("the cluster's answer is no CA", left(2027).with_api("cluster-ca", ""), Unknown),
                (
                    "joined or not is not known",
                    left(2027).without(Source::File(kubeconfig::KUBELET), Why::Denied),
                    Unknown,
                ),
                ("not readable", clean().without(Source::File(CLIENT), Why::Denied), Unknown),
            ],
        );
    }

    #[test]
    fn says_what_is_wrong_with_it() {
        let (ca, other) = (Authority::make(), Authority::make());
        let look = |facts: &Facts| {
            let verdict = CHECK.verdict(facts, &CheckPolicy::default());
            (verdict.says, verdict.evidence[0].text.clone(), verdict.remedy.first().cloned().unwrap_or_default())
        };
        let (says, seen, fix) = look(&clean().with_file(CLIENT, &ca.node("system:node:w2", 2027)));
        assert_eq!(says, "the kubelet's certificate is system:node:w2's");
        assert_eq!(seen, "CN=system:node:w2, this machine is system:node:w1");
        assert_eq!(fix, "rm /var/lib/kubelet/pki/kubelet-client-*.pem");
        let (says, seen, fix) = look(&joined(&ca).with_file(CLIENT, &other.node("system:node:w1", 2027)));
        assert_eq!(says, "the kubelet's certificate is another cluster's");
        assert!(seen.starts_with("not signed by the CA in kubelet.conf sha256:"), "{seen}");
        assert_eq!(fix, "kubeadm reset");
        let (says, seen, _) = look(&joined(&ca).with_file(CLIENT, &ca.node("system:node:w1", 2026)));
        assert_eq!(
            (says.as_str(), seen.as_str()),
            ("the kubelet's certificate expired on 2026-01-01", "valid from 2026-01-01 to 2026-01-01")
        );
    }

    #[test]
    fn it_expires_at_the_very_second() {
        let ca = Authority::make();
        let mut facts = joined(&ca);
        facts.taken_at = "2027-01-01T00:00:00Z".parse().unwrap();
        assert_eq!(CHECK.verdict(&facts, &CheckPolicy::default()).outcome, Fail);
        facts.taken_at = "2026-12-31T23:59:59Z".parse().unwrap();
        assert_eq!(CHECK.verdict(&facts, &CheckPolicy::default()).outcome, Pass);
        facts.taken_at = "2026-01-01T00:00:00Z".parse().unwrap();
        assert_eq!(CHECK.verdict(&facts, &CheckPolicy::default()).outcome, Pass);
    }
}
