//! Changing a machine: the plan on the screen, a yes, the steps as they are made. The same for every verb that acts.

use std::sync::Arc;
use std::time::{Duration, Instant};

use carrick_cluster::ClusterClient;
use carrick_core::fact::Facts;
use carrick_core::plan::Plan;
use carrick_core::plan::protect::Protected;
use carrick_core::shown;
use carrick_engine::Stop;
use carrick_engine::act::undo::UndoError;
use carrick_engine::act::{self, Actor, Grounded, StepProgress, Stopped};
use carrick_engine::unit::TransientUnit;
use carrick_host::cri;
use carrick_host::{Host, Lock, Locked};

use tokio::time::timeout;

use crate::exit::Failure;
use crate::render::wrap;
use crate::signals::Signals;
use crate::terminal::{self, LiveLine, OK, WARN, styled};

mod plan;

pub use plan::{INDENT, Refused, as_json, planned, told, told_with, with_note, written};

/// Whether, and how far, a verb may change something.
#[derive(Clone, Debug, clap::Args)]
pub struct Consent {
    /// Print what would be changed, and change nothing
    #[arg(long, conflicts_with = "yes")]
    pub plan: bool,
    /// Change it without asking
    #[arg(short, long)]
    pub yes: bool,
    /// A path that must not be touched; may be given more than once
    #[arg(long, value_name = "PATH")]
    protect: Vec<String>,
}

impl Consent {
    /// For what touches nothing that could be protected.
    pub fn of(plan: bool, yes: bool) -> Self {
        Consent { plan, yes, protect: Vec::new() }
    }

    pub fn is_given(&self) -> bool {
        self.plan || self.yes || !self.protect.is_empty()
    }

    /// What `--protect` names.
    pub fn protected_paths(&self) -> Result<Vec<String>, Failure> {
        self.protect.iter().map(|path| protectable(path)).collect()
    }

    /// What must be left alone on a machine.
    pub fn protected(&self, facts: &Facts) -> Result<Protected, Failure> {
        Protected::on(facts, self.protected_paths()?).map_err(|missing| {
            let next = missing.next_step();
            Failure::failed(format!("cannot tell what must not be touched ({missing}); nothing was changed; {next}"))
        })
    }

    /// What of a plan would be refused on a machine, when it is shown and before anybody is asked.
    pub fn refused(&self, facts: &Facts, steps: &[Grounded]) -> Result<Refused, Failure> {
        self.protected_paths()?;
        Ok(match self.protected(facts) {
            _ if steps.is_empty() => Refused::default(),
            Ok(protected) => Refused::by(&protected, steps),
            Err(unknown) => Refused::because(unknown.to_string()),
        })
    }

    /// Asks, unless the answer was given. The question goes to the terminal itself: stdin may carry a token.
    pub async fn ask(&self, question: &str, stop: &Stop) -> Result<(), Failure> {
        if self.yes {
            return Ok(());
        }
        let question = format!("{question} [y/N]");
        // On a thread of its own: who is asked may press Ctrl-C instead.
        let asking = tokio::task::spawn_blocking(move || terminal::ask(&question));
        let asked = stop
            .or(asking)
            .await
            .map_err(|signal| Failure::signal(signal, format!("stopped by {}; nothing was changed", signal.name())))?;
        let Some(answer) = asked.unwrap_or_else(|failed| Some(Err(std::io::Error::other(failed)))) else {
            return Err(Failure::consent(
                "nothing was changed: there is no terminal to ask on; say --yes, or see --plan",
            ));
        };
        let answer = answer.map_err(|error| Failure::consent(format!("nothing was changed: /dev/tty: {error}")))?;
        if matches!(answer.trim(), "y" | "Y" | "yes") {
            return Ok(());
        }
        Err(Failure::consent("nothing was changed"))
    }
}

fn protectable(path: &str) -> Result<String, Failure> {
    let plain = path.trim_end_matches('/');
    if plain.starts_with('/') && !plain.split('/').any(|part| part == ".." || part == ".") {
        return Ok(plain.to_owned());
    }
    Err(Failure::usage(format!("--protect {path:?} is not a plain absolute path")))
}

/// Who acts, for the machine's journal.
pub fn actor(verb: &str, stop: Stop) -> Actor {
    let by = match std::env::var("SUDO_USER") {
        Ok(user) if !user.is_empty() => format!("{user} through sudo"),
        _ => std::env::var("USER").unwrap_or_else(|_| format!("uid {}", rustix::process::getuid().as_raw())),
    };
    Actor { verb: verb.to_owned(), by, version: env!("CARGO_PKG_VERSION").to_owned(), stop }
}

/// Who acts, and the machine's lock, unless only a plan is asked for: from here on the first signal is left to the verb.
pub async fn begin(
    verb: &str,
    host: &dyn Host,
    consent: &Consent,
    signals: &Signals,
    may_find: &[TransientUnit],
) -> Result<(Actor, Option<Lock>), Failure> {
    if consent.plan {
        return Ok((actor(verb, Stop::never()), None));
    }
    let actor = actor(verb, signals.heed());
    let lock = lock(host, &actor, may_find).await?;
    Ok((actor, Some(lock)))
}

/// A sandbox is taken away in a second, or by the next that is tried.
const SANDBOX_GOES: Duration = Duration::from_secs(10);

