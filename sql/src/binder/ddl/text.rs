//! Expressions as the catalog stores them: text without enclosing parentheses, with type names in
//! PostgreSQL's spelling.

use sqlparser::ast;

use crate::binder::names;
use crate::spelling::expression_text;
use crate::walk::{TreeMut, VisitorMut};

/// The words that may follow the first word of a type name.
const FURTHER: [&str; 6] = ["WITH", "WITHOUT", "TIME", "ZONE", "PRECISION", "VARYING"];

/// Returns the expression without enclosing parentheses.
pub(in crate::binder) fn bare(expr: &ast::Expr) -> &ast::Expr {
    match expr {
        ast::Expr::Nested(inner) => bare(inner),
        other => other,
    }
}

/// Returns an expression over the rows of a table with unqualified column names. Stored text must
/// not contain the name of the table: the table can be renamed, and its partitions have other
/// names.
pub(in crate::binder) fn unqualified(expr: &ast::Expr, (schema, table): (&str, &str)) -> ast::Expr {
    let mut expr = expr.clone();
    let _ = expr.walk_mut(&mut TableNameRemover { schema, table });
    expr
}

/// A visitor that removes the name of a table, and its schema, from the names of columns.
struct TableNameRemover<'a> {
    schema: &'a str,
    table: &'a str,
}

impl TableNameRemover<'_> {
    fn column(&self, parts: &[ast::Ident]) -> Option<ast::Ident> {
        let is = |part: &ast::Ident, name: &str| names::fold(part) == name;
        match parts {
            [table, column] if is(table, self.table) => Some(column.clone()),
            [schema, table, column] if is(schema, self.schema) && is(table, self.table) => {
                Some(column.clone())
            }
            _ => None,
        }
    }
}

impl VisitorMut for TableNameRemover<'_> {
    fn expr_end(&mut self, expr: &mut ast::Expr) {
        use ast::{AccessExpr::Dot, Expr as E};
        let column = match &*expr {
            E::CompoundIdentifier(parts) => self.column(parts).map(E::Identifier),
            E::CompoundFieldAccess { root, access_chain } => match (&**root, &access_chain[..]) {
                (E::Identifier(table), [Dot(E::Identifier(column)), rest @ ..])
                    if !rest.is_empty() =>
                {
                    let column = self.column(&[table.clone(), column.clone()]);
                    column.map(|column| E::CompoundFieldAccess {
                        root: Box::new(E::Identifier(column)),
                        access_chain: rest.to_vec(),
                    })
                }
                _ => None,
            },
            _ => None,
        };
        if let Some(column) = column {
            *expr = column;
        }
    }
}

/// Returns the text of an expression.
pub(in crate::binder) fn text_of(expr: &ast::Expr) -> String {
    let text = expression_text(expr);
    let mut out = String::with_capacity(text.len());
    let mut rest = text.as_str();
    while let Some(at) = rest.find(['\'', '"', ':']) {
        let (before, from) = rest.split_at(at);
        out.push_str(before);
        let length = match from.as_bytes() {
            [b':', b':', ..] => {
                let length = 2 + type_name(&from[2..]);
                out.push_str(&from[..length].to_ascii_lowercase());
                rest = &from[length..];
                continue;
            }
            [b':', ..] => 1,
            [quote, ..] => quoted(from, *quote, before.ends_with(['e', 'E'])),
            [] => 0,
        };
        out.push_str(&from[..length]);
        rest = &from[length..];
    }
    out + rest
}

/// Returns the length in bytes of the quoted text at the start of `text`.
fn quoted(text: &str, quote: u8, escapes: bool) -> usize {
    let mut bytes = text.bytes().enumerate().skip(1);
    while let Some((at, byte)) = bytes.next() {
        match byte {
            b'\\' if escapes => drop(bytes.next()),
            // A doubled quote ends one quoted text and begins the next, which the caller reads in
            // turn.
            byte if byte == quote => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// Returns the length in bytes of the type name at the start of `text`.
fn type_name(text: &str) -> usize {
    let word = |from: usize| {
        let rest = text.get(from..).unwrap_or("");
        let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '.'));
        from + end.unwrap_or(rest.len())
    };
    let mut end = word(0);
    loop {
        let mut next = end;
        if text[next..].starts_with('(') {
            next += text[next..].find(')').map_or(0, |at| at + 1);
        }
        if !text[next..].starts_with(' ') {
            return end;
        }
        let after = word(next + 1);
        if !FURTHER.contains(&&text[next + 1..after]) {
            return end;
        }
        end = after;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sqlparser::dialect::PostgreSqlDialect;
    use sqlparser::parser::Parser;

    fn text(sql: &str) -> String {
        let parser = Parser::new(&PostgreSqlDialect {});
        let mut parser = parser.try_with_sql(sql).expect("tokens");
        text_of(bare(&parser.parse_expr().expect("an expression")))
    }

    #[test]
    fn names_of_types_are_shown_in_lower_case_and_nothing_else_changes() {
        for (sql, wanted) in [
            ("'2000-01-01'::date", "'2000-01-01'::date"),
            ("((price * 2))", "price * 2"),
            (
                "a::timestamp(3) with time zone AND B",
                "a::timestamp(3) with time zone AND B",
            ),
            ("'{}'::text[]", "'{}'::text[]"),
            (
                "x::numeric(8,2)::double precision",
                "x::numeric(8,2)::double precision",
            ),
            ("nextval('a.b'::regclass)", "nextval('a.b'::regclass)"),
            ("'a''::DATE' || \"B::DATE\"", "'a''::DATE' || \"B::DATE\""),
            (
                "E'\\'::DATE' || 'C'::s.\"Mood\"",
                "E'\\'::DATE' || 'C'::s.\"Mood\"",
            ),
            ("žluť::varchar || 'ž'", "žluť::varchar || 'ž'"),
        ] {
            assert_eq!(text(sql), wanted);
        }
    }
}
