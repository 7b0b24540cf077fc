//! A firewall between the machine and the API server swallows everything.

use super::Fault;
use crate::machine::Kind;
use crate::tier::Tier;

pub const FAULT: Fault = Fault {
    about: "packets to the API server are dropped",
    cause: "api.tcp",
    tier: Tier::Full,
    on: Kind::Debian12,
    also: &[],
    put_in: |scene| {
        let control = scene.lab.site().control().to_string();
        scene.on(&["iptables", "-I", "OUTPUT", "-d", &control, "-p", "tcp", "--dport", "6443", "-j", "DROP"]).map(drop)
    },
    shows: |scene| {
        let joined = scene.join_fails()?;
        joined.says("couldn't validate the identity of the API Server")?.took(10, 60)?;
        scene.has_files(&["/etc/kubernetes/pki/ca.crt"], false)?;
        scene.no_node()
    },
    fixes: None,
};
