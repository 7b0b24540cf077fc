//! `carrick reset`: takes a worker out of its cluster, guarded, having said what goes.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use carrick_cluster::{ClusterClient, pods};
use carrick_core::StopSignal;
use carrick_core::fact::{Facts, Why};
use carrick_core::plan::printed::PlanReport;
use carrick_core::reset::{self, Reset, ResetOptions, ResetRefusal};
use carrick_core::shown;
use carrick_engine::act::keep::{self, Seal};
use carrick_engine::act::{Actor, Grounded, Stopped};
use carrick_engine::{Stop, reset as engine, unit};
use carrick_host::Host;

use crate::act::{self, Consent, Refused};
use crate::exit::{Exit, Failure};
use crate::machine::{ClusterArgs, MachineArgs, client, read_kubeconfig};
use crate::render::wrap;
use crate::signals::Signals;
use crate::terminal;

/// For how long a machine that is too busy to answer is asked again; each time its sources have their time box.
const PATIENCE: Duration = Duration::from_mins(1);

/// Take this worker out of its cluster; shows what goes, and asks
///
/// In this order: drains the node where --kubeconfig lets it, stops the kubelet, marks the Node not ready and cordons it with the
/// node's own credential, unmounts volumes of pods, runs kubeadm reset, and removes cni0, flannel.1, the chains KUBE-*, CNI-*
/// and FLANNEL-*, the files in /etc/cni/net.d, and the addresses noted in /var/lib/cni. The Node object stays, so that the
/// machine can come back to it.
///
/// Refuses on a control plane; where something is mounted below /var/lib/kubelet that is not a volume of a pod; where a process
/// uses a volume; and where pods run that no DaemonSet brings back, unless they are drained or --stop-pods is given. Run again,
/// it finishes what was cut off. What is behind kubeadm reset cannot be taken back: join again.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    place: MachineArgs,
    #[command(flatten)]
    consent: Consent,
    /// An admin's kubeconfig: drains the node first, as kubectl drain does
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// With --kubeconfig: how long pods may take to go, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 300, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    drain_timeout: u64,
    /// Stop pods, too, that nothing would start again elsewhere
    #[arg(long)]
    stop_pods: bool,
    /// How to print what is planned, or was done
    #[arg(short, long, value_enum, default_value_t = Format::Text)]
    output: Format,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    Text,
    Json,
}

pub async fn run(args: Args, signals: &Signals) -> Result<Exit, Failure> {
    let admin = args.kubeconfig.as_deref().map(read_kubeconfig).transpose()?;
    let host = args.place.host().await?;
    let admin = admin.map(|admin| client(&host, &admin));
    let may_find = [unit::JOIN, unit::RESET];
    let (actor, _lock) = act::begin("reset", host.as_ref(), &args.consent, signals, &may_find).await?;
    let mut begun = None;
    let taken_out = engine::until_it_fits(
        async || {
            let taken_out = take_out(&args, &host, admin.as_ref(), &actor, begun).await;
            if let Err(Unfit::Stopped(Stopped::Outdated { run, .. })) = &taken_out {
                begun = Some(*run);
            }
            taken_out
        },
        |unfit| matches!(unfit, Unfit::Stopped(Stopped::Outdated { .. })),
    );
    let (mut done, mut passed) = match taken_out.await {
        Ok(Some(done)) => done,
        Ok(None) => return Ok(Exit::Ok),
        Err(Unfit::Failure(failure)) => return Err(failure),
        Err(Unfit::Stopped(stopped)) => return Err(act::stopped_as_failure(&stopped)),
    };
    let swept = clean(&args, &host, &actor).await?;
    passed += swept.passed;
    done.steps.extend(swept.steps);
    seal(host.as_ref()).await;
    let name = host.name();
    if args.output == Format::Json {
        print(&args, name, &done.reset, &done.steps, Some(done.run))?;
    }
    terminal::say(&format!("{name} is out of its cluster and can join again.{}", cordoned(&done.steps, passed)));
    Ok(if passed == 0 { Exit::Ok } else { Exit::Warnings })
}

