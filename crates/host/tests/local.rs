//! Looking at this machine: whatever hangs, the rest is there.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)] // What helps a test is a test.

mod support;

use std::fs;
use std::os::unix::net::UnixListener;
use std::time::{Duration, Instant};

use carrick_core::fact::keep::Keep;
use carrick_core::fact::{Source, Why};
use carrick_host::{Local, Observation, Probe, Progress, Target};
use support::{HungMount, alive, fifo, path, query, shell, soon, text};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

async fn observe(time_box: Duration, sources: &[Source]) -> Vec<Observation> {
    Local::new(time_box).observe(sources, &Progress::default()).await
}

const BOX: Duration = Duration::from_secs(5);
const SHORT: Duration = Duration::from_millis(600);

#[tokio::test]
async fn what_is_not_a_file_is_named_and_never_waited_for() {
    let dir = tempfile::tempdir().unwrap();
    fifo(&dir.path().join("fifo"));
    let _socket = UnixListener::bind(dir.path().join("socket")).unwrap();
    let names = ["fifo", "socket", "", "absent", "absent/below"].map(|name| path(dir.path(), name));
    let begun = Instant::now();
    let seen: Vec<_> = observe(BOX, &names.map(Source::File)).await.into_iter().map(|seen| seen.capture).collect();
    let not_a_file = |kind| Err(Why::Broken(format!("is a {kind}, not a file")));
    let absent = Err(Why::Absent);
    assert_eq!(seen, [not_a_file("fifo"), not_a_file("socket"), not_a_file("directory"), absent.clone(), absent]);
    assert!(begun.elapsed() < Duration::from_secs(2));
}

#[tokio::test]
async fn a_device_is_not_opened() {
    let seen = observe(BOX, &[Source::File("/dev/null"), Source::Dir("/dev/null")]).await;
    assert_eq!(seen[0].capture, Err(Why::Broken("is a device, not a file".into())));
    assert_eq!(seen[1].capture, Err(Why::Broken("is a device, not a directory".into())));
}

#[tokio::test]
async fn what_may_not_be_read_is_denied() {
    assert_eq!(observe(BOX, &[Source::File(support::denied())]).await[0].capture, Err(Why::Denied));
}

#[tokio::test]
async fn a_file_that_claims_no_size_is_read_to_its_end() {
    let seen = observe(BOX, &[Source::File("/proc/version")]).await;
    assert!(text(&seen, "file /proc/version").starts_with("Linux version"));
}

#[tokio::test]
async fn a_long_file_is_cut_and_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let long = path(dir.path(), "long");
    fs::File::create(long).unwrap().set_len(1 << 30).unwrap();
    let seen = observe(BOX, &[Source::File(long)]).await;
    let capture = seen[0].capture.as_ref().unwrap();
    assert_eq!(capture.text.len(), 1 << 20);
    assert!(capture.dropped > 0);
}

#[tokio::test]
async fn a_tree_is_its_listing_and_its_files() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("b.conf"), "b\n").unwrap();
    fs::write(dir.path().join(".a"), "a\n").unwrap();
    fs::create_dir(dir.path().join("sub")).unwrap();
    fifo(&dir.path().join("fifo"));
    std::os::unix::fs::symlink("b.conf", dir.path().join("link")).unwrap();
    std::os::unix::fs::symlink("nowhere", dir.path().join("dangling")).unwrap();
    let at = dir.path().to_str().unwrap();
    let seen = observe(BOX, &[Source::Tree(support::leak(at))]).await;
    let keys: Vec<&str> = seen.iter().map(|seen| seen.key.as_str()).collect();
    assert_eq!(
        keys,
        [format!("dir {at}"), format!("file {at}/b.conf"), format!("file {at}/link"), format!("file {at}/.a")]
    );
    assert_eq!(text(&seen, &format!("file {at}/link")), "b\n");
    let listing = text(&seen, &format!("dir {at}"));
    let entries = carrick_core::fact::listing::parse(listing);
    let names: Vec<&str> = entries.iter().map(|entry| entry.name.as_str()).collect();
    assert_eq!(names, [".a", "b.conf", "dangling", "fifo", "link", "sub"]);
    assert_eq!(entries[4].target.as_deref(), Some("b.conf"));
    assert!(entries[5].is_dir() && entries[3].mode.starts_with('p'));
}

