//! The binary form of definitions, which the rows of the catalog contain.
//!
//! Numbers are little endian. Strings and lists begin with their length, and the first byte is the
//! version of the format. Invalid bytes give an error, never a panic.
//!
//! Table formats, of which all are still readable:
//!
//! | format | tables |
//! |---|---|
//! | 6 | partitioned tables and partitions (8: indexes on expressions, 10: columns of domains) |
//! | 5 | all other tables (7: indexes on expressions, 9: columns of domains) |
//! | 4 | no triggers |
//! | 3 | in addition no constraints except keys, and plain columns only |
//! | 2 | in addition one guard |
//! | 1 | in addition no partitions, and one root for each index |
//!
//! A program that knows only earlier formats refuses format 10. A materialized view has its query
//! before the table, and the rarely needed properties come before that (`details`).

mod about;
pub(in crate::catalog) mod bytes;
mod database;
mod details;
mod extension;
mod partition_hierarchy;
mod role;
mod rules;
mod trigger;
mod user_type;
mod view;

pub(super) use about::{
    decode_about, decode_default_acl, encode_about, encode_default_acl, is_about, is_default_acl,
};
pub(super) use bytes::{Reader, Writer};
pub(super) use database::{decode_database, encode_database, is_database};
pub(super) use extension::{decode_extension, encode_extension, is_extension};
pub(crate) use partition_hierarchy::can_be_in_bounds;
use partition_hierarchy::{encode_hierarchy, read_hierarchy};
pub(super) use role::{decode_role, encode_role};
use rules::{encode_rules, read_rules};
pub(super) use user_type::{decode_types, encode_type, is_type};
pub(super) use view::{decode_view, encode_view, is_view};

use super::def::{
    ColumnDef, EXPRESSION, IndexColumn, IndexDef, IndexExpression, IndexKind, IndexMore, Predicate,
    TableDef,
};
use super::guard::Guards;
use super::partition::{PARTITIONS_MAX, Partitioning, Roots};
use super::rules::{ColumnMore, Identity, TableRules};
use super::sequence::SequenceDef;
use super::snapshot::Snapshot;
use super::view::Materialized;
use crate::binder::{index_condition, index_expression};
use crate::error::{SqlError, SqlState};
use crate::row::RowLayout;
use crate::types::{Type, TypeKind};

const TABLE_FORMAT: u8 = 5;
/// The format of partitioned tables and partitions.
const TABLE_FORMAT_PLACED: u8 = 6;
/// Added to a format if the table has indexes on expressions.
const WITH_EXPRESSIONS: u8 = 2;
/// Added to a format if the table has columns of domains; the index expressions are then stored,
/// too.
const WITH_DOMAINS: u8 = 4;
/// The format of tables without triggers.
const TABLE_FORMAT_NO_TRIGGERS: u8 = 4;
/// The format of tables without rules, with plain columns only.
const TABLE_FORMAT_NO_RULES: u8 = 3;
/// The format of tables with one guard.
const TABLE_FORMAT_ONE_GUARD: u8 = 2;
/// The format of tables from versions without partitions.
const TABLE_FORMAT_WHOLE: u8 = 1;
/// Added to the uniqueness byte of an index with NULLS NOT DISTINCT.
const NULLS_EQUAL: u8 = 4;
/// The byte before the query of a materialized view, which precedes the table's format.
const MATERIALIZED: u8 = 0x20;
/// The largest number of guards of a table.
const GUARDS_MAX: u32 = 1024;
/// The format of sequences, which are stored in the tables tree.
const SEQUENCE_FORMAT: u8 = 0x40;
/// The format of schemas, which are stored in the tables tree.
const SCHEMA_FORMAT: u8 = 0x42;

/// The formats of the objects in the tables tree that are not tables.
const AMONG_TABLES: [u8; 11] = [
    SEQUENCE_FORMAT,
    SCHEMA_FORMAT,
    view::VIEW_FORMAT,
    view::VIEW_FORMAT_PLAIN,
    view::VIEW_FORMAT_NO_TYPES,
    user_type::TYPE_FORMAT,
    about::ABOUT_FORMAT,
    about::DEFAULT_FORMAT,
    extension::EXTENSION_FORMAT,
    database::DATABASE_FORMAT,
    super::encode_routine::ROUTINE_FORMAT,
];

