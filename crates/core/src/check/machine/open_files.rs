//! The kubelet and containerd may open files enough.
//!
//! Each connection, watched file and container takes a handle or a few; at its limit a program accepts no connection and starts
//! no container ("too many open files"). systemd allows 524,288 where a unit says nothing; a drop-in with LimitNOFILE= of a
//! few hundred, copied from elsewhere, is spent by a handful of pods. Of two numbers the second counts: both programs raise
//! the first to it.
//!
//! See it yourself: `systemctl show kubelet containerd -p LimitNOFILE`
//! Fix: take LimitNOFILE= out of the file that sets it, `systemctl daemon-reload`, and restart that unit

use crate::catalogue::{Class, Role, Stops};
use crate::check::{Check, CheckPolicy, Evidence, FixedBy, InJoin, Needed, Subsystem, Verdict, nothing, pass, warn};
use crate::fact::{Facts, Known, OrAbsent};
use crate::id;

pub const CHECK: Check = Check {
    id: "machine.open-files",
    title: "the kubelet and containerd may open files enough",
    subsystem: Subsystem::Machine,
    kubeadm: &[],
    class: Class::Configuration,
    role: Role::Root,
    stops: Stops::Nothing,
    needed: Needed::Always,
    in_join: InJoin::Blocks,
    fixed_by: FixedBy::Operator("a limit is somebody's choice: for what, only they know"),
    accounts_for: nothing,
    judge,
};

/// A node with a dozen pods has a few hundred open, and one more for each request.
const FEW: u64 = 4096;

fn judge(facts: &Facts, _: &CheckPolicy) -> Known<Verdict> {
    let mut low: Vec<(&str, u64, Evidence)> = Vec::new();
    for name in ["kubelet", "containerd"] {
        let Some(unit) = facts.unit(name).or_absent()? else { continue };
        let Some((value, seen)) = unit.setting("LimitNOFILE") else { continue };
        low.extend(hard_limit(&value).filter(|limit| *limit < FEW).map(|limit| (name, limit, seen)));
    }
    let Some((name, limit, seen)) = low.first() else {
        return Ok(pass("no unit limits the files that its program may open to a few"));
    };
    let warned = warn(format!("{name} may open only {limit} files: LimitNOFILE in {}", seen.source));
    let warned = low.iter().fold(warned, |warned, (name, _, seen)| {
        let Evidence { source, line, .. } = seen;
        let line = line.unwrap_or(1);
        warned.fix(format!(
            "sed -i.before '{line}s/^/# /' {source} && systemctl daemon-reload && systemctl restart {name}"
        ))
    });
    Ok(warned.seen(low.iter().map(|(.., seen)| seen.clone())).explains([id!("kernel.open-files")]))
}

/// `65536`, `1024:524288`, `64K`; none where it is `infinity`, or what systemd would not take.
fn hard_limit(value: &str) -> Option<u64> {
    let hard = value.rsplit(':').next()?;
    let (number, unit) = match hard.strip_suffix(['K', 'M', 'G']) {
        Some(number) => (number, if hard.ends_with('K') { 1 << 10 } else { 1 << 20 }),
        None => (hard, 1),
    };
    number.parse::<u64>().ok()?.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Outcome::{Pass, Unknown, Warn};
    use crate::fact::unit::{CONTAINERD, KUBELET, sample};
    use crate::fact::{Source, Why};
    use crate::testing::{facts, table};

    const PATH: &str = "/etc/systemd/system/kubelet.service.d/30-limits.conf";

    fn units(kubelet: &str, containerd: &str) -> Facts {
        let containerd = format!(
            "# /usr/lib/systemd/system/containerd.service\n[Service]\nExecStart=/usr/bin/containerd\n{containerd}"
        );
        let kubelet = sample::and_drop_in(PATH, &format!("[Service]\n{kubelet}"));
        facts().with_query(&KUBELET, &kubelet).with_query(&CONTAINERD, &containerd)
    }

    #[test]
    fn judges() {
        table(
            &CHECK,
            [
                ("nobody limits them", units("", "LimitNOFILE=infinity\n"), Pass),
                ("the kubelet", units("LimitNOFILE=256\n", ""), Warn),
                ("the second number counts", units("LimitNOFILE=1024:524288\n", ""), Pass),
                ("both numbers are small", units("LimitNOFILE=512:1024\n", ""), Warn),
                ("thousands", units("LimitNOFILE=64K\n", "LimitNOFILE=1048576\n"), Pass),
                ("a few", units("LimitNOFILE=2K\n", ""), Warn),
                ("containerd", units("", "LimitNOFILE=1024\n"), Warn),
                ("taken back", units("LimitNOFILE=256\nLimitNOFILE=65536\n", ""), Pass),
                ("systemctl hangs", units("", "").without(Source::Query(&KUBELET), Why::TimedOut), Unknown),
            ],
        );
        let verdict = CHECK.verdict(&units("LimitNOFILE=256\n", ""), &CheckPolicy::default());
        assert_eq!(verdict.says, format!("kubelet may open only 256 files: LimitNOFILE in {PATH}"));
        assert!(verdict.remedy[0].ends_with("systemctl restart kubelet"), "{:?}", verdict.remedy);
    }
}
