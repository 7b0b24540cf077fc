//! Whether whoever acts was told to stop. It is looked at between two changes, and ends every wait: the change at hand is
//! finished.

use carrick_core::StopSignal;
use tokio::sync::watch;

/// Listens. One that nobody can tell anything never stops.
#[derive(Clone, Debug)]
pub struct Stop {
    told: watch::Receiver<Option<StopSignal>>,
}

/// Tells all who listen. The first word counts.
#[derive(Debug)]
pub struct StopTeller {
    teller: watch::Sender<Option<StopSignal>>,
}

impl StopTeller {
    pub fn new() -> (Self, Stop) {
        let (teller, told) = watch::channel(None);
        (StopTeller { teller }, Stop { told })
    }

    pub fn tell(&self, signal: StopSignal) {
        self.teller.send_if_modified(|told| {
            let first = told.is_none();
            told.get_or_insert(signal);
            first
        });
    }
}

impl Stop {
    /// For who is never told to stop.
    pub fn never() -> Self {
        StopTeller::new().1
    }

    /// What was told, if anything was.
    pub fn told(&self) -> Option<StopSignal> {
        *self.told.borrow()
    }

    /// Comes back once somebody says stop.
    pub async fn until_told(&self) -> StopSignal {
        let mut told = self.told.clone();
        let signal = told.wait_for(Option::is_some).await.map(|told| *told);
        match signal {
            Ok(Some(signal)) => signal,
            // Nobody is left who could.
            Ok(None) | Err(_) => std::future::pending().await,
        }
    }

    /// What was asked for, or the word to stop, whichever comes first: the work is let go of then.
    pub async fn or<T>(&self, work: impl Future<Output = T>) -> Result<T, StopSignal> {
        tokio::select! {
            biased;
            signal = self.until_told() => Err(signal),
            done = work => Ok(done),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_first_word_counts_and_ends_what_waits() {
        let (teller, stop) = StopTeller::new();
        assert_eq!((stop.told(), stop.or(async { 7 }).await), (None, Ok(7)));
        teller.tell(StopSignal::Hangup);
        teller.tell(StopSignal::Interrupt);
        assert_eq!(stop.told(), Some(StopSignal::Hangup));
        assert_eq!(stop.or(std::future::pending::<()>()).await, Err(StopSignal::Hangup));
        assert_eq!(Stop::never().or(async { 7 }).await, Ok(7));
    }
}
