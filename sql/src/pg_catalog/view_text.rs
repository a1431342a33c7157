//! The query of a view, with relation names that are correct for the querying session's search
//! path.
//!
//! The stored text has the original names. Unqualified ones are in the view's schema or in
//! `public`.

use sqlparser::ast;

use super::relation_oid;
use crate::catalog::{PUBLIC_SCHEMA, Snapshot, ViewDef};
use crate::error::SqlError;
use crate::parser::{ROWS_FROM, parse_query};
use crate::spelling::query_text;
use crate::walk::{TreeMut, Visitor, VisitorMut, Walk};

/// Returns the query; `path` is the search path for unqualified names.
pub fn view_text(view: &ViewDef, snapshot: &Snapshot, path: &[String]) -> String {
    let Ok(mut query) = parse_query(&view.text) else {
        return view.text.clone();
    };
    let mut named = CteNames(Vec::new());
    // The visitors never stop early.
    let _ = Walk(&mut named).query(&query);
    let mut placed = SchemaQualifier {
        named: named.0,
        view,
        snapshot,
        path,
    };
    let _ = query.walk_mut(&mut placed);
    let mark = format!("\"{ROWS_FROM}\"(");
    query_text(&query).replace(&mark, "ROWS FROM (")
}

/// The names of WITH queries.
struct CteNames(Vec<String>);

impl Visitor for CteNames {
    fn query(&mut self, query: &ast::Query) -> Result<(), SqlError> {
        let queries = query.with.iter().flat_map(|with| &with.cte_tables);
        self.0.extend(queries.map(|cte| folded(&cte.alias.name)));
        Ok(())
    }
}

struct SchemaQualifier<'a> {
    named: Vec<String>,
    view: &'a ViewDef,
    snapshot: &'a Snapshot,
    path: &'a [String],
}

impl VisitorMut for SchemaQualifier<'_> {
    fn relation(&mut self, relation: &mut ast::ObjectName) -> Result<(), SqlError> {
        let parts = relation.0.iter().filter_map(|part| part.as_ident());
        let parts: Vec<String> = parts.map(folded).collect();
        let (schema, name) = match parts.as_slice() {
            [name] if self.named.contains(name) => return Ok(()),
            [name] => (None, name),
            [schema, name] => (Some(schema.as_str()), name),
            _ => return Ok(()),
        };
        let is_in = |schema: &str| relation_oid(self.snapshot, Some(schema), name);
        let schemas = match schema {
            Some(schema) => vec![schema],
            None => vec![self.view.schema.as_str(), PUBLIC_SCHEMA],
        };
        let found = schemas.into_iter().find_map(|of| Some((of, is_in(of)?)));
        // A relation that is not found belongs to the system and stays unchanged.
        if let Some((schema, oid)) = found {
            let first = self.path.iter().find_map(|of| is_in(of));
            let quoted = |name: &str| match name == crate::functions::quote_ident(name) {
                true => ast::Ident::new(name),
                false => ast::Ident::with_quote('"', name),
            };
            *relation = ast::ObjectName::from(match first == Some(oid) {
                true => vec![quoted(name)],
                false => vec![quoted(schema), quoted(name)],
            });
        }
        Ok(())
    }
}

fn folded(ident: &ast::Ident) -> String {
    match ident.quote_style {
        Some(_) => ident.value.clone(),
        None => ident.value.to_ascii_lowercase(),
    }
}
