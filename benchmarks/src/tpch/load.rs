//! The schema and the population, loaded by COPY.

use std::fmt::Display;
use std::io::Write;

use tpchgen::generators::{
    CustomerGenerator, LineItemGenerator, NationGenerator, OrderGenerator, PartGenerator,
    PartSuppGenerator, PartSuppGeneratorIterator, RegionGenerator, SupplierGenerator,
};

use crate::error::BenchError;
use crate::sql::{SqlFailure, SqlSession};

/// The number of rows of one COPY. A COPY of a whole table would be too large a transaction.
const COPY_ROWS: usize = 20_000;

const DROP: &str = "DROP TABLE IF EXISTS lineitem, orders, partsupp, customer, supplier, part, \
                    nation, region";

const SCHEMA: &str = include_str!("schema.sql");
const KEYS: &str = include_str!("keys.sql");

/// The largest scale of the specification.
const SCALE_MAX: f64 = 100_000.0;

/// The number of suppliers of each part.
const SUPPLIERS_A_PART: i64 = 4;

/// The origin of the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadMode {
    /// Drop, create and load the tables.
    Load,
    /// Use the tables that an earlier run has loaded with the same scale.
    Reuse,
}

/// Checks that the generator makes data without duplicate keys at this scale.
///
/// # Errors
/// [`BenchError::Options`].
pub(super) fn check_scale(scale: f64) -> Result<(), BenchError> {
    let suppliers = SupplierGenerator::calculate_row_count(scale, 1, 1);
    let parts = PartGenerator::calculate_row_count(scale, 1, 1);
    if suppliers < SUPPLIERS_A_PART || scale > SCALE_MAX {
        return Err(BenchError::Options(
            "the scale of tpch is between 0.0004 and 100000".to_string(),
        ));
    }
    // The distance between the suppliers of a part depends on (part - 1) / suppliers alone.
    let is_unique = (0..=(parts - 1) / suppliers).all(|block| {
        let part = block * suppliers + 1;
        let supplier =
            |number| PartSuppGeneratorIterator::select_part_supplier(part, number, scale);
        let mut drawn: Vec<i64> = (0..SUPPLIERS_A_PART).map(supplier).collect();
        drawn.sort_unstable();
        drawn.is_sorted_by(|one, next| one < next)
    });
    if is_unique {
        return Ok(());
    }
    Err(BenchError::Options(format!(
        "at scale {scale} a part has a supplier twice; pass for example --scale 0.01"
    )))
}

/// Drops, creates and loads the tables, adds indexes and foreign keys, and analyzes.
pub(super) fn load(
    session: &mut dyn SqlSession,
    scale: f64,
    say: &dyn Fn(&str),
) -> Result<(), BenchError> {
    session.script(DROP)?;
    session.script(SCHEMA)?;
    let mut copy = TableLoader { session, say };
    copy.table("region", RegionGenerator::new(scale, 1, 1).iter())?;
    copy.table("nation", NationGenerator::new(scale, 1, 1).iter())?;
    copy.table("part", PartGenerator::new(scale, 1, 1).iter())?;
    copy.table("supplier", SupplierGenerator::new(scale, 1, 1).iter())?;
    copy.table("partsupp", PartSuppGenerator::new(scale, 1, 1).iter())?;
    copy.table("customer", CustomerGenerator::new(scale, 1, 1).iter())?;
    copy.table("orders", OrderGenerator::new(scale, 1, 1).iter())?;
    copy.table("lineitem", LineItemGenerator::new(scale, 1, 1).iter())?;
    // Each statement is a transaction of its own.
    let keys = KEYS.split_inclusive(';');
    for statement in keys.filter(|statement| !statement.trim().is_empty()) {
        session.script(statement)?;
    }
    say("created indexes and foreign keys");
    session.script("ANALYZE")?;
    say("analyzed");
    Ok(())
}

/// The session that loads tables, and its progress.
struct TableLoader<'a> {
    session: &'a mut dyn SqlSession,
    say: &'a dyn Fn(&str),
}

impl TableLoader<'_> {
    /// Loads a table with several COPY statements.
    fn table<R: Display>(
        &mut self,
        table: &str,
        mut rows: impl Iterator<Item = R>,
    ) -> Result<(), SqlFailure> {
        let sql = format!("COPY {table} FROM STDIN WITH (DELIMITER '|')");
        let (mut text, mut loaded) = (Vec::new(), 0);
        loop {
            text.clear();
            for row in rows.by_ref().take(COPY_ROWS) {
                write!(text, "{row}").expect("a vector takes all bytes");
                // dbgen ends each row with a separator; COPY would read another field.
                text.pop();
                text.push(b'\n');
            }
            if text.is_empty() {
                break;
            }
            loaded += self.session.copy_in(&sql, &text)?;
        }
        (self.say)(&format!("loaded {loaded} rows of {table}"));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_with_duplicate_keys_are_refused() {
        for scale in [0.00295, 0.01, 0.1, 1.0, 10.0] {
            assert!(check_scale(scale).is_ok(), "{scale}");
        }
        for scale in [
            -1.0,
            0.0,
            0.0001,
            0.001,
            0.005,
            1e9,
            f64::NAN,
            f64::INFINITY,
        ] {
            assert!(check_scale(scale).is_err(), "{scale}");
        }
    }
}
