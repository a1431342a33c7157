//! CREATE, ALTER and DROP SEQUENCE, and the sequences of SERIAL and IDENTITY columns.

use fencepost_sql::binder::ObjectRename;
use fencepost_sql::bound::{
    AlterSequence, CreateSequence, DropSequence, NewSequence, SequenceOptions,
};
use fencepost_sql::catalog::{
    CatalogView, Object, ObjectKind, PUBLIC_SCHEMA, SequenceDef, SequenceState, TableDef,
};
use fencepost_sql::error::{SqlError, SqlState};
use fencepost_sql::parser::quoted;
use fencepost_sql::stop::StatementStop;
use fencepost_sql::types::TypeKind;

use super::authorize::Authorizer;
use super::cascades::tell;
use super::changes::Changes;
use super::create::exists;
use super::follow::rename_in_views;
use super::names::choose_name;
use super::ownership::{claim, claim_for};
use super::{DdlCx, Notice};
use crate::exec::Cx;

/// Runs CREATE SEQUENCE. Returns the command tag.
pub async fn create_sequence(
    statement: &CreateSequence,
    cx: &mut Cx<'_>,
    ddl: &mut DdlCx<'_>,
) -> Result<&'static str, StatementStop> {
    const TAG: &str = "CREATE SEQUENCE";
    let schema = statement.schema.as_deref().unwrap_or(PUBLIC_SCHEMA);
    if ddl.snapshot.relation_exists(schema, &statement.name) {
        exists(&statement.name, statement.if_not_exists, ddl)?;
        return Ok(TAG);
    }
    let mut changes = Changes::begin(cx, ddl).await?;
    let mut sequence = fresh(cx, ddl, (schema, &statement.name)).await?;
    apply(&mut sequence, &statement.options, true)?;
    sequence.create_cell(cx.tx).await?;
    own(&mut sequence, &statement.options, cx, ddl, &mut changes).await?;
    ddl.catalog.insert_sequence(cx.tx, &sequence).await?;
    let object = Object::new(ObjectKind::Sequence, sequence.id);
    claim(object, &sequence.schema, cx, ddl).await?;
    changes.finish(cx, ddl).await?;
    Ok(TAG)
}

/// Runs ALTER SEQUENCE. Returns the command tag.
pub async fn alter_sequence(
    statement: &AlterSequence,
    cx: &mut Cx<'_>,
    ddl: &mut DdlCx<'_>,
) -> Result<&'static str, StatementStop> {
    let tag = statement.tag();
    let found = ddl
        .snapshot
        .sequence(statement.schema.as_deref(), &statement.name)?;
    let Some(found) = found else {
        let message = format!("relation \"{}\" does not exist", statement.name);
        return match statement.if_exists {
            true => {
                skipping(&message, ddl);
                Ok(tag)
            }
            false => Err(SqlError::new(SqlState::UNDEFINED_TABLE, message).into()),
        };
    };
    let mut changes = Changes::begin(cx, ddl).await?;
    let mut sequence = SequenceDef::clone(&found);
    apply(&mut sequence, &statement.options, false)?;
    if let Some(to) = &statement.rename {
        if ddl.snapshot.relation_exists(&sequence.schema, to) {
            exists(to, false, ddl)?;
        }
        sequence.name.clone_from(to);
        rename_defaults(&found, &sequence, cx, ddl, &mut changes).await?;
        let renaming = ObjectRename::Relation {
            id: found.id,
            to: to.clone(),
        };
        rename_in_views((&renaming, &found.name), cx, ddl, &mut changes).await?;
    }
    own(&mut sequence, &statement.options, cx, ddl, &mut changes).await?;
    let restart = statement.options.restart;
    let restart = restart.map(|at| at.unwrap_or(sequence.start));
    if restart.is_some() || !sequence.has_values_of(&found) {
        write_cell(&sequence, restart, cx).await?;
    }
    ddl.catalog.remove_sequence(cx.tx, &found).await?;
    ddl.catalog.insert_sequence(cx.tx, &sequence).await?;
    changes.finish(cx, ddl).await?;
    Ok(tag)
}

