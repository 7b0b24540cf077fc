//! /etc/modules-load.d/carrick.conf names br_netfilter, so that systemd loads it at every boot. `carrick undo` removes the
//! file.

use super::{Fix, MARK, own_file};
use crate::fact::modules::Module;
use crate::fact::{Facts, Known};
use crate::plan::Effect;

pub const FIX: Fix =
    Fix { fixes: &["kernel.modules-after-boot"], does: "lists it in /etc/modules-load.d/carrick.conf", plan };

fn plan(facts: &Facts) -> Known<Vec<Effect>> {
    let is_module = matches!(facts.module("br_netfilter")?, Module::Loaded | Module::Loadable(_));
    if !is_module || facts.module_at_boot("br_netfilter")?.is_some() {
        return Ok(Vec::new());
    }
    Ok(own_file(facts, "/etc/modules-load.d", "carrick.conf", format!("{MARK}br_netfilter\n")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fact::modules::LOADED;
    use crate::testing::{facts, plans};

    #[test]
    fn a_module_is_listed_once() {
        const DIR: &str = "/etc/modules-load.d";
        let loaded = || {
            facts()
                .with_file(LOADED, "br_netfilter 1 0 - Live 0x0\n")
                .with_dir(DIR, &[])
                .without_dir("/run/modules-load.d")
                .without_dir("/usr/lib/modules-load.d")
                .without_file("/etc/modules")
        };
        let listed = loaded().with_dir(DIR, &[("-rw-r--r--", "k8s.conf")]);
        let listed = listed.with_file("/etc/modules-load.d/k8s.conf", "br_netfilter\n");
        plans(
            &FIX,
            [
                ("not listed", loaded(), &["write /etc/modules-load.d/carrick.conf"]),
                (
                    "no directory",
                    loaded().without_dir(DIR),
                    &["make the directory /etc/modules-load.d (mode 0755)", "write /etc/modules-load.d/carrick.conf"],
                ),
                ("listed by another", listed, &[]),
            ],
        );
    }
}
