//! `ARRAY[…]`, subscripts and slices, and `op ANY (array)`.

use sqlparser::ast;

use super::expr::ExprContext;
use super::subfield::is_sliced;
use super::{Binder, names};
use crate::bound::{CompareClass, CompareOp, Expr, Node};
use crate::error::{SqlError, SqlState};
use crate::functions::{ARRAY_OF, ARRAY_OF_ARRAYS, CastContext, SLICE, SUBSCRIPT};
use crate::types::{DIMENSIONS_MAX, Type, TypeKind, too_many_dimensions};
use crate::value::{Array, Value};

impl Binder<'_> {
    /// Binds `ARRAY[…]`. `wanted` is the type to which a surrounding cast converts it.
    pub(super) fn array_literal(
        &mut self,
        elements: &[ast::Expr],
        wanted: Option<Type>,
        around: &mut ExprContext<'_>,
    ) -> Result<Expr, SqlError> {
        let mut bound = Vec::with_capacity(elements.len());
        for element in elements {
            bound.push(match element {
                ast::Expr::Array(inner) => {
                    self.deeper(|b| b.array_literal(&inner.elem, wanted, around))?
                }
                other => self.expr(other, around)?,
            });
        }
        if bound.is_empty() {
            let Some(ty) = wanted else {
                return Err(SqlError::new(
                    SqlState::INDETERMINATE_DATATYPE,
                    "cannot determine type of empty array",
                )
                .hint("Explicitly cast to the desired type, for example ARRAY[]::integer[]."));
            };
            return Ok(Expr::constant(ty, Array::default().into()));
        }
        let nested = bound.iter().any(|e| e.ty.kind.element().is_some());
        let (ty, args) = match (wanted, nested) {
            (None, _) => self.unify(bound, "ARRAY")?,
            (Some(wanted), true) => (wanted, self.coerce_all(bound, wanted)?),
            (Some(wanted), false) => {
                let element = wanted.element().unwrap_or(Type::TEXT);
                (element, self.coerce_all(bound, element)?)
            }
        };
        if ty.kind.element().is_some() {
            return Ok(self.array_call(&ARRAY_OF_ARRAYS, ty, args));
        }
        match ty.array() {
            Some(array) => Ok(self.array_call(&ARRAY_OF, array, args)),
            None => Err(SqlError::new(
                SqlState::UNDEFINED_OBJECT,
                format!("could not find array type for data type {}", ty.kind),
            )),
        }
    }

    /// Returns an array of type `array` with these elements.
    pub(super) fn packed(&mut self, elements: Vec<Expr>, array: Type) -> Result<Expr, SqlError> {
        if elements.is_empty() {
            return Ok(Expr::constant(array, Array::default().into()));
        }
        let element = array.element().unwrap_or(Type::TEXT);
        let cast = |expr| self.coerce(expr, element, CastContext::Implicit);
        let elements = elements.into_iter().map(cast).collect::<Result<_, _>>()?;
        Ok(self.array_call(&ARRAY_OF, array, elements))
    }

    fn coerce_all(&mut self, exprs: Vec<Expr>, to: Type) -> Result<Vec<Expr>, SqlError> {
        let cast = |expr| self.coerce(expr, to, CastContext::Explicit);
        exprs.into_iter().map(cast).collect()
    }

    fn array_call(
        &self,
        function: &'static crate::functions::ScalarFunction,
        ty: Type,
        args: Vec<Expr>,
    ) -> Expr {
        self.fold(Expr::new(ty, Node::Call { function, args }))
    }

    /// Binds `name[0]`: a value of type `name` is an array of characters whose subscripts begin at
    /// 0.
    fn letter_of_name(
        &mut self,
        name: Expr,
        index: &ast::Expr,
        around: &mut ExprContext<'_>,
    ) -> Result<Expr, SqlError> {
        let name = self.coerce(name, Type::TEXT, CastContext::Implicit)?;
        let from_one = ast::Expr::BinaryOp {
            left: Box::new(ast::Expr::Nested(Box::new(index.clone()))),
            op: ast::BinaryOperator::Plus,
            right: Box::new(ast::Expr::value(ast::Value::Number("1".to_owned(), false))),
        };
        let from_one = self.expr(&from_one, around)?;
        let one = Expr::constant(Type::INT4, Value::Int4(1));
        let letter = self.call("substr", vec![name, from_one, one])?;
        self.coerce(letter, Type::of(TypeKind::Char), CastContext::Explicit)
    }

    /// Binds an expression with subscripts: `a[1]`, `a[1:2][3]`, `t.a[1]`.
    pub(super) fn subscripted(
        &mut self,
        root: &ast::Expr,
        chain: &[ast::AccessExpr],
        around: &mut ExprContext<'_>,
    ) -> Result<Expr, SqlError> {
        if let (ast::Expr::Nested(row), [dot]) = (root, chain)
            && let Some(field) = self.field_of_row(row, dot, around)?
        {
            return Ok(field);
        }
        // After a name without parentheses, the parts with dots belong to the name.
        let dots = match root {
            ast::Expr::Identifier(_) | ast::Expr::CompoundIdentifier(_) => {
                let dots = chain.iter();
                dots.take_while(|a| matches!(a, ast::AccessExpr::Dot(_)))
                    .count()
            }
            _ => 0,
        };
        let (dots, mut chain) = chain.split_at(dots);
        let mut base = match dots {
            [] => self.expr(root, around)?,
            dots => self.expr(&qualified(root, dots)?, around)?,
        };
        while let Some((first, rest)) = chain.split_first() {
            if let ast::AccessExpr::Dot(field) = first {
                let ast::Expr::Identifier(name) = field else {
                    return Err(SqlError::unsupported("this field of a composite value"));
                };
                base = self.field(base, name)?;
                chain = rest;
                continue;
            }
            let indexes: Vec<&ast::Subscript> = chain
                .iter()
                .map_while(|access| match access {
                    ast::AccessExpr::Subscript(subscript) => Some(subscript),
                    ast::AccessExpr::Dot(_) => None,
                })
                .collect();
            chain = &chain[indexes.len()..];
            base = self.elements(base, indexes, around)?;
        }
        Ok(base)
    }

    /// Returns the element of an array that the subscripts select, or the slice of it.
    fn elements(
        &mut self,
        base: Expr,
        indexes: Vec<&ast::Subscript>,
        around: &mut ExprContext<'_>,
    ) -> Result<Expr, SqlError> {
        if base.ty.kind == TypeKind::Jsonb {
            return self.json_subscripted(base, &indexes, around);
        }
        if let (TypeKind::Name, [ast::Subscript::Index { index }]) = (base.ty.kind, &indexes[..]) {
            return self.letter_of_name(base, index, around);
        }
        let Some(element) = base.ty.element() else {
            return Err(not_subscriptable(base.ty));
        };
        if indexes.len() > DIMENSIONS_MAX {
            return Err(too_many_dimensions(indexes.len()));
        }
        if !is_sliced(&indexes) {
            let places = self.places(&indexes, around)?;
            return Ok(self.element_at(base, element, places));
        }
        let ty = base.ty;
        let (left_out, bounds) = self.slice_bounds(&indexes, around)?;
        let args = [base, left_out].into_iter().chain(bounds).collect();
        Ok(self.array_call(&SLICE, ty, args))
    }

    /// Returns the element of an array at these subscripts.
    pub(super) fn element_at(&self, array: Expr, element: Type, places: Vec<Expr>) -> Expr {
        let args = std::iter::once(array).chain(places).collect();
        self.array_call(&SUBSCRIPT, element, args)
    }

    /// Binds the subscripts, none of which is a slice.
    pub(super) fn places(
        &mut self,
        indexes: &[&ast::Subscript],
        around: &mut ExprContext<'_>,
    ) -> Result<Vec<Expr>, SqlError> {
        let mut places = Vec::with_capacity(indexes.len());
        for index in indexes {
            if let ast::Subscript::Index { index } = index {
                places.push(self.subscript(index, around)?);
            }
        }
        Ok(places)
    }

    /// Binds the bounds of a slice, two for each dimension. A bit mask for the omitted bounds comes
    /// first.
    pub(super) fn slice_bounds(
        &mut self,
        indexes: &[&ast::Subscript],
        around: &mut ExprContext<'_>,
    ) -> Result<(Expr, Vec<Expr>), SqlError> {
        let mut left_out = 0;
        let mut bounds = Vec::with_capacity(indexes.len() * 2);
        for (i, index) in indexes.iter().enumerate() {
            let (lower, upper) = match index {
                // Beside a slice, a single subscript `n` means the slice `1:n`.
                ast::Subscript::Index { index } => {
                    bounds.push(Expr::constant(Type::INT4, Value::Int4(1)));
                    bounds.push(self.subscript(index, around)?);
                    continue;
                }
                ast::Subscript::Slice {
                    lower_bound,
                    upper_bound,
                    stride: None,
                } => (lower_bound, upper_bound),
                ast::Subscript::Slice { .. } => {
                    return Err(SqlError::unsupported("a slice with a stride"));
                }
            };
            for (bound, bit) in [(lower, 2 * i), (upper, 2 * i + 1)] {
                bounds.push(match bound {
                    Some(bound) => self.subscript(bound, around)?,
                    None => {
                        left_out |= 1 << bit;
                        Expr::constant(Type::INT4, Value::Null)
                    }
                });
            }
        }
        let left_out = Expr::constant(Type::INT4, Value::Int4(left_out));
        Ok((left_out, bounds))
    }

    fn subscript(
        &mut self,
        index: &ast::Expr,
        around: &mut ExprContext<'_>,
    ) -> Result<Expr, SqlError> {
        let bound = self.expr(index, around)?;
        self.coerce(bound, Type::INT4, CastContext::Assignment)
            .map_err(|e| match e.sqlstate() {
                SqlState::CANNOT_COERCE => SqlError::new(
                    SqlState::DATATYPE_MISMATCH,
                    "array subscript must have type integer",
                ),
                _ => e,
            })
    }

    /// Binds `left op ANY (array)` or, with `all`, `left op ALL (array)`.
    pub(super) fn array_quantified(
        &mut self,
        left: &ast::Expr,
        op: &ast::BinaryOperator,
        all: bool,
        right: &ast::Expr,
        around: &mut ExprContext<'_>,
    ) -> Result<Expr, SqlError> {
        let left = self.expr(left, around)?;
        let array = self.expr(right, around)?;
        let position = self.position_near(right);
        let compare = match super::operator::compare_op(op) {
            Some(compare) => compare,
            None => {
                use ast::BinaryOperator::{
                    PGILikeMatch, PGLikeMatch, PGNotILikeMatch, PGNotLikeMatch,
                };
                let opposite = match op {
                    PGLikeMatch => PGNotLikeMatch,
                    PGNotLikeMatch => PGLikeMatch,
                    PGILikeMatch => PGNotILikeMatch,
                    PGNotILikeMatch => PGILikeMatch,
                    _ => return Err(SqlError::unsupported(format!("operator {op} ANY or ALL"))),
                };
                if !all {
                    return self.call(&format!("{op} ANY"), vec![left, array]);
                }
                let any = self.call(&format!("{opposite} ANY"), vec![left, array])?;
                return Ok(self.fold(Expr::new(Type::BOOL, Node::Not(Box::new(any)))));
            }
        };
        self.any_of(left, compare, all, array)
            .map_err(|e| e.or_at(position))
    }

    fn any_of(
        &mut self,
        left: Expr,
        op: CompareOp,
        all: bool,
        array: Expr,
    ) -> Result<Expr, SqlError> {
        // An array of unknown type takes the type of the other operand as its element type.
        let array = match array.ty {
            Type::UNKNOWN => {
                let element = match left.ty.kind {
                    TypeKind::Unknown | TypeKind::VarChar => Type::TEXT,
                    kind => Type::of(kind),
                };
                let wanted = element.array().ok_or_else(not_an_array)?;
                self.coerce(array, wanted, CastContext::Implicit)?
            }
            _ => array,
        };
        let element = array.ty.element().ok_or_else(not_an_array)?;
        let placeholder = Expr::new(Type::of(element.kind), Node::Column(usize::MAX));
        let (class, left, placeholder) = self.comparable(op.symbol(), left, placeholder)?;
        let array = match (class, placeholder.ty.kind == element.kind) {
            (CompareClass::Int, _) | (_, true) => array,
            _ => {
                let wanted = placeholder.ty.array().ok_or_else(not_an_array)?;
                self.coerce(array, wanted, CastContext::Implicit)?
            }
        };
        Ok(self.fold(Expr::new(
            Type::BOOL,
            Node::Quantified {
                op,
                all,
                left: Box::new(left),
                array: Box::new(array),
            },
        )))
    }
}

