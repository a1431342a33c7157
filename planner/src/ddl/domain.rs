//! CREATE and ALTER DOMAIN.
//!
//! The plans of tables with columns of a domain contain its constraints. So a change of a domain
//! gives new versions to these tables, and to domains over it, like a change of any other type.
//! When a constraint is added, existing values are checked.

use std::sync::Arc;

use fencepost_sql::binder::domain_conditions;
use fencepost_sql::bound::{AlterDomain, CreateDomain, DomainChange, Expr, NewDomainCheck};
use fencepost_sql::catalog::{Guards, Object, ObjectKind, TableDef, TypeDef, UserType};
use fencepost_sql::error::{SqlError, SqlState};
use fencepost_sql::functions::satisfies;
use fencepost_sql::stop::StatementStop;
use fencepost_sql::types::Domain;
use fencepost_sql::types::domains::{DomainCheck, DomainDef};
use fencepost_sql::value::Value;

use super::changes::Changes;
use super::ownership::claim;
use super::rules::Rows;
use super::type_names::check_free;
use super::user_type::check_texts;
use super::{DdlCx, Notice};
use crate::exec::Cx;

/// Runs CREATE DOMAIN. Returns the command tag.
pub async fn create_domain(
    statement: &CreateDomain,
    cx: &mut Cx<'_>,
    ddl: &mut DdlCx<'_>,
) -> Result<&'static str, StatementStop> {
    check_free(&statement.schema, &statement.name, ddl)?;
    let changes = Changes::begin(cx, ddl).await?;
    let id = ddl.catalog.next_oid(cx.tx).await?;
    let name = (statement.schema.as_str(), statement.name.as_str());
    let mut definition = DomainDef::named(id, name, statement.base);
    definition.not_null = statement.not_null;
    definition.default.clone_from(&statement.default);
    for check in &statement.checks {
        add_check(&mut definition, check, cx, ddl).await?;
    }
    let ty = TypeDef {
        id,
        schema: statement.schema.clone(),
        name: statement.name.clone(),
        of: UserType::Domain(Domain::of(definition)),
        version: changes.version,
        guards: Guards::create(cx.tx, id, changes.version).await?,
    };
    ddl.catalog.insert_type(cx.tx, &ty).await?;
    let object = Object::new(ObjectKind::Type, ty.id);
    claim(object, &ty.schema, cx, ddl).await?;
    changes.finish(cx, ddl).await?;
    Ok("CREATE DOMAIN")
}

/// Adds a constraint, and chooses a name if it has none.
async fn add_check(
    definition: &mut DomainDef,
    check: &NewDomainCheck,
    cx: &mut Cx<'_>,
    ddl: &DdlCx<'_>,
) -> Result<(), StatementStop> {
    let taken = |name: &str| definition.checks.iter().any(|of| of.name == name);
    let name = match &check.name {
        Some(name) if taken(name) => {
            let message = format!(
                "constraint \"{name}\" for domain \"{}\" already exists",
                definition.name
            );
            return Err(SqlError::new(SqlState::DUPLICATE_OBJECT, message).into());
        }
        Some(name) => name.clone(),
        None => {
            let stem = super::names::fit(&definition.name, "", "check");
            let mut name = stem.clone();
            let mut number = 0;
            while taken(&name) {
                number += 1;
                name = format!("{stem}{number}");
            }
            name
        }
    };
    definition.checks.push(DomainCheck {
        id: ddl.catalog.next_oid(cx.tx).await?,
        name,
        text: check.text.clone(),
        validated: check.validate,
    });
    Ok(())
}

/// Runs ALTER DOMAIN. Returns the command tag.
pub async fn alter_domain(
    statement: &AlterDomain,
    cx: &mut Cx<'_>,
    ddl: &mut DdlCx<'_>,
) -> Result<&'static str, StatementStop> {
    const TAG: &str = "ALTER DOMAIN";
    let ty = &statement.ty;
    let Some(domain) = ty.as_domain() else {
        return Err(SqlError::internal("a domain is none").into());
    };
    let mut definition = domain.definition().clone();
    let mut names = None;
    let mut changes = Changes::begin(cx, ddl).await?;
    match &statement.change {
        DomainChange::Default(default) => definition.default.clone_from(default),
        DomainChange::NotNull(not_null) => {
            if *not_null && !definition.not_null {
                look_at(domain, &Value::is_null, cx, ddl, &null_there).await?;
            }
            definition.not_null = *not_null;
        }
        DomainChange::AddCheck(check) => {
            add_check(&mut definition, check, cx, ddl).await?;
            if let Some(added) = definition.checks.last().filter(|_| check.validate) {
                validate(domain, added, cx, ddl).await?;
            }
        }
        DomainChange::DropCheck { name, if_exists } => {
            let before = definition.checks.len();
            definition.checks.retain(|check| check.name != *name);
            if definition.checks.len() == before {
                let message = format!(
                    "constraint \"{name}\" of domain \"{}\" does not exist",
                    definition.name
                );
                if !if_exists {
                    return Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message).into());
                }
                let message = format!("{message}, skipping");
                ddl.notices
                    .push(Notice::new(SqlState::SUCCESSFUL_COMPLETION, message));
                return Ok(TAG);
            }
        }
        DomainChange::Validate(name) => {
            let mut checks = definition.checks.iter_mut();
            let Some(check) = checks.find(|check| check.name == *name) else {
                let message = format!(
                    "constraint \"{name}\" of domain \"{}\" does not exist",
                    definition.name
                );
                return Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message).into());
            };
            if !check.validated {
                validate(domain, check, cx, ddl).await?;
            }
            check.validated = true;
        }
        DomainChange::RenameCheck { from, to } => rename_check(&mut definition, from, to)?,
        DomainChange::Rename(to) => names = Some((ty.schema.clone(), to.clone())),
        DomainChange::SetSchema(to) if *to == ty.schema => return Ok(TAG),
        DomainChange::SetSchema(to) => names = Some((to.clone(), ty.name.clone())),
    }
    if let Some((schema, name)) = &names {
        check_free(schema, name, ddl)?;
        definition.rename(schema, name);
    }
    let changed = TypeDef {
        schema: definition.schema.clone(),
        name: definition.name.clone(),
        of: UserType::Domain(Domain::of(definition)),
        version: changes.version,
        ..TypeDef::clone(ty)
    };
    if names.is_some() {
        check_texts(&changed, cx, ddl)?;
    }
    for table in ddl.snapshot.tables() {
        if columns_of(&table, ty.id).next().is_some() {
            changes.take(cx, &table).await?;
        }
    }
    for over in ddl.snapshot.types().all() {
        if over.id != ty.id && over.as_domain().is_some_and(|of| of.is_over(ty.id)) {
            let over = TypeDef {
                version: changes.version,
                ..TypeDef::clone(&over)
            };
            ddl.catalog.replace_type(cx.tx, &over).await?;
        }
    }
    ddl.catalog.replace_type(cx.tx, &changed).await?;
    changes.finish(cx, ddl).await?;
    Ok(TAG)
}

