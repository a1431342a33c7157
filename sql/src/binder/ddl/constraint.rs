//! CHECK and FOREIGN KEY constraints of a table that is created or altered.

use std::sync::Arc;

use sqlparser::ast;

use super::super::expr::Clause;
use super::super::scope::{Scope, ScopeColumn, ScopeLeaf};
use super::super::{Binder, names};
use super::text::{bare, text_of, unqualified};
use crate::bound::{CreateTable, Expr, NewCheck, NewForeignKey, Volatility};
use crate::catalog::temporary;
use crate::catalog::{ColumnDef, PUBLIC_SCHEMA, Referential, TableDef};
use crate::error::{SqlError, SqlState};
use crate::parser;
use crate::settings::Settings;
use crate::types::TypeKind;

/// The SQLSTATE for a foreign key whose definition is invalid.
const INVALID_FOREIGN_KEY: SqlState = SqlState::new(b"42830");

/// A table as its constraints see it, whether it exists already or is being created.
pub(super) struct Shape<'a> {
    schema: &'a str,
    pub(super) name: &'a str,
    pub(super) columns: &'a [ColumnDef],
    primary_key: Option<Vec<usize>>,
    unique: Vec<Vec<usize>>,
    /// The columns of deferrable keys, which no foreign key may reference.
    deferrable: Vec<Vec<usize>>,
    unlogged: bool,
}

impl<'a> Shape<'a> {
    pub(super) fn of(table: &'a TableDef) -> Shape<'a> {
        let columns = |index: &crate::catalog::IndexDef| -> Vec<usize> {
            index.columns.iter().map(|c| c.column).collect()
        };
        let unique = table.indexes.iter();
        let unique = unique.filter(|index| {
            let plain = !index.is_partial() && index.more.expressions.is_empty();
            index.unique && plain && table.is_whole(index)
        });
        Shape {
            schema: &table.schema,
            name: &table.name,
            columns: &table.columns,
            primary_key: table.primary_key().map(columns),
            unique: unique.map(columns).collect(),
            deferrable: table
                .indexes
                .iter()
                .filter(|index| index.more.deferrable.is_some())
                .map(columns)
                .collect(),
            unlogged: table.rules.storage.unlogged,
        }
    }

    pub(super) fn of_new(table: &'a CreateTable) -> Shape<'a> {
        let primary_key = table.primary_key.as_ref().map(|key| key.columns.clone());
        let keys = || table.unique.iter().chain(&table.primary_key);
        let those = |deferrable: bool| {
            let those = keys().filter(|key| key.deferrable.is_some() == deferrable);
            those.map(|key| key.columns.clone()).collect()
        };
        Shape {
            schema: &table.schema,
            name: &table.name,
            columns: &table.columns,
            unique: those(false),
            deferrable: those(true),
            primary_key,
            unlogged: table.storage.unlogged,
        }
    }

    fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|c| c.name == name)
    }

    /// Returns the scope of expressions over the rows of the table.
    fn scope(&self) -> Result<Scope, SqlError> {
        let columns = self.columns.iter().map(|c| ScopeColumn {
            name: c.name.clone(),
            ty: c.ty,
            origin: None,
            hidden: false,
        });
        let mut scope = Scope::default();
        scope.push(ScopeLeaf {
            alias: self.name.to_owned(),
            table_name: None,
            schema: None,
            first_slot: 0,
            columns: columns.collect(),
            key: Vec::new(),
            routed: Vec::new(),
            reads: None,
            row: None,
            is_table: false,
        })?;
        Ok(scope)
    }

