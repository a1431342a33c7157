//! The dispatch on the kind of statement, and the statements that have no file of their own.

use super::compile::{Compiler, Frame};
use super::text::never;
use super::{Diagnostic, NameMeaning, Op, Target, VariableKind};
use crate::error::{SqlError, SqlState};
use crate::parser::lexer::{Kind, Token};
use crate::types::Type;

impl Compiler<'_> {
    /// Compiles one statement.
    pub(super) fn statement(&mut self) -> Result<(), SqlError> {
        let label = self.label()?;
        let line = self.line();
        let sql = self.cursor.sql;
        let Some(first) = self.cursor.peek() else {
            return Err(self.cursor.unexpected());
        };
        let word = match first.kind {
            Kind::Word => first.text(sql).to_ascii_lowercase(),
            _ => String::new(),
        };
        let names = |name: &'static str| (line, name);
        if label.is_some()
            && !matches!(
                word.as_str(),
                "begin" | "declare" | "loop" | "while" | "for" | "foreach"
            )
        {
            return Err(self.cursor.unexpected());
        }
        if self.is_assignment() {
            self.place = names("assignment");
            return self.assign();
        }
        match word.as_str() {
            "begin" | "declare" => {
                self.block(label)?;
                self.semicolon()
            }
            "null" => {
                self.cursor.next_token();
                self.semicolon()
            }
            "if" => {
                self.place = names("IF");
                self.if_statement()
            }
            "case" => {
                self.place = names("CASE");
                self.case_statement()
            }
            "loop" | "while" => self.plain_loop(label, line),
            "for" => self.for_loop(label, line),
            "foreach" => self.foreach(label, line),
            "exit" | "continue" => {
                self.place = names(if word == "exit" { "EXIT" } else { "CONTINUE" });
                self.exit(word == "continue")
            }
            "return" => {
                self.place = names("RETURN");
                self.return_statement()
            }
            "perform" => {
                self.place = names("PERFORM");
                self.cursor.next_token();
                let text = self.expression(&never)?;
                self.semicolon()?;
                self.emit(Op::Run {
                    text,
                    into: None,
                    perform: true,
                });
                Ok(())
            }
            "execute" => {
                self.place = names("EXECUTE");
                self.execute()
            }
            "raise" => {
                self.place = names("RAISE");
                self.raise()
            }
            "assert" => {
                self.place = names("ASSERT");
                self.assert()
            }
            "get" => {
                self.place = names("GET DIAGNOSTICS");
                self.diagnostics()
            }
            "open" | "close" => {
                self.place = names(if word == "open" { "OPEN" } else { "CLOSE" });
                self.cursor_statement(&word)
            }
            "fetch" | "move" => {
                self.place = names(if word == "fetch" { "FETCH" } else { "MOVE" });
                self.cursor_statement(&word)
            }
            "commit" | "rollback" => {
                self.place = names(if word == "commit" {
                    "COMMIT"
                } else {
                    "ROLLBACK"
                });
                self.cursor.next_token();
                let chain = self.cursor.accept_all(&["and", "chain"]);
                if !chain {
                    self.cursor.accept_all(&["and", "no", "chain"]);
                }
                self.semicolon()?;
                self.emit(match word.as_str() {
                    "commit" => Op::Commit { chain },
                    _ => Op::Rollback { chain },
                });
                Ok(())
            }
            _ => {
                self.place = names(if word == "call" {
                    "CALL"
                } else {
                    "SQL statement"
                });
                let (text, into) = self.sql(&never)?;
                self.semicolon()?;
                let text = self.text(text);
                self.emit(Op::Run {
                    text,
                    into,
                    perform: false,
                });
                Ok(())
            }
        }
    }

    /// Returns whether the statement begins with a name and `:=` or `=`.
    fn is_assignment(&self) -> bool {
        let sql = self.cursor.sql;
        let is = |at: usize, text: &str| {
            let token = self.cursor.peek_after(at);
            token.is_some_and(|t| t.text(sql) == text)
        };
        let named = |at: usize| {
            let token = self.cursor.peek_after(at);
            token.is_some_and(|t| matches!(t.kind, Kind::Word | Kind::QuotedIdent | Kind::Param))
        };
        if !named(0) {
            return false;
        }
        let mut at = 1;
        while is(at, ".") && named(at + 1) {
            at += 2;
        }
        while is(at, "[") {
            let mut depth = 0usize;
            while let Some(token) = self.cursor.peek_after(at) {
                at += 1;
                match token.kind {
                    Kind::Open => depth += 1,
                    Kind::Close => depth -= 1,
                    Kind::Semicolon => return false,
                    _ => {}
                }
                if depth == 0 {
                    break;
                }
            }
        }
        (is(at, ":") && is(at + 1, "=")) || is(at, "=")
    }

    fn assign(&mut self) -> Result<(), SqlError> {
        let target = match self.cursor.accept_kind(Kind::Param) {
            Some(number) => {
                let path = [number.text(self.cursor.sql).to_owned()];
                match self.code.named(self.scope, &path) {
                    Some(NameMeaning::Variable(variable)) => Target::Variable(variable),
                    _ => return Err(self.cursor.unexpected()),
                }
            }
            None => self.target()?,
        };
        self.check_assignable(&target)?;
        if !self.assignment() {
            return Err(self.cursor.unexpected());
        }
        let value = self.expression(&never)?;
        self.semicolon()?;
        self.emit(Op::Assign { target, value });
        Ok(())
    }

    fn if_statement(&mut self) -> Result<(), SqlError> {
        let mut exits = Vec::new();
        self.cursor.expect("if")?;
        loop {
            let condition = self.expression_until("then")?;
            let skip = self.emit(Op::Unless { condition, to: 0 });
            self.nested(&["elsif", "elseif", "else", "end"])?;
            exits.push(self.emit(Op::Jump(0)));
            self.land(skip);
            if self.cursor.accept("elsif") || self.cursor.accept("elseif") {
                continue;
            }
            if self.cursor.accept("else") {
                self.nested(&["end"])?;
            }
            break;
        }
        self.cursor.expect("end")?;
        self.cursor.expect("if")?;
        self.semicolon()?;
        exits.into_iter().for_each(|exit| self.land(exit));
        Ok(())
    }

    /// Compiles statements one nesting level deeper.
    fn nested(&mut self, until: &[&str]) -> Result<(), SqlError> {
        self.frames.push(Frame::Block {
            label: None,
            exits: Vec::new(),
        });
        let done = self.statements(until);
        self.frames.pop();
        done
    }

    fn case_statement(&mut self) -> Result<(), SqlError> {
        self.cursor.expect("case")?;
        let outer = self.enter_scope(None);
        let mut operand = None;
        if !self.cursor.sees("when") {
            let value = self.expression(&|sql, token| token.is(sql, "when"))?;
            let name = format!("__Case__Variable_{}__", self.code.variables.len());
            // The first assignment determines the type of the variable.
            let variable = self.variable(&name, VariableKind::Value(Type::UNKNOWN));
            self.emit(Op::Assign {
                target: Target::Variable(variable),
                value,
            });
            operand = Some(name);
        }
        let mut exits = Vec::new();
        while self.cursor.accept("when") {
            let test = self.raw(&|sql, token| token.is(sql, "then"))?;
            self.cursor.expect("then")?;
            let condition = self.text(match &operand {
                Some(operand) => format!("SELECT \"{operand}\" IN ({test})"),
                None => format!("SELECT {test}"),
            });
            let skip = self.emit(Op::Unless { condition, to: 0 });
            self.nested(&["when", "else", "end"])?;
            exits.push(self.emit(Op::Jump(0)));
            self.land(skip);
        }
        match self.cursor.accept("else") {
            true => self.nested(&["end"])?,
            false => {
                self.emit(Op::NoCase);
            }
        }
        self.cursor.expect("end")?;
        self.cursor.expect("case")?;
        self.semicolon()?;
        self.scope = outer;
        exits.into_iter().for_each(|exit| self.land(exit));
        Ok(())
    }

    fn execute(&mut self) -> Result<(), SqlError> {
        self.cursor.expect("execute")?;
        let ends = |sql: &str, token: &Token| token.is(sql, "into") || token.is(sql, "using");
        let text = self.expression(&ends)?;
        let (mut into, mut using) = (None, Vec::new());
        loop {
            if into.is_none() && self.cursor.accept("into") {
                into = Some(self.targets_of_into()?);
            } else if using.is_empty() && self.cursor.accept("using") {
                using = self.expressions(&|sql, token| token.is(sql, "into"))?;
            } else {
                break;
            }
        }
        self.semicolon()?;
        self.emit(Op::Execute { text, using, into });
        Ok(())
    }

    fn assert(&mut self) -> Result<(), SqlError> {
        self.cursor.expect("assert")?;
        let condition = self.expression(&|_, token| token.kind == Kind::Comma)?;
        let mut message = None;
        if self.cursor.accept_kind(Kind::Comma).is_some() {
            message = Some(self.expression(&never)?);
        }
        self.semicolon()?;
        self.emit(Op::Assert { condition, message });
        Ok(())
    }

    fn diagnostics(&mut self) -> Result<(), SqlError> {
        self.cursor.expect("get")?;
        let stacked = self.cursor.accept("stacked");
        if !stacked {
            self.cursor.accept("current");
        }
        self.cursor.expect("diagnostics")?;
        let mut items = Vec::new();
        loop {
            let target = self.target()?;
            self.check_assignable(&target)?;
            if !self.assignment() {
                return Err(self.cursor.unexpected());
            }
            let name = self.cursor.identifier()?;
            let item = match (stacked, name.as_str()) {
                (false, "row_count") => Diagnostic::RowCount,
                (false, "pg_context") => Diagnostic::Context,
                (true, "returned_sqlstate") => Diagnostic::State,
                (true, "message_text") => Diagnostic::Message,
                (true, "pg_exception_detail") => Diagnostic::Detail,
                (true, "pg_exception_hint") => Diagnostic::Hint,
                (true, "pg_exception_context") => Diagnostic::ExceptionContext,
                (true, "column_name") => Diagnostic::Column,
                (true, "constraint_name") => Diagnostic::Constraint,
                (true, "pg_datatype_name") => Diagnostic::DataType,
                (true, "table_name") => Diagnostic::Table,
                (true, "schema_name") => Diagnostic::Schema,
                _ => {
                    let what = if stacked { "STACKED" } else { "CURRENT" };
                    let message = format!(
                        "diagnostics item {} is not allowed in GET {what} DIAGNOSTICS",
                        name.to_ascii_uppercase()
                    );
                    return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
                }
            };
            items.push((target, item));
            if self.cursor.accept_kind(Kind::Comma).is_none() {
                break;
            }
        }
        self.semicolon()?;
        self.emit(Op::Diagnostics { items, stacked });
        Ok(())
    }
}
