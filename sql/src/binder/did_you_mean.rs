//! The hint for a column that does not exist: existing columns with nearly the same name.

use super::scope::{Scope, UNSEEN};

/// The largest edit distance of a suggested name.
const DISTANCE_MAX: usize = 3;

/// Returns the hint for a column that no relation has or, with `alias`, that this relation does not
/// have.
pub(super) fn hint(scope: &Scope, alias: Option<&str>, name: &str) -> Option<String> {
    let mut nearest: Vec<String> = Vec::new();
    let mut least = DISTANCE_MAX + 1;
    for leaf in &scope.leaves {
        if alias.is_some_and(|alias| alias != leaf.alias) {
            continue;
        }
        // Users cannot write generated names, so they are not suggested.
        let named = leaf.columns.iter().filter(|c| !c.name.starts_with(UNSEEN));
        for column in named {
            let distance = distance(name, &column.name);
            if distance > name.chars().count() / 2 || distance > least || distance > DISTANCE_MAX {
                continue;
            }
            if distance < least {
                nearest.clear();
                least = distance;
            }
            nearest.push(format!("\"{}.{}\"", leaf.alias, column.name));
        }
    }
    match nearest.as_slice() {
        [one] => Some(format!("Perhaps you meant to reference the column {one}.")),
        [one, other] => Some(format!(
            "Perhaps you meant to reference the column {one} or the column {other}."
        )),
        _ => None,
    }
}

/// Returns the edit distance: the number of letters to insert, delete or replace.
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (i, letter) in one.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, with) in other.iter().enumerate() {
            let changed = diagonal + usize::from(letter != *with);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::distance;

    #[test]
    fn distances_are_least_numbers_of_changes() {
        for (one, other, wanted) in [
            ("", "", 0),
            ("id", "id", 0),
            ("ida", "id", 1),
            ("nmae", "name", 2),
            ("kitten", "sitting", 3),
            ("", "abc", 3),
        ] {
            assert_eq!(distance(one, other), wanted, "{one} {other}");
            assert_eq!(distance(other, one), wanted, "{other} {one}");
        }
    }
}
