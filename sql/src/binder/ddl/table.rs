//! CREATE TABLE.

use sqlparser::ast;

use super::super::collation::{collatable, collation_of};
use super::super::expr::Clause;
use super::super::scope::Scope;
use super::super::system_columns::check_column_name;
use super::super::{Binder, names};
use super::constraint::{Shape, deferrable_key, nulls_equal};
use super::key_columns;
use super::partition::Options;
use super::storage_options::check_unpartitioned;
use crate::bound::{
    CreateTable, KeyConstraint, LikeProperties, NewCheck, NewSequence, OnCommit, SequenceOptions,
    Statement,
};
use crate::catalog::{ColumnDef, ColumnMore, Identity, Storage, temporary};
use crate::error::{SqlError, SqlState};
use crate::parser::{
    LIKE, StorageOptions, column_list, data_clause, identity_options, is_unlogged, options_of_key,
    storage_options,
};
use crate::types::{Composite, Type, TypeCategory, TypeKind};

/// PostgreSQL's limit on the columns of a table.
const COLUMNS_MAX: usize = 1600;

impl Binder<'_> {
    pub(in super::super) fn create_table(
        &mut self,
        create: &ast::CreateTable,
    ) -> Result<Statement, SqlError> {
        check_supported(create)?;
        let (schema, name) = names::table_name(&create.name)?;
        if create.columns.len() > COLUMNS_MAX {
            return Err(SqlError::new(
                SqlState::TOO_MANY_COLUMNS,
                format!("tables can have at most {COLUMNS_MAX} columns"),
            ));
        }
        let options = Options::of(&create.table_options)?;
        let schema = match create.temporary {
            true => self.schema_for_temporary(schema)?,
            false => self.schema_for(schema)?,
        };
        let on_commit = on_commit(create, &schema)?;
        let mut table = CreateTable {
            schema,
            name,
            if_not_exists: create.if_not_exists,
            columns: Vec::with_capacity(create.columns.len()),
            primary_key: None,
            unique: Vec::new(),
            checks: Vec::new(),
            foreign_keys: Vec::new(),
            sequences: Vec::new(),
            source: None,
            with_data: true,
            on_commit,
            materialized: None,
            index_kind: options.index_kind,
            partition_by: None,
            partition_key: None,
            partition_of: None,
            alike: LikeProperties::default(),
            storage: Storage {
                options: storage_options(self.text)?,
                unlogged: is_unlogged(self.text),
            },
        };
        if let Some(query) = &create.query {
            return self.table_of_query(create, query, table);
        }
        if let Some(parent) = &create.partition_of {
            if !create.columns.is_empty() {
                return Err(SqlError::unsupported("columns of a PARTITION OF"));
            }
            let bound = create.for_values.as_ref();
            table.partition_of = Some(self.partition_of(parent, bound, &mut table)?);
        }
        // Maps each column of the statement to its position in the table; a LIKE clause adds any
        // number of columns.
        let mut places = Vec::with_capacity(create.columns.len());
        let mut alike = Vec::new();
        for column in &create.columns {
            places.push(table.columns.len());
            match column.name.value.as_str() {
                LIKE => alike.extend(self.alike(column, &mut table)?),
                _ => self.column_definition(column, &mut table)?,
            }
        }
        for constraint in &create.constraints {
            key_of_table(self.text, constraint, &mut table)?;
        }
        if let Some(key) = &table.primary_key {
            for column in &key.columns {
                table.columns[*column].not_null = true;
            }
        }
        self.rules_of_columns(create, &places, &mut table)?;
        self.like_checks(alike, &mut table)?;
        for constraint in &create.constraints {
            self.rule_of_table(constraint, &mut table)?;
        }
        self.partition_by(create, options, &mut table)?;
        if table.partition_key.is_some() {
            check_unpartitioned(&table.storage.options)?;
            if table.checks.iter().any(|check| check.no_inherit) {
                return Err(uninherited(&table.name));
            }
        }
        Ok(Statement::CreateTable(table))
    }

    /// Binds CREATE TABLE AS.
    fn table_of_query(
        &mut self,
        create: &ast::CreateTable,
        query: &ast::Query,
        mut table: CreateTable,
    ) -> Result<Statement, SqlError> {
        if !create.constraints.is_empty()
            || !create.columns.is_empty()
            || create.partition_by.is_some()
        {
            return Err(SqlError::unsupported("this form of CREATE TABLE AS"));
        }
        let select = self.query(query)?;
        table.with_data = data_clause(self.text).unwrap_or(true);
        let given = column_list(self.text);
        if given.len() > select.columns().len() {
            return Err(SqlError::new(
                SqlState::SYNTAX_ERROR,
                "too many column names were specified",
            ));
        }
        for (position, target) in select.columns().iter().enumerate() {
            let name = given.get(position).unwrap_or(&target.name).clone();
            check_column_name(&name)?;
            check_column_type(&name, target.expr.ty)?;
            if table.columns.iter().any(|c| c.name == name) {
                return Err(SqlError::new(
                    SqlState::DUPLICATE_COLUMN,
                    format!("column \"{name}\" specified more than once"),
                ));
            }
            table.columns.push(ColumnDef {
                name,
                ty: target.expr.ty,
                not_null: false,
                default: None,
                attnum: i16::try_from(position + 1).unwrap_or(i16::MAX),
                more: ColumnMore::default(),
            });
        }
        table.source = Some(Box::new(select));
        Ok(Statement::CreateTable(table))
    }

    pub(super) fn column_definition(
        &mut self,
        column: &ast::ColumnDef,
        table: &mut CreateTable,
    ) -> Result<(), SqlError> {
        let name = names::fold(&column.name);
        if table.columns.iter().any(|c| c.name == name) {
            return Err(SqlError::new(
                SqlState::DUPLICATE_COLUMN,
                format!("column \"{name}\" specified more than once"),
            ));
        }
        check_column_name(&name).map_err(|e| e.or_at(self.position(column.name.span)))?;
        let position = table.columns.len();
        let serial = serial(&column.data_type);
        if let Some(kind) = serial {
            add_sequence(table, position, kind, SequenceOptions::default());
        }
        let ty = match serial {
            Some(kind) => Ok(Type::of(kind)),
            None => self
                .type_of(&column.data_type)
                .and_then(|ty| check_column_type(&name, ty).map(|()| ty)),
        };
        let ty = ty.map_err(|e| e.or_at(self.position(column.name.span)))?;
        self.check_type_usage(ty)?;
        let mut definition = ColumnDef {
            ty: ty.plain(),
            name,
            not_null: serial.is_some(),
            default: None,
            attnum: i16::try_from(position + 1).unwrap_or(i16::MAX),
            more: ColumnMore {
                domain: ty.as_domain(),
                ..ColumnMore::default()
            },
        };
        let key = |option: &ast::ColumnOptionDef, deferrable| KeyConstraint {
            name: option.name.as_ref().map(names::fold),
            columns: vec![position],
            deferrable,
            nulls_equal: false,
            options: Vec::new(),
            include: Vec::new(),
        };
        for option in &column.options {
            match &option.option {
                ast::ColumnOption::Null => {}
                ast::ColumnOption::NotNull => definition.not_null = true,
                ast::ColumnOption::Default(_) if serial.is_some() => {
                    return Err(multiple_defaults(&definition.name, &table.name));
                }
                ast::ColumnOption::Default(expr) => {
                    let bound = self.scalar(expr, &Scope::default(), Clause::Default)?;
                    self.assign(bound, &definition).map_err(default_error)?;
                    definition.default = Some(self.default_text(expr));
                }
                ast::ColumnOption::PrimaryKey(said) => {
                    let deferrable = deferrable_key(said.characteristics.as_ref())?;
                    set_primary_key(table, key(option, deferrable))?;
                }
                ast::ColumnOption::Unique(said) => {
                    let deferrable = deferrable_key(said.characteristics.as_ref())?;
                    let mut key = key(option, deferrable);
                    key.nulls_equal = nulls_equal(&said.nulls_distinct);
                    table.unique.push(key);
                }
                ast::ColumnOption::Collation(name) => {
                    collatable(definition.declared())?;
                    definition.more.collation = collation_of(name)?;
                }
                // These expressions may read all columns, so they are bound later.
                ast::ColumnOption::ForeignKey(_)
                | ast::ColumnOption::Check(_)
                | ast::ColumnOption::Generated {
                    generation_expr: Some(_),
                    ..
                } => {}
                ast::ColumnOption::Generated { generated_as, .. } => {
                    if serial.is_some() || definition.default.is_some() {
                        return Err(both_default_and_identity(&definition.name, &table.name));
                    }
                    if !definition.ty.kind.is_integer() {
                        return Err(SqlError::new(
                            SqlState::INVALID_PARAMETER_VALUE,
                            "identity column type must be smallint, integer, or bigint",
                        ));
                    }
                    definition.not_null = true;
                    definition.more.identity = Some(match generated_as {
                        ast::GeneratedAs::ByDefault => Identity::ByDefault,
                        _ => Identity::Always,
                    });
                    let at = self.position(column.name.span);
                    let options = identity_options(self.text, at)?;
                    add_sequence(table, position, definition.ty.kind, options);
                }
                ast::ColumnOption::Identity(_) => {
                    return Err(SqlError::unsupported("this kind of identity column"));
                }
                _ => return Err(SqlError::unsupported("this column option")),
            }
        }
        table.columns.push(definition);
        Ok(())
    }

    /// Binds the CHECK and FOREIGN KEY constraints and the generation expressions of column
    /// definitions.
    fn rules_of_columns(
        &mut self,
        create: &ast::CreateTable,
        places: &[usize],
        table: &mut CreateTable,
    ) -> Result<(), SqlError> {
        for (position, column) in places.iter().copied().zip(&create.columns) {
            for option in &column.options {
                let name = option.name.as_ref();
                self.rule_of_column(table, position, name, &option.option)?;
            }
        }
        Ok(())
    }

    pub(super) fn rule_of_column(
        &mut self,
        table: &mut CreateTable,
        position: usize,
        name: Option<&ast::Ident>,
        option: &ast::ColumnOption,
    ) -> Result<(), SqlError> {
        let shape = Shape::of_new(table);
        match option {
            ast::ColumnOption::ForeignKey(key) => {
                let name = name.or(key.name.as_ref());
                let key = self.new_foreign_key(&shape, name, Some(position), key)?;
                table.foreign_keys.push(key);
            }
            ast::ColumnOption::Check(check) => {
                let name = name.or(check.name.as_ref());
                let check = self.new_check(&shape, name, check)?;
                add_check(table, check)?;
            }
            ast::ColumnOption::Generated {
                generation_expr: Some(expr),
                ..
            } => {
                let column = &table.columns[position];
                if column.default.is_some() {
                    return Err(SqlError::new(
                        SqlState::SYNTAX_ERROR,
                        format!(
                            "both default and generation expression specified for column \"{}\" \
                             of table \"{}\"",
                            column.name, table.name
                        ),
                    ));
                }
                let text = self.generation(&shape, column, expr)?;
                table.columns[position].more.generated = Some(text);
            }
            _ => {}
        }
        Ok(())
    }

    /// Binds a table constraint that is not a key.
    fn rule_of_table(
        &mut self,
        constraint: &ast::TableConstraint,
        table: &mut CreateTable,
    ) -> Result<(), SqlError> {
        let shape = Shape::of_new(table);
        match constraint {
            ast::TableConstraint::ForeignKey(key) => {
                let key = self.new_foreign_key(&shape, key.name.as_ref(), None, key)?;
                table.foreign_keys.push(key);
            }
            ast::TableConstraint::Check(check) => {
                let check = self.new_check(&shape, check.name.as_ref(), check)?;
                add_check(table, check)?;
            }
            _ => {}
        }
        Ok(())
    }
}

