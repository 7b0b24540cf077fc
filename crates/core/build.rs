//! Finds the facts and the checks, so that adding one is one new file, and a file that is there cannot be forgotten.
//!
//! * every `src/fact/NAME.rs` is a module; its `pub const SOURCES` are read on a machine
//! * every `src/cni/NAME.rs` is a module; its `pub const FLAVOUR` is a pod network that is told apart
//! * every `src/fix/NAME.rs` is a module; its `pub const FIX` is a fix, its head comment is what `carrick explain` says
//!   of `--fix`
//! * every `src/join/verify/proof/NAME.rs` is the proof `verify.NAME`; its head comment is the text of `carrick explain`
//! * every `signatures/FAMILY/NAME.toml` is the signature `FAMILY.NAME`; what it says of its class, its role and
//!   what it stops is a table that is known when the code is compiled
//! * every `src/check/FAMILY/NAME.rs` is the check `FAMILY.NAME`; its head comment is the text of `carrick explain`
//!
//! A module without such a constant says in its head comment that it is shared; any other file fails the build
//! (`registry.rs`).
#![allow(clippy::disallowed_methods, clippy::expect_used, clippy::print_stdout)]

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

mod registry;

use registry::{Registry, Role, all, expect_extension};

const FACT: Registry = Registry { what: "fact", line: "pub const SOURCES: &[Source]" };
const FLAVOUR: Registry = Registry { what: "pod network", line: "pub const FLAVOUR: Flavour" };
const FIX: Registry = Registry { what: "fix", line: "pub const FIX: Fix" };
const CHECK: Registry = Registry { what: "check", line: "pub const CHECK: Check" };
const PROOF: Registry = Registry { what: "proof", line: "pub const PROOF: Proof" };

fn main() {
    if let Err(problem) = generate() {
        println!("cargo::error={problem}");
    }
}

fn generate() -> Result<(), String> {
    let here = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let source = here.join("src");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    let tables = [
        ("facts.rs", facts(&source.join("fact"))?),
        ("flavours.rs", flavours(&source.join("cni"))?),
        ("checks.rs", checks(&source.join("check"))?),
        ("fixes.rs", fixes(&source.join("fix"))?),
        ("proofs.rs", proofs(&source.join("join/verify/proof"))?),
        ("signatures.rs", signatures(&here.join("signatures"))?),
    ];
    for (name, text) in tables {
        fs::write(out.join(name), text).expect("OUT_DIR is ours to write");
    }
    Ok(())
}

fn facts(root: &Path) -> Result<String, String> {
    let row = |file: &Path| format!("{}::SOURCES", stem(file));
    table("static SOURCES: &[&[Source]]", root, &FACT, row)
}

fn flavours(root: &Path) -> Result<String, String> {
    let row = |file: &Path| format!("&{}::FLAVOUR", stem(file));
    table("pub static FLAVOURS: &[&Flavour]", root, &FLAVOUR, row)
}

fn fixes(root: &Path) -> Result<String, String> {
    let row = |file: &Path| {
        format!("RegisteredFix {{ file: {0:?}, fix: &{0}::FIX, explain: {1:?} }}", stem(file), head_comment(file))
    };
    table("pub static FIXES: &[RegisteredFix]", root, &FIX, row)
}

/// Every file as a module, and a row for each that is registered.
fn table(head: &str, root: &Path, registry: &Registry, row: impl Fn(&Path) -> String) -> Result<String, String> {
    let (mut modules, mut rows) = (String::new(), String::new());
    for (file, role) in registry.roles(entries(root)?)? {
        match role {
            Role::Root => continue,
            Role::Registered => writeln!(rows, "    {},", row(&file)).expect("a String takes it"),
            Role::Shared => {}
        }
        modules.push_str(&module(&file, "pub mod"));
    }
    Ok(format!("{modules}{head} = &[\n{rows}];\n"))
}

fn checks(root: &Path) -> Result<String, String> {
    let (families, files): (Vec<PathBuf>, Vec<PathBuf>) = entries(root)?.into_iter().partition(|path| path.is_dir());
    let (mut modules, mut rows) = (String::new(), String::new());
    for (file, role) in CHECK.roles(files)? {
        match role {
            Role::Root => {}
            Role::Registered => return Err(format!("{}: a check is src/check/FAMILY/NAME.rs", file.display())),
            Role::Shared => modules.push_str(&module(&file, "mod")),
        }
    }
    for family in families {
        let name = stem(&family);
        writeln!(modules, "pub mod {name} {{").expect("a String takes it");
        for (file, role) in CHECK.roles(all(&family)?)? {
            if role == Role::Registered {
                rows.push_str(&check(&name, &file)?);
            }
            modules.push_str(&module(&file, "pub mod"));
        }
        modules.push_str("}\n");
    }
    Ok(format!("{modules}pub static CHECKS: &[RegisteredCheck] = &[\n{rows}];\n"))
}

