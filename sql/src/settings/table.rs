//! What a setting is: who may set it, and what values it takes.

use super::rows::SETTINGS;
use super::unit;
use crate::encoding::Encoding;
use crate::error::{SqlError, SqlState};

pub(super) use super::unit::Unit;

/// The bytes of the longest name.
const NAME_BYTES_MAX: usize = 63;

/// The ParameterStatus messages of start-up, in PostgreSQL 15's order.
pub(super) const REPORTED: [&str; 13] = [
    "application_name",
    "client_encoding",
    "DateStyle",
    "default_transaction_read_only",
    "in_hot_standby",
    "integer_datetimes",
    "IntervalStyle",
    "is_superuser",
    "server_encoding",
    "server_version",
    "session_authorization",
    "standard_conforming_strings",
    "TimeZone",
];

/// The version we answer with.
pub const SERVER_VERSION: &str = "15.18";

/// What values a setting takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Kind {
    Bool,
    /// A Boolean whose other value is not ours.
    Only(bool),
    /// An integer in a range.
    Int(i64, i64),
    /// A whole number of units in a range.
    Size(Unit, i64, i64),
    /// A number in a range.
    Real(f64, f64),
    /// Milliseconds, not only whole ones.
    Span(f64, f64),
    Enum(&'static [&'static str]),
    Text,
    /// A name of printable ASCII, which clients are told of.
    Name,
    DateStyle,
    Encoding,
    Zone,
}

/// Who may set a setting, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Context {
    /// Nobody: it says what the server is.
    Internal,
    /// Who starts the server.
    Postmaster,
    /// Who runs it.
    Sighup,
    /// Who connects, for the session.
    Backend,
    /// A superuser who connects, for the session.
    SuperuserBackend,
    /// Superusers.
    Superuser,
    /// All.
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

    /// Can a session set it?
    pub(super) fn is_settable(self) -> bool {
        matches!(self, Context::Superuser | Context::User)
    }
}

/// The category of settings that are not among those that are shown.
const HIDDEN: &str = "Hidden";

#[derive(Debug)]
pub(super) struct Known {
    pub(super) name: &'static str,
    pub(super) default: &'static str,
    pub(super) kind: Kind,
    pub(super) context: Context,
    pub(super) category: &'static str,
    pub(super) description: &'static str,
}

/// The setting called `name` (lower case).
pub(super) fn known(name: &str) -> Option<&'static Known> {
    SETTINGS.iter().find(|s| s.name.eq_ignore_ascii_case(name))
}

/// Cuts a name to 63 bytes, between characters; `?` takes the place of bytes outside printable ASCII.
fn clean_name(value: &str) -> String {
    let name = &value[..value.floor_char_boundary(NAME_BYTES_MAX)];
    let printable = name.bytes().map(|byte| match byte {
        b' '..=b'~' => char::from(byte),
        _ => '?',
    });
    printable.collect()
}

impl Known {
    /// 55P02 for one that sessions cannot set.
    pub(super) fn check_settable(&self) -> Result<(), SqlError> {
        let why = match self.context {
            Context::Superuser | Context::User => return Ok(()),
            Context::Internal => "cannot be changed",
            Context::Postmaster => "cannot be changed without restarting the server",
            Context::Sighup => "cannot be changed now",
            Context::Backend | Context::SuperuserBackend => "cannot be set after connection start",
        };
        Err(SqlError::new(
            SqlState::CANT_CHANGE_RUNTIME_PARAM,
            format!("parameter \"{}\" {why}", self.name),
        ))
    }

    /// Is it among the settings that are shown?
    pub(super) fn is_shown(&self) -> bool {
        self.category != HIDDEN
    }

    /// The unit of its numbers.
    pub(super) fn unit(&self) -> Option<Unit> {
        match self.kind {
            Kind::Size(unit, ..) => Some(unit),
            Kind::Span(..) => Some(Unit::Ms),
            _ => None,
        }
    }

