//! The API server the tests of other crates start for themselves: it is one, it is ready in seconds, and it dies with them.

use std::time::Instant;

use carrick_testkit::{Api, node};

use super::{Bench, Case};
use crate::demand;
use crate::error::{During, Error, Result};
use crate::need::Need;
use crate::tier::Tier;

pub const CASE: Case = Case {
    about: "the testkit's API server takes a real Node, refuses a stranger, writes an audit log, and ends with its owner",
    tier: Tier::Full,
    covers: &[],
    needs: &[Need::ApiServer],
    run,
};

fn run(bench: &mut Bench) -> Result<()> {
    let begun = Instant::now();
    let mut api = Api::start().map_err(told)?;
    bench.time("ready", begun.elapsed());
    let ended = talk(bench, &api);
    if ended.is_err() {
        bench.say(format_args!("the API server's logs are in {}", api.keep_logs().display()));
    }
    let url = api.url().to_owned();
    drop(api);
    let address = url.trim_start_matches("https://").to_owned();
    demand!(std::net::TcpStream::connect(&address).is_err(), "it still listens at {url}");
    ended
}

fn talk(bench: &mut Bench, api: &Api) -> Result<()> {
    let file = bench.logs.join("node.json");
    std::fs::write(&file, node(7).to_string()).at("write", &file)?;
    api.kubectl(&["create", "-f", &file.display().to_string()]).map_err(told)?;
    let name = api.kubectl(&["get", "nodes", "-o", "name"]).map_err(told)?;
    demand!(name.trim() == "node/worker-00007", "it has {name:?}");
    let stranger = api.kubectl(&["get", "nodes", "--token", api.nobody_token()]).err().map(|error| error.to_string());
    demand!(stranger.as_ref().is_some_and(|said| said.contains("Forbidden")), "a stranger was told {stranger:?}");
    let audit = api.audit().map_err(told)?;
    let created = audit.iter().any(|event| {
        event["verb"] == "create" && event["objectRef"]["resource"] == "nodes" && event["user"]["username"] == "admin"
    });
    demand!(created, "the audit log does not tell who made the node ({} events)", audit.len());
    Ok(())
}

#[allow(clippy::needless_pass_by_value, reason = "the shape map_err wants")]
fn told(error: carrick_testkit::Error) -> Error {
    Error::Said(error.to_string())
}
