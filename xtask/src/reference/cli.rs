//! The reference of the commands: the help of the program and of each subcommand.
//!
//! The program runs under the name `fencepost` and in an empty environment, because clap prints
//! the name of the program, the width of its terminal and the values of environment variables.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use super::error::ReferenceError;
use super::help::{DefaultValue, Help, Item};
use super::markdown::{Table, code, plain};
use super::markers::Section;

/// The name under which the program runs.
const NAME: &str = "fencepost";

/// Returns the sections of the page: the commands, and their options.
///
/// # Errors
/// The program cannot be run, or it has no help.
pub fn sections(program: &Path) -> Result<Vec<Section>, ReferenceError> {
    let mut commands = Vec::new();
    collect(program, &[], &mut commands)?;
    Ok(render(&commands))
}

/// A command with the names that lead to it.
#[derive(Debug)]
struct Entry {
    path: Vec<String>,
    help: Help,
}

impl Entry {
    fn title(&self) -> String {
        format!("{NAME} {}", self.path.join(" "))
    }
}

/// Appends the commands below a path, each before its subcommands.
fn collect(
    program: &Path,
    path: &[String],
    entries: &mut Vec<Entry>,
) -> Result<(), ReferenceError> {
    let help = Help::parse(&help_text(program, path)?);
    let names: Vec<String> = help.commands.iter().map(|item| item.name.clone()).collect();
    if !path.is_empty() {
        let path = path.to_vec();
        entries.push(Entry { path, help });
    }
    for name in names {
        let path: Vec<String> = path.iter().cloned().chain([name]).collect();
        collect(program, &path, entries)?;
    }
    Ok(())
}

fn help_text(program: &Path, path: &[String]) -> Result<String, ReferenceError> {
    let output = Command::new(program)
        .arg0(NAME)
        .arg("help")
        .args(path)
        .env_clear()
        .stdin(Stdio::null())
        .output();
    let output = output.map_err(|source| ReferenceError::Process {
        program: program.to_owned(),
        source,
    })?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(ReferenceError::Failed {
        command: format!("{} help {}", program.display(), path.join(" ")),
        message: String::from_utf8_lossy(&output.stderr)
            .trim_end()
            .to_owned(),
    })
}

fn render(entries: &[Entry]) -> Vec<Section> {
    let mut table = Table::new(&["command", "purpose"]);
    let mut options = String::new();
    for entry in entries {
        let anchor = entry.title().replace(' ', "-");
        let usage = code(&entry.help.usage);
        table.push(&[format!("[{usage}](#{anchor})"), plain(&entry.help.about)]);
        options.push_str(&format!("### `{}`\n\n", entry.title()));
        options.push_str(&arguments(&entry.help.arguments));
        options.push('\n');
    }
    let section = |name, text| Section { name, text };
    vec![
        section("commands", table.into_text()),
        section("options", options),
    ]
}

/// Returns the table of the arguments of a command; columns without a value are left out.
fn arguments(items: &[Item]) -> String {
    if items.is_empty() {
        return "The command has no options.\n".to_owned();
    }
    let has_positional = items.iter().any(|item| !item.name.starts_with('-'));
    let has_default = items
        .iter()
        .any(|item| item.default != DefaultValue::Missing);
    let has_environment = items.iter().any(|item| !item.environment.is_empty());
    let first = if has_positional {
        "argument or option"
    } else {
        "option"
    };
    let mut headings = vec![first, "meaning"];
    headings.extend(has_default.then_some("default"));
    headings.extend(has_environment.then_some("environment"));
    let mut table = Table::new(&headings);
    for item in items {
        let mut cells = vec![code(&item.name), meaning(item)];
        cells.extend(has_default.then(|| default(item)));
        cells.extend(has_environment.then(|| code(&item.environment)));
        table.push(&cells);
    }
    table.into_text()
}

fn meaning(item: &Item) -> String {
    let text = plain(&item.text);
    if item.values.is_empty() {
        return text;
    }
    let values = item
        .values
        .iter()
        .map(|(name, about)| match about.as_str() {
            "" => code(name),
            about => format!("{}: {}", code(name), plain(about)),
        });
    let values: Vec<String> = values.collect();
    format!(
        "{}. Values: {}",
        text.trim_end_matches('.'),
        values.join("; ")
    )
}

fn default(item: &Item) -> String {
    match &item.default {
        DefaultValue::Missing => String::new(),
        DefaultValue::Literal(value) => code(value),
        DefaultValue::Words(words) => plain(words),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &str, help: Help) -> Entry {
        let path = vec![name.to_owned()];
        Entry { path, help }
    }

    #[test]
    fn commands_lead_to_their_options() {
        let help = Help::parse(
            "Save\n\nUsage: fencepost backup <DIR>\n\nArguments:\n  <DIR>  Directory\n\n\
             Options:\n      --url <A|B>  Address [default: the first one]\n",
        );
        let sections = render(&[entry("backup", help), entry("check", Help::default())]);
        let expected = "| command | purpose |\n|---|---|\n\
            | [`fencepost backup <DIR>`](#fencepost-backup) | Save |\n";
        assert!(sections[0].text.starts_with(expected));
        let expected = "### `fencepost backup`\n\n\
            | argument or option | meaning | default |\n|---|---|---|\n\
            | `<DIR>` | Directory | |\n\
            | `--url <A\\|B>` | Address | the first one |\n\n\
            ### `fencepost check`\n\nThe command has no options.\n\n";
        assert_eq!(sections[1].text, expected);
    }

    #[test]
    fn values_follow_the_meaning() {
        let item = Item {
            text: "The tier.".to_owned(),
            values: vec![
                ("ssd".to_owned(), "On a disk".to_owned()),
                ("ram".to_owned(), String::new()),
            ],
            ..Item::default()
        };
        assert_eq!(meaning(&item), "The tier. Values: `ssd`: On a disk; `ram`");
    }
}
