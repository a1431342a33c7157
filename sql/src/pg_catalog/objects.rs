//! Tables, their columns, indexes and constraints.

use std::sync::Arc;

use super::privileges::{acl, column_acl, owner};
use super::rows::Rows;
use super::triggers::TRIGGER_CLASS;
use super::{Constraint, Relation, RowInputs, class, namespace_oid, partition_bound};
use crate::catalog::{
    CatalogView, Collation, ColumnDef, ForeignKeyDef, Identity, IndexDef, IndexKind, ObjectKind,
    PUBLIC_SCHEMA, Referential, SequenceDef, Snapshot, TableDef, temporary,
};
use crate::error::{SqlError, SqlState};
use crate::functions::quote_ident as quoted;
use crate::types::composites::ROW_TYPE;
use crate::types::{Type, TypeKind};
use crate::value::{Array, Value};

/// The oids of the access methods.
const HEAP: u32 = 2;
const BTREE: u32 = 403;
const HASH: u32 = 405;
/// The oid of the collation `default`.
pub(super) const DEFAULT_COLLATION: u32 = 100;

/// Returns whether a table has triggers. As in PostgreSQL, foreign keys count: its own, and those
/// that reference it or a table of which it is a partition.
fn has_triggers(snapshot: &Snapshot, table: &Arc<TableDef>) -> bool {
    let rules = &table.rules;
    if !rules.foreign_keys.is_empty() || !rules.triggers.is_empty() {
        return true;
    }
    let above = |table: &Arc<TableDef>| {
        let parent = table.partition_of_table()?.parent;
        snapshot.table_by_id(parent).ok().flatten()
    };
    let mut all = std::iter::successors(Some(Arc::clone(table)), above);
    all.any(|table| !table.rules.referenced_by.is_empty())
}

fn namespace(around: &RowInputs<'_>, schema: &str) -> Value {
    Value::Oid(namespace_oid(around.snapshot, schema).unwrap_or(0))
}

/// Returns the indexes that are visible to users.
pub fn visible(table: &TableDef) -> impl Iterator<Item = &IndexDef> {
    table.indexes.iter().filter(|index| !index.is_hidden())
}

/// Returns `relpersistence` of a table: `u` for unlogged tables.
fn persistence_of(table: &TableDef) -> Value {
    match table.rules.storage.unlogged {
        true => Value::text("u"),
        false => persistence(&table.schema),
    }
}

/// Returns `relpersistence`: `t` for temporary relations, `p` for others.
fn persistence(schema: &str) -> Value {
    Value::text(match temporary::is_temporary(schema) {
        true => "t",
        false => "p",
    })
}

