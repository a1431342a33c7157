//! Functions and procedures of users: what the catalog says about them.
//!
//! The body is kept as text and is compiled where it runs. A plan that calls a routine has its guard in the read set, as
//! it has those of its tables (CAT-5): whoever replaces or drops the routine writes the guard.

use std::sync::Arc;

use fencepost_txn::Transaction;

use super::guard::{Guards, Hold};
use crate::bound::Volatility;
use crate::extensions;
use crate::functions::ScalarFunction;
use crate::stop::Halt;
use crate::types::composites::is_made_of;
use crate::types::{Type, TypeKind};

/// A function or a procedure.
#[derive(Clone, Debug, PartialEq)]
pub struct RoutineDef {
    /// Its oid.
    pub id: u32,
    /// The schema it is in.
    pub schema: String,
    /// Its name.
    pub name: String,
    /// The oid of the role whose it is.
    pub owner: u32,
    /// Function or procedure.
    pub kind: RoutineKind,
    /// What its body is written in.
    pub language: Language,
    /// Its arguments, those that come out too, and the columns of RETURNS TABLE.
    pub args: Vec<RoutineArg>,
    /// What it gives.
    pub result: RoutineResult,
    /// What its result depends on.
    pub volatility: Volatility,
    /// NULL in gives NULL out, without a call.
    pub strict: bool,
    /// SECURITY DEFINER was said.
    pub definer: bool,
    /// What it says of itself that only planners ask for.
    pub planning: Planning,
    /// The body: statements in its language.
    pub body: String,
    /// The body was written as SQL, not as a string.
    pub atomic: bool,
    /// SET: settings and what they are while it runs, in the order in which they were said.
    pub settings: Vec<(String, String)>,
    /// The catalog version of its last change.
    pub version: u64,
    /// Its guards.
    pub guards: Guards,
    /// What its types are in a call, where its signature has stand-ins; not in the catalog.
    pub as_called: Option<Arc<AsCalled>>,
}

/// A function whose signature has stand-ins as types (`anyelement` and its kin), as a call has it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AsCalled {
    /// The types of the arguments that go in.
    pub types: Box<[TypeKind]>,
    /// The result as it was declared.
    pub result: TypeKind,
    /// The signature as it was declared.
    pub signature: Box<str>,
}

/// What a routine says of itself that only planners ask for; it is kept, and shown.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Planning {
    /// LEAKPROOF
    pub leakproof: bool,
    /// PARALLEL
    pub parallel: Parallel,
    /// COST
    pub cost: f32,
    /// ROWS; 0 where it gives no set.
    pub rows: f32,
}

impl Planning {
    /// What PostgreSQL says that calls cost.
    pub const COST: f32 = 100.0;
    /// What PostgreSQL says how many rows there are.
    pub const ROWS: f32 = 1000.0;

    /// Where nothing is said, of one that gives a `set` or not.
    pub fn of(set: bool) -> Planning {
        Planning {
            leakproof: false,
            parallel: Parallel::Unsafe,
            cost: Planning::COST,
            rows: if set { Planning::ROWS } else { 0.0 },
        }
    }
}

/// PARALLEL
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
    /// What a word says.
    pub fn of(word: &str) -> Option<Parallel> {
        Some(match word {
            "safe" => Parallel::Safe,
            "restricted" => Parallel::Restricted,
            "unsafe" => Parallel::Unsafe,
            _ => return None,
        })
    }

    /// As `pg_proc` has it.
    pub fn letter(self) -> &'static str {
        match self {
            Parallel::Safe => "s",
            Parallel::Restricted => "r",
            Parallel::Unsafe => "u",
        }
    }
}

/// Function or procedure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RoutineKind {
    /// CREATE FUNCTION
    Function,
    /// CREATE PROCEDURE
    Procedure,
}

impl RoutineKind {
    /// As messages say it.
    pub fn name(self) -> &'static str {
        match self {
            RoutineKind::Function => "function",
            RoutineKind::Procedure => "procedure",
        }
    }
}

/// A language.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    /// sql
    Sql,
    /// plpgsql
    PlPgSql,
    /// c: a function of an extension, whose body is a symbol (see `extensions`)
    C,
}

