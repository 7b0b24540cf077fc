//! What a person would paste into a chat: commands and what they printed, one after another.

use std::time::Duration;

use carrick_core::redact::redact;
use serde_json::Value;

use crate::error::{Error, Result};
use crate::fault::{Scene, Typed};
use crate::run::Run;

/// How this person pastes.
pub struct PasteStyle {
    /// Journals with ISO times instead of the usual ones.
    pub iso: bool,
    /// The last command first.
    pub reversed: bool,
    /// A script's banners instead of a shell's prompts.
    pub banners: bool,
}

/// How much of an output is kept: so many lines of its beginning and its end, and never more than so many bytes.
#[derive(Clone, Copy)]
struct Bound {
    first: usize,
    last: usize,
    bytes: usize,
}

const KUBELET: Bound = Bound { first: 150, last: 350, bytes: 80_000 };
const CONTAINERD: Bound = Bound { first: 150, last: 350, bytes: 40_000 };
/// Rules of a firewall, events, logs.
const SOME: Bound = Bound { first: 60, last: 60, bytes: 12_000 };
const WHOLE: Bound = Bound { first: 400, last: 100, bytes: 24_000 };

/// On the machine.
const MACHINE: &[(&str, Bound)] = &[
    ("systemctl status kubelet --no-pager -l", WHOLE),
    ("systemctl cat kubelet --no-pager", WHOLE),
    ("journalctl -u kubelet --no-pager", KUBELET),
    ("systemctl status containerd --no-pager -l", WHOLE),
    ("journalctl -u containerd --no-pager", CONTAINERD),
    ("crictl info", WHOLE),
    ("cat /etc/containerd/config.toml", WHOLE),
    ("ls -la /etc/cni/net.d /opt/cni/bin /etc/kubernetes /var/lib/kubelet/pki /etc/kubernetes/manifests", WHOLE),
    ("cat /etc/cni/net.d/*", WHOLE),
    ("df -h", WHOLE),
    ("df -i", WHOLE),
    ("cat /proc/self/mountinfo", WHOLE),
    ("ip -brief address", WHOLE),
    ("ip route", WHOLE),
    ("ss -ltnp", WHOLE),
    ("cat /proc/swaps", WHOLE),
    ("sysctl net.ipv4.ip_forward net.bridge.bridge-nf-call-iptables", WHOLE),
    ("timedatectl", WHOLE),
    ("iptables -S", SOME),
    ("nft list ruleset", SOME),
];

/// From the control plane; NODE stands for the machine's name.
const CLUSTER: &[(&str, Bound)] = &[
    ("kubectl get nodes -o wide", WHOLE),
    ("kubectl describe node NODE", WHOLE),
    ("kubectl get csr", WHOLE),
    ("kubectl get pods -A -o wide", WHOLE),
    ("kubectl get events -A --sort-by=.lastTimestamp", SOME),
];

/// Runs each line and marks where its output begins; a line whose program is not installed is passed over.
const SCRIPT: &str = "for line in \"$@\"; do
    command -v \"${line%% *}\" >/dev/null || continue
    printf '\\036%s\\n' \"$line\"
    timeout 20 bash -c \"$line\" 2>&1 </dev/null
done; true";
const MARK: char = '\x1e';

/// The whole paste, secrets taken out.
pub fn of(scene: &Scene, manner: &PasteStyle) -> Result<String> {
    let mut sections = scene.typed();
    sections.extend(on_machine(scene, manner)?);
    sections.extend(from_control(scene)?);
    if manner.reversed {
        sections.reverse();
    }
    let text: String = sections.iter().map(|section| printed(section, manner)).collect();
    Ok(redact(&text))
}

fn printed(section: &Typed, manner: &PasteStyle) -> String {
    let Typed { host, line, said, exit } = section;
    let end = if said.is_empty() || said.ends_with('\n') { "" } else { "\n" };
    let (before, after) = if manner.banners {
        let after = exit.map(|code| format!("exit status: {code}\n")).unwrap_or_default();
        (format!("===== [{host}] {line} ====="), format!("{after}\n"))
    } else {
        let after = exit.map(|code| format!("root@{host}:~# echo $?\n{code}\n")).unwrap_or_default();
        (format!("root@{host}:~# {line}"), after)
    };
    format!("{before}\n{said}{end}{after}")
}

fn on_machine(scene: &Scene, manner: &PasteStyle) -> Result<Vec<Typed>> {
    let iso = |line: &str| if manner.iso && line.starts_with("journalctl") { " -o short-iso" } else { "" };
    let lines: Vec<(String, Bound)> =
        MACHINE.iter().map(|(line, bound)| (format!("{line}{}", iso(line)), *bound)).collect();
    let argv = ["bash", "-c", SCRIPT, "bash"].into_iter().chain(lines.iter().map(|(line, _)| line.as_str()));
    let said = scene.machine.run(argv).deadline(Duration::from_mins(5)).ok()?;
    let host = scene.hostname()?;
    let sections = said.split(MARK).filter_map(|section| section.split_once('\n'));
    let typed = sections.filter_map(|(line, said)| {
        let (_, bound) = lines.iter().find(|(typed, _)| typed == line)?;
        Some(Typed { host: host.clone(), line: line.to_owned(), said: bounded(said, *bound), exit: None })
    });
    Ok(typed.collect())
}

