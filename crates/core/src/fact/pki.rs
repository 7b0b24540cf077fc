//! Certificates on the machine: the cluster's CA, and the kubelet's own.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use ring::digest::{SHA256, digest};
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::prelude::{FromDer, X509Certificate, X509Name};
use x509_parser::time::ASN1Time;

use super::{Facts, Known, Missing, Source, Why, kubeconfig};

pub const CA: &str = "/etc/kubernetes/pki/ca.crt";
pub const DIR: &str = "/var/lib/kubelet/pki";
/// A link to the newest; its private key stands in the same file and arrives masked.
pub const CLIENT: &str = "/var/lib/kubelet/pki/kubelet-client-current.pem";

pub const SOURCES: &[Source] = &[Source::File(CA), Source::File(CLIENT), Source::Dir(DIR)];

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate {
    /// The subject's common name; empty where it has none.
    pub common_name: String,
    pub organizations: Vec<String>,
    /// The issuer's whole name, as in `CN=kubernetes`.
    pub issuer: String,
    pub not_before: Timestamp,
    pub not_after: Timestamp,
    /// `sha256:<hex>` of the public key, as kubeadm pins it.
    pub pin: String,
    pub is_ca: bool,
    der: Vec<u8>,
}

impl Certificate {
    /// The certificate bears the other's signature: the names alone are the same in every cluster kubeadm makes.
    pub fn is_signed_by(&self, ca: &Certificate) -> bool {
        let (Ok((_, own)), Ok((_, ca))) = (X509Certificate::from_der(&self.der), X509Certificate::from_der(&ca.der))
        else {
            return false;
        };
        own.issuer() == ca.subject() && own.verify_signature(Some(ca.public_key())).is_ok()
    }

    /// One of these has signed it. While a cluster's CA is rotated there are two, and either may have.
    pub fn is_signed_by_any(&self, cas: &[Certificate]) -> bool {
        cas.iter().any(|ca| self.is_signed_by(ca))
    }

    pub fn is_valid_at(&self, now: Timestamp) -> bool {
        self.not_before <= now && now < self.not_after
    }

    /// The node it was issued to; `None`: it is no kubelet's.
    pub fn node(&self) -> Option<&str> {
        self.common_name.strip_prefix("system:node:")
    }
}

/// Every certificate in a PEM text; other blocks are passed over. None at all is an error.
pub fn parse_certificates(pem: &str) -> Result<Vec<Certificate>, String> {
    let mut certificates = Vec::new();
    let mut block: Option<String> = None;
    for line in pem.lines().map(str::trim) {
        if line == "-----BEGIN CERTIFICATE-----" {
            block = Some(String::new());
        } else if line == "-----END CERTIFICATE-----" {
            let base64 = block.take().ok_or("a certificate ends that did not begin")?;
            let der = STANDARD.decode(base64).map_err(|error| format!("a certificate is not base64: {error}"))?;
            certificates.push(parse_der(&der)?);
        } else if let Some(block) = &mut block {
            block.push_str(line);
        }
    }
    if certificates.is_empty() { Err("it holds no certificate".to_owned()) } else { Ok(certificates) }
}

fn parse_der(der: &[u8]) -> Result<Certificate, String> {
    let (_, read) = X509Certificate::from_der(der).map_err(|error| format!("not a certificate: {error}"))?;
    let texts = |name: &X509Name<'_>| -> Vec<String> {
        name.iter_organization().filter_map(|it| it.as_str().ok()).map(str::to_owned).collect()
    };
    Ok(Certificate {
        common_name: read.subject().iter_common_name().find_map(|it| it.as_str().ok()).unwrap_or_default().to_owned(),
        organizations: texts(read.subject()),
        issuer: read.issuer().to_string(),
        not_before: timestamp(read.validity().not_before)?,
        not_after: timestamp(read.validity().not_after)?,
        pin: pin(read.public_key().raw),
        is_ca: read.is_ca(),
        der: der.to_owned(),
    })
}

fn timestamp(time: ASN1Time) -> Result<Timestamp, String> {
    Timestamp::from_second(time.timestamp()).map_err(|error| format!("a certificate's date is out of range: {error}"))
}

/// `sha256:<hex>` of a public key's DER.
pub fn pin(spki: &[u8]) -> String {
    let digest = digest(&SHA256, spki);
    digest.as_ref().iter().fold("sha256:".to_owned(), |text, byte| format!("{text}{byte:02x}"))
}

/// The common name a certificate request asks for.
pub fn requested_name(pem: &str) -> Option<String> {
    let (_, pem) = x509_parser::pem::parse_x509_pem(pem.as_bytes()).ok()?;
    let (_, request) = X509CertificationRequest::from_der(&pem.contents).ok()?;
    let name = request.certification_request_info.subject.iter_common_name().next()?.as_str().ok()?.to_owned();
    Some(name)
}

