//! SET, RESET and SHOW, and the lifetime of settings.
//!
//! Settings are shared and replaced as a whole. `lasting` has the settings that the session keeps
//! if the transaction commits. The current settings in the evaluation context also have the values
//! of SET LOCAL.

use std::sync::Arc;
use std::time::Duration;

use fencepost_planner::{Notice, PlanContext};
use fencepost_sql::bound::{SetScope, SetStatement, SetValue, TransactionModes};
use fencepost_sql::error::{SqlError, SqlState};
use fencepost_sql::settings::Settings;
use fencepost_sql::value::Value;

use super::{Block, Session};

impl Session {
    /// Applies the settings from the start-up message. They are the defaults for RESET.
    pub(crate) fn apply_startup(&mut self, given: &[(String, String)]) -> Result<(), SqlError> {
        let mut settings = Settings::clone(&self.eval.settings);
        settings.set_fixed("session_authorization", &self.login);
        for (name, value) in given {
            self.check_identity(name, value)?;
            settings.set_default(name, value)?;
        }
        self.tell_superuser(&mut settings);
        let settings = Arc::new(settings);
        self.lasting = Arc::clone(&settings);
        self.eval.settings = settings;
        self.settings_changed();
        Ok(())
    }

    /// Updates the state that is derived from the settings.
    pub(super) fn settings_changed(&mut self) {
        let settings = &self.eval.settings;
        self.timeout = settings
            .get("statement_timeout")
            .and_then(|text| duration(&text));
        let lock_timeout = settings.get("lock_timeout");
        let lock_timeout = lock_timeout.and_then(|text| duration(&text));
        self.locks.set_timeout(lock_timeout);
        self.eval.lock_timeout = lock_timeout;
        if let Some(registered) = &self.registered {
            let application = settings.get("application_name").unwrap_or_default();
            registered.set_application(application.into_owned());
        }
        let authorized = settings.get("session_authorization").unwrap_or_default();
        let role = settings.get("role").filter(|role| role != "none");
        let user = role.unwrap_or_else(|| authorized.clone());
        let zone = settings.get("TimeZone").unwrap_or_default();
        let style = settings.get("DateStyle").unwrap_or_default();
        self.default_modes = self.modes_of_settings();
        let path = settings.get("search_path").unwrap_or_default();
        let temporary = self.temporary_names();
        let names = format!("{path}\0{user}\0{temporary}");
        let methods = PlanContext::of(&self.eval).join_methods();
        let methods = format!(
            "{}{}",
            u8::from(methods.hash),
            u8::from(methods.nested_loop)
        );
        let tag = format!("\0{zone}\0{style}\0{names}\0{methods}\0");
        if *self.eval.names != *names {
            self.eval.names = names.into();
        }
        if *self.eval.session_user != *authorized || *self.eval.user != *user {
            let (user, authorized) = (user.into_owned(), authorized.into_owned());
            (self.eval.user, self.eval.session_user) = (user, authorized);
        }
        if tag != self.plan_tag {
            self.plan_tag = tag;
            self.scratch.routines.forget();
        }
    }

    /// Starts the clocks of a new statement.
    pub(crate) fn start_statement(&mut self) {
        let began = self.clock.begin();
        self.eval.statement_start = self.clock.wall(began);
        self.deadline = self.timeout.map(|t| began + t);
        self.cancel.reset();
        self.scratch.routines.begin();
    }

    pub(super) fn set(&mut self, set: &SetStatement) -> Result<(), SqlError> {
        let local = set.scope == SetScope::Local;
        if local && self.block != Block::Explicit {
            self.notices.push(Notice::warning(
                SqlState::NO_ACTIVE_SQL_TRANSACTION,
                "SET LOCAL can only be used in transaction blocks",
            ));
        }
        if let Some(modes) = transaction_mode(set)? {
            return self.set_modes(&modes);
        }
        match &set.value {
            SetValue::Default => self.become_default(local, &set.name),
            SetValue::Value(value) => self.become_or_set(local, &set.name, value),
        }
    }

    pub(super) fn reset(&mut self, name: Option<&str>) -> Result<(), SqlError> {
        match name {
            Some(name) => self.become_default(false, name),
            None => self.change(false, |settings| {
                settings.reset_all();
                Ok(())
            }),
        }
    }

