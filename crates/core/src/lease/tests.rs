use proptest::prelude::*;

use super::*;

fn seconds(seconds: u64) -> Uptime {
    Duration::from_secs(seconds)
}

fn wall(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn candidate(name: &str) -> Election {
    Election::new(name.to_owned(), LeaseTiming::default())
}

fn held_by(holder: &str, renewed: i64, version: &str) -> StoredLease {
    let record = LeaseRecord {
        holder_identity: holder.to_owned(),
        lease_duration_seconds: 15,
        acquire_time: Some(wall(0)),
        renew_time: Some(wall(renewed)),
        lease_transitions: 3,
    };
    StoredLease { record, resource_version: version.to_owned() }
}

/// Reads first, creates what is not there, and leads.
fn leader(name: &str) -> Election {
    let mut election = candidate(name);
    assert_eq!(election.act(seconds(0), wall(0)), LeaseAction::Read);
    election.answer(LeaseAnswer::Read(None), seconds(0));
    let LeaseAction::Create(record) = election.act(seconds(0), wall(0)) else { panic!("nothing was created") };
    election.answer(LeaseAnswer::Written(StoredLease { record, resource_version: "1".into() }), seconds(1));
    election
}

#[test]
fn who_finds_no_lease_makes_one_and_leads() {
    let election = leader("a");
    assert!(election.is_leader(seconds(1)));
    assert_eq!(election.holder(), Some("a"));
    // Counted from when the request was sent, at 0 s.
    assert!(election.is_leader(seconds(9)) && !election.is_leader(seconds(10)));
}

#[test]
fn an_unchanged_lease_is_taken_after_as_long_as_it_lasts_by_our_own_clock() {
    let mut election = candidate("b");
    // The other's clock is a year ahead: that does not count.
    let stored = held_by("a", 365 * 86400, "7");
    for second in 0..20u64 {
        match election.act(seconds(second), wall(0)) {
            LeaseAction::Read => election.answer(LeaseAnswer::Read(Some(stored.clone())), seconds(second)),
            LeaseAction::Replace { record, resource_version } => {
                assert!(second >= 15, "taken after {second} s");
                assert_eq!((record.holder_identity.as_str(), record.lease_transitions), ("b", 4));
                assert_eq!(resource_version, "7");
                return;
            }
            LeaseAction::WaitUntil(until) => assert!(until <= seconds(second + 2)),
            other => panic!("{other:?}"),
        }
    }
    panic!("it was never taken");
}

#[test]
fn a_lease_that_is_renewed_is_left_alone() {
    let mut election = candidate("b");
    for second in 0..120u64 {
        if election.act(seconds(second), wall(0)) == LeaseAction::Read {
            let stored = held_by("a", i64::try_from(second / 10).unwrap(), "7");
            election.answer(LeaseAnswer::Read(Some(stored)), seconds(second));
        }
        assert!(!election.is_leader(seconds(second)));
    }
}

#[test]
fn a_lease_that_was_given_up_is_taken_at_once() {
    let mut first = leader("a");
    let Some(LeaseAction::Replace { record, .. }) = first.release(wall(5)) else { panic!("nothing was released") };
    assert_eq!((record.holder_identity.as_str(), record.lease_duration_seconds), ("", 1));
    assert!(!first.is_leader(seconds(5)));
    let mut second = candidate("b");
    assert_eq!(second.act(seconds(0), wall(6)), LeaseAction::Read);
    second.answer(LeaseAnswer::Read(Some(StoredLease { record, resource_version: "2".into() })), seconds(0));
    assert!(matches!(second.act(seconds(0), wall(6)), LeaseAction::Replace { .. }));
}

#[test]
fn a_candidate_has_nothing_to_release() {
    assert_eq!(candidate("a").release(wall(0)), None);
}

#[test]
fn who_cannot_renew_steps_down_for_good() {
    let mut election = leader("a");
    let mut now = seconds(2);
    while now < seconds(10) {
        if let LeaseAction::Replace { .. } = election.act(now, wall(0)) {
            election.answer(LeaseAnswer::Failed, now);
        }
        now += seconds(1);
    }
    assert_eq!(election.act(seconds(10), wall(0)), LeaseAction::StepDown);
    // An answer that comes late changes nothing.
    election.answer(LeaseAnswer::Written(held_by("a", 10, "9")), seconds(11));
    assert!(!election.is_leader(seconds(11)));
    assert_eq!(election.act(seconds(11), wall(0)), LeaseAction::StepDown);
}

#[test]
fn who_sees_that_another_holds_it_steps_down() {
    let mut election = leader("a");
    assert!(matches!(election.act(seconds(2), wall(0)), LeaseAction::Replace { .. }));
    election.answer(LeaseAnswer::Conflict, seconds(2));
    assert_eq!(election.act(seconds(2), wall(0)), LeaseAction::Read);
    election.answer(LeaseAnswer::Read(Some(held_by("b", 2, "3"))), seconds(2));
    assert_eq!(election.act(seconds(3), wall(0)), LeaseAction::StepDown);
}

#[test]
fn times_are_written_as_kubernetes_does() {
    let spec = serde_json::to_value(held_by("a", 10, "1").record).unwrap();
    assert_eq!(
        spec,
        serde_json::json!({
            "holderIdentity": "a", "leaseDurationSeconds": 15, "acquireTime": "1970-01-01T00:00:00.000000Z",
            "renewTime": "1970-01-01T00:00:10.000000Z", "leaseTransitions": 3,
        })
    );
}

/// A server that keeps one lease, and candidates whose clocks run at speeds of their own and whose requests take their time.
struct Cluster {
    stored: Option<StoredLease>,
    version: u64,
    candidates: Vec<Candidate>,
}

struct Candidate {
    election: Election,
    /// Of a thousand: how fast its clock runs.
    speed: u64,
    /// What it has sent, and whether the server has seen it.
    sent: Option<LeaseAction>,
    answer: Option<LeaseAnswer>,
}

impl Candidate {
    fn clock(&self, true_ms: u64) -> Uptime {
        Duration::from_millis(true_ms * self.speed / 1000)
    }
}

#[derive(Clone, Copy, Debug)]
enum Move {
    /// Milliseconds pass.
    Pass(u64),
    /// A candidate looks what it has to do, and sends it.
    Act(usize),
    /// Its request arrives.
    Arrive(usize),
    /// Its request is lost.
    Lose(usize),
    /// The answer arrives.
    Hear(usize),
    /// The answer is lost.
    Forget(usize),
    /// It goes of its own accord.
    Release(usize),
}

fn any_move() -> impl Strategy<Value = Move> {
    let who = 0..2usize;
    prop_oneof![
        4 => (1u64..4000).prop_map(Move::Pass),
        4 => who.clone().prop_map(Move::Act),
        4 => who.clone().prop_map(Move::Arrive),
        1 => who.clone().prop_map(Move::Lose),
        4 => who.clone().prop_map(Move::Hear),
        1 => who.clone().prop_map(Move::Forget),
        1 => who.prop_map(Move::Release),
    ]
}

impl Cluster {
    fn serve(&mut self, action: &LeaseAction) -> LeaseAnswer {
        let (record, at) = match action {
            LeaseAction::Read => return LeaseAnswer::Read(self.stored.clone()),
            LeaseAction::Create(record) => (record, None),
            LeaseAction::Replace { record, resource_version } => (record, Some(resource_version)),
            LeaseAction::WaitUntil(_) | LeaseAction::StepDown => return LeaseAnswer::Failed,
        };
        if self.stored.as_ref().map(|stored| &stored.resource_version) != at {
            return LeaseAnswer::Conflict;
        }
        self.version += 1;
        let stored = StoredLease { record: record.clone(), resource_version: self.version.to_string() };
        self.stored = Some(stored.clone());
        LeaseAnswer::Written(stored)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// client-go's bound: clocks whose speeds differ by less than duration / renew deadline, here 15 / 10.
    #[test]
    fn two_never_lead_at_once(speeds in (800u64..1150, 800u64..1150), moves in prop::collection::vec(any_move(), 1..120)) {
        let candidate = |name: &str, speed| Candidate { election: candidate(name), speed, sent: None, answer: None };
        let candidates = vec![candidate("a", speeds.0), candidate("b", speeds.1)];
        let mut cluster = Cluster { stored: None, version: 0, candidates };
        let mut now = 0u64;
        for step in moves {
            match step {
                Move::Pass(time) => now += time,
                Move::Act(who) => {
                    let it = &mut cluster.candidates[who];
                    let clock = it.clock(now);
                    // One request at a time.
                    if it.sent.is_none() && it.answer.is_none() {
                        let action = it.election.act(clock, wall(i64::try_from(now / 1000).unwrap()));
                        it.sent = Some(action).filter(|it| !matches!(it, LeaseAction::WaitUntil(_) | LeaseAction::StepDown));
                    }
                }
                Move::Arrive(who) => {
                    if let Some(action) = cluster.candidates[who].sent.take() {
                        let answer = cluster.serve(&action);
                        cluster.candidates[who].answer = Some(answer);
                    }
                }
                Move::Lose(who) => {
                    if cluster.candidates[who].sent.take().is_some() {
                        cluster.candidates[who].answer = Some(LeaseAnswer::Failed);
                    }
                }
                Move::Hear(who) => {
                    let it = &mut cluster.candidates[who];
                    let clock = it.clock(now);
                    if let Some(answer) = it.answer.take() {
                        it.election.answer(answer, clock);
                    }
                }
                Move::Forget(who) => {
                    let it = &mut cluster.candidates[who];
                    let clock = it.clock(now);
                    if it.answer.take().is_some() {
                        it.election.answer(LeaseAnswer::Failed, clock);
                    }
                }
                Move::Release(who) => {
                    let it = &mut cluster.candidates[who];
                    if it.sent.is_none() && it.answer.is_none()
                        && let Some(action) = it.election.release(wall(0)) {
                        cluster.serve(&action);
                    }
                }
            }
            let leading = cluster.candidates.iter().filter(|it| it.election.is_leader(it.clock(now))).count();
            prop_assert!(leading <= 1, "two lead at {now} ms");
        }
    }

    /// Left alone with a server that answers, somebody leads within a lease and a few retries.
    #[test]
    fn somebody_leads_in_the_end(start in 0u64..30) {
        let mut cluster = Cluster { stored: Some(held_by("gone", 0, "0")), version: 0, candidates: Vec::new() };
        let mut elections = [candidate("a"), candidate("b")];
        for second in start..start + 25 {
            for election in &mut elections {
                let action = election.act(seconds(second), wall(0));
                let answer = cluster.serve(&action);
                if !matches!(action, LeaseAction::WaitUntil(_) | LeaseAction::StepDown) {
                    election.answer(answer, seconds(second));
                }
            }
        }
        prop_assert_eq!(elections.iter().filter(|it| it.is_leader(seconds(start + 24))).count(), 1);
    }
}
