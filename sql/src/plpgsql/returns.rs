//! RETURN, RETURN NEXT and RETURN QUERY, and the check that the routine's result allows them.

use super::compile::Compiler;
use super::text::never;
use super::{NameMeaning, Op, RowSource};
use crate::error::{SqlError, SqlState};
use crate::parser::lexer::Kind;
use crate::types::TypeKind;

impl Compiler<'_> {
    pub(super) fn return_statement(&mut self) -> Result<(), SqlError> {
        self.cursor.expect("return")?;
        let refused = |message: &str| Err(SqlError::new(SqlState::DATATYPE_MISMATCH, message));
        let syntax = |message: &str| Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
        let result = self.header.result;
        let outputs = self.header.args.iter().any(|arg| arg.mode.is_output());
        if self.cursor.accept("next") {
            self.place.1 = "RETURN NEXT";
            if !result.set {
                return refused("cannot use RETURN NEXT in a non-SETOF function");
            }
            if let Some(row) = self.lone_row() {
                self.cursor.next_token();
                self.semicolon()?;
                self.emit(Op::ReturnNextRow(row));
                return Ok(());
            }
            let mut value = None;
            if !self
                .cursor
                .peek()
                .is_some_and(|t| t.kind == Kind::Semicolon)
            {
                if outputs {
                    return refused(
                        "RETURN NEXT cannot have a parameter in function with OUT parameters",
                    );
                }
                value = Some(self.expression(&never)?);
            } else if !outputs {
                return Err(self.cursor.unexpected());
            }
            self.semicolon()?;
            self.emit(Op::ReturnNext(value));
            return Ok(());
        }
        if self.cursor.accept("query") {
            self.place.1 = "RETURN QUERY";
            if !result.set {
                return refused("cannot use RETURN QUERY in a non-SETOF function");
            }
            let source = match self.cursor.accept("execute") {
                true => self.dynamic(&never)?,
                false => {
                    let query = self.raw(&never)?;
                    RowSource::Query(self.text(query))
                }
            };
            self.semicolon()?;
            self.emit(Op::ReturnQuery(source));
            return Ok(());
        }
        if self.cursor.accept_kind(Kind::Semicolon).is_some() {
            let void = result.ty.kind == TypeKind::Void && !result.trigger;
            if !outputs && !void && !result.set {
                return syntax("missing expression at or near \";\"");
            }
            self.emit(Op::Return(None));
            return Ok(());
        }
        if result.set {
            return refused("RETURN cannot have a parameter in function returning set")
                .map_err(|e: SqlError| e.hint("Use RETURN NEXT or RETURN QUERY."));
        }
        if self.header.procedure {
            return refused("RETURN cannot have a parameter in a procedure");
        }
        if outputs {
            return refused("RETURN cannot have a parameter in function with OUT parameters");
        }
        if result.ty.kind == TypeKind::Void && !result.trigger {
            return refused("RETURN cannot have a parameter in function returning void");
        }
        if let Some(row) = self.lone_row() {
            self.cursor.next_token();
            self.semicolon()?;
            self.emit(Op::ReturnRow(row));
            return Ok(());
        }
        let value = self.expression(&never)?;
        self.semicolon()?;
        self.emit(Op::Return(Some(value)));
        Ok(())
    }

    /// Returns the row variable if it is all that stands before the semicolon.
    fn lone_row(&self) -> Option<usize> {
        let next = self.cursor.peek_after(1)?;
        if next.kind != Kind::Semicolon {
            return None;
        }
        let token = self.cursor.peek()?;
        let name = match token.kind {
            Kind::Word => token.text(self.cursor.sql).to_ascii_lowercase(),
            Kind::QuotedIdent => token.text(self.cursor.sql).trim_matches('"').to_owned(),
            _ => return None,
        };
        match self.code.named(self.scope, &[name]) {
            Some(NameMeaning::Variable(row)) if self.code.is_row(row) => Some(row),
            _ => None,
        }
    }
}
