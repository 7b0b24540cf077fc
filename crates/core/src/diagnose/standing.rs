//! What of the suspects keeps pods from running here, or others from reaching them: what nobody says *joined* over.
//!
//! It is told under its cause: where a line about pods without an address follows from a full disk, the disk stands. What counts is
//! what is certain, and what a check finds: that is so now, though a failed check that explains nothing is only a likely cause.

use super::suspect::Suspect;
use crate::catalogue::{self, About};
use crate::join::verify::{StandingCause, evidence};
use crate::judge::Ignore;
use crate::report::{Cause, Confidence};
use crate::signature::{Library, Severity, Signature};

pub(super) fn of(library: &Library, suspects: &[Suspect], causes: &[Cause], ignore: &Ignore) -> Vec<StandingCause> {
    let counts = |suspect: &&Suspect| {
        suspect.severity >= Severity::Error && (suspect.checked || suspect.certainty == Confidence::Certain)
    };
    let counting: Vec<&Suspect> = suspects.iter().filter(counts).filter(|it| !ignore.covers(&it.id)).collect();
    let find = |id: &str| counting.iter().copied().find(|suspect| suspect.id == id);
    let under = |cause: &Cause| -> Option<StandingCause> {
        let ids = std::iter::once(&cause.id).chain(&cause.explains);
        let stopped = ids.filter_map(|id| about(library, &find(id)?.id));
        let forbidding = stopped.map(|about| about.stops).filter(|it| it.forbidden_from().is_some());
        // What stops the most comes first.
        let stops = forbidding.min_by_key(|it| it.forbidden_from())?;
        let own = about(library, &cause.id)?;
        Some(StandingCause {
            id: cause.id.clone(),
            class: own.class,
            role: own.role,
            stops,
            subsystem: own.subsystem,
            title: cause.title.clone(),
            evidence: cause.evidence.clone(),
            remedy: cause.remedy.clone(),
            denies_addresses: find(&cause.id).is_some_and(says_no_address),
        })
    };
    let is_ignored = |cause: &&Cause| ignore.covers(&cause.id);
    causes.iter().filter(|cause| !is_ignored(cause)).filter_map(under).collect()
}

fn says_no_address(suspect: &Suspect) -> bool {
    !suspect.checked && evidence::denies_addresses(suspect.explains.iter().map(String::as_str))
}

