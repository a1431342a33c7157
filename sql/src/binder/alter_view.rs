//! The options of views, and ALTER VIEW. Also ALTER TABLE of a view, and changes to the triggers of
//! views.

use std::sync::Arc;

use sqlparser::ast;

use super::ddl::{default_error, text_of};
use super::expr::Clause;
use super::scope::Scope;
use super::updatable::why_not_updatable;
use super::{Binder, names};
use crate::bound::{
    AlterView, NamedObject, RenameView, Select, Statement, TriggerChange, ViewChange,
};
use crate::catalog::{Object, ObjectKind, ViewDef};
use crate::error::{SqlError, SqlState};
use crate::parser::{self, AlterViewSyntax, ViewOptions, parse_query};
use crate::settings::parse_bool;

const TAG: &str = "ALTER VIEW";

impl Binder<'_> {
    pub(super) fn alter_view(&mut self, syntax: &AlterViewSyntax) -> Result<Statement, SqlError> {
        let schema = syntax.schema.as_deref();
        self.check_schema(schema, syntax.if_exists)?;
        let Some(view) = self.catalog.view(schema, &syntax.name)? else {
            let there = self.catalog.table(schema, &syntax.name)?.is_some();
            return match (there, syntax.if_exists) {
                (true, _) => Err(SqlError::new(
                    SqlState::WRONG_OBJECT_TYPE,
                    format!("\"{}\" is not a view", syntax.name),
                )),
                (false, true) => Ok(altered(None, &syntax.name, Vec::new(), TAG)),
                (false, false) => Err(names::no_relation(schema, &syntax.name)),
            };
        };
        let change = match &syntax.does {
            parser::AlterView::Default { column, value } => {
                self.view_default(&view, column, value.as_deref())?
            }
            parser::AlterView::Set(options) => self.view_options(&view, options.clone())?,
            parser::AlterView::Reset(options) => ViewChange::Reset(options.clone()),
        };
        Ok(altered(Some(view), &syntax.name, vec![change], TAG))
    }

    /// Binds ALTER TABLE of a view, which has the effect of ALTER VIEW.
    pub(super) fn alter_view_as_table(
        &mut self,
        view: Arc<ViewDef>,
        operations: &[ast::AlterTableOperation],
    ) -> Result<Statement, SqlError> {
        use ast::AlterTableOperation as Op;
        const TAG: &str = "ALTER TABLE";
        let renamed = |column, to| {
            Statement::RenameView(RenameView {
                object: Some(NamedObject {
                    object: Object::new(ObjectKind::View, view.id),
                    name: view.name.clone(),
                }),
                name: view.name.clone(),
                column,
                to,
            })
        };
        match operations {
            [
                Op::RenameColumn {
                    old_column_name,
                    new_column_name,
                },
            ] => {
                let column = Some(names::fold(old_column_name));
                return Ok(renamed(column, names::fold(new_column_name)));
            }
            [Op::RenameTable { table_name }] => {
                let (ast::RenameTableNameKind::As(name) | ast::RenameTableNameKind::To(name)) =
                    table_name;
                return Ok(renamed(None, names::table_name(name)?.1));
            }
            _ => {}
        }
        let mut changes = Vec::with_capacity(operations.len());
        for operation in operations {
            changes.push(match operation {
                Op::AlterColumn {
                    column_name,
                    op: ast::AlterColumnOperation::SetDefault { value },
                } => self.view_default(&view, &names::fold(column_name), Some(value))?,
                Op::AlterColumn {
                    column_name,
                    op: ast::AlterColumnOperation::DropDefault,
                } => self.view_default(&view, &names::fold(column_name), None)?,
                Op::SetOptionsParens { options } => {
                    self.view_options(&view, given_options(options)?)?
                }
                other => {
                    let action = action_name(other);
                    let name = &view.name;
                    let message =
                        format!("ALTER action {action} cannot be performed on relation \"{name}\"");
                    return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message)
                        .detail("This operation is not supported for views."));
                }
            });
        }
        let name = view.name.clone();
        Ok(altered(Some(view), &name, changes, TAG))
    }

    fn view_default(
        &mut self,
        view: &ViewDef,
        name: &str,
        value: Option<&ast::Expr>,
    ) -> Result<ViewChange, SqlError> {
        let table = view.as_table();
        let column = table.column(name);
        let column = column.ok_or_else(|| names::no_column_of(name, &view.name))?;
        if let Some(value) = value {
            let bound = self.scalar(value, &Scope::default(), Clause::Default)?;
            self.assign(bound, &table.columns[column])
                .map_err(default_error)?;
        }
        Ok(ViewChange::Default {
            column,
            default: value.map(text_of),
        })
    }

    fn view_options(
        &mut self,
        view: &ViewDef,
        options: ViewOptions,
    ) -> Result<ViewChange, SqlError> {
        if check_options(&options)? {
            let select = self.query_of(view, ObjectKind::View)?;
            check_updatable(&view.text, &select)?;
        }
        Ok(ViewChange::Set(options))
    }
}

