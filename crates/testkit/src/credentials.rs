//! Keys, certificates and tokens for an API server that lives as long as a test.

use std::path::Path;
use std::{fs, io};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair, SanType,
};

/// Stands for the cluster's admin.
pub const ADMIN_TOKEN: &str = "testkit-admin";
/// A user without any right, to see that RBAC is on.
pub const NOBODY_TOKEN: &str = "testkit-nobody";

pub struct Credentials {
    pub authority: String,
}

impl Credentials {
    /// Writes everything the API server is started with into a folder.
    pub fn write(folder: &Path) -> io::Result<Self> {
        let Certificates { authority, serving, admin } = certificates().map_err(io::Error::other)?;
        let accounts = KeyPair::generate().map_err(io::Error::other)?;
        let users = format!("{ADMIN_TOKEN},admin,1,system:masters\n{NOBODY_TOKEN},nobody,2,\n");
        for (name, text) in [
            ("ca.crt", &authority),
            ("server.crt", &serving.0),
            ("server.key", &serving.1),
            ("admin.crt", &admin.0),
            ("admin.key", &admin.1),
            ("account.key", &accounts.serialize_pem()),
            ("account.pub", &accounts.public_key_pem()),
            ("users.csv", &users),
            ("audit.yaml", &AUDIT_POLICY.to_owned()),
        ] {
            fs::write(folder.join(name), text)?;
        }
        Ok(Self { authority })
    }
}

/// Who did what to which object: enough to count writes, without their bodies.
const AUDIT_POLICY: &str =
    "apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\nrules: [{level: Metadata}]\n";

/// As PEM; certificate and key where there are two.
struct Certificates {
    authority: String,
    serving: (String, String),
    admin: (String, String),
}

fn certificates() -> Result<Certificates, rcgen::Error> {
    let mut authority = CertificateParams::new(Vec::new())?;
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate()?)?;
    let mut serving = CertificateParams::new(vec!["localhost".to_owned(), "kubernetes.default.svc".to_owned()])?;
    serving.subject_alt_names.push(SanType::IpAddress(std::net::Ipv4Addr::LOCALHOST.into()));
    // As kubeadm's super-admin.conf has it.
    let mut admin = CertificateParams::new(Vec::new())?;
    admin.distinguished_name.push(DnType::CommonName, "kubernetes-super-admin");
    admin.distinguished_name.push(DnType::OrganizationName, "system:masters");
    admin.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    let issue = |params: CertificateParams| {
        let key = KeyPair::generate()?;
        Ok::<_, rcgen::Error>((params.signed_by(&key, &authority)?.pem(), key.serialize_pem()))
    };
    Ok(Certificates { serving: issue(serving)?, admin: issue(admin)?, authority: authority.pem() })
}
