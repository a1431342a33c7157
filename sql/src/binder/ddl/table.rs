//! CREATE TABLE.

use sqlparser::ast;

use super::super::expr::Clause;
use super::super::scope::Scope;
use super::super::{Binder, names, type_of};
use super::key_columns;
use super::partition::Options;
use crate::bound::{CreateTable, KeyConstraint, Statement};
use crate::catalog::{ColumnDef, PUBLIC_SCHEMA};
use crate::error::{SqlError, SqlState};

/// PostgreSQL's limit on the columns of a table.
const COLUMNS_MAX: usize = 1600;

impl Binder<'_> {
    pub(in super::super) fn create_table(
        &mut self,
        create: &ast::CreateTable,
    ) -> Result<Statement, SqlError> {
        check_supported(create)?;
        let (schema, name) = names::table_name(&create.name)?;
        if create.columns.len() > COLUMNS_MAX {
            return Err(SqlError::new(
                SqlState::TOO_MANY_COLUMNS,
                format!("tables can have at most {COLUMNS_MAX} columns"),
            ));
        }
        let options = Options::of(&create.table_options)?;
        let mut table = CreateTable {
            schema: schema.unwrap_or_else(|| PUBLIC_SCHEMA.to_owned()),
            name,
            if_not_exists: create.if_not_exists,
            columns: Vec::with_capacity(create.columns.len()),
            primary_key: None,
            unique: Vec::new(),
            index_kind: options.index_kind,
            partition_by: None,
        };
        for column in &create.columns {
            self.column_definition(column, &mut table)?;
        }
        for constraint in &create.constraints {
            table_constraint(constraint, &mut table)?;
        }
        if let Some(key) = &table.primary_key {
            for column in &key.columns {
                table.columns[*column].not_null = true;
            }
        }
        table.partition_by = self.partition_by(create, options, &table)?;
        Ok(Statement::CreateTable(table))
    }

    fn column_definition(
        &mut self,
        column: &ast::ColumnDef,
        table: &mut CreateTable,
    ) -> Result<(), SqlError> {
        let name = names::fold(&column.name);
        if table.columns.iter().any(|c| c.name == name) {
            return Err(SqlError::new(
                SqlState::DUPLICATE_COLUMN,
                format!("column \"{name}\" specified more than once"),
            ));
        }
        let position = table.columns.len();
        let ty = type_of(&column.data_type).and_then(|ty| match ty.kind.is_object() {
            true => Err(SqlError::unsupported(format!("a column of type {ty}"))),
            false => Ok(ty),
        });
        let mut definition = ColumnDef {
            ty: ty.map_err(|e| e.or_at(self.position(column.name.span)))?,
            name,
            not_null: false,
            default: None,
            attnum: i16::try_from(position + 1).unwrap_or(i16::MAX),
        };
        let key = |option: &ast::ColumnOptionDef| KeyConstraint {
            name: option.name.as_ref().map(names::fold),
            columns: vec![position],
        };
        for option in &column.options {
            match &option.option {
                ast::ColumnOption::Null => {}
                ast::ColumnOption::NotNull => definition.not_null = true,
                ast::ColumnOption::Default(expr) => {
                    let bound = self.scalar(expr, &Scope::default(), Clause::Default)?;
                    self.assign(bound, &definition).map_err(default_error)?;
                    definition.default = Some(expr.to_string());
                }
                ast::ColumnOption::PrimaryKey(_) => set_primary_key(table, key(option))?,
                ast::ColumnOption::Unique(_) => table.unique.push(key(option)),
                ast::ColumnOption::Collation(name) => {
                    let plain = name.to_string().replace('"', "").to_ascii_lowercase();
                    if !matches!(
                        plain.as_str(),
                        "c" | "posix" | "default" | "pg_catalog.default"
                    ) {
                        return Err(SqlError::unsupported(format!("collation {name}")));
                    }
                }
                ast::ColumnOption::ForeignKey(_) => {
                    return Err(SqlError::unsupported("FOREIGN KEY"));
                }
                ast::ColumnOption::Check(_) => return Err(SqlError::unsupported("CHECK")),
                ast::ColumnOption::Generated { .. } | ast::ColumnOption::Identity(_) => {
                    return Err(SqlError::unsupported("a generated column"));
                }
                _ => return Err(SqlError::unsupported("this column option")),
            }
        }
        table.columns.push(definition);
        Ok(())
    }
}

/// 42804 in the words for a default.
fn default_error(error: SqlError) -> SqlError {
    let message = error.message().replacen(
        "but expression is of type",
        "but default expression is of type",
        1,
    );
    match error.sqlstate() == SqlState::DATATYPE_MISMATCH {
        true => SqlError::new(SqlState::DATATYPE_MISMATCH, message)
            .hint("You will need to rewrite or cast the expression."),
        false => error,
    }
}

fn set_primary_key(table: &mut CreateTable, key: KeyConstraint) -> Result<(), SqlError> {
    if table.primary_key.replace(key).is_some() {
        return Err(SqlError::new(
            SqlState::INVALID_TABLE_DEFINITION,
            format!(
                "multiple primary keys for table \"{}\" are not allowed",
                table.name
            ),
        ));
    }
    Ok(())
}

fn table_constraint(
    constraint: &ast::TableConstraint,
    table: &mut CreateTable,
) -> Result<(), SqlError> {
    let lookup = |name: &str| table.columns.iter().position(|c| c.name == name);
    match constraint {
        ast::TableConstraint::PrimaryKey(key) => {
            let key = key_columns(key.name.as_ref(), &key.columns, &lookup)?;
            set_primary_key(table, key)
        }
        ast::TableConstraint::Unique(key) => {
            if matches!(key.nulls_distinct, ast::NullsDistinctOption::NotDistinct) {
                return Err(SqlError::unsupported("NULLS NOT DISTINCT"));
            }
            let key = key_columns(key.name.as_ref(), &key.columns, &lookup)?;
            table.unique.push(key);
            Ok(())
        }
        ast::TableConstraint::ForeignKey(_) => Err(SqlError::unsupported("FOREIGN KEY")),
        ast::TableConstraint::Check(_) => Err(SqlError::unsupported("CHECK")),
        _ => Err(SqlError::unsupported("this kind of constraint")),
    }
}

fn check_supported(create: &ast::CreateTable) -> Result<(), SqlError> {
    let refused = if create.temporary {
        "CREATE TEMPORARY TABLE"
    } else if create.query.is_some() {
        "CREATE TABLE AS"
    } else if create.like.is_some() {
        "CREATE TABLE LIKE"
    } else if create.inherits.is_some() {
        "INHERITS"
    } else if create.partition_of.is_some() {
        "CREATE TABLE ... PARTITION OF"
    } else if create.or_replace || create.external || create.clone.is_some() {
        "this form of CREATE TABLE"
    } else {
        return Ok(());
    };
    Err(SqlError::unsupported(refused))
}
