//! `carrick controller`: NodeReadinessRule, in place of node-readiness-controller: its flags, its Lease, its metrics.
//!
//! Not among the verbs that look at a machine: it runs in a pod, as a static pod, or anywhere with a kubeconfig.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::Duration;

use carrick_cluster::{ClusterClient, ClusterCredentials};
use carrick_core::lease::LeaseTiming;
use carrick_core::rule::MOST_AT_ONCE;
use carrick_engine::controller::http::{self, Served, listen, listen_securely};
use carrick_engine::controller::tls::Certificate;
use carrick_engine::controller::webhook;
use carrick_engine::controller::{
    Controller, ControllerHandle, ControllerNotice, ControllerOptions, ElectionOptions, NoticeLevel, NoticeSink,
};
use carrick_engine::dialer;
use carrick_host::{Local, Probe};
use serde_json::json;
use tokio::net::TcpListener;

use crate::exit::{Exit, Failure};
use crate::machine::{read_kubeconfig, read_short};
use crate::signals::Signals;
use crate::terminal;

/// Where a pod finds who it is.
const SERVICE_ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// Upstream has no flags for these.
const WEBHOOK_CERTIFICATES: &str = "/tmp/k8s-webhook-server/serving-certs";
const WEBHOOK_ADDRESS: &str = ":9443";
/// An API server with much to do may take longer than a person waits.
const DEADLINE: Duration = Duration::from_secs(15);
/// How often the token of a service account is read again: it is replaced every hour, and the old one lives on for a while.
const READ_TOKEN: Duration = Duration::from_mins(1);

/// Keep pods off nodes until their conditions hold: NodeReadinessRule, in place of node-readiness-controller
#[derive(Debug, clap::Args)]
#[command(after_help = "Flags may be written as Go programs take them (-leader-elect, --leader-elect=true).")]
pub struct Args {
    /// A kubeconfig; without it, the service account of the pod it runs in
    #[arg(long, value_name = "FILE", default_value = "", hide_default_value = true)]
    kubeconfig: String,
    /// Where /healthz and /readyz are served; 0: nowhere
    #[arg(long, value_name = "ADDRESS", default_value = ":8081")]
    health_probe_bind_address: String,
    #[command(flatten)]
    metrics: MetricsArgs,
    /// Take turns with other instances, by a Lease: only one acts
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value = "false", value_name = "BOOL", action = clap::ArgAction::Set)]
    leader_elect: bool,
    /// The namespace of the Lease; without it, the pod's
    #[arg(long, value_name = "NAMESPACE", default_value = "", hide_default_value = true)]
    leader_election_namespace: String,
    /// Serve the admission webhook on :9443, with tls.crt and tls.key of --webhook-cert-dir
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value = "false", value_name = "BOOL", action = clap::ArgAction::Set)]
    enable_webhook: bool,
    /// Where the webhook's certificate is; it is read again when it changes
    #[arg(long, value_name = "DIR", default_value = WEBHOOK_CERTIFICATES)]
    webhook_cert_dir: PathBuf,
    /// Where the webhook is served
    #[arg(long, value_name = "ADDRESS", default_value = WEBHOOK_ADDRESS)]
    webhook_bind_address: String,
    /// Also publish node_readiness_nodes_by_state
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value = "false", value_name = "BOOL", action = clap::ArgAction::Set)]
    enable_node_state_metrics: bool,
    /// Writes a second at most; negative: as fast as the API server takes them
    #[arg(long, value_name = "N", default_value_t = -1.0, allow_negative_numbers = true)]
    kube_api_qps: f64,
    /// Writes at once where --kube-api-qps is set
    #[arg(long, value_name = "N", default_value_t = -1, allow_negative_numbers = true)]
    kube_api_burst: i64,
    /// Nodes written at once, at most; 1, upstream's default, leaves it to Carrick (16, fewer while the API server is busy)
    #[arg(long, value_name = "N", default_value_t = 1, allow_negative_numbers = true)]
    node_concurrent_reconciles: i64,
    #[command(flatten)]
    upstream: UpstreamArgs,
}

