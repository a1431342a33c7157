//! The settings of a session: the values behind SET, SHOW, RESET and `current_setting`.
//!
//! A session holds its settings behind an `Arc` and clones them to change them. A snapshot for a
//! statement, a savepoint or SET LOCAL is therefore one reference. The few settings that evaluation
//! needs are kept parsed in fields.

mod definition;
mod rows;
mod server;
mod table;
mod unit;
mod work_memory;
mod zone;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::tz::TimeZone;

use crate::error::{SqlError, SqlState};
pub use definition::SERVER_VERSION;
pub use server::{ServerSettings, check_alterable};
pub use table::Values;
pub(crate) use table::parse_bool;
use table::{Context, SettingDefinition, known};
pub use work_memory::WorkMemory;
pub use zone::parse_zone;
pub(crate) use zone::{clock_offset, east, posix_zone};

/// Returns whether the value of a setting is a list of names, each of which can be quoted.
pub fn is_list(name: &str) -> bool {
    matches!(name, "search_path" | "temp_tablespaces")
}

/// The output format of intervals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IntervalStyle {
    /// `1 year 2 mons -3 days 04:05:06`
    Postgres,
    /// `@ 1 year 2 mons -3 days 4 hours 5 mins 6 secs`
    Verbose,
    /// `+1-2 -3 +4:05:06`
    Sql,
    /// `P1Y2M-3DT4H5M6S`
    Iso,
}

/// The output format of bytea.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ByteaOutput {
    /// `\x…`
    Hex,
    /// The escape format: octal escapes.
    Escape,
}

/// The output format of dates and timestamps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DateStyle {
    /// `1997-12-17 07:37:16-08`
    Iso,
    /// `12/17/1997 07:37:16 PST`
    Sql,
    /// `Wed Dec 17 07:37:16 1997 PST`
    Postgres,
    /// `17.12.1997 07:37:16 PST`
    German,
}

/// The order of day, month and year in ambiguous input dates, and in output dates except in the
/// styles ISO and German.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DateOrder {
    /// Month first.
    Mdy,
    /// Day first.
    Dmy,
    /// Year first.
    Ymd,
}

/// The setting `fencepost.ship`. It selects the statements that run on the machine with their data.
/// It also selects the reads that are split among the machines with partitions of their table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShipMode {
    /// No statement is shipped or split.
    Off,
    /// Ships statements on one partition of a table if the memory of its machine is not mapped.
    /// Splits reads of many partitions among such machines.
    Auto,
    /// Ships statements on one partition wherever it is, and statements on one key of any other
    /// table. Splits reads of many partitions among all machines.
    Always,
}

/// The eligible queries that run on DataFusion's operators: `fencepost.analytics`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Analytics {
    /// No query.
    Off,
    /// The queries whose estimated work is large.
    Auto,
    /// All eligible queries.
    On,
}

/// The built-in value of `max_parallel_workers_per_gather`.
const PARALLEL_WORKERS: usize = 2;

/// All settings of a session.
#[derive(Clone, Debug)]
pub struct Settings {
    /// `TimeZone`, parsed.
    pub time_zone: TimeZone,
    /// `IntervalStyle`
    pub interval_style: IntervalStyle,
    /// `bytea_output`
    pub bytea_output: ByteaOutput,
    /// `extra_float_digits`; above 0, floats are written in the shortest exact form.
    pub extra_float_digits: i32,
    /// The style part of `DateStyle`.
    pub date_style: DateStyle,
    /// The order part of `DateStyle`.
    pub date_order: DateOrder,
    /// `synchronous_commit` is on.
    pub synchronous_commit: bool,
    /// `fencepost.ship`
    pub shipping: ShipMode,
    /// `fencepost.analytics`
    pub analytics: Analytics,
    /// `fencepost.track_outcomes`
    pub track_outcomes: bool,
    /// `max_parallel_workers_per_gather`: the maximal number of threads that help a scan.
    pub parallel_workers: usize,
    /// `work_mem`, `hash_mem_multiplier` and `temp_file_limit`.
    pub work_memory: WorkMemory,
    /// The values that differ from the table's defaults, by lower-case name.
    values: BTreeMap<String, String>,
    /// The values that RESET restores, where start-up options differ from the table's defaults.
    defaults: BTreeMap<String, String>,
    /// The server's values, which replace the table's defaults.
    server: Arc<ServerSettings>,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings::new()
    }
}

