//! Asking a real containerd over its socket, here and through a real sshd.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)] // What helps a test is a test.

mod support;

use std::fs;
use std::time::{Duration, Instant};

use carrick_core::fact::{Facts, Why};
use carrick_host::{Local, Observation, Probe, cri, gather};
use jiff::Timestamp;
use support::{Containerd, Sshd, path};

const BOX: Duration = Duration::from_secs(5);

async fn ask(probe: &dyn Probe, socket: &str) -> (Vec<Observation>, Facts) {
    let seen = cri::observe(probe, &["/absent/absent.sock", socket], BOX).await;
    let facts = gather("w1", Timestamp::UNIX_EPOCH, seen.clone()).0;
    (seen, facts)
}

fn whys(seen: &[Observation]) -> Vec<(&str, Option<&Why>)> {
    seen.iter().map(|seen| (seen.key.as_str(), seen.capture.as_ref().err())).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn containerd_tells_its_state_here_and_over_ssh() {
    let Some(mut containerd) = Containerd::start("") else { return };
    let socket = containerd.socket();
    let (seen, facts) = ask(&Local::new(BOX), socket).await;
    let status = facts.runtime_status().unwrap();
    assert_eq!(status.endpoint.as_deref(), Some(&*format!("unix://{socket}")));
    assert_eq!(status.condition("RuntimeReady").map(|condition| condition.status), Some(true));
    assert_eq!(status.condition("NetworkReady").map(|condition| condition.status), Some(false));
    assert!(status.last_cni_load.unwrap().contains("no network config found"));
    assert_eq!(status.cni_conf_dir.as_deref(), Some(path(containerd.dir.path(), "net.d")));
    assert_eq!(status.snapshotter.as_deref(), Some("native"));
    assert!(status.sandbox_image.is_some() && status.systemd_cgroup.is_some());
    let text = &facts.cri("status").unwrap().text;
    assert!(text.contains("\"runtimeName\": \"containerd\""), "{text}");
    assert_eq!(facts.runtime_images(), Ok(Vec::new()));
    assert_eq!(facts.running_containers(), Ok(0));
    match facts.runtime_driver() {
        Ok(driver) => assert!(["systemd", "cgroupfs"].contains(&driver.as_str())), // containerd 2 and later.
        Err(missing) => assert!(matches!(missing.why, Why::Unimplemented(_)), "{missing}"),
    }
    // Nobody listens there, and the runtime says so in its own words.
    let pulled = cri::image::pull(&Local::new(BOX), &[socket], "127.0.0.1:1/pause:3.10", BOX).await;
    assert!(matches!(&pulled, Err(Why::Broken(says)) if says.contains("connection refused")), "{pulled:?}");
    if let Some(sshd) = Sshd::start("") {
        let ssh = sshd.connect(BOX).await;
        assert_eq!(ask(&ssh, socket).await.0, seen);
        containerd.crash();
        refused(&ssh, socket).await;
    }
    containerd.crash();
    refused(&Local::new(BOX), socket).await;
}

/// A containerd that died leaves its socket behind.
async fn refused(probe: &dyn Probe, socket: &str) {
    let (seen, _) = ask(probe, socket).await;
    let why = Why::Broken("connection refused".into());
    let keys = ["cri status", "cri runtime-config", "cri images", "cri containers", "cri pods"];
    assert_eq!(whys(&seen), keys.map(|key| (key, Some(&why))));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_containerd_without_cri_says_so() {
    let Some(containerd) = Containerd::start("disabled_plugins = [\"io.containerd.grpc.v1.cri\"]") else { return };
    let (seen, _) = ask(&Local::new(BOX), containerd.socket()).await;
    let service = |name: &str| Why::Unimplemented(format!("unknown service runtime.v1.{name}"));
    let (runtime, image) = (service("RuntimeService"), service("ImageService"));
    let expected = [
        ("cri status", Some(&runtime)),
        ("cri runtime-config", Some(&runtime)),
        ("cri images", Some(&image)),
        ("cri containers", Some(&runtime)),
        ("cri pods", Some(&runtime)),
    ];
    assert_eq!(whys(&seen), expected);
}

#[tokio::test]
async fn where_there_is_no_socket_there_is_no_runtime() {
    let seen = cri::observe(&Local::new(BOX), &["/absent/a.sock", "/absent/b.sock"], BOX).await;
    assert!(whys(&seen).iter().all(|(_, why)| *why == Some(&Why::Absent)), "{seen:?}");
}

#[tokio::test]
async fn a_runtime_that_is_stuck_is_timed_out() {
    let dir = tempfile::tempdir().unwrap();
    let socket = path(dir.path(), "s");
    let _listens_and_says_nothing = std::os::unix::net::UnixListener::bind(socket).unwrap();
    let begun = Instant::now();
    let seen = cri::observe(&Local::new(BOX), &[socket], Duration::from_millis(300)).await;
    assert!(whys(&seen).iter().all(|(_, why)| *why == Some(&Why::TimedOut)), "{seen:?}");
    assert!(begun.elapsed() < Duration::from_secs(2));
}

#[tokio::test]
async fn what_is_not_grpc_is_broken_and_not_waited_for() {
    let dir = tempfile::tempdir().unwrap();
    let socket = path(dir.path(), "s");
    let listener = std::os::unix::net::UnixListener::bind(socket).unwrap();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        std::io::Write::write_all(&mut stream, b"220 this is no runtime\r\n").unwrap();
    });
    let begun = Instant::now();
    let seen = cri::observe(&Local::new(BOX), &[socket], BOX).await;
    assert!(whys(&seen).iter().all(|(_, why)| matches!(why, Some(Why::Broken(_)))), "{seen:?}");
    assert!(begun.elapsed() < Duration::from_secs(2));
    fs::write(dir.path().join("file"), "").unwrap();
    let seen = cri::observe(&Local::new(BOX), &[path(dir.path(), "file")], BOX).await;
    assert_eq!(seen[0].capture, Err(Why::Broken("connection refused".into())));
}
