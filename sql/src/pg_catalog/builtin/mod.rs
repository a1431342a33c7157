//! The functions, operators, casts and aggregates of `pg_catalog`, with PostgreSQL's oids.
//!
//! ```text
//! procedures.txt ─┐
//! the library ────┴─► procedures.rs      pg_proc, names and signatures of functions
//! operators.txt ────► operators.rs       pg_operator, names and signatures of operators
//! opclasses.txt ────► classes.rs         pg_opfamily, pg_opclass, pg_amop, pg_amproc
//! casts.txt, aggregates.txt ─► casts.rs  pg_cast, pg_aggregate
//! ```
//! The files contain the rows of PostgreSQL 15 whose types and operators exist here. A row is a
//! line, and its fields are words. A function that only implements an operator or a type has a row
//! in `pg_proc`, but cannot be called by name.
//!
//! *Failure.* A line with fewer words than its relation needs is skipped. A test counts the rows of
//! each relation except `pg_proc`, which also contains functions of the library.

mod casts;
mod classes;
mod operators;
mod procedures;

pub use casts::{aggregates, casts};
pub use classes::{class_functions, class_operators, classes, families};
pub use operators::{Operator, operators};
pub use procedures::{Procedure, functions};

use crate::value::Value;

/// The words of a line of a file.
struct LineWords(Vec<&'static str>);

/// Returns the lines of a file that are rows with at least `words` words. The last word is the rest
/// of the line.
fn lines(file: &'static str, words: usize) -> impl Iterator<Item = LineWords> {
    let lines = file.lines().filter(|line| !line.starts_with('#'));
    let rows = lines.map(move |line| LineWords(line.splitn(words, ' ').collect()));
    rows.filter(move |row| row.0.len() == words)
}

impl LineWords {
    fn number<T: std::str::FromStr + Default>(&self, at: usize) -> T {
        self.0[at].parse().unwrap_or_default()
    }

    fn oid(&self, at: usize) -> Value {
        Value::Oid(self.number(at))
    }

    fn int2(&self, at: usize) -> Value {
        Value::Int2(self.number(at))
    }

    fn flag(&self, at: usize) -> bool {
        self.0[at] == "t"
    }

    fn text(&self, at: usize) -> Value {
        Value::text(self.0[at])
    }

    /// Returns the function whose oid is a word, as a regproc value.
    fn function(&self, at: usize) -> Value {
        Procedure::value(self.number(at))
    }
}
