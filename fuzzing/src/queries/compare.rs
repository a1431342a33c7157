//! The comparison of the answers to a query.

use std::fmt::Write;

use super::server::{Answer, QueryServer, TextRows};

/// The SQLSTATE of a statement that exceeded its timeout.
const TIMEOUT: &str = "57014";
/// The SQLSTATE of what a server does not support, such as some conditions of FULL JOIN.
const UNSUPPORTED: &str = "0A000";
/// The number of differing rows in a report.
const ROWS_SHOWN: usize = 5;

/// The outcome of a comparison.
pub enum Outcome {
    /// All answers are the same.
    Same,
    /// A server refused the query or did not finish in time.
    Skipped,
    /// The answers differ, as the text says.
    Different(String),
}

/// Runs a query on all servers under all their settings.
///
/// # Errors
/// A connection that ends.
pub fn compare(servers: &[QueryServer], sql: &str) -> Result<Outcome, String> {
    let mut first: Option<(String, TextRows)> = None;
    let mut failed: Option<(String, String)> = None;
    for server in servers {
        for settings in server.settings() {
            let name = format!("{} ({})", server.name(), settings.name());
            match sorted(server.answer(settings, sql)?) {
                Err(state) if state == TIMEOUT || state == UNSUPPORTED => {
                    return Ok(Outcome::Skipped);
                }
                Err(state) => failed = Some((name, state)),
                Ok(rows) => match &first {
                    Some((other, expected)) if *expected != rows => {
                        let text = difference((other, expected), (&name, &rows));
                        return Ok(Outcome::Different(text));
                    }
                    Some(_) => {}
                    None => first = Some((name, rows)),
                },
            }
        }
    }
    Ok(match (first, failed) {
        (Some((other, _)), Some((name, state))) => {
            Outcome::Different(format!("{name} fails with {state}, {other} does not"))
        }
        (None, Some(_)) => Outcome::Skipped,
        _ => Outcome::Same,
    })
}

/// Sorts rows. A query with LIMIT has an order of all columns, so that its rows are the same set.
fn sorted(answer: Answer) -> Answer {
    answer.map(|mut rows| {
        rows.sort();
        rows
    })
}

fn difference(one: (&str, &TextRows), other: (&str, &TextRows)) -> String {
    let mut text = String::new();
    for ((name, rows), (_, others)) in [(one, other), (other, one)] {
        let _ = writeln!(text, "{name}: {} rows, of which only here", rows.len());
        let mut left = others.clone();
        let only = rows
            .iter()
            .filter(|row| match left.iter().position(|of| of == *row) {
                Some(at) => {
                    left.swap_remove(at);
                    false
                }
                None => true,
            });
        for row in only.take(ROWS_SHOWN) {
            let values = row.iter().map(|value| value.as_deref().unwrap_or("NULL"));
            let _ = writeln!(text, "  {}", values.collect::<Vec<_>>().join(" | "));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn difference_counts_duplicates() {
        let row = |text: &str| vec![Some(text.to_owned())];
        let (one, other) = (vec![row("a"), row("a")], vec![row("a")]);
        let text = difference(("x", &one), ("y", &other));
        assert_eq!(
            text,
            "x: 2 rows, of which only here\n  a\ny: 1 rows, of which only here\n"
        );
    }
}
