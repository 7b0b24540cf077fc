//! What `build.rs` does with a file that nobody registered: it is refused by name, with what to do.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)] // Files of a test.

use std::fs;
use std::path::Path;

#[path = "../registry.rs"]
mod registry;

use registry::{Registry, Role, all, expect_extension};

const FIX: Registry = Registry { what: "fix", line: "pub const FIX: Fix" };

#[test]
fn a_file_is_registered_or_shared_or_refused() {
    let registers = "//! Swap is turned off.\n\npub const FIX: Fix = Fix {};\n";
    let shares = "//! Kernel settings.\n//!\n//! Shared: the fixes of kernel settings.\n\npub const FIXED: u8 = 1;\n";
    let not_registered = "is not registered: a fix has a line `pub const FIX: Fix`";
    for (name, text, expected) in [
        ("registered", registers, Ok(Role::Registered)),
        ("shared", shares, Ok(Role::Shared)),
        ("the root", "//! Fixes.\ninclude!(concat!(env!(\"OUT_DIR\"), \"/fixes.rs\"));\n", Ok(Role::Root)),
        ("neither", "//! Swap is turned off.\n", Err(not_registered)),
        ("private", &registers.replace("pub ", ""), Err(not_registered)),
        ("in a comment", &registers.replace("pub ", "// pub "), Err(not_registered)),
        ("marked below its head", "//! Settings.\nuse x;\n//! Shared: all.\n", Err(not_registered)),
        ("both", &format!("//! Shared: all.\n{registers}"), Err("has both `pub const FIX: Fix`")),
    ] {
        match (FIX.role(text), expected) {
            (Ok(role), Ok(expected)) => assert_eq!(role, expected, "{name}"),
            (Err(why), Err(expected)) => assert!(why.starts_with(expected), "{name}: {why}"),
            (role, expected) => panic!("{name}: {role:?}, not {expected:?}"),
        }
    }
}

#[test]
fn what_nothing_reads_is_refused_by_its_name() {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("registry");
    fs::create_dir_all(dir.join("family")).unwrap();
    let root = "//! Fixes.\ninclude!(concat!(env!(\"OUT_DIR\"), \"/fixes.rs\"));\n";
    let files = [(".swap.rs.swp", ""), ("notes.txt", ""), ("second_root.rs", root), ("stray.rs", "//! Nothing.\n")];
    for (name, text) in files {
        fs::write(dir.join(name), text).unwrap();
    }
    let paths = all(&dir).unwrap();
    let names: Vec<_> = paths.iter().map(|path| path.file_name().unwrap().to_str().unwrap()).collect();
    assert_eq!(names, ["family", "notes.txt", "second_root.rs", "stray.rs"], "an editor's own file is nobody's");
    for path in &paths {
        let refused = FIX.roles(vec![path.clone()]).unwrap_err();
        assert!(refused.starts_with(&format!("{} is not ", path.display())), "{refused}");
    }
    assert!(expect_extension(&paths[1], "txt").is_ok() && expect_extension(&paths[0], "toml").is_err());
}
