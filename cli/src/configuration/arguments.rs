//! The precedence of options: command line, environment, configuration file, default.
//!
//! ```text
//!   command line, environment ──> which options are given? ──┐
//!   configuration file ──> those of its options that are not ─┴─> the command line that is parsed
//! ```
//! So options of the file are checked like those of the command line, together with them.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::error::{ContextKind, ContextValue};
use clap::parser::ValueSource;
use clap::{ArgAction, ArgMatches, Command};

use super::file::{ConfigFile, OptionEntry, OptionValue};

/// The command that has a configuration file.
const COMMAND: &str = "start";
/// The option that names the file.
const CONFIG: &str = "config";

/// A command line that includes the options of the configuration file.
pub struct FullCommandLine {
    pub arguments: Vec<OsString>,
    file: Option<ConfigFile>,
}

impl FullCommandLine {
    /// Adds the options of the configuration file that `arguments` or the environment names, if
    /// there is one.
    ///
    /// # Errors
    /// The reason why the file cannot be used, with the line.
    pub fn of(program: &Command, arguments: Vec<OsString>) -> Result<FullCommandLine, String> {
        let unchanged = |arguments| FullCommandLine {
            arguments,
            file: None,
        };
        // The parse of the whole command line reports errors later.
        let lenient = program.clone().ignore_errors(true);
        let Ok(matches) = lenient.try_get_matches_from(&arguments) else {
            return Ok(unchanged(arguments));
        };
        let Some((COMMAND, given)) = matches.subcommand() else {
            return Ok(unchanged(arguments));
        };
        let path = given.try_get_one::<PathBuf>(CONFIG).ok().flatten();
        let (Some(path), Some(command)) = (path, program.find_subcommand(COMMAND)) else {
            return Ok(unchanged(arguments));
        };
        let file = ConfigFile::read(path)?;
        let mut added = Vec::new();
        for entry in &file.options {
            added.extend(words(command, given, &file, entry)?);
        }
        let at = arguments.iter().position(|word| word == COMMAND);
        let at = at.map_or(arguments.len(), |at| at + 1);
        let mut arguments = arguments;
        arguments.splice(at..at, added);
        Ok(FullCommandLine {
            arguments,
            file: Some(file),
        })
    }

    /// Returns the place in the configuration file of the option to which an error refers, if the
    /// option is from there.
    pub fn place_of(&self, error: &clap::Error) -> Option<String> {
        let file = self.file.as_ref()?;
        let Some(ContextValue::String(option)) = error.get(ContextKind::InvalidArg) else {
            return None;
        };
        let name = option.trim_start_matches("--").split([' ', '=']).next()?;
        let entry = file.options.iter().find(|entry| entry.name == name)?;
        Some(file.error(entry.line, ""))
    }
}

/// Returns the words of the command line for an option of the file; none if the option is given
/// elsewhere.
fn words(
    command: &Command,
    given: &ArgMatches,
    file: &ConfigFile,
    entry: &OptionEntry,
) -> Result<Vec<OsString>, String> {
    let name = entry.name.as_str();
    let wrong = |why: String| file.error(entry.line, &why);
    let mut options = command.get_arguments();
    let option = options.find(|option| option.get_long() == Some(name));
    let option = option.filter(|option| {
        ![CONFIG, "check-config", "help"].contains(&name) && !option.is_hide_set()
    });
    let option = option.ok_or_else(|| wrong(format!("unknown option \"{name}\"")))?;
    let source = given.value_source(option.get_id().as_str());
    if matches!(
        source,
        Some(ValueSource::CommandLine | ValueSource::EnvVariable)
    ) {
        return Ok(Vec::new());
    }
    let is_flag = matches!(option.get_action(), ArgAction::SetTrue);
    let word = |value: &str| OsString::from(format!("--{name}={value}"));
    Ok(match (&entry.value, is_flag) {
        (OptionValue::Flag(true), true) => vec![format!("--{name}").into()],
        (OptionValue::Flag(false), true) => Vec::new(),
        (_, true) => return Err(wrong(format!("{name} is true or false"))),
        (OptionValue::Flag(flag), false) => vec![word(&flag.to_string())],
        (OptionValue::One(value), false) => vec![word(value)],
        (OptionValue::Several(values), false) => match option.get_value_delimiter() {
            Some(delimiter) => vec![word(&values.join(&delimiter.to_string()))],
            None => return Err(wrong(format!("{name} has one value"))),
        },
    })
}

/// Returns the environment variables that are options of `fencepost start`, which must not reach
/// machines that another process starts.
pub fn variables() -> Vec<OsString> {
    let names = std::env::vars_os().map(|(name, _)| name);
    let is_option = |name: &OsString| {
        let name = name.to_string_lossy();
        name.starts_with("FENCEPOST_") && !name.starts_with("FENCEPOST_SUPERUSER_PASSWORD")
    };
    names.filter(is_option).collect()
}
