//! /etc/sysctl.d/zzz-carrick.conf sets forwarding, and iptables' view of bridged packets, to 1: those of them that nothing sets
//! or that another file sets otherwise. It is read after the others; a line of /etc/sysctl.conf that says otherwise is commented
//! out. `carrick undo` removes the file and puts the line back.

use super::{Fix, forwarding};

pub const FIX: Fix = Fix {
    fixes: &["kernel.sysctl-after-boot"],
    does: "sets it in /etc/sysctl.d, after all others",
    plan: forwarding::at_boot,
};
