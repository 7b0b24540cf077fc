//! What the driver is to do, and how a join ends.

use jiff::Timestamp;

use crate::join::failure::JoinFailure;
use crate::join::state::Stage;
use crate::join::verify::Until;
use crate::stop::StopSignal;

/// What the driver is to do. Each is done in order, before the next event is taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JoinEffect {
    /// Look at the machine ([`crate::join::existing::LocalJoin::of`]), at our kubeadm unit, at the Node of this name and its lease.
    Observe,
    /// Delete this Node, with the admin's rights, and record it. Where that fails: [`super::JoinEvent::Failed`].
    RemoveNode {
        name: String,
        says: String,
    },
    /// Say of this Node, this machine's own, that it is not ready, with the admin's rights. Where that fails:
    /// [`super::JoinEvent::Failed`].
    MarkNotReady {
        name: String,
        says: String,
    },
    /// Start the kubelet that is here.
    WakeKubelet,
    /// Run the checks; with `--fix`: plan, consent, apply, check again.
    Check,
    /// Carry out the plan of preparation. What of it fails is [`super::JoinEvent::Failed`].
    Prepare,
    /// Write the JoinConfiguration, 0600, and start kubeadm's unit.
    StartKubeadm,
    /// Follow the unit that runs, its output from the beginning.
    Attach,
    /// Not before then: have the runtime make a sandbox, and take it away again.
    Sandbox {
        not_before: Timestamp,
    },
    /// Not before then: look as live diagnosis does for what keeps pods from running here.
    LookForCauses {
        not_before: Timestamp,
    },
    /// Say this to the person; nothing follows from it.
    Tell(String),
    /// The evidence is complete: remove secret files, revoke a token of ours, uncordon what our reset cordoned, release the
    /// kubelet's drop-in.
    Finish,
    /// Not all came that was asked for, and the machine stays in the cluster: remove secret files, release the kubelet's
    /// drop-in.
    Leave,
    /// End kubeadm's unit and the kubelet, and remove what this attempt is proven to have left.
    CleanUp,
    /// End kubeadm, unless the kubelet has its certificate, and look once more whether it has.
    Halt,
    /// Find the cause while everything still stands as it failed.
    Diagnose,
    Report(JoinOutcome),
}

/// How it ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JoinOutcome {
    Joined {
        until: Until,
        /// It had been before: nothing was changed.
        already: bool,
    },
    /// All holds but what only a Pod of the cluster could prove, and none is on its way: the machine stays in the cluster.
    Unproven {
        /// What could not be told.
        says: String,
    },
    Failed(JoinFailure),
    /// A signal ended it.
    Interrupted {
        signal: StopSignal,
        /// How far it had come.
        stage: Stage,
        stays: Withdrawal,
    },
}

/// What becomes of a join that was told to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Withdrawal {
    /// What it had changed is put back.
    PutBack,
    /// The kubelet has its certificate: the machine is in the cluster, and stays there.
    InCluster,
    /// kubeadm goes on in its unit; the next join follows it.
    AtWork,
}

impl JoinEffect {
    /// Whether it is still made for somebody who said stop: it ends something, and begins nothing.
    pub fn ends(&self) -> bool {
        match self {
            JoinEffect::Finish
            | JoinEffect::Leave
            | JoinEffect::CleanUp
            | JoinEffect::Halt
            | JoinEffect::Diagnose
            | JoinEffect::Tell(_)
            | JoinEffect::Report(_) => true,
            JoinEffect::Observe
            | JoinEffect::RemoveNode { .. }
            | JoinEffect::MarkNotReady { .. }
            | JoinEffect::WakeKubelet
            | JoinEffect::Check
            | JoinEffect::Prepare
            | JoinEffect::StartKubeadm
            | JoinEffect::Attach
            | JoinEffect::Sandbox { .. }
            | JoinEffect::LookForCauses { .. } => false,
        }
    }
}
