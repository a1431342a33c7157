//! One action of ALTER TABLE: it is bound to the table as the earlier actions leave it.

use sqlparser::ast;

use super::super::system_columns::check_column_name;
use super::super::{Binder, names};
use super::column_errors::{check_own, depended_on, in_partition_key};
use super::constraint::{Shape, deferrable_key, nulls_equal};
use super::key_constraint;
use super::table::{key_options, not_valid_key, uninherited};
use crate::bound::{
    AddColumn, AlterAction, CreateTable, KeyConstraint, LikeProperties, OnCommit, RowRules,
    TriggerChange,
};
use crate::catalog::{IndexDef, IndexKind, TableDef, TriggerState};
use crate::error::{SqlError, SqlState};

impl Binder<'_> {
    pub(super) fn alter_action(
        &mut self,
        table: &mut TableDef,
        operation: &ast::AlterTableOperation,
        actions: &mut Vec<AlterAction>,
    ) -> Result<(), SqlError> {
        use ast::AlterTableOperation as Op;
        let action = match operation {
            Op::AddConstraint {
                constraint,
                not_valid,
            } => self.add_constraint(table, constraint, !*not_valid)?,
            Op::AddColumn {
                if_not_exists,
                column_def,
                ..
            } => self.add_column(table, column_def, *if_not_exists)?,
            Op::DropColumn {
                column_names,
                if_exists,
                drop_behavior,
                ..
            } => {
                for ident in column_names {
                    let cascade = is_cascade(drop_behavior.as_ref());
                    if cascade {
                        self.drop_generated(table, ident, actions)?;
                    }
                    actions.push(self.drop_column(table, ident, *if_exists, cascade)?);
                }
                return Ok(());
            }
            Op::RenameColumn {
                old_column_name,
                new_column_name,
            } => {
                let name = names::fold(old_column_name);
                let column = table.column(&name).ok_or_else(|| no_column(&name))?;
                check_own(table, "rename", &name)?;
                let to = names::fold(new_column_name);
                check_column_name(&to)?;
                if table.column(&to).is_some() {
                    return Err(column_exists(&to, &table.name));
                }
                table.rename_column(column, &to);
                AlterAction::RenameColumn { column, to }
            }
            Op::RenameTable { table_name } => {
                let (ast::RenameTableNameKind::As(name) | ast::RenameTableNameKind::To(name)) =
                    table_name;
                AlterAction::RenameTable(names::table_name(name)?.1)
            }
            Op::RenameConstraint { old_name, new_name } => {
                let from = names::fold(old_name);
                let mut checks = table.rules.checks.iter();
                if checks.any(|of| of.name == from && table.link(of.id).is_some()) {
                    let message = format!("cannot rename inherited constraint \"{from}\"");
                    return Err(SqlError::new(SqlState::INVALID_TABLE_DEFINITION, message));
                }
                AlterAction::RenameConstraint {
                    from,
                    to: names::fold(new_name),
                }
            }
            Op::DropConstraint { name, .. } if is_inherited(table, &names::fold(name)) => {
                let message = format!(
                    "cannot drop inherited constraint \"{}\" of relation \"{}\"",
                    names::fold(name),
                    table.name
                );
                return Err(SqlError::new(SqlState::INVALID_TABLE_DEFINITION, message));
            }
            Op::DropConstraint {
                if_exists,
                name,
                drop_behavior,
            } => AlterAction::DropConstraint {
                name: names::fold(name),
                if_exists: *if_exists,
                cascade: is_cascade(drop_behavior.as_ref()),
            },
            Op::ValidateConstraint { name } => self.validate(table, &names::fold(name))?,
            Op::EnableTrigger { name } => switched(name, TriggerState::Origin),
            Op::EnableAlwaysTrigger { name } => switched(name, TriggerState::Always),
            Op::EnableReplicaTrigger { name } => switched(name, TriggerState::Replica),
            Op::DisableTrigger { name } => switched(name, TriggerState::Disabled),
            Op::AlterColumn { column_name, op } => self.alter_column(table, column_name, op)?,
            // The storage parameters of tables are parsed in `parser/storage_actions.rs`; these
            // options are those of a view.
            Op::SetOptionsParens { options } => {
                let name = match options.first() {
                    Some(ast::SqlOption::KeyValue { key, .. } | ast::SqlOption::Ident(key)) => {
                        names::fold(key)
                    }
                    _ => String::new(),
                };
                return Err(SqlError::new(
                    SqlState::INVALID_PARAMETER_VALUE,
                    format!("unrecognized parameter \"{name}\""),
                ));
            }
            other => {
                let text = other.to_string();
                let words: Vec<&str> = text.split_whitespace().take(2).collect();
                return Err(SqlError::unsupported(format!(
                    "ALTER TABLE {}",
                    words.join(" ")
                )));
            }
        };
        actions.push(action);
        Ok(())
    }

    fn add_constraint(
        &mut self,
        table: &TableDef,
        constraint: &ast::TableConstraint,
        validate: bool,
    ) -> Result<AlterAction, SqlError> {
        let shape = Shape::of(table);
        match constraint {
            ast::TableConstraint::PrimaryKey(key) => {
                let deferrable = deferrable_key(key.characteristics.as_ref())?;
                let options = key_options(self.text, &key.index_options)?;
                let (name, columns) = (key.name.as_ref(), &key.columns);
                let mut key = key_constraint(self.text, table, name, columns, "PRIMARY KEY")?;
                (key.deferrable, key.options) = (deferrable, options);
                Ok(AlterAction::AddPrimaryKey(key))
            }
            ast::TableConstraint::Unique(key) => {
                let deferrable = deferrable_key(key.characteristics.as_ref())?;
                let nulls_equal = nulls_equal(&key.nulls_distinct);
                let options = key_options(self.text, &key.index_options)?;
                let (name, columns) = (key.name.as_ref(), &key.columns);
                let mut key = key_constraint(self.text, table, name, columns, "UNIQUE")?;
                (key.deferrable, key.options) = (deferrable, options);
                key.nulls_equal = nulls_equal;
                Ok(AlterAction::AddUnique(key))
            }
            ast::TableConstraint::ForeignKey(key) if table.is_parent() && !validate => {
                Err(not_valid_key(&table.name, &key.foreign_table))
            }
            ast::TableConstraint::ForeignKey(key) => {
                let key = self.new_foreign_key(&shape, key.name.as_ref(), None, key)?;
                Ok(AlterAction::AddForeignKey(key, validate))
            }
            ast::TableConstraint::Check(check) => {
                let check = self.new_check(&shape, check.name.as_ref(), check)?;
                if check.no_inherit && table.is_parent() {
                    return Err(uninherited(&table.name));
                }
                Ok(AlterAction::AddCheck(check, validate))
            }
            _ => Err(SqlError::unsupported("this kind of constraint")),
        }
    }

    fn add_column(
        &mut self,
        table: &mut TableDef,
        definition: &ast::ColumnDef,
        if_not_exists: bool,
    ) -> Result<AlterAction, SqlError> {
        if table.partition_of_table().is_some() {
            return Err(SqlError::new(
                SqlState::WRONG_OBJECT_TYPE,
                "cannot add column to a partition",
            ));
        }
        let name = names::fold(&definition.name);
        if table.column(&name).is_some() {
            let error = column_exists(&name, &table.name);
            return match if_not_exists {
                true => Ok(AlterAction::Notice(
                    SqlState::DUPLICATE_COLUMN,
                    format!("{}, skipping", error.message()),
                )),
                false => Err(error),
            };
        }
        // Bind the new column like one of CREATE TABLE.
        let key = |index: &IndexDef| KeyConstraint {
            name: Some(index.name.clone()),
            columns: index.columns.iter().map(|c| c.column).collect(),
            deferrable: index.more.deferrable,
            nulls_equal: index.more.nulls_equal,
            options: Vec::new(),
            include: Vec::new(),
        };
        let unique = table.indexes.iter();
        let unique =
            unique.filter(|i| i.is_unique() && !i.primary && i.more.expressions.is_empty());
        let mut new = CreateTable {
            schema: table.schema.clone(),
            name: table.name.clone(),
            if_not_exists: false,
            columns: table.columns.clone(),
            primary_key: table.primary_key().map(key),
            unique: unique.map(key).collect(),
            checks: Vec::new(),
            foreign_keys: Vec::new(),
            sequences: Vec::new(),
            source: None,
            with_data: true,
            on_commit: OnCommit::PreserveRows,
            materialized: None,
            index_kind: IndexKind::BTree,
            partition_by: None,
            partition_key: None,
            partition_of: None,
            alike: LikeProperties::default(),
            storage: table.rules.storage.clone(),
        };
        let (had_key, uniques, position) = (
            new.primary_key.is_some(),
            new.unique.len(),
            new.columns.len(),
        );
        self.column_definition(definition, &mut new)?;
        for option in &definition.options {
            let name = option.name.as_ref();
            self.rule_of_column(&mut new, position, name, &option.option)?;
        }
        let primary_key = new.primary_key.filter(|_| !had_key);
        let mut column = new.columns.swap_remove(position);
        column.not_null |= primary_key.is_some();
        table.push_column(column.clone());
        let default = self.default_of(&column)?;
        Ok(AlterAction::AddColumn(Box::new(AddColumn {
            default,
            sequence: new.sequences.pop(),
            rules: self.generation_rules(table)?,
            column,
            primary_key,
            unique: new.unique.split_off(uniques),
            checks: new.checks,
            foreign_keys: new.foreign_keys,
        })))
    }

    /// Returns the rules for the generated columns, without the CHECK constraints, which the rows
    /// satisfy already.
    fn generation_rules(&mut self, table: &TableDef) -> Result<RowRules, SqlError> {
        let mut rules = self.row_rules(table)?;
        rules.checks.clear();
        Ok(rules)
    }

    /// Drops the generated columns that read the column, for DROP COLUMN … CASCADE.
    fn drop_generated(
        &mut self,
        table: &mut TableDef,
        ident: &ast::Ident,
        actions: &mut Vec<AlterAction>,
    ) -> Result<(), SqlError> {
        let Some(column) = table.column(&names::fold(ident)) else {
            return Ok(());
        };
        let generated = table.generated_from(column).into_iter();
        let generated: Vec<String> = generated.map(|column| column.name.clone()).collect();
        for name in generated {
            actions.push(AlterAction::Notice(
                SqlState::SUCCESSFUL_COMPLETION,
                format!("drop cascades to column {name} of table {}", table.name),
            ));
            let ident = ast::Ident::with_quote('"', &name);
            actions.push(self.drop_column(table, &ident, false, true)?);
        }
        Ok(())
    }

    fn drop_column(
        &mut self,
        table: &mut TableDef,
        ident: &ast::Ident,
        if_exists: bool,
        cascade: bool,
    ) -> Result<AlterAction, SqlError> {
        let name = names::fold(ident);
        let Some(column) = table.column(&name) else {
            let error = names::no_column_of(&name, &table.name);
            return match if_exists {
                true => Ok(AlterAction::Notice(
                    SqlState::SUCCESSFUL_COMPLETION,
                    format!("{}, skipping", error.message()),
                )),
                false => Err(error),
            };
        };
        check_own(table, "drop", &name)?;
        if table.is_partition_column(column) {
            return Err(in_partition_key(table, "drop", &name));
        }
        if self.is_viewed(table, column) {
            let views = self.catalog.views_of(table.id);
            let first = views.first().map_or("", |view| &view.name);
            if cascade {
                return Err(SqlError::unsupported(
                    "DROP COLUMN CASCADE of a column that a view uses",
                ));
            }
            return Err(depended_on(table, &name, &format!("view {first}")));
        }
        let generated: Vec<String> = table
            .generated_from(column)
            .iter()
            .map(|c| c.name.clone())
            .collect();
        if let (Some(first), false) = (generated.first(), cascade) {
            let object = format!("column {first} of table {}", table.name);
            return Err(depended_on(table, &name, &object));
        }
        table.remove_column(column);
        Ok(AlterAction::DropColumn { column, cascade })
    }
}

