//! CREATE, ALTER and DROP of roles, users and groups.

use super::super::cursor::Cursor;
use super::super::lexer::{self, Kind, Token};
use super::super::{RESERVED, is_reserved};
use crate::bound::{AlterRole, CreateRole, DropRole, RoleChange, RoleOptions, RoleRef, Statement};
use crate::error::{SqlError, SqlState};

/// Parses the statement after CREATE, ALTER or DROP, if it concerns roles.
pub(super) fn parse(word: &str, c: &mut Cursor<'_>) -> Result<Option<Statement>, SqlError> {
    let login = c.sees("user");
    if c.sees_all(&["user", "mapping"]) {
        return Err(SqlError::unsupported("a user mapping"));
    }
    if !login && !c.sees("role") && !c.sees("group") {
        return Ok(None);
    }
    c.next_token();
    Ok(Some(match word {
        "create" => create(c, login)?,
        "alter" => alter(c)?,
        _ => drop_roles(c)?,
    }))
}

fn create(c: &mut Cursor<'_>, login: bool) -> Result<Statement, SqlError> {
    let name = new_name(c)?;
    let mut options = options(c, true)?;
    options.login = options.login.or(Some(login));
    Ok(Statement::CreateRole(CreateRole { name, options }))
}

fn alter(c: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    let of_all = ["set", "reset", "in"];
    if of_all.iter().any(|word| c.sees_all(&["all", word])) {
        c.expect("all")?;
        let database = in_database(c)?;
        let change = super::database::setting(c)?.ok_or_else(|| c.unexpected())?;
        return Ok(Statement::AlterRole(AlterRole {
            role: RoleRef::Own,
            change: RoleChange::SettingOfAll(database, change),
        }));
    }
    let role = role(c)?.0;
    for word in ["add", "drop"] {
        if c.sees(word) {
            let what = format!("ALTER ROLE … {}", word.to_ascii_uppercase());
            return Err(SqlError::unsupported(what));
        }
    }
    let change = if c.accept_all(&["rename", "to"]) {
        RoleChange::Rename(new_name(c)?)
    } else {
        let database = in_database(c)?;
        match super::database::setting(c)? {
            Some(change) => RoleChange::Setting(database, change),
            None if database.is_some() => return Err(c.unexpected()),
            None => RoleChange::Options(options(c, false)?),
        }
    };
    Ok(Statement::AlterRole(AlterRole { role, change }))
}

fn in_database(c: &mut Cursor<'_>) -> Result<Option<String>, SqlError> {
    match c.accept_all(&["in", "database"]) {
        true => c.identifier().map(Some),
        false => Ok(None),
    }
}

fn drop_roles(c: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    let if_exists = c.accept_all(&["if", "exists"]);
    let mut names = Vec::new();
    loop {
        match role(c)?.0 {
            RoleRef::Named(name) if name != "public" => names.push(name),
            _ => {
                return Err(SqlError::new(
                    SqlState::INVALID_PARAMETER_VALUE,
                    "cannot use special role specifier in DROP ROLE",
                ));
            }
        }
        if c.accept_kind(Kind::Comma).is_none() {
            return Ok(Statement::DropRole(DropRole { names, if_exists }));
        }
    }
}

/// Reads a role and returns the token that names it.
pub(super) fn role(c: &mut Cursor<'_>) -> Result<(RoleRef, Option<Token>), SqlError> {
    let token = c.peek();
    if let Some(word) = token.filter(|t| t.kind == Kind::Word) {
        let text = word.text(c.sql).to_ascii_lowercase();
        if matches!(&*text, "current_user" | "current_role" | "session_user") {
            c.next_token();
            return Ok((RoleRef::Own, token));
        }
        if is_reserved(&text) {
            return Err(c.unexpected());
        }
    }
    let name = c.identifier()?;
    if name == "none" {
        return Err(reserved(c, token, &name));
    }
    Ok((RoleRef::Named(name), token))
}

/// Reads the name of a new role.
fn new_name(c: &mut Cursor<'_>) -> Result<String, SqlError> {
    match role(c)? {
        (RoleRef::Named(name), token) if name == "public" => Err(reserved(c, token, &name)),
        (RoleRef::Named(name), _) => Ok(name),
        (RoleRef::Own, token) => {
            let word = token.map_or("", |t| t.text(c.sql)).to_ascii_uppercase();
            let message = format!("{word} cannot be used as a role name here");
            Err(at(c, token, SqlState::RESERVED_NAME, message))
        }
    }
}

