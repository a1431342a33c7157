//! Deparsing of operators, with their operands cast to the types that the chosen operator takes.

use sqlparser::ast;

use super::tree::Tree;
use super::{DeparsedExpr, Deparser, Level};
use crate::bound::Node;
use crate::error::SqlError;
use crate::types::{Type, TypeCategory, TypeKind};

impl Deparser<'_, '_> {
    /// Deparses a binary operator other than AND and OR.
    pub(super) fn binary(
        &mut self,
        left: DeparsedExpr,
        op: &ast::BinaryOperator,
        right: DeparsedExpr,
    ) -> Result<DeparsedExpr, SqlError> {
        let symbol = symbol(op);
        let bound = self
            .binder
            .binary(op, left.placeholder(), right.placeholder())?;
        let (left, right) = match is_comparison(&symbol) {
            true => self.compared(left, right)?,
            false => self.operands(&symbol, left, right, &bound.node)?,
        };
        Ok(DeparsedExpr::new(operation(left, &symbol, right), bound.ty))
    }

    /// Casts the operands to the types that the binder has chosen.
    fn operands(
        &mut self,
        symbol: &str,
        left: DeparsedExpr,
        right: DeparsedExpr,
        chosen: &Node,
    ) -> Result<(DeparsedExpr, DeparsedExpr), SqlError> {
        let (l, r) = (left.ty.kind, right.ty.kind);
        let is_array = |kind: TypeKind| kind.element().is_some();
        if is_array(l) || is_array(r) {
            // An operand of unknown type becomes an array of the same type, or the type that the
            // operator takes.
            let (lt, rt) = (left.ty, right.ty);
            return match symbol {
                "||" | "@>" | "<@" | "&&" => Ok((
                    self.coerced_unknown(left, rt)?,
                    self.coerced_unknown(right, lt)?,
                )),
                _ => Ok((left, right)),
            };
        }
        if symbol == "||"
            && (l.is_string() || r.is_string())
            && l != TypeKind::Jsonb
            && r != TypeKind::Jsonb
        {
            let side = |deparser: &mut Self, deparsed: DeparsedExpr| match deparsed.ty {
                ty if ty == Type::UNKNOWN || ty.kind.is_string() => {
                    deparser.coerced(deparsed, Type::TEXT, false)
                }
                _ => Ok(deparsed),
            };
            return Ok((side(self, left)?, side(self, right)?));
        }
        // citext has case-insensitive operators of its own for these symbols.
        if l.is_citext() && (symbol.starts_with('~') || symbol.starts_with("!~")) {
            let right = self.coerced_unknown(right, left.ty)?;
            return Ok((left, right));
        }
        if matches!(symbol, "~~" | "!~~" | "~~*" | "!~~*") {
            let side = |deparser: &mut Self, deparsed: DeparsedExpr| match deparsed.ty.kind {
                TypeKind::BpChar | TypeKind::Name => Ok(deparsed),
                _ => deparser.coerced(deparsed, Type::TEXT, false),
            };
            return Ok((side(self, left)?, side(self, right)?));
        }
        match chosen {
            Node::Call { function, .. } if function.args.len() >= 2 => {
                let left = self.operand(left, function.args[0], r)?;
                let right = self.operand(right, function.args[1], l)?;
                Ok((left, right))
            }
            _ => {
                let to = arithmetic_type(l, r);
                let left = self.operand(left, to, r)?;
                let right = self.operand(right, to, l)?;
                Ok((left, right))
            }
        }
    }

    /// Casts one operand of an operator that takes `to`; the other operand has the type `other`.
    fn operand(
        &mut self,
        deparsed: DeparsedExpr,
        to: TypeKind,
        other: TypeKind,
    ) -> Result<DeparsedExpr, SqlError> {
        let kind = deparsed.ty.kind;
        if to.is_polymorphic() || to == TypeKind::Any {
            return self.as_known(deparsed);
        }
        let is_time = |kind: TypeKind| {
            matches!(
                kind.category(),
                TypeCategory::DateTime | TypeCategory::Timespan
            )
        };
        let is_span = |kind: TypeKind| kind.category() == TypeCategory::Timespan;
        // PostgreSQL has operators for these pairs of types.
        let stays = kind != TypeKind::Unknown
            && ((kind.is_integer()
                && (other.is_integer() || other == TypeKind::Date)
                && to != TypeKind::Float8)
                || (is_time(kind) && (!is_time(other) || is_span(kind) || is_span(other))));
        match stays {
            true => Ok(deparsed),
            false => self.coerced(deparsed, Type::of(to), false),
        }
    }

    pub(super) fn coerced_unknown(
        &mut self,
        deparsed: DeparsedExpr,
        to: Type,
    ) -> Result<DeparsedExpr, SqlError> {
        match deparsed.ty == Type::UNKNOWN {
            true => self.coerced(deparsed, Type::of(to.kind), false),
            false => Ok(deparsed),
        }
    }

