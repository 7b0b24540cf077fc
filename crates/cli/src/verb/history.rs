//! `carrick history`: what Carrick did on a machine, when, why, and what became of it.

use std::fmt::Write as _;

use carrick_core::record::printed::{HistoryLine, JoinLine, RunLine};
use carrick_core::shown;
use carrick_engine::act::journal::{self, End, PastRun};
use carrick_engine::act::keep;
use carrick_engine::join::joins;
use carrick_host::Host;
use jiff::Timestamp;

use crate::act::{self, Consent};
use crate::exit::{Exit, Failure};
use crate::machine::MachineArgs;
use crate::render::wrap;
use crate::signals::Signals;
use crate::terminal::{self, BOLD, styled};

/// What Carrick changed here, when and why
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    place: MachineArgs,
    /// Every step of every run
    #[arg(short, long)]
    verbose: bool,
    /// How to print it
    #[arg(short, long, value_enum, default_value_t = Format::Text)]
    output: Format,
    /// Delete the records of all runs but the last N (default 50), and those older than 180 days; never what undo of the last
    /// run needs, nor a run that was cut off and not completed
    #[arg(
        long,
        value_name = "N",
        num_args = 0..=1,
        default_missing_value = "50",
        conflicts_with_all = ["verbose", "output"]
    )]
    prune: Option<usize>,
    /// With --prune: print what would be deleted, and delete nothing
    #[arg(long, requires = "prune", conflicts_with = "yes")]
    plan: bool,
    /// With --prune: delete it without asking
    #[arg(short, long, requires = "prune")]
    yes: bool,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Format {
    Text,
    Json,
}

pub async fn run(args: Args, signals: &Signals) -> Result<Exit, Failure> {
    let host = args.place.host().await?;
    match args.prune {
        Some(kept) => prune(&args, host.as_ref(), kept, signals).await,
        None => list(&args, host.as_ref()).await,
    }
}

/// Runs and joins as they came; of what cannot be read, a word beside.
async fn list(args: &Args, host: &dyn Host) -> Result<Exit, Failure> {
    let as_root = |trouble| Failure::failed(format!("{trouble}; try as root"));
    let (mut exit, mut lines) = (Exit::Ok, Vec::new());
    // Said where it cannot be taken for a run.
    let mut unreadable = |why: String| {
        terminal::say(&format!("carrick: {why}"));
        exit = Exit::Failed;
    };
    for join in joins(host).await.map_err(as_root)? {
        match join {
            Ok(join) => lines.push((join.begun, shown_join(args, join)?)),
            Err(trouble) => unreadable(format!("the record of a join cannot be read: {trouble}")),
        }
    }
    for run in journal::history(host).await.map_err(as_root)? {
        match run {
            Ok(past) => lines.push((past.run.begun, shown(args, &past)?)),
            Err(broken) => unreadable(broken.to_string()),
        }
    }
    // A join and what it prepared may have begun in the same second: what was prepared stands behind it.
    lines.sort_by_key(|(begun, _): &(Timestamp, String)| *begun);
    let mut out: String = lines.into_iter().map(|(_, line)| line).collect();
    if out.is_empty() && exit == Exit::Ok && matches!(args.output, Format::Text) {
        out.push_str("Carrick has changed nothing here.\n");
    }
    print(&out)?;
    Ok(exit)
}

fn shown(args: &Args, past: &PastRun) -> Result<String, Failure> {
    match args.output {
        Format::Text => Ok(told(past, args.verbose)),
        Format::Json => written(&HistoryLine::Run(RunLine::new(past))),
    }
}

fn shown_join(args: &Args, join: JoinLine) -> Result<String, Failure> {
    match args.output {
        Format::Text => Ok(told_join(&join)),
        Format::Json => written(&HistoryLine::Join(join)),
    }
}

fn told(past: &PastRun, verbose: bool) -> String {
    let (run, end) = (&past.run, ended(past));
    let number = styled(BOLD, &format!("{:>4}", run.run));
    let mut out = format!("{number}  {}  {} by {}: {} steps, {end}\n", run.begun, run.verb, run.by, run.steps.len());
    for (at, recorded) in run.steps.iter().enumerate().filter(|_| verbose) {
        let (effect, why) = (recorded.step.effect.to_string(), recorded.step.why.join(", "));
        let _ = writeln!(out, "      {}", act::with_note(&effect, &why, terminal::width()));
        if let Some(why) = past.is_final(at) {
            let _ = writeln!(out, "        {}", wrap::hang(&format!("final: {why}"), 10, terminal::width()));
        }
    }
    out
}

/// How it ended, and what else there is to know before it is taken back.
fn ended(past: &PastRun) -> String {
    // What a step failed for is told in another's words.
    let mut end = shown::in_line(&past.end().to_string());
    if let (taken @ 1.., false) = (past.taken_back(), past.end() == End::Undone) {
        let _ = write!(end, "; {taken} of {} taken back", past.run.steps.len());
    }
    match past.final_steps().len() {
        0 => {}
        1 => end.push_str("; 1 step is final"),
        many => drop(write!(end, "; {many} steps are final")),
    }
    if let Some(damage) = &past.damage {
        let _ = write!(end, "; what came after that is not known: {damage}");
    }
    end
}

fn told_join(join: &JoinLine) -> String {
    format!("{}  {}\n", styled(BOLD, "join"), wrap::hang(&in_words(join), 6, terminal::width()))
}

fn in_words(join: &JoinLine) -> String {
    let runs: Vec<String> = join.runs.iter().map(u32::to_string).collect();
    let prepared = if runs.is_empty() { String::new() } else { format!(", prepared by run {}", runs.join(" and ")) };
    let next = match join.next.as_slice() {
        [] => String::new(),
        [only] => format!("; follow it: {only}"),
        [on, out, ..] => format!("; go on: {on}; or take the machine out: {out}"),
    };
    format!("{}  {}{prepared}{next}", join.begun, join.end())
}

