//! Where a walk goes.

/// A visitor and its walk, over trees that are only looked at or, with `mut`, changed.
macro_rules! parts {
    ($(#[$visitor_doc:meta])* $Visitor:ident, $(#[$walk_doc:meta])* $Walk:ident, $($mut:tt)?) => {
        $(#[$visitor_doc])*
        pub(crate) trait $Visitor {
            /// A query, before what is in it.
            ///
            /// # Errors
            /// With one the walk ends, here and in all that follows.
            fn query(&mut self, _: &$($mut)? Query) -> Result<(), SqlError> {
                Ok(())
            }

            /// A query, after what is in it.
            fn query_end(&mut self) {}

            /// The name of a relation.
            ///
            /// # Errors
            /// As [`Self::query`].
            fn relation(&mut self, _: &$($mut)? ObjectName) -> Result<(), SqlError> {
                Ok(())
            }

            /// An item of FROM, before what is in it.
            fn table_factor(&mut self, _: &$($mut)? TableFactor) {}

            /// An expression, before what is in it.
            ///
            /// # Errors
            /// As [`Self::query`].
            fn expr(&mut self, _: &$($mut)? Expr) -> Result<(), SqlError> {
                Ok(())
            }

            /// An expression, after what is in it.
            fn expr_end(&mut self, _: &$($mut)? Expr) {}
        }

        $(#[$walk_doc])*
        pub(crate) struct $Walk<'a>(pub(crate) &'a mut dyn $Visitor);

        impl $Walk<'_> {
            pub(crate) fn statement(&mut self, statement: &$($mut)? Statement) -> Result<(), SqlError> {
                match statement {
                    Statement::Query(query) => self.query(query),
                    Statement::Insert(insert) => self.insert(insert),
                    Statement::Update(update) => self.update(update),
                    Statement::Delete(delete) => self.delete(delete),
                    Statement::Merge(merge) => self.merge(merge),
                    Statement::CreateTable(create) => self.create_table(create),
                    Statement::CreateView(create) => {
                        self.0.relation(&$($mut)? create.name)?;
                        self.query(&$($mut)? create.query)
                    }
                    Statement::CreateIndex(create) => {
                        self.0.relation(&$($mut)? create.table_name)?;
                        for column in &$($mut)? create.columns {
                            self.expr(&$($mut)? column.column.expr)?;
                        }
                        self.exprs(&$($mut)? create.with)?;
                        self.maybe(&$($mut)? create.predicate)
                    }
                    Statement::AlterTable(alter) => {
                        self.0.relation(&$($mut)? alter.name)?;
                        for operation in &$($mut)? alter.operations {
                            self.alter_table(operation)?;
                        }
                        Ok(())
                    }
                    Statement::Truncate(truncate) => {
                        for table in &$($mut)? truncate.table_names {
                            self.0.relation(&$($mut)? table.name)?;
                        }
                        Ok(())
                    }
                    Statement::Execute { parameters, .. } => self.exprs(parameters),
                    _ => Ok(()),
                }
            }

            fn insert(&mut self, insert: &$($mut)? ast::Insert) -> Result<(), SqlError> {
                match &$($mut)? insert.table {
                    ast::TableObject::TableName(name) => self.0.relation(name)?,
                    ast::TableObject::TableFunction(call) => self.call(call)?,
                    ast::TableObject::TableQuery(query) => self.query(query)?,
                }
                if let Some(source) = &$($mut)? insert.source {
                    self.query(source)?;
                }
                self.assignments(&$($mut)? insert.assignments)?;
                match &$($mut)? insert.on {
                    Some(ast::OnInsert::OnConflict(on)) => {
                        if let ast::OnConflictAction::DoUpdate(update) = &$($mut)? on.action {
                            self.assignments(&$($mut)? update.assignments)?;
                            self.maybe(&$($mut)? update.selection)?;
                        }
                    }
                    Some(ast::OnInsert::DuplicateKeyUpdate(assignments)) => self.assignments(assignments)?,
                    _ => {}
                }
                self.returning(&$($mut)? insert.returning)
            }

            fn update(&mut self, update: &$($mut)? ast::Update) -> Result<(), SqlError> {
                self.joined(&$($mut)? update.table)?;
                self.assignments(&$($mut)? update.assignments)?;
                match &$($mut)? update.from {
                    Some(
                        ast::UpdateTableFromKind::BeforeSet(tables)
                        | ast::UpdateTableFromKind::AfterSet(tables),
                    ) => self.tables(tables)?,
                    None => {}
                }
                self.maybe(&$($mut)? update.selection)?;
                self.returning(&$($mut)? update.returning)?;
                self.order(&$($mut)? update.order_by)?;
                self.maybe(&$($mut)? update.limit)
            }

            fn delete(&mut self, delete: &$($mut)? ast::Delete) -> Result<(), SqlError> {
                match &$($mut)? delete.from {
                    ast::FromTable::WithFromKeyword(tables)
                    | ast::FromTable::WithoutKeyword(tables) => self.tables(tables)?,
                }
                if let Some(tables) = &$($mut)? delete.using {
                    self.tables(tables)?;
                }
                self.maybe(&$($mut)? delete.selection)?;
                self.returning(&$($mut)? delete.returning)?;
                self.order(&$($mut)? delete.order_by)?;
                self.maybe(&$($mut)? delete.limit)
            }

            fn merge(&mut self, merge: &$($mut)? ast::Merge) -> Result<(), SqlError> {
                self.factor(&$($mut)? merge.table)?;
                self.factor(&$($mut)? merge.source)?;
                self.expr(&$($mut)? merge.on)?;
                for clause in &$($mut)? merge.clauses {
                    self.maybe(&$($mut)? clause.predicate)?;
                    match &$($mut)? clause.action {
                        ast::MergeAction::Insert(insert) => {
                            if let ast::MergeInsertKind::Values(values) = &$($mut)? insert.kind {
                                self.values(values)?;
                            }
                            self.maybe(&$($mut)? insert.insert_predicate)?;
                        }
                        ast::MergeAction::Update(update) => {
                            self.assignments(&$($mut)? update.assignments)?;
                            self.maybe(&$($mut)? update.update_predicate)?;
                            self.maybe(&$($mut)? update.delete_predicate)?;
                        }
                        ast::MergeAction::Delete { .. } => {}
                    }
                }
                Ok(())
            }

            fn create_table(&mut self, create: &$($mut)? ast::CreateTable) -> Result<(), SqlError> {
                self.0.relation(&$($mut)? create.name)?;
                for column in &$($mut)? create.columns {
                    self.column(column)?;
                }
                for constraint in &$($mut)? create.constraints {
                    self.constraint(constraint)?;
                }
                if let Some(query) = &$($mut)? create.query {
                    self.query(query)?;
                }
                if let Some(by) = &$($mut)? create.partition_by {
                    self.expr(by)?;
                }
                if let Some(whole) = &$($mut)? create.partition_of {
                    self.0.relation(whole)?;
                }
                match &$($mut)? create.for_values {
                    Some(ast::ForValues::In(values)) => self.exprs(values),
                    Some(ast::ForValues::From { from, to }) => {
                        self.bounds(from)?;
                        self.bounds(to)
                    }
                    _ => Ok(()),
                }
            }

            fn bounds(&mut self, bounds: &$($mut)? [ast::PartitionBoundValue]) -> Result<(), SqlError> {
                for bound in bounds {
                    if let ast::PartitionBoundValue::Expr(expr) = bound {
                        self.expr(expr)?;
                    }
                }
                Ok(())
            }

            fn column(&mut self, column: &$($mut)? ast::ColumnDef) -> Result<(), SqlError> {
                use ast::ColumnOption as O;
                for option in &$($mut)? column.options {
                    match &$($mut)? option.option {
                        O::Default(expr) => self.expr(expr)?,
                        O::Check(check) => self.expr(&$($mut)? check.expr)?,
                        O::Generated { generation_expr, .. } => self.maybe(generation_expr)?,
                        _ => {}
                    }
                }
                Ok(())
            }

            fn constraint(&mut self, constraint: &$($mut)? ast::TableConstraint) -> Result<(), SqlError> {
                match constraint {
                    ast::TableConstraint::Check(check) => self.expr(&$($mut)? check.expr),
                    _ => Ok(()),
                }
            }

            fn alter_table(&mut self, operation: &$($mut)? ast::AlterTableOperation) -> Result<(), SqlError> {
                use ast::AlterColumnOperation as C;
                use ast::AlterTableOperation as O;
                match operation {
                    O::AddConstraint { constraint, .. } => self.constraint(constraint),
                    O::AddColumn { column_def, .. } => self.column(column_def),
                    O::AlterColumn { op: C::SetDefault { value }, .. } => self.expr(value),
                    O::AlterColumn { op: C::SetDataType { using, .. }, .. } => self.maybe(using),
                    _ => Ok(()),
                }
            }

            fn assignments(&mut self, all: &$($mut)? [ast::Assignment]) -> Result<(), SqlError> {
                for assignment in all {
                    self.expr(&$($mut)? assignment.value)?;
                }
                Ok(())
            }

            fn returning(&mut self, items: &$($mut)? Option<Vec<ast::SelectItem>>) -> Result<(), SqlError> {
                match items {
                    Some(items) => self.items(items),
                    None => Ok(()),
                }
            }

            pub(crate) fn query(&mut self, query: &$($mut)? Query) -> Result<(), SqlError> {
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
                        stacker::maybe_grow(STACK_LEFT, STACK_MORE, || self.set(left))?;
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

            pub(crate) fn items(&mut self, items: &$($mut)? [ast::SelectItem]) -> Result<(), SqlError> {
                use ast::SelectItem as S;
                for item in items {
                    match item {
                        S::UnnamedExpr(expr)
                        | S::ExprWithAlias { expr, .. }
                        | S::ExprWithAliases { expr, .. } => self.expr(expr)?,
                        S::QualifiedWildcard(ast::SelectItemQualifiedWildcardKind::Expr(expr), _) => {
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
                    TableFactor::NestedJoin { table_with_joins, .. } => self.joined(table_with_joins),
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
                stacker::maybe_grow(STACK_LEFT, STACK_MORE, || {
                    self.0.expr(expr)?;
                    self.within(expr)?;
                    self.0.expr_end(expr);
                    Ok(())
                })
            }

            /// What an expression is made of.
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
                    Expr::Exists { subquery, .. } | Expr::Subquery(subquery) => self.query(subquery),
                    _ => self.within_more(expr),
                }
            }

            /// What an expression is made of that has more than two parts.
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
                    | ast::AccessExpr::Subscript(ast::Subscript::Index { index: expr }) => self.expr(expr),
                    ast::AccessExpr::Subscript(ast::Subscript::Slice { lower_bound, upper_bound, stride }) => {
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
