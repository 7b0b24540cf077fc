//! The API server answers, only too late: every connection to it waits in a relay (there is no netem everywhere).

use std::time::Duration;

use super::Fault;
use crate::machine::Kind;
use crate::tier::Tier;

pub const FAULT: Fault = Fault {
    about: "every connection to the API server takes 20 s to be answered",
    cause: "api.slow",
    tier: Tier::Full,
    on: Kind::Debian12,
    also: &[],
    put_in: |scene| scene.relay(&format!("SYSTEM:\"sleep 20; socat - TCP:{}:6443\"", scene.lab.site().control()), &[]),
    shows: |scene| {
        let joined = scene.join_fails()?;
        joined.says("couldn't validate the identity of the API Server")?.took(10, 60)?;
        let url = format!("https://{}:6443/version", scene.lab.site().control());
        let asked = scene.machine.run(["curl", "-sSk", "-m", "50", &url]).done()?;
        scene.holds("the API server answers in the end", asked.status.success(), asked.text())?;
        scene.holds("it answers late", asked.took > Duration::from_secs(18), format_args!("{:?}", asked.took))
    },
    fixes: None,
};
