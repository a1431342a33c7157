//! The traversal of queries and expressions.

/// Defines a visitor and its walk; with `mut`, they can change the tree.
macro_rules! parts {
    ($(#[$visitor_doc:meta])* $Visitor:ident, $(#[$walk_doc:meta])* $Walk:ident, $($mut:tt)?) => {
        $(#[$visitor_doc])*
        pub(crate) trait $Visitor {
            /// Returns whether the walk enters queries nested in the query in which it began.
            fn enters_queries(&self) -> bool {
                true
            }

            /// Visits a query, before its parts.
            ///
            /// # Errors
            /// An error ends the whole walk.
            fn query(&mut self, _: &$($mut)? Query) -> Result<(), SqlError> {
                Ok(())
            }

            /// Visits a query, after its parts.
            fn query_end(&mut self) {}

            /// Visits a SELECT, before its parts.
            fn select(&mut self, _: &$($mut)? Select) {}

            /// Visits the name of a relation.
            ///
            /// # Errors
            /// As [`Self::query`].
            fn relation(&mut self, _: &$($mut)? ObjectName) -> Result<(), SqlError> {
                Ok(())
            }

            /// Visits an item of FROM, before its parts.
            fn table_factor(&mut self, _: &$($mut)? TableFactor) {}

            /// Visits an expression, before its parts.
            ///
            /// # Errors
            /// As [`Self::query`].
            fn expr(&mut self, _: &$($mut)? Expr) -> Result<(), SqlError> {
                Ok(())
            }

            /// Visits an expression, after its parts.
            fn expr_end(&mut self, _: &$($mut)? Expr) {}
        }

        $(#[$walk_doc])*
        pub(crate) struct $Walk<'a>(pub(crate) &'a mut dyn $Visitor);

        impl $Walk<'_> {
            pub(crate) fn query(&mut self, query: &$($mut)? Query) -> Result<(), SqlError> {
                if !self.0.enters_queries() {
                    return Ok(());
                }
                self.0.query(query)?;
                if let Some(with) = &$($mut)? query.with {
                    for cte in &$($mut)? with.cte_tables {
                        self.query(&$($mut)? cte.query)?;
                    }
                }
                self.set(&$($mut)? query.body)?;
                if let Some(order) = &$($mut)? query.order_by
                    && let ast::OrderByKind::Expressions(keys) = &$($mut)? order.kind
                {
                    self.order(keys)?;
                }
                match &$($mut)? query.limit_clause {
                    Some(ast::LimitClause::LimitOffset { limit, offset, limit_by }) => {
                        self.maybe(limit)?;
                        if let Some(offset) = offset {
                            self.expr(&$($mut)? offset.value)?;
                        }
                        self.exprs(limit_by)?;
                    }
                    Some(ast::LimitClause::OffsetCommaLimit { offset, limit }) => {
                        self.expr(offset)?;
                        self.expr(limit)?;
                    }
                    None => {}
                }
                if let Some(fetch) = &$($mut)? query.fetch {
                    self.maybe(&$($mut)? fetch.quantity)?;
                }
                self.0.query_end();
                Ok(())
            }

            pub(crate) fn set(&mut self, set: &$($mut)? SetExpr) -> Result<(), SqlError> {
                match set {
                    SetExpr::Select(select) => self.select(select),
                    SetExpr::Query(query) => self.query(query),
                    SetExpr::SetOperation { left, right, .. } => {
                        stack::enough(|| self.set(left))?;
                        self.set(right)
                    }
                    SetExpr::Values(values) => self.values(values),
                    SetExpr::Insert(statement)
                    | SetExpr::Update(statement)
                    | SetExpr::Delete(statement)
                    | SetExpr::Merge(statement) => self.statement(statement),
                    SetExpr::Table(_) => Ok(()),
                }
            }

            fn values(&mut self, values: &$($mut)? ast::Values) -> Result<(), SqlError> {
                for row in &$($mut)? values.rows {
                    self.exprs(&$($mut)? row.content)?;
                }
                Ok(())
            }

            pub(crate) fn select(&mut self, select: &$($mut)? Select) -> Result<(), SqlError> {
                self.0.select(select);
                if let Some(ast::Distinct::On(keys)) = &$($mut)? select.distinct {
                    self.exprs(keys)?;
                }
                self.items(&$($mut)? select.projection)?;
                self.tables(&$($mut)? select.from)?;
                self.maybe(&$($mut)? select.selection)?;
                match &$($mut)? select.group_by {
                    ast::GroupByExpr::All(_) => {}
                    ast::GroupByExpr::Expressions(keys, _) => self.exprs(keys)?,
                }
                self.maybe(&$($mut)? select.having)?;
                for ast::NamedWindowDefinition(_, window) in &$($mut)? select.named_window {
                    if let ast::NamedWindowExpr::WindowSpec(window) = window {
                        self.window(window)?;
                    }
                }
                Ok(())
            }

            pub(crate) fn items(
                &mut self,
                items: &$($mut)? [ast::SelectItem],
            ) -> Result<(), SqlError> {
                use ast::SelectItem as S;
                for item in items {
                    match item {
                        S::UnnamedExpr(expr)
                        | S::ExprWithAlias { expr, .. }
                        | S::ExprWithAliases { expr, .. } => self.expr(expr)?,
                        S::QualifiedWildcard(
                            ast::SelectItemQualifiedWildcardKind::Expr(expr), _,
                        ) => {
                            self.expr(expr)?;
                        }
                        S::QualifiedWildcard(..) | S::Wildcard(_) => {}
                    }
                }
                Ok(())
            }

            fn tables(&mut self, tables: &$($mut)? [ast::TableWithJoins]) -> Result<(), SqlError> {
                for table in tables {
                    self.joined(table)?;
                }
                Ok(())
            }

            fn joined(&mut self, table: &$($mut)? ast::TableWithJoins) -> Result<(), SqlError> {
                use ast::JoinOperator as J;
                self.factor(&$($mut)? table.relation)?;
                for join in &$($mut)? table.joins {
                    self.factor(&$($mut)? join.relation)?;
                    match &$($mut)? join.join_operator {
                        J::Join(on)
                        | J::Inner(on)
                        | J::Left(on)
                        | J::LeftOuter(on)
                        | J::Right(on)
                        | J::RightOuter(on)
                        | J::FullOuter(on)
                        | J::CrossJoin(on) => {
                            if let ast::JoinConstraint::On(condition) = on {
                                self.expr(condition)?;
                            }
                        }
                        _ => {}
                    }
                }
                Ok(())
            }

            fn factor(&mut self, factor: &$($mut)? TableFactor) -> Result<(), SqlError> {
                self.0.table_factor(factor);
                match factor {
                    TableFactor::Table { name, args, sample, .. } => {
                        self.0.relation(name)?;
                        if let Some(args) = args {
                            self.args(&$($mut)? args.args)?;
                        }
                        match sample {
                            Some(
                                ast::TableSampleKind::BeforeTableAlias(sample)
                                | ast::TableSampleKind::AfterTableAlias(sample),
                            ) => match &$($mut)? sample.quantity {
                                Some(quantity) => self.expr(&$($mut)? quantity.value),
                                None => Ok(()),
                            },
                            None => Ok(()),
                        }
                    }
                    TableFactor::Derived { subquery, .. } => self.query(subquery),
                    TableFactor::TableFunction { expr, .. } => self.expr(expr),
                    TableFactor::Function { args, .. } => self.args(args),
                    TableFactor::UNNEST { array_exprs, .. } => self.exprs(array_exprs),
                    TableFactor::NestedJoin { table_with_joins, .. } => {
                        self.joined(table_with_joins)
                    }
                    _ => Ok(()),
                }
            }

            fn exprs(&mut self, exprs: &$($mut)? [Expr]) -> Result<(), SqlError> {
                for expr in exprs {
                    self.expr(expr)?;
                }
                Ok(())
            }

            fn maybe(&mut self, expr: &$($mut)? Option<Expr>) -> Result<(), SqlError> {
                match expr {
                    Some(expr) => self.expr(expr),
                    None => Ok(()),
                }
            }

            fn boxed(&mut self, expr: &$($mut)? Option<Box<Expr>>) -> Result<(), SqlError> {
                match expr {
                    Some(expr) => self.expr(expr),
                    None => Ok(()),
                }
            }

            fn order(&mut self, keys: &$($mut)? [ast::OrderByExpr]) -> Result<(), SqlError> {
                for key in keys {
                    self.expr(&$($mut)? key.expr)?;
                }
                Ok(())
            }

            pub(crate) fn expr(&mut self, expr: &$($mut)? Expr) -> Result<(), SqlError> {
                stack::enough(|| {
                    self.0.expr(expr)?;
                    self.within(expr)?;
                    self.0.expr_end(expr);
                    Ok(())
                })
            }

            /// Visits the parts of an expression.
            fn within(&mut self, expr: &$($mut)? Expr) -> Result<(), SqlError> {
                match expr {
                    Expr::BinaryOp { left, right, .. }
                    | Expr::AnyOp { left, right, .. }
                    | Expr::AllOp { left, right, .. }
                    | Expr::IsDistinctFrom(left, right)
                    | Expr::IsNotDistinctFrom(left, right)
                    | Expr::Like { expr: left, pattern: right, .. }
                    | Expr::ILike { expr: left, pattern: right, .. }
                    | Expr::SimilarTo { expr: left, pattern: right, .. }
                    | Expr::RLike { expr: left, pattern: right, .. }
                    | Expr::InUnnest { expr: left, array_expr: right, .. }
                    | Expr::AtTimeZone { timestamp: left, time_zone: right }
                    | Expr::Position { expr: left, r#in: right } => {
                        self.expr(left)?;
                        self.expr(right)
                    }
                    Expr::UnaryOp { expr, .. }
                    | Expr::Nested(expr)
                    | Expr::Cast { expr, .. }
                    | Expr::IsFalse(expr)
                    | Expr::IsNotFalse(expr)
                    | Expr::IsTrue(expr)
                    | Expr::IsNotTrue(expr)
                    | Expr::IsNull(expr)
                    | Expr::IsNotNull(expr)
                    | Expr::IsUnknown(expr)
                    | Expr::IsNotUnknown(expr)
                    | Expr::IsNormalized { expr, .. }
                    | Expr::JsonAccess { value: expr, .. }
                    | Expr::Convert { expr, .. }
                    | Expr::Extract { expr, .. }
                    | Expr::Ceil { expr, .. }
                    | Expr::Floor { expr, .. }
                    | Expr::Collate { expr, .. }
                    | Expr::Prefixed { value: expr, .. }
                    | Expr::Named { expr, .. }
                    | Expr::Interval(ast::Interval { value: expr, .. })
                    | Expr::OuterJoin(expr)
                    | Expr::Prior(expr) => self.expr(expr),
                    Expr::Function(call) => self.call(call),
                    Expr::Exists { subquery, .. } | Expr::Subquery(subquery) => {
                        self.query(subquery)
                    }
                    _ => self.within_more(expr),
                }
            }

            /// Visits the parts of an expression that has more than two.
            fn within_more(&mut self, expr: &$($mut)? Expr) -> Result<(), SqlError> {
                match expr {
                    Expr::CompoundFieldAccess { root, access_chain } => {
                        self.expr(root)?;
                        for access in access_chain {
                            self.access(access)?;
                        }
                        Ok(())
                    }
                    Expr::InList { expr, list, .. } => {
                        self.expr(expr)?;
                        self.exprs(list)
                    }
                    Expr::InSubquery { expr, subquery, .. } => {
                        self.expr(expr)?;
                        self.query(subquery)
                    }
                    Expr::Between { expr, low, high, .. } => {
                        self.expr(expr)?;
                        self.expr(low)?;
                        self.expr(high)
                    }
                    Expr::Substring { expr, substring_from, substring_for, .. } => {
                        self.expr(expr)?;
                        self.boxed(substring_from)?;
                        self.boxed(substring_for)
                    }
                    Expr::Trim { trim_what, expr, trim_characters, .. } => {
                        self.boxed(trim_what)?;
                        self.expr(expr)?;
                        match trim_characters {
                            Some(characters) => self.exprs(characters),
                            None => Ok(()),
                        }
                    }
                    Expr::Overlay { expr, overlay_what, overlay_from, overlay_for } => {
                        self.expr(expr)?;
                        self.expr(overlay_what)?;
                        self.expr(overlay_from)?;
                        self.boxed(overlay_for)
                    }
                    Expr::Case { operand, conditions, else_result, .. } => {
                        self.boxed(operand)?;
                        for when in conditions {
                            self.expr(&$($mut)? when.condition)?;
                            self.expr(&$($mut)? when.result)?;
                        }
                        self.boxed(else_result)
                    }
                    Expr::GroupingSets(sets) | Expr::Cube(sets) | Expr::Rollup(sets) => {
                        for set in sets {
                            self.exprs(set)?;
                        }
                        Ok(())
                    }
                    Expr::Tuple(parts)
                    | Expr::Struct { values: parts, .. }
                    | Expr::Array(ast::Array { elem: parts, .. }) => self.exprs(parts),
                    _ => Ok(()),
                }
            }

            fn access(&mut self, access: &$($mut)? ast::AccessExpr) -> Result<(), SqlError> {
                match access {
                    ast::AccessExpr::Dot(expr)
                    | ast::AccessExpr::Subscript(ast::Subscript::Index { index: expr }) => {
                        self.expr(expr)
                    }
                    ast::AccessExpr::Subscript(ast::Subscript::Slice {
                        lower_bound,
                        upper_bound,
                        stride,
                    }) => {
                        self.maybe(lower_bound)?;
                        self.maybe(upper_bound)?;
                        self.maybe(stride)
                    }
                }
            }

            fn call(&mut self, call: &$($mut)? ast::Function) -> Result<(), SqlError> {
                match &$($mut)? call.args {
                    FunctionArguments::None => {}
                    FunctionArguments::Subquery(query) => self.query(query)?,
                    FunctionArguments::List(list) => {
                        self.args(&$($mut)? list.args)?;
                        for clause in &$($mut)? list.clauses {
                            match clause {
                                ast::FunctionArgumentClause::OrderBy(keys) => self.order(keys)?,
                                ast::FunctionArgumentClause::Limit(limit) => self.expr(limit)?,
                                _ => {}
                            }
                        }
                    }
                }
                self.boxed(&$($mut)? call.filter)?;
                if let Some(ast::WindowType::WindowSpec(window)) = &$($mut)? call.over {
                    self.window(window)?;
                }
                self.order(&$($mut)? call.within_group)
            }

            fn args(&mut self, args: &$($mut)? [FunctionArg]) -> Result<(), SqlError> {
                for arg in args {
                    match arg {
                        FunctionArg::Named { arg: FunctionArgExpr::Expr(expr), .. }
                        | FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => self.expr(expr)?,
                        FunctionArg::ExprNamed { name, arg, .. } => {
                            self.expr(name)?;
                            if let FunctionArgExpr::Expr(expr) = arg {
                                self.expr(expr)?;
                            }
                        }
                        FunctionArg::Named { .. } | FunctionArg::Unnamed(_) => {}
                    }
                }
                Ok(())
            }

            fn window(&mut self, window: &$($mut)? ast::WindowSpec) -> Result<(), SqlError> {
                use ast::WindowFrameBound as B;
                self.exprs(&$($mut)? window.partition_by)?;
                self.order(&$($mut)? window.order_by)?;
                let Some(frame) = &$($mut)? window.window_frame else {
                    return Ok(());
                };
                if let B::Preceding(offset) | B::Following(offset) = &$($mut)? frame.start_bound {
                    self.boxed(offset)?;
                }
                match &$($mut)? frame.end_bound {
                    Some(B::Preceding(offset) | B::Following(offset)) => self.boxed(offset),
                    _ => Ok(()),
                }
            }
        }
    };
}
