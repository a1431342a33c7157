//! The settings of the server: their sources, and how sessions follow changes.
//!
//! ```text
//! options of the process ─┐ first
//! ALTER SYSTEM SET … ─────┼─► active ─► new sessions; idle ones (`Session::follow_server`)
//! configuration file ─────┘ last          └─► hooks: the log, the rules of access
//! ```
//! The sources are merged when the server starts, at SIGHUP, and at `pg_reload_conf()`. Each
//! machine of a cluster has its own settings.
//!
//! # Failure
//! A file that cannot be read changes nothing. A wrong value is skipped, with a line in the log.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};

use fencepost_sql::bound::SystemChange;
use fencepost_sql::error::{SqlError, SqlState};
use fencepost_sql::server::Server;
use fencepost_sql::settings::ServerSettings;
use parking_lot::{Mutex, RwLock};

use crate::session::now;

/// Values of settings, by name. Names are those of PostgreSQL, in any case.
pub type SettingValues = BTreeMap<String, String>;

/// The source of a server's settings, which also stores the values of ALTER SYSTEM. A value of
/// [`Self::options`] wins over one of [`Self::read_system`], and that over one of
/// [`Self::read_file`].
///
/// A database without a source keeps the values of ALTER SYSTEM in memory. The functions may read
/// and write files; they run on the thread that reloads the settings or runs the statement.
pub trait ConfigurationSource: Send + Sync {
    /// Returns the values from the options of the process.
    fn options(&self) -> SettingValues;

    /// Reads the configuration file.
    ///
    /// # Errors
    /// The reason why the file cannot be used.
    fn read_file(&self) -> Result<SettingValues, String>;

    /// Reads the values of ALTER SYSTEM.
    ///
    /// # Errors
    /// The reason why they cannot be read.
    fn read_system(&self) -> Result<SettingValues, String>;

    /// Stores the values of ALTER SYSTEM.
    ///
    /// # Errors
    /// The reason why they cannot be written.
    fn write_system(&self, values: &SettingValues) -> Result<(), String>;

    /// Starts a new log file, for `pg_rotate_logfile()`. Returns false if the log is not in a file.
    fn rotate_log(&self) -> bool;

    /// Returns the path of the log file, if the log is in a file, for `pg_current_logfile()`.
    fn log_file(&self) -> Option<String>;
}

type ReloadHook = Box<dyn Fn(&ServerSettings) + Send + Sync>;

/// The settings of a server.
#[derive(Default)]
pub(crate) struct Configuration {
    /// The number of changes of `active`.
    generation: AtomicU64,
    active: RwLock<Arc<ServerSettings>>,
    /// The values of ALTER SYSTEM if there is no source.
    system: Mutex<SettingValues>,
    source: RwLock<Option<Arc<dyn ConfigurationSource>>>,
    hooks: Mutex<Vec<ReloadHook>>,
    read_at: AtomicI64,
    /// The directory of temporary files; `None` for that of the system.
    temporary_directory: Option<PathBuf>,
}

impl fmt::Debug for Configuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "configuration {}", self.generation())
    }
}

impl Configuration {
    /// Creates the configuration of a server with a directory of temporary files.
    pub fn new(temporary_directory: Option<PathBuf>) -> Configuration {
        Configuration {
            temporary_directory,
            ..Configuration::default()
        }
    }

    /// Returns the number of times that the settings have changed.
    #[inline]
    pub fn generation(&self) -> u64 {
        self.generation.load(Relaxed)
    }

    /// Returns the current settings.
    pub fn active(&self) -> Arc<ServerSettings> {
        Arc::clone(&self.active.read())
    }

    /// Sets the source of the settings and reads it. Returns false if it could not be read.
    pub fn set_source(&self, source: Arc<dyn ConfigurationSource>) -> bool {
        *self.source.write() = Some(source);
        self.reload()
    }

    /// Calls `hook` with the settings now, and each time that they are read again.
    pub fn on_change(&self, hook: ReloadHook) {
        hook(&self.active());
        self.hooks.lock().push(hook);
    }

    /// Stores a change by ALTER SYSTEM. It takes effect when the configuration is read again.
    pub fn alter(&self, change: &SystemChange) -> Result<(), SqlError> {
        let failed = |why: String| {
            let message = "could not write the settings of ALTER SYSTEM";
            SqlError::new(SqlState::IO_ERROR, message).detail(why)
        };
        let mut values = self.system.lock();
        let source = self.source.read().clone();
        let mut changed = match &source {
            Some(source) => source.read_system().map_err(failed)?,
            None => values.clone(),
        };
        match change {
            SystemChange::Set(name, value) => {
                changed.insert(name.to_ascii_lowercase(), value.clone());
            }
            SystemChange::Reset(name) => {
                changed.remove(&name.to_ascii_lowercase());
            }
            SystemChange::ResetAll => changed.clear(),
        }
        if let Some(source) = &source {
            source.write_system(&changed).map_err(failed)?;
        }
        *values = changed;
        Ok(())
    }

