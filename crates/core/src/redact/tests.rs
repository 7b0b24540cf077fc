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
