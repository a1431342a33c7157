//! Access rules, like those of PostgreSQL's pg_hba.conf: which clients may connect, and how they
//! are authenticated.
//!
//! The first rule that matches a connection decides. If none matches, the connection is refused
//! (28000).

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::RwLock;

use crate::log::Peer;

/// The kind of connections that a rule matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessType {
    /// Connections over a Unix socket.
    Local,
    /// Connections over TCP.
    Host,
    /// Connections over TCP with TLS.
    HostSsl,
    /// Connections over TCP without TLS.
    HostNoSsl,
}

/// An authentication method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessMethod {
    /// No authentication.
    Trust,
    /// A password (SCRAM-SHA-256).
    ScramSha256,
    /// A client certificate of the CA in [`crate::TlsOptions::client_ca`], whose common name is the
    /// role. Only for [`AccessType::HostSsl`].
    Cert,
    /// The connection is refused (28000).
    Reject,
}

/// The reason why a rule cannot be parsed, as a text for the user.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct RuleError(String);

/// An access rule, as a line of `pg_hba.conf`.
///
/// ```
/// use fencepost_pgserver::{AccessRule, ListenOptions, RuleText};
///
/// let all = ["all".to_owned()];
/// let rule = AccessRule::parse(&RuleText {
///     kind: "hostssl",
///     databases: &all,
///     users: &all,
///     address: Some("10.0.0.0/8"),
///     method: "scram-sha-256",
/// })?;
/// let options = ListenOptions::new("0.0.0.0:5432");
/// options.rules.replace(Some(vec![rule]));
/// # Ok::<(), fencepost_pgserver::RuleError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessRule {
    kind: AccessType,
    databases: Vec<String>,
    users: Vec<String>,
    /// The client addresses; `None` matches any.
    network: Option<Network>,
    method: AccessMethod,
}

/// A range of addresses that begin with the same bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Network {
    address: IpAddr,
    bits: u8,
}

impl Network {
    fn parse(text: &str) -> Result<Option<Network>, RuleError> {
        let wrong = |why: &str| RuleError(format!("invalid address \"{text}\": {why}"));
        if text == "all" {
            return Ok(None);
        }
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let address: IpAddr = address
            .parse()
            .map_err(|_| wrong("neither all nor an IP address with or without /bits"))?;
        let bits_max = match address {
            IpAddr::V4(_) => 32,
            IpAddr::V6(_) => 128,
        };
        let bits = match bits {
            None => bits_max,
            Some(bits) => bits.parse().map_err(|_| wrong("/bits is no number"))?,
        };
        match bits <= bits_max {
            true => Ok(Some(Network { address, bits })),
            false => Err(wrong(&format!("there are {bits_max} bits"))),
        }
    }

    fn has(&self, other: IpAddr) -> bool {
        let first = |bytes: u128, width: u32| {
            let dropped = width - u32::from(self.bits);
            bytes.checked_shr(dropped).unwrap_or(0)
        };
        match (self.address, other.to_canonical()) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                let bits = |address: u32| first(u128::from(address), 32);
                bits(own.to_bits()) == bits(other.to_bits())
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => {
                first(own.to_bits(), 128) == first(other.to_bits(), 128)
            }
            _ => false,
        }
    }
}

/// The texts of a rule's fields.
#[derive(Clone, Copy, Debug)]
pub struct RuleText<'a> {
    /// `local`, `host`, `hostssl` or `hostnossl`.
    pub kind: &'a str,
    /// Names of databases, `all` or `sameuser`.
    pub databases: &'a [String],
    /// Names of roles, or `all`.
    pub users: &'a [String],
    /// `all`, or an IP address with or without `/bits`; `None` for `local`.
    pub address: Option<&'a str>,
    /// `trust`, `scram-sha-256`, `cert` or `reject`.
    pub method: &'a str,
}

