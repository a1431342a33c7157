//! The `console` blocks of a Markdown document, as commands with their expected output.
//!
//! ```text
//! $ psql <<'END'           a command begins with `$ `
//! > SELECT 1;              and goes on in lines that begin with `>`,
//! > END
//! $ psql \                 or after a line that ends with a backslash
//!   -c 'SELECT 1'
//!  ?column?                all other lines are its output
//! ```
//! A line `...` of the output stands for any number of lines.
//! An HTML comment `<!-- console: not run: REASON -->` before a block leaves the block out.
//!
//! Not done: output whose first line begins with `>` is read as a part of its command.

use std::collections::BTreeSet;

use pulldown_cmark::{CodeBlockKind, Event, Parser, Tag, TagEnd};

use super::error::ConsoleError;

/// The beginning of each marker.
const MARKER: &str = "<!-- console:";
/// The beginning of a marker that leaves a block out.
const NOT_RUN: &str = "<!-- console: not run:";

/// The beginning of an address at which a document has a process listen.
const LOOPBACK: &str = "127.0.0.1:";

/// A command with the output that the document shows below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsoleCommand {
    /// The line in the document, from 1.
    pub line: usize,
    /// The text of the command, without the prompts.
    pub text: String,
    /// The lines below the command.
    pub expected: Vec<String>,
}

/// A console block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// The line of its first command, from 1.
    pub line: usize,
    /// The reason of the marker that leaves it out.
    pub left_out: Option<String>,
    /// Its commands.
    pub commands: Vec<ConsoleCommand>,
}

/// The console blocks of a document.
#[derive(Clone, Debug)]
pub struct Document {
    /// The path that reports name.
    pub path: String,
    /// The blocks in their order.
    pub blocks: Vec<Block>,
}

/// A reader of the events of a document.
#[derive(Default)]
struct Scanner {
    marker: Option<(usize, String)>,
    text: Option<(usize, String)>,
    blocks: Vec<Block>,
}

impl Document {
    /// Parses a document.
    ///
    /// # Errors
    ///
    /// [`ConsoleError::Malformed`] for a block that begins with output, and for a marker that is
    /// unknown, without a reason, or without a block below it.
    pub fn parse(path: &str, text: &str) -> Result<Document, ConsoleError> {
        let malformed = |(line, problem)| ConsoleError::Malformed {
            path: path.to_owned(),
            line,
            problem,
        };
        let mut scanner = Scanner::default();
        for (event, range) in Parser::new(text).into_offset_iter() {
            let line = 1 + text[..range.start].matches('\n').count();
            scanner.read(event, line).map_err(malformed)?;
        }
        scanner.refuse_marker().map_err(malformed)?;
        Ok(Document {
            path: path.to_owned(),
            blocks: scanner.blocks,
        })
    }

    /// Returns the commands of all blocks that no marker leaves out.
    pub fn commands(&self) -> impl Iterator<Item = &ConsoleCommand> {
        let blocks = self.blocks.iter().filter(|block| block.left_out.is_none());
        blocks.flat_map(|block| &block.commands)
    }

    /// Tells whether a block is run.
    pub fn has_commands(&self) -> bool {
        self.commands().next().is_some()
    }

    /// Returns the ports of the loopback address that commands and their output name.
    pub fn ports(&self) -> BTreeSet<u16> {
        let texts = self
            .commands()
            .flat_map(|command| std::iter::once(&command.text).chain(&command.expected));
        let addresses = texts.flat_map(|text| text.split(LOOPBACK).skip(1));
        let digits = addresses.filter_map(|rest| rest.split(|one: char| !one.is_numeric()).next());
        digits.filter_map(|digits| digits.parse().ok()).collect()
    }

    /// Tells whether a command contains a word.
    pub fn has_word(&self, word: &str) -> bool {
        let is_separator = |character: char| !(character.is_alphanumeric() || character == '_');
        self.commands()
            .any(|command| command.text.split(is_separator).any(|part| part == word))
    }
}

