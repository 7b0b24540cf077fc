//! No earlier join has left a certificate that the kubelet would take for its own.
//!
//! A kubelet that finds kubelet-client-current.pem, not expired, uses it and never asks for another, whoever signed it.
//! kubeadm sees that the files load and says "This node has joined the cluster"; the API server answers Unauthorized
//! for ever. kubeadm does not look at this file before a join. Every cluster's CA is called "kubernetes": only the
//! signature tells.
//!
//! See it yourself: `openssl x509 -noout -subject -issuer -dates -in /var/lib/kubelet/pki/kubelet-client-current.pem`
//! Fix: `rm /var/lib/kubelet/pki/kubelet-client-*.pem`, or `kubeadm reset`

use jiff::SignedDuration;

use crate::catalogue::{About, Class, Role, Stops};
use crate::check::{
    Check, CheckPolicy, Evidence, FixedBy, InJoin, Needed, Subsystem, Verdict, fail, nothing, pass, warn,
};
use crate::fact::join_state::JoinState;
use crate::fact::pki::{CLIENT, Certificate, shown_pins};
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
        return Ok(with_fix(verdict, &state).seen(dates));
    }
    if facts.taken_at < client.not_before {
        return Ok(fail("the kubelet's certificate is not valid yet: is the clock right?")
            .seen(dates)
            .fix("timedatectl status"));
    }
    // What a kubelet has joined as is its name, whatever the host is called by now: machine.renamed tells.
    let own = match &state {
        JoinState::Joined { node, .. } | JoinState::Stopped { node, .. } => format!("system:node:{node}"),
        JoinState::Unjoined | JoinState::Left { .. } => facts.own_common_name()?,
    };
    if client.common_name != own {
        let seen = Evidence::of(CLIENT, format!("CN={}, this machine is {own}", client.common_name));
        return Ok(with_fix(fail(format!("the kubelet's certificate is {}'s", client.common_name)), &state)
            .seen(seen)
            .explains(LATER));
    }
    Ok(match authorities(facts)? {
        Some((cas, whose)) if !client.is_signed_by_any(&cas) => {
            let seen = Evidence::of(CLIENT, format!("not signed by {whose} {}", shown_pins(&cas)));
            if let (JoinState::Joined { .. }, false, None) = (&state, facts.is_of_another_cluster(), refusal(facts)) {
                return Ok(warn(
                    "the kubelet's certificate is of a CA that is not known here: it runs, and is not refused",
                )
                .seen(seen)
                .fix("carrick verify    # asks the API server whether it takes it"));
            }
            let seen = [seen].into_iter().chain(refusal(facts));
            with_fix(fail("the kubelet's certificate is another cluster's"), &state).seen(seen).explains(LATER)
        }
        Some(_) => pass(format!("issued to {own} by this cluster, until {until}")).seen(dates),
        None if matches!(state, JoinState::Joined { .. }) => {
            pass(format!("issued to {own}, until {until}")).seen(dates)
        }
        None => {
            let says = "an earlier join left a certificate: give --api to see if it fits";
            with_fix(warn(says), &state).seen(dates)
        }
    })
}

