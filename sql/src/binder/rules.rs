//! What a statement that writes rows has to satisfy: constraints that the catalog keeps as text, bound for the
//! statement, and the tables that foreign keys lead to.

use std::sync::Arc;

use super::expr::Clause;
use super::from::table_leaf;
use super::scope::Scope;
use super::{Binder, ParamTypes};
use crate::bound::{Assignment, Expr, Integrity, Related, RowCheck, RowRules};
use crate::catalog::{CatalogView, ForeignKeyDef, Referential, RoleDef, TableDef};
use crate::context::EvalContext;
use crate::error::SqlError;
use crate::settings::Settings;

/// What a statement does to the rows of a table.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Change<'a> {
    /// It adds rows.
    pub(super) inserts: bool,
    /// It takes rows away.
    pub(super) deletes: bool,
    /// It gives these columns other values.
    pub(super) updates: &'a [usize],
}

impl Change<'_> {
    fn writes(&self, key: &ForeignKeyDef) -> bool {
        self.inserts || key.columns.iter().any(|c| self.updates.contains(c))
    }

    fn unsettles(&self, key: &ForeignKeyDef) -> bool {
        self.deletes || key.parent_columns.iter().any(|c| self.updates.contains(c))
    }
}

impl Binder<'_> {
    /// All rules that a statement may meet which changes `table` so.
    pub(super) fn integrity(
        &mut self,
        table: &Arc<TableDef>,
        change: Change<'_>,
    ) -> Result<Integrity, SqlError> {
        let rules = match change.inserts || !change.updates.is_empty() {
            true => self.row_rules(table)?,
            false => RowRules::default(),
        };
        let mut related = Vec::new();
        let table_rules = &table.rules;
        if !table_rules.foreign_keys.is_empty() || !table_rules.referenced_by.is_empty() {
            let mut tables = Vec::new();
            self.relate(table, change, &mut tables)?;
            if tables.len() > 1 || self.meets_itself(table, change) {
                for (table, changes) in tables {
                    related.push(self.related(table, changes)?);
                }
            }
        }
        Ok(Integrity { rules, related })
    }

    /// Has a foreign key of `table` to itself to do with the change?
    fn meets_itself(&self, table: &TableDef, change: Change<'_>) -> bool {
        let own = |key: &&ForeignKeyDef| key.parent == table.id;
        let mut own = table.rules.foreign_keys.iter().filter(own);
        own.any(|key| change.writes(key) || change.unsettles(key))
    }

    /// Adds `table` and the tables that a change of it leads to; with each whether its rows may be changed.
    fn relate(
        &mut self,
        table: &Arc<TableDef>,
        change: Change<'_>,
        tables: &mut Vec<(Arc<TableDef>, bool)>,
    ) -> Result<(), SqlError> {
        add(tables, table, true);
        for key in &table.rules.foreign_keys {
            if change.writes(key)
                && let Some(parent) = self.catalog.table_by_id(key.parent)?
            {
                add(tables, &parent, false);
            }
        }
        for child in &table.rules.referenced_by {
            let Some(child) = self.catalog.table_by_id(*child)? else {
                continue;
            };
            let mut keys = child.rules.foreign_keys.iter();
            if !keys.any(|key| key.parent == table.id && change.unsettles(key)) {
                continue;
            }
            let to_here = child.rules.foreign_keys.iter();
            let mut to_here = to_here.filter(|key| key.parent == table.id);
            let changes = to_here.any(|key| key.on_delete.changes() || key.on_update.changes());
            // Whoever is changed may change others in turn.
            if add(tables, &child, changes) && changes {
                let columns: Vec<usize> = (0..child.columns.len()).collect();
                let change = Change {
                    inserts: false,
                    deletes: true,
                    updates: &columns,
                };
                self.relate(&child, change, tables)?;
            }
        }
        Ok(())
    }

    fn related(&mut self, table: Arc<TableDef>, changes: bool) -> Result<Related, SqlError> {
        let mut related = Related {
            table,
            rules: RowRules::default(),
            defaults: Vec::new(),
        };
        if changes {
            related.rules = self.row_rules(&related.table)?;
        }
        let sets =
            |key: &ForeignKeyDef| [key.on_delete, key.on_update].contains(&Referential::SetDefault);
        if changes && related.table.rules.foreign_keys.iter().any(sets) {
            related.defaults = self.default_row(&Arc::clone(&related.table), &[])?;
        }
        Ok(related)
    }

    /// The rules of one table's rows.
    pub(super) fn row_rules(&mut self, table: &TableDef) -> Result<RowRules, SqlError> {
        let mut rules = RowRules::default();
        let generated = |column: &crate::catalog::ColumnDef| column.more.generated.is_some();
        if table.rules.checks.is_empty() && !table.columns.iter().any(generated) {
            return Ok(rules);
        }
        let mut checks: Vec<_> = table.rules.checks.iter().collect();
        checks.sort_by(|a, b| a.name.cmp(&b.name));
        for check in checks {
            let condition = self.stored(table, &check.text, Clause::Check)?;
            rules.checks.push(RowCheck {
                name: check.name.clone(),
                condition: self.condition(condition, "CHECK")?,
            });
        }
        for (position, column) in table.columns.iter().enumerate() {
            if let Some(text) = &column.more.generated {
                let value = self.stored(table, text, Clause::Generated)?;
                rules.generated.push(Assignment {
                    column: position,
                    value: self.assign(value, column)?,
                });
            }
        }
        Ok(rules)
    }

    /// An expression over the columns of `table` that the catalog has as text.
    pub(super) fn stored(
        &mut self,
        table: &TableDef,
        text: &str,
        clause: Clause,
    ) -> Result<Expr, SqlError> {
        let parsed = crate::parser::parse_expression(text)?;
        let mut scope = Scope::default();
        scope.push(table_leaf(table, None, 0))?;
        self.scalar(&parsed, &scope, clause)
    }
}

/// The condition of a partial index of `table`, bound without anything else to see.
pub fn index_condition(table: &TableDef, text: &str) -> Result<Expr, SqlError> {
    let cx = EvalContext::new(Arc::new(Settings::new()), 0, 0);
    let mut none = ParamTypes::new();
    let mut binder = Binder::of(text, (&Nothing, &[]), &mut none, (&cx, 0));
    let condition = binder.stored(table, text, Clause::IndexPredicate)?;
    binder.condition(condition, "WHERE")
}

/// A catalog without anything in it.
struct Nothing;

impl CatalogView for Nothing {
    fn table(&self, _: Option<&str>, _: &str) -> Result<Option<Arc<TableDef>>, SqlError> {
        Ok(None)
    }

    fn table_of_index(&self, _: Option<&str>, _: &str) -> Result<Option<Arc<TableDef>>, SqlError> {
        Ok(None)
    }

    fn role(&self, _: &str) -> Result<Option<Arc<RoleDef>>, SqlError> {
        Ok(None)
    }
}

/// Adds a table unless it is there; whether there is anything new.
fn add(tables: &mut Vec<(Arc<TableDef>, bool)>, table: &Arc<TableDef>, changes: bool) -> bool {
    match tables.iter_mut().find(|(t, _)| t.id == table.id) {
        Some((_, known)) => {
            let new = changes && !*known;
            *known |= changes;
            new
        }
        None => {
            tables.push((Arc::clone(table), changes));
            true
        }
    }
}
