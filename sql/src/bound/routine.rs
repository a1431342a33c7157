//! User-defined functions and procedures: their calls, and the statements that create and drop
//! them.

use std::sync::Arc;

use super::expr::{Expr, Volatility};
use crate::catalog::{Language, Planning, RoutineArg, RoutineDef, RoutineKind, RoutineResult};
use crate::parser::RoutineChange;
use crate::types::Type;

/// A call of a routine.
#[derive(Clone, Debug, PartialEq)]
pub struct RoutineCall {
    /// The called routine.
    pub routine: Arc<RoutineDef>,
    /// The arguments, one for each input parameter, of the types of the parameters.
    pub args: Vec<Expr>,
    /// The columns of the result rows; empty for a single unnamed value.
    pub columns: Vec<(String, Type)>,
}

/// CREATE FUNCTION, CREATE PROCEDURE
#[derive(Clone, Debug, PartialEq)]
pub struct CreateRoutine {
    /// OR REPLACE
    pub or_replace: bool,
    /// The schema of the new routine.
    pub schema: String,
    /// The name of the new routine.
    pub name: String,
    /// Function or procedure.
    pub kind: RoutineKind,
    /// The language of the body.
    pub language: Language,
    /// The parameters.
    pub args: Vec<RoutineArg>,
    /// The result type.
    pub result: RoutineResult,
    /// The volatility of the result.
    pub volatility: Volatility,
    /// STRICT: the result is NULL if an argument is NULL.
    pub strict: bool,
    /// SECURITY DEFINER
    pub definer: bool,
    /// LEAKPROOF, PARALLEL, COST and ROWS
    pub planning: Planning,
    /// The body.
    pub body: String,
    /// Whether the body is an SQL body (BEGIN ATOMIC or RETURN), not a string.
    pub atomic: bool,
    /// SET
    pub settings: Vec<(String, String)>,
}

/// DROP FUNCTION, DROP PROCEDURE and DROP ROUTINE.
#[derive(Clone, Debug, PartialEq)]
pub struct DropRoutine {
    /// The kind that the statement names; `None` is either.
    pub kind: Option<RoutineKind>,
    /// The routines to drop.
    pub routines: Vec<Arc<RoutineDef>>,
    /// The missing routines, as the notices name them.
    pub missing: Vec<String>,
    /// CASCADE
    pub cascade: bool,
}

/// ALTER FUNCTION, ALTER PROCEDURE and ALTER ROUTINE.
#[derive(Clone, Debug, PartialEq)]
pub struct AlterRoutine {
    /// The kind that the statement names; `None` is either.
    pub kind: Option<RoutineKind>,
    /// The altered routine.
    pub routine: Arc<RoutineDef>,
    /// The change of the routine; the schemas and roles that it names exist.
    pub change: RoutineChange,
    /// The settings of the routine after the change.
    pub settings: Vec<(String, String)>,
    /// The planner hints of the routine after the change.
    pub planning: Planning,
}
