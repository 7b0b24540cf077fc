//! Finds the tests and the faults, so that adding one is one new file: every `src/case/NAME.rs` has a `pub const CASE`,
//! every `src/fault/NAME.rs` a `pub const FAULT`.
#![allow(clippy::expect_used, clippy::print_stdout)]

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() {
    let source = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("src");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    for (kind, table) in [("case", "CASES"), ("fault", "FAULTS")] {
        fs::write(out.join(format!("{kind}s.rs")), registry(&source.join(kind), kind, table))
            .expect("OUT_DIR is ours to write");
    }
}

fn registry(folder: &Path, kind: &str, table_name: &str) -> String {
    println!("cargo:rerun-if-changed={}", folder.display());
    let mut modules = String::new();
    let mut table = format!("pub static {table_name}: &[Registered] = &[\n");
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
        let constant = kind.to_uppercase();
        writeln!(table, "    Registered {{ name: {name:?}, {kind}: &{stem}::{constant} }},")
            .expect("a String takes it");
    }
    modules + &table + "];\n"
}
