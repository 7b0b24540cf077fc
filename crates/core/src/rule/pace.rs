//! How fast to write: as fast as the API server takes it. More at once while it answers, half of that and a pause when it says 429;
//! and never faster than somebody has asked for.

use std::time::Duration;

use super::node::Uptime;

/// Beyond this, more at once only makes each of them slower (measured: 16 give what the server has, 64 double the wait).
pub const MOST_AT_ONCE: u32 = 16;

#[derive(Clone, Debug)]
pub struct Pace {
    /// How many may be under way now; it grows by one for as many answers.
    limit: f64,
    most: f64,
    under_way: u32,
    not_before: Uptime,
    bucket: Option<Bucket>,
}

/// `--kube-api-qps` and `--kube-api-burst`.
#[derive(Clone, Debug)]
struct Bucket {
    rate: f64,
    burst: f64,
    tokens: f64,
    at: Uptime,
}

/// Whether a write may go out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PaceAnswer {
    Go,
    /// When one of those that are under way is answered.
    AfterAnAnswer,
    NotBefore(Uptime),
}

impl Pace {
    /// `rate`: writes a second, with as many at once as `burst`; `None`: no limit but the server's.
    pub fn new(most: u32, rate: Option<(f64, u32)>) -> Self {
        let bucket = rate.map(|(rate, burst)| {
            let burst = f64::from(burst.max(1));
            Bucket { rate: rate.max(0.01), burst, tokens: burst, at: Duration::ZERO }
        });
        let most = f64::from(most.max(1));
        Pace { limit: most, most, under_way: 0, not_before: Duration::ZERO, bucket }
    }

    pub fn under_way(&self) -> u32 {
        self.under_way
    }

    pub fn ask(&mut self, now: Uptime) -> PaceAnswer {
        if now < self.not_before {
            return PaceAnswer::NotBefore(self.not_before);
        }
        if f64::from(self.under_way) + 1.0 > self.limit {
            return PaceAnswer::AfterAnAnswer;
        }
        let Some(bucket) = &mut self.bucket else { return PaceAnswer::Go };
        bucket.fill(now);
        if bucket.tokens >= 1.0 {
            PaceAnswer::Go
        } else {
            PaceAnswer::NotBefore(now + Duration::from_secs_f64((1.0 - bucket.tokens) / bucket.rate))
        }
    }

    pub fn sent(&mut self) {
        self.under_way += 1;
        if let Some(bucket) = &mut self.bucket {
            bucket.tokens -= 1.0;
        }
    }

    /// `busy`: the server had too much to do, and how long it asks to be left alone.
    pub fn answered(&mut self, now: Uptime, busy: Option<Option<Duration>>) {
        self.under_way = self.under_way.saturating_sub(1);
        match busy {
            None => self.limit = (self.limit + 1.0 / self.limit).min(self.most),
            Some(asked) => {
                // Of those that went out together only the first counts.
                if now >= self.not_before {
                    self.limit = (self.limit / 2.0).max(1.0);
                }
                self.not_before = now + asked.unwrap_or(Duration::from_secs(1));
            }
        }
    }
}

impl Bucket {
    fn fill(&mut self, now: Uptime) {
        let passed = now.saturating_sub(self.at).as_secs_f64();
        self.tokens = (self.tokens + passed * self.rate).min(self.burst);
        self.at = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn go(pace: &mut Pace, now: Uptime) -> u32 {
        let mut gone = 0;
        while pace.ask(now) == PaceAnswer::Go {
            pace.sent();
            gone += 1;
        }
        gone
    }

    #[test]
    fn as_many_at_once_as_allowed_and_half_of_that_after_a_refusal() {
        let second = Duration::from_secs;
        let mut pace = Pace::new(16, None);
        assert_eq!(go(&mut pace, second(0)), 16);
        assert_eq!(pace.ask(second(0)), PaceAnswer::AfterAnAnswer);
        // Several that went out together are refused together: that is one word, not four.
        for _ in 0..4 {
            pace.answered(second(1), Some(Some(second(2))));
        }
        assert_eq!(pace.ask(second(1)), PaceAnswer::NotBefore(second(3)));
        for _ in 0..12 {
            pace.answered(second(3), None);
        }
        let after = go(&mut pace, second(3));
        assert!((8..=10).contains(&after), "{after}");
        // It recovers.
        for _ in 0..400 {
            pace.answered(second(4), None);
        }
        assert_eq!(go(&mut pace, second(4)), 16);
    }

    #[test]
    fn a_rate_that_somebody_asked_for_is_kept() {
        let mut pace = Pace::new(1000, Some((20.0, 30)));
        assert_eq!(go(&mut pace, Duration::ZERO), 30);
        assert_eq!(pace.ask(Duration::ZERO), PaceAnswer::NotBefore(Duration::from_millis(50)));
        let gone: u32 = (1..=1000).map(|ms| go(&mut pace, Duration::from_millis(ms))).sum();
        assert!((19..=20).contains(&gone), "{gone}");
    }

    #[test]
    fn there_is_always_one_that_may_go() {
        let mut pace = Pace::new(0, None);
        for _ in 0..10 {
            pace.answered(Duration::ZERO, Some(None));
        }
        assert_eq!(go(&mut pace, Duration::from_secs(5)), 1);
    }
}
