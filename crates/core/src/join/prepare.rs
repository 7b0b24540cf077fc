//! What is changed on a machine before kubeadm runs, as a plan, and what a failed attempt leaves behind.

use super::place::{DROP_IN, DROP_IN_DIR};
use crate::catalogue::About;
use crate::check::runtime::sandbox_image;
use crate::fact::{Facts, Known, OrAbsent, kubeconfig, kubelet_config, pki, unit};
use crate::id;
use crate::plan::{Effect, Step};

const CONDITION: &str = "# Written by carrick join; it goes when the join ends.\n[Unit]\nConditionPathExists=/var/lib/kubelet/config.yaml\n";

/// The files a join makes, apart from the kubelet's keys.
const MADE: [&str; 5] =
    [kubeconfig::KUBELET, kubeconfig::BOOTSTRAP, pki::CA, kubelet_config::FILE, unit::KUBEADM_FLAGS];

const FORWARDING: &str = "net.ipv4.ip_forward";
const BRIDGED: [&str; 2] = ["net.bridge.bridge-nf-call-iptables", "net.bridge.bridge-nf-call-ip6tables"];

/// What kubeadm needs. `wrong`: ids of checks that do not pass. Files of a join that is over go, too: kubeadm does not start
/// over them, and a clean-up must find nothing but its own.
pub fn plan(facts: &Facts, wrong: &[&str]) -> Known<Vec<Step>> {
    let mut steps: Vec<Step> = Vec::new();
    let mut add = |why: &str, effects: Vec<Effect>| {
        steps.extend(effects.into_iter().map(|effect| Step { effect, why: vec![why.to_owned()] }));
    };
    let dir = |path: &str| Effect::MakeDir { path: path.to_owned(), mode: 0o755 };
    add("of a join that is over", leftovers(facts)?.into_iter().map(|path| Effect::Remove { path }).collect());
    add("the pod network writes there", ["/etc/cni", "/etc/cni/net.d", "/opt/cni", "/opt/cni/bin"].map(dir).into());
    let hold_back =
        Effect::Write { path: DROP_IN.to_owned(), text: CONDITION.to_owned(), mode: 0o644, in_place: false };
    let dirs = ["/run/systemd/system", DROP_IN_DIR].map(dir);
    add("the kubelet waits for its configuration", dirs.into_iter().chain([hold_back, Effect::ReloadUnits]).collect());
    let setting = |key: &str| Effect::Sysctl { key: key.to_owned(), value: "1".to_owned() };
    let is_wrong = |about: About<'_>| wrong.contains(&about.id);
    if is_wrong(id!("kernel.ip-forward")) {
        add(id!("kernel.ip-forward").id, vec![setting(FORWARDING)]);
    }
    if is_wrong(id!("kernel.modules")) || is_wrong(id!("kernel.bridge-nf")) {
        let load = Effect::LoadModule { name: "br_netfilter".to_owned() };
        add(id!("kernel.bridge-nf").id, [load].into_iter().chain(BRIDGED.map(setting)).collect());
    }
    Ok(steps)
}

/// The image that every pod begins with, where the runtime has yet to pull it.
pub fn image_to_pull(facts: &Facts) -> Option<String> {
    let (image, _) = sandbox_image::configured(facts).ok()?;
    let images = facts.runtime_images().ok()?;
    // By digest it is in no list of tags: whether it is there is left to the runtime.
    (!image.contains('@') && !images.contains(&image)).then_some(image)
}

/// What of a join is on the machine now, files and links.
pub fn leftovers(facts: &Facts) -> Known<Vec<String>> {
    let mut found = Vec::new();
    for path in MADE {
        if facts.file(path).or_absent()?.is_some() {
            found.push(path.to_owned());
        }
    }
    for entry in facts.dir(pki::DIR).or_absent()?.unwrap_or_default() {
        // With the key of a request that was denied, kubelet-client.key.tmp, a kubelet asks for the very same again.
        if entry.name.starts_with("kubelet-client") {
            found.push(format!("{}/{}", pki::DIR, entry.name));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fact::join_state::sample::{clean, joined};
    use crate::fact::pki::sample::Authority;
    use crate::plan::Plan;
    use crate::plan::protect::Protected;

    fn told(steps: Vec<Step>) -> Vec<String> {
        Plan::of(steps).unwrap().steps.iter().map(|step| step.effect.to_string()).collect()
    }

    fn with_files(facts: Facts) -> Facts {
        let links = [
            ("lrwxrwxrwx", "kubelet-client-current.pem"),
            ("-rw-------", "kubelet-client.key.tmp"),
            ("-rw-------", "kubelet.key"),
        ];
        facts.with_dir(pki::DIR, &links).with_file(kubelet_config::FILE, "").without_file(unit::KUBEADM_FLAGS)
    }

    #[test]
    fn only_what_is_wrong_is_set_right() {
        let nothing = clean().with_dir(pki::DIR, &[]).without_file(kubelet_config::FILE);
        let facts = nothing.without_file(unit::KUBEADM_FLAGS);
        let usual = told(plan(&facts, &[]).unwrap());
        assert!(usual.contains(&format!("write {DROP_IN}")), "{usual:?}");
        assert!(!usual.iter().any(|step| step.starts_with("set ") || step.starts_with("remove")), "{usual:?}");
        let more = told(plan(&facts, &["kernel.ip-forward", "kernel.modules"]).unwrap());
        assert!(more.contains(&"set net.ipv4.ip_forward to 1".to_owned()), "{more:?}");
        assert!(more.contains(&"load the kernel module br_netfilter".to_owned()), "{more:?}");
    }

    #[test]
    fn what_a_join_made_goes_and_nothing_else_does() {
        let facts = with_files(joined(&Authority::make()));
        let steps = plan(&facts, &[]).unwrap();
        assert_eq!(
            leftovers(&facts).unwrap(),
            [
                kubeconfig::KUBELET,
                pki::CA,
                kubelet_config::FILE,
                "/var/lib/kubelet/pki/kubelet-client-current.pem",
                "/var/lib/kubelet/pki/kubelet-client.key.tmp",
            ]
        );
        assert_eq!(Protected::default().refusal(&Plan::of(steps).unwrap()), None);
    }
}
