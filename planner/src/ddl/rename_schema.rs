//! ALTER SCHEMA … RENAME TO.
//!
//! The objects of the schema get its new name, and texts in the catalog that use the old name are
//! rewritten. The rename is refused if the name in a text may mean another object. It is also
//! refused if the schema has types, because their values refer to it.

use fencepost_sql::bound::RenameSchema;
use fencepost_sql::catalog::{
    CatalogView, PUBLIC_SCHEMA, RoutineDef, SequenceDef, Snapshot, TableDef, ViewDef, temporary,
};
use fencepost_sql::error::{SqlError, SqlState};
use fencepost_sql::parser::{names, with_schema_renamed};
use fencepost_sql::stop::StatementStop;

use super::DdlCx;
use super::changes::Changes;
use super::schema::{DUPLICATE_SCHEMA, check_name};
use super::view::touch;
use crate::exec::Cx;

/// The old and the new name of a schema, and the names of the objects in it.
struct Names<'a> {
    from: &'a str,
    to: &'a str,
    objects: Vec<String>,
}

impl Names<'_> {
    /// Rewrites a text that uses the name. Returns whether it changed.
    fn follow(&self, text: &mut String, of: &str) -> Result<bool, SqlError> {
        if !names(text, self.from) {
            return Ok(false);
        }
        let named = |name: &str| self.objects.iter().any(|object| object == name);
        let renamed = with_schema_renamed(text, (self.from, self.to), &named);
        let lost =
            || SqlError::unsupported(format!("RENAME of a schema that {of} names in this way"));
        let renamed = renamed.ok_or_else(lost)?;
        let changed = renamed != *text;
        *text = renamed;
        Ok(changed)
    }

    /// Returns whether an object's schema is the renamed one.
    fn is_in(&self, schema: &str) -> bool {
        schema == self.from
    }
}

/// Runs ALTER SCHEMA … RENAME TO. Returns the command tag.
pub async fn rename_schema(
    statement: &RenameSchema,
    cx: &mut Cx<'_>,
    ddl: &mut DdlCx<'_>,
) -> Result<&'static str, StatementStop> {
    let (from, to) = (statement.name.as_str(), statement.to.as_str());
    let Some(id) = ddl.snapshot.schema(from) else {
        let message = format!("schema \"{from}\" does not exist");
        return Err(SqlError::new(SqlState::INVALID_SCHEMA_NAME, message).into());
    };
    if ddl.snapshot.schema_exists(to) || to == "information_schema" {
        let message = format!("schema \"{to}\" already exists");
        return Err(SqlError::new(DUPLICATE_SCHEMA, message).into());
    }
    check_name(to)?;
    check_can(from, ddl.snapshot)?;
    let names = Names {
        from,
        to,
        objects: objects_of(from, ddl.snapshot),
    };
    let mut changes = Changes::begin(cx, ddl).await?;
    for table in ddl.snapshot.tables() {
        let mut written = TableDef::clone(&table);
        if follow_in_table(&names, &mut written)? {
            let taken = changes.take(cx, &table).await?;
            taken.schema = written.schema;
            taken.columns = written.columns;
            taken.rules = written.rules;
            taken.materialized = written.materialized;
        }
    }
    let views = ddl.snapshot.views();
    for view in views.cloned().collect::<Vec<_>>() {
        let mut written = ViewDef::clone(&view);
        let mut changed = names.follow(&mut written.text, &format!("view {}", view.name))?;
        if names.is_in(&view.schema) {
            to.clone_into(&mut written.schema);
            changed = true;
        }
        if changed {
            touch(&view, cx, ddl, &mut changes).await?;
            *changes.view(&view) = written;
        }
    }
    let sequences = ddl.snapshot.sequences();
    for sequence in sequences.cloned().collect::<Vec<_>>() {
        if names.is_in(&sequence.schema) {
            let written = SequenceDef {
                schema: to.to_owned(),
                ..SequenceDef::clone(&sequence)
            };
            ddl.catalog.remove_sequence(cx.tx, &sequence).await?;
            ddl.catalog.insert_sequence(cx.tx, &written).await?;
        }
    }
    for routine in ddl.snapshot.all_routines() {
        let mut written = RoutineDef::clone(&routine);
        if follow_in_routine(&names, &mut written)? {
            written.version = changes.version;
            ddl.catalog.replace_routine(cx.tx, &written).await?;
        }
    }
    ddl.catalog.remove_schema(cx.tx, id).await?;
    ddl.catalog.insert_schema(cx.tx, id, to).await?;
    changes.finish(cx, ddl).await?;
    Ok("ALTER SCHEMA")
}

