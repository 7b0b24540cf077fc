//! `carrick undo`: takes back what a run of Carrick changed on a machine.

use carrick_core::fact::Facts;
use carrick_core::plan::live::LiveNode;
use carrick_core::record::printed::JoinEnd;
use carrick_core::shown;
use carrick_engine::act::keep;
use carrick_engine::act::undo::{self, NodeNeeds, UndoPlan};
use carrick_engine::join::joins;
use carrick_host::Host;

use crate::act::{self, Consent, Steps};
use crate::exit::{Exit, Failure};
use crate::machine::{ClusterArgs, MachineArgs};
use crate::render::wrap;
use crate::signals::Signals;
use crate::terminal;

/// Take back what Carrick changed here
///
/// On a machine that has joined a cluster since, what its node needs stays (kernel settings, swap, the runtime's and the kubelet's
/// configuration): --force takes that back, too. What cannot be taken back any more is named.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The run, as `carrick history` numbers them; the last one that changed something where none is named
    run: Option<u32>,
    /// Also what a node needs that has joined a cluster since
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    place: MachineArgs,
    #[command(flatten)]
    consent: Consent,
}

pub async fn run(args: Args, signals: &Signals) -> Result<Exit, Failure> {
    let host = args.place.host().await?;
    let (actor, _lock) = act::begin("undo", host.as_ref(), &args.consent, signals, &[]).await?;
    if !args.consent.plan {
        keep::complete(host.as_ref()).await.map_err(|broken| Failure::failed(broken.to_string()))?;
    }
    let (facts, _) = args.place.observe_on(host.as_ref(), None, ClusterArgs::default()).await?;
    let node = live(&args, &facts)?;
    let planned = |node| undo::plan_beside(host.as_ref(), args.run, node);
    let mut back = planned(node.as_ref()).await.map_err(|error| act::not_undone(&error))?;
    let mut breaks = Vec::new();
    if args.force && !back.needed.is_empty() {
        breaks = std::mem::take(&mut back.needed);
        back = planned(None).await.map_err(|error| act::not_undone(&error))?;
    }
    back.notes.extend(of_joins(host.as_ref(), &back.runs).await);
    let print = |text: &str| terminal::print(text).map_err(|error| Failure::internal(format!("stdout: {error}")));
    print(&told(&back, &breaks))?;
    if back.backs.is_empty() && !back.needed.is_empty() {
        return Err(Failure::failed("nothing was taken back: a live node needs it"));
    }
    let exit = if back.needed.is_empty() { Exit::Ok } else { Exit::Warnings };
    if args.consent.plan {
        return Ok(exit);
    }
    let protected = args.consent.protected(&facts)?;
    args.consent.ask("Take this back?", &actor.stop).await?;
    let mut steps = Steps::new();
    let applied = undo::apply(&host, &back, &protected, &actor.stop, &mut |told| steps.tell(&told)).await;
    applied.map_err(|error| act::not_undone(&error))?;
    Ok(exit)
}

/// Of what is not known to be no node, nothing is taken back but by force.
fn live(args: &Args, facts: &Facts) -> Result<Option<LiveNode>, Failure> {
    match LiveNode::on(facts) {
        Ok(node) => Ok(node),
        Err(_) if args.force => Ok(None),
        Err(missing) => Err(Failure::failed(format!(
            "nothing was taken back: whether this machine is a live node cannot be told ({missing}); {}, or --force",
            missing.next_step()
        ))),
    }
}

/// What a person has to know who takes back what a join prepared.
async fn of_joins(host: &dyn Host, runs: &[u32]) -> Vec<String> {
    // Whoever wants to know more asks `history`, which says what cannot be read.
    let joins = joins(host).await.unwrap_or_default();
    let of_these = joins.into_iter().flatten().filter(|join| join.runs.iter().any(|run| runs.contains(run)));
    let cut_off = of_these.filter(|join| matches!(join.state, JoinEnd::CutOff | JoinEnd::AtWork));
    let note = |(begun, stage): (jiff::Timestamp, &str)| {
        format!(
            "the join of {begun} that this prepared was cut off ({stage}); what kubeadm has made stays: carrick join goes \
             on, carrick reset removes it"
        )
    };
    cut_off.map(|join| note((join.begun, join.stage.name()))).collect()
}

/// The later lines of a sentence stand two behind its first.
const UNDER: usize = 4;

fn told(back: &UndoPlan, breaks: &[NodeNeeds]) -> String {
    let runs: Vec<String> = back.runs.iter().map(u32::to_string).collect();
    let runs = runs.join(" and ");
    let line = |text: &str| format!("  {}\n", wrap::hang(&shown::in_line(text), UNDER, terminal::width()));
    let part = |head: &str, lines: Vec<String>| {
        let lines: String = lines.iter().map(|text| line(text)).collect();
        if lines.is_empty() { lines } else { format!("{head}\n{lines}") }
    };
    let why = |needs: &[NodeNeeds]| {
        needs.iter().map(|NodeNeeds { sentence, breaks }| format!("{sentence}: {breaks}")).collect::<Vec<_>>()
    };
    let rest = [
        part("Not taken back:", back.stays.clone()),
        part(
            "Stays, because this machine has joined a cluster since, and its node needs it (--force):",
            why(&back.needed),
        ),
        part("Warning: this machine has joined a cluster since, and this breaks its node:", why(breaks)),
        part("Note:", back.notes.clone()),
    ]
    .concat();
    if back.backs.is_empty() {
        let done = if back.needed.is_empty() {
            format!("Run {runs}: everything is as it was before.\n")
        } else {
            String::new()
        };
        return done + &rest;
    }
    let lines: String = back.backs.iter().map(|back| line(&back.sentence())).collect();
    format!("Run {runs}, taken back:\n{lines}{rest}")
}