    fn read(&self) -> Result<ServerSettings, String> {
        let source = self.source.read().clone();
        let (settings, refused) = match &source {
            Some(source) => settings_of(&**source)?,
            None => gathered(std::slice::from_ref(&*self.system.lock())),
        };
        for error in refused {
            tracing::warn!(sqlstate = %error.sqlstate(), "{}", error.message());
        }
        Ok(settings)
    }
}

/// Returns the settings of a source, and an error for each value that was skipped: 42704 for an
/// unknown setting, 55P02 for one that cannot be changed, 22023 for a bad value.
///
/// # Errors
/// The reason why its files cannot be read.
pub fn settings_of(
    source: &dyn ConfigurationSource,
) -> Result<(ServerSettings, Vec<SqlError>), String> {
    let layers = [source.read_file()?, source.read_system()?, source.options()];
    Ok(gathered(&layers))
}

fn gathered(layers: &[SettingValues]) -> (ServerSettings, Vec<SqlError>) {
    let mut settings = ServerSettings::default();
    let values = layers.iter().flatten();
    let refused = values.filter_map(|(name, value)| settings.set(name, value).err());
    let refused = refused.collect();
    (settings, refused)
}

impl Server for Configuration {
    fn reload(&self) -> bool {
        let settings = match self.read() {
            Ok(settings) => settings,
            Err(why) => {
                tracing::warn!("the configuration was not read again: {why}");
                return false;
            }
        };
        self.read_at.store(now(), Relaxed);
        {
            let mut active = self.active.write();
            if **active != settings {
                *active = Arc::new(settings);
                self.generation.fetch_add(1, Relaxed);
            }
        }
        let active = self.active();
        for hook in &*self.hooks.lock() {
            hook(&active);
        }
        true
    }

    fn rotate_log(&self) -> bool {
        let source = self.source.read().clone();
        source.is_some_and(|source| source.rotate_log())
    }

    fn log_file(&self) -> Option<String> {
        let source = self.source.read().clone();
        source.and_then(|source| source.log_file())
    }

    fn configured(&self) -> i64 {
        self.read_at.load(Relaxed)
    }

    fn temporary_directory(&self) -> PathBuf {
        let directory = self.temporary_directory.clone();
        directory.unwrap_or_else(std::env::temp_dir)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct TestSource {
        file: SettingValues,
        system: Mutex<SettingValues>,
        options: SettingValues,
    }

    impl ConfigurationSource for TestSource {
        fn options(&self) -> SettingValues {
            self.options.clone()
        }

        fn read_file(&self) -> Result<SettingValues, String> {
            Ok(self.file.clone())
        }

        fn read_system(&self) -> Result<SettingValues, String> {
            Ok(self.system.lock().clone())
        }

        fn write_system(&self, values: &SettingValues) -> Result<(), String> {
            *self.system.lock() = values.clone();
            Ok(())
        }

        fn rotate_log(&self) -> bool {
            false
        }

        fn log_file(&self) -> Option<String> {
            None
        }
    }

    fn values(pairs: &[(&str, &str)]) -> SettingValues {
        let pairs = pairs.iter();
        pairs
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect()
    }

    #[test]
    fn options_win_over_alter_system_and_that_over_the_file() {
        let configuration = Configuration::default();
        let source = TestSource {
            file: values(&[
                ("log_statement", "ddl"),
                ("log_duration", "on"),
                ("log_lock_waits", "on"),
                ("nonsense", "1"),
            ]),
            options: values(&[("log_statement", "all")]),
            ..TestSource::default()
        };
        assert!(configuration.set_source(Arc::new(source)));
        let set = |name: &str, value: &str| SystemChange::Set(name.into(), value.into());
        configuration
            .alter(&set("LOG_statement", "mod"))
            .expect("kept");
        configuration
            .alter(&set("log_duration", "off"))
            .expect("kept");
        let value = |name| configuration.active().get(name).map(|v| v.into_owned());
        assert_eq!(value("log_duration").as_deref(), Some("on"));
        let before = configuration.generation();
        assert!(configuration.reload());
        assert_eq!(configuration.generation(), before + 1);
        assert_eq!(value("log_duration").as_deref(), Some("off"));
        assert_eq!(value("log_statement").as_deref(), Some("all"));
        assert_eq!(value("log_lock_waits").as_deref(), Some("on"));
        configuration.alter(&SystemChange::ResetAll).expect("kept");
        assert!(configuration.reload());
        assert_eq!(value("log_duration").as_deref(), Some("on"));
    }
}
