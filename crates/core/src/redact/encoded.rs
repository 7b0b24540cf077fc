//! Documents in base64 that hold credentials: kubeconfigs, docker's config.json, private keys. Known by words that they hold
//! however the three bytes of base64 fall, or by how they begin.

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

use super::shape::{Secret, Words};

/// What is looked at may be the middle of it.
pub(super) const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// Of each a part that is the same whatever comes before: the three ways in which its bytes may fall.
pub(super) const WORDS: Words = Words::AsTheyAre(&[
    // `PRIVATE KEY-----`
    "UFJJVkFURSBLRVkt",
    "BSSVZBVEUgS0VZ",
    "QUklWQVRFIEtFW",
    // `client-key-data`
    "Y2xpZW50LWtleS1kYXRh",
    "NsaWVudC1rZXktZGF0",
    "jbGllbnQta2V5LWRhdG",
    // `"auths"`
    "ImF1dGhzI",
    "JhdXRocy",
    "iYXV0aHMi",
    // A kubeconfig's first lines, wrapped before its credentials come: `apiVersion: v1`, `{"apiVersion"`, `{"kind":"Config"`.
    "YXBpVmVyc2lvbjogdjEK",
    "YXBpVmVyc2lvbjogInYx",
    "eyJhcGlWZXJzaW9u",
    "eyJraW5kIjoiQ29uZmln",
    // `-----BEGIN ` with any key behind it.
    "LS0tLS1CRUdJTi",
]);

pub(super) fn find(text: &[u8], found: &mut Vec<Secret>) {
    let mut from = 0;
    while let Some((start, end)) = run(text, from) {
        from = end;
        let Some(letters) = text.get(start..end) else { continue };
        if letters.len() < 24 {
            continue;
        }
        if let Some(kind) = kind(letters) {
            found.push(Secret::new(kind, start..end, start..end));
        }
    }
}

fn is_letter(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"+/=".contains(&byte)
}

/// The next run of letters of base64, with line ends that were escaped into it.
fn run(text: &[u8], from: usize) -> Option<(usize, usize)> {
    let start = from + text.get(from..)?.iter().position(|&byte| is_letter(byte))?;
    let mut end = start + letters(text.get(start..)?);
    while let Some(more) = text.get(end..).and_then(next_line) {
        end += more;
    }
    Some((start, end))
}

fn letters(text: &[u8]) -> usize {
    text.iter().take_while(|&&byte| is_letter(byte)).count()
}

/// The length of an escaped line end and a line of base64 behind it: one that has nothing else in it.
fn next_line(rest: &[u8]) -> Option<usize> {
    let slashes = rest.iter().take_while(|&&byte| byte == b'\\').count();
    rest.get(slashes).filter(|byte| slashes > 0 && b"nr".contains(byte))?;
    let spaces = rest.get(slashes + 1..)?.iter().take_while(|&&byte| byte == b' ').count();
    let start = slashes + 1 + spaces;
    let length = letters(rest.get(start..)?);
    let alone = rest.get(start + length).is_none_or(|byte| b"\\\"'`".contains(byte));
    // Between `\r` and `\n` is nothing.
    (alone && (length > 0 || spaces == 0 && rest.get(start) == Some(&b'\\'))).then_some(start + length)
}

/// What a run of base64 holds, where that is a secret.
fn kind(letters: &[u8]) -> Option<&'static str> {
    let plain = decoded(letters);
    let has = |word: &str| memchr::memmem::find(&plain, word.as_bytes()).is_some();
    let begins = |word: &str| plain.trim_ascii_start().starts_with(word.as_bytes());
    if has("PRIVATE KEY-----") || begins("-----BEGIN") && !has("CERTIFICATE") && !has("PUBLIC KEY") {
        Some("private-key")
    } else if has("\"auths\"") {
        Some("registry-credential")
    } else if has("client-key-data") || (begins("apiVersion:") || begins("{\"")) && is_kubeconfig(&plain) {
        Some("kubeconfig")
    } else {
        None
    }
}

fn is_kubeconfig(plain: &[u8]) -> bool {
    ["clusters", "kind: Config", "\"kind\":\"Config\""]
        .iter()
        .any(|word| memchr::memmem::find(plain, word.as_bytes()).is_some())
}

/// Its bytes, as far as they can be had: it may begin within a group of four.
fn decoded(letters: &[u8]) -> Vec<u8> {
    let mut clean = Vec::with_capacity(letters.len());
    let mut escaped = false;
    for &byte in letters {
        match byte {
            b'\\' => escaped = true,
            _ if escaped => escaped = false,
            b'=' | b' ' => {}
            _ => clean.push(byte),
        }
    }
    let decode = |skip: usize| {
        let rest = clean.get(skip..).unwrap_or_default();
        let whole = rest.get(..rest.len() / 4 * 4).unwrap_or_default();
        BASE64.decode(whole).unwrap_or_default()
    };
    (0..4).map(decode).find(|plain| is_telling(plain)).unwrap_or_else(|| decode(0))
}

fn is_telling(plain: &[u8]) -> bool {
    ["PRIVATE KEY", "client-key-data", "\"auths\"", "apiVersion", "-----BEGIN"]
        .iter()
        .any(|word| memchr::memmem::find(plain, word.as_bytes()).is_some())
}
