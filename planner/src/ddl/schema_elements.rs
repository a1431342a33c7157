//! The schema elements of CREATE SCHEMA: statements that run one after the other, with the new
//! schema first in the search path.

use std::sync::Arc;

use fencepost_sql::binder::{ParamTypes, bind};
use fencepost_sql::bound::Statement;
use fencepost_sql::catalog::Snapshot;
use fencepost_sql::context::EvalContext;
use fencepost_sql::error::{SqlError, SqlState};
use fencepost_sql::functions::quote_ident;
use fencepost_sql::parser;
use fencepost_sql::stop::StatementStop;

use super::{DdlCx, run_ddl};
use crate::exec::Cx;

/// SQLSTATE 42P15, `invalid_schema_definition`.
const INVALID_SCHEMA_DEFINITION: SqlState = SqlState::new(b"42P15");

/// Creates the objects of a new schema. The owner of the schema owns them.
pub async fn make_elements(
    (schema, owner): (&str, &str),
    elements: &[String],
    cx: &mut Cx<'_>,
    ddl: &mut DdlCx<'_>,
) -> Result<(), StatementStop> {
    let mut settings = cx.eval.settings_now()?;
    let before = settings.get("search_path").unwrap_or_default().into_owned();
    let path = format!("{}, {before}", quote_ident(schema));
    settings.set("search_path", &path)?;
    let eval = cx.eval.under(settings);
    eval.act_as(Some(Arc::from(owner)));
    let made = {
        let mut inner = cx.within(&[]);
        inner.eval = &eval;
        let made = make_each(schema, elements, &mut inner, ddl).await;
        let held = inner.held;
        cx.held += held;
        made
    };
    cx.eval.resume(eval, &[("search_path".to_owned(), path)]);
    made
}

async fn make_each(
    schema: &str,
    elements: &[String],
    cx: &mut Cx<'_>,
    ddl: &mut DdlCx<'_>,
) -> Result<(), StatementStop> {
    let check = |statement: &Statement| check_schema(statement, schema);
    run_each(elements, &check, cx, ddl).await
}

/// Runs statements given as text. Each is bound with the catalog that the previous ones leave.
pub async fn run_each(
    texts: &[String],
    check: &(dyn Fn(&Statement) -> Result<(), SqlError> + Send + Sync),
    cx: &mut Cx<'_>,
    ddl: &mut DdlCx<'_>,
) -> Result<(), StatementStop> {
    for text in texts {
        let snapshot = ddl.catalog.snapshot(cx.tx).await?;
        cx.eval.set_private(Some(Arc::clone(&snapshot)));
        let statement = bound(text, &snapshot, cx.eval)?;
        check(&statement)?;
        let mut within = DdlCx {
            catalog: ddl.catalog,
            snapshot: &snapshot,
            notices: &mut *ddl.notices,
            rows: None,
            salt: ddl.salt,
        };
        run_ddl(&statement, cx, &mut within).await?;
    }
    Ok(())
}

fn bound(text: &str, snapshot: &Snapshot, eval: &EvalContext) -> Result<Statement, SqlError> {
    let Some(parsed) = parser::parse(text)?.pop() else {
        return Err(SqlError::internal("a schema element that is empty"));
    };
    bind(&parsed, snapshot, &mut ParamTypes::new(), eval)
}

/// Returns error 42P15 if a statement creates an object in another schema.
fn check_schema(statement: &Statement, schema: &str) -> Result<(), SqlError> {
    let said = match statement {
        Statement::CreateTable(create) => Some(&create.schema),
        Statement::CreateView(create) => Some(&create.schema),
        Statement::CreateSequence(create) => create.schema.as_ref(),
        Statement::CreateIndex(create) => Some(&create.table.schema),
        _ => None,
    };
    match said {
        Some(said) if said != schema => Err(SqlError::new(
            INVALID_SCHEMA_DEFINITION,
            format!(
                "CREATE specifies a schema ({said}) different from the one being created ({schema})"
            ),
        )),
        _ => Ok(()),
    }
}
