//! OPEN, FETCH, MOVE, CLOSE, and loops over cursors.

use super::compile::Compiler;
use super::text::never;
use super::{FetchDirection, IntoClause, NameMeaning, Op, RowSource, Target, VariableKind};
use crate::bound::Direction;
use crate::error::{SqlError, SqlState};
use crate::parser::lexer::{Kind, Token};

impl Compiler<'_> {
    /// Reads an identifier that must name a cursor variable.
    fn cursor_variable(&mut self) -> Result<usize, SqlError> {
        let name = self.cursor.identifier()?;
        match self.code.named(self.scope, std::slice::from_ref(&name)) {
            Some(NameMeaning::Variable(variable)) if self.code.is_cursor(variable) => Ok(variable),
            Some(_) => Err(SqlError::new(
                SqlState::DATATYPE_MISMATCH,
                format!("variable \"{name}\" must be of type cursor or refcursor"),
            )),
            None => Err(SqlError::new(
                SqlState::SYNTAX_ERROR,
                format!("\"{name}\" is not a known variable"),
            )),
        }
    }

    /// Reads the arguments `(argument, …)` of a cursor; none if the cursor declares none.
    fn cursor_args(&mut self, cursor: usize) -> Result<Vec<usize>, SqlError> {
        let VariableKind::Cursor { args, .. } = &self.code.variables[cursor].kind else {
            return Ok(Vec::new());
        };
        let names: Vec<String> = args
            .iter()
            .map(|arg| self.code.variables[*arg].name.clone())
            .collect();
        let cursor_name = self.code.variables[cursor].name.clone();
        if self.cursor.accept_kind(Kind::Open).is_none() {
            return match names.is_empty() {
                true => Ok(Vec::new()),
                false => Err(SqlError::new(
                    SqlState::SYNTAX_ERROR,
                    format!("cursor \"{cursor_name}\" has arguments"),
                )),
            };
        }
        let mut given: Vec<Option<usize>> = vec![None; names.len()];
        for nth in 0.. {
            let mut place = nth;
            let sql = self.cursor.sql;
            let named = self
                .cursor
                .peek_after(1)
                .is_some_and(|t| t.text(sql) == ":");
            if named
                || self
                    .cursor
                    .peek_after(1)
                    .is_some_and(|t| t.text(sql) == "=>")
            {
                let name = self.cursor.identifier()?;
                self.cursor.next_token();
                if named {
                    self.cursor.next_token();
                }
                place = names
                    .iter()
                    .position(|of| *of == name)
                    .unwrap_or(usize::MAX);
            }
            let ends = |_: &str, t: &Token| matches!(t.kind, Kind::Comma | Kind::Close);
            let value = self.expression(&ends)?;
            match given.get_mut(place) {
                Some(slot @ None) => *slot = Some(value),
                _ => {
                    return Err(SqlError::new(
                        SqlState::SYNTAX_ERROR,
                        format!("too many arguments for cursor \"{cursor_name}\""),
                    ));
                }
            }
            if self.cursor.accept_kind(Kind::Comma).is_none() {
                break;
            }
        }
        self.cursor.expect_kind(Kind::Close)?;
        let given: Option<Vec<usize>> = given.into_iter().collect();
        given.ok_or_else(|| {
            SqlError::new(
                SqlState::SYNTAX_ERROR,
                format!("not enough arguments for cursor \"{cursor_name}\""),
            )
        })
    }

    /// Declares the record variable of a FOR loop over a cursor; `None` for other loops.
    pub(super) fn row_of_cursor_loop(&mut self) -> Result<Option<IntoClause>, SqlError> {
        let sql = self.cursor.sql;
        let word = |token: Option<Token>| token.filter(|t| t.kind == Kind::Word);
        let cursor = word(self.cursor.peek_after(2)).map(|t| t.text(sql).to_ascii_lowercase());
        let follows = self.cursor.peek_after(3);
        let is_loop = follows.is_some_and(|t| t.is(sql, "loop") || t.text(sql) == "(");
        let is_in = self.cursor.peek_after(1).is_some_and(|t| t.is(sql, "in"));
        let named = cursor.and_then(|name| self.code.named(self.scope, &[name]));
        let Some(NameMeaning::Variable(variable)) = named.filter(|_| is_in && is_loop) else {
            return Ok(None);
        };
        if !self.code.is_cursor(variable) {
            return Ok(None);
        }
        let name = self.cursor.identifier()?;
        let row = self.variable(&name, VariableKind::Record);
        Ok(Some(IntoClause {
            strict: false,
            targets: vec![Target::Variable(row)],
        }))
    }

    /// Reads the cursor of a FOR loop; `None` if the loop is not over a cursor.
    pub(super) fn cursor_in_loop(&mut self) -> Result<Option<RowSource>, SqlError> {
        let sql = self.cursor.sql;
        let Some(token) = self.cursor.peek() else {
            return Ok(None);
        };
        let next = self.cursor.peek_after(1);
        let followed = next.is_some_and(|t| t.is(sql, "loop") || t.text(sql) == "(");
        if token.kind != Kind::Word || !followed {
            return Ok(None);
        }
        let name = token.text(sql).to_ascii_lowercase();
        let Some(NameMeaning::Variable(variable)) = self.code.named(self.scope, &[name]) else {
            return Ok(None);
        };
        if !self.code.is_cursor(variable) {
            return Ok(None);
        }
        if !matches!(
            self.code.variables[variable].kind,
            VariableKind::Cursor { .. }
        ) {
            return Err(SqlError::new(
                SqlState::SYNTAX_ERROR,
                "cursor FOR loop must use a bound cursor variable",
            ));
        }
        self.cursor.next_token();
        let args = self.cursor_args(variable)?;
        Ok(Some(RowSource::Cursor(variable, args)))
    }

    /// Compiles OPEN, FETCH, MOVE or CLOSE.
    pub(super) fn cursor_statement(&mut self, word: &str) -> Result<(), SqlError> {
        self.cursor.next_token();
        match word {
            "open" => self.open(),
            "close" => {
                let cursor = self.cursor_variable()?;
                self.semicolon()?;
                self.emit(Op::Close(cursor));
                Ok(())
            }
            _ => self.fetch(word == "move"),
        }
    }

    fn open(&mut self) -> Result<(), SqlError> {
        let cursor = self.cursor_variable()?;
        let (source, scroll) = match self.code.variables[cursor].kind {
            VariableKind::Cursor { scroll, .. } => {
                let args = self.cursor_args(cursor)?;
                (RowSource::Cursor(cursor, args), scroll)
            }
            _ => {
                let scroll = self.scroll();
                self.cursor.expect("for")?;
                let source = match self.cursor.accept("execute") {
                    true => self.dynamic(&never)?,
                    false => {
                        let query = self.raw(&never)?;
                        let query = self.text(query);
                        self.code.texts[query].cursor = true;
                        RowSource::Query(query)
                    }
                };
                (source, scroll)
            }
        };
        self.semicolon()?;
        self.emit(Op::Open {
            cursor,
            source,
            scroll,
        });
        Ok(())
    }

    /// Reads SCROLL (true) or NO SCROLL (false).
    pub(super) fn scroll(&mut self) -> Option<bool> {
        match self.cursor.accept_all(&["no", "scroll"]) {
            true => Some(false),
            false => self.cursor.accept("scroll").then_some(true),
        }
    }

    /// Reads the direction of FETCH or MOVE; `None` if there is none. FETCH must return one row.
    fn way(&mut self, moves: bool) -> Result<Option<FetchDirection>, SqlError> {
        let from = |sql: &str, token: &Token| token.is(sql, "from") || token.is(sql, "in");
        let known = |direction| Ok(Some(FetchDirection::Known(direction)));
        if self.cursor.accept("next") {
            return known(Direction::Forward(1));
        }
        if self.cursor.accept("prior") {
            return known(Direction::Forward(-1));
        }
        if self.cursor.accept("first") {
            return known(Direction::Absolute(1));
        }
        if self.cursor.accept("last") {
            return known(Direction::Absolute(-1));
        }
        if self.cursor.accept("absolute") {
            return Ok(Some(FetchDirection::Absolute(self.expression(&from)?)));
        }
        if self.cursor.accept("relative") {
            return Ok(Some(FetchDirection::Relative(self.expression(&from)?)));
        }
        let backward = self.cursor.sees("backward");
        if !backward && !self.cursor.sees("forward") {
            return Ok(None);
        }
        self.cursor.next_token();
        if self.cursor.sees("from") || self.cursor.sees("in") {
            return known(Direction::Forward(if backward { -1 } else { 1 }));
        }
        if !moves {
            return Err(SqlError::new(
                SqlState::FEATURE_NOT_SUPPORTED,
                "FETCH statement cannot return multiple rows",
            ));
        }
        match (self.cursor.accept("all"), backward) {
            (true, true) => known(Direction::BackwardAll),
            (true, false) => known(Direction::ForwardAll),
            (false, true) => Ok(Some(FetchDirection::Backward(self.expression(&from)?))),
            (false, false) => Ok(Some(FetchDirection::Forward(self.expression(&from)?))),
        }
    }

    fn fetch(&mut self, moves: bool) -> Result<(), SqlError> {
        let way = self.way(moves)?;
        let from = self.cursor.accept("from") || self.cursor.accept("in");
        if way.is_some() && !from {
            return Err(self.cursor.unexpected());
        }
        let way = way.unwrap_or(FetchDirection::Known(Direction::Forward(1)));
        let cursor = self.cursor_variable()?;
        let into = match moves {
            true => None,
            false => {
                self.cursor.expect("into")?;
                Some(self.targets_of_into()?)
            }
        };
        self.semicolon()?;
        self.emit(Op::Fetch { cursor, way, into });
        Ok(())
    }
}
