//! Deparsing of indexes and constraints to SQL, as PostgreSQL writes them.

use super::definitions::{condition, index_expression};
use super::relation_oid;
use crate::binder::{DeparseContext, VisibleColumns, search_path};
use crate::bound::Node;
use crate::catalog::{CheckDef, Collation, ForeignKeyDef, IndexDef, IndexKind, Snapshot, TableDef};
use crate::functions::{quote_ident as quoted, quote_literal};

/// Deparses a column of an index, from 0, without its order: key columns first, then INCLUDE
/// columns. Without a reader, an expression keeps its original text.
pub fn index_column(
    reader: Option<&DeparseContext<'_>>,
    table: &TableDef,
    index: &IndexDef,
    at: usize,
) -> Option<String> {
    let keys = index.columns.iter().map(|key| key.column);
    let mut all = keys.chain(index.more.include.iter().copied());
    all.nth(at).map(|column| key(reader, table, index, column))
}

/// Deparses a key column; an expression is in parentheses unless it is a function call.
fn key(
    reader: Option<&DeparseContext<'_>>,
    table: &TableDef,
    index: &IndexDef,
    column: usize,
) -> String {
    let Some(expression) = index.expression(column) else {
        return quoted(&table.columns[column].name);
    };
    let text = &expression.text;
    if let Some(deparsed) = reader.and_then(|reader| index_expression(reader, table, text)) {
        return deparsed;
    }
    let pretty = reader.is_none_or(|reader| reader.style.pretty);
    match (&expression.value.node, pretty) {
        (Node::Call { .. }, _) if text.ends_with(')') && !text.starts_with('(') => text.clone(),
        (_, true) => format!("({text})"),
        (_, false) => format!("(({text}))"),
    }
}

/// Deparses an index as CREATE INDEX.
pub fn index_definition(reader: &DeparseContext<'_>, table: &TableDef, index: &IndexDef) -> String {
    let schemas = search_path(reader.snapshot, reader.cx);
    let mut relation = quoted(&table.name);
    if !reader.style.pretty || !schemas.contains(&table.schema) {
        relation = format!("{}.{relation}", quoted(&table.schema));
    }
    let unique = if index.is_unique() { "UNIQUE " } else { "" };
    let using = match index.kind {
        IndexKind::BTree => "btree",
        IndexKind::Hash => "hash",
    };
    let columns = index.columns.iter().enumerate().map(|(at, key)| {
        let mut text = self::key(Some(reader), table, index, key.column);
        text += &look(table, index, at);
        if key.desc {
            text += " DESC";
        }
        // The default position of NULLs is omitted.
        match (key.nulls_first, key.desc) {
            (true, false) => text += " NULLS FIRST",
            (false, true) => text += " NULLS LAST",
            _ => {}
        }
        text
    });
    let mut text = format!(
        "CREATE {unique}INDEX {} ON {}{} USING {using} ({})",
        quoted(&index.name),
        if table.is_parent() { "ONLY " } else { "" },
        relation,
        columns.collect::<Vec<_>>().join(", ")
    );
    if !index.more.include.is_empty() {
        text += &format!(" INCLUDE ({})", named(table, &index.more.include));
    }
    text += index.more.of_nulls();
    text += &with_options(&index.more.options);
    if let Some(predicate) = &index.more.predicate {
        let deparsed = condition(reader, &predicate.text, VisibleColumns::Table(table));
        text += &format!(" WHERE {deparsed}");
    }
    text
}

/// Deparses the collation and operator class of a key column, with a blank before them, if they are
/// not the defaults.
pub(crate) fn look(table: &TableDef, index: &IndexDef, at: usize) -> String {
    let mut text = String::new();
    let Some(look) = index.more.look(at) else {
        return text;
    };
    let column = table.columns.get(index.columns[at].column);
    let of_column = column.map_or(Collation::Default, |column| column.more.collation);
    if let Some(collation) = look.collation.filter(|of| *of != of_column) {
        text += &format!(" COLLATE {}", quoted(collation.name()));
    }
    if let Some(class) = &look.class {
        text += &format!(" {class}");
    }
    text
}

/// Deparses storage parameters, with a blank before them.
pub(crate) fn with_options(options: &[(String, String)]) -> String {
    if options.is_empty() {
        return String::new();
    }
    let each = options.iter().map(|(name, value)| {
        let plain = quoted(value) == *value;
        let value = if plain {
            value.clone()
        } else {
            quote_literal(value)
        };
        format!("{}={value}", quoted(name))
    });
    format!(" WITH ({})", each.collect::<Vec<_>>().join(", "))
}

/// Deparses the constraint to which an index belongs.
fn constraint_definition(table: &TableDef, index: &IndexDef) -> String {
    let kind = if index.primary {
        "PRIMARY KEY"
    } else {
        "UNIQUE"
    };
    let columns = (0..index.columns.len()).filter_map(|at| index_column(None, table, index, at));
    let columns = columns.collect::<Vec<_>>().join(", ");
    let (nulls, deferrability) = (index.more.of_nulls(), index.more.deferrability());
    let include = match index.more.include.is_empty() {
        true => String::new(),
        false => format!(" INCLUDE ({})", named(table, &index.more.include)),
    };
    format!("{kind}{nulls} ({columns}){include}{deferrability}")
}

