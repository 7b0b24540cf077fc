//! `carrick join` beside plain `kubeadm join`: measured, judged and told by the lab, which has the machines.

use std::ffi::OsString;

use super::release_binary;

pub fn join(runs: usize, lab: Option<&str>) -> anyhow::Result<()> {
    let carrick = release_binary()?;
    let mut words: Vec<OsString> = vec!["bench-join".into(), "--runs".into(), runs.to_string().into()];
    words.extend(["--carrick".into(), carrick.into_os_string()]);
    words.extend(lab.into_iter().flat_map(|lab| ["--lab".into(), lab.into()]));
    Err(crate::lab::run(&words).into())
}