fn reserved(c: &Cursor<'_>, token: Option<Token>, name: &str) -> SqlError {
    let message = format!("role name \"{name}\" is reserved");
    at(c, token, SqlState::RESERVED_NAME, message)
}

fn at(
    c: &Cursor<'_>,
    token: Option<Token>,
    state: SqlState,
    message: impl Into<String>,
) -> SqlError {
    let position = token.map_or(0, |t| lexer::position(c.sql, t.start));
    SqlError::new(state, message).or_at(position)
}

/// Reads a comma-separated list of roles.
pub(super) fn roles(c: &mut Cursor<'_>) -> Result<Vec<RoleRef>, SqlError> {
    let mut all = vec![role(c)?.0];
    while c.accept_kind(Kind::Comma).is_some() {
        all.push(role(c)?.0);
    }
    Ok(all)
}

/// Reads the options of CREATE ROLE (`new`) or ALTER ROLE.
fn options(c: &mut Cursor<'_>, new: bool) -> Result<RoleOptions, SqlError> {
    let mut options = RoleOptions::default();
    let mut seen: Vec<&str> = Vec::new();
    c.accept("with");
    while let Some(token) = c.peek() {
        let kind = option(c, new, token, &mut options)?;
        if seen.contains(&kind) {
            let message = "conflicting or redundant options";
            return Err(at(c, Some(token), SqlState::SYNTAX_ERROR, message));
        }
        seen.push(kind);
    }
    Ok(options)
}

/// Reads one option and returns its kind, by which duplicates are detected.
fn option(
    c: &mut Cursor<'_>,
    new: bool,
    token: Token,
    options: &mut RoleOptions,
) -> Result<&'static str, SqlError> {
    let word = match token.kind {
        Kind::Word => token.text(c.sql).to_ascii_lowercase(),
        _ => return Err(c.unexpected()),
    };
    c.next_token();
    let attribute = word.strip_prefix("no").unwrap_or(&word);
    let on = attribute.len() == word.len();
    let attributes = [
        ("superuser", &mut options.superuser),
        ("login", &mut options.login),
        ("createdb", &mut options.create_db),
        ("createrole", &mut options.create_role),
        ("inherit", &mut options.inherit),
        ("replication", &mut options.replication),
        ("bypassrls", &mut options.bypass_rls),
    ];
    for (known, option) in attributes {
        if known == attribute {
            *option = Some(on);
            return Ok(known);
        }
    }
    match word.as_str() {
        "password" => {
            let null = c.accept("null");
            options.password = Some(if null { None } else { Some(c.string()?) });
            Ok("password")
        }
        "encrypted" => {
            c.expect("password")?;
            options.password = Some(Some(c.string()?));
            Ok("password")
        }
        "unencrypted" => {
            let message = "UNENCRYPTED PASSWORD is no longer supported";
            let error = at(c, Some(token), SqlState::FEATURE_NOT_SUPPORTED, message);
            Err(error.hint("Remove UNENCRYPTED to store the password in encrypted form instead."))
        }
        "connection" => {
            c.expect("limit")?;
            let negative = c.accept_operator("-");
            let limit = c.expect_kind(Kind::Integer)?.text(c.sql).parse::<i32>();
            let limit = limit.map(|limit| if negative { -limit } else { limit });
            let limit = limit.ok().filter(|limit| *limit >= -1);
            options.connections = Some(limit.ok_or_else(|| {
                let message = "invalid connection limit: must be -1 or more";
                SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
            })?);
            Ok("connection limit")
        }
        "valid" => {
            c.expect("until")?;
            options.valid_until = Some(c.string()?);
            Ok("valid until")
        }
        "sysid" if new => {
            c.expect_kind(Kind::Integer)?;
            options.sysid = true;
            Ok("sysid")
        }
        "in" if new => {
            if !c.accept("role") {
                c.expect("group")?;
            }
            for role in roles(c)? {
                match role {
                    RoleRef::Named(name) => options.member_of.push(name),
                    RoleRef::Own => return Err(SqlError::unsupported("IN ROLE CURRENT_USER")),
                }
            }
            Ok("in role")
        }
        "role" | "user" if new => {
            options.members = roles(c)?;
            Ok("role")
        }
        "admin" if new => {
            options.admins = roles(c)?;
            Ok("admin")
        }
        "sysid" | "in" | "role" => Err(lexer::syntax_error(c.sql, Some(token))),
        word if RESERVED.contains(&word) => Err(lexer::syntax_error(c.sql, Some(token))),
        word => {
            let message = format!("unrecognized role option \"{word}\"");
            Err(at(c, Some(token), SqlState::SYNTAX_ERROR, message))
        }
    }
}