type Fault = (usize, &'static str);

impl Scanner {
    fn read(&mut self, event: Event<'_>, line: usize) -> Result<(), Fault> {
        match event {
            Event::Html(html) if html.starts_with(MARKER) => {
                self.refuse_marker()?;
                let reason = html
                    .trim()
                    .strip_prefix(NOT_RUN)
                    .and_then(|rest| rest.strip_suffix("-->"))
                    .map(str::trim)
                    .filter(|reason| !reason.is_empty())
                    .ok_or((line, "a marker is `<!-- console: not run: REASON -->`"))?;
                self.marker = Some((line, reason.to_owned()));
            }
            Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(language)))
                if *language == *"console" =>
            {
                self.text = Some((line + 1, String::new()));
            }
            Event::Text(text) => match &mut self.text {
                Some((_, block)) => block.push_str(&text),
                None => self.refuse_marker()?,
            },
            Event::End(TagEnd::CodeBlock) => {
                if let Some((first, text)) = self.text.take() {
                    self.blocks.push(Block {
                        line: first,
                        left_out: self.marker.take().map(|(_, reason)| reason),
                        commands: commands(first, &text)?,
                    });
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Fails if a marker has been read and no block followed it.
    fn refuse_marker(&self) -> Result<(), Fault> {
        match &self.marker {
            Some((line, _)) => Err((*line, "no console block follows this marker")),
            None => Ok(()),
        }
    }
}

/// Splits a block, whose first line has the number `first`, into its commands.
fn commands(first: usize, text: &str) -> Result<Vec<ConsoleCommand>, Fault> {
    let mut commands: Vec<ConsoleCommand> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        if let Some(command) = line.strip_prefix("$ ") {
            commands.push(ConsoleCommand {
                line: first + index,
                text: command.to_owned(),
                expected: Vec::new(),
            });
            continue;
        }
        let Some(command) = commands.last_mut() else {
            return Err((first + index, "a console block begins with a command: `$ `"));
        };
        let continued = line.strip_prefix('>');
        let is_open = command.text.ends_with('\\') || continued.is_some();
        if command.expected.is_empty() && is_open {
            let part = continued.map_or(line, |rest| rest.strip_prefix(' ').unwrap_or(rest));
            command.text.push('\n');
            command.text.push_str(part);
        } else {
            command.expected.push(line.to_owned());
        }
    }
    Ok(commands)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Document {
        Document::parse("a.md", text).unwrap()
    }

    fn fault(text: &str) -> String {
        Document::parse("a.md", text).unwrap_err().to_string()
    }

    #[test]
    fn block_becomes_commands_with_output() {
        let document =
            parse("# A\n\n```console\n$ echo a\na\n\nb\n$ true\n```\n\n```sql\n$\n```\n");
        let [block] = &document.blocks[..] else {
            panic!("{document:?}")
        };
        let expected = vec!["a".to_owned(), String::new(), "b".to_owned()];
        assert_eq!((block.line, &block.left_out), (4, &None));
        assert_eq!(
            (block.commands[0].line, &block.commands[0].expected),
            (4, &expected)
        );
        assert_eq!(
            (block.commands[1].line, block.commands[1].text.as_str()),
            (8, "true")
        );
    }

    #[test]
    fn continuation_lines_belong_to_the_command() {
        let document =
            parse("```console\n$ cat <<'E'\n>   a\n>\n> E\n  a\n$ echo \\\n  b\nb\n```\n");
        let texts: Vec<_> = document.commands().map(|command| &command.text).collect();
        assert_eq!(texts, ["cat <<'E'\n  a\n\nE", "echo \\\n  b"]);
        let outputs: Vec<_> = document.commands().map(|one| &one.expected[..]).collect();
        assert_eq!(outputs, [["  a"], ["b"]]);
    }

    #[test]
    fn marked_block_is_left_out() {
        let marker = "<!-- console: not run: needs two hosts -->\n";
        let block = "```console\n$ true\n```\n";
        let document = parse(&format!("{marker}{block}\n{block}"));
        let reason = document.blocks[0].left_out.as_deref();
        assert_eq!(reason, Some("needs two hosts"));
        assert_eq!(document.commands().count(), 1);
    }

    #[test]
    fn malformed_marker_or_block_is_refused() {
        let block = "```console\n$ true\n```\n";
        let unknown = fault(&format!("<!-- console: skip -->\n{block}"));
        assert_eq!(
            unknown,
            "a.md:1: a marker is `<!-- console: not run: REASON -->`"
        );
        let lonely = fault(&format!(
            "<!-- console: not run: why -->\n\ntext\n\n{block}"
        ));
        assert_eq!(lonely, "a.md:1: no console block follows this marker");
        let last = fault("<!-- console: not run: why -->\n");
        assert_eq!(last, "a.md:1: no console block follows this marker");
        let output = fault("```console\noutput\n```\n");
        assert_eq!(
            output,
            "a.md:2: a console block begins with a command: `$ `"
        );
    }

    #[test]
    fn ports_of_commands_and_output_are_found() {
        let command = "$ fencepost start --join 127.0.0.1:7001,127.0.0.1:7002";
        let output = "fencepost ready on 127.0.0.1:5433 (machine 1 of 2)";
        let document = parse(&format!("```console\n{command}\n{output}\n```\n"));
        assert_eq!(Vec::from_iter(document.ports()), [5433, 7001, 7002]);
    }

    #[test]
    fn word_is_found_between_separators() {
        let document = parse("```console\n$ kill $(pgrep -f a)\n```\n");
        assert!(document.has_word("pgrep"));
        assert!(!document.has_word("grep"));
    }
}