/// Where metrics are to be had.
#[derive(Debug, clap::Args)]
#[allow(clippy::struct_field_names, reason = "clap names the flags after them, and upstream has named these")]
struct MetricsArgs {
    /// Where /metrics is served; 0: nowhere
    #[arg(long, value_name = "ADDRESS", default_value = "0")]
    metrics_bind_address: String,
    /// Serve /metrics over TLS, to those whom the API server lets read it (TokenReview, SubjectAccessReview)
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value = "false", value_name = "BOOL", action = clap::ArgAction::Set)]
    metrics_secure: bool,
    /// Where tls.crt and tls.key of --metrics-secure are; without it, a certificate that Carrick signs itself
    #[arg(long, value_name = "DIR", default_value = "", hide_default_value = true)]
    metrics_cert_dir: String,
}

/// Flags of upstream that have no effect here, or only on the log.
#[derive(Debug, clap::Args)]
struct UpstreamArgs {
    /// Accepted; rules are decided together
    #[arg(long, value_name = "N", default_value_t = 1, allow_negative_numbers = true, hide = true)]
    rule_concurrent_reconciles: i64,
    #[arg(long, default_value = "", hide = true)]
    pprof_bind_address: String,
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value = "true", action = clap::ArgAction::Set, hide = true)]
    zap_devel: bool,
    /// json or console
    #[arg(long, default_value = "json", hide = true)]
    zap_encoder: String,
    #[arg(long, default_value = "", hide = true)]
    zap_log_level: String,
    #[arg(long, default_value = "", hide = true)]
    zap_stacktrace_level: String,
    #[arg(long, default_value = "", hide = true)]
    zap_time_encoding: String,
}

pub async fn run(args: Args, signals: &Signals) -> Result<Exit, Failure> {
    let stop = signals.heed();
    let console = args.upstream.zap_encoder == "console";
    let notices: NoticeSink = Arc::new(move |notice| terminal::say(&log_line(&notice, console)));
    if !args.upstream.pprof_bind_address.is_empty() {
        say(&notices, NoticeLevel::Warning, "--pprof-bind-address has no effect: there is no Go runtime to profile");
    }
    say(&notices, NoticeLevel::Info, &format!("version: {}, commit: unknown", env!("CARGO_PKG_VERSION")));
    // Held for as long as the client asks.
    let machine: Arc<dyn Probe> = Arc::new(Local::new(Duration::from_secs(5)));
    let (client, in_cluster) = client(&args.kubeconfig, Arc::downgrade(&machine))?;
    let options = options(&args)?;
    let (controller, handle) = Controller::new(client.clone(), options, notices.clone());
    let serving = serve_all(&args, &client, &handle, &notices).await?;
    let running = controller.run(stop.clone());
    let renewing = renew_token(client, in_cluster, notices.clone());
    let outcome = tokio::select! {
        outcome = running => outcome,
        why = serving => return Err(Failure::internal(why)),
        () = renewing => Ok(()),
    };
    drop(machine);
    match outcome {
        Ok(()) => Ok(Exit::Ok),
        Err(end) => Err(Failure::internal(end.to_string())),
    }
}

fn options(args: &Args) -> Result<ControllerOptions, Failure> {
    let instance = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim().to_owned();
    let instance = if instance.is_empty() { "unknown".to_owned() } else { instance };
    let election = args.leader_elect.then(|| election(args, &instance)).transpose()?;
    let workers = match args.node_concurrent_reconciles {
        ..=1 => MOST_AT_ONCE,
        asked => u32::try_from(asked).unwrap_or(MOST_AT_ONCE),
    };
    let rate = (args.kube_api_qps > 0.0).then(|| {
        let burst = u32::try_from(args.kube_api_burst).unwrap_or(1).max(1);
        (args.kube_api_qps, burst)
    });
    Ok(ControllerOptions {
        instance,
        election,
        workers,
        rate,
        node_state_metrics: args.enable_node_state_metrics,
        version: env!("CARGO_PKG_VERSION").to_owned(),
    })
}

fn election(args: &Args, instance: &str) -> Result<ElectionOptions, Failure> {
    let namespace = match args.leader_election_namespace.as_str() {
        "" => read_short(&Path::new(SERVICE_ACCOUNT).join("namespace")).map_err(|_| {
            Failure::usage("--leader-elect outside of a pod needs --leader-election-namespace NAMESPACE")
        })?,
        named => named.to_owned(),
    };
    // As client-go's: a name that no other process ever had.
    let unique = read_short(Path::new("/proc/sys/kernel/random/uuid"))
        .map_err(|error| Failure::internal(format!("no random number for the Lease: {error}")))?;
    let identity = format!("{instance}_{}", unique.trim());
    Ok(ElectionOptions { namespace: namespace.trim().to_owned(), identity, timing: LeaseTiming::default() })
}

