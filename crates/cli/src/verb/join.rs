//! `carrick join`: check, prepare, kubeadm under systemd, the TLS bootstrap watched, the node verified.

use std::fs::File;
use std::io::{IsTerminal as _, Read, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use carrick_cluster::ClusterCredentials;
use carrick_core::check;
use carrick_core::fact::pki;
use carrick_core::join::request::{BadInput, Environment, Flags, Request};
use carrick_core::join::request::{file, line};
use carrick_core::join::state::JoinPolicy;
use carrick_core::join::step::JoinOutcome;
use carrick_core::join::verify::Until;
use carrick_core::judge::Ignore;
use carrick_core::signature::Library;
use carrick_engine::Stop;
use carrick_engine::is_unprivileged;
use carrick_engine::join::{self, Fixer, JoinOptions, JoinProgress, JoinReport, discovery, join};
use carrick_engine::unit;
use carrick_host::Host;

use crate::act::{self, Consent};
use crate::exit::{Exit, Failure};
use crate::machine::{self, MachineArgs};
use crate::render::{join as screen, wrap};
use crate::signals::Signals;
use crate::terminal;

/// Join this machine to a cluster as a worker, and prove that it has joined
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The line of `kubeadm token create --print-join-command` as one text; - reads it from stdin, as does a bare `carrick
    /// join` whose stdin is no terminal
    #[arg(value_name = "JOIN LINE", conflicts_with = "config")]
    text: Option<String>,
    /// The same line as words, after --
    #[arg(last = true, value_name = "JOIN LINE", conflicts_with_all = ["text", "config"])]
    words: Vec<String>,
    /// A JoinConfiguration (kubeadm.k8s.io/v1beta3 or v1beta4)
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The API server; or MASTER_IP in the environment
    #[arg(long, value_name = "HOST:PORT")]
    api: Option<String>,
    /// A file with the bootstrap token, `-` for stdin
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// The pinned key of the cluster's CA, as kubeadm prints it
    #[arg(long, value_name = "sha256:HEX")]
    ca_hash: Vec<String>,
    /// An admin's kubeconfig: makes a token for this one join, and takes it away after
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The Node's name; else the machine's own
    #[arg(long, value_name = "NAME")]
    node_name: Option<String>,
    /// A label of the Node; may be given more than once
    #[arg(long, value_name = "KEY=VALUE")]
    label: Vec<String>,
    /// A taint of the Node; may be given more than once
    #[arg(long, value_name = "KEY=VALUE:EFFECT")]
    taint: Vec<String>,
    /// How far is far enough: registered, network, or verified
    #[arg(long, value_name = "STAGE", default_value = "verified")]
    until: Until,
    /// Take over the Node of another machine that is gone for good
    #[arg(long)]
    replace_node: bool,
    /// Fix what is safe to fix first, as `carrick check --fix` does
    #[arg(long)]
    fix: bool,
    /// Checks and causes that shall not count: ids, kubeadm's names, or all
    #[arg(long, value_name = "ID,…", value_delimiter = ',')]
    ignore: Vec<String>,
    #[command(flatten)]
    consent: Consent,
    #[command(flatten)]
    place: MachineArgs,
    /// Print what happens as JSON, a line an event
    #[arg(long)]
    events: bool,
    /// Where the join line is to be read from: how Carrick keeps a token out of its own command line
    #[arg(long, hide = true, value_name = "FD")]
    line_fd: Option<u32>,
}

impl Args {
    /// Not a word of which cluster it is.
    fn says_nothing(&self) -> bool {
        let by_flags = self.api.is_some() || self.token_file.is_some() || !self.ca_hash.is_empty();
        let by_line = self.text.is_some() || self.line_fd.is_some();
        !(by_flags || by_line || self.config.is_some() || self.kubeconfig.is_some())
    }
}

