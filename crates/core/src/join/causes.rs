//! The causes that a join names of what it meets on its way: a look that failed, a line that somebody printed, a call that
//! was refused. What the checks find is [`super::looked`]'s, what the evidence shows [`mod@super::step`]'s.

use super::failure::JoinCause;
use crate::catalogue::About;
use crate::check::Evidence;
use crate::fact::{Missing, Why};
use crate::id;
use crate::redact::redact;
use crate::signature::{Library, Phase, Severity, Signature};

/// What a line is known to mean, with the line as evidence. `counts` says which signatures do here.
pub fn recognised(
    library: &Library,
    line: &str,
    seen: &Evidence,
    counts: impl Fn(&Signature) -> bool,
) -> Vec<(Severity, JoinCause)> {
    let mut causes = Vec::new();
    // Before anything is taken from the line: half a secret is not known for one.
    let clean = redact(line);
    for at in library.recognise(line) {
        let signature = library.get(at);
        if let Some(about) = signature.about().filter(|_| counts(signature)) {
            let cause = JoinCause::of(about, redact(&library.cause(at, &clean))).seen(seen.clone());
            causes.push((signature.severity, cause));
        }
    }
    causes
}

/// What another program's sentence is known to mean, whatever the stage.
pub fn of_sentence(library: &Library, says: &str, who: &str) -> Vec<JoinCause> {
    let seen = Evidence::of(who, redact(says));
    recognised(library, says, &seen, |_| true).into_iter().map(|(_, cause)| cause).collect()
}

/// What the kubelet complains of while it waits for its certificate, where it will not pass by itself.
pub fn of_kubelet(library: &Library, journal: &str) -> Vec<JoinCause> {
    let counts = |it: &Signature| it.severity == Severity::Fatal && it.phase <= Phase::Joining && it.lasts.is_none();
    let of_line = |line: &str| recognised(library, line, &Evidence::of("journalctl -u kubelet", redact(line)), counts);
    journal.lines().flat_map(of_line).map(|(_, cause)| cause).collect()
}

/// What could not be done, under what it is known for: a full disk, a file system that cannot be written.
pub fn of_undone(library: &Library, says: &str, otherwise: About<'_>) -> JoinCause {
    let known = library.recognise(says).into_iter().find_map(|at| library.get(at).about());
    JoinCause::of(known.unwrap_or(otherwise), says)
}

/// What is here could not be told. Only who is refused lacks a right.
pub fn of_missing(missing: &Missing) -> JoinCause {
    let about = match &missing.why {
        Why::Denied => id!("machine.privileges"),
        Why::NoShell(_) => id!("ssh.unreachable"),
        Why::Absent
        | Why::TimedOut
        | Why::NoTool
        | Why::NotCollected
        | Why::NotAsked
        | Why::NotAdmin
        | Why::NoSystemd
        | Why::Broken(_) => id!("machine.systemd"),
    };
    let cause = JoinCause::of(about, format!("cannot tell what is here: {missing}"));
    cause.may_pass(missing.why == Why::TimedOut)
}

/// The image that every pod begins with cannot be pulled: the node would join, and never be ready.
pub fn of_unpulled(library: &Library, image: &str, why: &Why) -> JoinCause {
    let says_why = why.to_string();
    let says = format!("the runtime has no pause image {image}, and cannot pull it: no pod could start here");
    // A registry that is out of reach may be back for the next attempt; one that has no such image, or refuses it, stays so.
    let unreachable = id!("runtime.registry-unreachable").id;
    let passes = library.recognise(&says_why).into_iter().any(|at| library.get(at).id == unreachable);
    let seen = Evidence::of("PullImage", redact(&says_why));
    JoinCause::of(id!("runtime.sandbox-image"), says).seen(seen).may_pass(passes || *why == Why::TimedOut)
}

/// The machine is not reached any more, while kubeadm works on it.
pub fn of_lost_link(why: &Why) -> JoinCause {
    let says = format!("the machine is not reached any more ({why}); what was begun goes on there");
    JoinCause::of(id!("ssh.unreachable"), says)
}

/// The API server, asked for the kubelet's request, says nothing. `None`: it answered, whatever it said.
pub fn of_silent_api(why: &Why) -> Option<JoinCause> {
    match why {
        Why::TimedOut | Why::Broken(_) => {
            Some(JoinCause::of(id!("api.tcp"), format!("the API server does not answer any more: {why}")))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "abcdef.0123456789abcdef";

    fn library() -> Library {
        Library::built_in().unwrap()
    }

    /// Whatever it is recognised in, a line is quoted without its secrets.
    #[test]
    fn what_is_quoted_is_redacted() {
        let swap = format!("failed to run Kubelet: running with swap on is not supported (--token {SECRET})");
        let plugin = format!("failed to find plugin \"flannel\" in path [/opt/cni/bin] (--token {SECRET})");
        let library = library();
        let pulled = of_unpulled(&library, "registry.k8s.io/pause:3.10", &Why::Broken(format!("--token {SECRET}")));
        let all = [of_kubelet(&library, &swap), of_sentence(&library, &plugin, "the runtime"), vec![pulled]];
        for causes in all {
            assert!(!causes.is_empty());
            for cause in causes {
                let shown = format!("{cause:?}");
                assert!(!shown.contains("0123456789abcdef") && !cause.seen.is_empty(), "{shown}");
            }
        }
    }

    #[test]
    fn only_what_will_not_pass_is_taken_from_the_kubelets_journal() {
        let ids = |journal: &str| of_kubelet(&library(), journal).into_iter().map(|it| it.id).collect::<Vec<_>>();
        assert_eq!(ids("failed to run Kubelet: running with swap on is not supported"), ["machine.swap"]);
        // Normal until the node has joined.
        assert_eq!(ids("Container runtime network not ready: cni plugin not initialized"), [""; 0]);
    }

    #[test]
    fn why_a_look_failed_decides_what_it_is_called() {
        for (why, id, may_pass) in [
            (Why::Denied, "machine.privileges", false),
            (Why::NoShell("gone".into()), "ssh.unreachable", true),
            (Why::TimedOut, "machine.systemd", true),
            (Why::Broken("odd".into()), "machine.systemd", false),
        ] {
            let cause = of_missing(&Missing { source_name: "systemctl show".into(), why });
            assert_eq!((cause.id.as_str(), cause.class().may_pass()), (id, may_pass));
        }
    }

    #[test]
    fn a_registry_out_of_reach_may_come_back() {
        for (why, may_pass) in [
            (Why::TimedOut, true),
            (
                Why::Broken(
                    "failed to do request: Head \"https://registry.k8s.io/v2/pause/manifests/3.10\": dial tcp: lookup \
                     registry.k8s.io: no such host"
                        .into(),
                ),
                true,
            ),
            (Why::Broken("registry.k8s.io/pause:9.9: not found".into()), false),
        ] {
            let cause = of_unpulled(&library(), "registry.k8s.io/pause:3.10", &why);
            assert_eq!((cause.id.as_str(), cause.class().may_pass()), ("runtime.sandbox-image", may_pass), "{why}");
        }
    }
}
