//! /etc/cni/net.d is made, root's, with mode 0755, and containerd restarted so that it watches the new directory; containers
//! go on running. Where everybody may write to it, its mode is set to 0755. Another owner than root is somebody's choice, and
//! stays. `carrick undo` removes the directory while it is empty, or sets the old mode.

use super::Fix;
use super::runtime::reads_anew;
use crate::fact::cni::CONF_DIR;
use crate::fact::{Facts, Known};
use crate::plan::Effect;

pub const FIX: Fix = Fix { fixes: &["cni.directory"], does: "makes /etc/cni/net.d root's to write, and watched", plan };

fn plan(facts: &Facts) -> Known<Vec<Effect>> {
    if facts.cni_conf_dir() != CONF_DIR {
        return Ok(Vec::new());
    }
    let Some(entry) = facts.entry("/etc/cni", "net.d")? else {
        let make = |path: &str| Effect::MakeDir { path: path.to_owned(), mode: 0o755 };
        let mut effects = vec![make("/etc/cni"), make(CONF_DIR)];
        effects.extend(reads_anew(facts)?);
        return Ok(effects);
    };
    let writable_by_all = entry.is_dir() && entry.mode.as_bytes().get(8) == Some(&b'w');
    let mode = (writable_by_all && entry.uid == 0).then(|| Effect::SetMode { path: CONF_DIR.to_owned(), mode: 0o755 });
    Ok(mode.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::super::runtime::sample::{RESTART, machine};
    use super::*;
    use crate::fact::containerd_config::sample::version_2;
    use crate::testing::plans;

    #[test]
    fn the_directory_is_there_and_roots() {
        let with = |mode: &str| machine(&version_2(true), &version_2(true)).with_dir("/etc/cni", &[(mode, "net.d")]);
        let none = || with("drwxr-xr-x").with_dir("/etc/cni", &[]);
        let made =
            ["make the directory /etc/cni (mode 0755)", "make the directory /etc/cni/net.d (mode 0755)", RESTART];
        let foreign = "drwxrwxrwx 1000 1000 4096 1763228400 net.d\t\n";
        let mut somebodys = none();
        somebodys.insert("dir /etc/cni".to_owned(), Ok(crate::fact::Capture::text(foreign)));
        let elsewhere = version_2(true).replace(CONF_DIR, "/var/lib/cni/net.d");
        plans(
            &FIX,
            [
                ("there", with("drwxr-xr-x"), &[]),
                ("not there", none(), &made),
                ("nor the one above", none().without_dir("/etc/cni"), &made),
                ("everybody's", with("drwxrwxrwx"), &["set the mode of /etc/cni/net.d to 0755"]),
                ("a link", with("lrwxrwxrwx"), &[]),
                ("a file", with("-rw-rw-rw-"), &[]),
                ("another user's", somebodys, &[]),
                ("containerd looks elsewhere", machine(&elsewhere, &elsewhere).with_dir("/etc/cni", &[]), &[]),
            ],
        );
    }
}
