//! `fencepost.toml`: every option of `fencepost start` by its long name, settings of the server,
//! and access rules.
//!
//! ```toml
//! listen = "0.0.0.0:5432"
//! data_dir = "/var/lib/fencepost"
//! tls_required = true
//!
//! [settings]
//! log_min_duration_statement = "250ms"
//!
//! [[access]]
//! type = "host"
//! database = "all"
//! user = ["ada", "grace"]
//! address = "10.0.0.0/8"
//! method = "scram-sha-256"
//! ```
//! A `_` in a name stands for the `-` of the option. Errors name the file and the line.

use std::path::{Path, PathBuf};

use fencepost_pgserver::{AccessRule, RuleText};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The name of the array of access rules.
const ACCESS: &str = "access";
/// The name of the table of server settings.
const SETTINGS: &str = "settings";

/// A configuration file.
#[derive(Debug, Default, PartialEq)]
pub struct ConfigFile {
    path: PathBuf,
    /// The options, sorted by name.
    pub options: Vec<OptionEntry>,
    /// The settings, sorted by name.
    pub settings: Vec<SettingEntry>,
    /// The access rules, in their order; `None` if the file has none.
    pub access: Option<Vec<AccessRule>>,
}

/// An option of the command line.
#[derive(Clone, Debug, PartialEq)]
pub struct OptionEntry {
    /// The long name of the option, without leading dashes.
    pub name: String,
    pub value: OptionValue,
    pub line: usize,
}

/// The value of an option.
#[derive(Clone, Debug, PartialEq)]
pub enum OptionValue {
    Flag(bool),
    One(String),
    Several(Vec<String>),
}

/// A setting of the server.
#[derive(Clone, Debug, PartialEq)]
pub struct SettingEntry {
    pub name: String,
    pub value: String,
    pub line: usize,
}

/// The text of a file, to find the lines of its parts.
struct Text<'a> {
    path: &'a Path,
    text: &'a str,
}

impl Text<'_> {
    fn line_of<T>(&self, spanned: &Spanned<T>) -> usize {
        self.line_at(spanned.span().start)
    }

    fn line_at(&self, at: usize) -> usize {
        let before = self.text.get(..at).unwrap_or(self.text);
        before.matches('\n').count() + 1
    }

    fn error(&self, line: usize, why: &str) -> String {
        format!("{}:{line}: {why}", self.path.display())
    }
}

impl ConfigFile {
    /// Reads and parses a file.
    pub fn read(path: &Path) -> Result<ConfigFile, String> {
        let text = std::fs::read_to_string(path);
        let text = text.map_err(|error| format!("{}: {error}", path.display()))?;
        ConfigFile::parse(path, &text)
    }

    fn parse(path: &Path, text: &str) -> Result<ConfigFile, String> {
        let source = Text { path, text };
        let table = DeTable::parse(text).map_err(|error| {
            let line = source.line_at(error.span().map_or(0, |span| span.start));
            source.error(line, error.message())
        })?;
        let mut file = ConfigFile {
            path: path.to_owned(),
            ..ConfigFile::default()
        };
        for (name, value) in table.get_ref() {
            let line = source.line_of(name);
            match (name.get_ref().as_ref(), value.get_ref()) {
                (SETTINGS, DeValue::Table(settings)) => file.read_settings(&source, settings)?,
                (SETTINGS, _) => return Err(source.error(line, "settings is no table")),
                (ACCESS, DeValue::Array(rules)) => {
                    let rules = rules.iter().map(|rule| read_rule(&source, rule));
                    file.access = Some(rules.collect::<Result<_, _>>()?);
                }
                (ACCESS, _) => return Err(source.error(line, "access is no array of tables")),
                (name, value) => {
                    let value = option_value(value).ok_or_else(|| {
                        source.error(line, &format!("{name} is no value of an option"))
                    })?;
                    file.options.push(OptionEntry {
                        name: name.replace('_', "-"),
                        value,
                        line,
                    });
                }
            }
        }
        Ok(file)
    }

    fn read_settings(&mut self, source: &Text<'_>, settings: &DeTable<'_>) -> Result<(), String> {
        for (name, value) in settings {
            let line = source.line_of(name);
            let name = name.get_ref();
            let value = match value.get_ref() {
                DeValue::Boolean(true) => Some("on".to_owned()),
                DeValue::Boolean(false) => Some("off".to_owned()),
                value => scalar(value),
            };
            let value = value
                .ok_or_else(|| source.error(line, &format!("{name} is no value of a setting")))?;
            self.settings.push(SettingEntry {
                name: name.to_ascii_lowercase(),
                value,
                line,
            });
        }
        Ok(())
    }

