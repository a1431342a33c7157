//! The array types: one for each possible element type.

use super::{Citext, Composite, Enum, TypeKind};

/// The element type, OID, name and catalog name of each built-in array type.
const ARRAYS: [(TypeKind, u32, &str, &str); 34] = [
    (TypeKind::Bool, 1000, "boolean[]", "_bool"),
    (TypeKind::Bytea, 1001, "bytea[]", "_bytea"),
    (TypeKind::Name, 1003, "name[]", "_name"),
    (TypeKind::Int2, 1005, "smallint[]", "_int2"),
    (TypeKind::Int4, 1007, "integer[]", "_int4"),
    (TypeKind::Text, 1009, "text[]", "_text"),
    (TypeKind::BpChar, 1014, "character[]", "_bpchar"),
    (TypeKind::VarChar, 1015, "character varying[]", "_varchar"),
    (TypeKind::Int8, 1016, "bigint[]", "_int8"),
    (TypeKind::Float4, 1021, "real[]", "_float4"),
    (TypeKind::Float8, 1022, "double precision[]", "_float8"),
    (
        TypeKind::Timestamp,
        1115,
        "timestamp without time zone[]",
        "_timestamp",
    ),
    (TypeKind::Date, 1182, "date[]", "_date"),
    (TypeKind::Time, 1183, "time without time zone[]", "_time"),
    (
        TypeKind::TimestampTz,
        1185,
        "timestamp with time zone[]",
        "_timestamptz",
    ),
    (TypeKind::Interval, 1187, "interval[]", "_interval"),
    (TypeKind::Numeric, 1231, "numeric[]", "_numeric"),
    (TypeKind::TimeTz, 1270, "time with time zone[]", "_timetz"),
    (TypeKind::Uuid, 2951, "uuid[]", "_uuid"),
    (TypeKind::Json, 199, "json[]", "_json"),
    (TypeKind::Jsonb, 3807, "jsonb[]", "_jsonb"),
    (TypeKind::Oid, 1028, "oid[]", "_oid"),
    (TypeKind::Char, 1002, "\"char\"[]", "_char"),
    (TypeKind::RegClass, 2210, "regclass[]", "_regclass"),
    (TypeKind::RegType, 2211, "regtype[]", "_regtype"),
    (TypeKind::Record, 2287, "record[]", "_record"),
    (TypeKind::Cidr, 651, "cidr[]", "_cidr"),
    (TypeKind::MacAddr, 1040, "macaddr[]", "_macaddr"),
    (TypeKind::Inet, 1041, "inet[]", "_inet"),
    (TypeKind::RefCursor, 2201, "refcursor[]", "_refcursor"),
    (TypeKind::JsonPath, 4073, "jsonpath[]", "_jsonpath"),
    (TypeKind::Xid, 1011, "xid[]", "_xid"),
    // These types belong to the catalog, and their subscripts begin at 0. They follow the ordinary
    // arrays of the same elements.
    (TypeKind::Int2, INT2VECTOR, "int2vector", "int2vector"),
    (TypeKind::Oid, OIDVECTOR, "oidvector", "oidvector"),
];

const INT2VECTOR: u32 = 22;
const OIDVECTOR: u32 = 30;

/// The element type of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Element(ElementKind);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum ElementKind {
    /// A built-in type, by its index in the table.
    Listed(u8),
    Enum(Enum),
    Citext(Citext),
    Composite(Composite),
}

impl Element {
    /// name
    pub const NAME: Element = Element(ElementKind::Listed(2));
    /// integer
    pub const INT4: Element = Element(ElementKind::Listed(4));
    /// text
    pub const TEXT: Element = Element(ElementKind::Listed(5));

    /// Returns the element type itself.
    pub const fn kind(self) -> TypeKind {
        match self.0 {
            ElementKind::Listed(place) => ARRAYS[place as usize].0,
            ElementKind::Enum(of) => TypeKind::Enum(of),
            ElementKind::Citext(of) => TypeKind::Citext(of),
            ElementKind::Composite(of) => TypeKind::Composite(of),
        }
    }

    pub(super) const fn array_oid(self) -> u32 {
        match self.0 {
            ElementKind::Listed(place) => ARRAYS[place as usize].1,
            ElementKind::Enum(of) => of.definition().array_id,
            ElementKind::Citext(of) => of.definition().array_id,
            ElementKind::Composite(of) => of.definition().array_id,
        }
    }

    pub(super) const fn array_name(self) -> &'static str {
        match self.0 {
            ElementKind::Listed(place) => ARRAYS[place as usize].2,
            ElementKind::Enum(of) => of.definition().array_display_name.as_str(),
            ElementKind::Citext(of) => of.definition().array_display_name.as_str(),
            ElementKind::Composite(of) => of.definition().array_display_name.as_str(),
        }
    }

    pub(super) const fn array_catalog_name(self) -> &'static str {
        match self.0 {
            ElementKind::Listed(place) => ARRAYS[place as usize].3,
            ElementKind::Enum(of) => of.definition().array_name.as_str(),
            ElementKind::Citext(of) => of.definition().array_name.as_str(),
            ElementKind::Composite(of) => of.definition().array_name.as_str(),
        }
    }

    /// Returns the element type of the built-in array type whose OID and catalog name `matches`
    /// accepts.
    pub(super) fn find(matches: impl Fn(u32, &str) -> bool) -> Option<Element> {
        let place = ARRAYS.iter().position(|a| matches(a.1, a.3))?;
        Some(Element(ElementKind::Listed(place as u8)))
    }
}

const _: () = assert!(matches!(Element::NAME.kind(), TypeKind::Name));
const _: () = assert!(matches!(Element::INT4.kind(), TypeKind::Int4));
const _: () = assert!(matches!(Element::TEXT.kind(), TypeKind::Text));

impl TypeKind {
    /// Returns the array type of this type; `None` for arrays and for types that no column can
    /// have.
    pub fn array(self) -> Option<TypeKind> {
        if let TypeKind::Enum(of) = self {
            return Some(TypeKind::Array(Element(ElementKind::Enum(of))));
        }
        if let TypeKind::Citext(of) = self {
            return Some(TypeKind::Array(Element(ElementKind::Citext(of))));
        }
        if let TypeKind::Composite(of) = self {
            return Some(TypeKind::Array(Element(ElementKind::Composite(of))));
        }
        let place = ARRAYS.iter().position(|a| a.0 == self)?;
        Some(TypeKind::Array(Element(ElementKind::Listed(place as u8))))
    }

    /// Returns whether the type is int2vector or oidvector, which are written without braces.
    pub const fn is_vector(self) -> bool {
        matches!(self.oid(), INT2VECTOR | OIDVECTOR)
    }

    /// Returns the element type of an array.
    pub const fn element(self) -> Option<TypeKind> {
        match self {
            TypeKind::Array(element) => Some(element.kind()),
            _ => None,
        }
    }

    /// Returns whether the type stands for several types in the signature of a function.
    pub const fn is_polymorphic(self) -> bool {
        matches!(
            self,
            TypeKind::Any
                | TypeKind::AnyArray
                | TypeKind::AnyElement
                | TypeKind::AnyNonArray
                | TypeKind::AnyEnum
                | TypeKind::AnyCompatible
                | TypeKind::AnyCompatibleArray
                | TypeKind::AnyCompatibleNonArray
        )
    }
}
