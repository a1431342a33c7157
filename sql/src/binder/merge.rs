//! MERGE.

use std::sync::Arc;

use sqlparser::ast;

use super::from::table_leaf;
use super::insert::ColumnDefaults;
use super::rules::Change;
use super::scope::Scope;
use super::{Binder, names};
use crate::bound::{Expr, Merge, MergeAction, MergeWhen, Statement};
use crate::catalog::TableDef;
use crate::catalog::acl::Privileges;
use crate::error::{SqlError, SqlState};
use crate::parser::{self, WhenSyntax};

impl Binder<'_> {
    pub(super) fn merge_into(&mut self, merge: &ast::Merge) -> Result<Statement, SqlError> {
        if merge.output.is_some() {
            return Err(syntax("MERGE has no RETURNING"));
        }
        let ast::TableFactor::Table { name, alias, .. } = &merge.table else {
            return Err(SqlError::unsupported("MERGE into what is not a table"));
        };
        let refused = |kind: &str, name: &str| {
            let message = format!("cannot execute MERGE on relation \"{name}\"");
            let refused = SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message);
            Err(refused.detail(format!("This operation is not supported for {kind}.")))
        };
        if let Some(view) = self.view(name)? {
            return refused("views", &view.name);
        }
        let table = self.table(name)?;
        if table.materialized.is_some() {
            return refused("materialized views", &table.name);
        }
        let alias = alias.as_ref().map(|a| names::fold(&a.name));
        let mut scope = Scope::default();
        let mut leaf = table_leaf(&table, alias, 0);
        leaf.reads = Some(self.need_change(&table, Privileges::NONE));
        let alias_name = leaf.alias.clone();
        scope.push(leaf)?;
        let source = ast::TableWithJoins {
            relation: merge.source.clone(),
            joins: Vec::new(),
        };
        let source = self.relations(std::slice::from_ref(&source), &mut scope)?;
        let on = self.filter(&merge.on, &scope)?;
        let mut unmatched = scope.clone();
        unmatched.leaves.remove(0);
        let said = parser::whens(self.text);
        if said.is_empty() || said.len() != merge.clauses.len() {
            return Err(syntax("MERGE has no WHEN clause"));
        }
        let mut whens = Vec::with_capacity(said.len());
        let mut last = [false; 2];
        for (clause, said) in merge.clauses.iter().zip(said) {
            let kind = usize::from(said.matched);
            if last[kind] {
                return Err(syntax(
                    "unreachable WHEN clause specified after unconditional WHEN clause",
                ));
            }
            last[kind] = clause.predicate.is_none();
            let scope = match said.matched {
                true => &scope,
                false => &unmatched,
            };
            whens.push(self.when(&table, clause, said, scope)?);
        }
        let mut columns = Vec::new();
        let (mut inserts, mut deletes) = (false, false);
        for when in &whens {
            match &when.action {
                MergeAction::Update(set) => columns.extend(set.iter().map(|a| a.column)),
                MergeAction::Delete => deletes = true,
                MergeAction::Insert(_) => inserts = true,
                MergeAction::Nothing => {}
            }
        }
        if !columns.is_empty() {
            self.need_columns(&table, Privileges::UPDATE, &columns);
        }
        for (does, wanted) in [(deletes, Privileges::DELETE), (inserts, Privileges::INSERT)] {
            if does {
                self.need_columns(&table, wanted, &[]);
            }
        }
        let change = Change {
            inserts,
            deletes,
            updates: &columns,
        };
        let integrity = self.integrity(&table, change)?;
        Ok(Statement::Merge(Box::new(Merge {
            table,
            alias: alias_name,
            source,
            on,
            whens,
            integrity,
        })))
    }

    fn when(
        &mut self,
        table: &Arc<TableDef>,
        clause: &ast::MergeClause,
        said: WhenSyntax,
        scope: &Scope,
    ) -> Result<MergeWhen, SqlError> {
        let by_source = ast::MergeClauseKind::NotMatchedBySource;
        if clause.clause_kind == by_source
            || clause.clause_kind == ast::MergeClauseKind::NotMatchedByTarget
        {
            return Err(syntax("WHEN NOT MATCHED has no BY"));
        }
        let condition = match &clause.predicate {
            None => None,
            Some(condition) => Some(self.filter(condition, scope)?),
        };
        let action = match &clause.action {
            _ if said.nothing => MergeAction::Nothing,
            ast::MergeAction::Delete { .. } => MergeAction::Delete,
            ast::MergeAction::Update(update) => {
                if update.update_predicate.is_some() || update.delete_predicate.is_some() {
                    return Err(syntax("UPDATE of MERGE has no WHERE"));
                }
                let mut assignments = Vec::with_capacity(update.assignments.len());
                for assignment in &update.assignments {
                    self.assignments(table, assignment, scope, &mut assignments)?;
                }
                MergeAction::Update(assignments)
            }
            ast::MergeAction::Insert(_) if said.default_values => {
                MergeAction::Insert(self.default_row(table, &[])?)
            }
            ast::MergeAction::Insert(insert) => {
                MergeAction::Insert(self.merged_row(table, insert, scope)?)
            }
        };
        Ok(MergeWhen {
            matched: said.matched,
            condition,
            action,
        })
    }

    fn merged_row(
        &mut self,
        table: &Arc<TableDef>,
        insert: &ast::MergeInsertExpr,
        scope: &Scope,
    ) -> Result<Vec<Expr>, SqlError> {
        let ast::MergeInsertKind::Values(values) = &insert.kind else {
            return Err(syntax("INSERT of MERGE has VALUES"));
        };
        let [row] = &values.rows[..] else {
            return Err(syntax("INSERT of MERGE has one row"));
        };
        if insert.insert_predicate.is_some() {
            return Err(syntax("INSERT of MERGE has no WHERE"));
        }
        let places = self.insert_places(table, &insert.columns)?;
        let explicit = !insert.columns.is_empty();
        let to = (places.as_slice(), explicit, self.overriding());
        let values = (row.content.as_slice(), &mut ColumnDefaults::default());
        self.insert_row(table, to, values, scope)
    }
}

/// Returns a syntax error, 42601, with this message.
fn syntax(message: &str) -> SqlError {
    SqlError::new(SqlState::SYNTAX_ERROR, message)
}
