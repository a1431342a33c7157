//! The canonical form of an answer, and its digest.
//!
//! Servers write the same answer differently: numbers differ in scale, divisions differ in the last
//! digits, and rows that are equal in all columns of ORDER BY have no order. Therefore:
//!
//! - numbers are rounded to two places (specification, clause 2.1.3.5), without trailing zeros;
//! - strings have no blanks at their ends, because `char(n)` is padded;
//! - dates are written as `1998-12-01`;
//! - rows that are equal in the columns of ORDER BY are sorted by their text.

use std::cmp::Ordering;
use std::fmt;

use jiff::Span;
use jiff::civil::date;
use rust_decimal::{Decimal, RoundingStrategy};

use crate::sql::{Cell, SqlFailure};

/// The number of decimal places that are compared.
const PLACES: u32 = 2;

/// The text between two fields of a row. No field of TPC-H contains it.
const SEPARATOR: &str = "|";

/// An answer in canonical form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CanonicalAnswer {
    /// The rows, each with its fields separated by `|`.
    lines: Vec<String>,
}

impl CanonicalAnswer {
    /// Converts the rows of a query.
    ///
    /// # Errors
    /// 22008 for a date that is out of range.
    pub fn of_rows(
        rows: &[Vec<Cell>],
        order_columns: &[usize],
    ) -> Result<CanonicalAnswer, SqlFailure> {
        let row = |row: &Vec<Cell>| row.iter().map(canonical_cell).collect();
        let fields: Result<Vec<Vec<String>>, SqlFailure> = rows.iter().map(row).collect();
        Ok(CanonicalAnswer::of_fields(fields?, order_columns))
    }

    /// Joins fields that are in canonical form.
    pub fn of_fields(mut rows: Vec<Vec<String>>, order_columns: &[usize]) -> CanonicalAnswer {
        let is_tied = |one: &Vec<String>, other: &Vec<String>| {
            order_columns
                .iter()
                .all(|at| one.get(*at) == other.get(*at))
        };
        for tied in rows.chunk_by_mut(is_tied) {
            tied.sort();
        }
        let lines = rows.iter().map(|row| row.join(SEPARATOR)).collect();
        CanonicalAnswer { lines }
    }

    /// Returns the digest of all rows in their order.
    pub fn digest(&self) -> AnswerDigest {
        let add = |crc, line: &String| {
            let crc = crc32c::crc32c_append(crc, line.as_bytes());
            crc32c::crc32c_append(crc, b"\n")
        };
        AnswerDigest {
            rows: self.lines.len(),
            crc: self.lines.iter().fold(0, add),
        }
    }

    /// Returns a description of the first row that differs from the row of `other`.
    pub fn first_difference(&self, other: &CanonicalAnswer) -> Option<String> {
        let (mine, theirs) = (&self.lines, &other.lines);
        match mine.iter().zip(theirs).position(|(one, two)| one != two) {
            Some(at) => Some(format!(
                "row {} is `{}` and `{}`",
                at + 1,
                mine[at],
                theirs[at]
            )),
            None => match mine.len().cmp(&theirs.len()) {
                Ordering::Equal => None,
                _ => Some(format!("{} rows and {} rows", mine.len(), theirs.len())),
            },
        }
    }
}

/// The number of rows of an answer and the CRC-32C of its canonical form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnswerDigest {
    /// The number of rows.
    pub rows: usize,
    /// The checksum of all rows, each with a line feed.
    pub crc: u32,
}

impl fmt::Display for AnswerDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:08x}", self.rows, self.crc)
    }
}

/// Returns a value in canonical form.
fn canonical_cell(cell: &Cell) -> Result<String, SqlFailure> {
    Ok(match cell {
        Cell::Null => "NULL".to_string(),
        Cell::Int(value) => value.to_string(),
        Cell::Numeric(value) => canonical_number(*value),
        Cell::Text(text) => text.trim().to_string(),
        Cell::Date(days) => Span::new()
            .try_days(*days)
            .and_then(|days| date(2000, 1, 1).checked_add(days))
            .map_err(|error| SqlFailure::new("22008", error.to_string()))?
            .to_string(),
    })
}

/// Rounds half away from zero, as `numeric` does, and removes trailing zeros.
pub fn canonical_number(value: Decimal) -> String {
    let rounded = value
        .round_dp_with_strategy(PLACES, RoundingStrategy::MidpointAwayFromZero)
        .normalize();
    if rounded.is_zero() {
        // A negative number above -0.005 has no sign.
        return "0".to_string();
    }
    rounded.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(text: &str) -> Cell {
        Cell::Numeric(text.parse().expect("a number"))
    }

    fn answer(rows: &[Vec<Cell>], order_columns: &[usize]) -> CanonicalAnswer {
        CanonicalAnswer::of_rows(rows, order_columns).expect("an answer")
    }

    #[test]
    fn numbers_are_rounded_to_two_places() {
        for (text, canonical) in [
            ("25.505", "25.51"),
            ("-25.505", "-25.51"),
            ("25.50499999999999999999", "25.5"),
            ("100.00", "100"),
            ("0.0050", "0.01"),
            ("-0.0049", "0"),
            ("12345678901234567890.125", "12345678901234567890.13"),
        ] {
            assert_eq!(canonical_number(text.parse().expect("a number")), canonical);
        }
    }

    #[test]
    fn equal_values_of_different_types_have_one_form() {
        let row = vec![Cell::Int(5), Cell::Null, Cell::Text(" A  ".to_string())];
        let other = vec![number("5.000"), Cell::Null, Cell::Text("A".to_string())];
        assert_eq!(answer(&[row], &[]), answer(&[other], &[]));
    }

    #[test]
    fn dates_are_written_as_iso_8601() {
        let row = vec![Cell::Date(-397), Cell::Date(0), Cell::Date(59)];
        let lines = answer(&[row], &[]).lines;
        assert_eq!(lines, ["1998-11-30|2000-01-01|2000-02-29"]);
        let too_late = [vec![Cell::Date(i32::MAX)]];
        assert!(CanonicalAnswer::of_rows(&too_late, &[]).is_err());
    }

    #[test]
    fn order_counts_only_between_rows_that_order_by_distinguishes() {
        let row = |key: i64, text: &str| vec![Cell::Int(key), Cell::Text(text.to_string())];
        let one = [row(2, "b"), row(2, "a"), row(1, "c")];
        let tied = [row(2, "a"), row(2, "b"), row(1, "c")];
        let unordered = [row(1, "c"), row(2, "a"), row(2, "b")];
        assert_eq!(answer(&one, &[0]), answer(&tied, &[0]));
        assert_eq!(answer(&one, &[0]).digest(), answer(&tied, &[0]).digest());
        assert_ne!(
            answer(&one, &[0]).digest(),
            answer(&unordered, &[0]).digest()
        );
    }

    #[test]
    fn first_difference_names_the_row() {
        let row = |key: i64| vec![Cell::Int(key)];
        let (one, two) = (answer(&[row(1), row(2)], &[0]), answer(&[row(1)], &[0]));
        assert_eq!(one.first_difference(&one), None);
        let difference = one.first_difference(&two);
        assert_eq!(difference.as_deref(), Some("2 rows and 1 rows"));
        let three = answer(&[row(1), row(3)], &[0]);
        let difference = one.first_difference(&three);
        assert_eq!(difference.as_deref(), Some("row 2 is `2` and `3`"));
        assert_ne!(one.digest(), three.digest());
    }

    #[test]
    fn digest_of_no_rows_is_zero() {
        assert_eq!(answer(&[], &[]).digest().to_string(), "0 00000000");
    }
}
