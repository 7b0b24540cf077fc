//! The machine's clock is years behind the cluster's: to it, the API server's certificate is of the future. The kernel's clock is
//! shared, so it is the certificate that is shifted, by a relay of this machine's own; the cluster's authority signs it.

use super::Fault;
use crate::machine::Kind;
use crate::tier::Tier;

pub const FAULT: Fault = Fault {
    about: "the machine's clock is behind: the API server's certificate is not valid yet",
    cause: "time.skew",
    tier: Tier::Full,
    on: Kind::Debian12,
    also: &[],
    put_in: |scene| {
        let script = include_str!("../../files/future-certificate.sh");
        let certificate = scene
            .cluster
            .control
            .run(["sh", "-ec", script, "lab", scene.node_name(), &scene.lab.site().control().to_string()])
            .ok()?;
        scene.machine.write("/etc/future.pem", &certificate)?;
        let upstream = format!("OPENSSL:{}:6443,verify=0", scene.lab.site().control());
        scene.relay(&upstream, &["cert=/etc/future.pem", "verify=0"])
    },
    shows: |scene| {
        let joined = scene.join_fails()?;
        joined.says("x509: certificate has expired or is not yet valid: current time")?;
        joined.says("is before 2040-01-01T00:00:00Z")?.took(10, 60)?;
        scene.no_node()
    },
    fixes: None,
};
