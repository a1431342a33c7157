//! The types: their names, oids, sizes and modifiers.

use std::fmt;

use super::{Citext, Composite, Domain, Element, Enum, interval};

/// A type with its modifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Type {
    /// The type without its modifier.
    pub kind: TypeKind,
    /// PostgreSQL's type modifier: length + 4 for char and varchar, `(precision << 16 | scale) + 4`
    /// for numeric, fractional digits for timestamps; -1 for none.
    pub typmod: i32,
}

/// The types, by PostgreSQL's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TypeKind {
    /// boolean
    Bool,
    /// smallint
    Int2,
    /// integer
    Int4,
    /// bigint
    Int8,
    /// real
    Float4,
    /// double precision
    Float8,
    /// numeric
    Numeric,
    /// text
    Text,
    /// character varying
    VarChar,
    /// character, blank-padded
    BpChar,
    /// name: the type of identifiers
    Name,
    /// bytea
    Bytea,
    /// date
    Date,
    /// timestamp without time zone
    Timestamp,
    /// timestamp with time zone
    TimestampTz,
    /// time without time zone
    Time,
    /// time with time zone
    TimeTz,
    /// interval
    Interval,
    /// uuid
    Uuid,
    /// inet: the address of a host, optionally with its network
    Inet,
    /// cidr: the address of a network
    Cidr,
    /// macaddr
    MacAddr,
    /// oid: the number of a catalog object
    Oid,
    /// xid: the version of a row
    Xid,
    /// "char": one byte, which the catalog uses for kinds of objects
    Char,
    /// regclass: the oid of a relation, shown by its name
    RegClass,
    /// regtype
    RegType,
    /// regproc: the oid of a function, shown by its name
    RegProc,
    /// regprocedure: the oid of a function, shown with the types of its arguments
    RegProcedure,
    /// regoper: the oid of an operator, shown by its name
    RegOper,
    /// regoperator: the oid of an operator, shown with the types of its operands
    RegOperator,
    /// regcollation
    RegCollation,
    /// regnamespace
    RegNamespace,
    /// regrole
    RegRole,
    /// json, as its original text
    Json,
    /// jsonb, in its canonical form
    Jsonb,
    /// jsonpath, in its canonical form
    JsonPath,
    /// refcursor: the name of a cursor
    RefCursor,
    /// An enum type.
    Enum(Enum),
    /// citext, the type of the extension.
    Citext(Citext),
    /// A domain. It is a type of columns and other targets, never of an expression.
    Domain(Domain),
    /// A composite type or the row type of a table.
    Composite(Composite),
    /// record: a row whose values carry their field names and types.
    Record,
    /// An array, of any number of dimensions.
    Array(Element),
    /// A literal or parameter whose type is not yet known.
    Unknown,
    /// The result of a function that returns nothing.
    Void,
    /// In a signature: any type, including unknown.
    Any,
    /// In a signature: an array, whose elements are the signature's `AnyElement`.
    AnyArray,
    /// In a signature: one type, the same at each occurrence.
    AnyElement,
    /// In a signature: like `AnyElement`, but not an array.
    AnyNonArray,
    /// In a signature: like `AnyElement`, but an enum.
    AnyEnum,
    /// In a signature: the common type of all such arguments.
    AnyCompatible,
    /// In a signature: an array of the signature's `AnyCompatible`.
    AnyCompatibleArray,
    /// In a signature: like `AnyCompatible`, but not an array.
    AnyCompatibleNonArray,
}

/// PostgreSQL's type categories, which guide implicit casts and the choice of operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TypeCategory {
    /// bool
    Boolean,
    /// numeric types
    Numeric,
    /// string types
    String,
    /// dates, times and timestamps
    DateTime,
    /// interval
    Timespan,
    /// inet and cidr
    Network,
    /// enums
    Enum,
    /// composite types
    Composite,
    /// arrays
    Array,
    /// all other types
    UserDefined,
    /// unknown
    Unknown,
    /// void
    Pseudo,
}

