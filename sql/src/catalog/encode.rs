//! Definitions as bytes: what the catalog's rows hold.
//!
//! Numbers are little endian, strings and lists carry their length first, and the first byte is the
//! format's version. Bytes that make no definition are an error, never a panic.
//!
//! Tables of format 3 have no constraints but their keys, and plain columns; those of format 2 one guard besides;
//! those of format 1 no partitions either, and each index has one root. They are still read. A program that knows
//! less than format 4 refuses it.

use super::def::{
    ColumnDef, IndexColumn, IndexDef, IndexKind, IndexMore, Predicate, RoleDef, TableDef,
};
use super::guard::Guards;
use super::partition::{PARTITIONS_MAX, Partitioning, Roots};
use super::rules::{CheckDef, ColumnMore, ForeignKeyDef, Identity, Referential, TableRules};
use super::sequence::SequenceDef;
use super::view::ViewDef;
use crate::binder::index_condition;
use crate::error::{SqlError, SqlState};
use crate::row::RowLayout;
use crate::types::{Type, TypeKind};

const TABLE_FORMAT: u8 = 4;
/// Of tables without rules, all of whose columns are plain.
const TABLE_FORMAT_NO_RULES: u8 = 3;
/// Of tables with one guard.
const TABLE_FORMAT_ONE_GUARD: u8 = 2;
/// Of tables before there were partitions.
const TABLE_FORMAT_WHOLE: u8 = 1;
/// Most guards of a table.
const GUARDS_MAX: u32 = 1024;
const ROLE_FORMAT: u8 = 1;
/// Of sequences, which are among the tables.
const SEQUENCE_FORMAT: u8 = 0x40;
/// Of views, which are among the tables.
const VIEW_FORMAT: u8 = 0x41;
/// Of schemas, which are among the tables.
const SCHEMA_FORMAT: u8 = 0x42;

/// The bytes of a table's definition.
pub(super) fn encode_table(table: &TableDef) -> Vec<u8> {
    let mut out = Writer(vec![TABLE_FORMAT]);
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
    out.u32(table.indexes.len() as u32);
    for index in &table.indexes {
        encode_index(index, &mut out);
    }
    encode_rules(&table.rules, &mut out);
    out.0
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
        // It was refused when the column was added.
        words.clear();
    }
    out.u32(words.len() as u32);
    words.iter().for_each(|word| out.u64(*word));
}

fn encode_rules(rules: &TableRules, out: &mut Writer) {
    out.u32(rules.checks.len() as u32);
    for check in &rules.checks {
        out.u32(check.id);
        out.text(&check.name);
        out.text(&check.text);
    }
    out.u32(rules.foreign_keys.len() as u32);
    for key in &rules.foreign_keys {
        out.u32(key.id);
        out.text(&key.name);
        out.list(key.columns.iter().map(|c| *c as u32));
        out.u32(key.parent);
        out.list(key.parent_columns.iter().map(|c| *c as u32));
        out.0.push(referential_byte(key.on_delete));
        out.0.push(referential_byte(key.on_update));
        out.flag(key.full);
        out.flag(key.deferrable);
        out.flag(key.deferred);
    }
    out.list(rules.referenced_by.iter().copied());
    out.u32(rules.comments.len() as u32);
    for (column, text) in &rules.comments {
        out.u32(column.map_or(0, |column| column as u32 + 1));
        out.text(text);
    }
}

/// What can become of a row that references, as it is stored.
const REFERENTIAL: [Referential; 5] = [
    Referential::NoAction,
    Referential::Restrict,
    Referential::Cascade,
    Referential::SetNull,
    Referential::SetDefault,
];

fn referential_byte(action: Referential) -> u8 {
    let mut all = (0..).zip(REFERENTIAL);
    all.find(|(_, a)| *a == action).map_or(0, |(byte, _)| byte)
}

