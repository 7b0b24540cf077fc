//! A gigabyte of journal goes through a keeper in bounded memory. Alone in its binary: memory is measured by the process.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)] // What helps a test is a test.

use std::fmt::Write as _;
use std::time::Instant;

use carrick_core::fact::keep::{Keeper, LOG};

const GIGABYTE: usize = 1 << 30;
const MOST_MEMORY: usize = 64 << 10; // In kB, as the kernel counts.

/// Lines of a kubelet in a crash loop, as `journalctl -o json` prints them.
fn journal() -> Vec<u8> {
    let mut lines = String::new();
    for number in 0..3000 {
        writeln!(
            lines,
            r#"{{"__REALTIME_TIMESTAMP":"17632284{number:08}","_SYSTEMD_UNIT":"kubelet.service","PRIORITY":"6","SYSLOG_IDENTIFIER":"kubelet","_PID":"{number}","MESSAGE":"E1115 17:40:00.{number:06} {number} run.go:72] \"command failed\" err=\"failed to load kubelet config file, path: /var/lib/kubelet/config.yaml, error: open /var/lib/kubelet/config.yaml: no such file or directory\""}}"#
        )
        .unwrap();
    }
    lines.into_bytes()
}

/// The most memory this process ever had, in kB.
fn peak() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}

#[test]
fn a_gigabyte_of_journal_needs_less_than_64_mib() {
    let journal = journal();
    let mut keeper = Keeper::new(LOG);
    let begun = Instant::now();
    let mut pushed = 0;
    while pushed < GIGABYTE {
        // As a pipe gives them: cut wherever the buffer was full.
        for chunk in journal.chunks(65_536) {
            keeper.push(chunk);
            pushed += chunk.len();
        }
    }
    let (capture, _) = keeper.finish();
    println!("{} MiB in {:.1} s, peak {} MiB", pushed >> 20, begun.elapsed().as_secs_f64(), peak() >> 10);
    assert!(capture.text.len() <= LOG.limit());
    assert_eq!(capture.text.lines().filter(|line| !line.ends_with("\"\"}")).count(), 0, "only whole lines");
    assert!(capture.dropped > (GIGABYTE - LOG.limit()) as u64);
    assert!(peak() < MOST_MEMORY, "{} kB", peak());
}
