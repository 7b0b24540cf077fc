//! Finds the test cases, so that adding one is one new file: every `src/case/NAME.rs` has a `pub const CASE: Case`.
#![allow(clippy::expect_used, clippy::print_stdout)]

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() {
    let source = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("src");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    fs::write(out.join("cases.rs"), registry(&source.join("case"))).expect("OUT_DIR is ours to write");
}

fn registry(folder: &Path) -> String {
    println!("cargo:rerun-if-changed={}", folder.display());
    let mut modules = String::new();
    let mut table = String::from("pub static CASES: &[Registered] = &[\n");
    let mut files: Vec<PathBuf> =
        fs::read_dir(folder).expect("a directory of this crate").flatten().map(|entry| entry.path()).collect();
    files.sort();
    for file in files {
        let stem = file.file_stem().expect("it has a name").to_string_lossy().into_owned();
        if stem == "mod" || file.extension().is_none_or(|extension| extension != "rs") {
            continue;
        }
        writeln!(modules, "#[path = {:?}]\nmod {stem};", file.display().to_string()).expect("a String takes it");
        let name = stem.replace('_', "-");
        writeln!(table, "    Registered {{ name: {name:?}, case: &{stem}::CASE }},").expect("a String takes it");
    }
    modules + &table + "];\n"
}
