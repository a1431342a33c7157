//! The options for clients' access to a server: passwords, TLS and Unix sockets.
//!
//! The first password of the superuser is never an argument of a process, where other users of the
//! host could read it.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use fencepost_pgserver::{AuthMode, LocalOptions, TlsOptions};

use crate::failure::Failure;

/// The environment variable with the first password of the superuser.
const PASSWORD_VARIABLE: &str = "FENCEPOST_SUPERUSER_PASSWORD";

// A doc comment here would replace those of `start` and `dev-cluster` in the help.
#[derive(Debug, Args)]
pub struct Access {
    /// Certificate chain in PEM; with --tls-key, clients may use TLS.
    #[arg(
        long,
        env = "FENCEPOST_TLS_CERT",
        value_name = "FILE",
        requires = "tls_key"
    )]
    tls_cert: Option<PathBuf>,
    /// Private key in PEM.
    #[arg(
        long,
        env = "FENCEPOST_TLS_KEY",
        value_name = "FILE",
        requires = "tls_cert"
    )]
    tls_key: Option<PathBuf>,
    /// Certificates in PEM of the CA of clients' certificates, for access rules with the method
    /// cert.
    #[arg(
        long,
        env = "FENCEPOST_TLS_CLIENT_CA",
        value_name = "FILE",
        requires = "tls_cert"
    )]
    tls_client_ca: Option<PathBuf>,
    /// Refuse clients of other hosts that do not use TLS.
    #[arg(long, env = "FENCEPOST_TLS_REQUIRED", requires = "tls_cert")]
    tls_required: bool,
    /// Which clients must prove a password.
    #[arg(long, env = "FENCEPOST_AUTH", default_value = "trust-loopback")]
    auth: Auth,
    /// Directory of a Unix socket, .s.PGSQL.PORT, for clients of this host: psql -h DIR.
    /// [default: none]
    #[arg(long, env = "FENCEPOST_SOCKET_DIR", value_name = "DIR")]
    socket_dir: Option<PathBuf>,
    /// Permissions of the Unix socket.
    #[arg(
        long,
        env = "FENCEPOST_SOCKET_PERMISSIONS",
        value_name = "MODE",
        default_value = "0777",
        value_parser = permissions
    )]
    socket_permissions: u32,
    /// File whose first line is the password of the superuser postgres when the database is new; an
    /// existing database keeps its own. Without it the environment variable
    /// FENCEPOST_SUPERUSER_PASSWORD is read.
    #[arg(long, env = "FENCEPOST_SUPERUSER_PASSWORD_FILE", value_name = "FILE")]
    superuser_password_file: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Auth {
    /// Clients of other hosts (SCRAM-SHA-256); those of this host are trusted.
    TrustLoopback,
    /// All clients (SCRAM-SHA-256). A new database needs a password of its superuser.
    Scram,
    /// No clients.
    Trust,
}

impl Auth {
    /// Returns the value of `--auth`.
    fn name(self) -> &'static str {
        match self {
            Auth::TrustLoopback => "trust-loopback",
            Auth::Scram => "scram",
            Auth::Trust => "trust",
        }
    }
}

impl Access {
    /// Returns which clients must prove a password.
    pub fn auth(&self) -> AuthMode {
        match self.auth {
            Auth::TrustLoopback => AuthMode::TrustLoopback,
            Auth::Scram => AuthMode::Scram,
            Auth::Trust => AuthMode::Trust,
        }
    }

    /// Returns whether every client must prove a password.
    pub fn asks_all(&self) -> bool {
        self.auth == Auth::Scram
    }

    /// Returns the certificate for clients, if there is one.
    pub fn tls(&self) -> Option<TlsOptions> {
        let (certificate, key) = self.tls_cert.as_ref().zip(self.tls_key.as_ref())?;
        Some(TlsOptions {
            certificate: certificate.clone(),
            key: key.clone(),
            client_ca: self.tls_client_ca.clone(),
            required: self.tls_required,
        })
    }

    /// Returns the Unix socket, if there is to be one.
    pub fn local(&self) -> Option<LocalOptions> {
        let directory = self.socket_dir.clone()?;
        Some(LocalOptions {
            directory,
            permissions: self.socket_permissions,
        })
    }

    /// Reads the first password of the superuser: from the file, or else from the environment,
    /// where an empty variable counts as none.
    pub fn superuser_password(&self) -> Result<Option<String>, Failure> {
        let Some(file) = &self.superuser_password_file else {
            let password = std::env::var_os(PASSWORD_VARIABLE).filter(|text| !text.is_empty());
            let password = password.map(OsString::into_string).transpose();
            let not_utf8 = |_| Failure::Broken(format!("{PASSWORD_VARIABLE} is not UTF-8"));
            return password.map_err(not_utf8);
        };
        let name = file.display();
        let text = std::fs::read_to_string(file).map_err(Failure::io(name.to_string()))?;
        match text.lines().next().filter(|line| !line.is_empty()) {
            Some(password) => Ok(Some(password.to_owned())),
            None => Err(Failure::Broken(format!(
                "password file \"{name}\" is empty"
            ))),
        }
    }

    /// Returns the arguments by which another process takes the same options. A password in the
    /// environment is inherited instead.
    pub fn arguments(&self) -> Vec<OsString> {
        let permissions = format!("{:04o}", self.socket_permissions);
        let mut arguments: Vec<OsString> = vec![
            "--auth".into(),
            self.auth.name().into(),
            "--socket-permissions".into(),
            permissions.into(),
        ];
        let files = [
            ("--tls-cert", &self.tls_cert),
            ("--tls-key", &self.tls_key),
            ("--tls-client-ca", &self.tls_client_ca),
            ("--superuser-password-file", &self.superuser_password_file),
            ("--socket-dir", &self.socket_dir),
        ];
        for (option, file) in files {
            if let Some(file) = file {
                arguments.extend([option.into(), file.into()]);
            }
        }
        if self.tls_required {
            arguments.push("--tls-required".into());
        }
        arguments
    }
}

/// Reads permissions in octal.
fn permissions(text: &str) -> Result<u32, String> {
    match u32::from_str_radix(text, 8) {
        Ok(mode) if mode <= 0o777 => Ok(mode),
        _ => Err("not an octal number up to 0777".to_owned()),
    }
}
