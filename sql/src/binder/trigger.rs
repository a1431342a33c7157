//! Triggers: the statements about them, their WHEN conditions, and the triggers that a statement
//! may fire.

use std::sync::Arc;

use sqlparser::ast;

use super::alter_view::triggers_changed;
use super::expr::Clause;
use super::from::table_leaf;
use super::scope::Scope;
use super::{Binder, names};
use crate::bound::{AlterAction, AlterTable, Expr, Statement, Trigger, TriggerChange};
use crate::catalog::{
    ConstraintTrigger, Event, RoutineDef, TableDef, Timing, TriggerDef, TriggerState,
};
use crate::error::{SqlError, SqlState};
use crate::parser::lexer::{self, Kind};
use crate::parser::{self, CreateTrigger, TriggerAction, TriggerSyntax};
use crate::spelling::expression_text;

impl Binder<'_> {
    pub(super) fn trigger(&mut self, syntax: &TriggerSyntax) -> Result<Statement, SqlError> {
        let schema = syntax.schema.as_deref();
        let view = self.catalog.view(schema, &syntax.table)?;
        let found = match &view {
            Some(view) => Ok(Arc::new(view.as_table())),
            None => self.table_called(schema, &syntax.table),
        };
        if let (Ok(table), TriggerAction::Create(_)) = (&found, &syntax.does)
            && table.materialized.is_some()
        {
            let message = format!("relation \"{}\" cannot have triggers", table.name);
            return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message)
                .detail("This operation is not supported for materialized views."));
        }
        let change = match &syntax.does {
            TriggerAction::Create(create) => {
                let trigger = self.new_trigger(&*found.clone()?, &syntax.name, create)?;
                TriggerChange::Create {
                    trigger: Box::new(trigger),
                    or_replace: create.or_replace,
                }
            }
            TriggerAction::Drop { if_exists } => TriggerChange::Drop {
                name: syntax.name.clone(),
                if_exists: *if_exists,
            },
            TriggerAction::Rename(to) => TriggerChange::Rename {
                from: syntax.name.clone(),
                to: to.clone(),
            },
            TriggerAction::Comment(text) => TriggerChange::Comment {
                name: syntax.name.clone(),
                text: text.clone(),
            },
        };
        if let Some(view) = view {
            return Ok(triggers_changed(view, change));
        }
        let skipped = matches!(syntax.does, TriggerAction::Drop { if_exists: true });
        let table = match found {
            Err(error) if skipped && error.sqlstate() == SqlState::UNDEFINED_TABLE => None,
            found => Some(found?),
        };
        Ok(Statement::AlterTable(AlterTable {
            later: Vec::new(),
            materialized: false,
            table,
            name: syntax.table.clone(),
            only: false,
            actions: vec![AlterAction::Trigger(change)],
        }))
    }

    fn new_trigger(
        &mut self,
        table: &TableDef,
        name: &str,
        create: &CreateTrigger,
    ) -> Result<TriggerDef, SqlError> {
        check_kind(table, create)?;
        if create.row && create.events.has(Event::Truncate) {
            return Err(SqlError::new(
                SqlState::FEATURE_NOT_SUPPORTED,
                "TRUNCATE FOR EACH ROW triggers are not supported",
            ));
        }
        if create.timing == Timing::Instead {
            check_instead(create)?;
        }
        check_hierarchy(table, create)?;
        check_transition(create)?;
        let mut columns = Vec::with_capacity(create.columns.len());
        for column in &create.columns {
            let found = table.column(column);
            let at = found.ok_or_else(|| names::no_column_of(column, &table.name))?;
            if columns.contains(&at) {
                return Err(SqlError::new(
                    SqlState::DUPLICATE_COLUMN,
                    format!("column \"{column}\" specified more than once"),
                ));
            }
            columns.push(at);
        }
        let constraint = match &create.constraint {
            None => None,
            Some(constraint) => {
                let from = match &constraint.from {
                    None => None,
                    Some((schema, name)) => Some(self.table_called(schema.as_deref(), name)?.id),
                };
                Some(ConstraintTrigger {
                    from,
                    deferrable: constraint.deferrable,
                    deferred: constraint.deferred,
                })
            }
        };
        let routine = self.trigger_function(&create.function)?;
        let mut trigger = TriggerDef {
            id: 0,
            name: name.to_owned(),
            function: routine.id,
            timing: create.timing,
            events: create.events,
            columns,
            row: create.row,
            condition: None,
            transition: create.transition.clone(),
            args: create.args.clone(),
            enabled: TriggerState::Origin,
            constraint,
            comment: None,
        };
        if let Some(text) = &create.condition {
            let mut parsed = parser::parse_expression(text)?;
            // Definitions have the condition in additional parentheses.
            while let ast::Expr::Nested(inner) = parsed {
                parsed = *inner;
            }
            let text = folded(&expression_text(&parsed));
            let condition = self.trigger_condition(table, &text)?;
            check_condition(&trigger, table, &condition)?;
            trigger.condition = Some(text);
        }
        Ok(trigger)
    }

    fn trigger_function(
        &self,
        (schema, name): &(Option<String>, String),
    ) -> Result<Arc<RoutineDef>, SqlError> {
        let found = self.catalog.routines(schema.as_deref(), name);
        let routine = found.into_iter().find(|r| r.inputs().next().is_none());
        let qualified = names::qualified_name(schema.as_deref(), name);
        let routine = routine.ok_or_else(|| {
            SqlError::new(
                SqlState::UNDEFINED_FUNCTION,
                format!("function {qualified}() does not exist"),
            )
        })?;
        match routine.result.trigger {
            true => Ok(routine),
            false => Err(SqlError::new(
                SqlState::INVALID_OBJECT_DEFINITION,
                format!("function {qualified} must return type trigger"),
            )),
        }
    }

    /// Binds a WHEN condition over the old row followed by the new row.
    pub(super) fn trigger_condition(
        &mut self,
        table: &TableDef,
        text: &str,
    ) -> Result<Expr, SqlError> {
        let parsed = parser::parse_expression(text)?;
        let mut scope = Scope::default();
        scope.push(table_leaf(table, Some("old".to_owned()), 0))?;
        scope.push(table_leaf(
            table,
            Some("new".to_owned()),
            table.columns.len(),
        ))?;
        let condition = self.scalar(&parsed, &scope, Clause::TriggerWhen)?;
        self.condition(condition, "WHEN")
    }

    /// Returns the triggers of `table` that `fires` selects, in their order, with the functions
    /// that they run.
    pub(super) fn triggers(
        &mut self,
        table: &TableDef,
        fires: &dyn Fn(&TriggerDef) -> bool,
    ) -> Result<Vec<Trigger>, SqlError> {
        let mut triggers = Vec::new();
        for def in &table.rules.triggers {
            if def.enabled == TriggerState::Disabled || !fires(def) {
                continue;
            }
            let Some(routine) = self.catalog.routine_by_id(def.function) else {
                return Err(SqlError::internal("a trigger without a function"));
            };
            let condition = match &def.condition {
                None => None,
                Some(text) => Some(self.unnoted(|of| of.trigger_condition(table, text))?),
            };
            triggers.push(Trigger {
                def: def.clone(),
                routine,
                condition,
            });
        }
        Ok(triggers)
    }
}

