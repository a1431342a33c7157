//! The client of log lines.

use std::fmt;
use std::net::SocketAddr;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// The address of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Peer {
    /// A TCP client.
    Tcp(SocketAddr),
    /// A process of this host that uses the Unix socket.
    Local,
}

impl Peer {
    /// Returns the address, if there is one.
    pub(crate) fn address(self) -> Option<SocketAddr> {
        match self {
            Peer::Tcp(address) => Some(address),
            Peer::Local => None,
        }
    }

    /// Returns whether the client is on another host.
    pub(crate) fn is_remote(self) -> bool {
        self.address()
            .is_some_and(|address| !address.ip().to_canonical().is_loopback())
    }

    /// Returns the host in PostgreSQL's form: an address, or `[local]`.
    pub(crate) fn host(self) -> String {
        match self {
            Peer::Tcp(address) => address.ip().to_canonical().to_string(),
            Peer::Local => "[local]".to_owned(),
        }
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Peer::Tcp(address) => {
                let ip = address.ip().to_canonical();
                write!(f, "host={ip} port={}", address.port())
            }
            Peer::Local => f.write_str("host=[local]"),
        }
    }
}

/// A client, from its first packet on.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) peer: Peer,
    /// The number of its session; 0 before it has one.
    pub(crate) pid: i32,
    pub(crate) user: String,
    pub(crate) database: String,
    pub(crate) application: String,
    /// The time of its connection.
    pub(crate) began: Instant,
    /// The time of its connection in microseconds from 1970-01-01 UTC.
    pub(crate) began_us: i64,
    /// The number of log lines about the client.
    pub(crate) lines: std::cell::Cell<u64>,
    /// Whether the end of its session is logged.
    pub(crate) tells_end: bool,
}

impl Client {
    /// Returns a client that has just connected.
    pub(crate) fn new(peer: Peer) -> Client {
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH);
        let us = since_1970.map_or(0, |since| since.as_micros());
        Client {
            peer,
            pid: 0,
            user: String::new(),
            database: String::new(),
            application: String::new(),
            began: Instant::now(),
            began_us: i64::try_from(us).unwrap_or(i64::MAX),
            lines: std::cell::Cell::new(0),
            tells_end: false,
        }
    }

    /// Returns the log line for an authorized connection.
    pub(crate) fn authorized(&self, is_tls: Option<&str>) -> String {
        let mut line = format!(
            "connection authorized: user={} database={}",
            self.user, self.database
        );
        if !self.application.is_empty() {
            line.push_str(" application_name=");
            line.push_str(&self.application);
        }
        if let Some(protocol) = is_tls {
            line.push_str(" SSL enabled (protocol=");
            line.push_str(protocol);
            line.push(')');
        }
        line
    }

    /// Returns the log line for the end of a session.
    pub(crate) fn disconnected(&self) -> String {
        let lasted = self.began.elapsed();
        let (seconds, millis) = (lasted.as_secs(), lasted.subsec_millis());
        format!(
            "disconnection: session time: {}:{:02}:{:02}.{millis:03} user={} database={} {}",
            seconds / 3600,
            seconds / 60 % 60,
            seconds % 60,
            self.user,
            self.database,
            self.peer
        )
    }
}
