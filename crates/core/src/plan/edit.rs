//! Changes inside a file that is not ours, made on its real text: comments, order and what Carrick knows nothing of stay.
//!
//! An edit is data and not a new text, because a plan is made from facts, and facts have no secrets in them: what was
//! masked must not be written back.

use std::fmt;

use serde::{Deserialize, Serialize};
use similar::{ChangeTag, TextDiff};
use toml_edit::{DocumentMut, Item, Table, Value};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "edit", rename_all = "kebab-case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Edit {
    /// Keys of a TOML file have these values, or are gone.
    Toml { set: Vec<Set> },
    /// Lines are comments from now on.
    CommentOut { lines: Vec<String> },
    /// One after the other.
    Both { edits: Vec<Edit> },
}

/// One key of a TOML file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Set {
    /// From the root, unquoted.
    pub key: Vec<String>,
    /// A value as TOML writes it (`true`, `"systemd"`, `[]`); nothing: the key is commented out of existence.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub to: String,
}

/// Why a text could not be edited.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EditError {
    #[error("not TOML: {0}")]
    NotToml(String),
    #[error("{key} is not a table")]
    NotATable { key: String },
    #[error("{0:?} is not a TOML value")]
    NotAValue(String),
    #[error("has no line {0:?}")]
    NoLine(String),
}

impl Edit {
    /// The text as it is afterwards. Editing twice gives the same as editing once.
    pub fn apply(&self, text: &str) -> Result<String, EditError> {
        match self {
            Edit::Toml { set } => edit_toml(text, set),
            Edit::CommentOut { lines } => comment_out(text, lines),
            Edit::Both { edits } => edits.iter().try_fold(text.to_owned(), |text, edit| edit.apply(&text)),
        }
    }

    /// Both edits of one file, where they can be one.
    pub fn and(&self, other: &Edit) -> Option<Edit> {
        let mut all = self.parts().to_vec();
        for new in other.parts() {
            match all.iter_mut().find(|known| std::mem::discriminant(*known) == std::mem::discriminant(new)) {
                Some(known) => *known = known.merged(new)?,
                None => all.push(new.clone()),
            }
        }
        // A line is looked for as it was read: before anything else is changed.
        all.sort_by_key(|edit| matches!(edit, Edit::Toml { .. }));
        if all.len() > 1 { Some(Edit::Both { edits: all }) } else { all.pop() }
    }

    fn parts(&self) -> &[Edit] {
        match self {
            Edit::Both { edits } => edits,
            one @ (Edit::Toml { .. } | Edit::CommentOut { .. }) => std::slice::from_ref(one),
        }
    }

    /// Two edits of one kind.
    fn merged(&self, other: &Edit) -> Option<Edit> {
        match (self, other) {
            (Edit::Toml { set }, Edit::Toml { set: more }) => {
                let clash = |new: &Set| set.iter().any(|known| known.key == new.key && known.to != new.to);
                if more.iter().any(clash) {
                    return None;
                }
                let new = more.iter().filter(|new| !set.contains(new));
                Some(Edit::Toml { set: set.iter().chain(new).cloned().collect() })
            }
            (Edit::CommentOut { lines }, Edit::CommentOut { lines: more }) => {
                let new = more.iter().filter(|new| !lines.contains(new));
                Some(Edit::CommentOut { lines: lines.iter().chain(new).cloned().collect() })
            }
            _ => None,
        }
    }
}

fn edit_toml(text: &str, set: &[Set]) -> Result<String, EditError> {
    let mut document: DocumentMut = text.parse().map_err(|error: toml_edit::TomlError| {
        EditError::NotToml(error.message().lines().next().unwrap_or_default().to_owned())
    })?;
    for Set { key, to } in set {
        let Some((last, tables)) = key.split_last() else { continue };
        if to.is_empty() {
            remove(document.as_table_mut(), tables, last);
            continue;
        }
        let value: Value = to.parse().map_err(|_| EditError::NotAValue(to.clone()))?;
        let mut table = document.as_table_mut();
        for (depth, name) in tables.iter().enumerate() {
            let implicit = || {
                let mut new = Table::new();
                new.set_implicit(true);
                Item::Table(new)
            };
            let not_a_table = || EditError::NotATable { key: tables.get(..=depth).unwrap_or_default().join(".") };
            table = table.entry(name).or_insert_with(implicit).as_table_mut().ok_or_else(not_a_table)?;
        }
        put(table, last, value);
    }
    Ok(document.to_string())
}

/// What stands around a value (its comment, its indentation) stays.
fn put(table: &mut Table, key: &str, value: Value) {
    match table.get_mut(key).and_then(Item::as_value_mut) {
        Some(old) if old.to_string().trim() == value.to_string().trim() => {}
        Some(old) => {
            let decor = old.decor().clone();
            *old = value;
            *old.decor_mut() = decor;
        }
        None => {
            table.insert(key, Item::Value(value));
        }
    }
}

fn remove(table: &mut Table, tables: &[String], key: &str) {
    let mut at = table;
    for name in tables {
        match at.get_mut(name).and_then(Item::as_table_mut) {
            Some(next) => at = next,
            None => return,
        }
    }
    at.remove(key);
}

/// What a line that Carrick has commented out begins with: a person sees who did it, and how to take it back.
const MARK: &str = "# carrick: ";

fn comment_out(text: &str, lines: &[String]) -> Result<String, EditError> {
    let mut edited = String::with_capacity(text.len() + 32);
    for line in text.split_inclusive('\n') {
        let bare = line.trim_end_matches(['\n', '\r']);
        if lines.iter().any(|wanted| wanted == bare) {
            edited.push_str(MARK);
        }
        edited.push_str(line);
    }
    for wanted in lines {
        let done = format!("{MARK}{wanted}");
        if !edited.lines().any(|line| line == done) {
            return Err(EditError::NoLine(wanted.clone()));
        }
    }
    Ok(edited)
}

