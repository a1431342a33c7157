//! The rules for written rows: the constraints, which the catalog stores as text and the binder
//! binds for the statement. Also the tables that foreign keys connect with the written table.

use std::sync::Arc;

use super::expr::Clause;
use super::from::table_leaf;
use super::path::PathView;
use super::scope::Scope;
use super::{Binder, ParamTypes};
use crate::bound::{Assignment, Expr, Integrity, RelatedTable, RowCheck, RowRules, Trigger};
use crate::catalog::{
    CatalogView, Event, ForeignKeyDef, PUBLIC_SCHEMA, Referential, RoleDef, RoutineDef, TableDef,
    Timing, TriggerDef, TypeDef,
};
use crate::context::EvalContext;
use crate::error::SqlError;
use crate::order::StableSort;
use crate::settings::Settings;
use crate::stack::with_plain_limits;

/// The kinds of change that a statement makes to the rows of a table.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Change<'a> {
    /// Whether it inserts rows.
    pub(super) inserts: bool,
    /// Whether it deletes rows.
    pub(super) deletes: bool,
    /// The columns that it updates.
    pub(super) updates: &'a [usize],
}

impl Change<'_> {
    fn writes(&self, key: &ForeignKeyDef) -> bool {
        self.inserts || key.columns.iter().any(|c| self.updates.contains(c))
    }

    fn fires(&self, trigger: &TriggerDef) -> bool {
        let events = trigger.events;
        let set = || match trigger.columns.is_empty() {
            true => !self.updates.is_empty(),
            false => trigger.columns.iter().any(|c| self.updates.contains(c)),
        };
        (self.inserts && events.has(Event::Insert))
            || (self.deletes && events.has(Event::Delete))
            || (events.has(Event::Update) && set())
    }

    fn unsettles(&self, key: &ForeignKeyDef) -> bool {
        self.deletes || key.parent_columns.iter().any(|c| self.updates.contains(c))
    }
}

