//! Takes secrets out of text while it streams by, before anything else sees it.
//!
//! Known by their shape: bootstrap tokens, certificate keys, PEM private keys, kubeconfig credentials, passwords in URLs,
//! JWTs, bearer headers. What stands in their place says what it was: `<redacted:bootstrap-token>`. Memory is bounded by
//! one window, whatever the length of a line.

use std::ops::Range;
use std::sync::LazyLock;

use regex::bytes::Regex;

/// Where something was taken out: its kind, how often, and the line of the first.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Redaction {
    pub kind: String,
    pub count: u64,
    pub first_line: u64,
}

/// A secret's shape; what is to be masked is the group `s`.
struct Shape {
    kind: &'static str,
    regex: Regex,
}

static SHAPES: LazyLock<Vec<Shape>> = LazyLock::new(|| {
    // `\\?"?`: the same text also comes inside JSON, with its quotes escaped.
    [
        ("bootstrap-token", r"(?:^|[^A-Za-z0-9]|\\[nrt])(?P<s>[a-z0-9]{6}\.[a-z0-9]{16})\b"),
        ("certificate-key", r#"(?i)certificate[-_ ]?key[\\"'\s:=]{1,8}(?P<s>[0-9a-f]{64})"#),
        (
            "credential",
            r#"(?i)\b(?:password|passwd|client-key-data|client-secret|token-secret|id-token|refresh-token|access-token)\\?["']?\s*[:=]\s*\\?["']?(?P<s>[^\s"'\\,}]+)"#,
        ),
        (
            // Of registries: docker's config.json, containerd's hosts and auths.
            "registry-credential",
            r#"(?i)\b(?:auth\\?["']\s*:|auth\s*=|identity_?token\\?["']?\s*[:=])\s*\\?["'](?P<s>[a-z0-9._~+/=-]{8,})"#,
        ),
        ("token", r#"(?i)\btoken\\?["']?\s*[:= ]\s*\\?["']?(?P<s>[a-z0-9._~+/=-]{20,})"#),
        (
            "authorization",
            r#"(?i)\b(?:authorization\\?["']?\s*[:=]\s*\\?["']?basic|bearer)\s+(?P<s>[a-z0-9._~+/=-]{16,})"#,
        ),
        ("url-password", r#"[A-Za-z][A-Za-z0-9+.-]*://[^\s/:@"']*:(?P<s>[^\s/@"']+)@"#),
        ("jwt", r"(?P<s>eyJ[A-Za-z0-9_-]{5,}\.eyJ[A-Za-z0-9_-]{5,}\.[A-Za-z0-9_-]*)"),
        // base64 of "-----BEGIN [RSA |EC |ENCRYPTED |OPENSSH |DSA ]PRIVATE KEY": the value of client-key-data and of Secrets.
        ("private-key", r"(?P<s>LS0tLS1CRUdJTi(?:BSU0Eg|BFQyBQ|BQUklW|BPUEVO|BFTkNS|BEU0Eg)[A-Za-z0-9+/=]+)"),
    ]
    .map(|(kind, regex)| Shape { kind, regex: compile(regex) })
    .into()
});

static KEY_BEGIN: LazyLock<Regex> = LazyLock::new(|| compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY-----"));
static KEY_END: LazyLock<Regex> = LazyLock::new(|| compile(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY-----"));

#[allow(clippy::expect_used)] // Constants of this file; the tests compile every one.
fn compile(regex: &str) -> Regex {
    regex::bytes::RegexBuilder::new(regex).unicode(false).build().expect("a constant regex")
}

/// A line longer than this is worked through in pieces.
const WINDOW: usize = 64 << 10;
/// What is held back at the end of a piece: longer than any secret's shape needs to be recognised.
const OVERLAP: usize = 4 << 10;
/// An RSA key of 8192 bits has 105 lines; a stray BEGIN must not swallow the rest of a log.
const KEY_LINES: u64 = 200;

/// Takes bytes in pieces, gives them back without secrets.
#[derive(Default)]
pub struct Redactor {
    pending: Vec<u8>,
    /// Lines given back so far.
    lines: u64,
    /// Inside a PEM private key since that line.
    key_since: Option<u64>,
    /// Inside a value that was longer than the window.
    in_value: bool,
    found: Vec<Redaction>,
}

impl Redactor {
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next bytes; gives back what is complete.
    pub fn push(&mut self, bytes: &[u8]) -> Vec<u8> {
        self.pending.extend_from_slice(bytes);
        let lines_end = memchr::memrchr(b'\n', &self.pending).map_or(0, |at| at + 1);
        let mut out = self.clean(lines_end);
        while self.pending.len() > WINDOW {
            match self.safe_cut(self.pending.len() - OVERLAP) {
                0 => {
                    // One value fills the window: mask what is here, and drop what follows until the value ends.
                    out.extend(self.clean(self.pending.len()));
                    self.in_value = true;
                }
                cut => out.extend(self.clean(cut)),
            }
        }
        out
    }

    /// The rest, and what was taken out.
    pub fn finish(mut self) -> (Vec<u8>, Vec<Redaction>) {
        let out = self.clean(self.pending.len());
        (out, self.found)
    }

    /// Cleans the first `end` pending bytes and lets go of them.
    fn clean(&mut self, end: usize) -> Vec<u8> {
        let rest = self.pending.split_off(end);
        let block = std::mem::replace(&mut self.pending, rest);
        let mut out = Vec::with_capacity(block.len());
        let mut rest = self.leave_value(&block);
        while !rest.is_empty() {
            rest =
                if self.key_since.is_some() { self.skip_key(rest, &mut out) } else { self.copy_to_key(rest, &mut out) };
        }
        out
    }

    /// Drops what still belongs to a value that began before.
    fn leave_value<'a>(&mut self, block: &'a [u8]) -> &'a [u8] {
        if !self.in_value {
            return block;
        }
        let ends = block.iter().position(|byte| byte.is_ascii_whitespace() || b"\"'\\,}".contains(byte));
        self.in_value = ends.is_none();
        &block[ends.unwrap_or(block.len())..]
    }

    /// Copies up to the next private key, masking as it goes; gives back what follows the key's first line.
    fn copy_to_key<'a>(&mut self, block: &'a [u8], out: &mut Vec<u8>) -> &'a [u8] {
        let Some(begin) = KEY_BEGIN.find(block) else {
            self.mask(block, out);
            return &[];
        };
        self.mask(&block[..begin.start()], out);
        self.note("private-key", self.lines);
        out.extend_from_slice(b"<redacted:private-key>");
        self.key_since = Some(self.lines);
        &block[begin.end()..]
    }

    /// Passes over a private key, keeping its line ends, so that line numbers stay true.
    fn skip_key<'a>(&mut self, block: &'a [u8], out: &mut Vec<u8>) -> &'a [u8] {
        let since = self.key_since.unwrap_or(self.lines);
        let end = KEY_END.find(block).map(|end| end.end());
        let stop = end.unwrap_or(block.len());
        for at in block[..stop].iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at) {
            out.push(b'\n');
            self.lines += 1;
            if self.lines - since > KEY_LINES {
                self.key_since = None;
                return &block[at + 1..];
            }
        }
        if end.is_some() {
            self.key_since = None;
        }
        &block[stop..]
    }

    fn mask(&mut self, block: &[u8], out: &mut Vec<u8>) {
        let mut done = 0;
        for Secret { kind, value, .. } in secrets(block) {
            if value.end <= done {
                continue;
            }
            let start = value.start.max(done);
            out.extend_from_slice(&block[done..start]);
            self.note(kind, self.lines + newlines(&block[..start]));
            out.extend_from_slice(format!("<redacted:{kind}>").as_bytes());
            done = value.end;
        }
        out.extend_from_slice(&block[done..]);
        self.lines += newlines(block);
    }

    /// A place at or before `wanted` where no secret is cut in two.
    fn safe_cut(&self, wanted: usize) -> usize {
        secrets(&self.pending).iter().rev().fold(wanted, |cut, Secret { whole, .. }| {
            if whole.start < cut && cut < whole.end { whole.start } else { cut }
        })
    }

    fn note(&mut self, kind: &str, line: u64) {
        match self.found.iter_mut().find(|redaction| redaction.kind == kind) {
            Some(redaction) => redaction.count += 1,
            None => self.found.push(Redaction { kind: kind.to_owned(), count: 1, first_line: line + 1 }),
        }
    }
}

