//! What stands before a message: the journal's, syslog's, the kernel's and the container runtime's prefixes, and within them
//! klog's and logfmt's own.

use jiff::Timestamp;

use super::when::{Cursor, Stamp};

/// Longer ones are no names of machines or programs, but text that happens to have a colon.
const LONGEST_NAME: usize = 253;

/// How a line is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// `TIME HOST PROGRAM[PID]: …`, by journald or syslog.
    Journal,
    /// `TIME stderr F …`, by the container runtime.
    Container,
    /// `[  123.456789] …`
    Kernel,
    /// `E1115 20:39:50.123456    1234 kubelet.go:2337] …`
    Klog,
    /// `time="…" level=error msg="…"`
    Logfmt,
    /// `[preflight] …`, `error execution phase …`
    Kubeadm,
    /// Some other program's, that can be told by its form.
    Program,
    /// A time, then anything.
    Stamped,
    /// No form at all.
    Bare,
}

/// What a line says about itself, and its message.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head<'t> {
    pub shape: Shape,
    /// As the first prefix has it.
    pub stamp: Option<Stamp>,
    /// As the message has it once more.
    pub own_stamp: Option<Stamp>,
    pub host: Option<&'t str>,
    pub program: Option<&'t str>,
    pub message: &'t str,
}

impl<'t> Head<'t> {
    fn of(shape: Shape, stamp: Option<Stamp>, message: &'t str) -> Self {
        Head { shape, stamp, own_stamp: None, host: None, program: None, message }
    }

    /// Reads what stands before the message of a line.
    pub(super) fn read(line: &'t str, now: Timestamp) -> Self {
        let line = line.trim_start();
        let head = Head::outer(line, now);
        // `grep -Hn` puts a file and a number before each line, `cat -n` a number.
        let head = if head.shape == Shape::Bare {
            found_by(line).map(|line| Head::outer(line, now)).filter(|head| head.shape != Shape::Bare).unwrap_or(head)
        } else {
            head
        };
        head.with_message(now)
    }

    fn outer(line: &'t str, now: Timestamp) -> Self {
        syslog_5424(line)
            .or_else(|| kernel(line))
            .or_else(|| monotonic(line))
            .or_else(|| stamped(line, now))
            .unwrap_or(Head::of(Shape::Bare, None, line))
            .or_klog(now)
    }

    /// `grep` may have found a line of klog's, too.
    fn or_klog(self, now: Timestamp) -> Self {
        if self.shape == Shape::Bare && klog(self.message, now).is_some() {
            return Head { shape: Shape::Klog, ..self };
        }
        self
    }

    /// What the message itself adds.
    fn with_message(mut self, now: Timestamp) -> Self {
        // `kubectl logs --prefix`
        if let Some((_, message)) = self.message.strip_prefix("[pod/").and_then(|rest| rest.split_once("] ")) {
            self = Head { shape: Shape::Container, message, ..self };
        }
        if let Some((stamp, source, said)) = klog(self.message, now) {
            self.own_stamp = stamp;
            self.shape = Shape::Klog;
            self.program = self.program.or_else(|| klog_program(source, said));
        } else if is_logfmt(self.message) {
            self.own_stamp = logfmt_stamp(self.message);
            self.shape = Shape::Logfmt;
            self.program = self.program.or(Some(logfmt_program(self.message)));
        } else if let Some(program) = by_form(self.message).or_else(|| logrus(self.message)) {
            self.program = self.program.or(Some(program));
            if matches!(self.shape, Shape::Bare | Shape::Stamped) {
                self.shape = if program == "kubeadm" { Shape::Kubeadm } else { Shape::Program };
            }
        }
        self
    }
}

/// The line after `FILE:NUMBER:`, `FILE:` or a bare number, as `grep` and `cat -n` write.
fn found_by(line: &str) -> Option<&str> {
    let (first, rest) = line.split_once([':', '\t', ' '])?;
    let number = !first.is_empty() && first.bytes().all(|byte| byte.is_ascii_digit());
    let file =
        first.len() <= LONGEST_NAME && first.contains(['.', '/']) && line.as_bytes().get(first.len()) == Some(&b':');
    if !number && !file {
        return None;
    }
    let numbered = rest.split_once(':').filter(|(digits, _)| {
        !digits.is_empty() && digits.len() < 10 && digits.bytes().all(|byte| byte.is_ascii_digit())
    });
    Some(numbered.map_or(rest, |(_, rest)| rest).trim_start())
}

