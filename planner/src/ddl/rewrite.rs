//! Rewrites of a table's rows after a change of its columns.

use std::sync::Arc;

use fencepost_sql::binder::{index_condition, index_expression};
use fencepost_sql::bound::{RowRules, SetType};
use fencepost_sql::catalog::TableDef;
use fencepost_sql::error::SqlError;
use fencepost_sql::row::RowLayout;
use fencepost_sql::stop::StatementStop;
use fencepost_sql::value::Value;

use super::DdlCx;
use super::build_index::RowWalk;
use super::create::check_operator_classes;
use crate::exec::Cx;
use crate::index;
use crate::place::PartitionPlacement;
use crate::plan::TablePlan;
use crate::reclaim::drop_storage;
use crate::store::read_row;
use crate::write::{RowWriter, Yield, generate};

/// A function that converts an old row to a new row.
pub type RowMap<'a> = &'a (dyn Fn(&Cx<'_>, &[Value]) -> Result<Vec<Value>, SqlError> + Sync);

/// Converts each row of `old` with `map`, and inserts it into new trees of `new`, whose roots are
/// ignored. Drops the old trees and rows.
pub async fn rewrite(
    cx: &mut Cx<'_>,
    ddl: &DdlCx<'_>,
    old: &TableDef,
    new: &mut TableDef,
    rules: RowRules,
    map: RowMap<'_>,
) -> Result<(), StatementStop> {
    let places = PartitionPlacement::with(old);
    for position in 0..new.indexes.len() {
        let roots = index::create(cx.tx, new, &new.indexes[position], &places).await?;
        new.indexes[position].roots = roots;
    }
    for column in &mut new.columns {
        column.more.missing = None;
    }
    let plan = TablePlan::written(&Arc::new(new.clone()), rules);
    let layout = RowLayout::new(&old.columns);
    let mut writer = RowWriter::of_many();
    let mut walk = RowWalk::new(old);
    let mut words = Vec::new();
    let mut row = vec![Value::Null; layout.width()];
    while let Some(place) = walk.next(cx).await? {
        if !read_row(cx.tx, place.addr, &mut words).await? {
            continue;
        }
        layout.decode(&words, &mut row)?;
        let mut mapped = cx.in_parts(|cx| map(cx, &row)).await?;
        generate(cx, &plan, &mut mapped).await?;
        writer.insert(cx, &plan, &mapped, Yield::Never).await?;
    }
    writer.finish(cx, &plan).await?;
    drop_storage(cx.tx, ddl.catalog.reclaim_list(), old).await
}

/// Runs ALTER COLUMN … TYPE.
pub async fn set_type(
    set: &SetType,
    cx: &mut Cx<'_>,
    ddl: &DdlCx<'_>,
    table: &mut TableDef,
) -> Result<(), StatementStop> {
    let old = table.clone();
    table.columns[set.column].ty = set.ty;
    table.columns[set.column].more.domain = set.domain;
    table.columns[set.column].more.collation = set.collation;
    if set.relabels {
        return Ok(());
    }
    // Indexed expressions may change their types, too.
    let shape = table.clone();
    for index in &mut table.indexes {
        if let Some(predicate) = &mut index.more.predicate {
            let condition = index_condition(&shape, &predicate.text, ddl.snapshot);
            predicate.condition = condition.map_err(SqlError::without_position)?;
        }
        for expression in &mut index.more.expressions {
            expression.value = index_expression(&shape, &expression.text, ddl.snapshot)?;
        }
    }
    let mut indexes = table.indexes.iter();
    indexes.try_for_each(|index| check_operator_classes(table, index))?;
    let cast = |cx: &Cx<'_>, row: &[Value]| {
        let value = cx.value_here(&set.value, row)?;
        let mut row = row.to_vec();
        row[set.column] = value;
        Ok(row)
    };
    rewrite(cx, ddl, &old, table, set.rules.clone(), &cast).await
}
