//! Sizes of relations: the rows of a table with its primary tree, and the nodes of an index.
//!
//! A size is computed on request by a walk through the nodes of the trees ([`BTree::taken`]). Of a
//! row that is longer than an object, only the head is counted.

use std::sync::Arc;

use fencepost_btree::BTree;
use fencepost_hashtable::HashTable;
use fencepost_storage::Addr;
use fencepost_txn::{Machine, Stop};
use rust_decimal::Decimal;

use super::library::{pure, waiting};
use super::{ScalarFunction, ValueFuture, decimal};
use crate::catalog::{CatalogView, IndexDef, IndexKind, TableDef};
use crate::context::EvalContext;
use crate::error::{SqlError, SqlState};
use crate::pg_catalog::Relation;
use crate::stop::StatementStop;
use crate::types::TypeKind::{Int8, Name, Oid, RegClass, Text};
use crate::types::numeric;
use crate::value::Value;

#[rustfmt::skip]
pub(super) static FUNCTIONS: &[ScalarFunction] = &[
    waiting("pg_relation_size", &[RegClass], Int8, |a, cx| sized(a, cx, RelationPart::Relation)),
    waiting("pg_relation_size", &[RegClass, Text], Int8, |a, cx| match fork(a) {
        Ok(true) => sized(a, cx, RelationPart::Relation),
        Ok(false) => sized(a, cx, RelationPart::Nothing),
        Err(error) => Box::pin(async { Err(error) }),
    }),
    waiting("pg_table_size", &[RegClass], Int8, |a, cx| sized(a, cx, RelationPart::Relation)),
    waiting("pg_indexes_size", &[RegClass], Int8, |a, cx| sized(a, cx, RelationPart::Indexes)),
    waiting("pg_total_relation_size", &[RegClass], Int8, |a, cx| sized(a, cx, RelationPart::All)),
    waiting("pg_database_size", &[Name], Int8, |a, cx| {
        let name = a.first().and_then(Value::as_text).unwrap_or("").to_owned();
        Box::pin(async move {
            match cx.catalog().database_named(&name) {
                Some(of) if of.id == cx.database_oid() => database(cx).await,
                // The size of another database is unknown here.
                Some(_) => Ok(Value::Null),
                None => Err(SqlError::new(
                    SqlState::INVALID_CATALOG_NAME,
                    format!("database \"{name}\" does not exist"),
                )),
            }
        })
    }),
    waiting("pg_database_size", &[Oid], Int8, |a, cx| {
        let asked = oid(a);
        Box::pin(async move {
            match asked == cx.database_oid() {
                true => database(cx).await,
                false => Ok(Value::Null),
            }
        })
    }),
    waiting("pg_tablespace_size", &[Oid], Int8, |_, cx| Box::pin(database(cx))),
    waiting("pg_tablespace_size", &[Name], Int8, |_, cx| Box::pin(database(cx))),
    pure("pg_size_bytes", &[Text], Int8, size_bytes),
];

/// The part of a relation to measure.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RelationPart {
    /// The relation itself.
    Relation,
    /// Its indexes.
    Indexes,
    /// The relation and its indexes.
    All,
    /// A part that relations do not have here.
    Nothing,
}

fn oid(args: &[Value]) -> u32 {
    let oid = args.first().and_then(Value::as_int);
    oid.and_then(|oid| u32::try_from(oid).ok()).unwrap_or(0)
}

/// Returns whether the fork is `main`; other valid forks do not exist here.
fn fork(args: &[Value]) -> Result<bool, SqlError> {
    match args.get(1).and_then(Value::as_text) {
        Some("main") => Ok(true),
        Some("fsm" | "vm" | "init") => Ok(false),
        _ => Err(
            SqlError::new(SqlState::INVALID_PARAMETER_VALUE, "invalid fork name")
                .hint("Valid fork names are \"main\", \"fsm\", \"vm\", and \"init\"."),
        ),
    }
}

fn machine(cx: &EvalContext) -> Option<Arc<Machine>> {
    cx.counters.as_ref().and_then(|counters| counters.machine())
}

