//! `carrick verify`: whether a machine has really joined. The API server is asked, and a throw-away sandbox is started, or
//! with an admin's rights a throw-away Pod where nothing else is proof; nothing else is changed, and nothing is taken on
//! kubeadm's word.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use carrick_core::fact::api_path::StepOutcome;
use carrick_core::fact::identity::MachineIdentity;
use carrick_core::fact::{Facts, Why};
use carrick_core::join::verify::{self, NodeEvidence, Until};
use carrick_core::judge::{self, Ignore};
use carrick_core::report::Report;
use carrick_core::signature::Library;
use carrick_engine::join::NodeObserver;
use carrick_engine::join::inspect::LiveDiagnosis;
use carrick_engine::join::verify::look;
use clap::ValueEnum;

use crate::act::with_sandboxes;
use crate::exit::{Exit, Failure};
use crate::machine::{ClusterArgs, MachineArgs, client};
use crate::render::{self, TextOptions};
use crate::signals::Signals;
use crate::terminal::{self, WaitLine};

/// Prove that a machine has joined: asks the API server, starts a throw-away sandbox (with --kubeconfig a throw-away Pod where
/// nothing else is proof); changes nothing else
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    place: MachineArgs,
    #[command(flatten)]
    cluster: ClusterArgs,
    /// How far is far enough: registered, network or verified
    #[arg(long, value_name = "HOW-FAR", default_value = "verified")]
    until: Until,
    /// Watch the network's pods on this node for so long (3m, 90s or seconds): none may restart
    #[arg(long, value_name = "TIME", value_parser = soak)]
    soak: Option<Duration>,
    /// Causes that shall not count: their ids, or all
    #[arg(long, value_name = "ID,…", value_delimiter = ',')]
    ignore: Vec<String>,
    /// How to print the report
    #[arg(short, long, value_enum, default_value_t = Format::Text)]
    output: Format,
    /// List what holds and what is skipped, too
    #[arg(short, long)]
    verbose: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Format {
    Text,
    Json,
}

/// What the options of every verb mean for this one.
pub fn described(command: clap::Command) -> clap::Command {
    command
        .mut_arg("api", |arg| arg.help("The cluster it shall be in: says where it is in another"))
        .mut_arg("kubeconfig", |arg| {
            arg.help(
                "An admin's kubeconfig: asks with that instead of the kubelet's own credential, has the API server reach this \
                 node, and where nothing else is proof, starts a throw-away Pod",
            )
        })
}

/// A pod that dies in a loop is seen within minutes; who wants to watch for longer wants a monitor.
const LONGEST_SOAK: Duration = Duration::from_hours(1);

/// `90s`, `3m`, or plain seconds.
fn soak(text: &str) -> Result<Duration, String> {
    let (number, unit) = match text.strip_suffix('m') {
        Some(minutes) => (minutes, 60),
        None => (text.strip_suffix('s').unwrap_or(text), 1),
    };
    let seconds = number.parse::<u64>().ok().and_then(|number| number.checked_mul(unit)).filter(|seconds| *seconds > 0);
    let time = seconds.map(Duration::from_secs).filter(|time| *time <= LONGEST_SOAK);
    time.ok_or_else(|| format!("{text:?} is not a time of 1s to {}m such as 90s or 3m", LONGEST_SOAK.as_secs() / 60))
}

pub async fn run(args: Args, signals: &Signals) -> Result<Exit, Failure> {
    if args.soak.is_some() && args.until != Until::Verified {
        return Err(Failure::usage(format!(
            "--soak watches what comes after --until {}; leave one of them out",
            args.until.name()
        )));
    }
    let ignore = Ignore::of(args.ignore.iter().map(String::as_str));
    let ignore = ignore.map_err(|error| Failure::usage(format!("--ignore: {error}")))?;
    let library = Library::built_in().map_err(|complaint| Failure::internal(complaint.to_string()))?;
    let begun = Instant::now();
    let admin = args.cluster.admin()?;
    let host = args.place.host().await?;
    let admin = admin.map(|admin| client(&host, &admin));
    let (facts, _) = args.place.observe_on(host.as_ref(), None, args.cluster.clone()).await?;
    needs_root(&facts)?;
    let mut observer = NodeObserver::new(&host, node_name(&facts)?, identity(&facts), admin.as_ref());
    observer.by_admin = true;
    let asked = args.cluster.is_named().then(|| asked_for(&facts));
    observer.asked.cas = facts.cluster_cas().unwrap_or_default();
    let diagnosis = LiveDiagnosis { library: &library, ignore: &ignore, time_box: args.place.time_box() };
    let on_signal = observer.clone();
    let also = async { on_signal.clear().await.is_ok() };
    let looks = Box::pin(watched(&mut observer, &args, &diagnosis));
    let mut seen = with_sandboxes(host.as_ref(), signals, looks, also).await?;
    if let Some(Err(why)) = asked {
        seen.cluster = Err(why);
    }
    let report = verify::report(host.name(), &seen, args.until);
    show(&args, &Report { machine: judge::machine(&facts), ..report }, begun.elapsed())
}

