//! The line of `kubeadm token create --print-join-command`, as people hand it on: with a prompt or `sudo` before it,
//! broken over lines, in quotes, with other output around it.

use super::{BadInput, Request, all, node_name, parsed};
use crate::discovery::Token;
use crate::fact::unit::split_words;

/// How messages call the whole of it.
const LINE: &str = "the join line";

/// The words after `--`: a command as the shell took it apart, or all of it in one quoted word.
pub fn from_args(args: &[String]) -> Result<Request, BadInput> {
    match args {
        [] => Err(BadInput::of(LINE, "nothing is given after --")),
        [text] => from_text(text),
        words => from_words(words),
    }
}

/// A text with one join line in it.
pub fn from_text(text: &str) -> Result<Request, BadInput> {
    let logical = text.replace('\r', "");
    let logical: Vec<String> = unfolded(&logical);
    let mut lines = logical.iter().map(|line| split_words(unquoted(line))).filter(|words| command(words).is_some());
    match (lines.next(), lines.next()) {
        (Some(words), None) => from_words(&words),
        (Some(_), Some(_)) => Err(BadInput::of(LINE, "there are several; give the one for workers")),
        (None, _) => Err(BadInput::of(
            LINE,
            "no \"kubeadm join\" in it; print one on the control plane: kubeadm token create --print-join-command",
        )),
    }
}

/// Lines, with those that end in a backslash put together.
fn unfolded(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut open = false;
    for line in text.lines() {
        let trimmed = line.trim();
        let (part, more) = trimmed.strip_suffix('\\').map_or((trimmed, false), |part| (part, true));
        match lines.last_mut().filter(|_| open) {
            Some(last) => {
                last.push(' ');
                last.push_str(part);
            }
            None => lines.push(part.to_owned()),
        }
        open = more;
    }
    lines
}

/// A line without the quotes around all of it.
fn unquoted(line: &str) -> &str {
    ['"', '\'', '`']
        .into_iter()
        .find_map(|quote| line.strip_prefix(quote)?.strip_suffix(quote).filter(|inner| !inner.contains(quote)))
        .unwrap_or(line)
}

/// What stands after `kubeadm join`, and what before.
fn command(words: &[String]) -> Option<(&[String], &[String])> {
    let is_kubeadm = |word: &String| word.rsplit('/').next() == Some("kubeadm");
    let at = words.windows(2).position(|pair| matches!(pair, [a, b] if is_kubeadm(a) && b == "join"))?;
    Some((words.get(..at)?, words.get(at + 2..)?))
}

fn from_words(words: &[String]) -> Result<Request, BadInput> {
    let (before, after) = command(words).ok_or_else(|| BadInput::of(LINE, "it does not begin with kubeadm join"))?;
    if let Some(stranger) = stranger(before) {
        return Err(BadInput::of(LINE, format!("{stranger:?} stands before kubeadm join")));
    }
    let mut said = Said::default();
    let mut words = after.iter();
    while let Some(word) = words.next() {
        if let Some(flag) = word.strip_prefix("--").filter(|flag| !flag.is_empty()) {
            let (name, value) = flag.split_once('=').map_or((flag, None), |(name, value)| (name, Some(value)));
            said.take(name, value, &mut words)?;
        } else if let Some(level) = word.strip_prefix("-v") {
            if level.is_empty() {
                words.next();
            }
        } else if word.starts_with('-') {
            return Err(unknown(word));
        } else {
            said.place(word)?;
        }
    }
    said.request()
}

/// Before the command may stand a prompt, `sudo` with its flags, and variables; the first word that is none of them.
fn stranger(before: &[String]) -> Option<&String> {
    let prompt = before.iter().rposition(|word| word.ends_with(['$', '#', '>'])).map_or(0, |at| at + 1);
    let rest = before.get(prompt..).unwrap_or_default();
    rest.iter().find(|word| !(word.as_str() == "sudo" || word.starts_with('-') || word.contains('=')))
}

/// Only the letters of a flag are repeated: what hangs on to them may be a token.
fn unknown(word: &str) -> BadInput {
    let end = word.find(|c: char| !(c.is_ascii_alphabetic() || c == '-')).unwrap_or(word.len());
    BadInput::of(
        &word[..end],
        "not a flag of kubeadm join that carrick knows; the rest of a JoinConfiguration goes into --config",
    )
}

/// What the words say so far.
#[derive(Default)]
struct Said {
    request: Request,
    /// The token's own flags may differ from `--token`.
    discovery_token: Option<Token>,
    bootstrap_token: Option<Token>,
}

