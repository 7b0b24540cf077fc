//! Finds the facts and the checks, so that adding one is one new file, and a file that is there cannot be forgotten.
//!
//! * every `src/fact/NAME.rs` is a module; where it has a `pub const SOURCES`, those are read on a machine
//! * every `src/cni/NAME.rs` is a module; where it has a `pub const FLAVOUR`, that is a pod network that is told apart
//! * every `src/fix/NAME.rs` is a module; where it has a `pub const FIX`, its head comment is what `carrick explain` says
//!   of `--fix`
//! * every `signatures/FAMILY/NAME.toml` is the signature `FAMILY.NAME`; what it says of its class and role is a table that
//!   is known when the code is compiled
//! * every `src/check/FAMILY/NAME.rs` is the check `FAMILY.NAME`; its head comment is the text of `carrick explain`
#![allow(clippy::disallowed_methods, clippy::expect_used, clippy::print_stdout)]

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() {
    let here = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let source = here.join("src");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    fs::write(out.join("facts.rs"), facts(&source.join("fact"))).expect("OUT_DIR is ours to write");
    fs::write(out.join("flavours.rs"), flavours(&source.join("cni"))).expect("OUT_DIR is ours to write");
    fs::write(out.join("checks.rs"), checks(&source.join("check"))).expect("OUT_DIR is ours to write");
    fs::write(out.join("fixes.rs"), fixes(&source.join("fix"))).expect("OUT_DIR is ours to write");
    fs::write(out.join("signatures.rs"), signatures(&here.join("signatures"))).expect("OUT_DIR is ours to write");
}

fn facts(root: &Path) -> String {
    let mut modules = String::new();
    let mut table = String::from("static SOURCES: &[&[Source]] = &[\n");
    for file in files(root, "rs") {
        let stem = stem(&file);
        if stem == "mod" {
            continue;
        }
        modules.push_str(&module(&file, ""));
        if read(&file).contains("pub const SOURCES: &[Source]") {
            writeln!(table, "    {stem}::SOURCES,").expect("a String takes it");
        }
    }
    modules + &table + "];\n"
}

fn flavours(root: &Path) -> String {
    let mut modules = String::new();
    let mut table = String::from("pub static FLAVOURS: &[&Flavour] = &[\n");
    for file in files(root, "rs").iter().filter(|file| stem(file) != "mod") {
        modules.push_str(&module(file, ""));
        if read(file).contains("pub const FLAVOUR: Flavour") {
            writeln!(table, "    &{}::FLAVOUR,", stem(file)).expect("a String takes it");
        }
    }
    modules + &table + "];\n"
}

fn checks(root: &Path) -> String {
    let mut modules = String::new();
    let mut table = String::from("pub static CHECKS: &[Registered] = &[\n");
    for family in families(root) {
        let name = stem(&family);
        writeln!(modules, "pub mod {name} {{").expect("a String takes it");
        for file in files(&family, "rs") {
            let (check, explain) = (stem(&file), head_comment(&file));
            let id = format!("{name}.{check}").replace('_', "-");
            assert!(!explain.is_empty(), "{}: the head comment is the text of `carrick explain {id}`", file.display());
            modules.push_str(&module(&file, "    "));
            writeln!(table, "    Registered {{ file: {id:?}, check: &{name}::{check}::CHECK, explain: {explain:?} }},")
                .expect("a String takes it");
        }
        modules.push_str("}\n");
    }
    modules + &table + "];\n"
}

fn fixes(root: &Path) -> String {
    let mut modules = String::new();
    let mut table = String::from("pub static FIXES: &[Registered] = &[\n");
    for file in files(root, "rs").iter().filter(|file| stem(file) != "mod") {
        modules.push_str(&module(file, ""));
        if read(file).contains("pub const FIX: Fix") {
            let (name, explain) = (stem(file), head_comment(file));
            writeln!(table, "    Registered {{ file: {name:?}, fix: &{name}::FIX, explain: {explain:?} }},")
                .expect("a String takes it");
        }
    }
    modules + &table + "];\n"
}

