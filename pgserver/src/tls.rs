//! The TLS side of a server, from PEM files.

use std::sync::Arc;

use rustls::ServerConfig;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

use crate::auth::EndPoint;
use crate::options::TlsOptions;
use crate::server::ListenError;

/// What accepts TLS connections, and what exchanges of passwords can be bound to.
pub(crate) struct Tls {
    pub(crate) acceptor: TlsAcceptor,
    pub(crate) end_point: Option<EndPoint>,
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
        let end_point = EndPoint::of_certificate(own);
        let key = PrivateKeyDer::from_pem_file(&options.key)
            .map_err(|e| error(&format_args!("{}: {e}", options.key.display())))?;
        let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|e| error(&e))?
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .map_err(|e| error(&e))?;
        let acceptor = TlsAcceptor::from(Arc::new(config));
        Ok(Tls {
            acceptor,
            end_point,
            required: options.required,
        })
    }
}
