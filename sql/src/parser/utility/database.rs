//! CREATE, ALTER and DROP DATABASE.

use super::super::cursor::Cursor;
use super::super::lexer::{self, Kind, Token};
use super::role::role;
use super::settings;
use crate::bound::{
    AlterDatabase, CreateDatabase, DatabaseChange, DatabaseOptions, DropDatabase, SetValue,
    SettingChange, Statement,
};
use crate::error::{SqlError, SqlState};

/// The locales with the sort order and character classes that are used here.
const LOCALES: [&str; 5] = ["C", "POSIX", "C.UTF-8", "C.utf8", "C.UTF8"];

/// Parses the statement after CREATE, ALTER or DROP, if it concerns databases.
pub(super) fn parse(word: &str, c: &mut Cursor<'_>) -> Result<Option<Statement>, SqlError> {
    if !c.accept("database") {
        return Ok(None);
    }
    Ok(Some(match word {
        "create" => create(c)?,
        "alter" => alter(c)?,
        _ => drop_database(c)?,
    }))
}

fn create(c: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    let mut of = CreateDatabase {
        name: c.identifier()?,
        ..CreateDatabase::default()
    };
    let mut seen = Vec::new();
    c.accept("with");
    while let Some(token) = c.peek() {
        let name = option_name(c, token, &mut seen)?;
        if c.accept("default") {
            continue;
        }
        match name.as_str() {
            "owner" => of.owner = Some(role(c)?.0),
            "template" => of.template = Some(word_or_string(c)?),
            "tablespace" => of.tablespace = Some(word_or_string(c)?),
            "encoding" => check_encoding(c)?,
            "locale" => {
                let locale = locale(c)?;
                of.collate.get_or_insert_with(|| locale.clone());
                of.ctype.get_or_insert(locale);
            }
            "lc_collate" => of.collate = Some(locale(c)?),
            "lc_ctype" => of.ctype = Some(locale(c)?),
            "locale_provider" => check_provider(c)?,
            "strategy" => check_strategy(c)?,
            "icu_locale" | "collation_version" | "oid" => {
                let what = format!("CREATE DATABASE with {}", name.to_ascii_uppercase());
                return Err(SqlError::unsupported(what));
            }
            _ => option(c, (&name, token), &mut of.options)?,
        }
    }
    Ok(Statement::CreateDatabase(Box::new(of)))
}

fn alter(c: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    let name = c.identifier()?;
    let change = if c.accept_all(&["rename", "to"]) {
        DatabaseChange::Rename(c.identifier()?)
    } else if c.sees("refresh") {
        return Err(SqlError::unsupported("ALTER DATABASE … REFRESH COLLATION"));
    } else if c.sees_all(&["set", "tablespace"]) {
        return Err(SqlError::unsupported("ALTER DATABASE … SET TABLESPACE"));
    } else if let Some(change) = setting(c)? {
        DatabaseChange::Setting(change)
    } else {
        let mut options = DatabaseOptions::default();
        let mut seen = Vec::new();
        c.accept("with");
        while let Some(token) = c.peek() {
            let name = option_name(c, token, &mut seen)?;
            if name == "tablespace" {
                return Err(SqlError::unsupported("ALTER DATABASE … TABLESPACE"));
            }
            option(c, (&name, token), &mut options)?;
        }
        DatabaseChange::Options(options)
    };
    Ok(Statement::AlterDatabase(AlterDatabase { name, change }))
}

/// Reads SET or RESET of a default setting of sessions.
pub(super) fn setting(c: &mut Cursor<'_>) -> Result<Option<SettingChange>, SqlError> {
    Ok(Some(if c.accept("set") {
        set(c)?
    } else if c.accept("reset") {
        match settings::parse("reset", c)? {
            Statement::Reset(Some(name)) => SettingChange::Set(name, None),
            _ => SettingChange::ResetAll,
        }
    } else {
        return Ok(None);
    }))
}

/// Reads a setting after SET.
fn set(c: &mut Cursor<'_>) -> Result<SettingChange, SqlError> {
    let current = c.peek_after(1).is_some_and(|t| t.is(c.sql, "from"));
    if current {
        let name = c.identifier()?.to_ascii_lowercase();
        c.expect("from")?;
        c.expect("current")?;
        return Ok(SettingChange::SetCurrent(name));
    }
    match settings::parse("set", c)? {
        Statement::Set(set) => Ok(SettingChange::Set(
            set.name,
            match set.value {
                SetValue::Value(value) => Some(value),
                SetValue::Default => None,
            },
        )),
        _ => Err(SqlError::unsupported("SET of this for later sessions")),
    }
}

fn drop_database(c: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    let if_exists = c.accept_all(&["if", "exists"]);
    let name = c.identifier()?;
    c.accept("with");
    let mut force = false;
    if c.accept_kind(Kind::Open).is_some() {
        loop {
            c.expect("force")?;
            force = true;
            if c.accept_kind(Kind::Comma).is_none() {
                break;
            }
        }
        c.expect_kind(Kind::Close)?;
    }
    Ok(Statement::DropDatabase(DropDatabase {
        name,
        if_exists,
        force,
    }))
}

