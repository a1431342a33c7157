//! Rows as values: `ROW(a, b)`, the name of a relation or row variable as its whole row, and
//! `(row).field`.
//!
//! The row of a table or view has its row type; the row of another relation is a `record` with the
//! names of its columns. The row of a null-extended outer join side is NULL. Its primary key being
//! NULL shows that; without a primary key, all columns being NULL.

use sqlparser::ast;

use super::Binder;
use super::expr::ExprContext;
use super::names;
use super::scope::{ResolvedColumn, RowValue, Scope, ScopeLeaf, UNSEEN};
use crate::bound::{Expr, Node};
use crate::catalog::{CatalogView, row_type};
use crate::error::{SqlError, SqlState};
use crate::functions::{
    CastContext, FIELD, ROW_IS_NULL, no_field, parts_of, row_of as row_made, wrong_width,
};
use crate::parser::EVERY_FIELD;
use crate::types::composites::Field;
use crate::types::{Composite, Fields, Type, TypeKind};
use crate::value::Value;

/// Returns the fields of a row expression, if they are known.
pub(super) fn fields_of(expr: &Expr) -> Option<Fields> {
    match (parts_of(expr), &expr.node) {
        (Some((fields, _)), _) => Some(fields.clone()),
        (None, Node::Const(Value::Record(row))) => Some(row.fields.clone()),
        (None, Node::Routine(call)) if expr.ty.kind == TypeKind::Record => {
            let named = !call.columns.is_empty();
            named.then(|| Fields::own(call.columns.iter().cloned()))
        }
        (None, _) => expr.ty.kind.as_composite().map(Fields::Named),
    }
}

/// Returns the row expression of `(row).*`; `None` for other expressions.
pub(super) fn row_of_star(expr: &ast::Expr) -> Option<ast::Expr> {
    let ast::Expr::CompoundFieldAccess { root, access_chain } = expr else {
        return None;
    };
    let (last, before) = access_chain.split_last()?;
    let is_star = matches!(last, ast::AccessExpr::Dot(ast::Expr::Identifier(ident))
        if ident.quote_style.is_none() && ident.value.starts_with(EVERY_FIELD));
    match (is_star, before) {
        (false, _) => None,
        (true, []) => Some(ast::Expr::clone(root)),
        (true, before) => Some(ast::Expr::CompoundFieldAccess {
            root: root.clone(),
            access_chain: before.to_vec(),
        }),
    }
}

/// Returns whether an expression is `t.*` or `(row).*`.
pub(super) fn is_star(expr: &ast::Expr) -> bool {
    matches!(expr, ast::Expr::QualifiedWildcard(..)) || row_of_star(expr).is_some()
}

/// Returns the target for an expression of VALUES.
pub(super) fn item_of_value(expr: &ast::Expr) -> ast::SelectItem {
    match expr {
        ast::Expr::QualifiedWildcard(name, _) => ast::SelectItem::QualifiedWildcard(
            ast::SelectItemQualifiedWildcardKind::ObjectName(name.clone()),
            ast::WildcardAdditionalOptions::default(),
        ),
        expr => ast::SelectItem::UnnamedExpr(expr.clone()),
    }
}

/// Returns whether a call is `ROW(…)`.
pub(super) fn is_row_call(function: &ast::Function) -> bool {
    let [ast::ObjectNamePart::Identifier(name)] = function.name.0.as_slice() else {
        return false;
    };
    function.over.is_none()
        && name.quote_style.is_none()
        && name.value.eq_ignore_ascii_case("row")
        && matches!(function.args, ast::FunctionArguments::List(_))
}

