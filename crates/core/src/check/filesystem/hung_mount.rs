//! Every network mount answers.
//!
//! Whoever touches a mount whose server is gone waits, often for ever and beyond any kill. One at, above or inside a
//! directory of Kubernetes stops the kubelet or containerd with no word in any log; any other one stops `df`, backups
//! and the pods that use it. A mount that answers with an error at once (a stale file handle, a FUSE server that died)
//! does not hang, but is of no use either.
//!
//! See it yourself: `timeout 2 stat -f MOUNTPOINT`
//! Mend it: bring the server back, or `umount -l MOUNTPOINT` (with `-f` for NFS) and mount it again.

use crate::catalogue::{Class, Role, Stops};
use crate::check::{
    Check, CheckPolicy, Evidence, FixedBy, InJoin, Needed, Subsystem, Verdict, fail, nothing, pass, warn,
};
use crate::fact::mounts::{ANSWERS, Answer, is_at_or_under};
use crate::fact::{Facts, Known};
use crate::id;

pub const CHECK: Check = Check {
    id: "filesystem.hung-mount",
    title: "every network mount answers",
    subsystem: Subsystem::Filesystem,
    kubeadm: &[],
    class: Class::Configuration,
    role: Role::Root,
    stops: Stops::Pods,
    needed: Needed::Always,
    in_join: InJoin::Blocks,
    fixed_by: FixedBy::Operator("the server may come back; to take the mount away may lose data"),
    accounts_for: nothing,
    judge,
};

/// What the kubelet, the runtime and kubeadm touch.
const USED: [&str; 7] = [
    "/etc/kubernetes",
    "/etc/cni/net.d",
    "/opt/cni/bin",
    "/var/lib/kubelet",
    "/var/lib/containerd",
    "/var/log/pods",
    "/usr/bin",
];

fn judge(facts: &Facts, _: &CheckPolicy) -> Known<Verdict> {
    let answers = facts.mount_answers()?;
    let points = |wanted: Answer| -> Vec<&str> {
        answers.iter().filter(|(answer, _)| *answer == wanted).map(|(_, point)| point.as_str()).collect()
    };
    let (hung, failed) = (points(Answer::Hung), points(Answer::Failed));
    let verdict = if let Some(point) = hung.iter().find(|point| is_used(point)) {
        fail(format!("{point} does not answer: the kubelet or containerd would hang"))
            .explains([id!("kubelet.crash-loop"), id!("node.not-ready")])
    } else if let Some(point) = hung.first() {
        warn(format!("the mount {point} does not answer: whoever touches it hangs"))
    } else if let Some(point) = failed.first() {
        warn(format!("the mount {point} answers with an error"))
    } else if answers.is_empty() {
        return Ok(pass("no network mounts"));
    } else {
        return Ok(pass(format!("{} network mounts answer", answers.len())));
    };
    let seen = |point: &&str, what: &str| Evidence::of(ANSWERS.name, format!("{point}: {what}"));
    let evidence: Vec<Evidence> = hung
        .iter()
        .map(|point| seen(point, "no answer in 2 s"))
        .chain(failed.iter().map(|point| seen(point, "error")))
        .collect();
    let fixes = hung.iter().chain(&failed).map(|point| format!("umount -f -l '{point}'    # or bring its server back"));
    Ok(fixes.fold(verdict.seen(evidence), Verdict::fix))
}

/// At or above a directory of Kubernetes, or inside the kubelet's: it looks at what earlier pods left mounted there.
fn is_used(point: &str) -> bool {
    USED.iter().any(|path| is_at_or_under(path, point)) || is_at_or_under(point, "/var/lib/kubelet")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Outcome::{Fail, Pass, Unknown, Warn};
    use crate::fact::{Source, Why};
    use crate::testing::{facts, table};

    fn with(text: &str) -> Facts {
        facts().with_query(&ANSWERS, text)
    }

    #[test]
    fn judges() {
        table(
            &CHECK,
            [
                ("none", with(""), Pass),
                ("all answer", with("ok /srv/media\nok /mnt/nas\n"), Pass),
                ("one hangs elsewhere", with("ok /srv/media\nhung /mnt/nas\n"), Warn),
                ("one hangs above", with("hung /var/lib\n"), Fail),
                ("one hangs at", with("hung /var/lib/containerd\n"), Fail),
                ("one hangs beside", with("hung /var/lib/containerd2\n"), Warn),
                ("a pod's volume hangs", with("hung /var/lib/kubelet/pods/1/volumes/kubernetes.io~nfs/x\n"), Fail),
                ("one hangs below the images", with("hung /var/lib/containerd/x\n"), Warn),
                ("stale handle", with("failed /mnt/sshfs\nok /srv/media\n"), Warn),
                ("too slow altogether", facts().without(Source::Query(&ANSWERS), Why::TimedOut), Unknown),
            ],
        );
    }

    #[test]
    fn names_every_mount_the_worst_first() {
        let verdict = CHECK.verdict(&with("failed /mnt/a\nhung /mnt/my\\040nas\nhung /var\n"), &CheckPolicy::default());
        assert_eq!(verdict.says, "/var does not answer: the kubelet or containerd would hang");
        let texts: Vec<&str> = verdict.evidence.iter().map(|evidence| evidence.text.as_str()).collect();
        assert_eq!(texts, ["/mnt/my nas: no answer in 2 s", "/var: no answer in 2 s", "/mnt/a: error"]);
        assert_eq!(verdict.remedy.len(), 3);
        assert_eq!(CHECK.verdict(&with("ok /a\nok /b\n"), &CheckPolicy::default()).says, "2 network mounts answer");
        assert_eq!(CHECK.verdict(&with(""), &CheckPolicy::default()).says, "no network mounts");
    }
}
