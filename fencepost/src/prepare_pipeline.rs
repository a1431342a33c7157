//! The prepare pipeline, from text to plans: parse, bind, plan.

use std::sync::{Arc, OnceLock};

use fencepost_planner::{PlanContext, check_supported, ddl_command, plan};
use fencepost_sql::binder::{ParamTypes, bind};
use fencepost_sql::bound::{self, Explain, ResultColumn};
use fencepost_sql::catalog::{Dependencies, Snapshot};
use fencepost_sql::context::EvalContext;
use fencepost_sql::error::{SqlError, SqlState};
use fencepost_sql::parser::{self, LiftedStatement, Literal};
use fencepost_sql::stack::{self, StackDepth};
use fencepost_sql::statements::number_of;
use fencepost_sql::types::{LONG_BYTES, Type, text_in};
use fencepost_sql::value::Value;

use crate::prepared::{Body, Column, DeclaredCursor, PlannedStatement};

/// One statement of a text, for [`Session::prepare_parsed`](crate::Session::prepare_parsed).
pub struct StatementSyntax(pub(crate) Syntax);

/// The progress of a statement.
pub(crate) enum Syntax {
    /// The literals are lifted; the statement is not parsed yet.
    Lifted(LiftedStatement, String),
    /// The statement is parsed as it is written.
    Tree(Box<parser::ParsedStatement>),
}

impl StatementSyntax {
    /// Splits a text into its statements; none for an empty text. A long text takes some time, so a
    /// server may call this on another thread. [`Session::split`] does the same for a session.
    /// After an error here the caller has to call [`Session::fail`] on its session.
    ///
    /// [`Session::split`]: crate::Session::split
    /// [`Session::fail`]: crate::Session::fail
    ///
    /// # Errors
    /// 42601 and others of the parser.
    pub fn all(sql: &str) -> Result<Vec<StatementSyntax>, SqlError> {
        // A long text is unlikely to be repeated, so its literals are not lifted for the plan
        // cache.
        if sql.len() < LONG_BYTES
            && let Some(lifted) = parser::lift(sql)
        {
            return Ok(vec![StatementSyntax(Syntax::Lifted(
                lifted,
                sql.to_owned(),
            ))]);
        }
        let trees = parser::parse(sql)?.into_iter();
        Ok(trees
            .map(|p| StatementSyntax(Syntax::Tree(Box::new(p))))
            .collect())
    }
}

/// Plans a parsed statement. `literals` are the values of its first parameters, as far as they are
/// known; estimates of rows depend on them.
pub(crate) fn plan_statement(
    parsed: parser::ParsedStatement,
    snapshot: &Snapshot,
    (types, literals): (ParamTypes, &[Literal]),
    cx: &EvalContext,
) -> Result<PlannedStatement, SqlError> {
    stack::on_large_stack(|| plan_here(&parsed, snapshot, (types.clone(), literals), cx))
}

fn plan_here(
    parsed: &parser::ParsedStatement,
    snapshot: &Snapshot,
    (mut types, literals): (ParamTypes, &[Literal]),
    cx: &EvalContext,
) -> Result<PlannedStatement, SqlError> {
    let bound = bind(parsed, snapshot, &mut types, cx).map_err(|e| moved(e, parsed.offset))?;
    check_supported(&bound)?;
    let known = literal_values(literals, types.types(), cx).unwrap_or_default();
    let allowed = Allowed {
        cx: PlanContext::of(cx).with_params(&known),
        names: Arc::clone(&cx.names),
        is_bound_here: cx.temporary().is_some() || stack::is_roomy(),
        depends: types.dependencies(snapshot.version()),
    };
    planned(bound, parsed.text.clone(), &types, &allowed)
}

/// The surroundings in which a statement was bound: the session, the role, the search path, and the
/// objects that it depends on.
struct Allowed<'a> {
    cx: PlanContext<'a>,
    names: Arc<str>,
    /// True if other machines must not run the plan. It may use temporary objects, or be too deep
    /// for the stacks of their threads.
    is_bound_here: bool,
    depends: Dependencies,
}

fn planned(
    bound: bound::Statement,
    text: String,
    types: &ParamTypes,
    allowed: &Allowed<'_>,
) -> Result<PlannedStatement, SqlError> {
    let columns = columns(&bound);
    let body = body(bound, &text, types, allowed)?;
    Ok(PlannedStatement {
        number: number_of(&text),
        names: Arc::clone(&allowed.names),
        depends: allowed.depends.clone(),
        text,
        params: types.types().to_vec(),
        is_bound_here: allowed.is_bound_here
            || !allowed.depends.types().is_empty()
            || body.has_users_types()
            || gives_rows(columns.as_deref()),
        columns,
        is_volatile: body.is_volatile(),
        is_repeatable: body.is_repeatable(),
        body,
        key: None,
        tally: OnceLock::new(),
        deep: StackDepth::now(),
    })
}