/// `<30>1 2026-11-15T20:39:50.003Z w1 kubelet 1234 ID47 - message`, with its priority or without.
fn syslog_5424(line: &str) -> Option<Head<'_>> {
    let mut cursor = Cursor::new(line);
    cursor.eat("<")?;
    let (priority, rest) = cursor.rest.split_once('>')?;
    (priority.len() <= 3 && priority.bytes().all(|byte| byte.is_ascii_digit())).then_some(())?;
    cursor.rest = rest;
    cursor.eat("1 ")?;
    let stamp = cursor.iso();
    if stamp.is_none() {
        cursor.eat("-")?;
    }
    let mut field = || {
        cursor.spaces()?;
        cursor.word().map(|word| Some(word).filter(|word| *word != "-"))
    };
    let (host, program) = (field()?, field()?);
    let (_process, _id) = (field()?, field()?);
    cursor.spaces();
    let message = after_structured_data(cursor.rest);
    Some(Head { host, program, ..Head::of(Shape::Journal, stamp, message) })
}

/// `-`, or `[id key="value" …]` once or more, in whose values a bracket is escaped.
fn after_structured_data(text: &str) -> &str {
    if let Some(rest) = text.strip_prefix('-') {
        return rest.trim_start();
    }
    let mut rest = text;
    while rest.starts_with('[') {
        let mut escaped = false;
        let end = rest.bytes().position(|byte| {
            let ends = byte == b']' && !escaped;
            escaped = byte == b'\\' && !escaped;
            ends
        });
        match end.and_then(|end| rest.get(end + 1..)) {
            Some(after) => rest = after,
            None => break,
        }
    }
    rest.trim_start()
}

/// `dmesg -T`.
fn kernel(line: &str) -> Option<Head<'_>> {
    let mut cursor = Cursor::new(line);
    cursor.eat("[")?;
    let stamp = cursor.ctime()?;
    cursor.eat("]")?;
    Some(Head { program: Some("kernel"), ..Head::of(Shape::Kernel, Some(stamp), cursor.rest.trim_start()) })
}

/// `[  123.456789] …`: seconds since boot, before a kernel's message or, in `journalctl -o short-monotonic`, an entry.
fn monotonic(line: &str) -> Option<Head<'_>> {
    let (seconds, rest) = line.strip_prefix('[')?.split_once(']')?;
    let (whole, fraction) = seconds.trim_start().split_once('.')?;
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    (digits(whole) && digits(fraction)).then_some(())?;
    let rest = rest.trim_start();
    Some(
        entry(rest, None)
            .filter(|entry| entry.host.is_some())
            .unwrap_or(Head { program: Some("kernel"), ..Head::of(Shape::Kernel, None, rest) }),
    )
}

/// A time, and what a journal, a container runtime or a program of its own puts after it.
fn stamped(line: &str, now: Timestamp) -> Option<Head<'_>> {
    // `<30>Nov 15 …`, and a script's `[2026-11-15 20:39:50] …`.
    let line = line.strip_prefix('<').and_then(|rest| Some(rest.split_once('>')?.1)).unwrap_or(line);
    let bracket = line.starts_with('[');
    let mut cursor = Cursor::new(line.strip_prefix('[').unwrap_or(line));
    let iso = cursor.iso();
    if bracket {
        cursor.eat("]")?;
    }
    let stamp = iso.or_else(|| cursor.full()).or_else(|| cursor.syslog(now)).or_else(|| cursor.unix())?;
    let rest = cursor.rest.trim_start();
    // Programs write ISO times themselves, then words and colons of their own: an entry has its process there.
    let is_entry = |entry: &Head| iso.is_none() || entry.program == Some("kernel") || has_process(rest, entry.message);
    let entry = || entry(rest, Some(stamp)).filter(is_entry);
    Some(container(rest, stamp).or_else(entry).unwrap_or(Head::of(Shape::Stamped, Some(stamp), rest)))
}

/// Whether what stands before a message ends in `[123]: `.
fn has_process(rest: &str, message: &str) -> bool {
    rest.strip_suffix(message).is_some_and(|before| before.trim_end().ends_with("]:"))
}

/// `stderr F message`: F is a whole line, P a part of one.
fn container(rest: &str, stamp: Stamp) -> Option<Head<'_>> {
    let rest = rest.strip_prefix("stderr ").or_else(|| rest.strip_prefix("stdout "))?;
    let message =
        rest.strip_prefix("F ").or_else(|| rest.strip_prefix("P ")).or(matches!(rest, "F" | "P").then_some(""))?;
    Some(Head::of(Shape::Container, Some(stamp), message))
}

