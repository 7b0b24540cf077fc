//! `cargo xtask fmt`: rustfmt over every file of the tree. cargo fmt follows `mod` lines alone, and does not see the files that a
//! build.rs finds.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};

pub fn run(check: bool) -> anyhow::Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let files = files(&root, &["*.rs"])?;
    ensure!(!files.is_empty(), "git knows no Rust file in {}", root.display());
    let mut rustfmt = Command::new("rustfmt");
    rustfmt.args(["--edition", "2024"]).args(check.then_some("--check")).args(&files).current_dir(&root);
    let done = rustfmt.status().context("cannot run rustfmt (rustup component add rustfmt)")?;
    ensure!(done.success(), "rustfmt ended with {done}{}", if check { "; cargo xtask fmt puts it right" } else { "" });
    Ok(())
}

/// Every file of these patterns (of none: every file) that git does not ignore and that is still there.
pub(crate) fn files(root: &Path, patterns: &[&str]) -> anyhow::Result<Vec<PathBuf>> {
    let listed = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .args(patterns)
        .current_dir(root)
        .output();
    let listed = listed.context("cannot run git")?;
    ensure!(listed.status.success(), "git ls-files: {}", String::from_utf8_lossy(&listed.stderr).trim());
    let names = String::from_utf8(listed.stdout).context("a file's name is no UTF-8")?;
    let files: Vec<PathBuf> = names.split_terminator('\0').map(PathBuf::from).collect();
    Ok(files.into_iter().filter(|file| root.join(file).exists()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_only_a_build_script_finds_are_among_them() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let files = files(&root, &["*.rs"]).unwrap();
        for file in ["crates/core/src/check/machine/swap.rs", "lab/src/fault/swap_on.rs", "fuzz/fuzz_targets/line.rs"] {
            assert!(files.contains(&PathBuf::from(file)), "{file}");
        }
    }
}
