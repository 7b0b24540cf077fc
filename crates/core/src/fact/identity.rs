//! Who a machine is: its names, its ids, its addresses, and who is asking.

use std::collections::BTreeSet;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::keep::USUAL;
use super::{Facts, Known, Missing, OrAbsent, Query, Source, Why};

/// What the machine's own name leads to, asked as the kubelet would: hosts file, DNS and all.
pub const OWN_NAME: Query = Query {
    name: "getent ahosts $(hostname)",
    argv: &["sh", "-c", r#"exec getent ahosts "$(cat /proc/sys/kernel/hostname)""#],
    keep: USUAL,
};
pub const USER: Query = Query { name: "id -u", argv: &["id", "-u"], keep: USUAL };

pub const HOSTNAME: &str = "/proc/sys/kernel/hostname";
pub const MACHINE_ID: &str = "/etc/machine-id";
pub const DBUS_MACHINE_ID: &str = "/var/lib/dbus/machine-id";
pub const PRODUCT_UUID: &str = "/sys/class/dmi/id/product_uuid";
const FIB_TRIE: &str = "/proc/net/fib_trie";
const IF_INET6: &str = "/proc/net/if_inet6";
pub const FIRST_PROCESS: &str = "/proc/1/comm";

pub const SOURCES: &[Source] = &[
    Source::File(HOSTNAME),
    Source::File(MACHINE_ID),
    Source::File(DBUS_MACHINE_ID),
    Source::File(PRODUCT_UUID),
    Source::File(FIB_TRIE),
    Source::File(IF_INET6),
    Source::File(FIRST_PROCESS),
    Source::Query(&OWN_NAME),
    Source::Query(&USER),
];

/// The addresses of `getent ahosts`, each once, in the order of the resolver's preference.
pub fn parse_ahosts(text: &str) -> Vec<IpAddr> {
    let mut found = Vec::new();
    for address in text.lines().filter_map(first_address) {
        if !found.contains(&address) {
            found.push(address);
        }
    }
    found
}

/// An IPv6 address may carry its interface: `fe80::1%eth0`.
fn first_address(line: &str) -> Option<IpAddr> {
    line.split_whitespace().next()?.split('%').next()?.parse().ok()
}

/// The addresses marked `host LOCAL` in `/proc/net/fib_trie`: those of this machine.
pub fn parse_fib_trie(text: &str) -> BTreeSet<Ipv4Addr> {
    let mut found = BTreeSet::new();
    let mut leaf: Option<Ipv4Addr> = None;
    for line in text.lines().map(str::trim) {
        if let Some(address) = line.strip_prefix("|-- ") {
            leaf = address.trim().parse().ok();
        } else if line.starts_with("/32 host LOCAL") {
            found.extend(leaf);
        }
    }
    found
}

/// The addresses of `/proc/net/if_inet6`: 32 hexadecimal digits at the start of each line.
pub fn parse_if_inet6(text: &str) -> BTreeSet<Ipv6Addr> {
    let digits = text.lines().filter_map(|line| line.split_whitespace().next());
    let bits = digits.filter(|digits| digits.len() == 32).filter_map(|digits| u128::from_str_radix(digits, 16).ok());
    bits.map(Ipv6Addr::from_bits).collect()
}

/// What tells this machine from every other, as far as it has it: what many machines share is left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineIdentity {
    pub uuid: Option<String>,
    pub machine_id: Option<String>,
}

impl MachineIdentity {
    /// Whether a Node with this `systemUUID` and `machineID` is this machine; `None` where nothing can be compared.
    ///
    /// The firmware's UUID decides: a machine that was set up anew keeps it, a clone with a copied machine-id does not have it.
    pub fn is(&self, system_uuid: &str, machine_id: &str) -> Option<bool> {
        let (uuid, id) = (system_uuid.to_lowercase(), machine_id.to_lowercase());
        // Without firmware tables the kubelet gives the machine-id as the UUID, too.
        let by_uuid = self.uuid.as_ref().filter(|_| !is_shared_uuid(&uuid)).map(|own| *own == uuid);
        let by_id = self.machine_id.as_ref().filter(|_| is_machine_id(&id)).map(|own| *own == id);
        by_uuid.or(by_id)
    }

    /// The Node has this machine's UUID and another machine-id: this machine was set up anew since, or a second one shares the
    /// UUID, as all guests of one container host do.
    pub fn has_another_machine_id(&self, system_uuid: &str, machine_id: &str) -> bool {
        let differs = |own: &String| is_machine_id(machine_id) && !own.eq_ignore_ascii_case(machine_id);
        self.is(system_uuid, machine_id) == Some(true) && self.machine_id.as_ref().is_some_and(differs)
    }
}

