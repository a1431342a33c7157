//! Filling tables by COPY.

use std::io::Write;

use super::{SqlFailure, SqlSession};

/// Rows of one COPY.
const PIECE: u64 = 50_000;

/// Appends text.
pub(crate) fn put(out: &mut Vec<u8>, what: std::fmt::Arguments<'_>) {
    out.write_fmt(what).expect("a vector takes all bytes");
}

/// Fills a table with rows `1..=last`, of which `row` writes the text.
///
/// # Errors
/// What the server answers.
pub(crate) fn copy_numbered(
    session: &mut dyn SqlSession,
    table: &str,
    last: u64,
    say: &dyn Fn(&str),
    mut row: impl FnMut(&mut Vec<u8>, u64),
) -> Result<(), SqlFailure> {
    let (sql, mut text, mut from) = (format!("COPY {table} FROM STDIN"), Vec::new(), 1);
    while from <= last {
        let to = last.min(from + PIECE - 1);
        text.clear();
        (from..=to).for_each(|number| row(&mut text, number));
        session.copy_in(&sql, &text)?;
        from = to + 1;
    }
    say(&format!("loaded {last} rows of {table}"));
    Ok(())
}