/// The kubelet's credential and the runtime are root's. Who may not look has not seen that a node has not joined.
fn needs_root(facts: &Facts) -> Result<(), Failure> {
    match facts.uid() {
        Ok(uid) if uid != 0 => Err(Failure::usage(format!(
            "verify reads the kubelet's credential and starts a sandbox, which user {uid} may not: run it as root \
             (sudo carrick verify; with -H: --sudo)"
        ))),
        _ => Ok(()),
    }
}

fn node_name(facts: &Facts) -> Result<String, Failure> {
    facts.kubelet_node_name().map_err(|missing| {
        Failure::unknown(format!("cannot tell what this node is called: {missing}; see carrick check"))
    })
}

/// One that cannot be read proves nothing, as an empty one.
fn identity(facts: &Facts) -> MachineIdentity {
    facts.identity().unwrap_or(MachineIdentity { uuid: None, machine_id: None })
}

/// Whether the CA of the cluster that was asked for could be had; if not, which step of the way to it failed.
fn asked_for(facts: &Facts) -> Result<(), Why> {
    let Err(missing) = facts.cluster_cas() else { return Ok(()) };
    let path = facts.api_path().ok();
    let failed = path.as_ref().and_then(|path| match &path.failed()?.state {
        StepOutcome::Failed(detail) => Some(detail.clone()),
        StepOutcome::Ok(_) | StepOutcome::NotNeeded(_) => None,
    });
    Err(Why::Broken(failed.unwrap_or_else(|| missing.to_string())))
}

/// Looks, and says meanwhile what it waits for.
async fn watched(observer: &mut NodeObserver<'_>, args: &Args, diagnosis: &LiveDiagnosis<'_>) -> NodeEvidence {
    let name = observer.node.clone();
    let waits_for = Arc::new(Mutex::new("the machine is looked at".to_owned()));
    let told = Arc::clone(&waits_for);
    let mut tell = move |text: &str| text.clone_into(&mut told.lock().unwrap_or_else(PoisonError::into_inner));
    let looking = look(observer, args.until, args.soak, diagnosis, &mut tell);
    tokio::pin!(looking);
    let mut waiting = WaitLine::begin();
    loop {
        tokio::select! {
            seen = &mut looking => return seen,
            () = waiting.tick() => {
                let text = waits_for.lock().unwrap_or_else(PoisonError::into_inner).clone();
                waiting.show(&format!("{name}: {text}"));
            }
        }
    }
}

fn show(args: &Args, report: &Report, took: Duration) -> Result<Exit, Failure> {
    let format = match args.output {
        Format::Text => render::Format::Text,
        Format::Json => render::Format::Json,
    };
    let look = TextOptions { width: terminal::width(), verbose: args.verbose, took: Some(took) };
    let text = render::render(report, format, &look).map_err(|error| Failure::internal(error.to_string()))?;
    terminal::print(&text).map_err(|error| Failure::internal(format!("stdout: {error}")))?;
    Ok(report.verdict.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use carrick_core::fact::Source;
    use carrick_core::fact::identity::{HOSTNAME, USER};
    use carrick_core::testing::facts;

    #[test]
    fn a_time_to_watch_is_minutes_or_seconds() {
        for (text, seconds) in [("90s", 90), ("3m", 180), ("90", 90), ("1", 1), ("60m", 3600)] {
            assert_eq!(soak(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for text in
            ["", "0", "0m", "m", "s", "3h", "-1", "1.5m", "3 m", "61m", "99999999999999999999", "18446744073709551615m"]
        {
            let complaint = soak(text).expect_err(text);
            assert_eq!(complaint, format!("{text:?} is not a time of 1s to 60m such as 90s or 3m"));
        }
    }

    #[test]
    fn who_is_not_root_is_told_so_and_not_that_the_node_is_not_joined() {
        assert!(needs_root(&facts().with_query(&USER, "0\n")).is_ok());
        let refused = needs_root(&facts().with_query(&USER, "1000\n")).unwrap_err();
        assert_eq!(refused.exit, Exit::Usage);
        assert!(refused.to_string().contains("user 1000 may not: run it as root"), "{refused}");
    }

    #[test]
    fn a_node_without_a_name_is_unknown() {
        assert_eq!(node_name(&facts().with_file(HOSTNAME, "W1\n")).unwrap(), "w1");
        let nameless = node_name(&facts().without(Source::File(HOSTNAME), Why::Denied)).unwrap_err();
        assert_eq!(nameless.exit, Exit::Warnings);
    }

    #[test]
    fn a_cluster_that_was_asked_for_and_not_reached_is_no_answer() {
        let path = r#"{"endpoint":"10.0.0.11:6443","steps":[{"step":"dns","state":"not-needed","detail":"x"},
            {"step":"tcp","state":"failed","detail":"10.0.0.11 port 6443: connection refused"}]}"#;
        let asked = asked_for(&facts().with_api("path", path).without(Source::Api("cluster-ca"), Why::NotAsked));
        assert_eq!(asked, Err(Why::Broken("10.0.0.11 port 6443: connection refused".into())));
        assert!(matches!(asked_for(&facts()), Err(Why::Broken(_))));
    }
}