/// `w1 kubelet[123]: message`; with `--no-hostname` without the first.
fn entry(rest: &str, stamp: Option<Stamp>) -> Option<Head<'_>> {
    if let Some((program, message)) = ident(rest) {
        return Some(Head { program: Some(program), ..Head::of(Shape::Journal, stamp, message) });
    }
    let (host, after) = rest.split_once(' ')?;
    let named = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '.' | '-' | '_' | ':');
    (!host.is_empty() && host.len() <= LONGEST_NAME && host.chars().all(named)).then_some(())?;
    let (program, message) = ident(after.trim_start())?;
    Some(Head { host: Some(host), program: Some(program), ..Head::of(Shape::Journal, stamp, message) })
}

/// `kubelet[123]: message`, `kernel: message`.
fn ident(text: &str) -> Option<(&str, &str)> {
    let (ident, message) = text.split_once(": ").or_else(|| Some((text.strip_suffix(':')?, "")))?;
    let name = ident
        .strip_suffix(']')
        .and_then(|ident| ident.rsplit_once('['))
        .map_or(ident, |(name, pid)| if pid.bytes().all(|byte| byte.is_ascii_digit()) { name } else { "" });
    let named = |letter: char| {
        letter.is_ascii_alphanumeric() || matches!(letter, '.' | '-' | '_' | '@' | '/' | '(' | ')' | '\\')
    };
    if name.is_empty() || name.len() > LONGEST_NAME || !name.chars().all(named) {
        return None;
    }
    let name = name.strip_suffix(".service").unwrap_or(name);
    let name = name.rsplit('/').next().filter(|last| !last.is_empty()).unwrap_or(name);
    Some((name.trim_start_matches('(').trim_end_matches(')'), message))
}

/// The time, the source file and the message of klog's. People shorten the time out of it, never the source.
fn klog(message: &str, now: Timestamp) -> Option<(Option<Stamp>, &str, &str)> {
    let mut cursor = Cursor::new(message);
    cursor.eat_any(&['I', 'W', 'E', 'F'])?;
    let stamp = cursor.klog(now);
    if stamp.is_none() {
        cursor.digits::<u32>(4)?;
    }
    let (before, said) = cursor.rest.split_once(']')?;
    let mut words = before.split_ascii_whitespace();
    let source = words.next_back()?;
    let (file, line) = source.rsplit_once(':')?;
    let process = words.all(|word| word.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b':')));
    (process && !file.is_empty() && line.bytes().all(|byte| byte.is_ascii_digit())).then_some(())?;
    Some((stamp, file, said.trim_start()))
}

/// Which program a source file is of, where no other of them has one of that name.
fn klog_program<'t>(file: &str, said: &'t str) -> Option<&'t str> {
    const FILES: [(&str, &str); 24] = [
        ("join.go", "kubeadm"),
        ("preflight.go", "kubeadm"),
        ("checks.go", "kubeadm"),
        ("initconfiguration.go", "kubeadm"),
        ("kubelet_node_status.go", "kubelet"),
        ("kubelet_network.go", "kubelet"),
        ("kubelet_pods.go", "kubelet"),
        ("pod_workers.go", "kubelet"),
        ("kuberuntime_manager.go", "kubelet"),
        ("kuberuntime_sandbox.go", "kubelet"),
        ("kuberuntime_container.go", "kubelet"),
        ("remote_runtime.go", "kubelet"),
        ("remote_image.go", "kubelet"),
        ("container_manager_linux.go", "kubelet"),
        ("eviction_manager.go", "kubelet"),
        ("cri_stats_provider.go", "kubelet"),
        ("desired_state_of_world_populator.go", "kubelet"),
        ("nodelease.go", "kubelet"),
        ("csi_plugin.go", "kubelet"),
        ("plugin_watcher.go", "kubelet"),
        ("proxier.go", "kube-proxy"),
        ("server_linux.go", "kube-proxy"),
        ("vxlan_network.go", "flannel"),
        ("match.go", "flannel"),
    ];
    if let Some(program) = by_form(said) {
        return Some(program);
    }
    let (_, program) = FILES.iter().find(|(name, _)| *name == file)?;
    Some(program)
}

/// `time="…" level=error msg="…"`
fn is_logfmt(message: &str) -> bool {
    let timed = message.starts_with("time=") || message.starts_with("ts=");
    (timed && message.contains(" level=")) || (message.starts_with("level=") && message.contains(" msg="))
}