impl Settings {
    /// Returns the settings of a new session.
    pub fn new() -> Settings {
        Settings {
            time_zone: TimeZone::UTC,
            interval_style: IntervalStyle::Postgres,
            bytea_output: ByteaOutput::Hex,
            extra_float_digits: 1,
            date_style: DateStyle::Iso,
            date_order: DateOrder::Mdy,
            synchronous_commit: true,
            shipping: ShipMode::Auto,
            analytics: Analytics::Auto,
            track_outcomes: false,
            parallel_workers: PARALLEL_WORKERS,
            work_memory: WorkMemory::DEFAULT,
            values: BTreeMap::new(),
            defaults: BTreeMap::new(),
            server: Arc::default(),
        }
    }

    /// Returns the value of `name`, in any case; `None` if the name is unknown.
    pub fn get(&self, name: &str) -> Option<Cow<'_, str>> {
        let name = lower(name);
        if let Some(value) = self.values.get(name.as_ref()) {
            return Some(Cow::Borrowed(value));
        }
        self.default_of(&name)
            .map(|value| Cow::Owned(value.to_owned()))
    }

    /// Checks a value and sets `name` for the session. The value is kept in canonical form.
    ///
    /// # Errors
    /// 42704 for an unknown setting, 55P02 for one that cannot be changed, 22023 for a bad value.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), SqlError> {
        let name = lower(name).into_owned();
        let canonical = match known(&name) {
            Some(setting) => {
                setting.check_settable()?;
                let now = self.get(&name).unwrap_or_default();
                setting.check(value, &now)?
            }
            // Clients can set any name that contains a dot.
            None if name.contains('.') => value.to_owned(),
            None => return Err(unrecognized(&name)),
        };
        self.apply(&name, &canonical)?;
        self.values.insert(name, canonical);
        Ok(())
    }

    /// Sets `name` from a start-up option or the server's options: RESET goes back to this value.
    ///
    /// # Errors
    /// As of [`Self::set`].
    pub fn set_default(&mut self, name: &str, value: &str) -> Result<(), SqlError> {
        self.set(name, value)?;
        let name = lower(name).into_owned();
        if let Some(value) = self.values.remove(&name) {
            self.defaults.insert(name, value);
        }
        Ok(())
    }

    /// Sets a value that clients cannot set because the server determines it, such as
    /// `is_superuser`.
    pub fn set_fixed(&mut self, name: &str, value: &str) {
        self.defaults
            .insert(lower(name).into_owned(), value.to_owned());
    }

    /// Returns the settings that differ from those of a new session: the name, the value, and
    /// whether RESET restores that value.
    pub fn changed(&self) -> impl Iterator<Item = (&str, &str, bool)> {
        let pairs = |values, start_up| {
            let values: &BTreeMap<String, String> = values;
            let pairs = values.iter();
            pairs.map(move |(name, value)| (name.as_str(), value.as_str(), start_up))
        };
        let of_server = self.server.iter();
        let of_server = of_server.filter(|(name, _)| !self.defaults.contains_key(*name));
        let of_server = of_server.map(|(name, value)| (name, value, true));
        of_server
            .chain(pairs(&self.defaults, true))
            .chain(pairs(&self.values, false))
    }

    /// Applies one item of [`Self::changed`] of another session's settings.
    ///
    /// # Errors
    /// As of [`Self::set`].
    pub fn adopt(&mut self, name: &str, value: &str, start_up: bool) -> Result<(), SqlError> {
        let fixed = known(name).is_some_and(|setting| !setting.context.is_settable());
        match start_up {
            true if fixed => {
                self.set_fixed(name, value);
                Ok(())
            }
            true => self.set_default(name, value),
            false => self.set(name, value),
        }
    }

    /// Applies the server's values, as defaults of settings that neither the session nor its
    /// start-up has set.
    pub fn follow(&mut self, server: &Arc<ServerSettings>) {
        let before = std::mem::replace(&mut self.server, Arc::clone(server));
        let names = before.iter().chain(server.iter()).map(|(name, _)| name);
        for name in names {
            if !self.values.contains_key(name) {
                let value = self.default_of(name).unwrap_or_default().to_owned();
                // The value was checked earlier, so it applies.
                let _ = self.apply(name, &value);
            }
        }
    }

    /// Returns whether the session follows exactly these server values.
    pub fn follows(&self, server: &Arc<ServerSettings>) -> bool {
        Arc::ptr_eq(&self.server, server)
    }

    /// Restores the default of a setting (RESET).
    ///
    /// # Errors
    /// 42704 for an unknown setting, 55P02 for one that cannot be changed.
    pub fn reset(&mut self, name: &str) -> Result<(), SqlError> {
        let name = lower(name);
        match known(&name) {
            Some(setting) => setting.check_settable()?,
            None if name.contains('.') => {}
            None => return Err(unrecognized(&name)),
        }
        self.values.remove(name.as_ref());
        let default = self.default_of(&name).unwrap_or("").to_owned();
        self.apply(&name, &default)
    }

    /// Restores all defaults (RESET ALL), except those of `role` and `session_authorization`.
    pub fn reset_all(&mut self) {
        let names: Vec<String> = self.values.keys().cloned().collect();
        for name in names {
            if matches!(&*name, "role" | "session_authorization") {
                continue;
            }
            // A default was checked earlier, so it applies.
            let _ = self.reset(&name);
        }
    }

    /// Returns all settings for SHOW ALL: name, value, description.
    pub fn all(&self) -> Vec<(&'static str, String, &'static str)> {
        let visible = rows::settings().filter(|s| s.is_visible());
        let row = |s: &SettingDefinition| {
            let value = self.get(s.name).unwrap_or_default().into_owned();
            (s.name, value, s.description)
        };
        visible.map(row).collect()
    }

    /// Returns all settings as `pg_settings` shows them.
    pub fn described(&self) -> impl Iterator<Item = SettingDescription> + '_ {
        let visible = rows::settings().filter(|s| s.is_visible());
        visible.map(|s| {
            let name = lower(s.name);
            let value = self.get(s.name).unwrap_or_default();
            let source = match (
                self.values.contains_key(name.as_ref()),
                self.defaults.contains_key(name.as_ref()),
            ) {
                (true, _) => "session",
                (false, true) => "client",
                (false, false) if self.server.of(&name).is_some() => "configuration file",
                (false, false) => "default",
            };
            SettingDescription {
                name: s.name,
                value: s.plain(&value),
                unit: s.unit().map(|unit| unit.name()),
                category: s.category,
                description: s.description,
                context: s.context.name(),
                values: s.values(),
                source,
                boot: s.plain(s.default),
                reset: s.plain(self.default_of(&name).unwrap_or_default()),
            }
        })
    }

    /// Returns the settings whose changes are reported to the client, in the order of start-up.
    pub fn reported(&self) -> Vec<(&'static str, String)> {
        table::REPORTED
            .iter()
            .map(|name| (*name, self.get(name).unwrap_or_default().into_owned()))
            .collect()
    }

    fn default_of(&self, name: &str) -> Option<&str> {
        let given = self.defaults.get(name).map(String::as_str);
        given
            .or_else(|| self.server.of(name))
            .or_else(|| known(name).map(|s| s.default))
    }

    /// Updates the parsed field of a setting from its canonical value.
    fn apply(&mut self, name: &str, value: &str) -> Result<(), SqlError> {
        match name {
            "timezone" => self.time_zone = parse_zone(value)?,
            "intervalstyle" => {
                self.interval_style = match value {
                    "postgres_verbose" => IntervalStyle::Verbose,
                    "sql_standard" => IntervalStyle::Sql,
                    "iso_8601" => IntervalStyle::Iso,
                    _ => IntervalStyle::Postgres,
                }
            }
            "bytea_output" => {
                self.bytea_output = match value {
                    "escape" => ByteaOutput::Escape,
                    _ => ByteaOutput::Hex,
                }
            }
            "extra_float_digits" => self.extra_float_digits = value.parse().unwrap_or(1),
            "datestyle" => {
                self.date_style = match value.split(',').next() {
                    Some("SQL") => DateStyle::Sql,
                    Some("Postgres") => DateStyle::Postgres,
                    Some("German") => DateStyle::German,
                    _ => DateStyle::Iso,
                };
                self.date_order = if value.ends_with("DMY") {
                    DateOrder::Dmy
                } else if value.ends_with("YMD") {
                    DateOrder::Ymd
                } else {
                    DateOrder::Mdy
                }
            }
            "synchronous_commit" => self.synchronous_commit = value != "off",
            "fencepost.track_outcomes" => self.track_outcomes = value == "on",
            "fencepost.analytics" => {
                self.analytics = match value {
                    "off" => Analytics::Off,
                    "on" => Analytics::On,
                    _ => Analytics::Auto,
                }
            }
            "fencepost.ship" => {
                self.shipping = match value {
                    "off" => ShipMode::Off,
                    "always" => ShipMode::Always,
                    _ => ShipMode::Auto,
                }
            }
            "max_parallel_workers_per_gather" => {
                self.parallel_workers = value.parse().unwrap_or(PARALLEL_WORKERS);
            }
            _ => self.work_memory.apply(name, value),
        }
        Ok(())
    }
}

