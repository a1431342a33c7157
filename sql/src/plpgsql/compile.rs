//! The compiler: blocks, labels, jumps.

use super::{
    Code, Condition, Handlers, Header, NESTING_MAX, Op, Scope, TriggerVariables, VariableDef,
    VariableKind, condition,
};
use crate::binder::NamePriority;
use crate::catalog::CatalogView;
use crate::error::{SqlError, SqlState};
use crate::parser::cursor::Cursor;
use crate::parser::lexer::{self, Kind, Token};
use crate::types::{Type, TypeKind};

/// A one-pass compiler from the tokens of a body to its code.
pub(super) struct Compiler<'a> {
    pub(super) cursor: Cursor<'a>,
    pub(super) header: Header<'a>,
    pub(super) catalog: &'a dyn CatalogView,
    pub(super) code: Code,
    /// The current scope.
    pub(super) scope: usize,
    /// The open blocks, loops and handlers; the innermost is the last.
    pub(super) frames: Vec<Frame>,
    /// The line and the name of the current statement.
    pub(super) place: (u32, &'static str),
}

/// An open block, loop or handler.
pub(super) enum Frame {
    /// A block. `exits` are the jumps to its end, whose targets are not yet set.
    Block {
        label: Option<String>,
        exits: Vec<usize>,
    },
    /// A loop. `exits` are the jumps to its end, whose targets are not yet set.
    Loop {
        label: Option<String>,
        /// The op at which the next iteration begins.
        next: usize,
        register: Option<usize>,
        exits: Vec<usize>,
    },
    /// The protected part of a block with exception handlers.
    Try,
    /// An exception handler of such a block.
    Handler,
}

