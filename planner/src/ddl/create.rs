//! CREATE TABLE, CREATE INDEX.

use std::sync::Arc;

use fencepost_sql::bound::{
    CreateIndex, CreateTable, Expr, Insert, InsertSource, Integrity, KeyConstraint, Select,
    Statement,
};
use fencepost_sql::catalog::{
    Guards, HierarchyPosition, IndexColumn, IndexDef, IndexKind, IndexMore, Object, ObjectKind,
    PartitionOf, Partitioning, Roots, TableDef, TableRules,
};
use fencepost_sql::error::{SqlError, SqlState};
use fencepost_sql::stop::StatementStop;
use fencepost_sql::types::TypeKind;

use super::build_index::build;
use super::changes::Changes;
use super::materialized::run_now;
use super::names::choose_name;
use super::ownership::claim;
use super::partition_hierarchy::{check_default, inherit, inherit_index};
use super::rules::{add_check, add_foreign_key, constraint_name};
use super::sequence::add_for_column;
use super::type_names::check_not_type;
use super::{DdlCx, Notice};
use crate::exec::Cx;
use crate::index::create;
use crate::place::PartitionPlacement;
use crate::reclaim::drop_index;

/// Runs CREATE TABLE. Returns the command tag.
pub async fn create_table(
    statement: &CreateTable,
    cx: &mut Cx<'_>,
    ddl: &mut DdlCx<'_>,
) -> Result<&'static str, StatementStop> {
    let tag = statement.tag();
    if ddl
        .snapshot
        .relation_exists(&statement.schema, &statement.name)
    {
        exists(&statement.name, statement.if_not_exists, ddl)?;
        return Ok(tag);
    }
    check_not_type(&statement.schema, &statement.name, ddl)?;
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
        hierarchy: hierarchy_of(statement),
        materialized: statement.materialized.clone(),
        rules: TableRules {
            storage: statement.storage.clone(),
            ..TableRules::default()
        },
        version,
        guards: Guards::create(cx.tx, id, version).await?,
    };
    let with = statement.partition_by.as_ref();
    let places = match with.and_then(|by| by.with.as_deref()) {
        Some(with) => PartitionPlacement::with(with),
        None => PartitionPlacement::spread(cx.tx.machine()),
    };
    let key = statement.primary_key.as_ref();
    let keyed_by_tree = statement.index_kind == IndexKind::BTree
        && key.is_some_and(|key| {
            key.deferrable.is_none() && reaches_all(&table, &ascending(&key.columns))
        });
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
    for index in &statement.alike.indexes {
        add_index(cx, ddl, &mut table, index.clone()).await?;
    }
    let comments = statement.alike.comments.iter().cloned();
    let comments = comments.map(|(at, text)| (Some(at), text));
    table.rules.comments.extend(comments);
    for key in &statement.foreign_keys {
        add_foreign_key(cx, ddl, &mut changes, &mut table, (key, false)).await?;
    }
    // The table has no rows, so its constraints are valid.
    table.rules.checks.iter_mut().for_each(|of| of.valid = true);
    let keys = table.rules.foreign_keys.iter_mut();
    keys.for_each(|of| of.valid = true);
    if let Some(new) = &statement.partition_of {
        check_default(cx, &new.parent, &table, &new.bound).await?;
        inherit(cx, ddl, &mut changes, &new.parent, &mut table).await?;
        changes.take(cx, &new.parent).await?;
    }
    ddl.catalog.insert_table(cx.tx, &table).await?;
    let object = Object::new(ObjectKind::Table, table.id);
    claim(object, &table.schema, cx, ddl).await?;
    changes.finish(cx, ddl).await?;
    if let Some(select) = statement.source.as_ref().filter(|_| statement.with_data) {
        ddl.rows = Some(Box::pin(fill(&table, select, cx)).await?);
    }
    Ok(tag)
}

/// Returns the position of a new table in its partition hierarchy; `None` if it is in none.
fn hierarchy_of(statement: &CreateTable) -> Option<Box<HierarchyPosition>> {
    let of = statement.partition_of.as_ref().map(|new| PartitionOf {
        parent: new.parent.id,
        bound: new.bound.clone(),
        links: Vec::new(),
    });
    let key = statement.partition_key.clone();
    (of.is_some() || key.is_some()).then(|| {
        Box::new(HierarchyPosition {
            key,
            of,
            tree: None,
        })
    })
}

/// Inserts the rows of a query into a new table. Returns the number of rows.
pub async fn fill(
    table: &TableDef,
    select: &Select,
    cx: &mut Cx<'_>,
) -> Result<u64, StatementStop> {
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
    run_now(filling, cx).await
}

/// Runs CREATE INDEX. Returns the command tag.
pub async fn create_index(
    statement: &CreateIndex,
    cx: &mut Cx<'_>,
    ddl: &mut DdlCx<'_>,
) -> Result<&'static str, StatementStop> {
    const TAG: &str = "CREATE INDEX";
    if let Some(name) = &statement.name
        && ddl.snapshot.relation_exists(&statement.table.schema, name)
    {
        exists(name, statement.if_not_exists, ddl)?;
        return Ok(TAG);
    }
    let mut changes = Changes::begin(cx, ddl).await?;
    let mut table = changes.take(cx, &statement.table).await?.clone();
    let index = IndexDef {
        id: 0,
        name: statement.name.clone().unwrap_or_default(),
        kind: match statement.unique {
            true => statement.kind,
            // Entries with equal keys differ only in their row addresses, so only an ordered index
            // can find them.
            false => IndexKind::BTree,
        },
        unique: statement.unique,
        primary: false,
        constraint: false,
        columns: statement.columns.clone(),
        more: statement.more.clone(),
        roots: Roots::NONE,
    };
    let index = add_index(cx, ddl, &mut table, index).await?;
    if !statement.only {
        inherit_index(cx, ddl, &mut changes, &table, &index).await?;
    }
    changes.put(table);
    changes.finish(cx, ddl).await?;
    Ok(TAG)
}

