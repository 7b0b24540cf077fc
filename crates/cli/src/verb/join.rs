//! `carrick join`: check, prepare, kubeadm under systemd, the TLS bootstrap watched, the node verified.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use carrick_cluster::client::Client;
use carrick_core::aim::Token;
use carrick_core::check;
use carrick_core::fact::pki;
use carrick_core::join::input::{BadInput, Environment, Flags, Request};
use carrick_core::join::state::Policy;
use carrick_core::join::step::Outcome;
use carrick_core::join::verify::Until;
use carrick_core::join::{document, line};
use carrick_core::report::Ignore;
use carrick_core::signature::Library;
use carrick_engine::join::driver::{self, Ended, Told, Wish};
use carrick_engine::join::{begin, discovery, token};
use carrick_engine::observe::FromMachine;
use carrick_host::Host;

use crate::act::{self, Consent};
use crate::exit::{Exit, Failure};
use crate::machine::{self, Where};
use crate::render::{join as screen, wrap};
use crate::terminal;

/// Join this machine to a cluster as a worker, and prove that it has joined
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The line of `kubeadm token create --print-join-command` as one text; - reads it from stdin
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
    /// The runtime to use: unix:///PATH or a path, as kubeadm takes it. No other is looked at then
    #[arg(long, value_name = "SOCKET")]
    cri_socket: Option<String>,
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
    /// Mend what is safe to mend first, as `carrick check --fix` does
    #[arg(long)]
    fix: bool,
    /// Checks that shall not count: ids, kubeadm's names, or all
    #[arg(long, value_name = "ID,…", value_delimiter = ',')]
    ignore: Vec<String>,
    #[command(flatten)]
    consent: Consent,
    #[command(flatten)]
    place: Where,
    /// Print what happens as JSON, a line an event
    #[arg(long)]
    events: bool,
    /// Where the join line is to be read from: how Carrick keeps a token out of its own command line
    #[arg(long, hide = true, value_name = "FD")]
    line_fd: Option<u32>,
}

pub async fn run(args: Args) -> Result<Exit, Failure> {
    if args.text.as_deref().is_some_and(|text| text != "-") || !args.words.is_empty() {
        return Err(without_secrets(&args));
    }
    let bad = |bad: BadInput| Failure::usage(bad.to_string());
    let environment = Environment::read(|name| std::env::var(name).ok()).map_err(bad)?;
    let admin = args.kubeconfig.as_deref().map(machine::read_kubeconfig).transpose()?;
    let mut request = request(&args)?.with(&flags(&args)?, &environment).map_err(bad)?;
    request.complete(admin.is_some()).map_err(bad)?;
    let ignore = ignore(&args.ignore, &mut request)?;
    let usual = Policy::default();
    let policy = Policy {
        until: args.until,
        attempts: environment.attempts.unwrap_or(usual.attempts),
        join_timeout: environment.join_timeout.unwrap_or(usual.join_timeout),
        replace_node: args.replace_node,
        fix: args.fix,
        jitter: jitter(),
    };
    let socket = request.cri_socket.as_ref().map(|socket| socket.path().to_owned());
    let host = args.place.host_with(socket).await?;
    let asker = discovery::read(host.as_ref(), &mut request).await.map_err(bad)?;
    let wish = Wish {
        request,
        policy,
        ignore,
        admin: admin.as_ref(),
        asker,
        protect: args.consent.protected_paths()?,
        time_box: args.place.time_box(),
    };
    if args.consent.plan {
        return Box::pin(plan(&args, host.as_ref(), wish)).await;
    }
    Box::pin(carry_out(&args, host.as_ref(), wish)).await
}

/// What shall not count, for the checks and for kubeadm's own.
fn ignore(typed: &[String], request: &mut Request) -> Result<Ignore, Failure> {
    // A line may name what only kubeadm checks: that is its own business.
    let known = request.ignore.iter().filter(|name| Ignore::of([name.as_str()]).is_ok());
    let names: Vec<&str> = typed.iter().chain(known).map(String::as_str).collect();
    let ignore = Ignore::of(names).map_err(|error| Failure::usage(format!("--ignore: {error}")))?;
    request.ignore.extend(typed.iter().flat_map(|name| check::kubeadm_names(name)));
    Ok(ignore)
}

async fn carry_out(args: &Args, host: &dyn Host, mut wish: Wish<'_>) -> Result<Exit, Failure> {
    let (actor, library) = (act::actor("join"), library()?);
    let _lock = act::lock(host, &actor).await?;
    if let Some(note) = wish.policy.note() {
        terminal::say(&note);
    }
    let minted = match wish.admin {
        Some(admin) if wish.request.token.is_none() => Some(mint(host, admin, &mut wish.request).await?),
        _ => None,
    };
    let admin = wish.admin;
    let mut show = screen::Show::new(args.events);
    let mut mender = crate::verb::check::Mending { place: host, consent: &args.consent };
    let mender: Option<&mut dyn driver::Mender> = if args.fix { Some(&mut mender) } else { None };
    let begun = Instant::now();
    let mut tell = |told: Told| show.tell(&told);
    let ended = Box::pin(driver::join(host, &actor, wish, &library, mender, &mut tell)).await;
    if let (Some(token), Some(admin)) = (minted, admin)
        && let Err(why) = token::revoke(admin, &FromMachine(host), &token).await
    {
        terminal::say(&format!("carrick: the token {} could not be revoked ({why}); it ends by itself", token.id));
    }
    finish(args, host.name(), &ended, begun.elapsed(), show)
}

