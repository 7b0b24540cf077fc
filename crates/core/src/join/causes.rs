//! The causes that a join names of what it meets on its way: a look that failed, a line that somebody printed, a call that
//! was refused. What the checks find is [`super::looked`]'s, what the evidence shows [`mod@super::step`]'s.

use super::failure::{Circumstance, JoinCause, worst};
use super::origin::{self, Origin};
use crate::catalogue::{self, About};
use crate::check::{self, CHECKS, Check, Evidence, InJoin, Subsystem};
use crate::diagnose::last_words::{self, LastWords, Weight};
use crate::diagnose::listen::HeardCause;
use crate::fact::unit::UnitState;
use crate::fact::{Facts, Missing, Why, kubelet_config};
use crate::id;
use crate::redact::redact;
use crate::report::Confidence;
use crate::signature::{Library, Severity, Signature};

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
        let fixes = library.remedy(at, &clean).into_iter().map(|command| redact(&command));
        let cause = JoinCause::of(about, redact(&library.cause(at, &clean))).seen(seen.clone()).fixed_by(fixes);
        let follows = |id: &String| library.find(id).map_or(id.as_str(), Signature::cause_id).to_owned();
        let cause = cause.sure(signature.certainty).explaining(signature.explains.iter().map(follows));
        Some(Recognised { signature, cause })
    };
    library.recognise(line).into_iter().filter_map(known).collect()
}

/// What another program's sentence is known to mean, whatever the stage.
pub fn of_sentence(library: &Library, says: &str, who: &str) -> Vec<JoinCause> {
    said(library, says, who, |_| true)
}

fn said(library: &Library, says: &str, who: &str, counts: impl Fn(&Signature) -> bool) -> Vec<JoinCause> {
    let seen = Evidence::of(who, redact(says));
    recognised(library, says, &seen, counts).into_iter().map(|known| known.cause).collect()
}

/// What the runtime's refusal of a sandbox is known to mean. It is asked again: one refusal ends nothing.
pub fn of_refusal(library: &Library, says: &str) -> Vec<JoinCause> {
    let known = said(library, says, "the runtime", |it| it.severity >= Severity::Error);
    known.into_iter().map(|cause| cause.under(Circumstance::GoesOn)).collect()
}

/// What was heard of a program's lines; `None` of what nobody here classified.
pub fn of_heard(heard: HeardCause) -> Option<JoinCause> {
    let HeardCause { id, why, confidence, evidence, remedy, explains } = heard;
    let cause = JoinCause::of(catalogue::about(&id)?, why).sure(confidence).seen(evidence);
    Some(cause.fixed_by(remedy).explaining(explains))
}

/// Why a kubelet ended, by its last words. What they lead to in its command line or configuration is the place to edit.
/// `laid_over`: the files of `--config-dir`.
pub fn of_ended_kubelet(
    library: &Library,
    words: &LastWords,
    facts: &Facts,
    laid_over: &[(String, String)],
) -> Vec<JoinCause> {
    let state = facts.unit_state("kubelet").ok();
    let killed = state.as_ref().is_some_and(|state| !matches!(state.result.as_str(), "exit-code" | "success" | ""));
    // Who was killed had no time to say why; what it complained of before is not the reason.
    let line = words.line(if killed { Weight::Fatal } else { Weight::Plain });
    let origin = line.and_then(|line| origin::of(&last_words::said(line), facts, laid_over));
    let placed = |cause: JoinCause| match &origin {
        Some(Origin { seen, remedy }) => cause.seen(seen.clone()).fixed_by(remedy.clone()),
        None => cause,
    };
    let known = line.map(|line| of_program(library, "kubelet", line)).unwrap_or_default();
    if !known.is_empty() {
        return known.into_iter().map(placed).collect();
    }
    let how = state.as_ref().map_or_else(|| "ended".to_owned(), how_it_ended);
    let says = match line {
        Some(line) => format!("the kubelet {how}: {}", last_words::said(line)),
        None => format!("the kubelet {how}, and did not say why"),
    };
    let seen = line.map(|line| Evidence::of("journalctl -u kubelet", redact(line)));
    let cause = JoinCause::of(id!("kubelet.restart-loop"), says).seen(seen);
    // Where one place carries what it refuses, it will refuse it again.
    let cause = placed(cause.sure(if origin.is_some() { Confidence::Likely } else { Confidence::Possible }));
    vec![if origin.is_some() { cause } else { cause.under(Circumstance::GoesOn) }]
}

