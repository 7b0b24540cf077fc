//! How much of the lab a run plays, and with how many repeats: each case, fault and row says from which tier on it is played.

use crate::error::{Error, Result};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub enum Tier {
    /// A representative of each promise, of each family of causes and of each verb: every CI
    Quick,
    /// Everything that runs Carrick; what is repeated, five times
    Standard,
    /// All of it: what plain kubeadm shows of each fault, 100 cycles, how soon each cause is told, the lab itself, fuzz targets
    Full,
}

/// How many cycles, where somebody has the time for more.
const CYCLES: &str = "CARRICK_LAB_CYCLES";

impl Tier {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Quick => "quick",
            Self::Standard => "standard",
            Self::Full => "full",
        }
    }

    /// How often something is taken out and in again by carrick alone.
    pub fn cycles(self) -> Result<u32> {
        self.cycles_or(std::env::var(CYCLES).ok().as_deref())
    }

    fn cycles_or(self, asked: Option<&str>) -> Result<u32> {
        let Some(asked) = asked else {
            return Ok(match self {
                Self::Quick => 1,
                Self::Standard => 5,
                Self::Full => 100,
            });
        };
        let cycles = asked.parse().ok().filter(|cycles| *cycles > 0);
        cycles.ok_or_else(|| Error::Said(format!("{CYCLES}={asked}: a number of cycles, 1 or more")))
    }

    /// Of things that are done one after another the first, where only a representative is asked for.
    pub fn some<T>(self, all: &[T]) -> &[T] {
        all.get(..if self == Self::Quick { 1 } else { all.len() }).unwrap_or(all)
    }
}

/// What a run was asked to play.
pub struct Choice<'a> {
    filters: &'a [String],
    tier: Option<Tier>,
}

impl<'a> Choice<'a> {
    pub fn new(filters: &'a [String], tier: Option<Tier>) -> Self {
        Self { filters, tier }
    }

    /// By name whatever its tier; else by tier.
    pub fn takes(&self, name: &str, tier: Tier) -> bool {
        if self.filters.is_empty() {
            tier <= self.tier()
        } else {
            self.filters.iter().any(|filter| name.contains(filter.as_str()))
        }
    }

    /// How many repeats, and what is played alone.
    pub fn tier(&self) -> Tier {
        self.tier.unwrap_or(if self.filters.is_empty() { Tier::Quick } else { Tier::Standard })
    }

    /// The last line of a run, alone on its line.
    pub fn closing(&self, passed: usize, failed: usize) -> String {
        let what = if self.filters.is_empty() { self.tier().name() } else { "chosen" };
        format!("{what}: {passed} passed, {failed} failed")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tier_takes_what_is_in_it_and_a_name_takes_whatever_has_it() {
        let some = ["swap".to_owned(), "join-fresh".to_owned()];
        for (filters, tier, name, of, taken) in [
            (&[][..], None, "verify", Tier::Quick, true),
            (&[], None, "verify-broken", Tier::Standard, false),
            (&[], Some(Tier::Standard), "verify-broken", Tier::Standard, true),
            (&[], Some(Tier::Standard), "fault-swap-on", Tier::Full, false),
            (&[], Some(Tier::Full), "verify", Tier::Quick, true),
            (&some, None, "fault-swap-on", Tier::Full, true),
            (&some, Some(Tier::Quick), "fault-swap-on", Tier::Full, true),
            (&some, Some(Tier::Full), "verify", Tier::Quick, false),
        ] {
            assert_eq!(Choice::new(filters, tier).takes(name, of), taken, "{filters:?} {tier:?} {name}");
        }
    }

    #[test]
    fn the_closing_line_names_what_was_played() {
        let some = ["swap".to_owned()];
        for (filters, tier, line) in [
            (&[][..], None, "quick: 3 passed, 1 failed"),
            (&[], Some(Tier::Full), "full: 3 passed, 1 failed"),
            (&some, None, "chosen: 3 passed, 1 failed"),
            (&some, Some(Tier::Full), "chosen: 3 passed, 1 failed"),
        ] {
            assert_eq!(Choice::new(filters, tier).closing(3, 1), line);
        }
    }

    #[test]
    fn repeats_are_cut_by_tier_unless_somebody_asks() {
        for (tier, asked, cycles) in [
            (Tier::Quick, None, Some(1)),
            (Tier::Standard, None, Some(5)),
            (Tier::Full, None, Some(100)),
            (Tier::Quick, Some("20"), Some(20)),
            (Tier::Full, Some("0"), None),
            (Tier::Full, Some("many"), None),
        ] {
            assert_eq!(tier.cycles_or(asked).ok(), cycles, "{tier:?} {asked:?}");
        }
        assert_eq!((Tier::Quick.some(&[1, 2, 3]), Tier::Standard.some(&[1, 2, 3])), (&[1][..], &[1, 2, 3][..]));
        assert_eq!(Tier::Quick.some::<u8>(&[]), &[] as &[u8]);
    }
}
