//! PARTITION BY of CREATE TABLE, and the options in its WITH clause.

use sqlparser::ast;

use super::super::{Binder, names};
use crate::bound::{CreateTable, PartitionBy};
use crate::catalog::{IndexKind, PARTITIONS_DEFAULT, PARTITIONS_MAX};
use crate::error::{SqlError, SqlState};
use crate::parser::is_storage_option;

/// The options in the WITH clause of CREATE TABLE.
pub(super) struct Options {
    /// `index`: the access method of the primary key.
    pub(super) index_kind: IndexKind,
    /// `partitions`: the number of partitions that are distributed over the machines.
    partitions: Option<u32>,
    /// `colocate_with`: schema and name.
    colocate_with: Option<(Option<String>, String)>,
}

impl Options {
    /// Parses the options of the statement; storage parameters of PostgreSQL are accepted.
    pub(super) fn of(options: &ast::CreateTableOptions) -> Result<Options, SqlError> {
        let mut found = Options {
            index_kind: IndexKind::BTree,
            partitions: None,
            colocate_with: None,
        };
        let list = match options {
            ast::CreateTableOptions::None => return Ok(found),
            ast::CreateTableOptions::With(list) => list,
            _ => return Err(SqlError::unsupported("these table options")),
        };
        for option in list {
            let (name, value) = match option {
                ast::SqlOption::KeyValue { key, value } => (names::fold(key), Some(value)),
                ast::SqlOption::Ident(key) => (names::fold(key), None),
                _ => return Err(SqlError::unsupported("this table option")),
            };
            let text = value.map_or_else(|| "true".to_owned(), ToString::to_string);
            let plain = text.trim_matches('\'');
            match name.as_str() {
                "index" => found.index_kind = index_kind(plain)?,
                "partitions" => found.partitions = Some(partitions(plain)?),
                "colocate_with" => found.colocate_with = Some(table_named(plain, value)?),
                name if is_storage_option(name) => {}
                other => {
                    return Err(bad_option(format!("unrecognized parameter \"{other}\"")));
                }
            }
        }
        Ok(found)
    }
}

impl Options {
    /// Refuses options that determine how the rows of a table are stored, with 0A000.
    pub(super) fn check_plain(&self) -> Result<(), SqlError> {
        let plain = self.index_kind == IndexKind::BTree
            && self.partitions.is_none()
            && self.colocate_with.is_none();
        match plain {
            true => Ok(()),
            false => Err(SqlError::unsupported(
                "a materialized view that is spread, or has a hash index for its rows",
            )),
        }
    }
}

fn bad_option(message: String) -> SqlError {
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
}

fn index_kind(value: &str) -> Result<IndexKind, SqlError> {
    match value.to_ascii_lowercase().as_str() {
        "hash" => Ok(IndexKind::Hash),
        "btree" => Ok(IndexKind::BTree),
        other => Err(
            bad_option(format!("invalid value for option \"index\": \"{other}\""))
                .detail("Valid values are \"btree\" and \"hash\"."),
        ),
    }
}

fn partitions(value: &str) -> Result<u32, SqlError> {
    let number: Option<u32> = value.parse().ok();
    number
        .filter(|number| (1..=PARTITIONS_MAX).contains(number))
        .ok_or_else(|| {
            bad_option(format!(
                "invalid value for option \"partitions\": \"{value}\""
            ))
            .detail(format!(
                "Valid values are between \"1\" and \"{PARTITIONS_MAX}\"."
            ))
        })
}

/// Returns the name of a table that is given as a string or as an identifier.
fn table_named(
    text: &str,
    value: Option<&ast::Expr>,
) -> Result<(Option<String>, String), SqlError> {
    match value {
        Some(ast::Expr::Identifier(ident)) => Ok((None, names::fold(ident))),
        Some(ast::Expr::CompoundIdentifier(parts)) if parts.len() == 2 => {
            Ok((Some(names::fold(&parts[0])), names::fold(&parts[1])))
        }
        Some(ast::Expr::Value(_)) => Ok(match text.split_once('.') {
            Some((schema, name)) => (Some(schema.to_owned()), name.to_owned()),
            None => (None, text.to_owned()),
        }),
        _ => Err(bad_option(format!(
            "invalid value for option \"colocate_with\": \"{text}\""
        ))),
    }
}