/// Whether it asks as the pod's service account.
fn client(kubeconfig: &str, machine: Weak<dyn Probe>) -> Result<(ClusterClient, bool), Failure> {
    if !kubeconfig.is_empty() {
        let credentials = read_kubeconfig(Path::new(kubeconfig))?;
        return Ok((dialer::patient_client(&credentials, machine, DEADLINE), false));
    }
    let (host, port) = (std::env::var("KUBERNETES_SERVICE_HOST"), std::env::var("KUBERNETES_SERVICE_PORT"));
    let (Ok(host), Ok(port)) = (host, port) else {
        return Err(Failure::usage("not in a pod (KUBERNETES_SERVICE_HOST is not set): give --kubeconfig FILE"));
    };
    let host = if host.contains(':') { format!("[{host}]") } else { host };
    let server = format!("{host}:{port}").parse();
    let server = server.map_err(|error| Failure::usage(format!("KUBERNETES_SERVICE_HOST: {error}")))?;
    let read = |name: &str| {
        let path = Path::new(SERVICE_ACCOUNT).join(name);
        read_short(&path).map_err(|error| Failure::usage(format!("{}: {error}", path.display())))
    };
    let credentials = ClusterCredentials::of_service_account(&server, &read("ca.crt")?, &read("token")?);
    let credentials = credentials.map_err(|why| Failure::usage(format!("{SERVICE_ACCOUNT}: {why}")))?;
    Ok((dialer::patient_client(&credentials, machine, DEADLINE), true))
}

/// The kubelet replaces the token while we run.
async fn renew_token(client: ClusterClient, in_cluster: bool, notices: NoticeSink) {
    let path = Path::new(SERVICE_ACCOUNT).join("token");
    loop {
        tokio::time::sleep(READ_TOKEN).await;
        if in_cluster && !read_short(&path).is_ok_and(|token| client.set_token(&token)) {
            say(&notices, NoticeLevel::Warning, &format!("{} cannot be read: the last token is used", path.display()));
        }
    }
}

/// Everything that is served; comes back only with why it cannot be any more. Whoever cannot bind does not start.
async fn serve_all(
    args: &Args,
    client: &ClusterClient,
    handle: &ControllerHandle,
    notices: &NoticeSink,
) -> Result<impl Future<Output = String> + use<>, Failure> {
    let mut tasks = tokio::task::JoinSet::new();
    for (flag, address, served) in [
        ("--health-probe-bind-address", &args.health_probe_bind_address, Served::Health),
        ("--metrics-bind-address", &args.metrics.metrics_bind_address, Served::Metrics),
    ] {
        if address != "0" && !address.is_empty() {
            let listener = bind(flag, address).await?;
            let handle = handle.clone();
            if served == Served::Metrics && args.metrics.metrics_secure {
                let certificate = metrics_certificate(&args.metrics.metrics_cert_dir)?;
                tasks.spawn(listen_securely(listener, certificate, client.clone(), handle, notices.clone()));
            } else {
                tasks.spawn(async move { listen(listener, served, handle).await });
            }
        }
    }
    if args.enable_webhook {
        let (address, directory) = (args.webhook_bind_address.clone(), args.webhook_cert_dir.clone());
        tasks.spawn(serve_webhook(address, directory, handle.clone(), notices.clone()));
    }
    Ok(async move {
        match tasks.join_next().await {
            Some(Ok(Err(error))) => format!("a port is not served any more: {error}"),
            Some(Ok(Ok(()))) => "a port is not served any more".to_owned(),
            Some(Err(error)) => format!("a port is not served any more: {error}"),
            None => std::future::pending().await,
        }
    })
}

/// As soon as its certificate is there: nodes do not wait for it.
async fn serve_webhook(
    address: String,
    directory: PathBuf,
    handle: ControllerHandle,
    notices: NoticeSink,
) -> std::io::Result<()> {
    let certificate = Certificate::awaited(&directory, "webhook", &notices).await;
    webhook::serve(http::bind(&address).await?, certificate, handle, notices).await
}

fn metrics_certificate(directory: &str) -> Result<Arc<Certificate>, Failure> {
    let certificate = match directory {
        "" => Certificate::self_signed(),
        directory => Certificate::read(Path::new(directory)),
    };
    certificate.map_err(|why| Failure::usage(format!("--metrics-secure: {why}")))
}