pub(super) fn add_check(table: &mut CreateTable, check: NewCheck) -> Result<(), SqlError> {
    if let Some(name) = &check.name
        && table.checks.iter().any(|c| c.name.as_ref() == Some(name))
    {
        return Err(SqlError::new(
            SqlState::DUPLICATE_OBJECT,
            format!("check constraint \"{name}\" already exists"),
        ));
    }
    table.checks.push(check);
    Ok(())
}

/// Changes an error 42804 to PostgreSQL's text for a column default.
pub(in crate::binder) fn default_error(error: SqlError) -> SqlError {
    let message = error.message().replacen(
        "but expression is of type",
        "but default expression is of type",
        1,
    );
    match error.sqlstate() == SqlState::DATATYPE_MISMATCH {
        true => SqlError::new(SqlState::DATATYPE_MISMATCH, message)
            .hint("You will need to rewrite or cast the expression."),
        false => error,
    }
}

pub(super) fn set_primary_key(table: &mut CreateTable, key: KeyConstraint) -> Result<(), SqlError> {
    if table.primary_key.replace(key).is_some() {
        return Err(SqlError::new(
            SqlState::INVALID_TABLE_DEFINITION,
            format!(
                "multiple primary keys for table \"{}\" are not allowed",
                table.name
            ),
        ));
    }
    Ok(())
}

