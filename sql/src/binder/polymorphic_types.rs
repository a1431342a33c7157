//! Polymorphic types in the signatures of user-defined functions, and their substitution in a call.
//!
//! All `anyelement`, `anyarray` … parameters of a call share one type. All `anycompatible` …
//! parameters share one common type to which their arguments have implicit casts. A call refers to
//! a function with the concrete types substituted ([`concrete`]); it is compiled like a separate
//! function.

use std::sync::Arc;

use super::coerce::{common_type, implicitly};
use crate::bound::{Expr, Node};
use crate::catalog::{PolymorphicInstance, RoutineArg, RoutineDef, RoutineResult, columns_of_row};
use crate::error::{SqlError, SqlState};
use crate::types::{Type, TypeKind};
use crate::value::Value;

/// The two groups of polymorphic types: all the same type, or one common type.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PolymorphicGroup {
    Same,
    Compatible,
}

fn polymorphic_group(kind: TypeKind) -> Option<PolymorphicGroup> {
    match kind {
        TypeKind::AnyElement | TypeKind::AnyNonArray | TypeKind::AnyEnum | TypeKind::AnyArray => {
            Some(PolymorphicGroup::Same)
        }
        TypeKind::AnyCompatible
        | TypeKind::AnyCompatibleArray
        | TypeKind::AnyCompatibleNonArray => Some(PolymorphicGroup::Compatible),
        _ => None,
    }
}

fn is_array(kind: TypeKind) -> bool {
    matches!(kind, TypeKind::AnyArray | TypeKind::AnyCompatibleArray)
}

/// Returns the type of each variadic argument, given the type of the VARIADIC parameter.
pub(super) fn element_of(kind: TypeKind) -> Option<TypeKind> {
    match kind {
        TypeKind::AnyArray => Some(TypeKind::AnyElement),
        TypeKind::AnyCompatibleArray => Some(TypeKind::AnyCompatible),
        kind => kind.element(),
    }
}

/// The concrete types of both groups in a call; unknown if there are only unknown arguments, or
/// none.
#[derive(Clone, Copy)]
pub(super) struct ConcreteTypes {
    same: TypeKind,
    compatible: TypeKind,
}

impl ConcreteTypes {
    /// The types with which a function body is checked before any call.
    pub(super) const EXAMPLE: ConcreteTypes = ConcreteTypes {
        same: TypeKind::Int4,
        compatible: TypeKind::Int4,
    };

    /// Returns the concrete types for arguments of these types; `None` if the arguments are not
    /// compatible.
    pub(super) fn of(given: &[(TypeKind, Type)]) -> Option<ConcreteTypes> {
        let known = given.iter().filter(|(_, ty)| *ty != Type::UNKNOWN);
        let mut same = None;
        let mut compatible = Vec::new();
        for (param, ty) in known {
            let element = match is_array(*param) {
                true => ty.element()?.kind,
                false => ty.kind,
            };
            match polymorphic_group(*param) {
                Some(PolymorphicGroup::Same) if *same.get_or_insert(element) != element => {
                    return None;
                }
                Some(PolymorphicGroup::Compatible) => compatible.push(element),
                _ => {}
            }
        }
        let common = match compatible.is_empty() {
            true => None,
            false => {
                let of = |kind: &TypeKind| Expr::new(Type::of(*kind), Node::Const(Value::Null));
                let all: Vec<Expr> = compatible.iter().map(of).collect();
                let common = common_type(&all, "").ok()?.kind;
                let fits = compatible.iter().all(|kind| implicitly(*kind, common));
                fits.then_some(Some(common))?
            }
        };
        let found = |kind: Option<TypeKind>| kind.filter(|kind| *kind != TypeKind::Unknown);
        for (param, _) in given {
            let fits = match param {
                TypeKind::AnyNonArray => found(same).is_none_or(|of| of.element().is_none()),
                TypeKind::AnyCompatibleNonArray => {
                    found(common).is_none_or(|of| of.element().is_none())
                }
                TypeKind::AnyEnum => matches!(same, Some(TypeKind::Enum(_))),
                _ => true,
            };
            if !fits {
                return None;
            }
        }
        Some(ConcreteTypes {
            same: same.unwrap_or(TypeKind::Unknown),
            compatible: common.unwrap_or(TypeKind::Text),
        })
    }

