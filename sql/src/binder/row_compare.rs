//! Comparisons of rows: `(a, b) < (1, 2)`, `(a, b) IN ((1, 2), (3, 4))`, `(a, b) = (SELECT …)`.
//!
//! A row comparison becomes comparisons of the fields, which give the same result in three-valued
//! logic. An ordering comparison also implies a condition on the first column alone, which an index
//! can serve. Other rows are compared as values, in which NULL counts as a value too.

use sqlparser::ast;

use super::Binder;
use super::expr::ExprContext;
use super::subquery::query_of;
use crate::bound::{CompareOp, Expr, Node};
use crate::error::{SqlError, SqlState};
use crate::types::Type;

/// Returns the fields of a row expression; `None` for other expressions.
pub(super) fn row_of(expr: &ast::Expr) -> Option<Vec<&ast::Expr>> {
    match expr {
        ast::Expr::Nested(inner) => row_of(inner),
        ast::Expr::Tuple(parts) if !parts.is_empty() => Some(parts.iter().collect()),
        ast::Expr::Function(function) if function.over.is_none() => {
            let [ast::ObjectNamePart::Identifier(name)] = function.name.0.as_slice() else {
                return None;
            };
            let ast::FunctionArguments::List(list) = &function.args else {
                return None;
            };
            if name.quote_style.is_some() || !name.value.eq_ignore_ascii_case("row") {
                return None;
            }
            let args = list
                .args
                .iter()
                .map(|arg| super::call::plain_argument(arg).ok());
            args.collect::<Option<Vec<_>>>()
                .filter(|args| !args.is_empty())
        }
        _ => None,
    }
}

fn check_same_width(left: &[Expr], right: &[Expr]) -> Result<(), SqlError> {
    match left.len() == right.len() {
        true => Ok(()),
        false => Err(SqlError::new(
            SqlState::SYNTAX_ERROR,
            "unequal number of entries in row expressions",
        )),
    }
}