/// Binds a table constraint that is a key.
fn key_of_table(
    text: &str,
    constraint: &ast::TableConstraint,
    table: &mut CreateTable,
) -> Result<(), SqlError> {
    let lookup = |name: &str| table.columns.iter().position(|c| c.name == name);
    match constraint {
        ast::TableConstraint::PrimaryKey(key) => {
            let deferrable = deferrable_key(key.characteristics.as_ref())?;
            let options = key_options(text, &key.index_options)?;
            let mut key = key_columns(text, key.name.as_ref(), &key.columns, &lookup)?;
            (key.deferrable, key.options) = (deferrable, options);
            set_primary_key(table, key)
        }
        ast::TableConstraint::Unique(key) => {
            let deferrable = deferrable_key(key.characteristics.as_ref())?;
            let nulls_equal = nulls_equal(&key.nulls_distinct);
            let options = key_options(text, &key.index_options)?;
            let mut key = key_columns(text, key.name.as_ref(), &key.columns, &lookup)?;
            (key.deferrable, key.options) = (deferrable, options);
            key.nulls_equal = nulls_equal;
            table.unique.push(key);
            Ok(())
        }
        ast::TableConstraint::ForeignKey(_) | ast::TableConstraint::Check(_) => Ok(()),
        _ => Err(SqlError::unsupported("this kind of constraint")),
    }
}