fn finish(args: &Args, host: &str, ended: &Ended, took: Duration, show: screen::Show) -> Result<Exit, Failure> {
    let text = show.end(host, ended, took, args.events).map_err(|error| Failure::internal(error.to_string()))?;
    terminal::print(&text).map_err(|error| Failure::internal(format!("stdout: {error}")))?;
    Ok(match &ended.outcome {
        Outcome::Joined { .. } => Exit::Ok,
        Outcome::Failed(failure) if failure.overdue => Exit::TimedOut,
        Outcome::Failed(_) => Exit::Failed,
    })
}

/// What would be done, as far as it can be known before kubeadm has run.
async fn plan(args: &Args, host: &dyn Host, wish: Wish<'_>) -> Result<Exit, Failure> {
    let planned = Box::pin(begin::plan(host, &act::actor("join"), wish, &library()?)).await;
    let planned = planned.map_err(|trouble| Failure::failed(trouble.to_string()))?;
    if let Some(cause) = planned.refused {
        return Err(Failure::failed(format!("it would not be joined: {}  {}", cause.id, cause.says)));
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

/// With an admin's kubeconfig: a token of our own, and what else the join line would say.
async fn mint(host: &dyn Host, admin: &Client, request: &mut Request) -> Result<Token, Failure> {
    let way = FromMachine(host);
    let token = token::mint(admin, &way, host.now()).await;
    let token = token.map_err(|why| Failure::failed(format!("no token could be made: {why}; nothing was changed")))?;
    request.token = Some(token.clone());
    if request.api.is_none() {
        request.api = Some(admin.endpoint().clone());
    }
    if request.pins.is_empty() {
        let pins = pki::parse_certificates(admin.ca()).unwrap_or_default();
        request.pins = pins.iter().filter_map(|ca| ca.pin.parse().ok()).collect();
    }
    Ok(token)
}

/// What a join line or a file says; nothing where only flags are given.
fn request(args: &Args) -> Result<Request, Failure> {
    let bad = |bad: BadInput| Failure::usage(bad.to_string());
    if let Some(path) = &args.config {
        let text = machine::read_short(path)
            .map_err(|error| Failure::usage(format!("--config {}: {error}", path.display())))?;
        return document::from_text(&text).map_err(bad);
    }
    let mut text = String::new();
    let read = match (args.line_fd, args.text.as_deref()) {
        (Some(number), _) => File::open(format!("/proc/self/fd/{number}"))
            .and_then(|file| file.take(LONGEST_LINE).read_to_string(&mut text)),
        (None, Some("-")) => std::io::stdin().take(LONGEST_LINE).read_to_string(&mut text),
        _ => return Ok(Request::default()),
    };
    read.map_err(|error| Failure::usage(format!("join line: {error}")))?;
    if text.contains('\0') {
        let words: Vec<String> = text.split_terminator('\0').map(str::to_owned).collect();
        return line::from_args(&words).map_err(bad);
    }
    line::from_text(&text).map_err(bad)
}

/// A join line has 200 characters.
const LONGEST_LINE: u64 = 64 << 10;

fn flags(args: &Args) -> Result<Flags, Failure> {
    Ok(Flags {
        api: args.api.clone(),
        token: args.token_file.as_deref().map(machine::read_token).transpose()?,
        ca_hashes: args.ca_hash.clone(),
        node_name: args.node_name.clone(),
        cri_socket: args.cri_socket.clone(),
        labels: args.label.clone(),
        taints: args.taint.clone(),
    })
}

/// Everybody on a machine can read a command line. What holds a token goes over a descriptor, to ourselves, run anew.
fn without_secrets(args: &Args) -> Failure {
    // Words are kept apart by what no word can hold.
    let line = args.text.clone().unwrap_or_else(|| args.words.iter().map(|word| format!("{word}\0")).collect());
    let moved = || -> std::io::Result<std::convert::Infallible> {
        let (reader, writer): (OwnedFd, OwnedFd) = rustix::pipe::pipe()?;
        File::from(writer).write_all(line.as_bytes())?;
        rustix::io::fcntl_setfd(&reader, rustix::io::FdFlags::empty())?;
        let mut again = std::process::Command::new("/proc/self/exe");
        again.arg0("carrick").args(arguments(&line, &args.words));
        again.arg(format!("--line-fd={}", reader.as_raw_fd()));
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
