//! The boundaries of SQL expressions and statements in a body, and their texts.

use std::ops::Range;

use super::compile::Compiler;
use super::{IntoClause, RowSource, Subscript, Target, Text};
use crate::error::{SqlError, SqlState};
use crate::parser::lexer::{self, Kind, Token};

/// Returns false for every token, so that a text extends to the semicolon.
pub(super) fn never(_: &str, _: &Token) -> bool {
    false
}

impl Compiler<'_> {
    /// Adds a text to the code, in the current scope.
    pub(super) fn text(&mut self, sql: String) -> usize {
        self.code.texts.push(Text {
            sql,
            scope: self.scope,
            cursor: false,
        });
        self.code.texts.len() - 1
    }

    /// Reads the text of an expression up to the first token that `ends` accepts. That token is not
    /// consumed.
    ///
    /// # Errors
    /// The text must not be empty.
    pub(super) fn raw(&mut self, ends: &dyn Fn(&str, &Token) -> bool) -> Result<String, SqlError> {
        let text = self
            .cursor
            .text_until(&|sql, token| token.kind == Kind::Semicolon || ends(sql, token));
        match text.is_empty() {
            true => Err(self.cursor.unexpected()),
            false => Ok(text.to_owned()),
        }
    }

    /// Reads an expression up to the first token that `ends` accepts, which is not consumed.
    pub(super) fn expression(
        &mut self,
        ends: &dyn Fn(&str, &Token) -> bool,
    ) -> Result<usize, SqlError> {
        let text = self.raw(ends)?;
        Ok(self.text(format!("SELECT {text}")))
    }

    /// Reads an expression up to a keyword, which is consumed.
    pub(super) fn expression_until(&mut self, keyword: &str) -> Result<usize, SqlError> {
        let expression = self.expression(&|sql, token| token.is(sql, keyword))?;
        self.cursor.expect(keyword)?;
        Ok(expression)
    }

    /// Reads a list of expressions separated by commas.
    pub(super) fn expressions(
        &mut self,
        ends: &dyn Fn(&str, &Token) -> bool,
    ) -> Result<Vec<usize>, SqlError> {
        let mut all = Vec::new();
        loop {
            let ends = |sql: &str, token: &Token| token.kind == Kind::Comma || ends(sql, token);
            all.push(self.expression(&ends)?);
            if self.cursor.accept_kind(Kind::Comma).is_none() {
                return Ok(all);
            }
        }
    }

    /// Reads `text [USING …]` after EXECUTE.
    pub(super) fn dynamic(
        &mut self,
        ends: &dyn Fn(&str, &Token) -> bool,
    ) -> Result<RowSource, SqlError> {
        let text = self.expression(&|sql, token| token.is(sql, "using") || ends(sql, token))?;
        let mut using = Vec::new();
        if self.cursor.accept("using") {
            using = self.expressions(ends)?;
        }
        Ok(RowSource::Dynamic(text, using))
    }

    /// Consumes the semicolon at the end of a statement.
    pub(super) fn semicolon(&mut self) -> Result<(), SqlError> {
        self.cursor.expect_kind(Kind::Semicolon).map(|_| ())
    }

    /// Reads the target of an assignment.
    pub(super) fn target(&mut self) -> Result<Target, SqlError> {
        let token = self.cursor.peek();
        let mut path = vec![self.cursor.identifier()?];
        while self.cursor.peek().is_some_and(|t| t.kind == Kind::Dot)
            && self
                .cursor
                .peek_after(1)
                .is_some_and(|t| matches!(t.kind, Kind::Word | Kind::QuotedIdent))
        {
            self.cursor.next_token();
            path.push(self.cursor.identifier()?);
        }
        let named = self.code.named(self.scope, &path);
        let target = match named {
            Some(super::NameMeaning::Variable(variable)) => Target::Variable(variable),
            Some(super::NameMeaning::Field(row, field)) => Target::Field(row, field),
            Some(super::NameMeaning::Place(cursor, ..)) => Target::Variable(cursor),
            Some(super::NameMeaning::Rows(_)) => return Err(self.cursor.unexpected()),
            None => {
                let name = path.join(".");
                let message = format!("\"{name}\" is not a known variable");
                let position = token.map_or(0, |t| self.position(&t));
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, message).or_at(position));
            }
        };
        let mut subscripts = Vec::new();
        while let Some(open) = self.cursor.peek().filter(|t| t.kind == Kind::Open)
            && open.text(self.cursor.sql) == "["
        {
            subscripts.push(self.subscript()?);
        }
        Ok(match subscripts.is_empty() {
            true => target,
            false => Target::Part(Box::new(target), subscripts),
        })
    }

    /// Reads a subscript: `[i]` or `[i:j]`.
    fn subscript(&mut self) -> Result<Subscript, SqlError> {
        let (start, end) = self.cursor.bracketed()?;
        let inner = self.cursor.sql.get(start..end).unwrap_or("");
        let mut depth = 0usize;
        let mut colon = None;
        for token in lexer::tokens(inner)? {
            match token.kind {
                Kind::Open => depth += 1,
                Kind::Close => depth = depth.saturating_sub(1),
                _ if depth == 0 && token.text(inner) == ":" => colon = Some(token.start),
                _ => {}
            }
        }
        let mut bound = |range: Range<usize>| match inner.get(range).map_or("", str::trim) {
            "" => None,
            text => Some(self.text(format!("SELECT {text}"))),
        };
        Ok(match colon {
            Some(at) => Subscript::Slice(bound(0..at), bound(at + 1..inner.len())),
            None => match bound(0..inner.len()) {
                Some(index) => Subscript::Index(index),
                None => return Err(self.cursor.unexpected()),
            },
        })
    }

    /// Returns error 22005 if the target is a constant.
    pub(super) fn check_assignable(&self, target: &Target) -> Result<(), SqlError> {
        let variable = match target {
            Target::Variable(variable) | Target::Field(variable, _) => variable,
            Target::Part(of, _) => return self.check_assignable(of),
        };
        let of = &self.code.variables[*variable];
        match of.constant {
            false => Ok(()),
            true => Err(SqlError::new(
                SqlState::new(b"22005"),
                format!("variable \"{}\" is declared CONSTANT", of.name),
            )),
        }
    }

    /// Reads the targets of INTO, after the keyword.
    pub(super) fn targets_of_into(&mut self) -> Result<IntoClause, SqlError> {
        let strict = self.cursor.accept("strict");
        let mut targets = Vec::new();
        loop {
            let target = self.target()?;
            self.check_assignable(&target)?;
            targets.push(target);
            if self.cursor.accept_kind(Kind::Comma).is_none() {
                break;
            }
        }
        let is_row = |t: &Target| matches!(t, Target::Variable(row) if self.code.is_row(*row));
        if targets.len() > 1
            && let Some(Target::Variable(row)) = targets.iter().find(|t| is_row(t))
        {
            let name = &self.code.variables[*row].name;
            let message = format!("\"{name}\" is not a scalar variable");
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
        }
        Ok(IntoClause { targets, strict })
    }

    /// Reads an SQL statement up to the semicolon and takes its INTO clause out of the text.
    pub(super) fn sql(
        &mut self,
        ends: &dyn Fn(&str, &Token) -> bool,
    ) -> Result<(String, Option<IntoClause>), SqlError> {
        let (mut text, mut into) = (String::new(), None);
        let (mut from, mut depth): (Option<usize>, usize) = (None, 0);
        let mut before: Option<Token> = None;
        let sql = self.cursor.sql;
        loop {
            let Some(token) = self.cursor.peek() else {
                return Err(self.cursor.unexpected());
            };
            if token.kind == Kind::Semicolon || (depth == 0 && ends(sql, &token)) {
                break;
            }
            let inserts = before.is_some_and(|t| t.is(sql, "insert") || t.is(sql, "merge"));
            if depth == 0 && token.is(sql, "into") && !inserts && into.is_none() {
                if let (Some(start), Some(last)) = (from.take(), before) {
                    text.push_str(sql.get(start..last.end).unwrap_or(""));
                    text.push(' ');
                }
                self.cursor.next_token();
                into = Some(self.targets_of_into()?);
                before = None;
                continue;
            }
            match token.kind {
                Kind::Open => depth += 1,
                Kind::Close => depth = depth.saturating_sub(1),
                _ => {}
            }
            from.get_or_insert(token.start);
            before = Some(token);
            self.cursor.next_token();
        }
        if let (Some(start), Some(last)) = (from, before) {
            text.push_str(sql.get(start..last.end).unwrap_or(""));
        }
        match text.trim().is_empty() {
            true => Err(self.cursor.unexpected()),
            false => Ok((text, into)),
        }
    }
}
