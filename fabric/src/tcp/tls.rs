//! TLS around a connection, if the cluster uses it: both ends present a certificate that the CA has
//! signed.
//!
//! ```text
//! START magic, version, whether in TLS ──► the same here?
//!       ◄── OK, or a refusal
//! TLS 1.3, certificates of both ends; then, inside, the handshake of [`super::auth`]
//! ```
//! Names in certificates are ignored: the inner handshake establishes the identities. Its proofs
//! hold for this TLS session alone, so that another holder of a certificate cannot forward them.
//!
//! # Failure
//! A fault of a certificate is reported to the end that presented it, and is a [`HandshakeError`]
//! at both ends.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, verify_server_cert_signed_by_trust_anchor};
use rustls::crypto::{CryptoProvider, ring, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::{ParsedCertificate, WebPkiClientVerifier};
use rustls::version::TLS13;
use rustls::{
    AlertDescription, CertificateError, ClientConfig, ClientConnection, Connection,
    DigitallySignedStruct, PeerIncompatible, RootCertStore, ServerConfig, ServerConnection,
    SignatureScheme,
};

use super::auth::{self, HandshakeError, Identity, Peer};
use crate::machine::MachineId;

/// The server name for which a session asks; it is never checked.
const ANYBODY: &str = "fencepost";
const BINDING_LABEL: &[u8] = b"EXPORTER-fencepost";
/// The length of the random bytes that only the two ends of a session know.
const BINDING_BYTES: usize = 32;

/// The TLS state of a connection.
pub(super) type Session = Box<Connection>;

/// The certificates that a machine presents, and the authorities that it accepts.
#[derive(Clone)]
pub struct TcpTls {
    client: Arc<ClientConfig>,
    server: Arc<ServerConfig>,
}

/// The error for an unusable certificate or key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TlsError {
    /// The text is not PEM, or contains no certificate or key.
    #[error("{0}: {1}")]
    Pem(&'static str, String),
    /// The certificate and the key do not match, or are unusable for TLS.
    #[error("{0}")]
    Unusable(String),
}

/// The fault of a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CertificateFault {
    /// The certificate is missing.
    #[error("is missing")]
    Missing,
    /// The certificate is not signed by the CA.
    #[error("is not signed by the CA")]
    UnknownAuthority,
    /// The certificate has expired, or is not valid yet.
    #[error("is not valid at this time")]
    OutOfDate,
    /// The certificate is of another kind, or damaged.
    #[error("cannot be used for this")]
    Unusable,
}

impl fmt::Debug for TcpTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TcpTls")
    }
}

impl TcpTls {
    /// Presents `chain`, which begins with the machine's own certificate, whose private key is
    /// `key`. Accepts certificates that one of `authorities` has signed. All are PEM.
    ///
    /// # Errors
    /// [`TlsError::Pem`] if a text is not PEM or lacks a certificate or key; [`TlsError::Unusable`]
    /// if TLS refuses one of them, or if the key is of another certificate.
    pub fn from_pem(chain: &[u8], key: &[u8], authorities: &[u8]) -> Result<Self, TlsError> {
        let chain = certificates("certificate", chain)?;
        let key = PrivateKeyDer::from_pem_slice(key);
        let key = key.map_err(|error| TlsError::Pem("private key", error.to_string()))?;
        let unusable = |error: &dyn fmt::Display| TlsError::Unusable(error.to_string());
        let mut roots = RootCertStore::empty();
        for authority in certificates("CA", authorities)? {
            roots.add(authority).map_err(|error| unusable(&error))?;
        }
        let (roots, provider) = (Arc::new(roots), Arc::new(ring::default_provider()));
        let clients =
            WebPkiClientVerifier::builder_with_provider(Arc::clone(&roots), Arc::clone(&provider))
                .build()
                .map_err(|error| unusable(&error))?;
        let mut server = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[&TLS13])
            .map_err(|error| unusable(&error))?
            .with_client_cert_verifier(clients)
            .with_single_cert(chain.clone(), key.clone_key())
            .map_err(|error| unusable(&error))?;
        let mut client = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[&TLS13])
            .map_err(|error| unusable(&error))?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(CaVerifier { roots, provider }))
            .with_client_auth_cert(chain, key)
            .map_err(|error| unusable(&error))?;
        // Resumption is disabled, so that each handshake checks the certificates.
        client.resumption = Resumption::disabled();
        server.send_tls13_tickets = 0;
        Ok(TcpTls {
            client: Arc::new(client),
            server: Arc::new(server),
        })
    }
}

fn certificates(what: &'static str, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let all = read.map_err(|error| TlsError::Pem(what, error.to_string()))?;
    match all.is_empty() {
        true => Err(TlsError::Pem(what, "no certificate".into())),
        false => Ok(all),
    }
}

/// A verifier that accepts every listener whose certificate the CA has signed, whatever its name.
#[derive(Debug)]
struct CaVerifier {
    roots: Arc<RootCertStore>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for CaVerifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let algorithms = self.provider.signature_verification_algorithms.all;
        let certificate = ParsedCertificate::try_from(certificate)?;
        verify_server_cert_signed_by_trust_anchor(
            &certificate,
            &self.roots,
            intermediates,
            now,
            algorithms,
        )?;
        Ok(ServerCertVerified::assertion())
    }

    /// Returns an error; never called, because only TLS 1.3 is enabled.
    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(PeerIncompatible::ServerDoesNotSupportTls12Or13.into())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        let algorithms = &self.provider.signature_verification_algorithms;
        algorithms.supported_schemes()
    }
}

