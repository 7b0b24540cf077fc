//! CertificateSigningRequests, as a kubelet with a bootstrap token makes them. The signer is nobody's, so that no controller
//! of a real cluster is quicker than the row.

use serde_json::{Value, json};

use super::{NODE, Row, Who, create, delete, delete_with, get, merge, row, update};
use crate::memory_api::controller::certificate_request;

const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";

fn request(metadata: &Value) -> Value {
    json!({
        "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": metadata,
        "spec": {
            "request": certificate_request(NODE).0, "signerName": "example.com/row",
            "usages": ["digital signature", "client auth"], "expirationSeconds": 3600,
        },
    })
}

pub(super) fn rows() -> Vec<Row> {
    let one = format!("{REQUESTS}/row-1");
    let labelled = |name: &str| json!({"name": name, "labels": {"row": "requests"}});
    let approved = json!({"type": "Approved", "status": "True", "reason": "Row", "message": "of a row"});
    let with_status = |status: &Value| {
        let mut object = request(&json!({"name": "row-1"}));
        object["status"] = status.clone();
        object
    };
    vec![
        row(
            "a request is made and found by its signer",
            [
                create(REQUESTS, request(&labelled("row-1"))).by(Who::Token),
                create(REQUESTS, request(&labelled("row-2"))).by(Who::Token),
                get(&one).by(Who::Token),
                get(REQUESTS).by(Who::Token),
                get(REQUESTS),
                get(format!("{REQUESTS}?fieldSelector=spec.signerName%3Dexample.com%2Frow")).by(Who::Token),
                get(format!("{REQUESTS}?fieldSelector=spec.signerName%3Dexample.com%2Frow&limit=500")).by(Who::Token),
                get(format!("{REQUESTS}?fieldSelector=spec.signerName%3Dexample.com%2Frow&limit=1")),
                get(format!(
                    "{REQUESTS}?fieldSelector=spec.signerName%3Dexample.com%2Frow&limit=1&continue=${{7/metadata/continue}}"
                )),
                get(format!("{REQUESTS}?fieldSelector=spec.username%3Dx")),
                get(format!("{REQUESTS}?limit=500")).only_status(),
                get(format!("{REQUESTS}?limit=1")).only_status(),
                get(format!("{REQUESTS}?limit=1&continue=${{11/metadata/continue}}")).only_status(),
                delete(&one).by(Who::Token),
                delete_with(&one, json!({})),
            ],
        ),
        row(
            "a name may be left to the server",
            [create(REQUESTS, request(&json!({"generateName": "row-", "labels": {"row": "requests"}}))).by(Who::Node)],
        ),
        row(
            "a request is approved, then signed",
            [
                create(REQUESTS, request(&json!({"name": "row-1"}))),
                update(format!("{one}/approval"), with_status(&json!({"conditions": [approved]}))),
                merge(
                    format!("{one}/status"),
                    json!({"status": {"certificate": super::super::controller::sample_certificate()}}),
                ),
                merge(&one, json!({"status": {"certificate": null}})),
                get(&one),
                update(format!("{one}/approval"), with_status(&json!({}))).by(Who::Token),
            ],
        ),
        row(
            "a request is denied",
            [
                create(REQUESTS, request(&json!({"name": "row-1"}))),
                merge(
                    format!("{one}/approval"),
                    json!({"status": {"conditions": [{"type": "Denied", "status": "True", "reason": "Row", "message": "no"}]}}),
                ),
            ],
        ),
    ]
}