/// Returns the error 42P16 for a NO INHERIT check, which the partitions would not have.
pub(super) fn uninherited(table: &str) -> SqlError {
    SqlError::new(
        SqlState::INVALID_TABLE_DEFINITION,
        format!("cannot add NO INHERIT constraint to partitioned table \"{table}\""),
    )
}

/// Returns the error 42809 for a foreign key that is NOT VALID on a partitioned table.
pub(super) fn not_valid_key(table: &str, parent: &ast::ObjectName) -> SqlError {
    let message = format!(
        "cannot add NOT VALID foreign key on partitioned table \"{table}\" referencing relation \
         \"{parent}\""
    );
    SqlError::new(SqlState::WRONG_OBJECT_TYPE, message)
        .detail("This feature is not yet supported on partitioned tables.")
}

/// Returns the storage parameters of the index of a key.
pub(super) fn key_options(
    text: &str,
    options: &[ast::IndexOption],
) -> Result<StorageOptions, SqlError> {
    let mut all = StorageOptions::new();
    for option in options {
        match option {
            ast::IndexOption::Comment(comment) => all.extend(options_of_key(text, comment)?),
            ast::IndexOption::Using(_) => {
                let message = "syntax error at or near \"USING\"";
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
            }
        }
    }
    Ok(all)
}

