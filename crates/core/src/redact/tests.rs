use super::*;
use crate::testing::secret::{HARMLESS, KINDS, Plant, pieces_found, plant, plant_one};
use proptest::prelude::*;

/// A text in pieces of these lengths, over and over.
fn through(text: &[u8], pieces: &[usize]) -> (Vec<u8>, Vec<Redaction>) {
    let mut redactor = Redactor::new();
    let (mut out, mut rest) = (Vec::new(), text);
    for length in pieces.iter().cycle() {
        let (piece, after) = rest.split_at((*length).min(rest.len()));
        out.extend(redactor.push(piece));
        assert!(redactor.pending.len() <= WINDOW, "{} bytes are held back", redactor.pending.len());
        rest = after;
        if rest.is_empty() {
            break;
        }
    }
    let (end, found) = redactor.finish();
    out.extend(end);
    (out, found)
}

/// Secrets of any kind among other text, some of it longer than a window, some of it a line's end.
fn texts() -> impl Strategy<Value = Plant> {
    let padding = prop_oneof![
        4 => (0usize..40).prop_map(|length| "x ".repeat(length)),
        2 => Just("\n".to_owned()),
        2 => (0..HARMLESS.len()).prop_map(|which| HARMLESS[which].to_owned()),
        1 => (50_000usize..80_000, prop::char::range(' ', 'z')).prop_map(|(length, letter)| letter.to_string().repeat(length)),
        1 => (60_000usize..70_000).prop_map(|length| "ab1, ".repeat(length / 5)),
        1 => ".{0,40}",
    ];
    let part = (padding, 0..KINDS.len() * 2);
    prop::collection::vec(part, 1..8).prop_map(|parts| {
        let mut all = Plant { text: String::new(), secrets: Vec::new() };
        for (n, (padding, kind)) in parts.into_iter().enumerate() {
            all.text.push_str(&padding);
            if let Some(kind) = KINDS.get(kind) {
                let plant = plant_one(kind, &n.to_string());
                // A line of its own: glued to other letters it is another text.
                all.text.extend(["\n", &plant.text, "\n"]);
                all.secrets.extend(plant.secrets);
            }
        }
        all
    })
}

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
fn every_kind_of_secret_is_known() {
    let cleaned = KINDS.iter().map(|kind| (plant_one(kind, "here"), kind.0));
    let through = cleaned.filter(|(plant, _)| !pieces_found(redact(&plant.text).as_bytes(), &plant.secrets).is_empty());
    assert_eq!(through.map(|(plant, name)| (name, redact(&plant.text))).collect::<Vec<_>>(), []);
    for kind in KINDS {
        let Plant { text, secrets } = plant_one(kind, "here");
        let clean = redact(&text);
        assert!(clean.contains("<redacted:") || kind.0.starts_with("byte array"), "{}: {clean}", kind.0);
        assert_eq!(clean.matches('\n').count(), text.matches('\n').count(), "{}: {clean}", kind.0);
        for secret in &secrets {
            assert!(!pieces_found(text.as_bytes(), std::slice::from_ref(secret)).is_empty(), "{} is planted", kind.0);
        }
    }
}

/// Also in the string of a log in JSON, with a log's head before it and more text behind it.
#[test]
fn every_kind_of_secret_is_known_within_other_text() {
    for kind in KINDS {
        let Plant { text, secrets } = plant_one(kind, "there");
        let json = serde_json::json!({"MESSAGE": text, "_PID": "1"}).to_string();
        let twice = serde_json::json!({"log": json}).to_string();
        let log: String = text.lines().map(|line| format!("Nov 15 17:40:00 w1 app[12]: {line} (end)\n")).collect();
        let cri: String = text.lines().map(|line| format!("2026-11-15T17:40:00.1Z stderr F {line}\n")).collect();
        // These are known by the line's beginning or end, or by the lines around them.
        let by_line = ["any length", ", words", "RKE2, config", "a block", "a number a line"]
            .iter()
            .any(|it| kind.0.contains(it));
        let by_lines = by_line || text.contains('\n');
        let secrets_in = |clean: &str| pieces_found(clean.as_bytes(), &secrets);
        for (shown, holds) in [(&json, !by_line), (&twice, !by_line), (&log, !by_lines), (&cri, !by_lines)] {
            let clean = redact(shown);
            assert!(!holds || secrets_in(&clean).is_empty(), "{}: {shown}\nbecame {clean}", kind.0);
        }
    }
}

