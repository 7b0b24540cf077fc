//! The runtime has the pause image that every pod starts from.
//!
//! Without it no pod can start: the runtime pulls it first, and where it cannot (no way out, another registry) the node
//! joins and stays NotReady. A version other than kubeadm's works, but an older kubelet may remove it when the disk
//! fills up.
//!
//! See it yourself: `crictl images | grep pause`, `containerd config dump | grep -e sandbox_image -e 'sandbox ='`
//! Mend it: `ctr -n k8s.io images pull registry.k8s.io/pause:3.10.1`, or set the image in containerd's configuration

use crate::catalogue::{Class, Role, Stops};
use crate::check::{Check, CheckPolicy, Evidence, FixedBy, InJoin, Needed, Subsystem, Verdict, nothing, pass, warn};
use crate::fact::version::Version;
use crate::fact::{Facts, Known, Missing};
use crate::id;

pub const CHECK: Check = Check {
    id: "runtime.sandbox-image",
    title: "the pause image is there",
    subsystem: Subsystem::Runtime,
    kubeadm: &[],
    class: Class::Configuration,
    role: Role::Root,
    stops: Stops::Pods,
    needed: Needed::Always,
    in_join: InJoin::Blocks,
    fixed_by: FixedBy::Carrick(&["sandbox_image"]),
    accounts_for: nothing,
    judge,
};

/// From this minor version of kubeadm on, this tag. The last entry is of 1.37, the newest that was looked at.
const WANTED: [(u32, &str); 4] = [(26, "3.9"), (31, "3.10"), (34, "3.10.1"), (36, "3.10.2")];
const NEWEST_KNOWN: u32 = 37;

fn judge(facts: &Facts, _: &CheckPolicy) -> Known<Verdict> {
    let (image, seen) = configured(facts)?;
    let images = facts.runtime_images()?;
    if !images.contains(&image) {
        return Ok(warn(format!("the pause image {image} is not here: it must be pulled"))
            .seen(seen)
            .fix(format!("ctr -n k8s.io images pull {image}"))
            .explains([id!("node.not-ready")]));
    }
    let wanted = facts.kubeadm_version().ok().and_then(wanted_tag);
    Ok(match (tag(&image), wanted) {
        (Some(tag), Some(wanted)) if tag != wanted => {
            let mirror = image.strip_suffix(tag).unwrap_or_default();
            warn(format!("the pause image is {tag}; this kubeadm goes with {wanted}"))
                .seen(seen)
                .fix(format!("sed -i 's|{image}|{mirror}{wanted}|' /etc/containerd/config.toml"))
                .fix(format!("ctr -n k8s.io images pull {mirror}{wanted} && systemctl restart containerd"))
        }
        _ => pass(format!("{image} is here")).seen(seen),
    })
}

/// The image the runtime would start pods from, and who says so.
pub(crate) fn configured(facts: &Facts) -> Known<(String, Evidence)> {
    let config = facts.containerd_config();
    if let Ok(effective) = &config
        && let Some(image) = &effective.config.sandbox_image
    {
        let line = facts.containerd_line(image);
        return Ok((
            image.clone(),
            line.unwrap_or_else(|| Evidence::of(effective.source, format!("sandbox image {image}"))),
        ));
    }
    let status = facts.runtime_status();
    if let Ok(status) = &status
        && let Some(image) = &status.sandbox_image
    {
        return Ok((image.clone(), Evidence::of("crictl info", format!("sandboxImage {image}"))));
    }
    config?;
    status?;
    Err(Missing::broken("crictl info", "no sandbox image is named"))
}

pub(crate) fn wanted_tag(kubeadm: Version) -> Option<&'static str> {
    let known = kubeadm.major == 1 && kubeadm.minor <= NEWEST_KNOWN;
    WANTED.iter().rev().find(|(minor, _)| known && kubeadm.minor >= *minor).map(|(_, tag)| *tag)
}