    /// What `pg_settings` says of its values: their type, the least, the greatest, and all there are.
    pub(super) fn values(&self) -> Values {
        let range = |low: String, high: String| Some((low, high));
        let (name, range, all) = match self.kind {
            Kind::Bool | Kind::Only(_) => ("bool", None, None),
            Kind::Int(low, high) | Kind::Size(_, low, high) => {
                ("integer", range(low.to_string(), high.to_string()), None)
            }
            Kind::Real(low, high) | Kind::Span(low, high) => {
                ("real", range(unit::shown(low), unit::shown(high)), None)
            }
            Kind::Enum(all) => ("enum", None, Some(all)),
            Kind::Text | Kind::Name | Kind::DateStyle | Kind::Encoding | Kind::Zone => {
                ("string", None, None)
            }
        };
        Values { name, range, all }
    }

    /// A canonical value without its unit.
    pub(super) fn plain(&self, canonical: &str) -> String {
        let number = match self.unit() {
            Some(unit) => unit.read(canonical),
            None => None,
        };
        number.map_or_else(|| canonical.to_owned(), unit::shown)
    }

    /// The canonical form of `value`, or 22023.
    pub(super) fn check(&self, value: &str, now: &str) -> Result<String, SqlError> {
        let trimmed = value.trim();
        match self.kind {
            Kind::Text => Ok(value.to_owned()),
            Kind::Name => Ok(clean_name(value)),
            Kind::Bool => Ok(on(self.as_bool(trimmed)?).to_owned()),
            Kind::Only(only) => match self.as_bool(trimmed)? {
                given if given == only => Ok(on(only).to_owned()),
                given => Err(SqlError::unsupported(format!(
                    "{} = {}",
                    self.name,
                    on(given)
                ))),
            },
            Kind::Int(low, high) => {
                let number = unit::number(trimmed).ok_or_else(|| self.bad_value(value))?;
                let number = self.whole(number, None, value, (low, high))?;
                Ok(number.to_string())
            }
            Kind::Size(unit, low, high) => {
                let number = unit.read(trimmed);
                let number = number.ok_or_else(|| self.bad_value(value).hint(unit.hint()))?;
                let number = self.whole(number, Some(unit), value, (low, high))?;
                Ok(unit.show(number as f64))
            }
            Kind::Real(low, high) => {
                let number = unit::number(trimmed).ok_or_else(|| self.bad_value(value))?;
                self.in_range(number, None, (low, high))?;
                Ok(unit::shown(number))
            }
            Kind::Span(low, high) => {
                let number = Unit::Ms.read(trimmed);
                let number = number.ok_or_else(|| self.bad_value(value).hint(Unit::Ms.hint()))?;
                self.in_range(number, Some(Unit::Ms), (low, high))?;
                Ok(Unit::Ms.show(number))
            }
            Kind::Enum(options) => {
                let lowered = trimmed.to_ascii_lowercase();
                let lowered = match lowered.as_str() {
                    "debug" if options.contains(&"debug2") => "debug2".to_owned(),
                    _ => lowered,
                };
                if let Some(option) = options.iter().find(|o| **o == lowered) {
                    return Ok((*option).to_owned());
                }
                // The enums with on and off take all spellings of a Boolean.
                let boolean = parse_bool(trimmed).map(on);
                match boolean.filter(|b| options.contains(b)) {
                    Some(b) => Ok(b.to_owned()),
                    None => Err(self
                        .bad_value(value)
                        .hint(format!("Available values: {}.", options.join(", ")))),
                }
            }
            Kind::DateStyle => date_style(trimmed, now).ok_or_else(|| self.bad_value(value)),
            Kind::Encoding => {
                let known = Encoding::named(trimmed.trim_matches('\''))?;
                let name = known.map(|known| known.name().to_owned());
                name.ok_or_else(|| self.bad_value(value))
            }
            Kind::Zone => {
                let zone = super::parse_zone(trimmed)?;
                Ok(match (zone.iana_name(), super::zone::hours_east(trimmed)) {
                    (_, Some(seconds)) => super::east(seconds),
                    (Some(name), _) if name != "UTC" => name.to_owned(),
                    _ => trimmed.to_owned(),
                })
            }
        }
    }

