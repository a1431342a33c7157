//! The traversal of statements.

/// Defines the traversal of statements; with `mut`, it can change them.
macro_rules! statements {
    ($Walk:ident $($mut:tt)?) => {
        impl $Walk<'_> {
            pub(crate) fn statement(
                &mut self,
                statement: &$($mut)? Statement,
            ) -> Result<(), SqlError> {
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
                    Some(ast::OnInsert::DuplicateKeyUpdate(assignments)) => {
                        self.assignments(assignments)?;
                    }
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

            fn bounds(
                &mut self,
                bounds: &$($mut)? [ast::PartitionBoundValue],
            ) -> Result<(), SqlError> {
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

            fn constraint(
                &mut self,
                constraint: &$($mut)? ast::TableConstraint,
            ) -> Result<(), SqlError> {
                match constraint {
                    ast::TableConstraint::Check(check) => self.expr(&$($mut)? check.expr),
                    _ => Ok(()),
                }
            }

            fn alter_table(
                &mut self,
                operation: &$($mut)? ast::AlterTableOperation,
            ) -> Result<(), SqlError> {
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

            fn returning(
                &mut self,
                items: &$($mut)? Option<Vec<ast::SelectItem>>,
            ) -> Result<(), SqlError> {
                match items {
                    Some(items) => self.items(items),
                    None => Ok(()),
                }
            }
        }
    };
}
