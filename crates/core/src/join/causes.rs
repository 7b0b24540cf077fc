//! The causes that a join names of what it meets on its way: a look that failed, a line that somebody printed, a call that
//! was refused. What the checks find is [`super::looked`]'s, what the evidence shows [`mod@super::step`]'s.

use super::failure::{Circumstance, JoinCause, worst};
use crate::catalogue::About;
use crate::check::{self, CHECKS, Check, Evidence, InJoin, Subsystem};
use crate::fact::{Missing, Why};
use crate::id;
use crate::redact::redact;
use crate::signature::{Library, Phase, Severity, Signature};

/// What a line is known to mean, and by which signature.
pub struct Recognised<'l> {
    pub signature: &'l Signature,
    pub cause: JoinCause,
}

/// What a line is known to mean, with the line as evidence. `counts` says which signatures do here.
pub fn recognised<'l>(
    library: &'l Library,
    line: &str,
    seen: &Evidence,
    counts: impl Fn(&Signature) -> bool,
) -> Vec<Recognised<'l>> {
    // Before anything is taken from the line: half a secret is not known for one.
    let clean = redact(line);
    let known = |at: usize| {
        let signature = library.get(at);
        let about = signature.about().filter(|_| counts(signature))?;
        let cause = JoinCause::of(about, redact(&library.cause(at, &clean))).seen(seen.clone());
        let cause = cause.fixed_by(library.remedy(at, &clean));
        Some(Recognised { signature, cause })
    };
    library.recognise(line).into_iter().filter_map(known).collect()
}

/// What another program's sentence is known to mean, whatever the stage.
pub fn of_sentence(library: &Library, says: &str, who: &str) -> Vec<JoinCause> {
    let seen = Evidence::of(who, redact(says));
    recognised(library, says, &seen, |_| true).into_iter().map(|known| known.cause).collect()
}

/// What the kubelet complains of while it waits for its certificate, where it will not pass by itself.
pub fn of_kubelet(library: &Library, journal: &str) -> Vec<JoinCause> {
    let counts = |it: &Signature| it.severity == Severity::Fatal && it.phase <= Phase::Joining && it.lasts.is_none();
    let of_line = |line: &str| recognised(library, line, &Evidence::of("journalctl -u kubelet", redact(line)), counts);
    journal.lines().flat_map(of_line).map(|known| known.cause).collect()
}

/// What kubeadm failed for. Where the look before the next attempt judges the same, its word is of one moment.
pub fn as_met_by_kubeadm(cause: JoinCause) -> JoinCause {
    let is_decided = check::find(&cause.id).any(|it| it.check.in_join == InJoin::Decided);
    let looked_at_again = is_decided || cause.subsystem == Subsystem::Runtime;
    if looked_at_again { cause.under(Circumstance::MetByKubeadm) } else { cause }
}

/// Something that could not be done on the machine, in the words of who tried.
pub struct FailedAction<'a> {
    pub library: &'a Library,
    pub says: String,
    /// The machine was not reached: nothing is wrong with what was to be done.
    pub of_the_link: bool,
}

impl FailedAction<'_> {
    /// Of what is set right before kubeadm runs.
    pub fn unprepared(&self) -> JoinCause {
        self.known().unwrap_or_else(|| self.not_begun("the machine could not be prepared for kubeadm"))
    }

    /// Of what it takes to start kubeadm.
    pub fn unstarted(&self) -> JoinCause {
        self.known().unwrap_or_else(|| self.not_begun("kubeadm could not be started"))
    }

    /// Of the kubelet of a machine that has joined.
    pub fn unwoken(&self) -> JoinCause {
        self.known().unwrap_or_else(|| JoinCause::of(id!("kubelet.not-running"), self.quoted()))
    }

    fn quoted(&self) -> String {
        redact(&self.says)
    }

    /// What it is known for: a full disk, a file system that cannot be written, a link that is gone.
    fn known(&self) -> Option<JoinCause> {
        let known = of_sentence(self.library, &self.says, "carrick").into_iter().next();
        let lost = || self.of_the_link.then(|| JoinCause::of(id!("ssh.unreachable"), ""));
        let mut cause = known.or_else(lost)?;
        // Its own words say what was tried, too; they are not evidence besides.
        cause.says = self.quoted();
        cause.seen.clear();
        Some(cause)
    }

    fn not_begun(&self, what: &str) -> JoinCause {
        JoinCause::of(id!("join.not-begun"), format!("{what}: {}", self.quoted()))
    }
}

