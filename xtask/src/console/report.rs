//! The report of a document: its differences, or the reason why it was skipped.

use std::fmt;

use super::blocks::ConsoleCommand;
use super::compare::{Problem, compare};
use super::normalise::Normaliser;
use super::run::DocumentRun;

/// A command that differs from the document.
#[derive(Debug)]
struct Difference {
    command: ConsoleCommand,
    problem: Problem,
}

#[derive(Debug)]
enum Outcome {
    Skipped {
        missing_program: String,
    },
    PortTaken {
        port: u16,
    },
    Run {
        commands: usize,
        seconds: f64,
        differences: Vec<Difference>,
    },
}

/// The report of a document; it prints as its differences.
#[derive(Debug)]
pub struct Report {
    /// The path of the document.
    pub path: String,
    outcome: Outcome,
}

impl Report {
    /// Compares the run of a document with its commands.
    pub fn new(
        path: &str,
        commands: &[&ConsoleCommand],
        run: &DocumentRun,
        normaliser: &Normaliser,
    ) -> Report {
        let pairs = commands.iter().zip(&run.results);
        let differences = pairs.filter_map(|(&command, result)| {
            let problem = compare(command, result, normaliser)?;
            Some(Difference {
                command: command.clone(),
                problem,
            })
        });
        Report {
            path: path.to_owned(),
            outcome: Outcome::Run {
                commands: commands.len(),
                seconds: run.elapsed.as_secs_f64(),
                differences: differences.collect(),
            },
        }
    }

    /// Returns the report of a document that needs a program which is not installed.
    pub fn skipped(path: &str, missing_program: &str) -> Report {
        Report {
            path: path.to_owned(),
            outcome: Outcome::Skipped {
                missing_program: missing_program.to_owned(),
            },
        }
    }

    /// Returns the report of a document that needs a port which another process has.
    pub fn port_taken(path: &str, port: u16) -> Report {
        Report {
            path: path.to_owned(),
            outcome: Outcome::PortTaken { port },
        }
    }

    /// Tells whether the document was skipped or runs as it is written.
    pub fn is_clean(&self) -> bool {
        match &self.outcome {
            Outcome::Skipped { .. } => true,
            Outcome::PortTaken { .. } => false,
            Outcome::Run { differences, .. } => differences.is_empty(),
        }
    }

    /// Returns the report in one line.
    pub fn summary(&self) -> String {
        let path = &self.path;
        match &self.outcome {
            Outcome::Skipped { missing_program } => {
                format!("{path}: skipped: there is no {missing_program}")
            }
            Outcome::PortTaken { port } => {
                format!("{path}: not run: another process has port {port}")
            }
            Outcome::Run {
                commands,
                seconds,
                differences,
            } => {
                let differing = differences.len();
                format!("{path}: {commands} commands, {differing} differ, {seconds:.1} s")
            }
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Outcome::Run { differences, .. } = &self.outcome else {
            return Ok(());
        };
        for Difference { command, problem } in differences {
            writeln!(formatter, "\n{}:{}", self.path, command.line)?;
            indent(formatter, "$ ", command.text.lines())?;
            let expected = command.expected.iter().map(String::as_str);
            match problem {
                Problem::Output { got, exit_code } => {
                    writeln!(formatter, "  expected:")?;
                    indent(formatter, "| ", expected)?;
                    writeln!(formatter, "  got, with exit code {exit_code}:")?;
                    indent(formatter, "| ", got.iter().map(String::as_str))?;
                }
                Problem::SilentFailure { exit_code } => {
                    writeln!(formatter, "  failed with exit code {exit_code}, silently")?;
                }
                Problem::Stopped { got } => {
                    writeln!(formatter, "  stopped at the time limit; got:")?;
                    indent(formatter, "| ", got.iter().map(String::as_str))?;
                }
                Problem::ShellEnded { got } => {
                    writeln!(formatter, "  the shell ended; got:")?;
                    indent(formatter, "| ", got.iter().map(String::as_str))?;
                }
                Problem::NotRun => writeln!(formatter, "  not run")?,
            }
        }
        Ok(())
    }
}

fn indent<'a>(
    formatter: &mut fmt::Formatter<'_>,
    prefix: &str,
    lines: impl Iterator<Item = &'a str>,
) -> fmt::Result {
    for line in lines {
        writeln!(formatter, "    {prefix}{line}")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::console::run::{CommandEnd, CommandResult};

    fn report(output: &str, end: CommandEnd) -> Report {
        let command = ConsoleCommand {
            line: 7,
            text: "psql -c 'SELECT 1'".to_owned(),
            expected: vec!["(1 row)".to_owned()],
        };
        let result = CommandResult {
            output: output.to_owned(),
            end,
        };
        let run = DocumentRun {
            results: vec![result],
            elapsed: Duration::from_millis(1500),
        };
        Report::new("a.md", &[&command], &run, &Normaliser::new())
    }

    #[test]
    fn difference_prints_document_line_command_and_both_outputs() {
        let report = report("(2 rows)\n", CommandEnd::Exit(0));
        assert!(!report.is_clean());
        assert_eq!(report.summary(), "a.md: 1 commands, 1 differ, 1.5 s");
        let expected = "\na.md:7\n    $ psql -c 'SELECT 1'\n  expected:\n    | (1 row)\n  \
                        got, with exit code 0:\n    | (2 rows)\n";
        assert_eq!(report.to_string(), expected);
    }

    #[test]
    fn same_output_prints_nothing() {
        let report = report("(1 row)\n", CommandEnd::Exit(0));
        assert!(report.is_clean());
        assert_eq!(report.to_string(), "");
    }

    #[test]
    fn stopped_command_prints_its_output() {
        let text = report("half\n", CommandEnd::Stopped).to_string();
        assert!(
            text.contains("stopped at the time limit; got:\n    | half\n"),
            "{text}"
        );
    }

    #[test]
    fn taken_port_is_a_difference_and_is_named() {
        let report = Report::port_taken("a.md", 5433);
        assert!(!report.is_clean());
        let summary = "a.md: not run: another process has port 5433";
        assert_eq!(report.summary(), summary);
    }

    #[test]
    fn skipped_document_is_clean_and_names_the_program() {
        let report = Report::skipped("a.md", "openssl");
        assert!(report.is_clean());
        assert_eq!(report.summary(), "a.md: skipped: there is no openssl");
    }
}
