//! Deparsing of tests and comparisons: IS, BETWEEN, IN, ANY, ALL and LIKE.

use sqlparser::ast;

use super::super::row_compare::row_of;
use super::super::subquery::query_of;
use super::operator::{is_comparison, operation};
use super::tree::{QueryKind, Tree};
use super::{DeparsedExpr, Deparser, Level};
use crate::error::SqlError;
use crate::parser::SYMMETRIC;
use crate::types::Type;

/// The presence of NOT in a predicate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sense {
    Plain,
    Negated,
}

impl From<bool> for Sense {
    /// Converts the syntax tree's `negated`.
    fn from(negated: bool) -> Sense {
        if negated {
            Sense::Negated
        } else {
            Sense::Plain
        }
    }
}

/// The operand of a test with IS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operand {
    /// A value of any type.
    Any,
    /// A condition.
    Boolean,
}

fn tested(input: Tree, suffix: &str, operand: Operand) -> DeparsedExpr {
    DeparsedExpr::boolean(Tree::Test {
        input: Box::new(input),
        suffix: suffix.to_owned(),
        casts: operand == Operand::Any,
    })
}

impl Deparser<'_, '_> {
    pub(super) fn test(
        &mut self,
        input: &ast::Expr,
        suffix: &str,
        level: &Level,
    ) -> Result<DeparsedExpr, SqlError> {
        let input = self.settled(input, level)?.tree;
        Ok(tested(input, suffix, Operand::Any))
    }

    pub(super) fn bool_test(
        &mut self,
        input: &ast::Expr,
        suffix: &str,
        level: &Level,
    ) -> Result<DeparsedExpr, SqlError> {
        let input = self.condition(input, level)?;
        Ok(tested(input, suffix, Operand::Boolean))
    }

    pub(super) fn distinct(
        &mut self,
        left: &ast::Expr,
        right: &ast::Expr,
        level: &Level,
    ) -> Result<DeparsedExpr, SqlError> {
        let left = self.expr(left, level)?;
        let right = self.expr(right, level)?;
        let (left, right) = self.compared(left, right)?;
        let tree = Tree::Distinct(Box::new(left.tree), Box::new(right.tree));
        Ok(DeparsedExpr::boolean(tree))
    }

    pub(super) fn between(
        &mut self,
        input: &ast::Expr,
        sense: Sense,
        (low, high): (&ast::Expr, &ast::Expr),
        level: &Level,
    ) -> Result<DeparsedExpr, SqlError> {
        let (symmetric, low) = match low {
            ast::Expr::Prefixed { prefix, value } if prefix.value == SYMMETRIC => (true, &**value),
            low => (false, low),
        };
        let input = self.expr(input, level)?;
        let low = self.expr(low, level)?;
        let high = self.expr(high, level)?;
        let negated = sense == Sense::Negated;
        let (first, second) = if negated { ("<", ">") } else { (">=", "<=") };
        let mut pairs = vec![(low.clone(), high.clone())];
        if symmetric {
            pairs.push((high, low));
        }
        let mut ranges = Vec::new();
        for (low, high) in pairs {
            let low = self.comparison(input.clone(), first, low)?.tree;
            let high = self.comparison(input.clone(), second, high)?.tree;
            ranges.push(Tree::Bool {
                and: !negated,
                parts: vec![low, high],
            });
        }
        Ok(DeparsedExpr::boolean(match (ranges.pop(), ranges.pop()) {
            (Some(second), Some(first)) => Tree::Bool {
                and: negated,
                parts: vec![first, second],
            },
            (Some(one), None) => one,
            _ => return Err(SqlError::internal("BETWEEN without a range")),
        }))
    }

    /// Deparses IN with a list. Items without columns form one array; the others are compared one
    /// by one.
    pub(super) fn in_list(
        &mut self,
        input: &ast::Expr,
        list: &[ast::Expr],
        sense: Sense,
        level: &Level,
    ) -> Result<DeparsedExpr, SqlError> {
        let not = sense == Sense::Negated;
        let (equal, word) = if not { ("<>", "ALL") } else { ("=", "ANY") };
        let mut parts = Vec::new();
        if let Some(row) = row_of(input) {
            for item in list {
                let other = row_of(item).ok_or_else(|| SqlError::unsupported("this row"))?;
                let left = self.exprs(row.iter().copied(), level)?;
                let right = self.exprs(other, level)?;
                parts.push(self.rows(left, equal, right)?.tree);
            }
        } else {
            let left = self.expr(input, level)?;
            let mut single = Vec::new();
            let mut constants = Vec::new();
            for item in list {
                let reads = self.bound(item, level)?.has_columns();
                let deparsed = self.expr(item, level)?;
                if reads {
                    single.push(deparsed);
                } else {
                    constants.push(deparsed);
                }
            }
            if constants.len() > 1 {
                let mut types = vec![left.ty];
                types.extend(constants.iter().map(|deparsed| deparsed.ty));
                let element = Type::of(self.common(&types)?.kind);
                let ty = element.array();
                let ty = ty.ok_or_else(|| SqlError::unsupported("an array of these"))?;
                let array = self.array_of(constants, element, ty)?;
                parts.push(self.any(left.clone(), equal, word, array)?.tree);
            } else {
                single = constants.into_iter().chain(single).collect();
            }
            for item in single {
                parts.push(self.comparison(left.clone(), equal, item)?.tree);
            }
        }
        Ok(DeparsedExpr::boolean(match parts.len() {
            1 => parts.remove(0),
            _ => Tree::Bool { and: not, parts },
        }))
    }