/// Does something that tries throw-away sandboxes. Where a signal ends it, none stays behind, nor what `also` takes away:
/// whether it could.
pub async fn with_sandboxes<T>(
    host: &dyn Host,
    signals: &Signals,
    work: impl Future<Output = T>,
    also: impl Future<Output = bool>,
) -> Result<T, Failure> {
    let stopped = match signals.heed().or(work).await {
        Ok(done) => return Ok(done),
        Err(signal) => signal,
    };
    let endpoints = cri::endpoints(host);
    let clearing = async { tokio::join!(cri::sandbox::clear(host, &endpoints), also) };
    let says = match timeout(SANDBOX_GOES, Box::pin(clearing)).await {
        Ok((Ok(()), true)) => "nothing of it is left",
        Ok(_) | Err(_) => "a sandbox or a Pod of it may be left; the next carrick verify removes it",
    };
    Err(Failure::signal(stopped, format!("stopped by {}; {says}", stopped.name())))
}

/// `may_find`: units of ours that may be at work.
pub async fn lock(host: &dyn Host, actor: &Actor, may_find: &[TransientUnit]) -> Result<Lock, Failure> {
    let locking = act::lock(host, actor, may_find);
    let locked = terminal::patiently("the machine's lock is taken, and systemd asked what still runs", locking).await;
    locked.map_err(|locked| match locked {
        Locked::By(_) => Failure::failed(locked.to_string()),
        Locked::Trouble(trouble) => Failure::failed(format!("nothing was changed: {trouble}; try as root")),
    })
}

pub async fn ground(host: &dyn Host, plan: &Plan) -> Result<Vec<Grounded>, Failure> {
    let grounded = terminal::patiently("what the plan would change is looked at", act::ground(host, plan)).await;
    grounded.map_err(|trouble| Failure::failed(format!("nothing was changed: {trouble}")))
}

/// Steps on the screen, one line each, as they are done.
pub struct Steps {
    line: LiveLine,
    doing: String,
    since: Instant,
    /// Steps that could not be made.
    passed: usize,
}

impl Steps {
    pub fn new() -> Self {
        Steps { line: LiveLine::new(), doing: String::new(), since: Instant::now(), passed: 0 }
    }

    pub fn tell(&mut self, told: &StepProgress<'_>) {
        match told {
            StepProgress::Begins(_, doing) => {
                self.doing = shown::in_line(doing);
                self.since = Instant::now();
                self.line.show(&format!("  ..  {}", self.doing));
            }
            StepProgress::Waits(elapsed, reason) => {
                let text = format!("  ..  {} ({} s): {}", self.doing, elapsed.as_secs(), shown::in_line(reason));
                self.line.show_or_say(&text);
            }
            StepProgress::Done(_) => {
                self.line.clear();
                let took = format!("{:.1} s", self.since.elapsed().as_secs_f64());
                terminal::say(&format!("  {}  {}", styled(OK, "ok"), with_note(&self.doing, &took, terminal::width())));
            }
            StepProgress::Passed(_, why) => {
                self.line.clear();
                self.passed += 1;
                let text = format!("{}: {}", self.doing, shown::in_line(why));
                let text = wrap::hang(&text, INDENT, terminal::width());
                terminal::say(&format!("  {}  {text}", styled(WARN, "--")));
            }
        }
    }
}

/// Carries a grounded plan out. The caller holds the lock.
pub async fn carry_out(
    host: &Arc<dyn Host>,
    actor: &Actor,
    steps: &[Grounded],
    protected: &Protected,
) -> Result<u32, Failure> {
    carry_out_in(host, None, actor, steps, protected).await.map(|(run, _)| run)
}

/// The same, with an admin's credentials for what changes the cluster; also how many steps could not be made, and had not
/// to be.
pub async fn carry_out_in(
    host: &Arc<dyn Host>,
    admin: Option<&ClusterClient>,
    actor: &Actor,
    steps: &[Grounded],
    protected: &Protected,
) -> Result<(u32, usize), Failure> {
    shown(host, admin, actor, steps, protected).await.map_err(|stopped| stopped_as_failure(&stopped))
}

/// The same, for who has to know how far it came.
pub async fn shown(
    host: &Arc<dyn Host>,
    admin: Option<&ClusterClient>,
    actor: &Actor,
    steps: &[Grounded],
    protected: &Protected,
) -> Result<(u32, usize), Stopped> {
    let mut shown = Steps::new();
    let applied = act::apply_in(host, admin, actor, steps, protected, &mut |told| shown.tell(&told)).await;
    applied.map(|run| (run, shown.passed))
}

pub fn stopped_as_failure(stopped: &Stopped) -> Failure {
    match stopped {
        Stopped::Refused(refusal) => Failure::failed(format!("refused, nothing was changed: {refusal}")),
        _ => match stopped.signal() {
            Some(signal) => Failure::signal(signal, stopped.to_string()),
            None => Failure::failed(stopped.to_string()),
        },
    }
}

pub fn not_undone(error: &UndoError) -> Failure {
    use carrick_engine::act::journal::JournalError;
    match error {
        UndoError::Nothing | UndoError::Already(_) | UndoError::Broken(JournalError::Unknown(_)) => {
            Failure::usage(error.to_string())
        }
        UndoError::Told { signal, .. } => Failure::signal(*signal, error.to_string()),
        _ => Failure::failed(error.to_string()),
    }
}
