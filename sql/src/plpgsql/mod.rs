//! The PL/pgSQL compiler. It turns the text of a body into code for the interpreter in
//! `planner/src/routines`.
//!
//! ```text
//!   text ──lexer──▶ tokens ──declare, statement, …──▶ Code { ops, variables, scopes, texts }
//! ```
//! The statements of the language become [`Op`]s with jumps between them. The interpreter can
//! therefore suspend a body, for example at a COMMIT, and resume it. Expressions and SQL statements
//! stay texts, each with the scope in which it stands. As in PostgreSQL, they are bound when they
//! are first executed: tables that the body itself creates exist by then.
//!
//! Invariants
//! - PLP-1: each jump leads to an op of the code; the last op ends the code.
//! - PLP-2: on every path out of a block, the ops close the exception handlers that the block
//!   opened.

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

use crate::binder::{NamePriority, PathView, search_path};
use crate::bound::Direction;
use crate::catalog::{CatalogView, RoutineArg, RoutineResult, TypeDef};
use crate::context::EvalContext;
use crate::error::{SqlError, SqlState};
use crate::types::{Composite, Type};

pub use conditions::{condition, covers};
pub use names::NameMeaning;
pub use raise::errcode;

/// The maximum nesting depth of blocks and loops.
const NESTING_MAX: usize = 100;

/// The compiled form of a body.
#[derive(Debug)]
pub struct Code {
    /// The ops; jumps are indexes into this list.
    pub ops: Vec<Op>,
    /// For each op, the line in the body and PostgreSQL's name of the statement.
    pub places: Vec<(u32, &'static str)>,
    /// The variables of all scopes.
    pub variables: Vec<VariableDef>,
    /// The scopes; the outermost scope is the first.
    pub scopes: Vec<Scope>,
    /// The SQL expressions and statements.
    pub texts: Vec<Text>,
    /// The exception handlers of each block that has an EXCEPTION clause.
    pub handlers: Vec<Handlers>,
    /// The number of loop registers that the code uses.
    pub loops: usize,
    /// Which meaning wins if a name is both a variable and a column (`#variable_conflict`).
    pub prefer: NamePriority,
    /// The variables that hold the arguments, in the order of the arguments.
    pub args: Vec<usize>,
    /// The variable `FOUND`.
    pub found: usize,
    /// The variables of a trigger function; `None` for other routines.
    pub trigger: Option<TriggerVariables>,
    /// The user-defined types of variables, as they were at compile time.
    pub types: Vec<Arc<TypeDef>>,
}

/// The special variables of a trigger function, as indexes into [`Code::variables`].
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

/// A declared or implicit variable.
#[derive(Clone, Debug)]
pub struct VariableDef {
    /// The name; empty for an unnamed variable.
    pub name: String,
    /// The kind of value that the variable holds.
    pub kind: VariableKind,
    /// Whether the variable is declared NOT NULL.
    pub not_null: bool,
    /// Whether the variable is declared CONSTANT: only its declaration assigns it.
    pub constant: bool,
}

/// The kind of value that a variable holds.
#[derive(Clone, Debug)]
pub enum VariableKind {
    /// A scalar or array value of a type.
    Value(Type),
    /// A row of any type: the last assigned row determines the columns.
    Record,
    /// A row of a composite type.
    Row(Composite),
    /// A bound cursor: the value is the name of the cursor.
    Cursor {
        /// The variables that hold the cursor's arguments.
        args: Vec<usize>,
        /// The query, as an index into [`Code::texts`].
        query: usize,
        /// SCROLL is true, NO SCROLL is false, neither is `None`.
        scroll: Option<bool>,
    },
}

/// A namespace: the names that a block, loop or cursor declares.
#[derive(Clone, Debug)]
pub struct Scope {
    /// The enclosing scope; `None` for the outermost scope.
    pub parent: Option<usize>,
    /// The label of the block.
    pub label: Option<String>,
    /// Names and their variables; of two equal names the later one counts.
    pub names: Vec<(String, usize)>,
}

/// An SQL expression or statement of the body.
#[derive(Clone, Debug)]
pub struct Text {
    /// The text as a statement: an expression `e` is stored as `SELECT e`.
    pub sql: String,
    /// The scope in which names in the text are resolved.
    pub scope: usize,
    /// Whether the text is the query of a bound cursor.
    pub cursor: bool,
}

/// The target of an assignment.
#[derive(Clone, Debug)]
pub enum Target {
    /// A scalar or row variable.
    Variable(usize),
    /// A field of a row variable.
    Field(usize, String),
    /// Elements of an array or `jsonb` variable or field.
    Part(Box<Target>, Vec<Subscript>),
}

/// A subscript; the numbers are expressions.
#[derive(Clone, Debug)]
pub enum Subscript {
    /// `[i]`
    Index(usize),
    /// `[i:j]`; either bound may be omitted.
    Slice(Option<usize>, Option<usize>),
}

/// The INTO clause of a statement: the targets of its row.
#[derive(Clone, Debug)]
pub struct IntoClause {
    /// One row variable, or one target for each column.
    pub targets: Vec<Target>,
    /// STRICT: the statement must return exactly one row.
    pub strict: bool,
}

/// The source of rows of a loop, OPEN or RETURN QUERY.
#[derive(Clone, Debug)]
pub enum RowSource {
    /// A static query.
    Query(usize),
    /// A dynamic query: the expression that gives its text, and the expressions of its parameters.
    Dynamic(usize, Vec<usize>),
    /// A bound cursor and the expressions of its arguments.
    Cursor(usize, Vec<usize>),
}

/// An item of GET DIAGNOSTICS.
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

/// The level of a RAISE.
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

/// An option of RAISE … USING.
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

/// The RAISE statement.
#[derive(Clone, Debug)]
pub struct Raise {
    /// The level; EXCEPTION if the statement names none.
    pub level: Level,
    /// The format string, with `%` for each argument.
    pub format: Option<String>,
    /// The expressions of the arguments.
    pub args: Vec<usize>,
    /// The condition: its SQLSTATE and the name that the statement uses.
    pub state: Option<(SqlState, String)>,
    /// The USING options and their expressions.
    pub options: Vec<(RaiseOption, usize)>,
}

/// The direction of FETCH and MOVE; the numbers are expressions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FetchDirection {
    /// A direction without an expression.
    Known(Direction),
    /// `FORWARD n`
    Forward(usize),
    /// `BACKWARD n`
    Backward(usize),
    /// `ABSOLUTE n`: counts from 1, or from the end if it is negative.
    Absolute(usize),
    /// `RELATIVE n`: counts from the current row, backward if it is negative.
    Relative(usize),
}