impl fmt::Display for MachineIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |part: &Option<String>| part.clone().unwrap_or_else(|| "none of its own".to_owned());
        write!(f, "systemUUID {}, machineID {}", shown(&self.uuid), shown(&self.machine_id))
    }
}

/// What firmware vendors ship where the board's maker was to fill in a UUID of its own.
const SHARED_UUIDS: [&str; 5] = [
    "03000200-0400-0500-0006-000700080009", // AMI's default, on Gigabyte, Intel NUC and many mini PCs
    "12345678-1234-5678-90ab-cddeefaabbcc", // Shuttle, Jetway
    "12345678-1234-1234-1234-123456789abc",
    "00020003-0004-0005-0006-000700080009", // AMI's default in the other byte order
    "4c4c4544-0000-2010-8020-80c04f202020", // Dell without a service tag
];

/// A UUID that says nothing: empty, all of one digit, or a vendor's default.
pub fn is_shared_uuid(uuid: &str) -> bool {
    let lower = uuid.to_lowercase();
    let filled_with = |digit: u8| lower.bytes().filter(|byte| *byte != b'-').all(|found| found == digit);
    filled_with(b'0') || filled_with(b'f') || SHARED_UUIDS.contains(&lower.as_str())
}

/// 32 hexadecimal digits, not all of them zero.
pub fn is_machine_id(id: &str) -> bool {
    id.len() == 32 && id.bytes().all(|digit| digit.is_ascii_hexdigit()) && id.bytes().any(|digit| digit != b'0')
}

impl Facts {
    pub fn identity(&self) -> Known<MachineIdentity> {
        Ok(MachineIdentity {
            uuid: self.product_uuid()?.map(|uuid| uuid.to_lowercase()).filter(|uuid| !is_shared_uuid(uuid)),
            machine_id: self.machine_id()?.map(|id| id.to_lowercase()).filter(|id| is_machine_id(id)),
        })
    }

    /// The name the kernel goes by.
    pub fn hostname(&self) -> Known<String> {
        Ok(self.file(HOSTNAME)?.text.trim().to_owned())
    }

    /// The name the Node gets unless told otherwise: kubeadm and the kubelet trim the host name and lower its case.
    pub fn node_name(&self) -> Known<String> {
        Ok(self.hostname()?.to_lowercase())
    }

    /// What `/etc/machine-id` holds, possibly nothing; `None` where there is no such file.
    pub fn machine_id(&self) -> Known<Option<String>> {
        self.trimmed(MACHINE_ID)
    }

    /// D-Bus's copy of the machine id: most often a link to the first, or not there.
    pub fn dbus_machine_id(&self) -> Known<Option<String>> {
        self.trimmed(DBUS_MACHINE_ID)
    }

    /// The UUID in the firmware's tables; `None` where the machine has none (many ARM boards, containers).
    pub fn product_uuid(&self) -> Known<Option<String>> {
        self.trimmed(PRODUCT_UUID)
    }

    /// The addresses the machine's own name resolves to; empty where it does not resolve.
    pub fn own_name_addresses(&self) -> Known<Vec<IpAddr>> {
        let capture = self.query(&OWN_NAME)?;
        match capture.exit {
            // The shell could not find getent.
            Some(127) => Err(Missing { source_name: OWN_NAME.name.to_owned(), why: Why::NoTool }),
            // 2 is getent's "not found".
            Some(0 | 2) | None => Ok(parse_ahosts(&capture.text)),
            Some(exit) => Err(Missing::broken(OWN_NAME.name, format!("ended with status {exit}"))),
        }
    }

    /// The addresses this machine answers to, from the kernel's own tables.
    pub fn bound_addresses(&self) -> Known<BTreeSet<IpAddr>> {
        let mut found: BTreeSet<IpAddr> =
            parse_fib_trie(&self.file(FIB_TRIE)?.text).into_iter().map(IpAddr::V4).collect();
        // Not there where IPv6 is switched off.
        if let Some(v6) = self.file(IF_INET6).or_absent()? {
            found.extend(parse_if_inet6(&v6.text).into_iter().map(IpAddr::V6));
        }
        if found.is_empty() {
            return Err(Missing::broken(FIB_TRIE, "names no address of this machine"));
        }
        Ok(found)
    }

    /// Who is asking: 0 is root.
    pub fn uid(&self) -> Known<u32> {
        let said = self.query(&USER)?.text.trim();
        said.parse().map_err(|_| Missing::broken(USER.name, format!("printed {said:?}, not a number")))
    }