fn encode_index(index: &IndexDef, out: &mut Writer) {
    out.u32(index.id);
    out.text(&index.name);
    out.flag(index.kind == IndexKind::Hash);
    out.flag(index.unique);
    out.flag(index.primary);
    out.flag(index.constraint);
    out.flag(index.roots.are_partitioned());
    for root in index.roots.all() {
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

/// The table's definition that `bytes` hold.
pub(super) fn decode_table(bytes: &[u8]) -> Result<TableDef, SqlError> {
    read_table(&mut Reader(bytes)).ok_or_else(corrupt)
}

fn read_table(input: &mut Reader<'_>) -> Option<TableDef> {
    let format = input.u8()?;
    let (whole, one_guard) = match format {
        TABLE_FORMAT | TABLE_FORMAT_NO_RULES => (false, false),
        TABLE_FORMAT_ONE_GUARD => (false, true),
        TABLE_FORMAT_WHOLE => (true, true),
        _ => return None,
    };
    let has_rules = format == TABLE_FORMAT;
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
                kind: TypeKind::from_oid(input.u32()?)?,
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
        rules: TableRules::default(),
        version,
        guards,
    };
    for _ in 0..input.u32()? {
        let index = read_index(input, &table, (whole, has_rules))?;
        table.indexes.push(index);
    }
    if has_rules {
        table.rules = read_rules(input, table.columns.len())?;
    }
    let first = table.indexes.first()?;
    let reached = first.roots.are_partitioned() == partitioning.is_some();
    (input.0.is_empty() && reached).then_some(table)
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
    })
}

/// The rules of a table of so many columns.
fn read_rules(input: &mut Reader<'_>, width: usize) -> Option<TableRules> {
    let mut rules = TableRules::default();
    for _ in 0..input.u32()? {
        rules.checks.push(CheckDef {
            id: input.u32()?,
            name: input.text()?,
            text: input.text()?,
        });
    }
    for _ in 0..input.u32()? {
        let id = input.u32()?;
        let name = input.text()?;
        let columns = input.positions()?;
        let parent = input.u32()?;
        let parent_columns = input.positions()?;
        let fits = columns.len() == parent_columns.len() && columns.iter().all(|c| *c < width);
        if columns.is_empty() || !fits {
            return None;
        }
        rules.foreign_keys.push(ForeignKeyDef {
            id,
            name,
            columns,
            parent,
            parent_columns,
            on_delete: *REFERENTIAL.get(usize::from(input.u8()?))?,
            on_update: *REFERENTIAL.get(usize::from(input.u8()?))?,
            full: input.flag()?,
            deferrable: input.flag()?,
            deferred: input.flag()?,
        });
    }
    rules.referenced_by = input.list()?;
    for _ in 0..input.u32()? {
        let column = (input.u32()? as usize).checked_sub(1);
        if column.is_some_and(|column| column >= width) {
            return None;
        }
        rules.comments.push((column, input.text()?));
    }
    Some(rules)
}

