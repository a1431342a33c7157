//! The known settings: the lookup by name, and the values that a setting accepts.

use super::rows;
use super::unit::{self, Unit};
use crate::encoding::Encoding;
use crate::error::{SqlError, SqlState};

pub(super) use super::definition::{Context, Kind, SettingDefinition};

/// The maximum length of a name, in bytes.
const NAME_BYTES_MAX: usize = 63;

/// The settings in the ParameterStatus messages at start-up, in the order of PostgreSQL 15.
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

/// The category of settings that `pg_settings` and SHOW ALL omit.
const HIDDEN: &str = "Hidden";

/// Returns the setting called `name`, in any case; `None` if it is unknown.
pub(super) fn known(name: &str) -> Option<&'static SettingDefinition> {
    rows::settings().find(|s| s.name.eq_ignore_ascii_case(name))
}

/// Truncates a name to 63 bytes at a character boundary. `?` replaces bytes outside printable
/// ASCII.
fn clean_name(value: &str) -> String {
    let name = &value[..value.floor_char_boundary(NAME_BYTES_MAX)];
    let printable = name.bytes().map(|byte| match byte {
        b' '..=b'~' => char::from(byte),
        _ => '?',
    });
    printable.collect()
}

impl SettingDefinition {
    /// Returns error 55P02 if sessions cannot set it.
    pub(super) fn check_settable(&self) -> Result<(), SqlError> {
        match self.context.obstacle() {
            Some(obstacle) => Err(SqlError::new(
                SqlState::CANT_CHANGE_RUNTIME_PARAM,
                format!("parameter \"{}\" {obstacle}", self.name),
            )),
            None => Ok(()),
        }
    }

    /// Returns whether `pg_settings` and SHOW ALL include the setting.
    pub(super) fn is_visible(&self) -> bool {
        self.category != HIDDEN
    }

    /// Returns the unit of the setting's numbers, if it has one.
    pub(super) fn unit(&self) -> Option<Unit> {
        match self.kind {
            Kind::Size(unit, ..) => Some(unit),
            Kind::Span(..) => Some(Unit::Ms),
            _ => None,
        }
    }

    /// Returns the type, range and list of values that `pg_settings` shows.
    pub(super) fn values(&self) -> Values {
        let range = |low: String, high: String| Some((low, high));
        let (name, range, all) = match self.kind {
            Kind::Bool | Kind::Only(_) => ("bool", None, None),
            Kind::Int(low, high) | Kind::Size(_, low, high) => {
                ("integer", range(low.to_string(), high.to_string()), None)
            }
            Kind::Real(low, high) | Kind::Span(low, high) => (
                "real",
                range(unit::format_number(low), unit::format_number(high)),
                None,
            ),
            Kind::Enum(all) => ("enum", None, Some(all)),
            Kind::Text | Kind::Name | Kind::DateStyle | Kind::Encoding | Kind::Zone => {
                ("string", None, None)
            }
        };
        Values { name, range, all }
    }

    /// Returns a canonical value as a number without its unit.
    pub(super) fn plain(&self, canonical: &str) -> String {
        let number = match self.unit() {
            Some(unit) => unit.read(canonical),
            None => None,
        };
        number.map_or_else(|| canonical.to_owned(), unit::format_number)
    }

    /// Returns the canonical form of `value`. `now` is the current value.
    ///
    /// # Errors
    /// 22023 if the setting does not accept the value.
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
                Ok(unit.format_with_unit(number as f64))
            }
            Kind::Real(low, high) => {
                let number = unit::number(trimmed).ok_or_else(|| self.bad_value(value))?;
                self.in_range(number, None, (low, high))?;
                Ok(unit::format_number(number))
            }
            Kind::Span(low, high) => {
                let number = Unit::Ms.read(trimmed);
                let number = number.ok_or_else(|| self.bad_value(value).hint(Unit::Ms.hint()))?;
                self.in_range(number, Some(Unit::Ms), (low, high))?;
                Ok(Unit::Ms.format_with_unit(number))
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
                // Enums that contain `on` and `off` accept all spellings of a Boolean.
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

    /// Rounds a number to an integer and checks its range.
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
            unit::format_number(number),
            self.name,
            unit::format_number(low),
            unit::format_number(high)
        )))
    }

    fn bad_value(&self, value: &str) -> SqlError {
        invalid(format!(
            "invalid value for parameter \"{}\": \"{value}\"",
            self.name
        ))
    }
}

/// The values that a setting accepts, as `pg_settings` shows them.
#[derive(Debug)]
pub struct Values {
    /// The name of the value type (`vartype`).
    pub name: &'static str,
    /// The minimum and the maximum.
    pub range: Option<(String, String)>,
    /// All values of an enum.
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

/// Parses a Boolean as settings and `boolean` input spell it; unique prefixes are accepted.
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

/// Parses a `DateStyle` of a style and an order; a missing part keeps its value in `now`.
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
    // In the German style, input dates have the day first, as in the output.
    if styles.contains(&"German") {
        order = "DMY";
    }
    let style = styles.first().unwrap_or(&style);
    let order = orders.first().unwrap_or(&order);
    Some(format!("{style}, {order}"))
}
