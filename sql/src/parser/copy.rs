//! The syntax of COPY, with the current and the legacy form of its options.

use sqlparser::ast;

use super::cursor::Cursor;
use super::lexer::Kind;
use super::{depth, lexer, syntax};
use crate::bound::{CopyDirection, CopyFormat, CopyOptions};
use crate::error::{SqlError, SqlState};

/// A COPY statement.
#[derive(Debug)]
pub struct CopySyntax {
    /// The table or query.
    pub source: CopyFrom,
    /// FROM or TO.
    pub direction: CopyDirection,
    /// The options; the binder resolves `force_quote`.
    pub options: CopyOptions,
    /// The FORCE_QUOTE columns. If empty and `force_quote_all` is unset, the option is absent.
    pub force_quote: Vec<String>,
    /// FORCE_QUOTE *
    pub force_quote_all: bool,
    /// FORCE_NULL columns.
    pub force_null: Vec<String>,
    /// FORCE_NOT_NULL columns.
    pub force_not_null: Vec<String>,
    /// The WHERE condition of COPY FROM: the statement's text, with blanks before the condition.
    pub filter: Option<String>,
}

/// The object of a COPY.
#[derive(Debug)]
pub enum CopyFrom {
    /// A table, optionally some of its columns.
    Table {
        /// The schema, if given.
        schema: Option<String>,
        /// The table.
        name: String,
        /// The columns; empty for all.
        columns: Vec<String>,
    },
    /// A query.
    Query(Box<ast::Query>),
}

/// Parses the statement after the word COPY.
pub(super) fn parse(cursor: &mut Cursor<'_>) -> Result<CopySyntax, SqlError> {
    let binary = cursor.accept("binary");
    let source = match cursor.peek().map(|t| t.kind) {
        Some(Kind::Open) => {
            let (start, end) = cursor.bracketed()?;
            let text = cursor.sql.get(start..end).unwrap_or("");
            let tokens = lexer::tokens(text)?;
            depth::check(text, &tokens)?;
            CopyFrom::Query(syntax::query(text, &tokens)?)
        }
        _ => {
            let (schema, name) = cursor.qualified()?;
            CopyFrom::Table {
                schema,
                name,
                columns: column_list(cursor)?,
            }
        }
    };
    let direction = if cursor.accept("from") {
        CopyDirection::In
    } else {
        cursor.expect("to")?;
        CopyDirection::Out
    };
    if matches!(source, CopyFrom::Query(_)) && direction == CopyDirection::In {
        return Err(cursor.unexpected());
    }
    endpoint(cursor)?;
    let mut copy = CopySyntax {
        source,
        direction,
        options: CopyOptions::default(),
        force_quote: Vec::new(),
        force_quote_all: false,
        force_null: Vec::new(),
        force_not_null: Vec::new(),
        filter: None,
    };
    let mut given = FormatOptions::default();
    if binary {
        copy.options.format = CopyFormat::Binary;
    }
    legacy_delimiter(cursor, &mut given)?;
    cursor.accept("with");
    if cursor.peek().is_some_and(|t| t.kind == Kind::Open) {
        generic_options(cursor, &mut copy, &mut given)?;
    } else {
        legacy_options(cursor, &mut copy, &mut given)?;
    }
    if cursor.sees("where") {
        if direction == CopyDirection::Out {
            return Err(cursor.unexpected());
        }
        cursor.next_token();
        copy.filter = Some(cursor.rest_in_place());
        while cursor.next_token().is_some() {}
    }
    cursor.end()?;
    complete_options(copy, given)
}

/// Reads STDIN or STDOUT. Files and programs of the server are not supported.
fn endpoint(cursor: &mut Cursor<'_>) -> Result<(), SqlError> {
    if cursor.accept("stdin") || cursor.accept("stdout") {
        return Ok(());
    }
    if cursor.sees("program") || cursor.string().is_ok() {
        return Err(
            SqlError::unsupported("COPY to or from files of the server").hint(
                "Anyone can COPY to stdout or from stdin. psql's \\copy command also works for \
                 anyone.",
            ),
        );
    }
    Err(cursor.unexpected())
}

fn column_list(cursor: &mut Cursor<'_>) -> Result<Vec<String>, SqlError> {
    let mut columns = Vec::new();
    if cursor.accept_kind(Kind::Open).is_none() {
        return Ok(columns);
    }
    loop {
        columns.push(cursor.identifier()?);
        if cursor.accept_kind(Kind::Comma).is_none() {
            cursor.expect_kind(Kind::Close)?;
            return Ok(columns);
        }
    }
}