impl Binder<'_> {
    /// Binds a comparison whose left side is a row; `None` if it is not a row.
    pub(super) fn row_comparison(
        &mut self,
        left: &ast::Expr,
        op: &ast::BinaryOperator,
        right: &ast::Expr,
        around: &mut ExprContext<'_>,
    ) -> Result<Option<Expr>, SqlError> {
        let op = match op {
            ast::BinaryOperator::Eq => CompareOp::Eq,
            ast::BinaryOperator::NotEq => CompareOp::Ne,
            ast::BinaryOperator::Lt => CompareOp::Lt,
            ast::BinaryOperator::LtEq => CompareOp::Le,
            ast::BinaryOperator::Gt => CompareOp::Gt,
            ast::BinaryOperator::GtEq => CompareOp::Ge,
            _ => return Ok(None),
        };
        let (Some(left), right) = (row_of(left), (row_of(right), query_of(right))) else {
            return Ok(None);
        };
        if matches!(right, (None, None)) {
            return Ok(None);
        }
        let left = self.all(&left, around)?;
        let right = match right {
            (Some(parts), _) => self.all(&parts, around)?,
            (None, Some(query)) => {
                let columns = self.row_subquery(query, around)?;
                let wrong = match columns.len().cmp(&left.len()) {
                    std::cmp::Ordering::Less => Some("subquery has too few columns"),
                    std::cmp::Ordering::Greater => Some("subquery has too many columns"),
                    std::cmp::Ordering::Equal => None,
                };
                if let Some(wrong) = wrong {
                    return Err(SqlError::new(SqlState::SYNTAX_ERROR, wrong));
                }
                columns
            }
            (None, None) => return Ok(None),
        };
        self.rows_compared(op, left, right).map(Some)
    }

    /// Binds `row [NOT] IN (rows)`; `None` if the input is not a row.
    pub(super) fn row_in_list(
        &mut self,
        input: &ast::Expr,
        list: &[ast::Expr],
        negated: bool,
        around: &mut ExprContext<'_>,
    ) -> Result<Option<Expr>, SqlError> {
        let Some(parts) = row_of(input) else {
            return Ok(None);
        };
        let input = self.all(&parts, around)?;
        let mut choices = Vec::with_capacity(list.len());
        for candidate in list {
            let Some(parts) = row_of(candidate) else {
                return Ok(None);
            };
            let candidate = self.all(&parts, around)?;
            choices.push(self.rows_compared(CompareOp::Eq, input.clone(), candidate)?);
        }
        let any = match choices.len() {
            1 => choices.remove(0),
            _ => Expr::new(Type::BOOL, Node::Or(choices)),
        };
        Ok(Some(match negated {
            true => Expr::new(Type::BOOL, Node::Not(Box::new(any))),
            false => any,
        }))
    }

    /// Binds `row IS [NOT] DISTINCT FROM row`: true if some field is distinct (with NOT, if no
    /// field is). `None` if the sides are not rows.
    pub(super) fn row_distinct(
        &mut self,
        left: &ast::Expr,
        right: &ast::Expr,
        negated: bool,
        around: &mut ExprContext<'_>,
    ) -> Result<Option<Expr>, SqlError> {
        let (Some(left), Some(right)) = (row_of(left), row_of(right)) else {
            return Ok(None);
        };
        let left = self.all(&left, around)?;
        let right = self.all(&right, around)?;
        check_same_width(&left, &right)?;
        let mut tests = Vec::with_capacity(left.len());
        for (left, right) in left.into_iter().zip(right) {
            let (_, left, right) = self.comparable("=", left, right)?;
            let node = Node::Distinct {
                negated,
                left: Box::new(left),
                right: Box::new(right),
            };
            tests.push(Expr::new(Type::BOOL, node));
        }
        let node = match negated {
            true => Node::And(tests),
            false => Node::Or(tests),
        };
        Ok(Some(Expr::new(Type::BOOL, node)))
    }

    fn all(
        &mut self,
        parts: &[&ast::Expr],
        around: &mut ExprContext<'_>,
    ) -> Result<Vec<Expr>, SqlError> {
        let mut bound = Vec::with_capacity(parts.len());
        for part in parts {
            bound.push(self.expr(part, around)?);
        }
        Ok(bound)
    }

    fn rows_compared(
        &mut self,
        op: CompareOp,
        left: Vec<Expr>,
        right: Vec<Expr>,
    ) -> Result<Expr, SqlError> {
        check_same_width(&left, &right)?;
        let pairs: Vec<(Expr, Expr)> = left.into_iter().zip(right).collect();
        let strict = match op {
            CompareOp::Eq | CompareOp::Ne => {
                let mut parts = Vec::with_capacity(pairs.len());
                for (left, right) in pairs {
                    parts.push(self.compare(op, left, right)?);
                }
                let node = match op {
                    CompareOp::Eq => Node::And(parts),
                    _ => Node::Or(parts),
                };
                return Ok(Expr::new(Type::BOOL, node));
            }
            CompareOp::Lt | CompareOp::Le => CompareOp::Lt,
            CompareOp::Gt | CompareOp::Ge => CompareOp::Gt,
        };
        let loose = match strict {
            CompareOp::Lt => CompareOp::Le,
            _ => CompareOp::Ge,
        };
        let first = pairs[0].clone();
        let mut compared: Option<Expr> = None;
        for (left, right) in pairs.into_iter().rev() {
            compared = Some(match compared {
                None => self.compare(op, left, right)?,
                Some(rest) => {
                    let before = self.compare(strict, left.clone(), right.clone())?;
                    let equal = self.compare(CompareOp::Eq, left, right)?;
                    let rest = Expr::new(Type::BOOL, Node::And(vec![equal, rest]));
                    Expr::new(Type::BOOL, Node::Or(vec![before, rest]))
                }
            });
        }
        let bound = self.compare(loose, first.0, first.1)?;
        let parts = compared.into_iter().fold(vec![bound], |mut parts, rest| {
            parts.push(rest);
            parts
        });
        Ok(Expr::new(Type::BOOL, Node::And(parts)))
    }
}
