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

/// The addresses and names a lab gives out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Site {
    /// The first three numbers of every machine's address.
    subnet: [u8; 3],
    control: u8,
    pub control_name: &'static str,
    /// The number before the first worker's.
    before_workers: u8,
    worker_name: &'static str,
    /// The first two numbers of every pod's address.
    pods: [u8; 2],
}

/// Where a person and the tests work.
pub const USUAL: Site = Site {
    subnet: [10, 123, 0],
    control: 11,
    control_name: "cp1",
    before_workers: 20,
    worker_name: "w",
    pods: [10, 244],
};

/// Nothing in common with the usual one, so that what was learnt from its addresses and names is of no use here.
pub const OTHER: Site = Site {
    subnet: [172, 29, 64],
    control: 200,
    control_name: "head-a",
    before_workers: 60,
    worker_name: "rack7-u",
    pods: [100, 72],
};

impl Site {
    fn at(&self, last: u8) -> Ipv4Addr {
        let [a, b, c] = self.subnet;
        Ipv4Addr::new(a, b, c, last)
    }

    pub fn gateway(&self) -> Ipv4Addr {
        self.at(1)
    }

    pub fn control(&self) -> Ipv4Addr {
        self.at(self.control)
    }

    /// The address of the n-th worker, counted from 1.
    pub fn worker(&self, n: u8) -> Option<Ipv4Addr> {
        let last = n.checked_add(self.before_workers).filter(|last| *last < 255 && n > 0)?;
        Some(self.at(last)).filter(|address| *address != self.control())
    }

    pub fn worker_name(&self, n: u8) -> String {
        format!("{}{n}", self.worker_name)
    }

    /// The beginning of every pod's address, such as `10.244`.
    pub fn pods(&self) -> String {
        let [a, b] = self.pods;
        format!("{a}.{b}")
    }
}

/// A namespace kept alive by a file it is mounted on.
pub struct Net {
    place: PathBuf,
}

impl Net {
    pub fn at(place: &Path) -> Self {
        Self { place: place.to_owned() }
    }

    pub fn make(&self, site: &Site) -> Result<()> {
        fs::write(&self.place, "").at("write", &self.place)?;
        let mut kept = std::ffi::OsString::from("--net=");
        kept.push(&self.place);
        Run::new("unshare").arg(kept).arg("true").ok()?;
        let address = format!("{}/24", site.gateway());
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

/// The name of the link with this number, in the namespace that the calling thread is in.
pub fn link_at(index: &str) -> Result<String> {
    let links = Run::new("ip").args(["-o", "link", "show"]).ok()?;
    // `7: vb-test-w1@if2: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu 1500 …`
    let mut fields = links.lines().filter_map(|line| line.split_once(": "));
    let name = fields.find(|(number, _)| *number == index).and_then(|(_, rest)| rest.split(['@', ':']).next());
    name.map_or_else(|| said(format!("no link has the number {index}:\n{links}")), |name| Ok(name.to_owned()))
}

/// Takes a link up or down.
pub fn set_link(link: &str, state: &str) -> Result<()> {
    Run::new("ip").args(["link", "set", "dev", link, state]).ok().map(drop)
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
        assert_eq!(USUAL.worker(1), Some(Ipv4Addr::new(10, 123, 0, 21)));
        assert_eq!(USUAL.worker(234), Some(Ipv4Addr::new(10, 123, 0, 254)));
        assert_eq!((USUAL.worker(0), USUAL.worker(235), USUAL.worker(255)), (None, None, None));
        assert_eq!(OTHER.worker(140), None, "that is the control plane's");
    }
}