/// What is here could not be told: for the reason of a check that accounts for it. Only who is refused lacks a right.
pub fn of_missing(missing: &Missing) -> JoinCause {
    let about = match &missing.why {
        Why::Denied => id!("machine.privileges"),
        Why::NoShell(_) => id!("ssh.unreachable"),
        _ => accounting_for(missing).unwrap_or(id!("join.not-begun")),
    };
    let cause = JoinCause::of(about, format!("cannot tell what is here: {missing}"));
    cause.may_pass(missing.why.may_pass())
}

/// Which step of the way to the cluster ended is not to be told from what was not answered behind it.
fn accounting_for(missing: &Missing) -> Option<About<'static>> {
    let accounts = |check: &&Check| (check.accounts_for)(missing) && !missing.is_answer_of_cluster();
    CHECKS.iter().map(|registered| registered.check).find(accounts).map(Check::about)
}

/// There is no kubeadm to start.
pub fn of_no_kubeadm() -> JoinCause {
    JoinCause::of(id!("kubeadm.installed"), "kubeadm is not installed")
}

/// Whether a Node of this name exists could not be asked, though the way to the API server is open.
pub fn of_unasked(why: &Why) -> JoinCause {
    let about = match why {
        Why::Denied => id!("api.auth"),
        Why::TimedOut => id!("api.slow"),
        _ => id!("api.http"),
    };
    JoinCause::of(about, format!("whether a Node of this name exists could not be asked: {why}"))
}

/// The Node that stands in the way could not be removed, or marked as not ready. `may_pass`: the API server did not answer, or
/// the Node was changed meanwhile.
pub fn of_standing_node(says: String, may_pass: bool) -> JoinCause {
    JoinCause::of(id!("api.node-name"), says).may_pass(may_pass)
}

/// No token could be made with the admin's rights.
pub fn of_unminted(why: &str, may_pass: bool) -> JoinCause {
    JoinCause::of(id!("api.token"), format!("no token could be made: {why}")).may_pass(may_pass)
}

/// A token was made with the admin's rights, and nobody signs for it.
pub fn of_unsigned(seconds: u64) -> JoinCause {
    let says = format!(
        "cluster-info is not signed for the token of this join after {seconds} s: kube-controller-manager, or its bootstrap \
         signer, does not run"
    );
    JoinCause::of(id!("api.token-unsigned"), says)
}

/// The image that every pod begins with cannot be pulled: the node would join, and never be ready.
pub fn of_unpulled(library: &Library, image: &str, why: &Why) -> JoinCause {
    let says = format!("the runtime has no pause image {image}, and cannot pull it: no pod could start here");
    // A registry that is out of reach may be back for the next attempt; one that has no such image, or refuses it, stays so.
    let known = of_sentence(library, &why.to_string(), "PullImage");
    let passes = !known.is_empty() && worst(&known).may_pass();
    let seen = Evidence::of("PullImage", redact(&why.to_string()));
    JoinCause::of(id!("runtime.sandbox-image"), says).seen(seen).may_pass(passes || *why == Why::TimedOut)
}

/// The machine is not reached any more, while kubeadm works on it.
pub fn of_lost_link(why: &Why) -> JoinCause {
    let says = format!("the machine is not reached any more ({why}); what was begun goes on there");
    JoinCause::of(id!("ssh.unreachable"), says)
}

/// What [`of_lost_link`] says, which is over once the machine is seen again.
pub fn is_lost_link(cause: &JoinCause) -> bool {
    cause.id == id!("ssh.unreachable").id
}

