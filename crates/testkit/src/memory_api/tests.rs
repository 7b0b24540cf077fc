//! The server by itself.

use std::sync::Arc;

use super::rows::{self, Stage as _};
use super::*;
use crate::Authority;

fn clock() -> Timestamp {
    "2026-11-16T12:00:00Z".parse().unwrap()
}

async fn prepared() -> MemoryApi {
    let api = MemoryApi::new(clock);
    for ask in rows::prelude() {
        api.send(ask.who, ask.request(&[]).unwrap()).await.unwrap();
    }
    api
}

#[tokio::test(start_paused = true)]
async fn every_row_is_answered_and_nothing_is_left_out() {
    let api = prepared().await;
    for row in rows::all() {
        let answers = rows::play(&api, &row).await.unwrap();
        for (ask, answer) in row.asks.iter().zip(&answers) {
            assert_ne!(answer.status, 501, "{}: {} {}: {}", row.name, ask.method, ask.path, answer.body);
        }
    }
    assert_eq!(api.take_unknown(), [""; 0]);
}

/// Holds the table against a real kube-apiserver: `KUBEBUILDER_ASSETS=… cargo test -p carrick-testkit -- --ignored rows`. The
/// lab plays the same rows to a cluster of kubeadm's.
#[tokio::test]
#[ignore = "needs etcd and kube-apiserver"]
async fn rows_are_answered_as_by_a_real_server() {
    let real = crate::Api::start().unwrap();
    let address = real.url().trim_start_matches("https://").parse().unwrap();
    let stage = tls::Https::real(address, real.authority(), false).unwrap();
    let found = rows::compare(&prepared().await, &stage).await.unwrap();
    assert!(found.is_empty(), "{}", found.join("\n"));
    let _ = Arc::new(Authority::new().unwrap());
}