fn sized<'a>(args: &[Value], cx: &'a EvalContext, what: RelationPart) -> ValueFuture<'a> {
    let id = oid(args);
    Box::pin(async move {
        let catalog = cx.catalog();
        let Some(table) = catalog.relation(id) else {
            // A relation that stores nothing still exists.
            let there = catalog.object_of_relation(id).is_some()
                || Relation::all().iter().any(|relation| relation.oid == id);
            return Ok(match there {
                true => Value::Int8(0),
                false => Value::Null,
            });
        };
        let Some(machine) = machine(cx) else {
            return Ok(Value::Null);
        };
        if table.id == id {
            let bytes = of_table(&table, &machine, what).await;
            return bytes.map(Value::Int8).map_err(sql_error);
        }
        let index = table.indexes.iter().find(|index| index.id == id);
        let bytes = match (index, what) {
            (Some(index), RelationPart::Relation | RelationPart::All) => {
                of_index(&table, index, &machine).await
            }
            _ => Ok(0),
        };
        bytes.map(Value::Int8).map_err(sql_error)
    })
}

/// Converts a stopped transaction to an error.
fn sql_error(stop: Stop) -> SqlError {
    StatementStop::Stop(stop).into_error()
}

async fn of_table(table: &TableDef, machine: &Machine, what: RelationPart) -> Result<i64, Stop> {
    let mut bytes = 0;
    // The partitions store the rows of a partitioned table.
    if table.is_parent() {
        return Ok(0);
    }
    if matches!(what, RelationPart::Relation | RelationPart::All) {
        let first = table.primary();
        for root in first.roots.all() {
            let taken = BTree::open(Addr::from_raw(*root)).taken(machine).await?;
            bytes += taken.object_bytes as i64;
            if first.is_hidden() && taken.entries > 0 {
                bytes += taken.node_bytes as i64;
            }
        }
    }
    if matches!(what, RelationPart::Indexes | RelationPart::All) {
        for index in table.indexes.iter().filter(|index| !index.is_hidden()) {
            bytes += of_index(table, index, machine).await?;
        }
    }
    Ok(bytes)
}

async fn of_index(table: &TableDef, index: &IndexDef, machine: &Machine) -> Result<i64, Stop> {
    if table.is_parent() {
        return Ok(0);
    }
    let mut bytes = 0;
    for root in index.roots.all() {
        let root = Addr::from_raw(*root);
        bytes += match index.kind {
            IndexKind::BTree => BTree::open(root).taken(machine).await?.node_bytes,
            IndexKind::Hash => HashTable::open(root).bytes(machine).await?,
        };
    }
    Ok(bytes as i64)
}

/// Returns the size of all tables and of the catalog.
async fn database(cx: &EvalContext) -> Result<Value, SqlError> {
    let Some(machine) = machine(cx) else {
        return Ok(Value::Null);
    };
    let mut bytes = 0;
    if let Some(catalog) = &cx.database_catalog {
        let taken = catalog.taken(&machine).await.map_err(sql_error)?;
        bytes += (taken.node_bytes + taken.object_bytes) as i64;
    }
    for table in cx.catalog().tables() {
        bytes += of_table(&table, &machine, RelationPart::All)
            .await
            .map_err(sql_error)?;
    }
    Ok(Value::Int8(bytes))
}

/// Parses a size in bytes with an optional unit.
fn size_bytes(args: &[Value], _: &EvalContext) -> Result<Value, SqlError> {
    let text = args.first().and_then(Value::as_text).unwrap_or("");
    let trimmed = text.trim();
    let wrong = |message: String| SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message);
    let digits = trimmed.find(|c: char| c.is_ascii_alphabetic());
    // An exponent belongs to the number.
    let digits = match digits {
        Some(at) if trimmed[at..].starts_with(['e', 'E']) => trimmed[at + 1..]
            .find(|c: char| c.is_ascii_alphabetic())
            .map(|more| at + 1 + more),
        at => at,
    };
    let (number, unit) = trimmed.split_at(digits.unwrap_or(trimmed.len()));
    let is_number = |c: char| c.is_ascii_digit() || matches!(c, '+' | '-' | '.' | 'e' | 'E');
    let number = number.trim();
    if !number.chars().all(is_number) || number.parse::<f64>().is_err() {
        return Err(wrong(format!("invalid size: \"{text}\"")));
    }
    let number = numeric::parse(number)?;
    let shift = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" | "bytes" => 0,
        "kb" => 10,
        "mb" => 20,
        "gb" => 30,
        "tb" => 40,
        "pb" => 50,
        other => {
            let error = wrong(format!("invalid size: \"{text}\""));
            return Err(error
                .detail(format!("Invalid size unit: \"{other}\"."))
                .hint(
                    "Valid units are \"bytes\", \"B\", \"kB\", \"MB\", \"GB\", \"TB\", and \"PB\".",
                ));
        }
    };
    let bytes = decimal::mul(&number, &Decimal::from(1i64 << shift))?;
    numeric::to_i64(&bytes)
        .map(Value::Int8)
        .ok_or_else(|| SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "bigint out of range"))
}
