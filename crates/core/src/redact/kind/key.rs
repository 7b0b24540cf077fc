//! Keys by their name. Most that is called a key is none: those of a queue, a taint, a map.

use super::super::shape::{Shape, Words};
use super::super::value;

pub(super) const SHAPES: &[Shape] = &[
    Shape {
        kind: "certificate-key",
        words: Words::InAnyCase(&["key"]),
        regex: r"(?i)certificate[-_ ]?keys?(?:NEXT|[:=]){1,10}(?P<s>[0-9a-f]{64})\b",
        value: value::certain,
    },
    Shape {
        kind: "credential",
        words: Words::InAnyCase(&["key"]),
        regex: r"LINE[A-Z0-9]_KEY[0-9]?(?P<c>QUOTE)?\s{0,4}=\s{0,4}",
        value: value::no_path,
    },
    Shape {
        kind: "credential",
        words: Words::InAnyCase(&["key"]),
        regex: r"(?i)(?:api|secret|access|private|account|encryption|master|signing|subscription|consumer|shared[_.-]?access|pre[_.-]?shared)[_.-]?keyIS",
        value: value::random,
    },
    Shape {
        kind: "credential",
        words: Words::InAnyCase(&["key"]),
        regex: r"(?i)(?:api|secret|access|account|encryption)-keyFOLLOWS",
        value: value::random_of_flag,
    },
    Shape {
        kind: "credential",
        words: Words::InAnyCase(&["key"]),
        regex: r"(?i)\bclient-key-dataIS",
        value: value::any,
    },
    Shape {
        kind: "credential",
        words: Words::InAnyCase(&["key"]),
        regex: r"(?i)\bprivate_key_idIS",
        value: value::any,
    },
    Shape {
        kind: "private-key",
        words: Words::AsTheyAre(&["AGE-SECRET-KEY"]),
        regex: r"(?i)(?P<s>AGE-SECRET-KEY-1[0-9A-Z]{20,})",
        value: value::certain,
    },
    // A private key's DER in base64, without the lines around it: a sequence that begins with its version. A certificate
    // begins with another sequence.
    Shape {
        kind: "private-key",
        words: Words::AsTheyAre(&["MII"]),
        regex: r"(?:^|[^A-Za-z0-9+/])(?P<s>MII[A-P][A-Za-z0-9+/][AQgw]IBA[A-Za-z0-9+/\\=]{24,})",
        value: value::certain,
    },
    Shape {
        kind: "private-key",
        words: Words::AsTheyAre(&[
            "MHcCAQEE",
            "MIGHAgEAMBMG",
            "MIG2AgEAMBAG",
            "MC4CAQAwBQYDK2Vw",
            "b3BlbnNzaC1rZXktdjE",
        ]),
        regex: r"(?P<s>(?:MHcCAQEE|MIGHAgEAMBMG|MIG2AgEAMBAG|MC4CAQAwBQYDK2Vw|b3BlbnNzaC1rZXktdjE)[A-Za-z0-9+/\\=]{8,})",
        value: value::certain,
    },
];