impl Binder<'_> {
    /// Returns all rules that apply to a statement that changes `table` in this way.
    pub(super) fn integrity(
        &mut self,
        table: &Arc<TableDef>,
        change: Change<'_>,
    ) -> Result<Integrity, SqlError> {
        let mut rules = match change.inserts || !change.updates.is_empty() {
            true => self.written_rules(table)?,
            false => RowRules::default(),
        };
        let mut change = change;
        let all: Vec<usize>;
        if table.has_triggers() {
            self.put_triggers(table, &|trigger| change.fires(trigger), &mut rules)?;
            // A BEFORE row trigger may change any column.
            if !change.updates.is_empty() && rules.all_triggers().any(changes_rows) {
                all = (0..table.columns.len()).collect();
                change.updates = &all;
            }
        }
        let mut related = Vec::new();
        let mut connected = self.above(table)?;
        connected.extend(self.below(table)?);
        let is_met = |table: &TableDef| {
            !table.rules.foreign_keys.is_empty() || !table.rules.referenced_by.is_empty()
        };
        if is_met(table) || connected.iter().any(|table| is_met(table)) {
            let mut tables = Vec::new();
            self.relate(table, change, &mut tables)?;
            if tables.len() > 1 || self.meets_itself(table, change) {
                for (table, changes) in tables {
                    related.push(self.related(table, changes)?);
                }
            }
        }
        let mut routines: Vec<Arc<RoutineDef>> = Vec::new();
        let mut add = |routine: &Arc<RoutineDef>| {
            if routines.iter().all(|known| known.id != routine.id) {
                routines.push(Arc::clone(routine));
            }
        };
        for rules in std::iter::once(&rules).chain(related.iter().map(|of| &of.rules)) {
            rules.all_triggers().for_each(|of| add(&of.routine));
            rules.for_each_routine(&mut add);
        }
        Ok(Integrity {
            rules,
            related,
            routines,
        })
    }

    /// Returns whether a self-referencing foreign key of `table` is affected by the change.
    fn meets_itself(&self, table: &TableDef, change: Change<'_>) -> bool {
        let own = |key: &&ForeignKeyDef| key.parent == table.id;
        let mut own = table.rules.foreign_keys.iter().filter(own);
        own.any(|key| change.writes(key) || change.unsettles(key))
    }

    /// Adds `table` and the tables that its change affects, each with a flag for whether its rows
    /// may be changed.
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
        let mut moves = table.routing_columns().iter();
        let moves = moves.any(|column| change.updates.contains(column));
        // A row that moves to another partition is deleted from one and inserted into the other.
        let below = Change {
            inserts: change.inserts || moves,
            deletes: change.deletes || moves,
            updates: change.updates,
        };
        for partition in self.below(table)? {
            self.relate_partition(&partition, below, tables)?;
        }
        for whole in self.above(table)?.iter().chain([table]) {
            self.relate_children(whole, change, tables)?;
        }
        Ok(())
    }

    /// Adds a partition of the changed table that has foreign keys of its own, with the tables that
    /// they reference. Adds also the tables whose foreign keys reference this partition alone.
    fn relate_partition(
        &mut self,
        partition: &Arc<TableDef>,
        change: Change<'_>,
        tables: &mut Vec<(Arc<TableDef>, bool)>,
    ) -> Result<(), SqlError> {
        let own = |key: &&ForeignKeyDef| partition.link(key.id).is_none() && change.writes(key);
        for key in partition.rules.foreign_keys.iter().filter(own) {
            if let Some(parent) = self.catalog.table_by_id(key.parent)? {
                add(tables, partition, false);
                add(tables, &parent, false);
            }
        }
        self.relate_children(partition, change, tables)
    }

    /// Adds `whole` and the tables whose foreign keys reference it. `whole` is the changed table, a
    /// partitioned table above it, or one of its partitions.
    fn relate_children(
        &mut self,
        whole: &Arc<TableDef>,
        change: Change<'_>,
        tables: &mut Vec<(Arc<TableDef>, bool)>,
    ) -> Result<(), SqlError> {
        for child in &whole.rules.referenced_by {
            let Some(child) = self.catalog.table_by_id(*child)? else {
                continue;
            };
            // A foreign key that a partition inherits is handled at its parent.
            let leads =
                |key: &&ForeignKeyDef| key.parent == whole.id && child.link(key.id).is_none();
            let mut keys = child.rules.foreign_keys.iter().filter(leads);
            if !keys.any(|key| change.unsettles(key)) {
                continue;
            }
            add(tables, whole, false);
            let mut to_here = child.rules.foreign_keys.iter().filter(leads);
            let changes = to_here.any(|key| key.on_delete.changes() || key.on_update.changes());
            // A foreign-key action on the child may trigger further actions on its own children.
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

    fn related(&mut self, table: Arc<TableDef>, changes: bool) -> Result<RelatedTable, SqlError> {
        let mut related = RelatedTable {
            table,
            rules: RowRules::default(),
            defaults: Vec::new(),
        };
        if changes {
            related.rules = self.written_rules(&Arc::clone(&related.table))?;
            let followed = |trigger: &TriggerDef| {
                let events = trigger.events;
                events.has(Event::Update) || events.has(Event::Delete)
            };
            let table = Arc::clone(&related.table);
            self.put_triggers(&table, &followed, &mut related.rules)?;
        }
        let sets =
            |key: &ForeignKeyDef| [key.on_delete, key.on_update].contains(&Referential::SetDefault);
        if changes && related.table.rules.foreign_keys.iter().any(sets) {
            related.defaults = self.default_row(&Arc::clone(&related.table), &[])?;
        }
        Ok(related)
    }

    /// Adds the triggers that `fires` selects to the rules of a table. Row triggers of a
    /// partitioned table belong to its leaf partitions. A row that moves between partitions is
    /// deleted from one and inserted into the other.
    fn put_triggers(
        &mut self,
        table: &TableDef,
        fires: &dyn Fn(&TriggerDef) -> bool,
        rules: &mut RowRules,
    ) -> Result<(), SqlError> {
        let whole = table.is_parent();
        rules.triggers = self.triggers(table, &|def| fires(def) && !(whole && def.row))?;
        if !whole {
            return Ok(());
        }
        let leaves = table.leaves();
        rules.leaves.resize_with(leaves.len(), RowRules::default);
        for (leaf, rules) in leaves.iter().zip(&mut rules.leaves) {
            let moves =
                |def: &TriggerDef| def.events.has(Event::Insert) || def.events.has(Event::Delete);
            rules.triggers = self.triggers(leaf, &|def| def.row && (fires(def) || moves(def)))?;
        }
        Ok(())
    }

    /// Returns the partitioned tables above a table, the nearest first.
    pub(super) fn above(&self, table: &TableDef) -> Result<Vec<Arc<TableDef>>, SqlError> {
        let mut all: Vec<Arc<TableDef>> = Vec::new();
        let parent = |table: &TableDef| table.partition_of_table().map(|of| of.parent);
        let mut next = parent(table);
        while let Some(id) = next {
            let Some(table) = self.catalog.table_by_id(id)? else {
                break;
            };
            next = parent(&table);
            all.push(table);
        }
        Ok(all)
    }

    /// Returns the partitions of a table, on all levels.
    fn below(&self, table: &TableDef) -> Result<Vec<Arc<TableDef>>, SqlError> {
        let mut all = Vec::new();
        if let Some(tree) = table.tree() {
            for id in tree.tables() {
                all.extend(self.catalog.table_by_id(id)?);
            }
        }
        Ok(all)
    }

    /// Returns the rules for the rows of a written table, with those of its partitions and the root
    /// of its partition hierarchy.
    fn written_rules(&mut self, table: &TableDef) -> Result<RowRules, SqlError> {
        let mut rules = self.row_rules(table)?;
        if table.hierarchy.is_some() {
            for leaf in table.leaves() {
                rules.leaves.push(self.row_rules(leaf)?);
            }
            rules.within = self.above(table)?.pop();
        }
        Ok(rules)
    }

    /// Returns the rules for the rows of one table.
    pub(super) fn row_rules(&mut self, table: &TableDef) -> Result<RowRules, SqlError> {
        let mut rules = RowRules::default();
        let generated = |column: &crate::catalog::ColumnDef| column.more.generated.is_some();
        let columns = table.columns.iter().enumerate();
        let domains = columns.filter_map(|(at, column)| Some((at, column.more.domain?)));
        rules.domains = domains.filter(|(_, of)| !of.is_free()).collect();
        if table.rules.checks.is_empty() && !table.columns.iter().any(generated) {
            return Ok(rules);
        }
        let mut checks: Vec<_> = table.rules.checks.iter().collect();
        checks.order_by(|a, b| a.name.cmp(&b.name));
        self.of_table(table, |binder| {
            for check in checks {
                let condition = binder.stored(table, &check.text, Clause::Check)?;
                rules.checks.push(RowCheck {
                    name: check.name.clone(),
                    condition: binder.condition(condition, "CHECK")?,
                });
            }
            binder.literal_settings = Some(Arc::new(Settings::new()));
            for (position, column) in table.columns.iter().enumerate() {
                if let Some(text) = &column.more.generated {
                    let value = binder.stored(table, text, Clause::Generated)?;
                    rules.generated.push(Assignment {
                        column: position,
                        value: binder.assign(value, column)?,
                    });
                }
            }
            Ok(())
        })?;
        let mut exprs = rules.checks.iter().map(|check| &check.condition);
        let generated = || rules.generated.iter().map(|of| &of.value);
        rules.calls = exprs.any(Expr::has_subquery) || generated().any(Expr::has_subquery);
        Ok(rules)
    }

    /// Binds a definition that the catalog stores for a table. Its names are looked up in the
    /// table's schema, then in `public`, and last along the search path of the session. The role
    /// that writes the rows does not matter.
    pub(super) fn of_table<T>(
        &mut self,
        table: &TableDef,
        bind: impl FnOnce(&mut Binder<'_>) -> Result<T, SqlError>,
    ) -> Result<T, SqlError> {
        let mut path = vec![table.schema.clone(), PUBLIC_SCHEMA.to_owned()];
        path.extend(self.path.iter().filter(|of| **of != table.schema).cloned());
        let along = PathView {
            catalog: self.catalog,
            path: &path,
        };
        let around = (self.cx, self.depth);
        let mut binder = Binder::of(self.text, (&along, &path), self.params, around);
        (binder.asker, binder.role) = (self.asker, self.role);
        let bound = bind(&mut binder)?;
        let needs = std::mem::take(&mut binder.needs);
        self.needs.extend(needs);
        Ok(bound)
    }

    /// Binds an expression over the columns of `table` that the catalog stores as text.
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

/// Returns whether the trigger may change the new row.
fn changes_rows(trigger: &Trigger) -> bool {
    trigger.def.row && trigger.def.timing == Timing::Before
}

/// Binds the condition of a partial index of `table` in a scope that contains only its columns and
/// types. Names belong to the schema of the table, independently of the session.
pub fn index_condition(
    table: &TableDef,
    text: &str,
    catalog: &dyn CatalogView,
) -> Result<Expr, SqlError> {
    index_condition_with(table, text, catalog, Arc::new(Settings::new()))
}

/// Binds an index condition; its date and time literals are read with these settings.
pub(super) fn index_condition_with(
    table: &TableDef,
    text: &str,
    catalog: &dyn CatalogView,
    settings: Arc<Settings>,
) -> Result<Expr, SqlError> {
    alone((table, text), catalog, settings, |binder| {
        let condition = binder.stored(table, text, Clause::IndexPredicate)?;
        binder.condition(condition, "WHERE")
    })
}

/// Binds an index expression of `table` in the same way as an index condition.
pub fn index_expression(
    table: &TableDef,
    text: &str,
    catalog: &dyn CatalogView,
) -> Result<Expr, SqlError> {
    index_expression_with(table, text, catalog, Arc::new(Settings::new()))
}

/// Binds an index expression; its date and time literals are read with these settings.
pub(super) fn index_expression_with(
    table: &TableDef,
    text: &str,
    catalog: &dyn CatalogView,
    settings: Arc<Settings>,
) -> Result<Expr, SqlError> {
    alone((table, text), catalog, settings, |binder| {
        let value = binder.stored(table, text, Clause::IndexExpression)?;
        binder.unknown_to_text(value)
    })
}

fn alone(
    (table, text): (&TableDef, &str),
    catalog: &dyn CatalogView,
    settings: Arc<Settings>,
    bind: impl FnOnce(&mut Binder<'_>) -> Result<Expr, SqlError>,
) -> Result<Expr, SqlError> {
    let cx = EvalContext::new(Arc::clone(&settings), 0, 0);
    let mut none = ParamTypes::new();
    let path = [table.schema.clone(), PUBLIC_SCHEMA.to_owned()];
    let along = PathView {
        catalog: &TypesView(catalog),
        path: &path,
    };
    let mut binder = Binder::of(text, (&along, &path), &mut none, (&cx, 0));
    binder.literal_settings = Some(settings);
    // The definition is read by threads with a plain stack.
    with_plain_limits(|| bind(&mut binder))
}

/// A view of a catalog that contains only its types.
pub(super) struct TypesView<'a>(pub(super) &'a dyn CatalogView);

impl CatalogView for TypesView<'_> {
    fn table(&self, _: Option<&str>, _: &str) -> Result<Option<Arc<TableDef>>, SqlError> {
        Ok(None)
    }

    fn table_of_index(&self, _: Option<&str>, _: &str) -> Result<Option<Arc<TableDef>>, SqlError> {
        Ok(None)
    }

    fn schema_exists(&self, name: &str) -> bool {
        self.0.schema_exists(name)
    }

    fn role(&self, _: &str) -> Result<Option<Arc<RoleDef>>, SqlError> {
        Ok(None)
    }

    fn user_type(&self, schema: Option<&str>, name: &str) -> Option<Arc<TypeDef>> {
        self.0.user_type(schema, name)
    }

    fn user_type_by_id(&self, id: u32) -> Option<Arc<TypeDef>> {
        self.0.user_type_by_id(id)
    }
}

/// Adds a table unless the list contains it. Returns whether the table or its `changes` flag is
/// new.
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
