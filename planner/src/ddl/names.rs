//! The names that PostgreSQL chooses for indexes without a user-defined name.

use fencepost_sql::catalog::{Snapshot, TableDef};

/// The maximal length of an identifier, in bytes.
const NAME_BYTES_MAX: usize = 63;

/// Returns `table_column_suffix`, shortened to fit, and with a number if the name is taken.
pub fn choose_name(
    snapshot: &Snapshot,
    table: &TableDef,
    columns: &[&str],
    suffix: &str,
) -> String {
    let middle = columns.join("_");
    let mut number = 0;
    loop {
        let end = match number {
            0 => suffix.to_owned(),
            n => format!("{suffix}{n}"),
        };
        let name = fit(&table.name, &middle, &end);
        let free = !snapshot.relation_exists(&table.schema, &name)
            && table.indexes.iter().all(|i| i.name != name);
        if free {
            return name;
        }
        number += 1;
    }
}

/// Shortens the longer of the first two parts until the whole name fits.
pub fn fit(table: &str, middle: &str, suffix: &str) -> String {
    let mut parts = [table.to_owned(), middle.to_owned()];
    let joints = if middle.is_empty() { 1 } else { 2 };
    while parts[0].len() + parts[1].len() + suffix.len() + joints > NAME_BYTES_MAX {
        let longer = usize::from(parts[1].len() > parts[0].len());
        if parts[longer].pop().is_none() {
            break;
        }
    }
    match middle.is_empty() {
        true => format!("{}_{suffix}", parts[0]),
        false => format!("{}_{}_{suffix}", parts[0], parts[1]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_made_as_postgres_makes_them() {
        assert_eq!(fit("t", "", "pkey"), "t_pkey");
        assert_eq!(fit("t", "a_b", "idx"), "t_a_b_idx");
        let long = fit(&"x".repeat(63), "a", "key");
        assert_eq!(long.len(), NAME_BYTES_MAX);
        assert!(long.ends_with("x_a_key"));
    }
}
