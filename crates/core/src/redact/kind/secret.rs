//! What is called a secret. Kubernetes calls names of objects so as well: `secretName`, `imagePullSecrets`.

use super::super::shape::{Shape, Words};
use super::super::value;

pub(super) const SHAPES: &[Shape] = &[
    Shape {
        // In environment files and units.
        kind: "credential",
        words: Words::InAnyCase(&["secret"]),
        regex: r"LINE(?:\b|_)SECRETS?(?:_[A-Z0-9]+)*(?P<c>QUOTE)?\s{0,4}=\s{0,4}",
        value: value::no_path,
    },
    Shape {
        kind: "credential",
        words: Words::InAnyCase(&["secret"]),
        regex: r"(?i)(?:client|app|api|auth|consumer|shared|jwt|hmac|webhook|session|cookie|oauth|oidc|encryption|signing|access|account|credential|token|user|db|admin|aws)[_.-]?secret(?:[_.-]?(?:access[_.-]?)?key|[_.-]?value|[_.-]?data)?IS",
        value: value::no_path,
    },
    Shape {
        kind: "credential",
        words: Words::InAnyCase(&["secret"]),
        regex: r"(?i)-secret(?:-key|-access-key)?FOLLOWS",
        value: value::long_random_of_flag,
    },
    Shape {
        // Of the API server's encryption at rest, of Azure, of AWS.
        kind: "credential",
        words: Words::InAnyCase(&["secret"]),
        regex: r"(?i)\bsecret(?:[_.-]?(?:access[_.-]?)?key|[_.-]?value|[_.-]?data|[_.-]?string)?IS",
        value: value::long_random,
    },
];