/// Adds the rows of `pg_class`.
pub fn classes(rows: &mut Rows, around: &RowInputs<'_>) {
    let snapshot = around.snapshot;
    let common = |oid: u32, name: &str, kind: &str, columns: usize| {
        [
            ("oid", Value::Oid(oid)),
            ("relname", Value::text(name)),
            ("relowner", owner(snapshot, ObjectKind::Table, oid)),
            ("relacl", acl(snapshot, ObjectKind::Table, oid)),
            ("reltuples", Value::Float4(-1.0)),
            ("relkind", Value::text(kind)),
            ("relnatts", Value::Int2(columns as i16)),
            ("relispopulated", Value::Bool(true)),
        ]
    };
    for relation in Relation::all() {
        let own = [
            ("relnamespace", namespace(around, relation.schema)),
            ("relpersistence", persistence(relation.schema)),
            ("relreplident", Value::text("n")),
            ("relhasrules", Value::Bool(relation.kind == "v")),
            ("relfilenode", Value::Oid(0)),
        ];
        let all = common(
            relation.oid,
            relation.name,
            relation.kind,
            relation.columns.len(),
        );
        rows.add(all.into_iter().chain(own));
    }
    for table in around.snapshot.tables() {
        let own = [
            ("reltype", Value::Oid(table.id | ROW_TYPE)),
            ("relnamespace", namespace(around, &table.schema)),
            ("relpersistence", persistence_of(&table)),
            ("reloptions", options(&table.rules.storage.options)),
            (
                "relam",
                Value::Oid(if table.is_parent() { 0 } else { HEAP }),
            ),
            (
                "relfilenode",
                Value::Oid(if table.is_parent() { 0 } else { table.id }),
            ),
            ("relhasindex", Value::Bool(visible(&table).next().is_some())),
            ("relchecks", Value::Int2(table.rules.checks.len() as i16)),
            (
                "relhastriggers",
                Value::Bool(has_triggers(around.snapshot, &table)),
            ),
            ("relreplident", Value::text("d")),
            (
                "relispartition",
                Value::Bool(table.partition_of_table().is_some()),
            ),
            (
                "relhassubclass",
                Value::Bool(
                    table
                        .tree()
                        .is_some_and(|tree| !tree.top.members.is_empty()),
                ),
            ),
            (
                "relpartbound",
                partition_bound(around.snapshot, &table).map_or(Value::Null, Value::text),
            ),
        ];
        let query = table.materialized.as_deref();
        let own = own.into_iter().chain([
            ("relhasrules", Value::Bool(query.is_some())),
            (
                "relispopulated",
                Value::Bool(query.is_none_or(|query| query.populated)),
            ),
        ]);
        let kind = match query {
            Some(_) => "m",
            None if table.is_parent() => "p",
            None => "r",
        };
        let all = common(table.id, &table.name, kind, table.columns.len());
        rows.add(all.into_iter().chain(own));
        for index in visible(&table) {
            let own = [
                ("relnamespace", namespace(around, &table.schema)),
                ("relpersistence", persistence_of(&table)),
                ("reloptions", options(&index.more.options)),
                ("relam", Value::Oid(method(index))),
                ("relfilenode", Value::Oid(index.id)),
                ("relreplident", Value::text("n")),
                (
                    "relispartition",
                    Value::Bool(table.link(index.id).is_some()),
                ),
                ("relowner", owner(snapshot, ObjectKind::Table, table.id)),
            ];
            let all = common(
                index.id,
                &index.name,
                if table.is_parent() { "I" } else { "i" },
                index.columns.len() + index.more.include.len(),
            );
            rows.add(all.into_iter().chain(own));
        }
    }
    for ty in snapshot.types().all() {
        let Some(of) = ty.as_composite().map(|of| of.definition()) else {
            continue;
        };
        let own = [
            ("relnamespace", namespace(around, &ty.schema)),
            ("relpersistence", persistence(&ty.schema)),
            ("relreplident", Value::text("n")),
            ("reltype", Value::Oid(of.id)),
            ("relowner", owner(snapshot, ObjectKind::Type, of.id)),
        ];
        let all = common(of.relation, &of.name, "c", usize::from(of.places));
        rows.add(all.into_iter().chain(own));
    }
    for view in around.snapshot.views() {
        let own = [
            ("reltype", Value::Oid(view.id | ROW_TYPE)),
            ("relnamespace", namespace(around, &view.schema)),
            ("relpersistence", persistence(&view.schema)),
            ("relhasrules", Value::Bool(true)),
            (
                "relhastriggers",
                Value::Bool(!view.more.triggers.is_empty()),
            ),
            ("relreplident", Value::text("n")),
            ("reloptions", options(&view.more.options)),
        ];
        let all = common(view.id, &view.name, "v", view.columns.len());
        rows.add(all.into_iter().chain(own));
    }
    for sequence in around.snapshot.sequences() {
        let owner = sequence.owner.and_then(|owner| snapshot.relation(owner));
        let own = [
            ("relnamespace", namespace(around, &sequence.schema)),
            (
                "relpersistence",
                owner.map_or_else(|| persistence(&sequence.schema), |of| persistence_of(&of)),
            ),
            ("relfilenode", Value::Oid(sequence.id)),
            ("reltuples", Value::Float4(1.0)),
            ("relreplident", Value::text("n")),
        ];
        let all = common(sequence.id, &sequence.name, "S", SEQUENCE_COLUMNS.len());
        rows.add(all.into_iter().chain(own));
    }
}

/// Returns `reloptions`: the options of a view, or storage parameters.
fn options(of: &[(String, String)]) -> Value {
    let all: Vec<Value> = of
        .iter()
        .map(|(name, value)| Value::text(format!("{name}={value}")))
        .collect();
    match all.is_empty() {
        true => Value::Null,
        false => Array::of(all).into(),
    }
}

/// The columns of a sequence as a relation.
pub const SEQUENCE_COLUMNS: [(&str, Type); 3] = [
    ("last_value", Type::INT8),
    ("log_cnt", Type::INT8),
    ("is_called", Type::BOOL),
];

