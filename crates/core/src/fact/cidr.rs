//! Address ranges: `10.244.0.0/16`, `fd00::/48`; a plain address is a range of one.
//!
//! Shared: every fact that has an address range.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::str::FromStr;

/// A range of addresses. The address is kept as it was written: `10.244.1.1/24` is a host within its network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cidr {
    pub address: IpAddr,
    length: u8,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not an address range")]
pub struct NotACidr(String);

impl Cidr {
    /// `None` where the prefix is longer than an address.
    pub fn new(address: IpAddr, length: u8) -> Option<Self> {
        (length <= width(address)).then_some(Cidr { address, length })
    }

    pub fn length(self) -> u8 {
        self.length
    }

    pub fn is_v6(self) -> bool {
        self.address.is_ipv6()
    }

    /// Whether an address lies in the range.
    pub fn contains(self, address: IpAddr) -> bool {
        self.address.is_ipv6() == address.is_ipv6() && self.head(address) == self.head(self.address)
    }

    /// Whether every address of the other lies in this range.
    pub fn covers(self, other: Cidr) -> bool {
        self.length <= other.length && self.contains(other.address)
    }

    /// Whether the two have an address in common.
    pub fn overlaps(self, other: Cidr) -> bool {
        self.covers(other) || other.covers(self)
    }

    /// The range itself, without the host's part: `10.244.1.1/24` is in `10.244.1.0/24`.
    pub fn network(self) -> Cidr {
        let address = match self.address {
            IpAddr::V4(v4) => {
                let bits = u32::from(v4);
                let hosts = u32::MAX.checked_shr(u32::from(self.length)).unwrap_or(0);
                IpAddr::from(Ipv4Addr::from(bits & !hosts))
            }
            IpAddr::V6(v6) => {
                let hosts = u128::MAX.checked_shr(u32::from(self.length)).unwrap_or(0);
                IpAddr::from(std::net::Ipv6Addr::from(u128::from(v6) & !hosts))
            }
        };
        Cidr { address, length: self.length }
    }

    /// The bits of an address that the range fixes.
    fn head(self, address: IpAddr) -> u128 {
        let bits = match address {
            IpAddr::V4(v4) => u128::from(u32::from(v4)),
            IpAddr::V6(v6) => u128::from(v6),
        };
        bits.checked_shr(u32::from(width(address).saturating_sub(self.length))).unwrap_or(0)
    }
}

fn width(address: IpAddr) -> u8 {
    if address.is_ipv6() { 128 } else { 32 }
}

impl FromStr for Cidr {
    type Err = NotACidr;

    fn from_str(text: &str) -> Result<Self, NotACidr> {
        let parsed = match text.split_once('/') {
            Some((address, length)) => {
                address.parse().ok().zip(length.parse().ok()).and_then(|(address, length)| Cidr::new(address, length))
            }
            None => text.parse().ok().map(|address| Cidr { address, length: width(address) }),
        };
        parsed.ok_or_else(|| NotACidr(text.to_owned()))
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn cidr(text: &str) -> Cidr {
        text.parse().unwrap()
    }

    #[test]
    fn reads_ranges_and_addresses() {
        assert_eq!(cidr("10.244.1.1/24").to_string(), "10.244.1.1/24");
        assert_eq!(cidr("10.244.1.1").to_string(), "10.244.1.1/32");
        assert_eq!(cidr("::1").to_string(), "::1/128");
        for wrong in ["", "10.0.0.0/33", "::/129", "10.0.0/8", "10.0.0.0/-1", "10.0.0.0/8/8", "default"] {
            assert!(wrong.parse::<Cidr>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn knows_what_lies_inside() {
        for (outer, inner, expected) in [
            ("10.244.0.0/16", "10.244.255.255", true),
            ("10.244.0.0/16", "10.245.0.0", false),
            ("0.0.0.0/0", "255.255.255.255", true),
            ("10.0.0.1/32", "10.0.0.1", true),
            ("10.0.0.1/32", "10.0.0.2", false),
            ("::/0", "10.0.0.1", false),
            ("fd00::/48", "fd00:0:0:ffff::1", true),
            ("fd00::/48", "fd00:0:1::1", false),
        ] {
            assert_eq!(cidr(outer).contains(inner.parse().unwrap()), expected, "{inner} in {outer}");
        }
    }

    #[test]
    fn knows_what_overlaps() {
        assert!(cidr("10.244.0.0/16").overlaps(cidr("10.244.1.1/24")));
        assert!(cidr("10.244.1.1/24").overlaps(cidr("10.244.0.0/16")));
        assert!(!cidr("10.244.0.0/16").overlaps(cidr("10.96.0.0/12")));
        assert!(cidr("10.0.0.0/8").covers(cidr("10.244.0.0/16")));
        assert!(!cidr("10.244.0.0/16").covers(cidr("10.0.0.0/8")));
    }

    #[test]
    fn takes_the_hosts_part_away() {
        assert_eq!(cidr("10.244.1.1/24").network(), cidr("10.244.1.0/24"));
        assert_eq!(cidr("10.244.1.1/32").network(), cidr("10.244.1.1"));
        assert_eq!(cidr("10.244.1.1/0").network(), cidr("0.0.0.0/0"));
        assert_eq!(cidr("fd00::1/64").network(), cidr("fd00::/64"));
        assert_eq!(cidr("fd00::1/128").network(), cidr("fd00::1"));
    }

    proptest! {
        #[test]
        fn any_text_is_a_range_or_not(text in ".*") {
            let _ = text.parse::<Cidr>();
        }

        #[test]
        fn a_range_holds_its_own_address(bits: u128, length in 0u8..=128, four: u32, short in 0u8..=32) {
            for cidr in [Cidr::new(std::net::Ipv6Addr::from(bits).into(), length), Cidr::new(Ipv4Addr::from(four).into(), short)] {
                let cidr = cidr.unwrap();
                prop_assert!(cidr.contains(cidr.address));
                prop_assert!(cidr.network().covers(cidr));
                prop_assert!(cidr.overlaps(cidr.network()));
                prop_assert_eq!(cidr.to_string().parse::<Cidr>(), Ok(cidr));
            }
        }
    }
}
