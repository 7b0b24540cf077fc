//! What is changed on a machine before kubeadm runs, as a plan, and what a failed attempt leaves behind.

use super::place::{DROP_IN, DROP_IN_DIR};
use crate::check::runtime::sandbox_image;
use crate::check::{self, InJoin};
use crate::fact::modules::Module;
use crate::fact::{Facts, Known, Missing, OrAbsent, kubeconfig, kubelet_config, pki, unit};
use crate::plan::{Conflict, Effect, Step};

const CONDITION: &str = "# Written by carrick join; it goes when the join ends.\n[Unit]\nConditionPathExists=/var/lib/kubelet/config.yaml\n";

/// The files a join makes, apart from the kubelet's keys.
pub(super) const MADE: [&str; 6] = [
    kubeconfig::KUBELET,
    kubeconfig::BOOTSTRAP,
    pki::CA,
    kubelet_config::FILE,
    kubelet_config::INSTANCE,
    unit::KUBEADM_FLAGS,
];

const FORWARDING: &str = "net.ipv4.ip_forward";
const BRIDGED: [&str; 2] = ["net.bridge.bridge-nf-call-iptables", "net.bridge.bridge-nf-call-ip6tables"];
const BRIDGE_MODULE: &str = "br_netfilter";

/// One thing that is set right before kubeadm runs. A check whose failure it ends names it ([`InJoin::SetRight`]), and is
/// why it is planned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preparation {
    /// Files of a join that is over go: kubeadm does not start over them, and a clean-up must find nothing but its own.
    Leftovers,
    PodNetworkDirs,
    BridgeModule,
    BridgeSettings,
    Forwarding,
}

impl Preparation {
    const ALL: [Preparation; 5] = [
        Preparation::Leftovers,
        Preparation::PodNetworkDirs,
        Preparation::Forwarding,
        Preparation::BridgeModule,
        Preparation::BridgeSettings,
    ];

    /// Why it is made whatever the checks say; `None`: only where one of them does not pass.
    fn usual(self) -> Option<&'static str> {
        match self {
            Preparation::Leftovers => Some("of a join that is over"),
            Preparation::PodNetworkDirs => Some("the pod network writes there"),
            Preparation::BridgeModule | Preparation::BridgeSettings | Preparation::Forwarding => None,
        }
    }

    /// Why it is made now; nothing where it need not be. `wrong`: ids of checks that do not pass.
    fn reasons(self, wrong: &[&str]) -> Vec<String> {
        let names_it = |id: &&str| check::find(id).any(|it| it.check.in_join == InJoin::SetRight(self));
        let of_checks = wrong.iter().copied().filter(names_it);
        self.usual().map_or_else(|| of_checks.map(str::to_owned).collect(), |why| vec![why.to_owned()])
    }

    /// What it changes here; nothing where there is nothing that it can set right.
    pub fn effects(self, facts: &Facts) -> Known<Vec<Effect>> {
        Ok(match self {
            Preparation::Leftovers => leftovers(facts)?.into_iter().map(|path| Effect::Remove { path }).collect(),
            Preparation::PodNetworkDirs if is_file(facts, &facts.cni_conf_dir()) => Vec::new(),
            Preparation::PodNetworkDirs => ["/etc/cni", "/etc/cni/net.d", "/opt/cni", "/opt/cni/bin"].map(dir).into(),
            Preparation::BridgeModule if !is_to_be_had(facts, BRIDGE_MODULE) || lacks_overlay(facts) => Vec::new(),
            Preparation::BridgeModule => {
                let load = Effect::LoadModule { name: BRIDGE_MODULE.to_owned() };
                [load].into_iter().chain(BRIDGED.map(setting)).collect()
            }
            Preparation::BridgeSettings if !is_to_be_had(facts, BRIDGE_MODULE) => Vec::new(),
            Preparation::BridgeSettings => BRIDGED.map(setting).into(),
            Preparation::Forwarding => vec![setting(FORWARDING)],
        })
    }
}

