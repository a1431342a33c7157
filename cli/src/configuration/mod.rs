//! The settings of the server: from the options of the process, the configuration file, and ALTER
//! SYSTEM.

mod arguments;
mod file;
mod system;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use fencepost::{ConfigurationSource, ServerSettings, SettingValues};
use fencepost_pgserver::AccessRules;
use parking_lot::Mutex;

use crate::log::Control;
pub use arguments::{FullCommandLine, variables};
use file::ConfigFile;

/// The name of the file in the data directory that stores the settings of ALTER SYSTEM.
const SYSTEM_FILE: &str = "fencepost.auto.toml";

/// The sources of a server's settings.
pub struct Source {
    options: SettingValues,
    file: Option<PathBuf>,
    /// `None` without a data directory: the settings of ALTER SYSTEM are then in memory only.
    system_file: Option<PathBuf>,
    system: Mutex<SettingValues>,
    rules: AccessRules,
    log: Option<Arc<Control>>,
}

impl Source {
    /// Returns the sources of a server with these settings in its options.
    pub fn new(
        options: &[(String, String)],
        file: Option<&Path>,
        data_dir: Option<&Path>,
        log: Option<Arc<Control>>,
    ) -> Source {
        Source {
            options: options.iter().cloned().collect(),
            file: file.map(Path::to_owned),
            system_file: data_dir.map(|dir| dir.join(SYSTEM_FILE)),
            system: Mutex::default(),
            rules: AccessRules::default(),
            log,
        }
    }
}

impl Source {
    /// Returns the access rules of the file, which a reload replaces.
    pub fn rules(&self) -> &AccessRules {
        &self.rules
    }
}

impl ConfigurationSource for Source {
    fn options(&self) -> SettingValues {
        self.options.clone()
    }

    fn read_file(&self) -> Result<SettingValues, String> {
        let Some(path) = &self.file else {
            return Ok(SettingValues::new());
        };
        let file = ConfigFile::read(path)?;
        self.rules.replace(file.access);
        let settings = file.settings.into_iter();
        Ok(settings.map(|entry| (entry.name, entry.value)).collect())
    }

    fn read_system(&self) -> Result<SettingValues, String> {
        match &self.system_file {
            Some(path) => system::read(path),
            None => Ok(self.system.lock().clone()),
        }
    }

    fn write_system(&self, values: &SettingValues) -> Result<(), String> {
        match &self.system_file {
            Some(path) => system::write(path, values),
            None => {
                self.system.lock().clone_from(values);
                Ok(())
            }
        }
    }

    fn rotate_log(&self) -> bool {
        if let Some(log) = &self.log {
            log.rotate();
        }
        self.log.is_some()
    }

    fn log_file(&self) -> Option<String> {
        let log = self.log.as_ref()?;
        Some(log.path().display().to_string())
    }
}

/// Checks the settings of a configuration file.
///
/// # Errors
/// The first error, with its line.
pub fn check_file(path: &Path) -> Result<(), String> {
    let file = ConfigFile::read(path)?;
    for entry in &file.settings {
        let mut settings = ServerSettings::default();
        let checked = settings.set(&entry.name, &entry.value);
        checked.map_err(|error| file.error(entry.line, error.message()))?;
    }
    Ok(())
}

/// Parses a value of `--set`.
pub fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.trim().is_empty() => {
            Ok((name.trim().to_ascii_lowercase(), value.trim().to_owned()))
        }
        _ => Err("not NAME=VALUE".to_owned()),
    }
}
