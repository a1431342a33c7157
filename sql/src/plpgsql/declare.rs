//! DECLARE: variables, their types and first values.

use super::compile::Compiler;
use super::{Op, VariableKind};
use crate::error::{SqlError, SqlState};
use crate::parser::lexer::{Kind, Token};
use crate::parser::{TypeOf, TypeSyntax};
use crate::types::Type;

impl Compiler<'_> {
    /// The declarations up to BEGIN.
    pub(super) fn declarations(&mut self) -> Result<(), SqlError> {
        while !self.cursor.sees("begin") {
            if self.cursor.accept("declare") {
                continue;
            }
            if self.cursor.peek().is_none() {
                return Err(self.cursor.unexpected());
            }
            self.declaration()?;
        }
        Ok(())
    }

    fn declaration(&mut self) -> Result<(), SqlError> {
        let name = self.cursor.identifier()?;
        let scope = &self.code.scopes[self.scope];
        if scope.names.iter().any(|(of, _)| *of == name) {
            let message = format!("duplicate declaration at or near \"{name}\"");
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
        }
        if self.cursor.accept_all(&["alias", "for"]) {
            return self.alias(name);
        }
        let scroll = self.cursor.accept_all(&["no", "scroll"]) || self.cursor.accept("scroll");
        if scroll || self.cursor.sees("cursor") {
            self.cursor.expect("cursor")?;
            return self.declared_cursor(&name);
        }
        let constant = self.cursor.accept("constant");
        let kind = self.variable_type()?;
        if self.cursor.sees("collate") {
            return Err(SqlError::unsupported("COLLATE of a variable"));
        }
        let not_null = self.cursor.accept_all(&["not", "null"]);
        let assigned = self.cursor.accept("default") || self.assignment();
        let value = match assigned {
            true => Some(self.expression(&|_, _| false)?),
            false => None,
        };
        if not_null && value.is_none() {
            let message = format!(
                "variable \"{name}\" must have a default value, since it's declared NOT NULL"
            );
            return Err(SqlError::new(SqlState::new(b"22004"), message));
        }
        self.semicolon()?;
        let variable = self.variable(&name, kind);
        self.code.variables[variable].constant = constant;
        self.code.variables[variable].not_null = not_null;
        self.emit(Op::Declare { variable, value });
        Ok(())
    }

    /// `:=` or `=`
    pub(super) fn assignment(&mut self) -> bool {
        let is = |token: Option<Token>, text: &str| {
            token.is_some_and(|t| t.text(self.cursor.sql) == text)
        };
        if is(self.cursor.peek(), ":") && is(self.cursor.peek_after(1), "=") {
            self.cursor.next_token();
            self.cursor.next_token();
            return true;
        }
        self.cursor.accept_operator("=")
    }

    fn alias(&mut self, name: String) -> Result<(), SqlError> {
        let path = match self.cursor.accept_kind(Kind::Param) {
            Some(number) => vec![number.text(self.cursor.sql).to_owned()],
            None => {
                let mut path = vec![self.cursor.identifier()?];
                while self.cursor.accept_kind(Kind::Dot).is_some() {
                    path.push(self.cursor.identifier()?);
                }
                path
            }
        };
        let Some(super::Named::Variable(variable)) = self.code.named(self.scope, &path) else {
            let message = format!("variable \"{}\" does not exist", path.join("."));
            return Err(SqlError::new(SqlState::UNDEFINED_COLUMN, message));
        };
        self.semicolon()?;
        self.code.scopes[self.scope].names.push((name, variable));
        Ok(())
    }

    /// The type of a variable.
    fn variable_type(&mut self) -> Result<VariableKind, SqlError> {
        let text = self.raw(&|sql, token| {
            token.is(sql, "not")
                || token.is(sql, "default")
                || token.is(sql, "collate")
                || matches!(token.text(sql), ":" | "=")
        })?;
        if text.eq_ignore_ascii_case("record") {
            return Ok(VariableKind::Record);
        }
        if text.eq_ignore_ascii_case("refcursor") {
            return Ok(VariableKind::Cursor {
                args: Vec::new(),
                query: None,
            });
        }
        self.kind_of(&TypeSyntax::parse(&text, false)?)
    }

    /// What a variable of a type holds.
    fn kind_of(&self, syntax: &TypeSyntax) -> Result<VariableKind, SqlError> {
        match &syntax.of {
            TypeOf::Named(data_type) => {
                let error = match crate::binder::type_of(data_type, self.catalog) {
                    Ok(ty) if ty.plain().kind.is_users() => {
                        let what = format!("a variable of type {ty}");
                        return Err(SqlError::unsupported(what));
                    }
                    Ok(ty) => return Ok(VariableKind::Value(ty)),
                    Err(error) => error,
                };
                // A table is the type of its rows.
                let parts = match &**data_type {
                    sqlparser::ast::DataType::Custom(name, _) => name.to_string().replace('"', ""),
                    _ => return Err(error),
                };
                let path: Vec<String> = parts.split('.').map(str::to_ascii_lowercase).collect();
                self.row_of(&path)?.ok_or(error)
            }
            TypeOf::Row(path) => self.row_of(path)?.ok_or_else(|| {
                let message = format!("relation \"{}\" does not exist", path.join("."));
                SqlError::new(SqlState::UNDEFINED_TABLE, message)
            }),
            TypeOf::Like(path) => self.like(path),
        }
    }

    /// The rows of a relation.
    fn row_of(&self, path: &[String]) -> Result<Option<VariableKind>, SqlError> {
        let (schema, name) = match path {
            [name] => (None, name),
            [schema, name] => (Some(schema.as_str()), name),
            _ => return Ok(None),
        };
        if let Some(table) = self.catalog.table(schema, name)? {
            let columns = table.columns.iter().map(|c| (c.name.clone(), c.ty));
            return Ok(Some(VariableKind::Row(columns.collect())));
        }
        let view = self.catalog.view(schema, name)?;
        Ok(view.map(|view| VariableKind::Row(view.columns.clone())))
    }

    /// `variable%TYPE`, `table.column%TYPE`
    fn like(&self, path: &[String]) -> Result<VariableKind, SqlError> {
        if let Some(super::Named::Variable(variable)) = self.code.named(self.scope, path) {
            return Ok(self.code.variables[variable].kind.clone());
        }
        let column = match path.split_last() {
            Some((column, relation)) if !relation.is_empty() => match self.row_of(relation)? {
                Some(VariableKind::Row(columns)) => {
                    let mut columns = columns.into_iter();
                    let found: Option<(String, Type)> = columns.find(|(name, _)| name == column);
                    match found {
                        Some((_, ty)) => Some(ty),
                        None => {
                            let message = format!(
                                "column \"{column}\" of relation \"{}\" does not exist",
                                relation.join(".")
                            );
                            return Err(SqlError::new(SqlState::UNDEFINED_COLUMN, message));
                        }
                    }
                }
                _ => {
                    let message = format!("relation \"{}\" does not exist", relation.join("."));
                    return Err(SqlError::new(SqlState::UNDEFINED_TABLE, message));
                }
            },
            _ => None,
        };
        column.map(VariableKind::Value).ok_or_else(|| {
            let message = format!("variable \"{}\" does not exist", path.join("."));
            SqlError::new(SqlState::UNDEFINED_COLUMN, message)
        })
    }

    /// `CURSOR [(arguments)] FOR query;`
    fn declared_cursor(&mut self, name: &str) -> Result<(), SqlError> {
        let outer = self.enter_scope(None);
        let mut args = Vec::new();
        if self.cursor.accept_kind(Kind::Open).is_some() {
            loop {
                let arg = self.cursor.identifier()?;
                let ends = |_: &str, t: &Token| matches!(t.kind, Kind::Comma | Kind::Close);
                let text = self.raw(&ends)?;
                let kind = self.kind_of(&TypeSyntax::parse(&text, false)?)?;
                args.push(self.variable(&arg, kind));
                if self.cursor.accept_kind(Kind::Comma).is_none() {
                    self.cursor.expect_kind(Kind::Close)?;
                    break;
                }
            }
        }
        if !self.cursor.accept("for") {
            self.cursor.expect("is")?;
        }
        let query = self.expression(&|_, _| false)?;
        let text = &mut self.code.texts[query];
        text.sql = text.sql.split_off("SELECT ".len());
        text.cursor = true;
        self.scope = outer;
        self.semicolon()?;
        let kind = VariableKind::Cursor {
            args,
            query: Some(query),
        };
        let variable = self.variable(name, kind);
        self.emit(Op::Declare {
            variable,
            value: None,
        });
        Ok(())
    }
}
