//! Files of /etc/cni/net.d and what goes with them: read, or refused with a reason, and linted either way.
#![no_main]

use carrick_core::cni::lint;
use carrick_core::fact::cni::{parse_conf, parse_headers, parse_subnet_env};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    for name in ["10-flannel.conflist", "10-mine.conf", "x.json", "x"] {
        let _ = parse_conf(name, text);
        assert!(!lint::file(&format!("/etc/cni/net.d/{name}"), text).findings.is_empty());
    }
    let _ = (parse_headers(text), parse_subnet_env(text));
});
