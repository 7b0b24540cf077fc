//! Machines with nothing wrong, captured like the broken ones: what is said on a good day is no symptom.

use crate::error::Result;
use crate::fault::{Fault, RegisteredFault, Scene};
use crate::machine::Kind;
use crate::tier::Tier;

pub static SOUND: &[RegisteredFault] = &[
    RegisteredFault { name: "sound-join-debian12", fault: &JOIN_DEBIAN12 },
    RegisteredFault { name: "sound-join-debian13", fault: &JOIN_DEBIAN13 },
    RegisteredFault { name: "sound-join-kube-1-29", fault: &JOIN_KUBE_1_29 },
    RegisteredFault { name: "sound-rejoin", fault: &REJOIN },
    RegisteredFault { name: "sound-before-join", fault: &BEFORE_JOIN },
    RegisteredFault { name: "sound-before-join-debian13", fault: &BEFORE_JOIN_DEBIAN13 },
];

const JOIN_DEBIAN12: Fault = good("a Debian 12 machine joined", Kind::Debian12, joins);
const JOIN_DEBIAN13: Fault = good("a Debian 13 machine joined", Kind::Debian13, joins);
const JOIN_KUBE_1_29: Fault = good("a machine with kubeadm and kubelet 1.29 joined", Kind::Debian12Kube129, joins);
const REJOIN: Fault = good("the machine was reset, its Node deleted, and it joined again", Kind::Debian12, joins_again);
const BEFORE_JOIN: Fault = good("the machine is ready to join, and has not yet", Kind::Debian12, |_| Ok(()));
const BEFORE_JOIN_DEBIAN13: Fault =
    good("a Debian 13 machine is ready to join, and has not yet", Kind::Debian13, |_| Ok(()));

const fn good(about: &'static str, on: Kind, shows: fn(&mut Scene) -> Result<()>) -> Fault {
    Fault { about, cause: "none", tier: Tier::Full, on, also: &[], put_in: |_| Ok(()), shows, fixes: None }
}

fn joins(scene: &mut Scene) -> Result<()> {
    scene.join_and_be_ready()?;
    scene.cluster.pod_answers(&scene.machine).map(drop)
}

fn joins_again(scene: &mut Scene) -> Result<()> {
    scene.join_and_be_ready()?;
    scene.types(&["kubeadm", "reset", "--force"])?.success()?;
    scene.cluster.delete_node(scene.node_name())?;
    // The new Node gets another pod range, and the old bridge still has an address of the old one.
    scene.types(&["ip", "link", "delete", "cni0"])?;
    joins(scene)
}
