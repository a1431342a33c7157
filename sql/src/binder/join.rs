//! Joins: their conditions, the scope of LATERAL, and the merged columns of USING and NATURAL.

use sqlparser::ast;

use super::expr::Clause;
use super::scope::{JoinAlias, MergedColumn, Scope};
use super::{Binder, names};
use crate::bound::{CompareOp, Expr, From, Join, JoinKind, LeafSource, Node};
use crate::error::{SqlError, SqlState};
use crate::parser::using_alias;
use crate::types::Type;

impl Binder<'_> {
    /// Binds one item of a FROM list. Its ON clauses see the relations of the item only.
    pub(super) fn joined(
        &mut self,
        item: &ast::TableWithJoins,
        outer: &mut Scope,
        left: &[&Scope],
    ) -> Result<From, SqlError> {
        let mut scope = Scope {
            width: outer.width,
            ..Scope::default()
        };
        // The join tree grows to the left by one level for each join.
        crate::stack::check(self.depth + item.joins.len())?;
        let mut left = left.to_vec();
        left.push(outer);
        let mut from = self.factor(&item.relation, &mut scope, &left)?;
        for join in &item.joins {
            from = self.join(from, join, &mut scope, &left)?;
        }
        for leaf in scope.leaves {
            outer.push(leaf)?;
        }
        for join in scope.joins {
            outer.check_alias(&join.alias)?;
            outer.joins.push(join);
        }
        outer.merged.extend(scope.merged);
        outer.width = scope.width;
        Ok(from)
    }

    fn join(
        &mut self,
        left: From,
        join: &ast::Join,
        scope: &mut Scope,
        around: &[&Scope],
    ) -> Result<From, SqlError> {
        use ast::JoinOperator as J;
        let (kind, constraint) = match &join.join_operator {
            J::Join(c) | J::Inner(c) | J::CrossJoin(c) => (JoinKind::Inner, c),
            J::Left(c) | J::LeftOuter(c) => (JoinKind::Left, c),
            J::Right(c) | J::RightOuter(c) => (JoinKind::Right, c),
            J::FullOuter(c) => (JoinKind::Full, c),
            _ => return Err(SqlError::unsupported("this kind of join")),
        };
        let crosses = matches!(join.join_operator, J::CrossJoin(_));
        if matches!(constraint, ast::JoinConstraint::None) && !crosses {
            return Err(SqlError::new(
                SqlState::SYNTAX_ERROR,
                "syntax error: a JOIN needs ON or USING",
            ));
        }
        let mut right_scope = Scope {
            width: scope.width,
            ..Scope::default()
        };
        let mut beside = around.to_vec();
        beside.push(scope);
        let right = self.factor(&join.relation, &mut right_scope, &beside)?;
        if matches!(kind, JoinKind::Right | JoinKind::Full)
            && let Some(table) = reads_left(&right, scope)
        {
            return Err(SqlError::new(
                SqlState::INVALID_COLUMN_REFERENCE,
                format!("invalid reference to FROM-clause entry for table \"{table}\""),
            )
            .detail("The combining JOIN type must be INNER or LEFT for a LATERAL reference."));
        }
        let mut alias = None;
        let shared: Vec<String> = match constraint {
            ast::JoinConstraint::Using(columns) => {
                let named = columns.iter().map(using_name);
                let mut named: Vec<String> = named.collect::<Result<_, _>>()?;
                let last = named.last().and_then(|last| using_alias(last));
                alias = last.map(str::to_owned);
                named.truncate(named.len() - usize::from(alias.is_some()));
                named
            }
            ast::JoinConstraint::Natural => {
                let mut names = scope.star_names();
                names.retain(|name| right_scope.star_names().contains(name));
                names
            }
            _ => Vec::new(),
        };
        let using = self.merge(kind, &shared, scope, &mut right_scope)?;
        for leaf in right_scope.leaves {
            scope.push(leaf)?;
        }
        scope.merged.extend(right_scope.merged);
        scope.joins.extend(right_scope.joins);
        if let Some(alias) = alias {
            scope.check_alias(&alias)?;
            // The columns that this join has merged come first.
            let columns = scope.merged[..shared.len()].to_vec();
            scope.joins.push(JoinAlias { alias, columns });
        }
        let on = match constraint {
            ast::JoinConstraint::On(condition) => {
                let bound = self.scalar(condition, scope, Clause::On)?;
                Some(
                    self.condition(bound, "JOIN/ON")
                        .map_err(|e| e.or_at(self.position_near(condition)))?,
                )
            }
            _ => using,
        };
        Ok(From::Join(Box::new(Join {
            kind,
            left,
            right,
            on,
        })))
    }

    /// Merges the common columns of two sides and returns the condition that they are equal.
    fn merge(
        &mut self,
        kind: JoinKind,
        shared: &[String],
        left: &mut Scope,
        right: &mut Scope,
    ) -> Result<Option<Expr>, SqlError> {
        let mut conditions = Vec::new();
        let mut merged = Vec::new();
        let first = left.leaves.first().map_or(left.width, |l| l.first_slot);
        for name in shared {
            let find = |scope: &Scope, side: &str| {
                scope.unqualified(name)?.ok_or_else(|| {
                    SqlError::new(
                        SqlState::UNDEFINED_COLUMN,
                        format!(
                            "column \"{name}\" specified in USING clause does not exist in \
                             {side} table"
                        ),
                    )
                })
            };
            let l = find(left, "left")?.expr;
            let r = find(right, "right")?.expr;
            conditions.push(self.compare(CompareOp::Eq, l.clone(), r.clone())?);
            let expr = match kind {
                JoinKind::Inner | JoinKind::Left => l,
                JoinKind::Right => r,
                JoinKind::Full => {
                    let (ty, args) = self.unify(vec![l, r], "JOIN/USING")?;
                    Expr::new(ty, Node::Coalesce(args))
                }
            };
            merged.push(MergedColumn {
                name: name.clone(),
                first,
                expr,
            });
            hide(left, name);
            hide(right, name);
        }
        // Columns of earlier merges that are not merged again come after the new ones.
        merged.append(&mut left.merged);
        left.merged = merged;
        Ok(match conditions.len() {
            0 => None,
            1 => conditions.pop(),
            _ => Some(Expr::new(Type::BOOL, Node::And(conditions))),
        })
    }
}

