//! Looking over a real sshd: the same facts as from the machine itself, and a clear word where it cannot be.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)] // What helps a test is a test.

mod support;

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::time::{Duration, Instant};

use carrick_core::fact::keep::{Keep, USUAL};
use carrick_core::fact::{Source, Why};
use carrick_host::{
    File, Host, Local, Locked, Observation, PathEntry, Probe, Progress, Ssh, SshOptions, Target, WriteMode,
};
use jiff::Timestamp;
use support::{Sshd, fifo, kill, leak, path, program, query, seen, shell, text};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const BOX: Duration = Duration::from_secs(5);
const SHORT: Duration = Duration::from_secs(1);

async fn observe(probe: &dyn Probe, sources: &[Source]) -> Vec<Observation> {
    probe.observe(sources, &Progress::default()).await
}

/// Everything that can stand where a file or a directory is looked for.
fn places(dir: &Path) -> Vec<Source> {
    let write = |name: &str, text: &[u8]| fs::write(dir.join(name), text).unwrap();
    write("plain", b"one\ntwo\n");
    write("unended", b"no line end");
    write("empty", b"");
    write("binary", &(0..=255).cycle().take(10_000).collect::<Vec<u8>>());
    write("long", "a line of a long file\n".repeat(100_000).as_bytes());
    write("it's \"a\" $(name) `x` \\ *", b"quoted\n");
    fifo(&dir.join("fifo"));
    let _socket = UnixListener::bind(dir.join("socket")).unwrap();
    std::os::unix::fs::symlink("plain", dir.join("link")).unwrap();
    std::os::unix::fs::symlink("nowhere", dir.join("dangling")).unwrap();
    std::os::unix::fs::symlink("loop", dir.join("loop")).unwrap();
    fs::create_dir_all(dir.join("empty dir")).unwrap();
    fs::create_dir_all(dir.join("tree/sub")).unwrap();
    for name in ["10-a.conf", "20 b.conf", "it's.conf", ".hidden", "..odd", "two\nlines", "ta\tb", "ä"] {
        write(&format!("tree/{name}"), format!("content of {name}").as_bytes());
    }
    std::os::unix::fs::symlink("../plain", dir.join("tree/link")).unwrap();
    std::os::unix::fs::symlink("nowhere", dir.join("tree/dangling")).unwrap();
    std::os::unix::fs::symlink("sub", dir.join("tree/to-dir")).unwrap();
    fifo(&dir.join("tree/fifo"));
    std::os::unix::fs::symlink("tree", dir.join("tree-link")).unwrap();
    fs::create_dir_all(dir.join("many")).unwrap();
    for number in 0..140 {
        write(&format!("many/{number:03}"), format!("{number}").as_bytes());
    }
    let files = [
        "plain",
        "unended",
        "empty",
        "binary",
        "long",
        "it's \"a\" $(name) `x` \\ *",
        "fifo",
        "socket",
        "link",
        "dangling",
        "loop",
        "tree",
        "absent",
        "plain/below",
        "absent/below",
    ];
    let dirs = ["empty dir", "tree", "tree-link", "plain", "fifo", "absent", "dangling"];
    let mut sources: Vec<Source> = files.map(|name| Source::File(path(dir, name))).into();
    sources.extend(dirs.map(|name| Source::Dir(path(dir, name))));
    sources.extend(["tree", "many", "absent-tree", "plain"].map(|name| Source::Tree(path(dir, name))));
    // Denied to everyone, root too; an error on reading; without a size; a device.
    let kernel = [support::denied(), "/proc/self/mem", "/proc/version", "/proc/swaps", "/dev/null"];
    sources.extend(kernel.map(Source::File));
    sources.extend([Source::Dir("/usr/bin"), Source::Tree("/etc/security"), Source::Tree("/etc/default")]);
    sources
}