impl Facts {
    /// The CA an earlier join left here: more than one where the cluster's was being rotated.
    pub fn ca_certificates(&self) -> Known<Vec<Certificate>> {
        all(CA, &self.file(CA)?.text)
    }

    /// The certificate the kubelet would present: the newest it got, else the one in its `kubelet.conf`.
    pub fn client_certificate(&self) -> Known<Certificate> {
        let (source, pem) = match self.file(CLIENT) {
            Err(missing) if missing.why == Why::Absent => {
                let inside = self.kubelet_kubeconfig().ok().and_then(|conf| conf.client_certificate_pem);
                (kubeconfig::KUBELET, inside.ok_or(missing)?)
            }
            file => (CLIENT, file?.text.clone()),
        };
        all(source, &pem)?.into_iter().next().ok_or_else(|| Missing::broken(source, "it holds no certificate"))
    }

    /// The cluster's CA as its signed cluster-info gives it: more than one while it is rotated.
    pub fn cluster_cas(&self) -> Known<Vec<Certificate>> {
        all("the cluster's CA", &self.api("cluster-ca")?.text)
    }
}

fn all(source: &str, pem: &str) -> Known<Vec<Certificate>> {
    parse_certificates(pem).map_err(|detail| Missing::broken(source, detail))
}

/// Whether who trusts these CAs, and shows this certificate, is in the cluster that has these CAs, or is known by these pins: it
/// shares one with them, or one of them has signed the certificate. `None`: there is nothing to compare.
pub fn is_in_cluster(
    trusted: &[Certificate],
    client: Option<&Certificate>,
    cas: &[Certificate],
    pins: &[String],
) -> Option<bool> {
    if client.is_some_and(|client| client.is_signed_by_any(cas)) {
        return Some(true);
    }
    let is_known = |ca: &Certificate| cas.iter().any(|it| it.pin == ca.pin) || pins.contains(&ca.pin);
    let has_pins = !cas.is_empty() || !pins.is_empty();
    let comparable = has_pins && !trusted.is_empty();
    comparable.then(|| trusted.iter().any(is_known))
}

/// The keys of these, as a person compares them.
pub fn shown_pins(cas: &[Certificate]) -> String {
    let pins: BTreeSet<&str> = cas.iter().map(|ca| ca.pin.as_str()).collect();
    pins.into_iter().collect::<Vec<_>>().join(", ")
}

/// Makes certificates for tests.
#[cfg(test)]
pub mod sample {
    use rcgen::{BasicConstraints, CertificateParams, DistinguishedName, DnType, IsCa, Issuer, KeyPair, date_time_ymd};

    /// A CA of its own key, named as kubeadm names every one.
    pub struct SampleAuthority {
        pub pem: String,
        issuer: Issuer<'static, KeyPair>,
    }

    impl SampleAuthority {
        pub fn make() -> Self {
            let mut params = CertificateParams::default();
            params.distinguished_name = name("kubernetes", None);
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            (params.not_before, params.not_after) = (date_time_ymd(2026, 1, 1), date_time_ymd(2036, 1, 1));
            let key = KeyPair::generate().expect("a key");
            let pem = params.self_signed(&key).expect("a certificate").pem();
            SampleAuthority { pem, issuer: Issuer::new(params, key) }
        }

        /// A kubelet's client certificate, valid from January 2026 to January of a year; its key masked.
        pub fn node(&self, common_name: &str, until: i32) -> String {
            let mut params = CertificateParams::default();
            params.distinguished_name = name(common_name, Some("system:nodes"));
            (params.not_before, params.not_after) = (date_time_ymd(2026, 1, 1), date_time_ymd(until, 1, 1));
            let key = KeyPair::generate().expect("a key");
            let certificate = params.signed_by(&key, &self.issuer).expect("a certificate");
            format!("{}<redacted:private-key>\n", certificate.pem())
        }
    }

    /// A kubelet's request for one, as PEM.
    pub fn request(common_name: &str) -> String {
        let mut params = CertificateParams::default();
        params.distinguished_name = name(common_name, Some("system:nodes"));
        let key = KeyPair::generate().expect("a key");
        params.serialize_request(&key).expect("a request").pem().expect("PEM")
    }