fn method(index: &IndexDef) -> u32 {
    match index.kind {
        IndexKind::BTree => BTREE,
        IndexKind::Hash => HASH,
    }
}

/// Returns whether values of a type are passed by value, their alignment, and their storage.
pub fn shape(ty: Type) -> (bool, &'static str, &'static str) {
    match ty.kind.size() {
        1 => (true, "c", "p"),
        2 => (true, "s", "p"),
        4 => (true, "i", "p"),
        8 => (true, "d", "p"),
        16 => (false, "c", "p"),
        64 => (false, "c", "p"),
        _ if ty.kind == TypeKind::Numeric => (false, "i", "m"),
        _ => (false, "i", "x"),
    }
}

/// Returns the collation of a type.
pub fn collation(kind: TypeKind) -> u32 {
    match kind {
        TypeKind::Text | TypeKind::Citext(_) | TypeKind::VarChar | TypeKind::BpChar => {
            DEFAULT_COLLATION
        }
        // The collation C.
        TypeKind::Name => 950,
        _ => 0,
    }
}

/// Returns the columns of `pg_attribute` that depend on the type.
fn column(name: &str, declared: Type, number: i16) -> [(&'static str, Value); 12] {
    let ty = declared.plain();
    let (by_value, align, storage) = shape(ty);
    [
        ("attname", Value::text(name)),
        ("atttypid", Value::Oid(declared.oid())),
        ("attstattarget", Value::Int4(-1)),
        ("attlen", Value::Int2(ty.kind.size())),
        ("attnum", Value::Int2(number)),
        ("attcacheoff", Value::Int4(-1)),
        ("atttypmod", Value::Int4(declared.typmod)),
        ("attbyval", Value::Bool(by_value)),
        ("attalign", Value::text(align)),
        ("attstorage", Value::text(storage)),
        ("attcollation", Value::Oid(collation(ty.kind))),
        ("attisdropped", Value::Bool(false)),
    ]
}

/// The value for columns of relations that are not partitions.
const IS_LOCAL: (&str, Value) = ("attislocal", Value::Bool(true));

/// Adds the rows of `pg_attribute`.
pub fn attributes(rows: &mut Rows, around: &RowInputs<'_>) {
    for relation in Relation::all() {
        for (number, (name, ty)) in (1..).zip(&relation.columns) {
            let own = [("attrelid", Value::Oid(relation.oid)), IS_LOCAL];
            rows.add(column(name, *ty, number).into_iter().chain(own));
        }
    }
    for table in around.snapshot.tables() {
        for of in &table.columns {
            let is_partition = table.partition_of_table().is_some();
            let own = [
                ("attrelid", Value::Oid(table.id)),
                ("attislocal", Value::Bool(!is_partition)),
                ("attinhcount", Value::Int4(i32::from(is_partition))),
                ("attnotnull", Value::Bool(of.not_null)),
                ("atthasdef", Value::Bool(expression(of).is_some())),
                (
                    "attidentity",
                    Value::text(match of.more.identity {
                        Some(Identity::Always) => "a",
                        Some(Identity::ByDefault) => "d",
                        None => "",
                    }),
                ),
                (
                    "attgenerated",
                    Value::text(if of.more.generated.is_some() { "s" } else { "" }),
                ),
            ];
            let said = (of.more.collation != Collation::Default)
                .then(|| ("attcollation", Value::Oid(of.more.collation.oid())));
            let acl = column_acl(around.snapshot, ObjectKind::Table, table.id, of.attnum);
            let own = own.into_iter().chain([("attacl", acl)]).chain(said);
            let column = column(&of.name, of.declared(), of.attnum);
            rows.add(column.into_iter().chain(own));
        }
        for index in visible(&table) {
            let keys = index.columns.iter().map(|key| key.column);
            let all = keys.chain(index.more.include.iter().copied());
            for (number, at) in (1..).zip(all) {
                let (name, ty) = (index.name_of(&table, at), index.type_of(&table, at));
                let own = [("attrelid", Value::Oid(index.id)), IS_LOCAL];
                rows.add(column(name, ty, number).into_iter().chain(own));
            }
        }
    }
    for ty in around.snapshot.types().all() {
        let Some(of) = ty.as_composite().map(|of| of.definition()) else {
            continue;
        };
        for field in &of.fields {
            let own = [("attrelid", Value::Oid(of.relation)), IS_LOCAL];
            let number = i16::try_from(field.place).unwrap_or(i16::MAX - 1) + 1;
            rows.add(column(&field.name, field.ty, number).into_iter().chain(own));
        }
    }
    for view in around.snapshot.views() {
        let has_default = |number: i16| {
            let mut defaults = view.more.defaults.iter();
            defaults.any(|(at, _)| i16::try_from(at + 1) == Ok(number))
        };
        for (number, (name, ty)) in (1..).zip(&view.columns) {
            let own = [
                ("attrelid", Value::Oid(view.id)),
                IS_LOCAL,
                ("atthasdef", Value::Bool(has_default(number))),
                (
                    "attacl",
                    column_acl(around.snapshot, ObjectKind::View, view.id, number),
                ),
            ];
            rows.add(column(name, *ty, number).into_iter().chain(own));
        }
    }
    for sequence in around.snapshot.sequences() {
        for (number, (name, ty)) in (1..).zip(&SEQUENCE_COLUMNS) {
            let own = [
                ("attrelid", Value::Oid(sequence.id)),
                IS_LOCAL,
                ("attnotnull", Value::Bool(true)),
            ];
            rows.add(column(name, *ty, number).into_iter().chain(own));
        }
    }
}

/// Returns whether a default of the table uses this sequence.
pub fn takes_values_of(snapshot: &Snapshot, table: &TableDef, sequence: u32) -> bool {
    let mut columns = table.columns.iter();
    columns.any(|column| {
        let mut all = sequences_of(snapshot, table, column.default.as_ref());
        all.any(|of| of.id == sequence)
    })
}

/// Returns the sequences that a default of a table uses.
pub(super) fn sequences_of<'a>(
    snapshot: &'a Snapshot,
    table: &'a TableDef,
    default: Option<&'a String>,
) -> impl Iterator<Item = &'a SequenceDef> {
    let called = move |sequence: &&Arc<SequenceDef>| {
        let name = quoted(&sequence.name).replace('\'', "''");
        let schema = quoted(&sequence.schema).replace('\'', "''");
        // An unqualified sequence is in `public` or in the schema of the table.
        let near = sequence.schema == PUBLIC_SCHEMA || sequence.schema == table.schema;
        default.is_some_and(|default| {
            default.contains(&format!("nextval('{schema}.{name}'"))
                || (near && default.contains(&format!("nextval('{name}'")))
        })
    };
    snapshot
        .sequences()
        .filter(called)
        .map(|sequence| &**sequence)
}

