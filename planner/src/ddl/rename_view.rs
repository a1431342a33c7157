//! ALTER VIEW … RENAME TO and ALTER VIEW … RENAME COLUMN.

use fencepost_sql::binder::ObjectRename;
use fencepost_sql::bound::RenameView;
use fencepost_sql::catalog::{ObjectKind, ViewDef};
use fencepost_sql::error::{SqlError, SqlState};
use fencepost_sql::stop::StatementStop;

use super::authorize::Authorizer;
use super::changes::Changes;
use super::create::exists;
use super::follow::rename_in_views;
use super::type_names::check_not_type;
use super::view::touch;
use super::{DdlCx, Notice};
use crate::exec::Cx;

/// Runs ALTER VIEW … RENAME TO and RENAME COLUMN. Returns the command tag.
pub async fn rename_view(
    statement: &RenameView,
    cx: &mut Cx<'_>,
    ddl: &mut DdlCx<'_>,
) -> Result<&'static str, StatementStop> {
    const TAG: &str = "ALTER VIEW";
    let Some(named) = &statement.object else {
        let message = format!("relation \"{}\" does not exist, skipping", statement.name);
        let notice = Notice::new(SqlState::SUCCESSFUL_COMPLETION, message);
        ddl.notices.push(notice);
        return Ok(TAG);
    };
    let id = named.object.id;
    Authorizer::of(cx, ddl)?.owns(ObjectKind::View, id, &named.name)?;
    let mut views = ddl.snapshot.views();
    let Some(view) = views.find(|view| view.id == id).cloned() else {
        let message = format!("\"{}\" is not a view", named.name);
        return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message).into());
    };
    drop(views);
    let mut renamed = ViewDef::clone(&view);
    let to = statement.to.clone();
    let (renaming, old) = match &statement.column {
        None => {
            if ddl.snapshot.relation_exists(&view.schema, &to) {
                exists(&to, false, ddl)?;
            }
            check_not_type(&view.schema, &to, ddl)?;
            renamed.name.clone_from(&to);
            (ObjectRename::Relation { id, to }, view.name.clone())
        }
        Some(name) => {
            let column = rename_column(&mut renamed, name, &to)?;
            let relation = id;
            let renaming = ObjectRename::Column {
                relation,
                column,
                to,
            };
            (renaming, name.clone())
        }
    };
    let mut changes = Changes::begin(cx, ddl).await?;
    touch(&view, cx, ddl, &mut changes).await?;
    rename_in_views((&renaming, &old), cx, ddl, &mut changes).await?;
    *changes.view(&view) = renamed;
    changes.finish(cx, ddl).await?;
    Ok(TAG)
}

fn rename_column(view: &mut ViewDef, from: &str, to: &str) -> Result<usize, SqlError> {
    if view.columns.iter().any(|(name, _)| name == to) {
        let message = format!(
            "column \"{to}\" of relation \"{}\" already exists",
            view.name
        );
        return Err(SqlError::new(SqlState::DUPLICATE_COLUMN, message));
    }
    let mut names = view.columns.iter();
    let at = names.position(|(name, _)| name == from);
    let at = at.ok_or_else(|| {
        let message = format!("column \"{from}\" does not exist");
        SqlError::new(SqlState::UNDEFINED_COLUMN, message)
    })?;
    to.clone_into(&mut view.columns[at].0);
    Ok(at)
}