pub async fn run(args: Args, signals: &Signals) -> Result<Exit, Failure> {
    if args.text.as_deref().is_some_and(|text| text != "-") || !args.words.is_empty() {
        return Err(without_secrets(&args));
    }
    let bad = |bad: BadInput| Failure::usage(bad.to_string());
    let environment = Environment::read(|name| std::env::var(name).ok()).map_err(bad)?;
    let admin = args.kubeconfig.as_deref().map(machine::read_kubeconfig).transpose()?;
    let place = admin.as_ref().map(ClusterCredentials::server);
    let mut request = request(&args)?.with(&flags(&args)?, place, &environment).map_err(bad)?;
    request.complete(admin.is_some()).map_err(bad)?;
    if let Some(admin) = &admin {
        trust(admin, &mut request);
    }
    let ignore = ignore(&args.ignore, &mut request)?;
    let policy = JoinPolicy {
        until: args.until,
        replace_node: args.replace_node,
        fix: args.fix,
        jitter: jitter(),
        ..environment.policy()
    };
    let host = args.place.host_with(request.cri_socket.as_ref()).await?;
    let admin = admin.map(|admin| machine::client(&host, &admin));
    let asker = discovery::read(&host, &mut request).await.map_err(bad)?;
    let options = JoinOptions {
        request,
        policy,
        ignore,
        admin: admin.as_ref(),
        asker,
        protect: args.consent.protected_paths()?,
        time_box: args.place.time_box(),
    };
    if args.consent.plan {
        return Box::pin(plan(&args, &host, options)).await;
    }
    Box::pin(carry_out(&args, &host, options, signals)).await
}

/// What shall not count, for the checks and for kubeadm's own.
fn ignore(typed: &[String], request: &mut Request) -> Result<Ignore, Failure> {
    // A line or a file may name what only kubeadm checks: that is its own business.
    let known = request.ignore.iter().filter(|name| Ignore::of([name.as_str()]).is_ok());
    let names: Vec<&str> = typed.iter().chain(known).map(String::as_str).collect();
    let ignore = Ignore::of(names).map_err(|error| Failure::usage(format!("--ignore: {error}")))?;
    request.ignore_also(typed.iter().flat_map(|name| check::kubeadm_names(name)));
    Ok(ignore)
}

async fn carry_out(
    args: &Args,
    host: &Arc<dyn Host>,
    options: JoinOptions<'_>,
    signals: &Signals,
) -> Result<Exit, Failure> {
    let (actor, library) = (act::actor("join", signals.heed()), library()?);
    // Who is not root gets no lock, and needs none: the driver's first look ends the join, and says so as every cause is said.
    let unlocked = is_unprivileged(host.as_ref()).await;
    let _lock = if unlocked { None } else { Some(act::lock(host.as_ref(), &actor, &[unit::JOIN]).await?) };
    if let Some(note) = options.policy.note() {
        terminal::say(&note);
    }
    let marks = Marks::of(&options.request);
    let mut show = screen::JoinDisplay::new(args.events);
    let mut fixer = crate::verb::check::CheckFixer { place: host, consent: &args.consent, stop: actor.stop.clone() };
    let fixer: Option<&mut dyn Fixer> = if args.fix { Some(&mut fixer) } else { None };
    let begun = Instant::now();
    let mut tell = |told: JoinProgress| show.tell(&told);
    let ended = Box::pin(join(host, &actor, options, &library, fixer, &mut tell)).await;
    let exit = finish(args, host.name(), &ended, begun.elapsed(), show)?;
    if let (JoinOutcome::Joined { already: true, .. }, Ok(node)) = (&ended.outcome, &ended.state.seen.node)
        && let Some(says) = marks.come_too_late(&node.name)
    {
        terminal::say(&says);
    }
    Ok(exit)
}

/// What a kubelet gives its Node when it makes it, and never after.
struct Marks {
    labels: Vec<String>,
    taints: Vec<String>,
}

impl Marks {
    fn of(request: &Request) -> Self {
        Marks {
            labels: request.labels.iter().map(ToString::to_string).collect(),
            taints: request.taints.iter().map(ToString::to_string).collect(),
        }
    }