/// A row of `pg_settings`; numbers are without their unit.
#[derive(Debug)]
pub struct SettingDescription {
    /// The name in PostgreSQL's spelling.
    pub name: &'static str,
    /// The current value.
    pub value: String,
    /// The unit of a number.
    pub unit: Option<&'static str>,
    /// The category.
    pub category: &'static str,
    /// The short description.
    pub description: &'static str,
    /// The context: which users can set it, and when.
    pub context: &'static str,
    /// The values that it accepts.
    pub values: Values,
    /// The source of the current value.
    pub source: &'static str,
    /// The built-in default (`boot_val`).
    pub boot: String,
    /// The value that RESET restores.
    pub reset: String,
}

/// Checks that a user can set a setting.
///
/// # Errors
/// 42501 if the setting is for superusers and the user is not one.
pub fn check_settable_by(name: &str, superuser: bool) -> Result<(), SqlError> {
    match known(&lower(name)) {
        Some(setting) if setting.context == Context::Superuser && !superuser => Err(SqlError::new(
            SqlState::INSUFFICIENT_PRIVILEGE,
            format!("permission denied to set parameter \"{}\"", setting.name),
        )),
        _ => Ok(()),
    }
}

/// Returns the name of a setting in PostgreSQL's spelling (`TimeZone`), or `name` itself.
pub fn display_name(name: &str) -> &str {
    known(name).map_or(name, |s: &SettingDefinition| s.name)
}

