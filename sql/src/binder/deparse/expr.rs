//! Deparsing of expressions: the node of PostgreSQL's trees for each kind of syntax.

use sqlparser::ast;

use super::super::names;
use super::super::row_compare::row_of;
use super::super::subquery::query_of;
use super::super::system_columns::is_system_column;
use super::comparison::Sense;
use super::from::of_join;
use super::operator::{operation, symbol};
use super::tree::{Piece, QueryKind, Subscript, Tree};
use super::{DeparsedExpr, Deparser, Level};
use crate::error::SqlError;
use crate::stack;
use crate::types::{Type, TypeKind};

impl Deparser<'_, '_> {
    /// Deparses an expression without a context; if its type is still unknown it becomes text.
    pub(super) fn settled(
        &mut self,
        expr: &ast::Expr,
        level: &Level,
    ) -> Result<DeparsedExpr, SqlError> {
        let deparsed = self.expr(expr, level)?;
        self.as_known(deparsed)
    }

    /// Deparses a condition.
    pub(super) fn condition(&mut self, expr: &ast::Expr, level: &Level) -> Result<Tree, SqlError> {
        let deparsed = self.expr(expr, level)?;
        Ok(self.coerced(deparsed, Type::BOOL, false)?.tree)
    }

    pub(super) fn exprs<'e>(
        &mut self,
        exprs: impl IntoIterator<Item = &'e ast::Expr>,
        level: &Level,
    ) -> Result<Vec<DeparsedExpr>, SqlError> {
        exprs
            .into_iter()
            .map(|expr| self.expr(expr, level))
            .collect()
    }

    pub(super) fn expr(
        &mut self,
        expr: &ast::Expr,
        level: &Level,
    ) -> Result<DeparsedExpr, SqlError> {
        stack::enough(|| self.expr_here(expr, level))
    }

    fn expr_here(&mut self, expr: &ast::Expr, level: &Level) -> Result<DeparsedExpr, SqlError> {
        use ast::Expr as E;
        match expr {
            E::Nested(inner) => self.expr(inner, level),
            E::Value(_) | E::TypedString(_) | E::Interval(_) => {
                let bound = self.bound(expr, level)?;
                self.evaluated(&bound)
            }
            E::Identifier(ident) => self.column(expr, &names::fold(ident), level),
            E::CompoundIdentifier(parts) => {
                let name = parts.last().map(names::fold).unwrap_or_default();
                self.column(expr, &name, level)
            }
            E::BinaryOp { left, op, right } => self.binary_expr((left, op, right), level),
            E::UnaryOp { op, expr } => self.prefix(op, expr, level),
            E::IsNull(input) => self.test(input, "IS NULL", level),
            E::IsNotNull(input) => self.test(input, "IS NOT NULL", level),
            E::IsTrue(input) => self.bool_test(input, "IS TRUE", level),
            E::IsNotTrue(input) => self.bool_test(input, "IS NOT TRUE", level),
            E::IsFalse(input) => self.bool_test(input, "IS FALSE", level),
            E::IsNotFalse(input) => self.bool_test(input, "IS NOT FALSE", level),
            E::IsUnknown(input) => self.bool_test(input, "IS UNKNOWN", level),
            E::IsNotUnknown(input) => self.bool_test(input, "IS NOT UNKNOWN", level),
            E::IsDistinctFrom(left, right) => self.distinct(left, right, level),
            E::IsNotDistinctFrom(left, right) => {
                let distinct = self.distinct(left, right, level)?;
                Ok(negated(distinct))
            }
            E::Cast {
                expr, data_type, ..
            } => {
                let to = self.binder.type_of(data_type)?;
                if let Some(fields) = self.row_fields(expr, level)?
                    && let Some(row) = self.typed_row(&fields, (to, level))?
                {
                    return Ok(row);
                }
                let deparsed = match &**expr {
                    E::Array(array) => self.array(&array.elem, Some(to), level)?,
                    other => self.expr(other, level)?,
                };
                self.coerced(deparsed, to, true)
            }
            E::Tuple(fields) => {
                let ty = self.bound(expr, level)?.ty;
                self.anonymous_row(fields, (ty, level))
            }
            E::Function(function) => match self.row_fields(expr, level)? {
                Some(fields) => {
                    let ty = self.bound(expr, level)?.ty;
                    self.anonymous_row(&fields, (ty, level))
                }
                None => self.function(expr, function, level),
            },
            E::Between {
                expr,
                negated,
                low,
                high,
            } => self.between(expr, (*negated).into(), (low, high), level),
            E::InList {
                expr,
                list,
                negated,
            } => self.in_list(expr, list, (*negated).into(), level),
            E::Like {
                negated,
                any,
                expr: input,
                pattern,
                escape_char,
            }
            | E::ILike {
                negated,
                any,
                expr: input,
                pattern,
                escape_char,
            } => {
                let symbol = like_symbol(expr, (*negated).into());
                if *any {
                    self.quantified(input, symbol, "ANY", pattern, level)
                } else {
                    self.like(symbol, (input, pattern), escape_char, level)
                }
            }
            E::SimilarTo {
                negated,
                expr,
                pattern,
                escape_char,
            } => {
                let symbol = if *negated { "!~" } else { "~" };
                self.pattern(
                    symbol,
                    "similar_to_escape",
                    (expr, pattern),
                    escape_char,
                    level,
                )
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
                level,
            ),
            E::Collate { expr, collation } => {
                let deparsed = self.settled(expr, level)?;
                let name = collation.0.last().and_then(|part| part.as_ident());
                let name = name.map(names::fold).unwrap_or_default();
                let ty = deparsed.ty;
                let name = DeparsedExpr::new(Tree::Var(crate::functions::quote_ident(&name)), ty);
                Ok(DeparsedExpr::new(operation(deparsed, "COLLATE", name), ty))
            }
            E::Subquery(query) => {
                let ty = self.bound(expr, level)?.ty;
                self.subquery(QueryKind::Scalar, Vec::new(), query, (ty, level))
            }
            E::Exists {
                subquery,
                negated: not,
            } => {
                let found =
                    self.subquery(QueryKind::Exists, Vec::new(), subquery, (Type::BOOL, level))?;
                Ok(if *not { negated(found) } else { found })
            }
            E::InSubquery {
                expr,
                subquery,
                negated: not,
            } => {
                let found = self.compared_query(expr, "IN", subquery, level)?;
                Ok(if *not { negated(found) } else { found })
            }
            E::AnyOp {
                left,
                compare_op,
                right,
                ..
            } => self.quantified(left, &symbol(compare_op), "ANY", right, level),
            E::AllOp {
                left,
                compare_op,
                right,
            } => self.quantified(left, &symbol(compare_op), "ALL", right, level),
            E::Array(array) => self.array(&array.elem, None, level),
            E::CompoundFieldAccess { root, access_chain } => {
                let ty = self.bound(expr, level)?.ty;
                // The parser reads `t.a[1]` as fields of `t`.
                let dots = access_chain.iter();
                let dots = dots.take_while(|access| matches!(access, ast::AccessExpr::Dot(_)));
                let dots = dots.count();
                let mut parts = Vec::new();
                for part in std::iter::once(&**root).chain(access_chain[..dots].iter().filter_map(
                    |access| match access {
                        ast::AccessExpr::Dot(part) => Some(part),
                        ast::AccessExpr::Subscript(_) => None,
                    },
                )) {
                    match part {
                        E::Identifier(ident) => parts.push(ident.clone()),
                        E::CompoundIdentifier(idents) => parts.extend(idents.iter().cloned()),
                        _ if dots == 0 => {}
                        _ => return Err(SqlError::unsupported("a field")),
                    }
                }
                let base = match dots {
                    0 => self.expr(root, level)?,
                    _ => self.expr(&E::CompoundIdentifier(parts), level)?,
                };
                let mut at = Vec::new();
                for access in &access_chain[dots..] {
                    let ast::AccessExpr::Subscript(subscript) = access else {
                        return Err(SqlError::unsupported("a field"));
                    };
                    at.push(self.subscript(subscript, level)?);
                }
                let base = Box::new(base.tree);
                Ok(DeparsedExpr::new(Tree::Subscript { base, at }, ty))
            }
            other => self.worded(other, level),
        }
    }

    fn column(
        &mut self,
        expr: &ast::Expr,
        name: &str,
        level: &Level,
    ) -> Result<DeparsedExpr, SqlError> {
        let find = |level: &Level| match expr {
            ast::Expr::CompoundIdentifier(parts) => {
                let parts: Vec<String> = parts.iter().map(names::fold).collect();
                match parts.as_slice() {
                    [alias, column] => level.scope.qualified(None, alias, column).ok(),
                    [schema, alias, column] => {
                        level.scope.qualified(Some(schema), alias, column).ok()
                    }
                    _ => None,
                }
            }
            _ => level.scope.unqualified(name).ok().flatten(),
        };
        let around = self.levels.iter().rev();
        let found = std::iter::once(level).chain(around);
        let found = found
            .into_iter()
            .find_map(|level| Some((find(level)?, level)));
        match found {
            Some((found, level)) if is_system_column(name) => {
                let leaf = match expr {
                    ast::Expr::CompoundIdentifier(parts) if parts.len() > 1 => {
                        names::fold(&parts[parts.len() - 2])
                    }
                    _ => level.names.first().cloned().flatten().unwrap_or_default(),
                };
                if let Ok(of) = level.scope.leaf(None, &leaf) {
                    self.check_stays(of)?;
                }
                let leaf = crate::functions::quote_ident(&leaf);
                Ok(DeparsedExpr::new(
                    Tree::Var(format!("{leaf}.{name}")),
                    found.expr.ty,
                ))
            }
            Some((found, level)) => {
                if let Some(tree) = of_join(expr, &found.expr, level) {
                    return Ok(DeparsedExpr::new(tree, found.expr.ty));
                }
                let tree = self.named(&found.expr, name, level)?;
                Ok(DeparsedExpr::new(tree, found.expr.ty))
            }
            None => {
                if let Ok(leaf) = level.scope.leaf(None, name) {
                    self.check_stays(leaf)?;
                    // A whole-row reference.
                    let row = format!("{}.*", crate::functions::quote_ident(name));
                    return Ok(DeparsedExpr::new(Tree::Var(row), Type::of(TypeKind::Any)));
                }
                let ty = self.bound(expr, level)?.ty;
                match name {
                    "current_schema" | "current_role" | "current_catalog" => {
                        Ok(DeparsedExpr::new(words(name.to_ascii_uppercase()), ty))
                    }
                    _ => Err(SqlError::unsupported("this kind of name")),
                }
            }
        }
    }

    fn binary_expr(
        &mut self,
        (left, op, right): (&ast::Expr, &ast::BinaryOperator, &ast::Expr),
        level: &Level,
    ) -> Result<DeparsedExpr, SqlError> {
        use ast::BinaryOperator as B;
        if matches!(op, B::And | B::Or) {
            let mut operands = vec![right];
            let mut rest = left;
            loop {
                match rest {
                    ast::Expr::Nested(inner) => rest = inner,
                    ast::Expr::BinaryOp {
                        left,
                        op: inner,
                        right,
                    } if inner == op => {
                        operands.push(right);
                        rest = left;
                    }
                    _ => break,
                }
            }
            operands.push(rest);
            let parts = operands.into_iter().rev();
            let parts = parts.map(|part| self.condition(part, level));
            let parts = parts.collect::<Result<_, _>>()?;
            let and = *op == B::And;
            return Ok(DeparsedExpr::boolean(Tree::Bool { and, parts }));
        }
        if let Some(row) = row_of(left) {
            let symbol = symbol(op);
            if let Some(query) = query_of(right) {
                return self.compared_query(left, &symbol, query, level);
            }
            let other = row_of(right).ok_or_else(|| SqlError::unsupported("this row"))?;
            let left = self.exprs(row, level)?;
            let right = self.exprs(other, level)?;
            return self.rows(left, &symbol, right);
        }
        let left = self.expr(left, level)?;
        let right = self.expr(right, level)?;
        self.binary(left, op, right)
    }

    pub(super) fn rows(
        &mut self,
        left: Vec<DeparsedExpr>,
        symbol: &str,
        right: Vec<DeparsedExpr>,
    ) -> Result<DeparsedExpr, SqlError> {
        let mut pairs = Vec::new();
        for (left, right) in left.into_iter().zip(right) {
            pairs.push(self.compared(left, right)?);
        }
        if matches!(symbol, "=" | "<>") {
            let parts = pairs.into_iter();
            let parts = parts
                .map(|(left, right)| operation(left, symbol, right))
                .collect();
            return Ok(DeparsedExpr::boolean(Tree::Bool {
                and: symbol == "=",
                parts,
            }));
        }
        let (left, right) = pairs.into_iter().map(|(l, r)| (l.tree, r.tree)).unzip();
        Ok(DeparsedExpr::boolean(Tree::Rows {
            left,
            symbol: symbol.to_owned(),
            right,
        }))
    }

    pub(super) fn subquery(
        &mut self,
        kind: QueryKind,
        left: Vec<Tree>,
        query: &ast::Query,
        (ty, level): (Type, &Level),
    ) -> Result<DeparsedExpr, SqlError> {
        let query = self.inside(level, |deparser| deparser.query(query, None))?;
        let query = Box::new(query);
        Ok(DeparsedExpr::new(Tree::Query { kind, left, query }, ty))
    }

    pub(super) fn array(
        &mut self,
        elements: &[ast::Expr],
        to: Option<Type>,
        level: &Level,
    ) -> Result<DeparsedExpr, SqlError> {
        let wanted = to.and_then(|to| to.element());
        let nested = |element: &ast::Expr| matches!(element, ast::Expr::Array(_));
        if elements.iter().any(nested) {
            let mut all = Vec::new();
            for element in elements {
                let ast::Expr::Array(array) = element else {
                    return Err(SqlError::unsupported("this array"));
                };
                all.push(self.array(&array.elem, to, level)?);
            }
            let ty = all.first().map_or(Type::UNKNOWN, |deparsed| deparsed.ty);
            return Ok(DeparsedExpr::new(elements_of(all, None), ty));
        }
        let mut all = Vec::with_capacity(elements.len());
        for element in elements {
            let typed = match (wanted, self.row_fields(element, level)?) {
                (Some(wanted), Some(fields)) => self.typed_row(&fields, (wanted, level))?,
                _ => None,
            };
            all.push(match typed {
                Some(row) => row,
                None => self.expr(element, level)?,
            });
        }
        let element = match wanted {
            Some(wanted) => Type::of(wanted.kind),
            None => {
                let types: Vec<Type> = all.iter().map(|deparsed| deparsed.ty).collect();
                Type::of(self.common(&types)?.kind)
            }
        };
        let ty = element.array();
        let ty = ty.ok_or_else(|| SqlError::unsupported("an array of these"))?;
        self.array_of(all, element, ty)
    }

    pub(super) fn array_of(
        &mut self,
        all: Vec<DeparsedExpr>,
        element: Type,
        ty: Type,
    ) -> Result<DeparsedExpr, SqlError> {
        let all = all
            .into_iter()
            .map(|deparsed| self.coerced(deparsed, element, false));
        let all = all.collect::<Result<Vec<_>, _>>()?;
        let empty = all.is_empty().then(|| self.type_name(ty));
        Ok(DeparsedExpr::new(elements_of(all, empty), ty))
    }

    fn subscript(
        &mut self,
        subscript: &ast::Subscript,
        level: &Level,
    ) -> Result<Subscript, SqlError> {
        let mut int = |expr: &ast::Expr| {
            let deparsed = self.expr(expr, level)?;
            Ok::<Tree, SqlError>(self.coerced(deparsed, Type::INT4, false)?.tree)
        };
        Ok(match subscript {
            ast::Subscript::Index { index } => Subscript::At(int(index)?),
            ast::Subscript::Slice {
                lower_bound,
                upper_bound,
                ..
            } => Subscript::Slice(
                lower_bound.as_ref().map(&mut int).transpose()?,
                upper_bound.as_ref().map(&mut int).transpose()?,
            ),
        })
    }

    fn case(
        &mut self,
        operand: Option<&ast::Expr>,
        conditions: &[ast::CaseWhen],
        otherwise: Option<&ast::Expr>,
        level: &Level,
    ) -> Result<DeparsedExpr, SqlError> {
        let operand = operand
            .map(|operand| self.settled(operand, level))
            .transpose()?;
        let null = ast::Expr::Value(ast::Value::Null.into());
        let mut results = vec![self.expr(otherwise.unwrap_or(&null), level)?];
        let mut whens = Vec::new();
        for condition in conditions {
            whens.push(match &operand {
                None => self.condition(&condition.condition, level)?,
                Some(operand) => {
                    let when = self.expr(&condition.condition, level)?;
                    self.compared(operand.clone(), when)?.1.tree
                }
            });
            results.push(self.expr(&condition.result, level)?);
        }
        let (ty, mut results) = self.unified(results)?;
        let otherwise = Box::new(results.remove(0).tree);
        let results = results.into_iter().map(|deparsed| deparsed.tree);
        Ok(DeparsedExpr::new(
            Tree::Case {
                operand: operand.map(|deparsed| Box::new(deparsed.tree)),
                branches: whens.into_iter().zip(results).collect(),
                otherwise,
            },
            ty,
        ))
    }
}

