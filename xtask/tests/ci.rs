//! Tests of the command `xtask ci` that run no step.

use std::error::Error;
use std::process::Command;

type TestResult = Result<(), Box<dyn Error>>;

fn ci(arguments: &[&str]) -> std::io::Result<(Option<i32>, String)> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
    let output = command.arg("ci").args(arguments).output()?;
    let text = [output.stdout, output.stderr].concat();
    Ok((output.status.code(), String::from_utf8_lossy(&text).into()))
}

#[test]
fn list_has_the_steps_in_their_order() -> TestResult {
    let (exit_code, text) = ci(&["--list"])?;
    assert_eq!(exit_code, Some(0), "{text}");
    let names: Vec<_> = text
        .lines()
        .filter_map(|line| line.split(' ').next())
        .collect();
    assert_eq!(names.first(), Some(&"tools"));
    assert_eq!(names.last(), Some(&"namespaces"));
    let (_, text) = ci(&["--list", "tidy", "format"])?;
    assert_eq!(text.lines().count(), 2);
    assert!(text.starts_with("format"), "{text}");
    Ok(())
}

#[test]
fn unknown_step_is_refused() -> TestResult {
    let (exit_code, text) = ci(&["tets"])?;
    let message = "xtask: no step `tets`; `cargo xtask ci --list` prints the steps\n";
    assert_eq!((exit_code, text.as_str()), (Some(2), message));
    Ok(())
}
