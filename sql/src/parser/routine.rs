//! The syntax trees of statements about functions and procedures.

use sqlparser::ast;

use super::lexer::{self, Kind};
use super::{depth, syntax};
use crate::bound::{SettingChange, Volatility};
use crate::catalog::{ArgMode, Parallel, RoutineKind};
use crate::error::{SqlError, SqlState};

/// A statement about routines.
#[derive(Clone, Debug)]
pub enum RoutineSyntax {
    /// CREATE FUNCTION, CREATE PROCEDURE
    Create(CreateRoutine),
    /// DROP FUNCTION and its kin
    Drop(DropRoutine),
    /// ALTER FUNCTION and its kin
    Alter(AlterRoutine),
    /// CALL
    Call(ast::Function),
}

/// CREATE FUNCTION, CREATE PROCEDURE
#[derive(Clone, Debug)]
pub struct CreateRoutine {
    /// OR REPLACE
    pub or_replace: bool,
    /// Which of them.
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
    /// What CREATE and ALTER say of it alike.
    pub attributes: Attributes,
    /// SET
    pub settings: Vec<SettingChange>,
    /// AS, or the body itself
    pub body: Option<Body>,
}

/// What CREATE and ALTER say of a routine alike.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Attributes {
    /// IMMUTABLE and its kin
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

/// A body.
#[derive(Clone, Debug)]
pub enum Body {
    /// A string.
    Text(String),
    /// RETURN expression, or BEGIN ATOMIC … END.
    Sql(String),
}

/// RETURNS
#[derive(Clone, Debug)]
pub enum ReturnsSyntax {
    /// A type, or SETOF it.
    Type(TypeSyntax),
    /// TABLE (columns)
    Table(Vec<ArgSyntax>),
}

/// An argument.
#[derive(Clone, Debug)]
pub struct ArgSyntax {
    /// Its name; empty for none.
    pub name: String,
    /// Which way it goes.
    pub mode: ArgMode,
    /// Its type.
    pub ty: TypeSyntax,
    /// Its default as SQL text.
    pub default: Option<String>,
}

/// A type where routines have one.
#[derive(Clone, Debug)]
pub struct TypeSyntax {
    /// SETOF
    pub set: bool,
    /// What it is.
    pub of: TypeOf,
}

/// What a type is.
#[derive(Clone, Debug)]
pub enum TypeOf {
    /// A type by its name.
    Named(Box<ast::DataType>),
    /// `name%TYPE`, by the parts of its name.
    Like(Vec<String>),
    /// `name%ROWTYPE`
    Row(Vec<String>),
}

/// A routine as DROP and ALTER name it.
#[derive(Clone, Debug)]
pub struct RoutineName {
    /// The schema, if it is named.
    pub schema: Option<String>,
    /// The name.
    pub name: String,
    /// Its arguments, if they are said.
    pub args: Option<Vec<ArgSyntax>>,
}

/// DROP FUNCTION and its kin
#[derive(Clone, Debug)]
pub struct DropRoutine {
    /// Which kind; `None` is either.
    pub kind: Option<RoutineKind>,
    /// IF EXISTS
    pub if_exists: bool,
    /// Which.
    pub routines: Vec<RoutineName>,
    /// CASCADE
    pub cascade: bool,
}

/// ALTER FUNCTION and its kin
#[derive(Clone, Debug)]
pub struct AlterRoutine {
    /// Which kind; `None` is either.
    pub kind: Option<RoutineKind>,
    /// Which.
    pub routine: RoutineName,
    /// What becomes of it.
    pub change: RoutineChange,
}

/// A change of a routine.
#[derive(Clone, Debug, PartialEq)]
pub enum RoutineChange {
    /// RENAME TO
    Rename(String),
    /// SET SCHEMA
    Schema(String),
    /// What else it says of itself.
    Attributes {
        /// IMMUTABLE and its kin
        attributes: Attributes,
        /// SET and RESET
        settings: Vec<SettingChange>,
    },
}

impl TypeSyntax {
    /// Reads a type.
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
                    // An argument of the body that a variable is like.
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
