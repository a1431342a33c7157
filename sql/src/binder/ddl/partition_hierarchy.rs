//! Partitioned tables and their partitions: the partition key, partition bounds, ATTACH and DETACH.

use sqlparser::ast;

use super::super::expr::Clause;
use super::super::scope::Scope;
use super::super::{Binder, names};
use super::partition::lacks_column;
use crate::bound::{AlterAction, AlterTable, CreateTable, Expr, NewPartition, Node, Statement};
use crate::catalog::{
    Bound, Edge, Level, Member, PartitionKey, Strategy, TableDef, TriggerDef, can_be_in_bounds,
    can_hash,
};
use crate::error::{SqlError, SqlState};
use crate::functions::eval;
use crate::order::StableSort;
use crate::parser::{PartitionChange, PartitionSyntax};
use crate::value::Value;

impl Binder<'_> {
    /// Returns the partition key of `PARTITION BY strategy (columns)`.
    pub(super) fn partition_key(
        &self,
        (strategy, columns): (&str, &[&ast::Expr]),
        table: &CreateTable,
    ) -> Result<PartitionKey, SqlError> {
        let strategy = match strategy {
            "range" => Strategy::Range,
            "list" => Strategy::List,
            "hash" => Strategy::Hash,
            other => {
                return Err(SqlError::new(
                    SqlState::INVALID_PARAMETER_VALUE,
                    format!("unrecognized partitioning strategy \"{other}\""),
                ));
            }
        };
        if strategy == Strategy::List && columns.len() > 1 {
            return Err(wrong(
                "cannot use \"list\" partition strategy with more than one column",
            ));
        }
        let mut key = PartitionKey {
            strategy,
            columns: Vec::with_capacity(columns.len()),
        };
        for column in columns {
            let ast::Expr::Identifier(ident) = column else {
                return Err(SqlError::unsupported("PARTITION BY of an expression"));
            };
            let name = names::fold(ident);
            let found = table.columns.iter().position(|c| c.name == name);
            let column = found.ok_or_else(|| {
                SqlError::new(
                    SqlState::UNDEFINED_COLUMN,
                    format!("column \"{name}\" named in partition key does not exist"),
                )
                .or_at(self.position(ident.span))
            })?;
            let definition = &table.columns[column];
            if definition.more.generated.is_some() {
                return Err(wrong("cannot use generated column in partition key")
                    .detail(format!("Column \"{name}\" is a generated column.")));
            }
            let kind = definition.ty.kind;
            let can = match strategy {
                Strategy::Hash => can_hash(kind),
                _ => can_be_in_bounds(kind),
            };
            if !can {
                return Err(SqlError::unsupported(format!(
                    "PARTITION BY {} of type {kind}",
                    strategy.name()
                )));
            }
            key.columns.push(column);
        }
        let keys = table.primary_key.iter().map(|key| ("PRIMARY KEY", key));
        for (what, unique) in keys.chain(table.unique.iter().map(|key| ("UNIQUE", key))) {
            let lacks = key.columns.iter().find(|c| !unique.columns.contains(c));
            if let Some(lacks) = lacks {
                let column = &table.columns[*lacks].name;
                return Err(lacks_column(what, &table.name, column));
            }
        }
        Ok(key)
    }

    /// Binds `PARTITION OF parent FOR VALUES …`, and gives `table` the columns of the parent.
    pub(super) fn partition_of(
        &mut self,
        parent: &ast::ObjectName,
        bound: Option<&ast::ForValues>,
        table: &mut CreateTable,
    ) -> Result<NewPartition, SqlError> {
        let parent = self.table(parent)?;
        let Some(bound) = bound else {
            return Err(SqlError::new(
                SqlState::SYNTAX_ERROR,
                "a partition needs a bound",
            ));
        };
        let bound = self.partition_bound(&parent, &table.name, bound)?;
        for column in &parent.columns {
            let mut column = column.clone();
            column.more.identity = None;
            column.more.sequence = None;
            column.more.missing = None;
            table.columns.push(column);
        }
        Ok(NewPartition { parent, bound })
    }

    /// Returns the bound of the new partition `name`, which must overlap no other bound.
    fn partition_bound(
        &mut self,
        parent: &TableDef,
        name: &str,
        bound: &ast::ForValues,
    ) -> Result<Bound, SqlError> {
        let (Some(key), Some(tree)) = (parent.partition_key(), parent.tree()) else {
            return Err(wrong(format!("\"{}\" is not partitioned", parent.name)));
        };
        let level = &tree.top;
        let invalid = || {
            let what = match key.strategy {
                Strategy::Range => "range",
                Strategy::List => "list",
                Strategy::Hash => "hash",
            };
            wrong_table(format!(
                "invalid bound specification for a {what} partition"
            ))
        };
        let bound = match (bound, key.strategy) {
            (ast::ForValues::Default, Strategy::Hash) => {
                return Err(wrong_table(
                    "a hash-partitioned table may not have a default partition",
                ));
            }
            (ast::ForValues::Default, _) => Bound::Default,
            (ast::ForValues::In(list), Strategy::List) => {
                let mut values: Vec<Value> = Vec::with_capacity(list.len());
                for value in list {
                    let value = self.bound_value(parent, key.columns[0], value)?;
                    if !values.contains(&value) {
                        values.push(value);
                    }
                }
                Bound::List(values)
            }
            (ast::ForValues::From { from, to }, Strategy::Range) => {
                let from = self.edges(parent, key, "FROM", from)?;
                let to = self.edges(parent, key, "TO", to)?;
                if level.is_empty(&from, &to) {
                    return Err(wrong(format!(
                        "empty range bound specified for partition \"{name}\""
                    ))
                    .detail(format!(
                        "Specified lower bound {} is greater than or equal to upper bound {}.",
                        crate::pg_catalog::edges_text(parent, key, &from),
                        crate::pg_catalog::edges_text(parent, key, &to)
                    )));
                }
                Bound::Range { from, to }
            }
            (ast::ForValues::With { modulus, remainder }, Strategy::Hash) => {
                hash_bound(level, *modulus, *remainder)?
            }
            _ => return Err(invalid()),
        };
        match level.overlapped(&bound) {
            None => Ok(bound),
            Some(other) if bound == Bound::Default => Err(wrong(format!(
                "partition \"{name}\" conflicts with existing default partition \"{}\"",
                other.name
            ))),
            Some(other) => Err(wrong(format!(
                "partition \"{name}\" would overlap partition \"{}\"",
                other.name
            ))),
        }
    }

    fn edges(
        &mut self,
        parent: &TableDef,
        key: &PartitionKey,
        what: &str,
        values: &[ast::PartitionBoundValue],
    ) -> Result<Vec<Edge>, SqlError> {
        if values.len() != key.columns.len() {
            return Err(wrong_table(format!(
                "{what} must specify exactly one value per partitioning column"
            )));
        }
        let mut edges: Vec<Edge> = Vec::with_capacity(values.len());
        for (value, column) in values.iter().zip(&key.columns) {
            let edge = match value {
                ast::PartitionBoundValue::MinValue => Edge::Min,
                ast::PartitionBoundValue::MaxValue => Edge::Max,
                ast::PartitionBoundValue::Expr(expr) => {
                    match self.bound_value(parent, *column, expr)? {
                        Value::Null => return Err(wrong("cannot specify NULL in range bound")),
                        value => Edge::Value(value),
                    }
                }
            };
            match edges.last() {
                Some(Edge::Min) if edge != Edge::Min => {
                    return Err(type_mismatch(
                        "every bound following MINVALUE must also be MINVALUE",
                    ));
                }
                Some(Edge::Max) if edge != Edge::Max => {
                    return Err(type_mismatch(
                        "every bound following MAXVALUE must also be MAXVALUE",
                    ));
                }
                _ => edges.push(edge),
            }
        }
        Ok(edges)
    }

    fn bound_value(
        &mut self,
        parent: &TableDef,
        column: usize,
        expr: &ast::Expr,
    ) -> Result<Value, SqlError> {
        if matches!(
            expr,
            ast::Expr::Identifier(_) | ast::Expr::CompoundIdentifier(_)
        ) {
            return Err(SqlError::new(
                SqlState::INVALID_COLUMN_REFERENCE,
                "cannot use column reference in partition bound expression",
            ));
        }
        let bound = self.scalar(expr, &Scope::default(), Clause::Default)?;
        if let Some(parameter) = parameter_in(&bound) {
            return Err(SqlError::new(
                SqlState::UNDEFINED_PARAMETER,
                format!("there is no parameter ${}", parameter + 1),
            ));
        }
        let column = &parent.columns[column];
        let bound = self.assign(bound, column).map_err(|error| {
            match error.sqlstate() == SqlState::DATATYPE_MISMATCH {
                true => type_mismatch(format!(
                    "specified value cannot be cast to type {} for column \"{}\"",
                    column.ty.kind, column.name
                )),
                false => error,
            }
        })?;
        eval(&bound, &[], &[], self.cx)
    }

    /// Binds ATTACH PARTITION and DETACH PARTITION.
    pub(in super::super) fn alter_partition(
        &mut self,
        syntax: &PartitionSyntax,
    ) -> Result<Statement, SqlError> {
        let (schema, name) = &syntax.parent;
        if syntax.of_index {
            return self.attach_index(syntax);
        }
        let parent = match self.catalog.table(schema.as_deref(), name)? {
            None if syntax.if_exists => {
                return Ok(Statement::AlterTable(AlterTable {
                    later: Vec::new(),
                    materialized: false,
                    table: None,
                    name: name.clone(),
                    only: false,
                    actions: Vec::new(),
                }));
            }
            _ => self.table_called(schema.as_deref(), name)?,
        };
        if !parent.is_parent() {
            return Err(wrong(format!(
                "table \"{}\" is not partitioned",
                parent.name
            )));
        }
        let (schema, name) = &syntax.partition;
        let partition = self.table_called(schema.as_deref(), name)?;
        let action = match &syntax.change {
            PartitionChange::Detach => {
                let of = partition.partition_of_table();
                if of.is_none_or(|of| of.parent != parent.id) {
                    return Err(SqlError::new(
                        SqlState::UNDEFINED_TABLE,
                        format!(
                            "relation \"{}\" is not a partition of relation \"{}\"",
                            partition.name, parent.name
                        ),
                    ));
                }
                AlterAction::DetachPartition(partition)
            }
            PartitionChange::Attach(bound) => {
                self.check_attachable(&parent, &partition)?;
                let Some(bound) = bound else {
                    return Err(SqlError::internal("a partition without its bound"));
                };
                let bound = self.partition_bound(&parent, &partition.name, bound)?;
                AlterAction::AttachPartition(NewPartition {
                    parent: partition,
                    bound,
                })
            }
        };
        Ok(Statement::AlterTable(AlterTable {
            later: Vec::new(),
            materialized: false,
            name: parent.name.clone(),
            table: Some(parent),
            only: false,
            actions: vec![action],
        }))
    }

    fn check_attachable(&self, parent: &TableDef, partition: &TableDef) -> Result<(), SqlError> {
        let name = &partition.name;
        if partition.partition_of_table().is_some() {
            return Err(SqlError::new(
                SqlState::WRONG_OBJECT_TYPE,
                format!("\"{name}\" is already a partition"),
            ));
        }
        let mut above = Some(parent.id);
        while let Some(id) = above {
            if id == partition.id {
                return Err(SqlError::new(
                    SqlState::DUPLICATE_TABLE,
                    "circular inheritance not allowed",
                )
                .detail(format!(
                    "\"{}\" is already a child of \"{name}\".",
                    parent.name
                )));
            }
            let table = self.catalog.table_by_id(id)?;
            above = table.and_then(|t| t.partition_of_table().map(|of| of.parent));
        }
        if partition.partitioning.is_some() {
            return Err(SqlError::unsupported(
                "ATTACH PARTITION of a table that is spread over machines",
            ));
        }
        let sees = |def: &&TriggerDef| def.row && def.sees_rows();
        if let Some(trigger) = partition.rules.triggers.iter().find(sees) {
            let message = format!(
                "trigger \"{}\" prevents table \"{name}\" from becoming a partition",
                trigger.name
            );
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message)
                .detail("ROW triggers with transition tables are not supported on partitions."));
        }
        let extra = partition.columns.iter();
        if let Some(extra) = extra.into_iter().find(|c| parent.column(&c.name).is_none()) {
            return Err(type_mismatch(format!(
                "table \"{name}\" contains column \"{}\" not found in parent \"{}\"",
                extra.name, parent.name
            ))
            .detail("The new partition may contain only the columns present in parent."));
        }
        for column in &parent.columns {
            let Some(at) = partition.column(&column.name) else {
                return Err(type_mismatch(format!(
                    "child table is missing column \"{}\"",
                    column.name
                )));
            };
            let own = &partition.columns[at];
            if own.ty != column.ty {
                return Err(type_mismatch(format!(
                    "child table \"{name}\" has different type for column \"{}\"",
                    column.name
                )));
            }
            if column.not_null && !own.not_null {
                return Err(type_mismatch(format!(
                    "column \"{}\" in child table must be marked NOT NULL",
                    column.name
                )));
            }
            if own.attnum != column.attnum {
                return Err(SqlError::unsupported(
                    "ATTACH PARTITION of a table with its columns in another order",
                ));
            }
            if own.more.generated != column.more.generated {
                return Err(SqlError::unsupported(
                    "ATTACH PARTITION of a table with other generated columns",
                ));
            }
        }
        let mut own = partition.rules.checks.iter();
        for check in &parent.rules.checks {
            let message = match own.find(|own| own.name == check.name) {
                Some(own) if own.text == check.text => continue,
                Some(_) => format!(
                    "child table \"{name}\" has different definition for check constraint \"{}\"",
                    check.name
                ),
                None => format!("child table is missing constraint \"{}\"", check.name),
            };
            return Err(type_mismatch(message));
        }
        Ok(())
    }

    /// Binds ALTER INDEX … ATTACH PARTITION.
    fn attach_index(&mut self, syntax: &PartitionSyntax) -> Result<Statement, SqlError> {
        let find = |(schema, name): &(Option<String>, String)| {
            let found = self.catalog.table_of_index(schema.as_deref(), name)?;
            found.ok_or_else(|| names::no_relation(schema.as_deref(), name))
        };
        let table = find(&syntax.parent)?;
        let partition = find(&syntax.partition)?;
        let (index, of_partition) = (syntax.parent.1.clone(), syntax.partition.1.clone());
        if !matches!(syntax.change, PartitionChange::Attach(None)) {
            return Err(SqlError::new(
                SqlState::SYNTAX_ERROR,
                "an index has no partitions of its own",
            ));
        }
        let refused = |detail: String| {
            SqlError::new(
                SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
                format!(
                    "cannot attach index \"{of_partition}\" as a partition of index \"{index}\""
                ),
            )
            .detail(detail)
        };
        let parent = partition.partition_of_table().map(|of| of.parent);
        if parent != Some(table.id) {
            return Err(refused(format!(
                "Index \"{of_partition}\" is not an index on any partition of table \"{}\".",
                table.name
            )));
        }
        let same = match (table.index(&index), partition.index(&of_partition)) {
            (Some(of), Some(own)) => own.can_be_part_of(of),
            _ => false,
        };
        if !same {
            return Err(refused("The index definitions do not match.".to_owned()));
        }
        Ok(Statement::AlterTable(AlterTable {
            later: Vec::new(),
            materialized: false,
            name: table.name.clone(),
            table: Some(table),
            only: false,
            actions: vec![AlterAction::AttachIndex {
                index,
                partition,
                of_partition,
            }],
        }))
    }
}