/// Reads the name of an option.
///
/// # Errors
/// 42601 if the option occurs twice.
fn option_name(
    c: &mut Cursor<'_>,
    token: Token,
    seen: &mut Vec<String>,
) -> Result<String, SqlError> {
    let name = match token.kind {
        Kind::Word if c.accept_all(&["connection", "limit"]) => "connection_limit".to_owned(),
        Kind::Word => c.identifier()?.to_ascii_lowercase(),
        _ => return Err(c.unexpected()),
    };
    if seen.contains(&name) {
        return Err(at(c, token, "conflicting or redundant options"));
    }
    seen.push(name.clone());
    c.accept_operator("=");
    Ok(name)
}

/// Reads an option that ALTER DATABASE has, too.
fn option(
    c: &mut Cursor<'_>,
    (name, token): (&str, Token),
    options: &mut DatabaseOptions,
) -> Result<(), SqlError> {
    match name {
        "is_template" => options.is_template = Some(boolean(c, name)?),
        "allow_connections" => options.connects = Some(boolean(c, name)?),
        "connection_limit" => {
            let negative = c.accept_operator("-");
            let number = c.expect_kind(Kind::Integer)?;
            let number: i32 = number.text(c.sql).parse().unwrap_or(i32::MAX);
            let limit = if negative { -number } else { number };
            if limit < -1 {
                let message = format!("invalid connection limit: {limit}");
                return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
            }
            options.connections = Some(limit);
        }
        _ => {
            let message = format!("option \"{name}\" not recognized");
            return Err(at(c, token, message));
        }
    }
    Ok(())
}

fn boolean(c: &mut Cursor<'_>, name: &str) -> Result<bool, SqlError> {
    let text = value(c)?.to_ascii_lowercase();
    match text.as_str() {
        "true" | "on" | "1" => Ok(true),
        "false" | "off" | "0" => Ok(false),
        _ => Err(SqlError::new(
            SqlState::SYNTAX_ERROR,
            format!("{name} requires a Boolean value"),
        )),
    }
}

fn value(c: &mut Cursor<'_>) -> Result<String, SqlError> {
    match c.accept_kind(Kind::Integer) {
        Some(number) => Ok(number.text(c.sql).to_owned()),
        None => word_or_string(c),
    }
}

fn word_or_string(c: &mut Cursor<'_>) -> Result<String, SqlError> {
    match c.peek() {
        Some(t) if t.kind == Kind::QuotedIdent => c.identifier(),
        Some(t) if t.kind == Kind::Word => {
            c.next_token();
            Ok(t.text(c.sql).to_ascii_lowercase())
        }
        _ => c.string(),
    }
}

fn check_encoding(c: &mut Cursor<'_>) -> Result<(), SqlError> {
    let encoding = value(c)?;
    let plain: String = encoding.chars().filter(|c| c.is_alphanumeric()).collect();
    match plain.to_ascii_lowercase().as_str() {
        "utf8" | "unicode" | "6" => Ok(()),
        _ => Err(SqlError::unsupported(format!(
            "a database of the encoding {encoding}"
        ))),
    }
}

fn check_provider(c: &mut Cursor<'_>) -> Result<(), SqlError> {
    let provider = value(c)?.to_ascii_lowercase();
    match provider.as_str() {
        "libc" => Ok(()),
        "icu" => Err(SqlError::unsupported("the locale provider icu")),
        _ => Err(SqlError::new(
            SqlState::new(b"42P17"),
            format!("unrecognized locale provider: {provider}"),
        )),
    }
}

/// Checks the STRATEGY, which is ignored; only PostgreSQL's two values are valid.
fn check_strategy(c: &mut Cursor<'_>) -> Result<(), SqlError> {
    let strategy = value(c)?;
    match strategy.to_ascii_lowercase().as_str() {
        "wal_log" | "file_copy" => Ok(()),
        _ => Err(SqlError::new(
            SqlState::INVALID_PARAMETER_VALUE,
            format!("invalid create database strategy \"{strategy}\""),
        )
        .hint("Valid strategies are \"wal_log\", and \"file_copy\".")),
    }
}

fn locale(c: &mut Cursor<'_>) -> Result<String, SqlError> {
    let locale = match c.peek() {
        Some(t) if t.kind == Kind::Word => {
            c.next_token();
            t.text(c.sql).to_owned()
        }
        _ => word_or_string(c)?,
    };
    match LOCALES.contains(&locale.as_str()) {
        true => Ok(locale),
        false => Err(SqlError::unsupported(format!(
            "a database of the locale {locale}"
        ))),
    }
}

fn at(c: &Cursor<'_>, token: Token, message: impl Into<String>) -> SqlError {
    let position = lexer::position(c.sql, token.start);
    SqlError::new(SqlState::SYNTAX_ERROR, message).or_at(position)
}
