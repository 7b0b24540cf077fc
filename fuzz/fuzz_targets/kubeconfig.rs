//! Kubeconfigs, cluster-info and certificates, as a machine or a server that nobody has vouched for hands them over.
#![no_main]

use carrick_core::discovery::{ClusterInfo, Token, pins};
use carrick_core::fact::kubeconfig;
use carrick_core::fact::pki::parse_certificates;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let _ = (kubeconfig::parse(text), parse_certificates(text), pins(text));
    let pem = format!("-----BEGIN CERTIFICATE-----\n{text}\n-----END CERTIFICATE-----\n");
    let _ = (parse_certificates(&pem), pins(&pem));
    let token: Token = "abcdef.0123456789abcdef".parse().expect("a token");
    let data = serde_json::json!({"data": {"kubeconfig": text, "jws-kubeconfig-abcdef": text}}).to_string();
    for json in [text, &data] {
        if let Ok(info) = ClusterInfo::parse(json) {
            assert!(info.verify(&token).is_err(), "signed by nobody who knows the token");
        }
    }
});