/// Masks the secrets in a text that is there as a whole.
pub fn redact(text: &str) -> String {
    let mut redactor = Redactor::new();
    let mut out = redactor.push(text.as_bytes());
    out.extend(redactor.finish().0);
    String::from_utf8_lossy(&out).into_owned()
}

/// A secret in a text: the words it was known by and the value to mask.
struct Secret {
    kind: &'static str,
    whole: Range<usize>,
    value: Range<usize>,
}

/// The secrets of a text, in order of place.
fn secrets(block: &[u8]) -> Vec<Secret> {
    let mut found = Vec::new();
    for shape in SHAPES.iter() {
        for captures in shape.regex.captures_iter(block) {
            if let (Some(whole), Some(value)) = (captures.get(0), captures.name("s")) {
                found.push(Secret { kind: shape.kind, whole: whole.range(), value: value.range() });
            }
        }
    }
    found.sort_by_key(|secret| (secret.value.start, std::cmp::Reverse(secret.value.end)));
    found
}

fn newlines(bytes: &[u8]) -> u64 {
    memchr::memchr_iter(b'\n', bytes).count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TOKEN: &str = "abcdef.0123456789abcdef";
    const HEX64: &str = "8c1f0e3b5a7d9c2e4f6081a3b5c7d9e0f1a2b3c4d5e6f708192a3b4c5d6e7f80";
    const JWT: &str =
        "eyJhbGciOiJSUzI1NiIsImtpZCI6IjEifQ.eyJzdWIiOiJzeXN0ZW06c2VydmljZWFjY291bnQifQ.c2lnbmF0dXJlLXNpZ25hdHVyZQ";
    const KEY: &str =
        "-----BEGIN EC PRIVATE KEY-----\nMHcCAQEEIODpcanarykeymaterial\nAwEHoUQDQgAE\n-----END EC PRIVATE KEY-----";
    /// base64 of "-----BEGIN RSA PRIVATE KEY-----\nMIIE".
    const KEY_DATA: &str = "LS0tLS1CRUdJTiBSU0EgUFJJVkFURSBLRVktLS0tLQpNSUlF";

    /// How secrets stand in what Carrick reads, and the part that must not be seen again.
    const PLACES: &[(&str, &str)] = &[
        ("kubeadm join 10.0.0.11:6443 --token abcdef.0123456789abcdef --x", TOKEN),
        ("    token: abcdef.0123456789abcdef", TOKEN),
        (r#"{"stdout": "run:\nabcdef.0123456789abcdef\nnow"}"#, TOKEN),
        ("--token=abcdef.0123456789abcdef", TOKEN),
        ("--certificate-key 8c1f0e3b5a7d9c2e4f6081a3b5c7d9e0f1a2b3c4d5e6f708192a3b4c5d6e7f80", HEX64),
        ("certificateKey: 8c1f0e3b5a7d9c2e4f6081a3b5c7d9e0f1a2b3c4d5e6f708192a3b4c5d6e7f80", HEX64),
        (r#"\"certificateKey\": \"8c1f0e3b5a7d9c2e4f6081a3b5c7d9e0f1a2b3c4d5e6f708192a3b4c5d6e7f80\""#, HEX64),
        (KEY, "MHcCAQEEIODpcanarykeymaterial"),
        (r"key: -----BEGIN PRIVATE KEY-----\nMIIEcanary\n-----END PRIVATE KEY-----\n", "MIIEcanary"),
        ("    client-key-data: LS0tLS1CRUdJTiBSU0EgUFJJVkFURSBLRVktLS0tLQpNSUlF", KEY_DATA),
        (r#""client-key-data":"c2VjcmV0LXNlY3JldA==""#, "c2VjcmV0LXNlY3JldA=="),
        ("tls.key: LS0tLS1CRUdJTiBSU0EgUFJJVkFURSBLRVktLS0tLQpNSUlF", KEY_DATA),
        ("    password: hunter2", "hunter2"),
        (r#"{"auths": {"registry.local": {"auth": "dXNlcjpwYXNzd29yZA=="}}}"#, "dXNlcjpwYXNzd29yZA"),
        (r#"      auth = "dXNlcjpwYXNzd29yZA==""#, "dXNlcjpwYXNzd29yZA"),
        (r#"\"identitytoken\": \"0123456789abcdefX\""#, "0123456789abcdefX"),
        ("  token-secret: MDEyMzQ1Njc4OWFiY2RlZg==", "MDEyMzQ1Njc4OWFiY2RlZg"),
        ("http_proxy=http://user:s3cr3t-word@proxy:3128", "s3cr3t-word"),
        ("Authorization: Bearer 0123456789abcdefX", "0123456789abcdefX"),
        ("proxy-authorization: basic dXNlcjpwYXNzd29yZA==", "dXNlcjpwYXNzd29yZA"),
        (
            "token: eyJhbGciOiJSUzI1NiIsImtpZCI6IjEifQ.eyJzdWIiOiJzeXN0ZW06c2VydmljZWFjY291bnQifQ.c2lnbmF0dXJlLXNpZ25hdHVyZQ",
            JWT,
        ),
        (
            "mounted eyJhbGciOiJSUzI1NiIsImtpZCI6IjEifQ.eyJzdWIiOiJzeXN0ZW06c2VydmljZWFjY291bnQifQ.c2lnbmF0dXJlLXNpZ25hdHVyZQ.",
            JWT,
        ),
        ("--token 31ada4fd-adec-460c-809a-9e56ceb75269", "31ada4fd-adec-460c-809a-9e56ceb75269"),
    ];

    #[test]
    fn every_kind_of_secret_is_masked_wherever_it_stands() {
        for (text, secret) in PLACES {
            let clean = redact(text);
            assert!(!clean.contains(secret), "{text:?} became {clean:?}");
            assert!(clean.contains("<redacted:"), "{text:?} became {clean:?}");
        }
    }

    #[test]
    fn what_is_not_secret_stays() {
        for text in [
            "--discovery-token-ca-cert-hash sha256:8c1f0e3b5a7d9c2e4f6081a3b5c7d9e0f1a2b3c4d5e6f708192a3b4c5d6e7f80",
            "registry.k8s.io/pause@sha256:8c1f0e3b5a7d9c2e4f6081a3b5c7d9e0f1a2b3c4d5e6f708192a3b4c5d6e7f80",
            "/var/lib/containerd/io.containerd.snapshotter.v1.overlayfs",
            "-----BEGIN CERTIFICATE-----\nMIIDBTCCAe2gAwIBAgIIY\n-----END CERTIFICATE-----",
            "client-certificate-data: LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1JSUM=",
            "certificate-authority-data: LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1JSUM=",
            "--token-file=/run/token",
            "sudo: a password is required",
            "bearer authentication is off; basic kubernetes-conformance passed",
            "ssh://root@w1:22/",
            "could not find a JWS signature in the cluster-info ConfigMap for token ID \"zzzzzz\"",
            "https://10.0.0.11:6443/api",
            "net.ipv4.conf.all.forwarding = 1",
            "Description=containerd.containerruntime service",
        ] {
            assert_eq!(redact(text), text);
        }
    }

    #[test]
    fn line_numbers_stay_true_behind_a_key() {
        let text = format!("one\n{KEY}\nlast abcdef.0123456789abcdef\n");
        let mut redactor = Redactor::new();
        let mut out = redactor.push(text.as_bytes());
        let (rest, found) = redactor.finish();
        out.extend(rest);
        let clean = String::from_utf8(out).unwrap();
        assert_eq!(clean.lines().count(), text.lines().count());
        assert_eq!(clean.lines().last(), Some("last <redacted:bootstrap-token>"));
        assert_eq!(
            found,
            [
                Redaction { kind: "private-key".into(), count: 1, first_line: 2 },
                Redaction { kind: "bootstrap-token".into(), count: 1, first_line: 6 }
            ]
        );
    }

    #[test]
    fn a_stray_begin_does_not_swallow_a_log() {
        let text = format!("-----BEGIN PRIVATE KEY-----\n{}", "line\n".repeat(1000));
        let clean = redact(&text);
        assert_eq!(clean.lines().count(), 1001);
        assert!(clean.ends_with("line\n"));
    }

    #[test]
    fn a_value_longer_than_the_window_is_dropped_whole() {
        let text = format!("client-key-data: {} end\n", "c2VjcmV0".repeat(100_000));
        let mut redactor = Redactor::new();
        let mut out = Vec::new();
        for chunk in text.as_bytes().chunks(1000) {
            out.extend(redactor.push(chunk));
        }
        out.extend(redactor.finish().0);
        let clean = String::from_utf8(out).unwrap();
        assert!(!clean.contains("c2VjcmV0"), "{} bytes are left", clean.len());
        assert!(clean.ends_with(" end\n"));
    }

    proptest! {
        /// Wherever the stream is cut and whatever stands before it in the line, the secret does not come out.
        #[test]
        fn no_cut_lets_a_secret_through(
            place in 0..PLACES.len(),
            before in 0usize..70_000,
            after in 0usize..70_000,
            cut in 1usize..70_000,
        ) {
            let (text, secret) = PLACES[place];
            let line = format!("{} {text} {}\n", "x".repeat(before), "y".repeat(after));
            let mut redactor = Redactor::new();
            let mut out = Vec::new();
            for chunk in line.as_bytes().chunks(cut) {
                out.extend(redactor.push(chunk));
            }
            let (rest, found) = redactor.finish();
            out.extend(rest);
            let clean = String::from_utf8(out).unwrap();
            prop_assert!(!clean.contains(secret));
            prop_assert!(!found.is_empty());
            prop_assert!(clean.starts_with('x') || before == 0);
        }

        #[test]
        fn bytes_without_secrets_come_out_as_they_went_in(bytes in proptest::collection::vec(prop::num::u8::ANY, 0..2000), cut in 1usize..2000) {
            prop_assume!(secrets(&bytes).is_empty() && KEY_BEGIN.find(&bytes).is_none());
            let mut redactor = Redactor::new();
            let mut out = Vec::new();
            for chunk in bytes.chunks(cut) {
                out.extend(redactor.push(chunk));
            }
            out.extend(redactor.finish().0);
            prop_assert_eq!(out, bytes);
        }
    }
}
