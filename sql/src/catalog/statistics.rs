//! The stored statistics of tables: a row for each analyzed table, and one for each of its columns.
//!
//! ```text
//! statistics   (database, table, 0)       -> number of rows
//!              (database, table, attnum)  -> statistics of a column
//! ```
//!
//! They are no part of a catalog version: ANALYZE changes no definition. Values are stored as text.
//! A value that its type can no longer read is left out, with the column.

use std::ops::Bound;

use fencepost_btree::{BTree, Direction, Insert, ScanBatch};
use fencepost_storage::FatPtr;
use fencepost_txn::{ObjectLocation, Transaction};

use super::def::TableDef;
use super::encode::bytes::{Reader, Writer};
use crate::error::SqlError;
use crate::settings::Settings;
use crate::stop::StatementStop;
use crate::table_statistics::{ColumnStatistics, TableStatistics};
use crate::types::{Type, text_in, text_out};
use crate::value::Value;

/// The number of entries that are read at once.
const BATCH: usize = 64;

/// The stored statistics of the tables of all databases.
#[derive(Clone, Copy, Debug)]
pub struct StoredStatistics {
    tree: BTree,
}

impl StoredStatistics {
    pub(super) fn of(tree: BTree) -> StoredStatistics {
        StoredStatistics { tree }
    }

    /// Returns the tree that contains the statistics.
    pub fn tree(&self) -> BTree {
        self.tree
    }

    /// Replaces the statistics of a table. Columns without new statistics keep theirs.
    pub async fn put(
        &self,
        tx: &mut Transaction,
        database: u32,
        table: &TableDef,
        statistics: &TableStatistics,
    ) -> Result<(), StatementStop> {
        let mut rows = Writer(Vec::new());
        rows.u64(statistics.rows.to_bits());
        self.replace(tx, &key(database, table.id, 0), Some(rows.0))
            .await?;
        for column in &statistics.columns {
            let defs = table.columns.iter();
            let Some(def) = defs.into_iter().find(|def| def.attnum == column.attnum) else {
                continue;
            };
            let key = key(database, table.id, column.attnum);
            self.replace(tx, &key, Some(encode(column, def.ty))).await?;
        }
        Ok(())
    }

    /// Returns the statistics of a table, if it has been analyzed.
    pub async fn get(
        &self,
        tx: &mut Transaction,
        database: u32,
        table: &TableDef,
    ) -> Result<Option<TableStatistics>, StatementStop> {
        let mut found = None;
        for (attnum, bytes) in self.entries(tx, database, table.id).await? {
            if attnum == 0 {
                let rows = Reader(&bytes).u64().map_or(0.0, f64::from_bits);
                found = Some(TableStatistics {
                    rows,
                    columns: Vec::new(),
                });
                continue;
            }
            let def = table.columns.iter().find(|def| def.attnum == attnum);
            let column = def.and_then(|def| decode(&bytes, attnum, def.ty));
            if let (Some(table), Some(column)) = (&mut found, column) {
                table.columns.push(column);
            }
        }
        Ok(found)
    }

    /// Removes the statistics of a table.
    pub async fn remove(
        &self,
        tx: &mut Transaction,
        database: u32,
        table: u32,
    ) -> Result<(), StatementStop> {
        for (attnum, _) in self.entries(tx, database, table).await? {
            self.replace(tx, &key(database, table, attnum), None)
                .await?;
        }
        Ok(())
    }

    /// Returns the attribute numbers and the contents of the rows of a table, in ascending order.
    async fn entries(
        &self,
        tx: &mut Transaction,
        database: u32,
        table: u32,
    ) -> Result<Vec<(i16, Vec<u8>)>, StatementStop> {
        let (from, to) = (key(database, table, 0), key(database, table, i16::MAX));
        let range = (Bound::Included(&from[..]), Bound::Included(&to[..]));
        let mut cursor = self.tree.scan(range.0, range.1, Direction::Forward);
        let (mut batch, mut words, mut found) = (ScanBatch::new(), Vec::new(), Vec::new());
        loop {
            batch.clear();
            let more = cursor.next_batch(tx, &mut batch, BATCH).await?;
            for i in 0..batch.len() {
                let row = FatPtr::from_words(batch.value(i));
                if tx.read(row.addr, &mut words).await?
                    && let Some((attnum, bytes)) = contents(&words)
                {
                    found.push((attnum, bytes));
                }
            }
            if !more {
                return Ok(found);
            }
        }
    }