/// Returns the sequence that a column of the relation with this oid owns.
///
/// # Errors
/// 42703 if the column does not exist.
pub fn serial_sequence(
    snapshot: &Snapshot,
    oid: u32,
    column: &str,
) -> Result<Option<String>, SqlError> {
    let Some(table) = snapshot.relation(oid) else {
        return Ok(None);
    };
    let Some(at) = table.column(column) else {
        return Err(SqlError::new(
            SqlState::UNDEFINED_COLUMN,
            format!(
                "column \"{column}\" of relation \"{}\" does not exist",
                table.name
            ),
        ));
    };
    let owned = table.columns[at].more.sequence;
    let mut all = snapshot.sequences();
    let sequence = all.find(|sequence| Some(sequence.id) == owned);
    Ok(sequence.map(|sequence| {
        let (schema, name) = (&sequence.schema, &sequence.name);
        format!("{}.{}", quoted(schema), quoted(name))
    }))
}

/// Returns whether a sequence belongs to an identity column.
pub fn is_of_identity(around: &RowInputs<'_>, sequence: &SequenceDef) -> bool {
    let table = sequence
        .owner
        .and_then(|owner| around.snapshot.relation(owner));
    table.is_some_and(|table| {
        let mut columns = table.columns.iter();
        columns.any(|column| {
            column.more.identity.is_some() && column.more.sequence == Some(sequence.id)
        })
    })
}

/// Adds the rows of `pg_sequence`.
pub fn sequences(rows: &mut Rows, around: &RowInputs<'_>) {
    for sequence in around.snapshot.sequences() {
        rows.add([
            ("seqrelid", Value::Oid(sequence.id)),
            ("seqtypid", Value::Oid(sequence.kind.oid())),
            ("seqstart", Value::Int8(sequence.start)),
            ("seqincrement", Value::Int8(sequence.increment)),
            ("seqmax", Value::Int8(sequence.max)),
            ("seqmin", Value::Int8(sequence.min)),
            ("seqcache", Value::Int8(sequence.cache)),
            ("seqcycle", Value::Bool(sequence.cycle)),
        ]);
    }
}