impl Said {
    fn take<'a>(
        &mut self,
        name: &str,
        value: Option<&'a str>,
        rest: &mut impl Iterator<Item = &'a String>,
    ) -> Result<(), BadInput> {
        let flag = format!("--{name}");
        if matches!(
            name,
            "control-plane"
                | "experimental-control-plane"
                | "certificate-key"
                | "apiserver-advertise-address"
                | "apiserver-bind-port"
        ) {
            return Err(BadInput::control_plane(&flag));
        }
        match (name, value) {
            ("discovery-token-unsafe-skip-ca-verification", value) => {
                self.request.skip_ca_check = value.is_none_or(|value| value == "true");
                return Ok(());
            }
            ("dry-run", None | Some("true")) => {
                return Err(BadInput::of(flag, "carrick join --plan shows what would be done"));
            }
            ("dry-run", _) => return Ok(()),
            _ if !VALUED.contains(&name) => return Err(unknown(&flag)),
            _ => {}
        }
        let value = match value {
            Some(value) => value,
            None => rest.next().ok_or_else(|| BadInput::of(&flag, "its value is missing"))?,
        };
        self.set(name, &flag, value)
    }

    fn set(&mut self, name: &str, flag: &str, value: &str) -> Result<(), BadInput> {
        let list = || value.split(',').map(str::trim).filter(|part| !part.is_empty()).map(str::to_owned);
        let request = &mut self.request;
        match name {
            "token" => request.token = Some(parsed(flag, value)?),
            "discovery-token" => self.discovery_token = Some(parsed(flag, value)?),
            "tls-bootstrap-token" => self.bootstrap_token = Some(parsed(flag, value)?),
            "discovery-token-ca-cert-hash" => request.pins.extend(all(flag, &list().collect::<Vec<_>>())?),
            "discovery-file" => request.discovery_file = Some(value.to_owned()),
            "node-name" => request.node_name = Some(node_name(flag, value)?),
            "cri-socket" => request.cri_socket = Some(parsed(flag, value)?),
            "ignore-preflight-errors" => request.ignore_also(list()),
            "patches" => request.patches = Some(value.to_owned()),
            "skip-phases" => request.skip_phases.extend(list()),
            "config" => {
                return Err(BadInput::of(flag, format!("give the file to carrick: carrick join --config {value}")));
            }
            _ => {}
        }
        Ok(())
    }

    fn place(&mut self, word: &str) -> Result<(), BadInput> {
        if self.request.api.is_some() {
            return Err(BadInput::of(LINE, format!("{word:?} is one word too many")));
        }
        self.request.api = Some(parsed("the address in the join line", word)?);
        Ok(())
    }

    fn request(mut self) -> Result<Request, BadInput> {
        let mut tokens = [self.discovery_token, self.bootstrap_token, self.request.token.take()].into_iter().flatten();
        let first = tokens.next();
        if tokens.any(|other| first.as_ref() != Some(&other)) {
            return Err(BadInput::of(
                "--tls-bootstrap-token",
                "another token than for discovery: give both in a --config file",
            ));
        }
        self.request.token = first;
        Ok(self.request)
    }
}

