//! The addresses and the access of a server. Passwords are those of the database's roles.

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::time::Duration;

use crate::access::AccessRules;
use crate::server::ListenError;

/// The clients that must authenticate with a password, unless [`AccessRules`] decide. Clients of a
/// Unix socket count as clients on the loopback address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AuthMode {
    /// Clients of other hosts; clients on the loopback address are trusted.
    #[default]
    TrustLoopback,
    /// All clients (SCRAM-SHA-256).
    Scram,
    /// No client. Any client can then log in as any role, the superuser included.
    Trust,
}

/// Files for TLS, in PEM. [`listen`](crate::listen) reads them once: new files need a new server.
#[derive(Debug, Clone)]
pub struct TlsOptions {
    /// The certificate chain, the server's own certificate first.
    pub certificate: PathBuf,
    /// The private key.
    pub key: PathBuf,
    /// The CA certificates for client certificates; `None` if clients are not asked for one. A
    /// client may still connect without one, unless its access rule has
    /// [`AccessMethod::Cert`](crate::AccessMethod::Cert).
    pub client_ca: Option<PathBuf>,
    /// Whether clients of other hosts must use TLS; those without are refused with 28000.
    pub required: bool,
}

/// The Unix socket of a server.
#[derive(Debug, Clone)]
pub struct LocalOptions {
    /// The directory of the socket `.s.PGSQL.<port>`; it must exist.
    pub directory: PathBuf,
    /// The permissions of the socket, as of `chmod`, such as `0o777`.
    pub permissions: u32,
}

/// Options for listening. `ListenOptions::from("127.0.0.1:5433")` uses defaults for everything
/// else.
///
/// ```no_run
/// use fencepost::Database;
/// use fencepost_pgserver::{AuthMode, ListenOptions, TlsOptions, listen};
///
/// let database = Database::options()
///     .data_dir("data")
///     .superuser_password("correct horse")
///     .open()?;
/// let mut options = ListenOptions::new("0.0.0.0:5432");
/// options.auth = AuthMode::Scram;
/// options.tls = Some(TlsOptions {
///     certificate: "server.crt".into(),
///     key: "server.key".into(),
///     client_ca: None,
///     required: true,
/// });
/// options.connections_max = 200;
/// let server = listen(&database, options)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct ListenOptions {
    /// `host:port`; port 0 picks a free one. Of several addresses of a host, the first that can be
    /// bound is used.
    pub address: String,
    /// The clients that must authenticate with a password.
    pub auth: AuthMode,
    /// Access rules; without rules `auth` decides. A clone can replace them while the server runs.
    pub rules: AccessRules,
    /// The Unix socket; `None` for no socket.
    pub local: Option<LocalOptions>,
    /// TLS files; `None` for no TLS.
    pub tls: Option<TlsOptions>,
    /// The number of worker threads; 0 for one for each core.
    pub workers: usize,
    /// The largest number of concurrent sessions, 10,000 by default. Further clients get 53300.
    pub connections_max: usize,
    /// The size limit of a client's message, in bytes; 1 GiB by default. A longer message ends the
    /// connection with 08P01.
    pub message_bytes_max: usize,
    /// The time limit for a client to log in, one minute by default. A slower client is
    /// disconnected.
    pub authentication_timeout: Duration,
}

impl ListenOptions {
    /// Returns the defaults for `address`, which is resolved by [`listen`](crate::listen).
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
