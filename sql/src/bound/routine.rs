//! Functions and procedures of users: their calls, and the statements that make and drop them.

use std::sync::Arc;

use super::expr::{Expr, Volatility};
use crate::catalog::{Language, Planning, RoutineArg, RoutineDef, RoutineKind, RoutineResult};
use crate::parser::RoutineChange;
use crate::types::Type;

/// A call of a routine.
#[derive(Clone, Debug, PartialEq)]
pub struct RoutineCall {
    /// Which.
    pub routine: Arc<RoutineDef>,
    /// The arguments, one for each that goes in, of their types.
    pub args: Vec<Expr>,
    /// The columns of its rows; none where it is one value without a name.
    pub columns: Vec<(String, Type)>,
}

/// CREATE FUNCTION, CREATE PROCEDURE
#[derive(Clone, Debug, PartialEq)]
pub struct CreateRoutine {
    /// OR REPLACE
    pub or_replace: bool,
    /// The schema it goes to.
    pub schema: String,
    /// Its name.
    pub name: String,
    /// Function or procedure.
    pub kind: RoutineKind,
    /// What its body is written in.
    pub language: Language,
    /// Its arguments.
    pub args: Vec<RoutineArg>,
    /// What it gives.
    pub result: RoutineResult,
    /// What its result depends on.
    pub volatility: Volatility,
    /// NULL in gives NULL out.
    pub strict: bool,
    /// SECURITY DEFINER
    pub definer: bool,
    /// LEAKPROOF, PARALLEL, COST and ROWS
    pub planning: Planning,
    /// The body.
    pub body: String,
    /// It was written as SQL.
    pub atomic: bool,
    /// SET
    pub settings: Vec<(String, String)>,
}

/// DROP FUNCTION and its kin
#[derive(Clone, Debug, PartialEq)]
pub struct DropRoutine {
    /// Which kind; `None` is either.
    pub kind: Option<RoutineKind>,
    /// Those to drop.
    pub routines: Vec<Arc<RoutineDef>>,
    /// What was not there, as it is told.
    pub missing: Vec<String>,
    /// CASCADE
    pub cascade: bool,
}

/// ALTER FUNCTION and its kin
#[derive(Clone, Debug, PartialEq)]
pub struct AlterRoutine {
    /// Which kind; `None` is either.
    pub kind: Option<RoutineKind>,
    /// Which.
    pub routine: Arc<RoutineDef>,
    /// What becomes of it; names of schemas and roles are of some that are there.
    pub change: RoutineChange,
    /// The settings that it has then.
    pub settings: Vec<(String, String)>,
    /// What it says to planners then.
    pub planning: Planning,
}