const _: () = {
    let mut at = 0;
    while at < AMONG_TABLES.len() {
        let mut before = 0;
        while before < at {
            assert!(
                AMONG_TABLES[before] != AMONG_TABLES[at],
                "two kinds begin alike"
            );
            before += 1;
        }
        at += 1;
    }
};

/// Returns the binary form of a table's definition.
pub(super) fn encode_table(table: &TableDef) -> Vec<u8> {
    let format = match table.hierarchy {
        None => TABLE_FORMAT,
        Some(_) => TABLE_FORMAT_PLACED,
    };
    let mut indexes = table.indexes.iter();
    let domains = table.columns.iter().any(|c| c.more.domain.is_some());
    let expressions = domains || indexes.any(|index| !index.more.expressions.is_empty());
    let more = match (domains, expressions) {
        (true, _) => WITH_DOMAINS,
        (false, true) => WITH_EXPRESSIONS,
        (false, false) => 0,
    };
    let mut out = Writer(Vec::new());
    details::encode(table, &mut out);
    if let Some(query) = &table.materialized {
        encode_query(query, &mut out);
    }
    out.0.push(format + more);
    out.u32(table.id);
    out.text(&table.schema);
    out.text(&table.name);
    out.u64(table.version);
    out.u32(table.guards.raw().len() as u32);
    for guard in table.guards.raw() {
        out.u64(*guard);
    }
    out.flag(table.partitioning.is_some());
    if let Some(by) = &table.partitioning {
        out.u32(by.column as u32);
        out.u32(by.count);
        out.u32(by.group);
    }
    out.u32(table.columns.len() as u32);
    for column in &table.columns {
        out.text(&column.name);
        out.u32(column.ty.kind.oid());
        out.u32(column.ty.typmod as u32);
        out.flag(column.not_null);
        out.optional(column.default.as_deref());
        encode_more(column, &mut out);
    }
    if domains {
        let each = table.columns.iter().map(|column| column.more.domain);
        out.list(each.map(|of| of.map_or(0, |of| of.definition().id)));
    }
    if let Some(hierarchy) = &table.hierarchy {
        encode_hierarchy(hierarchy, &mut out);
    }
    out.u32(table.indexes.len() as u32);
    for index in &table.indexes {
        encode_index(index, table.is_parent(), &mut out);
        if expressions {
            encode_expressions(index, &mut out);
        }
    }
    encode_rules(&table.rules, &mut out);
    trigger::encode(&table.rules.triggers, &mut out);
    out.0
}

fn encode_query(query: &Materialized, out: &mut Writer) {
    out.0.push(MATERIALIZED);
    out.flag(query.populated);
    out.text(&query.text);
    out.list(query.tables.iter().copied());
    out.list(query.views.iter().copied());
    out.list(query.types.iter().copied());
}

/// Reads the query before the definition of a materialized view; `None` inside for a table.
fn read_query(input: &mut Reader<'_>) -> Option<Option<Box<Materialized>>> {
    if input.0.first() != Some(&MATERIALIZED) {
        return Some(None);
    }
    input.u8()?;
    Some(Some(Box::new(Materialized {
        populated: input.flag()?,
        text: input.text()?,
        tables: input.list()?,
        views: input.list()?,
        types: input.list()?,
    })))
}

fn encode_more(column: &ColumnDef, out: &mut Writer) {
    let more = &column.more;
    out.optional(more.generated.as_deref());
    out.0.push(match more.identity {
        None => 0,
        Some(Identity::Always) => 1,
        Some(Identity::ByDefault) => 2,
    });
    out.u32(more.sequence.unwrap_or(0));
    let mut words = Vec::new();
    let layout = RowLayout::of_types([column.ty.kind]);
    if let Some(missing) = &more.missing
        && layout
            .encode(std::slice::from_ref(missing), &mut words)
            .is_err()
    {
        // Such a value was refused when the column was added.
        words.clear();
    }
    out.u32(words.len() as u32);
    words.iter().for_each(|word| out.u64(*word));
}

