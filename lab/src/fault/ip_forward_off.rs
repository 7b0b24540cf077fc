//! The machine does not forward packets.

use super::Fault;
use crate::machine::Kind;
use crate::tier::Tier;

pub const FAULT: Fault = Fault {
    about: "net.ipv4.ip_forward is 0",
    cause: "kernel.ip-forward",
    tier: Tier::Full,
    on: Kind::Debian12,
    also: &[],
    put_in: |scene| scene.on(&["sysctl", "-qw", "net.ipv4.ip_forward=0"]).map(drop),
    shows: |scene| {
        let joined = scene.join_fails()?;
        joined.says("[ERROR FileContent--proc-sys-net-ipv4-ip_forward]: /proc/sys/net/ipv4/ip_forward contents are not set to 1")?.took(0, 15)?;
        Ok(())
    },
    fixes: None,
};
