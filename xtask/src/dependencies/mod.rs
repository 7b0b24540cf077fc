//! `cargo xtask dependencies`: what deny.toml says of licences, bans and sources, held against what cargo builds. cargo-deny
//! reads the same file, and takes ten minutes to build; here is the part of it that the file uses. What is not understood is
//! refused, never passed over.

mod licence;
mod rules;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use anyhow::{Context, bail, ensure};
use serde::Deserialize;

use self::rules::{Named, Rules};

/// How Cargo.lock names crates.io, wherever a machine then fetches it from.
const CRATES_IO: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// The part of `cargo metadata` that is judged.
#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    workspace_members: Vec<String>,
}

#[derive(Clone, Deserialize)]
struct Package {
    id: String,
    name: String,
    version: String,
    license: Option<String>,
    /// None: a path on this machine.
    source: Option<String>,
    dependencies: Vec<Dependency>,
}

#[derive(Clone, Deserialize)]
struct Dependency {
    name: String,
    req: String,
    path: Option<String>,
}

/// Everything that is built for any of the targets.
struct Graph {
    packages: Vec<Package>,
    members: BTreeSet<String>,
    /// Those that tests alone bring in; cargo-deny, too, lets them be there twice.
    for_tests: BTreeSet<String>,
}

pub fn run() -> anyhow::Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let place = root.join("deny.toml");
    let text = std::fs::read_to_string(&place).with_context(|| place.display().to_string())?;
    let rules: Rules = toml::from_str(&text).context("deny.toml says what only cargo-deny understands")?;
    let graph = Graph::of(&root, &rules.graph.targets)?;
    let complaints = complaints(&rules, &graph);
    for complaint in &complaints {
        eprintln!("{complaint}");
    }
    ensure!(complaints.is_empty(), "{} complaints about dependencies; deny.toml has the rules", complaints.len());
    println!("dependencies: {} packages, licences, bans and sources as deny.toml says", graph.packages.len());
    Ok(())
}

impl Graph {
    fn of(root: &Path, targets: &[String]) -> anyhow::Result<Self> {
        ensure!(!targets.is_empty(), "deny.toml names no target in [graph]: nothing would be judged");
        let all = ["metadata", "--format-version", "1", "--locked"];
        let metadata: Metadata = serde_json::from_str(&cargo(root, &all)?).context("cargo metadata says else")?;
        let (mut built, mut shipped) = (BTreeSet::new(), BTreeSet::new());
        for target in targets {
            built.extend(tree(root, target, "normal,build,dev")?);
            shipped.extend(tree(root, target, "normal,build")?);
        }
        let named = |package: &Package| (package.name.clone(), package.version.clone());
        let packages: Vec<Package> =
            metadata.packages.into_iter().filter(|package| built.contains(&named(package))).collect();
        let known: BTreeSet<(String, String)> = packages.iter().map(named).collect();
        ensure!(known == built, "cargo tree and cargo metadata do not tell of the same packages");
        let for_tests = packages.iter().filter(|package| !shipped.contains(&named(package)));
        let for_tests = for_tests.map(|package| package.id.clone()).collect();
        Ok(Self { packages, members: metadata.workspace_members.into_iter().collect(), for_tests })
    }

    fn versions_of<'a>(&'a self, named: &'a Named) -> impl Iterator<Item = &'a Package> {
        self.packages.iter().filter(|package| named.is(&package.name, &package.version))
    }
}

/// Names and versions of what is built: cargo metadata tells also of what no feature turns on.
fn tree(root: &Path, target: &str, edges: &str) -> anyhow::Result<BTreeSet<(String, String)>> {
    let words = ["tree", "--workspace", "--locked", "--target", target, "--edges", edges, "--prefix", "none"];
    cargo(root, &[&words[..], &["--format", "{p}"]].concat())?
        .lines()
        .filter(|line| !line.is_empty())
        .map(leaf)
        .collect()
}

