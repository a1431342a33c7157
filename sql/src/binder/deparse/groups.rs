//! Deparsing of GROUP BY.

use sqlparser::ast;

use super::super::grouping_sets::flattened;
use super::tree::{Group, SortKey, Target};
use super::{Deparser, Level};
use crate::error::SqlError;
use crate::types::Type;

/// The target list of a query, and its level: a key can be the number or the name of a target.
type Around<'a> = (&'a [(Target, Type)], &'a Level);

impl Deparser<'_, '_> {
    /// Deparses the items of GROUP BY.
    pub(super) fn groups(
        &mut self,
        group_by: &ast::GroupByExpr,
        targets: &[(Target, Type)],
        level: &Level,
    ) -> Result<Vec<Group>, SqlError> {
        let ast::GroupByExpr::Expressions(items, _) = group_by else {
            return Err(SqlError::unsupported("GROUP BY ALL"));
        };
        let around = (targets, level);
        let mut groups = Vec::with_capacity(items.len());
        for item in items {
            if let Some(sets) = self.group_sets(item, around)? {
                groups.push(sets);
                continue;
            }
            if matches!(item, ast::Expr::Tuple(parts) if parts.is_empty()) {
                groups.push(Group::Set(Vec::new()));
            }
            let keys = self.group_keys(std::slice::from_ref(item), around)?;
            groups.extend(keys.into_iter().map(Group::Key));
        }
        Ok(groups)
    }

    /// Deparses an item that is ROLLUP, CUBE or GROUPING SETS; returns `None` for other items.
    fn group_sets(
        &mut self,
        item: &ast::Expr,
        around: Around<'_>,
    ) -> Result<Option<Group>, SqlError> {
        let (words, sets) = match item {
            ast::Expr::Rollup(sets) => ("ROLLUP", sets),
            ast::Expr::Cube(sets) => ("CUBE", sets),
            ast::Expr::GroupingSets(sets) => ("GROUPING SETS ", sets),
            _ => return Ok(None),
        };
        let are_sets = matches!(item, ast::Expr::GroupingSets(_));
        let mut groups = Vec::with_capacity(sets.len());
        for set in sets {
            let nested = match &set[..] {
                [one] => self.group_sets(one, around)?,
                _ => None,
            };
            groups.push(match nested {
                Some(nested) => nested,
                None => {
                    let mut keys = self.group_keys(set, around)?;
                    match keys.pop() {
                        Some(only) if keys.is_empty() && !are_sets => Group::Key(only),
                        last => {
                            keys.extend(last);
                            Group::Set(keys)
                        }
                    }
                }
            });
        }
        Ok(Some(Group::Sets(words, groups)))
    }

    /// Deparses grouping keys; each column of a parenthesized list is a key of its own.
    fn group_keys(
        &mut self,
        items: &[ast::Expr],
        around: Around<'_>,
    ) -> Result<Vec<SortKey>, SqlError> {
        let keys = flattened(items).into_iter();
        keys.map(|key| self.group_key(key, around)).collect()
    }
}
