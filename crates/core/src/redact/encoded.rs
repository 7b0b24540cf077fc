//! Documents in base64 that hold credentials: kubeconfigs, docker's config.json, private keys. Known by words that they hold
//! however the three bytes of base64 fall, or by how they begin.

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

use super::shape::Secret;

/// What is looked at may be the middle of it.
pub(super) const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// Of each a part that is the same whatever comes before: the three ways in which its bytes may fall.
pub(super) const WORDS: &[&str] = &[
    // `PRIVATE KEY-----`
    "UFJJVkFURSBLRVkt", "BSSVZBVEUgS0VZ", "QUklWQVRFIEtFW",
    // `client-key-data`
    "Y2xpZW50LWtleS1kYXRh", "NsaWVudC1rZXktZGF0", "jbGllbnQta2V5LWRhdG",
    // `"auths"`
    "ImF1dGhzI", "JhdXRocy", "iYXV0aHMi",
    // A kubeconfig's first lines, wrapped before its credentials come: `apiVersion: v1`, `{"apiVersion"`, `{"kind":"Config"`.
    "YXBpVmVyc2lvbjogdjEK", "YXBpVmVyc2lvbjogInYx", "eyJhcGlWZXJzaW9u", "eyJraW5kIjoiQ29uZmln",
    // `-----BEGIN ` with any key behind it.
    "LS0tLS1CRUdJTi",
];

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

/// The next run of letters of base64, with line ends that were escaped into it.
fn run(text: &[u8], from: usize) -> Option<(usize, usize)> {
    let is_letter = |byte: &u8| byte.is_ascii_alphanumeric() || b"+/=".contains(byte);
    let start = from + text.get(from..)?.iter().position(is_letter)?;
    let mut end = start;
    loop {
        end += text.get(end..)?.iter().take_while(|byte| is_letter(byte)).count();
        let slashes = text.get(end..)?.iter().take_while(|&&byte| byte == b'\\').count();
        let escape = text.get(end + slashes).filter(|byte| slashes > 0 && b"nr".contains(byte));
        // After the escape the base64 goes on, or another escape comes.
        let next = text.get(end + slashes + 1).filter(|byte| is_letter(byte) || **byte == b'\\');
        if escape.is_none() || next.is_none() {
            return Some((start, end));
        }
        end += slashes + 1;
    }
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
            b'=' => {}
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