    /// Casts both sides of a comparison.
    pub(super) fn compared(
        &mut self,
        left: DeparsedExpr,
        right: DeparsedExpr,
    ) -> Result<(DeparsedExpr, DeparsedExpr), SqlError> {
        let (l, r) = (left.ty.kind, right.ty.kind);
        let left = match compared_as(l, r) {
            Some(to) => self.coerced(left, Type::of(to), false)?,
            None => left,
        };
        let right = match compared_as(r, l) {
            Some(to) => self.coerced(right, Type::of(to), false)?,
            None => right,
        };
        Ok((left, right))
    }

    /// Returns the comparison `left symbol right`.
    pub(super) fn comparison(
        &mut self,
        left: DeparsedExpr,
        symbol: &str,
        right: DeparsedExpr,
    ) -> Result<DeparsedExpr, SqlError> {
        let (left, right) = self.compared(left, right)?;
        Ok(DeparsedExpr::boolean(operation(left, symbol, right)))
    }

    /// Deparses a prefix operator.
    pub(super) fn prefix(
        &mut self,
        op: &ast::UnaryOperator,
        input: &ast::Expr,
        level: &Level,
    ) -> Result<DeparsedExpr, SqlError> {
        use ast::UnaryOperator as U;
        if let (U::Minus, ast::Expr::Value(value)) = (op, input)
            && let ast::Value::Number(text, _) = &value.value
        {
            let number = super::super::literal::number(&format!("-{text}"))?;
            return self.evaluated(&number);
        }
        let deparsed = self.expr(input, level)?;
        let (symbol, to) = match op {
            U::Not => {
                let input = self.coerced(deparsed, Type::BOOL, false)?;
                return Ok(DeparsedExpr::boolean(Tree::Not(Box::new(input.tree))));
            }
            U::Plus => ("+", None),
            U::Minus => ("-", None),
            U::PGAbs => ("@", None),
            U::PGSquareRoot => ("|/", Some(Type::FLOAT8)),
            U::PGCubeRoot => ("||/", Some(Type::FLOAT8)),
            U::BitwiseNot => ("~", None),
            other => return Err(SqlError::unsupported(format!("operator {other}"))),
        };
        let deparsed = match to {
            Some(to) => self.coerced(deparsed, to, false)?,
            None => deparsed,
        };
        let ty = Type::of(deparsed.ty.kind);
        let tree = Tree::Op {
            symbol: symbol.to_owned(),
            left: None,
            right: Box::new(deparsed.tree),
        };
        Ok(DeparsedExpr::new(tree, ty))
    }
}

pub(super) fn operation(left: DeparsedExpr, symbol: &str, right: DeparsedExpr) -> Tree {
    Tree::Op {
        symbol: symbol.to_owned(),
        left: Some(Box::new(left.tree)),
        right: Box::new(right.tree),
    }
}

/// Returns the symbol of an operator, without a schema.
pub(super) fn symbol(op: &ast::BinaryOperator) -> String {
    match op {
        ast::BinaryOperator::PGCustomBinaryOperator(parts) => {
            parts.last().cloned().unwrap_or_default()
        }
        other => other.to_string(),
    }
}

pub(super) fn is_comparison(symbol: &str) -> bool {
    matches!(symbol, "=" | "<>" | "<" | "<=" | ">" | ">=")
}

/// Returns the type to which a side of a comparison is cast if the other side has the type `other`.
fn compared_as(kind: TypeKind, other: TypeKind) -> Option<TypeKind> {
    use TypeKind as T;
    match (kind, other) {
        (T::VarChar, T::Unknown | T::VarChar | T::Text | T::BpChar) => Some(T::Text),
        (T::BpChar, T::Text | T::VarChar) => Some(T::Text),
        (T::Unknown, T::Unknown | T::VarChar) => Some(T::Text),
        (T::Cidr, T::Unknown | T::Inet | T::Cidr) | (T::Unknown, T::Cidr) => Some(T::Inet),
        (T::Unknown, other) => Some(other),
        (kind, other) if kind.element() == Some(T::VarChar) && other.element().is_some() => {
            Type::TEXT.array().map(|ty| ty.kind)
        }
        (kind, other) if kind.is_integer() && other.is_integer() => None,
        (T::Float4, T::Float8) | (T::Float8, T::Float4) => None,
        (kind, T::Float8 | T::Float4)
            if kind.category() == TypeCategory::Numeric && !kind.is_object() && kind != T::Oid =>
        {
            (!matches!(kind, T::Float4 | T::Float8)).then_some(T::Float8)
        }
        (kind, T::Numeric) if kind.is_integer() => Some(T::Numeric),
        (kind, T::Oid) if kind.is_object() || kind.is_integer() => Some(T::Oid),
        (kind, other) if kind.is_object() && other.is_object() => Some(T::Oid),
        _ => None,
    }
}

/// Returns the type to which both operands of arithmetic are cast.
fn arithmetic_type(left: TypeKind, right: TypeKind) -> TypeKind {
    use TypeKind as T;
    match (left, right) {
        (T::Unknown, known) | (known, T::Unknown) => known,
        (left, right) if left == right => left,
        (T::Float4 | T::Float8, _) | (_, T::Float4 | T::Float8) => T::Float8,
        (T::Numeric, _) | (_, T::Numeric) => T::Numeric,
        (left, _) => left,
    }
}