fn how_it_ended(state: &UnitState) -> String {
    match (state.result.as_str(), state.exec_main_status) {
        ("signal" | "core-dump", Some(signal)) => format!("was killed by signal {signal}"),
        ("oom-kill", _) => "was killed: the machine is out of memory".to_owned(),
        ("watchdog" | "timeout", _) => format!("was killed by systemd ({})", state.result),
        (_, Some(status)) if status != 0 => format!("ended (exit status {status})"),
        _ => "ended".to_owned(),
    }
}

/// Why a container of the pod network ended, by its last words: as far as they are known, else in its own. None where they
/// are those of a start that is tried again in every join.
pub fn of_ended_container(library: &Library, container: &EndedContainer<'_>) -> Vec<JoinCause> {
    let EndedContainer { pod, name, exit, line, is_kube_proxy } = *container;
    let known = line.map(|line| of_program(library, name, line)).unwrap_or_default();
    let is_harmless =
        |line: &str| library.recognise(line).iter().any(|at| library.get(*at).severity <= Severity::Benign);
    if !known.is_empty() || line.is_some_and(is_harmless) {
        return known;
    }
    let about = if is_kube_proxy { id!("kube-proxy.crash-loop") } else { id!("cni.daemon-crash-loop") };
    let words = line.map_or_else(|| "it did not say why".to_owned(), last_words::said);
    let seen = line.map(|line| Evidence::of(format!("pod {pod}"), redact(line)));
    let cause = JoinCause::of(about, format!("{name} of pod {pod} ended (exit status {exit}): {words}"));
    vec![cause.seen(seen).sure(Confidence::Possible)]
}

/// A container that ended, and the line that says why.
#[derive(Clone, Copy, Debug)]
pub struct EndedContainer<'a> {
    /// `NAMESPACE/NAME`
    pub pod: &'a str,
    pub name: &'a str,
    pub exit: i32,
    pub line: Option<&'a str>,
    pub is_kube_proxy: bool,
}

/// What a program's own line is known to mean, as the reason of its end.
fn of_program(library: &Library, program: &str, line: &str) -> Vec<JoinCause> {
    let source =
        if program == "kubelet" { "journalctl -u kubelet".to_owned() } else { format!("the log of {program}") };
    let seen = Evidence::of(source, redact(line));
    // Signatures go by who said something, too.
    let headed = format!("{program}[1]: {line}");
    let known = recognised(library, &headed, &seen, |it| it.severity >= Severity::Error);
    let waits = |cause: JoinCause| {
        // The runtime is looked at by itself: what it was at one moment ends nothing.
        if cause.subsystem == Subsystem::Runtime { cause.under(Circumstance::GoesOn) } else { cause }
    };
    known.into_iter().map(|known| waits(known.cause)).collect()
}

