//! User-defined functions and procedures, as the catalog defines them.
//!
//! The body is stored as text and compiled on the machine that runs it. A plan that calls a routine
//! has its guard in the read set, like the guards of its tables (CAT-5). Replacing or dropping the
//! routine writes the guard.

use std::sync::Arc;

use fencepost_txn::Transaction;

use super::guard::{GuardScope, Guards};
use crate::bound::Volatility;
use crate::extensions;
use crate::functions::ScalarFunction;
use crate::stop::StatementStop;
use crate::types::composites::is_made_of;
use crate::types::{Type, TypeKind};

/// A function or a procedure.
#[derive(Clone, Debug, PartialEq)]
pub struct RoutineDef {
    /// The oid of the routine.
    pub id: u32,
    /// The schema of the routine.
    pub schema: String,
    /// The name of the routine.
    pub name: String,
    /// The oid of the owner.
    pub owner: u32,
    /// Function or procedure.
    pub kind: RoutineKind,
    /// The language of the body.
    pub language: Language,
    /// The parameters, including output parameters and the columns of RETURNS TABLE.
    pub args: Vec<RoutineArg>,
    /// The result type.
    pub result: RoutineResult,
    /// The volatility of the result.
    pub volatility: Volatility,
    /// STRICT: with a NULL argument the result is NULL, and the body does not run.
    pub strict: bool,
    /// Whether the routine is SECURITY DEFINER.
    pub definer: bool,
    /// The planner hints.
    pub planning: Planning,
    /// The body, as statements of its language.
    pub body: String,
    /// Whether the body is an SQL body (BEGIN ATOMIC or RETURN), not a string.
    pub atomic: bool,
    /// SET: the settings in force while it runs, in the order of the statement.
    pub settings: Vec<(String, String)>,
    /// The catalog version of its last change.
    pub version: u64,
    /// The guards of the routine.
    pub guards: Guards,
    /// The concrete types in a call, if the signature has polymorphic types; not stored in the
    /// catalog.
    pub as_called: Option<Arc<PolymorphicInstance>>,
}

/// The instance of a polymorphic function for one call.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PolymorphicInstance {
    /// The types of the input arguments.
    pub types: Box<[TypeKind]>,
    /// The declared result type.
    pub result: TypeKind,
    /// The declared signature.
    pub signature: Box<str>,
}

/// The planner hints of a routine; they are stored and displayed, but have no effect.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Planning {
    /// LEAKPROOF
    pub leakproof: bool,
    /// PARALLEL
    pub parallel: Parallel,
    /// COST
    pub cost: f32,
    /// ROWS; 0 if the routine does not return a set.
    pub rows: f32,
}

impl Planning {
    /// PostgreSQL's default cost of a call.
    pub const COST: f32 = 100.0;
    /// PostgreSQL's default number of rows of a set.
    pub const ROWS: f32 = 1000.0;

    /// Returns the default hints for a routine that returns a `set`, or none.
    pub fn of(set: bool) -> Planning {
        Planning {
            leakproof: false,
            parallel: Parallel::Unsafe,
            cost: Planning::COST,
            rows: if set { Planning::ROWS } else { 0.0 },
        }
    }
}

/// The parallel safety of a routine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parallel {
    /// SAFE
    Safe,
    /// RESTRICTED
    Restricted,
    /// UNSAFE
    Unsafe,
}

impl Parallel {
    /// Returns the parallel safety for a keyword; `None` for other words.
    pub fn of(word: &str) -> Option<Parallel> {
        Some(match word {
            "safe" => Parallel::Safe,
            "restricted" => Parallel::Restricted,
            "unsafe" => Parallel::Unsafe,
            _ => return None,
        })
    }

    /// Returns the letter that `pg_proc` contains.
    pub fn letter(self) -> &'static str {
        match self {
            Parallel::Safe => "s",
            Parallel::Restricted => "r",
            Parallel::Unsafe => "u",
        }
    }
}

/// The kind of a routine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RoutineKind {
    /// CREATE FUNCTION
    Function,
    /// CREATE PROCEDURE
    Procedure,
}

impl RoutineKind {
    /// Returns the name of the kind in messages.
    pub fn name(self) -> &'static str {
        match self {
            RoutineKind::Function => "function",
            RoutineKind::Procedure => "procedure",
        }
    }
}

/// The language of a routine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    /// sql
    Sql,
    /// plpgsql
    PlPgSql,
    /// c: a function of an extension, whose body is the name of a symbol (see `extensions`)
    C,
}

