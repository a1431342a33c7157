//! The parser of the help that clap prints.
//!
//! ```text
//! About the command
//!
//! Usage: fencepost start [OPTIONS]
//!
//! Options:                                  a group: a line without indentation
//!       --auth <AUTH>                       an item: less than 10 columns of indentation
//!           Which clients must …            its text, which may also follow on the item's line
//!
//!           Possible values:
//!           - scram: All clients
//!
//!           [env: FENCEPOST_AUTH=]
//!           [default: trust-loopback]
//! ```
//! A text may end with a default of its own, such as `[default: ssd with --data-dir]`. In the short
//! layout, which has a line for each item, nothing but a space tells such words from a value.

/// The indentation at which clap prints the text below an item.
const TEXT_INDENTATION: usize = 10;

/// The help of a command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Help {
    /// The description of the command.
    pub about: String,
    /// The line after `Usage:`.
    pub usage: String,
    /// The names and descriptions of the subcommands, without `help`.
    pub commands: Vec<Item>,
    /// The positional arguments and the options, without `--help` and `--version`.
    pub arguments: Vec<Item>,
}

/// A subcommand, a positional argument or an option.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Item {
    /// The name with its value, such as `--url <URL>`.
    pub name: String,
    /// The description.
    pub text: String,
    /// The possible values with their descriptions, which may be empty.
    pub values: Vec<(String, String)>,
    /// The environment variable; empty if there is none.
    pub environment: String,
    /// The default.
    pub default: DefaultValue,
}

/// The default of an argument.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum DefaultValue {
    /// There is none.
    #[default]
    Missing,
    /// A value that could be given, which clap prints.
    Literal(String),
    /// Words at the end of the description, such as `ssd with --data-dir`.
    Words(String),
}

impl Help {
    /// Parses the help of a command.
    pub fn parse(text: &str) -> Help {
        let mut help = Help::default();
        let (about, rest) = text.split_once("Usage:").unwrap_or((text, ""));
        help.about = about.split_whitespace().collect::<Vec<_>>().join(" ");
        let mut lines = rest.lines();
        let usage = lines.by_ref().take_while(|line| !line.trim().is_empty());
        help.usage = usage.map(str::trim).collect::<Vec<_>>().join(" ");
        let mut items = Vec::new();
        let mut is_commands = false;
        for line in lines {
            if let Some(title) = title_of(line) {
                help.take(std::mem::take(&mut items), is_commands);
                is_commands = title == "Commands";
                continue;
            }
            read_line(line, &mut items);
        }
        help.take(items, is_commands);
        help
    }

    /// Adds the items of a group.
    fn take(&mut self, items: Vec<Lines>, is_commands: bool) {
        let items = items.into_iter().map(Lines::into_item);
        if is_commands {
            let commands = items.filter(|item| item.name != "help");
            self.commands.extend(commands);
        } else {
            let options = items.filter(|item| !is_about_program(&item.name));
            self.arguments.extend(options);
        }
    }
}

/// Tells whether an option prints facts about the program in place of its work.
fn is_about_program(name: &str) -> bool {
    matches!(name, "-h, --help" | "-V, --version")
}

/// Returns the title of the group that begins at a line.
fn title_of(line: &str) -> Option<&str> {
    let title = line.strip_suffix(':')?;
    (!title.starts_with(' ')).then_some(title)
}

/// The lines of an item, without indentation.
struct Lines {
    name: String,
    lines: Vec<String>,
}

fn read_line(line: &str, items: &mut Vec<Lines>) {
    let text = line.trim();
    let indentation = line.len() - line.trim_start().len();
    if text.is_empty() {
        return;
    }
    if indentation < TEXT_INDENTATION {
        let (name, text) = text.split_once("  ").unwrap_or((text, ""));
        let name = name.to_owned();
        let lines = vec![text.trim().to_owned()];
        items.push(Lines { name, lines });
    } else if let Some(item) = items.last_mut() {
        item.lines.push(text.to_owned());
    }
}

impl Lines {
    fn into_item(self) -> Item {
        let mut item = Item {
            name: self.name,
            ..Item::default()
        };
        let is_short = self.lines.len() == 1;
        let mut text = Vec::new();
        let mut is_in_values = false;
        for line in &self.lines {
            match line.strip_prefix("- ") {
                _ if line == "Possible values:" => is_in_values = true,
                Some(value) if is_in_values => {
                    let (name, about) = value.split_once(':').unwrap_or((value, ""));
                    item.values.push((name.to_owned(), about.trim().to_owned()));
                }
                _ if !item.read_note(line, DefaultValue::Literal) => text.push(line.as_str()),
                _ => {}
            }
        }
        item.text = text.join(" ").trim().to_owned();
        let of = if is_short {
            DefaultValue::of_short_layout
        } else {
            DefaultValue::Words
        };
        while item.take_note(of) {}
        item
    }
}

