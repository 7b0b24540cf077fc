//! The lab's network: a bridge in a namespace of its own. The machine the lab runs on keeps its links, routes and
//! firewall as they are, nothing leaves the lab, and two labs may use the same addresses.

use std::fs::{self, File};
use std::net::Ipv4Addr;
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::error::{During, Result};
use crate::run::Run;

pub const BRIDGE: &str = "carrick0";
pub const GATEWAY: Ipv4Addr = Ipv4Addr::new(10, 123, 0, 1);
pub const CONTROL: Ipv4Addr = Ipv4Addr::new(10, 123, 0, 11);

/// The address of the n-th worker, counted from 1; there is room for 230.
pub fn worker(n: u8) -> Option<Ipv4Addr> {
    n.checked_add(20).filter(|last| *last < 255 && n > 0).map(|last| Ipv4Addr::new(10, 123, 0, last))
}

/// A namespace kept alive by a file it is mounted on.
pub struct Net {
    place: PathBuf,
}

impl Net {
    pub fn at(place: &Path) -> Self {
        Self { place: place.to_owned() }
    }

    pub fn make(&self) -> Result<()> {
        fs::write(&self.place, "").at("write", &self.place)?;
        let mut kept = std::ffi::OsString::from("--net=");
        kept.push(&self.place);
        Run::new("unshare").arg(kept).arg("true").ok()?;
        let address = format!("{GATEWAY}/24");
        for line in [
            &["link", "set", "lo", "up"][..],
            &["link", "add", BRIDGE, "type", "bridge"],
            &["addr", "add", &address, "dev", BRIDGE],
            &["link", "set", BRIDGE, "up"],
        ] {
            Run::new("nsenter").arg(format!("--net={}", self.place.display())).arg("ip").args(line).ok()?;
        }
        Ok(())
    }

    /// Moves the calling thread, and whatever it starts from now on, into the namespace.
    pub fn enter(&self) -> Result<()> {
        enter(&self.place)
    }
}

/// The namespace of the machine itself, as the process that started everything sees it.
pub fn enter_outer() -> Result<()> {
    enter(Path::new("/proc/1/ns/net"))
}

fn enter(place: &Path) -> Result<()> {
    let file = File::open(place).at("open", place)?;
    move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network)).at("enter", place)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_have_addresses_while_there_is_room() {
        assert_eq!(worker(1), Some(Ipv4Addr::new(10, 123, 0, 21)));
        assert_eq!(worker(234), Some(Ipv4Addr::new(10, 123, 0, 254)));
        assert_eq!((worker(0), worker(235), worker(255)), (None, None, None));
    }
}