/// Somebody took the files of this join away while it went on, as `kubeadm reset` does.
pub fn of_reset_meanwhile() -> JoinCause {
    let says =
        "somebody stopped the kubelet and removed its configuration while this join went on, as kubeadm reset does";
    let seen = Evidence::of(kubelet_config::FILE, "not there any more");
    JoinCause::of(id!("join.reset-meanwhile"), says).seen(seen)
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

/// What [`of_silent_api`] says, which is over once the API server answers.
pub fn silent_api() -> &'static str {
    id!("api.tcp").id
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::Class;
    use crate::fact::{unit, version};
    use crate::testing::facts;

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
        let mut words = LastWords::default();
        words.hear(&format!("Error: {swap}"));
        let ended = of_ended_kubelet(&library, &words, &facts(), &[]);
        let container = EndedContainer { pod: "a/b", name: "c", exit: 1, line: Some(SECRET), is_kube_proxy: false };
        let unknown = of_ended_container(&library, &container);
        let all = [ended, unknown, of_sentence(&library, &plugin, "the runtime"), vec![pulled]];
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

    /// How systemd has a kubelet that ended, and what it said last.
    fn ended(result: &str, status: i32, words: &str) -> Vec<JoinCause> {
        let state = format!(
            "Id=kubelet.service\nLoadState=loaded\nActiveState=activating\nSubState=auto-restart\nResult={result}\nExecMainStatus={status}\n"
        );
        let facts = facts()
            .with_query(&unit::SHOW, &state)
            .with_query(&unit::KUBELET, &unit::sample::packaged())
            .with_file(unit::DEFAULTS, "KUBELET_EXTRA_ARGS=--bogus --other=x\n")
            .without_file(unit::KUBEADM_FLAGS)
            .without_file(unit::SYSCONFIG);
        let mut last = LastWords::default();
        words.lines().for_each(|line| last.hear(line));
        of_ended_kubelet(&library(), &last, &facts, &[])
    }

    #[test]
    fn a_kubelet_that_ended_is_told_by_its_last_words() {
        let failed = |err: &str| format!("E1118 12:00:03.221871     512 run.go:72] \"command failed\" err=\"{err}\"");
        for (name, result, words, id, may_pass, confidence) in [
            (
                "a flag",
                "exit-code",
                failed("failed to parse kubelet flag: unknown flag: --bogus"),
                "kubelet.removed-flags",
                false,
                Confidence::Certain,
            ),
            (
                "swap",
                "exit-code",
                failed("failed to run Kubelet: running with swap on is not supported"),
                "machine.swap",
                false,
                Confidence::Certain,
            ),
            (
                "nobody knows it, and it names a flag",
                "exit-code",
                failed("failed to run Kubelet: --other is odd"),
                "kubelet.restart-loop",
                false,
                Confidence::Likely,
            ),
            (
                "nobody knows it",
                "exit-code",
                failed("failed to run Kubelet: the moon is full"),
                "kubelet.restart-loop",
                true,
                Confidence::Possible,
            ),
            (
                "the runtime, at one moment",
                "exit-code",
                failed(
                    "failed to run Kubelet: validate service connection: validate CRI v1 runtime API for endpoint \\\"unix:///run/containerd/containerd.sock\\\": rpc error: code = Unavailable desc = connection error: desc = \\\"transport: Error while dialing: dial unix /run/containerd/containerd.sock: connect: connection refused\\\"",
                ),
                "runtime.socket",
                true,
                Confidence::Certain,
            ),
            (
                "killed",
                "signal",
                "E1118 12:00:03.221871     512 x.go:1] running with swap on is not supported".to_owned(),
                "kubelet.restart-loop",
                true,
                Confidence::Possible,
            ),
        ] {
            let causes = ended(result, 1, &words);
            let first = causes.first().unwrap();
            assert_eq!(
                (first.id.as_str(), first.class().may_pass(), first.confidence),
                (id, may_pass, confidence),
                "{name}: {causes:?}"
            );
        }
        let flag = ended("exit-code", 1, &failed("failed to parse kubelet flag: unknown flag: --bogus")).remove(0);
        assert!(flag.seen.iter().any(|seen| seen.to_string().starts_with("/etc/default/kubelet:1")), "{flag:?}");
        assert_eq!(flag.remedy, ["sed -i 's/--bogus\\(=[^ \"]*\\)\\{0,1\\}//' /etc/default/kubelet"]);
        let killed = ended("signal", 9, "E1118 12:00:03.2     512 x.go:1] odd").remove(0);
        assert_eq!(killed.says, "the kubelet was killed by signal 9, and did not say why");
        let unknown = ended("exit-code", 1, &failed("failed to run Kubelet: the moon is full")).remove(0);
        assert_eq!(unknown.says, "the kubelet ended (exit status 1): failed to run Kubelet: the moon is full");
    }

    #[test]
    fn a_container_that_ended_is_told_by_its_last_words() {
        let container = |line, is_kube_proxy| EndedContainer {
            pod: "kube-flannel/kube-flannel-ds-x",
            name: "kube-flannel",
            exit: 1,
            line,
            is_kube_proxy,
        };
        let cidr = "E0201 15:33:41.102897       1 main.go:280] Error registering network: failed to acquire lease: node \"w1\" pod cidr not assigned";
        for (line, is_kube_proxy, id, says) in [
            (Some(cidr), false, "cni.no-pod-cidr", "Node w1 has no podCIDR"),
            (
                Some("panic: the moon is full"),
                false,
                "cni.daemon-crash-loop",
                "kube-flannel of pod kube-flannel/kube-flannel-ds-x ended (exit status 1): panic: the moon is full",
            ),
            (None, true, "kube-proxy.crash-loop", "did not say why"),
        ] {
            let causes = of_ended_container(&library(), &container(line, is_kube_proxy));
            assert_eq!(causes.first().map(|cause| cause.id.as_str()), Some(id), "{causes:?}");
            assert!(causes[0].says.contains(says), "{causes:?}");
        }
        let first = library().find("cni.flannel-first-start").unwrap().hit[0].line.clone();
        assert_eq!(
            of_ended_container(&library(), &container(Some(&first), false)),
            [],
            "it is started again, and is well"
        );
    }

    #[test]
    fn what_is_told_of_a_reset_is_known_as_that() {
        let cause = of_reset_meanwhile();
        assert_eq!(of_sentence(&library(), &cause.says, "carrick")[0].id, cause.id);
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
