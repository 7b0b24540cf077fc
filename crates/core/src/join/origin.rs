//! Where what a kubelet refuses is written down: the file to edit, out of the words it ended with.
//!
//! Nothing is known of the sentence but what it is made of: flags, names, paths. What of these stands in the kubelet's own
//! command line or configuration is the place.

use crate::check::Evidence;
use crate::fact::unit::{CommandLine, Word};
use crate::fact::{Facts, kubelet_config};

/// Shorter words are too many things.
const SHORTEST_NAME: usize = 5;

/// A place, and the commands that set it right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    pub seen: Evidence,
    pub remedy: Vec<String>,
}

/// The place that the words of a kubelet lead to, the surest first: a flag, a feature gate, a file of `--config-dir`, a key of
/// its configuration. `laid_over`: the files of `--config-dir`, by their paths.
pub fn of(words: &str, facts: &Facts, laid_over: &[(String, String)]) -> Option<Origin> {
    let command = facts.kubelet_command().ok();
    let command = command.as_ref();
    command
        .and_then(|command| of_flag(words, command))
        .or_else(|| command.and_then(|command| of_gate(words, command)))
        .or_else(|| laid_over.iter().find_map(|file| of_file(words, file)))
        .or_else(|| of_key(words, facts))
}

fn of_flag(words: &str, command: &CommandLine) -> Option<Origin> {
    let is_flag = |word: &&str| word.starts_with("--") && word.len() > 2;
    let end =
        |word: &str| word.find(|letter: char| !(letter.is_ascii_alphanumeric() || letter == '-')).unwrap_or(word.len());
    let named =
        words.split(|letter: char| letter.is_whitespace() || matches!(letter, '"' | '(' | '\\')).filter(is_flag);
    let mut named = named.filter_map(|word| word.get(..end(word)));
    let word = named.find_map(|name| command.words.iter().rfind(|word| word.flag_name() == Some(name)))?;
    let name = word.flag_name()?;
    Some(edited(word, &format!("s/{name}\\(=[^ \"]*\\)\\{{0,1\\}}//")))
}

/// `--feature-gates=A=true,B=false`
fn of_gate(words: &str, command: &CommandLine) -> Option<Origin> {
    let (gates, word) = command.flag("--feature-gates")?;
    let gate =
        gates.split(',').filter_map(|gate| gate.split('=').next()).find(|gate| names(words).any(|it| it == *gate))?;
    Some(edited(word, &format!("s/{gate}=[a-z]*,\\{{0,1\\}}//")))
}

/// An edit of the file in which a word of the command line stands.
fn edited(word: &Word, expression: &str) -> Origin {
    let file = &word.seen.source;
    let mut remedy = vec![format!("sed -i '{expression}' {file}")];
    // Of systemd's own, not an environment file.
    if file.contains("/systemd/") {
        remedy.push("systemctl daemon-reload".to_owned());
    }
    Origin { seen: word.seen.clone(), remedy }
}

/// A line of config.yaml. kubeadm writes it at every join, from what the cluster has for all nodes.
fn of_key(words: &str, facts: &Facts) -> Option<Origin> {
    let (line, text) = named_key(words, &facts.file(kubelet_config::FILE).ok()?.text)?;
    let remedy =
        "kubectl -n kube-system edit configmap kubelet-config    # kubeadm writes config.yaml from it at every join";
    Some(Origin { seen: Evidence::at(kubelet_config::FILE, line, text), remedy: vec![remedy.to_owned()] })
}

/// A file of `--config-dir`: by its name, or by a key of it.
fn of_file(words: &str, (path, text): &(String, String)) -> Option<Origin> {
    let key = named_key(words, text);
    if !words.contains(path.as_str()) && key.is_none() {
        return None;
    }
    let seen = match key {
        Some((line, text)) => Evidence::at(path, line, text),
        None => Evidence::of(path, "a file of --config-dir, and the one that the kubelet refuses"),
    };
    let remedy = format!("mv {path} {path}.off    # or correct it: of --config-dir the kubelet reads *.conf alone");
    Some(Origin { seen, remedy: vec![remedy] })
}

/// The first line of a configuration whose key the words name.
fn named_key<'t>(words: &str, text: &'t str) -> Option<(u32, &'t str)> {
    let key_of =
        |line: &'t str| line.trim_start_matches(['-', ' ']).split_once(':').map(|(key, _)| key.trim_matches('"'));
    let is_named = |key: &str| key.len() >= SHORTEST_NAME && names(words).any(|it| it.eq_ignore_ascii_case(key));
    let mut lines = (1u32..).zip(text.lines());
    lines.find(|(_, line)| key_of(line).is_some_and(is_named)).map(|(number, line)| (number, line.trim()))
}