/// Returns the call with `t` for each `t.*` in its arguments; `None` if it has none.
pub(super) fn without_stars(function: &ast::Function) -> Option<ast::Function> {
    let is_star = |arg: &ast::FunctionArg| {
        matches!(
            arg,
            ast::FunctionArg::Unnamed(ast::FunctionArgExpr::QualifiedWildcard(_))
        )
    };
    let ast::FunctionArguments::List(list) = &function.args else {
        return None;
    };
    if !list.args.iter().any(is_star) {
        return None;
    }
    let mut plain = function.clone();
    if let ast::FunctionArguments::List(list) = &mut plain.args {
        for arg in list.args.iter_mut() {
            if let ast::FunctionArg::Unnamed(ast::FunctionArgExpr::QualifiedWildcard(name)) = arg {
                let parts = name.0.iter().filter_map(|part| part.as_ident().cloned());
                let mut parts: Vec<ast::Ident> = parts.collect();
                let row = match parts.len() {
                    1 => ast::Expr::Identifier(parts.remove(0)),
                    _ => ast::Expr::CompoundIdentifier(parts),
                };
                *arg = ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(row));
            }
        }
    }
    Some(plain)
}

impl Scope {
    /// Returns the row of the relation with this name.
    fn row(&self, alias: &str, catalog: &dyn CatalogView) -> Option<ResolvedColumn> {
        let leaf = self.leaf(None, alias).ok()?;
        if matches!(leaf.row, Some(RowValue::Scalar)) {
            return Some(leaf.found(0));
        }
        let columns = leaf.columns.iter().enumerate();
        let columns = columns.filter(|(_, column)| !column.name.starts_with(UNSEEN));
        let values: Vec<Expr> = columns.clone().map(|(at, _)| leaf.found(at).expr).collect();
        let fields = match leaf.row_type(catalog) {
            Some(of) => Fields::Named(of),
            None => Fields::own(columns.map(|(_, c)| (c.name.clone(), c.ty))),
        };
        let row_condition = leaf.row_condition(&values);
        let mut expr = row_made(fields, values);
        if let (Some(is_there), true) = (row_condition, self.leaves.len() > 1) {
            let node = Node::Case {
                operand: None,
                branches: vec![(is_there, expr.clone())],
                otherwise: None,
            };
            expr = Expr::new(expr.ty, node);
        }
        Some(ResolvedColumn { expr, origin: None })
    }
}

impl ScopeLeaf {
    /// Returns the row type of the relation, if it is a table or view.
    fn row_type(&self, catalog: &dyn CatalogView) -> Option<Composite> {
        if let Some(RowValue::Composite(of)) = self.row {
            return Some(of);
        }
        let id = self.columns.first()?.origin?.table;
        let schema = self.schema.as_deref()?;
        if let Ok(Some(table)) = catalog.table_by_id(id) {
            return Some(row_type(&table));
        }
        let name = self.table_name.as_deref().unwrap_or(&self.alias);
        let view = catalog.view(Some(schema), name).ok().flatten();
        view.filter(|view| view.id == id)
            .map(|view| view.row_type())
    }

    /// Returns the condition that there is a row rather than the NULLs of an outer join.
    fn row_condition(&self, values: &[Expr]) -> Option<Expr> {
        let is_there = |input: &Expr| {
            let input = Box::new(input.clone());
            let negated = true;
            Expr::new(Type::BOOL, Node::IsNull { negated, input })
        };
        match self.key.first() {
            Some(slot) => values.get(slot - self.first_slot).map(is_there),
            None => {
                let any = values.iter().map(is_there).collect();
                Some(Expr::new(Type::BOOL, Node::Or(any)))
            }
        }
    }
}

