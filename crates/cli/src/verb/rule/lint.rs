//! `carrick rule lint FILE…`: what the definition, the webhook and the controller would say, without a cluster.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use carrick_core::rule::{Admission, CompiledRule, KIND, NodeReadinessRule, admit, read_rules};
use serde_json::json;

use super::{Output, counted, print};
use crate::exit::{Exit, Failure};
use crate::machine::read_short;

/// What is wrong with rules in files, as the API server, the webhook and the controller would say it
#[derive(Debug, clap::Args)]
pub struct Args {
    /// YAML or JSON; other objects in them are passed over
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// How to print
    #[arg(short, long, value_enum, default_value_t = Output::Text, value_name = "FORMAT")]
    output: Output,
}

pub fn run(args: &Args) -> Result<Exit, Failure> {
    let mut found: Vec<(String, Result<NodeReadinessRule, String>)> = Vec::new();
    for file in &args.files {
        found.extend(read(file)?.into_iter().map(|rule| (file.display().to_string(), rule)));
    }
    if found.is_empty() {
        return Err(Failure::usage(format!(
            "no {KIND} in {}",
            args.files.iter().map(|it| it.display().to_string()).collect::<Vec<_>>().join(", ")
        )));
    }
    let compiled: Vec<CompiledRule> =
        found.iter().filter_map(|(_, rule)| rule.clone().ok()).map(CompiledRule::new).collect();
    let (mut text, mut errors, mut warnings, mut lines) = (String::new(), 0, 0, Vec::new());
    for (file, rule) in &found {
        let (name, said) = match rule {
            Ok(rule) => (rule.metadata.name.clone(), judged(rule, &compiled)),
            Err(why) => (String::new(), Admission { errors: vec![why.clone()], warnings: Vec::new() }),
        };
        errors += said.errors.len();
        warnings += said.warnings.len();
        lines.push(json!({ "file": file, "rule": name, "errors": said.errors, "warnings": said.warnings }).to_string());
        for error in &said.errors {
            let _ = writeln!(text, "  FAIL  {file}: {name}: {error}");
        }
        for warning in &said.warnings {
            let _ = writeln!(text, "  WARN  {file}: {name}: {warning}");
        }
        if said.errors.is_empty() && said.warnings.is_empty() {
            let _ = writeln!(text, "  ok    {file}: {name}");
        }
    }
    let _ = writeln!(
        text,
        "\n{}: {}, {}.",
        counted(found.len(), "rule"),
        counted(errors, "error"),
        counted(warnings, "warning")
    );
    print(&if args.output == Output::Json { lines.join("\n") + "\n" } else { text })?;
    Ok(match (errors, warnings) {
        (0, 0) => Exit::Ok,
        (0, _) => Exit::Warnings,
        _ => Exit::Failed,
    })
}

pub(super) fn read(file: &Path) -> Result<Vec<Result<NodeReadinessRule, String>>, Failure> {
    let text = read_short(file).map_err(|why| Failure::usage(format!("{}: {why}", file.display())))?;
    read_rules(&text).map_err(|why| Failure::usage(format!("{}: {why}", file.display())))
}

/// The webhook's words, then the controller's.
fn judged(rule: &NodeReadinessRule, all: &[CompiledRule]) -> Admission {
    let mut said = admit(rule, None, all);
    let compiled = CompiledRule::new(rule.clone());
    for problem in &compiled.problems {
        let is_told = matches!(problem, carrick_core::rule::RuleProblem::Selector(_));
        match (is_told, problem.is_passed_over()) {
            (true, _) => {}
            (false, true) => said.warnings.push(problem.to_string()),
            (false, false) => said.errors.push(problem.to_string()),
        }
    }
    said
}