/// Runs DROP SEQUENCE. Returns the command tag.
pub async fn drop_sequence(
    statement: &DropSequence,
    cx: &mut Cx<'_>,
    ddl: &mut DdlCx<'_>,
) -> Result<&'static str, StatementStop> {
    const TAG: &str = "DROP SEQUENCE";
    let mut changes = Changes::begin(cx, ddl).await?;
    for (schema, name) in &statement.names {
        let Some(sequence) = ddl.snapshot.sequence(schema.as_deref(), name)? else {
            let message = format!("sequence \"{name}\" does not exist");
            match statement.if_exists {
                true => skipping(&message, ddl),
                false => return Err(SqlError::new(SqlState::UNDEFINED_TABLE, message).into()),
            }
            continue;
        };
        let dropped = (&*sequence, statement.cascade);
        drop_defaults(dropped, &[], cx, ddl, &mut changes).await?;
        remove(&sequence, cx, ddl).await?;
    }
    changes.finish(cx, ddl).await?;
    Ok(TAG)
}

/// Drops the defaults that use a dropped sequence, except those of tables in `already_dropped`.
/// Without `cascade`, such defaults are an error.
pub async fn drop_defaults(
    (sequence, cascade): (&SequenceDef, bool),
    already_dropped: &[u32],
    cx: &mut Cx<'_>,
    ddl: &mut DdlCx<'_>,
    changes: &mut Changes,
) -> Result<(), StatementStop> {
    let mut tables = ddl.snapshot.tables();
    tables.retain(|table| !already_dropped.contains(&table.id));
    for table in tables {
        for (position, column) in table.columns.iter().enumerate() {
            if !calls(column.default.as_deref(), sequence) {
                continue;
            }
            if column.more.identity.is_some() {
                return Err(needed_by_identity(sequence, &table, &column.name).into());
            }
            if !cascade {
                return Err(needed_by_default(sequence, &table, &column.name).into());
            }
            let (column, of) = (&column.name, &table.name);
            tell(
                format_args!("default value for column {column} of table {of}"),
                ddl,
            );
            let table = changes.take(cx, &table).await?;
            table.columns[position].default = None;
            table.columns[position].more.sequence = None;
        }
    }
    Ok(())
}

/// Creates the sequence of a new SERIAL or IDENTITY column of `table`.
pub async fn add_for_column(
    new: &NewSequence,
    table: &mut TableDef,
    cx: &mut Cx<'_>,
    ddl: &mut DdlCx<'_>,
) -> Result<SequenceDef, StatementStop> {
    let column = table.columns[new.column].name.clone();
    let name = match &new.options.name {
        Some(name) if ddl.snapshot.relation_exists(&table.schema, name) => {
            exists(name, false, ddl)?;
            name.clone()
        }
        Some(name) => name.clone(),
        None => {
            let columns = [column.as_str()];
            choose_name(ddl.snapshot, table, &columns, "seq")
        }
    };
    let mut sequence = fresh(cx, ddl, (&table.schema, &name)).await?;
    apply(&mut sequence, &new.options, true)?;
    sequence.owner = Some(table.id);
    sequence.create_cell(cx.tx).await?;
    let column = &mut table.columns[new.column];
    column.more.sequence = Some(sequence.id);
    column.default = Some(call(&sequence));
    ddl.catalog.insert_sequence(cx.tx, &sequence).await?;
    let object = Object::new(ObjectKind::Sequence, sequence.id);
    let of_table = Object::new(ObjectKind::Table, table.id);
    let owner = match ddl.snapshot.table_by_id(table.id)? {
        Some(_) => ddl.snapshot.security().owner(of_table),
        None => Authorizer::of(cx, ddl)?.role,
    };
    claim_for(owner, object, &sequence.schema, cx, ddl).await?;
    Ok(sequence)
}

/// Drops the sequences that columns own.
pub async fn drop_owned(
    ids: impl Iterator<Item = u32>,
    cx: &mut Cx<'_>,
    ddl: &mut DdlCx<'_>,
) -> Result<(), StatementStop> {
    for id in ids {
        if let Some(sequence) = ddl.snapshot.sequence_by_id(id)? {
            remove(&sequence, cx, ddl).await?;
        }
    }
    Ok(())
}

/// Restarts the sequences that columns own.
pub async fn restart_owned(
    ids: impl Iterator<Item = u32>,
    cx: &mut Cx<'_>,
    ddl: &mut DdlCx<'_>,
) -> Result<(), StatementStop> {
    for id in ids {
        if let Some(sequence) = ddl.snapshot.sequence_by_id(id)? {
            write_cell(&sequence, Some(sequence.start), cx).await?;
        }
    }
    Ok(())
}

