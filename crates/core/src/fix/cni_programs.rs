//! A program of the pod network in /opt/cni/bin that is not executable gets mode 0755. What is missing, broken or built for
//! another machine comes from a package or from the pod network, and is left to the operator. `carrick undo` sets the old
//! mode.

use super::Fix;
use crate::check::cni::plugins::USUAL;
use crate::fact::cni::{BIN_DIR, Program};
use crate::fact::{Facts, Known};
use crate::plan::Effect;

pub const FIX: Fix = Fix { fixes: &["cni.plugins"], does: "makes its programs executable", plan };

fn plan(facts: &Facts) -> Known<Vec<Effect>> {
    let winner = facts.cni_winner()?;
    let programs: Vec<&str> = winner.as_ref().map_or_else(|| USUAL.to_vec(), |(_, conf)| conf.programs());
    let mut effects = Vec::new();
    for name in programs {
        match facts.cni_program(name)? {
            Program::Usable => {}
            Program::NotExecutable { path, .. } if path == format!("{BIN_DIR}/{name}") => {
                effects.push(Effect::SetMode { path, mode: 0o755 });
            }
            // With one that cannot be fixed no pod starts all the same.
            _ => return Ok(Vec::new()),
        }
    }
    Ok(effects)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fact::cni::HEADERS;
    use crate::testing::{facts, plans};

    #[test]
    fn a_program_that_is_there_is_made_executable() {
        let with = |bridge: Option<&str>| {
            let entries: Vec<(&str, &str)> = USUAL
                .iter()
                .filter_map(
                    |&name| if name == "bridge" { bridge.map(|mode| (mode, name)) } else { Some(("-rwxr-xr-x", name)) },
                )
                .collect();
            let elf = " 7f 45 4c 46 02 01 01 00 00 00 00 00 00 00 00 00 02 00 3e 00\n";
            let headers: String = entries.iter().map(|(_, name)| format!("/opt/cni/bin/{name}\n{elf}")).collect();
            facts()
                .with_dir("/etc/cni/net.d", &[])
                .with_dir(BIN_DIR, &entries)
                .with_query(&HEADERS, &format!("x86_64\n{headers}"))
        };
        plans(
            &FIX,
            [
                ("usable", with(Some("-rwxr-xr-x")), &[]),
                ("not executable", with(Some("-rw-r--r--")), &["set the mode of /opt/cni/bin/bridge to 0755"]),
                ("missing", with(None), &[]),
            ],
        );
    }
}
