//! DELETE.

use std::rc::Rc;

use sqlparser::ast;

use super::expr::Clause;
use super::from::table_leaf;
use super::rules::Change;
use super::scope::Scope;
use super::{Binder, names};
use crate::bound::{Delete, From, Integrity, Statement};
use crate::catalog::Event;
use crate::catalog::acl::Privileges;
use crate::error::SqlError;

impl Binder<'_> {
    pub(super) fn delete(&mut self, delete: &ast::Delete) -> Result<Statement, SqlError> {
        let refused = || SqlError::unsupported("this form of DELETE");
        if !delete.tables.is_empty()
            || delete.output.is_some()
            || !delete.order_by.is_empty()
            || delete.limit.is_some()
        {
            return Err(refused());
        }
        let (ast::FromTable::WithFromKeyword(list) | ast::FromTable::WithoutKeyword(list)) =
            &delete.from;
        let [item] = list.as_slice() else {
            return Err(refused());
        };
        let ast::TableFactor::Table { name, alias, .. } = &item.relation else {
            return Err(refused());
        };
        if !item.joins.is_empty() {
            return Err(refused());
        }
        let changing = self.changing_target(name, Event::Delete)?;
        let (first_slot, width) = changing.slots();
        let (table, through) = (changing.table, changing.through);
        let alias = alias.as_ref().map(|a| names::fold(&a.name));
        let mut scope = Scope::default();
        let mut leaf = table_leaf(&table, alias, first_slot);
        let reads = self.need_change(&table, Privileges::DELETE);
        leaf.reads = Some(Rc::clone(&reads));
        let alias_name = leaf.alias.clone();
        scope.push(leaf)?;
        scope.width = width;
        let using = match &delete.using {
            None => None,
            Some(list) => match self.relations(list, &mut scope)? {
                From::Nothing => None,
                from => Some(from),
            },
        };
        let change = Change {
            deletes: true,
            ..Change::default()
        };
        let integrity = match through {
            None => self.integrity(&table, change)?,
            Some(_) => Integrity::default(),
        };
        let current = self.current_of(delete.selection.as_ref(), &table)?;
        let filter = match &delete.selection {
            _ if current.is_some() => None,
            Some(filter) => Some(self.filter(filter, &scope)?),
            None => None,
        };
        let returning = match &delete.returning {
            Some(items) => self.targets(items, &scope, Clause::Returning, None, None)?,
            None => Vec::new(),
        };
        let bound = Delete {
            view: match through {
                None => self.instead_query(&table)?,
                Some(_) => None,
            },
            table,
            alias: alias_name,
            using,
            filter,
            current,
            integrity,
            returning,
        };
        match through {
            None => Ok(Statement::Delete(Box::new(bound))),
            Some(through) => self.delete_through(through, &reads, bound),
        }
    }
}
