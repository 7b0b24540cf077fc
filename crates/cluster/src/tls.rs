//! TLS on a stream that is already there: once believing everybody, to see who is there; then believing one CA only.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{ClientConfig, WebPkiServerVerifier};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::time_provider::TimeProvider;
use rustls::{CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::dialer::DialedStream;

/// Whom to believe.
pub(crate) enum Trust<'a> {
    /// Whoever answers: to read public documents that prove themselves by a signature, never to send a secret.
    Anybody,
    /// Certificates of this CA, or of one of these (PEM), for this name, valid now.
    Ca(&'a str),
}

/// Who asks, where a certificate says it.
pub(crate) struct ClientIdentity {
    pub chain: Vec<CertificateDer<'static>>,
    pub key: PrivateKeyDer<'static>,
}

/// Shakes hands. The certificate is checked as far as `trust` says.
pub(crate) async fn handshake(
    stream: Box<dyn DialedStream>,
    host: &str,
    trust: &Trust<'_>,
    now: Timestamp,
) -> io::Result<TlsStream<Box<dyn DialedStream>>> {
    let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
    connect(stream, name, &*settings(trust, None)?, now).await
}

/// `now`: by the clock of the machine that asks. Its kubelet will judge the same certificate by that.
pub(crate) async fn connect(
    stream: Box<dyn DialedStream>,
    name: ServerName<'static>,
    settings: &ClientConfig,
    now: Timestamp,
) -> io::Result<TlsStream<Box<dyn DialedStream>>> {
    let mut settings = settings.clone();
    settings.time_provider = Arc::new(At(now));
    TlsConnector::from(Arc::new(settings)).connect(name, stream).await
}

/// A clock that was read once: a handshake takes no time that would matter.
#[derive(Debug)]
struct At(Timestamp);

impl TimeProvider for At {
    fn current_time(&self) -> Option<UnixTime> {
        u64::try_from(self.0.as_second()).ok().map(|seconds| UnixTime::since_unix_epoch(Duration::from_secs(seconds)))
    }
}

pub(crate) fn settings(trust: &Trust<'_>, identity: Option<ClientIdentity>) -> io::Result<Arc<ClientConfig>> {
    let provider = Arc::new(ring::default_provider());
    let verifier: Arc<dyn ServerCertVerifier> = match trust {
        Trust::Anybody => Arc::new(Anybody(provider.clone())),
        Trust::Ca(pem) => ca_verifier(pem, provider.clone())?,
    };
    let settings = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .dangerous()
        .with_custom_certificate_verifier(verifier);
    Ok(Arc::new(match identity {
        None => settings.with_no_client_auth(),
        Some(ClientIdentity { chain, key }) => settings.with_client_auth_cert(chain, key).map_err(io::Error::other)?,
    }))
}

fn ca_verifier(pem: &str, provider: Arc<CryptoProvider>) -> io::Result<Arc<dyn ServerCertVerifier>> {
    let mut roots = RootCertStore::empty();
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
    // While a CA is rotated there are several. As for Go's TLS, those that can be used are; without any it is refused below.
    roots.add_parsable_certificates(certificates.map_err(io::Error::other)?);
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build();
    Ok(verifier.map_err(io::Error::other)?)
}

/// The certificate the other side showed, DER.
pub(crate) fn shown_certificate(stream: &TlsStream<Box<dyn DialedStream>>) -> Option<Vec<u8>> {
    let certificates = stream.get_ref().1.peer_certificates()?;
    certificates.first().map(|certificate| certificate.to_vec())
}

/// Whether the server's certificate is of the future, to whoever's clock judged it.
pub(crate) fn is_not_yet_valid(error: &io::Error) -> bool {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>());
    let Some(Error::InvalidCertificate(why)) = inner else { return false };
    matches!(why, CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. })
}

/// What a failed handshake means, in words.
pub(crate) fn explain(error: &io::Error) -> String {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>());
    match inner {
        Some(Error::InvalidMessage(_)) => "what answers does not speak TLS: a plain HTTP port, or a proxy".to_owned(),
        Some(error) => error.to_string(),
        None if error.kind() == io::ErrorKind::UnexpectedEof => {
            "the connection was closed during the handshake: a load balancer without a server behind it?".to_owned()
        }
        None => error.to_string(),
    }
}

/// Believes any certificate, but still checks that the server holds its key.
#[derive(Debug)]
struct Anybody(Arc<CryptoProvider>);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        rustls::crypto::verify_tls12_signature(message, cert, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        rustls::crypto::verify_tls13_signature(message, cert, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