impl AccessRule {
    /// Parses a rule.
    ///
    /// # Errors
    /// The reason why the texts are no rule: an unknown word, a bad address, no names, or `cert`
    /// without `hostssl`. Also a name that is not supported: `samerole`, `samegroup`, or one that
    /// begins with `+`, `@` or `/`.
    pub fn parse(text: &RuleText<'_>) -> Result<AccessRule, RuleError> {
        let kind = match text.kind {
            "local" => AccessType::Local,
            "host" => AccessType::Host,
            "hostssl" => AccessType::HostSsl,
            "hostnossl" => AccessType::HostNoSsl,
            other => return Err(RuleError(format!("invalid connection type \"{other}\""))),
        };
        let method = match text.method {
            "trust" => AccessMethod::Trust,
            "scram-sha-256" => AccessMethod::ScramSha256,
            "cert" => AccessMethod::Cert,
            "reject" => AccessMethod::Reject,
            other => {
                return Err(RuleError(format!(
                    "invalid authentication method \"{other}\""
                )));
            }
        };
        let network = match (kind, text.address) {
            (AccessType::Local, None) => None,
            (AccessType::Local, Some(_)) => {
                return Err(RuleError("a rule of type local has no address".to_owned()));
            }
            (_, Some(address)) => Network::parse(address)?,
            (_, None) => return Err(RuleError("end-of-line before IP address".to_owned())),
        };
        if method == AccessMethod::Cert && kind != AccessType::HostSsl {
            let why = "cert authentication is only supported on hostssl connections";
            return Err(RuleError(why.to_owned()));
        }
        for name in text.databases.iter().chain(text.users) {
            let is_known =
                !matches!(&**name, "samerole" | "samegroup") && !name.starts_with(['+', '@', '/']);
            if !is_known {
                return Err(RuleError(format!("\"{name}\" is not supported")));
            }
        }
        if text.databases.is_empty() || text.users.is_empty() {
            return Err(RuleError("a rule names databases and users".to_owned()));
        }
        Ok(AccessRule {
            kind,
            databases: text.databases.to_vec(),
            users: text.users.to_vec(),
            network,
            method,
        })
    }

    fn fits(&self, asked: &ConnectionProperties<'_>) -> bool {
        let of_kind = match (self.kind, asked.peer) {
            (AccessType::Local, Peer::Local) => true,
            (AccessType::Host, Peer::Tcp(_)) => true,
            (AccessType::HostSsl, Peer::Tcp(_)) => asked.is_tls,
            (AccessType::HostNoSsl, Peer::Tcp(_)) => !asked.is_tls,
            _ => false,
        };
        let of_database = self.databases.iter().any(|name| match name.as_str() {
            "all" => true,
            "sameuser" => asked.database == asked.user,
            name => name == asked.database,
        });
        let mut users = self.users.iter();
        let of_user = users.any(|name| name == "all" || name == asked.user);
        let address = asked.peer.address().map(|address| address.ip());
        let of_network = self
            .network
            .is_none_or(|network| address.is_some_and(|ip| network.has(ip)));
        of_kind && of_database && of_user && of_network
    }
}

/// The properties of a connection that rules are matched with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ConnectionProperties<'a> {
    pub(crate) peer: Peer,
    pub(crate) is_tls: bool,
    pub(crate) user: &'a str,
    pub(crate) database: &'a str,
}

/// Formats the connection as PostgreSQL's messages do.
impl fmt::Display for ConnectionProperties<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let encryption = match self.is_tls {
            true => "SSL encryption",
            false => "no encryption",
        };
        write!(
            f,
            "host \"{}\", user \"{}\", database \"{}\", {encryption}",
            self.peer.host(),
            self.user,
            self.database
        )
    }
}

/// The rules of a server, which may be replaced while it runs. Without rules, its
/// [`crate::AuthMode`] decides. Clones share the rules: keep one, and give another to
/// [`crate::ListenOptions::rules`]. The first rule that fits a client decides; a client without a
/// rule is refused (28000).
#[derive(Clone, Debug, Default)]
pub struct AccessRules(Arc<RwLock<Option<Arc<[AccessRule]>>>>);

impl AccessRules {
    /// Replaces the rules; they apply to new connections. `None` lets the [`crate::AuthMode`]
    /// decide; an empty list refuses every client.
    pub fn replace(&self, rules: Option<Vec<AccessRule>>) {
        *self.0.write() = rules.map(Arc::from);
    }

