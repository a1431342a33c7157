//! What statements have cost, as `pg_stat_statements` shows it, and those that a session has prepared, as
//! `pg_prepared_statements` does.

use std::fmt::Debug;

/// What the runs of a statement have come to; times are in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StatementTotals {
    /// The text, with `$1` and so on for literals.
    pub text: String,
    /// Runs to the end.
    pub calls: u64,
    /// All of their time.
    pub total_ns: u64,
    /// That of the shortest.
    pub min_ns: u64,
    /// That of the longest.
    pub max_ns: u64,
    /// The sum of the squares of their times in microseconds.
    pub squares_us: f64,
    /// Rows given or changed.
    pub rows: u64,
}

impl StatementTotals {
    /// The time of a run on average.
    pub fn mean_ns(&self) -> f64 {
        match self.calls {
            0 => 0.0,
            calls => self.total_ns as f64 / calls as f64,
        }
    }

    /// How far from the average runs are: the standard deviation.
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

    /// A number for the text.
    pub fn number(&self) -> i64 {
        number_of(&self.text)
    }
}

/// Bytes of a text that are kept.
const TEXT_BYTES_MAX: usize = 4096;

/// What of the text of a statement is kept.
pub fn kept(text: &str) -> &str {
    &text[..text.floor_char_boundary(TEXT_BYTES_MAX)]
}

/// A number for what is kept of a text, the same on every machine (FNV-1a).
pub fn number_of(text: &str) -> i64 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    kept(text).bytes().fold(0xcbf2_9ce4_8422_2325, step) as i64
}

/// What this machine knows of the statements that it has run.
pub trait Statements: Debug + Send + Sync {
    /// All of them.
    fn totals(&self) -> Vec<StatementTotals>;

    /// Forgets them.
    fn reset(&self);
}

/// What a session tells of a statement that it has prepared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedInfo {
    /// What the client said.
    pub text: String,
    /// The oids of the types of its parameters.
    pub types: Vec<u32>,
    /// When it was prepared: microseconds from 2000-01-01 UTC.
    pub made: i64,
    /// By PREPARE, not by the protocol.
    pub from_sql: bool,
}

/// A statement that a session has prepared. What is told of it is made when somebody asks.
pub trait NamedStatement: Debug + Send + Sync {
    /// What is told of it.
    fn shown(&self) -> NamedInfo;
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
