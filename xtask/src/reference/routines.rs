//! The routines of `pg_proc` that a statement can call by name.
//!
//! `pg_proc` also has functions that only implement a type, an operator, a cast, an aggregate or an
//! index. Some are told by their types, `cstring` and `internal`. For the others psql describes a
//! statement that calls the function: the server binds the statement and does not run it.
//!
//! *Failure.* Arguments of a pseudo-type need a type that stands for it ([`sample_type`]). A
//! function with another pseudo-type counts as one that cannot be called.

use std::collections::{BTreeMap, BTreeSet};

use super::error::ReferenceError;
use super::psql::Psql;

const QUERY: &str = "SELECT p.oid, p.proname, p.prokind::text, p.proretset::text, \
    p.proargtypes::text, p.provariadic, pg_get_function_arguments(p.oid), \
    pg_get_function_result(p.oid), p.prorettype, coalesce(a.aggkind::text, ''), \
    coalesce(a.aggnumdirectargs, 0) \
    FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace \
    LEFT JOIN pg_aggregate a ON a.aggfnoid::oid = p.oid \
    WHERE n.nspname = 'pg_catalog' ORDER BY p.oid";
const TYPES_QUERY: &str = "SELECT oid, format_type(oid, NULL) FROM pg_type";
/// The enum type that stands for `anyenum`; the server of the run is the only one that has it.
const ENUM: &str = "CREATE TYPE sample AS ENUM ('a');\n";
/// The beginning of a line that tells whether a function can be called.
const MARK: &str = "callable";

/// The kind of a routine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// An aggregate function.
    Aggregate,
    /// A window function.
    Window,
    /// A function that returns a set of rows.
    SetReturning,
    /// A function that returns one value.
    Scalar,
}

/// A routine of `pg_proc`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Routine {
    /// The oid.
    pub oid: u32,
    /// The name.
    pub name: String,
    /// The kind.
    pub kind: Kind,
    /// The names of the types of the arguments.
    pub types: Vec<String>,
    /// The arguments as PostgreSQL prints them.
    pub arguments: String,
    /// The result as PostgreSQL prints it.
    pub result: String,
    /// Whether the last argument may be given any number of times.
    is_variadic: bool,
    /// The name of the type of the result.
    result_type: String,
}

/// Returns the routines that a statement can call, in the order of `pg_proc`.
///
/// # Errors
/// A query fails, or has rows that cannot be read.
pub fn callable(psql: &Psql) -> Result<Vec<Routine>, ReferenceError> {
    let types: Vec<[String; 2]> = psql.rows(TYPES_QUERY)?;
    let types = types.into_iter().map(|[oid, name]| (oid, name)).collect();
    let rows = psql.rows(QUERY)?;
    let routines: Result<Vec<_>, _> = rows.iter().map(|row| read(row, &types)).collect();
    let mut routines = routines?;
    routines.retain(|routine| !is_internal(routine));
    let output = psql.script(&script(&routines))?;
    let bound = bound_oids(&output);
    routines.retain(|routine| !is_function(routine) || bound.contains(&routine.oid));
    Ok(routines)
}

/// Reads a row of [`QUERY`].
fn read(row: &[String; 11], types: &BTreeMap<String, String>) -> Result<Routine, ReferenceError> {
    let unreadable = || ReferenceError::Row {
        row: row.join(" | "),
    };
    let type_of = |oid: &str| types.get(oid).cloned().ok_or_else(unreadable);
    let arguments: Result<Vec<String>, _> = row[4].split_whitespace().map(type_of).collect();
    Ok(Routine {
        oid: row[0].parse().map_err(|_| unreadable())?,
        name: row[1].clone(),
        kind: match (row[2].as_str(), row[3].as_str()) {
            ("a", _) => Kind::Aggregate,
            ("w", _) => Kind::Window,
            (_, "true") => Kind::SetReturning,
            _ => Kind::Scalar,
        },
        types: arguments?,
        arguments: signature(&row[6], &row[9], &row[10]),
        result: row[7].clone(),
        is_variadic: row[5] != "0",
        result_type: type_of(&row[8])?,
    })
}

/// Returns the arguments of a routine. `ORDER BY` separates those of an ordered-set aggregate.
fn signature(arguments: &str, aggregate_kind: &str, direct_count: &str) -> String {
    let is_ordered_set = aggregate_kind == "o" && !arguments.contains("ORDER BY");
    let count: usize = direct_count.parse().unwrap_or(0);
    if !is_ordered_set {
        return arguments.to_owned();
    }
    let all: Vec<&str> = arguments.split(", ").collect();
    let (direct, ordered) = all.split_at(count.min(all.len()));
    let text = format!("{} ORDER BY {}", direct.join(", "), ordered.join(", "));
    text.trim_start().to_owned()
}

/// Tells whether no statement can have the arguments or the result.
fn is_internal(routine: &Routine) -> bool {
    let types = routine.types.iter().chain([&routine.result_type]);
    types
        .map(|name| name.trim_end_matches("[]"))
        .any(|name| matches!(name, "cstring" | "internal"))
}