/// What was carried out.
struct Done {
    reset: Reset,
    steps: Vec<Grounded>,
    run: u32,
}

/// Why it was not.
enum Unfit {
    Failure(Failure),
    Stopped(Stopped),
}

impl From<Failure> for Unfit {
    fn from(failure: Failure) -> Self {
        Unfit::Failure(failure)
    }
}

/// Looks, plans, asks, and carries out; with how many steps could not be made, and had not to be. `begun`: the run that began
/// with a plan that did not fit any more. `None`: nothing was to be done, or only shown.
async fn take_out(
    args: &Args,
    host: &Arc<dyn Host>,
    admin: Option<&ClusterClient>,
    actor: &Actor,
    begun: Option<u32>,
) -> Result<Option<(Done, usize)>, Unfit> {
    let looking = Box::pin(async {
        let facts = look(args, host.as_ref()).await?;
        let reset = plan(args, admin, &facts).await?;
        let protected = args.consent.protected(&facts)?;
        if let Some(refusal) = protected.refusal(&reset.plan) {
            return Err(refused(&refusal.to_string()));
        }
        let steps = act::ground(host.as_ref(), &reset.plan).await?;
        Ok((reset, protected, steps))
    });
    let how_it_stands = begun.map_or_else(
        || "nothing was changed".to_owned(),
        |run| format!("go on: carrick reset; take back what was done: carrick undo {run}"),
    );
    let (reset, protected, steps) = unless_told(&actor.stop, &how_it_stands, looking).await?;
    let name = host.name();
    if args.consent.plan || steps.is_empty() {
        print(args, name, &reset, &steps, None)?;
        if !args.consent.plan {
            seal(host.as_ref()).await;
        }
        return Ok(None);
    }
    if args.output == Format::Text || !args.consent.yes {
        terminal::say(&(act::told(name, &steps) + &stays(&reset)));
    }
    args.consent.ask(&format!("Take {name} out of its cluster?"), &actor.stop).await?;
    match act::shown(host, admin, actor, &steps, &protected).await {
        Ok((run, passed)) => Ok(Some((Done { reset, steps, run }, passed))),
        Err(stopped) => {
            if let Stopped::Outdated { trouble, .. } = &stopped {
                terminal::say(&format!("carrick: {trouble}; planning again"));
            }
            Err(Unfit::Stopped(stopped))
        }
    }
}

/// What only looks ends as soon as somebody says stop.
async fn unless_told<T>(
    stop: &Stop,
    how_it_stands: &str,
    looking: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    let told =
        |signal: StopSignal| Err(Failure::signal(signal, format!("stopped by {}; {how_it_stands}", signal.name())));
    stop.or(looking).await.unwrap_or_else(told)
}

/// Nobody goes back behind a reset: keys and tokens that were kept for that go.
async fn seal(host: &dyn Host) {
    if let Err(broken) = keep::seal(host, Seal::Reset).await {
        terminal::say(&format!("carrick: backups that hold keys could not all be deleted: {broken}"));
    }
}

/// A machine that is too busy to answer is asked again: neither is it refused for that, nor is what is gone called left.
async fn look(args: &Args, host: &dyn Host) -> Result<Facts, Failure> {
    let begun = Instant::now();
    let mut facts = look_once(args, host).await?;
    while was_too_busy(&facts) && begun.elapsed() < PATIENCE {
        facts = look_once(args, host).await?;
    }
    Ok(facts)
}

async fn look_once(args: &Args, host: &dyn Host) -> Result<Facts, Failure> {
    let (facts, _) = args.place.observe_on(host, None, ClusterArgs::default()).await?;
    Ok(engine::look(host, facts, args.place.time_box()).await)
}

fn was_too_busy(facts: &Facts) -> bool {
    let options = ResetOptions { stop_pods: true, ..ResetOptions::default() };
    matches!(reset::plan(facts, &options), Err(ResetRefusal::Unknown(missing)) if missing.why == Why::TimedOut)
}

