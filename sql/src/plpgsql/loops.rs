//! LOOP, WHILE, FOR and FOREACH, and the statements EXIT and CONTINUE.
//!
//! The head of a WHILE, FOR or FOREACH loop is an op that either begins an iteration or jumps to
//! the end.

use super::compile::{Compiler, Frame};
use super::text::never;
use super::{IntoClause, Op, RowSource, Target, VariableKind};
use crate::error::{SqlError, SqlState};
use crate::parser::lexer::{Kind, Token};
use crate::types::Type;

impl Compiler<'_> {
    pub(super) fn plain_loop(&mut self, label: Option<String>, line: u32) -> Result<(), SqlError> {
        let outer = self.enter_scope(label.clone());
        let next = self.next_op();
        let mut head = None;
        if self.cursor.accept("while") {
            self.place = (line, "WHILE");
            let condition = self.expression_until("loop")?;
            head = Some(self.emit(Op::Unless { condition, to: 0 }));
        } else {
            self.cursor.expect("loop")?;
        }
        self.loop_body(label, (next, head), None)?;
        self.scope = outer;
        Ok(())
    }

    fn register(&mut self) -> usize {
        self.code.loops += 1;
        self.code.loops - 1
    }

    pub(super) fn for_loop(&mut self, label: Option<String>, line: u32) -> Result<(), SqlError> {
        self.cursor.expect("for")?;
        let outer = self.enter_scope(label.clone());
        let register = self.register();
        let (next, head);
        if self.is_range() {
            self.place = (line, "FOR with integer loop variable");
            let name = self.cursor.identifier()?;
            self.cursor.expect("in")?;
            let reverse = self.cursor.accept("reverse");
            let dots = |sql: &str, token: &Token| {
                token.kind == Kind::Dot && sql.as_bytes().get(token.end) == Some(&b'.')
            };
            let low = self.expression(&dots)?;
            self.cursor.next_token();
            self.cursor.next_token();
            let high =
                self.expression(&|sql, token| token.is(sql, "loop") || token.is(sql, "by"))?;
            let mut step = None;
            if self.cursor.accept("by") {
                step = Some(self.expression(&|sql, token| token.is(sql, "loop"))?);
            }
            self.cursor.expect("loop")?;
            let variable = self.variable(&name, VariableKind::Value(Type::INT4));
            self.emit(Op::RangeStart {
                register,
                low,
                high,
                step,
                reverse,
            });
            next = self.next_op();
            head = self.emit(Op::RangeNext {
                register,
                variable,
                exit: 0,
            });
        } else {
            let into = match self.row_of_cursor_loop()? {
                Some(into) => into,
                None => self.targets_of_into()?,
            };
            let row = |target: &Target| match target {
                Target::Variable(variable) => self.code.is_row(*variable),
                _ => false,
            };
            let single = into.targets.len() == 1 && !into.targets.iter().any(row);
            self.cursor.expect("in")?;
            let cursor = self.cursor_in_loop()?;
            self.place = (
                line,
                match cursor {
                    Some(_) => "FOR over cursor",
                    None if self.cursor.sees("execute") => "FOR over EXECUTE statement",
                    None => "FOR over SELECT rows",
                },
            );
            let source = match cursor {
                Some(source) => source,
                None if self.cursor.accept("execute") => {
                    self.dynamic(&|sql, token| token.is(sql, "loop"))?
                }
                None => {
                    let query = self.raw(&|sql, token| token.is(sql, "loop"))?;
                    RowSource::Query(self.text(query))
                }
            };
            self.cursor.expect("loop")?;
            if single && matches!(source, RowSource::Cursor(..)) {
                return Err(SqlError::new(
                    SqlState::SYNTAX_ERROR,
                    "cursor FOR loop must have only one target variable",
                ));
            }
            self.emit(Op::RowsStart { register, source });
            next = self.next_op();
            head = self.emit(Op::RowsNext {
                register,
                into: IntoClause {
                    strict: false,
                    ..into
                },
                exit: 0,
            });
        }
        self.loop_body(label, (next, Some(head)), Some(register))?;
        self.scope = outer;
        Ok(())
    }

    /// Returns whether two dots stand before LOOP: a loop over an integer range.
    fn is_range(&self) -> bool {
        let sql = self.cursor.sql;
        let (mut at, mut depth) = (0, 0usize);
        while let Some(token) = self.cursor.peek_after(at) {
            match token.kind {
                Kind::Open => depth += 1,
                Kind::Close => depth = depth.saturating_sub(1),
                Kind::Semicolon => return false,
                Kind::Word if depth == 0 && token.is(sql, "loop") => return false,
                Kind::Dot if depth == 0 => {
                    let next = self.cursor.peek_after(at + 1);
                    if next.is_some_and(|t| t.kind == Kind::Dot && t.start == token.end) {
                        return true;
                    }
                }
                _ => {}
            }
            at += 1;
        }
        false
    }

    pub(super) fn foreach(&mut self, label: Option<String>, line: u32) -> Result<(), SqlError> {
        self.cursor.expect("foreach")?;
        self.place = (line, "FOREACH over array");
        let outer = self.enter_scope(label.clone());
        let register = self.register();
        let target = self.target()?;
        self.check_assignable(&target)?;
        let mut slice = 0;
        if self.cursor.accept("slice") {
            let number = self.cursor.expect_kind(Kind::Integer)?;
            slice = number.text(self.cursor.sql).parse().unwrap_or(usize::MAX);
        }
        self.cursor.expect("in")?;
        self.cursor.expect("array")?;
        let array = self.expression_until("loop")?;
        self.emit(Op::ArrayStart {
            register,
            array,
            slice,
        });
        let next = self.next_op();
        let head = self.emit(Op::ArrayNext {
            register,
            target,
            exit: 0,
        });
        self.loop_body(label, (next, Some(head)), Some(register))?;
        self.scope = outer;
        Ok(())
    }

    /// Compiles the body of a loop. Iterations begin at `next`; `head` is the op that leaves the
    /// loop.
    fn loop_body(
        &mut self,
        label: Option<String>,
        (next, head): (usize, Option<usize>),
        register: Option<usize>,
    ) -> Result<(), SqlError> {
        self.frames.push(Frame::Loop {
            label: label.clone(),
            next,
            register,
            exits: Vec::new(),
        });
        self.statements(&["end"])?;
        self.cursor.expect("end")?;
        self.cursor.expect("loop")?;
        self.end_label(label.as_deref())?;
        self.semicolon()?;
        self.emit(Op::Jump(next));
        if let Some(Frame::Loop { exits, .. }) = self.frames.pop() {
            exits.into_iter().for_each(|exit| self.land(exit));
        }
        if let Some(head) = head {
            self.land(head);
        }
        if let Some(register) = register {
            self.emit(Op::LoopEnd { register });
        }
        Ok(())
    }

    pub(super) fn exit(&mut self, next_round: bool) -> Result<(), SqlError> {
        self.cursor.next_token();
        let mut label = None;
        if !self.cursor.sees("when")
            && self
                .cursor
                .peek()
                .is_some_and(|t| matches!(t.kind, Kind::Word | Kind::QuotedIdent))
        {
            label = Some(self.cursor.identifier()?);
        }
        let mut skip = None;
        if self.cursor.accept("when") {
            let condition = self.expression(&never)?;
            skip = Some(self.emit(Op::Unless { condition, to: 0 }));
        }
        self.semicolon()?;
        self.leave(label.as_deref(), next_round)?;
        if let Some(skip) = skip {
            self.land(skip);
        }
        Ok(())
    }
}
