//! The definition of a setting: its type, its context and its texts in `pg_settings`.

use super::unit::Unit;

/// The value of `server_version` that is reported to clients.
pub const SERVER_VERSION: &str = "15.18";

/// The type and range of a setting's values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Kind {
    Bool,
    /// A Boolean of which only this value is supported.
    Only(bool),
    /// An integer in a range.
    Int(i64, i64),
    /// An integer number of units, in a range.
    Size(Unit, i64, i64),
    /// A floating-point number, in a range.
    Real(f64, f64),
    /// Milliseconds as a floating-point number, in a range.
    Span(f64, f64),
    Enum(&'static [&'static str]),
    Text,
    /// A name of printable ASCII, which is reported to clients.
    Name,
    DateStyle,
    Encoding,
    Zone,
}

/// The context of a setting: which users can set it, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Context {
    /// No user can set it: it reports a property of the server.
    Internal,
    /// It is set at server start.
    Postmaster,
    /// The administrator of the server sets it.
    Sighup,
    /// The client sets it at connection start, for the session.
    Backend,
    /// A superuser sets it at connection start, for the session.
    SuperuserBackend,
    /// Superusers set it in a session.
    Superuser,
    /// Every user sets it in a session.
    User,
}

impl Context {
    pub(super) fn name(self) -> &'static str {
        match self {
            Context::Internal => "internal",
            Context::Postmaster => "postmaster",
            Context::Sighup => "sighup",
            Context::Backend => "backend",
            Context::SuperuserBackend => "superuser-backend",
            Context::Superuser => "superuser",
            Context::User => "user",
        }
    }

    /// Returns whether a session can set it after connection start.
    pub(super) fn is_settable(self) -> bool {
        self.obstacle().is_none()
    }

    /// Returns the reason why a session cannot set it, in the words of the error; `None` if a
    /// session can.
    pub(super) fn obstacle(self) -> Option<&'static str> {
        match self {
            Context::Superuser | Context::User => None,
            Context::Internal => Some("cannot be changed"),
            Context::Postmaster => Some("cannot be changed without restarting the server"),
            Context::Sighup => Some("cannot be changed now"),
            Context::Backend | Context::SuperuserBackend => {
                Some("cannot be set after connection start")
            }
        }
    }
}

/// A setting: its name, its default value and the text that describes it.
#[derive(Debug)]
pub(super) struct SettingDefinition {
    pub(super) name: &'static str,
    pub(super) default: &'static str,
    pub(super) kind: Kind,
    pub(super) context: Context,
    pub(super) category: &'static str,
    pub(super) description: &'static str,
}
