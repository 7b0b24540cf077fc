//! Hashes of passwords, as /etc/shadow, cloud-init and htpasswd have them: they can be guessed at leisure.

use super::super::shape::{Shape, Words};
use super::super::value;

pub(super) const SHAPES: &[Shape] = &[Shape {
    kind: "password-hash",
    words: Words::AsTheyAre(&["$6$", "$5$", "$1$", "$y$", "$2a$", "$2b$", "$2y$", "$apr1$", "$gy$"]),
    regex: r"(?P<s>\$(?:[156y]|gy|2[aby]|apr1)\$[./A-Za-z0-9$=,]{20,})",
    value: value::certain,
}];
