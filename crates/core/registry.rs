//! Shared by the build scripts of carrick-core and of the lab: what each file in a directory of checks, facts, fixes, pod
//! networks, signatures, cases or faults is. A file that is nothing of it fails the build: it would be forgotten otherwise.

use std::fs;
use std::path::{Path, PathBuf};

/// Files that `build.rs` finds.
pub(crate) struct Registry {
    /// One of them: `fix`.
    pub what: &'static str,
    /// How the line begins that registers a file: `pub const FIX: Fix`.
    pub line: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// The module that includes what `build.rs` writes.
    Root,
    Registered,
    /// A module beside those that are registered; its head comment says who uses it.
    Shared,
}

/// How a line of the head comment begins that marks a file as shared.
const SHARED: &str = "//! Shared: ";

impl Registry {
    /// What each of these is: Rust files that are registered or shared, and nothing else.
    pub(crate) fn roles(&self, paths: Vec<PathBuf>) -> Result<Vec<(PathBuf, Role)>, String> {
        let with_role = |file: PathBuf| {
            expect_extension(&file, "rs")?;
            let text = fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
            let role = self.role(&text).map_err(|why| format!("{} {why}", file.display()))?;
            if role == Role::Root && file.file_name().is_none_or(|name| name != "mod.rs") {
                return Err(format!(
                    "{} is not mod.rs, and includes what build.rs writes: only mod.rs does",
                    file.display()
                ));
            }
            Ok((file, role))
        };
        paths.into_iter().map(with_role).collect()
    }

    /// What a file with this text is.
    pub(crate) fn role(&self, text: &str) -> Result<Role, String> {
        let Registry { what, line } = self;
        if text.contains("include!(concat!(env!(\"OUT_DIR\")") {
            return Ok(Role::Root);
        }
        let registered = text.lines().any(|it| it.starts_with(line));
        let shared = text.lines().take_while(|it| it.starts_with("//!")).any(|it| it.starts_with(SHARED));
        match (registered, shared) {
            (true, false) => Ok(Role::Registered),
            (false, true) => Ok(Role::Shared),
            (false, false) => Err(format!(
                "is not registered: a {what} has a line `{line}`; code that others use has a line `{SHARED}…` in its head \
                 comment, which says who"
            )),
            (true, true) => Err(format!("has both `{line}` and `{SHARED}…`: remove one of the two")),
        }
    }
}

/// Whatever is in a directory, by name; not the hidden files that editors make.
pub(crate) fn all(dir: &Path) -> Result<Vec<PathBuf>, String> {
    let read = fs::read_dir(dir).map_err(|error| format!("{}: {error}", dir.display()))?;
    let mut paths: Vec<PathBuf> = read.flatten().map(|entry| entry.path()).filter(|path| !is_hidden(path)).collect();
    paths.sort();
    Ok(paths)
}

fn is_hidden(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'))
}

pub(crate) fn expect_extension(path: &Path, extension: &str) -> Result<(), String> {
    let fits = path.is_file() && path.extension().is_some_and(|found| found == extension);
    if fits {
        Ok(())
    } else {
        Err(format!("{} is not a .{extension} file, and nothing reads it: move or remove it", path.display()))
    }
}
