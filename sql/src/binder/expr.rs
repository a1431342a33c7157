//! Binding expressions.

use sqlparser::ast;

use super::aggregate::Aggregates;
use super::scope::Scope;
use super::{Binder, did_you_mean, names};
use crate::bound::{BoolTest, Expr, LikeKind, Node};
use crate::error::{SqlError, SqlState};
use crate::functions::{CastContext, PADDED_ELEMENTS};
use crate::types::{Type, TypeKind};
use crate::value::Value;

/// The clause that contains an expression: it determines the allowed constructs and the text of
/// errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Clause {
    Where,
    On,
    GroupBy,
    Having,
    Select,
    OrderBy,
    Limit,
    Values,
    Set,
    Returning,
    Default,
    Execute,
    FromFunction,
    /// A relation of FROM that can read the relations to its left.
    FromRelation,
    Argument,
    Filter,
    Check,
    Generated,
    Transform,
    /// A call with OVER.
    Window,
    IndexPredicate,
    IndexExpression,
    TriggerWhen,
    CopyWhere,
    Call,
}

impl Clause {
    /// Returns PostgreSQL's name for the clause in "aggregate functions are not allowed in …".
    pub(super) fn name(self) -> &'static str {
        match self {
            Clause::Where => "WHERE",
            Clause::On => "JOIN conditions",
            Clause::GroupBy => "GROUP BY",
            Clause::Having => "HAVING",
            Clause::Select => "SELECT",
            Clause::OrderBy => "ORDER BY",
            Clause::Limit => "LIMIT",
            Clause::Values => "VALUES",
            Clause::Set => "UPDATE",
            Clause::Returning => "RETURNING",
            Clause::Default => "DEFAULT expressions",
            Clause::Execute => "EXECUTE parameters",
            Clause::FromFunction => "functions in FROM",
            Clause::FromRelation => "FROM clause of their own query level",
            Clause::Argument => "aggregate arguments",
            Clause::Filter => "FILTER",
            Clause::Check => "check constraints",
            Clause::Generated => "column generation expressions",
            Clause::IndexPredicate => "index predicates",
            Clause::IndexExpression => "index expressions",
            Clause::TriggerWhen => "trigger WHEN conditions",
            Clause::CopyWhere => "COPY FROM WHERE conditions",
            Clause::Call => "CALL arguments",
            Clause::Transform => "transform expressions",
            Clause::Window => "window definitions",
        }
    }
}

/// The context in which an expression is bound.
pub(super) struct ExprContext<'s> {
    pub(super) scope: &'s Scope,
    pub(super) clause: Clause,
    /// The list that collects aggregate calls; `None` where aggregates are not allowed.
    pub(super) aggregates: Option<&'s mut Aggregates>,
}

