//! What a typed command prints, as far as it is understood.
//!
//! What goes through a filter (`| grep`) is not the whole, and what is not there then proves nothing: such output is
//! passed over, except where only what *is* there counts.

use std::sync::LazyLock;

use super::section::Form;
use crate::fact::unit::split_words;
use crate::fact::{Query, Source, clock, containerd_config, firewall, sources, version};

/// What a heading asks for.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Asked {
    /// `None`: not known; what follows speaks for itself.
    pub(super) form: Option<Form>,
    /// So many lines or more, and it may have been cut there.
    pub(super) limit: Option<usize>,
    /// What the command line says itself where it fails: `|| echo missing`.
    pub(super) echoes: Vec<String>,
    /// Errors were thrown away: no output says nothing.
    pub(super) quiet: bool,
}

impl Asked {
    pub(super) fn loose() -> Self {
        Self::default()
    }

    pub(super) fn of(form: Form) -> Self {
        Asked { form: Some(form), ..Self::default() }
    }
}

/// Programs whose output holds no fact: their lines are left to the signatures.
const PASSED: [&str; 26] = [
    "journalctl",
    "dmesg",
    "kubectl",
    "helm",
    "tcpdump",
    "ping",
    "curl",
    "wget",
    "apt",
    "apt-get",
    "dnf",
    "yum",
    "dpkg",
    "rpm",
    "vi",
    "vim",
    "nano",
    "git",
    "top",
    "htop",
    "du",
    "nft",
    "iptables",
    "strace",
    "kubeadm",
    "ctr",
];
/// Commands beside the one that matters.
const TRIVIAL: [&str; 9] = ["cd", "clear", "echo", "printf", "true", "sleep", "set", "export", "date"];