/// Returns the first parameter that an expression reads.
fn parameter_in(expr: &Expr) -> Option<usize> {
    if let Node::Param(parameter) = expr.node {
        return Some(parameter);
    }
    let mut found = None;
    expr.for_each_part(|part| found = found.or_else(|| parameter_in(part)));
    found
}

fn hash_bound(level: &Level, modulus: u64, remainder: u64) -> Result<Bound, SqlError> {
    if modulus == 0 {
        return Err(wrong_table(
            "modulus for hash partition must be an integer value greater than zero",
        ));
    }
    if remainder >= modulus {
        return Err(wrong_table(
            "remainder for hash partition must be less than modulus",
        ));
    }
    let (Ok(modulus), Ok(remainder)) = (u32::try_from(modulus), u32::try_from(remainder)) else {
        return Err(SqlError::new(
            SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
            "value out of range for a hash partition",
        ));
    };
    let of = |member: &Member| match member.bound {
        Bound::Hash { modulus, .. } => Some((modulus, member.name.clone())),
        _ => None,
    };
    let mut all: Vec<_> = level.members.iter().filter_map(of).collect();
    all.order_by(Ord::cmp);
    let factors = "every hash partition modulus must be a factor of the next larger modulus";
    if let Some((below, name)) = all.iter().rfind(|(other, _)| *other <= modulus)
        && modulus % below != 0
    {
        return Err(wrong(factors).detail(format!(
            "The new modulus {modulus} is not divisible by {below}, the modulus of existing \
             partition \"{name}\"."
        )));
    }
    if let Some((above, name)) = all.iter().find(|(other, _)| *other > modulus)
        && above % modulus != 0
    {
        return Err(wrong(factors).detail(format!(
            "The new modulus {modulus} is not a factor of {above}, the modulus of existing \
             partition \"{name}\"."
        )));
    }
    Ok(Bound::Hash { modulus, remainder })
}

/// Returns the error 42P17 with this message.
fn wrong(message: impl Into<String>) -> SqlError {
    SqlError::new(SqlState::INVALID_OBJECT_DEFINITION, message)
}

/// Returns the error 42P16 with this message.
fn wrong_table(message: impl Into<String>) -> SqlError {
    SqlError::new(SqlState::INVALID_TABLE_DEFINITION, message)
}

/// Returns the error 42804 with this message.
fn type_mismatch(message: impl Into<String>) -> SqlError {
    SqlError::new(SqlState::DATATYPE_MISMATCH, message)
}

/// Checks that a key contains every column that determines the partition of a row, or the machine
/// that stores it; 0A000 otherwise.
pub(super) fn check_key(table: &TableDef, columns: &[usize], what: &str) -> Result<(), SqlError> {
    let spread = table.partitioning.as_ref().map(|by| by.column);
    let mut needed = table.routing_columns().iter().copied().chain(spread);
    match needed.find(|column| !columns.contains(column)) {
        None => Ok(()),
        Some(column) => {
            let column = &table.columns[column].name;
            Err(lacks_column(what, &table.name, column))
        }
    }
}