impl TypeKind {
    /// All built-in types that a column can have.
    pub const COLUMN_TYPES: [TypeKind; 29] = [
        TypeKind::Bool,
        TypeKind::Int2,
        TypeKind::Int4,
        TypeKind::Int8,
        TypeKind::Float4,
        TypeKind::Float8,
        TypeKind::Numeric,
        TypeKind::Text,
        TypeKind::VarChar,
        TypeKind::BpChar,
        TypeKind::Name,
        TypeKind::Bytea,
        TypeKind::Date,
        TypeKind::Timestamp,
        TypeKind::TimestampTz,
        TypeKind::Time,
        TypeKind::TimeTz,
        TypeKind::Interval,
        TypeKind::Uuid,
        TypeKind::Inet,
        TypeKind::Cidr,
        TypeKind::MacAddr,
        TypeKind::Oid,
        TypeKind::Xid,
        TypeKind::Char,
        TypeKind::Json,
        TypeKind::Jsonb,
        TypeKind::JsonPath,
        TypeKind::RefCursor,
    ];

    /// The polymorphic types of user-defined functions.
    pub const POLYMORPHIC: [TypeKind; 7] = [
        TypeKind::AnyArray,
        TypeKind::AnyElement,
        TypeKind::AnyNonArray,
        TypeKind::AnyEnum,
        TypeKind::AnyCompatible,
        TypeKind::AnyCompatibleArray,
        TypeKind::AnyCompatibleNonArray,
    ];

    /// The types of catalog objects, which are shown by name. No column of a user table has them.
    pub const OBJECT_TYPES: [TypeKind; 9] = [
        TypeKind::RegClass,
        TypeKind::RegType,
        TypeKind::RegProc,
        TypeKind::RegProcedure,
        TypeKind::RegOper,
        TypeKind::RegOperator,
        TypeKind::RegCollation,
        TypeKind::RegNamespace,
        TypeKind::RegRole,
    ];

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

    /// Returns the size in bytes on the wire, or -1 if it varies.
    pub const fn size(self) -> i16 {
        match self {
            TypeKind::Domain(of) => of.definition().base.kind.size(),
            TypeKind::Bool | TypeKind::Char => 1,
            TypeKind::Int2 => 2,
            TypeKind::Oid
            | TypeKind::Xid
            | TypeKind::RegClass
            | TypeKind::RegType
            | TypeKind::RegProc
            | TypeKind::RegProcedure
            | TypeKind::RegOper
            | TypeKind::RegOperator
            | TypeKind::RegCollation
            | TypeKind::RegNamespace
            | TypeKind::RegRole
            | TypeKind::Int4
            | TypeKind::Float4
            | TypeKind::Date
            | TypeKind::Enum(_)
            | TypeKind::Void
            | TypeKind::Any
            | TypeKind::AnyElement
            | TypeKind::AnyNonArray
            | TypeKind::AnyEnum
            | TypeKind::AnyCompatible
            | TypeKind::AnyCompatibleNonArray => 4,
            TypeKind::Int8
            | TypeKind::Float8
            | TypeKind::Timestamp
            | TypeKind::TimestampTz
            | TypeKind::Time => 8,
            TypeKind::MacAddr => 6,
            TypeKind::TimeTz => 12,
            TypeKind::Uuid | TypeKind::Interval => 16,
            TypeKind::Name => 64,
            TypeKind::Unknown => -2,
            TypeKind::Numeric
            | TypeKind::Text
            | TypeKind::Citext(_)
            | TypeKind::VarChar
            | TypeKind::BpChar
            | TypeKind::Bytea
            | TypeKind::Json
            | TypeKind::Jsonb
            | TypeKind::Inet
            | TypeKind::Cidr
            | TypeKind::Array(_)
            | TypeKind::Composite(_)
            | TypeKind::Record
            | TypeKind::JsonPath
            | TypeKind::RefCursor
            | TypeKind::AnyCompatibleArray
            | TypeKind::AnyArray => -1,
        }
    }

