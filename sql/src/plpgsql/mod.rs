//! PL/pgSQL: from the text of a body to code that a small machine runs (`planner/src/routines`).
//!
//! ```text
//!   text ──lexer──▶ tokens ──declare, statement, …──▶ Code { ops, variables, scopes, texts }
//! ```
//! The statements of the language become [`Op`]s with jumps between them, so a body may be left in the middle, for a
//! COMMIT, and gone on with. Expressions and SQL stay texts with the scope that they stand in: they are bound when they
//! are first reached, as PostgreSQL does it, when tables that the body itself has made are there.
//!
//! Invariants
//! - PLP-1: each jump is to an op of the code; the last op ends it.
//! - PLP-2: whatever way a block is left, the ops on the way close the handlers that it had opened.

mod compile;
mod conditions;
mod cursors;
mod declare;
mod loops;
mod names;
mod raise;
mod returns;
mod statement;
mod text;

use std::sync::Arc;

use crate::binder::{PathView, Prefer, search_path};
use crate::bound::Direction;
use crate::catalog::{CatalogView, RoutineArg, RoutineResult, TypeDef};
use crate::context::EvalContext;
use crate::error::{SqlError, SqlState};
use crate::types::{Composite, Type};

pub use conditions::{condition, covers};
pub use names::Named;
pub use raise::errcode;

/// How deep blocks and loops may nest.
const NESTING_MAX: usize = 100;

/// What a body has been made into.
#[derive(Debug)]
pub struct Code {
    /// The ops.
    pub ops: Vec<Op>,
    /// The line of each op, and what PostgreSQL calls the statement.
    pub places: Vec<(u32, &'static str)>,
    /// The variables.
    pub variables: Vec<VariableDef>,
    /// What names mean, from the outermost scope on.
    pub scopes: Vec<Scope>,
    /// Expressions and statements of SQL.
    pub texts: Vec<Text>,
    /// The exception handlers of blocks.
    pub handlers: Vec<Handlers>,
    /// How many registers loops take.
    pub loops: usize,
    /// What a name means that is a variable's and a column's.
    pub prefer: Prefer,
    /// The variables of the arguments, in their order.
    pub args: Vec<usize>,
    /// The variable FOUND.
    pub found: usize,
    /// What a function of triggers knows of its call.
    pub trigger: Option<TriggerVariables>,
    /// The types of users' that variables are of, as they were when it was compiled.
    pub types: Vec<Arc<TypeDef>>,
}

/// The variables of a function of triggers.
#[derive(Clone, Copy, Debug)]
pub struct TriggerVariables {
    /// NEW
    pub new: usize,
    /// OLD
    pub old: usize,
    /// TG_NAME
    pub name: usize,
    /// TG_WHEN
    pub when: usize,
    /// TG_LEVEL
    pub level: usize,
    /// TG_OP
    pub op: usize,
    /// TG_RELNAME
    pub relname: usize,
    /// TG_TABLE_NAME
    pub table_name: usize,
    /// TG_TABLE_SCHEMA
    pub table_schema: usize,
    /// TG_RELID
    pub relid: usize,
    /// TG_NARGS
    pub nargs: usize,
    /// TG_ARGV
    pub argv: usize,
}

/// A variable.
#[derive(Clone, Debug)]
pub struct VariableDef {
    /// Its name.
    pub name: String,
    /// What it holds.
    pub kind: VariableKind,
    /// It is never NULL.
    pub not_null: bool,
    /// It is set where it is declared and nowhere else.
    pub constant: bool,
}

/// What a variable holds.
#[derive(Clone, Debug)]
pub enum VariableKind {
    /// A value.
    Value(Type),
    /// A row whose columns are those of the last that it was given.
    Record,
    /// A row of a composite type.
    Row(Composite),
    /// The name of a cursor whose query is known.
    Cursor {
        /// Its arguments.
        args: Vec<usize>,
        /// Its query.
        query: usize,
        /// SCROLL, or NO SCROLL (false).
        scroll: Option<bool>,
    },
}

/// What names mean.
#[derive(Clone, Debug)]
pub struct Scope {
    /// The scope around.
    pub parent: Option<usize>,
    /// The label of the block.
    pub label: Option<String>,
    /// Names and their variables; of two the later one counts.
    pub names: Vec<(String, usize)>,
}

/// An expression or a statement of SQL.
#[derive(Clone, Debug)]
pub struct Text {
    /// As a statement: an expression is a SELECT.
    pub sql: String,
    /// What names in it mean.
    pub scope: usize,
    /// It is a cursor's.
    pub cursor: bool,
}

/// Where a value goes.
#[derive(Clone, Debug)]
pub enum Target {
    /// A variable, be it a value or a row.
    Variable(usize),
    /// A field of a row.
    Field(usize, String),
    /// A part of a variable or field that is an array or jsonb.
    Part(Box<Target>, Vec<Subscript>),
}

/// A subscript, of expressions.
#[derive(Clone, Debug)]
pub enum Subscript {
    /// `[i]`
    Index(usize),
    /// `[i:j]`, where bounds may be left out.
    Slice(Option<usize>, Option<usize>),
}

/// Where a row goes.
#[derive(Clone, Debug)]
pub struct Into {
    /// A row, or one variable for each column.
    pub targets: Vec<Target>,
    /// There must be one row.
    pub strict: bool,
}

/// Where rows come from.
#[derive(Clone, Debug)]
pub enum RowSource {
    /// A query.
    Query(usize),
    /// A query whose text is the value of an expression, and the values of its parameters.
    Dynamic(usize, Vec<usize>),
    /// A cursor and its arguments.
    Cursor(usize, Vec<usize>),
}

/// What GET DIAGNOSTICS asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Diagnostic {
    /// ROW_COUNT
    RowCount,
    /// PG_CONTEXT
    Context,
    /// RETURNED_SQLSTATE
    State,
    /// MESSAGE_TEXT
    Message,
    /// PG_EXCEPTION_DETAIL
    Detail,
    /// PG_EXCEPTION_HINT
    Hint,
    /// PG_EXCEPTION_CONTEXT
    ExceptionContext,
    /// COLUMN_NAME
    Column,
    /// CONSTRAINT_NAME
    Constraint,
    /// PG_DATATYPE_NAME
    DataType,
    /// TABLE_NAME
    Table,
    /// SCHEMA_NAME
    Schema,
}