#[test]
fn what_only_looks_like_a_secret_stays() {
    assert!(HARMLESS.len() >= 50);
    let changed: Vec<_> =
        HARMLESS.iter().map(|text| (*text, redact(text))).filter(|(text, clean)| text != clean).collect();
    assert_eq!(changed, []);
    for text in HARMLESS {
        let log = format!("Nov 15 17:40:00 w1 kubelet[12]: {text}\n");
        assert_eq!(redact(&log), log);
    }
}

/// A text passes the redactor more than once: as a fact, in a bundle, where it is quoted.
#[test]
fn what_was_redacted_stays_as_it_is() {
    let once = redact(&plant("here").text);
    assert_eq!(redact(&once), once);
    let mut redactor = Redactor::new();
    redactor.push(once.as_bytes());
    assert_eq!(redactor.finish().1, []);
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
    /// The pieces in which a text comes make no difference: not to a byte, not to a count.
    #[test]
    fn a_text_in_pieces_is_the_text(
        plant in texts(),
        pieces in prop::collection::vec(prop_oneof![1usize..300, 1000usize..5000, 60_000usize..140_000], 1..6),
    ) {
        let text = plant.text.as_bytes();
        let (whole, found) = through(text, &[text.len().max(1)]);
        let (parts, found_in_parts) = through(text, &pieces);
        prop_assert!(whole == parts, "{} and {} bytes", whole.len(), parts.len());
        prop_assert_eq!(&found, &found_in_parts);
        prop_assert_eq!(newlines(&whole), newlines(text));
        prop_assert_eq!(pieces_found(&whole, &plant.secrets), Vec::<String>::new());
    }

    /// The same in one line, across the ends of windows.
    #[test]
    fn a_long_line_in_pieces_is_the_line(
        kinds in prop::collection::vec((0..KINDS.len(), 0usize..70_000), 1..5),
        letter in prop::sample::select(vec!["x", "a.", "k: v ", "\\\"", "=,", "A1b2"]),
        pieces in prop::collection::vec(1usize..100_000, 1..4),
    ) {
        let mut text = String::new();
        let mut secrets = Vec::new();
        for (n, (kind, before)) in kinds.into_iter().enumerate() {
            let plant = plant_one(&KINDS[kind], &n.to_string());
            text.push_str(&letter.repeat(before / letter.len()));
            text.extend([" ", &plant.text.replace('\n', " "), " "]);
            if !plant.text.contains('\n') && !["any length", ", words", "RKE2, config"].iter().any(|it| KINDS[kind].0.contains(it)) {
                secrets.extend(plant.secrets);
            }
        }
        let (whole, found) = through(text.as_bytes(), &[text.len()]);
        let (parts, found_in_parts) = through(text.as_bytes(), &pieces);
        prop_assert!(whole == parts, "{} and {} bytes", whole.len(), parts.len());
        prop_assert_eq!(found, found_in_parts);
        prop_assert_eq!(pieces_found(&whole, &secrets), Vec::<String>::new());
    }

    #[test]
    fn any_bytes_in_pieces_are_the_bytes(
        bytes in prop::collection::vec(prop_oneof![9 => prop::num::u8::ANY, 1 => Just(b'\n')], 0..3000),
        pieces in prop::collection::vec(1usize..500, 1..4),
    ) {
        prop_assert_eq!(through(&bytes, &[3000]), through(&bytes, &pieces));
    }

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
        prop_assume!(secrets(&bytes).is_empty() && key::begin(&bytes).is_none());
        let mut redactor = Redactor::new();
        let mut out = Vec::new();
        for chunk in bytes.chunks(cut) {
            out.extend(redactor.push(chunk));
        }
        out.extend(redactor.finish().0);
        prop_assert_eq!(out, bytes);
    }
}
