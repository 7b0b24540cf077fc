//! The lab's network: a bridge in a namespace of its own. The machine the lab runs on keeps its links, routes and
//! firewall as they are, nothing leaves the lab, and two labs may use the same addresses.

use std::fs::{self, File};
use std::net::Ipv4Addr;
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::error::{During, Result, said};
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

static OUTER: OnceLock<File> = OnceLock::new();

/// Remembers the namespace this process was started in; to be called before it enters another.
pub fn remember_outer() -> Result<()> {
    let place = Path::new("/proc/thread-self/ns/net");
    let outer = File::open(place).at("open", place)?;
    OUTER.get_or_init(|| outer);
    Ok(())
}

/// Moves the calling thread back to where this process was started.
pub fn enter_outer() -> Result<()> {
    match OUTER.get() {
        Some(outer) => move_into(outer, Path::new("the machine's own network")),
        None => said("nobody remembered the machine's own network"),
    }
}

fn enter(place: &Path) -> Result<()> {
    move_into(&File::open(place).at("open", place)?, place)
}

fn move_into(namespace: &File, place: &Path) -> Result<()> {
    move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network)).at("enter", place)
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
