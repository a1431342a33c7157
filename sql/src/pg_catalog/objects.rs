//! Tables, their columns, indexes and constraints.

use std::sync::Arc;

use super::rows::{Rows, vector};
use super::{Around, Constraint, Relation, namespace_oid};
use crate::catalog::{
    CatalogView, ColumnDef, ForeignKeyDef, Identity, IndexDef, IndexKind, Referential,
    SUPERUSER_OID, SequenceDef, Snapshot, TableDef,
};
use crate::functions::quote_ident as quoted;
use crate::types::{Type, TypeKind};
use crate::value::{Array, Value};

/// Access methods.
const HEAP: u32 = 2;
const BTREE: u32 = 403;
const HASH: u32 = 405;
/// The collation `default`.
const DEFAULT_COLLATION: u32 = 100;

fn namespace(around: &Around<'_>, schema: &str) -> Value {
    Value::Oid(namespace_oid(around.snapshot, schema).unwrap_or(0))
}

/// The indexes that users know of.
pub fn shown(table: &TableDef) -> impl Iterator<Item = &IndexDef> {
    table.indexes.iter().filter(|index| !index.is_hidden())
}

/// `pg_class`.
pub fn classes(rows: &mut Rows, around: &Around<'_>) {
    let common = |oid: u32, name: &str, kind: &str, columns: usize| {
        [
            ("oid", Value::Oid(oid)),
            ("relname", Value::text(name)),
            ("relowner", Value::Oid(SUPERUSER_OID)),
            ("reltuples", Value::Float4(-1.0)),
            ("relpersistence", Value::text("p")),
            ("relkind", Value::text(kind)),
            ("relnatts", Value::Int2(columns as i16)),
            ("relispopulated", Value::Bool(true)),
        ]
    };
    for relation in Relation::all() {
        let own = [
            ("relnamespace", namespace(around, relation.schema)),
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
            ("relnamespace", namespace(around, &table.schema)),
            ("relam", Value::Oid(HEAP)),
            ("relfilenode", Value::Oid(table.id)),
            ("relhasindex", Value::Bool(shown(&table).next().is_some())),
            ("relchecks", Value::Int2(table.rules.checks.len() as i16)),
            (
                "relhastriggers",
                Value::Bool(
                    !table.rules.foreign_keys.is_empty() || !table.rules.referenced_by.is_empty(),
                ),
            ),
            ("relreplident", Value::text("d")),
        ];
        let all = common(table.id, &table.name, "r", table.columns.len());
        rows.add(all.into_iter().chain(own));
        for index in shown(&table) {
            let own = [
                ("relnamespace", namespace(around, &table.schema)),
                ("relam", Value::Oid(method(index))),
                ("relfilenode", Value::Oid(index.id)),
                ("relreplident", Value::text("n")),
            ];
            let all = common(
                index.id,
                &index.name,
                "i",
                index.columns.len() + index.more.include.len(),
            );
            rows.add(all.into_iter().chain(own));
        }
    }
    for view in around.snapshot.views() {
        let own = [
            ("relnamespace", namespace(around, &view.schema)),
            ("relhasrules", Value::Bool(true)),
            ("relreplident", Value::text("n")),
        ];
        let all = common(view.id, &view.name, "v", view.columns.len());
        rows.add(all.into_iter().chain(own));
    }
    for sequence in around.snapshot.sequences() {
        let own = [
            ("relnamespace", namespace(around, &sequence.schema)),
            ("relfilenode", Value::Oid(sequence.id)),
            ("reltuples", Value::Float4(1.0)),
            ("relreplident", Value::text("n")),
        ];
        let all = common(sequence.id, &sequence.name, "S", SEQUENCE_COLUMNS.len());
        rows.add(all.into_iter().chain(own));
    }
}