    /// Returns the concrete type for a type of the signature.
    ///
    /// # Errors
    /// 42804 if no argument determines the type, 42704 if it has no array type.
    fn stand_for(self, kind: TypeKind) -> Result<TypeKind, SqlError> {
        let of = match polymorphic_group(kind) {
            None => return Ok(kind),
            Some(PolymorphicGroup::Same) => self.same,
            Some(PolymorphicGroup::Compatible) => self.compatible,
        };
        if of == TypeKind::Unknown {
            return Err(super::polymorphic::undetermined());
        }
        match is_array(kind) {
            false => Ok(of),
            true => of.array().ok_or_else(|| {
                SqlError::new(
                    SqlState::UNDEFINED_OBJECT,
                    format!("could not find array type for data type {of}"),
                )
            }),
        }
    }

    /// Returns a signature with the concrete types substituted.
    pub(super) fn signature(
        self,
        args: &[RoutineArg],
        result: &RoutineResult,
    ) -> Result<(Vec<RoutineArg>, RoutineResult), SqlError> {
        let stand = |ty: Type| -> Result<Type, SqlError> {
            Ok(match ty.kind.is_polymorphic() {
                true => Type::of(self.stand_for(ty.kind)?),
                false => ty,
            })
        };
        let mut args = args.to_vec();
        for arg in &mut args {
            arg.ty = stand(arg.ty)?;
        }
        let mut result = result.clone();
        let stood = result.ty.kind.is_polymorphic();
        result.ty = stand(result.ty)?;
        for (_, ty) in &mut result.columns {
            *ty = stand(*ty)?;
        }
        if stood && let Some(columns) = columns_of_row(result.ty) {
            result.columns = columns;
        }
        if stood && result.ty.kind == TypeKind::Record && result.columns.is_empty() {
            result.record = true;
        }
        Ok((args, result))
    }
}

/// Returns whether a signature has polymorphic types.
pub(super) fn has_any(args: &[RoutineArg], result: &RoutineResult) -> bool {
    let polymorphic = |ty: Type| ty.kind.is_polymorphic();
    polymorphic(result.ty) || args.iter().any(|arg| polymorphic(arg.ty))
}

/// Returns the function that a call with these arguments refers to.
pub(super) fn concrete(
    routine: &Arc<RoutineDef>,
    given: &[(TypeKind, Type)],
) -> Result<Arc<RoutineDef>, SqlError> {
    if !has_any(&routine.args, &routine.result) {
        return Ok(Arc::clone(routine));
    }
    let concrete = ConcreteTypes::of(given).ok_or_else(|| {
        SqlError::new(
            SqlState::DATATYPE_MISMATCH,
            "arguments declared \"anyelement\" are not all alike",
        )
    })?;
    let (args, result) = concrete.signature(&routine.args, &routine.result)?;
    let inputs = args.iter().filter(|arg| arg.mode.is_input());
    let as_called = PolymorphicInstance {
        types: inputs.map(|arg| arg.ty.kind).collect(),
        result: routine.result.ty.kind,
        signature: routine.signature().into(),
    };
    Ok(Arc::new(RoutineDef {
        args,
        result,
        as_called: Some(Arc::new(as_called)),
        ..RoutineDef::clone(routine)
    }))
}

/// Checks that the parameters determine every polymorphic result type; 42P13 otherwise.
pub(super) fn check_determined(
    args: &[RoutineArg],
    result: &RoutineResult,
) -> Result<(), SqlError> {
    let mut inputs = Vec::new();
    for arg in args.iter().filter(|arg| arg.mode.is_input()) {
        inputs.extend(polymorphic_group(arg.ty.kind));
    }
    let outputs = args.iter().filter(|arg| arg.mode.is_output());
    let outputs = outputs.map(|arg| arg.ty.kind).chain([result.ty.kind]);
    for kind in outputs {
        let Some(of) = polymorphic_group(kind).filter(|of| !inputs.contains(of)) else {
            continue;
        };
        let needs = match of {
            PolymorphicGroup::Same => {
                "anyelement, anyarray, anynonarray, anyenum, anyrange, or anymultirange"
            }
            PolymorphicGroup::Compatible => {
                "anycompatible, anycompatiblearray, anycompatiblenonarray, anycompatiblerange, or \
                 anycompatiblemultirange"
            }
        };
        let detail =
            format!("A result of type {kind} requires at least one input of type {needs}.");
        let message = "cannot determine result data type";
        return Err(SqlError::new(SqlState::new(b"42P13"), message).detail(detail));
    }
    Ok(())
}
