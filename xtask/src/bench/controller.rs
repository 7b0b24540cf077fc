//! `carrick controller` on a real API server: measured, judged and told by the lab, which has the programs.

use std::ffi::OsString;

use super::release_binary;

pub fn controller(nodes: &[u32], rounds: u32, steady: u64) -> anyhow::Result<()> {
    let carrick = release_binary()?;
    let nodes: Vec<String> = nodes.iter().map(u32::to_string).collect();
    let mut words: Vec<OsString> = vec!["bench-controller".into(), "--nodes".into(), nodes.join(",").into()];
    words.extend(["--rounds".into(), rounds.to_string().into(), "--steady".into(), steady.to_string().into()]);
    words.extend(["--carrick".into(), carrick.into_os_string()]);
    Err(crate::lab::run(&words).into())
}
