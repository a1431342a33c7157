//! Tests of the command `xtask console`, on small documents and with `true` as the program.
//!
//! Each test skips, and says so, where the command skips because of a missing program.

use std::error::Error;
use std::process::{Command, Output};

type TestResult = Result<(), Box<dyn Error>>;

/// Runs a document; returns `None` if the command skips it.
fn console(document: &str, arguments: &[&str]) -> Result<Option<Output>, Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("a.md");
    std::fs::write(&file, document)?;
    let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
    command.args(["console", "--program", "/bin/true"]);
    let output = command.args(arguments).arg(&file).output()?;
    if stdout(&output).starts_with("skipped") {
        eprintln!("{}", stdout(&output));
        return Ok(None);
    }
    Ok(Some(output))
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn document_with_its_output_passes() -> TestResult {
    let left_out = "<!-- console: not run: needs two hosts -->\n```console\n$ false\n```\n";
    let document = format!("```console\n$ a=1; fencepost\n$ echo $a\n1\n```\n\n{left_out}");
    if let Some(output) = console(&document, &[])? {
        let text = stdout(&output);
        assert_eq!(output.status.code(), Some(0), "{text}");
        assert!(text.contains("a.md: 2 commands, 0 differ"), "{text}");
        assert!(text.contains("a.md:9: not run: needs two hosts"), "{text}");
    }
    Ok(())
}

#[test]
fn wrong_output_fails_and_is_printed() -> TestResult {
    let document = "# A\n\n```console\n$ echo 1\n2\n$ no-such-program\n```\n";
    if let Some(output) = console(document, &[])? {
        let text = stdout(&output);
        assert_eq!(output.status.code(), Some(1), "{text}");
        let expected = "a.md:4\n    $ echo 1\n  expected:\n    | 2\n  got, with exit code 0:\n    \
                        | 1\n";
        assert!(text.contains(expected), "{text}");
        let missing = "a.md:6\n    $ no-such-program\n  expected:\n  got, with exit code 127:\n";
        assert!(text.contains(missing), "{text}");
        assert!(
            text.contains("no-such-program: command not found"),
            "{text}"
        );
    }
    Ok(())
}

#[test]
fn hanging_command_fails_at_the_time_limit() -> TestResult {
    let document = "```console\n$ sleep 300\n$ echo 1\n1\n```\n";
    if let Some(output) = console(document, &["--seconds", "1"])? {
        let text = stdout(&output);
        assert_eq!(output.status.code(), Some(1), "{text}");
        assert!(
            text.contains("$ sleep 300\n  stopped at the time limit"),
            "{text}"
        );
        assert!(text.contains("$ echo 1\n  not run\n"), "{text}");
    }
    Ok(())
}