impl Language {
    /// Returns the name of the language.
    pub fn name(self) -> &'static str {
        match self {
            Language::Sql => "sql",
            Language::PlPgSql => "plpgsql",
            Language::C => "c",
        }
    }

    /// Returns PostgreSQL's default cost of a call in this language.
    pub fn usual_cost(self) -> f32 {
        match self {
            Language::Sql | Language::PlPgSql => Planning::COST,
            Language::C => 1.0,
        }
    }
}

/// A parameter of a routine.
#[derive(Clone, Debug, PartialEq)]
pub struct RoutineArg {
    /// The name; empty if it has none.
    pub name: String,
    /// The mode: input, output or both.
    pub mode: ArgMode,
    /// Its type.
    pub ty: Type,
    /// The default as SQL text.
    pub default: Option<String>,
}

/// The mode of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArgMode {
    /// IN: an input parameter.
    In,
    /// OUT: an output parameter.
    Out,
    /// INOUT: both an input and an output parameter.
    InOut,
    /// VARIADIC: an input parameter that receives all remaining arguments as an array.
    Variadic,
    /// A column of RETURNS TABLE.
    Table,
}

impl ArgMode {
    /// Returns whether the caller supplies an argument for it.
    pub fn is_input(self) -> bool {
        matches!(self, ArgMode::In | ArgMode::InOut | ArgMode::Variadic)
    }

    /// Returns whether it is part of the result.
    pub fn is_output(self) -> bool {
        matches!(self, ArgMode::Out | ArgMode::InOut | ArgMode::Table)
    }
}

/// The result of a routine.
#[derive(Clone, Debug, PartialEq)]
pub struct RoutineResult {
    /// The type of the value; `record` for a row that has no composite type.
    pub ty: Type,
    /// Whether the routine returns a set of rows.
    pub set: bool,
    /// Whether it is a trigger function.
    pub trigger: bool,
    /// The names and types of the columns: those of the output parameters, or of the composite
    /// type. Empty for a single unnamed value.
    pub columns: Vec<(String, Type)>,
    /// Whether the caller must give a column definition list.
    pub record: bool,
}

/// Returns the fields of a composite type as columns; `None` for other types.
pub fn columns_of_row(ty: Type) -> Option<Vec<(String, Type)>> {
    let fields = ty.kind.as_composite()?.definition().fields.iter();
    Some(fields.map(|f| (f.name.clone(), f.ty)).collect())
}

impl RoutineDef {
    /// Returns the input parameters.
    pub fn inputs(&self) -> impl Iterator<Item = &RoutineArg> {
        self.args.iter().filter(|arg| arg.mode.is_input())
    }

    /// Returns the output parameters.
    pub fn outputs(&self) -> impl Iterator<Item = &RoutineArg> {
        self.args.iter().filter(|arg| arg.mode.is_output())
    }

    /// Returns the built-in implementation of a function that belongs to an extension.
    pub fn provided(&self) -> Option<&'static ScalarFunction> {
        match self.language {
            Language::C => extensions::function(&self.body, &self.input_kinds()),
            _ => None,
        }
    }

    /// Returns the types of the input parameters, which distinguish overloaded routines.
    pub fn input_kinds(&self) -> Vec<TypeKind> {
        self.inputs().map(|arg| arg.ty.kind).collect()
    }

    /// Returns `name(type, type)`, as messages and DROP display the routine.
    pub fn signature(&self) -> String {
        if let Some(called) = &self.as_called {
            return called.signature.to_string();
        }
        let types: Vec<String> = self.inputs().map(|arg| type_name(&arg.ty)).collect();
        format!("{}({})", self.name, types.join(", "))
    }

    /// Returns whether the result is a row.
    pub fn gives_row(&self) -> bool {
        let result = &self.result;
        !result.trigger && result.ty.kind.is_row()
    }

    /// Returns whether the signature contains a type, or a type derived from it.
    pub fn names_type(&self, oid: u32) -> bool {
        let mut args = self.args.iter();
        is_made_of(self.result.ty.kind, oid) || args.any(|arg| is_made_of(arg.ty.kind, oid))
    }
}

/// Returns the name of a type without its length.
fn type_name(ty: &Type) -> String {
    Type::of(ty.kind).name()
}

/// Adds the version of `routine` with which the caller planned to the read set (CAT-5). Returns
/// false if the routine was changed or dropped: the caller must plan again.
pub async fn guard_routine(
    tx: &mut Transaction,
    routine: &RoutineDef,
    hold: GuardScope,
) -> Result<bool, StatementStop> {
    let (id, version) = (routine.id, routine.version);
    routine.guards.hold(tx, id, version, hold).await
}
