//! GRANT, REVOKE, ALTER … OWNER TO, ALTER DEFAULT PRIVILEGES, REASSIGN OWNED and COMMENT ON.

use super::super::Statement;
use super::super::cursor::Cursor;
use super::super::lexer::Kind;
use super::super::routine::RoutineName;
use super::super::security::{GrantSyntax, GrantTargets, ObjectName, SecuritySyntax};
use super::role::{role, roles};
use super::routine::routine_name;
use crate::bound::{self, DefaultPrivileges, DropOwned, GrantRole, ReassignOwned, RoleRef};
use crate::catalog::ObjectKind;
use crate::catalog::acl::Privileges;
use crate::error::{SqlError, SqlState};

/// The SQLSTATE `invalid_grant_operation`.
const INVALID_GRANT: SqlState = SqlState::new(b"0LP01");

/// Parses the statement after its first word, if it is one of these.
pub(super) fn parse(word: &str, c: &mut Cursor<'_>) -> Result<Option<Statement>, SqlError> {
    let statement = match word {
        "grant" | "revoke" => grant(c, word == "revoke")?,
        "reassign" => ready(bound::Statement::ReassignOwned(reassign(c)?)),
        "comment" => of(comment(c)?),
        "alter" if c.accept_all(&["default", "privileges"]) => {
            ready(bound::Statement::DefaultPrivileges(default_privileges(c)?))
        }
        "alter" if changes_owner(c) => of(owner(c)?),
        "alter" if moves_relation(c) => of(moved(c)?),
        "alter" if renames_view(c) => of(renamed_view(c)?),
        "alter" => match super::super::view::alter(c)? {
            Some(syntax) => Statement::View(Box::new(syntax)),
            None => return Ok(None),
        },
        "drop" if c.accept_all(&["owned", "by"]) => ready(bound::Statement::DropOwned(DropOwned {
            roles: roles(c)?,
            cascade: cascade(c),
        })),
        _ => return Ok(None),
    };
    c.end()?;
    Ok(Some(statement))
}

fn ready(statement: bound::Statement) -> Statement {
    Statement::Ready(Box::new(statement))
}

fn of(syntax: SecuritySyntax) -> Statement {
    Statement::Security(Box::new(syntax))
}

