//! ANY over rows of which most are excluded by equalities: a hash table finds the others.
//!
//! ```text
//! ((t.a, t.b) = (u.x, u.y) AND t.c <> u.z) = ANY …
//!   key (u.x, u.y) ─▶ the rows with this key ─▶ the whole condition
//! ```
//! Invariants
//! - KEYED-1: a row without NULL in its key makes the condition false if its key is not that of the
//!   outer row. Such rows are skipped.
//! - KEYED-2: a row with NULL in its key may make the condition NULL. Such rows are tested too, if
//!   NULL matters.

use fencepost_sql::bound::{Expr, Subquery, Volatility};
use fencepost_sql::stop::StatementStop;
use fencepost_sql::value::Value;

use super::super::cx::Cx;
use super::super::join::{KeyTable, push_comparable};
use super::CachedRows;
use crate::terms::key_parts;

/// The results of ANY that its caller distinguishes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// True, false and NULL.
    Value,
    /// Only whether it is true; for NULL, false may be returned.
    Truth,
}

/// How the rows of a subquery are searched.
#[derive(Default)]
pub enum Lookup {
    /// This is not decided yet.
    #[default]
    Unknown,
    /// All rows are tested.
    Scan,
    /// By their keys.
    Keyed(KeyedRows),
}

/// The rows of a subquery by their keys.
#[derive(Default)]
pub struct KeyedRows {
    table: KeyTable,
    /// The rows with NULL in their key.
    with_null: Vec<u32>,
}

impl std::fmt::Debug for Lookup {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Lookup::Unknown => "Unknown",
            Lookup::Scan => "Scan",
            Lookup::Keyed(_) => "Keyed",
        })
    }
}

impl Cx<'_> {
    /// Evaluates ANY over the materialized rows of a subquery.
    pub(super) async fn any(
        &mut self,
        sub: &Subquery,
        (test, columns): (&Expr, &[usize]),
        row: &[Value],
        wanted: Wanted,
    ) -> Result<Value, StatementStop> {
        // A subquery within the test may run for each row, so the rows of this one are taken out
        // meanwhile.
        let mut cached = std::mem::take(self.cached_rows(sub.id)?);
        let of = (test, columns);
        let result = self.any_of(&mut cached, of, row, wanted).await;
        *self.cached_rows(sub.id)? = cached;
        result
    }

    async fn any_of(
        &mut self,
        cached: &mut CachedRows,
        (test, columns): (&Expr, &[usize]),
        row: &[Value],
        wanted: Wanted,
    ) -> Result<Value, StatementStop> {
        if matches!(cached.lookup, Lookup::Unknown) {
            cached.lookup = self.lookup(cached, (test, columns)).await?;
        }
        let Lookup::Keyed(keyed) = &cached.lookup else {
            return self
                .quantified(&cached.rows, (false, test, columns), row)
                .await;
        };
        let mut key = Vec::new();
        for (left, _) in key_parts(test, columns) {
            let value = self.value(left, row).await?;
            if value.is_null() {
                return match wanted {
                    Wanted::Truth => Ok(Value::Bool(false)),
                    Wanted::Value => {
                        self.quantified(&cached.rows, (false, test, columns), row)
                            .await
                    }
                };
            }
            push_comparable(&value, &mut key);
        }
        let with_null: &[u32] = match wanted {
            Wanted::Truth => &[],
            Wanted::Value => &keyed.with_null,
        };
        let first = keyed.table.first(&key);
        let same = std::iter::successors(first, |row| keyed.table.after(*row));
        let mut result = Value::Bool(false);
        for candidate in same.chain(with_null.iter().copied()) {
            self.breathe().await?;
            self.set_columns(columns, cached.rows.row(candidate as usize));
            match self.deep_value(test, row).await?.as_bool() {
                Some(true) => return Ok(Value::Bool(true)),
                Some(false) => {}
                None => result = Value::Null,
            }
        }
        Ok(result)
    }

    /// Sets the outer slots that receive the columns of a subquery's row.
    pub(super) fn set_columns(&mut self, columns: &[usize], row: &[Value]) {
        if let Some(queries) = &mut self.queries {
            for (slot, value) in columns.iter().zip(row) {
                queries.set(*slot, value.clone());
            }
        }
    }

    /// Builds the hash table of a subquery's rows, if the condition has equalities.
    async fn lookup(
        &mut self,
        cached: &mut CachedRows,
        (test, columns): (&Expr, &[usize]),
    ) -> Result<Lookup, StatementStop> {
        if key_parts(test, columns).next().is_none() || test.volatility() == Volatility::Volatile {
            return Ok(Lookup::Scan);
        }
        let mut keyed = KeyedRows::default();
        let mut key = Vec::new();
        for i in 0..cached.rows.len() {
            self.breathe().await?;
            self.set_columns(columns, cached.rows.row(i));
            key.clear();
            let mut has_null = false;
            for (_, right) in key_parts(test, columns) {
                let value = self.value(right, &[]).await?;
                has_null |= value.is_null();
                push_comparable(&value, &mut key);
            }
            if has_null {
                keyed.with_null.push(i as u32);
            } else if keyed.table.add(&key, i as u32) {
                cached.gathered.add_entry(self, key.len())?;
            }
        }
        Ok(Lookup::Keyed(keyed))
    }
}