/// The names in a sentence.
fn names(words: &str) -> impl Iterator<Item = &str> {
    words.split(|letter: char| !letter.is_ascii_alphanumeric()).filter(|name| name.len() >= SHORTEST_NAME)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fact::unit::{DEFAULTS, KUBEADM_FLAGS, KUBELET, SYSCONFIG, sample};
    use crate::testing::facts;
    use proptest::prelude::*;

    fn machine(extra: &str, drop_in: &str) -> Facts {
        let unit = if drop_in.is_empty() {
            sample::packaged()
        } else {
            sample::with_drop_in("/etc/systemd/system/kubelet.service.d/my.conf", drop_in)
        };
        facts()
            .with_query(&KUBELET, &unit)
            .with_file(KUBEADM_FLAGS, "KUBELET_KUBEADM_ARGS=\"--node-ip=10.0.0.21\"\n")
            .with_file(DEFAULTS, &format!("# mine\nKUBELET_EXTRA_ARGS={extra}\n"))
            .without_file(SYSCONFIG)
            .with_file(kubelet_config::FILE, "kind: KubeletConfiguration\nfeatureGates:\n  Bogus: true\nmaxPods: lots\nnodeStatusUpdateFrequency: 0s\n")
    }

    #[test]
    fn the_file_to_edit_is_found() {
        let (defaults, config) = (DEFAULTS, kubelet_config::FILE);
        let laid_over =
            [("/etc/kubelet.d/10-x.conf".to_owned(), "kind: KubeletConfiguration\nevictionHard: 1\n".to_owned())];
        let with_dir = machine("--config-dir=/etc/kubelet.d", "");
        assert_eq!(with_dir.kubelet_config_dir().as_deref(), Some("/etc/kubelet.d"));
        for (name, words, facts, place) in [
            (
                "a flag",
                "failed to parse kubelet flag: unknown flag: --bogus",
                machine("--v=2 --bogus=1", ""),
                Some((defaults, Some(2))),
            ),
            (
                "a flag's value",
                "failed to parse kubelet flag: invalid argument \"maybe\" for \"--fail-swap-on\" flag: strconv.ParseBool",
                machine("\"--fail-swap-on=maybe\"", ""),
                Some((defaults, Some(2))),
            ),
            (
                "in a drop-in",
                "unknown flag: --bogus",
                machine("", "[Service]\nExecStart=\nExecStart=/usr/bin/kubelet --bogus\n"),
                Some(("/etc/systemd/system/kubelet.service.d/my.conf", Some(3))),
            ),
            ("what kubeadm wrote", "unknown flag: --node-ip", machine("", ""), Some((KUBEADM_FLAGS, Some(1)))),
            (
                "a gate of the command line",
                "failed to set feature gates from initial flags-based config: unrecognized feature gate: Other",
                machine("--feature-gates=NodeSwap=true,Other=true", ""),
                Some((defaults, Some(2))),
            ),
            (
                "a gate of config.yaml",
                "failed to set feature gates from initial flags-based config: unrecognized feature gate: Bogus",
                machine("", ""),
                Some((config, Some(3))),
            ),
            (
                "a key, as the kubelet spells it",
                "failed to validate kubelet configuration, error: invalid configuration: NodeStatusUpdateFrequency (--node-status-update-frequency) must be greater than 0",
                machine("", ""),
                Some((config, Some(5))),
            ),
            (
                "a file of its own",
                "failed to merge kubelet configs: failed to walk through kubelet dropin directory \"/etc/kubelet.d\": failed to load kubelet dropin file, path: /etc/kubelet.d/10-x.conf, error: cannot unmarshal string",
                machine("--config-dir=/etc/kubelet.d", ""),
                Some(("/etc/kubelet.d/10-x.conf", None)),
            ),
            (
                "a key of a file of its own",
                "failed to merge kubelet configs: json: cannot unmarshal string into Go struct field KubeletConfiguration.evictionHard of type int32",
                machine("--config-dir=/etc/kubelet.d", ""),
                Some(("/etc/kubelet.d/10-x.conf", Some(2))),
            ),
            (
                "a file of somebody else's",
                "open /run/systemd/resolve/resolv.conf: no such file",
                machine("--config-dir=/etc/kubelet.d", ""),
                None,
            ),
            (
                "nothing that is here",
                "failed to run Kubelet: running with swap on is not supported",
                machine("", ""),
                None,
            ),
            ("nothing is known", "unknown flag: --bogus", facts(), None),
        ] {
            let found = of(words, &facts, &laid_over);
            let seen = found.as_ref().map(|it| (it.seen.source.as_str(), it.seen.line));
            assert_eq!(seen, place, "{name}: {found:?}");
            assert!(
                found.is_none_or(|it| it
                    .remedy
                    .iter()
                    .any(|line| line.contains(&it.seen.source) || line.contains("kubelet-config"))),
                "{name}"
            );
        }
        let gate =
            of("unrecognized feature gate: Other", &machine("--feature-gates=NodeSwap=true,Other=true", ""), &[]);
        assert_eq!(gate.unwrap().remedy, ["sed -i 's/Other=[a-z]*,\\{0,1\\}//' /etc/default/kubelet"]);
    }

    proptest! {
        #[test]
        fn any_words_may_be_the_last(words in "(--bogus|/etc/x\\.conf|\"|=|Bogus|.)*") {
            let file = ("/etc/x.conf".to_owned(), words.clone());
            let _ = of(&words, &machine("--bogus --feature-gates=Bogus=true", ""), &[file]);
        }
    }
}