    /// Replaces the contents of an entry, or removes it.
    async fn replace(
        &self,
        tx: &mut Transaction,
        key: &[u8],
        contents: Option<Vec<u8>>,
    ) -> Result<(), StatementStop> {
        if let Some(words) = self.tree.get(tx, key).await? {
            self.tree.remove(tx, key).await?;
            tx.free(FatPtr::from_words(words).addr).await?;
        }
        let Some(contents) = contents else {
            return Ok(());
        };
        let attnum = u16::from_be_bytes([key[8], key[9]]);
        let words = to_words(attnum, &contents);
        let place = tx.alloc(words.len(), ObjectLocation::Own).await?;
        tx.write(place.addr, &words).await?;
        match self.tree.insert(tx, key, place.to_words()).await? {
            Insert::Done => Ok(()),
            Insert::Exists(_) => Err(SqlError::internal("statistics exist twice").into()),
        }
    }
}

fn key(database: u32, table: u32, attnum: i16) -> [u8; 10] {
    let mut key = [0; 10];
    key[..4].copy_from_slice(&database.to_be_bytes());
    key[4..8].copy_from_slice(&table.to_be_bytes());
    key[8..].copy_from_slice(&attnum.unsigned_abs().to_be_bytes());
    key
}

/// Returns the words of a row: the attribute number and the length in the first, then the bytes.
fn to_words(attnum: u16, bytes: &[u8]) -> Vec<u64> {
    let mut words = vec![u64::from(attnum) << 32 | bytes.len() as u64];
    words.extend(bytes.chunks(8).map(|chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        u64::from_le_bytes(word)
    }));
    words
}

fn contents(words: &[u64]) -> Option<(i16, Vec<u8>)> {
    let (first, rest) = words.split_first()?;
    let attnum = i16::try_from(*first >> 32).ok()?;
    let mut bytes: Vec<u8> = rest.iter().flat_map(|word| word.to_le_bytes()).collect();
    let length = (*first & u64::from(u32::MAX)) as usize;
    if length > bytes.len() {
        return None;
    }
    bytes.truncate(length);
    Some((attnum, bytes))
}

fn encode(column: &ColumnStatistics, ty: Type) -> Vec<u8> {
    let settings = Settings::new();
    let text = |out: &mut Writer, value: &Value| {
        let mut text = Vec::new();
        text_out(value, &ty, &settings, &mut text);
        out.text(&String::from_utf8_lossy(&text));
    };
    let mut out = Writer(Vec::new());
    for number in [column.null_fraction, column.width, column.distinct] {
        out.u64(number.to_bits());
    }
    out.flag(column.correlation.is_some());
    out.u64(column.correlation.unwrap_or_default().to_bits());
    out.u32(column.common.len() as u32);
    for (value, fraction) in &column.common {
        text(&mut out, value);
        out.u64(fraction.to_bits());
    }
    out.u32(column.histogram.len() as u32);
    for value in &column.histogram {
        text(&mut out, value);
    }
    out.0
}

fn decode(bytes: &[u8], attnum: i16, ty: Type) -> Option<ColumnStatistics> {
    let settings = Settings::new();
    let mut input = Reader(bytes);
    let number = |input: &mut Reader<'_>| input.u64().map(f64::from_bits);
    let value = |input: &mut Reader<'_>| text_in(&ty, &input.text()?, &settings).ok();
    let (null_fraction, width) = (number(&mut input)?, number(&mut input)?);
    let distinct = number(&mut input)?;
    let (is_ordered, correlation) = (input.flag()?, number(&mut input)?);
    let mut column = ColumnStatistics {
        attnum,
        null_fraction,
        width,
        distinct,
        correlation: is_ordered.then_some(correlation),
        ..ColumnStatistics::default()
    };
    for _ in 0..input.u32()? {
        let common = value(&mut input)?;
        column.common.push((common, number(&mut input)?));
    }
    for _ in 0..input.u32()? {
        column.histogram.push(value(&mut input)?);
    }
    input.0.is_empty().then_some(column)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn column_survives_its_binary_form() {
        let column = ColumnStatistics {
            attnum: 3,
            null_fraction: 0.25,
            width: 11.5,
            distinct: -0.5,
            common: vec![(Value::text("ö"), 0.125), (Value::text(""), 0.0625)],
            histogram: vec![Value::text("a"), Value::text("z")],
            correlation: Some(-1.0),
        };
        let bytes = encode(&column, Type::TEXT);
        assert_eq!(decode(&bytes, 3, Type::TEXT), Some(column));
        assert_eq!(decode(&bytes[..bytes.len() - 1], 3, Type::TEXT), None);
        let (attnum, again) = contents(&to_words(3, &bytes)).expect("a row");
        assert_eq!((attnum, again), (3, bytes));
    }
}