/// Adds an index of the shape of `index` to a table, and builds its entries. Chooses a name if it
/// has none.
pub async fn add_index(
    cx: &mut Cx<'_>,
    ddl: &DdlCx<'_>,
    table: &mut TableDef,
    mut index: IndexDef,
) -> Result<IndexDef, StatementStop> {
    index.id = ddl.catalog.next_oid(cx.tx).await?;
    if index.name.is_empty() {
        let keys = index.columns.iter().map(|key| key.column);
        let columns = keys.chain(index.more.include.iter().copied());
        let names: Vec<&str> = columns.map(|at| index.name_of(table, at)).collect();
        index.name = choose_name(ddl.snapshot, table, &names, "idx");
    }
    check_operator_classes(table, &index)?;
    index.roots = build(cx, table, &index).await?;
    table.indexes.push(index.clone());
    Ok(index)
}

/// Checks that the types of the index columns have the operators that the index needs.
///
/// # Errors
/// 42704 for a type without an order, or without equality if a hash index needs only that.
pub fn check_operator_classes(table: &TableDef, index: &IndexDef) -> Result<(), SqlError> {
    let mut types = index
        .columns
        .iter()
        .map(|key| index.type_of(table, key.column).kind);
    let (method, lacks): (_, fn(&TypeKind) -> bool) = match index.kind {
        IndexKind::BTree => ("btree", |kind| !kind.has_order()),
        IndexKind::Hash => ("hash", |kind| !kind.has_equality()),
    };
    match types.find(lacks) {
        None => Ok(()),
        Some(kind) => Err(SqlError::new(
            SqlState::UNDEFINED_OBJECT,
            format!(
                "data type {kind} has no default operator class for access method \
                 \"{method}\""
            ),
        )
        .hint(
            "You must specify an operator class for the index or define a default operator \
             class for the data type.",
        )),
    }
}

/// Creates the hidden index over row addresses of a table without another index that reaches all
/// rows.
pub async fn hidden_index(
    cx: &mut Cx<'_>,
    ddl: &mut DdlCx<'_>,
    table: &TableDef,
    places: &PartitionPlacement,
) -> Result<IndexDef, StatementStop> {
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

/// Adds the index of a UNIQUE constraint, or of a PRIMARY KEY (`primary`: its index kind). `empty`
/// is the placement of the partitions if the table has no rows.
pub async fn add_constraint(
    cx: &mut Cx<'_>,
    ddl: &mut DdlCx<'_>,
    table: &mut TableDef,
    key: &KeyConstraint,
    primary: Option<IndexKind>,
    empty: Option<&PartitionPlacement>,
) -> Result<(), StatementStop> {
    if key.deferrable.is_some() && primary == Some(IndexKind::Hash) {
        return Err(SqlError::unsupported("a DEFERRABLE key kept by a hash table").into());
    }
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
        None => {
            let columns = [&key.columns[..], &key.include].concat();
            index_name(ddl, table, &columns, "key")
        }
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
        unique: key.deferrable.is_none(),
        primary: primary.is_some(),
        constraint: true,
        columns: ascending(&key.columns),
        more: IndexMore {
            deferrable: key.deferrable,
            nulls_equal: key.nulls_equal,
            options: key.options.clone(),
            include: key.include.clone(),
            ..IndexMore::default()
        },
        roots: Roots::NONE,
    };
    check_operator_classes(table, &index)?;
    index.roots = match empty {
        None => build(cx, table, &index).await?,
        Some(places) => create(cx.tx, table, &index, places).await?,
    };
    let takes_over = index.primary && index.unique && reaches_all(table, &index.columns);
    if !takes_over || index.kind == IndexKind::Hash {
        table.indexes.push(index);
        return Ok(());
    }
    // The primary key reaches every row, so the hidden index is not needed any more.
    if let Some(hidden) = table.indexes.first().filter(|i| i.is_hidden()) {
        drop_index(cx.tx, ddl.catalog.reclaim_list(), hidden).await?;
        table.indexes.remove(0);
    }
    table.indexes.insert(0, index);
    Ok(())
}

/// Returns whether the tree of a primary key over `columns` can be the first index (PART-1).
fn reaches_all(table: &TableDef, columns: &[IndexColumn]) -> bool {
    // A partition may lack its part of a partitioned table's key, so each partition has its own
    // first index.
    !table.is_parent() && (table.partitioning.is_none() || table.is_partitioned_by(columns))
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

/// Reports that the relation exists: a notice if `allowed`, otherwise error 42P07.
pub fn exists(name: &str, allowed: bool, ddl: &mut DdlCx<'_>) -> Result<(), SqlError> {
    let message = format!("relation \"{name}\" already exists");
    if !allowed {
        return Err(SqlError::new(SqlState::DUPLICATE_TABLE, message));
    }
    let notice = Notice::new(SqlState::DUPLICATE_TABLE, format!("{message}, skipping"));
    ddl.notices.push(notice);
    Ok(())
}

/// Returns error 42P16.
pub fn multiple_keys(table: &str) -> SqlError {
    SqlError::new(
        SqlState::INVALID_TABLE_DEFINITION,
        format!("multiple primary keys for table \"{table}\" are not allowed"),
    )
}