    /// Returns the authentication method of a client, or the reason to refuse it. Returns `None` if
    /// there are no rules.
    pub(crate) fn decide(
        &self,
        asked: &ConnectionProperties<'_>,
    ) -> Option<Result<AccessMethod, String>> {
        let rules = self.0.read().clone()?;
        let rule = rules.iter().find(|rule| rule.fits(asked));
        Some(match rule.map(|rule| rule.method) {
            Some(AccessMethod::Reject) => {
                Err(format!("pg_hba.conf rejects connection for {asked}"))
            }
            Some(method) => Ok(method),
            None => Err(format!("no pg_hba.conf entry for {asked}")),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(
        kind: &str,
        database: &str,
        user: &str,
        address: Option<&str>,
        method: &str,
    ) -> AccessRule {
        try_rule(kind, database, user, address, method).expect("a rule")
    }

    fn try_rule(
        kind: &str,
        database: &str,
        user: &str,
        address: Option<&str>,
        method: &str,
    ) -> Result<AccessRule, RuleError> {
        AccessRule::parse(&RuleText {
            kind,
            databases: &[database.to_owned()],
            users: &[user.to_owned()],
            address,
            method,
        })
    }

    fn asked(address: &str, is_tls: bool) -> ConnectionProperties<'static> {
        ConnectionProperties {
            peer: match address {
                "" => Peer::Local,
                address => Peer::Tcp((address.parse::<IpAddr>().expect("an address"), 5).into()),
            },
            is_tls,
            user: "ada",
            database: "shop",
        }
    }

    #[test]
    fn first_matching_rule_decides() {
        let rules = AccessRules::default();
        assert_eq!(rules.decide(&asked("10.0.0.1", false)), None);
        rules.replace(Some(vec![
            rule("local", "all", "all", None, "trust"),
            rule("host", "all", "mallory", Some("all"), "trust"),
            rule("host", "shop", "ada", Some("10.0.0.0/8"), "scram-sha-256"),
            rule("host", "all", "all", Some("10.0.0.1"), "trust"),
            rule("hostssl", "all", "all", Some("::/0"), "trust"),
            rule("hostnossl", "sameuser", "all", Some("all"), "trust"),
            rule("host", "all", "all", Some("192.168.0.0/16"), "reject"),
        ]));
        let decide = |address, is_tls| rules.decide(&asked(address, is_tls)).expect("rules");
        assert_eq!(decide("", false), Ok(AccessMethod::Trust));
        assert_eq!(decide("10.0.0.1", false), Ok(AccessMethod::ScramSha256));
        assert_eq!(
            decide("::ffff:10.0.0.1", true),
            Ok(AccessMethod::ScramSha256)
        );
        assert_eq!(decide("2001:db8::1", true), Ok(AccessMethod::Trust));
        assert_eq!(
            decide("2001:db8::1", false),
            Err(
                "no pg_hba.conf entry for host \"2001:db8::1\", user \"ada\", database \"shop\", \
                 no encryption"
                    .to_owned()
            )
        );
        assert_eq!(
            decide("192.168.3.4", true),
            Err(
                "pg_hba.conf rejects connection for host \"192.168.3.4\", user \"ada\", \
                 database \"shop\", SSL encryption"
                    .to_owned()
            )
        );
    }

    #[test]
    fn networks_match_by_prefix_bits() {
        for (network, address, expected) in [
            ("0.0.0.0/0", "1.2.3.4", true),
            ("10.1.0.0/15", "10.0.255.1", true),
            ("10.1.0.0/16", "10.0.255.1", false),
            ("10.0.0.1/32", "10.0.0.2", false),
            ("0.0.0.0/0", "::1", false),
            ("::/0", "fe80::1", true),
            ("fe80::/10", "febf::1", true),
            ("fe80::/10", "fec0::1", false),
        ] {
            let rule = rule("host", "all", "all", Some(network), "trust");
            assert_eq!(
                rule.fits(&asked(address, false)),
                expected,
                "{network} {address}"
            );
        }
    }

    #[test]
    fn malformed_rule_is_refused() {
        for (kind, user, address, method, why) in [
            (
                "tcp",
                "all",
                Some("all"),
                "trust",
                "invalid connection type \"tcp\"",
            ),
            (
                "host",
                "all",
                Some("all"),
                "md4",
                "invalid authentication method \"md4\"",
            ),
            (
                "host",
                "all",
                None,
                "trust",
                "end-of-line before IP address",
            ),
            (
                "local",
                "all",
                Some("all"),
                "trust",
                "a rule of type local has no address",
            ),
            (
                "host",
                "all",
                Some("1.2.3.4/33"),
                "trust",
                "invalid address \"1.2.3.4/33\": there are 32 bits",
            ),
            (
                "host",
                "all",
                Some("all"),
                "cert",
                "cert authentication is only supported on hostssl connections",
            ),
            (
                "host",
                "+admins",
                Some("all"),
                "trust",
                "\"+admins\" is not supported",
            ),
        ] {
            let error = try_rule(kind, "all", user, address, method).expect_err(why);
            assert_eq!(error.to_string(), why);
        }
    }
}