impl Binder<'_> {
    /// Applies PARTITION BY and the options to `table`, whose columns are known. With the options
    /// its rows are distributed over the machines; without them it becomes a partitioned table.
    pub(super) fn partition_by(
        &self,
        create: &ast::CreateTable,
        options: Options,
        table: &mut CreateTable,
    ) -> Result<(), SqlError> {
        let option = match options {
            Options {
                partitions: Some(_),
                ..
            } => Some("partitions"),
            Options {
                colocate_with: Some(_),
                ..
            } => Some("colocate_with"),
            _ => None,
        };
        match (&create.partition_by, option) {
            (None, None) => Ok(()),
            (None, Some(option)) => Err(impossible(format!(
                "option \"{option}\" needs PARTITION BY HASH"
            ))),
            (Some(by), None) => {
                let (strategy, columns) = strategy(by)?;
                if options.index_kind != IndexKind::BTree {
                    return Err(bad_option("unrecognized parameter \"index\"".to_owned()));
                }
                let key = self.partition_key((&strategy, &columns), table)?;
                table.partition_key = Some(key);
                Ok(())
            }
            (Some(by), Some(_)) => {
                table.partition_by = Some(self.spread_by(by, options, table)?);
                Ok(())
            }
        }
    }

    /// Returns how the rows of the table are distributed over the machines.
    fn spread_by(
        &self,
        by: &ast::Expr,
        options: Options,
        table: &CreateTable,
    ) -> Result<PartitionBy, SqlError> {
        let column = self.partition_column(by, table)?;
        check_keys(table, column)?;
        let definition = &table.columns[column];
        if !definition.not_null {
            let name = &definition.name;
            return Err(
                impossible(format!("partition column \"{name}\" can be null"))
                    .hint("Declare it NOT NULL, or make it part of the primary key."),
            );
        }
        let Some((schema, name)) = options.colocate_with else {
            let count = options.partitions.unwrap_or(PARTITIONS_DEFAULT);
            return Ok(PartitionBy {
                column,
                count,
                with: None,
            });
        };
        let with = self.table_called(schema.as_deref(), &name)?;
        let Some(other) = &with.partitioning else {
            return Err(impossible(format!(
                "cannot be kept together with table \"{name}\", which has no partitions"
            )));
        };
        let count = options.partitions.unwrap_or(other.count);
        if count != other.count {
            return Err(impossible(format!(
                "table \"{name}\" has {} partitions, not {count}",
                other.count
            )));
        }
        if definition.ty.kind != other.kind {
            let theirs = &with.columns[other.column];
            return Err(impossible(format!(
                "partition columns \"{}\" and \"{}\" are of different types",
                definition.name, theirs.name
            ))
            .detail(format!(
                "Their types are {} and {}.",
                definition.ty.name(),
                theirs.ty.name()
            )));
        }
        Ok(PartitionBy {
            column,
            count,
            with: Some(with),
        })
    }

    /// Returns the column of `HASH (column)`.
    fn partition_column(&self, by: &ast::Expr, table: &CreateTable) -> Result<usize, SqlError> {
        let (strategy, columns) = strategy(by)?;
        match strategy.as_str() {
            "hash" => {}
            "range" | "list" => {
                return Err(SqlError::unsupported(format!(
                    "PARTITION BY {} WITH (partitions = …)",
                    strategy.to_ascii_uppercase()
                )));
            }
            other => {
                return Err(bad_option(format!(
                    "unrecognized partitioning strategy \"{other}\""
                )));
            }
        }
        let [argument] = columns.as_slice() else {
            return Err(SqlError::unsupported(
                "PARTITION BY HASH of several columns WITH (partitions = …)",
            ));
        };
        let ast::Expr::Identifier(ident) = argument else {
            return Err(SqlError::unsupported("PARTITION BY HASH of an expression"));
        };
        let name = names::fold(ident);
        let column = table.columns.iter().position(|c| c.name == name);
        column.ok_or_else(|| {
            SqlError::new(
                SqlState::UNDEFINED_COLUMN,
                format!("column \"{name}\" named in partition key does not exist"),
            )
            .or_at(self.position(ident.span))
        })
    }
}

/// Returns the strategy of PARTITION BY, and its partition key expressions.
fn strategy(by: &ast::Expr) -> Result<(String, Vec<&ast::Expr>), SqlError> {
    let malformed = || SqlError::new(SqlState::SYNTAX_ERROR, "syntax error in PARTITION BY");
    let ast::Expr::Function(call) = by else {
        return Err(malformed());
    };
    let strategy = match names::parts(&call.name)?.as_slice() {
        [strategy] => names::fold(strategy),
        _ => return Err(malformed()),
    };
    let ast::FunctionArguments::List(list) = &call.args else {
        return Err(malformed());
    };
    let columns = list.args.iter().map(|argument| match argument {
        ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(argument)) => Ok(argument),
        _ => Err(malformed()),
    });
    let columns: Vec<&ast::Expr> = columns.collect::<Result<_, _>>()?;
    match columns.is_empty() {
        true => Err(malformed()),
        false => Ok((strategy, columns)),
    }
}

/// Checks that every key contains the partition column. Otherwise two partitions could contain the
/// same key.
fn check_keys(table: &CreateTable, column: usize) -> Result<(), SqlError> {
    let primary = table.primary_key.iter().map(|key| ("PRIMARY KEY", key));
    let unique = table.unique.iter().map(|key| ("UNIQUE", key));
    for (what, key) in primary.chain(unique) {
        if !key.columns.contains(&column) {
            let column = &table.columns[column].name;
            return Err(lacks_column(what, &table.name, column));
        }
    }
    Ok(())
}

/// Returns the error 0A000 with PostgreSQL's text.
pub(super) fn lacks_column(what: &str, table: &str, column: &str) -> SqlError {
    SqlError::new(
        SqlState::FEATURE_NOT_SUPPORTED,
        "unique constraint on partitioned table must include all partitioning columns",
    )
    .detail(format!(
        "{what} constraint on table \"{table}\" lacks column \"{column}\" which is part of the \
         partition key."
    ))
}

fn impossible(message: String) -> SqlError {
    SqlError::new(SqlState::INVALID_OBJECT_DEFINITION, message)
}