fn module(file: &Path, indent: &str) -> String {
    format!("{indent}#[path = {:?}]\n{indent}pub mod {};\n", file.display().to_string(), stem(file))
}

fn signatures(root: &Path) -> String {
    let mut table = String::from("pub static BUILT_IN: &[(&str, &str)] = &[\n");
    let mut known = String::from("pub static CLASSIFIED: &[About<'static>] = &[\n");
    for family in families(root) {
        for file in files(&family, "toml") {
            let id = format!("{}.{}", stem(&family), stem(&file));
            let path = file.display().to_string();
            writeln!(table, "    ({id:?}, include_str!({path:?})),").expect("a String takes it");
            known.push_str(&classified(&file, &id));
        }
    }
    table + "];\n" + &known + "];\n"
}

/// What is known of a signature's id, as a row; nothing of one that is never a cause. The lint says what else is wrong with
/// one; what is not classified is not built.
fn classified(file: &Path, id: &str) -> String {
    println!("cargo:rerun-if-changed={}", file.display());
    let text = read(file);
    let top: Vec<&str> = text.lines().take_while(|line| !line.starts_with("[[")).collect();
    let value = |key: &str| {
        let is_it = |line: &&&str| line.split_once('=').is_some_and(|(name, _)| name.trim_end() == key);
        let (_, value) = top.iter().find(is_it)?.split_once('=')?;
        Some(value.trim().strip_prefix('"')?.strip_suffix('"')?.to_owned())
    };
    let needs = |key: &str| value(key).unwrap_or_else(|| panic!("{}: there is no {key} = \"…\"", file.display()));
    if ["good", "benign"].contains(&needs("severity").as_str()) {
        return String::new();
    }
    let subsystem = variant(&needs("subsystem"));
    let rest = if let Some(check) = value("shows") {
        format!("..shown({check:?})")
    } else {
        let [class, role] = ["class", "role"].map(|key| variant(&needs(key)));
        format!("class: Class::{class}, role: Role::{role}, needed: Needed::Always")
    };
    format!("    About {{ id: {id:?}, subsystem: Subsystem::{subsystem}, {rest} }},\n")
}

/// `until-network` is `UntilNetwork`; whether there is one of that name, the compiler says.
fn variant(name: &str) -> String {
    let upper = |part: &str| part[..1].to_uppercase() + &part[1..];
    name.split('-').filter(|part| !part.is_empty()).map(upper).collect()
}

fn families(root: &Path) -> Vec<PathBuf> {
    println!("cargo:rerun-if-changed={}", root.display());
    let mut families: Vec<PathBuf> = entries(root).into_iter().filter(|path| path.is_dir()).collect();
    families.sort();
    families
}

fn files(dir: &Path, extension: &str) -> Vec<PathBuf> {
    println!("cargo:rerun-if-changed={}", dir.display());
    let is_one = |path: &PathBuf| path.extension().is_some_and(|found| found == extension);
    let mut files: Vec<PathBuf> = entries(dir).into_iter().filter(is_one).collect();
    files.sort();
    files
}

fn entries(dir: &Path) -> Vec<PathBuf> {
    fs::read_dir(dir).expect("a directory of this crate").flatten().map(|entry| entry.path()).collect()
}

fn stem(path: &Path) -> String {
    path.file_stem().expect("it has a name").to_string_lossy().into_owned()
}

fn read(file: &Path) -> String {
    fs::read_to_string(file).expect("a file of this crate can be read")
}

/// The `//!` lines at the top of a file, without their marks.
fn head_comment(file: &Path) -> String {
    let text = read(file);
    let lines = text.lines().map_while(|line| line.strip_prefix("//!"));
    let lines: Vec<&str> = lines.map(|line| line.strip_prefix(' ').unwrap_or(line)).collect();
    lines.join("\n").trim().to_owned()
}
