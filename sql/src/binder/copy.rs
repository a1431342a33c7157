//! COPY.

use std::sync::Arc;

use sqlparser::ast::{self, SetExpr};

use super::expr::Clause;
use super::rules::Change;
use super::{Binder, names};
use crate::bound::{Copy, CopyDirection, CopySource, Integrity, Statement};
use crate::catalog::acl::Privileges;
use crate::catalog::{Event, ObjectKind, ViewDef};
use crate::error::{SqlError, SqlState};
use crate::parser::{CopyFrom, CopySyntax, parse_query};

/// Returns a query for the RETURNING rows of a statement, with the statement as a data-modifying
/// CTE.
fn returned(statement: &ast::Query) -> Result<ast::Query, SqlError> {
    const TEXT: &str = "WITH \"*COPY*\" AS (SELECT 1) SELECT * FROM \"*COPY*\"";
    let returns = match &*statement.body {
        SetExpr::Insert(ast::Statement::Insert(insert)) => insert.returning.is_some(),
        SetExpr::Update(ast::Statement::Update(update)) => update.returning.is_some(),
        SetExpr::Delete(ast::Statement::Delete(delete)) => delete.returning.is_some(),
        _ => false,
    };
    if !returns {
        return Err(SqlError::unsupported(
            "a COPY of a statement without RETURNING",
        ));
    }
    let mut query = *parse_query(TEXT)?;
    let ctes = query.with.iter_mut().flat_map(|with| &mut with.cte_tables);
    ctes.for_each(|cte| *cte.query = statement.clone());
    Ok(query)
}

