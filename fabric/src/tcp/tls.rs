//! TLS around a connection, where a cluster wants it: both ends show a certificate that the CA has signed.
//!
//! ```text
//! START magic, version, whether in TLS ──► the same here?
//!       ◄── OK, or a refusal
//! TLS 1.3, certificates of both ends; then, inside, the handshake of [`super::auth`]
//! ```
//! Names in certificates say nothing here: who is who is for the handshake inside, whose proofs hold for
//! this TLS session alone, so that another one who has a certificate cannot pass them on.
//!
//! # Failure
//! What is wrong with a certificate is told to the end that showed it, and is a [`HandshakeError`] at both.

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

/// Name that a session is asked for; nobody looks at it.
const ANYBODY: &str = "fencepost";
const BINDING_LABEL: &[u8] = b"EXPORTER-fencepost";
/// Random bytes that only the two ends of a session know.
const BINDING_BYTES: usize = 32;

/// The state of a connection in TLS.
pub(super) type Session = Box<Connection>;

/// What a machine shows to the others, and whom it believes.
#[derive(Clone)]
pub struct TcpTls {
    client: Arc<ClientConfig>,
    server: Arc<ServerConfig>,
}

/// A certificate or key cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TlsError {
    /// It is no PEM, or there is none in it.
    #[error("{0}: {1}")]
    Pem(&'static str, String),
    /// They do not belong together, or are of no use for TLS.
    #[error("{0}")]
    Unusable(String),
}

/// What is the matter with a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CertificateFault {
    /// There is none.
    #[error("is missing")]
    Missing,
    /// Whoever has signed it is not the CA.
    #[error("is not signed by the CA")]
    UnknownAuthority,
    /// It has expired, or is not valid yet.
    #[error("is not valid at this time")]
    OutOfDate,
    /// It is of another kind, or broken.
    #[error("cannot be used for this")]
    Unusable,
}

impl fmt::Debug for TcpTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TcpTls")
    }
}

impl TcpTls {
    /// Shows `chain`, the machine's own certificate first, whose private key is `key`; believes whom one of
    /// `authorities` has signed. All of them are PEM.
    ///
    /// # Errors
    /// Where they are not what they must be.
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
            .with_custom_certificate_verifier(Arc::new(OfTheCa { roots, provider }))
            .with_client_auth_cert(chain, key)
            .map_err(|error| unusable(&error))?;
        // Certificates are looked at each time.
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

/// Believes a listener that the CA has signed, whatever its name.
#[derive(Debug)]
struct OfTheCa {
    roots: Arc<RootCertStore>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for OfTheCa {
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

    /// Nobody gets here: TLS 1.3 alone is spoken.
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

/// The caller's end of the whole handshake: connects to `to`.
///
/// # Errors
/// Why it may not.
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
    let mut inside = Inside(&mut session, stream);
    let peer = auth::call(identity, &binding, to, lane, &mut inside)?;
    Ok((peer, Some(session)))
}

/// The listener's end of the whole handshake: finds out who calls, and whether `admit` takes it.
///
/// # Errors
/// Why it may not.
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
    let mut inside = Inside(&mut session, stream);
    let admitted = auth::listen(identity, &binding, &mut inside, admit)?;
    Ok((admitted, Some(session)))
}

/// The handshake of TLS; what only the two ends know afterwards.
fn shake(
    session: &mut Connection,
    mut stream: &TcpStream,
) -> Result<[u8; BINDING_BYTES], HandshakeError> {
    while session.is_handshaking() {
        session.complete_io(&mut stream)?;
    }
    Ok(session.export_keying_material([0; BINDING_BYTES], BINDING_LABEL, None)?)
}

/// What is said in a session whose stream still blocks.
pub(super) struct Inside<'a>(pub(super) &'a mut Connection, pub(super) &'a TcpStream);

impl Read for Inside<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        read(self.0, self.1, out)
    }
}

impl Write for Inside<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut sent = 0;
        write(self.0, self.1, bytes, &mut sent)?;
        Ok(sent)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Reads from a session what one read(2) brings, all of it before the next.
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

/// Writes as much of `bytes` from `sent` on as there is room for.
///
/// # Errors
/// Whatever ends the connection.
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
