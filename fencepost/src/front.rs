//! From text to plans: parse, bind, plan.

use std::sync::Arc;

use fencepost_planner::{check_supported, ddl_command, plan};
use fencepost_sql::binder::{ParamTypes, bind};
use fencepost_sql::bound::{self, Explain, ResultColumn};
use fencepost_sql::catalog::Snapshot;
use fencepost_sql::context::EvalContext;
use fencepost_sql::error::{SqlError, SqlState};
use fencepost_sql::parser::{self, Lifted, Literal};
use fencepost_sql::types::{Type, text_in};
use fencepost_sql::value::Value;

use crate::prepared::{Body, Column, Planned};

/// One statement of a text.
pub struct Parsed(pub(crate) Syntax);

/// How far a statement has come.
pub(crate) enum Syntax {
    /// Its literals are lifted; it is not parsed yet.
    Lifted(Lifted, String),
    /// Parsed as it is written.
    Tree(Box<parser::Parsed>),
}

/// The plan of a parsed statement.
pub(crate) fn plan_statement(
    parsed: parser::Parsed,
    snapshot: &Snapshot,
    mut types: ParamTypes,
    cx: &EvalContext,
) -> Result<Planned, SqlError> {
    let bound = bind(&parsed, snapshot, &mut types, cx).map_err(|e| moved(e, parsed.offset))?;
    check_supported(&bound)?;
    let columns = bound.columns().map(|c| c.into_iter().map(column).collect());
    let params = types.types().to_vec();
    let body = body(bound, &parsed.text, &params)?;
    Ok(Planned {
        text: parsed.text,
        params,
        columns,
        is_volatile: body.is_volatile(),
        body,
        key: None,
    })
}

fn body(bound: bound::Statement, text: &str, params: &[Type]) -> Result<Body, SqlError> {
    match bound {
        bound::Statement::Explain(explained) => explain_body(explained, text, params),
        other => Ok(match plan(other) {
            Ok(plan) => {
                let tables = plan.tables();
                Body::Plan(Box::new(plan), tables)
            }
            Err(utility) => Body::Utility(utility),
        }),
    }
}

fn explain_body(explained: Explain, text: &str, params: &[Type]) -> Result<Body, SqlError> {
    check_supported(&explained.statement)?;
    let ddl = ddl_command(&explained.statement).is_some();
    match plan(*explained.statement) {
        Ok(plan) => {
            let tables = plan.tables();
            let body = Body::Plan(Box::new(plan), tables);
            let planned = Planned {
                text: text.to_owned(),
                params: params.to_vec(),
                columns: None,
                is_volatile: body.is_volatile(),
                body,
                key: None,
            };
            Ok(Body::Explain {
                planned: Some(Arc::new(planned)),
                analyze: explained.analyze,
            })
        }
        Err(_) if ddl => Ok(Body::Explain {
            planned: None,
            analyze: false,
        }),
        Err(_) => Err(SqlError::new(
            SqlState::SYNTAX_ERROR,
            "this statement cannot be explained",
        )),
    }
}

fn column(column: ResultColumn) -> Column {
    Column {
        name: column.name,
        ty: column.ty,
        table_oid: column.origin.map_or(0, |o| o.table),
        attnum: column.origin.map_or(0, |o| o.attnum),
    }
}

/// Positions in errors count from the start of the whole text.
fn moved(error: SqlError, offset: u32) -> SqlError {
    match error.fields().position {
        Some(position) => error.at(position + offset),
        None => error,
    }
}

/// The values of lifted literals as their parameters' types have them; `None` where a literal is
/// none of its type: the statement as written will tell.
pub(crate) fn literal_values(
    literals: &[Literal],
    types: &[Type],
    cx: &EvalContext,
) -> Option<Vec<Value>> {
    let mut values = Vec::with_capacity(literals.len());
    for (literal, ty) in literals.iter().zip(types) {
        values.push(match literal {
            Literal::Text(text) => text_in(ty, text, &cx.settings).ok()?,
            other => other.value(),
        });
    }
    (values.len() == types.len()).then_some(values)
}

/// The one statement of a text.
pub(crate) fn parse_single(sql: &str) -> Result<Option<parser::Parsed>, SqlError> {
    let mut statements = parser::parse(sql)?;
    if statements.len() > 1 {
        return Err(SqlError::new(
            SqlState::SYNTAX_ERROR,
            "cannot insert multiple commands into a prepared statement",
        ));
    }
    Ok(statements.pop())
}