fn body(
    bound: bound::Statement,
    text: &str,
    types: &ParamTypes,
    allowed: &Allowed<'_>,
) -> Result<Body, SqlError> {
    match bound {
        bound::Statement::Explain(explained) => explain_body(explained, text, types, allowed),
        bound::Statement::Declare(declare) => declare_body(declare, text, types, allowed),
        other => Ok(match plan(other, allowed.cx) {
            Ok(plan) => {
                let used = plan.used(&allowed.depends);
                Body::Plan(Box::new(plan), used)
            }
            Err(utility) => Body::Utility(utility),
        }),
    }
}

fn explain_body(
    explained: Explain,
    text: &str,
    types: &ParamTypes,
    allowed: &Allowed<'_>,
) -> Result<Body, SqlError> {
    check_supported(&explained.statement)?;
    let ddl = ddl_command(&explained.statement).is_some();
    let options = explained.options;
    let statement = match *explained.statement {
        bound::Statement::Execute { name, args } => {
            return Ok(Body::ExplainExecute {
                name,
                args,
                options,
            });
        }
        bound::Statement::Declare(declare) => *declare.query,
        bound::Statement::CreateTable(bound::CreateTable {
            source: Some(query),
            ..
        }) => match options.analyze {
            true => {
                let what = "EXPLAIN ANALYZE of a statement that makes a table";
                return Err(SqlError::unsupported(what));
            }
            false => bound::Statement::Select(query),
        },
        other => other,
    };
    match plan(statement, allowed.cx) {
        Ok(plan) => {
            let used = plan.used(&allowed.depends);
            let body = Body::Plan(Box::new(plan), used);
            let planned = PlannedStatement {
                number: number_of(text),
                names: Arc::clone(&allowed.names),
                depends: allowed.depends.clone(),
                text: text.to_owned(),
                params: types.types().to_vec(),
                columns: None,
                is_bound_here: allowed.is_bound_here
                    || !allowed.depends.types().is_empty()
                    || body.has_users_types(),
                is_volatile: body.is_volatile(),
                is_repeatable: body.is_repeatable(),
                body,
                key: None,
                tally: OnceLock::new(),
                deep: StackDepth::now(),
            };
            Ok(Body::Explain {
                planned: Some(Arc::new(planned)),
                options,
            })
        }
        Err(_) if ddl => Ok(Body::Explain {
            planned: None,
            options,
        }),
        Err(_) => Err(SqlError::new(
            SqlState::SYNTAX_ERROR,
            "this statement cannot be explained",
        )),
    }
}

fn declare_body(
    declare: bound::Declare,
    text: &str,
    types: &ParamTypes,
    allowed: &Allowed<'_>,
) -> Result<Body, SqlError> {
    let planned = planned(*declare.query, text.to_owned(), types, allowed)?;
    Ok(Body::Declare(Arc::new(DeclaredCursor {
        name: declare.name,
        options: declare.options,
        goes_back: declare.goes_back,
        planned: Arc::new(planned),
    })))
}

fn columns(bound: &bound::Statement) -> Option<Arc<[Column]>> {
    let columns = bound.columns()?;
    Some(columns.into_iter().map(column).collect())
}

/// Returns whether a result column contains row values.
fn gives_rows(columns: Option<&[Column]>) -> bool {
    let kind = |column: &Column| column.ty.element().unwrap_or(column.ty).kind;
    columns.is_some_and(|all| all.iter().any(|column| kind(column).is_row()))
}

fn column(column: ResultColumn) -> Column {
    Column {
        name: column.name,
        ty: column.ty,
        table_oid: column.origin.map_or(0, |o| o.table),
        attnum: column.origin.map_or(0, |o| o.attnum),
    }
}

/// Shifts the position of an error, so that it counts from the start of the whole text.
fn moved(error: SqlError, offset: u32) -> SqlError {
    match error.fields().position {
        Some(position) => error.at(position + offset),
        None => error,
    }
}

/// Converts lifted literals to the types of their parameters. Returns `None` if a literal does not
/// fit its type; binding the statement as written then reports the error.
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

/// Parses a text that may contain at most one statement.
pub(crate) fn parse_single(sql: &str) -> Result<Option<parser::ParsedStatement>, SqlError> {
    let mut statements = parser::parse(sql)?;
    if statements.len() > 1 {
        return Err(SqlError::new(
            SqlState::SYNTAX_ERROR,
            "cannot insert multiple commands into a prepared statement",
        ));
    }
    Ok(statements.pop())
}
