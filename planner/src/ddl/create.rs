//! CREATE TABLE, CREATE INDEX.

use std::sync::Arc;

use fencepost_sql::bound::{
    CreateIndex, CreateTable, Expr, Insert, InsertSource, Integrity, KeyConstraint, Select,
    Statement,
};
use fencepost_sql::catalog::{
    Guards, IndexColumn, IndexDef, IndexKind, IndexMore, Partitioning, Roots, TableDef, TableRules,
    guard_table,
};
use fencepost_sql::error::{SqlError, SqlState};
use fencepost_sql::stop::Halt;

use super::build_index::build;
use super::changes::{Changes, check_settled};
use super::names::choose_name;
use super::rules::{add_check, add_foreign_key, constraint_name};
use super::sequence::add_for_column;
use super::{DdlCx, Notice};
use crate::exec::{Batch, Cx, Queries};
use crate::index::{create, drop_index};
use crate::place::Places;
use crate::statement::{Plan, plan};
use crate::write::{Returning, run_insert};

/// CREATE TABLE.
pub async fn create_table(
    statement: &CreateTable,
    cx: &mut Cx<'_>,
    ddl: &mut DdlCx<'_>,
) -> Result<&'static str, Halt> {
    const TAG: &str = "CREATE TABLE";
    if ddl
        .snapshot
        .relation_exists(&statement.schema, &statement.name)
    {
        exists(&statement.name, statement.if_not_exists, ddl)?;
        return Ok(TAG);
    }
    let mut changes = Changes::begin(cx, ddl).await?;
    let version = changes.version;
    let id = ddl.catalog.next_oid(cx.tx).await?;
    let mut table = TableDef {
        id,
        schema: statement.schema.clone(),
        name: statement.name.clone(),
        columns: statement.columns.clone(),
        indexes: Vec::new(),
        partitioning: statement.partition_by.as_ref().map(|by| Partitioning {
            column: by.column,
            kind: statement.columns[by.column].ty.kind,
            count: by.count,
            group: match &by.with {
                Some(with) => with.partitioning.map_or(with.id, |theirs| theirs.group),
                None => id,
            },
        }),
        rules: TableRules::default(),
        version,
        guards: Guards::create(cx.tx, id, version).await?,
    };
    let with = statement.partition_by.as_ref();
    let places = match with.and_then(|by| by.with.as_deref()) {
        Some(with) => Places::with(with),
        None => Places::spread(cx.tx.machine()),
    };
    let key = statement.primary_key.as_ref();
    let keyed_by_tree = statement.index_kind == IndexKind::BTree
        && key.is_some_and(|key| reaches_all(&table, &ascending(&key.columns)));
    if !keyed_by_tree {
        let hidden = hidden_index(cx, ddl, &table, &places).await?;
        table.indexes.push(hidden);
    }
    let empty = Some(&places);
    if let Some(key) = &statement.primary_key {
        add_constraint(cx, ddl, &mut table, key, Some(statement.index_kind), empty).await?;
    }
    for key in &statement.unique {
        add_constraint(cx, ddl, &mut table, key, None, empty).await?;
    }
    for new in &statement.sequences {
        add_for_column(new, &mut table, cx, ddl).await?;
    }
    for check in &statement.checks {
        add_check(cx, ddl, &mut table, check, false).await?;
    }
    for key in &statement.foreign_keys {
        add_foreign_key(cx, ddl, &mut changes, &mut table, (key, false)).await?;
    }
    ddl.catalog.insert_table(cx.tx, &table).await?;
    changes.finish(cx, ddl).await?;
    if let Some(select) = &statement.source {
        ddl.rows = Some(Box::pin(fill(&table, select, cx)).await?);
    }
    Ok(TAG)
}

/// Puts the rows of a query into a new table; how many there are.
async fn fill(table: &TableDef, select: &Select, cx: &mut Cx<'_>) -> Result<u64, Halt> {
    let columns = table.columns.iter().enumerate();
    let row = columns.map(|(slot, column)| Expr::column(column.ty, slot));
    let filling = Statement::Insert(Box::new(Insert {
        table: Arc::new(table.clone()),
        source: InsertSource::Select {
            select: Box::new(select.clone()),
            row: row.collect(),
        },
        on_conflict: None,
        integrity: Integrity::default(),
        returning: Vec::new(),
    }));
    let Ok(Plan::Insert(plan)) = plan(filling) else {
        return Err(SqlError::internal("an INSERT without a plan").into());
    };
    let queries = plan.queries.as_ref();
    cx.queries = queries.map(|queries| Box::new(Queries::new(queries, cx.params)));
    let filled = run_insert(&plan, cx, &mut Returning::Keep(Batch::new(0))).await;
    cx.queries = None;
    filled
}

/// CREATE INDEX.
pub async fn create_index(
    statement: &CreateIndex,
    cx: &mut Cx<'_>,
    ddl: &mut DdlCx<'_>,
) -> Result<&'static str, Halt> {
    const TAG: &str = "CREATE INDEX";
    if let Some(name) = &statement.name
        && ddl.snapshot.relation_exists(&statement.table.schema, name)
    {
        exists(name, statement.if_not_exists, ddl)?;
        return Ok(TAG);
    }
    let mut table = begin_alter(&statement.table, cx, ddl).await?;
    let columns: Vec<usize> = statement.columns.iter().map(|c| c.column).collect();
    let name = match &statement.name {
        Some(name) => name.clone(),
        None => index_name(ddl, &table, &columns, "idx"),
    };
    let mut index = IndexDef {
        id: ddl.catalog.next_oid(cx.tx).await?,
        name,
        kind: statement.kind,
        unique: statement.unique,
        primary: false,
        constraint: false,
        columns: statement.columns.clone(),
        more: statement.more.clone(),
        roots: Roots::NONE,
    };
    if index.kind == IndexKind::Hash && !index.unique {
        // Entries of equal keys differ in their row addresses: only an ordered index finds them.
        index.kind = IndexKind::BTree;
    }
    index.roots = build(cx, &table, &index).await?;
    table.indexes.push(index);
    ddl.catalog.replace_table(cx.tx, &table).await?;
    Ok(TAG)
}