fn from_control(scene: &Scene) -> Result<Vec<Typed>> {
    let node = scene.hostname()?;
    let host = scene.lab.site().control_name;
    let mut sections = Vec::new();
    let lines = CLUSTER.iter().map(|(line, bound)| (line.replace("NODE", &node), *bound));
    for (line, bound) in lines.chain(logs(scene, &node)?) {
        let words: Vec<&str> = line.split(' ').skip(1).collect();
        let said = said_within_a_minute(scene.kubectl(&words))?;
        sections.push(Typed { host: host.to_owned(), line, said: bounded(&said, bound), exit: None });
    }
    Ok(sections)
}

/// A person gives up too, at some point.
fn said_within_a_minute(run: Run) -> Result<String> {
    match run.done() {
        Ok(done) => Ok(done.text()),
        Err(Error::Deadline { last, .. }) => Ok(format!("{last}^C\n")),
        Err(error) => Err(error),
    }
}

/// The logs of the node's flannel and kube-proxy, and what they said before they were started again.
fn logs(scene: &Scene, node: &str) -> Result<Vec<(String, Bound)>> {
    let field = format!("spec.nodeName={node}");
    let mut lines = Vec::new();
    for namespace in ["kube-flannel", "kube-system"] {
        let pods = scene.cluster.get(["pods", "-n", namespace, "--field-selector", &field])?;
        for pod in pods["items"].as_array().into_iter().flatten() {
            let name = pod["metadata"]["name"].as_str().unwrap_or_default();
            let line = format!("kubectl logs -n {namespace} {name} --all-containers --tail=60");
            let restarted = statuses(pod).any(|status| status["restartCount"].as_u64() > Some(0));
            lines.extend(restarted.then(|| (format!("{line} --previous"), SOME)));
            lines.push((line, SOME));
        }
    }
    Ok(lines)
}

fn statuses(pod: &Value) -> impl Iterator<Item = &Value> {
    pod["status"]["containerStatuses"].as_array().into_iter().flatten()
}

/// The beginning and the end of a text, with a line in between that says what was left out.
fn bounded(text: &str, bound: Bound) -> String {
    let lines: Vec<&str> = text.lines().collect();
    // The end tells more: it gets what the beginning leaves of the bytes, and at least two thirds.
    let first = fitting(lines.iter(), bound.first, bound.bytes / 3);
    let used: usize = lines.iter().take(first).map(|line| line.len() + 1).sum();
    let rest = lines.get(first..).unwrap_or_default();
    let last = fitting(rest.iter().rev(), bound.last, bound.bytes.saturating_sub(used));
    let left_out = rest.len() - last;
    if left_out == 0 {
        return text.to_owned();
    }
    let beginning = lines.iter().take(first).copied();
    let note = format!(
        "[... {left_out} of {} lines left out: the first {first} and the last {last} are here ...]",
        lines.len()
    );
    let kept = beginning.chain([note.as_str()]).chain(rest.iter().skip(left_out).copied());
    kept.flat_map(|line| [line, "\n"]).collect()
}

/// How many lines fit into so many bytes.
fn fitting<'a>(lines: impl Iterator<Item = &'a &'a str>, most: usize, bytes: usize) -> usize {
    let mut room = bytes;
    let fits = |line: &&&str| {
        let left = room.checked_sub(line.len() + 1);
        room = left.unwrap_or_default();
        left.is_some()
    };
    lines.take(most).take_while(fits).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_output_keeps_its_beginning_and_its_end() {
        let bound = |first, last, bytes| Bound { first, last, bytes };
        for (text, bound, expected) in [
            ("", bound(1, 1, 100), ""),
            ("a\nb\n", bound(1, 1, 100), "a\nb\n"),
            (
                "a\nb\nc\n",
                bound(1, 1, 100),
                "a\n[... 1 of 3 lines left out: the first 1 and the last 1 are here ...]\nc\n",
            ),
            (
                "aaaaaaaa\nb\n",
                bound(1, 1, 6),
                "[... 1 of 2 lines left out: the first 0 and the last 1 are here ...]\nb\n",
            ),
            (
                "a\nb\nc\nd\n",
                bound(9, 9, 6),
                "a\n[... 1 of 4 lines left out: the first 1 and the last 2 are here ...]\nc\nd\n",
            ),
        ] {
            assert_eq!(bounded(text, bound), expected, "{text:?}");
        }
    }
}
