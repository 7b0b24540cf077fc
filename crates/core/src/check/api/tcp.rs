//! The API endpoint accepts a TCP connection from this machine.
//!
//! "Refused" means the address is right and nothing listens: the API server or its load balancer is down, or the port is
//! wrong. No answer at all means a firewall drops the packets, or there is no way back. kubeadm tells neither: it retries
//! for five minutes.
//!
//! See it yourself: `timeout 3 bash -c '</dev/tcp/ADDRESS/6443' && echo open`
//! Mend it: on the control plane `ss -lntp 'sport = :6443'`, then its firewall; on the way the security group or router.

use crate::catalogue::{Class, Role, Stops};
use crate::check::{Check, CheckPolicy, FixedBy, InJoin, Needed, Subsystem, Verdict, step};
use crate::fact::api_path::PathStep;
use crate::fact::{Facts, Known};
use crate::id;

pub const CHECK: Check = Check {
    id: "api.tcp",
    title: "the API endpoint accepts connections",
    subsystem: Subsystem::ControlPlane,
    kubeadm: &[],
    class: Class::Transient,
    role: Role::Root,
    stops: Stops::Node,
    needed: Needed::Always,
    in_join: InJoin::Blocks,
    fixed_by: FixedBy::CLUSTER,
    accounts_for: step::is_behind,
    judge,
};

fn judge(facts: &Facts, _: &CheckPolicy) -> Known<Verdict> {
    step::judge(
        facts,
        PathStep::Tcp,
        &["ss -lntp 'sport = :6443'      # on the control plane: does it listen, and where"],
        &[id!("kubeadm.discovery-timeout")],
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn judges() {
        step::testing::judges_step(&CHECK, PathStep::Tcp);
    }
}