    /// What to do about them on a machine that had joined before.
    fn come_too_late(&self, node: &str) -> Option<String> {
        let set = |flag, verb, marks: &[String]| {
            (!marks.is_empty()).then(|| (flag, format!("kubectl {verb} node {node} {}", marks.join(" "))))
        };
        let both = [set("--label", "label", &self.labels), set("--taint", "taint", &self.taints)];
        let (flags, commands): (Vec<&str>, Vec<String>) = both.into_iter().flatten().unzip();
        (!flags.is_empty())
            .then(|| format!("carrick: {}: only a join sets these; now: {}", flags.join(", "), commands.join("; ")))
    }
}

fn finish(
    args: &Args,
    host: &str,
    ended: &JoinReport,
    took: Duration,
    show: screen::JoinDisplay,
) -> Result<Exit, Failure> {
    let text = show.end(host, ended, took, args.events).map_err(|error| Failure::internal(error.to_string()))?;
    if let Some(declined) = declined(ended).filter(|_| !args.events) {
        return Err(declined);
    }
    let printed = terminal::print(&text).map_err(|error| Failure::internal(format!("stdout: {error}")));
    match exit_of(ended) {
        // The terminal may be what is gone.
        exit @ Exit::Signal(_) => Ok(exit),
        exit => printed.map(|()| exit),
    }
}

fn exit_of(ended: &JoinReport) -> Exit {
    match &ended.outcome {
        JoinOutcome::Joined { .. } => Exit::Ok,
        JoinOutcome::Unproven { .. } => Exit::Warnings,
        JoinOutcome::Interrupted { signal, .. } => Exit::Signal(*signal),
        JoinOutcome::Failed(_) if let Some(signal) = ended.stopped => Exit::Signal(signal),
        JoinOutcome::Failed(_) if ended.declined => Exit::Consent,
        JoinOutcome::Failed(failure) if failure.overdue => Exit::TimedOut,
        JoinOutcome::Failed(_) => Exit::Failed,
    }
}

/// Nobody said yes, and nothing was done: as `check --fix` ends then. No cause is to be told.
fn declined(ended: &JoinReport) -> Option<Failure> {
    match &ended.outcome {
        JoinOutcome::Failed(failure) if ended.declined && !ended.state.changed => {
            Some(Failure::consent(format!("not joined: {}", failure.says)))
        }
        _ => None,
    }
}

/// What would be done, as far as it can be known before kubeadm has run.
async fn plan(args: &Args, host: &Arc<dyn Host>, options: JoinOptions<'_>) -> Result<Exit, Failure> {
    let planned = Box::pin(join::plan(host, &act::actor("join", Stop::never()), options, &library()?)).await;
    let planned = planned.map_err(|trouble| Failure::failed(trouble.to_string()))?;
    if !planned.refused.is_empty() {
        let causes: Vec<String> = planned.refused.iter().map(|cause| format!("{}  {}", cause.id, cause.says)).collect();
        return Err(Failure::failed(format!("it would not be joined: {}", causes.join("; "))));
    }
    let refused = args.consent.refused(&planned.facts, &planned.steps)?;
    let mut text = match planned.steps.as_slice() {
        [] => String::new(),
        steps => act::told_with(host.name(), steps, &refused),
    };
    let under = |line: &String| format!("      {}\n", wrap::hang(line, act::INDENT, terminal::width()));
    text.extend(planned.then.iter().map(under));
    text.push_str("\nNothing was changed. Do it: the same without --plan\n");
    let text = if args.events { act::as_json(host.name(), &planned.steps, &refused)? } else { text };
    terminal::print(&text).map_err(|error| Failure::internal(format!("stdout: {error}")))?;
    refused.ends().map(|()| Exit::Ok)
}

fn library() -> Result<Library, Failure> {
    Library::built_in().map_err(|complaint| Failure::internal(complaint.to_string()))
}

/// An admin's kubeconfig also says which CA to believe.
fn trust(admin: &ClusterCredentials, request: &mut Request) {
    if request.pins.is_empty() && !request.skip_ca_check && request.discovery_file.is_none() {
        let pins = pki::parse_certificates(admin.ca()).unwrap_or_default();
        request.pins = pins.iter().filter_map(|ca| ca.pin.parse().ok()).collect();
    }
}

