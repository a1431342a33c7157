//! Loading of tables by COPY.

use std::io::Write;

use super::{SqlFailure, SqlSession};

/// The number of rows of one COPY.
const PIECE: u64 = 50_000;

/// Appends formatted text.
pub(crate) fn put(out: &mut Vec<u8>, what: std::fmt::Arguments<'_>) {
    out.write_fmt(what).expect("a vector takes all bytes");
}

/// Loads a table with rows `1..=last`; `row` writes the text of each.
///
/// # Errors
/// Those of the server.
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
