//! br_netfilter is loaded, where the running kernel has it. (overlay is loaded by the kernel when it is first used.) Nothing
//! unloads a module again: `carrick undo` leaves it loaded until the next boot.

use super::Fix;
use crate::fact::modules::Module;
use crate::fact::sysctl::BRIDGE_IPTABLES;
use crate::fact::{Facts, Known};
use crate::plan::Effect;

pub const FIX: Fix = Fix { fixes: &["kernel.modules"], does: "loads br_netfilter", plan };

fn plan(facts: &Facts) -> Known<Vec<Effect>> {
    let at_work = facts.sysctl(BRIDGE_IPTABLES)?.is_some();
    let loadable = !at_work && matches!(facts.module("br_netfilter")?, Module::Loadable(_));
    Ok(loadable.then(|| Effect::LoadModule { name: "br_netfilter".to_owned() }).into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fact::modules::{AT_HAND, LOADED};
    use crate::testing::{facts, plans};

    #[test]
    fn a_module_is_loaded_where_the_kernel_has_it() {
        const NF: &str = "/proc/sys/net/bridge/bridge-nf-call-iptables";
        let with = |tree: &str| facts().with_file(LOADED, "").without_file(NF).with_query(&AT_HAND, tree);
        let dep = "/lib/modules/6.1/modules.dep:kernel/net/bridge/br_netfilter.ko:\n";
        plans(
            &FIX,
            [
                ("loadable", with(dep), &["load the kernel module br_netfilter"]),
                ("at work", with(dep).with_file(NF, "0\n"), &[]),
                ("loaded", with(dep).with_file(LOADED, "br_netfilter 1 0 - Live 0x0\n"), &[]),
                ("built in", with(&dep.replace("modules.dep", "modules.builtin")), &[]),
                ("not there", with(""), &[]),
                ("upgraded, not rebooted", with("absent /lib/modules/6.1\n"), &[]),
            ],
        );
    }
}