/// What is known of an id; of a signature of the operator's own, by its file.
fn about<'l>(library: &'l Library, id: &str) -> Option<About<'l>> {
    catalogue::about(id).or_else(|| library.find(id).and_then(Signature::about))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::catalogue::{Class, Stops};
    use crate::diagnose::{BoundPods, Case};
    use crate::fact::{Facts, Why, firewall, journal, kubeconfig, kubelet_config, net, process, space, unit};
    use crate::testing::{NOW, facts};

    fn standing(facts: Facts, ignored: &[&str]) -> Vec<(String, Stops, Class)> {
        let library = Library::built_in().unwrap();
        let ignore = Ignore::of(ignored.iter().copied()).unwrap();
        let found = Case::of_facts(&library, facts, None).standing(&ignore);
        found.into_iter().map(|cause| (cause.id, cause.stops, cause.class)).collect()
    }

    fn kubelet(message: &str) -> Facts {
        let at = NOW.as_microsecond();
        let line = serde_json::json!({"__REALTIME_TIMESTAMP": at.to_string(), "MESSAGE": message}).to_string();
        facts().with_query(&journal::KUBELET, &line)
    }

    const REGISTERED: &str =
        r#"I1115 20:39:45.2 812 kubelet_node_status.go:78] "Successfully registered node" node="w1""#;

    #[test]
    fn a_check_that_fails_stands_alone() {
        let off = || facts().with_file("/proc/sys/net/ipv4/ip_forward", "0\n");
        let forward = ("kernel.ip-forward".to_owned(), Stops::Traffic, Class::Configuration);
        assert_eq!(standing(off(), &[]), [forward]);
        assert_eq!(standing(off(), &["kernel.ip-forward"]), []);
        assert_eq!(standing(facts(), &[]), []);
        let swap = "Filename Type Size Used Priority\n/dev/sda2 partition 1 0 -2\n";
        assert_eq!(standing(facts().with_file("/proc/swaps", swap), &[]), [], "the proofs see what comes of it");
    }

    #[test]
    fn what_a_sandbox_would_prove_past_is_marked() {
        let none_left = r#"E1115 20:39:46.2 812 pod_workers.go:1301] "Error syncing pod, skipping" err="failed to setup network for sandbox \"0d1c\": plugin type=\"bridge\" failed (add): failed to allocate for range 0: no IP addresses available in range set: 10.244.1.1-10.244.1.254" pod="default/web""#;
        let library = Library::built_in().unwrap();
        let ignore = Ignore::default();
        let marked = |facts: Facts| -> Vec<(String, bool)> {
            let found = Case::of_facts(&library, facts, None).standing(&ignore);
            found.into_iter().map(|cause| (cause.id, cause.denies_addresses)).collect()
        };
        let read = kubelet(&format!("{REGISTERED}\n{none_left}"));
        assert_eq!(marked(read), [("cni.no-addresses-left".to_owned(), true)]);
        let checked = facts().with_file("/proc/sys/net/ipv4/ip_forward", "0\n");
        assert_eq!(marked(checked), [("kernel.ip-forward".to_owned(), false)], "a check looked at what is so now");
    }

    #[test]
    fn a_line_stands_where_it_is_certain() {
        let line = r#"E1115 20:39:46.2 812 pod_workers.go:1301] "Error syncing pod, skipping" err="failed to \"StartContainer\" for \"kube-proxy\" with CrashLoopBackOff: \"back-off 10s restarting failed container=kube-proxy pod=kube-proxy-x7k2p_kube-system(0c4e)\"" pod="kube-system/kube-proxy-x7k2p""#;
        let loops = kubelet(&format!("{REGISTERED}\n{line}"));
        let crash = ("kube-proxy.crash-loop".to_owned(), Stops::Traffic, Class::Transient);
        assert_eq!(standing(loops.clone(), &[]), [crash]);
        assert_eq!(standing(loops, &["kube-proxy.crash-loop"]), [], "an id of a signature can be ignored, too");
        // Of a pod that is gone.
        let library = Library::built_in().unwrap();
        let later = |seconds| NOW.checked_add(jiff::SignedDuration::from_secs(seconds)).unwrap();
        let known = |names: &[&str], seconds| {
            let names = names.iter().map(|name| (*name).to_owned()).collect();
            let case = Case::of_facts(&library, kubelet(&format!("{REGISTERED}\n{line}")), None);
            case.with_pods(BoundPods { names, at: later(seconds) }).standing(&Ignore::default()).len()
        };
        assert_eq!(known(&["kube-system/kube-proxy-x7k2p"], 1), 1);
        assert_eq!(known(&["kube-system/kube-proxy-9wvtz"], 1), 0, "a rollout has replaced it");
        assert_eq!(known(&["kube-system/kube-proxy-9wvtz"], 0), 1, "it may be younger than the list");
        // Only possible.
        let unanswered =
            r#"E1115 20:39:46.2 812 x.go:1] Get "https://10.96.0.1:443/api": dial tcp 10.96.0.1:443: i/o timeout"#;
        assert_eq!(standing(kubelet(&format!("{REGISTERED}\n{unanswered}")), &[]), []);
    }

    /// The kubelet that says this has run for so long, and said it first thing.
    fn runs_for(seconds: i64, message: &str) -> Facts {
        let show = "Id=kubelet.service\nLoadState=loaded\nActiveState=active\nMainPID=17\n";
        let process = format!("17 {seconds} /usr/bin/kubelet --kubeconfig=/etc/kubernetes/kubelet.conf\n");
        let mut facts = kubelet(message).with_query(&unit::SHOW, show).with_query(&process::KUBELET, &process);
        facts.taken_at = NOW.checked_add(jiff::SignedDuration::from_secs(seconds)).unwrap();
        facts.with_file(unit::UPTIME, "9000000.00 1.00\n")
    }

    /// Whatever a line says of pods and their network: who tries again within minutes, and has not said it again, is past it.
    #[test]
    fn what_a_running_kubelet_has_not_said_again_is_over() {
        let library = Library::built_in().unwrap();
        for signature in library.iter().filter(|it| it.certainty == Confidence::Certain) {
            let stops = signature.about().map(|about| about.stops);
            if !matches!(stops, Some(Stops::Pods | Stops::Network | Stops::Traffic))
                || signature.severity < Severity::Error
            {
                continue;
            }
            let line = &signature.hit[0].line;
            let of =
                |facts: Facts| standing(facts, &[]).into_iter().filter(|(id, ..)| *id == signature.cause_id()).count();
            let message = format!("{REGISTERED}\n{line}");
            assert_eq!(of(runs_for(14 * 24 * 3600, &message)), 0, "{}: two weeks ago", signature.id);
        }
        let line = r#"E1115 20:39:46.2 812 pod_workers.go:1301] "Error syncing pod, skipping" err="failed to \"StartContainer\" for \"kube-flannel\" with ErrImagePull: \"not found\"" pod="kube-flannel/kube-flannel-ds-x""#;
        let old = |seconds| standing(runs_for(seconds, &format!("{REGISTERED}\n{line}")), &[]).len();
        assert_eq!((old(60), old(599), old(660)), (1, 1, 0), "it has to have had the time");
        let facts = runs_for(660, &format!("{REGISTERED}\n{line}"));
        let ended =
            facts.clone().with_query(&unit::SHOW, "Id=kubelet.service\nLoadState=loaded\nActiveState=inactive\n");
        assert_eq!(standing(ended, &[]).len(), 1, "who does not run says nothing again");
        let unknown = facts.without(crate::fact::Source::Query(&unit::SHOW), Why::TimedOut);
        assert_eq!(standing(unknown, &[]).len(), 1);
    }

    /// A node that works: its pod network, the ranges around it, where its images are, what `--config-dir` lays over its
    /// configuration, what an earlier network and Docker left, and what its kubelet complained of long ago.
    #[derive(Clone, Debug)]
    struct Sound {
        network: &'static str,
        address: &'static str,
        bridge_nf: bool,
        left_over: bool,
        drop_in: bool,
        evicts_below: &'static str,
        said: Vec<String>,
    }

    impl Sound {
        fn facts(&self) -> Facts {
            const GIB: u64 = 1 << 30;
            let is_bridged = self.network == "flannel";
            let mut facts = runs_for(14 * 24 * 3600, REGISTERED);
            let at = NOW.as_microsecond().to_string();
            let entry =
                |line: &String| serde_json::json!({"__REALTIME_TIMESTAMP": at, "MESSAGE": line}).to_string() + "\n";
            let said: String = std::iter::once(&REGISTERED.to_owned()).chain(&self.said).map(entry).collect();
            let ipam = r#","ipam":{"type":"host-local","subnet":"10.244.1.0/24"}"#;
            let ipam = if self.network == "ptp" { ipam } else { "" };
            let conf = format!(r#"{{"name":"x","plugins":[{{"type":"{}"{ipam}}}]}}"#, self.network);
            let cni0 = r#",{"ifname":"cni0","mtu":1450,"linkinfo":{"info_kind":"bridge"},"addr_info":[{"local":"10.244.1.1","prefixlen":24}]}"#;
            let flannel = r#",{"ifname":"flannel.1","mtu":1450,"operstate":"UNKNOWN","linkinfo":{"info_kind":"vxlan","info_data":{"port":8472}},"addr_info":[]}"#;
            let lxc = r#",{"ifname":"lxcbr0","linkinfo":{"info_kind":"bridge"},"addr_info":[{"local":"10.0.3.1","prefixlen":24}]}"#;
            let (address, length) = self.address.split_once('/').unwrap();
            let links = format!(
                r#"[{{"ifname":"eth0","mtu":1500,"operstate":"UP","addr_info":[{{"local":"{address}","prefixlen":{length}}}]}}{}{}{lxc}]"#,
                if is_bridged || self.left_over { cni0 } else { "" },
                if is_bridged { flannel } else { "" },
            );
            let accepts = if is_bridged {
                "-A FORWARD -s 10.244.0.0/16 -j ACCEPT\n-A FORWARD -d 10.244.0.0/16 -j ACCEPT\n"
            } else {
                ""
            };
            let iptables = format!(
                "*filter\n:INPUT ACCEPT [0:0]\n:FORWARD DROP [0:0]\n-A FORWARD -o docker0 -j ACCEPT\n{accepts}COMMIT\n"
            );
            let flags = if self.drop_in { "KUBELET_EXTRA_ARGS=--config-dir=/etc/kubelet.d\n" } else { "" };
            let laid_over =
                "==> /etc/kubelet.d <==\n==> /etc/kubelet.d/10-a.conf <==\nresolvConf: /etc/resolv.conf\n\n";
            let resolv_conf = if self.drop_in { "resolvConf: /run/systemd/resolve/resolv.conf\n" } else { "" };
            let evicts =
                format!("evictionHard: {{nodefs.available: {0}, imagefs.available: {0}}}\n", self.evicts_below);
            let df = format!(
                "Filesystem 1B-blocks Used Avail Use% Mounted on\n/dev/vda {} {} {} 91% /\n",
                4000 * GIB,
                3640 * GIB,
                360 * GIB
            );
            facts = facts
                .with_query(&journal::KUBELET, &said)
                .with_file(kubeconfig::KUBELET, "")
                .with_dir("/etc/cni/net.d", &[("-rw-r--r--", "10-x.conflist")])
                .with_file("/etc/cni/net.d/10-x.conflist", &conf)
                .with_file("/run/flannel/subnet.env", "FLANNEL_NETWORK=10.244.0.0/16\nFLANNEL_SUBNET=10.244.1.1/24\nFLANNEL_MTU=1450\n")
                .with_api("kubeadm-config", "networking:\n  podSubnet: 10.244.0.0/16\n  serviceSubnet: 10.96.0.0/12\n")
                .with_query(&net::LINKS, &links)
                .with_query(&net::ROUTES, r#"[{"dst":"default","gateway":"10.1.0.1","dev":"eth0"},{"dst":"10.0.0.0/8","gateway":"10.1.0.1","dev":"eth0"}]"#)
                .with_query(&firewall::NFT, r#"{"nftables":[]}"#)
                .with_query(&firewall::IPTABLES, &iptables)
                .with_file("/proc/sys/net/ipv4/ip_forward", "1\n")
                .with_file("/proc/sys/net/bridge/bridge-nf-call-iptables", if self.bridge_nf || is_bridged { "1\n" } else { "0\n" })
                .with_query(&unit::KUBELET, &unit::sample::packaged())
                .with_file(unit::DEFAULTS, flags)
                .with_file(kubelet_config::FILE, &kubelet_config::sample::with(&format!("{resolv_conf}{evicts}")))
                .without_file(kubelet_config::RESOLVED)
                .with_file("/etc/resolv.conf", "nameserver 10.1.0.1\n");
            if self.drop_in {
                let process = "17 1209600 /usr/bin/kubelet --kubeconfig=/etc/kubernetes/kubelet.conf --config-dir=/etc/kubelet.d\n";
                facts = facts.with_query(&process::KUBELET, process).with_query(&kubelet_config::DROP_INS, laid_over);
            }
            [&space::ROOT, &space::KUBELET, &space::CONTAINERD, &space::KUBERNETES]
                .into_iter()
                .fold(facts, |facts, query| facts.with_query(query, &df))
        }
    }

    fn sound() -> impl Strategy<Value = Sound> {
        let library = Library::built_in().unwrap();
        let stops = |it: &&Signature| {
            it.severity >= Severity::Error && it.about().is_some_and(|about| about.stops.forbidden_from().is_some())
        };
        let lines: Vec<String> =
            library.iter().filter(stops).flat_map(|it| &it.hit).map(|hit| hit.line.clone()).collect();
        let lines = prop::collection::vec(prop::sample::select(lines), 0..6);
        let network = prop::sample::select(vec!["flannel", "calico", "cilium-cni", "ptp"]);
        let address = prop::sample::select(vec!["192.168.4.61/24", "10.1.2.3/8", "10.0.0.5/9", "172.16.0.9/16"]);
        let evicts_below = prop::sample::select(vec!["5%", "1Gi", "8.5%"]);
        let flags = (any::<bool>(), any::<bool>(), any::<bool>());
        (network, address, flags, evicts_below, lines).prop_map(
            |(network, address, (bridge_nf, left_over, drop_in), evicts_below, said)| Sound {
                network,
                address,
                bridge_nf,
                left_over,
                drop_in,
                evicts_below,
                said,
            },
        )
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// The other half of what `keeps_its_promises` holds: not only is no unsound node called joined, a sound one is.
        #[test]
        fn nothing_stands_on_a_sound_node(sound in sound()) {
            prop_assert_eq!(standing(sound.facts(), &[]), []);
        }
    }
}
