//! How long the same thing took, each time it was done.

use std::time::Duration;

#[derive(Default)]
pub struct Times(Vec<Duration>);

impl Times {
    pub fn push(&mut self, took: Duration) {
        let at = self.0.partition_point(|other| *other <= took);
        self.0.insert(at, took);
    }

    pub fn fastest(&self) -> Duration {
        self.0.first().copied().unwrap_or_default()
    }

    /// Of an even number the slower of the two in the middle.
    pub fn median(&self) -> Duration {
        self.0.get(self.0.len() / 2).copied().unwrap_or_default()
    }

    pub fn slowest(&self) -> Duration {
        self.0.last().copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle_whatever_the_order() {
        for (took, fastest, median, slowest) in
            [(&[][..], 0, 0, 0), (&[3], 3, 3, 3), (&[4, 1], 1, 4, 4), (&[9, 1, 5, 5, 2], 1, 5, 9)]
        {
            let mut times = Times::default();
            for seconds in took {
                times.push(Duration::from_secs(*seconds));
            }
            let all = [times.fastest(), times.median(), times.slowest()];
            assert_eq!(all, [fastest, median, slowest].map(Duration::from_secs), "{took:?}");
        }
    }
}