impl Item {
    /// Moves a note at the end of the text into its field.
    fn take_note(&mut self, default_of: fn(String) -> DefaultValue) -> bool {
        let Some(start) = self.text.rfind('[') else {
            return false;
        };
        let note = self.text[start..].to_owned();
        let is_note = self.read_note(&note, default_of);
        if is_note {
            self.text = self.text[..start].trim_end().to_owned();
        }
        is_note
    }

    /// Reads a note, such as `[default: 1]`, into its field. Other text has no effect.
    fn read_note(&mut self, note: &str, default_of: fn(String) -> DefaultValue) -> bool {
        let Some(note) = note
            .strip_prefix('[')
            .and_then(|note| note.strip_suffix(']'))
        else {
            return false;
        };
        match note.split_once(": ") {
            Some(("default", value)) => self.default = default_of(value.to_owned()),
            Some(("env", value)) => self.environment = value.trim_end_matches('=').to_owned(),
            _ => return false,
        }
        true
    }
}

impl DefaultValue {
    fn of_short_layout(text: String) -> DefaultValue {
        if text.contains(' ') {
            return DefaultValue::Words(text);
        }
        DefaultValue::Literal(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: &str = "Serve clients

Usage: fencepost start [OPTIONS] <DIR>

Arguments:
  <DIR>
          Directory

Options:
      --check-config
          Check all options

      --durability <TIER>
          When a commit is reported. [default: ssd, or memory]

          Possible values:
          - memory: Nothing survives
          - ssd:    All survives: power loss too
          \n          [env: FENCEPOST_DURABILITY=]

      --workers <N>
          Worker threads
          \n          [env: FENCEPOST_WORKERS=]
          [default: 0]

  -h, --help
          Print help
";

    fn item(name: &str, text: &str) -> Item {
        Item {
            name: name.to_owned(),
            text: text.to_owned(),
            ..Item::default()
        }
    }

    #[test]
    fn long_layout_is_parsed() {
        let help = Help::parse(LONG);
        assert_eq!(help.about, "Serve clients");
        assert_eq!(help.usage, "fencepost start [OPTIONS] <DIR>");
        assert!(help.commands.is_empty());
        let pair = |name: &str, text: &str| (name.to_owned(), text.to_owned());
        let expected = [
            item("<DIR>", "Directory"),
            item("--check-config", "Check all options"),
            Item {
                values: vec![
                    pair("memory", "Nothing survives"),
                    pair("ssd", "All survives: power loss too"),
                ],
                environment: "FENCEPOST_DURABILITY".to_owned(),
                default: DefaultValue::Words("ssd, or memory".to_owned()),
                ..item("--durability <TIER>", "When a commit is reported.")
            },
            Item {
                environment: "FENCEPOST_WORKERS".to_owned(),
                default: DefaultValue::Literal("0".to_owned()),
                ..item("--workers <N>", "Worker threads")
            },
        ];
        assert_eq!(help.arguments, expected);
    }

    #[test]
    fn short_layout_is_parsed() {
        let text = "Back up\n\nUsage: fencepost backup [OPTIONS] <DIR>\n\n\
            Arguments:\n  <DIR>  Directory to create\n\n\
            Options:\n      --url <URL>  Address: host=… port=… [default: host=a]\n  \
            -h, --help       Print help\n";
        let expected = [
            item("<DIR>", "Directory to create"),
            Item {
                default: DefaultValue::Literal("host=a".to_owned()),
                ..item("--url <URL>", "Address: host=… port=…")
            },
        ];
        assert_eq!(Help::parse(text).arguments, expected);
    }

    #[test]
    fn subcommands_are_listed_without_help() {
        let text = "A database\n\nUsage: fencepost <COMMAND>\n\nCommands:\n  \
            start        Serve clients\n  dev-cluster  Run machines\n  help         Print this\n\n\
            Options:\n  -h, --help     Print help\n  -V, --version  Print version\n";
        let help = Help::parse(text);
        let expected = [
            item("start", "Serve clients"),
            item("dev-cluster", "Run machines"),
        ];
        assert_eq!(help.commands, expected);
        assert_eq!(help.arguments, []);
    }

    #[test]
    fn note_inside_the_text_stays() {
        let mut note = item("--store", "A store. [default with --lease-ms: raft]");
        assert!(!note.take_note(DefaultValue::Words));
        let mut note = item("--store", "[default: none] is written at the end");
        assert!(!note.take_note(DefaultValue::Words));
    }
}