    /// Returns the type category.
    pub const fn category(self) -> TypeCategory {
        match self {
            TypeKind::Domain(of) => of.definition().base.kind.category(),
            TypeKind::Bool => TypeCategory::Boolean,
            TypeKind::Int2
            | TypeKind::Int4
            | TypeKind::Int8
            | TypeKind::Float4
            | TypeKind::Float8
            | TypeKind::Numeric
            | TypeKind::Oid
            | TypeKind::RegClass
            | TypeKind::RegType
            | TypeKind::RegProc
            | TypeKind::RegProcedure
            | TypeKind::RegOper
            | TypeKind::RegOperator
            | TypeKind::RegCollation
            | TypeKind::RegNamespace
            | TypeKind::RegRole => TypeCategory::Numeric,
            TypeKind::Text
            | TypeKind::Citext(_)
            | TypeKind::VarChar
            | TypeKind::BpChar
            | TypeKind::Name
            | TypeKind::Char => TypeCategory::String,
            TypeKind::Date
            | TypeKind::Timestamp
            | TypeKind::TimestampTz
            | TypeKind::Time
            | TypeKind::TimeTz => TypeCategory::DateTime,
            TypeKind::Interval => TypeCategory::Timespan,
            TypeKind::Inet | TypeKind::Cidr => TypeCategory::Network,
            TypeKind::Bytea
            | TypeKind::Uuid
            | TypeKind::MacAddr
            | TypeKind::Xid
            | TypeKind::Json
            | TypeKind::Jsonb
            | TypeKind::JsonPath
            | TypeKind::RefCursor => TypeCategory::UserDefined,
            TypeKind::Unknown => TypeCategory::Unknown,
            TypeKind::Enum(_) => TypeCategory::Enum,
            TypeKind::Array(_) => TypeCategory::Array,
            TypeKind::Composite(_) => TypeCategory::Composite,
            TypeKind::Record
            | TypeKind::Void
            | TypeKind::Any
            | TypeKind::AnyArray
            | TypeKind::AnyElement
            | TypeKind::AnyNonArray
            | TypeKind::AnyEnum
            | TypeKind::AnyCompatible
            | TypeKind::AnyCompatibleArray
            | TypeKind::AnyCompatibleNonArray => TypeCategory::Pseudo,
        }
    }

    /// Returns whether the type has an equality operator; for arrays, whether the element type has
    /// one.
    pub fn has_equality(self) -> bool {
        !matches!(
            self.element().unwrap_or(self),
            TypeKind::Json | TypeKind::JsonPath
        )
    }

    /// Returns whether values of the type have an order.
    pub fn has_order(self) -> bool {
        self.has_equality() && self.element().unwrap_or(self) != TypeKind::Xid
    }

    /// Returns whether it is the preferred type of its category.
    pub const fn is_preferred(self) -> bool {
        matches!(
            self,
            TypeKind::Bool
                | TypeKind::Float8
                | TypeKind::Text
                | TypeKind::TimestampTz
                | TypeKind::Interval
                | TypeKind::Inet
        )
    }

    /// Returns whether the type is smallint, integer or bigint.
    pub const fn is_integer(self) -> bool {
        matches!(self, TypeKind::Int2 | TypeKind::Int4 | TypeKind::Int8)
    }

    /// Returns whether the type's values are `Value::Text`.
    pub const fn is_string(self) -> bool {
        matches!(
            self,
            TypeKind::Text
                | TypeKind::VarChar
                | TypeKind::BpChar
                | TypeKind::Name
                | TypeKind::Char
                | TypeKind::RefCursor
                | TypeKind::JsonPath
                | TypeKind::Unknown
        )
    }

    /// Returns whether the type is user-defined, or an array of a user-defined type.
    pub const fn is_users(self) -> bool {
        match self {
            TypeKind::Enum(_)
            | TypeKind::Citext(_)
            | TypeKind::Domain(_)
            | TypeKind::Composite(_) => true,
            TypeKind::Array(element) => {
                matches!(
                    element.kind(),
                    TypeKind::Enum(_) | TypeKind::Citext(_) | TypeKind::Composite(_)
                )
            }
            _ => false,
        }
    }

    /// Returns whether the type is citext.
    pub const fn is_citext(self) -> bool {
        matches!(self, TypeKind::Citext(_))
    }

    /// Returns whether the type is one of catalog objects.
    pub const fn is_object(self) -> bool {
        matches!(
            self,
            TypeKind::RegClass
                | TypeKind::RegType
                | TypeKind::RegProc
                | TypeKind::RegProcedure
                | TypeKind::RegOper
                | TypeKind::RegOperator
                | TypeKind::RegCollation
                | TypeKind::RegNamespace
                | TypeKind::RegRole
        )
    }
}