/// Checks that tables, or views, may have this kind of trigger; 42809 otherwise.
fn check_kind(table: &TableDef, create: &CreateTrigger) -> Result<(), SqlError> {
    let instead = create.timing == Timing::Instead;
    let transition = create.transition.iter().any(Option::is_some);
    let (kind, detail) = match table.is_view() {
        true if create.row && !instead => (
            "view",
            "Views cannot have row-level BEFORE or AFTER triggers.",
        ),
        true if create.events.has(Event::Truncate) => {
            ("view", "Views cannot have TRUNCATE triggers.")
        }
        true if transition => ("view", "Triggers on views cannot have transition tables."),
        false if instead => ("table", "Tables cannot have INSTEAD OF triggers."),
        _ => return Ok(()),
    };
    let message = format!("\"{}\" is a {kind}", table.name);
    Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message).detail(detail))
}

/// Refuses transition tables for a row trigger of a partitioned table or a partition.
fn check_hierarchy(table: &TableDef, create: &CreateTrigger) -> Result<(), SqlError> {
    if !create.row || create.transition.iter().all(Option::is_none) {
        return Ok(());
    }
    if table.is_parent() {
        let message = format!("\"{}\" is a partitioned table", table.name);
        return Err(
            SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message).detail(
                "ROW triggers with transition tables are not supported on partitioned tables.",
            ),
        );
    }
    match table.partition_of_table() {
        None => Ok(()),
        Some(_) => Err(SqlError::new(
            SqlState::FEATURE_NOT_SUPPORTED,
            "ROW triggers with transition tables are not supported on partitions",
        )),
    }
}