impl Binder<'_> {
    /// Returns the row that a single name refers to: that of a relation or of a variable.
    pub(super) fn whole_row(
        &mut self,
        name: &ast::Ident,
        scope: &Scope,
    ) -> Result<Option<Expr>, SqlError> {
        let row = names::fold(name);
        let catalog = self.catalog;
        if let Some(found) = scope.row(&row, catalog) {
            return Ok(Some(found.expr));
        }
        if let Some(join) = scope.join_called(None, &row) {
            let columns = join.columns.iter();
            let fields = columns.clone().map(|of| (of.name.clone(), of.expr.ty));
            let values = columns.map(|of| of.expr.clone()).collect();
            return Ok(Some(row_made(Fields::own(fields), values)));
        }
        if let Some(found) = self.surrounding(|scope| Ok(scope.row(&row, catalog)))? {
            return Ok(Some(found));
        }
        let fields = self.row_fields(&ast::ObjectName::from(vec![name.clone()]))?;
        Ok(fields.map(|fields| {
            let (names, values): (Vec<_>, Vec<Expr>) = fields.into_iter().unzip();
            if let Some(whole) = self.row_variable(row, &values) {
                return whole;
            }
            let types = values.iter().map(|value| value.ty);
            row_made(Fields::own(names.into_iter().zip(types)), values)
        }))
    }

    /// Returns the variable with these fields, if it holds a row of a table without columns of
    /// domains. A variable without a row, as OLD of an INSERT, is NULL.
    fn row_variable(&mut self, name: String, fields: &[Expr]) -> Option<Expr> {
        let (variable, of) = self.variables?.row_type(&[name])?;
        // The plan is valid for rows of this type only, so the variable is one of its parameters.
        let whole = self.parameter_of(variable);
        let columns = &of.definition().fields;
        let same = |(column, value): (&Field, &Expr)| column.ty.kind == value.ty.kind;
        let alike = columns.len() == fields.len() && columns.iter().zip(fields).all(same);
        (alike && whole.ty.kind == TypeKind::Composite(of)).then_some(whole)
    }

    /// Binds `ROW(…)`.
    pub(super) fn row_call(
        &mut self,
        function: &ast::Function,
        around: &mut ExprContext<'_>,
    ) -> Result<Expr, SqlError> {
        let ast::FunctionArguments::List(list) = &function.args else {
            return Err(SqlError::internal("a row without a list"));
        };
        let mut values = Vec::with_capacity(list.args.len());
        for arg in &list.args {
            match arg {
                ast::FunctionArg::Unnamed(ast::FunctionArgExpr::QualifiedWildcard(name)) => {
                    let mut targets = Vec::new();
                    self.relation_star(name, around.scope, &mut targets)?;
                    values.extend(targets.into_iter().map(|target| target.expr));
                }
                arg => {
                    let arg = super::call::plain_argument(arg)?;
                    match row_of_star(arg) {
                        Some(row) => {
                            let row = self.expr(&row, around)?;
                            let all = self.all_fields(row)?;
                            values.extend(all.into_iter().map(|(_, value)| value));
                        }
                        None => values.push(self.expr(arg, around)?),
                    }
                }
            }
        }
        Ok(row_with(values))
    }

    /// Binds `(a, b)`.
    pub(super) fn tuple(
        &mut self,
        parts: &[ast::Expr],
        around: &mut ExprContext<'_>,
    ) -> Result<Expr, SqlError> {
        let mut values = Vec::with_capacity(parts.len());
        for part in parts {
            values.push(self.expr(part, around)?);
        }
        Ok(row_with(values))
    }

    /// Binds `(row).field`.
    pub(super) fn field(&mut self, row: Expr, name: &ast::Ident) -> Result<Expr, SqlError> {
        let folded = names::fold(name);
        if folded.starts_with(EVERY_FIELD) {
            return Err(SqlError::unsupported("all fields of a row in this place"));
        }
        let Some(fields) = fields_of(&row) else {
            return Err(match row.ty.kind {
                TypeKind::Record => no_field(&folded),
                kind => SqlError::new(
                    SqlState::WRONG_OBJECT_TYPE,
                    format!(
                        "column notation .{folded} applied to type {kind}, which is not a \
                         composite type"
                    ),
                ),
            }
            .or_at(self.position(name.span)));
        };
        let Some(at) = fields.position(&folded) else {
            let error = match row.ty.kind {
                TypeKind::Record => no_field(&folded),
                kind => SqlError::new(
                    SqlState::UNDEFINED_COLUMN,
                    format!("column \"{folded}\" not found in data type {kind}"),
                ),
            };
            return Err(error.or_at(self.position(name.span)));
        };
        Ok(field_at(row, &fields, at))
    }

    /// Returns the fields of `(row).*` with their names.
    pub(super) fn all_fields(&mut self, row: Expr) -> Result<Vec<(String, Expr)>, SqlError> {
        let Some(fields) = fields_of(&row) else {
            return Err(match row.ty.kind {
                TypeKind::Record => SqlError::new(
                    SqlState::FEATURE_NOT_SUPPORTED,
                    "record type has not been registered",
                ),
                kind => SqlError::new(
                    SqlState::WRONG_OBJECT_TYPE,
                    format!("type {kind} is not composite"),
                ),
            });
        };
        let all = fields.iter().enumerate();
        let all = all.map(|(at, field)| {
            let value = field_at(row.clone(), &fields, at);
            (field.name.clone(), value)
        });
        Ok(all.collect())
    }

    /// Binds `row IS [NOT] NULL`: every field must be NULL, or none with NOT.
    pub(super) fn is_null_row(&mut self, row: Expr, negated: bool) -> Expr {
        if let Some((_, values)) = parts_of(&row) {
            let tests = values.iter().map(|value| {
                let input = Box::new(value.clone());
                Expr::new(Type::BOOL, Node::IsNull { negated, input })
            });
            return Expr::new(Type::BOOL, Node::And(tests.collect()));
        }
        let args = vec![row, Expr::constant(Type::BOOL, Value::Bool(negated))];
        let function = &ROW_IS_NULL;
        Expr::new(Type::BOOL, Node::Call { function, args })
    }

    /// Converts a row constructor, or the row of a relation, to a composite type; `None` for other
    /// expressions.
    pub(super) fn row_as(
        &mut self,
        row: &Expr,
        to: Composite,
        context: CastContext,
    ) -> Result<Option<Expr>, SqlError> {
        let Some((_, values)) = parts_of(row) else {
            return Ok(None);
        };
        let wanted = Fields::Named(to);
        if values.len() != wanted.len() {
            return Err(wrong_width(values.len(), &wanted, None));
        }
        let mut cast = Vec::with_capacity(values.len());
        for (at, (value, field)) in values.iter().zip(wanted.iter()).enumerate() {
            let from = value.ty.kind;
            let value = self.coerce(value.clone(), field.ty, context);
            cast.push(value.map_err(|error| {
                match error.sqlstate() {
                    SqlState::CANNOT_COERCE => SqlError::new(
                        SqlState::CANNOT_COERCE,
                        format!("cannot cast type record to {}", wanted.kind()),
                    )
                    .detail(format!(
                        "Cannot cast type {from} to {} in column {}.",
                        field.ty,
                        at + 1
                    )),
                    _ => error,
                }
            })?);
        }
        Ok(Some(row_made(wanted, cast)))
    }
}