/// What a command line asks for; `None` where it is not understood.
pub(super) fn understand(typed: &str) -> Option<Asked> {
    let stages = stages(typed)?;
    let mut asked = Asked::default();
    let mut chosen: Option<Vec<String>> = None;
    let mut filtered = false;
    for (joint, words) in stages {
        let program = words.first().map_or("", String::as_str);
        match joint {
            Joint::Pipe => match (program, count(&words)) {
                ("head" | "tail", limit) => asked.limit = Some(limit),
                ("cat" | "less" | "more" | "tee" | "column", _) => {}
                _ => filtered = true,
            },
            Joint::Else => asked.echoes.extend(words.into_iter().skip(1)),
            Joint::Next if TRIVIAL.contains(&program) => {}
            // Two commands after one another: what they print must speak for itself.
            Joint::Next if chosen.is_some() => return Some(Asked::loose()),
            Joint::Next => chosen = Some(words),
        }
    }
    let mut words = chosen?;
    asked.quiet = words.iter().any(|word| word == "2>/dev/null" || word == "&>/dev/null");
    let is_kept_elsewhere =
        words.iter().any(|word| word.starts_with('>') || word.starts_with("1>") || word.starts_with("<<"));
    words.retain(|word| !word.contains('>') && !word.contains('<'));
    let form = if is_kept_elsewhere { Form::Passed } else { form(&words, &mut asked)? };
    let tolerates = matches!(form, Form::Modules | Form::Processes);
    asked.form = Some(if filtered && !tolerates { Form::Passed } else { form });
    Some(asked)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Joint {
    Next,
    Pipe,
    Else,
}

/// A command line cut at `|`, `||`, `&&` and `;`, each part in words, without `sudo` and the like.
fn stages(typed: &str) -> Option<Vec<(Joint, Vec<String>)>> {
    let mut parts: Vec<(Joint, String)> = vec![(Joint::Next, String::new())];
    let mut quote: Option<char> = None;
    let mut chars = typed.chars().peekable();
    while let Some(c) = chars.next() {
        let before = parts.last().and_then(|(_, part)| part.chars().last());
        let joint = match (c, quote) {
            ('\'' | '"', None) => {
                quote = Some(c);
                None
            }
            (_, Some(open)) => {
                quote = quote.filter(|_| c != open);
                None
            }
            ('|', None) if chars.next_if_eq(&'|').is_some() => Some(Joint::Else),
            ('|', None) => Some(Joint::Pipe),
            (';', None) => Some(Joint::Next),
            ('&', None) if before != Some('>') && chars.next_if_eq(&'&').is_some() => Some(Joint::Next),
            _ => None,
        };
        match (joint, parts.last_mut()) {
            (Some(joint), _) => parts.push((joint, String::new())),
            (None, Some((_, part))) => part.push(c),
            (None, None) => return None,
        }
    }
    let words = |part: &str| unwrapped(split_words(part));
    Some(parts.into_iter().map(|(joint, part)| (joint, words(&part))).filter(|(_, words)| !words.is_empty()).collect())
}

/// Without `sudo -n`, `timeout 30`, `LC_ALL=C` and their like before the program.
fn unwrapped(mut words: Vec<String>) -> Vec<String> {
    loop {
        let first = words.first().map_or("", String::as_str);
        let second_is_option = words.get(1).is_some_and(|word| word.starts_with('-'));
        let drop = match first {
            "sudo" | "doas" | "time" | "env" | "command" if second_is_option => 2,
            "sudo" | "doas" | "time" | "env" | "command" => 1,
            "timeout" | "nice" => 2,
            _ if is_assignment(first) => 1,
            _ => break,
        };
        words.drain(..drop.min(words.len()));
    }
    if let Some(first) = words.first_mut() {
        *first = first.rsplit('/').next().unwrap_or_default().to_owned();
    }
    words
}

fn is_assignment(word: &str) -> bool {
    let named = |byte: u8| byte.is_ascii_uppercase() || byte == b'_';
    word.split_once('=').is_some_and(|(name, _)| !name.is_empty() && name.bytes().all(named))
}

/// How many lines `head` or `tail` let through.
fn count(words: &[String]) -> usize {
    let number = words.iter().skip(1).find_map(|word| {
        if word.ends_with("+1") {
            return Some(usize::MAX);
        }
        word.trim_start_matches("-n").trim_start_matches("--lines=").trim_start_matches('-').parse().ok()
    });
    number.unwrap_or(10)
}

fn form(words: &[String], asked: &mut Asked) -> Option<Form> {
    let program = words.first()?.as_str();
    let plain = |word: &&String| !word.starts_with('-');
    let operands: Vec<&str> = words.iter().skip(1).filter(plain).map(String::as_str).collect();
    let flags: String = words.iter().skip(1).filter(|word| word.starts_with('-')).map(String::as_str).collect();
    if let Some(query) = named(words) {
        return Some(Form::Query(query));
    }
    let first = operands.first().copied();
    match program {
        "cat" | "less" | "more" | "bat" if flags.is_empty() => files(&operands),
        "head" | "tail" => {
            asked.limit = Some(count(words));
            files(&operands.into_iter().filter(|word| word.starts_with('/')).collect::<Vec<_>>())
        }
        "ls" | "ll" => listing(program, &flags, &operands),
        "systemctl" => match first? {
            "status" => Some(Form::Status),
            "cat" => Some(Form::Cat),
            "show" => Some(Form::Show),
            _ => Some(Form::Passed),
        },
        "crictl" => match operands.last().copied()? {
            "info" => Some(Form::Info),
            "version" => Some(Form::CrictlVersion),
            "runtime-config" => Some(Form::RuntimeConfig),
            _ => Some(Form::Passed),
        },
        "ctr" if first == Some("version") => Some(Form::CtrVersion),
        "kubeadm" if first == Some("version") => Some(Form::Query(&version::KUBEADM)),
        "containerd" if matches!(flags.as_str(), "--version" | "-v") => Some(Form::Query(&version::CONTAINERD)),
        "containerd" if operands == ["config", "dump"] => Some(Form::Query(&containerd_config::DUMP)),
        "containerd" if operands.first() == Some(&"config") => Some(Form::Passed),
        "chronyc" if operands == ["tracking"] => Some(Form::Query(&clock::CHRONYC)),
        "df" if operands.iter().all(|path| path.starts_with('/')) => {
            Some(Form::Df(operands.iter().map(|path| (*path).to_owned()).collect()))
        }
        "mount" if operands.is_empty() && !flags.contains('t') => Some(Form::Mount),
        "findmnt" if operands.is_empty() && flags.is_empty() => Some(Form::Findmnt),
        "swapon" if matches!(flags.as_str(), "-s" | "--summary") => Some(Form::Swaps),
        "swapon" if flags == "--show" => Some(Form::SwapShow),
        "free" if operands.is_empty() => Some(Form::Free(unit_of_free(&flags))),
        "sysctl" => Some(Form::Sysctl),
        "timedatectl" if operands.is_empty() || operands == ["status"] => Some(Form::Clock),
        "hostnamectl" if operands.is_empty() || operands == ["status"] => Some(Form::Hostnamectl),
        "hostname" if words.len() == 1 => Some(Form::Hostname),
        "uname" if flags == "-r" => Some(Form::Release),
        "uname" if flags == "-a" => Some(Form::Uname),
        "lsmod" => Some(Form::Modules),
        "ps" | "pgrep" => Some(Form::Processes),
        "firewall-cmd" if flags == "--list-all" => Some(Form::Firewalld),
        "ufw" if first == Some("status") => Some(Form::Query(&firewall::UFW)),
        "ss" | "netstat" => Some(sockets(program, &flags, &operands)),
        "ip" => ip(&flags, &operands),
        _ if PASSED.contains(&program) => Some(Form::Passed),
        _ => None,
    }
}

/// A command that is typed as Carrick itself would run it.
fn named(words: &[String]) -> Option<&'static Query> {
    let ignored = ["--no-pager", "-l", "--full"];
    let spoken: Vec<&str> = words.iter().map(String::as_str).filter(|word| !ignored.contains(word)).collect();
    let spoken = spoken.join(" ");
    // What these print is split, or read in more than one form, elsewhere.
    if ["systemctl", "df", "ss", "crictl", "ps", "firewall-cmd", "journalctl", "ufw"].contains(&words.first()?.as_str())
    {
        return None;
    }
    QUERIES.iter().copied().find(|query| query.name == spoken)
}

