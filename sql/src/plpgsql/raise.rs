//! RAISE.

use super::compile::{Compiler, state_of, unrecognized};
use super::{Level, Op, Raise, RaiseOption, condition};
use crate::error::{SqlError, SqlState};
use crate::parser::lexer::{Kind, Token};

impl Compiler<'_> {
    pub(super) fn raise(&mut self) -> Result<(), SqlError> {
        self.cursor.expect("raise")?;
        if self.cursor.accept_kind(Kind::Semicolon).is_some() {
            self.emit(Op::Reraise);
            return Ok(());
        }
        let mut raise = Raise {
            level: self.level(),
            format: None,
            args: Vec::new(),
            state: None,
            options: Vec::new(),
        };
        let is_string = |t: Token| matches!(t.kind, Kind::String | Kind::OtherString);
        if self.cursor.peek().is_some_and(is_string) {
            let format = self.cursor.string()?;
            if self.cursor.accept_kind(Kind::Comma).is_some() {
                raise.args = self.expressions(&|sql, token| token.is(sql, "using"))?;
            }
            let wanted = places(&format);
            if raise.args.len() != wanted {
                let few = if raise.args.len() > wanted {
                    "many"
                } else {
                    "few"
                };
                let message = format!("too {few} parameters specified for RAISE");
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
            }
            raise.format = Some(format);
        } else if self.cursor.accept("sqlstate") {
            let state = self.state()?;
            raise.state = Some((state, state.as_str().to_owned()));
        } else if !self.cursor.sees("using") {
            let name = self.cursor.identifier()?;
            let state = condition(&name).next().ok_or_else(|| unrecognized(&name))?;
            raise.state = Some((state, name));
        }
        if self.cursor.accept("using") {
            loop {
                let name = self.cursor.identifier()?;
                let option = match name.as_str() {
                    "errcode" => RaiseOption::State,
                    "message" => RaiseOption::Message,
                    "detail" => RaiseOption::Detail,
                    "hint" => RaiseOption::Hint,
                    "column" => RaiseOption::Column,
                    "constraint" => RaiseOption::Constraint,
                    "datatype" => RaiseOption::DataType,
                    "table" => RaiseOption::Table,
                    "schema" => RaiseOption::Schema,
                    _ => {
                        let message = format!("unrecognized RAISE statement option {name}");
                        return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
                    }
                };
                if !self.assignment() {
                    return Err(self.cursor.unexpected());
                }
                let value = self.expression(&|_, token| token.kind == Kind::Comma)?;
                raise.options.push((option, value));
                if self.cursor.accept_kind(Kind::Comma).is_none() {
                    break;
                }
            }
        }
        self.semicolon()?;
        self.emit(Op::Raise(Box::new(raise)));
        Ok(())
    }

    fn level(&mut self) -> Level {
        for (word, level) in [
            ("exception", Level::Exception),
            ("warning", Level::Warning),
            ("notice", Level::Notice),
            ("info", Level::Info),
            ("log", Level::Log),
            ("debug", Level::Debug),
        ] {
            if self.cursor.accept(word) {
                return level;
            }
        }
        Level::Exception
    }
}

/// Returns the number of placeholders in a format; `%%` is a percent sign.
fn places(format: &str) -> usize {
    let mut places = 0;
    let mut chars = format.chars().peekable();
    while let Some(c) = chars.next() {
        if c == '%' && chars.next_if_eq(&'%').is_none() {
            places += 1;
        }
    }
    places
}

/// Resolves the value of ERRCODE: an SQLSTATE, or the name of a condition.
pub fn errcode(text: &str) -> Result<SqlState, SqlError> {
    let found = state_of(text).or_else(|| condition(text).next());
    found.ok_or_else(|| unrecognized(text))
}
