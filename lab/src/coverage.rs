//! What a case is a representative of: a verb, a promise (DESIGN.md §4, by its number), a family of causes. With these as data a
//! test says that the tier quick has one of each.

use std::fmt;

use crate::join;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Covers {
    /// As it is typed: `cni sync`.
    Verb(&'static str),
    Promise(u8),
    /// What the ids of its causes begin with.
    Family(&'static str),
}

impl fmt::Display for Covers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Verb(verb) => write!(f, "{verb}"),
            Self::Promise(number) => write!(f, "promise {number}"),
            Self::Family(family) => write!(f, "{family}.*"),
        }
    }
}

/// Of `carrick join` with a fault.
pub fn of_row(row: &join::Row, cause: &'static str) -> Vec<Covers> {
    let mut covers = vec![Covers::Verb("join"), Covers::Family(family(cause))];
    if row.tells() {
        covers.push(Covers::Promise(3));
    }
    if row.waits_out_a_deadline() {
        covers.push(Covers::Promise(2));
    }
    if row.leaves_everything() {
        covers.push(Covers::Promise(4));
    }
    if cause == "api.node-name" {
        covers.push(Covers::Promise(5));
    }
    covers
}

pub fn family(cause: &'static str) -> &'static str {
    cause.split('.').next().unwrap_or(cause)
}
