//! Functions that take arrays and elements of any one type.
//!
//! All `anyarray` arguments and the elements of `anyelement` ones get the type that they have in common,
//! which is also that of the result. Unknown literals are of that type too.

use super::coerce::common_type;
use crate::bound::{Expr, Node};
use crate::error::{SqlError, SqlState};
use crate::functions::ScalarFunction;
use crate::types::{Type, TypeKind};
use crate::value::Value;

/// Has its signature a polymorphic type?
pub(super) fn is_polymorphic(function: &ScalarFunction) -> bool {
    function.args.iter().any(|a| a.is_polymorphic())
}

/// The type that `AnyElement` is in a call with these arguments; `None` where they do not go together.
/// Unknown where nothing tells it.
pub(super) fn element(params: &[TypeKind], types: &[Type]) -> Option<Type> {
    let mut known = Vec::new();
    for (param, ty) in params.iter().zip(types) {
        let element = match param {
            _ if *ty == Type::UNKNOWN => continue,
            TypeKind::AnyArray => ty.element()?,
            // A function over elements is one over arrays as well.
            TypeKind::AnyElement => *ty,
            _ => continue,
        };
        known.push(Expr::new(Type::of(element.kind), Node::Const(Value::Null)));
    }
    match known.is_empty() {
        true => Some(Type::UNKNOWN),
        false => common_type(&known, "").ok(),
    }
}

/// Returns the modifier of the result of a call over `char(n)` and arrays of that: the one of all of them. Blanks are part
/// of such values, though a call of PostgreSQL's has no modifier.
pub(super) fn blanks(params: &[TypeKind], types: &[Type]) -> Option<i32> {
    let mut found: Option<i32> = None;
    for (param, ty) in params.iter().zip(types) {
        if !matches!(param, TypeKind::AnyArray | TypeKind::AnyElement) || *ty == Type::UNKNOWN {
            continue;
        }
        let of = ty.element().unwrap_or(*ty);
        if of.kind != TypeKind::BpChar || *found.get_or_insert(of.typmod) != of.typmod {
            return None;
        }
    }
    found
}

/// What a parameter is where `AnyElement` is `element`.
pub(super) fn parameter(param: TypeKind, element: Type, given: Type) -> Result<Type, SqlError> {
    let array = || {
        element.array().ok_or_else(|| {
            SqlError::new(
                SqlState::UNDEFINED_OBJECT,
                format!("could not find array type for data type {element}"),
            )
        })
    };
    match param {
        TypeKind::Any => Ok(given),
        TypeKind::AnyArray => array(),
        TypeKind::AnyElement => Ok(element),
        other => Ok(Type::of(other)),
    }
}

/// 42804: nothing but unknown arguments.
pub(super) fn undetermined() -> SqlError {
    SqlError::new(
        SqlState::DATATYPE_MISMATCH,
        "could not determine polymorphic type because input has type unknown",
    )
}