/// `serde v1.0.228 (proc-macro) (*)`
fn leaf(line: &str) -> anyhow::Result<(String, String)> {
    let mut words = line.split(' ');
    let leaf = words.next().zip(words.next().and_then(|version| version.strip_prefix('v')));
    let (name, version) = leaf.with_context(|| format!("cargo tree printed {line:?}"))?;
    Ok((name.to_owned(), version.to_owned()))
}

fn cargo(root: &Path, words: &[&str]) -> anyhow::Result<String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let told = Command::new(cargo).args(words).current_dir(root).output().context("cannot run cargo")?;
    if !told.status.success() {
        bail!("cargo {}: {}", words.join(" "), String::from_utf8_lossy(&told.stderr).trim());
    }
    String::from_utf8(told.stdout).context("cargo printed no UTF-8")
}

fn complaints(rules: &Rules, graph: &Graph) -> Vec<String> {
    let mut complaints = Vec::new();
    complaints.extend(licences(rules, graph));
    complaints.extend(banned(rules, graph));
    complaints.extend(twice(rules, graph));
    complaints.extend(wildcards(rules, graph));
    complaints.extend(sources(graph));
    complaints
}

fn licences(rules: &Rules, graph: &Graph) -> Vec<String> {
    let judged = graph.packages.iter().filter_map(|Package { name, version, license, .. }| {
        let Some(license) = license else { return Some(format!("{name} {version} says no licence")) };
        match licence::is_allowed(license, &rules.licenses.allow) {
            Ok(true) => None,
            Ok(false) => Some(format!("{name} {version}: the licence \"{license}\" is not among those in deny.toml")),
            Err(why) => Some(format!("{name} {version}: the licence \"{license}\" cannot be read: {why}")),
        }
    });
    judged.collect()
}

fn banned(rules: &Rules, graph: &Graph) -> Vec<String> {
    let found = rules.bans.deny.iter().flat_map(|rule| graph.versions_of(&rule.named).map(move |found| (rule, found)));
    found.map(|(rule, found)| format!("{} {} is banned: {}", found.name, found.version, rule.reason)).collect()
}

/// Two versions of one crate, of which deny.toml does not say why; and what it says of crates that are not there twice.
fn twice(rules: &Rules, graph: &Graph) -> Vec<String> {
    let mut versions: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for package in graph.packages.iter().filter(|package| !graph.for_tests.contains(&package.id)) {
        versions.entry(&package.name).or_default().insert(&package.version);
    }
    let is_excused = |name: &str, version: &str| rules.bans.skip.iter().any(|rule| rule.named.is(name, version));
    let mut complaints = Vec::new();
    for (name, versions) in &versions {
        let left: Vec<&str> = versions.iter().copied().filter(|version| !is_excused(name, version)).collect();
        if left.len() > 1 {
            complaints.push(format!("{name} is there {} times: {}", left.len(), left.join(", ")));
        }
    }
    for rule in &rules.bans.skip {
        let others = versions.get(rule.named.name.as_str()).map_or(0, BTreeSet::len);
        if graph.versions_of(&rule.named).next().is_none() || others < 2 {
            complaints.push(format!("deny.toml excuses {}, which is not there twice: take the line out", rule.named));
        }
    }
    complaints
}

/// A member's dependency that any version would satisfy; a path on this machine has one version.
fn wildcards(rules: &Rules, graph: &Graph) -> Vec<String> {
    let members = graph.packages.iter().filter(|package| graph.members.contains(&package.id));
    let all = members.flat_map(|member| member.dependencies.iter().map(move |dependency| (member, dependency)));
    let excused = |dependency: &Dependency| rules.bans.allow_wildcard_paths && dependency.path.is_some();
    all.filter(|(_, dependency)| dependency.req == "*" && !excused(dependency))
        .map(|(member, dependency)| format!("{} takes any version of {}", member.name, dependency.name))
        .collect()
}

