//! GROUPING SETS, ROLLUP and CUBE: several groupings of the same rows. GROUPING tells the sets
//! apart.

use sqlparser::ast;

use super::Binder;
use super::expr::{Clause, ExprContext};
use super::group::Grouper;
use super::scope::Scope;
use crate::bound::{CompareClass, Expr, Node, Target};
use crate::error::{SqlError, SqlState};
use crate::types::Type;
use crate::value::Value;

/// The grouping keys, and the key numbers of each grouping set.
pub(super) type Keys = (Vec<Expr>, Vec<Vec<usize>>);

/// The first slot number of placeholders for GROUPING, which are replaced once the keys are known.
pub(super) const LEVEL_SLOTS: usize = 1 << 55;
/// The largest number of grouping sets of a GROUP BY.
const SETS_MAX: usize = 4096;

/// Returns whether GROUP BY contains grouping sets rather than a list of keys.
pub(super) fn are_sets(items: &[ast::Expr]) -> bool {
    items.iter().any(|item| match item {
        ast::Expr::GroupingSets(_) | ast::Expr::Rollup(_) | ast::Expr::Cube(_) => true,
        ast::Expr::Tuple(parts) => parts.is_empty(),
        _ => false,
    })
}

/// Returns the keys of a list without grouping sets: each column of a parenthesized list is a key
/// of its own.
pub(super) fn flattened(items: &[ast::Expr]) -> Vec<&ast::Expr> {
    let mut rest: Vec<&ast::Expr> = items.iter().rev().collect();
    let mut keys = Vec::with_capacity(items.len());
    while let Some(item) = rest.pop() {
        match item {
            ast::Expr::Tuple(parts) => rest.extend(parts.iter().rev()),
            key => keys.push(key),
        }
    }
    keys
}

impl Binder<'_> {
    /// Returns the keys and sets of a GROUP BY. Each item gives a list of sets, and the result is
    /// the cross product of the lists.
    pub(super) fn grouping_sets(
        &mut self,
        items: &[ast::Expr],
        scope: &Scope,
        targets: &[Target],
    ) -> Result<Keys, SqlError> {
        let mut keys = Vec::new();
        let mut sets: Vec<Vec<usize>> = vec![Vec::new()];
        for item in items {
            let more = self.sets_of(item, scope, targets, &mut keys)?;
            if sets.len().saturating_mul(more.len()) > SETS_MAX {
                return Err(SqlError::new(
                    SqlState::STATEMENT_TOO_COMPLEX,
                    "too many grouping sets present (maximum 4096)",
                ));
            }
            let mut all = Vec::with_capacity(sets.len() * more.len());
            for set in &sets {
                for other in &more {
                    let mut both = set.clone();
                    both.extend(other.iter().filter(|key| !set.contains(key)));
                    all.push(both);
                }
            }
            sets = all;
        }
        // The number of the grouping set; no expression of the query is equal to this node.
        keys.push(Expr::new(Type::INT4, Node::Outer(usize::MAX)));
        Ok((keys, sets))
    }

    fn sets_of(
        &mut self,
        item: &ast::Expr,
        scope: &Scope,
        targets: &[Target],
        keys: &mut Vec<Expr>,
    ) -> Result<Vec<Vec<usize>>, SqlError> {
        let mut lists = |binder: &mut Self, lists: &[Vec<ast::Expr>]| {
            let mut found = Vec::with_capacity(lists.len());
            for list in lists {
                found.push(binder.key_list(list, scope, targets, keys)?);
            }
            Ok::<_, SqlError>(found)
        };
        match item {
            ast::Expr::GroupingSets(sets) => {
                let mut all = Vec::new();
                for set in sets {
                    match set.as_slice() {
                        [
                            one @ (ast::Expr::GroupingSets(_)
                            | ast::Expr::Rollup(_)
                            | ast::Expr::Cube(_)),
                        ] => {
                            all.extend(self.sets_of(one, scope, targets, keys)?);
                        }
                        list => all.push(self.key_list(list, scope, targets, keys)?),
                    }
                }
                Ok(all)
            }
            ast::Expr::Rollup(parts) => {
                let parts = lists(self, parts)?;
                let upto = |end: usize| joined(&parts[..end]);
                Ok((0..=parts.len()).rev().map(upto).collect())
            }
            ast::Expr::Cube(parts) => {
                let parts = lists(self, parts)?;
                if parts.len() > 12 {
                    return Err(SqlError::new(
                        SqlState::TOO_MANY_COLUMNS,
                        "CUBE is limited to 12 elements",
                    ));
                }
                let count = parts.len();
                let with = |mask: usize| {
                    let chosen = (0..count).filter(|at| mask >> (count - 1 - at) & 1 == 1);
                    let chosen: Vec<Vec<usize>> = chosen.map(|at| parts[at].clone()).collect();
                    joined(&chosen)
                };
                Ok((0..1_usize << count).rev().map(with).collect())
            }
            ast::Expr::Tuple(list) => Ok(vec![self.key_list(list, scope, targets, keys)?]),
            one => {
                let list = std::slice::from_ref(one);
                Ok(vec![self.key_list(list, scope, targets, keys)?])
            }
        }
    }

    fn key_list(
        &mut self,
        list: &[ast::Expr],
        scope: &Scope,
        targets: &[Target],
        keys: &mut Vec<Expr>,
    ) -> Result<Vec<usize>, SqlError> {
        let mut found = Vec::with_capacity(list.len());
        for item in list {
            if let ast::Expr::Tuple(parts) = item {
                found.extend(self.key_list(parts, scope, targets, keys)?);
                continue;
            }
            let key = self.group_key(item, scope, targets)?;
            let at = match keys.iter().position(|k| *k == key) {
                Some(at) => at,
                None => {
                    keys.push(key);
                    keys.len() - 1
                }
            };
            if !found.contains(&at) {
                found.push(at);
            }
        }
        Ok(found)
    }

    /// Binds `GROUPING(keys)`: a bit mask with a bit for each key that is not in the grouping set.
    pub(super) fn grouping_level(
        &mut self,
        function: &ast::Function,
        around: &mut ExprContext<'_>,
    ) -> Result<Expr, SqlError> {
        let handed = self.handed();
        let ast::FunctionArguments::List(list) = &function.args else {
            return Err(super::call::no_function("grouping", &[]));
        };
        if list.args.len() > 31 {
            return Err(SqlError::new(
                SqlState::TOO_MANY_ARGUMENTS,
                "GROUPING must have fewer than 32 arguments",
            ));
        }
        let mut args = Vec::with_capacity(list.args.len());
        for arg in &list.args {
            let arg = super::call::plain_argument(arg)?;
            args.push(self.scalar(arg, around.scope, Clause::Argument)?);
        }
        self.grouping_belonging(args, &handed, around)
    }
}