    /// Returns the columns that a foreign key to this table references; they must be unique.
    fn referenced(&self, list: &[ast::Ident], count: usize) -> Result<Vec<usize>, SqlError> {
        let columns = match (list.is_empty(), &self.primary_key) {
            (true, Some(key)) if self.deferrable.contains(key) => {
                return Err(self.deferrable_key());
            }
            (true, Some(key)) => key.clone(),
            (true, None) => {
                return Err(SqlError::new(
                    SqlState::UNDEFINED_OBJECT,
                    format!(
                        "there is no primary key for referenced table \"{}\"",
                        self.name
                    ),
                ));
            }
            (false, _) => self.foreign_columns(list)?,
        };
        if columns.len() != count {
            return Err(SqlError::new(
                INVALID_FOREIGN_KEY,
                "number of referencing and referenced columns for foreign key disagree",
            ));
        }
        let same = |key: &Vec<usize>| {
            key.len() == columns.len() && key.iter().all(|column| columns.contains(column))
        };
        match self.unique.iter().any(same) {
            true => Ok(columns),
            false if self.deferrable.iter().any(same) => Err(self.deferrable_key()),
            false => Err(SqlError::new(
                INVALID_FOREIGN_KEY,
                format!(
                    "there is no unique constraint matching given keys for referenced table \"{}\"",
                    self.name
                ),
            )),
        }
    }

    /// Returns the error 55000 for a foreign key that references a deferrable key.
    fn deferrable_key(&self) -> SqlError {
        SqlError::new(
            SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
            format!(
                "cannot use a deferrable unique constraint for referenced table \"{}\"",
                self.name
            ),
        )
    }

    fn foreign_columns(&self, list: &[ast::Ident]) -> Result<Vec<usize>, SqlError> {
        let column = |ident: &ast::Ident| {
            let name = names::fold(ident);
            self.column(&name).ok_or_else(|| {
                SqlError::new(
                    SqlState::UNDEFINED_COLUMN,
                    format!(
                        "column \"{name}\" referenced in foreign key constraint does not exist"
                    ),
                )
            })
        };
        list.iter().map(column).collect()
    }

    /// Returns the positions in `columns`, the columns of a foreign key, of the columns of its ON
    /// DELETE SET. Each position occurs once.
    fn set_columns(&self, columns: &[usize], list: &[ast::Ident]) -> Result<Vec<usize>, SqlError> {
        let mut all = Vec::new();
        for set in self.foreign_columns(list)? {
            let nth = columns.iter().position(|column| *column == set);
            let Some(nth) = nth else {
                let name = &self.columns[set].name;
                return Err(SqlError::new(
                    SqlState::INVALID_COLUMN_REFERENCE,
                    format!(
                        "column \"{name}\" referenced in ON DELETE \
                         SET action must be part of foreign key"
                    ),
                ));
            };
            if !all.contains(&nth) {
                all.push(nth);
            }
        }
        Ok(all)
    }
}