/// What a join line or a file says; nothing where only flags are given.
fn request(args: &Args) -> Result<Request, Failure> {
    let bad = |bad: BadInput| Failure::usage(bad.to_string());
    if let Some(path) = &args.config {
        let text = machine::read_short(path)
            .map_err(|error| Failure::usage(format!("--config {}: {error}", path.display())))?;
        return file::from_text(&text).map_err(bad);
    }
    let unsaid = args.says_nothing();
    let text = match (args.line_fd, args.text.as_deref()) {
        (Some(number), _) => handed_over(&format!("/proc/self/fd/{number}"))?,
        (None, Some("-")) => typed()?,
        (None, None) if unsaid && !std::io::stdin().is_terminal() => typed()?,
        _ => return Ok(Request::default()),
    };
    if unsaid && text.trim().is_empty() {
        return Ok(Request::default());
    }
    if text.contains('\0') {
        let words: Vec<String> = text.split_terminator('\0').map(str::to_owned).collect();
        return line::from_args(&words).map_err(bad);
    }
    line::from_text(&text).map_err(bad)
}

/// A join line has 200 characters.
const LONGEST_LINE: u64 = 64 << 10;

fn read_line<R: Read>(open: impl FnOnce() -> std::io::Result<R>) -> Result<String, Failure> {
    let mut text = String::new();
    let read = open().and_then(|input| input.take(LONGEST_LINE + 1).read_to_string(&mut text));
    read.map_err(|error| Failure::usage(format!("the join line: {error}")))?;
    not_too_long(&text).map(|()| text)
}

/// Reads it from stdin. Who has not meant that sees what is waited for.
fn typed() -> Result<String, Failure> {
    let (sender, line) = mpsc::channel();
    std::thread::spawn(move || sender.send(read_line(|| Ok(std::io::stdin()))));
    let waited = line.recv_timeout(machine::QUIET).or_else(|_| {
        terminal::say("carrick: the join line is read from stdin, and nothing has come yet");
        line.recv()
    });
    waited.unwrap_or_else(|_| Err(Failure::internal("stdin could not be read")))
}

/// Reads the line from where [`without_secrets`] put it, and empties that: what we start has it open, too.
fn handed_over(path: &str) -> Result<String, Failure> {
    let line = read_line(|| File::open(path))?;
    if std::fs::read_link(path).is_ok_and(|target| target.to_string_lossy().contains(MEMORY)) {
        let emptied = File::options().write(true).truncate(true).open(path);
        emptied.map_err(|error| Failure::internal(format!("the token could not be taken out of memory: {error}")))?;
    }
    Ok(line)
}

fn not_too_long(line: &str) -> Result<(), Failure> {
    if line.len() as u64 <= LONGEST_LINE {
        return Ok(());
    }
    Err(Failure::usage(format!("the join line: it is longer than {LONGEST_LINE} bytes")))
}

fn flags(args: &Args) -> Result<Flags, Failure> {
    Ok(Flags {
        api: args.api.clone(),
        token: args.token_file.as_deref().map(machine::read_token).transpose()?,
        ca_hashes: args.ca_hash.clone(),
        node_name: args.node_name.clone(),
        cri_socket: args.place.cri_socket().map(str::to_owned),
        labels: args.label.clone(),
        taints: args.taint.clone(),
    })
}

/// What the memory is called that holds a join line between us and ourselves.
const MEMORY: &str = "carrick-join-line";

/// Everybody on a machine can read a command line. What holds a token goes over a descriptor, to ourselves, run anew.
fn without_secrets(args: &Args) -> Failure {
    // Words are kept apart by what no word can hold.
    let line = args.text.clone().unwrap_or_else(|| args.words.iter().map(|word| format!("{word}\0")).collect());
    if let Err(too_long) = not_too_long(&line) {
        return too_long;
    }
    let moved = || -> std::io::Result<std::convert::Infallible> {
        // Not a pipe: who writes more into one than it holds waits for a reader, and that is to be us.
        let memory = rustix::fs::memfd_create(MEMORY, rustix::fs::MemfdFlags::empty())?;
        let mut file = File::from(memory);
        file.write_all(line.as_bytes())?;
        let mut again = std::process::Command::new("/proc/self/exe");
        again.arg0("carrick").args(arguments(&line, &args.words));
        again.arg(format!("--line-fd={}", file.as_raw_fd()));
        Err(again.exec())
    };
    match moved() {
        Err(error) => Failure::internal(format!("the token could not be taken off the command line: {error}")),
    }
}

