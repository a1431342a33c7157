//! The reference of the system tables and views, with their columns.
//!
//! PostgreSQL's relations come from `pg_class`. Fencepost's own have no row there, so their names
//! come from the source file that defines them, and psql describes a query of each.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::error::ReferenceError;
use super::markdown::{Table, code};
use super::markers::Section;
use super::psql::Psql;

const OWN_PREFIX: &str = "pg_fencepost_";
const OWN_SOURCE: &str = "sql/src/system.rs";

const QUERY: &str = "SELECT n.nspname, c.relname, c.relkind::text, a.attname, \
    format_type(a.atttypid, a.atttypmod) \
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
    JOIN pg_attribute a ON a.attrelid = c.oid \
    WHERE n.nspname IN ('pg_catalog', 'information_schema') AND c.relkind IN ('r', 'v') \
    AND a.attnum > 0 AND NOT a.attisdropped ORDER BY n.nspname, c.relname, a.attnum";

/// The columns of [`QUERY`].
type Row = [String; 5];

/// Returns the sections of the page: Fencepost's own relations, and a section for each schema.
///
/// # Errors
/// A query fails, or the source file of the own relations cannot be read.
pub fn sections(root: &Path, psql: &Psql) -> Result<Vec<Section>, ReferenceError> {
    let mut own = Vec::new();
    for name in own_names(root)? {
        let description = psql.script(&format!("SELECT * FROM {name} \\gdesc\n"))?;
        own.extend(own_rows(&name, &description)?);
    }
    let rows = psql.rows(QUERY)?;
    let of_schema = |schema: &str| render(rows.iter().filter(|row| row[0] == schema));
    let section = |name, text| Section { name, text };
    Ok(vec![
        section("fencepost", render(own.iter())),
        section("pg_catalog", of_schema("pg_catalog")),
        section("information_schema", of_schema("information_schema")),
    ])
}

/// Returns the names of Fencepost's own relations, sorted.
fn own_names(root: &Path) -> Result<BTreeSet<String>, ReferenceError> {
    let path = root.join(OWN_SOURCE);
    let text = std::fs::read_to_string(&path);
    let text = text.map_err(|source| ReferenceError::File { path, source })?;
    let names = literals(&text, OWN_PREFIX);
    if names.is_empty() {
        return Err(ReferenceError::NoNames {
            path: OWN_SOURCE.to_owned(),
            prefix: OWN_PREFIX.to_owned(),
        });
    }
    Ok(names)
}

/// Returns the string literals of a Rust file that begin with a prefix.
fn literals(text: &str, prefix: &str) -> BTreeSet<String> {
    let parts = text.split('"').skip(1).step_by(2);
    let names = parts.filter(|part| part.starts_with(prefix));
    names.map(str::to_owned).collect()
}

/// Returns a row for each column that `\gdesc` has printed.
fn own_rows(name: &str, description: &str) -> Result<Vec<Row>, ReferenceError> {
    let columns: Vec<[String; 2]> = super::psql::parse_rows(description)?;
    if columns.is_empty() {
        let row = format!("{name} has no columns");
        return Err(ReferenceError::Row { row });
    }
    let rows = columns.into_iter().map(|[column, kind]| {
        let (schema, relation) = (String::new(), name.to_owned());
        [schema, relation, "r".to_owned(), column, kind]
    });
    Ok(rows.collect())
}

fn render<'a>(rows: impl Iterator<Item = &'a Row>) -> String {
    let mut relations: BTreeMap<(&str, &str), Vec<String>> = BTreeMap::new();
    for [_, name, kind, column, of] in rows {
        let columns = relations.entry((name, kind)).or_default();
        columns.push(code(&format!("{column} {of}")));
    }
    let mut table = Table::new(&["name", "kind", "columns"]);
    for ((name, kind), columns) in relations {
        let kind = if kind == "v" { "view" } else { "table" };
        table.push(&[code(name), kind.to_owned(), columns.join(", ")]);
    }
    table.into_text()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relation_is_one_row_with_its_columns_in_order() {
        let row = |fields: [&str; 5]| fields.map(str::to_owned);
        let rows = [
            row(["s", "pg_b", "v", "z", "integer"]),
            row(["s", "pg_b", "v", "a", "text[]"]),
            row(["s", "pg_a", "r", "oid", "oid"]),
        ];
        let expected = "| name | kind | columns |\n|---|---|---|\n\
            | `pg_a` | table | `oid oid` |\n\
            | `pg_b` | view | `z integer`, `a text[]` |\n";
        assert_eq!(render(rows.iter()), expected);
    }

    #[test]
    fn own_names_are_the_literals_of_the_source() {
        let text = "A => \"pg_fencepost_b\", \"other\"\n// pg_fencepost_c\nB => \"pg_fencepost_a\"";
        let names: Vec<String> = literals(text, OWN_PREFIX).into_iter().collect();
        assert_eq!(names, ["pg_fencepost_a", "pg_fencepost_b"]);
    }

    #[test]
    fn own_relation_without_a_description_is_an_error() {
        assert!(own_rows("pg_fencepost_a", "").is_err());
        let rows = own_rows("pg_fencepost_a", "machine\u{1f}integer\n").expect("a column");
        assert_eq!(rows[0][3..], ["machine", "integer"]);
    }
}
