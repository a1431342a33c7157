//! The settings of the server: the defaults of all its sessions, from its options, its
//! configuration file and ALTER SYSTEM.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::table::{Context, SettingDefinition, known};
use super::{lower, unrecognized};
use crate::error::SqlError;

/// Values that replace the built-in defaults of settings, by lower-case name, in canonical form.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerSettings {
    values: BTreeMap<String, String>,
}

impl ServerSettings {
    /// Checks a value and sets `name`.
    ///
    /// # Errors
    /// 42704 for an unknown setting, 55P02 for one that cannot be changed, 22023 for a bad value.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), SqlError> {
        let known = alterable(name)?;
        let canonical = known.check(value, &self.value_of(known))?;
        self.values.insert(lower(name).into_owned(), canonical);
        Ok(())
    }

    /// Returns the value of `name`, or its built-in default unless it was set; `None` for an
    /// unknown setting.
    pub fn get(&self, name: &str) -> Option<Cow<'_, str>> {
        known(&lower(name)).map(|known| self.value_of(known))
    }

    /// Returns the value of `name` (lower case) if it was set.
    pub(super) fn of(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(String::as_str)
    }

    /// Returns the names and values that were set.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        let pairs = self.values.iter();
        pairs.map(|(name, value)| (name.as_str(), value.as_str()))
    }

    fn value_of(&self, known: &SettingDefinition) -> Cow<'_, str> {
        match self.values.get(lower(known.name).as_ref()) {
            Some(value) => Cow::Borrowed(value),
            None => Cow::Owned(known.default.to_owned()),
        }
    }
}

/// Checks that ALTER SYSTEM can change `name`, and that the value, if given, is valid.
///
/// # Errors
/// 42704 for an unknown setting, 55P02 for one that cannot be changed, 22023 for a bad value.
pub fn check_alterable(name: &str, value: Option<&str>) -> Result<(), SqlError> {
    match value {
        Some(value) => ServerSettings::default().set(name, value),
        None => alterable(name).map(|_| ()),
    }
}

fn alterable(name: &str) -> Result<&'static SettingDefinition, SqlError> {
    let name = lower(name);
    match known(&name) {
        Some(known) if known.context == Context::Internal => known.check_settable().map(|()| known),
        Some(known) => Ok(known),
        None => Err(unrecognized(&name)),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::Settings;
    use super::*;

    #[test]
    fn session_values_override_server_values() {
        let mut server = ServerSettings::default();
        server.set("TimeZone", "Europe/Paris").expect("a zone");
        server
            .set("log_min_duration_statement", "250ms")
            .expect("a time");
        let mut session = Settings::new();
        session.set("timezone", "Asia/Tokyo").expect("a zone");
        session.follow(&Arc::new(server.clone()));
        assert_eq!(session.get("TimeZone").as_deref(), Some("Asia/Tokyo"));
        let logged = session.get("log_min_duration_statement");
        assert_eq!(logged.as_deref(), Some("250ms"));
        session.reset("timezone").expect("known");
        assert_eq!(session.time_zone.iana_name(), Some("Europe/Paris"));
        session.follow(&Arc::default());
        assert_eq!(session.time_zone.iana_name(), Some("UTC"));
    }

    #[test]
    fn server_values_reach_another_machine() {
        let mut server = ServerSettings::default();
        server.set("TimeZone", "Europe/Paris").expect("a zone");
        server.set("log_connections", "on").expect("a Boolean");
        let mut session = Settings::new();
        session.follow(&Arc::new(server));
        let mut copy = Settings::new();
        for (name, value, start_up) in session.changed() {
            copy.adopt(name, value, start_up).expect("was checked");
        }
        assert_eq!(copy.time_zone.iana_name(), Some("Europe/Paris"));
        assert_eq!(copy.get("log_connections").as_deref(), Some("on"));
    }

    #[test]
    fn internal_and_unknown_settings_cannot_be_altered() {
        let refused = |name: &str, value| {
            let error = check_alterable(name, value).expect_err("refused");
            (error.sqlstate().to_string(), error.message().to_owned())
        };
        assert_eq!(
            refused("server_version", Some("16")),
            (
                "55P02".to_owned(),
                "parameter \"server_version\" cannot be changed".to_owned()
            )
        );
        assert_eq!(refused("nonsense", None).0, "42704");
        assert_eq!(refused("log_statement", Some("some")).0, "22023");
        assert!(check_alterable("log_line_prefix", Some("%m ")).is_ok());
    }
}