/// The lines that differ, `-` before those that go and `+` before those that come.
pub fn diff(old: &str, new: &str) -> Vec<String> {
    let diff = TextDiff::from_lines(old, new);
    let changed = diff.iter_all_changes().filter_map(|change| {
        let mark = match change.tag() {
            ChangeTag::Delete => '-',
            ChangeTag::Insert => '+',
            ChangeTag::Equal => return None,
        };
        Some(format!("{mark} {}", change.value().trim_end()))
    });
    changed.collect()
}

impl fmt::Display for Edit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let told: Vec<String> = match self {
            Edit::Toml { set } => set.iter().map(told).collect(),
            Edit::CommentOut { lines } => lines.iter().map(|line| format!("comment out {:?}", line.trim())).collect(),
            Edit::Both { edits } => edits.iter().map(ToString::to_string).collect(),
        };
        f.write_str(&told.join("; "))
    }
}

fn told(Set { key, to }: &Set) -> String {
    let key = key.last().map(String::as_str).unwrap_or_default();
    if to.is_empty() { format!("without {key}") } else { format!("{key} = {to}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn set(key: &[&str], to: &str) -> Set {
        Set { key: key.iter().map(|&name| name.to_owned()).collect(), to: to.to_owned() }
    }

    const CONFIG: &str = r#"# ours, do not touch
version = 2

[plugins]
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
    # why it is so
    SystemdCgroup = false # since 2021
    BinaryName = ""

[plugins."io.containerd.grpc.v1.cri".registry.configs."r".auth]
  password = "secret"
"#;

    #[test]
    fn a_value_changes_and_nothing_else_does() {
        let key =
            ["plugins", "io.containerd.grpc.v1.cri", "containerd", "runtimes", "runc", "options", "SystemdCgroup"];
        let edit = Edit::Toml { set: vec![set(&key, "true")] };
        let edited = edit.apply(CONFIG).unwrap();
        assert_eq!(edited, CONFIG.replace("SystemdCgroup = false", "SystemdCgroup = true"));
        assert_eq!(edit.apply(&edited).unwrap(), edited);
    }

    #[test]
    fn a_diff_shows_only_what_changes() {
        assert_eq!(diff("a\nb\nc\n", "a\nB\nc\nd"), ["- b", "+ B", "+ d"]);
        assert_eq!(diff("", "a\n"), ["+ a"]);
        assert!(diff("a\n", "a\n").is_empty());
    }

    #[test]
    fn tables_that_are_missing_are_made_and_keys_removed() {
        let edit =
            Edit::Toml { set: vec![set(&["a", "b c", "d"], "[]"), set(&["version"], ""), set(&["no", "such"], "")] };
        assert_eq!(edit.apply("version = 2\n# end\n").unwrap(), "[a.\"b c\"]\nd = []\n# end\n");
    }

    #[test]
    fn lines_and_keys_of_one_file_change_together() {
        let toml = Edit::Toml { set: vec![set(&["a"], "1")] };
        let lines = Edit::CommentOut { lines: vec!["  b = 2".into()] };
        let more = Edit::Toml { set: vec![set(&["c"], "3")] };
        let both = toml.and(&lines).unwrap().and(&more).unwrap();
        assert_eq!(both.apply("  b = 2\n# end\n").unwrap(), "a = 1\nc = 3\n# carrick:   b = 2\n# end\n");
        assert_eq!(both.to_string(), "comment out \"b = 2\"; a = 1; c = 3");
        let clash = Edit::Toml { set: vec![set(&["a"], "2")] };
        assert_eq!(both.and(&clash), None);
    }

    #[test]
    fn what_cannot_be_edited_says_why() {
        let edit = |key: &[&str], to: &str| Edit::Toml { set: vec![set(key, to)] };
        assert!(matches!(edit(&["a"], "1").apply("a ="), Err(EditError::NotToml(_))));
        assert_eq!(edit(&["a", "b"], "1").apply("a = 1"), Err(EditError::NotATable { key: "a".into() }));
        assert_eq!(edit(&["a"], "]").apply(""), Err(EditError::NotAValue("]".into())));
        let gone = Edit::CommentOut { lines: vec!["/swap none swap sw 0 0".into()] };
        assert_eq!(gone.apply("UUID=1 / ext4 defaults 0 1\n"), Err(EditError::NoLine("/swap none swap sw 0 0".into())));
    }

    #[test]
    fn a_line_is_commented_out_where_it_stands() {
        let edit = Edit::CommentOut { lines: vec!["/swap none swap sw 0 0".into()] };
        let edited = edit.apply("UUID=1 / ext4 defaults 0 1\n/swap none swap sw 0 0").unwrap();
        assert_eq!(edited, "UUID=1 / ext4 defaults 0 1\n# carrick: /swap none swap sw 0 0");
        assert_eq!(edit.apply(&edited).unwrap(), edited);
    }

    proptest! {
        #[test]
        fn any_text_is_edited_or_refused_and_twice_is_once(text in ".{0,300}", line in "[a-z/ ]{1,12}", key in "[a-z.]{1,8}") {
            for edit in [Edit::CommentOut { lines: vec![line.clone()] }, Edit::Toml { set: vec![set(&[&key, "x"], "true")] }] {
                if let Ok(edited) = edit.apply(&text) {
                    prop_assert_eq!(edit.apply(&edited), Ok(edited.clone()));
                }
            }
        }
    }
}