fn check(family: &str, file: &Path) -> Result<String, String> {
    let name = stem(file);
    let id = format!("{family}.{name}").replace('_', "-");
    let explain = explained(file, &id)?;
    Ok(format!("    RegisteredCheck {{ file: {id:?}, check: &{family}::{name}::CHECK, explain: {explain:?} }},\n"))
}

/// What `carrick explain` says of an id: the head of its file, which nobody may leave out.
fn explained(file: &Path, id: &str) -> Result<String, String> {
    let explain = head_comment(file);
    if explain.is_empty() {
        return Err(format!("{}: the head comment is the text of `carrick explain {id}`: write one", file.display()));
    }
    Ok(explain)
}

/// Their heads; the order in which they come true is `mod.rs`'s to say.
fn proofs(root: &Path) -> Result<String, String> {
    let (listed, mut rows) = (read(&root.join("mod.rs")), String::new());
    for (file, role) in PROOF.roles(entries(root)?)? {
        if role != Role::Registered {
            continue;
        }
        let name = stem(&file);
        let id = format!("verify.{}", name.replace('_', "-"));
        let explain = explained(&file, &id)?;
        if !listed.contains(&format!("&{name}::PROOF,")) {
            return Err(format!("{}: PROOFS in mod.rs does not name it", file.display()));
        }
        writeln!(rows, "    ({id:?}, {explain:?}),").expect("a String takes it");
    }
    Ok(format!("pub(super) static EXPLAINED: &[(&str, &str)] = &[\n{rows}];\n"))
}

fn signatures(root: &Path) -> Result<String, String> {
    let (mut rows, mut known) = (String::new(), String::new());
    for family in entries(root)? {
        if !family.is_dir() {
            return Err(format!("{}: a signature is signatures/FAMILY/NAME.toml", family.display()));
        }
        for file in all(&family)? {
            expect_extension(&file, "toml")?;
            let id = format!("{}.{}", stem(&family), stem(&file));
            let path = file.display().to_string();
            writeln!(rows, "    ({id:?}, include_str!({path:?})),").expect("a String takes it");
            known.push_str(&classified(&file, &id)?);
        }
    }
    let texts = format!("pub static BUILT_IN: &[(&str, &str)] = &[\n{rows}];\n");
    Ok(format!("{texts}pub static CLASSIFIED: &[About<'static>] = &[\n{known}];\n"))
}

/// What is known of a signature's id, as a row; nothing of one that is never a cause. The lint says what else is wrong with
/// one; what is not classified is not built.
fn classified(file: &Path, id: &str) -> Result<String, String> {
    println!("cargo::rerun-if-changed={}", file.display());
    let text = read(file);
    let top: Vec<&str> = text.lines().take_while(|line| !line.starts_with("[[")).collect();
    let value = |key: &str| {
        let is_it = |line: &&&str| line.split_once('=').is_some_and(|(name, _)| name.trim_end() == key);
        let (_, value) = top.iter().find(is_it)?.split_once('=')?;
        Some(value.trim().strip_prefix('"')?.strip_suffix('"')?.to_owned())
    };
    let needs = |key: &str| value(key).ok_or_else(|| format!("{}: there is no {key} = \"…\"", file.display()));
    if ["sign", "good", "benign"].contains(&needs("severity")?.as_str()) {
        return Ok(String::new());
    }
    let subsystem = variant(&needs("subsystem")?);
    let rest = if let Some(check) = value("shows") {
        format!("..shown({check:?})")
    } else {
        let (class, role, stops) = (variant(&needs("class")?), variant(&needs("role")?), variant(&needs("stops")?));
        format!("class: Class::{class}, role: Role::{role}, stops: Stops::{stops}, needed: Needed::Always")
    };
    Ok(format!("    About {{ id: {id:?}, subsystem: Subsystem::{subsystem}, {rest} }},\n"))
}

/// `until-network` is `UntilNetwork`; whether there is one of that name, the compiler says.
fn variant(name: &str) -> String {
    let upper = |part: &str| part[..1].to_uppercase() + &part[1..];
    name.split('-').filter(|part| !part.is_empty()).map(upper).collect()
}

/// What is in a directory that is found again whenever something in it changes.
fn entries(root: &Path) -> Result<Vec<PathBuf>, String> {
    println!("cargo::rerun-if-changed={}", root.display());
    all(root)
}

fn module(file: &Path, keyword: &str) -> String {
    format!("#[path = {:?}]\n{keyword} {};\n", file.display().to_string(), stem(file))
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
