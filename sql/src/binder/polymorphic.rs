//! Functions with polymorphic parameters.
//!
//! The elements of all `anyarray` arguments, and all `anyelement` arguments, are converted to their
//! common type. It also determines the type of the result. Unknown literals get that type too.

use super::coerce::common_type;
use crate::bound::{Expr, Node};
use crate::error::{SqlError, SqlState};
use crate::functions::ScalarFunction;
use crate::types::{Type, TypeKind};
use crate::value::Value;

/// Returns whether a parameter of the function has a polymorphic type.
pub(super) fn is_polymorphic(function: &ScalarFunction) -> bool {
    function.args.iter().any(|a| a.is_polymorphic())
}

/// Returns the type that stands for `AnyElement` in a call with these arguments; unknown if all are
/// unknown. `None` if the arguments have no common type.
pub(super) fn element(params: &[TypeKind], types: &[Type]) -> Option<Type> {
    let mut known = Vec::new();
    for (param, ty) in params.iter().zip(types) {
        let element = match param {
            _ if *ty == Type::UNKNOWN => continue,
            TypeKind::AnyArray => ty.element()?,
            // An `anyelement` parameter also takes arrays.
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

/// Returns the common type modifier of all `char(n)` arguments and arrays of `char(n)`, for the
/// result. Blanks are part of such values, although the result of a call in PostgreSQL has no type
/// modifier.
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

/// Returns the type of a parameter if `AnyElement` is `element`.
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

/// Returns the error 42804 for a call whose polymorphic arguments are all unknown.
pub(super) fn undetermined() -> SqlError {
    SqlError::new(
        SqlState::DATATYPE_MISMATCH,
        "could not determine polymorphic type because input has type unknown",
    )
}
