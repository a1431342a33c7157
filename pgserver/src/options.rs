//! What a server listens on and whom it lets in. Passwords are those of the database's roles.

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::time::Duration;

use crate::access::AccessRules;
use crate::server::ListenError;

/// Who must prove a password.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AuthMode {
    /// Clients of other hosts; those on the loopback address are trusted.
    #[default]
    TrustLoopback,
    /// Everybody (SCRAM-SHA-256).
    Scram,
    /// Nobody.
    Trust,
}

/// Files for TLS, in PEM.
#[derive(Debug, Clone)]
pub struct TlsOptions {
    /// The certificate chain, the server's own certificate first.
    pub certificate: PathBuf,
    /// The private key.
    pub key: PathBuf,
    /// Certificates of the CA of clients' certificates; without them clients are asked for none.
    pub client_ca: Option<PathBuf>,
    /// Whether clients of other hosts must use TLS.
    pub required: bool,
}

/// The Unix socket of a server.
#[derive(Debug, Clone)]
pub struct LocalOptions {
    /// The directory of the socket `.s.PGSQL.<port>`.
    pub directory: PathBuf,
    /// The permissions of the socket, as of `chmod`.
    pub permissions: u32,
}

/// How to listen. `ListenOptions::from("127.0.0.1:5433")` has the defaults for everything else.
#[derive(Clone)]
pub struct ListenOptions {
    /// `host:port`; port 0 picks a free one.
    pub address: String,
    /// Who must prove a password.
    pub auth: AuthMode,
    /// Rules that say who may connect; without them `auth` decides.
    pub rules: AccessRules,
    /// The Unix socket, when there is to be one.
    pub local: Option<LocalOptions>,
    /// TLS, when there is a certificate.
    pub tls: Option<TlsOptions>,
    /// Worker threads; 0 for one a core.
    pub workers: usize,
    /// The most sessions at a time.
    pub connections_max: usize,
    /// The longest message of a client, in bytes.
    pub message_bytes_max: usize,
    /// How long a client may take to log in.
    pub authentication_timeout: Duration,
}

impl ListenOptions {
    /// The defaults for `address`.
    pub fn new(address: impl Into<String>) -> Self {
        ListenOptions {
            address: address.into(),
            auth: AuthMode::default(),
            rules: AccessRules::default(),
            local: None,
            tls: None,
            workers: 0,
            connections_max: 10_000,
            message_bytes_max: (1 << 30) - 1,
            authentication_timeout: Duration::from_secs(60),
        }
    }

    pub(crate) fn resolve(&self) -> Result<Vec<SocketAddr>, ListenError> {
        let error = |source| ListenError::Address {
            address: self.address.clone(),
            source,
        };
        Ok(self.address.to_socket_addrs().map_err(error)?.collect())
    }

    pub(crate) fn worker_count(&self) -> usize {
        match self.workers {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            count => count,
        }
    }
}

impl From<&str> for ListenOptions {
    fn from(address: &str) -> Self {
        ListenOptions::new(address)
    }
}

impl From<String> for ListenOptions {
    fn from(address: String) -> Self {
        ListenOptions::new(address)
    }
}

impl From<SocketAddr> for ListenOptions {
    fn from(address: SocketAddr) -> Self {
        ListenOptions::new(address.to_string())
    }
}