/// The given options whose defaults depend on the format.
#[derive(Default)]
struct FormatOptions {
    delimiter: Option<String>,
    null: Option<String>,
    quote: Option<String>,
    escape: Option<String>,
}

fn legacy_delimiter(cursor: &mut Cursor<'_>, given: &mut FormatOptions) -> Result<(), SqlError> {
    cursor.accept("using");
    if cursor.accept("delimiters") || cursor.accept("delimiter") {
        cursor.accept("as");
        given.delimiter = Some(cursor.string()?);
    }
    Ok(())
}

/// Reads legacy options: `CSV HEADER NULL 'x' …`.
fn legacy_options(
    cursor: &mut Cursor<'_>,
    copy: &mut CopySyntax,
    given: &mut FormatOptions,
) -> Result<(), SqlError> {
    while cursor.peek().is_some() && !cursor.sees("where") {
        let option = cursor.identifier()?;
        match option.as_str() {
            "binary" => copy.options.format = CopyFormat::Binary,
            "csv" => copy.options.format = CopyFormat::Csv,
            "freeze" => {}
            "header" => copy.options.header = true,
            "force" => {
                let columns = match () {
                    () if cursor.accept_all(&["not", "null"]) => &mut copy.force_not_null,
                    () if cursor.accept("null") => &mut copy.force_null,
                    () => {
                        cursor.expect("quote")?;
                        if cursor.accept_operator("*") {
                            copy.force_quote_all = true;
                            continue;
                        }
                        &mut copy.force_quote
                    }
                };
                loop {
                    columns.push(cursor.identifier()?);
                    if cursor.accept_kind(Kind::Comma).is_none() {
                        break;
                    }
                }
            }
            "delimiter" | "null" | "quote" | "escape" | "encoding" => {
                cursor.accept("as");
                set_text(&option, cursor.string()?, given)?;
            }
            _ => return Err(cursor.unexpected()),
        }
    }
    Ok(())
}

/// Reads options in parentheses: `(FORMAT csv, HEADER true, …)`.
fn generic_options(
    cursor: &mut Cursor<'_>,
    copy: &mut CopySyntax,
    given: &mut FormatOptions,
) -> Result<(), SqlError> {
    cursor.expect_kind(Kind::Open)?;
    loop {
        let option = cursor.identifier()?;
        match option.as_str() {
            "format" => {
                let name = word_or_string(cursor)?;
                copy.options.format = match name.to_ascii_lowercase().as_str() {
                    "text" => CopyFormat::Text,
                    "csv" => CopyFormat::Csv,
                    "binary" => CopyFormat::Binary,
                    _ => {
                        return Err(invalid(format!("COPY format \"{name}\" not recognized")));
                    }
                };
            }
            "freeze" => {
                boolean(cursor, "freeze")?;
            }
            "header" => {
                if cursor.accept("match") {
                    copy.options.header = true;
                    copy.options.header_match = true;
                } else {
                    copy.options.header = boolean(cursor, "header")?;
                }
            }
            "delimiter" | "null" | "quote" | "escape" | "encoding" => {
                set_text(&option, word_or_string(cursor)?, given)?;
            }
            "force_quote" => {
                if cursor.accept_operator("*") {
                    copy.force_quote_all = true;
                } else {
                    copy.force_quote = column_list(cursor)?;
                }
            }
            "force_null" => copy.force_null = column_list(cursor)?,
            "force_not_null" => copy.force_not_null = column_list(cursor)?,
            other => {
                return Err(SqlError::new(
                    SqlState::SYNTAX_ERROR,
                    format!("option \"{other}\" not recognized"),
                ));
            }
        }
        if cursor.accept_kind(Kind::Comma).is_none() {
            break;
        }
    }
    cursor.expect_kind(Kind::Close)?;
    Ok(())
}

fn set_text(option: &str, value: String, given: &mut FormatOptions) -> Result<(), SqlError> {
    match option {
        "delimiter" => given.delimiter = Some(value),
        "null" => given.null = Some(value),
        "quote" => given.quote = Some(value),
        "escape" => given.escape = Some(value),
        _ => {
            let plain = value.to_ascii_lowercase().replace(['-', '_'], "");
            if plain != "utf8" && plain != "unicode" {
                return Err(SqlError::unsupported(format!("encoding \"{value}\"")));
            }
        }
    }
    Ok(())
}

