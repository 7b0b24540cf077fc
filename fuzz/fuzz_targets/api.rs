//! Whatever objects an API server answers with: Nodes, leases, requests, pods are read for what they say, and decided about.
#![no_main]

use carrick_core::fact::identity::MachineIdentity;
use carrick_core::fact::{cluster_network, daemon_sets, node};
use carrick_core::join::observed;
use carrick_core::reset::pods::Pod;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let _ = (
        node::parse(text),
        daemon_sets::parse(text),
        cluster_network::parse(text),
        cluster_network::parse_pod_cidr(text),
    );
    let Ok(object) = serde_json::from_str::<serde_json::Value>(text) else { return };
    let own = MachineIdentity { uuid: Some("u".to_owned()), machine_id: Some("m".to_owned()) };
    let _ = (observed::node(&object, &own), observed::pod_ranges(&object), observed::renewal(&object));
    let _ = (observed::request(&object, "w1", &[]), observed::requests(&object, "w1", |_| true));
    let agents = observed::agents(&object);
    let _ = (observed::network(&object), observed::needs_pod(&object), observed::agent_down(&object));
    let _ = (observed::agents_since(&object), observed::on_its_way(&object), observed::peers(&object, "w1"));
    let _ = (observed::restarted(&agents, &agents), Pod::of(&object).moves());
});