/// Returns a row with these values, of type `record`.
fn row_with(values: Vec<Expr>) -> Expr {
    let types = values.iter().map(|value| value.ty);
    row_made(Fields::numbered(types), values)
}

/// Returns a field of a row; for a row constructor it is the expression of the field.
pub(super) fn field_at(row: Expr, fields: &Fields, at: usize) -> Expr {
    if let Some((_, values)) = parts_of(&row) {
        return values[at].clone();
    }
    let at_here = Value::Int4(i32::try_from(at).unwrap_or(i32::MAX));
    let args = vec![row, Expr::constant(Type::INT4, at_here)];
    let function = &FIELD;
    Expr::new(fields[at].ty.plain(), Node::Call { function, args })
}

/// Checks that two compared rows have the same number and types of fields, as far as they are
/// known; 42804 otherwise.
pub(super) fn check_alike(left: &Expr, right: &Expr) -> Result<(), SqlError> {
    let (Some(left), Some(right)) = (fields_of(left), fields_of(right)) else {
        return Ok(());
    };
    let wrong = |message: String| Err(SqlError::new(SqlState::DATATYPE_MISMATCH, message));
    for (at, (a, b)) in left.iter().zip(right.iter()).enumerate() {
        let (a, b) = (a.ty.plain().kind, b.ty.plain().kind);
        if a != b {
            return wrong(format!(
                "cannot compare dissimilar column types {a} and {b} at record column {}",
                at + 1
            ));
        }
    }
    match left.len() == right.len() {
        true => Ok(()),
        false => wrong("cannot compare record types with different numbers of columns".to_owned()),
    }
}
