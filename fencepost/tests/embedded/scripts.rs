//! Golden scripts: statements and the exact output of PostgreSQL 15.
//!
//! A script is lines: `> ` begins a line of a statement, `#` a comment. Any other line is expected
//! output in psql's unaligned format: rows with `|` between values, NULL as NULL; then the command
//! tag if there is one; notices and errors with SQLSTATE and DETAIL. Every script runs in a
//! database of its own, once statement by statement as simple queries, once as prepared statements.

use std::fmt::Write as _;
use std::path::Path;

use fencepost::{
    Completion, Database, MemorySink, Notice, PreparedStatement, Session, SessionOptions, SqlError,
    Value,
};
use pollster::FutureExt;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Protocol {
    Simple,
    Extended,
}

#[test]
fn scripts_answer_as_postgres_does() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/embedded/scripts");
    let mut failures = String::new();
    let mut paths: Vec<_> = std::fs::read_dir(folder)
        .expect("the scripts are there")
        .map(|entry| entry.expect("a readable folder").path())
        .collect();
    paths.sort();
    assert!(!paths.is_empty());
    for path in paths {
        let script = std::fs::read_to_string(&path).expect("a readable script");
        for protocol in [Protocol::Simple, Protocol::Extended] {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            run_script(
                &script,
                protocol,
                &format!("{name} ({protocol:?})"),
                &mut failures,
            );
        }
    }
    assert!(failures.is_empty(), "\n{failures}");
}

fn run_script(script: &str, protocol: Protocol, name: &str, failures: &mut String) {
    let db = Database::in_memory().expect("a database");
    // psql produced the expected output, so use its application name.
    let options = SessionOptions {
        settings: vec![("application_name".to_owned(), "psql".to_owned())],
        ..SessionOptions::default()
    };
    let mut session = db.session_with(options).expect("a session");
    let mut lines = script.lines().peekable();
    while let Some(line) = lines.next() {
        let Some(first) = line.strip_prefix("> ") else {
            continue;
        };
        let mut statement = first.to_owned();
        while let Some(more) = lines.peek().and_then(|l| l.strip_prefix("> ")) {
            statement.push('\n');
            statement.push_str(more);
            lines.next();
        }
        let mut expected = String::new();
        while let Some(answer) = lines.next_if(|l| !l.is_empty() && !l.starts_with("> ")) {
            expected.push_str(answer);
            expected.push('\n');
        }
        let actual = answer(&mut session, &statement, protocol).block_on();
        if actual != expected {
            let _ = write!(
                failures,
                "{name}: {statement}\n  expected:\n{expected}  got:\n{actual}\n"
            );
        }
    }
}

async fn answer(session: &mut Session, sql: &str, protocol: Protocol) -> String {
    let mut out = String::new();
    let result = run(session, sql, protocol, &mut out).await;
    let mut transcript = String::new();
    for notice in session.take_notices() {
        report(&mut transcript, &notice);
    }
    transcript.push_str(&out);
    if let Err(error) = result {
        session.fail();
        write_error(&mut transcript, "ERROR", &error);
    }
    if let Err(error) = session.sync().await {
        write_error(&mut transcript, "ERROR", &error);
    }
    transcript
}

async fn run(
    session: &mut Session,
    sql: &str,
    protocol: Protocol,
    out: &mut String,
) -> Result<(), SqlError> {
    let prepared = match protocol {
        Protocol::Simple => {
            let parsed = session.split(sql)?.pop().expect("one statement");
            session.prepare_parsed(parsed)?
        }
        Protocol::Extended => session.parse(sql, &[])?,
    };
    let mut portal = session.bind(&prepared, Vec::new())?;
    let mut sink = MemorySink::default();
    let done = session.run_last(&mut portal, 0, &mut sink).await?;
    for row in &sink.rows {
        write_row(session, &prepared, row, out);
    }
    out.push_str(&String::from_utf8_lossy(&sink.data));
    if let Completion::Complete(tag) = done {
        let tag = tag.to_string();
        let changes = ["INSERT", "UPDATE", "DELETE"]
            .iter()
            .any(|w| tag.starts_with(w));
        let copied = prepared.copy_out_columns().is_some();
        if (prepared.columns().is_none() || changes) && !copied {
            out.push_str(&tag);
            out.push('\n');
        }
    }
    Ok(())
}

fn write_row(session: &Session, prepared: &PreparedStatement, row: &[Value], out: &mut String) {
    let columns = prepared.columns().expect("rows have columns");
    let values: Vec<String> = row
        .iter()
        .zip(columns)
        .map(|(value, column)| match value {
            Value::Null => "NULL".to_owned(),
            value => fencepost::types::to_text(value, &column.ty, session.settings()),
        })
        .collect();
    out.push_str(&values.join("|"));
    out.push('\n');
}

fn report(out: &mut String, notice: &Notice) {
    write_error(out, notice.severity, &notice.report);
}

fn write_error(out: &mut String, severity: &str, error: &SqlError) {
    let fields = error.fields();
    let _ = writeln!(out, "{severity}: {}: {}", fields.sqlstate, fields.message);
    if let Some(detail) = &fields.detail {
        let _ = writeln!(out, "DETAIL: {detail}");
    }
    if let Some(context) = &fields.context {
        let _ = writeln!(out, "CONTEXT: {context}");
    }
}