#[tokio::test]
async fn an_absent_tree_is_one_observation() {
    let seen = observe(BOX, &[Source::Tree("/absent"), Source::Dir("/etc/passwd")]).await;
    assert_eq!((seen.len(), &seen[0].capture), (2, &Err(Why::Absent)));
    assert_eq!(seen[1].capture, Err(Why::Broken("is a file, not a directory".into())));
}

#[tokio::test]
async fn a_hung_command_is_killed_with_all_it_began_and_delays_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let pids = path(dir.path(), "pids");
    let hung = format!("echo $$ >>{pids}; sleep 1000 & echo $! >>{pids}; wait");
    let mut sources: Vec<Source> = (0..20).map(|number| shell(&format!("hung {number}"), &hung)).collect();
    sources.extend([shell("quick", "echo here"), Source::File("/proc/version")]);
    let (local, progress) = (Local::new(SHORT), Progress::default());
    let begun = Instant::now();
    let looking = local.observe(&sources, &progress);
    let watching = async {
        // Where the quick one waited for a hung one, it would not be there yet.
        while progress.now().pending.iter().any(|name| name == "quick") {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        begun.elapsed()
    };
    let (seen, quick) = tokio::join!(looking, watching);
    assert!(quick < SHORT, "{quick:?}");
    assert!(begun.elapsed() < SHORT * 5, "{:?}", begun.elapsed());
    assert_eq!(*support::seen(&seen, "query hung 19"), Err(Why::TimedOut));
    assert_eq!(text(&seen, "query quick"), "here\n");
    let pids: Vec<u32> = fs::read_to_string(pids).unwrap().lines().map(|pid| pid.parse().unwrap()).collect();
    assert!(pids.len() > 20, "{pids:?}");
    assert!(soon(|| !pids.iter().any(|&pid| alive(pid))), "some are left of {pids:?}");
    assert_eq!(progress.now().to_string(), "22 of 22");
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_are_killed_when_nobody_waits_for_them_any_more() {
    let dir = tempfile::tempdir().unwrap();
    let file = path(dir.path(), "pid");
    let sources = [shell("hung", &format!("echo $$ >{file}; sleep 1000"))];
    let (local, progress) = (Local::new(BOX), Progress::default());
    let left = tokio::time::timeout(Duration::from_millis(500), local.observe(&sources, &progress)).await;
    assert!(left.is_err());
    let pid = fs::read_to_string(file).unwrap().trim().parse().unwrap();
    assert!(soon(|| !alive(pid)));
}

#[tokio::test]
async fn a_child_left_behind_with_our_pipe_in_its_hands_is_not_waited_for() {
    let sources = [shell("left", "sleep 1000 & echo done"), shell("setsid", "setsid sleep 3 & echo done")];
    let begun = Instant::now();
    let seen = observe(BOX, &sources).await;
    assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
    for key in ["query left", "query setsid"] {
        assert_eq!((text(&seen, key), support::seen(&seen, key).as_ref().unwrap().exit), ("done\n", Some(0)));
    }
}

#[tokio::test]
async fn a_command_that_closes_its_output_is_still_waited_for() {
    let seen = observe(BOX, &[shell("closed", "exec >&- 2>&-; sleep 0.3; exit 7")]).await;
    assert_eq!(support::seen(&seen, "query closed").as_ref().unwrap().exit, Some(7));
}

#[tokio::test]
async fn more_than_is_kept_is_read_to_the_end_all_the_same() {
    let sources = [
        query("head", &["seq", "1", "400000"], Keep::Head(100)),
        query("ends", &["seq", "1", "400000"], Keep::Ends { head: 10, tail: 14 }),
    ];
    let seen = observe(BOX, &sources).await;
    let head = support::seen(&seen, "query head").as_ref().unwrap();
    assert_eq!((head.text.len(), head.exit), (100, Some(0)));
    assert!(head.dropped > 2_000_000);
    assert_eq!(text(&seen, "query ends"), "1\n2\n3\n4\n5\n400000\n");
}

#[tokio::test]
async fn a_command_gets_no_input_and_only_the_environment_it_needs() {
    let seen =
        observe(BOX, &[query("cat", &["cat"], Keep::Head(10)), shell("env", "env; echo PATH=$PATH; ulimit -c")]).await;
    assert_eq!(text(&seen, "query cat"), "");
    let env = text(&seen, "query env");
    assert!(env.contains("LC_ALL=C\n") && env.contains(":/usr/sbin:/sbin\n"), "{env}");
    assert!(!env.contains("CARGO"), "{env}");
}

#[tokio::test]
async fn a_command_that_is_not_there_is_no_tool() {
    let seen = observe(
        BOX,
        &[query("absent", &["carrick-no-such-tool"], Keep::Head(10)), shell("inside", "carrick-no-such-tool")],
    )
    .await;
    assert_eq!((&seen[0].capture, &seen[1].capture), (&Err(Why::NoTool), &Err(Why::NoTool)));
}

#[test]
fn a_stopped_fuse_costs_its_own_facts_and_the_program_still_ends() {
    let dir = tempfile::tempdir().unwrap();
    let Some(hung) = HungMount::mount(dir.path()) else { return };
    let sources = [
        Source::File(path(dir.path(), "file")),
        Source::Tree(support::leak(dir.path().to_str().unwrap())),
        query("ls", &["ls", support::leak(dir.path().to_str().unwrap())], Keep::Head(10)),
        Source::File("/proc/version"),
    ];
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let begun = Instant::now();
    let seen = runtime.block_on(observe(SHORT, &sources));
    let captures: Vec<_> = seen.into_iter().map(|seen| seen.capture.map(|_| ())).collect();
    let out = Err(Why::TimedOut);
    assert_eq!(captures, [out.clone(), out.clone(), out, Ok(())]);
    runtime.shutdown_background();
    assert!(begun.elapsed() < SHORT * 4, "{:?}", begun.elapsed());
    drop(hung);
}

#[tokio::test]
async fn names_are_resolved_as_the_machine_does() {
    let local = Local::new(BOX);
    assert!(local.resolve("localhost").await.unwrap().iter().all(std::net::IpAddr::is_loopback));
    assert_eq!(local.resolve("10.0.0.1").await, Ok(vec!["10.0.0.1".parse().unwrap()]));
    assert_eq!(local.resolve("-s files").await, Err(Why::Broken("\"-s files\" is not a DNS name".into())));
}

#[tokio::test]
async fn connects_to_addresses_and_to_sockets() {
    let dir = tempfile::tempdir().unwrap();
    let listener = tokio::net::UnixListener::bind(dir.path().join("s")).unwrap();
    let target = Target::Unix(path(dir.path(), "s").to_owned());
    let local = Local::new(BOX);
    let (stream, accepted) = tokio::join!(local.connect(&target), listener.accept());
    let (mut stream, mut other) = (stream.unwrap(), accepted.unwrap().0);
    stream.write_all(b"ping").await.unwrap();
    let mut heard = [0; 4];
    other.read_exact(&mut heard).await.unwrap();
    assert_eq!(&heard, b"ping");
    let absent = Target::Unix(path(dir.path(), "absent").to_owned());
    assert_eq!(local.connect(&absent).await.err().map(|error| error.kind()), Some(std::io::ErrorKind::NotFound));
}

#[tokio::test]
async fn the_runtimes_and_the_clusters_answers_are_not_the_probes() {
    let seen = observe(BOX, &[Source::Cri("status"), Source::Api("version")]).await;
    assert!(seen.is_empty());
}