    /// Changes the settings, for the transaction or (if it commits) for the session.
    pub(super) fn change(
        &mut self,
        local: bool,
        change: impl Fn(&mut Settings) -> Result<(), SqlError>,
    ) -> Result<(), SqlError> {
        let mut current = Settings::clone(&self.eval.settings);
        change(&mut current)?;
        self.before.get_or_insert_with(|| Arc::clone(&self.lasting));
        if !local {
            if Arc::ptr_eq(&self.lasting, &self.eval.settings) {
                self.lasting = Arc::new(current);
                self.eval.settings = Arc::clone(&self.lasting);
                self.settings_changed();
                return Ok(());
            }
            let mut lasting = Settings::clone(&self.lasting);
            change(&mut lasting)?;
            self.lasting = Arc::new(lasting);
        }
        self.eval.settings = Arc::new(current);
        self.settings_changed();
        Ok(())
    }

    /// Executes SET SESSION CHARACTERISTICS.
    pub(super) fn set_characteristics(&mut self, modes: &TransactionModes) -> Result<(), SqlError> {
        let on = |flag| if flag { "on" } else { "off" };
        self.change(false, |settings| {
            if let Some(isolation) = modes.isolation {
                settings.set("default_transaction_isolation", isolation.name())?;
            }
            if let Some(read_only) = modes.read_only {
                settings.set("default_transaction_read_only", on(read_only))?;
            }
            if let Some(deferrable) = modes.deferrable {
                settings.set("default_transaction_deferrable", on(deferrable))?;
            }
            Ok(())
        })
    }

    /// Returns the rows of SHOW.
    pub(super) fn show(&self, name: &str) -> Result<Vec<Vec<Value>>, SqlError> {
        if name == "all" {
            let all = self.eval.settings.all().into_iter();
            let rows = all.map(|(name, value, description)| {
                vec![
                    Value::text(name),
                    Value::text(value),
                    Value::text(description),
                ]
            });
            return Ok(rows.collect());
        }
        let modes = match self.block {
            Block::Idle => self.default_modes,
            _ => self.modes,
        };
        let on = |flag| Value::text(if flag { "on" } else { "off" });
        let value = match name {
            "transaction_isolation" => Value::text(modes.isolation.name()),
            "transaction_read_only" => on(modes.read_only),
            "transaction_deferrable" => on(modes.deferrable),
            name => match self.eval.settings.get(name) {
                Some(value) => Value::text(value),
                None => {
                    return Err(SqlError::new(
                        SqlState::UNDEFINED_OBJECT,
                        format!("unrecognized configuration parameter \"{name}\""),
                    ));
                }
            },
        };
        Ok(vec![vec![value]])
    }

    /// Applies the changes that `set_config` has requested.
    pub(super) fn take_set_config(&mut self) -> Result<(), SqlError> {
        for (name, value, local) in self.eval.take_changes() {
            self.become_or_set(local, &name, &value)?;
        }
        Ok(())
    }
}

/// Converts `SET transaction_isolation = …` into SET TRANSACTION.
fn transaction_mode(set: &SetStatement) -> Result<Option<TransactionModes>, SqlError> {
    use fencepost_sql::bound::Isolation;
    let SetValue::Value(value) = &set.value else {
        return Ok(None);
    };
    let value = value.to_ascii_lowercase();
    let flag = matches!(&*value, "on" | "true" | "yes" | "1");
    let mut modes = TransactionModes::default();
    match set.name.as_str() {
        "transaction_read_only" => modes.read_only = Some(flag),
        "transaction_deferrable" => modes.deferrable = Some(flag),
        "transaction_isolation" => {
            modes.isolation = Some(match &*value {
                "serializable" => Isolation::Serializable,
                "repeatable read" => Isolation::RepeatableRead,
                "read committed" => Isolation::ReadCommitted,
                "read uncommitted" => Isolation::ReadUncommitted,
                _ => {
                    return Err(SqlError::new(
                        SqlState::INVALID_PARAMETER_VALUE,
                        format!(
                            "invalid value for parameter \"transaction_isolation\": \"{value}\""
                        ),
                    ));
                }
            });
        }
        _ => return Ok(None),
    }
    Ok(Some(modes))
}

/// Parses a time setting in its canonical form. Returns `None` for 0, which means no limit.
fn duration(text: &str) -> Option<Duration> {
    let digits = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let number: u64 = text[..digits].parse().ok()?;
    let unit_ms = match &text[digits..] {
        "" | "ms" => 1,
        "s" => 1000,
        "min" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    (number > 0).then(|| Duration::from_millis(number * unit_ms))
}

/// Returns the severity rank of a message, among the levels of `client_min_messages`. Messages that
/// are always sent rank above all levels.
pub(super) fn rank(level: &str) -> usize {
    const LEVELS: [&str; 3] = ["log", "notice", "warning"];
    if level
        .get(..5)
        .is_some_and(|d| d.eq_ignore_ascii_case("debug"))
    {
        return 0;
    }
    let known = LEVELS
        .iter()
        .position(|known| level.eq_ignore_ascii_case(known));
    known.map_or(LEVELS.len() + 1, |at| at + 1)
}
