//! Finds the tests and the faults, so that adding one is one new file: every `src/case/NAME.rs` has a `pub const CASE`,
//! every `src/fault/NAME.rs` a `pub const FAULT`, or says in its head comment that it is shared; any other file fails the
//! build.
#![allow(clippy::disallowed_methods, clippy::expect_used, clippy::print_stdout)]

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

#[path = "../crates/core/registry.rs"]
mod registry;

use registry::{Registry, Role, all};

const CASE: Registry = Registry { what: "case", line: "pub const CASE: Case" };
const FAULT: Registry = Registry { what: "fault", line: "pub const FAULT: Fault" };

fn main() {
    if let Err(problem) = generate() {
        println!("cargo::error={problem}");
    }
}

fn generate() -> Result<(), String> {
    let source = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("src");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    for registry in [CASE, FAULT] {
        let name = registry.what;
        let text = table(&source.join(name), &registry)?;
        let file = out.join(format!("{name}s.rs"));
        // Anew, not in place: a build directory that was copied as links shares the old one with others.
        let _ = fs::remove_file(&file);
        fs::write(file, text).expect("OUT_DIR is ours to write");
    }
    Ok(())
}

fn table(folder: &Path, registry: &Registry) -> Result<String, String> {
    println!("cargo::rerun-if-changed={}", folder.display());
    let (kind, constant) = (registry.what, registry.what.to_uppercase());
    let row = format!("Registered{}{}", &constant[..1], &kind[1..]);
    let (mut modules, mut rows) = (String::new(), String::new());
    for (file, role) in registry.roles(all(folder)?)? {
        let stem = file.file_stem().expect("it has a name").to_string_lossy().into_owned();
        match role {
            Role::Root => continue,
            Role::Registered => {
                let name = stem.replace('_', "-");
                writeln!(rows, "    {row} {{ name: {name:?}, {kind}: &{stem}::{constant} }},")
                    .expect("a String takes it");
            }
            Role::Shared => {}
        }
        writeln!(modules, "#[path = {:?}]\nmod {stem};", file.display().to_string()).expect("a String takes it");
    }
    Ok(format!("{modules}pub static {constant}S: &[{row}] = &[\n{rows}];\n"))
}
