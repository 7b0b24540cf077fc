//! The API endpoint speaks TLS.
//!
//! A plain HTTP port, a proxy in between or a load balancer without a healthy server behind it accept the connection and
//! then say something else, or nothing. Large packets that vanish (an MTU too large for the path) show up here as well.
//!
//! See it yourself: `openssl s_client -connect HOST:PORT </dev/null`
//! Fix: correct the port, take the endpoint out of the proxy (NO_PROXY), or repair the load balancer's back end.

use crate::catalogue::{Class, Role, Stops};
use crate::check::{Check, CheckPolicy, FixedBy, InJoin, Needed, Subsystem, Verdict, step};
use crate::fact::api_path::PathStep;
use crate::fact::{Facts, Known};
use crate::id;

pub const CHECK: Check = Check {
    id: "api.tls",
    title: "the API endpoint speaks TLS",
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
        PathStep::Tls,
        &["openssl s_client -connect {server} </dev/null      # what answers there"],
        &[id!("kubeadm.discovery-timeout")],
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn judges() {
        step::testing::judges_step(&CHECK, PathStep::Tls);
    }
}