fn word_or_string(cursor: &mut Cursor<'_>) -> Result<String, SqlError> {
    match cursor.peek().map(|t| t.kind) {
        Some(Kind::Word | Kind::QuotedIdent) => cursor.identifier(),
        _ => cursor.string(),
    }
}

fn boolean(cursor: &mut Cursor<'_>, option: &str) -> Result<bool, SqlError> {
    let value = match cursor.peek() {
        Some(t) if matches!(t.kind, Kind::Word | Kind::String) => word_or_string(cursor)?,
        Some(t) if t.kind == Kind::Integer => {
            cursor.next_token();
            t.text(cursor.sql).to_owned()
        }
        // An option without a value is true.
        _ => return Ok(true),
    };
    crate::settings::parse_bool(&value).ok_or_else(|| {
        SqlError::new(
            SqlState::SYNTAX_ERROR,
            format!("{option} requires a Boolean value"),
        )
    })
}

fn invalid(message: String) -> SqlError {
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
}

/// Sets the format's defaults and checks that the options are compatible.
fn complete_options(mut copy: CopySyntax, given: FormatOptions) -> Result<CopySyntax, SqlError> {
    let csv = copy.options.format == CopyFormat::Csv;
    if copy.options.format == CopyFormat::Binary {
        let refused = [
            (
                given.delimiter.is_some(),
                "DELIMITER",
                SqlState::SYNTAX_ERROR,
            ),
            (given.null.is_some(), "NULL", SqlState::SYNTAX_ERROR),
            (
                copy.options.header,
                "HEADER",
                SqlState::FEATURE_NOT_SUPPORTED,
            ),
        ];
        if let Some((_, what, state)) = refused.into_iter().find(|(given, ..)| *given) {
            let message = format!("cannot specify {what} in BINARY mode");
            return Err(SqlError::new(state, message));
        }
    }
    if csv {
        copy.options.delimiter = b',';
        copy.options.null = String::new();
    }
    if let Some(text) = given.delimiter {
        copy.options.delimiter = one_byte("delimiter", &text)?;
    }
    if let Some(null) = given.null {
        copy.options.null = null;
    }
    let only_csv = |what: &str| {
        SqlError::new(
            SqlState::FEATURE_NOT_SUPPORTED,
            format!("COPY {what} available only in CSV mode"),
        )
    };
    match given.quote {
        Some(_) if !csv => return Err(only_csv("quote")),
        Some(text) => {
            copy.options.quote = one_byte("quote", &text)?;
            copy.options.escape = copy.options.quote;
        }
        None => {}
    }
    match given.escape {
        Some(_) if !csv => return Err(only_csv("escape")),
        Some(text) => copy.options.escape = one_byte("escape", &text)?,
        None => {}
    }
    if (copy.force_quote_all || !copy.force_quote.is_empty()) && !csv {
        return Err(only_csv("force quote"));
    }
    let out = copy.direction == CopyDirection::Out;
    for (columns, what) in [
        (&copy.force_not_null, "force not null"),
        (&copy.force_null, "force null"),
    ] {
        match columns.is_empty() {
            false if !csv => return Err(only_csv(what)),
            false if out => {
                return Err(SqlError::new(
                    SqlState::FEATURE_NOT_SUPPORTED,
                    format!("COPY {what} only available using COPY FROM"),
                ));
            }
            _ => {}
        }
    }
    if !out && (copy.force_quote_all || !copy.force_quote.is_empty()) {
        return Err(SqlError::new(
            SqlState::FEATURE_NOT_SUPPORTED,
            "COPY force quote only available using COPY TO",
        ));
    }
    let text = copy.options.format == CopyFormat::Text;
    let delimiter = copy.options.delimiter;
    if text && (delimiter.is_ascii_lowercase() || delimiter.is_ascii_digit() || delimiter == b'.') {
        return Err(invalid(format!(
            "COPY delimiter cannot be \"{}\"",
            delimiter as char
        )));
    }
    if csv && delimiter == copy.options.quote {
        return Err(invalid(
            "COPY delimiter and quote must be different".to_owned(),
        ));
    }
    Ok(copy)
}

fn one_byte(what: &str, text: &str) -> Result<u8, SqlError> {
    match text.as_bytes() {
        [b] if !matches!(b, b'\n' | b'\r') => Ok(*b),
        [_] => Err(invalid(format!(
            "COPY {what} cannot be newline or carriage return"
        ))),
        _ => Err(SqlError::new(
            SqlState::FEATURE_NOT_SUPPORTED,
            format!("COPY {what} must be a single one-byte character"),
        )),
    }
}
