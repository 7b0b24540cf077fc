//! `cargo xtask lab …`: real kubeadm, kubelet, containerd and API server in systemd-nspawn machines. See docs/lab.md.
#![allow(unreachable_pub)] // A program has no outside: `pub` says what a module offers to the others.

mod bench_controller;
mod bench_join;
mod browser;
mod build;
mod cache;
mod capture;
mod carrick;
mod case;
mod cluster;
mod controller;
mod coverage;
mod error;
mod fault;
mod fix;
mod join;
mod lab;
mod lock;
mod machine;
mod need;
mod registry;
mod remedy;
mod run;
mod say;
mod sighting;
mod stamped;
mod stop;
mod strace;
mod sysctl;
mod test;
mod tier;
mod times;
mod trace;
mod tree;
mod up;

use std::os::unix::process::CommandExt as _;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use self::cache::Cache;
use self::lab::{Lab, PERSONS};
use self::machine::{Kind, nspawn};

#[derive(Parser)]
#[command(name = "lab", bin_name = "cargo xtask lab", about = "Real Kubernetes machines to try things on")]
struct Arguments {
    /// Which lab: several can be up side by side (default: "lab", and "test" for tests)
    #[arg(long, global = true)]
    lab: Option<String>,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Build everything the lab needs (cold: about half an hour on two cores; once)
    Build,
    /// Start a control plane and workers
    Up {
        /// How many workers; their kinds take turns
        #[arg(long, default_value_t = 1)]
        workers: u8,
        /// The kind of all workers
        #[arg(long)]
        kind: Option<Kind>,
        /// Join them too, with plain kubeadm
        #[arg(long)]
        join: bool,
    },
    /// Cut the power of machines, all at once, and boot them again
    PowerCut {
        #[arg(required = true)]
        machines: Vec<String>,
    },
    /// Take everything away again
    Down,
    /// Run the tests of a tier (default: quick), or those whose names contain FILTER, each on fresh machines
    Test(test::Options),
    /// Join fresh workers with plain kubeadm and with carrick, by turns, and compare how long it takes
    BenchJoin(bench_join::Options),
    /// Run carrick controller on a real API server, beside a bare client that writes the same
    BenchController(bench_controller::Options),
    /// Put a machine of the running lab into a named broken state, and leave it so
    Fault {
        name: String,
        #[arg(long, default_value = "w1")]
        machine: String,
    },
    /// Record what a person would see of a fault: fixtures for diagnosing
    Capture(capture::Options),
    /// Log in to a machine, or run a command on it
    Shell {
        machine: String,
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        command: Vec<String>,
    },
    /// kubectl as the cluster's admin
    Kubectl {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    #[command(name = case::HOLD, hide = true)]
    HoldApi,
    #[command(name = bench_join::TRY, hide = true)]
    TrySandbox,
    #[command(name = nspawn::LAUNCH, hide = true)]
    LaunchMachine {
        group: String,
        #[arg(last = true)]
        argv: Vec<String>,
    },
}

fn main() -> ExitCode {
    say::begin();
    match go(Arguments::parse()) {
        Ok(code) => code,
        Err(error) => {
            tell(&error);
            if stop::asked() { ExitCode::from(stop::EXIT) } else { ExitCode::FAILURE }
        }
    }
}

#[allow(clippy::print_stderr)] // The last word of a run that failed.
fn tell(error: &anyhow::Error) {
    eprintln!("error: {error:#}");
}

fn go(arguments: Arguments) -> anyhow::Result<ExitCode> {
    match arguments.verb {
        Verb::LaunchMachine { group, argv } => {
            nspawn::launch(&group, &argv)?;
            return Ok(ExitCode::FAILURE);
        }
        // On a machine of the lab: there is no lab there.
        Verb::TrySandbox => {
            bench_join::try_sandboxes()?;
            return Ok(ExitCode::SUCCESS);
        }
        _ => {}
    }
    let cache = Cache::open()?;
    let lab = arguments.lab.as_deref();
    let persons = lab.unwrap_or(PERSONS);
    lab::preflight()?;
    machine::net::remember_outer()?;
    if matches!(arguments.verb, Verb::Build | Verb::Up { .. } | Verb::Test(_) | Verb::BenchJoin(_) | Verb::Capture(_)) {
        stop::listen()?;
    }
    match arguments.verb {
        Verb::Build => build::build(&cache, build::everything()).map(drop)?,
        Verb::Up { workers, kind, join } => up::up(&cache, persons, workers, kind, join)?,
        Verb::PowerCut { machines } => up::power_cut(&cache, persons, &machines)?,
        Verb::Down => up::down(&cache, persons)?,
        Verb::Test(options) => return Ok(test::test(&cache, lab, &options)?),
        Verb::BenchController(options) => return Ok(bench_controller::bench_controller(&cache, &options)?),
        Verb::BenchJoin(options) => return Ok(bench_join::bench_join(&cache, lab, &options)?),
        Verb::Fault { name, machine } => capture::put_in(&cache, persons, &name, &machine)?,
        Verb::Capture(options) => return Ok(capture::capture(&cache, lab, &options)?),
        Verb::Shell { machine, command } => {
            let lab = Lab::look_at(&cache, persons);
            let record = lab.running()?;
            let key = build::build_key(&cache)?;
            lab.enter()?;
            let mut ssh = machine::login(&key, record.machine(&machine)?, &command).into_command();
            return Err(anyhow::Error::new(ssh.exec()).context("cannot run ssh"));
        }
        Verb::Kubectl { arguments: words } => {
            let lab = Lab::look_at(&cache, persons);
            let kubeconfig = lab.running()?.kubeconfig.unwrap_or_default();
            lab.enter()?;
            let program = cache.root().join("current/kubectl");
            let mut kubectl = cluster::kubectl(&program, &kubeconfig).args(words).into_command();
            return Err(anyhow::Error::new(kubectl.exec()).context("cannot run kubectl"));
        }
        Verb::HoldApi => case::hold_api()?,
        Verb::TrySandbox | Verb::LaunchMachine { .. } => {}
    }
    Ok(ExitCode::SUCCESS)
}
