//! The kubelet among what runs: `ps aux`, `ps -ef`, `pgrep -a`, in the words of `ps -o pid=,args=`.

use super::section::{Body, Harvest};
use crate::fact::{Capture, Source, process};

/// Where the program stands in a row: of `pgrep -a` and `ps -o pid,args`, `ps ax`, `ps -ef`, `ps aux`.
const COLUMNS: [(usize, usize); 4] = [(0, 1), (0, 4), (1, 7), (1, 10)];

pub(super) fn read(body: &Body, harvest: &mut Harvest) {
    let key = Source::Query(&process::KUBELET).key();
    let found = body.lines.iter().filter_map(|(number, line)| Some((*number, kubelet(line)?)));
    let found: Vec<(u64, String)> = found.collect();
    if let Some((first, _)) = found.first() {
        let text = found.iter().flat_map(|(_, row)| [row.as_str(), "\n"]).collect();
        harvest.segments.push(body.told(key, *first, text));
    } else if body.lines.iter().any(|(_, line)| line.contains("grep") && line.contains("kubelet")) {
        // `ps aux | grep kubelet` found itself, and nothing else.
        let nothing = Capture { exit: Some(1), ..Capture::default() };
        harvest.segments.push(super::Segment { capture: Ok(nothing), ..body.told(key, body.first, String::new()) });
    }
}

/// A kubelet's row. One that may be cut off at the terminal's edge proves only what it shows.
fn kubelet(line: &str) -> Option<String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let column = |(pid, program): &(usize, usize)| {
        let pid: u32 = words.get(*pid)?.parse().ok()?;
        let rest = words.get(*program..)?;
        let name = rest.first()?.rsplit('/').next()?;
        (name == "kubelet").then_some((pid, rest))
    };
    let (pid, rest) = COLUMNS.iter().find_map(column)?;
    let whole = rest.len() == 1 || rest.iter().any(|word| word.starts_with("--kubeconfig"));
    whole.then(|| format!("{pid} {}", rest.join(" ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_kubelet() {
        for (line, expected) in [
            (
                "root      369269  2.1  1.0 1234 567 ?  Ssl  16:03   0:01 /usr/bin/kubelet",
                Some("369269 /usr/bin/kubelet"),
            ),
            (
                "root  812  1  0 16:03 ? 00:00:01 /usr/bin/kubelet --kubeconfig=/a --v=2",
                Some("812 /usr/bin/kubelet --kubeconfig=/a --v=2"),
            ),
            ("812 /usr/bin/kubelet", Some("812 /usr/bin/kubelet")),
            ("root  812  1  0 16:03 ? 00:00:01 /usr/bin/kubelet --bootstrap-kubeconfig=/etc/kube", None),
            ("root  900  1  0 16:03 ? 00:00:01 grep --color=auto kubelet", None),
        ] {
            assert_eq!(kubelet(line).as_deref(), expected, "{line}");
        }
    }
}