async fn plan(args: &Args, admin: Option<&ClusterClient>, facts: &Facts) -> Result<Reset, Failure> {
    let pods = match admin {
        None => None,
        Some(admin) => {
            let node = reset::node(facts).map_err(|refusal| refused(&refusal.to_string()))?;
            let asked = pods::known_on_node(admin, &node).await;
            Some(asked.map_err(|error| {
                Failure::failed(format!("nothing was changed: the pods on {node} could not be listed: {error}"))
            })?)
        }
    };
    let options = ResetOptions { stop_pods: args.stop_pods, pods, drain_seconds: args.drain_timeout };
    reset::plan(facts, &options).map_err(|refusal| refused(&refusal.to_string()))
}

fn refused(why: &str) -> Failure {
    Failure::failed(format!("refused, nothing was changed: {why}"))
}

/// What the next join has to know of the Node.
fn cordoned(steps: &[Grounded], passed: usize) -> String {
    let node = steps.iter().find_map(|step| step.step.effect.node()).filter(|_| passed == 0);
    let told = |node| {
        format!(
            "\nIts Node {node}, where the cluster still has it, is cordoned: carrick join uncordons it (after a plain kubeadm join: kubectl uncordon {node})"
        )
    };
    node.map(told).unwrap_or_default()
}

/// What came back while the machine was taken out, and was removed.
#[derive(Default)]
struct Swept {
    steps: Vec<Grounded>,
    passed: usize,
}

/// Looks again: what is still there was not removed, whatever the tools said, or has come since. It is removed as well; what
/// comes again and again is told.
async fn clean(args: &Args, host: &Arc<dyn Host>, actor: &Actor) -> Result<Swept, Failure> {
    let mut swept = Swept::default();
    let left = engine::until_all_is_gone(
        async || still_there(args, host.as_ref(), &actor.stop).await,
        async |steps| {
            let more = sweep(args, host, actor, steps).await?;
            swept.steps.extend(more.steps);
            swept.passed += more.passed;
            Ok(())
        },
    );
    match left.await?.as_slice() {
        [] => Ok(swept),
        steps if steps.iter().any(engine::is_of_another_join) => {
            Err(not_all(&still(steps), "a join has begun here since"))
        }
        steps => Err(not_all(&still(steps), &format!("it was removed {} times and is there again", engine::ROUNDS))),
    }
}

/// For who is told to stop when kubeadm reset has run, and what it left is still to be looked at.
const FINISH: &str = "what is left was not looked at; finish it: carrick reset";

/// What a reset would still have to do.
async fn still_there(args: &Args, host: &dyn Host, stop: &Stop) -> Result<Vec<Grounded>, Failure> {
    let options = ResetOptions { stop_pods: args.stop_pods, ..ResetOptions::default() };
    let untouched = |why: String| not_all(&why, "nothing of that was touched");
    let looking = Box::pin(async {
        let again =
            reset::plan(&look(args, host).await?, &options).map_err(|refusal| untouched(refusal.to_string()))?;
        let looking = carrick_engine::act::ground(host, &again.plan);
        let left = terminal::patiently("what is left is looked at", looking).await;
        left.map_err(|trouble| untouched(trouble.to_string()))
    });
    unless_told(stop, FINISH, looking).await
}

/// One round. That the machine is taken out was agreed to; this is what that left.
async fn sweep(args: &Args, host: &Arc<dyn Host>, actor: &Actor, steps: &[Grounded]) -> Result<Swept, Failure> {
    terminal::say(&format!("carrick: not all is gone, {}; removing that, too", still(steps)));
    let facts = unless_told(&actor.stop, FINISH, Box::pin(look(args, host.as_ref()))).await?;
    let protected = args.consent.protected(&facts)?;
    match act::shown(host, None, actor, steps, &protected).await {
        Ok((_, passed)) => Ok(Swept { steps: steps.to_vec(), passed }),
        Err(stopped) => {
            let says = format!("{}: {stopped}", still(steps));
            Err(match stopped.signal() {
                Some(signal) => Failure::signal(signal, format!("not all is gone: {says}; finish it: carrick reset")),
                None => not_all(&says, "the rest of the machine is out of its cluster"),
            })
        }
    }
}

