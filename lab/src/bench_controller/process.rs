//! What a process costs, and a controller that runs as one.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::demand;
use crate::error::{During, Result};

/// A start takes seconds even with 15,000 nodes.
const READY: Duration = Duration::from_mins(2);

/// CPU seconds so far, as the kernel counts them: in hundredths.
pub fn cpu_seconds(process: u32) -> f64 {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |at: usize| fields.get(at).and_then(|field| field.parse::<f64>().ok()).unwrap_or_default();
    (ticks(11) + ticks(12)) / 100.0
}

/// The most that was resident at once, in MiB.
pub fn peak_mebibytes(process: u32) -> f64 {
    mebibytes(process, "VmHWM:")
}

/// What is resident now and not read from a file, in MiB.
pub fn private_mebibytes(process: u32) -> f64 {
    mebibytes(process, "RssAnon:")
}

fn mebibytes(process: u32, field: &str) -> f64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    let kibibytes = line.and_then(|it| it.trim().trim_end_matches(" kB").trim().parse::<f64>().ok());
    kibibytes.unwrap_or_default() / 1024.0
}

/// `carrick controller`; killed when it is dropped.
pub struct Controller {
    child: Child,
    port: u16,
}

impl Controller {
    pub fn start(carrick: &Path, kubeconfig: &Path, log: &PathBuf) -> Result<Self> {
        let out = File::options().create(true).append(true).open(log).at("open", log)?;
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|it| it.local_addr());
        let port = free.during(|| "no port is free".to_owned())?.port();
        // The kernel ends it with the thread that started it.
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "--"]).arg(carrick).arg("controller").arg("--kubeconfig").arg(kubeconfig);
        command.args(["--leader-elect", "--leader-election-namespace=kube-system"]);
        command.arg(format!("--health-probe-bind-address=127.0.0.1:{port}"));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(out);
        let child = command.spawn().during(|| "cannot start carrick controller".to_owned())?;
        Ok(Self { child, port })
    }

    pub fn process(&self) -> u32 {
        self.child.id()
    }

    /// Until it knows all nodes and rules.
    pub fn wait_ready(&mut self) -> Result<()> {
        let begun = Instant::now();
        while !self.is_ready() {
            let ended = self.child.try_wait().during(|| "cannot wait for carrick controller".to_owned())?;
            demand!(ended.is_none(), "carrick controller ended: {ended:?}");
            demand!(begun.elapsed() < READY, "carrick controller is not ready after {} s", READY.as_secs());
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    fn is_ready(&self) -> bool {
        let asked = || -> std::io::Result<String> {
            let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port))?;
            stream.set_read_timeout(Some(Duration::from_secs(5)))?;
            stream.write_all(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer)?;
            Ok(answer)
        };
        asked().is_ok_and(|answer| answer.starts_with("HTTP/1.1 200"))
    }

    /// As Kubernetes does it: SIGTERM, and it gives the lease up.
    pub fn stop(mut self) -> Result<()> {
        if let Some(process) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            kill_process(process, Signal::TERM).during(|| "cannot stop carrick controller".to_owned())?;
        }
        let ended = self.child.wait().during(|| "cannot wait for carrick controller".to_owned())?;
        demand!(ended.success(), "carrick controller ended with {ended}");
        Ok(())
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