/// How bad what RAISE tells is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// DEBUG
    Debug,
    /// LOG
    Log,
    /// INFO
    Info,
    /// NOTICE
    Notice,
    /// WARNING
    Warning,
    /// EXCEPTION
    Exception,
}

/// What USING of RAISE says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RaiseOption {
    /// ERRCODE
    State,
    /// MESSAGE
    Message,
    /// DETAIL
    Detail,
    /// HINT
    Hint,
    /// COLUMN
    Column,
    /// CONSTRAINT
    Constraint,
    /// DATATYPE
    DataType,
    /// TABLE
    Table,
    /// SCHEMA
    Schema,
}

/// RAISE
#[derive(Clone, Debug)]
pub struct Raise {
    /// How bad it is.
    pub level: Level,
    /// The format, with `%` for each argument.
    pub format: Option<String>,
    /// The arguments.
    pub args: Vec<usize>,
    /// The condition, by its SQLSTATE, and as it was named.
    pub state: Option<(SqlState, String)>,
    /// USING
    pub options: Vec<(RaiseOption, usize)>,
}

/// Which row FETCH and MOVE go to; numbers are expressions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// What is said without an expression.
    Known(Direction),
    /// So many on.
    Forward(usize),
    /// So many back.
    Backward(usize),
    /// The one of that number, from 1, or from the end.
    Absolute(usize),
    /// The one so many places on, or back.
    Relative(usize),
}

