//! Expressions with a syntax of their own: BETWEEN, IN, CASE, EXTRACT, TRIM and others.

use sqlparser::ast;

use super::collation::{collatable, collation_of};
use super::expr::ExprContext;
use super::subquery::query_of;
use super::{Binder, ROW_LEVELS};
use crate::bound::{CompareOp, Expr, LikeKind, Node};
use crate::error::SqlError;
use crate::parser::SYMMETRIC;
use crate::types::Type;
use crate::value::Value;

impl Binder<'_> {
    pub(super) fn special(
        &mut self,
        expr: &ast::Expr,
        around: &mut ExprContext<'_>,
    ) -> Result<Expr, SqlError> {
        use ast::Expr as E;
        match expr {
            E::Between {
                expr,
                negated,
                low,
                high,
            } => self.between(expr, *negated, low, high, around),
            E::InList {
                expr,
                list,
                negated,
            } => self.in_list(expr, list, *negated, around),
            E::Like {
                negated,
                any: false,
                expr,
                pattern,
                escape_char,
            } => self.like_here(
                LikeKind::Like,
                *negated,
                (expr, pattern),
                escape_char,
                around,
            ),
            E::Like {
                negated,
                any: true,
                expr,
                pattern,
                escape_char: None,
            } => self.like_any(["~~ ANY", "!~~ ANY"], *negated, (expr, pattern), around),
            E::ILike {
                negated,
                any: true,
                expr,
                pattern,
                escape_char: None,
            } => self.like_any(["~~* ANY", "!~~* ANY"], *negated, (expr, pattern), around),
            E::ILike {
                negated,
                any: false,
                expr,
                pattern,
                escape_char,
            } => self.like_here(
                LikeKind::ILike,
                *negated,
                (expr, pattern),
                escape_char,
                around,
            ),
            E::SimilarTo {
                negated,
                expr,
                pattern,
                escape_char,
            } => {
                let mut args = self.exprs(&[expr, pattern], around)?;
                args.push(match escape_char {
                    Some(escape) => self.literal(escape)?,
                    None => Expr::constant(Type::TEXT, Value::text("\\")),
                });
                let found = self.call("similar to", args)?;
                Ok(match negated {
                    true => self.fold(Expr::new(Type::BOOL, Node::Not(Box::new(found)))),
                    false => found,
                })
            }
            E::Overlay {
                expr,
                overlay_what,
                overlay_from,
                overlay_for,
            } => {
                let mut parts: Vec<&ast::Expr> = vec![expr, overlay_what, overlay_from];
                parts.extend(overlay_for.as_deref());
                let args = self.exprs(&parts, around)?;
                self.call("overlay", args)
            }
            E::Case {
                operand,
                conditions,
                else_result,
                ..
            } => self.case(
                operand.as_deref(),
                conditions,
                else_result.as_deref(),
                around,
            ),
            E::Extract { field, expr, .. } => {
                let field = Expr::constant(
                    Type::TEXT,
                    Value::text(field.to_string().to_ascii_lowercase().trim_matches('\'')),
                );
                let input = self.expr(expr, around)?;
                self.call("extract", vec![field, input])
            }
            E::Ceil { expr, field } => self.ceil_floor("ceil", expr, field, around),
            E::Floor { expr, field } => self.ceil_floor("floor", expr, field, around),
            E::Position { expr, r#in } => {
                let args = self.exprs(&[r#in, expr], around)?;
                self.call("position", args)
            }
            E::Substring {
                expr,
                substring_from,
                substring_for,
                ..
            } => self.substring(
                expr,
                substring_from.as_deref(),
                substring_for.as_deref(),
                around,
            ),
            E::Trim {
                trim_where,
                trim_what,
                expr,
                trim_characters,
            } => self.trim(
                *trim_where,
                trim_what.as_deref(),
                expr,
                trim_characters,
                around,
            ),
            E::AtTimeZone {
                timestamp,
                time_zone,
            } => {
                let args = self.exprs(&[time_zone, timestamp], around)?;
                self.call("timezone", args)
            }
            E::IsNormalized {
                expr,
                form,
                negated,
            } => {
                let mut args = self.exprs(&[expr], around)?;
                if let Some(form) = form {
                    let form = Value::text(form.to_string());
                    args.push(Expr::constant(Type::TEXT, form));
                }
                let call = self.call("is_normalized", args)?;
                Ok(match negated {
                    true => Expr::new(Type::BOOL, Node::Not(Box::new(call))),
                    false => call,
                })
            }
            E::Collate { expr, collation } => {
                collation_of(collation)?;
                let value = self.expr(expr, around)?;
                collatable(value.ty)?;
                Ok(value)
            }
            E::Subquery(query) => self.scalar_subquery(query, around),
            E::Exists { subquery, negated } => self.exists(subquery, *negated, around),
            E::InSubquery {
                expr,
                subquery,
                negated,
            } => self.in_subquery(expr, subquery, *negated, around),
            E::AnyOp {
                left,
                compare_op,
                right,
                ..
            } if let Some(query) = query_of(right) => {
                self.quantified(left, compare_op, query, false, around)
            }
            E::AllOp {
                left,
                compare_op,
                right,
            } if let Some(query) = query_of(right) => {
                self.quantified(left, compare_op, query, true, around)
            }
            E::Array(array) => self.array_literal(&array.elem, None, around),
            E::AnyOp {
                left,
                compare_op,
                right,
                ..
            } => self.array_quantified(left, compare_op, false, right, around),
            E::AllOp {
                left,
                compare_op,
                right,
            } => self.array_quantified(left, compare_op, true, right, around),
            E::CompoundFieldAccess { root, access_chain } => {
                self.subscripted(root, access_chain, around)
            }
            E::Interval(interval) => self.interval_literal(interval, around),
            E::Tuple(parts) => self.deeper_by(ROW_LEVELS, |binder| binder.tuple(parts, around)),
            _ => Err(SqlError::unsupported("this kind of expression")),
        }
    }

    fn exprs(
        &mut self,
        exprs: &[&ast::Expr],
        around: &mut ExprContext<'_>,
    ) -> Result<Vec<Expr>, SqlError> {
        let mut bound = Vec::with_capacity(exprs.len());
        for expr in exprs {
            bound.push(self.expr(expr, around)?);
        }
        Ok(bound)
    }

    /// Binds BETWEEN. If the input is cheap it becomes two comparisons, which an index can serve.
    fn between(
        &mut self,
        input: &ast::Expr,
        negated: bool,
        low: &ast::Expr,
        high: &ast::Expr,
        around: &mut ExprContext<'_>,
    ) -> Result<Expr, SqlError> {
        let (symmetric, low) = match low {
            ast::Expr::Prefixed { prefix, value } if prefix.value == SYMMETRIC => (true, &**value),
            low => (false, low),
        };
        let bound = self.exprs(&[input, low, high], around)?;
        let [input, low, high] = <[Expr; 3]>::try_from(bound)
            .map_err(|_| SqlError::internal("BETWEEN without its three parts"))?;
        let cheap = matches!(
            input.node,
            Node::Column(_) | Node::Const(_) | Node::Param(_)
        );
        if cheap && !symmetric {
            let (first, second) = match negated {
                false => (CompareOp::Ge, CompareOp::Le),
                true => (CompareOp::Lt, CompareOp::Gt),
            };
            let low = self.compare(first, input.clone(), low)?;
            let high = self.compare(second, input, high)?;
            let parts = vec![low, high];
            return Ok(Expr::new(
                Type::BOOL,
                match negated {
                    false => Node::And(parts),
                    true => Node::Or(parts),
                },
            ));
        }
        // Each bound must be comparable with the input; all three get one type.
        let (class, _, parts) = self.comparable_all(vec![input, low, high], "BETWEEN")?;
        let [input, low, high] = <[Expr; 3]>::try_from(parts)
            .map_err(|_| SqlError::internal("BETWEEN without its three parts"))?;
        Ok(self.fold(Expr::new(
            Type::BOOL,
            Node::Between {
                negated,
                symmetric,
                class,
                input: Box::new(input),
                low: Box::new(low),
                high: Box::new(high),
            },
        )))
    }

    fn in_list(
        &mut self,
        input: &ast::Expr,
        list: &[ast::Expr],
        negated: bool,
        around: &mut ExprContext<'_>,
    ) -> Result<Expr, SqlError> {
        if let Some(test) = self.row_in_list(input, list, negated, around)? {
            return Ok(test);
        }
        let mut all = Vec::with_capacity(list.len() + 1);
        all.push(self.expr(input, around)?);
        for candidate in list {
            all.push(self.expr(candidate, around)?);
        }
        if all[0].ty.kind.is_row() {
            let input = all.remove(0);
            let mut choices = Vec::with_capacity(all.len());
            for candidate in all {
                choices.push(self.compare(CompareOp::Eq, input.clone(), candidate)?);
            }
            let any = Expr::new(Type::BOOL, Node::Or(choices));
            return Ok(match negated {
                true => Expr::new(Type::BOOL, Node::Not(Box::new(any))),
                false => any,
            });
        }
        let position = list.first().map_or(0, |e| self.position_near(e));
        let input_type = all[0].ty;
        if let Some(other) = all[1..].iter().map(|e| e.ty).find(|t| {
            *t != Type::UNKNOWN
                && input_type != Type::UNKNOWN
                && t.kind.category() != input_type.kind.category()
        }) {
            return Err(super::operator::no_operator("=", &input_type, &other).or_at(position));
        }
        let (class, _, mut all) = self
            .comparable_all(all, "IN")
            .map_err(|e| e.or_at(position))?;
        let input = Box::new(all.remove(0));
        Ok(self.fold(Expr::new(
            Type::BOOL,
            Node::InList {
                negated,
                class,
                input,
                list: all,
            },
        )))
    }

    /// Binds `expr LIKE ANY (array)`, which has an operator of its own; `symbols` are the operators
    /// without and with NOT.
    fn like_any(
        &mut self,
        symbols: [&str; 2],
        negated: bool,
        (expr, patterns): (&ast::Expr, &ast::Expr),
        around: &mut ExprContext<'_>,
    ) -> Result<Expr, SqlError> {
        let args = self.exprs(&[expr, patterns], around)?;
        self.call(symbols[usize::from(negated)], args)
    }

    fn like_here(
        &mut self,
        kind: LikeKind,
        negated: bool,
        (input, pattern): (&ast::Expr, &ast::Expr),
        escape: &Option<ast::ValueWithSpan>,
        around: &mut ExprContext<'_>,
    ) -> Result<Expr, SqlError> {
        let input = self.expr(input, around)?;
        let pattern = self.expr(pattern, around)?;
        let escape = match escape {
            None => None,
            Some(value) => {
                let literal = self.literal(value)?;
                Some(self.unknown_to_text(literal)?)
            }
        };
        self.like(kind, negated, (input, pattern), escape)
    }

    fn case(
        &mut self,
        operand: Option<&ast::Expr>,
        conditions: &[ast::CaseWhen],
        otherwise: Option<&ast::Expr>,
        around: &mut ExprContext<'_>,
    ) -> Result<Expr, SqlError> {
        let mut whens = Vec::with_capacity(conditions.len() + 1);
        if let Some(operand) = operand {
            whens.push(self.expr(operand, around)?);
        }
        // As in PostgreSQL, the ELSE comes first in the choice of the result type.
        let mut results = vec![match otherwise {
            Some(otherwise) => self.expr(otherwise, around)?,
            None => Expr::constant(Type::UNKNOWN, Value::Null),
        }];
        for condition in conditions {
            let when = self.expr(&condition.condition, around)?;
            whens.push(match operand {
                Some(_) => when,
                None => self.condition(when, "CASE/WHEN")?,
            });
            results.push(self.expr(&condition.result, around)?);
        }
        let operand = match operand {
            None => None,
            Some(_) => {
                let (class, _, mut unified) = self.comparable_all(whens, "CASE/WHEN")?;
                let first = unified.remove(0);
                whens = unified;
                Some((Box::new(first), class))
            }
        };
        let (ty, mut results) = self.unify(results, "CASE")?;
        let last = results.remove(0);
        let otherwise = otherwise.map(|_| Box::new(last));
        Ok(Expr::new(
            ty,
            Node::Case {
                operand,
                branches: whens.into_iter().zip(results).collect(),
                otherwise,
            },
        ))
    }

    fn ceil_floor(
        &mut self,
        name: &str,
        input: &ast::Expr,
        field: &ast::CeilFloorKind,
        around: &mut ExprContext<'_>,
    ) -> Result<Expr, SqlError> {
        if !matches!(
            field,
            ast::CeilFloorKind::DateTimeField(ast::DateTimeField::NoDateTime)
        ) {
            return Err(SqlError::unsupported(format!(
                "{name} with a scale or field"
            )));
        }
        let input = self.expr(input, around)?;
        self.call(name, vec![input])
    }

    fn substring(
        &mut self,
        input: &ast::Expr,
        from: Option<&ast::Expr>,
        length: Option<&ast::Expr>,
        around: &mut ExprContext<'_>,
    ) -> Result<Expr, SqlError> {
        let mut args = vec![self.expr(input, around)?];
        args.push(match from {
            Some(from) => self.expr(from, around)?,
            None => Expr::constant(Type::INT4, Value::Int4(1)),
        });
        if let Some(length) = length {
            args.push(self.expr(length, around)?);
        }
        let patterns = |e: &Expr| {
            (e.ty.kind.is_string() || e.ty.kind.is_citext()) && !matches!(e.node, Node::Param(_))
        };
        if from.is_some() && args[1..].iter().all(patterns) {
            return match args.len() {
                2 => self.call("substring", args),
                _ => self.call("substring similar", args),
            };
        }
        self.call("substring", args)
    }

    fn trim(
        &mut self,
        side: Option<ast::TrimWhereField>,
        what: Option<&ast::Expr>,
        input: &ast::Expr,
        characters: &Option<Vec<ast::Expr>>,
        around: &mut ExprContext<'_>,
    ) -> Result<Expr, SqlError> {
        let name = match side {
            Some(ast::TrimWhereField::Leading) => "ltrim",
            Some(ast::TrimWhereField::Trailing) => "rtrim",
            _ => "btrim",
        };
        let mut args = vec![self.expr(input, around)?];
        if let Some(what) = what {
            args.push(self.expr(what, around)?);
        }
        for extra in characters.iter().flatten() {
            args.push(self.expr(extra, around)?);
        }
        self.call(name, args)
    }
}