fn unrecognized(name: &str) -> SqlError {
    SqlError::new(
        SqlState::UNDEFINED_OBJECT,
        format!("unrecognized configuration parameter \"{name}\""),
    )
}

fn lower(name: &str) -> Cow<'_, str> {
    let name = match name {
        "time zone" | "TIME ZONE" => "timezone",
        other => other,
    };
    if name.bytes().any(|b| b.is_ascii_uppercase()) {
        Cow::Owned(name.to_ascii_lowercase())
    } else {
        Cow::Borrowed(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_checked_and_canonical() {
        let mut s = Settings::new();
        s.set("DateStyle", "iso").expect("ISO is a style");
        assert_eq!(s.get("datestyle").as_deref(), Some("ISO, MDY"));
        s.set("client_encoding", "'utf-8'").expect("an alias");
        assert_eq!(s.get("client_encoding").as_deref(), Some("UTF8"));
        let e = s.set("extra_float_digits", "9").expect_err("out of range");
        assert_eq!(e.sqlstate(), SqlState::INVALID_PARAMETER_VALUE);
        assert_eq!(
            e.message(),
            "9 is outside the valid range for parameter \"extra_float_digits\" (-15 .. 3)"
        );
        let e = s.set("nonsense", "1").expect_err("unknown");
        assert_eq!(e.sqlstate(), SqlState::UNDEFINED_OBJECT);
        s.set("statement_timeout", "2s").expect("a time");
        assert_eq!(s.get("statement_timeout").as_deref(), Some("2s"));
        s.set("jit", "true").expect("a bool");
        assert_eq!(s.get("jit").as_deref(), Some("on"));
    }

    #[test]
    fn changed_settings_reproduce_settings() {
        let mut s = Settings::new();
        assert_eq!(s.changed().count(), 0);
        s.set_default("TimeZone", "Europe/Paris").expect("a zone");
        s.set("timezone", "UTC").expect("a zone");
        s.set("fencepost.ship", "ALWAYS").expect("a choice");
        s.set_fixed("is_superuser", "off");
        s.set("my.own", "x").expect("the client's own");
        let mut copy = Settings::new();
        for (name, value, start_up) in s.changed() {
            copy.adopt(name, value, start_up).expect("was checked");
        }
        assert_eq!((&copy.values, &copy.defaults), (&s.values, &s.defaults));
        assert_eq!(copy.shipping, ShipMode::Always);
        copy.reset_all();
        assert_eq!(copy.shipping, ShipMode::Auto);
        assert_eq!(copy.time_zone.iana_name(), Some("Europe/Paris"));
        assert!(copy.set("fencepost.ship", "sometimes").is_err());
        assert!(copy.adopt("nonsense", "1", false).is_err());
    }

    #[test]
    fn reset_goes_back_to_the_start_up_value() {
        let mut s = Settings::new();
        s.set_default("TimeZone", "Europe/Paris").expect("a zone");
        s.set("timezone", "UTC").expect("a zone");
        assert_eq!(s.get("TimeZone").as_deref(), Some("UTC"));
        s.reset_all();
        assert_eq!(s.get("TimeZone").as_deref(), Some("Europe/Paris"));
        assert_eq!(s.time_zone.iana_name(), Some("Europe/Paris"));
    }
}