/// Reads a comma-separated list.
fn list<T>(
    c: &mut Cursor<'_>,
    one: &dyn Fn(&mut Cursor<'_>) -> Result<T, SqlError>,
) -> Result<Vec<T>, SqlError> {
    let mut all = vec![one(c)?];
    while c.accept_kind(Kind::Comma).is_some() {
        all.push(one(c)?);
    }
    Ok(all)
}

/// Reads the grantees; `None` is PUBLIC.
fn grantees(c: &mut Cursor<'_>) -> Result<Vec<Option<RoleRef>>, SqlError> {
    list(c, &|c| {
        c.accept("group");
        Ok(match role(c)?.0 {
            RoleRef::Named(name) if name == "public" => None,
            role => Some(role),
        })
    })
}

fn granted_by(c: &mut Cursor<'_>) -> Result<Option<RoleRef>, SqlError> {
    match c.accept_all(&["granted", "by"]) {
        true => Ok(Some(role(c)?.0)),
        false => Ok(None),
    }
}

fn cascade(c: &mut Cursor<'_>) -> bool {
    let cascade = c.accept("cascade");
    if !cascade {
        c.accept("restrict");
    }
    cascade
}

fn grant(c: &mut Cursor<'_>, revoke: bool) -> Result<Statement, SqlError> {
    let mut option = revoke && c.accept_all(&["grant", "option", "for"]);
    let admin = revoke && !option && c.accept_all(&["admin", "option", "for"]);
    let privileges = match admin {
        true => list(c, &|c| Ok((c.identifier()?, Vec::new())))?,
        false => privileges(c)?,
    };
    if admin || !c.accept("on") {
        return grant_roles(c, privileges, (revoke, admin));
    }
    let objects = granted(c)?;
    c.expect(if revoke { "from" } else { "to" })?;
    let grantees = grantees(c)?;
    option |= !revoke && c.accept_all(&["with", "grant", "option"]);
    let by = granted_by(c)?;
    Ok(of(SecuritySyntax::Grant(GrantSyntax {
        revoke,
        option,
        privileges,
        objects,
        grantees,
        cascade: revoke && cascade(c),
        by,
    })))
}

fn grant_roles(
    c: &mut Cursor<'_>,
    named: Vec<(String, Vec<String>)>,
    (revoke, mut admin): (bool, bool),
) -> Result<Statement, SqlError> {
    if named.is_empty() || named.iter().any(|(_, columns)| !columns.is_empty()) {
        return Err(c.unexpected());
    }
    c.expect(if revoke { "from" } else { "to" })?;
    let members = roles(c)?;
    admin |= !revoke && c.accept_all(&["with", "admin", "option"]);
    let by = granted_by(c)?;
    if revoke {
        cascade(c);
    }
    Ok(ready(bound::Statement::GrantRole(GrantRole {
        revoke,
        admin,
        roles: named.into_iter().map(|(name, _)| name).collect(),
        members,
        by,
    })))
}

/// Reads privileges with their columns. ALL is an empty list; ALL with columns is one item without
/// a name.
fn privileges(c: &mut Cursor<'_>) -> Result<Vec<(String, Vec<String>)>, SqlError> {
    if c.accept("all") {
        c.accept("privileges");
        let columns = columns(c)?;
        return Ok(match columns.is_empty() {
            true => Vec::new(),
            false => vec![(String::new(), columns)],
        });
    }
    list(c, &|c| Ok((c.identifier()?, columns(c)?)))
}

fn columns(c: &mut Cursor<'_>) -> Result<Vec<String>, SqlError> {
    if c.accept_kind(Kind::Open).is_none() {
        return Ok(Vec::new());
    }
    let all = list(c, &|c| c.identifier())?;
    c.expect_kind(Kind::Close)?;
    Ok(all)
}

/// Reads the objects after ON.
fn granted(c: &mut Cursor<'_>) -> Result<GrantTargets, SqlError> {
    let all = [
        ("tables", ObjectKind::Table, Some(ObjectKind::View)),
        ("sequences", ObjectKind::Sequence, None),
        ("functions", ObjectKind::Function, None),
        ("procedures", ObjectKind::Procedure, None),
        (
            "routines",
            ObjectKind::Function,
            Some(ObjectKind::Procedure),
        ),
    ];
    if c.accept("all") {
        for (word, kind, other) in all {
            if c.accept_all(&[word, "in", "schema"]) {
                let schemas = list(c, &|c| c.identifier())?;
                return Ok(GrantTargets::AllIn(kind, other, schemas));
            }
        }
        return Err(c.unexpected());
    }
    let kind = granted_kind(c)?;
    Ok(GrantTargets::Named(list(c, &|c| object(c, kind))?))
}

fn granted_kind(c: &mut Cursor<'_>) -> Result<ObjectKind, SqlError> {
    let kinds = [
        ("table", ObjectKind::Table),
        ("sequence", ObjectKind::Sequence),
        ("schema", ObjectKind::Schema),
        ("function", ObjectKind::Function),
        ("procedure", ObjectKind::Procedure),
        ("routine", ObjectKind::Function),
        ("type", ObjectKind::Type),
        ("domain", ObjectKind::Type),
        ("database", ObjectKind::Database),
    ];
    for refused in ["language", "tablespace", "parameter"] {
        let named = c
            .peek_after(1)
            .is_some_and(|t| t.kind == Kind::Word && !t.is(c.sql, "to"));
        if c.sees(refused) && named {
            let what = format!("privileges on a {refused}");
            return Err(SqlError::unsupported(what));
        }
    }
    for refused in [
        ["foreign", "data"],
        ["foreign", "server"],
        ["large", "object"],
    ] {
        if c.sees_all(&refused) {
            let what = format!("privileges on a {}", refused.join(" "));
            return Err(SqlError::unsupported(what));
        }
    }
    for (word, kind) in kinds {
        if c.accept(word) {
            return Ok(kind);
        }
    }
    Ok(ObjectKind::Table)
}

/// Reads the name of an object of a kind.
fn object(c: &mut Cursor<'_>, kind: ObjectKind) -> Result<ObjectName, SqlError> {
    let name = match kind {
        ObjectKind::Function | ObjectKind::Procedure => routine_name(c)?,
        _ => {
            let (schema, name) = c.qualified()?;
            RoutineName {
                schema,
                name,
                args: None,
            }
        }
    };
    Ok(ObjectName { kind, name })
}

/// Returns whether the statement is ALTER … OWNER TO, for any kind of object.
fn changes_owner(c: &Cursor<'_>) -> bool {
    let mut at = 0;
    while let Some(token) = c.peek_after(at) {
        let to = c.peek_after(at + 1).is_some_and(|t| t.is(c.sql, "to"));
        if at > 1 && to && token.is(c.sql, "owner") && c.peek_after(at + 3).is_none() {
            // RENAME [COLUMN] owner TO … renames a column.
            let before = c.peek_after(at - 1).filter(|_| at > 2);
            return !before.is_some_and(|t| t.is(c.sql, "rename") || t.is(c.sql, "column"));
        }
        at += 1;
    }
    false
}

/// Returns whether the statement is ALTER … SET SCHEMA of a table, view or sequence.
fn moves_relation(c: &Cursor<'_>) -> bool {
    let kinds = ["table", "view", "materialized", "sequence"];
    if !kinds.iter().any(|kind| c.sees(kind)) {
        return false;
    }
    let is = |at: usize, word: &str| c.peek_after(at).is_some_and(|t| t.is(c.sql, word));
    let last = (2..).take_while(|at| c.peek_after(*at).is_some()).last();
    last.is_some_and(|last| is(last - 2, "set") && is(last - 1, "schema"))
}

fn moved(c: &mut Cursor<'_>) -> Result<SecuritySyntax, SqlError> {
    let (kind, tag) = if c.accept_all(&["materialized", "view"]) {
        (ObjectKind::Table, "ALTER MATERIALIZED VIEW")
    } else if c.accept("view") {
        (ObjectKind::View, "ALTER VIEW")
    } else if c.accept("sequence") {
        (ObjectKind::Sequence, "ALTER SEQUENCE")
    } else {
        c.expect("table")?;
        (ObjectKind::Table, "ALTER TABLE")
    };
    let if_exists = c.accept_all(&["if", "exists"]);
    c.accept("only");
    let object = object(c, kind)?;
    c.expect("set")?;
    c.expect("schema")?;
    Ok(SecuritySyntax::Schema {
        object,
        if_exists,
        to: c.identifier()?,
        tag,
    })
}

/// Returns whether the statement is ALTER VIEW … RENAME.
fn renames_view(c: &Cursor<'_>) -> bool {
    let mut at = 1;
    while let Some(token) = c.peek_after(at) {
        if at > 1 && token.is(c.sql, "rename") {
            return c.sees("view");
        }
        at += 1;
    }
    false
}

fn renamed_view(c: &mut Cursor<'_>) -> Result<SecuritySyntax, SqlError> {
    c.expect("view")?;
    let if_exists = c.accept_all(&["if", "exists"]);
    let object = object(c, ObjectKind::View)?;
    c.expect("rename")?;
    let column = match c.accept("to") {
        true => None,
        false => {
            c.accept("column");
            let column = c.identifier()?;
            c.expect("to")?;
            Some(column)
        }
    };
    Ok(SecuritySyntax::RenameView {
        object,
        if_exists,
        column,
        to: c.identifier()?,
    })
}

fn owner(c: &mut Cursor<'_>) -> Result<SecuritySyntax, SqlError> {
    let kind = match () {
        () if c.accept_all(&["materialized", "view"]) => ObjectKind::Table,
        () if c.accept("view") => ObjectKind::View,
        () if c.accept("index") => ObjectKind::Index,
        () if c.sees("language") || c.sees("aggregate") || c.sees("foreign") => {
            return Err(SqlError::unsupported("this form of ALTER … OWNER TO"));
        }
        () => {
            let before = c.peek();
            let kind = granted_kind(c)?;
            if c.peek().map(|t| t.start) == before.map(|t| t.start) {
                return Err(SqlError::unsupported("this form of ALTER … OWNER TO"));
            }
            kind
        }
    };
    let if_exists = c.accept_all(&["if", "exists"]);
    c.accept("only");
    let object = object(c, kind)?;
    c.expect("owner")?;
    c.expect("to")?;
    Ok(SecuritySyntax::Owner {
        object,
        if_exists,
        to: role(c)?.0,
    })
}

fn comment(c: &mut Cursor<'_>) -> Result<SecuritySyntax, SqlError> {
    c.expect("on")?;
    let kinds = [
        ("view", ObjectKind::View),
        ("index", ObjectKind::Index),
        ("role", ObjectKind::Role),
        ("extension", ObjectKind::Extension),
    ];
    let mut part = None;
    let object = if c.accept("column") {
        let mut parts = vec![c.identifier()?];
        while c.accept_kind(Kind::Dot).is_some() {
            parts.push(c.identifier()?);
        }
        part = parts.pop();
        let Some(name) = parts.pop() else {
            let message = "column name must be qualified";
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
        };
        ObjectName {
            kind: ObjectKind::Table,
            name: RoutineName {
                schema: parts.pop(),
                name,
                args: None,
            },
        }
    } else if c.accept("constraint") {
        part = Some(c.identifier()?);
        c.expect("on")?;
        if c.sees("domain") {
            return Err(SqlError::unsupported("COMMENT ON a constraint of a domain"));
        }
        object(c, ObjectKind::Constraint)?
    } else if c.accept_all(&["materialized", "view"]) {
        object(c, ObjectKind::Table)?
    } else if let Some((word, kind)) = kinds.into_iter().find(|(word, _)| c.sees(word)) {
        c.accept(word);
        object(c, kind)?
    } else {
        let before = c.peek();
        let kind = granted_kind(c)?;
        if c.peek().map(|t| t.start) == before.map(|t| t.start) {
            let what = before.map_or("", |t| t.text(c.sql)).to_ascii_uppercase();
            return Err(SqlError::unsupported(format!("COMMENT ON {what}")));
        }
        object(c, kind)?
    };
    c.expect("is")?;
    let text = match c.accept("null") {
        true => None,
        false => Some(c.string()?),
    };
    Ok(SecuritySyntax::Comment {
        object,
        part,
        // An empty comment removes the comment.
        text: text.filter(|text| !text.is_empty()),
    })
}

fn reassign(c: &mut Cursor<'_>) -> Result<ReassignOwned, SqlError> {
    c.expect("owned")?;
    c.expect("by")?;
    let roles = roles(c)?;
    c.expect("to")?;
    Ok(ReassignOwned {
        roles,
        to: role(c)?.0,
    })
}

fn default_privileges(c: &mut Cursor<'_>) -> Result<DefaultPrivileges, SqlError> {
    let (mut of, mut schemas) = (Vec::new(), Vec::new());
    loop {
        if c.accept_all(&["for", "role"]) || c.accept_all(&["for", "user"]) {
            of = roles(c)?;
        } else if c.accept_all(&["in", "schema"]) {
            schemas = list(c, &|c| c.identifier())?;
        } else {
            break;
        }
    }
    let revoke = c.accept("revoke");
    if !revoke {
        c.expect("grant")?;
    }
    let mut option = revoke && c.accept_all(&["grant", "option", "for"]);
    let named = privileges(c)?;
    c.expect("on")?;
    let kinds = [
        ("tables", ObjectKind::Table),
        ("sequences", ObjectKind::Sequence),
        ("functions", ObjectKind::Function),
        ("routines", ObjectKind::Function),
        ("types", ObjectKind::Type),
        ("schemas", ObjectKind::Schema),
    ];
    let found = kinds.into_iter().find(|(word, _)| c.accept(word));
    let (_, kind) = found.ok_or_else(|| c.unexpected())?;
    if kind == ObjectKind::Schema && !schemas.is_empty() {
        let message = "cannot use IN SCHEMA clause when using GRANT/REVOKE ON SCHEMAS";
        return Err(SqlError::new(INVALID_GRANT, message));
    }
    c.expect(if revoke { "from" } else { "to" })?;
    let grantees = grantees(c)?;
    option |= !revoke && c.accept_all(&["with", "grant", "option"]);
    let mut wanted = None;
    for (name, columns) in named {
        if !columns.is_empty() {
            let message = "default privileges cannot be set for columns";
            return Err(SqlError::new(INVALID_GRANT, message));
        }
        let one = privilege_of(kind, &name)?;
        wanted = Some(wanted.map_or(one, |all: Privileges| all.and(one)));
    }
    Ok(DefaultPrivileges {
        roles: of,
        schemas,
        revoke,
        option,
        privileges: wanted,
        kind,
        grantees,
        cascade: revoke && cascade(c),
    })
}

/// Returns the privilege with a name, which must be valid for this kind of object.
pub(crate) fn privilege_of(kind: ObjectKind, name: &str) -> Result<Privileges, SqlError> {
    let Some(one) = Privileges::named(name) else {
        let message = format!("unrecognized privilege type \"{name}\"");
        return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
    };
    match kind.privileges().has(one) {
        true => Ok(one),
        false => Err(SqlError::new(
            INVALID_GRANT,
            format!(
                "invalid privilege type {} for {}",
                name.to_ascii_uppercase(),
                match kind {
                    ObjectKind::Table | ObjectKind::View => "relation",
                    kind => kind.name(),
                }
            ),
        )),
    }
}