fn logfmt_stamp(message: &str) -> Option<Stamp> {
    let time = message.strip_prefix("time=").or_else(|| message.strip_prefix("ts="))?;
    Cursor::new(time.strip_prefix('"').unwrap_or(time)).iso()
}

/// containerd and crictl write alike; crictl only speaks of connecting.
fn logfmt_program(message: &str) -> &'static str {
    const CRICTL: [&str; 3] = ["validate service connection", "connect using default endpoints", "connect endpoint"];
    let crictl = CRICTL.iter().any(|words| message.contains(words));
    if crictl { "crictl" } else { "containerd" }
}

/// What logrus writes to a terminal: `ERRO[0000] …`.
fn logrus(message: &str) -> Option<&'static str> {
    let (level, rest) = message.split_at_checked(4)?;
    let (seconds, _) = rest.strip_prefix('[')?.split_once("] ")?;
    let level = matches!(level, "DEBU" | "INFO" | "WARN" | "ERRO" | "FATA" | "PANI");
    let counted = seconds.len() == 4 && seconds.bytes().all(|byte| byte.is_ascii_digit());
    (level && counted).then(|| logfmt_program(message))
}

/// What kubeadm puts in brackets before its lines.
const PHASES: [&str; 31] = [
    "preflight",
    "discovery",
    "join",
    "init",
    "reset",
    "upgrade",
    "certs",
    "kubeconfig",
    "etcd",
    "kubelet-start",
    "kubelet-check",
    "kubelet-finalize",
    "kubelet-wait-bootstrap",
    "kubelet",
    "control-plane",
    "control-plane-check",
    "control-plane-join",
    "control-plane-prepare",
    "wait-control-plane",
    "mark-control-plane",
    "check-etcd",
    "download-certs",
    "upload-certs",
    "upload-config",
    "bootstrap-token",
    "addons",
    "apiclient",
    "patches",
    "endpoint",
    "cleanup-node",
    "remove-etcd-member",
];

/// How kubeadm's lines begin that have no phase before them. Some look like a list a person wrote.
const KUBEADM: [&str; 18] = [
    "error execution phase ",
    "error: error execution phase ",
    "This node has joined the cluster",
    "* Certificate signing request was sent",
    "* The Kubelet was informed of the new secure connection",
    "* Certificate signing request was approved",
    "Run 'kubectl get nodes'",
    "Unfortunately, an error has occurred",
    "This error is likely caused by:",
    "If you are on a systemd-powered system",
    "Additionally, a control plane component may have crashed",
    "To see the stack trace of this error",
    "Here is one example how you may list all running",
    "- The kubelet is not running",
    "- The kubelet is unhealthy due to a misconfiguration",
    "- 'systemctl status kubelet'",
    "- 'journalctl -xeu kubelet'",
    "- 'crictl ",
];

/// The program whose lines look like this one and nobody else's.
fn by_form(message: &str) -> Option<&'static str> {
    let message = message.trim_start();
    if let Some((tag, rest)) = message.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        let tag_alone = rest.is_empty() || rest.starts_with(' ');
        if tag_alone && PHASES.contains(&tag.split('/').next().unwrap_or(tag)) {
            return Some("kubeadm");
        }
        // `[WARNING Swap]: …`: a script writes no name of a check into its tag.
        if rest.starts_with(':') && (tag.starts_with("WARNING ") || tag.starts_with("ERROR ")) {
            return Some("kubeadm");
        }
        if matches!(tag, "INFO" | "WARNING" | "ERROR" | "FATAL" | "DEBUG") && rest.starts_with(" plugin/") {
            return Some("coredns");
        }
        // systemd's console; a script's own tags are exactly as wide as their word.
        if matches!(tag, "  OK  " | " WARN " | " INFO " | "DEPEND")
            || (tag == "FAILED" && rest.starts_with(" Failed to "))
        {
            return Some("systemd");
        }
        return calico(tag, rest);
    }
    KUBEADM.iter().any(|start| message.starts_with(start)).then_some("kubeadm")
}

/// `[INFO][9] felix/…`
fn calico(tag: &str, rest: &str) -> Option<&'static str> {
    let (process, _) = rest.strip_prefix('[')?.split_once(']')?;
    let level = matches!(tag, "INFO" | "WARNING" | "ERROR" | "FATAL" | "DEBUG" | "PANIC");
    (level && process.bytes().all(|byte| byte.is_ascii_digit())).then_some("calico")
}