/// Refuses clauses that INSTEAD OF triggers cannot have, with 0A000.
fn check_instead(create: &CreateTrigger) -> Result<(), SqlError> {
    let what = match create {
        _ if !create.row => "must be FOR EACH ROW",
        _ if create.condition.is_some() => "cannot have WHEN conditions",
        _ if !create.columns.is_empty() => "cannot have column lists",
        _ => return Ok(()),
    };
    let message = format!("INSTEAD OF triggers {what}");
    Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message))
}

/// Checks that the trigger may have transition tables; 42P17 or 0A000 otherwise.
fn check_transition(create: &CreateTrigger) -> Result<(), SqlError> {
    let [old, new] = &create.transition;
    if old.is_none() && new.is_none() {
        return Ok(());
    }
    let error = |state, message: &str| Err(SqlError::new(state, message));
    let refused = |message| error(SqlState::FEATURE_NOT_SUPPORTED, message);
    let wrong = |message| error(SqlState::INVALID_OBJECT_DEFINITION, message);
    if create.timing != Timing::After {
        return wrong("transition table name can only be specified for an AFTER trigger");
    }
    let has = |event| create.events.has(event);
    if has(Event::Truncate) {
        return refused("TRUNCATE triggers with transition tables are not supported");
    }
    if create.events.all().count() > 1 {
        return refused(
            "transition tables cannot be specified for triggers with more than one event",
        );
    }
    if !create.columns.is_empty() {
        return refused("transition tables cannot be specified for triggers with column lists");
    }
    if new.is_some() && has(Event::Delete) {
        return wrong("NEW TABLE can only be specified for an INSERT or UPDATE trigger");
    }
    if old.is_some() && has(Event::Insert) {
        return wrong("OLD TABLE can only be specified for a DELETE or UPDATE trigger");
    }
    match old == new {
        true => wrong("OLD TABLE name and NEW TABLE name cannot be the same"),
        false => Ok(()),
    }
}

/// Checks that a condition reads only rows that exist for the event; 42P17 otherwise.
fn check_condition(
    trigger: &TriggerDef,
    table: &TableDef,
    condition: &Expr,
) -> Result<(), SqlError> {
    let width = table.columns.len();
    let (mut old, mut new, mut generated) = (false, false, None);
    condition.for_each_column(&mut |slot| {
        old |= slot < width;
        new |= slot >= width;
        if let Some(column) = slot.checked_sub(width)
            && table.columns[column].more.generated.is_some()
        {
            generated = Some(column);
        }
    });
    let refused = |message: &str| Err(SqlError::new(SqlState::INVALID_OBJECT_DEFINITION, message));
    if !trigger.row && (old || new) {
        return refused("statement trigger's WHEN condition cannot reference column values");
    }
    if old && trigger.events.has(Event::Insert) {
        return refused("INSERT trigger's WHEN condition cannot reference OLD values");
    }
    if new && trigger.events.has(Event::Delete) {
        return refused("DELETE trigger's WHEN condition cannot reference NEW values");
    }
    if let (Some(column), Timing::Before) = (generated, trigger.timing) {
        let name = &table.columns[column].name;
        return refused("BEFORE trigger's WHEN condition cannot reference NEW generated columns")
            .map_err(|e: SqlError| e.detail(format!("Column \"{name}\" is a generated column.")));
    }
    Ok(())
}

/// Returns the condition with the names of rows and columns folded to lower case.
fn folded(text: &str) -> String {
    let tokens = lexer::tokens(text).unwrap_or_default();
    let dot = |at: Option<usize>| {
        at.and_then(|at| tokens.get(at))
            .is_some_and(|t| t.kind == Kind::Dot)
    };
    let mut folded = text.to_owned();
    for (i, token) in tokens.iter().enumerate().rev() {
        let row = ["old", "new"].iter().any(|row| token.is(text, row));
        if token.kind == Kind::Word && (row || dot(i.checked_sub(1)) || dot(Some(i + 1))) {
            let mut name = token.text(text).to_ascii_lowercase();
            if row && !dot(i.checked_sub(1)) && !dot(Some(i + 1)) {
                name += ".*";
            }
            folded.replace_range(token.start..token.end, &name);
        }
    }
    folded
}
