//! DECLARE: variables, their types and initial values.

use super::compile::Compiler;
use super::{Op, VariableKind};
use crate::catalog::row_type;
use crate::error::{SqlError, SqlState};
use crate::parser::lexer::{Kind, Token};
use crate::parser::{TypeOf, TypeSyntax};
use crate::types::{Composite, Type, TypeKind};

impl Compiler<'_> {
    /// Compiles the declarations up to BEGIN.
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
        let scroll = self.scroll();
        if scroll.is_some() || self.cursor.sees("cursor") {
            self.cursor.expect("cursor")?;
            return self.declared_cursor(&name, scroll);
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

    /// Consumes `:=` or `=` if one of them follows, and returns whether it did.
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
        let Some(super::NameMeaning::Variable(variable)) = self.code.named(self.scope, &path)
        else {
            let message = format!("variable \"{}\" does not exist", path.join("."));
            return Err(SqlError::new(SqlState::UNDEFINED_COLUMN, message));
        };
        self.semicolon()?;
        self.code.scopes[self.scope].names.push((name, variable));
        Ok(())
    }

    /// Reads the type of a variable.
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
        self.kind_of(&TypeSyntax::parse(&text, false)?)
    }

    /// Returns the variable kind for a type as it is written.
    fn kind_of(&mut self, syntax: &TypeSyntax) -> Result<VariableKind, SqlError> {
        match &syntax.of {
            TypeOf::Named(data_type) => {
                let ty = crate::binder::type_of(data_type, self.catalog)?;
                self.kind_of_type(ty)
            }
            TypeOf::Row(path) => match self.row_of(path)? {
                Some(of) => self.kind_of_type(Type::of(TypeKind::Composite(of))),
                None => {
                    let message = format!("relation \"{}\" does not exist", path.join("."));
                    Err(SqlError::new(SqlState::UNDEFINED_TABLE, message))
                }
            },
            TypeOf::Like(path) => self.like(path),
        }
    }

    /// Returns the variable kind for a type. Records a user-defined type in the code, because the
    /// code depends on its current definition.
    pub(super) fn kind_of_type(&mut self, ty: Type) -> Result<VariableKind, SqlError> {
        let element = ty.plain().kind.element();
        for of in [ty, ty.plain(), Type::of(element.unwrap_or(ty.kind))] {
            let made = of
                .kind
                .is_users()
                .then(|| self.catalog.user_type_by_id(of.oid()));
            if let Some(made) = made.flatten()
                && !self.code.types.iter().any(|known| known.id == made.id)
            {
                self.code.types.push(made);
            }
        }
        match (ty.kind, ty.plain().kind) {
            (TypeKind::Composite(of), _) => Ok(VariableKind::Row(of)),
            (_, TypeKind::Composite(_)) => {
                let what = "a variable of a domain over a composite type";
                Err(SqlError::unsupported(what))
            }
            (TypeKind::Record, _) => Ok(VariableKind::Record),
            _ => Ok(VariableKind::Value(ty)),
        }
    }

    /// Resolves a name to the row type of a relation or to a composite type.
    fn row_of(&self, path: &[String]) -> Result<Option<Composite>, SqlError> {
        let (schema, name) = match path {
            [name] => (None, name),
            [schema, name] => (Some(schema.as_str()), name),
            _ => return Ok(None),
        };
        if let Some(table) = self.catalog.table(schema, name)? {
            return Ok(Some(row_type(&table)));
        }
        if let Some(view) = self.catalog.view(schema, name)? {
            return Ok(Some(view.row_type()));
        }
        let made = self.catalog.user_type(schema, name);
        Ok(made.and_then(|made| made.as_composite()))
    }

    /// Resolves `variable%TYPE` or `table.column%TYPE`.
    fn like(&mut self, path: &[String]) -> Result<VariableKind, SqlError> {
        if let Some(super::NameMeaning::Variable(variable)) = self.code.named(self.scope, path) {
            return Ok(match &self.code.variables[variable].kind {
                VariableKind::Cursor { .. } => VariableKind::Value(Type::REFCURSOR),
                kind => kind.clone(),
            });
        }
        let column = match path.split_last() {
            Some((column, relation)) if !relation.is_empty() => match self.row_of(relation)? {
                Some(of) => {
                    let mut fields = of.definition().fields.iter();
                    match fields.find(|field| field.name == *column) {
                        Some(field) => Some(field.ty),
                        None => {
                            let message = format!(
                                "column \"{column}\" of relation \"{}\" does not exist",
                                relation.join(".")
                            );
                            return Err(SqlError::new(SqlState::UNDEFINED_COLUMN, message));
                        }
                    }
                }
                None => {
                    let message = format!("relation \"{}\" does not exist", relation.join("."));
                    return Err(SqlError::new(SqlState::UNDEFINED_TABLE, message));
                }
            },
            _ => None,
        };
        match column {
            Some(ty) => self.kind_of_type(ty),
            None => {
                let message = format!("variable \"{}\" does not exist", path.join("."));
                Err(SqlError::new(SqlState::UNDEFINED_COLUMN, message))
            }
        }
    }

    /// Compiles the rest of a bound cursor: `CURSOR [(arguments)] FOR query;`.
    fn declared_cursor(&mut self, name: &str, scroll: Option<bool>) -> Result<(), SqlError> {
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
            query,
            scroll,
        };
        let variable = self.variable(name, kind);
        self.emit(Op::Declare {
            variable,
            value: None,
        });
        Ok(())
    }
}