async fn bind(flag: &str, address: &str) -> Result<TcpListener, Failure> {
    http::bind(address).await.map_err(|error| Failure::usage(format!("{flag} {address}: {error}")))
}

fn say(notices: &NoticeSink, level: NoticeLevel, says: &str) {
    notices(ControllerNotice { level, says: says.to_owned() });
}

/// One line a happening, as JSON for whoever collects logs, or for people.
fn log_line(notice: &ControllerNotice, console: bool) -> String {
    let level = match notice.level {
        NoticeLevel::Info => "info",
        NoticeLevel::Warning => "warn",
        NoticeLevel::Error => "error",
    };
    let now = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S.%3fZ").to_string();
    if console {
        return format!("{now}\t{}\t{}", level.to_uppercase(), notice.says);
    }
    json!({ "ts": now, "level": level, "msg": notice.says }).to_string()
}

/// Go's flags have one dash or two.
pub fn go_flags(args: impl IntoIterator<Item = std::ffi::OsString>) -> Vec<std::ffi::OsString> {
    let mut args: Vec<std::ffi::OsString> = args.into_iter().collect();
    // Upstream's image has its entry point there.
    let is_manager = args.first().is_some_and(|name| Path::new(name).file_name() == Some("manager".as_ref()));
    if is_manager {
        args.insert(1, "controller".into());
    }
    if args.get(1).is_some_and(|verb| verb == "controller") {
        for arg in args.iter_mut().skip(2) {
            let single = arg.to_str().is_some_and(|arg| {
                arg.len() > 2
                    && arg.starts_with('-')
                    && !arg.starts_with("--")
                    && arg.as_bytes().get(1).is_some_and(u8::is_ascii_lowercase)
            });
            if single {
                let mut doubled = std::ffi::OsString::from("-");
                doubled.push(&*arg);
                *arg = doubled;
            }
        }
    }
    args
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(clap::Parser)]
    struct Program {
        #[command(flatten)]
        args: Args,
    }

    /// As in a pod: no flag at all is needed, and upstream's may be empty.
    #[test]
    fn upstreams_flags_are_taken_and_none_is_needed() {
        let parsed = |args: &[&str]| Program::try_parse_from([&["controller"], args].concat());
        let bare = parsed(&[]).map(|it| it.args).unwrap();
        assert_eq!(
            (bare.kubeconfig.as_str(), bare.metrics.metrics_cert_dir.as_str(), bare.leader_elect),
            ("", "", false)
        );
        for flags in [
            "--kubeconfig= --metrics-cert-dir= --leader-election-namespace= --pprof-bind-address=",
            "--leader-elect --health-probe-bind-address=:8081 --metrics-bind-address=:8443 --metrics-secure",
            "--metrics-secure=false --metrics-cert-dir /tmp/k8s-metrics-server/metrics-certs --enable-webhook=true",
            "--kube-api-qps=-1 --kube-api-burst=-1 --node-concurrent-reconciles=50 --rule-concurrent-reconciles=10",
            "--zap-devel --zap-encoder=console --zap-log-level=debug --zap-stacktrace-level=panic --zap-time-encoding=epoch",
            "--enable-node-state-metrics --leader-elect=true --kubeconfig /etc/kubernetes/admin.conf",
        ] {
            let words: Vec<&str> = flags.split(' ').collect();
            assert!(parsed(&words).is_ok(), "{flags}: {}", parsed(&words).err().unwrap());
        }
    }

    #[test]
    fn flags_may_be_written_as_go_takes_them() {
        let given = |args: &[&str]| -> Vec<String> {
            let args = args.iter().map(|arg| std::ffi::OsString::from(*arg));
            go_flags(args).into_iter().map(|arg| arg.into_string().unwrap()).collect()
        };
        assert_eq!(
            given(&["carrick", "controller", "-leader-elect", "-kube-api-qps=-1", "--kubeconfig", "x", "-h"]),
            ["carrick", "controller", "--leader-elect", "--kube-api-qps=-1", "--kubeconfig", "x", "-h"]
        );
        assert_eq!(given(&["/manager", "-leader-elect"]), ["/manager", "controller", "--leader-elect"]);
        assert_eq!(given(&["carrick", "check", "-vv"]), ["carrick", "check", "-vv"]);
    }
}
