//! Where a vxlan sends what is for other nodes: the kernel's forwarding database, as `bridge -j fdb` tells it.

use std::net::IpAddr;

use serde_json::Value;

use super::keep::NETWORK_TABLE;
use super::{Facts, Known, Missing, Query, Source};

pub const FDB: Query =
    Query { name: "bridge -j fdb show", argv: &["bridge", "-j", "fdb", "show"], keep: NETWORK_TABLE };

pub const SOURCES: &[Source] = &[Source::Query(&FDB)];

/// The far end of a tunnel: another node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TunnelPeer {
    /// The vxlan that sends there.
    pub link: String,
    pub address: IpAddr,
}

pub fn parse(text: &str) -> Result<Vec<TunnelPeer>, String> {
    if text.trim().is_empty() {
        return Ok(Vec::new());
    }
    let entries: Vec<Value> = serde_json::from_str(text).map_err(|error| format!("not JSON: {error}"))?;
    let peer = |entry: &Value| {
        let address = entry.get("dst")?.as_str()?.parse::<IpAddr>().ok().filter(|address| !address.is_multicast())?;
        Some(TunnelPeer { link: entry.get("ifname")?.as_str()?.to_owned(), address })
    };
    Ok(entries.iter().filter_map(peer).collect())
}

impl Facts {
    /// The nodes that this one's tunnels send to.
    pub fn tunnel_peers(&self) -> Known<Vec<TunnelPeer>> {
        let said = self.query(&FDB)?;
        if said.exit.is_some_and(|exit| exit != 0) {
            return Err(Missing::broken(FDB.name, said.errors.lines().next().unwrap_or("ended with an error")));
        }
        parse(&said.text).map_err(|detail| Missing::broken(FDB.name, detail))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::facts;

    /// iproute2 6.1 on a node with flannel.
    const NODE: &str = r#"[{"mac":"33:33:00:00:00:01","ifname":"eth0","flags":["self"],"state":"permanent"},
        {"mac":"5e:8d:1c:2f:aa:01","ifname":"flannel.1","dst":"10.0.0.11","flags":["self"],"state":"permanent"},
        {"mac":"00:00:00:00:00:00","ifname":"vxlan0","dst":"239.1.1.1","flags":["self"],"state":"permanent"}]"#;

    #[test]
    fn only_the_far_ends_of_tunnels_are_peers() {
        let peers = facts().with_query(&FDB, NODE).tunnel_peers().unwrap();
        assert_eq!(peers, [TunnelPeer { link: "flannel.1".into(), address: IpAddr::from([10, 0, 0, 11]) }]);
        assert_eq!(facts().with_query(&FDB, "").tunnel_peers(), Ok(Vec::new()));
        assert!(facts().with_exit(&FDB, 255, "", "RTNETLINK answers: Operation not supported").tunnel_peers().is_err());
        assert!(facts().tunnel_peers().is_err());
    }

    proptest! {
        #[test]
        fn any_text_is_a_table_or_not(text in "(\\[\\{\"dst\":|.)*") {
            let _ = parse(&text);
        }
    }
}
