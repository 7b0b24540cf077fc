//! docs/reference: what the code says of itself.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use carrick_core::check::{CHECKS, Registered};
use carrick_core::report::Report;

pub fn run(check: bool) -> anyhow::Result<()> {
    let pages = [("checks.md", checks()), ("report.schema.json", schema()?)];
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
    for Registered { check, explain, .. } in CHECKS {
        let _ = writeln!(page, "\n## {}\n\nSubsystem: {}.", check.id, check.subsystem.name());
        if !check.kubeadm.is_empty() {
            let _ = writeln!(page, "kubeadm calls it: {}.", check.kubeadm.join(", "));
        }
        // Two spaces at a line's end keep it a line of its own in Markdown.
        let text = explain.replace("\nSee it yourself", "  \nSee it yourself").replace("\nMend it", "  \nMend it");
        let _ = writeln!(page, "\n{text}");
    }
    page
}

fn schema() -> anyhow::Result<String> {
    Ok(serde_json::to_string_pretty(&schemars::schema_for!(Report))? + "\n")
}
