//! Lines that say what follows: a prompt with a command, a banner with a command, a file or a title.

use super::command::{Asked, understand};
use super::section::Form;

/// What a heading says.
#[derive(Debug, PartialEq)]
pub(super) struct Heading {
    /// The machine, where the prompt or banner names it.
    pub(super) host: Option<String>,
    pub(super) asked: Asked,
    pub(super) strength: Strength,
}

/// How sure a line is a heading: within a file, a comment may look like a bare prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Strength {
    /// `# df -h`, `$ df -h`, `+ df -h`.
    Bare,
    /// `root@w1:~# df -h`, `=== df -h ===`.
    Full,
}

/// A line of nothing but `====` or `----`: a title may stand between two of them.
pub(super) fn is_rule(text: &str) -> bool {
    let text = text.trim();
    text.len() >= 5
        && text.bytes().next().is_some_and(|first| b"=-*#~".contains(&first) && text.bytes().all(|byte| byte == first))
}

pub(super) fn read(text: &str, after_rule: bool) -> Option<Heading> {
    let text = text.trim();
    if text.is_empty() || text.len() > LONGEST || is_rule(text) {
        return None;
    }
    prompt(text).or_else(|| banner(text)).or_else(|| labelled(text)).or_else(|| bare(text)).or_else(|| {
        let asked = understand(text).filter(|_| after_rule).or_else(|| place(text).filter(|_| after_rule));
        asked.map(|asked| full(None, asked))
    })
}

/// A command longer than this is a program, and what it prints is not known.
const LONGEST: usize = 1000;

fn full(host: Option<String>, asked: Asked) -> Heading {
    Heading { host, asked, strength: Strength::Full }
}

/// `root@w1:~# df -h`, `[root@w1 ~]# df -h`, `(venv) me@w1:~$`, `w1:~ # df -h`.
fn prompt(text: &str) -> Option<Heading> {
    let text = match text.strip_prefix('(').and_then(|rest| rest.split_once(") ")) {
        Some((name, rest)) if !name.contains(' ') => rest,
        _ => text,
    };
    let (host, command) = if let Some((inside, rest)) = text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        let who = inside.split_whitespace().next()?;
        (host_of(who)?, rest.strip_prefix(['#', '$', '%'])?)
    } else {
        let (who, rest) = text.split_once(' ').unwrap_or((text, ""));
        if let Some(who) = who.strip_suffix(['#', '$', '%']) {
            let (who, path) = who.split_once(':').unwrap_or((who, ""));
            let bare = || host_name(who).filter(|_| path.starts_with(['~', '/']));
            (host_of(who).or_else(bare)?, rest)
        } else {
            let (host, path) = who.split_once(':')?;
            let rest = rest.strip_prefix(['#', '>'])?;
            (host_name(host).filter(|_| path.starts_with(['~', '/']))?, rest)
        }
    };
    let command = command.trim();
    let asked = if command.is_empty() { Asked::loose() } else { understand(command).unwrap_or_else(Asked::loose) };
    Some(full(Some(host.to_owned()), asked))
}

fn host_of(who: &str) -> Option<&str> {
    let (user, host) = who.split_once('@')?;
    let is_user = !user.is_empty() && user.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
    host_name(host).filter(|_| is_user)
}

fn host_name(host: &str) -> Option<&str> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
    (!host.is_empty() && host.bytes().all(fits)).then_some(host)
}

/// `=== systemctl status kubelet ===`, `--- /etc/hosts ---`, `==> /etc/hosts <==`, `===== [w1] df -h =====`.
fn banner(text: &str) -> Option<Heading> {
    let mark = text.chars().next().filter(|c| "=-#*~>+".contains(*c))?;
    let inner = text.trim_start_matches(mark);
    let lead = text.len() - inner.len();
    let inner = inner.strip_prefix('>').unwrap_or(inner);
    let said = inner.trim_end_matches(['=', '-', '#', '*', '~', '<', '+']);
    let tail = inner.len() - said.len();
    if lead < 2 || !said.starts_with([' ', '[']) || (tail == 0 && !matches!(mark, '=' | '>')) {
        return None;
    }
    let said = said.trim();
    let (host, said) = match said.strip_prefix('[').and_then(|rest| rest.split_once("] ")) {
        Some((host, rest)) if host_name(host).is_some() => (Some(host.to_owned()), rest.trim()),
        _ => (None, said),
    };
    let said = said.trim_end_matches(':').trim();
    if text.starts_with("==>") && said.starts_with('/') {
        return Some(full(host, Asked { limit: Some(HEAD), ..Asked::of(Form::File(said.to_owned())) }));
    }
    let title = || (lead >= 3 && tail >= 3 && mark != '#' && mark != '+').then(Asked::loose);
    let asked = place(said).or_else(|| understand(said)).or_else(title)?;
    Some(full(host, asked))
}