/// Flags of `kubeadm join` with a value; the verbosity is carrick's own business.
const VALUED: [&str; 12] = [
    "token",
    "discovery-token",
    "tls-bootstrap-token",
    "discovery-token-ca-cert-hash",
    "discovery-file",
    "node-name",
    "cri-socket",
    "ignore-preflight-errors",
    "patches",
    "skip-phases",
    "config",
    "v",
];

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HASH: &str = "sha256:8c1f8c1f8c1f8c1f8c1f8c1f8c1f8c1f8c1f8c1f8c1f8c1f8c1f8c1f8c1f8c1f";
    const TOKEN: &str = "abcdef.0123456789abcdef";

    fn plain() -> String {
        format!("kubeadm join 10.0.0.11:6443 --token {TOKEN} --discovery-token-ca-cert-hash {HASH}")
    }

    #[test]
    fn reads_the_line_in_every_shape() {
        for text in [
            plain(),
            format!("{} \n", plain()),
            format!("sudo {}", plain()),
            format!("$ sudo -E {}", plain()),
            format!("# {}", plain()),
            format!("root@cp:~# {}", plain()),
            format!("[root@cp ~]# NO_PROXY=10.0.0.11 {}", plain()),
            format!("\"{}\"", plain()),
            format!("'{}'", plain()),
            plain().replace("kubeadm", "/usr/bin/kubeadm"),
            plain().replace(" --disc", " \\\n\t--disc"),
            plain().replace(" --disc", " \\\r\n    --disc") + "\r\n",
            plain().replace("--token ", "--token=").replace("hash ", "hash="),
            plain().replace("--token ", "--discovery-token ").replace(HASH, &format!("'{HASH}'")),
            plain() + " -v5",
            plain() + " --v=5",
            plain() + " -v 5",
            plain() + &format!(" --tls-bootstrap-token {TOKEN}"),
            format!("W1115 21:30:26.9 123 checks.go:1046] a warning\n\n{}\n", plain()),
            format!(
                "Then you can join any number of worker nodes by running the following on each as root:\n\n{}\n",
                plain()
            ),
        ] {
            let request = from_text(&text).unwrap_or_else(|bad| panic!("{text:?}: {bad}"));
            assert_eq!(request.api.unwrap().to_string(), "10.0.0.11:6443", "{text}");
            assert_eq!(request.token, Some(TOKEN.parse().unwrap()), "{text}");
            assert_eq!(request.pins, [HASH.parse().unwrap()], "{text}");
        }
        let words: Vec<String> = plain().split(' ').map(str::to_owned).collect();
        assert_eq!(from_args(&words).unwrap().pins.len(), 1);
        assert_eq!(from_args(&[plain()]).unwrap().pins.len(), 1);
    }

    #[test]
    fn reads_what_else_it_may_say() {
        let more = " --node-name W9 --cri-socket=unix:///run/crio/crio.sock --ignore-preflight-errors=Swap,Mem \
                    --patches /p --skip-phases preflight --discovery-token-unsafe-skip-ca-verification";
        let request = from_text(&(plain() + more)).unwrap();
        assert_eq!(request.node_name.as_deref(), Some("w9"));
        assert_eq!(request.cri_socket.unwrap().to_string(), "unix:///run/crio/crio.sock");
        assert_eq!(request.ignore, ["Swap", "Mem"]);
        assert_eq!((request.patches.as_deref(), request.skip_phases), (Some("/p"), vec!["preflight".to_owned()]));
        assert!(request.skip_ca_check);
        let file = from_text("kubeadm join --discovery-file /etc/kubernetes/cluster.conf").unwrap();
        assert_eq!(file.discovery_file.as_deref(), Some("/etc/kubernetes/cluster.conf"));
    }

    #[test]
    fn refuses_with_the_flag_and_never_with_the_token() {
        let key = "0123456789abcdef".repeat(4);
        for (text, expected) in [
            (
                plain() + " --control-plane",
                "--control-plane: this is a control-plane join line; carrick joins workers".to_owned(),
            ),
            (
                plain() + &format!(" --certificate-key {key}"),
                "--certificate-key: this is a control-plane join line".into(),
            ),
            (
                plain() + " --apiserver-advertise-address=10.0.0.12",
                "--apiserver-advertise-address: this is a control".into(),
            ),
            (plain() + " --rootfs=/x", "--rootfs: not a flag of kubeadm join that carrick knows".into()),
            (plain().replace("--token ", "--tokne="), "--tokne: not a flag".into()),
            (plain().replace("--token ", "--token"), "--tokenabcdef: not a flag".into()),
            (plain() + " -x", "-x: not a flag".into()),
            (plain() + " --node-name", "--node-name: its value is missing".into()),
            (plain() + " && echo done", "the join line: \"&&\" is one word too many".into()),
            (plain() + " --dry-run", "--dry-run: carrick join --plan".into()),
            (plain() + " --cri-socket run/x.sock", "--cri-socket: \"run/x.sock\" is not unix:///PATH".into()),
            (plain() + " --config=/tmp/x", "--config: give the file to carrick: carrick join --config /tmp/x".into()),
            (plain() + " --tls-bootstrap-token zzzzzz.0123456789abcdef", "--tls-bootstrap-token: another token".into()),
            (plain().replace(TOKEN, "abcdef.0123456789ABCDEF"), "--token: not a bootstrap token".into()),
            (
                plain().replace(HASH, "sha256:8c1f"),
                "--discovery-token-ca-cert-hash: \"sha256:8c1f\" is not sha256".into(),
            ),
            (
                plain().replace("10.0.0.11:6443", "10.0.0.11"),
                "the address in the join line: \"10.0.0.11\" has no port".into(),
            ),
            (
                plain().replace("10.0.0.11:6443", TOKEN),
                "the address in the join line: \"<redacted:bootstrap-token>\"".into(),
            ),
            (format!("echo {}", plain()), "the join line: \"echo\" stands before kubeadm join".into()),
            (format!("{0}\n{0}", plain()), "the join line: there are several".into()),
            ("kubeadm token list".into(), "the join line: no \"kubeadm join\" in it".into()),
            (String::new(), "the join line: no \"kubeadm join\"".into()),
        ] {
            let error = from_text(&text).map(|request| format!("{request:?}")).unwrap_err().to_string();
            assert!(error.starts_with(&expected), "{text}\n  {error}\n  {expected}");
            assert!(!error.to_lowercase().contains("0123456789abcdef"), "{error}");
        }
        assert!(from_args(&[]).is_err());
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused_without_its_secret(
            text in "(kubeadm join |--token[ =]|--node-name |\\\\\n|[\"' \r]|10\\.0\\.0\\.1:1|SECRET|[a-z.=-]{0,8}|.){0,24}"
        ) {
            let text = text.replace("SECRET", TOKEN);
            let shown = match from_text(&text) {
                Ok(request) => format!("{request:?}"),
                Err(bad) => format!("{bad} {bad:?}"),
            };
            // In a name or an address of the person's own choice it is not a token to us.
            let elsewhere = from_text(&text).is_ok_and(|request| {
                request.node_name.is_some() || request.api.is_some_and(|api| api.host.contains(TOKEN))
            });
            prop_assert!(elsewhere || !shown.contains("0123456789abcdef"), "{}", shown);
        }
    }
}