/// Writes the restart value to the cell of a sequence, or the last value that was returned. The
/// values that machines have reserved become void. A concurrent reservation conflicts, because it
/// writes the cell, too.
async fn write_cell(
    sequence: &SequenceDef,
    restart: Option<i64>,
    cx: &mut Cx<'_>,
) -> Result<(), StatementStop> {
    let _lock = cx.eval.sequences.lock(sequence.id).await;
    let given = cx.eval.sequences.alter(sequence.id);
    let Some((cell, taker)) = sequence.read(cx.tx).await? else {
        return Err(SqlError::internal("the sequence is gone").into());
    };
    let given = given.filter(|_| taker == Some(cx.tx.machine().number()));
    let reached = match restart {
        Some(value) => SequenceState {
            value,
            was_given: false,
        },
        None => given.unwrap_or(cell),
    };
    check_restart(sequence, reached.value)?;
    sequence.set(cx.tx, reached).await?;
    Ok(())
}

/// Removes a sequence, and the values that this machine has reserved.
pub async fn remove(
    sequence: &SequenceDef,
    cx: &mut Cx<'_>,
    ddl: &mut DdlCx<'_>,
) -> Result<(), StatementStop> {
    let _lock = cx.eval.sequences.lock(sequence.id).await;
    cx.eval.sequences.alter(sequence.id);
    sequence.free_cell(cx.tx).await?;
    ddl.catalog.remove_sequence(cx.tx, sequence).await
}

async fn fresh(
    cx: &mut Cx<'_>,
    ddl: &DdlCx<'_>,
    (schema, name): (&str, &str),
) -> Result<SequenceDef, StatementStop> {
    Ok(SequenceDef {
        id: ddl.catalog.next_oid(cx.tx).await?,
        schema: schema.to_owned(),
        name: name.to_owned(),
        kind: TypeKind::Int8,
        start: 1,
        increment: 1,
        min: 1,
        max: i64::MAX,
        cache: 1,
        cycle: false,
        owner: None,
        cell: 0,
    })
}

/// Applies the options of a statement to a sequence, and the defaults of the other options.
fn apply(sequence: &mut SequenceDef, said: &SequenceOptions, new: bool) -> Result<(), SqlError> {
    let invalid = |message: String| SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message);
    let (least, greatest) = limits(sequence.kind);
    if let Some(kind) = said.kind {
        let (was_least, was_greatest) = (sequence.min == least, sequence.max == greatest);
        sequence.kind = kind;
        if was_greatest && !new {
            sequence.max = limits(kind).1;
        }
        if was_least && !new {
            sequence.min = limits(kind).0;
        }
    }
    let (least, greatest) = limits(sequence.kind);
    sequence.increment = said.increment.unwrap_or(sequence.increment);
    if sequence.increment == 0 {
        return Err(invalid("INCREMENT must not be zero".to_owned()));
    }
    let up = sequence.increment > 0;
    match said.max {
        Some(Some(max)) => sequence.max = max,
        None if !new => {}
        _ => sequence.max = if up { greatest } else { -1 },
    }
    match said.min {
        Some(Some(min)) => sequence.min = min,
        None if !new => {}
        _ => sequence.min = if up { 1 } else { least },
    }
    for (what, value) in [("MAXVALUE", sequence.max), ("MINVALUE", sequence.min)] {
        if value < least || value > greatest {
            return Err(invalid(format!(
                "{what} ({value}) is out of range for sequence data type {}",
                sequence.kind
            )));
        }
    }
    if sequence.min >= sequence.max {
        return Err(invalid(format!(
            "MINVALUE ({}) must be less than MAXVALUE ({})",
            sequence.min, sequence.max
        )));
    }
    let default_start = if up { sequence.min } else { sequence.max };
    sequence.start = match said.start {
        Some(start) => start,
        None if new => default_start,
        None => sequence.start,
    };
    check_within(sequence, "START", sequence.start)?;
    sequence.cache = said.cache.unwrap_or(sequence.cache);
    if sequence.cache <= 0 {
        return Err(invalid(format!(
            "CACHE ({}) must be greater than zero",
            sequence.cache
        )));
    }
    sequence.cycle = said.cycle.unwrap_or(sequence.cycle);
    Ok(())
}

fn check_restart(sequence: &SequenceDef, at: i64) -> Result<(), SqlError> {
    check_within(sequence, "RESTART", at)
}

fn check_within(sequence: &SequenceDef, what: &str, value: i64) -> Result<(), SqlError> {
    let (min, max) = (sequence.min, sequence.max);
    let message = if value < min {
        format!("{what} value ({value}) cannot be less than MINVALUE ({min})")
    } else if value > max {
        format!("{what} value ({value}) cannot be greater than MAXVALUE ({max})")
    } else {
        return Ok(());
    };
    Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message))
}