    /// Returns an error message for a line of the file.
    pub fn error(&self, line: usize, why: &str) -> String {
        format!("{}:{line}: {why}", self.path.display())
    }
}

/// Reads an access rule.
fn read_rule(source: &Text<'_>, rule: &Spanned<DeValue<'_>>) -> Result<AccessRule, String> {
    let line = source.line_of(rule);
    let DeValue::Table(table) = rule.get_ref() else {
        return Err(source.error(line, "a rule of access is no table"));
    };
    let (mut kind, mut address, mut method) = (None, None, None);
    let (mut databases, mut users) = (Vec::new(), Vec::new());
    for (name, value) in table {
        let line = source.line_of(name);
        let value = option_value(value.get_ref());
        match (name.get_ref().as_ref(), value) {
            ("type", Some(OptionValue::One(text))) => kind = Some(text),
            ("address", Some(OptionValue::One(text))) => address = Some(text),
            ("method", Some(OptionValue::One(text))) => method = Some(text),
            ("database", Some(OptionValue::One(text))) => databases = vec![text],
            ("database", Some(OptionValue::Several(all))) => databases = all,
            ("user", Some(OptionValue::One(text))) => users = vec![text],
            ("user", Some(OptionValue::Several(all))) => users = all,
            (name, _) => {
                return Err(source.error(line, &format!("unknown field \"{name}\" of a rule")));
            }
        }
    }
    let missing = |field: &str| source.error(line, &format!("a rule of access needs {field}"));
    let text = RuleText {
        kind: &kind.ok_or_else(|| missing("type"))?,
        databases: &databases,
        users: &users,
        address: address.as_deref(),
        method: &method.ok_or_else(|| missing("method"))?,
    };
    AccessRule::parse(&text).map_err(|error| source.error(line, &error.to_string()))
}

fn option_value(value: &DeValue<'_>) -> Option<OptionValue> {
    Some(match value {
        DeValue::Boolean(flag) => OptionValue::Flag(*flag),
        DeValue::Array(all) => {
            let all = all.iter().map(|one| scalar(one.get_ref()));
            OptionValue::Several(all.collect::<Option<_>>()?)
        }
        value => OptionValue::One(scalar(value)?),
    })
}

fn scalar(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.to_string()),
        DeValue::Integer(number) if number.radix() == 10 => Some(number.as_str().replace('_', "")),
        DeValue::Float(number) => Some(number.as_str().replace('_', "")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<ConfigFile, String> {
        ConfigFile::parse(Path::new("f.toml"), text)
    }

    #[test]
    fn options_and_settings_are_read_with_line_numbers() {
        let file = parse(
            "listen = \"[::]:1\"\nmax_connections = 1_000\n# no\njoin = [\"a:1\", \"b:2\"]\n\
             tls-required = true\n[settings]\nLog_Connections = true\nlog_rotation_age = 5\n",
        );
        let file = file.expect("a file");
        let found: Vec<_> = file.options.iter().map(|o| (&*o.name, o.line)).collect();
        let wanted = [
            ("join", 4),
            ("listen", 1),
            ("max-connections", 2),
            ("tls-required", 5),
        ];
        assert_eq!(found, wanted);
        let values: Vec<_> = file.options.into_iter().map(|o| o.value).collect();
        assert_eq!(
            values[0],
            OptionValue::Several(vec!["a:1".into(), "b:2".into()])
        );
        assert_eq!(values[2], OptionValue::One("1000".into()));
        assert_eq!(values[3], OptionValue::Flag(true));
        let settings: Vec<_> = file
            .settings
            .iter()
            .map(|s| (&*s.name, &*s.value, s.line))
            .collect();
        assert_eq!(
            settings,
            [("log_connections", "on", 7), ("log_rotation_age", "5", 8)]
        );
    }

    #[test]
    fn errors_name_the_line() {
        for (text, expected) in [
            ("a = 1\nb = ", "f.toml:2: "),
            ("\nsettings = 5", "f.toml:2: settings is no table"),
            ("access = 5", "f.toml:1: access is no array of tables"),
            (
                "[[access]]\ntype = \"tcp\"\ndatabase = \"all\"\nuser = \"all\"\n\
                 method = \"trust\"",
                "f.toml:1: invalid connection type \"tcp\"",
            ),
            (
                "\n[[access]]\nkind = 1",
                "f.toml:3: unknown field \"kind\" of a rule",
            ),
            ("x = 1979-05-27", "f.toml:1: x is no value of an option"),
            ("[settings]\na = []", "f.toml:2: a is no value of a setting"),
        ] {
            let why = parse(text).expect_err(text);
            assert!(why.starts_with(expected), "{why}");
        }
    }
}
