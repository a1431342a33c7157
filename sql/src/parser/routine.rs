//! The syntax trees of statements about functions and procedures.

use sqlparser::ast;

use super::lexer::{self, Kind};
use super::{depth, syntax};
use crate::bound::{SettingChange, Volatility};
use crate::catalog::{ArgMode, Parallel, RoutineKind};
use crate::error::{SqlError, SqlState};

/// A statement about functions or procedures.
#[derive(Clone, Debug)]
pub enum RoutineSyntax {
    /// CREATE FUNCTION, CREATE PROCEDURE
    Create(CreateRoutine),
    /// DROP FUNCTION, DROP PROCEDURE, DROP ROUTINE
    Drop(DropRoutine),
    /// ALTER FUNCTION, ALTER PROCEDURE, ALTER ROUTINE
    Alter(AlterRoutine),
    /// CALL
    Call(ast::Function),
}

/// CREATE FUNCTION or CREATE PROCEDURE.
#[derive(Clone, Debug)]
pub struct CreateRoutine {
    /// OR REPLACE
    pub or_replace: bool,
    /// Function or procedure.
    pub kind: RoutineKind,
    /// The schema, if it is named.
    pub schema: Option<String>,
    /// The name.
    pub name: String,
    /// The arguments.
    pub args: Vec<ArgSyntax>,
    /// RETURNS
    pub returns: Option<ReturnsSyntax>,
    /// LANGUAGE
    pub language: Option<String>,
    /// The attributes that CREATE and ALTER share.
    pub attributes: Attributes,
    /// SET
    pub settings: Vec<SettingChange>,
    /// The body, after AS or in SQL-standard form.
    pub body: Option<Body>,
}

/// The attributes that CREATE and ALTER share.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Attributes {
    /// IMMUTABLE, STABLE or VOLATILE
    pub volatility: Option<Volatility>,
    /// STRICT
    pub strict: Option<bool>,
    /// SECURITY DEFINER
    pub definer: Option<bool>,
    /// LEAKPROOF
    pub leakproof: Option<bool>,
    /// PARALLEL
    pub parallel: Option<Parallel>,
    /// COST
    pub cost: Option<f32>,
    /// ROWS
    pub rows: Option<f32>,
}

/// The body of a routine.
#[derive(Clone, Debug)]
pub enum Body {
    /// A body as a string.
    Text(String),
    /// An SQL-standard body: RETURN expression, or BEGIN ATOMIC … END.
    Sql(String),
}

/// The result of a function (RETURNS).
#[derive(Clone, Debug)]
pub enum ReturnsSyntax {
    /// A type, or SETOF it.
    Type(TypeSyntax),
    /// TABLE (columns)
    Table(Vec<ArgSyntax>),
}

/// An argument or result column of a routine.
#[derive(Clone, Debug)]
pub struct ArgSyntax {
    /// The name; empty if it has none.
    pub name: String,
    /// IN, OUT, INOUT, VARIADIC or TABLE.
    pub mode: ArgMode,
    /// The type.
    pub ty: TypeSyntax,
    /// The default as SQL text.
    pub default: Option<String>,
}

/// The type of an argument, a result or a PL/pgSQL variable.
#[derive(Clone, Debug)]
pub struct TypeSyntax {
    /// Whether SETOF precedes it.
    pub set: bool,
    /// The type itself.
    pub of: TypeOf,
}

/// A type as it is written.
#[derive(Clone, Debug)]
pub enum TypeOf {
    /// The name of a type.
    Named(Box<ast::DataType>),
    /// `name%TYPE`, as the parts of the name.
    Like(Vec<String>),
    /// `name%ROWTYPE`, as the parts of the name.
    Row(Vec<String>),
}

/// The name of a routine in a DROP, ALTER or similar statement.
#[derive(Clone, Debug)]
pub struct RoutineName {
    /// The schema, if it is named.
    pub schema: Option<String>,
    /// The name.
    pub name: String,
    /// The arguments, if they are given.
    pub args: Option<Vec<ArgSyntax>>,
}

/// DROP FUNCTION, DROP PROCEDURE or DROP ROUTINE.
#[derive(Clone, Debug)]
pub struct DropRoutine {
    /// The kind; `None` for ROUTINE.
    pub kind: Option<RoutineKind>,
    /// IF EXISTS
    pub if_exists: bool,
    /// The routines to drop.
    pub routines: Vec<RoutineName>,
    /// CASCADE
    pub cascade: bool,
}

/// ALTER FUNCTION, ALTER PROCEDURE or ALTER ROUTINE.
#[derive(Clone, Debug)]
pub struct AlterRoutine {
    /// The kind; `None` for ROUTINE.
    pub kind: Option<RoutineKind>,
    /// The routine.
    pub routine: RoutineName,
    /// The change.
    pub change: RoutineChange,
}

/// A change of a routine.
#[derive(Clone, Debug, PartialEq)]
pub enum RoutineChange {
    /// RENAME TO
    Rename(String),
    /// SET SCHEMA
    Schema(String),
    /// Changes of attributes and settings.
    Attributes {
        /// The new attributes.
        attributes: Attributes,
        /// SET and RESET
        settings: Vec<SettingChange>,
    },
}

impl TypeSyntax {
    /// Parses a type. `set` tells whether SETOF precedes it.
    pub fn parse(text: &str, set: bool) -> Result<TypeSyntax, SqlError> {
        let tokens = lexer::tokens(text)?;
        depth::check(text, &tokens)?;
        if let [names @ .., percent, word] = &tokens[..]
            && percent.kind == Kind::Operator
            && percent.text(text) == "%"
        {
            let mut parts = Vec::new();
            for (i, token) in names.iter().enumerate() {
                match (i % 2, token.kind) {
                    (0, Kind::Word) => parts.push(token.text(text).to_ascii_lowercase()),
                    // An argument such as `$1`, of which a variable copies the type.
                    (0, Kind::Param) => parts.push(token.text(text).to_owned()),
                    (0, Kind::QuotedIdent) => {
                        let inner = token.text(text).trim_matches('"');
                        parts.push(inner.replace("\"\"", "\""));
                    }
                    (1, Kind::Dot) => {}
                    _ => return Err(lexer::syntax_error(text, Some(*token))),
                }
            }
            let of = match () {
                () if word.is(text, "type") => TypeOf::Like(parts),
                () if word.is(text, "rowtype") => TypeOf::Row(parts),
                () => return Err(lexer::syntax_error(text, Some(*word))),
            };
            return Ok(TypeSyntax { set, of });
        }
        let data_type = syntax::data_type(text, &tokens).map_err(|e| match e.sqlstate() {
            SqlState::SYNTAX_ERROR => e,
            state => SqlError::new(state, e.message()),
        })?;
        Ok(TypeSyntax {
            set,
            of: TypeOf::Named(Box::new(data_type)),
        })
    }
}
