//! Serving over TLS: with the certificate of a directory, read again when it changes, or with one of our own making.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use rcgen::{CertificateParams, KeyPair};
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio::time::{MissedTickBehavior, interval, sleep};
use tokio_rustls::TlsAcceptor;

use super::{NoticeLevel, NoticeSink, notice};

/// How soon a certificate that was replaced is served. A Secret's files are swapped as a whole: no event of a file tells it.
const LOOK: Duration = Duration::from_secs(10);

/// `tls.crt` and `tls.key` of a directory, read again when they change.
#[derive(Debug)]
pub struct Certificate {
    /// `None`: it is our own, and stays.
    directory: Option<PathBuf>,
    current: RwLock<(Arc<CertifiedKey>, Vec<u8>)>,
}

impl Certificate {
    pub fn read(directory: &Path) -> Result<Arc<Self>, String> {
        let current = RwLock::new(load(directory)?);
        Ok(Arc::new(Certificate { directory: Some(directory.to_owned()), current }))
    }

    /// As soon as it is there: who makes it may be slower than we are.
    pub async fn awaited(directory: &Path, what: &str, notices: &NoticeSink) -> Arc<Self> {
        let mut last = String::new();
        loop {
            match Self::read(directory) {
                Ok(certificate) => return certificate,
                Err(why) if why != last => {
                    notice(notices, NoticeLevel::Warning, format!("{what}: off until there is a certificate: {why}"));
                    last = why;
                }
                Err(_) => {}
            }
            sleep(LOOK).await;
        }
    }

    /// For `localhost`, signed by itself: whoever asks cannot tell whom they ask, as with controller-runtime's own.
    pub fn self_signed() -> Result<Arc<Self>, String> {
        let made = || -> Result<_, rcgen::Error> {
            let key = KeyPair::generate()?;
            Ok((CertificateParams::new(["localhost".to_owned()])?.self_signed(&key)?, key))
        };
        let (certificate, key) = made().map_err(|error| format!("no certificate could be made: {error}"))?;
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let chain = vec![certificate.der().clone()];
        let certified = CertifiedKey::from_der(chain, key, &ring::default_provider());
        let certified = certified.map_err(|error| format!("no certificate could be made: {error}"))?;
        Ok(Arc::new(Certificate { directory: None, current: RwLock::new((Arc::new(certified), Vec::new())) }))
    }

    /// Whether it is another one now.
    fn reload(&self) -> Result<bool, String> {
        let Some(directory) = &self.directory else { return Ok(false) };
        let (key, text) = load(directory)?;
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        let changed = current.1 != text;
        if changed {
            *current = (key, text);
        }
        Ok(changed)
    }
}

impl ResolvesServerCert for Certificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.current.read().unwrap_or_else(PoisonError::into_inner).0.clone())
    }
}

/// A Secret holds no more.
const LARGEST: u64 = 1 << 20;

fn read(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    std::fs::File::open(path)?.take(LARGEST + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LARGEST {
        return Err(std::io::Error::other(format!("longer than {LARGEST} bytes")));
    }
    Ok(bytes)
}

fn load(directory: &Path) -> Result<(Arc<CertifiedKey>, Vec<u8>), String> {
    let part = |name: &str| {
        let path = directory.join(name);
        read(&path).map_err(|error| format!("{}: {error}", path.display()))
    };
    let (certificate, key) = (part("tls.crt")?, part("tls.key")?);
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(&certificate)
        .collect::<Result<_, _>>()
        .map_err(|_| format!("{}: it holds no certificate in PEM", directory.join("tls.crt").display()))?;
    // The reader's own words may quote a line of the key.
    let parsed = PrivateKeyDer::from_pem_slice(&key)
        .map_err(|_| format!("{}: it holds no private key in PEM", directory.join("tls.key").display()))?;
    let certified = CertifiedKey::from_der(chain, parsed, &ring::default_provider())
        .map_err(|error| format!("{}: certificate and key: {error}", directory.display()))?;
    // What tells two apart: certificates are public, and another one has another.
    Ok((Arc::new(certified), certificate))
}

pub(super) fn acceptor(certificate: &Arc<Certificate>) -> std::io::Result<TlsAcceptor> {
    let settings = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(std::io::Error::other)?
        .with_no_client_auth()
        .with_cert_resolver(certificate.clone());
    Ok(TlsAcceptor::from(Arc::new(settings)))
}

/// Looks for a new certificate for as long as it is awaited.
pub(super) async fn keep_fresh(certificate: &Certificate, what: &str, notices: &NoticeSink) {
    let mut look = interval(LOOK);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut last = String::new();
    loop {
        look.tick().await;
        match certificate.reload() {
            Ok(changed) => {
                last.clear();
                if changed {
                    notice(notices, NoticeLevel::Info, format!("{what}: serving the new certificate"));
                }
            }
            // The old one is served on.
            Err(why) if why != last => {
                notice(notices, NoticeLevel::Warning, format!("{what}: {why}"));
                last = why;
            }
            Err(_) => {}
        }
    }
}

#[cfg(test)]
pub(super) mod testing {
    use super::*;

    /// Writes a certificate for `localhost`; as PEM.
    pub(in super::super) fn issue(directory: &Path) -> String {
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(["localhost".to_owned()]).unwrap().self_signed(&key).unwrap();
        std::fs::write(directory.join("tls.crt"), certificate.pem()).unwrap();
        std::fs::write(directory.join("tls.key"), key.serialize_pem()).unwrap();
        certificate.pem()
    }
}

#[cfg(test)]
mod tests {
    use super::testing::issue;
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_certificate_that_is_not_there_yet_is_waited_for() {
        let directory = tempfile::tempdir().unwrap();
        let said = Arc::new(std::sync::Mutex::new(Vec::new()));
        let sink = said.clone();
        let notices: NoticeSink = Arc::new(move |notice| sink.lock().unwrap().push(notice.says));
        let waiting = async { Certificate::awaited(directory.path(), "webhook", &notices).await };
        let made = async {
            sleep(3 * LOOK).await;
            issue(directory.path());
        };
        let (certificate, ()) = tokio::join!(waiting, made);
        assert_eq!(certificate.reload(), Ok(false));
        let said = said.lock().unwrap();
        assert!(said.len() == 1 && said[0].starts_with("webhook: off until there is a certificate"), "{said:?}");
    }

    #[test]
    fn a_certificate_that_is_replaced_is_served_and_a_broken_one_is_not() {
        let directory = tempfile::tempdir().unwrap();
        assert!(Certificate::read(directory.path()).unwrap_err().contains("tls.crt"));
        issue(directory.path());
        let certificate = Certificate::read(directory.path()).unwrap();
        assert_eq!(certificate.reload(), Ok(false));
        issue(directory.path());
        assert_eq!(certificate.reload(), Ok(true));
        // The certificate is there before its key.
        std::fs::write(directory.path().join("tls.key"), "-----BEGIN PRIVATE KEY-----\nAAAA").unwrap();
        let why = certificate.reload().unwrap_err();
        assert!(why.contains("tls.key") && !why.contains("AAAA"), "{why}");
    }

    #[test]
    fn what_has_no_end_is_not_read_to_it() {
        let directory = tempfile::tempdir().unwrap();
        issue(directory.path());
        std::fs::remove_file(directory.path().join("tls.crt")).unwrap();
        std::os::unix::fs::symlink("/dev/zero", directory.path().join("tls.crt")).unwrap();
        let why = Certificate::read(directory.path()).unwrap_err();
        assert!(why.contains("tls.crt") && why.contains("longer than 1048576 bytes"), "{why}");
    }
}