/// Writes an index; an index of a partitioned table has no roots of its own.
fn encode_index(index: &IndexDef, of_parent: bool, out: &mut Writer) {
    out.u32(index.id);
    out.text(&index.name);
    out.flag(index.kind == IndexKind::Hash);
    let unique = match index.more.deferrable {
        None => u8::from(index.unique),
        Some(false) => 2,
        Some(true) => 3,
    };
    let nulls_equal = if index.more.nulls_equal {
        NULLS_EQUAL
    } else {
        0
    };
    out.0.push(unique + nulls_equal);
    out.flag(index.primary);
    out.flag(index.constraint);
    out.flag(of_parent || index.roots.are_partitioned());
    for root in index.roots.all().iter().filter(|_| !of_parent) {
        out.u64(*root);
    }
    out.u32(index.columns.len() as u32);
    for column in &index.columns {
        out.u32(column.column as u32);
        out.flag(column.desc);
        out.flag(column.nulls_first);
    }
    out.list(index.more.include.iter().map(|c| *c as u32));
    out.optional(index.more.predicate.as_ref().map(|p| p.text.as_str()));
}

fn encode_expressions(index: &IndexDef, out: &mut Writer) {
    out.u32(index.more.expressions.len() as u32);
    for expression in &index.more.expressions {
        out.text(&expression.name);
        out.text(&expression.text);
    }
}

/// Decodes a table's definition; `around` contains the user-defined types.
pub(super) fn decode_table(bytes: &[u8], around: &Snapshot) -> Result<TableDef, SqlError> {
    let mut input = Reader(bytes);
    let mut read = || {
        let details = details::read(&mut input)?;
        let mut table = read_table(&mut input, around)?;
        details.give(&mut table)?;
        Some(table)
    };
    read().ok_or_else(corrupt)
}

fn read_table(input: &mut Reader<'_>, around: &Snapshot) -> Option<TableDef> {
    let materialized = read_query(input)?;
    let mut format = input.u8()?;
    let domains = format > TABLE_FORMAT_PLACED + WITH_EXPRESSIONS;
    let expressions = format > TABLE_FORMAT_PLACED;
    if domains {
        format -= WITH_DOMAINS;
    } else if expressions {
        format -= WITH_EXPRESSIONS;
    }
    if expressions && format < TABLE_FORMAT {
        return None;
    }
    let (whole, one_guard) = match format {
        TABLE_FORMAT | TABLE_FORMAT_PLACED | TABLE_FORMAT_NO_TRIGGERS | TABLE_FORMAT_NO_RULES => {
            (false, false)
        }
        TABLE_FORMAT_ONE_GUARD => (false, true),
        TABLE_FORMAT_WHOLE => (true, true),
        _ => return None,
    };
    let has_rules = format >= TABLE_FORMAT_NO_TRIGGERS;
    let id = input.u32()?;
    let schema = input.text()?;
    let name = input.text()?;
    let version = input.u64()?;
    let guards = match one_guard {
        true => 1,
        false => input.u32()?,
    };
    if guards > GUARDS_MAX {
        return None;
    }
    let guards: Option<Vec<u64>> = (0..guards).map(|_| input.u64()).collect();
    let guards = Guards::at(guards?)?;
    let by = match !whole && input.flag()? {
        true => Some((input.u32()? as usize, input.u32()?, input.u32()?)),
        false => None,
    };
    let mut columns = Vec::new();
    for attnum in 0..input.u32()? {
        let mut column = ColumnDef {
            name: input.text()?,
            ty: Type {
                kind: around.types().kind(input.u32()?)?,
                typmod: input.u32()? as i32,
            },
            not_null: input.flag()?,
            default: input.optional()?,
            attnum: i16::try_from(attnum + 1).ok()?,
            more: ColumnMore::default(),
        };
        if has_rules {
            column.more = read_more(input, column.ty.kind)?;
        }
        columns.push(column);
    }
    if domains {
        read_domains(input, &mut columns, around)?;
    }
    let partitioning = match by {
        None => None,
        Some((column, count, group)) => Some(Partitioning {
            column,
            kind: columns.get(column)?.ty.kind,
            count: Some(count).filter(|count| (1..=PARTITIONS_MAX).contains(count))?,
            group,
        }),
    };
    let mut table = TableDef {
        id,
        schema,
        name,
        columns,
        indexes: Vec::new(),
        partitioning,
        hierarchy: None,
        materialized,
        rules: TableRules::default(),
        version,
        guards,
    };
    if format == TABLE_FORMAT_PLACED {
        let hierarchy = read_hierarchy(input, table.columns.len(), around)?;
        table.hierarchy = Some(Box::new(hierarchy));
    }
    for _ in 0..input.u32()? {
        let has = (whole, has_rules, expressions);
        let index = read_index(input, &table, has, around)?;
        table.indexes.push(index);
    }
    if has_rules {
        table.rules = read_rules(input, table.columns.len())?;
    }
    if format >= TABLE_FORMAT {
        table.rules.triggers = trigger::read(input, table.columns.len())?;
    }
    let first = table.indexes.first()?;
    let parted = partitioning.is_some() || table.is_parent();
    let reached = first.roots.are_partitioned() == parted;
    (input.0.is_empty() && reached).then_some(table)
}