    fn name(common_name: &str, organization: Option<&str>) -> DistinguishedName {
        let mut name = DistinguishedName::new();
        name.push(DnType::CommonName, common_name);
        if let Some(organization) = organization {
            name.push(DnType::OrganizationName, organization);
        }
        name
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::sample::SampleAuthority;
    use super::*;
    use crate::testing::facts;

    #[test]
    fn reads_a_nodes_certificate_and_who_signed_it() {
        let (ours, other) = (SampleAuthority::make(), SampleAuthority::make());
        let known = facts()
            .with_file(CLIENT, &ours.node("system:node:w1", 2027))
            .with_file(CA, &ours.pem)
            .with_api("cluster-ca", &other.pem);
        let client = known.client_certificate().expect("known");
        assert_eq!(client.common_name, "system:node:w1");
        assert_eq!(client.organizations, ["system:nodes"]);
        assert_eq!(client.issuer, "CN=kubernetes");
        assert_eq!(
            (client.not_before.to_string().as_str(), client.not_after.to_string().as_str()),
            ("2026-01-01T00:00:00Z", "2027-01-01T00:00:00Z")
        );
        assert!(!client.is_ca);
        let (ca, foreign) =
            (known.ca_certificates().expect("known").remove(0), known.cluster_cas().expect("known").remove(0));
        assert!(ca.is_ca && client.is_signed_by(&ca) && ca.is_signed_by(&ca));
        assert!(!client.is_signed_by(&foreign), "the name is the same, the key is not");
        assert!(!ca.is_signed_by(&client));
        assert_eq!((client.node(), ca.node()), (Some("w1"), None));
        let bundle =
            facts().with_api("cluster-ca", &format!("{}{}", other.pem, ours.pem)).cluster_cas().expect("known");
        assert!(bundle.len() == 2 && client.is_signed_by_any(&bundle) && !client.is_signed_by_any(&bundle[..1]));
    }

    #[test]
    fn the_pin_is_the_one_kubeadm_prints() {
        // openssl x509 -pubkey -noout | openssl pkey -pubin -outform der | sha256sum: of a key, not of a certificate.
        let ca = SampleAuthority::make();
        let read = parse_certificates(&ca.pem).expect("PEM").remove(0);
        let (_, parsed) = X509Certificate::from_der(&read.der).expect("DER");
        assert_eq!(read.pin, pin(parsed.tbs_certificate.subject_pki.raw));
        assert_eq!(read.pin.len(), "sha256:".len() + 64);
        assert_eq!(pin(b""), "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    }

    #[test]
    fn the_dates_are_from_and_until() {
        let client = parse_certificates(&SampleAuthority::make().node("x", 2027)).expect("PEM").remove(0);
        let second = |at: Timestamp, by: i64| Timestamp::from_second(at.as_second() + by).unwrap();
        for (now, valid) in [
            (second(client.not_before, -1), false),
            (client.not_before, true),
            (second(client.not_after, -1), true),
            (client.not_after, false),
        ] {
            assert_eq!(client.is_valid_at(now), valid, "{now}");
        }
    }

    #[test]
    fn a_certificate_inside_kubelet_conf_counts_until_the_kubelet_got_another() {
        let ca = SampleAuthority::make();
        let data = STANDARD.encode(ca.node("system:node:inside", 2027));
        let conf = kubeconfig::sample::kubelet("https://10.0.0.11:6443", &ca.pem);
        let conf = conf.replace(&format!("client-certificate: {CLIENT}"), &format!("client-certificate-data: {data}"));
        let inside = facts().with_file(kubeconfig::KUBELET, &conf).without_file(CLIENT);
        assert_eq!(inside.client_certificate().expect("known").node(), Some("inside"));
        let newer = inside.with_file(CLIENT, &ca.node("system:node:newer", 2027));
        assert_eq!(newer.client_certificate().expect("known").node(), Some("newer"));
    }

    #[test]
    fn a_text_without_certificate_says_so() {
        assert_eq!(parse_certificates("<redacted:private-key>\n"), Err("it holds no certificate".to_owned()));
        assert!(parse_certificates("-----END CERTIFICATE-----").is_err());
        assert!(parse_certificates("-----BEGIN CERTIFICATE-----\n!!\n-----END CERTIFICATE-----").is_err());
        assert!(parse_certificates("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----").is_err());
        assert_eq!(facts().without_file(CLIENT).client_certificate().unwrap_err().why, Why::Absent);
    }

    proptest! {
        #[test]
        fn any_text_is_certificates_or_an_error(body in "([A-Za-z0-9+/=\n]|.)*") {
            let _ = parse_certificates(&body);
            let _ = parse_certificates(&format!("-----BEGIN CERTIFICATE-----\n{body}\n-----END CERTIFICATE-----\n"));
        }

        #[test]
        fn any_bytes_are_a_certificate_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..500)) {
            let _ = parse_der(&bytes);
        }
    }
}
