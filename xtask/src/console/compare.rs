//! The comparison of a command's output with the document.

use super::blocks::ConsoleCommand;
use super::normalise::Normaliser;
use super::run::{CommandEnd, CommandResult};

/// A difference between a command in the document and its run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// The output differs.
    Output {
        /// The lines that were printed.
        got: Vec<String>,
        /// The exit code of the command.
        exit_code: i32,
    },
    /// The command failed, although neither the document nor the output shows it.
    SilentFailure {
        /// The exit code of the command.
        exit_code: i32,
    },
    /// The time limit of the document passed during the command.
    Stopped {
        /// The lines that were printed.
        got: Vec<String>,
    },
    /// The shell ended during the command.
    ShellEnded {
        /// The lines that were printed.
        got: Vec<String>,
    },
    /// The document ended before the command.
    NotRun,
}

/// Exit codes from here on tell the signal that ended the command, as of `kill -9 $p; wait $p`.
const SIGNAL_CODE_MIN: i32 = 128;

/// Returns the difference between the document and the run of one command.
pub fn compare(
    command: &ConsoleCommand,
    result: &CommandResult,
    normaliser: &Normaliser,
) -> Option<Problem> {
    let got = || result.output.lines().map(str::to_owned).collect();
    let exit_code = match result.end {
        CommandEnd::Exit(exit_code) => exit_code,
        CommandEnd::Stopped => return Some(Problem::Stopped { got: got() }),
        CommandEnd::ShellEnded => return Some(Problem::ShellEnded { got: got() }),
        CommandEnd::NotRun => return Some(Problem::NotRun),
    };
    let expected = normaliser.lines(command.expected.iter().map(String::as_str));
    let printed = normaliser.lines(result.output.lines());
    if !is_match(&expected, &printed) {
        return Some(Problem::Output {
            got: got(),
            exit_code,
        });
    }
    let is_silent = printed.is_empty() && (1..SIGNAL_CODE_MIN).contains(&exit_code);
    is_silent.then_some(Problem::SilentFailure { exit_code })
}

/// A line of a document that stands for any number of lines.
const ELISION: &str = "...";

/// Tells whether a document shows the lines that were printed.
fn is_match(expected: &[String], printed: &[String]) -> bool {
    match expected.split_first() {
        None => printed.is_empty(),
        Some((line, rest)) if line == ELISION => {
            (0..=printed.len()).any(|count| is_match(rest, &printed[count..]))
        }
        Some((line, rest)) => printed.first() == Some(line) && is_match(rest, &printed[1..]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(expected: &[&str], output: &str, end: CommandEnd) -> Option<Problem> {
        let command = ConsoleCommand {
            line: 1,
            text: "command".to_owned(),
            expected: expected.iter().map(|&line| line.to_owned()).collect(),
        };
        let result = CommandResult {
            output: output.to_owned(),
            end,
        };
        compare(&command, &result, &Normaliser::new())
    }

    fn has_other_output(expected: &[&str], output: &str) -> bool {
        let problem = problem(expected, output, CommandEnd::Exit(0));
        matches!(problem, Some(Problem::Output { .. }))
    }

    #[test]
    fn same_output_passes() {
        let output = " a \n---\n 1\n(1 row)\n\n";
        let expected = [" a", "---", " 1", "(1 row)"];
        assert_eq!(problem(&expected, output, CommandEnd::Exit(0)), None);
        assert_eq!(
            problem(&["in 5 ms"], "in 71 ms\n", CommandEnd::Exit(0)),
            None
        );
        assert_eq!(problem(&["ERROR"], "ERROR\n", CommandEnd::Exit(1)), None);
    }

    #[test]
    fn wrong_missing_and_extra_lines_are_reported() {
        assert!(has_other_output(&["(1 row)"], "(2 rows)\n"));
        assert!(has_other_output(&["a", "b"], "a\n"));
        assert!(has_other_output(&["a"], "a\nb\n"));
        assert!(has_other_output(&["a", "", "b"], "a\nb\n"));
        assert!(has_other_output(&[], "warning\n"));
        assert!(has_other_output(&["a"], ""));
        assert!(has_other_output(&["in 5 ms"], "in 5 s\n"));
    }

    #[test]
    fn elision_stands_for_any_number_of_lines() {
        for output in ["a\nz\n", "a\nb\nz\n", "a\nz\nz\n"] {
            assert!(!has_other_output(&["a", "...", "z"], output), "{output}");
        }
        for output in ["b\nz\n", "a\nb\n", "a\n", ""] {
            assert!(has_other_output(&["a", "...", "z"], output), "{output}");
        }
        assert!(!has_other_output(&["..."], ""));
    }

    #[test]
    fn silent_failure_is_reported() {
        let failure = Some(Problem::SilentFailure { exit_code: 2 });
        assert_eq!(problem(&[], "", CommandEnd::Exit(2)), failure);
        assert_eq!(problem(&[], "", CommandEnd::Exit(137)), None);
        assert_eq!(problem(&[], "", CommandEnd::Exit(0)), None);
    }

    #[test]
    fn command_without_an_end_is_reported() {
        let got = vec!["a".to_owned()];
        assert_eq!(
            problem(&["a"], "a\n", CommandEnd::Stopped),
            Some(Problem::Stopped { got: got.clone() })
        );
        assert_eq!(
            problem(&["a"], "a\n", CommandEnd::ShellEnded),
            Some(Problem::ShellEnded { got })
        );
        assert_eq!(problem(&[], "", CommandEnd::NotRun), Some(Problem::NotRun));
    }
}