fn sources(graph: &Graph) -> Vec<String> {
    let judged =
        graph.packages.iter().filter_map(|Package { id, name, version, source, .. }| match source.as_deref() {
            Some(CRATES_IO) => None,
            Some(other) => Some(format!("{name} {version} comes from {other}, not from crates.io")),
            None if graph.members.contains(id) => None,
            None => Some(format!("{name} {version} is a path outside of this workspace")),
        });
    judged.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: &str = r#"
        [graph]
        targets = ["x86_64-unknown-linux-gnu"]
        [licenses]
        allow = ["MIT", "Apache-2.0"]
        [bans]
        multiple-versions = "deny"
        wildcards = "deny"
        allow-wildcard-paths = true
        skip = [{ crate = "syn@2", reason = "some have not moved" }]
        deny = [{ crate = "chrono", reason = "one time crate: jiff" }]
        [sources]
        unknown-registry = "deny"
        unknown-git = "deny"
    "#;

    fn package(name: &str, version: &str) -> Package {
        Package {
            id: format!("{name} {version}"),
            name: name.to_owned(),
            version: version.to_owned(),
            license: Some("MIT OR Apache-2.0".to_owned()),
            source: Some(CRATES_IO.to_owned()),
            dependencies: Vec::new(),
        }
    }

    fn member(name: &str, dependencies: &[(&str, &str, Option<&str>)]) -> Package {
        let dependencies = dependencies.iter().map(|(name, req, path)| Dependency {
            name: (*name).to_owned(),
            req: (*req).to_owned(),
            path: path.map(str::to_owned),
        });
        Package { source: None, dependencies: dependencies.collect(), ..package(name, "0.1.0") }
    }

    /// A tree that keeps the rules: syn is there twice, and excused.
    fn sound() -> Vec<Package> {
        vec![member("carrick", &[("core", "*", Some("/core"))]), package("syn", "2.0.1"), package("syn", "3.0.0")]
    }

    fn judged(packages: Vec<Package>) -> Vec<String> {
        let members = BTreeSet::from(["carrick 0.1.0".to_owned()]);
        let for_tests = packages.iter().filter(|one| one.name == "trycmd").map(|one| one.id.clone()).collect();
        complaints(&toml::from_str(RULES).unwrap(), &Graph { packages, members, for_tests })
    }

    #[test]
    fn each_rule_can_fail() {
        let with = |package: Package| sound().into_iter().chain([package]).collect::<Vec<_>>();
        let of_licence =
            |text: Option<&str>| with(Package { license: text.map(str::to_owned), ..package("x", "1.0.0") });
        let from = |source: Option<&str>| with(Package { source: source.map(str::to_owned), ..package("x", "1.0.0") });
        for (tree, complaint) in [
            (sound(), ""),
            (with(package("serde", "1.0.0")), ""),
            (with(package("trycmd", "1.0.0")).into_iter().chain([package("trycmd", "2.0.0")]).collect(), ""),
            (of_licence(Some("GPL-3.0-only")), "x 1.0.0: the licence \"GPL-3.0-only\" is not among those in deny.toml"),
            (of_licence(Some("MIT AND")), "x 1.0.0: the licence \"MIT AND\" cannot be read: a licence is missing"),
            (of_licence(None), "x 1.0.0 says no licence"),
            (with(package("chrono", "0.4.1")), "chrono 0.4.1 is banned: one time crate: jiff"),
            (with(package("syn", "1.0.9")), "syn is there 2 times: 1.0.9, 3.0.0"),
            (sound().split_off(2), "deny.toml excuses syn@2, which is not there twice: take the line out"),
            (
                from(Some("git+https://example.org/x")),
                "x 1.0.0 comes from git+https://example.org/x, not from crates.io",
            ),
            (
                from(Some("registry+https://example.org/x")),
                "x 1.0.0 comes from registry+https://example.org/x, not from crates.io",
            ),
            (from(None), "x 1.0.0 is a path outside of this workspace"),
            (
                [member("carrick", &[("serde", "*", None)])].into_iter().chain(sound().split_off(1)).collect(),
                "carrick takes any version of serde",
            ),
        ] {
            let expected: Vec<&str> = Some(complaint).filter(|text| !text.is_empty()).into_iter().collect();
            assert_eq!(judged(tree), expected);
        }
    }

    #[test]
    fn a_line_of_cargo_tree_has_a_name_and_a_version() {
        for line in ["syn v2.0.1", "syn v2.0.1 (proc-macro)", "syn v2.0.1 (/path) (*)"] {
            assert_eq!(leaf(line).unwrap(), ("syn".to_owned(), "2.0.1".to_owned()), "{line}");
        }
        assert!(leaf("[build-dependencies]").is_err());
    }

    #[test]
    fn a_rule_that_is_not_understood_is_refused() {
        for (from, to) in [
            ("allow-wildcard-paths", "allow-wildcard-roads"),
            ("multiple-versions = \"deny\"", "multiple-versions = \"warn\""),
            ("crate = \"chrono\"", "crate = \"chrono@>=1, <2\""),
            ("[sources]", "[advisories]\nyanked = \"deny\"\n[sources]"),
        ] {
            assert!(toml::from_str::<Rules>(&RULES.replace(from, to)).is_err(), "{to}");
        }
        assert!(toml::from_str::<Rules>(RULES).is_ok());
    }

    #[test]
    fn the_rules_of_this_tree_can_be_read() {
        let rules: Rules = toml::from_str(include_str!("../../../deny.toml")).unwrap();
        assert!(!rules.licenses.allow.is_empty() && !rules.graph.targets.is_empty());
    }

    fn read_toml(file: &str) -> toml::Table {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(file);
        toml::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
    }

    /// By name and version, with the names of what each is made of.
    fn locked(file: &str) -> BTreeMap<(String, String), BTreeSet<String>> {
        let text = |value: &toml::Value| value.as_str().unwrap().to_owned();
        let needs = |package: &toml::Value| {
            let all = package.get("dependencies").and_then(toml::Value::as_array).into_iter().flatten();
            all.map(|it| text(it).split(' ').next().unwrap().to_owned()).collect()
        };
        let lock = read_toml(file);
        let packages = lock["package"].as_array().unwrap().iter();
        packages.map(|it| ((text(&it["name"]), text(&it["version"])), needs(it))).collect()
    }

    /// fuzz/ is a workspace of its own. Cargo takes its lock file as it is only where it follows the crates it is made of, and what is
    /// fuzzed is to be what is shipped.
    #[test]
    fn the_fuzz_targets_are_locked_to_the_same_versions() {
        const HOW: &str = "cp Cargo.lock fuzz/ && cargo metadata --manifest-path fuzz/Cargo.toml >/dev/null";
        let (ours, fuzz) = (locked("Cargo.lock"), locked("fuzz/Cargo.lock"));
        for package in fuzz.keys().filter(|package| ours.keys().any(|(name, _)| *name == package.0)) {
            assert!(ours.contains_key(package), "{package:?} is not what is shipped: {HOW}");
        }
        for name in ["core", "host"] {
            let needs = fuzz.iter().find(|((it, _), _)| *it == format!("carrick-{name}")).unwrap().1;
            let manifest = read_toml(&format!("crates/{name}/Cargo.toml"));
            let optional = |it: &toml::Value| it.get("optional").and_then(toml::Value::as_bool) == Some(true);
            let wanted = manifest["dependencies"].as_table().unwrap().iter().filter(|(_, it)| !optional(it));
            for (wanted, _) in wanted {
                assert!(needs.contains(wanted), "{wanted} of carrick-{name} is not in fuzz/Cargo.lock: {HOW}");
            }
        }
    }
}