/// Our own arguments without the join line.
fn arguments(line: &str, words: &[String]) -> Vec<std::ffi::OsString> {
    let all: Vec<std::ffi::OsString> = std::env::args_os().skip(1).collect();
    let before =
        if words.is_empty() { all.len() } else { all.iter().position(|word| word == "--").unwrap_or(all.len()) };
    all.into_iter().take(before).filter(|word| word.to_str() != Some(line)).collect()
}

/// Machines that failed together shall not all come back together.
fn jitter() -> u8 {
    use std::hash::{BuildHasher as _, Hasher as _};
    let drawn = std::hash::RandomState::new().build_hasher().finish() % 101;
    u8::try_from(drawn).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use carrick_core::StopSignal;
    use carrick_core::catalogue::Class;
    use carrick_core::join::ending::SideEffects;
    use carrick_core::join::failure;
    use carrick_core::join::state::{JoinStatus, Stage};
    use jiff::Timestamp;

    use super::*;

    #[test]
    fn labels_and_taints_that_come_too_late_are_told_with_the_command() {
        let texts = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect::<Vec<_>>();
        for (labels, taints, expected) in [
            (&[][..], &[][..], None),
            (
                &["disk=ssd", "rack=7"][..],
                &[][..],
                Some("carrick: --label: only a join sets these; now: kubectl label node w1 disk=ssd rack=7"),
            ),
            (
                &["disk=ssd"],
                &["gpu:NoSchedule"],
                Some(
                    "carrick: --label, --taint: only a join sets these; now: kubectl label node w1 disk=ssd; \
                     kubectl taint node w1 gpu:NoSchedule",
                ),
            ),
        ] {
            let marks = Marks { labels: texts(labels), taints: texts(taints) };
            assert_eq!(marks.come_too_late("w1").as_deref(), expected);
        }
    }

    #[test]
    fn ends_as_it_went() {
        let failed = |overdue| {
            let (stage, class, says) = (Stage::Unjoined, Class::Configuration, "nothing was changed".to_owned());
            JoinOutcome::Failed(failure::JoinFailure { stage, class, says, causes: Vec::new(), overdue })
        };
        let joined = JoinOutcome::Joined { until: Until::Verified, already: false };
        let unproven = JoinOutcome::Unproven { says: "no pod runs here".to_owned() };
        for (outcome, nobody_agreed, changed, expected, only_this) in [
            (joined, false, true, Exit::Ok, None),
            (unproven, false, true, Exit::Warnings, None),
            (failed(false), false, false, Exit::Failed, None),
            (failed(true), false, true, Exit::TimedOut, None),
            (failed(false), true, false, Exit::Consent, Some("not joined: nothing was changed")),
            // An earlier attempt had fixed something: that is told, too.
            (failed(false), true, true, Exit::Consent, None),
        ] {
            let (mut state, _) = JoinStatus::begin(JoinPolicy::default(), Timestamp::UNIX_EPOCH);
            state.changed = changed;
            let (left, last_words) = (SideEffects::default(), Vec::new());
            let (diagnosis, log, record) = (None, None, None);
            let declined = nobody_agreed;
            let mut ended =
                JoinReport { outcome, state, diagnosis, log, record, last_words, left, declined, stopped: None };
            assert_eq!(exit_of(&ended), expected, "{ended:?}");
            assert_eq!(super::declined(&ended).map(|failure| failure.to_string()).as_deref(), only_this, "{ended:?}");
            // What came about is so, whoever wanted to stop it; what failed ends as it was told to.
            ended.stopped = Some(StopSignal::Interrupt);
            let is_failure = matches!(ended.outcome, JoinOutcome::Failed(_));
            let expected = if is_failure { Exit::Signal(StopSignal::Interrupt) } else { expected };
            assert_eq!(exit_of(&ended), expected, "{ended:?}");
        }
    }
}