    /// What runs as the first process.
    pub fn first_process(&self) -> Known<String> {
        Ok(self.file(FIRST_PROCESS)?.text.trim().to_owned())
    }

    fn trimmed(&self, path: &str) -> Known<Option<String>> {
        Ok(self.file(path).or_absent()?.map(|capture| capture.text.trim().to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::facts;
    use proptest::prelude::*;

    const TRIE: &str = "\
Main:
  +-- 0.0.0.0/0 3 0 5
     |-- 0.0.0.0
        /0 universe UNICAST
     +-- 127.0.0.0/8 2 0 2
        +-- 127.0.0.0/31 1 0 0
           |-- 127.0.0.0
              /8 host LOCAL
           |-- 127.0.0.1
              /32 host LOCAL
        |-- 127.255.255.255
           /32 link BROADCAST
     +-- 192.168.4.0/24 2 0 2
        |-- 192.168.4.61
           /32 host LOCAL
        |-- 192.168.4.255
           /32 link BROADCAST
";
    const INET6: &str = "\
fe8000000000000000fc00fffe000001 02 40 20 80     eth0
00000000000000000000000000000001 01 80 10 80       lo
";

    #[test]
    fn knows_the_addresses_of_the_machine() {
        let both = facts().with_file(FIB_TRIE, TRIE).with_file(IF_INET6, INET6);
        let shown: Vec<String> = both.bound_addresses().unwrap().iter().map(ToString::to_string).collect();
        assert_eq!(shown, ["127.0.0.1", "192.168.4.61", "::1", "fe80::fc:ff:fe00:1"]);
        let four = facts().with_file(FIB_TRIE, TRIE).without_file(IF_INET6);
        assert_eq!(four.bound_addresses().unwrap().len(), 2);
        let none = facts().with_file(FIB_TRIE, "").without_file(IF_INET6);
        assert!(none.bound_addresses().is_err());
    }

    #[test]
    fn reads_what_getent_prints() {
        let text = "127.0.1.1       STREAM w1.lab w1\n127.0.1.1       DGRAM  \n127.0.1.1       RAW    \n\
                    fe80::1%eth0    STREAM\n";
        let shown: Vec<String> = parse_ahosts(text).iter().map(ToString::to_string).collect();
        assert_eq!(shown, ["127.0.1.1", "fe80::1"]);
    }

    #[test]
    fn tells_a_name_that_does_not_resolve_from_a_missing_getent() {
        assert_eq!(facts().with_exit(&OWN_NAME, 2, "", "").own_name_addresses(), Ok(vec![]));
        let no_tool = facts().with_exit(&OWN_NAME, 127, "", "sh: 1: exec: getent: not found").own_name_addresses();
        assert_eq!(no_tool.unwrap_err().why, Why::NoTool);
        assert!(facts().with_exit(&OWN_NAME, 1, "", "").own_name_addresses().is_err());
    }

    #[test]
    fn a_uuid_alone_does_not_tell_guests_of_one_host_apart() {
        let (uuid, id, other) = ("4c4c4544-0042-4a10-8034-b7c04f4d3732", "a".repeat(32), "b".repeat(32));
        let own = MachineIdentity { uuid: Some(uuid.to_owned()), machine_id: Some(id.clone()) };
        for (name, node_uuid, node_id, is, another) in [
            ("this machine", uuid, id.as_str(), Some(true), false),
            ("set up anew, or a second guest", uuid, &other, Some(true), true),
            ("no machine-id", uuid, "", Some(true), false),
            ("another machine", "00000000-0000-0000-0000-0000000000aa", &other, Some(false), false),
            ("no UUID of its own", "", &id, Some(true), false),
        ] {
            assert_eq!(
                (own.is(node_uuid, node_id), own.has_another_machine_id(node_uuid, node_id)),
                (is, another),
                "{name}"
            );
        }
    }

    #[test]
    fn a_node_is_called_in_lower_case() {
        assert_eq!(facts().with_file(HOSTNAME, "StorageNode-T3500\n").node_name().unwrap(), "storagenode-t3500");
    }

    proptest! {
        #[test]
        fn any_text_is_read(text in ".*", lines in "([0-9a-f:. |/-]{0,40}\n){0,5}") {
            for text in [&text, &lines] {
                parse_ahosts(text);
                parse_fib_trie(text);
                parse_if_inet6(text);
            }
            let _ = facts().with_query(&USER, &text).uid();
        }
    }
}
