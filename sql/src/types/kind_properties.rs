//! The properties of the types: size, category, operators, and the groups that they belong to.

use super::{TypeCategory, TypeKind};

impl TypeKind {
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