fn rename_check(definition: &mut DomainDef, from: &str, to: &str) -> Result<(), SqlError> {
    let display_name = &definition.display_name;
    if definition.checks.iter().any(|check| check.name == to) {
        let message = format!("constraint \"{to}\" for domain {display_name} already exists");
        return Err(SqlError::new(SqlState::DUPLICATE_OBJECT, message));
    }
    let mut checks = definition.checks.iter_mut();
    let Some(check) = checks.find(|check| check.name == from) else {
        let message = format!("constraint \"{from}\" for domain {display_name} does not exist");
        return Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message));
    };
    to.clone_into(&mut check.name);
    Ok(())
}

/// Returns the columns of a table that have a domain, or a domain over it.
fn columns_of(table: &TableDef, domain: u32) -> impl Iterator<Item = usize> {
    let all = table.columns.iter().enumerate();
    let of = move |of: Domain| of.is_over(domain);
    all.filter(move |(_, column)| column.more.domain.is_some_and(of))
        .map(|(at, _)| at)
}

/// Returns an error if existing values violate a constraint.
async fn validate(
    domain: Domain,
    check: &DomainCheck,
    cx: &mut Cx<'_>,
    ddl: &DdlCx<'_>,
) -> Result<(), StatementStop> {
    let texts = std::iter::once(check.text.as_str());
    let conditions = domain_conditions(domain.definition(), texts, ddl.snapshot)?;
    let [condition] = conditions.as_slice() else {
        return Err(SqlError::internal("a constraint without a condition").into());
    };
    let condition: &Expr = condition;
    for (table, columns) in tables_of(domain, ddl) {
        let mut rows = Rows::of(&table);
        while let Some(row) = rows.next(cx).await? {
            for at in &columns {
                if !satisfies(condition, &row[*at], cx.eval)? {
                    return Err(violated_there(&table, *at).into());
                }
            }
        }
    }
    Ok(())
}

/// Searches the columns of a domain for values that `refused` rejects.
async fn look_at(
    domain: Domain,
    refused: &(dyn Fn(&Value) -> bool + Sync),
    cx: &mut Cx<'_>,
    ddl: &DdlCx<'_>,
    error: &(dyn Fn(&TableDef, usize) -> SqlError + Sync),
) -> Result<(), StatementStop> {
    for (table, columns) in tables_of(domain, ddl) {
        let mut rows = Rows::of(&table);
        while let Some(row) = rows.next(cx).await? {
            if let Some(at) = columns.iter().find(|at| refused(&row[**at])) {
                return Err(error(&table, *at).into());
            }
        }
    }
    Ok(())
}

/// Returns the tables with rows that have columns of a domain, and the positions of these columns.
fn tables_of(domain: Domain, ddl: &DdlCx<'_>) -> Vec<(Arc<TableDef>, Vec<usize>)> {
    let tables = ddl.snapshot.tables().into_iter();
    let tables = tables.filter(|table| !table.is_parent());
    let each = tables.map(|table| {
        let columns = columns_of(&table, domain.definition().id).collect();
        (table, columns)
    });
    each.filter(|(_, columns): &(_, Vec<usize>)| !columns.is_empty())
        .collect()
}

fn null_there(table: &TableDef, column: usize) -> SqlError {
    let name = &table.columns[column].name;
    let message = format!(
        "column \"{name}\" of table \"{}\" contains null values",
        table.name
    );
    SqlError::new(SqlState::NOT_NULL_VIOLATION, message)
        .table(&table.schema, &table.name)
        .column(name)
}

fn violated_there(table: &TableDef, column: usize) -> SqlError {
    let name = &table.columns[column].name;
    let message = format!(
        "column \"{name}\" of table \"{}\" contains values that violate the new constraint",
        table.name
    );
    SqlError::new(SqlState::CHECK_VIOLATION, message)
        .table(&table.schema, &table.name)
        .column(name)
}