/// What `head` and `tail` print of a file unless told otherwise.
const HEAD: usize = 10;

/// `File: /etc/hosts`, `Command: df -h`.
fn labelled(text: &str) -> Option<Heading> {
    if text.starts_with("TASK [") || text.starts_with("PLAY [") {
        return Some(full(None, Asked::loose()));
    }
    let (label, said) = text.split_once(": ")?;
    match label {
        "File" | "Contents of" | "Content of" => place(said.trim()).map(|asked| full(None, asked)),
        "Command" | "Running" | "CMD" | "cmd" => Some(full(None, understand(said.trim()).unwrap_or_else(Asked::loose))),
        _ => None,
    }
}

/// An absolute path by itself, or behind `cat`'s usual words.
fn place(said: &str) -> Option<Asked> {
    let words: Vec<&str> = said.split_whitespace().collect();
    let ([path]
    | ["File:" | "Contents" | "Content" | "contents", path]
    | ["Contents" | "Content" | "contents", "of", path]) = words.as_slice()
    else {
        return None;
    };
    let path = path.trim_matches(['\'', '"', '`']);
    (path.starts_with('/') && path.len() > 1 && !path.contains('*')).then(|| Asked::of(Form::Place(path.to_owned())))
}

/// `# df -h`, `$ df -h`, `+ df -h` as `sh -x` prints it: only what is understood, or any comment would be one.
fn bare(text: &str) -> Option<Heading> {
    let (mark, command) = text.split_once(' ')?;
    let typed = matches!(mark, "$" | "+" | "++");
    let asked = understand(command.trim()).filter(|_| typed || mark == "#")?;
    let says_something = asked.form.is_some() && (typed || asked.form != Some(Form::Passed));
    says_something.then_some(Heading { host: None, asked, strength: Strength::Bare })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a line asks for, whatever else it says.
    fn asked(text: &str) -> Option<Asked> {
        read(text, false).map(|heading| Asked { form: heading.asked.form, ..Asked::loose() })
    }

    #[test]
    fn reads_headings() {
        let loose = Some(Asked::loose());
        let of = |form: Form| Some(Asked::of(form));
        let file = |path: &str| of(Form::File(path.into()));
        let place = |path: &str| of(Form::Place(path.into()));
        let df = of(Form::Df(vec![]));
        for (text, expected) in [
            ("root@w1:~# cat /etc/containerd/config.toml", file("/etc/containerd/config.toml")),
            ("[root@w1 ~]# df -h", df.clone()),
            ("me@w1.lan:/etc/cni$ sudo cat /etc/hosts", file("/etc/hosts")),
            ("w1:~ # cat /etc/hosts", file("/etc/hosts")),
            ("root@w1:~#", loose.clone()),
            ("root@w1:~# ./diagnose.sh", loose.clone()),
            ("$ systemctl cat kubelet", of(Form::Cat)),
            ("+ df -h", df.clone()),
            ("# df -h", df.clone()),
            ("=== systemctl status kubelet ===", of(Form::Status)),
            ("===== [w1] df -h =====", df.clone()),
            ("--- /etc/cni/net.d/10-flannel.conflist ---", place("/etc/cni/net.d/10-flannel.conflist")),
            ("==> /etc/hosts <==", file("/etc/hosts")),
            ("File: /etc/cni/net.d/10-flannel.conflist", place("/etc/cni/net.d/10-flannel.conflist")),
            ("Command: df -h", df.clone()),
            ("=== CNI Diagnostic Report ===", loose.clone()),
            ("TASK [Check for CNI configuration]", loose.clone()),
            ("# Note: This dropin only works with kubeadm", None),
            ("# ip address of the node", None),
            ("---", None),
            ("-----BEGIN CERTIFICATE-----", None),
            ("########", None),
            ("## Section", None),
            ("user@example.com wrote", None),
            ("  name: kubernetes", None),
            ("", None),
        ] {
            assert_eq!(asked(text), expected, "{text:?}");
        }
    }

    #[test]
    fn a_title_between_two_rules_is_a_heading() {
        assert!(is_rule("=========") && is_rule("  --------") && !is_rule("---") && !is_rule("==x=="));
        assert_eq!(read("systemctl status kubelet", true).map(|it| it.asked.form), Some(Some(Form::Status)));
        assert_eq!(read("systemctl status kubelet", false), None);
    }

    #[test]
    fn a_prompt_names_the_machine() {
        let host = |text| read(text, false).and_then(|heading| heading.host);
        assert_eq!(host("root@w1:~# df -h").as_deref(), Some("w1"));
        assert_eq!(host("===== [cp1] df -h =====").as_deref(), Some("cp1"));
        assert_eq!(host("$ df -h"), None);
    }
}
