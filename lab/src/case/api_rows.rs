//! The testkit's API server in memory, held against the cluster's own: every row of its table, played to both.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use carrick_testkit::memory_api::rows::{self, RowServer as _};
use carrick_testkit::memory_api::tls::Https;
use carrick_testkit::{Authority, MemoryApi};
use jiff::Timestamp;

use super::{Bench, Case};
use crate::demand;
use crate::error::{During, Error, Result};
use crate::machine::Machine;
use crate::need::Need;
use crate::tier::Tier;

pub const CASE: Case = Case {
    about: "what the testkit's API server in memory answers is what kubeadm's API server answers, row by row",
    tier: Tier::Quick,
    covers: &[],
    needs: &[Need::Cluster],
    run,
};

const PKI: &str = "/etc/kubernetes/pki";
/// A compaction of what a lab has written is over at once.
const COMPACTION: Duration = Duration::from_secs(30);

fn run(bench: &mut Bench) -> Result<()> {
    let control = Arc::clone(&bench.cluster()?.control);
    let certificate = control.read(&format!("{PKI}/ca.crt"))?;
    // kubeadm writes the older form of a key, which Rust's signers do not read.
    let key = control.ok(["openssl", "pkcs8", "-topk8", "-nocrypt", "-in", &format!("{PKI}/ca.key")])?;
    let authority = Authority::of(&certificate, &key).during(|| "cannot use the cluster's CA".to_owned())?;
    let address = SocketAddr::from((bench.lab.site().control(), 6443));
    let real = Https::real(address, &authority, Box::new(move |revision| compact(&control, revision)));
    let real = real.during(|| "cannot make certificates".to_owned())?.busy();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.during(|| "cannot start a runtime".to_owned())?;
    let begun = Instant::now();
    let different = runtime.block_on(async {
        let memory = MemoryApi::new(Timestamp::now);
        for ask in rows::prelude() {
            memory.send(ask.who, ask.request(&[])?).await?;
        }
        rows::compare(&memory, &real).await
    });
    let different = different.map_err(Error::Said)?;
    let rows = rows::all();
    let asks: usize = rows.iter().map(|row| row.asks.len()).sum();
    bench.say(format_args!("{} rows of {asks} requests were played to both", rows.len()));
    bench.time(format!("{} rows, {asks} requests", rows.len()), begun.elapsed());
    demand!(different.is_empty(), "in memory, then the cluster:\n{}", different.join("\n"));
    Ok(())
}

/// Has the cluster's etcd forget what was before a revision.
fn compact(control: &Machine, revision: &str) -> std::result::Result<(), String> {
    let body = format!(r#"{{"revision":"{revision}","physical":true}}"#);
    let file = |name: &str| format!("{PKI}/etcd/{name}");
    let argv = [
        "curl",
        "-sS",
        "--fail",
        "--cacert",
        &file("ca.crt"),
        "--cert",
        &file("server.crt"),
        "--key",
        &file("server.key"),
        "--data",
        &body,
        "https://127.0.0.1:2379/v3/kv/compaction",
    ];
    let done = control.run(argv).deadline(COMPACTION).ok();
    done.map(drop).map_err(|error| error.to_string())
}
