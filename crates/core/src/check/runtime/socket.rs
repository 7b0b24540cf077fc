//! One container runtime answers on its socket.
//!
//! The kubelet speaks to the runtime over a socket; where that does not answer, kubeadm 1.31 to 1.34 only warns and
//! then waits four minutes for the kubelet. Where the sockets of several runtimes are there, kubeadm stops with "found
//! multiple CRI endpoints" until it is told which one to use. Where `--cri-socket` names one, only that one counts; on a
//! machine that has joined it is the one its kubelet uses.
//!
//! See it yourself: `ls -l /run/containerd/containerd.sock /run/crio/crio.sock /run/cri-dockerd.sock`, `crictl info`
//! Fix: `systemctl restart containerd`; of two runtimes, stop one, or name one: `--cri-socket unix:///run/…`

use crate::catalogue::{Class, Role, Stops};
use crate::check::{Check, CheckPolicy, Evidence, FixedBy, InJoin, Needed, Subsystem, Verdict, fail, pass, warn};
use crate::fact::runtime_sockets::Runtime;
use crate::fact::{Facts, Known, Why};
use crate::id;

pub const CHECK: Check = Check {
    id: "runtime.socket",
    title: "one container runtime answers on its socket",
    subsystem: Subsystem::Runtime,
    kubeadm: &["CRI"],
    class: Class::Configuration,
    role: Role::Root,
    stops: Stops::Node,
    needed: Needed::Always,
    in_join: InJoin::Blocks,
    fixed_by: FixedBy::Carrick(&["runtime_unit"]),
    accounts_for: |missing| missing.is_answer_of_runtime() && matches!(missing.why, Why::Absent | Why::Broken(_)),
    judge,
};

fn judge(facts: &Facts, _: &CheckPolicy) -> Known<Verdict> {
    let (runtime, chosen, own) = (facts.runtime(), facts.chosen_socket(), facts.kubelets_socket());
    let answers = match &chosen {
        Some(socket) => {
            let who = if chosen == own { "as the kubelet is configured" } else { "as --cri-socket says" };
            pass(format!("{} answers", runtime.name())).seen(Evidence::of(socket.as_str(), who))
        }
        None => several(&facts.runtime_sockets()?, "answers"),
    };
    if let Err(missing) = facts.cri("status") {
        let socket = chosen.as_deref().unwrap_or(runtime.socket());
        let detail = match &missing.why {
            Why::Absent => format!("there is no {socket}"),
            Why::TimedOut => format!("{} does not answer in time", runtime.name()),
            // It answers, though not as the kubelet needs it: runtime.cri-plugin tells.
            Why::Unimplemented(_) => return Ok(answers),
            Why::Broken(detail) => format!("{} does not answer: {detail}", runtime.name()),
            _ => return Err(missing),
        };
        return Ok(fail(detail)
            .may_pass(missing.why == Why::TimedOut)
            .seen(Evidence::of(format!("unix://{socket}"), missing.why.to_string()))
            .fix(format!("systemctl status {0}; journalctl -u {0} -n 20 --no-pager", runtime.unit()))
            .fix(format!("systemctl restart {}", runtime.unit()))
            .explains([id!("kubelet.crash-loop")]));
    }
    Ok(answers)
}

fn several(sockets: &[Runtime], says: &str) -> Verdict {
    match sockets {
        [] => pass(format!("the runtime {says}")),
        [one] => pass(format!("{} {says}", one.name())).seen(Evidence::of(one.socket(), "a socket")),
        [first, ..] => {
            let names: Vec<&str> = sockets.iter().map(|it| it.name()).collect();
            warn(format!("several runtimes: {}; kubeadm asks which", names.join(", ")))
                .seen(sockets.iter().map(|it| Evidence::of(it.socket(), "a socket")))
                .fix(format!(
                    "kubeadm join --cri-socket unix://{} …    # or nodeRegistration.criSocket",
                    first.socket()
                ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Outcome::{Fail, Pass, Unknown, Warn};
    use crate::fact::Source;
    use crate::testing::{facts, table};

    const STATUS: &str = r#"{"endpoint":"unix:///run/containerd/containerd.sock","status":{"conditions":[]}}"#;
    const REFUSED: &str = "connection refused: /run/containerd/containerd.sock";

    fn one() -> Facts {
        none().with_dir("/run/containerd", &[("srw-rw----", "containerd.sock")])
    }

    fn none() -> Facts {
        facts().without_dir("/run/containerd").without_dir("/run/crio").with_dir("/run", &[])
    }

    fn two() -> Facts {
        one().with_dir("/run", &[("srw-rw----", "cri-dockerd.sock")])
    }

    fn named(mut facts: Facts) -> Facts {
        facts.name_socket("/run/elsewhere/containerd.sock");
        facts
    }

    fn failing(facts: Facts, why: Why) -> Facts {
        facts.without(Source::Cri("status"), why)
    }

    #[test]
    fn judges() {
        let unimplemented = || Why::Unimplemented("unknown service runtime.v1.RuntimeService".into());
        table(
            &CHECK,
            [
                ("one answers", one().with_cri("status", STATUS), Pass),
                ("answers elsewhere", none().with_cri("status", STATUS), Pass),
                ("the plugin is off", failing(one(), unimplemented()), Pass),
                ("two answer", two().with_cri("status", STATUS), Warn),
                ("two, the plugin is off", failing(two(), unimplemented()), Warn),
                ("two, and one was named", named(two()).with_cri("status", STATUS), Pass),
                ("named, and it is not there", named(failing(two(), Why::Absent)), Fail),
                ("refuses", failing(one(), Why::Broken(REFUSED.into())), Fail),
                ("hangs", failing(one(), Why::TimedOut), Fail),
                ("no socket", failing(none(), Why::Absent), Fail),
                ("not root", failing(one(), Why::Denied), Unknown),
                (
                    "/run cannot be listed",
                    one().with_cri("status", STATUS).without(Source::Dir("/run"), Why::Denied),
                    Unknown,
                ),
            ],
        );
    }

    #[test]
    fn names_what_it_saw() {
        let verdict = CHECK.verdict(&failing(one(), Why::Broken(REFUSED.into())), &CheckPolicy::default());
        assert_eq!(verdict.says, format!("containerd does not answer: {REFUSED}"));
        assert_eq!(verdict.evidence[0].to_string(), format!("unix:///run/containerd/containerd.sock: {REFUSED}"));
        let verdict = CHECK.verdict(&two().with_cri("status", STATUS), &CheckPolicy::default());
        assert_eq!(verdict.says, "several runtimes: containerd, cri-dockerd; kubeadm asks which");
        let verdict = CHECK.verdict(&failing(none(), Why::Absent), &CheckPolicy::default());
        assert_eq!(verdict.says, "there is no /run/containerd/containerd.sock");
        let verdict = CHECK.verdict(&named(failing(two(), Why::Absent)), &CheckPolicy::default());
        assert_eq!(verdict.says, "there is no /run/elsewhere/containerd.sock");
        assert_eq!(verdict.evidence[0].to_string(), "unix:///run/elsewhere/containerd.sock: not there");
    }
}
