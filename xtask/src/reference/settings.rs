//! The reference of the settings: `pg_settings`, a table for each category.
//!
//! The default is `boot_val`, which is compiled in. It does not depend on the machine, on the
//! options of the server or on the session, as `setting` and `reset_val` do.

use std::collections::BTreeMap;

use super::error::ReferenceError;
use super::markdown::{Table, code, plain};
use super::markers::Section;
use super::psql::Psql;

const QUERY: &str = "SELECT name, category, vartype, boot_val, unit, min_val, max_val, \
    array_to_string(enumvals, ','), context, short_desc FROM pg_settings";

/// The columns of [`QUERY`].
type Row = [String; 10];

/// Returns the section of the page.
///
/// # Errors
/// The query fails.
pub fn sections(psql: &Psql) -> Result<Vec<Section>, ReferenceError> {
    let text = render(&psql.rows(QUERY)?);
    let name = "settings";
    Ok(vec![Section { name, text }])
}

fn render(rows: &[Row]) -> String {
    let mut categories: BTreeMap<&str, Vec<&Row>> = BTreeMap::new();
    for row in rows {
        categories.entry(&row[1]).or_default().push(row);
    }
    let mut text = String::new();
    for (category, mut rows) in categories {
        rows.sort_by_key(|row| row[0].to_lowercase());
        let headings = [
            "setting", "type", "default", "unit", "values", "context", "meaning",
        ];
        let mut table = Table::new(&headings);
        for row in rows {
            table.push(&cells(row));
        }
        text.push_str(&format!("### {category}\n\n{}\n", table.into_text()));
    }
    text
}

fn cells(row: &Row) -> [String; 7] {
    let [
        name,
        _,
        kind,
        default,
        unit,
        min,
        max,
        values,
        context,
        about,
    ] = row;
    let values = match values.as_str() {
        "" if min.is_empty() => String::new(),
        "" => format!("{} to {}", code(min), code(max)),
        values => values.split(',').map(code).collect::<Vec<_>>().join(", "),
    };
    [
        code(name),
        kind.clone(),
        code(default),
        code(unit),
        values,
        context.clone(),
        plain(about),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_grouped_by_category_and_sorted() {
        let row = |fields: [&str; 10]| fields.map(str::to_owned);
        let rows = [
            row([
                "b", "Z", "integer", "4", "kB", "0", "9", "", "user", "Sets b.",
            ]),
            row([
                "c", "Y / X", "enum", "on", "", "", "", "on,off", "sighup", "",
            ]),
            row(["A", "Z", "string", "", "", "", "", "", "user", "Sets A."]),
        ];
        let head = "| setting | type | default | unit | values | context | meaning |\n\
            |---|---|---|---|---|---|---|\n";
        let expected = format!(
            "### Y / X\n\n{head}| `c` | enum | `on` | | `on`, `off` | sighup | |\n\n\
             ### Z\n\n{head}| `A` | string | | | | user | Sets A. |\n\
             | `b` | integer | `4` | `kB` | `0` to `9` | user | Sets b. |\n\n"
        );
        assert_eq!(render(&rows), expected);
    }
}