impl Binder<'_> {
    /// Binds an expression that may not contain aggregates.
    pub(super) fn scalar(
        &mut self,
        expr: &ast::Expr,
        scope: &Scope,
        clause: Clause,
    ) -> Result<Expr, SqlError> {
        self.expr(
            expr,
            &mut ExprContext {
                scope,
                clause,
                aggregates: None,
            },
        )
    }

    /// Binds an expression.
    pub(super) fn expr(
        &mut self,
        expr: &ast::Expr,
        around: &mut ExprContext<'_>,
    ) -> Result<Expr, SqlError> {
        self.deeper(|binder| binder.expr_here(expr, around))
    }

    fn expr_here(
        &mut self,
        expr: &ast::Expr,
        around: &mut ExprContext<'_>,
    ) -> Result<Expr, SqlError> {
        use ast::Expr as E;
        match expr {
            E::Value(value) => self.literal(value),
            E::Identifier(ident) => self.column(ident, around),
            E::CompoundIdentifier(idents) => self.qualified_column(idents, around),
            E::Nested(inner) => self.expr(inner, around),
            E::BinaryOp { left, op, right } => self.binary_here(left, op, right, around),
            E::UnaryOp { op, expr } => self.unary_here(op, expr, around),
            E::IsNull(input) => self.is_null(input, false, around),
            E::IsNotNull(input) => self.is_null(input, true, around),
            E::IsTrue(input) => self.bool_test(input, BoolTest::True, false, around),
            E::IsNotTrue(input) => self.bool_test(input, BoolTest::True, true, around),
            E::IsFalse(input) => self.bool_test(input, BoolTest::False, false, around),
            E::IsNotFalse(input) => self.bool_test(input, BoolTest::False, true, around),
            E::IsUnknown(input) => self.bool_test(input, BoolTest::Unknown, false, around),
            E::IsNotUnknown(input) => self.bool_test(input, BoolTest::Unknown, true, around),
            E::IsDistinctFrom(left, right) => self.distinct(left, right, false, around),
            E::IsNotDistinctFrom(left, right) => self.distinct(left, right, true, around),
            E::Cast {
                expr,
                data_type,
                kind: ast::CastKind::Cast | ast::CastKind::DoubleColon,
                array: false,
                format: None,
            } => self.cast_here(expr, data_type, around),
            E::TypedString(typed) => self.typed_string(typed),
            E::Function(function) => self.function(function, around),
            other => self.special(other, around),
        }
    }

    fn column(&mut self, ident: &ast::Ident, around: &ExprContext<'_>) -> Result<Expr, SqlError> {
        let name = names::fold(ident);
        if let Some(found) = around
            .scope
            .unqualified(&name)
            .map_err(|e| e.or_at(self.position(ident.span)))?
        {
            return self
                .column_or_variable(found.expr, std::slice::from_ref(&name))
                .map_err(|e| e.or_at(self.position(ident.span)));
        }
        if let Some(expr) = self
            .surrounding(|scope| scope.unqualified(&name))
            .map_err(|e| e.or_at(self.position(ident.span)))?
        {
            return self
                .column_or_variable(expr, std::slice::from_ref(&name))
                .map_err(|e| e.or_at(self.position(ident.span)));
        }
        if let Some(variable) = self.variable(std::slice::from_ref(&name))? {
            return Ok(variable);
        }
        if let Some(row) = self.whole_row(ident, around.scope)? {
            return Ok(row);
        }
        if ident.quote_style.is_none() {
            // A few functions are called without parentheses.
            if matches!(
                name.as_str(),
                "current_schema" | "current_role" | "current_catalog"
            ) {
                return self.call(&name, Vec::new());
            }
            if name == "default" {
                return Err(SqlError::new(
                    SqlState::SYNTAX_ERROR,
                    "DEFAULT is not allowed in this context",
                )
                .or_at(self.position(ident.span)));
            }
        }
        let mut leaves = around.scope.leaves.iter();
        if let Some(refused) = leaves.find_map(|leaf| leaf.refused_column(&name)) {
            return Err(refused.or_at(self.position(ident.span)));
        }
        let missing = SqlError::new(
            SqlState::UNDEFINED_COLUMN,
            format!("column \"{name}\" does not exist"),
        )
        .or_at(self.position(ident.span));
        Err(match did_you_mean::hint(around.scope, None, &name) {
            Some(hint) => missing.hint(hint),
            None => missing,
        })
    }

    fn qualified_column(
        &mut self,
        idents: &[ast::Ident],
        around: &ExprContext<'_>,
    ) -> Result<Expr, SqlError> {
        let position = idents.first().map_or(0, |i| self.position(i.span));
        let folded: Vec<String> = idents.iter().map(names::fold).collect();
        let (schema, alias, column) = match folded.as_slice() {
            [alias, column] => (None, alias, column),
            [schema, table, column] => (Some(schema.as_str()), table, column),
            _ => {
                if let Some(variable) = self.variable(&folded)? {
                    return Ok(variable);
                }
                let refused = SqlError::unsupported("a name with more than three parts");
                return Err(refused.or_at(position));
            }
        };
        let error = match around.scope.qualified(schema, alias, column) {
            Ok(found) => return Ok(found.expr),
            Err(error) if error.sqlstate() == SqlState::UNDEFINED_TABLE => error,
            Err(error) => return Err(error.or_at(position)),
        };
        let around = self.surrounding(|scope| match scope.qualified(schema, alias, column) {
            Ok(found) => Ok(Some(found)),
            Err(error) if error.sqlstate() == SqlState::UNDEFINED_TABLE => Ok(None),
            Err(error) => Err(error),
        });
        match around {
            Ok(Some(expr)) => Ok(expr),
            Ok(None) => match self.variable(&folded)? {
                Some(variable) => Ok(variable),
                None => Err(error.or_at(position)),
            },
            Err(error) => Err(error.or_at(position)),
        }
    }

    /// Binds a binary operator. Chains of AND and OR, which may be long, are walked along their
    /// left spine.
    fn binary_here(
        &mut self,
        left: &ast::Expr,
        op: &ast::BinaryOperator,
        right: &ast::Expr,
        around: &mut ExprContext<'_>,
    ) -> Result<Expr, SqlError> {
        use ast::BinaryOperator as B;
        if !matches!(op, B::And | B::Or) {
            if let Some(compared) = self.row_comparison(left, op, right, around)? {
                return Ok(compared);
            }
            let left = self.expr(left, around)?;
            let right_bound = self.expr(right, around)?;
            return self
                .binary(op, left, right_bound)
                .map_err(|e| e.or_at(self.position_near(right)));
        }
        let mut operands = vec![right];
        let mut rest = left;
        while let ast::Expr::BinaryOp {
            left,
            op: inner,
            right,
        } = rest
        {
            if inner != op {
                break;
            }
            operands.push(right);
            rest = left;
        }
        operands.push(rest);
        let name = if *op == B::And { "AND" } else { "OR" };
        let mut parts = Vec::with_capacity(operands.len());
        for operand in operands.into_iter().rev() {
            let part = self.expr(operand, around)?;
            parts.push(
                self.condition(part, name)
                    .map_err(|e| e.or_at(self.position_near(operand)))?,
            );
        }
        Ok(Expr::new(
            Type::BOOL,
            match op {
                B::And => Node::And(parts),
                _ => Node::Or(parts),
            },
        ))
    }

    fn unary_here(
        &mut self,
        op: &ast::UnaryOperator,
        input: &ast::Expr,
        around: &mut ExprContext<'_>,
    ) -> Result<Expr, SqlError> {
        if *op == ast::UnaryOperator::Minus
            && let Some(number) = plain_number(input)
        {
            return super::literal::number(&format!("-{number}"));
        }
        let bound = self.expr(input, around)?;
        match op {
            ast::UnaryOperator::Not => {
                let bound = self.condition(bound, "NOT")?;
                Ok(Expr::new(Type::BOOL, Node::Not(Box::new(bound))))
            }
            ast::UnaryOperator::Minus => self
                .negate(bound)
                .map_err(|e| e.or_at(self.position_near(input))),
            ast::UnaryOperator::Plus
                if bound.ty != Type::UNKNOWN && !super::operator::is_number(bound.ty.kind) =>
            {
                Err(super::operator::no_prefix_operator("+", &bound.ty))
            }
            ast::UnaryOperator::Plus => Ok(bound),
            ast::UnaryOperator::PGAbs => self.call("abs", vec![bound]),
            ast::UnaryOperator::PGSquareRoot => self.call("sqrt", vec![bound]),
            ast::UnaryOperator::PGCubeRoot => self.call("cbrt", vec![bound]),
            ast::UnaryOperator::BitwiseNot => {
                let ty = bound.ty;
                self.call("~", vec![bound])
                    .map_err(|_| super::operator::no_prefix_operator("~", &ty))
            }
            other => Err(SqlError::unsupported(format!("operator {other}"))),
        }
    }

    fn is_null(
        &mut self,
        input: &ast::Expr,
        negated: bool,
        around: &mut ExprContext<'_>,
    ) -> Result<Expr, SqlError> {
        let input = self.expr(input, around)?;
        let input = self.unknown_to_text(input)?;
        if input.ty.kind.is_row() {
            return Ok(self.is_null_row(input, negated));
        }
        let input = Box::new(input);
        Ok(self.fold(Expr::new(Type::BOOL, Node::IsNull { negated, input })))
    }

    fn bool_test(
        &mut self,
        input: &ast::Expr,
        test: BoolTest,
        negated: bool,
        around: &mut ExprContext<'_>,
    ) -> Result<Expr, SqlError> {
        let input = self.expr(input, around)?;
        let name = match (test, negated) {
            (BoolTest::True, false) => "IS TRUE",
            (BoolTest::True, true) => "IS NOT TRUE",
            (BoolTest::False, false) => "IS FALSE",
            (BoolTest::False, true) => "IS NOT FALSE",
            (BoolTest::Unknown, false) => "IS UNKNOWN",
            (BoolTest::Unknown, true) => "IS NOT UNKNOWN",
        };
        let input = Box::new(self.condition(input, name)?);
        Ok(self.fold(Expr::new(
            Type::BOOL,
            Node::BoolTest {
                test,
                negated,
                input,
            },
        )))
    }

    fn distinct(
        &mut self,
        left: &ast::Expr,
        right: &ast::Expr,
        negated: bool,
        around: &mut ExprContext<'_>,
    ) -> Result<Expr, SqlError> {
        if let Some(test) = self.row_distinct(left, right, negated, around)? {
            return Ok(test);
        }
        let left = self.expr(left, around)?;
        let right = self.expr(right, around)?;
        let (_, left, right) = self.comparable("=", left, right)?;
        Ok(self.fold(Expr::new(
            Type::BOOL,
            Node::Distinct {
                negated,
                left: Box::new(left),
                right: Box::new(right),
            },
        )))
    }

    fn cast_here(
        &mut self,
        input: &ast::Expr,
        data_type: &ast::DataType,
        around: &mut ExprContext<'_>,
    ) -> Result<Expr, SqlError> {
        let to = self.type_of(data_type)?;
        let bound = match (to.kind, plain_number(input)) {
            (TypeKind::Array(_), _) if let ast::Expr::Array(array) = input => {
                self.array_literal(&array.elem, Some(to), around)?
            }
            // A numeric literal may be beyond the range of numeric but within that of float.
            (TypeKind::Float4 | TypeKind::Float8, Some(number)) => {
                Expr::constant(Type::UNKNOWN, Value::text(number))
            }
            _ => self.expr(input, around)?,
        };
        self.coerce(bound, to, CastContext::Explicit)
            .map_err(|e| e.or_at(self.position_near(input)))
    }

    /// Binds `date '2020-01-01'`.
    fn typed_string(&mut self, typed: &ast::TypedString) -> Result<Expr, SqlError> {
        let to = match &typed.data_type {
            // As the type of a literal, char has no length limit.
            ast::DataType::Char(None) | ast::DataType::Character(None) => {
                Type::of(TypeKind::BpChar)
            }
            other => self.type_of(other)?,
        };
        let literal = self.literal(&typed.value)?;
        let position = self.position(typed.value.span);
        self.coerce(literal, to, CastContext::Explicit)
            .map_err(|e| e.or_at(position))
    }

    /// Binds `[I]LIKE`; both operands are bound strings already.
    pub(super) fn like(
        &mut self,
        kind: LikeKind,
        negated: bool,
        (input, pattern): (Expr, Expr),
        escape: Option<Expr>,
    ) -> Result<Expr, SqlError> {
        let symbol = match (kind, negated) {
            (LikeKind::Like, false) => "~~",
            (LikeKind::Like, true) => "!~~",
            (LikeKind::ILike, false) => "~~*",
            (LikeKind::ILike, true) => "!~~*",
        };
        let kind = match (kind, input.ty.kind) {
            (LikeKind::Like, TypeKind::Citext(_)) => LikeKind::ILike,
            (kind, _) => kind,
        };
        let plain = |binder: &mut Self, side: Expr| match side.ty.kind {
            TypeKind::Citext(_) => binder.coerce(side, Type::TEXT, CastContext::Implicit),
            _ => Ok(side),
        };
        let (input, pattern) = (plain(self, input)?, plain(self, pattern)?);
        for side in [&input, &pattern] {
            if side.ty.kind == TypeKind::Bytea {
                return Err(SqlError::unsupported("LIKE on bytea"));
            }
            if !side.ty.kind.is_string() {
                return Err(super::operator::no_operator(symbol, &input.ty, &pattern.ty));
            }
        }
        let input = self.padded(input)?;
        let pattern = self.unknown_to_text(pattern)?;
        Ok(self.fold(Expr::new(
            Type::BOOL,
            Node::Like {
                kind,
                negated,
                input: Box::new(input),
                pattern: Box::new(pattern),
                escape: escape.map(Box::new),
            },
        )))
    }

    /// Returns a string with its significant blanks: LIKE sees the padding of `char(n)`. For an
    /// array it pads the elements.
    pub(super) fn padded(&mut self, input: Expr) -> Result<Expr, SqlError> {
        let element = input.ty.element();
        if element.is_some_and(|element| element.kind == TypeKind::BpChar) {
            let length = element.and_then(|element| element.length());
            return self.padded_elements(input, length);
        }
        match input.ty.length() {
            Some(length) if input.ty.kind == TypeKind::BpChar => {
                let length = i32::try_from(length).unwrap_or(i32::MAX);
                let width = Expr::constant(Type::INT4, Value::Int4(length));
                let text = self.coerce(input, Type::TEXT, CastContext::Implicit)?;
                self.call("rpad", vec![text, width])
            }
            _ => self.unknown_to_text(input),
        }
    }

    /// Converts an array of `char(n)` to an array of text with the padding.
    fn padded_elements(&mut self, input: Expr, length: Option<usize>) -> Result<Expr, SqlError> {
        let Some(length) = length else {
            return self.unknown_to_text(input);
        };
        let length = i32::try_from(length).unwrap_or(i32::MAX);
        let args = vec![input, Expr::constant(Type::INT4, Value::Int4(length))];
        let function = &PADDED_ELEMENTS;
        let texts = Type::TEXT.array().unwrap_or(Type::TEXT);
        Ok(self.fold(Expr::new(texts, Node::Call { function, args })))
    }

    /// Returns the text position of an expression whose first part has a known position; 0
    /// otherwise.
    pub(super) fn position_near(&self, expr: &ast::Expr) -> u32 {
        match expr {
            ast::Expr::Value(value) => self.position(value.span),
            ast::Expr::Identifier(ident) => self.position(ident.span),
            ast::Expr::CompoundIdentifier(idents) => {
                idents.first().map_or(0, |i| self.position(i.span))
            }
            ast::Expr::Function(function) => match function.name.0.first() {
                Some(ast::ObjectNamePart::Identifier(ident)) => self.position(ident.span),
                _ => 0,
            },
            _ => 0,
        }
    }
}

/// Returns the digits of a numeric literal, with or without parentheses around it.
fn plain_number(expr: &ast::Expr) -> Option<&str> {
    match expr {
        ast::Expr::Nested(inner) => plain_number(inner),
        ast::Expr::Value(value) => match &value.value {
            ast::Value::Number(text, _) => Some(text),
            _ => None,
        },
        _ => None,
    }
}

/// Returns whether values of a type are `char(n)`, or arrays of `char(n)`.
pub(super) fn has_blanks(ty: Type) -> bool {
    ty.element().unwrap_or(ty).kind == TypeKind::BpChar
}
