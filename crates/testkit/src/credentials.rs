//! Keys, certificates and tokens for API servers that live as long as a test.

use std::net::IpAddr;
use std::path::Path;
use std::{fs, io};

use rcgen::{
    BasicConstraints, CertificateParams, CertificateSigningRequestParams, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, SanType,
};

/// Stands for the cluster's admin.
pub(crate) const ADMIN_TOKEN: &str = "testkit-admin";
/// A user without any right, to see that RBAC is on.
pub(crate) const NOBODY_TOKEN: &str = "testkit-nobody";

/// A certificate and its key, as PEM.
#[derive(Clone)]
pub struct Issued {
    pub certificate: String,
    pub key: String,
}

/// A cluster's certificate authority.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: String,
    key: String,
}

impl Authority {
    pub fn new() -> io::Result<Self> {
        let mut params = CertificateParams::new(Vec::new()).map_err(io::Error::other)?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "kubernetes");
        let key = KeyPair::generate().map_err(io::Error::other)?;
        let certificate = params.self_signed(&key).map_err(io::Error::other)?.pem();
        let text = key.serialize_pem();
        Ok(Self { issuer: Issuer::new(params, key), certificate, key: text })
    }

    /// One that is there already: kubeadm's `ca.crt` and `ca.key`.
    pub fn of(certificate: &str, key: &str) -> io::Result<Self> {
        let pair = KeyPair::from_pem(key).map_err(io::Error::other)?;
        let issuer = Issuer::from_ca_cert_pem(certificate, pair).map_err(io::Error::other)?;
        Ok(Self { issuer, certificate: certificate.to_owned(), key: key.to_owned() })
    }

    /// Its certificate, as PEM.
    pub fn pem(&self) -> &str {
        &self.certificate
    }

    /// A client's certificate: its name, and the groups it is in.
    pub fn client(&self, name: &str, groups: &[&str]) -> io::Result<Issued> {
        let mut params = CertificateParams::new(Vec::new()).map_err(io::Error::other)?;
        params.distinguished_name.push(DnType::CommonName, name);
        for group in groups {
            params.distinguished_name.push(DnType::OrganizationName, *group);
        }
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.issue(&params)
    }

    /// A server's, for these names and addresses.
    pub fn server(&self, names: &[&str]) -> io::Result<Issued> {
        let (addresses, names): (Vec<_>, Vec<_>) =
            names.iter().map(|name| name.parse::<IpAddr>().map_err(|_| (*name).to_owned())).partition(Result::is_ok);
        let names: Vec<String> = names.into_iter().filter_map(Result::err).collect();
        let mut params = CertificateParams::new(names).map_err(io::Error::other)?;
        params.subject_alt_names.extend(addresses.into_iter().flatten().map(SanType::IpAddress));
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        self.issue(&params)
    }

    /// What a request asks for, signed: PEM in, PEM out.
    pub fn sign(&self, request: &str) -> io::Result<String> {
        let request = CertificateSigningRequestParams::from_pem(request).map_err(io::Error::other)?;
        Ok(request.signed_by(&self.issuer).map_err(io::Error::other)?.pem())
    }

    fn issue(&self, params: &CertificateParams) -> io::Result<Issued> {
        let key = KeyPair::generate().map_err(io::Error::other)?;
        let certificate = params.signed_by(&key, &self.issuer).map_err(io::Error::other)?.pem();
        Ok(Issued { certificate, key: key.serialize_pem() })
    }
}

/// Writes everything a real API server is started with into a folder.
pub(crate) fn write(folder: &Path) -> io::Result<Authority> {
    let authority = Authority::new()?;
    let serving = authority.server(&["localhost", "kubernetes.default.svc", "127.0.0.1"])?;
    // As kubeadm's super-admin.conf has it.
    let admin = authority.client("kubernetes-super-admin", &["system:masters"])?;
    let accounts = KeyPair::generate().map_err(io::Error::other)?;
    let users = format!("{ADMIN_TOKEN},admin,1,system:masters\n{NOBODY_TOKEN},nobody,2,\n");
    for (name, text) in [
        ("ca.crt", &authority.certificate),
        ("ca.key", &authority.key),
        ("server.crt", &serving.certificate),
        ("server.key", &serving.key),
        ("admin.crt", &admin.certificate),
        ("admin.key", &admin.key),
        ("account.key", &accounts.serialize_pem()),
        ("account.pub", &accounts.public_key_pem()),
        ("users.csv", &users),
        ("audit.yaml", &AUDIT_POLICY.to_owned()),
    ] {
        fs::write(folder.join(name), text)?;
    }
    Ok(authority)
}

/// Who did what to which object: enough to count writes, without their bodies.
const AUDIT_POLICY: &str =
    "apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\nrules: [{level: Metadata}]\n";