    fn as_bool(&self, value: &str) -> Result<bool, SqlError> {
        parse_bool(value).ok_or_else(|| {
            invalid(format!(
                "parameter \"{}\" requires a Boolean value",
                self.name
            ))
        })
    }

    /// A number as an integer, rounded where it is none.
    fn whole(
        &self,
        number: f64,
        unit: Option<Unit>,
        value: &str,
        (low, high): (i64, i64),
    ) -> Result<i64, SqlError> {
        let number = number.round_ties_even();
        if !(f64::from(i32::MIN)..=f64::from(i32::MAX)).contains(&number) {
            return Err(self.bad_value(value).hint("Value exceeds integer range."));
        }
        self.in_range(number, unit, (low as f64, high as f64))?;
        Ok(number as i64)
    }

    fn in_range(
        &self,
        number: f64,
        unit: Option<Unit>,
        (low, high): (f64, f64),
    ) -> Result<(), SqlError> {
        if (low..=high).contains(&number) {
            return Ok(());
        }
        let unit = unit.map_or_else(String::new, |unit| format!(" {}", unit.name()));
        Err(invalid(format!(
            "{}{unit} is outside the valid range for parameter \"{}\" ({} .. {})",
            unit::shown(number),
            self.name,
            unit::shown(low),
            unit::shown(high)
        )))
    }

    fn bad_value(&self, value: &str) -> SqlError {
        invalid(format!(
            "invalid value for parameter \"{}\": \"{value}\"",
            self.name
        ))
    }
}

/// What there is to say of the values of a setting.
#[derive(Debug)]
pub struct Values {
    /// Their type.
    pub name: &'static str,
    /// The least and the greatest.
    pub range: Option<(String, String)>,
    /// All of them.
    pub all: Option<&'static [&'static str]>,
}

fn on(flag: bool) -> &'static str {
    match flag {
        true => "on",
        false => "off",
    }
}

fn invalid(message: String) -> SqlError {
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
}

/// A Boolean as settings and `boolean` input spell it, unique prefixes too.
pub(crate) fn parse_bool(text: &str) -> Option<bool> {
    let lowered = text.to_ascii_lowercase();
    if lowered.is_empty() {
        return None;
    }
    for (word, least, value) in [
        ("true", 1, true),
        ("false", 1, false),
        ("yes", 1, true),
        ("no", 1, false),
        ("on", 2, true),
        ("off", 2, false),
        ("1", 1, true),
        ("0", 1, false),
    ] {
        if lowered.len() >= least && word.starts_with(&lowered) {
            return Some(value);
        }
    }
    None
}

/// A style with an order; what is not said stays as it is `now`.
fn date_style(text: &str, now: &str) -> Option<String> {
    let (mut style, mut order) = now.split_once(", ").unwrap_or(("ISO", "MDY"));
    let (mut styles, mut orders) = (Vec::new(), Vec::new());
    for part in text.split(',') {
        match part.trim().to_ascii_lowercase().as_str() {
            "iso" => styles.push("ISO"),
            "sql" => styles.push("SQL"),
            part if part.starts_with("postgres") => styles.push("Postgres"),
            "german" => styles.push("German"),
            "default" => (style, order) = ("ISO", "MDY"),
            "mdy" | "us" => orders.push("MDY"),
            part if part.starts_with("noneuro") => orders.push("MDY"),
            "dmy" => orders.push("DMY"),
            part if part.starts_with("euro") => orders.push("DMY"),
            "ymd" => orders.push("YMD"),
            _ => return None,
        }
    }
    let agree = |said: &[&str]| said.windows(2).all(|two| two[0] == two[1]);
    if !agree(&styles) || !agree(&orders) {
        return None;
    }
    // Dates in German are read as they are written.
    if styles.contains(&"German") {
        order = "DMY";
    }
    let style = styles.first().unwrap_or(&style);
    let order = orders.first().unwrap_or(&order);
    Some(format!("{style}, {order}"))
}
