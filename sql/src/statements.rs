//! Statistics of statements, as `pg_stat_statements` shows them, and the prepared statements of a
//! session, as `pg_prepared_statements` shows them.

use std::fmt::Debug;

/// The accumulated statistics of a statement; times are in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StatementTotals {
    /// The text, with `$1` and so on in place of literals.
    pub text: String,
    /// The number of completed runs.
    pub calls: u64,
    /// The total time of all runs.
    pub total_ns: u64,
    /// The time of the shortest run.
    pub min_ns: u64,
    /// The time of the longest run.
    pub max_ns: u64,
    /// The sum of the squares of the times in microseconds.
    pub squares_us: f64,
    /// The number of rows returned or changed.
    pub rows: u64,
}

impl StatementTotals {
    /// Returns the mean time of a run.
    pub fn mean_ns(&self) -> f64 {
        match self.calls {
            0 => 0.0,
            calls => self.total_ns as f64 / calls as f64,
        }
    }

    /// Returns the standard deviation of the time of a run.
    pub fn deviation_ns(&self) -> f64 {
        match self.calls {
            0 => 0.0,
            calls => {
                let mean_us = self.mean_ns() / 1000.0;
                let variance = self.squares_us / calls as f64 - mean_us * mean_us;
                variance.max(0.0).sqrt() * 1000.0
            }
        }
    }

    /// Returns the query identifier of the text.
    pub fn number(&self) -> i64 {
        number_of(&self.text)
    }
}

/// The maximum length of a text that is kept, in bytes.
const TEXT_BYTES_MAX: usize = 4096;

/// Returns the part of a statement's text that is kept.
pub fn stored_text(text: &str) -> &str {
    &text[..text.floor_char_boundary(TEXT_BYTES_MAX)]
}

/// Returns the query identifier of a text: FNV-1a of the kept part, equal on every machine.
pub fn number_of(text: &str) -> i64 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    stored_text(text).bytes().fold(0xcbf2_9ce4_8422_2325, step) as i64
}

/// The statistics of statements that this machine has run.
pub trait Statements: Debug + Send + Sync {
    /// Returns the statistics of all statements.
    fn totals(&self) -> Vec<StatementTotals>;

    /// Discards all statistics.
    fn reset(&self);
}

/// A row of `pg_prepared_statements`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedInfo {
    /// The text that the client sent.
    pub text: String,
    /// The oids of the parameter types.
    pub types: Vec<u32>,
    /// The time of preparation: microseconds from 2000-01-01 UTC.
    pub made: i64,
    /// Whether it was prepared by PREPARE and not by the extended protocol.
    pub from_sql: bool,
}

/// A prepared statement of a session. Its information is built on request.
pub trait NamedStatement: Debug + Send + Sync {
    /// Returns the information for `pg_prepared_statements`.
    fn info(&self) -> NamedInfo;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn averages_are_of_the_runs() {
        let totals = StatementTotals {
            calls: 2,
            total_ns: 4_000_000,
            squares_us: 1000.0 * 1000.0 + 3000.0 * 3000.0,
            ..StatementTotals::default()
        };
        assert_eq!(totals.mean_ns(), 2_000_000.0);
        assert_eq!(totals.deviation_ns(), 1_000_000.0);
        let none = StatementTotals::default();
        assert_eq!((none.mean_ns(), none.deviation_ns()), (0.0, 0.0));
    }
}
