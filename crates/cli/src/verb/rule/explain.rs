//! `carrick rule explain RULE [NODE]`.

use std::fmt::Write as _;

use carrick_core::rule::{CompiledRule, Explanation, SlimNode, Standing, explain};
use serde_json::json;

use super::{AdminArgs, Cluster, Output, counted, print};
use crate::exit::{Exit, Failure};

/// As many are listed of a rule's nodes; the rest are counted.
const LISTED: usize = 20;

/// Why a node is gated by a rule, or is not; without NODE, all nodes of the rule
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The rule's name
    rule: String,
    /// The node's name
    node: Option<String>,
    #[command(flatten)]
    admin: AdminArgs,
    /// How to print
    #[arg(short, long, value_enum, default_value_t = Output::Text, value_name = "FORMAT")]
    output: Output,
}

pub async fn run(args: Args) -> Result<Exit, Failure> {
    let cluster: Cluster = args.admin.cluster()?;
    let rules = cluster.rules().await?;
    let Some(rule) = rules.iter().find(|rule| *rule.name == *args.rule) else {
        let known: Vec<&str> = rules.iter().map(|rule| rule.name.as_ref()).collect();
        let known =
            if known.is_empty() { "there is none".to_owned() } else { format!("there are: {}", known.join(", ")) };
        return Err(Failure::failed(format!("no NodeReadinessRule {:?}; {known}", args.rule)));
    };
    let mut nodes = cluster.nodes().await?;
    if let Some(name) = &args.node {
        nodes.retain(|node| *node.name == **name);
        if nodes.is_empty() {
            return Err(Failure::failed(format!("no node {name:?}; list them with: kubectl get nodes")));
        }
    }
    let explained: Vec<Explanation> = nodes.iter().map(|node| explain(rule, node, &rules)).collect();
    match (args.output, &args.node) {
        (Output::Json, _) => {
            let lines: Vec<String> = explained.iter().map(|it| json!(it).to_string()).collect();
            print(&(lines.join("\n") + "\n"))?;
        }
        (Output::Text, Some(_)) => print(&explained.iter().map(one).collect::<String>())?,
        (Output::Text, None) => print(&all(rule, &explained, &nodes))?,
    }
    Ok(Exit::Ok)
}

fn label(standing: Standing) -> &'static str {
    match standing {
        Standing::Gated => "GATED",
        Standing::GatedByAnother => "GATED by another rule",
        Standing::Released => "RELEASED",
        Standing::ReleaseDue => "RELEASE DUE",
        Standing::GateDue => "GATE DUE",
        Standing::NotEnforced => "NOT ENFORCED",
        Standing::NotSelected => "NOT SELECTED",
    }
}

fn one(it: &Explanation) -> String {
    let mut text = format!("{} · {} · {}\n\n  {}  {}\n", it.node, it.rule, it.taint, label(it.standing), it.says);
    for line in &it.evidence {
        let _ = writeln!(text, "    seen   {line}");
    }
    for line in &it.next {
        let _ = writeln!(text, "    next   {line}");
    }
    text
}

fn all(rule: &CompiledRule, explained: &[Explanation], nodes: &[SlimNode]) -> String {
    let selector = rule.selector().map(ToString::to_string).unwrap_or_default();
    let selector = if selector.is_empty() { "all nodes".to_owned() } else { selector };
    let mut text =
        format!("{} · {} · {} · {selector}\n\n", rule.name, rule.spec.taint.id(), rule.spec.enforcement_mode.as_str());
    for problem in &rule.problems {
        let _ = writeln!(text, "  problem  {problem}");
    }
    let of = |standing: Standing| explained.iter().filter(move |it| it.standing == standing);
    for standing in [
        Standing::NotEnforced,
        Standing::Gated,
        Standing::GatedByAnother,
        Standing::GateDue,
        Standing::ReleaseDue,
        Standing::Released,
        Standing::NotSelected,
    ] {
        let count = of(standing).count();
        if count == 0 {
            continue;
        }
        let _ = writeln!(text, "  {}  {}", label(standing), counted(count, "node"));
        if matches!(standing, Standing::Released | Standing::NotSelected) {
            continue;
        }
        for it in of(standing).take(LISTED) {
            let _ = writeln!(text, "    {}", it.says);
        }
        if count > LISTED {
            let _ = writeln!(text, "    and {} more", count - LISTED);
        }
    }
    let _ = writeln!(text, "\n{} looked at.", counted(nodes.len(), "node"));
    text
}