/// Reads the domains of the columns by their oids; 0 is none.
fn read_domains(
    input: &mut Reader<'_>,
    columns: &mut [ColumnDef],
    around: &Snapshot,
) -> Option<()> {
    let all = input.list()?;
    if all.len() != columns.len() {
        return None;
    }
    for (column, oid) in columns.iter_mut().zip(all) {
        if oid != 0 {
            let domain = around.types().domain(oid)?;
            column.more.domain = Some(domain).filter(|of| of.root() == column.ty);
            column.more.domain?;
        }
    }
    Some(())
}

fn read_more(input: &mut Reader<'_>, kind: TypeKind) -> Option<ColumnMore> {
    let generated = input.optional()?;
    let identity = match input.u8()? {
        0 => None,
        1 => Some(Identity::Always),
        2 => Some(Identity::ByDefault),
        _ => return None,
    };
    let sequence = Some(input.u32()?).filter(|id| *id != 0);
    let words: Option<Vec<u64>> = (0..input.u32()?).map(|_| input.u64()).collect();
    let words = words?;
    let layout = RowLayout::of_types([kind]);
    let missing = match words.is_empty() {
        true => None,
        false => Some(layout.reader(&words).and_then(|row| row.get(0)).ok()?),
    };
    Some(ColumnMore {
        generated,
        identity,
        sequence,
        missing,
        ..ColumnMore::default()
    })
}

/// Reads an index of `table`. With `whole` it has one root and no further properties.
fn read_index(
    input: &mut Reader<'_>,
    table: &TableDef,
    (whole, has_more, has_expressions): (bool, bool, bool),
    around: &Snapshot,
) -> Option<IndexDef> {
    let id = input.u32()?;
    let name = input.text()?;
    let hash = input.flag()?;
    let unique = input.u8()?;
    let nulls_equal = unique >= NULLS_EQUAL;
    let unique = if nulls_equal {
        unique - NULLS_EQUAL
    } else {
        unique
    };
    let (unique, deferrable) = match unique {
        0 => (false, None),
        1 => (true, None),
        2 => (false, Some(false)),
        3 => (false, Some(true)),
        _ => return None,
    };
    let primary = input.flag()?;
    let constraint = input.flag()?;
    let roots = match !whole && input.flag()? {
        false => Roots::One(input.u64()?),
        true if table.is_parent() => Roots::Each([].into()),
        true => {
            let each = 0..table.partitioning?.count;
            Roots::Each(each.map(|_| input.u64()).collect::<Option<_>>()?)
        }
    };
    let mut columns = Vec::new();
    for _ in 0..input.u32()? {
        let column = input.u32()? as usize;
        if column >= table.columns.len() && column < EXPRESSION {
            return None;
        }
        columns.push(IndexColumn {
            column,
            desc: input.flag()?,
            nulls_first: input.flag()?,
        });
    }
    if roots.are_partitioned() != table.is_partitioned_by(&columns) {
        return None;
    }
    let mut more = IndexMore {
        deferrable,
        nulls_equal,
        ..IndexMore::default()
    };
    if has_more {
        more.include = input.positions()?;
        if more.include.iter().any(|c| *c >= table.columns.len()) {
            return None;
        }
        if let Some(text) = input.optional()? {
            let condition = index_condition(table, &text, around).ok()?;
            more.predicate = Some(Predicate { text, condition });
        }
    }
    if has_expressions {
        for _ in 0..input.u32()? {
            let (name, text) = (input.text()?, input.text()?);
            let value = index_expression(table, &text, around).ok()?;
            more.expressions.push(IndexExpression { name, text, value });
        }
    }
    let known = EXPRESSION + more.expressions.len();
    if columns.iter().any(|key| key.column >= known) {
        return None;
    }
    Some(IndexDef {
        id,
        name,
        kind: if hash {
            IndexKind::Hash
        } else {
            IndexKind::BTree
        },
        unique,
        primary,
        constraint,
        columns,
        more,
        roots,
    })
}

