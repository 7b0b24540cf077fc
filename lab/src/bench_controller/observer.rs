//! Sees, by a watch of its own, which nodes have the taint, and since when.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use carrick_core::rule::{SlimNode, Texts, WireNode};
use carrick_testkit::{Api, Caller};
use http_body_util::BodyExt as _;
use serde::Deserialize;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::TAINT;
use crate::error::{During, Error, Result, said};

const WATCH: &str = "/api/v1/nodes?watch=true&resourceVersion=0&timeoutSeconds=7200";

/// Of each node, by its number.
type Seen = Arc<Mutex<Vec<Option<(bool, Instant)>>>>;

pub struct Observer {
    seen: Seen,
    task: JoinHandle<()>,
}

#[derive(Deserialize)]
struct Event {
    object: WireNode,
}

impl Observer {
    pub async fn start(api: &Api, nodes: u32) -> Result<Self> {
        let caller = Caller::dial(api, api.admin_token()).await.during(|| "cannot reach the API server".to_owned())?;
        let mut body = caller.stream(WATCH).await.during(|| "cannot watch".to_owned())?;
        let seen: Seen = Arc::new(Mutex::new(vec![None; nodes as usize]));
        let noted = Arc::clone(&seen);
        let task = tokio::spawn(async move {
            let (mut read, mut texts) = (Vec::new(), Texts::default());
            while let Some(Ok(frame)) = body.frame().await {
                read.extend_from_slice(&frame.into_data().unwrap_or_default());
                let Some(end) = read.iter().rposition(|byte| *byte == b'\n') else { continue };
                for line in read[..end].split(|byte| *byte == b'\n') {
                    if let Ok(Event { object }) = serde_json::from_slice(line) {
                        note(&noted, &SlimNode::of(object, &mut texts, Duration::ZERO));
                    }
                }
                read.drain(..=end);
            }
        });
        Ok(Self { seen, task })
    }

    fn held(&self) -> usize {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.iter().filter(|it| it.is_some_and(|(held, _)| held)).count()
    }

    /// Until as many nodes have the taint.
    pub async fn until(&self, held: usize, deadline: Duration) -> Result<()> {
        let begun = Instant::now();
        while self.held() != held {
            if self.task.is_finished() {
                return said("the API server has ended the watch that looks on");
            }
            if begun.elapsed() > deadline {
                let last = format!("{} have it", self.held());
                return Err(Error::Deadline { what: format!("{held} nodes with the taint"), after: deadline, last });
            }
            sleep(Duration::from_millis(5)).await;
        }
        Ok(())
    }

    /// When each node changed last.
    pub fn times(&self) -> Vec<Option<Instant>> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.iter().map(|it| it.map(|(_, since)| since)).collect()
    }
}

impl Drop for Observer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn note(seen: &Seen, node: &SlimNode) {
    let held = node.taints.iter().any(|taint| taint.key.as_ref() == TAINT);
    let number = node.name.rsplit('-').next().and_then(|n| n.parse::<usize>().ok());
    let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(entry) = number.and_then(|n| seen.get_mut(n))
        && entry.is_none_or(|(before, _)| before != held)
    {
        *entry = Some((held, Instant::now()));
    }
}

/// A watch that is read and thrown away: what the API server sends a controller costs it as much.
pub async fn second_watch(api: &Api, token: &str) -> Result<JoinHandle<()>> {
    let caller = Caller::dial(api, token).await.during(|| "cannot reach the API server".to_owned())?;
    let mut body = caller.stream(WATCH).await.during(|| "cannot watch".to_owned())?;
    Ok(tokio::spawn(async move { while let Some(Ok(_)) = body.frame().await {} }))
}
