//! What answers behind TLS is an API server.
//!
//! An ingress, a registry or a captive proxy on the same port answers too, with a page. kubeadm then fails with a message
//! about JSON.
//!
//! See it yourself: `curl -k https://HOST:PORT/version`
//! Fix: give the address of the control plane (or its load balancer), not of a service behind it.

use crate::catalogue::{Class, Role, Stops};
use crate::check::{Check, CheckPolicy, FixedBy, InJoin, Needed, Subsystem, Verdict, step};
use crate::fact::api_path::PathStep;
use crate::fact::{Facts, Known};
use crate::id;

pub const CHECK: Check = Check {
    id: "api.http",
    title: "an API server answers",
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
        PathStep::Http,
        &["curl -k https://{server}/version      # an API server answers with its version"],
        &[id!("kubeadm.discovery-timeout")],
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn judges() {
        step::testing::judges_step(&CHECK, PathStep::Http);
    }
}
