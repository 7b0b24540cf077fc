//! `carrick rule simulate FILE`: what rules in a file would do to the nodes there are, now.

use std::fmt::Write as _;
use std::path::PathBuf;

use carrick_core::rule::{CompiledRule, FINALIZER, NodeReadinessRule, TaintChange, admit, decide};
use serde_json::json;

use super::{AdminArgs, Output, counted, lint, print};
use crate::exit::{Exit, Failure};

const LISTED: usize = 20;

/// What rules in a file would taint and release now, on the nodes of a cluster. Reads only
#[derive(Debug, clap::Args)]
pub struct Args {
    /// YAML or JSON with NodeReadinessRules
    file: PathBuf,
    #[command(flatten)]
    admin: AdminArgs,
    /// How to print
    #[arg(short, long, value_enum, default_value_t = Output::Text, value_name = "FORMAT")]
    output: Output,
}

pub async fn run(args: Args) -> Result<Exit, Failure> {
    let mut rules: Vec<NodeReadinessRule> = Vec::new();
    for rule in lint::read(&args.file)? {
        rules.push(rule.map_err(|why| Failure::usage(format!("{}: {why}", args.file.display())))?);
    }
    if rules.is_empty() {
        return Err(Failure::usage(format!("{}: no NodeReadinessRule in it", args.file.display())));
    }
    let cluster = args.admin.cluster()?;
    let (there, nodes) = (cluster.rules().await?, cluster.nodes().await?);
    let mut worst = Exit::Ok;
    for rule in rules {
        let said = admit(&rule, None, there.iter().filter(|other| *other.name != *rule.metadata.name));
        let as_if = enforced(rule);
        // All rules that would be there together: the one in the file in place of one by its name.
        let others = there.iter().filter(|other| other.name != as_if.name);
        let together: Vec<&CompiledRule> = others.chain([&as_if]).collect();
        let (mut added, mut removed, mut selected) = (Vec::new(), Vec::new(), 0);
        for node in &nodes {
            selected += usize::from(as_if.selects(node));
            let decision = decide(node, together.iter().copied(), |_| false, std::time::Duration::ZERO);
            let outcome = decision.outcomes.into_iter().find(|outcome| outcome.rule == as_if.name);
            match outcome.and_then(|outcome| outcome.change) {
                Some(TaintChange::Added) => added.push(node.name.to_string()),
                Some(TaintChange::Removed) => removed.push(node.name.to_string()),
                None => {}
            }
        }
        if !said.is_allowed() || !as_if.is_enforced() {
            worst = Exit::Failed;
        } else if !said.warnings.is_empty() && worst == Exit::Ok {
            worst = Exit::Warnings;
        }
        let problems: Vec<String> =
            said.errors.iter().cloned().chain(as_if.problems.iter().map(ToString::to_string)).collect();
        print(&match args.output {
            Output::Json => json!({
                "rule": as_if.name.as_ref(), "taint": as_if.spec.taint.id(), "nodes": nodes.len(), "selected": selected,
                "taintsToAdd": added, "taintsToRemove": removed, "errors": problems, "warnings": said.warnings,
            })
            .to_string()
                + "\n",
            Output::Text => text(&as_if, nodes.len(), selected, &added, &removed, &problems, &said.warnings),
        })?;
    }
    Ok(worst)
}

/// As it would be once the controller has taken it up; dry run and suspension do not count: the question is what it would do.
fn enforced(mut rule: NodeReadinessRule) -> CompiledRule {
    rule.spec.dry_run = None;
    rule.spec.suspend = Some(false);
    rule.metadata.finalizers = vec![FINALIZER.to_owned()];
    CompiledRule::new(rule)
}

fn text(
    rule: &CompiledRule,
    nodes: usize,
    selected: usize,
    added: &[String],
    removed: &[String],
    problems: &[String],
    warnings: &[String],
) -> String {
    let mut text =
        format!("{} · {} · selects {} of {}\n\n", rule.name, rule.spec.taint.id(), selected, counted(nodes, "node"));
    for problem in problems {
        let _ = writeln!(text, "  FAIL  {problem}");
    }
    for warning in warnings {
        let _ = writeln!(text, "  WARN  {warning}");
    }
    for (what, names) in [("taint", added), ("release", removed)] {
        let _ = writeln!(text, "  would {what}  {}", counted(names.len(), "node"));
        for name in names.iter().take(LISTED) {
            let _ = writeln!(text, "    {name}");
        }
        if names.len() > LISTED {
            let _ = writeln!(text, "    and {} more", names.len() - LISTED);
        }
    }
    text.push_str("\nNothing was changed.\n");
    text
}
