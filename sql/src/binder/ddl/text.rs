//! Expressions as the catalog keeps them: their text, without brackets around it, and names of types as PostgreSQL shows them.

use sqlparser::ast;

/// What follows the first word of the name of a type.
const FURTHER: [&str; 6] = ["WITH", "WITHOUT", "TIME", "ZONE", "PRECISION", "VARYING"];

/// The expression without brackets around it.
pub(in crate::binder) fn bare(expr: &ast::Expr) -> &ast::Expr {
    match expr {
        ast::Expr::Nested(inner) => bare(inner),
        other => other,
    }
}

/// The text of an expression.
pub(in crate::binder) fn text_of(expr: &ast::Expr) -> String {
    let text = expr.to_string();
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

/// Bytes of the quoted text that `text` begins with.
fn quoted(text: &str, quote: u8, escapes: bool) -> usize {
    let mut bytes = text.bytes().enumerate().skip(1);
    while let Some((at, byte)) = bytes.next() {
        match byte {
            b'\\' if escapes => drop(bytes.next()),
            // A doubled one begins the next text, which goes on with the same.
            byte if byte == quote => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// Bytes of the name of a type that `text` begins with.
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