fn is_function(routine: &Routine) -> bool {
    matches!(routine.kind, Kind::SetReturning | Kind::Scalar)
}

/// Returns a script that prints a line for each function: its oid, and whether a call failed.
fn script(routines: &[Routine]) -> String {
    let mut script = ENUM.to_owned();
    for routine in routines.iter().filter(|routine| is_function(routine)) {
        let (oid, call) = (routine.oid, call(routine));
        script.push_str(&format!(
            "SELECT {call} \\gdesc\n\\echo {MARK} {oid} :ERROR\n"
        ));
    }
    script
}

/// Returns a call with a NULL of each argument's type.
fn call(routine: &Routine) -> String {
    let mut arguments: Vec<String> = routine.types.iter().map(|name| null_of(name)).collect();
    if let Some(last) = arguments.last_mut()
        && routine.is_variadic
        && last.ends_with("[]")
    {
        last.insert_str(0, "VARIADIC ");
    }
    let name = routine.name.replace('"', "\"\"");
    format!("pg_catalog.\"{name}\"({})", arguments.join(", "))
}

fn null_of(name: &str) -> String {
    match name {
        "record" => "ROW(1)".to_owned(),
        name => format!("NULL::{}", sample_type(name)),
    }
}

/// Returns a type whose values an argument of a pseudo-type accepts; other types are themselves.
fn sample_type(name: &str) -> &str {
    match name {
        "any" | "\"any\"" | "unknown" => "text",
        "anyelement" | "anynonarray" | "anycompatible" | "anycompatiblenonarray" => "integer",
        "anyarray" | "anycompatiblearray" => "integer[]",
        "anyenum" => "sample",
        name => name,
    }
}

/// Returns the oids of the functions whose calls the server has bound.
fn bound_oids(output: &str) -> BTreeSet<u32> {
    let lines = output.lines().filter_map(|line| {
        let oid = line.strip_prefix(MARK)?.strip_suffix(" false")?;
        oid.trim().parse().ok()
    });
    lines.collect()
}

#[cfg(test)]
impl Routine {
    /// Returns a routine for tests; its result is text.
    pub fn sample(kind: Kind, name: &str, types: &[&str]) -> Routine {
        Routine {
            oid: 7,
            name: name.to_owned(),
            kind,
            types: types.iter().map(|&name| name.to_owned()).collect(),
            arguments: types.join(", "),
            result: "text".to_owned(),
            is_variadic: false,
            result_type: "text".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn routine(types: &[&str]) -> Routine {
        Routine::sample(Kind::Scalar, "f", types)
    }

    #[test]
    fn call_has_a_value_for_each_argument() {
        let mut routine = routine(&["bigint", "anyarray", "record", "text[]"]);
        let expected = "pg_catalog.\"f\"(NULL::bigint, NULL::integer[], ROW(1), NULL::text[])";
        assert_eq!(call(&routine), expected);
        routine.is_variadic = true;
        assert!(call(&routine).ends_with(", VARIADIC NULL::text[])"));
        routine.types = vec!["any".to_owned()];
        assert_eq!(call(&routine), "pg_catalog.\"f\"(NULL::text)");
    }

    #[test]
    fn internal_functions_are_recognised_by_their_types() {
        assert!(is_internal(&routine(&["text", "internal"])));
        assert!(is_internal(&routine(&["cstring[]"])));
        assert!(!is_internal(&routine(&["text"])));
        let mut output = routine(&["text"]);
        output.result_type = "cstring".to_owned();
        assert!(is_internal(&output));
    }

    #[test]
    fn functions_that_are_bound_are_read_from_the_output() {
        let output = "callable 12 false\nf\u{1f}integer\ncallable 13 true\ncallable 14 false\n";
        let oids: Vec<u32> = bound_oids(output).into_iter().collect();
        assert_eq!(oids, [12, 14]);
    }

    #[test]
    fn ordered_set_aggregates_have_their_order() {
        let ordered = |arguments, count| signature(arguments, "o", count);
        assert_eq!(ordered("real, text", "1"), "real ORDER BY text");
        assert_eq!(ordered("anyelement", "0"), "ORDER BY anyelement");
        assert_eq!(ordered("real ORDER BY text", "1"), "real ORDER BY text");
        assert_eq!(signature("text, text", "n", "0"), "text, text");
    }

    #[test]
    fn row_with_an_unknown_type_is_an_error() {
        let row = [
            "7", "f", "f", "false", "23", "0", "integer", "text", "25", "", "0",
        ];
        let row = row.map(str::to_owned);
        let mut types = BTreeMap::from([("23".to_owned(), "integer".to_owned())]);
        assert!(read(&row, &types).is_err());
        types.insert("25".to_owned(), "text".to_owned());
        let routine = read(&row, &types).expect("both types are known");
        assert_eq!(
            (routine.kind, routine.types),
            (Kind::Scalar, vec!["integer".to_owned()])
        );
    }
}