static QUERIES: LazyLock<Vec<&'static Query>> = LazyLock::new(|| {
    let query = |source| if let Source::Query(query) = source { Some(query) } else { None };
    sources().filter_map(query).collect()
});

fn files(paths: &[&str]) -> Option<Form> {
    let [path] = paths else {
        let whole = paths.len() > 1 && paths.iter().all(|path| path.starts_with('/') && !path.contains('*'));
        return whole.then(|| Form::Files(paths.iter().map(|path| (*path).to_owned()).collect()));
    };
    match (path.starts_with('/'), path.rsplit_once("/*")) {
        (false, _) => None,
        (true, Some((dir, ""))) => Some(Form::Glob(dir.to_owned())),
        (true, _) if path.contains(['*', '?', '{', '$']) => Some(Form::Passed),
        (true, _) => Some(Form::File((*path).to_owned())),
    }
}

fn listing(program: &str, flags: &str, operands: &[&str]) -> Option<Form> {
    // `-d` shows entries themselves; the others add columns.
    if flags.contains(['d', 'i', 's', 'Z', 'g', 'o']) && !flags.contains("--") {
        return Some(Form::Passed);
    }
    let absolute = !operands.is_empty() && operands.iter().all(|path| path.starts_with('/') && !path.contains('*'));
    absolute.then(|| Form::Listing {
        paths: operands.iter().map(|path| trimmed(path)).collect(),
        long: program == "ll" || flags.contains('l'),
        marks: program == "ll" || flags.contains('F'),
    })
}

/// A path without the slash at its end.
pub(super) fn trimmed(path: &str) -> String {
    match path.trim_end_matches('/') {
        "" => "/".to_owned(),
        path => path.to_owned(),
    }
}

fn unit_of_free(flags: &str) -> Option<u64> {
    match flags {
        "" | "-k" => Some(1 << 10),
        "-b" => Some(1),
        "-m" => Some(1 << 20),
        "-g" => Some(1 << 30),
        _ => None,
    }
}

fn sockets(program: &str, flags: &str, operands: &[&str]) -> Form {
    match (flags.contains('t'), flags.contains('u')) {
        // UDP alone says nothing of the kubelet's ports.
        (tcp, udp) if !operands.is_empty() || !flags.contains('l') || (udp && !tcp) => Form::Passed,
        (tcp, udp) => Form::Sockets { udp: udp || !tcp, netstat: program == "netstat" },
    }
}