/// An instruction of the interpreter. Its numbers are indexes of ops, variables, texts and loop
/// registers.
#[derive(Clone, Debug)]
pub enum Op {
    /// Continues at another op.
    Jump(usize),
    /// Continues at the next op if the condition is true, otherwise at `to`.
    Unless {
        /// The expression of the condition.
        condition: usize,
        /// The op to continue at if the condition is not true.
        to: usize,
    },
    /// Initializes a variable when its block is entered.
    Declare {
        /// The declared variable.
        variable: usize,
        /// The expression of the initial value; without it the value is NULL.
        value: Option<usize>,
    },
    /// `target := value`
    Assign {
        /// The variable, field or element to assign to.
        target: Target,
        /// The expression of the value.
        value: usize,
    },
    /// Executes a static SQL statement.
    Run {
        /// The statement.
        text: usize,
        /// The targets of the INTO clause.
        into: Option<IntoClause>,
        /// PERFORM: the rows are discarded.
        perform: bool,
    },
    /// Executes dynamic SQL (EXECUTE).
    Execute {
        /// The expression that gives the text of the statement.
        text: usize,
        /// The expressions of the USING clause.
        using: Vec<usize>,
        /// The targets of the INTO clause.
        into: Option<IntoClause>,
    },
    /// Begins `FOR variable IN low .. high BY step`.
    RangeStart {
        /// The register of the loop.
        register: usize,
        /// The expression of the first value.
        low: usize,
        /// The expression of the last value.
        high: usize,
        /// The expression of the step; 1 if omitted.
        step: Option<usize>,
        /// REVERSE: the loop counts down.
        reverse: bool,
    },
    /// Begins the next iteration, or jumps to `exit` after the last one.
    RangeNext {
        /// The register of the loop.
        register: usize,
        /// The loop variable.
        variable: usize,
        /// The op after the loop.
        exit: usize,
    },
    /// Begins a loop over rows.
    RowsStart {
        /// The register of the loop.
        register: usize,
        /// The source of the rows.
        source: RowSource,
    },
    /// Assigns the next row, or jumps to `exit` after the last one.
    RowsNext {
        /// The register of the loop.
        register: usize,
        /// The targets of the row.
        into: IntoClause,
        /// The op after the loop.
        exit: usize,
    },
    /// Begins a loop over an array (FOREACH).
    ArrayStart {
        /// The register of the loop.
        register: usize,
        /// The expression of the array.
        array: usize,
        /// The number of dimensions of each slice (SLICE); 0 for single elements.
        slice: usize,
    },
    /// Assigns the next element or slice, or jumps to `exit` after the last one.
    ArrayNext {
        /// The register of the loop.
        register: usize,
        /// The target of the element.
        target: Target,
        /// The op after the loop.
        exit: usize,
    },
    /// Ends a loop and discards its state.
    LoopEnd {
        /// The register of the loop.
        register: usize,
    },
    /// Enters a block with exception handlers.
    Try {
        /// The handlers, as an index into [`Code::handlers`].
        handlers: usize,
    },
    /// Leaves the protected part of a block with exception handlers.
    EndTry,
    /// Leaves an exception handler.
    EndHandler,
    /// RAISE
    Raise(Box<Raise>),
    /// RAISE without arguments, in an exception handler: raises the caught error again.
    Reraise,
    /// ASSERT
    Assert {
        /// The expression of the condition.
        condition: usize,
        /// The expression of the message.
        message: Option<usize>,
    },
    /// GET DIAGNOSTICS
    Diagnostics {
        /// The targets and the items that they receive.
        items: Vec<(Target, Diagnostic)>,
        /// STACKED: the items of the error that the current handler has caught.
        stacked: bool,
    },
    /// Raises an error: no branch of a CASE without ELSE matched.
    NoCase,
    /// RETURN, with the expression of its value.
    Return(Option<usize>),
    /// RETURN of a row variable.
    ReturnRow(usize),
    /// RETURN NEXT, with the expression of its value.
    ReturnNext(Option<usize>),
    /// RETURN NEXT of a row variable.
    ReturnNextRow(usize),
    /// RETURN QUERY
    ReturnQuery(RowSource),
    /// OPEN
    Open {
        /// The cursor variable.
        cursor: usize,
        /// The query of the cursor.
        source: RowSource,
        /// SCROLL, or NO SCROLL (false).
        scroll: Option<bool>,
    },
    /// FETCH and MOVE.
    Fetch {
        /// The cursor variable.
        cursor: usize,
        /// The direction.
        way: FetchDirection,
        /// The targets of the row; `None` for MOVE.
        into: Option<IntoClause>,
    },
    /// CLOSE of a cursor variable.
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
    /// The conditions of each WHEN clause and the op at which its handler begins.
    pub clauses: Vec<(Vec<Condition>, usize)>,
    /// The variable `SQLSTATE`.
    pub state: usize,
    /// The variable `SQLERRM`.
    pub message: usize,
}

/// A condition of EXCEPTION WHEN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// OTHERS
    Others,
    /// One SQLSTATE; a state that ends in 000 stands for its class.
    State(SqlState),
}

/// The routine that a body belongs to.
#[derive(Clone, Copy, Debug)]
pub struct Header<'a> {
    /// The name of the routine.
    pub name: &'a str,
    /// Its arguments.
    pub args: &'a [RoutineArg],
    /// The declared result.
    pub result: &'a RoutineResult,
    /// Whether the body belongs to a procedure or to a DO statement.
    pub procedure: bool,
    /// Whether the result type is polymorphic: `$0` is then a variable of the actual result type.
    pub polymorphic: bool,
}

/// Compiles a body. Names are resolved along the search path.
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
