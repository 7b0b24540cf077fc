//! `carrick rule`: NodeReadinessRules, looked at. Nothing is changed.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use carrick_cluster::{ApiError, ClusterClient, nodes, rules};
use carrick_core::rule::{CompiledRule, SlimNode, Texts};
use carrick_engine::dialer;
use carrick_host::{Local, Probe};
use tokio::time::timeout;

use crate::exit::{Exit, Failure};
use crate::machine::read_kubeconfig;
use crate::terminal;

mod explain;
mod lint;
mod simulate;

/// All nodes of a large cluster are 300 MB on the wire.
const PATIENCE: Duration = Duration::from_mins(1);

/// NodeReadinessRules: why a node is gated, whether a rule is right, what it would do. Changes nothing
#[derive(Debug, clap::Args)]
#[command(subcommand_required = true, arg_required_else_help = false, disable_help_subcommand = true)]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    Explain(explain::Args),
    Lint(lint::Args),
    Simulate(simulate::Args),
}

/// How these verbs print.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Output {
    Text,
    Json,
}

#[derive(Debug, clap::Args)]
struct AdminArgs {
    /// A kubeconfig that may read nodes and rules; without it $KUBECONFIG, or ~/.kube/config
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
}

pub async fn run(args: Args) -> Result<Exit, Failure> {
    match args.what {
        What::Explain(args) => explain::run(args).await,
        What::Lint(args) => lint::run(&args),
        What::Simulate(args) => simulate::run(args).await,
    }
}

/// A cluster, and the machine it is asked from.
struct Cluster {
    client: ClusterClient,
    _machine: Arc<dyn Probe>,
}

impl AdminArgs {
    fn cluster(&self) -> Result<Cluster, Failure> {
        let path = self
            .kubeconfig
            .clone()
            .or_else(usual)
            .ok_or_else(|| Failure::usage("no kubeconfig: give --kubeconfig FILE"))?;
        let credentials = read_kubeconfig(&path)?;
        let machine: Arc<dyn Probe> = Arc::new(Local::new(Duration::from_secs(5)));
        Ok(Cluster { client: dialer::client(&credentials, Arc::downgrade(&machine)), _machine: machine })
    }
}

/// Where kubectl looks.
fn usual() -> Option<PathBuf> {
    let named = std::env::var_os("KUBECONFIG").filter(|paths| !paths.is_empty());
    let named = named.and_then(|paths| std::env::split_paths(&paths).next());
    named.or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".kube/config")))
}

impl Cluster {
    async fn rules(&self) -> Result<Vec<CompiledRule>, Failure> {
        let rules = rules::list(&self.client).await.map_err(|error| unanswered(&error))?;
        Ok(rules.into_iter().map(CompiledRule::new).collect())
    }

    async fn nodes(&self) -> Result<Vec<SlimNode>, Failure> {
        let all = timeout(PATIENCE, nodes::all(&self.client)).await;
        let all = all
            .map_err(|_| Failure::unreachable(format!("the nodes were not listed within {} s", PATIENCE.as_secs())))?;
        let mut texts = Texts::default();
        let nodes = all.map_err(|error| unanswered(&error))?;
        let mut nodes: Vec<SlimNode> =
            nodes.into_iter().map(|node| SlimNode::of(node, &mut texts, Duration::ZERO)).collect();
        nodes.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(nodes)
    }
}

fn unanswered(error: &ApiError) -> Failure {
    if error.may_pass() { Failure::unreachable(error.to_string()) } else { Failure::failed(error.to_string()) }
}

fn print(text: &str) -> Result<(), Failure> {
    terminal::print(text).map_err(|error| Failure::internal(format!("stdout: {error}")))
}

/// One, or as many.
fn counted(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}