impl Binder<'_> {
    pub(super) fn copy(&mut self, copy: &CopySyntax) -> Result<Statement, SqlError> {
        let (source, copied) = match &copy.source {
            CopyFrom::Query(query) => {
                let changes = matches!(
                    &*query.body,
                    SetExpr::Insert(_)
                        | SetExpr::Update(_)
                        | SetExpr::Delete(_)
                        | SetExpr::Merge(_)
                );
                let select = match changes {
                    true => self.query(&returned(query)?)?,
                    false => self.query(query)?,
                };
                let copied = select.columns().iter().map(|t| t.name.clone()).collect();
                (CopySource::Query(Box::new(select)), copied)
            }
            CopyFrom::Table {
                schema,
                name,
                columns,
            } => self.copy_table(schema.as_deref(), name, columns, copy.direction)?,
        };
        let mut options = copy.options.clone();
        if copy.force_quote_all {
            options.force_quote = Some((0..copied.len()).collect());
        } else if !copy.force_quote.is_empty() {
            options.force_quote = Some(forced("FORCE_QUOTE", &copy.force_quote, &copied, &source)?);
        }
        options.force_null = forced("FORCE_NULL", &copy.force_null, &copied, &source)?;
        options.force_not_null = forced("FORCE_NOT_NULL", &copy.force_not_null, &copied, &source)?;
        let filter = match (&copy.filter, &source) {
            (Some(text), CopySource::Table { table, .. }) => {
                let condition = self.stored(table, text, Clause::CopyWhere)?;
                Some(self.condition(condition, "WHERE")?)
            }
            _ => None,
        };
        Ok(Statement::Copy(Box::new(Copy {
            direction: copy.direction,
            source,
            options,
            filter,
        })))
    }

    fn copy_table(
        &mut self,
        schema: Option<&str>,
        name: &str,
        list: &[String],
        direction: CopyDirection,
    ) -> Result<(CopySource, Vec<String>), SqlError> {
        let table = match self.catalog.view(schema, name)? {
            Some(view) if copies_instead(&view, direction) => {
                self.params.name_view(&view);
                Arc::new(view.as_table())
            }
            Some(view) => return Err(of_view(&view, direction)),
            None => self.table_called(schema, name)?,
        };
        if table.materialized.is_some() {
            let name = &table.name;
            return Err(match direction {
                CopyDirection::In => SqlError::new(
                    SqlState::WRONG_OBJECT_TYPE,
                    format!("cannot copy to materialized view \"{name}\""),
                ),
                CopyDirection::Out => SqlError::new(
                    SqlState::WRONG_OBJECT_TYPE,
                    format!("cannot copy from materialized view \"{name}\""),
                )
                .hint("Try the COPY (SELECT ...) TO variant."),
            });
        }
        if direction == CopyDirection::Out && table.is_parent() {
            return Err(SqlError::new(
                SqlState::WRONG_OBJECT_TYPE,
                format!("cannot copy from partitioned table \"{}\"", table.name),
            )
            .hint("Try the COPY (SELECT ...) TO variant."));
        }
        let mut columns = Vec::new();
        for name in list {
            let column = table
                .column(name)
                .ok_or_else(|| names::no_column_of(name, &table.name))?;
            if columns.contains(&column) {
                return Err(SqlError::new(
                    SqlState::DUPLICATE_COLUMN,
                    format!("column \"{name}\" specified more than once"),
                ));
            }
            if table.columns[column].more.generated.is_some() {
                return Err(SqlError::new(
                    SqlState::INVALID_COLUMN_REFERENCE,
                    format!("column \"{name}\" is a generated column"),
                )
                .detail("Generated columns cannot be used in COPY."));
            }
            columns.push(column);
        }
        if list.is_empty() {
            let is_stored = |at: &usize| table.columns[*at].more.generated.is_none();
            columns = (0..table.columns.len()).filter(is_stored).collect();
        }
        match direction {
            CopyDirection::In => {
                self.need_change(&table, Privileges::INSERT);
                self.need_columns(&table, Privileges::INSERT, &columns);
            }
            CopyDirection::Out => {
                let reads = self.need_read(ObjectKind::Table, table.id, &table.name);
                let numbers = columns.iter().map(|at| table.columns[*at].attnum);
                reads.borrow_mut().extend(numbers);
            }
        }
        let copied = columns
            .iter()
            .map(|c| table.columns[*c].name.clone())
            .collect();
        let mut defaults = vec![None; table.columns.len()];
        if direction == CopyDirection::In {
            for (i, column) in table.columns.iter().enumerate() {
                if !columns.contains(&i) {
                    defaults[i] = Some(self.default_of(column)?);
                }
            }
        }
        let integrity = match direction {
            CopyDirection::In => {
                let change = Change {
                    inserts: true,
                    ..Change::default()
                };
                self.integrity(&table, change)?
            }
            CopyDirection::Out => Integrity::default(),
        };
        let source = CopySource::Table {
            table,
            columns,
            defaults,
            integrity: Box::new(integrity),
        };
        Ok((source, copied))
    }
}

/// Returns whether an INSTEAD OF INSERT trigger of the view takes the rows of COPY FROM.
fn copies_instead(view: &ViewDef, direction: CopyDirection) -> bool {
    direction == CopyDirection::In && view.is_done_instead(Event::Insert)
}

/// Returns the error 42809 for a COPY of a view.
fn of_view(view: &ViewDef, direction: CopyDirection) -> SqlError {
    let (way, hint) = match direction {
        CopyDirection::In => (
            "to",
            "To enable copying to a view, provide an INSTEAD OF INSERT trigger.",
        ),
        CopyDirection::Out => ("from", "Try the COPY (SELECT ...) TO variant."),
    };
    let message = format!("cannot copy {way} view \"{}\"", view.name);
    SqlError::new(SqlState::WRONG_OBJECT_TYPE, message).hint(hint)
}

/// Returns the positions, among the copied columns, of the columns that an option names.
fn forced(
    option: &str,
    wanted: &[String],
    copied: &[String],
    source: &CopySource,
) -> Result<Vec<usize>, SqlError> {
    let position = |name: &String| {
        let at = copied.iter().position(|c| c == name);
        at.ok_or_else(|| match source {
            CopySource::Table { table, .. } if table.column(name).is_none() => {
                names::no_column_of(name, &table.name)
            }
            _ => SqlError::new(
                SqlState::INVALID_COLUMN_REFERENCE,
                format!("{option} column \"{name}\" not referenced by COPY"),
            ),
        })
    };
    wanted.iter().map(position).collect()
}
