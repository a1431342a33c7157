//! The file of ALTER SYSTEM's settings: a TOML line `"name" = "value"` for each.
//!
//! # Failure
//! A new file is written and renamed over the old one, so that a crash leaves one of the two.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use fencepost::SettingValues;
use toml::de::{DeTable, DeValue};

const HEAD: &str = "# Written by ALTER SYSTEM; do not edit.\n";

/// Reads the file; without a file there are no settings.
pub fn read(path: &Path) -> Result<SettingValues, String> {
    let failed = |why: String| format!("{}: {why}", path.display());
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(SettingValues::new()),
        Err(error) => return Err(failed(error.to_string())),
    };
    let table = DeTable::parse(&text).map_err(|error| failed(error.to_string()))?;
    let mut values = SettingValues::new();
    for (name, value) in table.get_ref() {
        match value.get_ref() {
            DeValue::String(value) => {
                values.insert(name.get_ref().to_string(), value.to_string());
            }
            _ => return Err(failed(format!("{} is not a string", name.get_ref()))),
        }
    }
    Ok(values)
}

/// Writes the file.
pub fn write(path: &Path, values: &SettingValues) -> Result<(), String> {
    let mut text = HEAD.to_owned();
    for (name, value) in values {
        // JSON's escapes are also valid in TOML.
        let line = format!("{} = {}\n", quoted(name), quoted(value));
        text.push_str(&line);
    }
    let written = replace(path, text.as_bytes());
    written.map_err(|error| format!("{}: {error}", path.display()))
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let beside = path.with_extension("toml.new");
    let mut options = OpenOptions::new();
    let mut file = options
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&beside)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    std::fs::rename(&beside, path)?;
    match path.parent() {
        Some(directory) => File::open(directory)?.sync_all(),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_value_comes_back() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("fencepost.auto.toml");
        assert_eq!(read(&path), Ok(SettingValues::new()));
        let values: SettingValues = [
            ("log_line_prefix", "%m \"é\" \\ \t'x' "),
            ("fencepost.ship", "off"),
            ("application_name", ""),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into();
        write(&path, &values).expect("written");
        assert_eq!(read(&path), Ok(values));
        std::fs::write(&path, "a = 1").expect("written");
        assert!(
            read(&path)
                .expect_err("refused")
                .contains("a is not a string")
        );
    }
}