fn questions() -> Vec<Source> {
    vec![
        query(
            "words",
            &["printf", "<%s>", "a b", "it's", "\"x\"", "$HOME", "`id`", "\\", "*", "", "two\nlines"],
            USUAL,
        ),
        shell("both", "echo out; echo err >&2; exit 3"),
        shell("errors only", "echo 'no such unit' >&2; exit 1"),
        shell("nothing", ":"),
        shell("denied", "echo 'nft: Operation not permitted (you must be root)' >&2; exit 1"),
        shell("inside", "carrick-no-such-tool"),
        shell("killed", "kill -KILL $$"),
        shell("terminated", "echo x; kill -TERM $$"),
        shell("binary", r"printf '\000\377\200<0>\n'"),
        shell("flood of errors", "seq 1 100000 >&2; echo done"),
        shell("no line end", "printf x"),
        query("no such tool", &["carrick-no-such-tool", "--version"], USUAL),
        query("input", &["cat"], USUAL),
        query("head", &["seq", "1", "400000"], Keep::Head(1000)),
        query("usual", &["seq", "1", "400000"], USUAL),
        query("ends", &["seq", "1", "400000"], Keep::Ends { head: 1000, tail: 1000 }),
        query("short ends", &["seq", "1", "10"], Keep::Ends { head: 1000, tail: 1000 }),
    ]
}

