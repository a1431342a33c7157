//! CREATE and ALTER DOMAIN. DROP DOMAIN is parsed with the other types.

use sqlparser::ast;

use super::super::cursor::Cursor;
use super::super::domain::{DomainCheckSyntax, DomainRule, DomainRuleChange, DomainSyntax};
use super::super::lexer::{self, Token};
use super::super::{Statement, parse_expression, syntax};
use crate::bound::DomainChange;
use crate::error::{SqlError, SqlState};

/// The words that begin a constraint or another property.
const RULES: [&str; 11] = [
    "not",
    "null",
    "default",
    "collate",
    "constraint",
    "check",
    "unique",
    "primary",
    "references",
    "exclude",
    "generated",
];

/// Parses the statement after CREATE or ALTER, if it concerns domains.
pub(super) fn parse(word: &str, c: &mut Cursor<'_>) -> Result<Option<Statement>, SqlError> {
    let known = matches!(word, "create" | "alter");
    if !known || !c.accept("domain") {
        return Ok(None);
    }
    let syntax = match word {
        "create" => create(c)?,
        _ => alter(c)?,
    };
    c.end()?;
    Ok(Some(Statement::Domain(Box::new(syntax))))
}

fn begins_rule(sql: &str, token: &Token) -> bool {
    RULES.iter().any(|word| token.is(sql, word))
}

fn create(c: &mut Cursor<'_>) -> Result<DomainSyntax, SqlError> {
    let (schema, name) = c.qualified()?;
    c.accept("as");
    let unexpected = c.unexpected();
    let text = c.text_until(&begins_rule);
    if text.is_empty() {
        return Err(unexpected);
    }
    let base = syntax::data_type(text, &lexer::tokens(text)?)?;
    let mut rules = Vec::new();
    while c.peek().is_some() {
        rules.push(rule(c)?);
    }
    Ok(DomainSyntax::Create {
        schema,
        name,
        base,
        rules,
    })
}

fn rule(c: &mut Cursor<'_>) -> Result<DomainRule, SqlError> {
    if c.accept_all(&["not", "null"]) {
        return Ok(DomainRule::NotNull(true));
    }
    if c.accept("null") {
        return Ok(DomainRule::NotNull(false));
    }
    if c.accept("collate") {
        let (schema, name) = c.qualified()?;
        return Ok(DomainRule::Collate(match schema.as_deref() {
            None | Some("pg_catalog") => name,
            Some(schema) => format!("{schema}.{name}"),
        }));
    }
    if c.accept("default") {
        return Ok(DomainRule::Default(Box::new(default(c)?)));
    }
    let named = c.accept("constraint");
    let name = match named {
        true => Some(c.identifier()?),
        false => None,
    };
    match () {
        () if named && c.accept_all(&["not", "null"]) => Ok(DomainRule::NotNull(true)),
        () if named && c.accept("null") => Ok(DomainRule::NotNull(false)),
        () if c.accept("check") => check(c, name).map(DomainRule::Check),
        () => {
            let refused = [
                (&["unique"][..], "unique"),
                (&["primary", "key"], "primary key"),
                (&["references"], "foreign key"),
                (&["exclude"], "exclusion"),
            ];
            let found = refused.into_iter().find(|(words, _)| c.accept_all(words));
            let (_, what) = found.ok_or_else(|| c.unexpected())?;
            c.text_until(&|_, _| false);
            Ok(DomainRule::Refused(what.to_owned()))
        }
    }
}

fn default(c: &mut Cursor<'_>) -> Result<ast::Expr, SqlError> {
    if c.accept("null") {
        return parse_expression("NULL");
    }
    let unexpected = c.unexpected();
    match c.text_until(&begins_rule) {
        "" => Err(unexpected),
        text => parse_expression(text),
    }
}

/// Parses a constraint after CHECK.
fn check(c: &mut Cursor<'_>, name: Option<String>) -> Result<DomainCheckSyntax, SqlError> {
    let (start, end) = c.bracketed()?;
    let condition = parse_expression(c.sql.get(start..end).unwrap_or(""))?;
    if c.accept_all(&["no", "inherit"]) {
        return Err(SqlError::new(
            SqlState::INVALID_OBJECT_DEFINITION,
            "check constraints for domains cannot be marked NO INHERIT",
        ));
    }
    Ok(DomainCheckSyntax {
        name,
        condition: Box::new(condition),
        validate: !c.accept_all(&["not", "valid"]),
    })
}

fn alter(c: &mut Cursor<'_>) -> Result<DomainSyntax, SqlError> {
    let (schema, name) = c.qualified()?;
    let change = match () {
        () if c.accept_all(&["set", "default"]) => {
            DomainRuleChange::Default(Some(Box::new(default(c)?)))
        }
        () if c.accept_all(&["drop", "default"]) => DomainRuleChange::Default(None),
        () if c.accept("add") => DomainRuleChange::Add(rule(c)?),
        () => DomainRuleChange::Bound(change(c)?),
    };
    Ok(DomainSyntax::Alter {
        schema,
        name,
        change,
    })
}

fn change(c: &mut Cursor<'_>) -> Result<DomainChange, SqlError> {
    Ok(match () {
        () if c.accept_all(&["set", "not", "null"]) => DomainChange::NotNull(true),
        () if c.accept_all(&["drop", "not", "null"]) => DomainChange::NotNull(false),
        () if c.accept_all(&["drop", "constraint"]) => {
            let if_exists = c.accept_all(&["if", "exists"]);
            let name = c.identifier()?;
            if !c.accept("cascade") {
                c.accept("restrict");
            }
            DomainChange::DropCheck { name, if_exists }
        }
        () if c.accept_all(&["validate", "constraint"]) => DomainChange::Validate(c.identifier()?),
        () if c.accept_all(&["rename", "constraint"]) => {
            let from = c.identifier()?;
            c.expect("to")?;
            DomainChange::RenameCheck {
                from,
                to: c.identifier()?,
            }
        }
        () if c.accept_all(&["rename", "to"]) => DomainChange::Rename(c.identifier()?),
        () if c.accept_all(&["set", "schema"]) => DomainChange::SetSchema(c.identifier()?),
        () => return Err(c.unexpected()),
    })
}