/// Returns the operator of LIKE or ILIKE.
fn like_symbol(expr: &ast::Expr, sense: Sense) -> &'static str {
    match (expr, sense) {
        (ast::Expr::ILike { .. }, Sense::Plain) => "~~*",
        (ast::Expr::ILike { .. }, Sense::Negated) => "!~~*",
        (_, Sense::Plain) => "~~",
        (_, Sense::Negated) => "!~~",
    }
}

fn negated(deparsed: DeparsedExpr) -> DeparsedExpr {
    DeparsedExpr::boolean(Tree::Not(Box::new(deparsed.tree)))
}

/// Returns a node for an SQL keyword that is a value, such as CURRENT_DATE.
pub(super) fn words(text: String) -> Tree {
    Tree::Call {
        pieces: vec![Piece::Text(text)],
        function: false,
    }
}

fn elements_of(all: Vec<DeparsedExpr>, label: Option<String>) -> Tree {
    let mut pieces = vec![Piece::Text("ARRAY[".to_owned())];
    for (i, deparsed) in all.into_iter().enumerate() {
        if i > 0 {
            pieces.push(Piece::Text(", ".to_owned()));
        }
        pieces.push(Piece::Tree(deparsed.tree));
    }
    pieces.push(Piece::Text("]".to_owned()));
    if let Some(label) = label {
        pieces.push(Piece::Text(format!("::{label}")));
    }
    Tree::Call {
        pieces,
        function: false,
    }
}