/// What follows the last colon of `registry.k8s.io/pause:3.9`; a digest is no tag.
pub(crate) fn tag(image: &str) -> Option<&str> {
    let name = image.rsplit('/').next().filter(|name| !name.contains('@'))?;
    name.split_once(':').map(|(_, tag)| tag)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Outcome::{Pass, Unknown, Warn};
    use crate::fact::containerd_config::DUMP;
    use crate::fact::{Source, Why, version};
    use crate::testing::{facts, table};

    fn machine(image: &str, there: &str) -> Facts {
        let config = format!("version = 2\n[plugins.\"io.containerd.grpc.v1.cri\"]\nsandbox_image = {image:?}\n");
        facts().with_query(&DUMP, &config).with_query(&version::KUBEADM, "v1.34.4\n").with_cri(
            "images",
            &format!(
                r#"{{"images":[{{"repoTags":["registry.k8s.io/kube-proxy:v1.34.4"]}},{{"repoTags":[{there:?}]}}]}}"#
            ),
        )
    }

    const WANTED: &str = "registry.k8s.io/pause:3.10.1";
    const OLD: &str = "registry.k8s.io/pause:3.6";

    #[test]
    fn judges() {
        let crio = r#"{"status":{"conditions":[]},"config":{"sandboxImage":"registry.k8s.io/pause:3.10.1"}}"#;
        let digest = "registry.k8s.io/pause@sha256:ee6521f290b2168b6e0935a181d4cff9be1ac3f505666ef0e3c98fae8199917a";
        let nameless = machine("", WANTED).with_cri("status", r#"{"status":{"conditions":[]}}"#);
        table(
            &CHECK,
            [
                ("as kubeadm wants it", machine(WANTED, WANTED), Pass),
                ("from a mirror", machine("mirror:5000/pause:3.10.1", "mirror:5000/pause:3.10.1"), Pass),
                ("by digest", machine(digest, digest), Pass),
                ("kubeadm unknown", machine(OLD, OLD).without(Source::Query(&version::KUBEADM), Why::NoTool), Pass),
                (
                    "CRI-O",
                    machine(WANTED, WANTED).without(Source::Query(&DUMP), Why::NoTool).with_cri("status", crio),
                    Pass,
                ),
                ("not pulled", machine(WANTED, OLD), Warn),
                ("another version", machine(OLD, OLD), Warn),
                ("no list of images", machine(WANTED, WANTED).without(Source::Cri("images"), Why::TimedOut), Unknown),
                ("nobody names one", nameless, Unknown),
                ("nothing to ask", machine(WANTED, WANTED).without(Source::Query(&DUMP), Why::NoTool), Unknown),
            ],
        );
    }

    #[test]
    fn names_what_is_there_and_what_is_wanted() {
        let verdict = CHECK.verdict(&machine(OLD, OLD), &CheckPolicy::default());
        assert_eq!(verdict.says, "the pause image is 3.6; this kubeadm goes with 3.10.1");
        assert!(verdict.remedy[0].contains("|registry.k8s.io/pause:3.6|registry.k8s.io/pause:3.10.1|"));
        let verdict = CHECK.verdict(&machine(WANTED, OLD), &CheckPolicy::default());
        assert_eq!(
            verdict.evidence[0].to_string(),
            "containerd config dump: sandbox image registry.k8s.io/pause:3.10.1"
        );
    }

    #[test]
    fn every_kubeadm_has_its_tag() {
        for (minor, expected) in [
            (25, None),
            (26, Some("3.9")),
            (30, Some("3.9")),
            (31, Some("3.10")),
            (33, Some("3.10")),
            (34, Some("3.10.1")),
            (35, Some("3.10.1")),
            (36, Some("3.10.2")),
            (37, Some("3.10.2")),
            (38, None),
        ] {
            assert_eq!(wanted_tag(Version { major: 1, minor, patch: 0 }), expected, "1.{minor}");
        }
        assert_eq!(wanted_tag(Version { major: 2, minor: 30, patch: 0 }), None);
    }
}