/// Adds the rows of `pg_description`.
pub fn descriptions(rows: &mut Rows, around: &RowInputs<'_>) {
    for table in around.snapshot.tables_and_views() {
        for (column, text) in &table.rules.comments {
            let number = column.map_or(0, |at| i32::from(table.columns[at].attnum));
            rows.add([
                ("objoid", Value::Oid(table.id)),
                ("classoid", Value::Oid(class::RELATION)),
                ("objsubid", Value::Int4(number)),
                ("description", Value::text(text)),
            ]);
        }
        for trigger in &table.rules.triggers {
            if let Some(text) = &trigger.comment {
                rows.add([
                    ("objoid", Value::Oid(trigger.id)),
                    ("classoid", Value::Oid(TRIGGER_CLASS)),
                    ("description", Value::text(text)),
                ]);
            }
        }
    }
}

/// Returns the comment on a table, or on a column of it by its number.
pub fn comment(snapshot: &Snapshot, table: u32, column: Option<i64>) -> Option<String> {
    let table = snapshot.relation(table).filter(|of| of.id == table)?;
    let mut all = table.rules.comments.iter();
    let wanted = |on: &Option<usize>| on.map(|at| i64::from(table.columns[at].attnum)) == column;
    all.find(|(on, _)| wanted(on)).map(|(_, text)| text.clone())
}

/// Returns the default of a column or its generation expression; `None` for an identity column. A
/// plain string literal gets the type of the column.
pub fn expression(column: &ColumnDef) -> Option<String> {
    if let Some(generated) = &column.more.generated {
        return Some(format!("({generated})"));
    }
    let default = column.default.as_ref();
    let default = default.filter(|_| column.more.identity.is_none());
    let default = default.filter(|text| !text.eq_ignore_ascii_case("null"))?;
    Some(typed_text(default, column.ty))
}

/// Returns the text of a default, with the type if it is a plain string literal.
pub fn typed_text(default: &str, ty: Type) -> String {
    let inside = default
        .strip_prefix('\'')
        .and_then(|rest| rest.strip_suffix('\''));
    match inside {
        Some(inside) if !inside.replace("''", "").contains('\'') => {
            let kind = ty.plain().kind;
            let name = match kind {
                // `character` alone means a length of one.
                TypeKind::BpChar => "bpchar",
                kind => kind.name(),
            };
            format!("{default}::{name}")
        }
        _ => default.to_owned(),
    }
}

/// Adds the rows of `pg_attrdef`. The expressions are stored as they were written.
pub fn defaults(rows: &mut Rows, around: &RowInputs<'_>) {
    for table in around.snapshot.tables_and_views() {
        for column in &table.columns {
            let Some(default) = expression(column) else {
                continue;
            };
            rows.add([
                ("oid", Value::Oid(part_oid(table.id, column.attnum))),
                ("adrelid", Value::Oid(table.id)),
                ("adnum", Value::Int2(column.attnum)),
                ("adbin", Value::text(default)),
            ]);
        }
    }
}

/// Returns a unique oid, derived from the table's, for a part of a table without an oid of its own.
pub(super) fn part_oid(table: u32, number: i16) -> u32 {
    const COLUMNS_MAX: u32 = 1600;
    table
        .wrapping_mul(COLUMNS_MAX)
        .wrapping_add(u32::from(number.unsigned_abs()))
}