impl<'a> Compiler<'a> {
    pub(super) fn new(
        body: &'a str,
        header: Header<'a>,
        catalog: &'a dyn CatalogView,
    ) -> Result<Compiler<'a>, SqlError> {
        let tokens = ranges(lexer::tokens(body)?);
        let root = Scope {
            parent: None,
            label: Some(header.name.to_owned()),
            names: Vec::new(),
        };
        let mut compiler = Compiler {
            cursor: Cursor::owning(body, tokens),
            header,
            catalog,
            code: Code {
                ops: Vec::new(),
                places: Vec::new(),
                variables: Vec::new(),
                scopes: vec![root],
                texts: Vec::new(),
                handlers: Vec::new(),
                loops: 0,
                prefer: NamePriority::Neither,
                args: Vec::new(),
                found: 0,
                trigger: None,
                types: Vec::new(),
            },
            scope: 0,
            frames: Vec::new(),
            place: (0, "function entry"),
        };
        compiler.code.found = compiler.variable("found", VariableKind::Value(Type::BOOL));
        for (nth, arg) in header.args.iter().enumerate() {
            let kind = compiler.kind_of_type(arg.ty)?;
            let variable = compiler.variable(&arg.name, kind);
            compiler.code.args.push(variable);
            let number = format!("${}", nth + 1);
            compiler.code.scopes[0].names.push((number, variable));
        }
        if header.polymorphic {
            let kind = compiler.kind_of_type(header.result.ty)?;
            compiler.variable("$0", kind);
        }
        if header.result.trigger {
            compiler.code.trigger = Some(compiler.trigger_variables());
        }
        Ok(compiler)
    }

    /// Declares the special variables of a trigger function.
    fn trigger_variables(&mut self) -> TriggerVariables {
        let texts = Type::TEXT.array().unwrap_or(Type::TEXT);
        let mut value = |name: &str, ty: Type| self.variable(name, VariableKind::Value(ty));
        TriggerVariables {
            name: value("tg_name", Type::TEXT),
            when: value("tg_when", Type::TEXT),
            level: value("tg_level", Type::TEXT),
            op: value("tg_op", Type::TEXT),
            relname: value("tg_relname", Type::TEXT),
            table_name: value("tg_table_name", Type::TEXT),
            table_schema: value("tg_table_schema", Type::TEXT),
            relid: value("tg_relid", Type::of(TypeKind::Oid)),
            nargs: value("tg_nargs", Type::INT4),
            argv: value("tg_argv", texts),
            new: self.variable("new", VariableKind::Record),
            old: self.variable("old", VariableKind::Record),
        }
    }

    /// Adds a variable. It is visible in the current scope unless its name is empty.
    pub(super) fn variable(&mut self, name: &str, kind: VariableKind) -> usize {
        self.code.variables.push(VariableDef {
            name: name.to_owned(),
            kind,
            not_null: false,
            constant: false,
        });
        let variable = self.code.variables.len() - 1;
        if !name.is_empty() {
            let scope = &mut self.code.scopes[self.scope];
            scope.names.push((name.to_owned(), variable));
        }
        variable
    }

    /// Opens a scope and returns the scope that was current before.
    pub(super) fn enter_scope(&mut self, label: Option<String>) -> usize {
        self.code.scopes.push(Scope {
            parent: Some(self.scope),
            label,
            names: Vec::new(),
        });
        std::mem::replace(&mut self.scope, self.code.scopes.len() - 1)
    }

    pub(super) fn emit(&mut self, op: Op) -> usize {
        self.code.ops.push(op);
        self.code.places.push(self.place);
        self.code.ops.len() - 1
    }

    pub(super) fn next_op(&self) -> usize {
        self.code.ops.len()
    }

    /// Makes the next op the target of a jump.
    pub(super) fn land(&mut self, jump: usize) {
        let next_op = self.next_op();
        match &mut self.code.ops[jump] {
            Op::Jump(to) | Op::Unless { to, .. } => *to = next_op,
            Op::RangeNext { exit, .. } | Op::RowsNext { exit, .. } | Op::ArrayNext { exit, .. } => {
                *exit = next_op
            }
            _ => {}
        }
    }

    pub(super) fn position(&self, token: &Token) -> u32 {
        lexer::position(self.cursor.sql, token.start)
    }

    /// Returns the line of the current token, from 1.
    pub(super) fn line(&self) -> u32 {
        let at = self.cursor.peek().map_or(0, |t| t.start);
        let before = self.cursor.sql.get(..at).unwrap_or("");
        let lines = before.bytes().filter(|b| *b == b'\n').count();
        lines as u32 + 1
    }

    /// Compiles the whole body.
    pub(super) fn whole(mut self) -> Result<Code, SqlError> {
        while self.cursor.accept_operator("#") {
            let option = self.cursor.identifier()?;
            let value = self.cursor.identifier()?;
            self.code.prefer = match (option.as_str(), value.as_str()) {
                ("variable_conflict", "error") => NamePriority::Neither,
                ("variable_conflict", "use_variable") => NamePriority::Variable,
                ("variable_conflict", "use_column") => NamePriority::Column,
                ("print_strict_params" | "option", _) => self.code.prefer,
                _ => return Err(self.cursor.unexpected()),
            };
        }
        let label = self.label()?;
        if !self.cursor.sees("declare") && !self.cursor.sees("begin") {
            return Err(self.cursor.unexpected());
        }
        self.block(label)?;
        self.cursor.accept_kind(Kind::Semicolon);
        self.cursor.end()?;
        self.place = (self.line(), "RETURN");
        self.emit(Op::End);
        Ok(self.code)
    }

    /// Reads an optional `<<label>>`.
    pub(super) fn label(&mut self) -> Result<Option<String>, SqlError> {
        if !self.cursor.accept_operator("<<") {
            return Ok(None);
        }
        let label = self.cursor.identifier()?;
        match self.cursor.accept_operator(">>") {
            true => Ok(Some(label)),
            false => Err(self.cursor.unexpected()),
        }
    }

    /// Reads the optional label after END.
    ///
    /// # Errors
    /// The label must be the one at the beginning of the block or loop.
    pub(super) fn end_label(&mut self, label: Option<&str>) -> Result<(), SqlError> {
        let named = |t: &Token| matches!(t.kind, Kind::Word | Kind::QuotedIdent);
        if self.cursor.peek().as_ref().is_none_or(|t| !named(t)) {
            return Ok(());
        }
        let end = self.cursor.identifier()?;
        if label == Some(end.as_str()) {
            return Ok(());
        }
        let message = match label {
            None => format!("end label \"{end}\" specified for unlabeled block"),
            Some(label) => {
                format!("end label \"{end}\" differs from block's label \"{label}\"")
            }
        };
        Err(SqlError::new(SqlState::SYNTAX_ERROR, message))
    }

    /// Compiles statements up to one of the words in `until`, which is not consumed.
    pub(super) fn statements(&mut self, until: &[&str]) -> Result<(), SqlError> {
        if self.frames.len() > NESTING_MAX {
            return Err(crate::stack::too_deep());
        }
        while !until.iter().any(|word| self.cursor.sees(word)) {
            if self.cursor.peek().is_none() {
                return Err(self.cursor.unexpected());
            }
            self.statement()?;
        }
        Ok(())
    }

    /// Compiles `[DECLARE …] BEGIN … [EXCEPTION …] END [label]`.
    pub(super) fn block(&mut self, label: Option<String>) -> Result<(), SqlError> {
        let line = self.line();
        let outer = self.enter_scope(label.clone());
        if self.cursor.accept("declare") {
            self.place = (line, "statement block");
            self.declarations()?;
        }
        self.cursor.expect("begin")?;
        self.place = (line, "statement block");
        self.frames.push(Frame::Block {
            label: label.clone(),
            exits: Vec::new(),
        });
        // `handlers` replaces this jump by `Op::Try`.
        let entry = self.emit(Op::Jump(self.next_op() + 1));
        let handled = self.has_handlers();
        if handled {
            self.frames.push(Frame::Try);
        }
        self.statements(&["exception", "end"])?;
        if handled {
            self.handlers(entry, line)?;
        }
        self.cursor.expect("end")?;
        self.end_label(label.as_deref())?;
        let frame = self.frames.pop();
        if let Some(Frame::Block { exits, .. }) = frame {
            exits.into_iter().for_each(|exit| self.land(exit));
        }
        self.scope = outer;
        Ok(())
    }

    /// Returns whether the current block has an EXCEPTION clause before its END.
    fn has_handlers(&self) -> bool {
        let sql = self.cursor.sql;
        let (mut depth, mut at) = (0usize, 0);
        let mut first = true;
        while let Some(token) = self.cursor.peek_after(at) {
            let next = self.cursor.peek_after(at + 1);
            if first && token.is(sql, "exception") && depth == 0 {
                return true;
            }
            // These words open a construct that ends with END.
            let opens = token.is(sql, "case")
                || (first && (token.is(sql, "begin") || token.is(sql, "if")))
                || token.is(sql, "loop");
            if token.is(sql, "end") {
                if depth == 0 {
                    return false;
                }
                depth -= 1;
                // Skips the second word of END IF, END LOOP and END CASE.
                if next.is_some_and(|t| ["if", "loop", "case"].iter().any(|word| t.is(sql, word))) {
                    at += 1;
                }
            } else if opens {
                depth += 1;
            }
            first = token.kind == Kind::Semicolon
                || (token.kind == Kind::Operator && token.text(sql) == ">>")
                || ["begin", "then", "else", "loop", "declare"]
                    .iter()
                    .any(|word| token.is(sql, word));
            at += 1;
        }
        false
    }

    /// Compiles `EXCEPTION WHEN … THEN …`; `entry` is the op where the block begins.
    fn handlers(&mut self, entry: usize, line: u32) -> Result<(), SqlError> {
        self.cursor.expect("exception")?;
        self.frames.pop();
        self.place = (line, "statement block");
        self.emit(Op::EndTry);
        let mut exits = vec![self.emit(Op::Jump(0))];
        let outer = self.enter_scope(None);
        let state = self.variable("sqlstate", VariableKind::Value(Type::TEXT));
        let message = self.variable("sqlerrm", VariableKind::Value(Type::TEXT));
        let mut clauses = Vec::new();
        while self.cursor.accept("when") {
            let mut conditions = self.conditions()?;
            while self.cursor.accept("or") {
                conditions.extend(self.conditions()?);
            }
            self.cursor.expect("then")?;
            clauses.push((conditions, self.next_op()));
            self.frames.push(Frame::Handler);
            self.statements(&["when", "end"])?;
            self.frames.pop();
            self.emit(Op::EndHandler);
            exits.push(self.emit(Op::Jump(0)));
        }
        if clauses.is_empty() {
            return Err(self.cursor.unexpected());
        }
        self.scope = outer;
        exits.into_iter().for_each(|exit| self.land(exit));
        self.code.handlers.push(Handlers {
            clauses,
            state,
            message,
        });
        self.code.ops[entry] = Op::Try {
            handlers: self.code.handlers.len() - 1,
        };
        Ok(())
    }

    /// Reads one condition of EXCEPTION WHEN. A condition name can stand for several SQLSTATEs.
    fn conditions(&mut self) -> Result<Vec<Condition>, SqlError> {
        if self.cursor.accept("sqlstate") {
            return Ok(vec![Condition::State(self.state()?)]);
        }
        let name = self.cursor.identifier()?;
        if name == "others" {
            return Ok(vec![Condition::Others]);
        }
        let found: Vec<Condition> = condition(&name).map(Condition::State).collect();
        match found.is_empty() {
            false => Ok(found),
            true => Err(unrecognized(&name)),
        }
    }

    /// Reads an SQLSTATE as a string literal, such as `'12345'`.
    pub(super) fn state(&mut self) -> Result<SqlState, SqlError> {
        let text = self.cursor.string()?;
        state_of(&text)
            .ok_or_else(|| SqlError::new(SqlState::SYNTAX_ERROR, "invalid SQLSTATE code"))
    }

    /// Compiles EXIT or CONTINUE for the labelled block or the innermost loop. Emits the ops that
    /// close the constructs in between, then the jump.
    pub(super) fn leave(&mut self, label: Option<&str>, next_round: bool) -> Result<(), SqlError> {
        let fits = |frame: &Frame| match (frame, label) {
            (Frame::Loop { .. }, None) => true,
            (Frame::Loop { label: of, .. }, Some(label)) => of.as_deref() == Some(label),
            (Frame::Block { label: of, .. }, Some(label)) => of.as_deref() == Some(label),
            _ => false,
        };
        let Some(target) = self.frames.iter().rposition(fits) else {
            let what = if next_round { "CONTINUE" } else { "EXIT" };
            let message = match label {
                None => format!("{what} cannot be used outside a loop, unless it has a label"),
                Some(label) => format!(
                    "there is no label \"{label}\" attached to any block or loop enclosing this \
                     statement"
                ),
            };
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
        };
        let mut closing = Vec::new();
        for frame in self.frames[target + 1..].iter().rev() {
            match frame {
                Frame::Try => closing.push(Op::EndTry),
                Frame::Handler => closing.push(Op::EndHandler),
                Frame::Loop {
                    register: Some(register),
                    ..
                } => closing.push(Op::LoopEnd {
                    register: *register,
                }),
                _ => {}
            }
        }
        for op in closing {
            self.emit(op);
        }
        let jump = self.emit(Op::Jump(0));
        match &mut self.frames[target] {
            Frame::Loop { next, .. } if next_round => {
                let next = *next;
                self.code.ops[jump] = Op::Jump(next);
            }
            Frame::Loop { exits, .. } => exits.push(jump),
            Frame::Block { .. } if next_round => {
                let label = label.unwrap_or("");
                let message = format!("block label \"{label}\" cannot be used in CONTINUE");
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
            }
            Frame::Block { exits, .. } => exits.push(jump),
            Frame::Try | Frame::Handler => {}
        }
        Ok(())
    }
}