/// Returns the binary form of a sequence's definition.
pub(super) fn encode_sequence(sequence: &SequenceDef) -> Vec<u8> {
    let mut out = Writer(vec![SEQUENCE_FORMAT]);
    out.u32(sequence.id);
    out.text(&sequence.schema);
    out.text(&sequence.name);
    out.u32(sequence.kind.oid());
    for number in [
        sequence.start,
        sequence.increment,
        sequence.min,
        sequence.max,
        sequence.cache,
    ] {
        out.u64(number as u64);
    }
    out.flag(sequence.cycle);
    out.u32(sequence.owner.unwrap_or(0));
    out.u64(sequence.cell);
    out.0
}

/// Returns whether the bytes are a sequence's definition.
pub(super) fn is_sequence(bytes: &[u8]) -> bool {
    bytes.first() == Some(&SEQUENCE_FORMAT)
}

/// Decodes a sequence's definition.
pub(super) fn decode_sequence(bytes: &[u8]) -> Result<SequenceDef, SqlError> {
    read_sequence(&mut Reader(bytes)).ok_or_else(corrupt)
}

fn read_sequence(input: &mut Reader<'_>) -> Option<SequenceDef> {
    if input.u8()? != SEQUENCE_FORMAT {
        return None;
    }
    let sequence = SequenceDef {
        id: input.u32()?,
        schema: input.text()?,
        name: input.text()?,
        kind: TypeKind::from_oid(input.u32()?)?,
        start: input.u64()? as i64,
        increment: Some(input.u64()? as i64).filter(|increment| *increment != 0)?,
        min: input.u64()? as i64,
        max: input.u64()? as i64,
        cache: input.u64()? as i64,
        cycle: input.flag()?,
        owner: Some(input.u32()?).filter(|owner| *owner != 0),
        cell: input.u64()?,
    };
    input.0.is_empty().then_some(sequence)
}

/// Returns the binary form of a schema's definition.
pub(super) fn encode_schema(id: u32, name: &str) -> Vec<u8> {
    let mut out = Writer(vec![SCHEMA_FORMAT]);
    out.u32(id);
    out.text(name);
    out.0
}

/// Decodes the name and oid of a schema; `None` if the bytes are another definition.
pub(super) fn decode_schema(bytes: &[u8]) -> Result<Option<(String, u32)>, SqlError> {
    match bytes.split_first() {
        Some((&SCHEMA_FORMAT, rest)) => {
            let mut input = Reader(rest);
            let schema = input.u32().zip(input.text()).filter(|_| input.0.is_empty());
            let (id, name) = schema.ok_or_else(corrupt)?;
            Ok(Some((name, id)))
        }
        _ => Ok(None),
    }
}

pub(super) fn corrupt() -> SqlError {
    SqlError::new(
        SqlState::new(b"XX001"),
        "a stored definition cannot be read",
    )
}

#[cfg(test)]
mod tests;
