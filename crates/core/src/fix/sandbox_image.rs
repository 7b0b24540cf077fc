//! The pause image in containerd's configuration is set to the one that goes with this kubeadm, where that image is on the
//! machine already: nothing is pulled. containerd is restarted. `carrick undo` puts the file back and restarts containerd
//! again.

use super::Fix;
use super::runtime::Configuration;
use crate::check::runtime::sandbox_image::{configured, tag, wanted_tag};
use crate::fact::{Facts, Known};
use crate::plan::edit::Set;
use crate::plan::{Edit, Effect};

pub const FIX: Fix = Fix {
    fixes: &["runtime.sandbox-image"],
    does: "names the pause image that is here, and restarts containerd",
    plan,
};

/// Where kubeadm takes its images from unless told otherwise.
const USUAL: &str = "registry.k8s.io/pause:";

fn plan(facts: &Facts) -> Known<Vec<Effect>> {
    let (Some(image), Some(configuration)) = (wanted(facts)?, Configuration::of(facts)?) else {
        return Ok(Vec::new());
    };
    let set = vec![configuration.sandbox_image(&image)];
    configuration.changed(facts, Edit::Toml { set }, |read| read.sandbox_image.as_deref() == Some(&image))
}

pub(super) fn settings(facts: &Facts, configuration: &Configuration) -> Option<Set> {
    // Whoever writes the file for another reason need not know the images.
    wanted(facts).unwrap_or_default().map(|image| configuration.sandbox_image(&image))
}

/// The image that should be named in place of the configured one: from the same registry, else from the usual one.
fn wanted(facts: &Facts) -> Known<Option<String>> {
    let (image, _) = configured(facts)?;
    let here = facts.runtime_images()?;
    let Some(wanted) = wanted_tag(facts.kubeadm_version()?) else { return Ok(None) };
    let Some(tag) = tag(&image).filter(|tag| *tag != wanted || !here.contains(&image)) else { return Ok(None) };
    let mirrored = image.strip_suffix(tag).map(|registry| format!("{registry}{wanted}"));
    let candidates = mirrored.into_iter().chain([format!("{USUAL}{wanted}")]);
    Ok(candidates.into_iter().find(|candidate| here.contains(candidate)))
}

#[cfg(test)]
mod tests {
    use super::super::runtime::sample::{RESTART, edited, machine};
    use super::*;
    use crate::fact::containerd_config::{FILE, sample};
    use crate::testing::plans;

    fn images(facts: Facts, names: &[&str]) -> Facts {
        facts.with_cri("images", &serde_json::json!({ "images": [{ "repoTags": names }] }).to_string())
    }

    fn configured_as(image: &str) -> Facts {
        let text = sample::version_2(true).replace("registry.k8s.io/pause:3.6", image);
        machine(&text, &text)
    }

    #[test]
    fn only_an_image_that_is_here_is_named() {
        let (old, new) = ("registry.k8s.io/pause:3.6", "registry.k8s.io/pause:3.10.1");
        let to = |image: &str| format!("edit /etc/containerd/config.toml: sandbox_image = \"{image}\"");
        let (usual, mirrored) = (to(new), to("mirror:5000/pause:3.10.1"));
        plans(
            &FIX,
            [
                ("as it should be", images(configured_as(new), &[new]), &[]),
                ("an older one", images(configured_as(old), &[old, new]), &[&usual, RESTART]),
                ("the configured one is not here", images(configured_as(old), &[new]), &[&usual, RESTART]),
                ("neither is", images(configured_as(old), &["registry.k8s.io/kube-proxy:v1.34.4"]), &[]),
                ("the newer one is not", images(configured_as(old), &[old]), &[]),
                (
                    "from a mirror",
                    images(configured_as("mirror:5000/pause:3.9"), &[new, "mirror:5000/pause:3.10.1"]),
                    &[&mirrored, RESTART],
                ),
                ("by digest", images(configured_as("registry.k8s.io/pause@sha256:ab"), &[new]), &[]),
            ],
        );
    }

    #[test]
    fn version_3_has_another_place_for_it_and_a_new_file_may_hold_both() {
        let three = sample::version_3(true);
        let facts = images(machine(&three, &three), &["registry.k8s.io/pause:3.10.1"]);
        assert_eq!(
            edited(&plan(&facts).unwrap(), &three).unwrap(),
            three.replace("'registry.k8s.io/pause:3.10'", "\"registry.k8s.io/pause:3.10.1\"")
        );
        let two = sample::version_2(false);
        let bare = images(machine("", &two), &["registry.k8s.io/pause:3.10.1"]).without_file(FILE);
        let text = edited(&plan(&bare).unwrap(), "").unwrap();
        assert!(text.contains("sandbox_image = \"registry.k8s.io/pause:3.10.1\"\n"), "{text}");
        assert!(text.contains("SystemdCgroup = true\n"), "{text}");
    }
}