impl Binder<'_> {
    /// Binds a CHECK constraint.
    pub(super) fn new_check(
        &mut self,
        shape: &Shape<'_>,
        name: Option<&ast::Ident>,
        check: &ast::CheckConstraint,
    ) -> Result<NewCheck, SqlError> {
        let expr = unqualified(&check.expr, (shape.schema, shape.name));
        let condition = self.scalar(&expr, &shape.scope()?, Clause::Check)?;
        let condition = self.condition(condition, "CHECK")?;
        Ok(NewCheck {
            name: name.map(names::fold),
            text: with_schemas(text_of(&expr), &condition, shape.schema),
            columns: columns_of(&condition),
            condition,
            // The parser encodes NO INHERIT as this option.
            no_inherit: check.enforced.is_some(),
        })
    }

    /// Binds the expression of a generated column; its date and time literals are read with
    /// `settings`.
    fn generated_value(
        &mut self,
        shape: &Shape<'_>,
        column: &ColumnDef,
        expr: &ast::Expr,
        settings: Arc<Settings>,
    ) -> Result<Expr, SqlError> {
        let before = self.literal_settings.replace(settings);
        let value = self.scalar(expr, &shape.scope()?, Clause::Generated);
        let value = value.and_then(|value| self.assign(value, column));
        self.literal_settings = before;
        value
    }

    /// Checks GENERATED ALWAYS AS (…) STORED and returns the text of the expression.
    pub(super) fn generation(
        &mut self,
        shape: &Shape<'_>,
        column: &ColumnDef,
        expr: &ast::Expr,
    ) -> Result<String, SqlError> {
        let expr = &unqualified(expr, (shape.schema, shape.name));
        let default = Arc::new(Settings::new());
        let value = self.generated_value(shape, column, expr, default)?;
        for read in columns_of(&value) {
            let read = &shape.columns[read];
            if read.more.generated.is_some() || read.name == column.name {
                return Err(SqlError::new(
                    SqlState::INVALID_OBJECT_DEFINITION,
                    format!(
                        "cannot use generated column \"{}\" in column generation expression",
                        read.name
                    ),
                )
                .detail("A generated column cannot reference another generated column."));
            }
        }
        let settings = Arc::clone(&self.cx.settings);
        let rebound = self.generated_value(shape, column, expr, settings)?;
        if value.volatility() != Volatility::Immutable || rebound != value {
            return Err(SqlError::new(
                SqlState::INVALID_OBJECT_DEFINITION,
                "generation expression is not immutable",
            ));
        }
        Ok(with_schemas(text_of(bare(expr)), &value, shape.schema))
    }

    /// Binds FOREIGN KEY, over one column of the table or over the columns that the constraint
    /// lists.
    pub(super) fn new_foreign_key(
        &mut self,
        shape: &Shape<'_>,
        name: Option<&ast::Ident>,
        columns: Option<usize>,
        key: &ast::ForeignKeyConstraint,
    ) -> Result<NewForeignKey, SqlError> {
        let columns = match columns {
            Some(column) => vec![column],
            None => shape.foreign_columns(&key.columns)?,
        };
        let (schema, parent_name) = names::table_name(&key.foreign_table)?;
        let itself = parent_name == shape.name
            && schema
                .as_deref()
                .is_none_or(|schema| schema == shape.schema);
        let parent = match itself {
            true => None,
            false => Some(self.table_called(schema.as_deref(), &parent_name)?),
        };
        if let Some(parent) = &parent {
            if parent.materialized.is_some() {
                let message = format!("referenced relation \"{parent_name}\" is not a table");
                return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
            }
            if parent.rules.storage.unlogged && !shape.unlogged {
                let message = "constraints on permanent tables may reference only permanent tables";
                let temporary = temporary::is_temporary(shape.schema);
                return Err(match temporary {
                    true => SqlError::new(
                        SqlState::INVALID_TABLE_DEFINITION,
                        "constraints on temporary tables may reference only temporary tables",
                    ),
                    false => SqlError::new(SqlState::INVALID_TABLE_DEFINITION, message),
                });
            }
            let of_table = temporary::is_temporary(shape.schema);
            if of_table != temporary::is_temporary(&parent.schema) {
                let kind = if of_table { "temporary" } else { "permanent" };
                return Err(SqlError::new(
                    SqlState::INVALID_TABLE_DEFINITION,
                    format!("constraints on {kind} tables may reference only {kind} tables"),
                ));
            }
        }
        let (list, set_on_delete) = parser::split_columns(&key.referred_columns)?;
        let delete_columns = shape.set_columns(&columns, &set_on_delete)?;
        let count = columns.len();
        let name = name.map(names::fold);
        let parent_columns = match &parent {
            None => shape.referenced(list, count)?,
            Some(parent) => Shape::of(parent).referenced(list, count)?,
        };
        let theirs = parent.as_ref().map_or(shape.columns, |p| &p.columns);
        for (own, their) in columns.iter().zip(&parent_columns) {
            let (own, their) = (&shape.columns[*own], &theirs[*their]);
            if !comparable(own.ty.kind, their.ty.kind) {
                let names = columns.iter().map(|c| shape.columns[*c].name.as_str());
                let names: Vec<&str> = names.collect();
                let made = || format!("{}_{}_fkey", shape.name, names.join("_"));
                return Err(SqlError::new(
                    SqlState::DATATYPE_MISMATCH,
                    format!(
                        "foreign key constraint \"{}\" cannot be implemented",
                        name.clone().unwrap_or_else(made)
                    ),
                )
                .detail(format!(
                    "Key columns \"{}\" and \"{}\" are of incompatible types: {} and {}.",
                    own.name, their.name, own.ty.kind, their.ty.kind
                )));
            }
        }
        let full = match key.match_kind {
            None | Some(ast::ConstraintReferenceMatchKind::Simple) => false,
            Some(ast::ConstraintReferenceMatchKind::Full) => true,
            Some(ast::ConstraintReferenceMatchKind::Partial) => {
                return Err(SqlError::unsupported("MATCH PARTIAL"));
            }
        };
        let (deferrable, deferred) = deferrability(key.characteristics.as_ref())?;
        Ok(NewForeignKey {
            name,
            columns,
            parent,
            parent_columns,
            of_primary_key: list.is_empty(),
            on_delete: referential(key.on_delete),
            delete_columns,
            on_update: referential(key.on_update),
            full,
            deferrable,
            deferred,
        })
    }
}