    /// Deparses `left symbol ANY (array)`.
    pub(super) fn any(
        &mut self,
        left: DeparsedExpr,
        symbol: &str,
        word: &'static str,
        array: DeparsedExpr,
    ) -> Result<DeparsedExpr, SqlError> {
        let array = if array.ty == Type::UNKNOWN {
            let ty = left.ty.array().unwrap_or(Type::UNKNOWN);
            self.coerced(array, Type::of(ty.kind), false)?
        } else {
            array
        };
        let element = array.ty.element().unwrap_or(Type::TEXT);
        let sample = DeparsedExpr::new(Tree::Var(String::new()), Type::of(element.kind));
        let (left, sample) = if is_comparison(symbol) {
            self.compared(left, sample)?
        } else {
            let left = self.coerced(left, Type::TEXT, false)?;
            (left, self.coerced(sample, Type::TEXT, false)?)
        };
        // If the operator takes elements of another type, the whole array is cast.
        let array = match sample.ty.array() {
            Some(ty) => self.coerced(array, Type::of(ty.kind), false)?,
            None => array,
        };
        Ok(DeparsedExpr::boolean(Tree::Quantified {
            left: Box::new(left.tree),
            symbol: symbol.to_owned(),
            word,
            right: Box::new(array.tree),
        }))
    }

    pub(super) fn quantified(
        &mut self,
        left: &ast::Expr,
        symbol: &str,
        word: &'static str,
        right: &ast::Expr,
        level: &Level,
    ) -> Result<DeparsedExpr, SqlError> {
        if let Some(query) = query_of(right) {
            let words = match (symbol, word) {
                ("=", "ANY") => "IN".to_owned(),
                _ => format!("{symbol} {word}"),
            };
            return self.compared_query(left, &words, query, level);
        }
        let left = self.expr(left, level)?;
        let right = self.expr(right, level)?;
        self.any(left, symbol, word, right)
    }

    /// Deparses `left words (query)`.
    pub(super) fn compared_query(
        &mut self,
        left: &ast::Expr,
        words: &str,
        query: &ast::Query,
        level: &Level,
    ) -> Result<DeparsedExpr, SqlError> {
        let parts = match row_of(left) {
            Some(row) => self.exprs(row, level)?,
            None => vec![self.expr(left, level)?],
        };
        let types = self.inside(level, |deparser| {
            let select = deparser.binder.query(query)?;
            let columns = select.columns().iter();
            Ok(columns.map(|target| target.expr.ty).collect::<Vec<_>>())
        })?;
        let mut trees = Vec::new();
        for (part, ty) in parts.into_iter().zip(types) {
            let other = DeparsedExpr::new(Tree::Var(String::new()), ty);
            trees.push(self.compared(part, other)?.0.tree);
        }
        let kind = QueryKind::Compared(words.to_owned());
        self.subquery(kind, trees, query, (Type::BOOL, level))
    }

    pub(super) fn like(
        &mut self,
        symbol: &str,
        sides: (&ast::Expr, &ast::Expr),
        escape: &Option<ast::ValueWithSpan>,
        level: &Level,
    ) -> Result<DeparsedExpr, SqlError> {
        match escape {
            None => {
                let left = self.string(sides.0, level)?;
                let right = if left.ty.kind.is_citext() {
                    let right = self.expr(sides.1, level)?;
                    self.coerced_unknown(right, left.ty)?
                } else {
                    self.string(sides.1, level)?
                };
                Ok(DeparsedExpr::boolean(operation(left, symbol, right)))
            }
            Some(_) => self.pattern(symbol, "like_escape", sides, escape, level),
        }
    }

    /// Converts a string to the type that pattern operators take.
    pub(super) fn string(
        &mut self,
        expr: &ast::Expr,
        level: &Level,
    ) -> Result<DeparsedExpr, SqlError> {
        use crate::types::TypeKind as T;
        let deparsed = self.expr(expr, level)?;
        match deparsed.ty.kind {
            T::BpChar | T::Name | T::Citext(_) => Ok(deparsed),
            _ => self.coerced(deparsed, Type::TEXT, false),
        }
    }

    /// Deparses a match with a pattern that a function converts.
    pub(super) fn pattern(
        &mut self,
        symbol: &str,
        function: &str,
        (input, pattern): (&ast::Expr, &ast::Expr),
        escape: &Option<ast::ValueWithSpan>,
        level: &Level,
    ) -> Result<DeparsedExpr, SqlError> {
        let left = self.string(input, level)?;
        let mut args = vec![self.string(pattern, level)?];
        if let Some(escape) = escape {
            args.push(self.string(&ast::Expr::Value(escape.clone()), level)?);
        }
        let right = DeparsedExpr::new(super::call_pieces::call(function, args), Type::TEXT);
        Ok(DeparsedExpr::boolean(operation(left, symbol, right)))
    }
}
