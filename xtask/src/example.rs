//! The example machine: what `carrick collect` saw of a healthy worker in the lab, as one JSON file.

use std::path::Path;

use anyhow::Context;
use carrick_core::fact::record;
use carrick_host::bundle;

pub fn run(path: &Path) -> anyhow::Result<()> {
    let facts = bundle::open(path).with_context(|| path.display().to_string())?;
    println!("{}", record::to_json(&facts)?);
    Ok(())
}
