//! docs/reference: what the code says of itself.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use carrick_core::catalogue::{Class, Role};
use carrick_core::check::{CHECKS, FixedBy, RegisteredCheck};
use carrick_core::fix;
use carrick_core::join::event_line::EventLine;
use carrick_core::join::verify::{PROOFS, Proof};
use carrick_core::plan::printed::PlanReport;
use carrick_core::record::printed::HistoryLine;
use carrick_core::report::Report;
use carrick_core::signature::{self, Library, Signature, lint};
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;

pub fn run(check: bool) -> anyhow::Result<()> {
    let pages = [
        ("checks.md", checks()),
        ("fixes.md", fixes()),
        ("signatures.md", signatures()?),
        ("join.md", carrick_core::join::page::page()),
        ("verify.md", evidence()),
        ("report.schema.json", schema::<Report>()?),
        ("plan.schema.json", schema::<PlanReport>()?),
        ("event.schema.json", schema::<EventLine>()?),
        ("history.schema.json", schema::<HistoryLine>()?),
    ];
    let mut stale = Vec::new();
    for (name, text) in &pages {
        let path = reference().join(name);
        if std::fs::read_to_string(&path).is_ok_and(|there| there == *text) {
            continue;
        }
        if check {
            stale.push(*name);
        } else {
            std::fs::create_dir_all(reference())?;
            std::fs::write(&path, text).with_context(|| path.display().to_string())?;
        }
    }
    if !stale.is_empty() {
        bail!("docs/reference is out of date: {}; run cargo xtask docs", stale.join(", "));
    }
    println!("docs/reference: {} pages are up to date", pages.len());
    Ok(())
}

fn reference() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/reference")
}

fn checks() -> String {
    let mut page = format!(
        "# Checks\n\nThe {} prerequisites of a join that `carrick check` judges. `carrick explain ID` prints the same on a \
         terminal.\nThis page is made from the code: `cargo xtask docs`.\n",
        CHECKS.len()
    );
    for RegisteredCheck { check, explain, .. } in CHECKS {
        let (subsystem, does) = (check.subsystem.name(), check.does());
        let _ = writeln!(page, "\n## {}\n\nSubsystem: {subsystem}. In a join, carrick {does}.", check.id);
        if !check.kubeadm.is_empty() {
            let _ = writeln!(page, "kubeadm calls it: {}.", check.kubeadm.join(", "));
        }
        // Two spaces at a line's end keep it a line of its own in Markdown.
        let text = explain.replace("\nSee it yourself", "  \nSee it yourself").replace("\nFix:", "  \nFix:");
        let _ = writeln!(page, "\n{text}");
    }
    page
}

fn fixes() -> String {
    let mut page = String::from(
        "# Fixes\n\nWhat `carrick check --fix` changes, and what it leaves to you. It shows the whole plan first (`--plan`), asks, \
         writes down what\nstood there, and `carrick undo` takes it back. Nothing is ever changed on a control plane; what is \
         protected (`--protect`, the mounts of\nothers) the plan shows as refused. Where containerd is restarted, the plan says \
         how many containers run on it and whether they go on\nrunning: with the unit of its packages (`KillMode=process`) they \
         do. This page is made from the code: `cargo xtask docs`.\n\n## What is fixed\n",
    );
    for fix::RegisteredFix { fix, explain, .. } in fix::FIXES {
        let _ = writeln!(page, "\n### {}\n\n{explain}", fix.fixes.join(", "));
    }
    page.push_str("\n## What is left to you\n\n| check | because |\n|---|---|\n");
    for RegisteredCheck { check, .. } in CHECKS {
        if let FixedBy::Operator(why) = check.fixed_by {
            let _ = writeln!(page, "| {} | {why} |", check.id);
        }
    }
    page
}

fn evidence() -> String {
    let mut page =
        "# Evidence of a join\n\nWhat `carrick verify` wants to see, in the order in which it comes true, and what \
         `carrick join` waits for. `--until` says how\nmuch of it is needed. `carrick explain ID` prints the same on a \
         terminal. This page is made from the code: `cargo xtask docs`.\n"
            .to_owned();
    for proof in PROOFS {
        let Proof { id, subsystem, until, .. } = proof;
        let text = proof.explain().replace("\nFix:", "  \nFix:");
        let _ = writeln!(
            page,
            "\n## {id}\n\nSubsystem: {}. Needed for `--until {}`.\n\n{text}",
            subsystem.name(),
            until.name()
        );
    }
    page
}

fn signatures() -> anyhow::Result<String> {
    keep_the_rules()?;
    let library = Library::built_in()?;
    let mut families: BTreeMap<&str, Vec<&Signature>> = BTreeMap::new();
    for signature in library.iter() {
        let family = signature.id.split('.').next().unwrap_or_default();
        families.entry(family).or_default().push(signature);
    }
    let mut page = format!(
        "# Signatures\n\nThe {} lines that `carrick diagnose` recognises in logs and pasted text. `carrick explain ID` says what \
         one means and how to fix it.\n*phase* is the stage from which on a line counts (of a good sign: what it proves to be \
         reached), *class* what a join does about it (of a check: [checks.md](checks.md)), *role* whether it says why or only \
         that,\n*shows* the check that judges the same thing, *explains* what it brings about. This page is made from the code: \
         `cargo xtask docs`.\n",
        library.iter().count()
    );
    for (family, members) in families {
        let _ = writeln!(
            page,
            "\n## {family}\n\n| id | title | severity | phase | class | role | shows | explains |\n|---|---|---|---|---|---|---|---|"
        );
        for signature in members {
            let Signature { id, title, severity, phase, class, role, shows, explains, .. } = signature;
            let (title, shows) = (title.replace('|', "\\|"), shows.as_deref().unwrap_or_default());
            let (severity, phase) = (severity.name(), phase.name());
            let (class, role) = (class.map_or("", Class::name), role.map_or("", Role::name));
            let _ = writeln!(
                page,
                "| {id} | {title} | {severity} | {phase} | {class} | {role} | {shows} | {} |",
                explains.join(", ")
            );
        }
    }
    Ok(page)
}

/// The unit tests lint the signatures too, but in a build with dev-dependencies, which turn on features of `regex` that the
/// shipped binary does not have: a class that it cannot compile was found only here, where `regex` is built as it ships.
fn keep_the_rules() -> anyhow::Result<()> {
    let complaints = lint::complaints(&signature::built_in()?, &[]);
    if let Some(first) = complaints.first() {
        bail!("{} complaints about signatures, the first: {first}; all: carrick diagnose --lint", complaints.len());
    }
    Ok(())
}

/// Of what is printed: a field that is left out where it is empty is not required.
fn schema<T: JsonSchema>() -> anyhow::Result<String> {
    let schema = SchemaSettings::draft2020_12().for_serialize().into_generator().into_root_schema_for::<T>();
    Ok(serde_json::to_string_pretty(&schema)? + "\n")
}