/// Returns a column name of USING.
pub(super) fn using_name(name: &ast::ObjectName) -> Result<String, SqlError> {
    match names::parts(name)?.as_slice() {
        [ident] => Ok(names::fold(ident)),
        _ => Err(SqlError::unsupported("a qualified name in USING")),
    }
}

/// Returns the alias of the relation of `scope` that another relation reads laterally.
fn reads_left(from: &From, scope: &Scope) -> Option<String> {
    let mut found = None;
    from.for_each_leaf(&mut |leaf| {
        if let LeafSource::Lateral(lateral) = &leaf.source {
            for (_, arg) in &lateral.args {
                arg.for_each_column(&mut |slot| {
                    found = scope.leaf_of_slot(slot).map(|(leaf, _)| leaf.alias.clone());
                });
            }
        }
    });
    found
}

/// Returns the inner join of two FROM items.
pub(super) fn inner(left: From, right: From, on: Option<Expr>) -> From {
    From::Join(Box::new(Join {
        kind: JoinKind::Inner,
        left,
        right,
        on,
    }))
}

/// Hides the columns of this name, for which the merged column stands.
fn hide(scope: &mut Scope, name: &str) {
    scope.merged.retain(|m| m.name != name);
    for leaf in &mut scope.leaves {
        for column in leaf.columns.iter_mut().filter(|c| c.name == name) {
            column.hidden = true;
        }
    }
}
