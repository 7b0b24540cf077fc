//! A node whose Node somebody deleted, and whose kubelet goes on: `carrick join` has it register itself again.

use super::{Case, Needs, join_kubelet_stopped};
use crate::join::{fresh, joins};

pub const CASE: Case = Case {
    about: "carrick join on a machine whose Node was deleted under its kubelet: Ready in seconds, without kubeadm, by the same certificate",
    needs: Needs::Cluster,
    run: |bench| {
        let worker = fresh(bench)?;
        joins(bench, &worker)?;
        join_kubelet_stopped::goes_on(bench, &worker, |bench| bench.cluster()?.delete_node(&worker.identity.name))
    },
};