/// Returns an array with this one element, of type `anyarray`, whatever the type of the element is.
pub(super) fn of_one(element: Expr) -> Expr {
    let function = &ARRAY_OF;
    let args = vec![element];
    Expr::new(Type::of(TypeKind::AnyArray), Node::Call { function, args })
}

/// Returns the error 42804 for a type that has no subscripts.
pub(super) fn not_subscriptable(ty: Type) -> SqlError {
    SqlError::new(
        SqlState::DATATYPE_MISMATCH,
        format!(
            "cannot subscript type {} because it does not support subscripting",
            ty.kind
        ),
    )
}

fn not_an_array() -> SqlError {
    SqlError::new(
        SqlState::WRONG_OBJECT_TYPE,
        "op ANY/ALL (array) requires array on right side",
    )
}

/// Joins the name `t` and the access `.a` into the name `t.a`.
fn qualified(root: &ast::Expr, dots: &[ast::AccessExpr]) -> Result<ast::Expr, SqlError> {
    let composite = || SqlError::unsupported("a field of a composite value");
    let mut idents = match root {
        ast::Expr::Identifier(ident) => vec![ident.clone()],
        ast::Expr::CompoundIdentifier(idents) => idents.clone(),
        _ => return Err(composite()),
    };
    for dot in dots {
        match dot {
            ast::AccessExpr::Dot(ast::Expr::Identifier(ident)) => idents.push(ident.clone()),
            _ => return Err(composite()),
        }
    }
    debug_assert!(idents.iter().all(|i| !names::fold(i).is_empty()));
    Ok(ast::Expr::CompoundIdentifier(idents))
}