impl From<&rustls::Error> for HandshakeError {
    fn from(error: &rustls::Error) -> Self {
        use CertificateFault::{Missing, OutOfDate, UnknownAuthority, Unusable};
        match error {
            rustls::Error::NoCertificatesPresented => HandshakeError::TheirCertificate(Missing),
            rustls::Error::InvalidCertificate(why) => HandshakeError::TheirCertificate(match why {
                CertificateError::UnknownIssuer | CertificateError::BadSignature => {
                    UnknownAuthority
                }
                CertificateError::Expired
                | CertificateError::ExpiredContext { .. }
                | CertificateError::NotValidYet
                | CertificateError::NotValidYetContext { .. } => OutOfDate,
                _ => Unusable,
            }),
            rustls::Error::AlertReceived(alert) => match alert {
                AlertDescription::CertificateRequired => HandshakeError::OwnCertificate(Missing),
                AlertDescription::UnknownCA | AlertDescription::DecryptError => {
                    HandshakeError::OwnCertificate(UnknownAuthority)
                }
                AlertDescription::CertificateExpired => HandshakeError::OwnCertificate(OutOfDate),
                AlertDescription::BadCertificate
                | AlertDescription::UnsupportedCertificate
                | AlertDescription::CertificateUnknown => HandshakeError::OwnCertificate(Unusable),
                _ => HandshakeError::Io(error.to_string()),
            },
            _ => HandshakeError::Io(error.to_string()),
        }
    }
}

impl From<rustls::Error> for HandshakeError {
    fn from(error: rustls::Error) -> Self {
        HandshakeError::from(&error)
    }
}

/// Carries out the caller's side of the whole handshake with `to`.
///
/// # Errors
/// The reason for the refusal.
pub(super) fn call(
    identity: &Identity,
    tls: Option<&TcpTls>,
    to: MachineId,
    lane: u8,
    mut stream: &TcpStream,
) -> Result<(Peer, Option<Session>), HandshakeError> {
    auth::begin(&mut stream, tls.is_some())?;
    let Some(tls) = tls else {
        let peer = auth::call(identity, &[], to, lane, &mut stream)?;
        return Ok((peer, None));
    };
    let name = ServerName::try_from(ANYBODY).map_err(io::Error::other)?;
    let session = ClientConnection::new(Arc::clone(&tls.client), name)?;
    let mut session = Box::new(Connection::from(session));
    let binding = shake(&mut session, stream)?;
    let mut inside = BlockingTls(&mut session, stream);
    let peer = auth::call(identity, &binding, to, lane, &mut inside)?;
    Ok((peer, Some(session)))
}

/// Carries out the listener's side of the whole handshake; `admit` decides about the identified
/// caller.
///
/// # Errors
/// The reason for the refusal.
pub(super) fn listen<T>(
    identity: &Identity,
    tls: Option<&TcpTls>,
    mut stream: &TcpStream,
    admit: impl FnOnce(Peer) -> Result<T, HandshakeError>,
) -> Result<(T, Option<Session>), HandshakeError> {
    auth::begun(&mut stream, tls.is_some())?;
    let Some(tls) = tls else {
        let admitted = auth::listen(identity, &[], &mut stream, admit)?;
        return Ok((admitted, None));
    };
    let session = ServerConnection::new(Arc::clone(&tls.server))?;
    let mut session = Box::new(Connection::from(session));
    let binding = shake(&mut session, stream)?;
    let mut inside = BlockingTls(&mut session, stream);
    let admitted = auth::listen(identity, &binding, &mut inside, admit)?;
    Ok((admitted, Some(session)))
}

/// Carries out the TLS handshake; returns bytes that only the two ends know.
fn shake(
    session: &mut Connection,
    mut stream: &TcpStream,
) -> Result<[u8; BINDING_BYTES], HandshakeError> {
    while session.is_handshaking() {
        session.complete_io(&mut stream)?;
    }
    Ok(session.export_keying_material([0; BINDING_BYTES], BINDING_LABEL, None)?)
}

/// A TLS session over a stream that still blocks.
pub(super) struct BlockingTls<'a>(pub(super) &'a mut Connection, pub(super) &'a TcpStream);

impl Read for BlockingTls<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        read(self.0, self.1, out)
    }
}

impl Write for BlockingTls<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut sent = 0;
        write(self.0, self.1, bytes, &mut sent)?;
        Ok(sent)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Reads from a session; returns all data of one read(2) before the next.
pub(super) fn read(
    session: &mut Connection,
    mut stream: &TcpStream,
    out: &mut [u8],
) -> io::Result<usize> {
    loop {
        match session.reader().read(out) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            read => return read,
        }
        if session.read_tls(&mut stream)? == 0 {
            return Ok(0);
        }
        session
            .process_new_packets()
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
    }
}

/// Writes `bytes` from `sent` on, as far as there is space.
///
/// # Errors
/// The error that ends the connection.
pub(super) fn write(
    session: &mut Connection,
    mut stream: &TcpStream,
    bytes: &[u8],
    sent: &mut usize,
) -> io::Result<()> {
    loop {
        while session.wants_write() {
            match session.write_tls(&mut stream) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        if *sent == bytes.len() {
            return Ok(());
        }
        *sent += session.writer().write(&bytes[*sent..])?;
    }
}