/// Returns whether a partition has the constraint of this name from the table above.
fn is_inherited(table: &TableDef, name: &str) -> bool {
    let checks = table.rules.checks.iter().map(|of| (&of.name, of.id));
    let foreign = table.rules.foreign_keys.iter().map(|of| (&of.name, of.id));
    let keys = table.indexes.iter().filter(|index| index.constraint);
    let keys = keys.map(|of| (&of.name, of.id));
    let mut all = checks.chain(foreign).chain(keys);
    all.any(|(of, id)| of == name && table.link(id).is_some())
}

fn is_cascade(behavior: Option<&ast::DropBehavior>) -> bool {
    matches!(behavior, Some(ast::DropBehavior::Cascade))
}

fn no_column(name: &str) -> SqlError {
    SqlError::new(
        SqlState::UNDEFINED_COLUMN,
        format!("column \"{name}\" does not exist"),
    )
}

fn column_exists(name: &str, table: &str) -> SqlError {
    SqlError::new(
        SqlState::DUPLICATE_COLUMN,
        format!("column \"{name}\" of relation \"{table}\" already exists"),
    )
}

/// Binds ENABLE and DISABLE TRIGGER; without quotes, ALL and USER are keywords and not names.
fn switched(ident: &ast::Ident, enabled: TriggerState) -> AlterAction {
    let name = match ident.quote_style {
        None => Some(names::fold(ident)).filter(|name| name != "all" && name != "user"),
        Some(_) => Some(names::fold(ident)),
    };
    let keys = name.is_none() && names::fold(ident) == "all";
    AlterAction::Trigger(TriggerChange::Enable {
        name,
        enabled,
        keys,
    })
}
