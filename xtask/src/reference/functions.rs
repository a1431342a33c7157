//! The reference of the functions: a table for each category, a row for each name.
//!
//! Aggregate, window and set-returning functions have categories of their own. Every other function
//! is in the category of most of its first arguments.

use std::collections::BTreeMap;

use super::error::ReferenceError;
use super::markdown::{Table, code};
use super::markers::Section;
use super::psql::Psql;
use super::routines::{self, Kind, Routine};

/// A category of functions, in the order of the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Category {
    Aggregates,
    Windows,
    Sets,
    Numbers,
    Texts,
    Bytes,
    Times,
    Documents,
    Arrays,
    Addresses,
    Others,
    WithoutArguments,
    Server,
}

impl Category {
    fn title(self) -> &'static str {
        match self {
            Category::Aggregates => "Aggregate functions",
            Category::Windows => "Window functions",
            Category::Sets => "Set-returning functions",
            Category::Numbers => "Numbers",
            Category::Texts => "Text",
            Category::Bytes => "Byte strings",
            Category::Times => "Dates and times",
            Category::Documents => "JSON",
            Category::Arrays => "Arrays",
            Category::Addresses => "Network addresses",
            Category::Others => "Other types",
            Category::WithoutArguments => "Functions without arguments",
            Category::Server => "Server and catalogs",
        }
    }

    /// Returns the category of a type of a first argument.
    fn of_type(name: &str) -> Category {
        match name {
            "smallint" | "integer" | "bigint" | "numeric" | "real" | "double precision" => {
                Category::Numbers
            }
            "text" | "character" | "character varying" | "\"char\"" => Category::Texts,
            "bytea" => Category::Bytes,
            "date" | "interval" => Category::Times,
            "json" | "jsonb" | "jsonpath" => Category::Documents,
            "anyarray" | "anycompatiblearray" => Category::Arrays,
            "inet" | "cidr" | "macaddr" => Category::Addresses,
            "oid" | "name" | "tid" | "xid" | "cid" | "aclitem" => Category::Server,
            name if name.starts_with("reg") => Category::Server,
            name if name.starts_with("time") => Category::Times,
            name if name.ends_with("[]") => Category::Arrays,
            _ => Category::Others,
        }
    }

    /// Returns the category of the routines with one name.
    fn of(name: &str, routines: &[&Routine]) -> Category {
        let is_about_server = ["pg_", "has_", "current_", "txid_"];
        if is_about_server
            .iter()
            .any(|prefix| name.starts_with(prefix))
        {
            return Category::Server;
        }
        let mut counts: BTreeMap<Category, usize> = BTreeMap::new();
        for routine in routines {
            let category = match routine.types.first() {
                Some(first) => Category::of_type(first),
                None => Category::WithoutArguments,
            };
            *counts.entry(category).or_default() += 1;
        }
        let most = counts.iter().max_by_key(|(category, count)| {
            // Of two categories with equal counts, the first of the page.
            (**count, std::cmp::Reverse(**category))
        });
        most.map_or(Category::Others, |(category, _)| *category)
    }
}

/// Returns the section of the page.
///
/// # Errors
/// A query fails, or has rows that cannot be read.
pub fn sections(psql: &Psql) -> Result<Vec<Section>, ReferenceError> {
    let text = render(&routines::callable(psql)?);
    let name = "functions";
    Ok(vec![Section { name, text }])
}

fn render(routines: &[Routine]) -> String {
    let mut named: BTreeMap<(Kind, &str), Vec<&Routine>> = BTreeMap::new();
    for routine in routines {
        let key = (routine.kind, routine.name.as_str());
        named.entry(key).or_default().push(routine);
    }
    let mut categories: BTreeMap<Category, BTreeMap<&str, String>> = BTreeMap::new();
    for ((kind, name), routines) in named {
        let category = match kind {
            Kind::Aggregate => Category::Aggregates,
            Kind::Window => Category::Windows,
            Kind::SetReturning => Category::Sets,
            Kind::Scalar => Category::of(name, &routines),
        };
        let names = categories.entry(category).or_default();
        names.insert(name, signatures(&routines));
    }
    let mut text = String::new();
    for (category, names) in categories {
        let mut table = Table::new(&["function", "arguments → result"]);
        for (name, signatures) in names {
            table.push(&[code(name), signatures]);
        }
        text.push_str(&format!(
            "### {}\n\n{}\n",
            category.title(),
            table.into_text()
        ));
    }
    text
}

/// Returns the signatures of the routines with one name, each once.
fn signatures(routines: &[&Routine]) -> String {
    let mut signatures: Vec<String> = Vec::new();
    for routine in routines {
        let signature = code(&format!("({}) → {}", routine.arguments, routine.result));
        if !signatures.contains(&signature) {
            signatures.push(signature);
        }
    }
    signatures.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_has_one_row_in_each_kind() {
        let routines = [
            Routine::sample(Kind::Scalar, "abs", &["integer"]),
            Routine::sample(Kind::Window, "rank", &[]),
            Routine::sample(Kind::Scalar, "abs", &["numeric"]),
            Routine::sample(Kind::Scalar, "abs", &["integer"]),
        ];
        let head = "| function | arguments → result |\n|---|---|\n";
        let expected = format!(
            "### Window functions\n\n{head}| `rank` | `() → text` |\n\n\
             ### Numbers\n\n{head}| `abs` | `(integer) → text`; `(numeric) → text` |\n\n"
        );
        assert_eq!(render(&routines), expected);
    }

    #[test]
    fn category_is_that_of_most_first_arguments() {
        let category = |name: &str, types: &[&[&str]]| {
            let routines = types
                .iter()
                .map(|types| Routine::sample(Kind::Scalar, name, types));
            let routines: Vec<Routine> = routines.collect();
            Category::of(name, &routines.iter().collect::<Vec<_>>())
        };
        let length: [&[&str]; 3] = [&["bytea", "name"], &["text"], &["character"]];
        assert_eq!(category("length", &length), Category::Texts);
        assert_eq!(
            category("get_bit", &[&["bytea"], &["text"]]),
            Category::Texts
        );
        assert_eq!(
            category("age", &[&["timestamp without time zone"]]),
            Category::Times
        );
        assert_eq!(category("now", &[&[]]), Category::WithoutArguments);
        assert_eq!(
            category("pg_sleep", &[&["double precision"]]),
            Category::Server
        );
        assert_eq!(category("f", &[&["text[]"]]), Category::Arrays);
        assert_eq!(category("f", &[&["regclass"]]), Category::Server);
    }
}