fn written(line: &HistoryLine) -> Result<String, Failure> {
    let text = serde_json::to_string(line).map_err(|error| Failure::internal(error.to_string()))?;
    Ok(text + "\n")
}

async fn prune(args: &Args, host: &dyn Host, kept: usize, signals: &Signals) -> Result<Exit, Failure> {
    let consent = Consent::of(args.plan, args.yes);
    let (actor, _lock) = act::begin("history --prune", host, &consent, signals, &[]).await?;
    let failed = |broken: journal::JournalError| Failure::failed(broken.to_string());
    let gone = keep::superfluous(host, kept).await.map_err(failed)?;
    if gone.is_empty() {
        print("No record is old, or one too many.\n")?;
        return Ok(Exit::Ok);
    }
    let numbers: Vec<String> = gone.iter().map(u32::to_string).collect();
    let what = format!("Delete the records of {} runs: {}", gone.len(), numbers.join(", "));
    print(&format!("{}\nThese runs cannot be taken back then.\n", wrap::hang(&what, 2, terminal::width())))?;
    if args.plan {
        return Ok(Exit::Ok);
    }
    consent.ask("Delete them?", &actor.stop).await?;
    keep::prune(host, &gone).await.map_err(failed)?;
    Ok(Exit::Ok)
}

fn print(text: &str) -> Result<(), Failure> {
    terminal::print(text).map_err(|error| Failure::internal(format!("stdout: {error}")))
}

#[cfg(test)]
mod tests {
    use carrick_core::join::state::Stage;
    use carrick_core::plan::{Effect, PlaceState, Step};
    use carrick_core::record::printed::{JOIN, JoinEnd};
    use carrick_core::record::{Damage, JournalLine, Mark, Recorded, Run, SCHEMA};

    use super::*;

    fn past(marks: &[(Option<usize>, Mark, &str)], damage: Option<Damage>) -> PastRun {
        let at = Timestamp::UNIX_EPOCH;
        let step = |path: &str| Recorded {
            step: Step { effect: Effect::Remove { path: path.to_owned() }, why: vec!["of a join that is over".into()] },
            was: PlaceState::Absent,
            becomes: PlaceState::Absent,
        };
        let steps = vec![step("/etc/kubernetes/kubelet.conf"), step("/etc/kubernetes/pki/ca.crt")];
        let (verb, by, version) = ("join".to_owned(), "root".to_owned(), "1".to_owned());
        let run = Run { schema: SCHEMA.into(), run: 3, verb, by, begun: at, version, continues: None, steps };
        let line = |&(step, mark, error): &(_, _, &str)| JournalLine { at, step, mark, error: error.to_owned() };
        PastRun { run, lines: marks.iter().map(line).collect(), damage }
    }

    #[test]
    fn without_a_number_as_many_stay_as_always() {
        use clap::Parser as _;
        #[derive(clap::Parser)]
        struct Typed {
            #[command(flatten)]
            args: Args,
        }
        let kept = |words: &[&str]| Typed::parse_from([&["history"], words].concat()).args.prune;
        let usual = Some(carrick_core::record::keep::RUNS);
        assert_eq!((kept(&[]), kept(&["--prune"]), kept(&["--prune", "7"])), (None, usual, Some(7)));
    }

    #[test]
    fn what_became_of_a_run_is_told() {
        let begun = [(Some(0), Mark::Begun, ""), (Some(0), Mark::Done, ""), (None, Mark::Finished, "")];
        let with = |more: &[(Option<usize>, Mark, &'static str)]| [&begun[..], more].concat();
        let sealed = with(&[(Some(0), Mark::Final, "its backup held a key")]);
        for (marks, damage, expected) in [
            (begun.to_vec(), None, "done"),
            (with(&[(Some(1), Mark::Undone, "")]), None, "done; 1 of 2 taken back"),
            (with(&[(Some(1), Mark::Undone, ""), (None, Mark::Undone, "")]), None, "taken back"),
            (sealed.clone(), None, "done; 1 step is final"),
            (
                begun[..1].to_vec(),
                Some(Damage { line: 2, why: "expected value".into() }),
                "cut off after 0 steps; what came after that is not known: journal.jsonl line 2: expected value",
            ),
        ] {
            assert_eq!(ended(&past(&marks, damage)), expected);
        }
        let told = told(&past(&sealed, None), true);
        assert!(told.contains("final: its backup held a key"), "{told}");
    }

    #[test]
    fn a_join_that_was_cut_off_says_what_to_do_next() {
        let line = |state, runs, next: &[&str]| {
            let (begun, log, stage) = (Timestamp::UNIX_EPOCH, String::new(), Stage::Joining);
            let next = next.iter().map(|&it| it.to_owned()).collect();
            in_words(&JoinLine { schema: JOIN, begun, state, stage, attempt: 1, runs, log, next })
        };
        for (told, expected) in [
            (line(JoinEnd::Joined, vec![3], &[]), "joined, prepared by run 3"),
            (line(JoinEnd::AtWork, vec![], &["carrick join"]), "at work (joining); follow it: carrick join"),
            (line(JoinEnd::Superseded, vec![], &[]), "cut off (joining); a later run went on from there"),
            (
                line(JoinEnd::CutOff, vec![3, 4], &["carrick join", "carrick reset"]),
                "cut off (joining), prepared by run 3 and 4; go on: carrick join; or take the machine out: carrick reset",
            ),
        ] {
            assert_eq!(told, format!("1970-01-01T00:00:00Z  {expected}"));
        }
    }
}