fn joined(parts: &[Vec<usize>]) -> Vec<usize> {
    let mut all = Vec::new();
    for key in parts.iter().flatten() {
        if !all.contains(key) {
            all.push(*key);
        }
    }
    all
}

impl Grouper<'_> {
    /// Returns the expression, over the grouped row, of each call of GROUPING.
    pub(super) fn levels(
        &self,
        calls: &[Vec<Expr>],
        sets: &[Vec<usize>],
    ) -> Result<Vec<Expr>, SqlError> {
        let mut levels = Vec::with_capacity(calls.len());
        for args in calls {
            let mut keys = Vec::with_capacity(args.len());
            for arg in args {
                let key = self.keys.iter().position(|key| key.node == arg.node);
                keys.push(key.ok_or_else(|| {
                    SqlError::new(
                        SqlState::GROUPING_ERROR,
                        "arguments to GROUPING must be grouping expressions of the associated \
                         query level",
                    )
                })?);
            }
            let bits = |set: &[usize]| {
                let missing = keys.iter().map(|key| i32::from(!set.contains(key)));
                let bits = missing.fold(0, |bits, bit| bits << 1 | bit);
                Expr::constant(Type::INT4, Value::Int4(bits))
            };
            if sets.is_empty() {
                levels.push(Expr::constant(Type::INT4, Value::Int4(0)));
                continue;
            }
            let number = Expr::column(Type::INT4, self.keys.len() - 1);
            let branches = sets.iter().zip(0..).map(|(set, number)| {
                let number = Expr::constant(Type::INT4, Value::Int4(number));
                (number, bits(set))
            });
            levels.push(Expr::new(
                Type::INT4,
                Node::Case {
                    operand: Some((Box::new(number), CompareClass::Int)),
                    branches: branches.collect(),
                    otherwise: None,
                },
            ));
        }
        Ok(levels)
    }
}

/// Replaces the placeholders of GROUPING in an expression.
pub(super) fn put_levels(expr: &mut Expr, levels: &[Expr]) {
    if let Node::Column(slot) = expr.node {
        if let Some(level) = slot.checked_sub(LEVEL_SLOTS).and_then(|at| levels.get(at)) {
            expr.node = level.node.clone();
        }
        return;
    }
    expr.for_each_part_mut(|part| put_levels(part, levels));
}