/// An index of `table`; with one root and no word of more where it is `whole`.
fn read_index(
    input: &mut Reader<'_>,
    table: &TableDef,
    (whole, has_more): (bool, bool),
) -> Option<IndexDef> {
    let id = input.u32()?;
    let name = input.text()?;
    let hash = input.flag()?;
    let unique = input.flag()?;
    let primary = input.flag()?;
    let constraint = input.flag()?;
    let roots = match !whole && input.flag()? {
        false => Roots::One(input.u64()?),
        true => {
            let each = 0..table.partitioning?.count;
            Roots::Each(each.map(|_| input.u64()).collect::<Option<_>>()?)
        }
    };
    let mut columns = Vec::new();
    for _ in 0..input.u32()? {
        let column = input.u32()? as usize;
        if column >= table.columns.len() {
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
    let mut more = IndexMore::default();
    if has_more {
        more.include = input.positions()?;
        if more.include.iter().any(|c| *c >= table.columns.len()) {
            return None;
        }
        if let Some(text) = input.optional()? {
            let condition = index_condition(table, &text).ok()?;
            more.predicate = Some(Predicate { text, condition });
        }
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

/// The bytes of a sequence's definition.
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

/// Are these bytes a sequence's definition?
pub(super) fn is_sequence(bytes: &[u8]) -> bool {
    bytes.first() == Some(&SEQUENCE_FORMAT)
}

/// The sequence's definition that `bytes` hold.
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

/// The bytes of a schema's definition.
pub(super) fn encode_schema(id: u32, name: &str) -> Vec<u8> {
    let mut out = Writer(vec![SCHEMA_FORMAT]);
    out.u32(id);
    out.text(name);
    out.0
}

/// The name and oid of the schema whose definition these bytes are, if they are one's.
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

/// The bytes of a view's definition.
pub(super) fn encode_view(view: &ViewDef) -> Vec<u8> {
    let mut out = Writer(vec![VIEW_FORMAT]);
    out.u32(view.id);
    out.text(&view.schema);
    out.text(&view.name);
    out.u32(view.columns.len() as u32);
    for (name, ty) in &view.columns {
        out.text(name);
        out.u32(ty.kind.oid());
        out.u32(ty.typmod as u32);
    }
    out.text(&view.text);
    out.list(view.tables.iter().copied());
    out.list(view.views.iter().copied());
    out.0
}

/// Are these bytes a view's definition?
pub(super) fn is_view(bytes: &[u8]) -> bool {
    bytes.first() == Some(&VIEW_FORMAT)
}

/// The view's definition that `bytes` hold.
pub(super) fn decode_view(bytes: &[u8]) -> Result<ViewDef, SqlError> {
    read_view(&mut Reader(bytes)).ok_or_else(corrupt)
}

fn read_view(input: &mut Reader<'_>) -> Option<ViewDef> {
    if input.u8()? != VIEW_FORMAT {
        return None;
    }
    let id = input.u32()?;
    let schema = input.text()?;
    let name = input.text()?;
    let mut columns = Vec::new();
    for _ in 0..input.u32()? {
        let name = input.text()?;
        let ty = Type {
            kind: TypeKind::from_oid(input.u32()?)?,
            typmod: input.u32()? as i32,
        };
        columns.push((name, ty));
    }
    let view = ViewDef {
        id,
        schema,
        name,
        columns,
        text: input.text()?,
        tables: input.list()?,
        views: input.list()?,
    };
    input.0.is_empty().then_some(view)
}

/// The bytes of a role's definition.
pub(super) fn encode_role(role: &RoleDef) -> Vec<u8> {
    let mut out = Writer(vec![ROLE_FORMAT]);
    out.u32(role.id);
    out.text(&role.name);
    out.flag(role.superuser);
    out.flag(role.login);
    out.optional(role.verifier.as_deref());
    out.0
}

/// The role's definition that `bytes` hold.
pub(super) fn decode_role(bytes: &[u8]) -> Result<RoleDef, SqlError> {
    read_role(&mut Reader(bytes)).ok_or_else(corrupt)
}

fn read_role(input: &mut Reader<'_>) -> Option<RoleDef> {
    if input.u8()? != ROLE_FORMAT {
        return None;
    }
    let role = RoleDef {
        id: input.u32()?,
        name: input.text()?,
        superuser: input.flag()?,
        login: input.flag()?,
        verifier: input.optional()?,
    };
    input.0.is_empty().then_some(role)
}

fn corrupt() -> SqlError {
    SqlError::new(
        SqlState::new(b"XX001"),
        "a stored definition cannot be read",
    )
}

struct Writer(Vec<u8>);

impl Writer {
    fn u32(&mut self, v: u32) {
        self.0.extend_from_slice(&v.to_le_bytes());
    }

    fn u64(&mut self, v: u64) {
        self.0.extend_from_slice(&v.to_le_bytes());
    }

    fn flag(&mut self, v: bool) {
        self.0.push(u8::from(v));
    }

    fn text(&mut self, s: &str) {
        self.u32(s.len() as u32);
        self.0.extend_from_slice(s.as_bytes());
    }

    fn list(&mut self, numbers: impl ExactSizeIterator<Item = u32>) {
        self.u32(numbers.len() as u32);
        numbers.for_each(|number| self.u32(number));
    }

    fn optional(&mut self, s: Option<&str>) {
        self.flag(s.is_some());
        if let Some(s) = s {
            self.text(s);
        }
    }
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, tail) = self.0.split_at_checked(N)?;
        self.0 = tail;
        head.try_into().ok()
    }

    fn u8(&mut self) -> Option<u8> {
        self.array::<1>().map(|b| b[0])
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    fn flag(&mut self) -> Option<bool> {
        match self.u8()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    fn text(&mut self) -> Option<String> {
        let length = self.u32()? as usize;
        let (head, tail) = self.0.split_at_checked(length)?;
        self.0 = tail;
        Some(std::str::from_utf8(head).ok()?.to_owned())
    }

    fn list(&mut self) -> Option<Vec<u32>> {
        (0..self.u32()?).map(|_| self.u32()).collect()
    }

    fn positions(&mut self) -> Option<Vec<usize>> {
        let list = self.list()?;
        Some(list.into_iter().map(|position| position as usize).collect())
    }

    fn optional(&mut self) -> Option<Option<String>> {
        match self.flag()? {
            true => self.text().map(Some),
            false => Some(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::Value;

    fn table() -> TableDef {
        TableDef {
            id: 16384,
            schema: "public".into(),
            name: "accounts".into(),
            columns: vec![ColumnDef {
                name: "a".into(),
                ty: Type::varchar(10),
                not_null: true,
                default: Some("'x'".into()),
                attnum: 1,
                more: ColumnMore::default(),
            }],
            indexes: vec![IndexDef {
                id: 16385,
                name: "accounts_pkey".into(),
                kind: IndexKind::Hash,
                unique: true,
                primary: true,
                constraint: true,
                columns: vec![IndexColumn {
                    column: 0,
                    desc: true,
                    nulls_first: false,
                }],
                more: IndexMore::default(),
                roots: Roots::One(77),
            }],
            partitioning: None,
            rules: TableRules::default(),
            version: 9,
            guards: Guards::at([88, 89]).expect("two"),
        }
    }

    fn partitioned() -> TableDef {
        let mut table = table();
        table.partitioning = Some(Partitioning {
            column: 0,
            kind: TypeKind::VarChar,
            count: 3,
            group: 16384,
        });
        table.indexes[0].roots = Roots::Each([7, 8, 9].into());
        table
    }

    fn ruled() -> TableDef {
        let mut table = table();
        table.columns[0].more = ColumnMore {
            generated: Some("a".into()),
            identity: Some(Identity::ByDefault),
            sequence: Some(17),
            missing: Some(Value::text("before")),
        };
        let text = "a <> ''".to_owned();
        let condition = index_condition(&table, &text).expect("it binds");
        table.indexes[0].more = IndexMore {
            include: vec![0],
            predicate: Some(Predicate { text, condition }),
        };
        table.rules = TableRules {
            checks: vec![CheckDef {
                id: 1,
                name: "c".into(),
                text: "a > 'b'".into(),
            }],
            foreign_keys: vec![ForeignKeyDef {
                id: 2,
                name: "f".into(),
                columns: vec![0],
                parent: 16384,
                parent_columns: vec![0],
                on_delete: Referential::SetDefault,
                on_update: Referential::Cascade,
                full: true,
                deferrable: true,
                deferred: false,
            }],
            referenced_by: vec![16384],
            comments: vec![(None, "t".into()), (Some(0), "c".into())],
        };
        table
    }

    #[test]
    fn definitions_come_back() {
        for table in [table(), partitioned(), ruled()] {
            let bytes = encode_table(&table);
            assert_eq!(decode_table(&bytes).expect("it decodes"), table);
            for cut in 0..bytes.len() {
                assert!(decode_table(&bytes[..cut]).is_err());
            }
        }
        let role = RoleDef {
            id: 10,
            name: "postgres".into(),
            superuser: true,
            login: true,
            verifier: None,
        };
        assert_eq!(decode_role(&encode_role(&role)).expect("it decodes"), role);
    }

    #[test]
    fn sequences_come_back() {
        let sequence = SequenceDef {
            id: 16400,
            schema: "public".into(),
            name: "s".into(),
            kind: TypeKind::Int2,
            start: -5,
            increment: -1,
            min: -32768,
            max: -1,
            cache: 7,
            cycle: true,
            owner: Some(16384),
            cell: 99,
        };
        let bytes = encode_sequence(&sequence);
        assert!(is_sequence(&bytes) && !is_sequence(&encode_table(&table())));
        assert_eq!(decode_sequence(&bytes).expect("it decodes"), sequence);
        for cut in 0..bytes.len() {
            assert!(decode_sequence(&bytes[..cut]).is_err());
        }
    }

    #[test]
    fn schemas_come_back() {
        let bytes = encode_schema(7, "s");
        let read = |bytes: &[u8]| decode_schema(bytes);
        assert_eq!(read(&bytes).expect("it decodes"), Some(("s".into(), 7)));
        assert!(read(&bytes[..bytes.len() - 1]).is_err());
        assert_eq!(read(&encode_table(&table())).expect("another"), None);
    }

    #[test]
    fn views_come_back() {
        let view = ViewDef {
            id: 16401,
            schema: "public".into(),
            name: "v".into(),
            columns: vec![("a".into(), Type::varchar(7)), ("b".into(), Type::INT8)],
            text: "SELECT 'x', 1".into(),
            tables: vec![16384, 16390],
            views: Vec::new(),
        };
        let bytes = encode_view(&view);
        assert!(is_view(&bytes) && !is_view(&encode_table(&table())));
        assert_eq!(decode_view(&bytes).expect("it decodes"), view);
        for cut in 0..bytes.len() {
            assert!(decode_view(&bytes[..cut]).is_err());
        }
    }

    #[test]
    fn tables_of_earlier_formats_are_still_read() {
        for format in [1, 2] {
            // Format 2 says in either place that there are no partitions.
            let no_partitions = |old: &mut Vec<u8>| old.extend((format == 2).then_some(0));
            let mut old = vec![format];
            old.extend(16384u32.to_le_bytes());
            for text in ["public", "accounts"] {
                old.extend((text.len() as u32).to_le_bytes());
                old.extend(text.as_bytes());
            }
            old.extend(9u64.to_le_bytes());
            old.extend(88u64.to_le_bytes());
            no_partitions(&mut old);
            old.extend([1, 0, 0, 0, 1, 0, 0, 0, b'a']);
            old.extend(1043u32.to_le_bytes());
            old.extend(14u32.to_le_bytes());
            old.extend([1, 1, 3, 0, 0, 0]);
            old.extend(b"'x'");
            old.extend(1u32.to_le_bytes());
            old.extend(16385u32.to_le_bytes());
            old.extend(13u32.to_le_bytes());
            old.extend(b"accounts_pkey");
            old.extend([1, 1, 1, 1]);
            no_partitions(&mut old);
            old.extend(77u64.to_le_bytes());
            old.extend([1, 0, 0, 0, 0, 0, 0, 0, 1, 0]);
            let mut expected = table();
            expected.guards = Guards::at([88]).expect("one");
            assert_eq!(decode_table(&old).expect("it decodes"), expected);
        }
    }

    #[test]
    fn roots_that_do_not_fit_the_partitions_are_refused() {
        let mut one_root = partitioned();
        one_root.indexes[0].roots = Roots::One(7);
        let mut none = partitioned();
        none.partitioning = None;
        let mut too_many = partitioned();
        too_many.indexes[0].roots = Roots::Each([7, 8, 9, 10].into());
        for table in [one_root, none, too_many] {
            assert!(decode_table(&encode_table(&table)).is_err());
        }
    }
}