/// Adds the schema to the user-defined functions that would not be found by name alone
/// (`Binder::of_table`).
fn with_schemas(mut text: String, bound: &Expr, schema: &str) -> String {
    bound.for_each_routine(&mut |call| {
        let of = &call.routine;
        if of.schema != schema && of.schema != PUBLIC_SCHEMA {
            text = parser::with_schema(&text, &of.name, &of.schema);
        }
    });
    text
}

/// Returns the columns that an expression reads, each once.
fn columns_of(expr: &Expr) -> Vec<usize> {
    let mut columns = Vec::new();
    expr.for_each_column(&mut |column| {
        if !columns.contains(&column) {
            columns.push(column);
        }
    });
    columns
}

/// Returns whether values of one type can be looked up by key in an index over the other type.
fn comparable(own: TypeKind, their: TypeKind) -> bool {
    let text = |kind| matches!(kind, TypeKind::Text | TypeKind::VarChar | TypeKind::BpChar);
    own == their || (own.is_integer() && their.is_integer()) || (text(own) && text(their))
}

/// Returns whether the index keys of a column stay the same when its type changes.
pub(super) fn keeps_keys(from: TypeKind, to: TypeKind) -> bool {
    let text = |kind| matches!(kind, TypeKind::Text | TypeKind::VarChar);
    (from.is_integer() && to.is_integer()) || (text(from) && text(to))
}

/// Returns whether a constraint is DEFERRABLE, and whether it is INITIALLY DEFERRED.
fn deferrability(
    characteristics: Option<&ast::ConstraintCharacteristics>,
) -> Result<(bool, bool), SqlError> {
    let Some(said) = characteristics else {
        return Ok((false, false));
    };
    let deferred = said.initially == Some(ast::DeferrableInitial::Deferred);
    if deferred && said.deferrable == Some(false) {
        return Err(SqlError::new(
            SqlState::SYNTAX_ERROR,
            "constraint declared INITIALLY DEFERRED must be DEFERRABLE",
        ));
    }
    Ok((deferred || said.deferrable == Some(true), deferred))
}

/// Returns whether a key is NULLS NOT DISTINCT.
pub(super) fn nulls_equal(said: &ast::NullsDistinctOption) -> bool {
    matches!(said, ast::NullsDistinctOption::NotDistinct)
}

/// Returns `None` for a key that is not DEFERRABLE, else whether it is INITIALLY DEFERRED.
pub(super) fn deferrable_key(
    characteristics: Option<&ast::ConstraintCharacteristics>,
) -> Result<Option<bool>, SqlError> {
    let (deferrable, deferred) = deferrability(characteristics)?;
    Ok(deferrable.then_some(deferred))
}

fn referential(action: Option<ast::ReferentialAction>) -> Referential {
    match action {
        None | Some(ast::ReferentialAction::NoAction) => Referential::NoAction,
        Some(ast::ReferentialAction::Restrict) => Referential::Restrict,
        Some(ast::ReferentialAction::Cascade) => Referential::Cascade,
        Some(ast::ReferentialAction::SetNull) => Referential::SetNull,
        Some(ast::ReferentialAction::SetDefault) => Referential::SetDefault,
    }
}