/// Binds ON COMMIT, which is allowed for temporary tables only.
fn on_commit(create: &ast::CreateTable, schema: &str) -> Result<OnCommit, SqlError> {
    let wanted = match create.on_commit {
        None => return Ok(OnCommit::PreserveRows),
        Some(ast::OnCommit::PreserveRows) => OnCommit::PreserveRows,
        Some(ast::OnCommit::DeleteRows) => OnCommit::DeleteRows,
        Some(ast::OnCommit::Drop) => OnCommit::Drop,
    };
    match temporary::is_temporary(schema) {
        true => Ok(wanted),
        false => Err(SqlError::new(
            SqlState::INVALID_TABLE_DEFINITION,
            "ON COMMIT can only be used on temporary tables",
        )),
    }
}

fn check_supported(create: &ast::CreateTable) -> Result<(), SqlError> {
    let refused = if create.inherits.is_some() {
        "INHERITS"
    } else if create.or_replace || create.external || create.clone.is_some() {
        "this form of CREATE TABLE"
    } else {
        return Ok(());
    };
    Err(SqlError::unsupported(refused))
}

/// Returns the integer type of a SERIAL column; `None` for other types.
fn serial(data_type: &ast::DataType) -> Option<TypeKind> {
    let ast::DataType::Custom(name, _) = data_type else {
        return None;
    };
    match name.to_string().to_ascii_lowercase().as_str() {
        "serial" | "serial4" => Some(TypeKind::Int4),
        "bigserial" | "serial8" => Some(TypeKind::Int8),
        "smallserial" | "serial2" => Some(TypeKind::Int2),
        _ => None,
    }
}

pub(super) fn add_sequence(
    table: &mut CreateTable,
    column: usize,
    kind: TypeKind,
    options: SequenceOptions,
) {
    table.sequences.push(NewSequence {
        column,
        options: SequenceOptions {
            kind: Some(kind),
            ..options
        },
    });
}

fn multiple_defaults(column: &str, table: &str) -> SqlError {
    SqlError::new(
        SqlState::SYNTAX_ERROR,
        format!("multiple default values specified for column \"{column}\" of table \"{table}\""),
    )
}

fn both_default_and_identity(column: &str, table: &str) -> SqlError {
    SqlError::new(
        SqlState::SYNTAX_ERROR,
        format!("both default and identity specified for column \"{column}\" of table \"{table}\""),
    )
}

/// Checks that a column may have the type; 42P16 or 0A000 otherwise.
pub(in crate::binder) fn check_column_type(name: &str, ty: Type) -> Result<(), SqlError> {
    let kind = ty.plain().kind;
    let kind = kind.element().unwrap_or(kind);
    if kind.category() == TypeCategory::Pseudo {
        let message = format!("column \"{name}\" has pseudo-type {ty}");
        return Err(SqlError::new(SqlState::INVALID_TABLE_DEFINITION, message));
    }
    check_rows_of_tables(ty.plain())?;
    match kind.is_object() {
        true => Err(SqlError::unsupported(format!("a column of type {ty}"))),
        false => Ok(()),
    }
}

/// Refuses the row type of a table, and arrays of it, with 0A000: stored definitions do not refer
/// to such types.
pub(in crate::binder) fn check_rows_of_tables(ty: Type) -> Result<(), SqlError> {
    let kind = ty.kind.element().unwrap_or(ty.kind);
    let of_table = |of: Composite| of.definition().is_of_table();
    if kind.as_composite().is_some_and(of_table) {
        return Err(SqlError::unsupported(
            "a column or domain of the type of a table's rows",
        ));
    }
    Ok(())
}