/// Splits a number such as `.2` that follows a dot. The lexer reads `1..2` as a number, a dot and
/// `.2`.
fn ranges(tokens: Vec<Token>) -> Vec<Token> {
    let mut split: Vec<Token> = Vec::with_capacity(tokens.len());
    for token in tokens {
        let follows = split
            .last()
            .is_some_and(|before| before.kind == Kind::Dot && before.end == token.start);
        if token.kind == Kind::Decimal && follows {
            split.push(Token {
                kind: Kind::Dot,
                start: token.start,
                end: token.start + 1,
            });
            split.push(Token {
                kind: Kind::Integer,
                start: token.start + 1,
                end: token.end,
            });
        } else {
            split.push(token);
        }
    }
    split
}

/// Returns error 42704 for an unknown condition name.
pub(super) fn unrecognized(name: &str) -> SqlError {
    SqlError::new(
        SqlState::UNDEFINED_OBJECT,
        format!("unrecognized exception condition \"{name}\""),
    )
}

/// Parses an SQLSTATE of five digits and capital letters; returns `None` if the text is not one.
pub fn state_of(text: &str) -> Option<SqlState> {
    let code: &[u8; 5] = text.as_bytes().try_into().ok()?;
    let right = |b: &u8| b.is_ascii_digit() || b.is_ascii_uppercase();
    code.iter().all(right).then(|| SqlState::new(code))
}
