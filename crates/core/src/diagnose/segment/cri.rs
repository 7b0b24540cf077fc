//! What the runtime says: `crictl info`, its versions; and JSON that says itself what it is.

use serde_json::Value;

use super::file::Nameless;
use super::section::{Body, Harvest};
use crate::fact::cri::is_printed_as_unimplemented;
use crate::fact::{Source, Why, version};

const STATUS: Source = Source::Cri("status");

pub(super) fn read_info(body: &Body, harvest: &mut Harvest) {
    if let Some(document) = document(body) {
        harvest.segments.push(document.whole(STATUS.key()));
    } else if let Some((line, why)) = failure(body) {
        harvest.segments.push(body.refused(STATUS.key(), line, why));
    }
}

/// The JSON in it: a warning of crictl's may stand above.
fn document(body: &Body) -> Option<Body> {
    let from = body.lines.iter().position(|(_, line)| line.trim_start().starts_with('{'))?;
    let document = body.part(from, body.lines.len());
    serde_json::from_str::<serde::de::IgnoredAny>(&document.text()).is_ok().then_some(document)
}

/// What a crictl that was not answered says, in the words of whoever asks the socket itself. Without a configuration it
/// tries several sockets: of several reasons the one that is not "no such file" is about the runtime that is here.
fn failure(body: &Body) -> Option<(u64, Why)> {
    let fatal = |line: &str| ["FATA", "level=fatal", "rpc error"].iter().any(|words| line.contains(words));
    let failed: Vec<&(u64, String)> = body.lines.iter().filter(|(_, line)| fatal(line)).collect();
    let (number, first) = failed.first()?;
    let said = |words: &str| failed.iter().any(|(_, line)| line.contains(words));
    let why = if failed.iter().any(|(_, line)| is_printed_as_unimplemented(line)) {
        Why::Unimplemented("unknown service runtime.v1.RuntimeService".to_owned())
    } else if said("connection refused") {
        Why::Broken("connection refused".to_owned())
    } else if said("permission denied") {
        Why::Denied
    } else if said("DeadlineExceeded") || said("context deadline exceeded") {
        Why::TimedOut
    } else if said("no such file or directory") {
        Why::Absent
    } else {
        Why::Broken(first.trim().chars().take(SHOWN).collect())
    };
    Some((*number, why))
}

/// An error's beginning: enough to say what it is about.
const SHOWN: usize = 300;

pub(super) fn read_runtime_config(body: &Body, harvest: &mut Harvest) {
    if let Some(document) = document(body) {
        harvest.segments.push(document.whole(Source::Cri("runtime-config").key()));
    }
}

/// A document by itself: the runtime's status, or a configuration of CNI.
pub(super) fn read_json(body: &Body, harvest: &mut Harvest) {
    let Ok(root) = serde_json::from_str::<Value>(&body.text()) else { return };
    let of_cluster = root.get("apiVersion").is_some() || root.get("kind").is_some();
    let conditions = root.pointer("/status/conditions").and_then(Value::as_array).into_iter().flatten();
    let is_status = conditions.filter_map(|it| it.get("type")).any(|kind| kind == "RuntimeReady");
    let is_cni = root.get("cniVersion").is_some() && (root.get("plugins").is_some() || root.get("type").is_some());
    if is_status && !of_cluster {
        harvest.segments.push(body.whole(STATUS.key()));
    } else if is_cni {
        harvest.nameless.push(Nameless::cni(body.part(0, body.lines.len())));
    }
}

/// `RuntimeName:  containerd`, `RuntimeVersion:  1.6.20~ds1`.
pub(super) fn read_crictl_version(body: &Body, harvest: &mut Harvest) {
    let value = |key: &str| {
        body.lines.iter().find_map(|(number, line)| Some((*number, line.trim().strip_prefix(key)?.trim().to_owned())))
    };
    if let (Some((_, name)), Some((line, version))) = (value("RuntimeName:"), value("RuntimeVersion:"))
        && name == "containerd"
    {
        harvest.segments.push(containerd(body, line, &version));
    }
}

/// The server's version is containerd's; the client's is ctr's own.
pub(super) fn read_ctr_version(body: &Body, harvest: &mut Harvest) {
    let server = body.lines.iter().skip_while(|(_, line)| line.trim() != "Server:");
    let found = server.clone().find_map(|(number, line)| Some((*number, line.trim().strip_prefix("Version:")?)));
    if let Some((line, version)) = found {
        harvest.segments.push(containerd(body, line, version.trim()));
    }
}

fn containerd(body: &Body, line: u64, version: &str) -> super::Segment {
    body.told(Source::Query(&version::CONTAINERD).key(), line, format!("containerd containerd {version}\n"))
}