fn ip(flags: &str, operands: &[&str]) -> Option<Form> {
    let (object, rest) = operands.split_first()?;
    let whole = rest.is_empty() || matches!(rest, ["show" | "list" | "s" | "ls"]);
    let understood = matches!(flags, "" | "-4" | "-br" | "-brief" | "-c" | "-o" | "-d" | "-details");
    if !whole || !understood || flags == "-o" {
        // A word that only looks like a command is a title's.
        return rest.iter().all(|word| ["show", "dev", "table", "all", "list"].contains(word)).then_some(Form::Passed);
    }
    match *object {
        "a" | "addr" | "address" if flags != "-4" => Some(Form::Links),
        "r" | "ro" | "route" if !flags.starts_with("-br") => Some(Form::Routes),
        _ => Some(Form::Passed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fact::unit;

    #[test]
    fn understands_commands() {
        let file = |path: &str| Some(Form::File(path.into()));
        let listing = |path: &str| Some(Form::Listing { paths: vec![path.into()], long: true, marks: false });
        for (typed, expected) in [
            ("cat /etc/hosts", file("/etc/hosts")),
            ("sudo -n cat /etc/hosts 2>/dev/null || echo 'no hosts'", file("/etc/hosts")),
            ("LC_ALL=C timeout 30 cat /etc/hosts | less", file("/etc/hosts")),
            ("clear; cat /etc/hosts", file("/etc/hosts")),
            ("cat /etc/cni/net.d/*", Some(Form::Glob("/etc/cni/net.d".into()))),
            ("cat /etc/hosts | grep w1", Some(Form::Passed)),
            ("cat > /etc/hosts", Some(Form::Passed)),
            ("cat <<EOF | sudo tee /etc/sysctl.d/k8s.conf", Some(Form::Passed)),
            ("cat config.toml", None),
            ("ls -la /etc/cni/net.d/", listing("/etc/cni/net.d")),
            ("ls -ld /etc/cni", Some(Form::Passed)),
            ("systemctl status kubelet --no-pager -l", Some(Form::Status)),
            ("systemctl is-active kubelet", Some(Form::Passed)),
            ("/usr/bin/systemctl cat kubelet.service", Some(Form::Cat)),
            ("crictl info", Some(Form::Info)),
            ("crictl --runtime-endpoint unix:///run/containerd/containerd.sock info", Some(Form::Info)),
            ("crictl ps -a", Some(Form::Passed)),
            ("df -h /var/lib/containerd", Some(Form::Df(vec!["/var/lib/containerd".into()]))),
            ("df -h | grep containerd", Some(Form::Passed)),
            ("lsmod | grep br_netfilter", Some(Form::Modules)),
            ("ss -ltnp", Some(Form::Sockets { udp: false, netstat: false })),
            ("ss -tulpn", Some(Form::Sockets { udp: true, netstat: false })),
            ("ss -tlnp | grep 10250", Some(Form::Passed)),
            ("ip a", Some(Form::Links)),
            ("ip -brief address", Some(Form::Links)),
            ("ip route", Some(Form::Routes)),
            ("ip -6 route", Some(Form::Passed)),
            ("ip addresses of the machine", None),
            ("containerd config default", Some(Form::Passed)),
            ("containerd config dump", Some(Form::Query(&containerd_config::DUMP))),
            ("kubelet --version", Some(Form::Query(&version::KUBELET))),
            ("kubeadm version", Some(Form::Query(&version::KUBEADM))),
            ("iptables-save", Some(Form::Query(&firewall::IPTABLES))),
            ("timedatectl show", Some(Form::Query(&clock::TIMEDATECTL))),
            ("journalctl -u kubelet -n 20", Some(Form::Passed)),
            ("free -m", Some(Form::Free(Some(1 << 20)))),
            ("mount points", None),
            ("", None),
        ] {
            assert_eq!(understand(typed).and_then(|asked| asked.form), expected, "{typed:?}");
        }
        assert_eq!(understand("df -h; free -h"), Some(Asked::loose()));
        assert_eq!(unit::KUBELET.name, "systemctl cat kubelet");
    }

    #[test]
    fn knows_what_the_command_line_says_itself() {
        let asked =
            understand("ls -la /etc/cni/net.d/ 2>/dev/null || echo \"CNI directory missing\"").expect("understood");
        assert!(asked.quiet);
        assert_eq!(asked.echoes, ["CNI directory missing"]);
        assert_eq!(understand("cat /etc/hosts | head -20").expect("understood").limit, Some(20));
        assert_eq!(understand("tail -n +1 /etc/hosts").expect("understood").limit, Some(usize::MAX));
    }
}
