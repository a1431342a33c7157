//! Queries through psql, in a session of their own each.
//!
//! Fields and rows are separated by control characters that no catalog has in a value, so values
//! may hold line breaks.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use super::error::ReferenceError;

const FIELD_SEPARATOR: char = '\u{1f}';
const ROW_SEPARATOR: char = '\u{1e}';

/// Reaction to a statement that fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OnError {
    Stop,
    Continue,
}

/// A psql program and the server that it asks.
pub struct Psql {
    program: PathBuf,
    port: u16,
}

impl Psql {
    /// Returns a client of the server on a port of 127.0.0.1.
    pub fn new(program: PathBuf, port: u16) -> Psql {
        Psql { program, port }
    }

    /// Runs one statement and returns its rows, each with `N` fields; NULL is an empty field.
    ///
    /// # Errors
    /// psql cannot be run, the statement fails, or a row has another number of fields.
    pub fn rows<const N: usize>(&self, sql: &str) -> Result<Vec<[String; N]>, ReferenceError> {
        let output = self.run(&format!("{sql};\n"), OnError::Stop)?;
        if !output.status.success() {
            return Err(ReferenceError::Failed {
                command: format!("psql with {sql}"),
                message: String::from_utf8_lossy(&output.stderr)
                    .trim_end()
                    .to_owned(),
            });
        }
        parse_rows(&String::from_utf8_lossy(&output.stdout))
    }

    /// Runs a script to its end, also after failing statements, and returns its standard output.
    ///
    /// # Errors
    /// psql cannot be run.
    pub fn script(&self, script: &str) -> Result<String, ReferenceError> {
        let output = self.run(script, OnError::Continue)?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    fn run(&self, script: &str, on_error: OnError) -> Result<Output, ReferenceError> {
        let failure = |source| ReferenceError::Process {
            program: self.program.clone(),
            source,
        };
        let stop = if on_error == OnError::Stop {
            "on"
        } else {
            "off"
        };
        let mut child = Command::new(&self.program)
            .args(["--no-psqlrc", "--quiet", "--no-align", "--tuples-only"])
            .args(["--host", "127.0.0.1", "--username", "postgres"])
            .args(["--dbname", "postgres", "--port", &self.port.to_string()])
            .arg(format!("--field-separator={FIELD_SEPARATOR}"))
            .arg(format!("--record-separator={ROW_SEPARATOR}"))
            .arg(format!("--set=ON_ERROR_STOP={stop}"))
            .arg("--file=-")
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("PGCLIENTENCODING", "UTF8")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(failure)?;
        let stdin = child.stdin.take();
        std::thread::scope(|scope| {
            // A thread of its own: psql may wait until its output is read.
            scope.spawn(move || stdin.map(|mut stdin| stdin.write_all(script.as_bytes())));
            child.wait_with_output().map_err(failure)
        })
    }
}

/// Parses the rows that psql has printed, each with `N` fields.
///
/// # Errors
/// A row has another number of fields.
pub fn parse_rows<const N: usize>(output: &str) -> Result<Vec<[String; N]>, ReferenceError> {
    let output = output.strip_suffix('\n').unwrap_or(output);
    if output.is_empty() {
        return Ok(Vec::new());
    }
    let rows = output.split(ROW_SEPARATOR).map(|row| {
        let fields: Vec<String> = row.split(FIELD_SEPARATOR).map(str::to_owned).collect();
        <[String; N]>::try_from(fields).map_err(|_| ReferenceError::Row {
            row: row.replace(FIELD_SEPARATOR, " | "),
        })
    });
    rows.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_split_into_fields() {
        let rows = parse_rows::<2>("a\u{1f}b\nc\u{1e}\u{1f}d\n").expect("two fields each");
        assert_eq!(rows, [["a", "b\nc"], ["", "d"]]);
        assert_eq!(parse_rows::<2>("").map(|rows| rows.len()).ok(), Some(0));
        let error = parse_rows::<2>("a\u{1f}b\u{1f}c\n").err();
        let text = error.map(|error| error.to_string());
        assert!(text.is_some_and(|text| text.ends_with("a | b | c")));
    }
}
