//! Dependencies of tables, their columns and defaults, partitions, and triggers.

use super::super::attributes::{expression, part_oid};
use super::super::sequences::sequences_of;
use super::{AUTO, Dependencies, INTERNAL, NORMAL, TRIGGER_CLASS, class};
use crate::binder::VisibleColumns;
use crate::catalog::{ColumnDef, TableDef, TriggerDef};
use crate::types::composites::{ROW_ARRAY, ROW_TYPE};
use crate::types::{Type, TypeKind};

impl Dependencies<'_, '_> {
    pub(super) fn table(&mut self, table: &TableDef) {
        let relation = (class::RELATION, table.id, 0);
        self.in_schema(relation, &table.schema);
        self.row_type(table.id, (table.id | ROW_TYPE, table.id | ROW_ARRAY));
        if let Some(of) = table.partition_of_table() {
            self.add(relation, (class::RELATION, of.parent, 0), AUTO);
        }
        for at in table
            .partition_key()
            .into_iter()
            .flat_map(|key| &key.columns)
        {
            let column = (class::RELATION, table.id, table.columns[*at].attnum);
            self.add(column, relation, INTERNAL);
        }
        for column in &table.columns {
            let of = (class::RELATION, table.id, column.attnum);
            self.of_type(of, column.declared());
            if let Some(sequence) = column.more.sequence {
                let kind = match column.more.identity {
                    Some(_) => INTERNAL,
                    None => AUTO,
                };
                self.add((class::RELATION, sequence, 0), of, kind);
            }
            self.default(table, column);
        }
    }

    /// Adds the dependencies of a column's default or generation expression.
    pub(super) fn default(&mut self, table: &TableDef, column: &ColumnDef) {
        if expression(column).is_none() {
            return;
        }
        let default = (class::DEFAULT, part_oid(table.id, column.attnum), 0);
        let of = (class::RELATION, table.id, column.attnum);
        if let Some(text) = &column.more.generated {
            self.add(default, of, INTERNAL);
            let place = (table.schema.as_str(), VisibleColumns::Table(table));
            self.expression(default, text, place, Some(column.ty));
            return;
        }
        self.add(default, of, AUTO);
        let text = column.default.as_deref().unwrap_or_default();
        let place = (table.schema.as_str(), VisibleColumns::Nothing);
        let mut on = self.expression(default, text, place, Some(column.ty));
        let domain = column.more.domain.map(|of| Type::of(TypeKind::Domain(of)));
        if let Some(domain) = domain
            && on.insert((class::TYPE, domain.oid(), 0))
        {
            self.of_type(default, domain);
        }
        // The text of a default can name its sequence without the schema.
        let snapshot = self.around.snapshot;
        for sequence in sequences_of(snapshot, table, column.default.as_ref()) {
            let sequence = (class::RELATION, sequence.id, 0);
            if on.insert(sequence) {
                self.add(default, sequence, NORMAL);
            }
        }
    }

    /// Adds the dependencies of the triggers of a table or view.
    pub(super) fn triggers(&mut self, table: &TableDef) {
        for trigger in &table.rules.triggers {
            self.trigger(table, trigger);
        }
    }

    fn trigger(&mut self, table: &TableDef, trigger: &TriggerDef) {
        let of = (TRIGGER_CLASS, trigger.id, 0);
        let relation = (class::RELATION, table.id, 0);
        self.add(of, (class::ROUTINE, trigger.function, 0), NORMAL);
        self.add(of, relation, AUTO);
        if let Some(constraint) = &trigger.constraint {
            let rule = (class::CONSTRAINT, trigger.id, 0);
            self.add(rule, relation, AUTO);
            self.add(rule, of, INTERNAL);
            if let Some(from) = constraint.from {
                self.add(of, (class::RELATION, from, 0), AUTO);
            }
        }
        if let Some(parents) = table.link(trigger.id) {
            self.of_partition(of, (TRIGGER_CLASS, parents), table.id);
        }
        for at in &trigger.columns {
            let column = (class::RELATION, table.id, table.columns[*at].attnum);
            self.add(of, column, NORMAL);
        }
        if let Some(condition) = &trigger.condition {
            let place = (table.schema.as_str(), VisibleColumns::Trigger(table));
            self.expression(of, condition, place, Some(Type::BOOL));
        }
    }
}