fn limits(kind: TypeKind) -> (i64, i64) {
    match kind {
        TypeKind::Int2 => (i64::from(i16::MIN), i64::from(i16::MAX)),
        TypeKind::Int4 => (i64::from(i32::MIN), i64::from(i32::MAX)),
        _ => (i64::MIN, i64::MAX),
    }
}

/// Applies OWNED BY: records the sequence in the column, and the table in the sequence.
async fn own(
    sequence: &mut SequenceDef,
    said: &SequenceOptions,
    cx: &mut Cx<'_>,
    ddl: &DdlCx<'_>,
    changes: &mut Changes,
) -> Result<(), StatementStop> {
    let Some(owner) = &said.owner else {
        return Ok(());
    };
    if let Some(before) = sequence.owner.take() {
        let table = changes.by_id(cx, ddl, before).await?;
        for column in &mut table.columns {
            if column.more.sequence == Some(sequence.id) {
                column.more.sequence = None;
            }
        }
    }
    let Some((schema, table, column)) = owner else {
        return Ok(());
    };
    let Some(found) = ddl.snapshot.table(schema.as_deref(), table)? else {
        let message = format!("relation \"{table}\" does not exist");
        return Err(SqlError::new(SqlState::UNDEFINED_TABLE, message).into());
    };
    let Some(position) = found.column(column) else {
        let message = format!("column \"{column}\" of relation \"{table}\" does not exist");
        return Err(SqlError::new(SqlState::UNDEFINED_COLUMN, message).into());
    };
    let table = changes.take(cx, &found).await?;
    table.columns[position].more.sequence = Some(sequence.id);
    sequence.owner = Some(found.id);
    Ok(())
}

/// Returns the default expression that takes the next value.
fn call(sequence: &SequenceDef) -> String {
    let mut name = quoted(&sequence.name);
    if sequence.schema != PUBLIC_SCHEMA {
        name = format!("{}.{name}", quoted(&sequence.schema));
    }
    let name = name.replace('\'', "''");
    format!("nextval('{name}'::regclass)")
}

/// Returns whether a default uses the sequence.
fn calls(default: Option<&str>, sequence: &SequenceDef) -> bool {
    let Some(text) = default else {
        return false;
    };
    let plain = |text: &str| -> String {
        let kept = text.chars().filter(|c| !c.is_whitespace() && *c != '"');
        kept.collect::<String>().to_lowercase()
    };
    let name = sequence.name.to_lowercase();
    let text = plain(text);
    let schema = sequence.schema.to_lowercase();
    (schema == PUBLIC_SCHEMA && text.contains(&format!("nextval('{name}'")))
        || text.contains(&format!("nextval('{schema}.{name}'"))
}

/// Renames a sequence in the defaults that use it.
pub async fn rename_defaults(
    old: &SequenceDef,
    new: &SequenceDef,
    cx: &mut Cx<'_>,
    ddl: &DdlCx<'_>,
    changes: &mut Changes,
) -> Result<(), StatementStop> {
    for table in ddl.snapshot.tables() {
        for (position, column) in table.columns.iter().enumerate() {
            if calls(column.default.as_deref(), old) {
                let table = changes.take(cx, &table).await?;
                table.columns[position].default = Some(call(new));
            }
        }
    }
    Ok(())
}

fn skipping(message: &str, ddl: &mut DdlCx<'_>) {
    let message = format!("{message}, skipping");
    let notice = Notice::new(SqlState::SUCCESSFUL_COMPLETION, message);
    ddl.notices.push(notice);
}

fn needed_by_default(sequence: &SequenceDef, table: &TableDef, column: &str) -> SqlError {
    SqlError::new(
        SqlState::DEPENDENT_OBJECTS,
        format!(
            "cannot drop sequence {} because other objects depend on it",
            sequence.name
        ),
    )
    .detail(format!(
        "default value for column {column} of table {} depends on sequence {}",
        table.name, sequence.name
    ))
    .hint("Use DROP ... CASCADE to drop the dependent objects too.")
}

fn needed_by_identity(sequence: &SequenceDef, table: &TableDef, column: &str) -> SqlError {
    let column = format!("column {column} of table {}", table.name);
    SqlError::new(
        SqlState::DEPENDENT_OBJECTS,
        format!(
            "cannot drop sequence {} because {column} requires it",
            sequence.name
        ),
    )
    .hint(format!("You can drop {column} instead."))
}