/// The definition of a table that is about to change, with its new version.
pub async fn begin_alter(
    table: &TableDef,
    cx: &mut Cx<'_>,
    ddl: &mut DdlCx<'_>,
) -> Result<TableDef, Halt> {
    let version = ddl
        .catalog
        .begin_change(cx.tx, ddl.snapshot.version())
        .await?;
    if !guard_table(cx.tx, table).await? {
        return Err(Halt::Stale);
    }
    check_settled(cx, table)?;
    Ok(TableDef {
        version,
        ..table.clone()
    })
}

/// The index over row addresses of a table whose rows no other tree reaches.
pub async fn hidden_index(
    cx: &mut Cx<'_>,
    ddl: &mut DdlCx<'_>,
    table: &TableDef,
    places: &Places,
) -> Result<IndexDef, Halt> {
    let mut index = IndexDef {
        id: ddl.catalog.next_oid(cx.tx).await?,
        name: String::new(),
        kind: IndexKind::BTree,
        unique: false,
        primary: false,
        constraint: false,
        columns: Vec::new(),
        more: IndexMore::default(),
        roots: Roots::NONE,
    };
    index.roots = create(cx.tx, table, &index, places).await?;
    Ok(index)
}

/// Adds the index of a PRIMARY KEY (`primary` says of which kind) or UNIQUE constraint. A table that is
/// `empty` has its partitions there.
pub async fn add_constraint(
    cx: &mut Cx<'_>,
    ddl: &mut DdlCx<'_>,
    table: &mut TableDef,
    key: &KeyConstraint,
    primary: Option<IndexKind>,
    empty: Option<&Places>,
) -> Result<(), Halt> {
    let name = match &key.name {
        Some(name) => {
            if table.has_constraint(name) {
                constraint_name(table, Some(name), &[], "")?;
            }
            let taken =
                table.index(name).is_some() || ddl.snapshot.relation_exists(&table.schema, name);
            if taken {
                return Ok(exists(name, false, ddl)?);
            }
            name.clone()
        }
        None if primary.is_some() => index_name(ddl, table, &[], "pkey"),
        None => index_name(ddl, table, &key.columns, "key"),
    };
    if primary.is_some() {
        for column in &key.columns {
            table.columns[*column].not_null = true;
        }
    }
    let mut index = IndexDef {
        id: ddl.catalog.next_oid(cx.tx).await?,
        name,
        kind: primary.unwrap_or(IndexKind::BTree),
        unique: true,
        primary: primary.is_some(),
        constraint: true,
        columns: ascending(&key.columns),
        more: IndexMore::default(),
        roots: Roots::NONE,
    };
    index.roots = match empty {
        None => build(cx, table, &index).await?,
        Some(places) => create(cx.tx, table, &index, places).await?,
    };
    let takes_over = index.primary && reaches_all(table, &index.columns);
    if !takes_over || index.kind == IndexKind::Hash {
        table.indexes.push(index);
        return Ok(());
    }
    // The primary key reaches every row: the hidden index has done its work.
    if let Some(hidden) = table.indexes.first().filter(|i| i.is_hidden()) {
        drop_index(cx.tx, hidden).await?;
        table.indexes.remove(0);
    }
    table.indexes.insert(0, index);
    Ok(())
}

/// Can the tree of a primary key over `columns` be the first index (PART-1)?
fn reaches_all(table: &TableDef, columns: &[IndexColumn]) -> bool {
    table.partitioning.is_none() || table.is_partitioned_by(columns)
}

fn ascending(columns: &[usize]) -> Vec<IndexColumn> {
    let ascending = |column: &usize| IndexColumn {
        column: *column,
        desc: false,
        nulls_first: false,
    };
    columns.iter().map(ascending).collect()
}

fn index_name(ddl: &DdlCx<'_>, table: &TableDef, columns: &[usize], suffix: &str) -> String {
    let names: Vec<&str> = columns
        .iter()
        .map(|c| table.columns[*c].name.as_str())
        .collect();
    choose_name(ddl.snapshot, table, &names, suffix)
}

/// The relation is there: a notice where that is allowed, else 42P07.
pub fn exists(name: &str, allowed: bool, ddl: &mut DdlCx<'_>) -> Result<(), SqlError> {
    let message = format!("relation \"{name}\" already exists");
    if !allowed {
        return Err(SqlError::new(SqlState::DUPLICATE_TABLE, message));
    }
    let notice = Notice::new(SqlState::DUPLICATE_TABLE, format!("{message}, skipping"));
    ddl.notices.push(notice);
    Ok(())
}

/// 42P16
pub fn multiple_keys(table: &str) -> SqlError {
    SqlError::new(
        SqlState::INVALID_TABLE_DEFINITION,
        format!("multiple primary keys for table \"{table}\" are not allowed"),
    )
}
