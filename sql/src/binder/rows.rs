//! Set-returning functions: `unnest`, and the other built-in ones.

use sqlparser::ast;

use super::Binder;
use super::call::{choose_among, no_function};
use super::expr::Clause;
use super::from::lateral;
use super::json_rows::JsonRows;
use super::scope::{RowValue, Scope, ScopeColumn, ScopeLeaf};
use super::target_rows::is_own;
use super::{names, polymorphic};
use crate::bound::{Expr, From, LeafSource, Node, TableFunction};
use crate::error::{SqlError, SqlState};
use crate::functions::{FIELDS_OF_ALL, rows_candidates};
use crate::types::{Type, TypeKind};
use crate::value::Value;

/// The columns of a set-returning function, and the function as a source of rows.
pub(super) struct Rows {
    pub(super) columns: Vec<(String, Type)>,
    pub(super) source: LeafSource,
}

/// Returns whether a built-in set-returning function has this name.
pub(super) fn gives_rows(name: &str) -> bool {
    name == "unnest"
        || rows_candidates(name).next().is_some()
        || JsonRows::of(name).is_some_and(JsonRows::gives_values)
}

impl Binder<'_> {
    /// Binds a call of a function for which [`gives_rows`] is true.
    pub(super) fn rows_call(
        &mut self,
        name: &str,
        args: Vec<Expr>,
        (ordinality, in_from): (bool, bool),
    ) -> Result<Rows, SqlError> {
        if let Some(rows) = JsonRows::of(name) {
            let rows = self.json_rows(name, rows, args, None)?;
            return self.rows_call("unnest", vec![rows], (ordinality, in_from));
        }
        let types: Vec<Type> = args.iter().map(|a| a.ty).collect();
        let element = match types.as_slice() {
            [array] if in_from => array.kind.element(),
            _ => None,
        };
        let (mut columns, args, wide) = match name {
            // unnest of composite values returns one column for each field.
            "unnest" if let Some(of) = element.and_then(TypeKind::as_composite) => {
                let fields = of.definition().fields.iter();
                let columns = fields.map(|field| (field.name.clone(), field.ty.plain()));
                let width = Value::Int4(of.definition().fields.len() as i32);
                let mut args = args;
                args.push(Expr::constant(Type::INT4, width));
                let function = &FIELDS_OF_ALL;
                let rows = Expr::new(types[0], Node::Call { function, args });
                (columns.collect(), vec![rows], true)
            }
            "unnest" => (unnested(&types)?, args, false),
            _ => {
                super::call::check_citext(name, &types)?;
                let known = || rows_candidates(name).map(|f| &f.function);
                let function = choose_among(known, name, &types)?;
                let columns = rows_candidates(name)
                    .find(|f| std::ptr::eq(&f.function, function))
                    .map_or(&[][..], |f| f.columns);
                let element = polymorphic::element(function.args, &types);
                let element = element.unwrap_or(Type::UNKNOWN);
                let mut named = Vec::with_capacity(columns.len());
                for (column, kind) in columns {
                    let ty = polymorphic::parameter(*kind, element, Type::of(*kind))?;
                    named.push(((*column).to_owned(), ty));
                }
                let wide = named.len() > 1;
                (named, vec![self.call_of(function, args)?], wide)
            }
        };
        if ordinality {
            columns.push(("ordinality".to_owned(), Type::INT8));
        }
        let function = TableFunction::Rows { wide, ordinality };
        Ok(Rows {
            columns,
            source: LeafSource::Function { function, args },
        })
    }

    /// Binds the rows of a variable in FROM.
    pub(super) fn rows_of_variable(
        &mut self,
        name: &ast::ObjectName,
        rows: Expr,
        alias: Option<&ast::TableAlias>,
        scope: &mut Scope,
    ) -> Result<From, SqlError> {
        let row = rows.ty.kind.element().and_then(TypeKind::as_composite);
        let row = row.map(RowValue::Composite);
        let rows = self.rows_call("unnest", vec![rows], (false, true))?;
        let column = |(name, ty): (String, Type)| ScopeColumn {
            name,
            ty,
            origin: None,
            hidden: false,
        };
        let leaf = ScopeLeaf {
            alias: match alias {
                Some(alias) => names::fold(&alias.name),
                None => names::table_name(name)?.1,
            },
            table_name: None,
            schema: None,
            first_slot: scope.width,
            columns: rows.columns.into_iter().map(column).collect(),
            key: Vec::new(),
            routed: Vec::new(),
            reads: None,
            row,
            is_table: false,
        };
        self.leaf(leaf, rows.source, alias, scope)
    }

    /// Binds a set-returning function in FROM; it may read the scopes in `left`.
    pub(super) fn rows_in_from(
        &mut self,
        name: &str,
        args: &[&ast::Expr],
        ordinality: bool,
        alias: Option<&ast::TableAlias>,
        (scope, left): (&mut Scope, &[&Scope]),
    ) -> Result<From, SqlError> {
        let empty = Scope::default();
        let (bound, read) = self.beside(left, |binder| {
            let mut bound = Vec::with_capacity(args.len());
            for arg in args {
                bound.push(binder.scalar(arg, &empty, Clause::FromFunction)?);
            }
            Ok(bound)
        })?;
        let in_from = !alias.is_some_and(|alias| is_own(&alias.name.value));
        let rows = self.rows_call(name, bound, (ordinality, in_from))?;
        let alias_name = match alias {
            Some(alias) => names::fold(&alias.name),
            None => name.to_owned(),
        };
        // A column without a name takes the function's name. A single column takes the alias.
        let alone = rows.columns.len() == 1 + usize::from(ordinality);
        let is_wide = matches!(
            rows.source,
            LeafSource::Function {
                function: TableFunction::Rows { wide: true, .. },
                ..
            }
        );
        let is_scalar = alone && !ordinality && !is_wide;
        let column = |(column, ty): (String, Type)| ScopeColumn {
            name: match column.as_str() {
                "" if alone => alias_name.clone(),
                "" => name.to_owned(),
                _ => column,
            },
            ty,
            origin: None,
            hidden: false,
        };
        let leaf = ScopeLeaf {
            alias: alias_name.clone(),
            table_name: None,
            schema: None,
            first_slot: scope.width,
            columns: rows.columns.into_iter().map(column).collect(),
            key: Vec::new(),
            routed: Vec::new(),
            reads: None,
            row: is_scalar.then_some(RowValue::Scalar),
            is_table: false,
        };
        self.leaf(leaf, lateral(read, rows.source), alias, scope)
    }
}

/// Returns the columns of `unnest` over arrays of these types.
fn unnested(types: &[Type]) -> Result<Vec<(String, Type)>, SqlError> {
    if types.is_empty() {
        return Err(no_function("unnest", types));
    }
    let column = |ty: &Type| match ty.element() {
        Some(element) => Ok((String::new(), element)),
        None if ty.kind == TypeKind::Unknown => Err(SqlError::new(
            SqlState::AMBIGUOUS_FUNCTION,
            "function unnest(unknown) is not unique",
        )
        .hint(
            "Could not choose a best candidate function. You might need to add explicit type \
             casts.",
        )),
        None => Err(no_function("unnest", types)),
    };
    types.iter().map(column).collect()
}