/// Adds the rows of `pg_constraint`. A constraint with an index has the oid of the index.
pub fn constraints(rows: &mut Rows, around: &RowInputs<'_>) {
    super::user_types::constraints(rows, around);
    for table in around.snapshot.tables() {
        for constraint in Constraint::all(&table) {
            let keys = constraint.columns(&table);
            let keys = keys.iter().map(|at| Value::Int2(table.columns[*at].attnum));
            let kind = match &constraint {
                Constraint::Key(index) if index.primary => "p",
                Constraint::Key(_) => "u",
                Constraint::Check(_) => "c",
                Constraint::Foreign(_) => "f",
            };
            let own = [
                ("oid", Value::Oid(constraint.id())),
                ("conname", Value::text(constraint.name())),
                ("connamespace", namespace(around, &table.schema)),
                ("contype", Value::text(kind)),
                ("convalidated", Value::Bool(constraint.is_valid())),
                ("conrelid", Value::Oid(table.id)),
                (
                    "conislocal",
                    Value::Bool(table.link(constraint.id()).is_none()),
                ),
                (
                    "coninhcount",
                    Value::Int4(i32::from(table.link(constraint.id()).is_some())),
                ),
                (
                    "conparentid",
                    Value::Oid(match kind {
                        "c" => 0,
                        _ => table.link(constraint.id()).unwrap_or(0),
                    }),
                ),
                (
                    "connoinherit",
                    Value::Bool(constraint.is_inherited_by_none()),
                ),
                ("conkey", Array::of(keys.collect()).into()),
            ];
            rows.add(own.into_iter().chain(more(&table, &constraint, around)));
        }
        for trigger in &table.rules.triggers {
            if let Some(constraint) = &trigger.constraint {
                let none = || Value::text(" ");
                rows.add([
                    ("oid", Value::Oid(trigger.id)),
                    ("conname", Value::text(&trigger.name)),
                    ("connamespace", namespace(around, &table.schema)),
                    ("contype", Value::text("t")),
                    ("condeferrable", Value::Bool(constraint.deferrable)),
                    ("condeferred", Value::Bool(constraint.deferred)),
                    ("convalidated", Value::Bool(true)),
                    ("conrelid", Value::Oid(table.id)),
                    ("conislocal", Value::Bool(true)),
                    ("connoinherit", Value::Bool(true)),
                    ("confupdtype", none()),
                    ("confdeltype", none()),
                    ("confmatchtype", none()),
                ]);
            }
        }
    }
}

/// Returns the columns that only some constraints have.
fn more(
    table: &TableDef,
    constraint: &Constraint<'_>,
    around: &RowInputs<'_>,
) -> Vec<(&'static str, Value)> {
    let none = || Value::text(" ");
    let foreign = |update: Value, delete: Value, matching: Value| {
        [
            ("confupdtype", update),
            ("confdeltype", delete),
            ("confmatchtype", matching),
        ]
    };
    match constraint {
        Constraint::Key(index) => {
            let deferrable = index.more.deferrable;
            let mut all = vec![
                ("conindid", Value::Oid(index.id)),
                ("condeferrable", Value::Bool(deferrable.is_some())),
                ("condeferred", Value::Bool(deferrable == Some(true))),
            ];
            all.extend(foreign(none(), none(), none()));
            all
        }
        Constraint::Check(check) => {
            let mut all = vec![("conbin", Value::text(&check.text))];
            all.extend(foreign(none(), none(), none()));
            all
        }
        Constraint::Foreign(key) => {
            let parent = around.snapshot.relation(key.parent);
            let matching = Value::text(if key.full { "f" } else { "s" });
            let mut all = vec![
                ("confrelid", Value::Oid(key.parent)),
                ("condeferrable", Value::Bool(key.deferrable)),
                ("condeferred", Value::Bool(key.deferred)),
            ];
            all.extend(foreign(
                letter(key.on_update),
                letter(key.on_delete),
                matching,
            ));
            if !key.delete_columns.is_empty() {
                let numbers = key.listed_on_delete().into_iter();
                let numbers = numbers.map(|at| Value::Int2(table.columns[at].attnum));
                all.push(("confdelsetcols", Array::of(numbers.collect()).into()));
            }
            if let Some(parent) = parent {
                let numbers = key.parent_columns.iter();
                let numbers = numbers.map(|at| Value::Int2(parent.columns[*at].attnum));
                all.push(("confkey", Array::of(numbers.collect()).into()));
                let index = parent_index(&parent, key);
                all.push(("conindid", Value::Oid(index.map_or(0, |index| index.id))));
            }
            all
        }
    }
}

/// Returns the index by which the rows of a parent table are found (FK-1).
pub fn parent_index<'a>(parent: &'a TableDef, key: &ForeignKeyDef) -> Option<&'a IndexDef> {
    let position = parent.referenced_index(key)?;
    parent.indexes.get(position)
}

fn letter(action: Referential) -> Value {
    Value::text(match action {
        Referential::NoAction => "a",
        Referential::Restrict => "r",
        Referential::Cascade => "c",
        Referential::SetNull => "n",
        Referential::SetDefault => "d",
    })
}
