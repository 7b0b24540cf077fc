//! Keys of clouds and forges: most say by their first letters what they are.

use super::super::shape::{Shape, Words};
use super::super::value;

const NAME: &str = "cloud-key";

pub(super) const SHAPES: &[Shape] = &[
    Shape {
        kind: NAME,
        words: Words::AsTheyAre(&["AKIA", "ASIA"]),
        regex: r"\b(?P<s>A[KS]IA[A-Z0-9]{16})\b",
        value: value::certain,
    },
    Shape {
        kind: NAME,
        words: Words::AsTheyAre(&["AIza"]),
        regex: r"\b(?P<s>AIza[A-Za-z0-9_-]{35})",
        value: value::certain,
    },
    // Of Ceph's users: 28 bytes in base64, the first of which are a version and a time.
    Shape {
        kind: NAME,
        words: Words::InAnyCase(&["key", "secret"]),
        regex: r"(?i)(?:key|secret)\s{0,4}[:=]\s{0,4}QUOTE?(?-i:(?P<s>AQ[A-Za-z0-9+/]{36}==))",
        value: value::certain,
    },
    Shape {
        kind: NAME,
        words: Words::AsTheyAre(&["ya29."]),
        regex: r"\b(?P<s>ya29\.[A-Za-z0-9_-]{20,})",
        value: value::certain,
    },
    Shape {
        kind: NAME,
        words: Words::AsTheyAre(&["GOCSPX-"]),
        regex: r"\b(?P<s>GOCSPX-[A-Za-z0-9_-]{20,})",
        value: value::certain,
    },
    Shape {
        kind: NAME,
        words: Words::InAnyCase(&["key", "sharedaccess"]),
        regex: r"(?i)\b(?:AccountKey|SharedAccessKey|SharedAccessSignature)\s{0,4}=\s{0,4}(?P<s>[^\s;\x22'\\]{8,})",
        value: value::any,
    },
    Shape {
        kind: NAME,
        words: Words::AsTheyAre(&["sig="]),
        regex: r"[?&;]sig=(?P<s>[A-Za-z0-9%+/=_-]{16,})",
        value: value::certain,
    },
    Shape {
        kind: NAME,
        words: Words::InAnyCase(&["x-amz-"]),
        regex: r"(?i)X-Amz-(?:Signature|Security-Token|Credential)=(?P<s>[^\s&\x22'\\]{8,})",
        value: value::any,
    },
    // The first three letters are chance, the next three are Azure's mark.
    Shape {
        kind: NAME,
        words: Words::AsTheyAre(&["8Q~"]),
        regex: r"(?P<s>[A-Za-z0-9_~.-]{3}8Q~[A-Za-z0-9_~.-]{30,40})",
        value: value::certain,
    },
    Shape {
        kind: NAME,
        words: Words::AsTheyAre(&[
            "ghp_",
            "gho_",
            "ghu_",
            "ghs_",
            "ghr_",
            "github_pat_",
            "glpat-",
            "glrt-",
            "dckr_pat_",
            "dop_v1_",
            "npm_",
        ]),
        regex: r"\b(?P<s>(?:gh[pousr]_|github_pat_|glpat-|glrt-|dckr_pat_|dop_v1_|npm_)[A-Za-z0-9_-]{16,})",
        value: value::certain,
    },
    Shape {
        kind: NAME,
        words: Words::AsTheyAre(&["xox"]),
        regex: r"\b(?P<s>xox[abeprs]-[A-Za-z0-9-]{10,})",
        value: value::certain,
    },
    Shape {
        kind: NAME,
        words: Words::AsTheyAre(&["hvs.", "hvb."]),
        regex: r"\b(?P<s>hv[sb]\.[A-Za-z0-9_-]{20,})",
        value: value::certain,
    },
];
