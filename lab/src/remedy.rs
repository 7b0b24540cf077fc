//! What a join that failed tells a person to do, done as it was printed: the commands under its first cause, each on the machine that
//! it names. Doing that has to be enough.

use crate::cluster::Cluster;
use crate::demand;
use crate::error::Result;
use crate::machine::Machine;

/// Where an admin types on the control plane.
const KUBECTL: &str = "/usr/local/bin/kubectl";
const ADMIN: &str = "KUBECONFIG=/etc/kubernetes/admin.conf";

/// The commands under the first cause, as they stand on the screen.
pub fn printed(text: &str) -> Vec<&str> {
    let failed = text.lines().skip_while(|line| !line.starts_with("  !!  ")).skip(1);
    let is_cause = |line: &&str| line.starts_with("      ") && !line.starts_with("       ");
    let under = failed.skip_while(|line| !is_cause(line)).skip(1).take_while(|line| line.starts_with("        "));
    under.filter_map(|line| line.strip_prefix("        fix    ")).collect()
}

/// Carries them out; the join line, where one of them printed one. What is marked as an alternative is left to those who need it.
pub fn carry_out(cluster: &Cluster, machine: &Machine, text: &str) -> Result<Option<String>> {
    let commands = printed(text);
    demand!(!commands.is_empty(), "no remedy is printed under the first cause:\n{text}");
    let mut line = None;
    for remedy in commands {
        let (command, comment) = remedy.split_once("    # ").unwrap_or((remedy, ""));
        if comment.starts_with("or ") {
            continue;
        }
        let on_control = comment.contains("control plane") || command.starts_with("kubectl");
        let shell = ["env", ADMIN, "sh", "-c", command];
        let run = if on_control { cluster.control.run(shell) } else { machine.run(["sh", "-c", command]) };
        let said = run.done()?;
        demand!(said.status.success(), "the remedy {command:?} ended with {}:\n{}", said.code(), said.text());
        line = said.out.lines().find(|line| line.starts_with("kubeadm join ")).map(str::to_owned).or(line);
    }
    Ok(line)
}

/// Gives the control plane its kubectl: an admin has one there.
pub fn bring_kubectl(cluster: &Cluster) -> Result<()> {
    let there = cluster.control.run(["test", "-x", KUBECTL]).done()?.status.success();
    if there { Ok(()) } else { cluster.control.replace(KUBECTL, cluster.kubectl_program()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_commands_of_the_first_cause_are_those_that_are_printed() {
        let text = "  ok  looked\n  !!  looking       no\n      api.token-group certain\n        seen   x\n        fix    kubeadm token create    # on the control plane\n        fix    b\n      machine.swap certain\n        fix    c\nNot joined.\n";
        assert_eq!(printed(text), ["kubeadm token create    # on the control plane", "b"]);
        assert_eq!(printed("nothing\n"), [""; 0]);
    }
}
