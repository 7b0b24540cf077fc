//! What of the suspects keeps pods from running here, or others from reaching them: what nobody says *joined* over.
//!
//! It is told under its cause: where a line about pods without an address follows from a full disk, the disk stands. What counts is
//! what is certain, and what a check finds: that is so now, though a failed check that explains nothing is only a likely cause.

use super::suspect::Suspect;
use crate::catalogue::{self, About};
use crate::join::verify::StandingCause;
use crate::judge::Ignore;
use crate::report::{Cause, Confidence};
use crate::signature::{Library, Severity, Signature};

pub(super) fn of(library: &Library, suspects: &[Suspect], causes: &[Cause], ignore: &Ignore) -> Vec<StandingCause> {
    let counts = |suspect: &&Suspect| {
        suspect.severity >= Severity::Error && (suspect.checked || suspect.certainty == Confidence::Certain)
    };
    let counting: Vec<&Suspect> = suspects.iter().filter(counts).filter(|it| !ignore.covers(&it.id)).collect();
    let find = |id: &str| counting.iter().copied().find(|suspect| suspect.id == id);
    let under = |cause: &Cause| -> Option<StandingCause> {
        let ids = std::iter::once(&cause.id).chain(&cause.explains);
        let stopped = ids.filter_map(|id| about(library, &find(id)?.id));
        let forbidding = stopped.map(|about| about.stops).filter(|it| it.forbidden_from().is_some());
        // What stops the most comes first.
        let stops = forbidding.min_by_key(|it| it.forbidden_from())?;
        let own = about(library, &cause.id)?;
        Some(StandingCause {
            id: cause.id.clone(),
            class: own.class,
            role: own.role,
            stops,
            subsystem: own.subsystem,
            title: cause.title.clone(),
            evidence: cause.evidence.clone(),
            remedy: cause.remedy.clone(),
        })
    };
    let is_ignored = |cause: &&Cause| ignore.covers(&cause.id);
    causes.iter().filter(|cause| !is_ignored(cause)).filter_map(under).collect()
}

/// What is known of an id; of a signature of the operator's own, by its file.
fn about<'l>(library: &'l Library, id: &str) -> Option<About<'l>> {
    catalogue::about(id).or_else(|| library.find(id).and_then(Signature::about))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::{Class, Stops};
    use crate::diagnose::Case;
    use crate::fact::{Facts, journal};
    use crate::testing::{NOW, facts};

    fn standing(facts: Facts, ignored: &[&str]) -> Vec<(String, Stops, Class)> {
        let library = Library::built_in().unwrap();
        let ignore = Ignore::of(ignored.iter().copied()).unwrap();
        let found = Case::of_facts(&library, facts, None).standing(&ignore);
        found.into_iter().map(|cause| (cause.id, cause.stops, cause.class)).collect()
    }

    fn kubelet(message: &str) -> Facts {
        let at = NOW.as_microsecond();
        let line = serde_json::json!({"__REALTIME_TIMESTAMP": at.to_string(), "MESSAGE": message}).to_string();
        facts().with_query(&journal::KUBELET, &line)
    }

    const REGISTERED: &str =
        r#"I1115 20:39:45.2 812 kubelet_node_status.go:78] "Successfully registered node" node="w1""#;

    #[test]
    fn a_check_that_fails_stands_alone() {
        let off = || facts().with_file("/proc/sys/net/ipv4/ip_forward", "0\n");
        let forward = ("kernel.ip-forward".to_owned(), Stops::Traffic, Class::Configuration);
        assert_eq!(standing(off(), &[]), [forward]);
        assert_eq!(standing(off(), &["kernel.ip-forward"]), []);
        assert_eq!(standing(facts(), &[]), []);
        let swap = "Filename Type Size Used Priority\n/dev/sda2 partition 1 0 -2\n";
        assert_eq!(standing(facts().with_file("/proc/swaps", swap), &[]), [], "the proofs see what comes of it");
    }

    #[test]
    fn a_line_stands_where_it_is_certain() {
        let line = r#"E1115 20:39:46.2 812 pod_workers.go:1301] "Error syncing pod, skipping" err="failed to \"StartContainer\" for \"kube-proxy\" with CrashLoopBackOff: \"back-off 10s restarting failed container=kube-proxy pod=kube-proxy-x7k2p_kube-system(0c4e)\"" pod="kube-system/kube-proxy-x7k2p""#;
        let loops = kubelet(&format!("{REGISTERED}\n{line}"));
        let crash = ("kube-proxy.crash-loop".to_owned(), Stops::Traffic, Class::Transient);
        assert_eq!(standing(loops.clone(), &[]), [crash]);
        assert_eq!(standing(loops, &["kube-proxy.crash-loop"]), [], "an id of a signature can be ignored, too");
        // Only possible.
        let unanswered =
            r#"E1115 20:39:46.2 812 x.go:1] Get "https://10.96.0.1:443/api": dial tcp 10.96.0.1:443: i/o timeout"#;
        assert_eq!(standing(kubelet(&format!("{REGISTERED}\n{unanswered}")), &[]), []);
    }
}