fn still(steps: &[Grounded]) -> String {
    let told: Vec<String> = steps.iter().map(|step| shown::in_line(&step.step.effect.to_string())).collect();
    format!("would still {}", told.join(", "))
}

fn not_all(what: &str, why: &str) -> Failure {
    Failure::failed(format!("not all is gone: {what} ({why}); try again: carrick reset"))
}

fn print(args: &Args, host: &str, reset: &Reset, steps: &[Grounded], run: Option<u32>) -> Result<(), Failure> {
    let text = match args.output {
        Format::Json => {
            let plan = act::planned(host, steps, &Refused::default());
            act::written(&PlanReport { stays: Some(reset.stays.clone()), run, ..plan })?
        }
        Format::Text if steps.is_empty() => format!("{host}: nothing of a join is left here.\n"),
        Format::Text => act::told(host, steps) + &stays(reset) + "\nNothing was changed. Do it: carrick reset\n",
    };
    terminal::print(&text).map_err(|error| Failure::internal(format!("stdout: {error}")))
}

fn stays(reset: &Reset) -> String {
    let other: String = reset.stays.iter().map(|path| format!(", {}", shown::in_line(path))).collect();
    let stays = format!("Stays: the Node, other mounts, network cards and rules, containerd and its images{other}.");
    format!(
        "\n  What is behind kubeadm reset cannot be taken back: join again.\n  {}\n",
        wrap::hang(&stays, 2, terminal::width())
    )
}

#[cfg(test)]
mod tests {
    use carrick_engine::StopTeller;
    use carrick_testkit::Machine;
    use clap::Parser as _;

    use super::*;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    /// A first look may take a minute, on a machine that is too busy to answer; whoever presses Ctrl-C is not told then that
    /// there was nothing to do.
    #[tokio::test]
    async fn told_to_stop_while_it_looks_it_ends_at_once_and_says_how_things_stand() {
        let machine = Arc::new(Machine::with(&[("/etc/machine-id", "0123456789abcdef0123456789abcdef\n")]));
        machine.slow_down(Duration::from_mins(10));
        let host: Arc<dyn Host> = machine.clone();
        let args = Line::parse_from(["reset", "--yes"]).args;
        for (signal, begun, expected) in [
            (StopSignal::Interrupt, None, "stopped by SIGINT; nothing was changed"),
            (StopSignal::Hangup, None, "stopped by SIGHUP; nothing was changed"),
            (
                StopSignal::Terminate,
                Some(7),
                "stopped by SIGTERM; go on: carrick reset; take back what was done: carrick undo 7",
            ),
        ] {
            let (teller, stop) = StopTeller::new();
            let actor = act::actor("reset", stop);
            let telling = async {
                tokio::time::sleep(Duration::from_millis(20)).await;
                teller.tell(signal);
            };
            let begins = Instant::now();
            let (ended, ()) = tokio::join!(take_out(&args, &host, None, &actor, begun), telling);
            let Err(Unfit::Failure(failure)) = ended else { panic!("{expected}: it went on") };
            assert_eq!((failure.exit, failure.to_string().as_str()), (Exit::Signal(signal), expected));
            let left = still_there(&args, host.as_ref(), &actor.stop).await.map(|left| left.len()).unwrap_err();
            assert_eq!(left.exit, Exit::Signal(signal));
            assert!(left.to_string().ends_with("finish it: carrick reset"), "{left}");
            assert!(begins.elapsed() < Duration::from_secs(2), "{:?}", begins.elapsed());
        }
        assert_eq!(machine.changes(), Vec::<String>::new());
    }
}
