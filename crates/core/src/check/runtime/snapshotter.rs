//! containerd keeps images with overlayfs.
//!
//! Any other snapshotter may be a choice, and may be what is left of an experiment: `native` copies every layer of
//! every image for every container and fills the disk; others need a volume or a daemon that must be there before the
//! first pod starts.
//!
//! See it yourself: `containerd config dump | grep snapshotter`, `ctr plugins ls | grep snapshotter`
//! Mend it: set `snapshotter = "overlayfs"` in /etc/containerd/config.toml, then `systemctl restart containerd`

use crate::catalogue::{Class, Role, Stops};
use crate::check::{
    Check, CheckPolicy, Evidence, FixedBy, InJoin, Needed, Subsystem, Verdict, nothing, pass, skip, warn,
};
use crate::fact::containerd_config::FILE;
use crate::fact::runtime_sockets::Runtime;
use crate::fact::{Facts, Known, Missing};

pub const CHECK: Check = Check {
    id: "runtime.snapshotter",
    title: "containerd keeps images with overlayfs",
    subsystem: Subsystem::Runtime,
    kubeadm: &[],
    class: Class::Configuration,
    role: Role::Root,
    stops: Stops::Nothing,
    needed: Needed::Always,
    in_join: InJoin::Blocks,
    fixed_by: FixedBy::Operator("images would have to be fetched again; it may be a choice"),
    accounts_for: nothing,
    judge,
};

fn judge(facts: &Facts, _: &CheckPolicy) -> Known<Verdict> {
    let runtime = facts.runtime();
    if runtime != Runtime::Containerd {
        return Ok(skip(format!("{} is the runtime", runtime.name())));
    }
    let status = facts.runtime_status().ok().and_then(|it| it.snapshotter).map(|name| ("crictl info", name));
    let config = facts.containerd_config();
    let config_name =
        || config.as_ref().ok().and_then(|it| it.config.snapshotter.clone().map(|name| (it.source, name)));
    let Some((source, name)) = status.or_else(config_name) else {
        let missing = config.err().unwrap_or_else(|| Missing::broken(FILE, "no snapshotter is named"));
        return Err(missing);
    };
    let seen =
        facts.containerd_line("snapshotter =").unwrap_or_else(|| Evidence::of(source, format!("snapshotter {name}")));
    if name == "overlayfs" {
        return Ok(pass("the snapshotter is overlayfs").seen(Evidence::of(source, format!("snapshotter {name}"))));
    }
    Ok(warn(format!("the snapshotter is {name}, not overlayfs")).seen(seen).fix(format!(
        "sed -i 's/snapshotter = .*/snapshotter = \"overlayfs\"/' {FILE} && systemctl restart containerd"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Outcome::{Pass, Skip, Unknown, Warn};
    use crate::fact::containerd_config::{DUMP, sample};
    use crate::fact::{Source, Why};
    use crate::testing::{facts, judge_row, table};

    #[test]
    fn judges() {
        let status = |name: &str| {
            facts().with_cri(
                "status",
                &format!(r#"{{"status":{{"conditions":[]}},"config":{{"containerd":{{"snapshotter":"{name}"}}}}}}"#),
            )
        };
        let native = sample::version_2(true).replace("overlayfs", "native");
        table(
            &CHECK,
            [
                ("version 2", facts().with_query(&DUMP, &sample::version_2(true)), Pass),
                ("version 3", facts().with_query(&DUMP, &sample::version_3(true)), Pass),
                ("the runtime says so", status("overlayfs"), Pass),
                ("native", facts().with_query(&DUMP, &native), Warn),
                (
                    "what runs counts before what is written",
                    status("zfs").with_query(&DUMP, &sample::version_2(true)),
                    Warn,
                ),
                ("not named", facts().with_query(&DUMP, "version = 2\n"), Unknown),
                ("no containerd to ask", facts().without(Source::Query(&DUMP), Why::NoTool), Unknown),
            ],
        );
        let crio = r#"{"endpoint":"unix:///run/crio/crio.sock","status":{"conditions":[]}}"#;
        judge_row(&CHECK, &CheckPolicy::default(), "CRI-O", &facts().with_cri("status", crio), Skip);
    }

    #[test]
    fn names_it_and_cites_the_line() {
        let native = sample::version_2(true).replace("overlayfs", "native");
        let verdict =
            CHECK.verdict(&facts().with_query(&DUMP, &native).with_file(FILE, &native), &CheckPolicy::default());
        assert_eq!(verdict.says, "the snapshotter is native, not overlayfs");
        assert_eq!(verdict.evidence[0].to_string(), "/etc/containerd/config.toml:21  snapshotter = \"native\"");
    }
}