/// The same changes, told as far as one can see them.
async fn changes(host: &dyn Host, dir: &Path) -> Vec<String> {
    let at = |name: &str| dir.join(name).to_string_lossy().into_owned();
    let metadata = fs::metadata(dir).unwrap();
    let file = |bytes: &[u8], mode| File { bytes: bytes.to_vec(), mode, uid: metadata.uid(), gid: metadata.gid() };
    std::os::unix::fs::symlink("plain", dir.join("link")).unwrap();
    let mut told = Vec::new();
    // Where it is is all that differs.
    let mut say = |text: String| told.push(text.replace(&*dir.to_string_lossy(), "DIR"));
    let odd = "it's \"a\" $(name) `x` \\ *\nline";
    let all_bytes: Vec<u8> = (0..=255).collect();
    for (name, bytes, mode, how) in [
        ("plain", &b"one\n"[..], 0o644, WriteMode::Replace),
        ("plain", &all_bytes, 0o640, WriteMode::InPlace),
        ("plain", b"short", 0o600, WriteMode::InPlace),
        ("plain", b"+ more\n", 0o600, WriteMode::Append),
        ("new", b"appended\n", 0o600, WriteMode::Append),
        (odd, b"", 0o755, WriteMode::Replace),
        ("link", b"x", 0o644, WriteMode::InPlace),
        ("link", b"x", 0o644, WriteMode::Append),
        ("no/dir", b"x", 0o644, WriteMode::Replace),
    ] {
        let path = at(name);
        say(format!("write {name} {how:?}: {:?}", host.write(&path, &file(bytes, mode), how).await));
        let seen = host.look(&path).await;
        if let Ok(Some(PathEntry::File(file))) = &seen {
            say(format!("{:?}", file.bytes));
        }
        say(format!("look {name}: {seen:?}"));
    }
    say(format!("{:?}", host.make_dir(&at("dir"), 0o750).await));
    say(format!("{:?}", host.make_dir(&at("dir"), 0o777).await));
    say(format!("{:?}", host.make_dir(&at("no/dir"), 0o777).await));
    say(format!("{:?}", host.look(&at("dir")).await));
    say(format!("{:?}", host.set_mode(&at("dir"), 0o700).await));
    say(format!("{:?}", host.set_mode(&at("link"), 0o700).await));
    say(format!("{:?}", host.set_mode(&at("absent"), 0o700).await));
    say(format!("{:?}", host.look(&at("dir")).await));
    say(format!("{:?} {:?}", host.link(&at("new"), "some where").await, host.look(&at("new")).await));
    say(format!("{:?}", host.link(&at("no/dir"), "x").await));
    for name in ["new", "dir", "absent", "absent/x", "link"] {
        say(format!("remove {name}: {:?}", host.remove(&at(name)).await));
    }
    let mut names = host.list(&dir.to_string_lossy()).await.unwrap();
    names.sort();
    say(format!("{names:?} {:?}", host.list(&at("absent")).await));
    say(format!("{:?}", host.look("/dev/null").await));
    say(format!("{:?}", host.look("/proc/sys/kernel/ostype").await));
    for argv in
        [&["printf", "<%s>", "a b", "it's", "$HOME", ""][..], &["sh", "-c", "echo x >&2; exit 3"], &["cat"], &["list"]]
    {
        say(format!(
            "{:?}",
            host.run(argv, BOX).await.map(|ended| (ended.exit, ended.out, ended.errors.contains('x')))
        ));
    }
    say(format!("{:?}", host.run(&["sleep", "60"], SHORT).await.map(drop)));
    told
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_what_the_machine_itself_would_change() {
    let Some(sshd) = Sshd::start("") else { return };
    let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let ssh = sshd.connect(BOX).await;
    let (locally, remotely) = (changes(&Local::new(BOX), here.path()).await, changes(&ssh, there.path()).await);
    for (local, remote) in locally.iter().zip(&remotely) {
        assert_eq!(local, remote);
    }
    assert_eq!(locally.len(), remotely.len());
}

/// What is longer than is kept is told to be cut, by whichever way it comes.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_read_in_part_is_not_taken_for_all() {
    let Some(sshd) = Sshd::start("") else { return };
    let ssh = sshd.connect(BOX).await;
    let argv = ["head", "-c", "16777300", "/dev/zero"];
    let ended = ssh.run(&argv, Duration::from_mins(1)).await.unwrap();
    assert!(ended.cut);
    assert!(ended.well(&argv).unwrap_err().to_string().contains("more of it than 16 MiB"));
    assert_eq!(ssh.run(&["echo", "short"], BOX).await.unwrap().well(&["echo"]).unwrap(), "short\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_lock_for_those_who_are_there_and_those_who_come() {
    let Some(sshd) = Sshd::start("") else { return };
    let dir = tempfile::tempdir().unwrap();
    let (ssh, local, path) = (sshd.connect(BOX).await, Local::new(BOX), path(dir.path(), "lock"));
    let held = ssh.lock(path, "carrick reset over ssh\n").await.unwrap();
    assert_eq!(local.lock(path, "me").await.unwrap_err(), Locked::By("carrick reset over ssh".into()));
    drop(held);
    // The session there ends a moment after ours.
    let mut here = local.lock(path, "carrick join here\n").await;
    for _ in 0..50 {
        if here.is_ok() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
        here = local.lock(path, "carrick join here\n").await;
    }
    let _here = here.unwrap();
    assert_eq!(ssh.lock(path, "me").await.unwrap_err(), Locked::By("carrick join here".into()));
}

/// Ends whoever has a file open, by their ids.
fn end_who_holds(path: &str) {
    for process in fs::read_dir("/proc").unwrap().flatten() {
        let Ok(id) = process.file_name().to_string_lossy().parse::<i32>() else { continue };
        let open = fs::read_dir(process.path().join("fd")).into_iter().flatten().flatten();
        let holds = open.filter_map(|fd| fs::read_link(fd.path()).ok()).any(|target| target == Path::new(path));
        if let Some(id) = rustix::process::Pid::from_raw(id).filter(|_| holds) {
            rustix::process::kill_process(id, rustix::process::Signal::KILL).unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_has_lost_the_lock_changes_nothing() {
    let Some(sshd) = Sshd::start("") else { return };
    let dir = tempfile::tempdir().unwrap();
    let (ssh, lock, file) = (sshd.connect(BOX).await, path(dir.path(), "lock"), path(dir.path(), "file"));
    let held = ssh.lock(lock, "carrick join\n").await.unwrap();
    ssh.write(file, &File::new("one", 0o600), WriteMode::Replace).await.unwrap();
    // As after a suspend: the session there has given up, and this one has not heard of it.
    end_who_holds(lock);
    let lost = "the link was gone for so long that the machine's lock is lost";
    let trouble = ssh.write(file, &File::new("two", 0o600), WriteMode::Replace).await.unwrap_err();
    assert!(trouble.of_the_link && trouble.why.contains(lost), "{trouble}");
    // Somebody else has it by now.
    let _other = Local::new(BOX).lock(lock, "carrick reset\n").await.unwrap();
    let trouble = ssh.run(&["touch", file], BOX).await.unwrap_err();
    assert!(trouble.of_the_link && trouble.why.contains(lost), "{trouble}");
    assert_eq!(fs::read_to_string(file).unwrap(), "one");
    drop(held);
    ssh.write(file, &File::new("free", 0o600), WriteMode::Replace).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_outlives_its_link_keeps_the_lock() {
    let Some(sshd) = Sshd::start("") else { return };
    let dir = tempfile::tempdir().unwrap();
    let (lock, done, local) = (path(dir.path(), "lock"), path(dir.path(), "done"), Local::new(BOX));
    let ssh = sshd.connect(BOX).await;
    let held = ssh.lock(lock, "carrick reset over ssh\n").await.unwrap();
    let script = r#"sleep 3; touch "$1""#;
    let cut_off = tokio::time::timeout(Duration::from_secs(1), ssh.run(&["sh", "-c", script, "sh", done], BOX)).await;
    assert!(cut_off.is_err());
    end_who_holds(lock);
    drop((held, ssh));
    assert!(local.lock(lock, "me\n").await.is_err());
    assert!(!Path::new(done).exists(), "it had ended before the lock was asked for");
    for _ in 0..100 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        let is_free = local.lock(lock, "me\n").await.is_ok();
        assert_eq!(is_free, Path::new(done).exists());
        if is_free {
            return;
        }
    }
    panic!("the lock was never free again");
}

#[tokio::test(flavor = "multi_thread")]
async fn sees_what_the_machine_itself_sees() {
    let Some(sshd) = Sshd::start("") else { return };
    let dir = tempfile::tempdir().unwrap();
    let mut sources = places(dir.path());
    sources.extend(questions());
    let ssh = sshd.connect(BOX).await;
    let here = observe(&Local::new(BOX), &sources).await;
    let there = observe(&ssh, &sources).await;
    let keys = |seen: &[Observation]| seen.iter().map(|seen| seen.key.clone()).collect::<Vec<_>>();
    assert_eq!(keys(&here), keys(&there));
    for (here, there) in here.iter().zip(&there) {
        match (&here.capture, &there.capture) {
            (Ok(here_capture), Ok(there_capture)) if here_capture.dropped > 0 => {
                // How much stayed there was not counted there.
                assert_eq!(here_capture.text, there_capture.text, "{}", here.key);
                assert!(there_capture.dropped > 0, "{}", here.key);
            }
            (left, right) => assert_eq!(left, right, "{}", here.key),
        }
    }
    // And that it is not the same nothing that both see.
    let at = |name: &str| format!("file {}", dir.path().join(name).display());
    assert_eq!(*seen(&there, &format!("file {}", support::denied())), Err(Why::Denied));
    assert_eq!(*seen(&there, "file /proc/self/mem"), Err(Why::Broken("Input/output error".into())));
    assert_eq!(*seen(&there, &at("fifo")), Err(Why::Broken("is a fifo, not a file".into())));
    assert_eq!(*seen(&there, &at("plain/below")), Err(Why::Absent));
    assert_eq!(*seen(&there, "query no such tool"), Err(Why::NoTool));
    assert_eq!(*seen(&there, "query denied"), Err(Why::Denied));
    assert_eq!(seen(&there, "query killed").as_ref().map(|capture| capture.exit), Ok(Some(137)));
    assert_eq!(text(&there, &at("tree/it's.conf")), "content of it's.conf");
    assert!(!there.iter().any(|seen| seen.key.ends_with("many/139")), "more files than are read");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_hangs_there_is_timed_out_and_delays_nothing() {
    let Some(sshd) = Sshd::start("") else { return };
    let ssh = sshd.connect(SHORT).await;
    let sources = [
        shell("hung", "sleep 1000"),
        shell("deaf", "trap '' TERM; sleep 1000"),
        shell("left", "sleep 30 & echo done"),
        shell("quick", "echo here"),
        Source::File("/proc/version"),
    ];
    let begun = Instant::now();
    let there = observe(&ssh, &sources).await;
    assert!(begun.elapsed() < SHORT + Duration::from_secs(4), "{:?}", begun.elapsed());
    for key in ["query hung", "query deaf", "query left"] {
        assert_eq!(*seen(&there, key), Err(Why::TimedOut), "{key}");
    }
    assert_eq!(text(&there, "query quick"), "here\n");
    assert!(text(&there, "file /proc/version").starts_with("Linux"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_that_is_cut_says_so_and_what_came_before_counts() {
    let Some(sshd) = Sshd::start("") else { return };
    let ssh = sshd.connect(BOX).await;
    let sources = [shell("slow", "sleep 4"), shell("quick", "echo here")];
    let progress = Progress::default();
    let cut = async {
        while progress.now().done < 1 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        sshd.sessions().into_iter().for_each(kill);
    };
    let begun = Instant::now();
    let (there, ()) = tokio::join!(ssh.observe(&sources, &progress), cut);
    assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
    let ended = Why::Broken("the connection ended before this was read".into());
    assert_eq!(*seen(&there, "query slow"), Err(ended.clone()));
    assert_eq!(text(&there, "query quick"), "here\n");
    // And no second connection is made behind the user's back.
    let after = observe(&ssh, &sources).await;
    let Err(why) = seen(&after, "query quick") else { panic!("{after:?}") };
    assert!(why.is_of_the_link() || *why == ended, "{why}");
}

#[tokio::test(flavor = "multi_thread")]
async fn noise_of_the_login_is_ignored() {
    let noise = "ForceCommand echo Welcome; echo X 0 0; echo D 0 eHh4; printf 'no line end'; echo; echo noise >&2; sh -c \"$SSH_ORIGINAL_COMMAND\"";
    let Some(sshd) = Sshd::start(noise) else { return };
    let ssh = sshd.connect(BOX).await;
    let there = observe(&ssh, &[shell("quick", "echo here")]).await;
    assert_eq!(text(&there, "query quick"), "here\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_account_without_a_shell_says_what_it_said() {
    let Some(sshd) = Sshd::start("ForceCommand echo This account is currently not available.; exit 1") else { return };
    let ssh = sshd.connect(BOX).await;
    let there = observe(&ssh, &[Source::File("/etc/fstab")]).await;
    let why = Why::NoShell("This account is currently not available.".into());
    assert_eq!(there[0].capture, Err(why));
    let trouble = ssh.run(&["true"], BOX).await.unwrap_err();
    assert!(trouble.of_the_link, "{trouble}");
}

#[tokio::test(flavor = "multi_thread")]
async fn sudo_is_used_where_asked_for_and_told_of_where_it_asks_back() {
    let bin = tempfile::tempdir().unwrap();
    let path = format!("SetEnv PATH={}:/usr/bin:/bin", bin.path().display());
    let Some(sshd) = Sshd::start(&path) else { return };
    let with_sudo = SshOptions { sudo: true, ..sshd.options() };
    program(&bin.path().join("sudo"), "#!/bin/sh\necho 'sudo: a password is required' >&2\nexit 1\n");
    let error = Ssh::connect("w1", with_sudo.clone()).await.err().map(|error| error.to_string());
    assert_eq!(error.as_deref(), Some("w1: sudo: a password is required"));
    program(&bin.path().join("sudo"), "#!/bin/sh\n[ \"$1\" = -n ] && shift\nLOOKED_AS=root exec \"$@\"\n");
    let sources = [shell("who", "echo looked as ${LOOKED_AS:-myself}")];
    let ssh = Ssh::connect("w1", with_sudo).await.unwrap();
    assert_eq!(text(&observe(&ssh, &sources).await, "query who"), "looked as root\n");
    let ssh = Ssh::connect("w1", sshd.options()).await.unwrap();
    assert_eq!(text(&observe(&ssh, &sources).await, "query who"), "looked as myself\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_time_is_that_of_the_clock_over_there() {
    let bin = tempfile::tempdir().unwrap();
    let path = format!("SetEnv PATH={}:/usr/bin:/bin", bin.path().display());
    let Some(sshd) = Sshd::start(&path) else { return };
    for (date, behind) in [("", 0), ("#!/bin/sh\necho $(($(/bin/date +%s) - 3600))\n", 3600)] {
        if !date.is_empty() {
            program(&bin.path().join("date"), date);
        }
        let ssh = sshd.connect(BOX).await;
        observe(&ssh, &[shell("nothing", "true")]).await;
        let seen = Timestamp::now().duration_since(ssh.now()).as_secs();
        assert!((behind - 3..=behind + 3).contains(&seen), "{seen} s behind, not {behind}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_cannot_be_reached_is_told_with_the_reason() {
    let Some(sshd) = Sshd::start("") else { return };
    let reason = async |more: &str| {
        sshd.configure(more);
        Ssh::connect("w1", sshd.options()).await.err().map(|error| error.to_string()).unwrap_or_default()
    };
    assert_eq!(
        Ssh::connect("-oProxyCommand=id", SshOptions::default()).await.err().map(|error| error.reason).as_deref(),
        Some("an ssh destination cannot begin with '-'")
    );
    let unknown = reason("UserKnownHostsFile /dev/null").await;
    assert_eq!(unknown, "w1: Host key verification failed.");
    let unauthorised =
        reason(&format!("PubkeyAuthentication no\nUserKnownHostsFile {}/known_hosts", sshd.dir.path().display())).await;
    assert!(unauthorised.contains("Permission denied (publickey"), "{unauthorised}");
    let closed = reason("Port 1").await;
    assert_eq!(closed, "w1: connect to host 127.0.0.1 port 1: Connection refused");
    let nowhere = reason("HostName no-such-host.invalid").await;
    assert!(nowhere.starts_with("w1: Could not resolve hostname no-such-host.invalid"), "{nowhere}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_users_forwards_and_commands_are_not_ours() {
    let Some(sshd) = Sshd::start("") else { return };
    sshd.configure(
        "RemoteCommand echo theirs\nRequestTTY force\nLocalForward 127.0.0.1:1 127.0.0.1:1\nExitOnForwardFailure yes",
    );
    let ssh = sshd.connect(BOX).await;
    assert_eq!(text(&observe(&ssh, &[shell("quick", "echo here")]).await, "query quick"), "here\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_connection_ends_with_us() {
    let Some(sshd) = Sshd::start("") else { return };
    let ssh = sshd.connect(BOX).await;
    assert_eq!(sshd.sessions().len(), 1);
    drop(ssh);
    assert!(support::soon(|| sshd.sessions().is_empty()));
}

#[tokio::test(flavor = "multi_thread")]
async fn names_are_resolved_there() {
    let Some(sshd) = Sshd::start("") else { return };
    let (ssh, local) = (sshd.connect(BOX).await, Local::new(BOX));
    for name in ["localhost", "no-such-host.invalid", "10.0.0.1", "a;id", "::1"] {
        assert_eq!(ssh.resolve(name).await, local.resolve(name).await, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn connects_from_there_to_addresses() {
    let Some(sshd) = Sshd::start("") else { return };
    let ssh = sshd.connect(BOX).await;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let target = Target::Tcp { host: "127.0.0.1".into(), port };
    let (stream, accepted) = tokio::join!(ssh.connect(&target), listener.accept());
    exchange(stream.unwrap(), accepted.unwrap().0).await;
    drop(listener);
    let refused = ssh.connect(&target).await.err().map(|error| error.kind());
    assert_eq!(refused, Some(io::ErrorKind::ConnectionRefused));
}

#[tokio::test(flavor = "multi_thread")]
async fn connects_from_there_to_sockets() {
    let Some(sshd) = Sshd::start("") else { return };
    let ssh = sshd.connect(BOX).await;
    let dir = tempfile::tempdir().unwrap();
    let target = |name: &str| Target::Unix(dir.path().join(name).to_str().unwrap().to_owned());
    let listener = tokio::net::UnixListener::bind(dir.path().join("s")).unwrap();
    let at = target("s");
    let (stream, accepted) = tokio::join!(ssh.connect(&at), listener.accept());
    exchange(stream.unwrap(), accepted.unwrap().0).await;
    drop(listener);
    let mut dead = ssh.connect(&at).await.unwrap();
    let refused = dead.read(&mut [0; 1]).await.map_err(|error| error.kind());
    assert_eq!(refused, Err(io::ErrorKind::ConnectionRefused));
    fs::write(dir.path().join("file"), "").unwrap();
    let kind = async |name: &str| ssh.connect(&target(name)).await.err().map(|error| error.to_string());
    assert_eq!(kind("absent").await.as_deref(), Some("entity not found"));
    assert_eq!(kind("file").await.as_deref(), Some("is not a socket"));
    assert!(kind("a:b").await.unwrap().ends_with("is not the path of a socket"));
}

async fn exchange(mut ours: Box<dyn carrick_host::ByteStream>, mut other: impl carrick_host::ByteStream) {
    ours.write_all(b"ping").await.unwrap();
    ours.flush().await.unwrap();
    let mut heard = [0; 4];
    other.read_exact(&mut heard).await.unwrap();
    assert_eq!(&heard, b"ping");
    other.write_all(b"pong").await.unwrap();
    other.flush().await.unwrap();
    ours.read_exact(&mut heard).await.unwrap();
    assert_eq!(&heard, b"pong");
}

/// Not a test of speed: a figure for whoever asks. `cargo test --test ssh speed -- --nocapture`
#[tokio::test(flavor = "multi_thread")]
async fn speed_of_a_hundred_and_fifty_sources_is_printed() {
    let Some(sshd) = Sshd::start("") else { return };
    let dir = tempfile::tempdir().unwrap();
    let mut sources: Vec<Source> = (0..110)
        .map(|number| {
            let file = dir.path().join(format!("{number}.conf"));
            // Half of what is looked for is not there on a real machine.
            if number % 2 == 0 {
                fs::write(&file, "key = value\n".repeat(50)).unwrap();
            }
            Source::File(leak(file.to_str().unwrap()))
        })
        .collect();
    sources.extend((0..40).map(|number| query(&format!("echo {number}"), &["echo", "x"], USUAL)));
    let begun = Instant::now();
    let here = observe(&Local::new(BOX), &sources).await;
    let local = begun.elapsed();
    let begun = Instant::now();
    let ssh = sshd.connect(BOX).await;
    let login = begun.elapsed();
    let begun = Instant::now();
    let there = observe(&ssh, &sources).await;
    println!("{} sources: here {local:?}; there {:?}, after a login of {login:?}", sources.len(), begun.elapsed());
    assert_eq!(here, there);
}
