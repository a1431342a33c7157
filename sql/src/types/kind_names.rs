//! The names and oids of the types: in the catalog, in messages, and with a modifier.

use std::fmt;

use super::{Element, Type, TypeKind, interval};

impl TypeKind {
    /// Returns PostgreSQL's OID of the type.
    pub const fn oid(self) -> u32 {
        match self {
            TypeKind::Bool => 16,
            TypeKind::Bytea => 17,
            TypeKind::Char => 18,
            TypeKind::Name => 19,
            TypeKind::Int8 => 20,
            TypeKind::Int2 => 21,
            TypeKind::Int4 => 23,
            TypeKind::RegProc => 24,
            TypeKind::Text => 25,
            TypeKind::Oid => 26,
            TypeKind::Xid => 28,
            TypeKind::Float4 => 700,
            TypeKind::Float8 => 701,
            TypeKind::Unknown => 705,
            TypeKind::BpChar => 1042,
            TypeKind::VarChar => 1043,
            TypeKind::Date => 1082,
            TypeKind::Time => 1083,
            TypeKind::Timestamp => 1114,
            TypeKind::TimestampTz => 1184,
            TypeKind::Interval => 1186,
            TypeKind::TimeTz => 1266,
            TypeKind::Numeric => 1700,
            TypeKind::RegProcedure => 2202,
            TypeKind::RegOper => 2203,
            TypeKind::RegOperator => 2204,
            TypeKind::RegCollation => 4191,
            TypeKind::RegClass => 2205,
            TypeKind::RegType => 2206,
            TypeKind::Void => 2278,
            TypeKind::Cidr => 650,
            TypeKind::MacAddr => 829,
            TypeKind::Inet => 869,
            TypeKind::Uuid => 2950,
            TypeKind::RegNamespace => 4089,
            TypeKind::RegRole => 4096,
            TypeKind::Json => 114,
            TypeKind::Jsonb => 3802,
            TypeKind::Enum(of) => of.definition().id,
            TypeKind::Citext(of) => of.definition().id,
            TypeKind::Domain(of) => of.definition().id,
            TypeKind::Composite(of) => of.definition().id,
            TypeKind::Record => 2249,
            TypeKind::Array(element) => element.array_oid(),
            TypeKind::Any => 2276,
            TypeKind::AnyArray => 2277,
            TypeKind::AnyElement => 2283,
            TypeKind::AnyNonArray => 2776,
            TypeKind::AnyEnum => 3500,
            TypeKind::AnyCompatible => 5077,
            TypeKind::AnyCompatibleArray => 5078,
            TypeKind::AnyCompatibleNonArray => 5079,
            TypeKind::JsonPath => 4072,
            TypeKind::RefCursor => 1790,
        }
    }

    /// Returns the built-in type with this OID.
    pub fn from_oid(oid: u32) -> Option<TypeKind> {
        match oid {
            705 => return Some(TypeKind::Unknown),
            2249 => return Some(TypeKind::Record),
            _ => {}
        }
        let mut all = TypeKind::COLUMN_TYPES
            .into_iter()
            .chain(TypeKind::OBJECT_TYPES);
        all.find(|kind| kind.oid() == oid)
            .or_else(|| Element::find(|array, _| array == oid).map(TypeKind::Array))
    }

    /// Returns the built-in type with this name in the catalog.
    pub fn from_catalog_name(name: &str) -> Option<TypeKind> {
        if name == TypeKind::Record.name() {
            return Some(TypeKind::Record);
        }
        let mut all = TypeKind::COLUMN_TYPES
            .into_iter()
            .chain(TypeKind::OBJECT_TYPES);
        all.find(|kind| kind.catalog_name() == name)
            .or_else(|| Element::find(|_, array| array == name).map(TypeKind::Array))
    }

