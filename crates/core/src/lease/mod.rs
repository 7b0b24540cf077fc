//! Who leads, of several that could: leader election over a Lease, as client-go does it. Pure: what was read and what came of a
//! write goes in, what to do next comes out.
//!
//! The clocks of two machines are never compared. A lease has expired when *we* have seen it unchanged for as long as it lasts, by
//! our own clock; and a leader stops leading when its own last renewal is older than the shorter renew deadline, counted from
//! before that request was sent. Every write names the resourceVersion it was decided on, so of two that try one succeeds.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// A moment, as time since the process started: no clock that jumps.
pub type Uptime = Duration;

/// The Lease that node-readiness-controller takes, so that of both only one acts.
pub const CONTROLLER_LEASE: &str = "ba65f13e.readiness.node.x-k8s.io";

/// A Lease's `spec`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LeaseRecord {
    /// Empty: it was given up.
    pub holder_identity: String,
    pub lease_duration_seconds: u32,
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "micro_time")]
    pub acquire_time: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "micro_time")]
    pub renew_time: Option<Timestamp>,
    pub lease_transitions: u32,
}

/// As Kubernetes' MicroTime: always six digits.
#[allow(clippy::ref_option, reason = "serde calls it so")]
fn micro_time<S: serde::Serializer>(time: &Option<Timestamp>, to: S) -> Result<S::Ok, S::Error> {
    match time {
        Some(time) => to.collect_str(&time.strftime("%Y-%m-%dT%H:%M:%S.%6fZ")),
        None => to.serialize_none(),
    }
}

/// A Lease as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredLease {
    pub record: LeaseRecord,
    pub resource_version: String,
}

/// controller-runtime's own: 15 s, 10 s, 2 s.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseTiming {
    /// For how long others leave an unchanged lease alone.
    pub duration: Duration,
    /// For how long a leader leads without a renewal that succeeded. Shorter, by what clocks may differ in speed.
    pub renew_deadline: Duration,
    pub retry: Duration,
}

impl Default for LeaseTiming {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        LeaseTiming { duration: seconds(15), renew_deadline: seconds(10), retry: seconds(2) }
    }
}

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeaseAction {
    Read,
    Create(LeaseRecord),
    /// Only while it is still at this version.
    Replace {
        record: LeaseRecord,
        resource_version: String,
    },
    /// Nothing before this moment.
    WaitUntil(Uptime),
    /// It led and does so no more: whoever acts on it must end.
    StepDown,
}

/// What came of an action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeaseAnswer {
    /// As it is stored now; `None`: there is none.
    Read(Option<StoredLease>),
    Written(StoredLease),
    /// Somebody else was quicker.
    Conflict,
    /// No answer, or none that says anything.
    Failed,
}

#[derive(Clone, Debug)]
pub struct Election {
    identity: String,
    timing: LeaseTiming,
    /// The lease as it was last seen, and since when it is seen so.
    seen: Option<(StoredLease, Uptime)>,
    /// A read found that there is none.
    absent: bool,
    role: Role,
    /// When the next action is due.
    next: Uptime,
    /// When the request under way was sent.
    sent: Option<Uptime>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Candidate,
    /// By a request that was sent at this moment, and succeeded.
    Leader {
        renewed: Uptime,
    },
    Former,
}

impl Election {
    pub fn new(identity: String, timing: LeaseTiming) -> Self {
        let (seen, absent, role, next, sent) = (None, false, Role::Candidate, Duration::ZERO, None);
        Election { identity, timing, seen, absent, role, next, sent }
    }

    /// Whether it may act at this moment. Nobody else may as long as it says yes.
    pub fn is_leader(&self, now: Uptime) -> bool {
        matches!(self.role, Role::Leader { renewed } if now < renewed + self.timing.renew_deadline)
    }

    /// Until when it leads without another renewal.
    pub fn leads_until(&self) -> Option<Uptime> {
        match self.role {
            Role::Leader { renewed } => Some(renewed + self.timing.renew_deadline),
            Role::Candidate | Role::Former => None,
        }
    }

    /// Who holds the lease, as last seen.
    pub fn holder(&self) -> Option<&str> {
        let (stored, _) = self.seen.as_ref()?;
        Some(stored.record.holder_identity.as_str()).filter(|holder| !holder.is_empty())
    }

