//! TLS configuration of a server, from PEM files.

use std::path::Path;
use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio_rustls::TlsAcceptor;

use crate::options::TlsOptions;
use crate::server::ListenError;

/// Returns the verifier of client certificates; clients need not send one.
fn verifier(
    path: &Path,
    provider: Arc<CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, ListenError> {
    let error =
        |why: &dyn std::fmt::Display| ListenError::Tls(format!("{}: {why}", path.display()));
    let mut roots = RootCertStore::empty();
    let certificates = CertificateDer::pem_file_iter(path).map_err(|e| error(&e))?;
    for certificate in certificates {
        let certificate = certificate.map_err(|e| error(&e))?;
        roots.add(certificate).map_err(|e| error(&e))?;
    }
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
    verifier
        .allow_unauthenticated()
        .build()
        .map_err(|e| error(&e))
}

/// The TLS configuration of a server.
pub(crate) struct Tls {
    pub(crate) acceptor: TlsAcceptor,
    /// The server's own certificate.
    pub(crate) certificate: CertificateDer<'static>,
    pub(crate) required: bool,
}

impl Tls {
    pub(crate) fn load(options: &TlsOptions) -> Result<Tls, ListenError> {
        let error = |what: &dyn std::fmt::Display| ListenError::Tls(what.to_string());
        let certificate = std::fs::read(&options.certificate)
            .map_err(|e| error(&format_args!("{}: {e}", options.certificate.display())))?;
        let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(&certificate)
            .collect::<Result<_, _>>()
            .map_err(|e| error(&format_args!("{}: {e}", options.certificate.display())))?;
        let Some(own) = chain.first() else {
            return Err(error(&format_args!(
                "{}: no certificate",
                options.certificate.display()
            )));
        };
        let own = own.clone();
        let key = PrivateKeyDer::from_pem_file(&options.key)
            .map_err(|e| error(&format_args!("{}: {e}", options.key.display())))?;
        let provider = Arc::new(default_provider());
        let config = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|e| error(&e))?;
        let config = match &options.client_ca {
            None => config.with_no_client_auth(),
            Some(path) => config.with_client_cert_verifier(verifier(path, provider)?),
        };
        let config = config.with_single_cert(chain, key).map_err(|e| error(&e))?;
        let acceptor = TlsAcceptor::from(Arc::new(config));
        Ok(Tls {
            acceptor,
            certificate: own,
            required: options.required,
        })
    }
}
