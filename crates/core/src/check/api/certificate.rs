//! The API server's certificate is made by the cluster's CA, for this endpoint, and valid at this machine's time.
//!
//! A name or address that is not in the certificate (another network card, a NAT address, a new load balancer), a clock
//! that is off by more than the certificate's age, or an expired certificate all end here.
//!
//! See it yourself: `openssl s_client -connect HOST:PORT </dev/null | openssl x509 -noout -dates -ext subjectAltName`
//! Fix: use an endpoint that is in the certificate, or renew it with the name in certSANs; set the clock.

use crate::catalogue::{Class, Role, Stops};
use crate::check::{Check, CheckPolicy, FixedBy, InJoin, Needed, Subsystem, Verdict, step};
use crate::fact::api_path::PathStep;
use crate::fact::{Facts, Known};
use crate::id;

pub const CHECK: Check = Check {
    id: "api.certificate",
    title: "the API server's certificate is good for this endpoint",
    subsystem: Subsystem::ControlPlane,
    kubeadm: &[],
    class: Class::Configuration,
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
        PathStep::Certificate,
        &["openssl s_client -connect {server} </dev/null | openssl x509 -noout -dates -ext subjectAltName"],
        &[id!("kubeadm.discovery-timeout")],
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn judges() {
        step::testing::judges_step(&CHECK, PathStep::Certificate);
    }
}
