//! Something else listens on the kubelet's port.

use super::Fault;
use crate::machine::Kind;
use crate::tier::Tier;

pub const FAULT: Fault = Fault {
    about: "port 10250 is taken by another program",
    cause: "network.ports",
    tier: Tier::Full,
    on: Kind::Debian12,
    also: &[],
    put_in: |scene| {
        scene.on(&[
            "systemd-run",
            "--quiet",
            "--unit=squatter",
            "socat",
            "TCP-LISTEN:10250,fork,reuseaddr",
            "EXEC:/bin/true",
        ])?;
        scene.script("for i in $(seq 50); do ss -ltn | grep -q ':10250 ' && exit 0; sleep 0.1; done; exit 1").map(drop)
    },
    shows: |scene| {
        scene.join_fails()?.says("[ERROR Port-10250]: Port 10250 is in use")?.took(0, 10)?;
        let holder = scene.script("ss -ltnp | grep ':10250 '")?;
        scene.holds("socat has the port", holder.contains("socat"), holder)
    },
    fixes: None,
};
