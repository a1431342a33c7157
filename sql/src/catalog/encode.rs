//! Definitions as bytes: what the catalog's rows hold.
//!
//! Numbers are little endian, strings and lists carry their length first, and the first byte is the
//! format's version. Bytes that make no definition are an error, never a panic.

use super::def::{ColumnDef, IndexColumn, IndexDef, IndexKind, RoleDef, TableDef};
use crate::error::{SqlError, SqlState};
use crate::types::{Type, TypeKind};

const FORMAT: u8 = 1;

/// The bytes of a table's definition.
pub(super) fn encode_table(table: &TableDef) -> Vec<u8> {
    let mut out = Writer(vec![FORMAT]);
    out.u32(table.id);
    out.text(&table.schema);
    out.text(&table.name);
    out.u64(table.version);
    out.u64(table.guard);
    out.u32(table.columns.len() as u32);
    for column in &table.columns {
        out.text(&column.name);
        out.u32(column.ty.kind.oid());
        out.u32(column.ty.typmod as u32);
        out.flag(column.not_null);
        out.optional(column.default.as_deref());
    }
    out.u32(table.indexes.len() as u32);
    for index in &table.indexes {
        encode_index(index, &mut out);
    }
    out.0
}

fn encode_index(index: &IndexDef, out: &mut Writer) {
    out.u32(index.id);
    out.text(&index.name);
    out.flag(index.kind == IndexKind::Hash);
    out.flag(index.unique);
    out.flag(index.primary);
    out.flag(index.constraint);
    out.u64(index.root);
    out.u32(index.columns.len() as u32);
    for column in &index.columns {
        out.u32(column.column as u32);
        out.flag(column.desc);
        out.flag(column.nulls_first);
    }
}

/// The table's definition that `bytes` hold.
pub(super) fn decode_table(bytes: &[u8]) -> Result<TableDef, SqlError> {
    read_table(&mut Reader(bytes)).ok_or_else(corrupt)
}

fn read_table(input: &mut Reader<'_>) -> Option<TableDef> {
    if input.u8()? != FORMAT {
        return None;
    }
    let id = input.u32()?;
    let schema = input.text()?;
    let name = input.text()?;
    let version = input.u64()?;
    let guard = input.u64()?;
    let mut columns = Vec::new();
    for attnum in 0..input.u32()? {
        columns.push(ColumnDef {
            name: input.text()?,
            ty: Type {
                kind: TypeKind::from_oid(input.u32()?)?,
                typmod: input.u32()? as i32,
            },
            not_null: input.flag()?,
            default: input.optional()?,
            attnum: i16::try_from(attnum + 1).ok()?,
        });
    }
    let mut indexes = Vec::new();
    for _ in 0..input.u32()? {
        indexes.push(read_index(input, columns.len())?);
    }
    let whole = input.0.is_empty() && !indexes.is_empty();
    whole.then_some(TableDef {
        id,
        schema,
        name,
        columns,
        indexes,
        version,
        guard,
    })
}

fn read_index(input: &mut Reader<'_>, table_columns: usize) -> Option<IndexDef> {
    let id = input.u32()?;
    let name = input.text()?;
    let hash = input.flag()?;
    let unique = input.flag()?;
    let primary = input.flag()?;
    let constraint = input.flag()?;
    let root = input.u64()?;
    let mut columns = Vec::new();
    for _ in 0..input.u32()? {
        let column = input.u32()? as usize;
        if column >= table_columns {
            return None;
        }
        columns.push(IndexColumn {
            column,
            desc: input.flag()?,
            nulls_first: input.flag()?,
        });
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
        root,
    })
}

/// The bytes of a role's definition.
pub(super) fn encode_role(role: &RoleDef) -> Vec<u8> {
    let mut out = Writer(vec![FORMAT]);
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
    if input.u8()? != FORMAT {
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
                root: 77,
            }],
            version: 9,
            guard: 88,
        }
    }

    #[test]
    fn definitions_come_back() {
        let bytes = encode_table(&table());
        assert_eq!(decode_table(&bytes).expect("it decodes"), table());
        for cut in 0..bytes.len() {
            assert!(decode_table(&bytes[..cut]).is_err());
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
}
