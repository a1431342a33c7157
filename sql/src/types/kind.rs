//! The types and their modifiers.

use super::{Citext, Composite, Domain, Element, Enum};

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
