//! What `reset` does to real files: links are found and shown, go alone, and what they lead to stays; of rules only the lines that
//! matter are kept.
#![allow(clippy::unwrap_used)] // What helps a test is a test.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

use carrick_core::reset::chains::{self, find};
use carrick_core::reset::symlinks::{self, Symlink};
use carrick_core::testing::rules::iptables_save;
use carrick_host::{Host, Local, PathEntry};

const BOX: Duration = Duration::from_secs(30);

fn local() -> Local {
    Local::new(BOX)
}

/// The source's own script, looking below another root.
async fn links_below(root: &Path) -> Vec<Symlink> {
    let root = root.to_str().unwrap();
    let mut script = symlinks::LINKED.argv[2].to_owned();
    for place in ["/etc/kubernetes", "/var/lib/kubelet", "/etc/cni"] {
        script = script.replace(place, &format!("{root}{place}"));
    }
    let argv = ["sh", "-c", &script];
    let said = local().run(&argv, BOX).await.unwrap().well(&argv).unwrap();
    let mut links = symlinks::parse(&said.replace(root, ""));
    links.sort_by(|a, b| a.path.cmp(&b.path));
    links
}

#[tokio::test]
async fn every_link_is_found_and_none_is_followed() {
    let root = tempfile::tempdir().unwrap();
    let at = |path: &str| root.path().join(path.trim_start_matches('/'));
    assert_eq!(links_below(root.path()).await, [], "nothing is there");
    for dir in ["/etc/kubernetes/pki", "/var/lib/kubelet/pods/a/volumes/v", "/data/inside", "/etc/cni"] {
        fs::create_dir_all(at(dir)).unwrap();
    }
    symlink(at("/data"), at("/etc/cni/net.d")).unwrap();
    symlink("ca-1.crt", at("/etc/kubernetes/pki/ca.crt")).unwrap();
    symlink(at("/data"), at("/var/lib/kubelet/deep")).unwrap();
    symlink("..data", at("/var/lib/kubelet/pods/a/volumes/v/x")).unwrap();
    symlink("y", at("/data/inside/x")).unwrap();
    let link = |path: &str, target: &str| Symlink { path: path.to_owned(), target: target.to_owned() };
    let found = links_below(root.path()).await;
    assert_eq!(
        found,
        [
            link("/etc/cni/net.d", "/data"),
            link("/etc/kubernetes/pki/ca.crt", "ca-1.crt"),
            link("/var/lib/kubelet/deep", "/data")
        ]
    );
    assert_eq!(symlinks::followed(&found), found.first());
    fs::remove_dir_all(at("/var/lib/kubelet")).unwrap();
    symlink("/nowhere", at("/var/lib/kubelet")).unwrap();
    assert!(
        links_below(root.path()).await.contains(&link("/var/lib/kubelet", "/nowhere")),
        "one that leads nowhere, too"
    );
}

#[tokio::test]
async fn what_is_removed_or_emptied_is_the_link() {
    let root = tempfile::tempdir().unwrap();
    let (dir, data) = (root.path().join("dir"), root.path().join("data"));
    fs::create_dir_all(data.join("deep")).unwrap();
    fs::create_dir_all(dir.join("below")).unwrap();
    fs::write(data.join("deep/film"), "data").unwrap();
    symlink(&data, dir.join("below/link")).unwrap();
    symlink(&data, root.path().join("link")).unwrap();
    let text = |path: &Path| path.to_str().unwrap().to_owned();
    let clear = |path: String| async move {
        let argv = ["find", &path, "-xdev", "-mindepth", "1", "-delete"];
        local().run(&argv, BOX).await.unwrap().well(&argv).unwrap();
    };
    clear(text(&dir)).await;
    clear(text(&root.path().join("link"))).await;
    assert_eq!(fs::read_dir(&dir).unwrap().count(), 0);
    local().remove(&text(&root.path().join("link"))).await.unwrap();
    assert!(!root.path().join("link").exists());
    assert_eq!(fs::read_to_string(data.join("deep/film")).unwrap(), "data");
}

#[tokio::test]
async fn of_twenty_thousand_rules_the_lines_that_matter_are_kept() {
    let root = tempfile::tempdir().unwrap();
    let file = root.path().join("rules").to_str().unwrap().to_owned();
    let hard = "*mangle\n:CNI-1 - [0:0]\n:MINE-KUBE-LIKE - [0:0]\n-A MINE-KUBE-LIKE -m comment --comment \"-j KUBE-X\" -j RETURN\n\
        -A OUTPUT -g FLANNEL-F\n-A CNI-1 -j KUBE-X\nCOMMIT\n*raw\n:KUBE-CUT - [0:0]\n";
    let whole = iptables_save(20_000) + hard;
    fs::write(&file, &whole).unwrap();
    let argv = ["sed", "-i", "-n", "-E", chains::LINES, &file];
    local().run(&argv, BOX).await.unwrap().well(&argv).unwrap();
    let Some(PathEntry::File(kept)) = local().look(&file).await.unwrap() else { panic!("no file") };
    assert!(kept.bytes.len() < whole.len() / 10, "{} of {}", kept.bytes.len(), whole.len());
    assert_eq!(find(&String::from_utf8(kept.bytes).unwrap()), find(&whole));
}