    /// `wall` is only written down, for people; nothing is decided by it.
    pub fn act(&mut self, now: Uptime, wall: Timestamp) -> LeaseAction {
        if self.role == Role::Former || matches!(self.role, Role::Leader { .. }) && !self.is_leader(now) {
            self.role = Role::Former;
            return LeaseAction::StepDown;
        }
        if now < self.next {
            return LeaseAction::WaitUntil(self.next);
        }
        self.next = now + self.timing.retry;
        self.sent = Some(now);
        match &self.seen {
            None if self.absent => LeaseAction::Create(self.record(wall, None)),
            Some((stored, _)) if matches!(self.role, Role::Leader { .. }) => self.replace(stored, wall),
            Some((stored, since)) if self.is_free(stored, *since, now) => self.replace(stored, wall),
            _ => LeaseAction::Read,
        }
    }

    /// What a leader writes that goes of its own accord, so that nobody has to wait for it to expire.
    pub fn release(&mut self, wall: Timestamp) -> Option<LeaseAction> {
        let led = matches!(self.role, Role::Leader { .. });
        self.role = Role::Former;
        let (stored, _) = self.seen.as_ref().filter(|_| led)?;
        let record = LeaseRecord {
            holder_identity: String::new(),
            lease_duration_seconds: 1,
            acquire_time: Some(wall),
            renew_time: Some(wall),
            lease_transitions: stored.record.lease_transitions,
        };
        Some(LeaseAction::Replace { record, resource_version: stored.resource_version.clone() })
    }

    pub fn answer(&mut self, answer: LeaseAnswer, now: Uptime) {
        let sent = self.sent.take().unwrap_or(now);
        match answer {
            LeaseAnswer::Read(None) => {
                (self.seen, self.absent) = (None, true);
                self.next = now;
            }
            LeaseAnswer::Read(Some(stored)) => {
                // Somebody else has written it although we lead: who wrote last holds it.
                if stored.record.holder_identity != self.identity && matches!(self.role, Role::Leader { .. }) {
                    self.role = Role::Former;
                }
                self.observe(stored, now);
                let free = self.seen.as_ref().is_some_and(|(stored, since)| self.is_free(stored, *since, now));
                if free && self.role != Role::Former {
                    self.next = now;
                }
            }
            LeaseAnswer::Written(stored) => {
                self.observe(stored, now);
                // From before it was sent: others may have seen it at once.
                self.role = match self.role {
                    Role::Candidate | Role::Leader { .. } => Role::Leader { renewed: sent },
                    Role::Former => Role::Former,
                };
            }
            // What is stored is not what we have seen: a leader looks at once whether it still is one.
            LeaseAnswer::Conflict => {
                (self.seen, self.absent) = (None, false);
                if matches!(self.role, Role::Leader { .. }) {
                    self.next = now;
                }
            }
            LeaseAnswer::Failed => {}
        }
    }

    fn observe(&mut self, stored: StoredLease, now: Uptime) {
        self.absent = false;
        match &mut self.seen {
            Some((seen, _)) if seen.record == stored.record => seen.resource_version = stored.resource_version,
            _ => self.seen = Some((stored, now)),
        }
    }

    /// Nobody holds it, or we do by a write whose answer was lost, or whoever does has not been heard of for as long as it lasts.
    fn is_free(&self, stored: &StoredLease, since: Uptime, now: Uptime) -> bool {
        let lasts = Duration::from_secs(stored.record.lease_duration_seconds.into());
        let holder = stored.record.holder_identity.as_str();
        holder.is_empty() || holder == self.identity || now >= since + lasts
    }

    fn replace(&self, stored: &StoredLease, wall: Timestamp) -> LeaseAction {
        let record = self.record(wall, Some(&stored.record));
        LeaseAction::Replace { record, resource_version: stored.resource_version.clone() }
    }

    fn record(&self, wall: Timestamp, old: Option<&LeaseRecord>) -> LeaseRecord {
        let ours = old.filter(|old| old.holder_identity == self.identity);
        LeaseRecord {
            holder_identity: self.identity.clone(),
            lease_duration_seconds: u32::try_from(self.timing.duration.as_secs()).unwrap_or(u32::MAX),
            acquire_time: ours.and_then(|old| old.acquire_time).or(Some(wall)),
            renew_time: Some(wall),
            lease_transitions: old.map_or(0, |old| old.lease_transitions + u32::from(ours.is_none())),
        }
    }
}

#[cfg(test)]
mod tests;
