//! Nothing listens where the API server should: a wrong address, or it is down.

use super::Fault;
use crate::machine::Kind;
use crate::tier::Tier;

pub const FAULT: Fault = Fault {
    about: "connections to the API server are refused",
    cause: "api.tcp",
    tier: Tier::Full,
    on: Kind::Debian12,
    also: &[],
    put_in: |scene| {
        let control = scene.lab.site().control().to_string();
        let rule = [
            "iptables",
            "-I",
            "OUTPUT",
            "-d",
            &control,
            "-p",
            "tcp",
            "--dport",
            "6443",
            "-j",
            "REJECT",
            "--reject-with",
            "tcp-reset",
        ];
        scene.on(&rule).map(drop)
    },
    shows: |scene| {
        let joined = scene.join_fails()?;
        joined.says("connect: connection refused")?.took(10, 60)?;
        scene.no_node()
    },
    fixes: None,
};