/// A step of the machine. Numbers are those of ops, variables, texts and loops of the code.
#[derive(Clone, Debug)]
pub enum Op {
    /// Goes on elsewhere.
    Jump(usize),
    /// Goes on with the next where the condition holds, else elsewhere.
    Unless {
        /// The condition.
        condition: usize,
        /// Where.
        to: usize,
    },
    /// Gives a variable that a block declares its first value.
    Declare {
        /// Which.
        variable: usize,
        /// The value; NULL where there is none.
        value: Option<usize>,
    },
    /// `target := value`
    Assign {
        /// Where it goes.
        target: Target,
        /// The value.
        value: usize,
    },
    /// A statement of SQL.
    Run {
        /// Which.
        text: usize,
        /// Where its row goes.
        into: Option<Into>,
        /// PERFORM: the rows are for nobody.
        perform: bool,
    },
    /// EXECUTE
    Execute {
        /// What gives the text.
        text: usize,
        /// The parameters.
        using: Vec<usize>,
        /// Where the row goes.
        into: Option<Into>,
    },
    /// Begins `FOR variable IN low .. high BY step`.
    RangeStart {
        /// The loop.
        register: usize,
        /// From where.
        low: usize,
        /// To where.
        high: usize,
        /// In what steps.
        step: Option<usize>,
        /// Backwards.
        reverse: bool,
    },
    /// The next round, or on behind the loop.
    RangeNext {
        /// The loop.
        register: usize,
        /// Its variable.
        variable: usize,
        /// Behind the loop.
        exit: usize,
    },
    /// Begins a loop over rows.
    RowsStart {
        /// The loop.
        register: usize,
        /// What over.
        source: RowSource,
    },
    /// The next row, or on behind the loop.
    RowsNext {
        /// The loop.
        register: usize,
        /// Where the row goes.
        into: Into,
        /// Behind the loop.
        exit: usize,
    },
    /// Begins a loop over an array.
    ArrayStart {
        /// The loop.
        register: usize,
        /// The array.
        array: usize,
        /// Slices of so many dimensions.
        slice: usize,
    },
    /// The next element, or on behind the loop.
    ArrayNext {
        /// The loop.
        register: usize,
        /// Where the element goes.
        target: Target,
        /// Behind the loop.
        exit: usize,
    },
    /// A loop is over.
    LoopEnd {
        /// Which.
        register: usize,
    },
    /// A block with exception handlers begins.
    Try {
        /// Its handlers.
        handlers: usize,
    },
    /// It has ended well, or is left.
    EndTry,
    /// A handler is left.
    EndHandler,
    /// RAISE
    Raise(Box<Raise>),
    /// RAISE without anything, in a handler.
    Reraise,
    /// ASSERT
    Assert {
        /// The condition.
        condition: usize,
        /// What to say.
        message: Option<usize>,
    },
    /// GET DIAGNOSTICS
    Diagnostics {
        /// What goes where.
        items: Vec<(Target, Diagnostic)>,
        /// STACKED
        stacked: bool,
    },
    /// No branch of a CASE was right.
    NoCase,
    /// RETURN
    Return(Option<usize>),
    /// RETURN of a row.
    ReturnRow(usize),
    /// RETURN NEXT
    ReturnNext(Option<usize>),
    /// RETURN NEXT of a row.
    ReturnNextRow(usize),
    /// RETURN QUERY
    ReturnQuery(RowSource),
    /// OPEN
    Open {
        /// The cursor.
        cursor: usize,
        /// Its query.
        source: RowSource,
        /// SCROLL, or NO SCROLL (false).
        scroll: Option<bool>,
    },
    /// FETCH and MOVE
    Fetch {
        /// The cursor.
        cursor: usize,
        /// Which way.
        way: Way,
        /// Where the row goes; nowhere for MOVE.
        into: Option<Into>,
    },
    /// CLOSE
    Close(usize),
    /// COMMIT
    Commit {
        /// AND CHAIN
        chain: bool,
    },
    /// ROLLBACK
    Rollback {
        /// AND CHAIN
        chain: bool,
    },
    /// The end of the body.
    End,
}

/// The exception handlers of a block.
#[derive(Clone, Debug)]
pub struct Handlers {
    /// Conditions, and where what is done about them begins.
    pub clauses: Vec<(Vec<Condition>, usize)>,
    /// The variable SQLSTATE.
    pub state: usize,
    /// The variable SQLERRM.
    pub message: usize,
}

/// What EXCEPTION WHEN names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// OTHERS
    Others,
    /// A state.
    State(SqlState),
}

/// What a body belongs to.
#[derive(Clone, Copy, Debug)]
pub struct Header<'a> {
    /// The name of the routine.
    pub name: &'a str,
    /// Its arguments.
    pub args: &'a [RoutineArg],
    /// What it gives.
    pub result: &'a RoutineResult,
    /// It is a procedure, or a DO.
    pub procedure: bool,
    /// Its result was declared by a stand-in, so `$0` is a variable of what it is in the call.
    pub polymorphic: bool,
}

/// Makes code of a body, where names are found along the search path.
pub fn compile(
    body: &str,
    header: Header<'_>,
    catalog: &dyn CatalogView,
    cx: &EvalContext,
) -> Result<Code, SqlError> {
    let path = search_path(catalog, cx);
    let along = PathView {
        catalog,
        path: &path,
    };
    let catalog: &dyn CatalogView = &along;
    let compiled = compile::Compiler::new(body, header, catalog).and_then(|c| c.whole());
    compiled.map_err(|e| match e.fields().context {
        Some(_) => e,
        None => e.context(format!(
            "compilation of PL/pgSQL function \"{}\"",
            header.name
        )),
    })
}