/// Why there is no plan of preparation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PreparationError {
    #[error(transparent)]
    Missing(#[from] Missing),
    #[error(transparent)]
    Conflict(#[from] Conflict),
    #[error("a kubelet lives here as {0}: nothing is prepared for another")]
    Live(String),
    #[error("a kubelet runs here with {0}, which kubeadm did not set up: nothing is prepared for another")]
    Foreign(String),
}

/// What kubeadm needs. `wrong`: ids of checks that do not pass. Whoever decided to join, on whatever grounds, and whatever is
/// ignored: what lives, or may live by what somebody else set up, is not prepared away.
pub fn plan(facts: &Facts, wrong: &[&str]) -> Result<Vec<Step>, PreparationError> {
    if let Some(node) = facts.live_node()? {
        return Err(PreparationError::Live(node));
    }
    if let Some(kubeconfig) = facts.foreign_kubeconfig()? {
        return Err(PreparationError::Foreign(kubeconfig));
    }
    let mut steps: Vec<Step> = Vec::new();
    for preparation in Preparation::ALL {
        let why = preparation.reasons(wrong);
        if !why.is_empty() {
            let step = |effect| Step { effect, why: why.clone() };
            steps.extend(preparation.effects(facts)?.into_iter().map(step));
        }
    }
    let why = || vec!["the kubelet waits for its configuration".to_owned()];
    steps.extend(hold_back().into_iter().map(|effect| Step { effect, why: why() }));
    Ok(steps)
}

fn hold_back() -> Vec<Effect> {
    let write = Effect::Write { path: DROP_IN.to_owned(), text: CONDITION.to_owned(), mode: 0o644, in_place: false };
    let dirs = ["/run/systemd/system", DROP_IN_DIR].map(dir);
    dirs.into_iter().chain([write, Effect::ReloadUnits]).collect()
}

fn dir(path: &str) -> Effect {
    Effect::MakeDir { path: path.to_owned(), mode: 0o755 }
}

fn setting(key: &str) -> Effect {
    Effect::Sysctl { key: key.to_owned(), value: "1".to_owned() }
}

fn is_file(facts: &Facts, path: &str) -> bool {
    let (parent, name) = path.rsplit_once('/').unwrap_or(("/", path));
    facts.entry(parent, name).is_ok_and(|entry| entry.is_some_and(|entry| entry.is_file()))
}

/// Whether a module is loaded or can be; of one that nothing is known of, it is tried.
fn is_to_be_had(facts: &Facts, module: &str) -> bool {
    !matches!(facts.module(module), Ok(Module::Missing | Module::NoTree(_)))
}

fn lacks_overlay(facts: &Facts) -> bool {
    facts.kernel_filesystems().is_ok_and(|known| !known.contains("overlay")) && !is_to_be_had(facts, "overlay")
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
    use crate::check::{CHECKS, RegisteredCheck};
    use crate::fact::join_state::sample::{clean, joined, kubelet_state};
    use crate::fact::pki::sample::SampleAuthority;
    use crate::fact::{kernel, modules, process};
    use crate::plan::Plan;
    use crate::plan::protect::Protected;
    use crate::testing::facts;

    const LOADABLE: &str = "\
/lib/modules/6/modules.dep:kernel/net/bridge/br_netfilter.ko:
/lib/modules/6/modules.dep:kernel/fs/overlayfs/overlay.ko:
";

    fn told(steps: Vec<Step>) -> Vec<String> {
        Plan::of(steps).unwrap().steps.iter().map(|step| step.effect.to_string()).collect()
    }

    /// The files of a join, and no kubelet that runs.
    fn left() -> Facts {
        joined(&SampleAuthority::make()).with_query(&unit::SHOW, &kubelet_state("inactive", "dead"))
    }

    fn with_files(facts: Facts) -> Facts {
        let links = [
            ("lrwxrwxrwx", "kubelet-client-current.pem"),
            ("-rw-------", "kubelet-client.key.tmp"),
            ("-rw-------", "kubelet.key"),
        ];
        let facts = facts.with_file(kubelet_config::FILE, "").with_file(kubelet_config::INSTANCE, "");
        facts.with_dir(pki::DIR, &links).without_file(unit::KUBEADM_FLAGS)
    }

    #[test]
    fn only_what_is_wrong_is_set_right() {
        let nothing = clean().with_dir(pki::DIR, &[]).without_file(kubelet_config::FILE);
        let facts = nothing.without_file(kubelet_config::INSTANCE).without_file(unit::KUBEADM_FLAGS);
        let usual = told(plan(&facts, &[]).unwrap());
        assert!(usual.contains(&format!("write {DROP_IN}")), "{usual:?}");
        assert!(!usual.iter().any(|step| step.starts_with("set ") || step.starts_with("remove")), "{usual:?}");
        let more = told(plan(&facts, &["kernel.ip-forward", "kernel.modules"]).unwrap());
        assert!(more.contains(&"set net.ipv4.ip_forward to 1".to_owned()), "{more:?}");
        assert!(more.contains(&"load the kernel module br_netfilter".to_owned()), "{more:?}");
    }

    /// On a machine with all of it wrong, every check that says so leads to a change; where nothing can be changed, to none.
    #[test]
    fn every_check_that_is_to_be_set_right_has_its_change_planned() {
        let wrong = with_files(left()).with_query(&modules::AT_HAND, LOADABLE);
        let wrong = wrong.with_file(modules::LOADED, "").with_file(kernel::FILESYSTEMS, "");
        let stuck = clean().with_dir("/etc/cni", &[("-rw-r--r--", "net.d")]).with_query(&modules::AT_HAND, "");
        let stuck = stuck.with_file(modules::LOADED, "").with_file(kernel::FILESYSTEMS, "");
        let mut named = Vec::new();
        for RegisteredCheck { check, .. } in CHECKS {
            let InJoin::SetRight(preparation) = check.in_join else { continue };
            named.push(preparation);
            let effects = preparation.effects(&wrong).unwrap();
            let steps = plan(&wrong, &[check.id]).unwrap();
            let planned = |effect: &Effect| steps.iter().any(|step| step.effect == *effect);
            assert!(!effects.is_empty() && effects.iter().all(planned), "{}: {steps:?}", check.id);
            // What is made for nobody's sake but a check's says so.
            let because = |effect: &Effect| steps.iter().any(|it| it.effect == *effect && it.why == [check.id]);
            assert!(preparation.usual().is_some() || effects.iter().all(because), "{}: {steps:?}", check.id);
        }
        assert!(Preparation::ALL.iter().all(|it| named.contains(it)), "no check names one of them");
        for preparation in [Preparation::PodNetworkDirs, Preparation::BridgeModule, Preparation::BridgeSettings] {
            assert_eq!(preparation.effects(&stuck).unwrap(), [], "{preparation:?}");
        }
    }

    #[test]
    fn what_lives_is_not_prepared_for_another_join() {
        let live = with_files(joined(&SampleAuthority::make()));
        assert_eq!(plan(&live, &["stale.kubelet-conf"]), Err(PreparationError::Live("w1".into())));
        assert!(matches!(plan(&facts(), &[]), Err(PreparationError::Missing(_))), "nothing is known of it");
        let runs = |kubeconfig: &str| {
            let show = format!("{}MainPID=17\n", kubelet_state("active", "running"));
            let ps = format!("17 60 /usr/bin/kubelet --kubeconfig={kubeconfig}\n");
            with_files(clean()).with_query(&unit::SHOW, &show).with_query(&process::KUBELET, &ps)
        };
        let theirs = "/var/lib/kubelet/kubeconfig";
        assert_eq!(plan(&runs(theirs), &[]), Err(PreparationError::Foreign(theirs.to_owned())));
        assert!(plan(&runs(kubeconfig::KUBELET), &[]).is_ok(), "it is told of kubeadm's, and has no certificate");
    }

    #[test]
    fn what_a_join_made_goes_and_nothing_else_does() {
        let facts = with_files(left());
        let steps = plan(&facts, &[]).unwrap();
        assert_eq!(
            leftovers(&facts).unwrap(),
            [
                kubeconfig::KUBELET,
                pki::CA,
                kubelet_config::FILE,
                kubelet_config::INSTANCE,
                "/var/lib/kubelet/pki/kubelet-client-current.pem",
                "/var/lib/kubelet/pki/kubelet-client.key.tmp",
            ]
        );
        assert_eq!(Protected::default().refusal(&Plan::of(steps).unwrap()), None);
    }
}