/// Returns error 0A000 for schemas that cannot be renamed.
fn check_can(from: &str, snapshot: &Snapshot) -> Result<(), SqlError> {
    let refused = |what: &str| Err(SqlError::unsupported(format!("RENAME of {what}")));
    if from == PUBLIC_SCHEMA || temporary::is_temporary(from) {
        return refused("the schema public, or a temporary one");
    }
    if snapshot.types().all().iter().any(|ty| ty.schema == from) {
        return refused("a schema with types");
    }
    if snapshot.extensions().iter().any(|of| of.schema == from) {
        return refused("a schema with extensions");
    }
    let domains = snapshot.types().all();
    let mut domains = domains.iter().filter_map(|ty| ty.as_domain());
    let says = |text: &str| names(text, from);
    let said = domains.any(|domain| {
        let of = domain.definition();
        of.default.as_deref().is_some_and(says) || of.checks.iter().any(|check| says(&check.text))
    });
    match said {
        true => refused("a schema that a domain names"),
        false => Ok(()),
    }
}

/// Returns the names of the objects in a schema.
fn objects_of(schema: &str, snapshot: &Snapshot) -> Vec<String> {
    let objects = snapshot.objects_in(schema).into_iter();
    let mut all: Vec<String> = objects.map(|of| of.name).collect();
    let routines = snapshot.all_routines().into_iter();
    let routines = routines.filter(|routine| routine.schema == schema);
    all.extend(routines.map(|routine| routine.name.clone()));
    all
}

/// Rewrites the texts of a table. Returns whether any changed.
fn follow_in_table(names: &Names<'_>, table: &mut TableDef) -> Result<bool, SqlError> {
    let of = format!("table {}", table.name);
    let mut changed = false;
    for column in &mut table.columns {
        for text in [&mut column.default, &mut column.more.generated]
            .into_iter()
            .flatten()
        {
            changed |= names.follow(text, &of)?;
        }
    }
    for check in &mut table.rules.checks {
        changed |= names.follow(&mut check.text, &of)?;
    }
    for trigger in &mut table.rules.triggers {
        if let Some(text) = &mut trigger.condition {
            changed |= names.follow(text, &of)?;
        }
    }
    if let Some(query) = &mut table.materialized {
        changed |= names.follow(&mut query.text, &of)?;
    }
    if names.is_in(&table.schema) {
        names.to.clone_into(&mut table.schema);
        changed = true;
    }
    Ok(changed)
}

/// Rewrites the texts of a routine, except its body. Returns whether any changed.
fn follow_in_routine(names: &Names<'_>, routine: &mut RoutineDef) -> Result<bool, SqlError> {
    let of = format!("function {}", routine.name);
    let mut changed = false;
    for text in routine
        .args
        .iter_mut()
        .filter_map(|arg| arg.default.as_mut())
    {
        changed |= names.follow(text, &of)?;
    }
    if routine.atomic {
        changed |= names.follow(&mut routine.body, &of)?;
    }
    if names.is_in(&routine.schema) {
        names.to.clone_into(&mut routine.schema);
        changed = true;
    }
    Ok(changed)
}