    /// Returns the name in messages and in `format_type`.
    pub const fn name(self) -> &'static str {
        match self {
            TypeKind::Bool => "boolean",
            TypeKind::Int2 => "smallint",
            TypeKind::Int4 => "integer",
            TypeKind::Int8 => "bigint",
            TypeKind::Float4 => "real",
            TypeKind::Float8 => "double precision",
            TypeKind::Numeric => "numeric",
            TypeKind::Text => "text",
            TypeKind::VarChar => "character varying",
            TypeKind::BpChar => "character",
            TypeKind::Name => "name",
            TypeKind::Bytea => "bytea",
            TypeKind::Date => "date",
            TypeKind::Timestamp => "timestamp without time zone",
            TypeKind::TimestampTz => "timestamp with time zone",
            TypeKind::Time => "time without time zone",
            TypeKind::TimeTz => "time with time zone",
            TypeKind::Interval => "interval",
            TypeKind::Uuid => "uuid",
            TypeKind::Inet => "inet",
            TypeKind::Cidr => "cidr",
            TypeKind::MacAddr => "macaddr",
            TypeKind::Oid => "oid",
            TypeKind::Xid => "xid",
            TypeKind::Char => "\"char\"",
            TypeKind::RegClass => "regclass",
            TypeKind::RegType => "regtype",
            TypeKind::RegProc => "regproc",
            TypeKind::RegProcedure => "regprocedure",
            TypeKind::RegOper => "regoper",
            TypeKind::RegOperator => "regoperator",
            TypeKind::RegCollation => "regcollation",
            TypeKind::RegNamespace => "regnamespace",
            TypeKind::RegRole => "regrole",
            TypeKind::Json => "json",
            TypeKind::Jsonb => "jsonb",
            TypeKind::Enum(of) => of.definition().display_name.as_str(),
            TypeKind::Citext(of) => of.definition().display_name.as_str(),
            TypeKind::Domain(of) => of.definition().display_name.as_str(),
            TypeKind::Composite(of) => of.definition().display_name.as_str(),
            TypeKind::Record => "record",
            TypeKind::Array(element) => element.array_name(),
            TypeKind::Unknown => "unknown",
            TypeKind::Void => "void",
            TypeKind::Any => "any",
            TypeKind::AnyArray => "anyarray",
            TypeKind::AnyElement => "anyelement",
            TypeKind::AnyNonArray => "anynonarray",
            TypeKind::AnyEnum => "anyenum",
            TypeKind::AnyCompatible => "anycompatible",
            TypeKind::AnyCompatibleArray => "anycompatiblearray",
            TypeKind::AnyCompatibleNonArray => "anycompatiblenonarray",
            TypeKind::JsonPath => "jsonpath",
            TypeKind::RefCursor => "refcursor",
        }
    }

    /// Returns the name in the catalog (`pg_type.typname`), which is also the output name of a
    /// cast.
    pub const fn catalog_name(self) -> &'static str {
        match self {
            TypeKind::Bool => "bool",
            TypeKind::Int2 => "int2",
            TypeKind::Int4 => "int4",
            TypeKind::Int8 => "int8",
            TypeKind::Float4 => "float4",
            TypeKind::Float8 => "float8",
            TypeKind::VarChar => "varchar",
            TypeKind::BpChar => "bpchar",
            TypeKind::Char => "char",
            TypeKind::Timestamp => "timestamp",
            TypeKind::TimestampTz => "timestamptz",
            TypeKind::Time => "time",
            TypeKind::TimeTz => "timetz",
            TypeKind::Enum(of) => of.definition().name.as_str(),
            TypeKind::Citext(of) => of.definition().name.as_str(),
            TypeKind::Domain(of) => of.definition().name.as_str(),
            TypeKind::Composite(of) => of.definition().name.as_str(),
            TypeKind::Array(element) => element.array_catalog_name(),
            other => other.name(),
        }
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let (Some(element), true) = (self.element(), self.typmod >= 0) {
            return write!(f, "{element}[]");
        }
        if let Some(n) = self.length() {
            return write!(f, "{}({n})", self.kind.name());
        }
        if let Some((p, s)) = self.precision_scale() {
            return write!(f, "numeric({p},{s})");
        }
        match (self.kind, self.typmod) {
            (TypeKind::Timestamp, p) if p >= 0 => write!(f, "timestamp({p}) without time zone"),
            (TypeKind::TimestampTz, p) if p >= 0 => write!(f, "timestamp({p}) with time zone"),
            (TypeKind::Time, p) if p >= 0 => write!(f, "time({p}) without time zone"),
            (TypeKind::TimeTz, p) if p >= 0 => write!(f, "time({p}) with time zone"),
            (TypeKind::Interval, p) if p >= 0 => interval::write_typmod(p, f),
            (kind, _) => f.write_str(kind.name()),
        }
    }
}

impl fmt::Display for TypeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
