//! Bootstrap tokens that a join has made and not revoked yet, by their ids, which are no secret:
//! `/var/lib/carrick/joins/tokens`. Each is written down before it is made: whoever is killed, or leaves kubeadm to its unit,
//! leaves the next join with the same admin to revoke it.

use carrick_host::{File, Host, PathEntry, Trouble, WriteMode};

use super::record;

const LEDGER: &str = "/var/lib/carrick/joins/tokens";

/// `ID SERVER`: an admin of another cluster can do nothing about it.
fn line(id: &str, server: &str) -> String {
    format!("{id} {server}\n")
}

pub(super) async fn note(host: &dyn Host, id: &str, server: &str) -> Result<(), Trouble> {
    record::make_room(host).await?;
    host.write(LEDGER, &File::new(line(id, server), 0o600), WriteMode::Append).await
}

/// Those of one cluster.
pub(super) async fn of(host: &dyn Host, server: &str) -> Result<Vec<String>, Trouble> {
    let all = read(host).await?;
    let of_server = all.lines().filter_map(|line| line.split_once(' ')).filter(|(_, whose)| *whose == server);
    Ok(of_server.map(|(id, _)| id.to_owned()).collect())
}

pub(super) async fn forget(host: &dyn Host, id: &str, server: &str) -> Result<(), Trouble> {
    let all = read(host).await?;
    let others: String = all.split_inclusive('\n').filter(|known| *known != line(id, server)).collect();
    if others.is_empty() {
        return host.remove(LEDGER).await;
    }
    host.write(LEDGER, &File::new(others, 0o600), WriteMode::Replace).await
}

async fn read(host: &dyn Host) -> Result<String, Trouble> {
    match host.look(LEDGER).await? {
        Some(PathEntry::File(file)) => Ok(String::from_utf8_lossy(&file.bytes).into_owned()),
        _ => Ok(String::new()),
    }
}

#[cfg(test)]
mod tests {
    use carrick_testkit::Machine;

    use super::*;

    #[tokio::test]
    async fn what_was_made_is_known_until_it_is_revoked() {
        let machine = Machine::with(&[("/var/lib/x", "")]);
        let (here, there) = ("10.0.0.11:6443", "10.9.9.9:6443");
        for (id, server) in [("aaaaaa", here), ("bbbbbb", there), ("cccccc", here)] {
            note(&machine, id, server).await.unwrap();
        }
        assert_eq!(machine.mode(LEDGER), Some(0o600));
        assert_eq!(of(&machine, here).await.unwrap(), ["aaaaaa", "cccccc"]);
        forget(&machine, "aaaaaa", here).await.unwrap();
        forget(&machine, "bbbbbb", here).await.unwrap();
        assert_eq!(
            (of(&machine, here).await.unwrap(), of(&machine, there).await.unwrap()),
            (vec!["cccccc".to_owned()], vec!["bbbbbb".to_owned()])
        );
        forget(&machine, "bbbbbb", there).await.unwrap();
        forget(&machine, "cccccc", here).await.unwrap();
        assert_eq!(machine.text(LEDGER), None, "nothing is left to know");
    }
}
