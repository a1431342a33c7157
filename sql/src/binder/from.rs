//! FROM: relations and joins, and the scope they make.

use sqlparser::ast::{self, TableFactor};

use super::call::{function_name, plain_argument};
use super::expr::Clause;
use super::rows::gives_rows;
use super::scope::{Merged, Scope, ScopeColumn, ScopeLeaf};
use super::{Binder, names};
use crate::bound::{
    ColumnOrigin, CompareOp, Expr, From, Join, JoinKind, Lateral, Leaf, LeafSource, Node,
    TableFunction,
};
use crate::catalog::TableDef;
use crate::error::{SqlError, SqlState};
use crate::functions::CastContext;
use crate::system::SystemTable;
use crate::types::{Type, TypeCategory, TypeKind};

impl Binder<'_> {
    /// A FROM list; its relations are added to the scope.
    pub(super) fn relations(
        &mut self,
        list: &[ast::TableWithJoins],
        scope: &mut Scope,
    ) -> Result<From, SqlError> {
        if list.len() > super::EXPR_DEPTH_MAX {
            return Err(crate::parser::too_deep());
        }
        let mut from = From::Nothing;
        for item in list {
            let right = self.joined(item, scope, &[])?;
            from = match from {
                From::Nothing => right,
                left => inner(left, right, None),
            };
        }
        Ok(from)
    }

    /// One item of a FROM list. Its ON clauses see only the item's own relations.
    fn joined(
        &mut self,
        item: &ast::TableWithJoins,
        outer: &mut Scope,
        left: &[&Scope],
    ) -> Result<From, SqlError> {
        let mut scope = Scope {
            width: outer.width,
            ..Scope::default()
        };
        // The tree leans left by one join each; who walks it recurses.
        if item.joins.len() > super::EXPR_DEPTH_MAX {
            return Err(crate::parser::too_deep());
        }
        let mut left = left.to_vec();
        left.push(outer);
        let mut from = self.factor(&item.relation, &mut scope, &left)?;
        for join in &item.joins {
            from = self.join(from, join, &mut scope, &left)?;
        }
        for leaf in scope.leaves {
            outer.push(leaf)?;
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
        let shared: Vec<String> = match constraint {
            ast::JoinConstraint::Using(columns) => columns
                .iter()
                .map(|name| match names::parts(name)?.as_slice() {
                    [ident] => Ok(names::fold(ident)),
                    _ => Err(SqlError::unsupported("a qualified name in USING")),
                })
                .collect::<Result<_, _>>()?,
            ast::JoinConstraint::Natural => scope
                .star()
                .into_iter()
                .map(|(name, _)| name)
                .filter(|name| matches!(right_scope.unqualified(name), Ok(Some(_))))
                .collect(),
            _ => Vec::new(),
        };
        let using = self.merge(kind, &shared, scope, &mut right_scope)?;
        for leaf in right_scope.leaves {
            scope.push(leaf)?;
        }
        scope.merged.extend(right_scope.merged);
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

    /// Merges the shared columns of two sides and gives the condition that they are equal.
    fn merge(
        &mut self,
        kind: JoinKind,
        shared: &[String],
        left: &mut Scope,
        right: &mut Scope,
    ) -> Result<Option<Expr>, SqlError> {
        let mut conditions = Vec::new();
        let mut merged = Vec::new();
        for name in shared {
            let find = |scope: &Scope, side: &str| {
                scope.unqualified(name)?.ok_or_else(|| {
                    SqlError::new(
                        SqlState::UNDEFINED_COLUMN,
                        format!("column \"{name}\" specified in USING clause does not exist in {side} table"),
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
            merged.push(Merged {
                name: name.clone(),
                expr,
            });
            hide(left, name);
            hide(right, name);
        }
        // What was merged before and is not merged again stays behind the new ones.
        merged.append(&mut left.merged);
        left.merged = merged;
        Ok(match conditions.len() {
            0 => None,
            1 => conditions.pop(),
            _ => Some(Expr::new(Type::BOOL, Node::And(conditions))),
        })
    }

    /// One relation, which may read what stands `left` of it.
    fn factor(
        &mut self,
        factor: &TableFactor,
        scope: &mut Scope,
        left: &[&Scope],
    ) -> Result<From, SqlError> {
        match factor {
            TableFactor::Table {
                name,
                alias,
                args: None,
                with_hints,
                version: None,
                with_ordinality: false,
                partitions,
                sample: None,
                ..
            } if with_hints.is_empty() && partitions.is_empty() => {
                let alias_name = alias.as_ref().map(|a| names::fold(&a.name));
                let called = alias_name.as_deref();
                if let Some((leaf, source)) = self.named_query(name, called, scope.width)? {
                    return self.leaf(leaf, source, alias.as_ref(), scope);
                }
                if let Some(view) = self.view(name)? {
                    let of_view =
                        |binder: &mut Self| binder.expanded(&view, alias_name, scope.width);
                    let (leaf, select) = self.deeper(of_view)?;
                    let source = LeafSource::Subquery(Box::new(select));
                    return self.leaf(leaf, source, alias.as_ref(), scope);
                }
                let table = match self.table(name) {
                    Err(missing) => {
                        let Some(table) = names::system_table(name) else {
                            return Err(missing);
                        };
                        let leaf = system_leaf(table, alias_name, scope.width);
                        return self.leaf(leaf, LeafSource::System(table), alias.as_ref(), scope);
                    }
                    table => table?,
                };
                let leaf = table_leaf(&table, alias_name, scope.width);
                self.leaf(leaf, LeafSource::Table(table), alias.as_ref(), scope)
            }
            TableFactor::UNNEST {
                alias,
                array_exprs,
                with_offset: false,
                with_offset_alias: None,
                with_ordinality,
            } => {
                let args: Vec<&ast::Expr> = array_exprs.iter().collect();
                self.rows_in_from("unnest", &args, *with_ordinality, alias.as_ref(), scope)
            }
            TableFactor::Table {
                name,
                alias,
                args: Some(args),
                with_ordinality,
                ..
            } if gives_rows(&function_name(name)?) => {
                let args = args.args.iter().map(plain_argument);
                let args = args.collect::<Result<Vec<_>, _>>()?;
                let name = function_name(name)?;
                self.rows_in_from(&name, &args, *with_ordinality, alias.as_ref(), scope)
            }
            TableFactor::Function {
                lateral: _,
                name,
                args,
                with_ordinality,
                alias,
            } if gives_rows(&function_name(name)?) => {
                let args = args.iter().map(plain_argument);
                let args = args.collect::<Result<Vec<_>, _>>()?;
                let name = function_name(name)?;
                self.rows_in_from(&name, &args, *with_ordinality, alias.as_ref(), scope)
            }
            TableFactor::Table {
                name,
                alias,
                args: Some(args),
                with_ordinality: false,
                ..
            } => self.table_function(name, &args.args, alias.as_ref(), (scope, left)),
            TableFactor::Function {
                lateral: _,
                name,
                args,
                with_ordinality: false,
                alias,
            } => self.table_function(name, args, alias.as_ref(), (scope, left)),
            TableFactor::Derived {
                lateral,
                subquery,
                alias,
                sample: None,
            } => {
                let left = lateral.then_some(left);
                self.derived(subquery, alias.as_ref(), scope, left)
            }
            TableFactor::NestedJoin {
                table_with_joins,
                alias,
            } => {
                if alias.is_some() {
                    return Err(SqlError::unsupported("an alias of a join"));
                }
                self.deeper(|binder| binder.joined(table_with_joins, scope, left))
            }
            _ => Err(SqlError::unsupported("this kind of FROM item")),
        }
    }

    /// A subquery in FROM.
    fn derived(
        &mut self,
        subquery: &ast::Query,
        alias: Option<&ast::TableAlias>,
        scope: &mut Scope,
        left: Option<&[&Scope]>,
    ) -> Result<From, SqlError> {
        let Some(table_alias) = alias else {
            let what = match subquery.body.as_ref() {
                ast::SetExpr::Values(_) => "VALUES in FROM must have an alias",
                _ => "subquery in FROM must have an alias",
            };
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, what)
                .hint("For example, FROM (SELECT ...) [AS] foo."));
        };
        let (select, args) = match left {
            None => (self.query(subquery)?, Vec::new()),
            Some(left) => self.beside(left, |binder| binder.query(subquery))?,
        };
        let columns = select
            .columns()
            .iter()
            .map(|t| ScopeColumn {
                name: t.name.clone(),
                ty: t.expr.ty,
                origin: t.origin,
                hidden: false,
            })
            .collect();
        let leaf = ScopeLeaf {
            alias: names::fold(&table_alias.name),
            table_name: None,
            schema: None,
            first_slot: scope.width,
            columns,
            key: Vec::new(),
        };
        let source = lateral(args, LeafSource::Subquery(Box::new(select)));
        self.leaf(leaf, source, alias, scope)
    }

    /// A function in FROM: one that is a source of rows, or any other, which gives one row.
    fn table_function(
        &mut self,
        name: &ast::ObjectName,
        args: &[ast::FunctionArg],
        alias: Option<&ast::TableAlias>,
        (scope, left): (&mut Scope, &[&Scope]),
    ) -> Result<From, SqlError> {
        let name = function_name(name)?;
        let empty = Scope::default();
        let (bound, read) = self.beside(left, |binder| {
            let mut bound = Vec::with_capacity(args.len());
            for arg in args {
                bound.push(binder.scalar(plain_argument(arg)?, &empty, Clause::FromFunction)?);
            }
            Ok(bound)
        })?;
        let (ty, source) = match TableFunction::of(&name) {
            Some(function) => self.rows_of(function, bound)?,
            None => {
                let call = self.call(&name, bound)?;
                (call.ty, LeafSource::Values(vec![vec![call]]))
            }
        };
        let shown = match alias {
            Some(alias) => names::fold(&alias.name),
            None => name,
        };
        let leaf = ScopeLeaf {
            alias: shown.clone(),
            table_name: None,
            schema: None,
            first_slot: scope.width,
            columns: vec![ScopeColumn {
                name: shown,
                ty,
                origin: None,
                hidden: false,
            }],
            key: Vec::new(),
        };
        self.leaf(leaf, lateral(read, source), alias, scope)
    }

    /// Runs `bind` for a relation that may read what stands `left` of it; what it reads comes with its result.
    fn beside<T>(
        &mut self,
        left: &[&Scope],
        bind: impl FnOnce(&mut Self) -> Result<T, SqlError>,
    ) -> Result<(T, Vec<(usize, Expr)>), SqlError> {
        let mut all = Scope::default();
        for scope in left {
            all.leaves.extend(scope.leaves.iter().cloned());
            all.merged.extend(scope.merged.iter().cloned());
        }
        self.within_lateral(all, bind)
    }

    /// The source that a function is, and the type of its column.
    pub(super) fn rows_of(
        &mut self,
        function: TableFunction,
        args: Vec<Expr>,
    ) -> Result<(Type, LeafSource), SqlError> {
        match function {
            TableFunction::GenerateSeries => self.series(args),
            TableFunction::Rows { .. } => Err(SqlError::internal("rows without arrays")),
            TableFunction::TxidStatus => {
                let types: Vec<Type> = args.iter().map(|a| a.ty).collect();
                let Ok([number]) = <[Expr; 1]>::try_from(args) else {
                    return Err(super::call::no_function(function.name(), &types));
                };
                let args = vec![self.coerce(number, Type::INT8, CastContext::Implicit)?];
                Ok((Type::TEXT, LeafSource::Function { function, args }))
            }
        }
    }

    /// The arguments of generate_series, in the type they share.
    fn series(&mut self, args: Vec<Expr>) -> Result<(Type, LeafSource), SqlError> {
        let types: Vec<Type> = args.iter().map(|a| a.ty).collect();
        if args.len() < 2 || args.len() > 3 {
            return Err(super::call::no_function("generate_series", &types));
        }
        if types
            .iter()
            .any(|t| t.kind.category() == TypeCategory::DateTime)
        {
            return self.series_of_moments(args);
        }
        let widest = types
            .iter()
            .map(|t| t.kind)
            .filter(|k| *k != TypeKind::Unknown)
            .try_fold(TypeKind::Int4, |widest, kind| match kind {
                TypeKind::Int2 | TypeKind::Int4 => Ok(widest),
                TypeKind::Int8 if widest == TypeKind::Int4 => Ok(TypeKind::Int8),
                TypeKind::Int8 => Ok(widest),
                TypeKind::Numeric => Ok(TypeKind::Numeric),
                _ => Err(super::call::no_function("generate_series", &types)),
            })?;
        let ty = Type::of(widest);
        let mut cast = Vec::with_capacity(args.len());
        for arg in args {
            cast.push(self.coerce(arg, ty, CastContext::Implicit)?);
        }
        let source = LeafSource::Function {
            function: TableFunction::GenerateSeries,
            args: cast,
        };
        Ok((ty, source))
    }

    /// The arguments of generate_series over timestamps, dates becoming `timestamptz` as in PostgreSQL.
    fn series_of_moments(&mut self, args: Vec<Expr>) -> Result<(Type, LeafSource), SqlError> {
        let types: Vec<Type> = args.iter().map(|a| a.ty).collect();
        let Ok([start, stop, step]) = <[Expr; 3]>::try_from(args) else {
            return Err(super::call::no_function("generate_series", &types));
        };
        let local = |ty: &Type| matches!(ty.kind, TypeKind::Timestamp | TypeKind::Unknown);
        let ty = match types[..2].iter().all(local) {
            true => Type::TIMESTAMP,
            false => Type::TIMESTAMPTZ,
        };
        let args = vec![
            self.coerce(start, ty, CastContext::Implicit)?,
            self.coerce(stop, ty, CastContext::Implicit)?,
            self.coerce(step, Type::INTERVAL, CastContext::Implicit)
                .map_err(|e| match e.sqlstate() {
                    SqlState::CANNOT_COERCE => super::call::no_function("generate_series", &types),
                    _ => e,
                })?,
        ];
        let source = LeafSource::Function {
            function: TableFunction::GenerateSeries,
            args,
        };
        Ok((ty, source))
    }

    /// Adds a relation to the scope, its columns renamed by the alias list.
    pub(super) fn leaf(
        &mut self,
        mut leaf: ScopeLeaf,
        source: LeafSource,
        alias: Option<&ast::TableAlias>,
        scope: &mut Scope,
    ) -> Result<From, SqlError> {
        if let Some(alias) = alias {
            if alias.columns.len() > leaf.columns.len() {
                return Err(SqlError::new(
                    SqlState::INVALID_COLUMN_REFERENCE,
                    format!(
                        "table \"{}\" has {} columns available but {} columns specified",
                        leaf.alias,
                        leaf.columns.len(),
                        alias.columns.len()
                    ),
                ));
            }
            for (column, renamed) in leaf.columns.iter_mut().zip(&alias.columns) {
                column.name = names::fold(&renamed.name);
            }
        }
        let from = From::Leaf(Leaf {
            source,
            alias: leaf.alias.clone(),
            column_names: leaf.columns.iter().map(|c| c.name.clone()).collect(),
            column_types: leaf.columns.iter().map(|c| c.ty).collect(),
            first_slot: leaf.first_slot,
        });
        scope.push(leaf)?;
        Ok(from)
    }
}

/// A source, and what it reads of what stands left of it.
fn lateral(args: Vec<(usize, Expr)>, source: LeafSource) -> LeafSource {
    match args.is_empty() {
        true => source,
        false => LeafSource::Lateral(Box::new(Lateral { args, source })),
    }
}

/// The relation of `scope` that another reads.
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

/// A table as an expression sees it.
pub(super) fn table_leaf(table: &TableDef, alias: Option<String>, first_slot: usize) -> ScopeLeaf {
    let columns = table
        .columns
        .iter()
        .map(|c| ScopeColumn {
            name: c.name.clone(),
            ty: c.ty,
            origin: Some(ColumnOrigin {
                table: table.id,
                attnum: c.attnum,
            }),
            hidden: false,
        })
        .collect();
    let key = table
        .primary_key()
        .map(|index| {
            index
                .columns
                .iter()
                .map(|c| first_slot + c.column)
                .collect()
        })
        .unwrap_or_default();
    ScopeLeaf {
        table_name: alias.as_ref().map(|_| table.name.clone()),
        alias: alias.unwrap_or_else(|| table.name.clone()),
        schema: Some(table.schema.clone()),
        first_slot,
        columns,
        key,
    }
}

/// A table of the system as an expression sees it.
fn system_leaf(table: SystemTable, alias: Option<String>, first_slot: usize) -> ScopeLeaf {
    let oid = table.oid();
    let column = |(number, (name, ty)): (i16, &(&str, Type))| ScopeColumn {
        name: (*name).to_owned(),
        ty: *ty,
        origin: (oid != 0).then_some(ColumnOrigin {
            table: oid,
            attnum: number,
        }),
        hidden: false,
    };
    ScopeLeaf {
        table_name: alias.as_ref().map(|_| table.name().to_owned()),
        alias: alias.unwrap_or_else(|| table.name().to_owned()),
        schema: Some(table.schema().to_owned()),
        first_slot,
        columns: (1..).zip(table.columns()).map(column).collect(),
        key: Vec::new(),
    }
}

/// An inner join of two FROM items.
pub(super) fn inner(left: From, right: From, on: Option<Expr>) -> From {
    From::Join(Box::new(Join {
        kind: JoinKind::Inner,
        left,
        right,
        on,
    }))
}

/// A merged column stands for those of this name.
fn hide(scope: &mut Scope, name: &str) {
    scope.merged.retain(|m| m.name != name);
    for leaf in &mut scope.leaves {
        for column in leaf.columns.iter_mut().filter(|c| c.name == name) {
            column.hidden = true;
        }
    }
}
