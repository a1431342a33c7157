//! The contents of a database: copied to another database, or dropped.

use std::sync::Arc;

use fencepost_sql::bound::RowRules;
use fencepost_sql::catalog::{
    DatabaseDef, Guards, PUBLIC_SCHEMA, Roots, RoutineDef, SequenceDef, TableDef, TypeDef, ViewDef,
};
use fencepost_sql::pg_catalog::{PUBLIC_NAMESPACE, class};
use fencepost_sql::row::RowLayout;
use fencepost_sql::stop::StatementStop;
use fencepost_sql::value::Value;

use super::super::DdlCx;
use super::super::build_index::RowWalk;
use crate::exec::Cx;
use crate::index;
use crate::place::PartitionPlacement;
use crate::plan::TablePlan;
use crate::reclaim::drop_storage;
use crate::store::read_row;
use crate::write::{RowWriter, Yield};

/// Copies all contents of `from` to `to`, which is new.
pub async fn copy(
    from: &DatabaseDef,
    to: &DatabaseDef,
    version: u64,
    cx: &mut Cx<'_>,
    ddl: &DdlCx<'_>,
) -> Result<(), StatementStop> {
    let from = ddl.catalog.of(from);
    let all = from.snapshot(cx.tx).await?;
    let ranges = from.ranges();
    let to = ddl.catalog.of(to);
    for (name, id) in all.schemas() {
        to.insert_schema(cx.tx, id, &name).await?;
    }
    if !all.has_first_public() {
        to.insert_schema(cx.tx, PUBLIC_NAMESPACE, PUBLIC_SCHEMA)
            .await?;
    }
    for ty in all.types().all() {
        let guards = Guards::create(cx.tx, ty.id, version).await?;
        let ty = TypeDef {
            version,
            guards,
            ..TypeDef::clone(&ty)
        };
        to.insert_type(cx.tx, &ty).await?;
    }
    for routine in all.all_routines() {
        let guards = Guards::create(cx.tx, routine.id, version).await?;
        let routine = RoutineDef {
            version,
            guards,
            ..RoutineDef::clone(&routine)
        };
        to.insert_routine(cx.tx, &routine).await?;
    }
    let own = all.extensions().iter().filter(|of| !of.is_built_in());
    for extension in own {
        to.insert_extension(cx.tx, extension).await?;
    }
    for sequence in all.sequences() {
        let mut sequence = SequenceDef::clone(sequence);
        sequence.copy_cell(cx.tx, &ranges).await?;
        to.insert_sequence(cx.tx, &sequence).await?;
    }
    for table in all.tables() {
        let table = copy_table(&table, version, cx).await?;
        to.insert_table(cx.tx, &table).await?;
    }
    for view in all.views() {
        let view = ViewDef {
            version,
            guards: Guards::create(cx.tx, view.id, version).await?,
            ..ViewDef::clone(view)
        };
        to.insert_view(cx.tx, &view).await?;
    }
    let abouts = all.security().abouts().into_iter();
    for about in abouts.filter(|about| !matches!(about.class, class::DATABASE | class::ROLE)) {
        to.replace_about(cx.tx, None, &about).await?;
    }
    for of in all.security().defaults() {
        to.replace_default_acl(cx.tx, (false, of), false).await?;
    }
    Ok(())
}

/// Copies a table with its rows and indexes.
async fn copy_table(
    old: &TableDef,
    version: u64,
    cx: &mut Cx<'_>,
) -> Result<TableDef, StatementStop> {
    let mut new = TableDef {
        version,
        guards: Guards::create(cx.tx, old.id, version).await?,
        ..old.clone()
    };
    if new.is_parent() {
        // A partitioned table has no rows and trees of its own; its leaves have them.
        let indexes = new.indexes.iter_mut();
        indexes.for_each(|index| index.roots = Roots::Each([].into()));
        return Ok(new);
    }
    let places = PartitionPlacement::with(old);
    for position in 0..new.indexes.len() {
        let roots = index::create(cx.tx, &new, &new.indexes[position], &places).await?;
        new.indexes[position].roots = roots;
    }
    for column in &mut new.columns {
        column.more.missing = None;
    }
    let plan = TablePlan::written(&Arc::new(new.clone()), RowRules::default());
    let layout = RowLayout::new(&old.columns);
    let mut writer = RowWriter::of_many();
    let mut walk = RowWalk::new(old);
    let mut words = Vec::new();
    let mut row = vec![Value::Null; layout.width()];
    while let Some(place) = walk.next(cx).await? {
        if read_row(cx.tx, place.addr, &mut words).await? {
            layout.decode(&words, &mut row)?;
            writer.insert(cx, &plan, &row, Yield::Never).await?;
        }
    }
    writer.finish(cx, &plan).await?;
    Ok(new)
}

/// Drops all contents of a database, and removes the database.
pub async fn free(
    database: &DatabaseDef,
    cx: &mut Cx<'_>,
    ddl: &DdlCx<'_>,
) -> Result<(), StatementStop> {
    let catalog = ddl.catalog.of(database);
    let all = catalog.snapshot(cx.tx).await?;
    for table in all.tables() {
        if !table.is_parent() {
            drop_storage(cx.tx, catalog.reclaim_list(), &table).await?;
        }
        catalog.remove_table(cx.tx, &table).await?;
    }
    for sequence in all.sequences() {
        sequence.free_cell(cx.tx).await?;
        catalog.remove_sequence(cx.tx, sequence).await?;
    }
    for routine in all.all_routines() {
        catalog.remove_routine(cx.tx, &routine).await?;
    }
    for view in all.views() {
        catalog.remove_view(cx.tx, view).await?;
    }
    for extension in all.extensions().iter().filter(|of| !of.is_built_in()) {
        catalog.remove_extension(cx.tx, extension.id).await?;
    }
    for ty in all.types().all() {
        catalog.remove_type(cx.tx, &ty).await?;
    }
    catalog.remove_database(cx.tx).await
}