/// What a sequence has as a relation.
const SEQUENCE_COLUMNS: [(&str, Type); 3] = [
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

/// What PostgreSQL keeps of a type with each column.
fn column(name: &str, ty: Type, number: i16) -> [(&'static str, Value); 13] {
    let (by_value, align, storage) = match ty.kind.size() {
        1 => (true, "c", "p"),
        2 => (true, "s", "p"),
        4 => (true, "i", "p"),
        8 => (true, "d", "p"),
        16 => (false, "c", "p"),
        64 => (false, "c", "p"),
        _ if ty.kind == TypeKind::Numeric => (false, "i", "m"),
        _ => (false, "i", "x"),
    };
    let collation = match ty.kind {
        TypeKind::Text | TypeKind::VarChar | TypeKind::BpChar => DEFAULT_COLLATION,
        // C, for names.
        TypeKind::Name => 950,
        _ => 0,
    };
    [
        ("attname", Value::text(name)),
        ("atttypid", Value::Oid(ty.oid())),
        ("attstattarget", Value::Int4(-1)),
        ("attlen", Value::Int2(ty.kind.size())),
        ("attnum", Value::Int2(number)),
        ("attcacheoff", Value::Int4(-1)),
        ("atttypmod", Value::Int4(ty.typmod)),
        ("attbyval", Value::Bool(by_value)),
        ("attalign", Value::text(align)),
        ("attstorage", Value::text(storage)),
        ("attislocal", Value::Bool(true)),
        ("attcollation", Value::Oid(collation)),
        ("attisdropped", Value::Bool(false)),
    ]
}

/// `pg_attribute`.
pub fn attributes(rows: &mut Rows, around: &Around<'_>) {
    for relation in Relation::all() {
        for (number, (name, ty)) in (1..).zip(&relation.columns) {
            let own = [("attrelid", Value::Oid(relation.oid))];
            rows.add(column(name, *ty, number).into_iter().chain(own));
        }
    }
    for table in around.snapshot.tables() {
        for of in &table.columns {
            let own = [
                ("attrelid", Value::Oid(table.id)),
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
            rows.add(column(&of.name, of.ty, of.attnum).into_iter().chain(own));
        }
        for index in shown(&table) {
            let keys = index.columns.iter().map(|key| key.column);
            let all = keys.chain(index.more.include.iter().copied());
            for (number, at) in (1..).zip(all) {
                let of = &table.columns[at];
                let own = [("attrelid", Value::Oid(index.id))];
                rows.add(column(&of.name, of.ty, number).into_iter().chain(own));
            }
        }
    }
    for view in around.snapshot.views() {
        for (number, (name, ty)) in (1..).zip(&view.columns) {
            let own = [("attrelid", Value::Oid(view.id))];
            rows.add(column(name, *ty, number).into_iter().chain(own));
        }
    }
    for sequence in around.snapshot.sequences() {
        for (number, (name, ty)) in (1..).zip(&SEQUENCE_COLUMNS) {
            let own = [
                ("attrelid", Value::Oid(sequence.id)),
                ("attnotnull", Value::Bool(true)),
            ];
            rows.add(column(name, *ty, number).into_iter().chain(own));
        }
    }
}

/// The sequence that a default takes its values of.
fn sequence_of<'a>(snapshot: &'a Snapshot, default: Option<&String>) -> Option<&'a SequenceDef> {
    let default = default?;
    let mut all = snapshot.sequences();
    let called = |sequence: &&Arc<SequenceDef>| {
        let name = quoted(&sequence.name).replace('\'', "''");
        [name.clone(), format!("{}.{name}", sequence.schema)]
            .iter()
            .any(|name| default.contains(&format!("nextval('{name}'")))
    };
    all.find(called).map(|sequence| &**sequence)
}

/// The sequence that goes with a column.
pub fn serial_sequence(snapshot: &Snapshot, table: &str, column: &str) -> Option<String> {
    let table = snapshot.table(None, table).ok()??;
    let column = &table.columns[table.column(column)?];
    let sequence = sequence_of(snapshot, column.default.as_ref())?;
    let owned = sequence.owner == Some(table.id);
    owned.then(|| format!("{}.{}", quoted(&sequence.schema), quoted(&sequence.name)))
}

/// Does a sequence give an identity column its values?
pub fn is_of_identity(around: &Around<'_>, sequence: &SequenceDef) -> bool {
    let table = sequence
        .owner
        .and_then(|owner| around.snapshot.relation(owner));
    table.is_some_and(|table| {
        let mut identities = table
            .columns
            .iter()
            .filter(|column| column.more.identity.is_some());
        identities.any(|column| {
            let of = sequence_of(around.snapshot, column.default.as_ref());
            of.is_some_and(|of| of.id == sequence.id)
        })
    })
}

/// `pg_sequence`.
pub fn sequences(rows: &mut Rows, around: &Around<'_>) {
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

/// `pg_depend`: the sequences that go with columns.
pub fn dependencies(rows: &mut Rows, around: &Around<'_>) {
    for table in around.snapshot.tables() {
        for column in &table.columns {
            let sequence = sequence_of(around.snapshot, column.default.as_ref());
            let owned = sequence.filter(|sequence| sequence.owner == Some(table.id));
            let Some(sequence) = owned else { continue };
            let kind = if column.more.identity.is_some() {
                "i"
            } else {
                "a"
            };
            rows.add([
                ("classid", Value::Oid(CLASS_CLASS)),
                ("objid", Value::Oid(sequence.id)),
                ("refclassid", Value::Oid(CLASS_CLASS)),
                ("refobjid", Value::Oid(table.id)),
                ("refobjsubid", Value::Int4(i32::from(column.attnum))),
                ("deptype", Value::text(kind)),
            ]);
        }
    }
}

/// The oid of `pg_class`.
const CLASS_CLASS: u32 = 1259;

/// `pg_description`.
pub fn descriptions(rows: &mut Rows, around: &Around<'_>) {
    for table in around.snapshot.tables() {
        for (column, text) in &table.rules.comments {
            let number = column.map_or(0, |at| i32::from(table.columns[at].attnum));
            rows.add([
                ("objoid", Value::Oid(table.id)),
                ("classoid", Value::Oid(CLASS_CLASS)),
                ("objsubid", Value::Int4(number)),
                ("description", Value::text(text)),
            ]);
        }
    }
}

/// The comment on a table, or on a column of it by its number.
pub fn comment(snapshot: &Snapshot, table: u32, column: Option<i64>) -> Option<String> {
    let table = snapshot.relation(table).filter(|of| of.id == table)?;
    let mut all = table.rules.comments.iter();
    let wanted = |on: &Option<usize>| on.map(|at| i64::from(table.columns[at].attnum)) == column;
    all.find(|(on, _)| wanted(on)).map(|(_, text)| text.clone())
}

/// The default of a column, or what it is generated by. An identity has a sequence instead. What is only a text has its
/// type written with it.
pub fn expression(column: &ColumnDef) -> Option<String> {
    if let Some(generated) = &column.more.generated {
        return Some(format!("({generated})"));
    }
    let default = column.default.as_ref();
    let default = default.filter(|_| column.more.identity.is_none())?;
    let inside = default
        .strip_prefix('\'')
        .and_then(|rest| rest.strip_suffix('\''));
    Some(match inside {
        Some(inside) if !inside.replace("''", "").contains('\'') => {
            format!("{default}::{}", column.ty.kind.name())
        }
        _ => default.clone(),
    })
}

/// `pg_attrdef`: the expressions are kept as they were written.
pub fn defaults(rows: &mut Rows, around: &Around<'_>) {
    for table in around.snapshot.tables() {
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

/// What has no oid of its own has one of its table's, which no other of its kind has.
fn part_oid(table: u32, number: i16) -> u32 {
    const COLUMNS_MAX: u32 = 1600;
    table
        .wrapping_mul(COLUMNS_MAX)
        .wrapping_add(u32::from(number.unsigned_abs()))
}

/// `pg_index`.
pub fn indexes(rows: &mut Rows, around: &Around<'_>) {
    for table in around.snapshot.tables() {
        for index in shown(&table) {
            let keys = index.columns.iter();
            let every = |of: &dyn Fn(usize) -> Value| vector((0..index.columns.len()).map(of));
            let option = |at: usize| {
                let key = index.columns[at];
                Value::Int2(i16::from(key.desc) | i16::from(key.nulls_first) << 1)
            };
            let ty = |at: usize| table.columns[index.columns[at].column].ty;
            let collation = |at: usize| match ty(at).kind.is_string() {
                true => Value::Oid(DEFAULT_COLLATION),
                false => Value::Oid(0),
            };
            let class = |at: usize| Value::Oid(class_of(ty(at).kind, index.kind));
            let include = index.more.include.iter().copied();
            let numbers = keys.clone().map(|key| key.column).chain(include);
            let numbers = numbers.map(|at| Value::Int2(table.columns[at].attnum));
            let predicate = index.more.predicate.as_ref();
            rows.add([
                ("indexrelid", Value::Oid(index.id)),
                ("indrelid", Value::Oid(table.id)),
                (
                    "indnatts",
                    Value::Int2((keys.len() + index.more.include.len()) as i16),
                ),
                ("indnkeyatts", Value::Int2(keys.len() as i16)),
                ("indisunique", Value::Bool(index.unique)),
                ("indisprimary", Value::Bool(index.primary)),
                ("indimmediate", Value::Bool(true)),
                ("indisvalid", Value::Bool(true)),
                ("indisready", Value::Bool(true)),
                ("indislive", Value::Bool(true)),
                ("indkey", vector(numbers)),
                (
                    "indpred",
                    predicate.map_or(Value::Null, |of| Value::text(format!("({})", of.text))),
                ),
                ("indcollation", every(&collation)),
                ("indclass", every(&class)),
                ("indoption", every(&option)),
            ]);
        }
    }
}

/// The operator class by which an index compares values of a type.
fn class_of(kind: TypeKind, index: IndexKind) -> u32 {
    use TypeKind as T;
    let (btree, hash) = match kind {
        T::Bool => (10003, 10048),
        T::Bytea => (10006, 10049),
        T::Char => (10007, 10008),
        T::Name => (10028, 10029),
        T::Int8 => (3124, 10021),
        T::Int2 => (1979, 10019),
        T::Int4 => (1978, 10020),
        T::Float4 => (10012, 10013),
        T::Float8 => (3123, 10014),
        T::Numeric => (3125, 10030),
        T::BpChar => (10004, 10005),
        T::Date => (3122, 10011),
        T::Timestamp => (3128, 10046),
        T::TimestampTz => (3127, 10040),
        T::Uuid => (10065, 10066),
        T::Oid => (1981, 10031),
        _ => (3126, 10037),
    };
    match index {
        IndexKind::BTree => btree,
        IndexKind::Hash => hash,
    }
}

/// `pg_constraint`: those that indexes keep have the oids of these.
pub fn constraints(rows: &mut Rows, around: &Around<'_>) {
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
                ("convalidated", Value::Bool(true)),
                ("conrelid", Value::Oid(table.id)),
                ("conislocal", Value::Bool(true)),
                ("connoinherit", Value::Bool(kind != "c")),
                ("conkey", Array::of(keys.collect()).into()),
            ];
            rows.add(own.into_iter().chain(more(&constraint, around)));
        }
    }
}

/// What only some constraints have.
fn more(constraint: &Constraint<'_>, around: &Around<'_>) -> Vec<(&'static str, Value)> {
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
            let mut all = vec![("conindid", Value::Oid(index.id))];
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

/// The index by which a parent's rows are found (FK-1).
pub fn parent_index<'a>(parent: &'a TableDef, key: &ForeignKeyDef) -> Option<&'a IndexDef> {
    parent.indexes.iter().find(|index| {
        let same = index.columns.len() == key.parent_columns.len();
        index.unique && same && key.parent_columns.iter().all(|at| index.covers(*at))
    })
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
