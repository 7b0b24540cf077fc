//! How a kubelet reaches its cluster: `kubelet.conf`, and `bootstrap-kubelet.conf` while it has no certificate yet.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::pki::{self, Certificate};
use super::{Facts, Known, Missing, OrAbsent, Source, Why};

const DIR: &str = "/etc/kubernetes";
pub const KUBELET: &str = "/etc/kubernetes/kubelet.conf";
pub const BOOTSTRAP: &str = "/etc/kubernetes/bootstrap-kubelet.conf";

pub const SOURCES: &[Source] = &[Source::File(KUBELET), Source::File(BOOTSTRAP)];

/// The cluster and the user of the current context.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kubeconfig {
    pub server: Option<String>,
    /// The CA inside the file, as PEM.
    pub ca_pem: Option<String>,
    /// Or the file it is in.
    pub ca_file: Option<String>,
    pub client_certificate_file: Option<String>,
    /// The client certificate inside the file, as PEM.
    pub client_certificate_pem: Option<String>,
    pub has_token: bool,
    /// Who asks comes from a file, a program, a provider or a password.
    pub has_foreign_credential: bool,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
struct Raw {
    current_context: Option<String>,
    clusters: Option<Vec<NamedCluster>>,
    contexts: Option<Vec<NamedContext>>,
    users: Option<Vec<NamedUser>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct NamedCluster {
    name: String,
    cluster: KubeconfigCluster,
}

/// A cluster as a kubeconfig names it.
#[derive(Default, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct KubeconfigCluster {
    pub server: Option<String>,
    pub certificate_authority: Option<String>,
    pub certificate_authority_data: Option<String>,
    pub tls_server_name: Option<String>,
    pub insecure_skip_tls_verify: Option<bool>,
    pub proxy_url: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct NamedContext {
    name: String,
    context: Context,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Context {
    cluster: String,
    user: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct NamedUser {
    name: String,
    user: KubeconfigUser,
}

/// A user as a kubeconfig names it, secrets and all: there is no `Debug` for it.
#[derive(Default, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct KubeconfigUser {
    pub client_certificate: Option<String>,
    pub client_certificate_data: Option<String>,
    pub client_key: Option<String>,
    pub client_key_data: Option<String>,
    pub token: Option<String>,
    #[serde(rename = "tokenFile")]
    pub token_file: Option<String>,
    pub username: Option<String>,
    /// Whom it would act as.
    #[serde(rename = "as")]
    pub acts_as: Option<String>,
    pub exec: Option<IgnoredAny>,
    pub auth_provider: Option<IgnoredAny>,
}

/// The cluster and the user of the current context. No complaint repeats a value: it may be the secret one.
pub fn current(text: &str) -> Result<(KubeconfigCluster, KubeconfigUser), String> {
    of_context(read(text)?)
}

/// The same of a discovery file; one as the cluster-info ConfigMap holds it has one cluster without a name, and no context.
pub fn of_discovery(text: &str) -> Result<(KubeconfigCluster, KubeconfigUser), String> {
    let mut raw = read(text)?;
    let unnamed = raw.clusters.as_ref().is_some_and(|clusters| clusters.iter().all(|cluster| cluster.name.is_empty()));
    if unnamed
        && raw.contexts.as_ref().is_none_or(Vec::is_empty)
        && let Some(only) = raw.clusters.take().unwrap_or_default().into_iter().next()
    {
        return Ok((only.cluster, KubeconfigUser::default()));
    }
    of_context(raw)
}

fn read(text: &str) -> Result<Raw, String> {
    serde_saphyr::from_str(text).map_err(|error| match error.location() {
        Some(location) => format!("line {} is not as in a kubeconfig", location.line()),
        None => "not a kubeconfig".to_owned(),
    })
}

fn of_context(raw: Raw) -> Result<(KubeconfigCluster, KubeconfigUser), String> {
    let contexts = raw.contexts.unwrap_or_default();
    let context = contexts.into_iter().find(|it| Some(&it.name) == raw.current_context.as_ref());
    let context = context.ok_or("its current-context is not among its contexts")?.context;
    let cluster = raw.clusters.unwrap_or_default().into_iter().find(|it| it.name == context.cluster);
    let cluster = cluster.ok_or("the cluster of its context is not there")?.cluster;
    let user = raw.users.unwrap_or_default().into_iter().find(|it| it.name == context.user).unwrap_or_default().user;
    Ok((cluster, user))
}

pub fn parse(text: &str) -> Result<Kubeconfig, String> {
    let (cluster, user) = current(text)?;
    let filled = |text: Option<String>| text.filter(|text| !text.is_empty());
    let by_name = [user.token_file, user.username].into_iter().any(|text| filled(text).is_some());
    Ok(Kubeconfig {
        server: filled(cluster.server),
        ca_pem: filled(cluster.certificate_authority_data).and_then(|data| decode(&data)),
        ca_file: filled(cluster.certificate_authority),
        client_certificate_file: filled(user.client_certificate),
        client_certificate_pem: filled(user.client_certificate_data).and_then(|data| decode(&data)),
        has_token: filled(user.token).is_some(),
        has_foreign_credential: by_name || user.exec.is_some() || user.auth_provider.is_some(),
    })
}

/// The text in a `…-data` field.
pub fn decode(data: &str) -> Option<String> {
    let data: String = data.split_whitespace().collect();
    STANDARD.decode(data).ok().and_then(|bytes| String::from_utf8(bytes).ok())
}

impl Kubeconfig {
    /// Who a kubelet with this kubeconfig is comes from somewhere else than a certificate that Carrick reads.
    pub fn has_other_credential(&self) -> bool {
        let file = self.client_certificate_file.as_deref();
        self.has_token || self.has_foreign_credential || file.is_some_and(|file| file != pki::CLIENT)
    }
}

impl Facts {
    /// `kubelet.conf`. That it is there does not say that this machine has joined: the kubelet writes it before it has
    /// a certificate.
    /// The machine has joined, or has tried to: its `kubelet.conf` is there. Who may not look into the directory cannot tell.
    pub fn has_kubelet_conf(&self) -> Known<bool> {
        self.is_there(KUBELET)
    }

    /// As [`Self::has_kubelet_conf`], of the file a join leaves until the kubelet has its certificate.
    pub fn has_bootstrap_conf(&self) -> Known<bool> {
        self.is_there(BOOTSTRAP)
    }

    fn is_there(&self, path: &str) -> Known<bool> {
        match self.file(path).or_absent() {
            // Of a paste there may be the list of the directory and not the file.
            Err(missing) if missing.why == Why::NotCollected => match self.dir(DIR) {
                Ok(entries) => Ok(entries.iter().any(|entry| format!("{DIR}/{}", entry.name) == path)),
                Err(_) => Err(missing),
            },
            conf => Ok(conf?.is_some()),
        }
    }

    pub fn kubelet_kubeconfig(&self) -> Known<Kubeconfig> {
        self.kubeconfig(KUBELET)
    }

    pub fn bootstrap_kubeconfig(&self) -> Known<Kubeconfig> {
        self.kubeconfig(BOOTSTRAP)
    }

    fn kubeconfig(&self, path: &str) -> Known<Kubeconfig> {
        parse(&self.file(path)?.text).map_err(|detail| Missing::broken(path, detail))
    }

    /// The CAs this kubeconfig trusts: more than one while they are rotated, none where they are in a file that is not read.
    pub fn trusted_by(&self, conf: &Kubeconfig) -> Vec<Certificate> {
        match &conf.ca_pem {
            Some(pem) => pki::parse_certificates(pem).unwrap_or_default(),
            None if conf.ca_file.as_deref() == Some(pki::CA) => self.ca_certificates().unwrap_or_default(),
            None => Vec::new(),
        }
    }
}

/// Kubeconfigs as kubelet and kubeadm write them, for tests.
#[cfg(any(test, feature = "testing"))]
pub mod sample {
    use base64::Engine as _;

    /// `kubelet.conf` of a cluster, trusting this CA.
    pub fn kubelet(server: &str, ca_pem: &str) -> String {
        with(
            server,
            ca_pem,
            "client-certificate: /var/lib/kubelet/pki/kubelet-client-current.pem\n    client-key: /var/lib/kubelet/pki/kubelet-client-current.pem",
        )
    }

    /// `bootstrap-kubelet.conf`, its token already masked.
    pub fn bootstrap(server: &str, ca_pem: &str) -> String {
        with(server, ca_pem, "token: <redacted:bootstrap-token>")
    }

    fn with(server: &str, ca_pem: &str, user: &str) -> String {
        let data = base64::engine::general_purpose::STANDARD.encode(ca_pem);
        format!(
            "apiVersion: v1
clusters:
- cluster:
    certificate-authority-data: {data}
    server: {server}
  name: default-cluster
contexts:
- context:
    cluster: default-cluster
    namespace: default
    user: default-auth
  name: default-context
current-context: default-context
kind: Config
users:
- name: default-auth
  user:
    {user}
"
        )
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::facts;

    #[test]
    fn reads_the_kubelets_own() {
        let text = sample::kubelet("https://10.0.0.11:6443", "PEM");
        let read = facts().with_file(KUBELET, &text).kubelet_kubeconfig().expect("known");
        assert_eq!((read.server.as_deref(), read.ca_pem.as_deref()), (Some("https://10.0.0.11:6443"), Some("PEM")));
        assert_eq!(read.client_certificate_file.as_deref(), Some("/var/lib/kubelet/pki/kubelet-client-current.pem"));
        assert!(!read.has_token);
        assert_eq!(facts().trusted_by(&read), [], "PEM without a certificate");
        let ca = pki::sample::SampleAuthority::make();
        let by_file =
            text.replace("certificate-authority-data: UEVN", "certificate-authority: /etc/kubernetes/pki/ca.crt");
        let by_file = parse(&by_file).expect("read");
        assert_eq!(facts().with_file(pki::CA, &ca.pem).trusted_by(&by_file).len(), 1);
        assert_eq!(facts().without_file(pki::CA).trusted_by(&by_file), []);
    }

    #[test]
    fn a_masked_token_is_still_a_token() {
        let text = sample::bootstrap("https://10.0.0.11:6443", "PEM");
        assert!(facts().with_file(BOOTSTRAP, &text).bootstrap_kubeconfig().expect("known").has_token);
    }

    #[test]
    fn the_current_context_decides() {
        let text = "current-context: b\ncontexts: [{name: a, context: {cluster: a}}, {name: b, context: {cluster: b}}]\n\
                    clusters: [{name: a, cluster: {server: A}}, {name: b, cluster: {server: B, certificate-authority: /ca}}]\nusers: null\n";
        let read = parse(text).expect("read");
        assert_eq!((read.server.as_deref(), read.ca_file.as_deref()), (Some("B"), Some("/ca")));
        let info = "clusters: [{name: '', cluster: {server: A}}]\ncontexts: null\ncurrent-context: ''\nusers: null\n";
        assert_eq!(of_discovery(info).expect("the cluster-info ConfigMap").0.server.as_deref(), Some("A"));
        assert!(parse(info).is_err(), "a kubelet.conf that was cut off is no kubeconfig");
        assert!(parse("current-context: c\n").is_err());
        assert!(parse("current-context: a\ncontexts: [{name: a, context: {cluster: z}}]\n").is_err());
        assert!(parse("").is_err());
    }

    #[test]
    fn a_complaint_does_not_repeat_what_may_be_secret() {
        for text in
            ["users:\n- name: a\n  user: s3cret\n", "users: [{user: {token: [s3cret]}}]", "a: {s3cret", "s3cret"]
        {
            let complaint = current(text).err().expect("refused");
            assert!(!complaint.contains("s3cret"), "{complaint}");
        }
        assert_eq!(
            current("users:\n- name: a\n  user: s3cret\n").err().as_deref(),
            Some("line 3 is not as in a kubeconfig")
        );
    }

    proptest! {
        #[test]
        fn any_text_is_a_kubeconfig_or_an_error(text in "(current-context: |contexts|clusters|[:\\-\n \\[{]|.)*") {
            let _ = parse(&text);
        }
    }

    #[test]
    fn a_kubelet_conf_that_may_not_be_read_may_be_there_or_not() {
        assert_eq!(facts().with_file(KUBELET, "apiVersion: v1").has_kubelet_conf(), Ok(true));
        assert!(facts().without(Source::File(KUBELET), Why::Denied).has_kubelet_conf().is_err());
        assert_eq!(facts().without_file(KUBELET).has_kubelet_conf(), Ok(false));
        assert!(facts().has_kubelet_conf().is_err());
    }
}