/// Returns the statement that changes the triggers of a view.
pub(super) fn triggers_changed(view: Arc<ViewDef>, change: TriggerChange) -> Statement {
    let (name, tag) = (view.name.clone(), change.tag());
    altered(Some(view), &name, vec![ViewChange::Trigger(change)], tag)
}

fn altered(
    view: Option<Arc<ViewDef>>,
    name: &str,
    changes: Vec<ViewChange>,
    tag: &'static str,
) -> Statement {
    Statement::AlterView(AlterView {
        view,
        name: name.to_owned(),
        changes,
        tag,
    })
}

/// Returns whether the options of a view contain WITH CHECK OPTION.
///
/// # Errors
///
/// 22023 for an option or a value that is invalid.
pub(super) fn check_options(options: &ViewOptions) -> Result<bool, SqlError> {
    let wrong = |message: String| SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message);
    let mut checks = false;
    for (at, (name, value)) in options.iter().enumerate() {
        match name.as_str() {
            "security_barrier" | "security_invoker" => {
                if parse_bool(value).is_none() {
                    let message = format!("invalid value for boolean option \"{name}\": {value}");
                    return Err(wrong(message));
                }
            }
            "check_option" => {
                checks = true;
                if value != "local" && value != "cascaded" {
                    let message = format!("invalid value for enum option \"{name}\": {value}");
                    return Err(
                        wrong(message).detail("Valid values are \"local\" and \"cascaded\".")
                    );
                }
            }
            _ => return Err(wrong(format!("unrecognized parameter \"{name}\""))),
        }
        if options[..at].iter().any(|(other, _)| other == name) {
            let message = format!("parameter \"{name}\" specified more than once");
            return Err(wrong(message));
        }
    }
    Ok(checks)
}

/// Checks that a view of this query may have a check option; 0A000 unless it is automatically
/// updatable.
pub(super) fn check_updatable(text: &str, select: &Select) -> Result<(), SqlError> {
    let query = parse_query(text)?;
    match why_not_updatable(&query, select) {
        None => Ok(()),
        Some(why) => Err(SqlError::new(
            SqlState::FEATURE_NOT_SUPPORTED,
            "WITH CHECK OPTION is supported only on automatically updatable views",
        )
        .hint(why)),
    }
}

fn given_options(options: &[ast::SqlOption]) -> Result<ViewOptions, SqlError> {
    let one = |option: &ast::SqlOption| match option {
        ast::SqlOption::KeyValue { key, value } => {
            let value = match value {
                ast::Expr::Identifier(ident) => names::fold(ident),
                other => other.to_string().trim_matches('\'').to_owned(),
            };
            Ok((names::fold(key), value))
        }
        ast::SqlOption::Ident(key) => Ok((names::fold(key), "true".to_owned())),
        _ => Err(SqlError::unsupported("this option of a view")),
    };
    options.iter().map(one).collect()
}

/// Returns the name that messages give an action of ALTER TABLE.
fn action_name(operation: &ast::AlterTableOperation) -> String {
    use ast::AlterTableOperation as Op;
    let column = match operation {
        Op::AlterColumn { op, .. } => match op {
            ast::AlterColumnOperation::SetNotNull => "SET NOT NULL",
            ast::AlterColumnOperation::DropNotNull => "DROP NOT NULL",
            ast::AlterColumnOperation::SetDataType { .. } => "SET DATA TYPE",
            _ => "ADD IDENTITY",
        },
        Op::AddColumn { .. } => return "ADD COLUMN".to_owned(),
        Op::DropColumn { .. } => return "DROP COLUMN".to_owned(),
        Op::AddConstraint { .. } => return "ADD CONSTRAINT".to_owned(),
        other => {
            let text = other.to_string();
            let words: Vec<&str> = text.split_whitespace().take(2).collect();
            return words.join(" ");
        }
    };
    format!("ALTER COLUMN ... {column}")
}