/// A constraint of a table.
pub enum Constraint<'a> {
    /// PRIMARY KEY or UNIQUE, by its index.
    Key(&'a IndexDef),
    /// CHECK
    Check(&'a CheckDef),
    /// FOREIGN KEY
    Foreign(&'a ForeignKeyDef),
}

impl<'a> Constraint<'a> {
    /// Returns all constraints of a table.
    pub fn all(table: &'a TableDef) -> impl Iterator<Item = Constraint<'a>> {
        let keys = table.indexes.iter().filter(|index| index.constraint);
        let checks = table.rules.checks.iter().map(Constraint::Check);
        let foreign = table.rules.foreign_keys.iter().map(Constraint::Foreign);
        keys.map(Constraint::Key).chain(checks).chain(foreign)
    }

    /// Returns the oid.
    pub fn id(&self) -> u32 {
        match self {
            Constraint::Key(index) => index.id,
            Constraint::Check(check) => check.id,
            Constraint::Foreign(key) => key.id,
        }
    }

    /// Returns the name.
    pub fn name(&self) -> &'a str {
        match self {
            Constraint::Key(index) => &index.name,
            Constraint::Check(check) => &check.name,
            Constraint::Foreign(key) => &key.name,
        }
    }

    /// Returns the positions of its columns; those of a CHECK are in the order of the table.
    pub fn columns(&self, table: &TableDef) -> Vec<usize> {
        match self {
            Constraint::Key(index) => index.columns.iter().map(|key| key.column).collect(),
            Constraint::Foreign(key) => key.columns.clone(),
            Constraint::Check(check) => {
                let is_part = |c: char| c.is_alphanumeric() || c == '_';
                let words: Vec<&str> = check.text.split(|c| !is_part(c)).collect();
                let named = |(at, name): (usize, &String)| words.contains(&&**name).then_some(at);
                let names = table.columns.iter().map(|column| &column.name);
                names.enumerate().filter_map(named).collect()
            }
        }
    }

    /// Returns whether all existing rows have been checked.
    pub fn is_valid(&self) -> bool {
        match self {
            Constraint::Key(_) => true,
            Constraint::Check(check) => check.valid,
            Constraint::Foreign(key) => key.valid,
        }
    }

    /// Returns whether partitions do not inherit the constraint (NO INHERIT).
    pub fn is_inherited_by_none(&self) -> bool {
        match self {
            Constraint::Key(_) | Constraint::Foreign(_) => true,
            Constraint::Check(check) => check.no_inherit,
        }
    }

    fn validity(&self) -> &'static str {
        match self.is_valid() {
            true => "",
            false => " NOT VALID",
        }
    }

    /// Deparses the constraint; `path` is the search path for unqualified names.
    pub fn definition(
        &self,
        reader: &DeparseContext<'_>,
        path: &[String],
        table: &TableDef,
    ) -> String {
        match self {
            Constraint::Key(index) => constraint_definition(table, index),
            Constraint::Check(check) => {
                let deparsed = condition(reader, &check.text, VisibleColumns::Table(table));
                let inherit = if check.no_inherit { " NO INHERIT" } else { "" };
                format!("CHECK ({deparsed}){inherit}{}", self.validity())
            }
            Constraint::Foreign(key) => {
                foreign_definition((reader.snapshot, path), table, key) + self.validity()
            }
        }
    }
}

fn named(table: &TableDef, at: &[usize]) -> String {
    let names = at.iter().map(|at| quoted(&table.columns[*at].name));
    names.collect::<Vec<_>>().join(", ")
}

fn foreign_definition(
    (snapshot, path): (&Snapshot, &[String]),
    table: &TableDef,
    key: &ForeignKeyDef,
) -> String {
    let mut text = format!("FOREIGN KEY ({})", named(table, &key.columns));
    if let Some(parent) = snapshot.relation(key.parent) {
        let at = named(&parent, &key.parent_columns);
        let first = path
            .iter()
            .find_map(|schema| relation_oid(snapshot, Some(schema), &parent.name));
        let mut name = quoted(&parent.name);
        if first != Some(parent.id) {
            name = format!("{}.{name}", quoted(&parent.schema));
        }
        text += &format!(" REFERENCES {name}({at})");
    }
    if key.full {
        text += " MATCH FULL";
    }
    for (event, action) in [("UPDATE", key.on_update), ("DELETE", key.on_delete)] {
        if let Some(action) = action.written() {
            text += &format!(" ON {event} {action}");
        }
        if event == "DELETE" && !key.delete_columns.is_empty() {
            text += &format!(" ({})", named(table, &key.listed_on_delete()));
        }
    }
    match (key.deferrable, key.deferred) {
        (_, true) => text += " DEFERRABLE INITIALLY DEFERRED",
        (true, false) => text += " DEFERRABLE",
        (false, false) => {}
    }
    text
}

/// Removes the parentheses around an expression.
pub fn without_parentheses(text: &str) -> &str {
    let Some(inside) = text
        .strip_prefix('(')
        .and_then(|rest| rest.strip_suffix(')'))
    else {
        return text;
    };
    let mut depth = 0i32;
    for c in inside.chars() {
        depth += i32::from(c == '(') - i32::from(c == ')');
        // The first and last parentheses do not match each other.
        if depth < 0 {
            return text;
        }
    }
    inside
}