/// The API server, asked for the kubelet's request, says nothing. `None`: it answered, whatever it said.
pub fn of_silent_api(why: &Why) -> Option<JoinCause> {
    match why {
        Why::TimedOut | Why::Unreachable(_) => {
            Some(JoinCause::of(id!("api.tcp"), format!("the API server does not answer any more: {why}")))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::Class;
    use crate::fact::version;

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
        for says in ["write /run/carrick/join.yaml: no space left on device", "sysctl: exit status 255"] {
            let undone =
                FailedAction { library: &library, says: format!("{says} (--token {SECRET})"), of_the_link: false };
            for cause in [undone.unprepared(), undone.unstarted(), undone.unwoken()] {
                assert!(cause.says.contains(says) && !cause.says.contains("0123456789abcdef"), "{cause:?}");
            }
        }
    }

    #[test]
    fn what_could_not_be_done_is_called_what_it_is() {
        let library = library();
        let ids = |says: &str, of_the_link| {
            let undone = FailedAction { library: &library, says: says.to_owned(), of_the_link };
            [undone.unprepared(), undone.unstarted(), undone.unwoken()].map(|cause| (cause.id, cause.says))
        };
        let (begun, kubelet) = ("join.not-begun", "kubelet.not-running");
        let link = "the connection to w1 is gone";
        for (says, of_the_link, expected) in [
            ("write /x: No space left on device (os error 28)", false, ["filesystem.space"; 3]),
            ("sysctl: exit status 255", false, [begun, begun, kubelet]),
            (link, true, ["ssh.unreachable"; 3]),
        ] {
            assert_eq!(ids(says, of_the_link).map(|(id, _)| id), expected, "{says}");
        }
        // What is told is what `carrick explain` and a paste of it know.
        for (_, says) in ids("sysctl: exit status 255", false).into_iter().filter(|(id, _)| id == begun) {
            assert_eq!(of_sentence(&library, &says, "carrick")[0].id, begun, "{says}");
        }
    }

    #[test]
    fn kubeadms_word_is_of_one_moment_where_the_next_look_judges_the_same() {
        for (about, class) in [
            (id!("runtime.socket"), Class::Transient),
            (id!("api.node-name"), Class::Transient),
            (id!("kubeadm.token-not-signed"), Class::Configuration),
            (id!("stale.kubelet-conf"), Class::Transient),
        ] {
            assert_eq!(as_met_by_kubeadm(JoinCause::of(about, "x")).class(), class, "{}", about.id);
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
        for (source_name, why, id, may_pass) in [
            ("systemctl show", Why::Denied, "machine.privileges", false),
            ("systemctl show", Why::NoShell("gone".into()), "ssh.unreachable", true),
            ("systemctl show", Why::NoSystemd, "machine.systemd", false),
            ("systemctl show", Why::TimedOut, "join.not-begun", true),
            ("systemctl show", Why::Broken("odd".into()), "join.not-begun", false),
            (version::KUBEADM.name, Why::NoTool, "kubeadm.installed", false),
            ("api version", Why::Broken("not reached".into()), "join.not-begun", false),
        ] {
            let cause = of_missing(&Missing { source_name: source_name.into(), why: why.clone() });
            assert_eq!((cause.id.as_str(), cause.class().may_pass()), (id, may_pass), "{source_name}: {why}");
        }
    }

    #[test]
    fn only_who_says_nothing_is_silent() {
        let says = || "API server 10.0.0.11:6443 …".to_owned();
        for (why, id) in [
            (Why::TimedOut, Some("api.tcp")),
            (Why::Unreachable(says()), Some("api.tcp")),
            (Why::Busy(says()), None),
            (Why::Broken(says()), None),
            (Why::Denied, None),
            (Why::Absent, None),
        ] {
            assert_eq!(of_silent_api(&why).map(|cause| cause.id).as_deref(), id, "{why:?}");
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