impl Language {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Language::Sql => "sql",
            Language::PlPgSql => "plpgsql",
            Language::C => "c",
        }
    }

    /// What PostgreSQL says that a call costs, where nothing is said.
    pub fn usual_cost(self) -> f32 {
        match self {
            Language::Sql | Language::PlPgSql => Planning::COST,
            Language::C => 1.0,
        }
    }
}

/// An argument.
#[derive(Clone, Debug, PartialEq)]
pub struct RoutineArg {
    /// Its name; empty for none.
    pub name: String,
    /// Which way it goes.
    pub mode: ArgMode,
    /// Its type.
    pub ty: Type,
    /// Its default as SQL text.
    pub default: Option<String>,
}

/// Which way an argument goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArgMode {
    /// In.
    In,
    /// Out.
    Out,
    /// Both.
    InOut,
    /// In, as an array of all that are left.
    Variadic,
    /// A column of RETURNS TABLE.
    Table,
}

impl ArgMode {
    /// Does the caller give it?
    pub fn is_input(self) -> bool {
        matches!(self, ArgMode::In | ArgMode::InOut | ArgMode::Variadic)
    }

    /// Is it part of the result?
    pub fn is_output(self) -> bool {
        matches!(self, ArgMode::Out | ArgMode::InOut | ArgMode::Table)
    }
}

/// What a routine gives.
#[derive(Clone, Debug, PartialEq)]
pub struct RoutineResult {
    /// The type of its value; `record` where it is a row of no composite type.
    pub ty: Type,
    /// Any number of rows.
    pub set: bool,
    /// It is what triggers call.
    pub trigger: bool,
    /// Names and types of the columns: those of arguments that come out, or what is in its composite type; none where it
    /// is one value without a name.
    pub columns: Vec<(String, Type)>,
    /// The columns are for the caller to say.
    pub record: bool,
}

/// What is in the rows of a composite type, as columns.
pub fn columns_of_row(ty: Type) -> Option<Vec<(String, Type)>> {
    let fields = ty.kind.as_composite()?.definition().fields.iter();
    Some(fields.map(|f| (f.name.clone(), f.ty)).collect())
}

impl RoutineDef {
    /// The arguments that the caller gives.
    pub fn inputs(&self) -> impl Iterator<Item = &RoutineArg> {
        self.args.iter().filter(|arg| arg.mode.is_input())
    }

    /// The arguments that are part of the result.
    pub fn outputs(&self) -> impl Iterator<Item = &RoutineArg> {
        self.args.iter().filter(|arg| arg.mode.is_output())
    }

    /// What it does, where an extension has brought it along.
    pub fn provided(&self) -> Option<&'static ScalarFunction> {
        match self.language {
            Language::C => extensions::function(&self.body, &self.input_kinds()),
            _ => None,
        }
    }

    /// The types that tell it from others of its name.
    pub fn input_kinds(&self) -> Vec<TypeKind> {
        self.inputs().map(|arg| arg.ty.kind).collect()
    }

    /// `name(type, type)`, as messages and DROP have it.
    pub fn signature(&self) -> String {
        if let Some(called) = &self.as_called {
            return called.signature.to_string();
        }
        let types: Vec<String> = self.inputs().map(|arg| shown_type(&arg.ty)).collect();
        format!("{}({})", self.name, types.join(", "))
    }

    /// Is its result a row?
    pub fn gives_row(&self) -> bool {
        let result = &self.result;
        !result.trigger && result.ty.kind.is_row()
    }

    /// Is a type, or what is made of it, part of its signature?
    pub fn names_type(&self, oid: u32) -> bool {
        let mut args = self.args.iter();
        is_made_of(self.result.ty.kind, oid) || args.any(|arg| is_made_of(arg.ty.kind, oid))
    }
}

/// A type without its length.
fn shown_type(ty: &Type) -> String {
    Type::of(ty.kind).name()
}

/// Puts the version of `routine` that the caller planned with into the read set (CAT-5). False when it is not that
/// version any more, or gone: plan again.
pub async fn guard_routine(
    tx: &mut Transaction,
    routine: &RoutineDef,
    hold: Hold,
) -> Result<bool, Halt> {
    let (id, version) = (routine.id, routine.version);
    routine.guards.hold(tx, id, version, hold).await
}