/// What follows where the kubelet takes a certificate that the cluster does not know.
const LATER: [About<'static>; 1] = [id!("node.never-registered")];

/// The CAs to hold the certificate against: the cluster's, and where it is that cluster's, those in kubelet.conf. While they
/// are rotated any of them may have signed it.
fn authorities(facts: &Facts) -> Known<Option<(Vec<Certificate>, &'static str)>> {
    let own = facts.kubelet_kubeconfig().map(|conf| facts.trusted_by(&conf)).unwrap_or_default();
    match facts.cluster_cas() {
        Ok(cas) if facts.is_of_another_cluster() => Ok(Some((cas, "the cluster's CA"))),
        Ok(cas) => Ok(Some((cas.into_iter().chain(own).collect(), "the cluster's CA"))),
        Err(Missing { why: Why::NotAsked, .. }) => {
            Ok(Some(own).filter(|own| !own.is_empty()).map(|own| (own, "the CA in kubelet.conf")))
        }
        Err(missing) => Err(missing),
    }
}

/// The kubelet's last word of that the API server does not take its certificate. A cluster may have a CA for its clients alone, and
/// during a rotation one that it has not shown yet: without such a word a kubelet that runs is not called stale.
fn refusal(facts: &Facts) -> Option<Evidence> {
    /// A kubelet that is refused says so several times a minute; one whose API server was started anew, once.
    const LATELY: SignedDuration = SignedDuration::from_mins(2);
    let entries = facts.journal("kubelet").unwrap_or_default();
    let lately = entries.iter().rev().filter(|entry| facts.taken_at.duration_since(entry.at) < LATELY);
    let refused = lately.filter_map(|entry| entry.message.as_deref()).find(|message| message.contains("Unauthorized"));
    refused.map(|message| Evidence::of("journalctl -u kubelet", message))
}

fn with_fix(verdict: Verdict, state: &JoinState) -> Verdict {
    match state {
        JoinState::Unjoined => verdict.fix("rm /var/lib/kubelet/pki/kubelet-client-*.pem"),
        _ => verdict.fix("kubeadm reset"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Outcome::{Fail, Pass, Unknown, Warn};
    use crate::fact::join_state::sample::{SERVER, clean, joined, kubelet_state};
    use crate::fact::pki::sample::SampleAuthority;
    use crate::fact::{Source, journal, kubeconfig, unit};
    use crate::testing::{NOW, table};

    /// Its kubelet says so, this many seconds ago.
    fn refused_ago(facts: Facts, seconds: i64) -> Facts {
        let at = (NOW.as_second() - seconds) * 1_000_000;
        let says = "Unable to register node with API server\\\" err=\\\"Unauthorized";
        let line = format!("{{\"__REALTIME_TIMESTAMP\":\"{at}\",\"MESSAGE\":\"{says}\"}}\n");
        facts.with_query(&journal::KUBELET, &line)
    }

    fn refused(facts: Facts) -> Facts {
        refused_ago(facts, 10)
    }

    #[test]
    fn judges() {
        let (ca, other) = (SampleAuthority::make(), SampleAuthority::make());
        let mut early = joined(&ca);
        early.taken_at = jiff::Timestamp::from_second(0).unwrap();
        let left = |until| clean().with_file(CLIENT, &ca.node("system:node:w1", until));
        let both = format!("{}{}", other.pem, ca.pem);
        let unknown = || joined(&ca).with_file(CLIENT, &other.node("system:node:w1", 2027));
        let stopped = |facts: Facts| facts.with_query(&unit::SHOW, &kubelet_state("inactive", "dead"));
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
                ("another cluster's kubelet.conf, and refused", refused(unknown()), Fail),
                ("of a CA that is not known here, and it runs", unknown(), Warn),
                ("of a CA that is not known here, refused an hour ago", refused_ago(unknown(), 3600), Warn),
                ("of a CA that is not known here, and it does not run", stopped(unknown()), Fail),
                (
                    "of another cluster than the one asked for",
                    unknown().with_api("cluster-ca", &SampleAuthority::make().pem),
                    Fail,
                ),
                ("another machine's", left(2027).with_file(CLIENT, &ca.node("system:node:w2", 2027)), Fail),
                ("joined, and renamed since", joined(&ca).with_file("/proc/sys/kernel/hostname", "w1-dhcp\n"), Pass),
                ("joined, and the CA is rotated", joined(&ca).with_api("cluster-ca", &both), Pass),
                (
                    "issued by the new CA, kubelet.conf has both",
                    joined(&other).with_file(kubeconfig::KUBELET, &kubeconfig::sample::kubelet(SERVER, &both)),
                    Pass,
                ),
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
        let (ca, other) = (SampleAuthority::make(), SampleAuthority::make());
        let look = |facts: &Facts| {
            let verdict = CHECK.verdict(facts, &CheckPolicy::default());
            (verdict.says, verdict.evidence[0].text.clone(), verdict.remedy.first().cloned().unwrap_or_default())
        };
        let (says, seen, fix) = look(&clean().with_file(CLIENT, &ca.node("system:node:w2", 2027)));
        assert_eq!(says, "the kubelet's certificate is system:node:w2's");
        assert_eq!(seen, "CN=system:node:w2, this machine is system:node:w1");
        assert_eq!(fix, "rm /var/lib/kubelet/pki/kubelet-client-*.pem");
        let (says, seen, fix) = look(&refused(joined(&ca).with_file(CLIENT, &other.node("system:node:w1", 2027))));
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
        let ca = SampleAuthority::make();
        let mut facts = joined(&ca);
        facts.taken_at = "2027-01-01T00:00:00Z".parse().unwrap();
        assert_eq!(CHECK.verdict(&facts, &CheckPolicy::default()).outcome, Fail);
        facts.taken_at = "2026-12-31T23:59:59Z".parse().unwrap();
        assert_eq!(CHECK.verdict(&facts, &CheckPolicy::default()).outcome, Pass);
        facts.taken_at = "2026-01-01T00:00:00Z".parse().unwrap();
        assert_eq!(CHECK.verdict(&facts, &CheckPolicy::default()).outcome, Pass);
    }
}
