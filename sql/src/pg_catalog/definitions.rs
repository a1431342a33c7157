//! Deparsing of definitions that the catalog stores as text; see [`DeparseContext`].
//!
//! A text that cannot be deparsed is shown as it was written.

use super::view_text::view_text;
use super::without_parentheses;
use crate::binder::{DeparseContext, Style, VisibleColumns, search_path};
use crate::catalog::{Snapshot, TableDef, ViewDef};
use crate::context::EvalContext;
use crate::types::domains::DomainCheck;

/// Returns a deparser for a session. `pretty` omits redundant parentheses.
pub fn reader<'a>(snapshot: &'a Snapshot, cx: &'a EvalContext, pretty: bool) -> DeparseContext<'a> {
    let indented = true;
    DeparseContext {
        snapshot,
        cx,
        style: Style { pretty, indented },
        renaming: None,
    }
}

/// Deparses an expression.
pub fn expression(reader: &DeparseContext<'_>, text: &str, over: VisibleColumns<'_>) -> String {
    let deparsed = reader.expression(text, over);
    deparsed.unwrap_or_else(|| match reader.style.pretty {
        true => without_parentheses(text).to_owned(),
        false => text.to_owned(),
    })
}

/// Deparses a condition, such as `(a > 1)`.
pub fn condition(reader: &DeparseContext<'_>, text: &str, over: VisibleColumns<'_>) -> String {
    reader.expression(text, over).unwrap_or_else(|| {
        let mut inside = text;
        while without_parentheses(inside) != inside {
            inside = without_parentheses(inside);
        }
        match reader.style.pretty {
            true => inside.to_owned(),
            false => format!("({inside})"),
        }
    })
}

/// Deparses the expression of an index; several are separated by commas.
pub fn index_expression(
    reader: &DeparseContext<'_>,
    table: &TableDef,
    text: &str,
) -> Option<String> {
    reader.index_expression(text, VisibleColumns::Table(table))
}

/// Deparses the constraint of a domain.
pub fn domain_check(
    reader: &DeparseContext<'_>,
    check: &DomainCheck,
    base: crate::types::Type,
) -> String {
    let valid = if check.validated { "" } else { " NOT VALID" };
    let deparsed = condition(reader, &check.text, VisibleColumns::Domain(base));
    format!("CHECK ({deparsed}){valid}")
}

/// The form of `.*` in a parsed text, after a row in parentheses.
const EVERY_FIELD_OF: &str = ".\u{1}";

/// Deparses the query of a view.
pub fn view_definition(reader: &DeparseContext<'_>, view: &ViewDef) -> String {
    let text = reader.view(view).unwrap_or_else(|| {
        let path = search_path(reader.snapshot, reader.cx);
        let text = view_text(view, reader.snapshot, &path);
        // In a parsed text, `(row).*` contains another character instead of the star.
        format!(" {}", text.replace(EVERY_FIELD_OF, ".*"))
    });
    format!("{text};")
}