impl Type {
    /// boolean
    pub const BOOL: Type = Type::of(TypeKind::Bool);
    /// smallint
    pub const INT2: Type = Type::of(TypeKind::Int2);
    /// integer
    pub const INT4: Type = Type::of(TypeKind::Int4);
    /// bigint
    pub const INT8: Type = Type::of(TypeKind::Int8);
    /// real
    pub const FLOAT4: Type = Type::of(TypeKind::Float4);
    /// double precision
    pub const FLOAT8: Type = Type::of(TypeKind::Float8);
    /// numeric without limits
    pub const NUMERIC: Type = Type::of(TypeKind::Numeric);
    /// text
    pub const TEXT: Type = Type::of(TypeKind::Text);
    /// name
    pub const NAME: Type = Type::of(TypeKind::Name);
    /// bytea
    pub const BYTEA: Type = Type::of(TypeKind::Bytea);
    /// date
    pub const DATE: Type = Type::of(TypeKind::Date);
    /// timestamp
    pub const TIMESTAMP: Type = Type::of(TypeKind::Timestamp);
    /// timestamptz
    pub const TIMESTAMPTZ: Type = Type::of(TypeKind::TimestampTz);
    /// time
    pub const TIME: Type = Type::of(TypeKind::Time);
    /// timetz
    pub const TIMETZ: Type = Type::of(TypeKind::TimeTz);
    /// interval
    pub const INTERVAL: Type = Type::of(TypeKind::Interval);
    /// uuid
    pub const UUID: Type = Type::of(TypeKind::Uuid);
    /// inet
    pub const INET: Type = Type::of(TypeKind::Inet);
    /// oid
    pub const OID: Type = Type::of(TypeKind::Oid);
    /// xid
    pub const XID: Type = Type::of(TypeKind::Xid);
    /// json
    pub const JSON: Type = Type::of(TypeKind::Json);
    /// jsonb
    pub const JSONB: Type = Type::of(TypeKind::Jsonb);
    /// refcursor
    pub const REFCURSOR: Type = Type::of(TypeKind::RefCursor);
    /// unknown
    pub const UNKNOWN: Type = Type::of(TypeKind::Unknown);

    /// Returns the type of the values: the root type of a domain, otherwise the type itself.
    pub fn plain(self) -> Type {
        match self.kind {
            TypeKind::Domain(of) => of.root(),
            _ => self,
        }
    }

    /// Returns the domain, if it is one.
    pub fn as_domain(self) -> Option<Domain> {
        match self.kind {
            TypeKind::Domain(of) => Some(of),
            _ => None,
        }
    }

    /// Returns the array type of this type, with its modifier.
    pub fn array(self) -> Option<Type> {
        let kind = self.kind.array()?;
        Some(Type { kind, ..self })
    }

    /// Returns the element type of an array, with its modifier.
    pub fn element(self) -> Option<Type> {
        let kind = self.kind.element()?;
        Some(Type { kind, ..self })
    }

    /// Returns the type without a modifier.
    pub const fn of(kind: TypeKind) -> Type {
        Type { kind, typmod: -1 }
    }

    /// Returns the type with a modifier.
    pub const fn with(kind: TypeKind, typmod: i32) -> Type {
        Type { kind, typmod }
    }

    /// Returns `varchar(n)`.
    pub const fn varchar(n: i32) -> Type {
        Type::with(TypeKind::VarChar, n + 4)
    }

    /// Returns `char(n)`.
    pub const fn char(n: i32) -> Type {
        Type::with(TypeKind::BpChar, n + 4)
    }

    /// Returns `numeric(precision, scale)`.
    pub const fn numeric(precision: u8, scale: u8) -> Type {
        Type::with(
            TypeKind::Numeric,
            ((precision as i32) << 16 | scale as i32) + 4,
        )
    }

    /// Returns PostgreSQL's OID.
    pub const fn oid(&self) -> u32 {
        self.kind.oid()
    }

    /// Returns the size in bytes on the wire, or -1 if it varies.
    pub const fn size(&self) -> i16 {
        self.kind.size()
    }

    /// Returns the declared length of a `char(n)` or `varchar(n)`, in characters.
    pub fn length(&self) -> Option<usize> {
        match self.kind {
            TypeKind::VarChar | TypeKind::BpChar if self.typmod >= 4 => {
                usize::try_from(self.typmod - 4).ok()
            }
            _ => None,
        }
    }

    /// Returns the declared precision and scale of a `numeric(p, s)`.
    pub fn precision_scale(&self) -> Option<(u32, u32)> {
        if self.kind != TypeKind::Numeric || self.typmod < 4 {
            return None;
        }
        let packed = (self.typmod - 4) as u32;
        Some((packed >> 16, packed & 0x7ff))
    }

    /// Returns the name with its modifier, as `format_type` shows it.
    pub fn name(&self) -> String {
        self.to_string()
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
