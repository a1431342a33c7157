//! Specifications of isolation tests, in the format of PostgreSQL's `isolationtester`.
//!
//! ```text
//! setup { CREATE TABLE t (i int); }         teardown { DROP TABLE t; }
//! session s1                                setup and teardown of the session are optional
//! step a1 { INSERT INTO t VALUES (1); }
//! session s2
//! step b1 { SELECT * FROM t; }
//! permutation a1 b1(*) b1(a1) b1(a1 notices 2)     without one: all interleavings
//! ```
//! A line `# levels: X, Y` creates a specification for each level: its text with `@LEVEL@`
//! replaced.

use std::collections::BTreeMap;

/// A step of a session.
#[derive(Clone, Debug)]
pub struct Step {
    /// The name, unique in the specification.
    pub name: String,
    /// The index of the session.
    pub session: usize,
    /// The statements, sent as one simple query.
    pub sql: String,
}

/// A session of a specification.
#[derive(Clone, Debug, Default)]
pub struct Session {
    /// The name.
    pub name: String,
    /// Statements before the steps of each permutation.
    pub setup: Option<String>,
    /// Statements after the steps of each permutation.
    pub teardown: Option<String>,
    /// The indexes of its steps.
    pub steps: Vec<usize>,
}

/// A condition that delays the report of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Marker {
    /// The step is reported as waiting when it is launched.
    Once,
    /// The step is not reported as completed while this step is active.
    Step(usize),
    /// The step is not reported as completed before the session of a step has sent this number of
    /// notices.
    Notices(usize, usize),
}

/// A step in a permutation.
#[derive(Clone, Debug)]
pub struct Move {
    /// The index of the step.
    pub step: usize,
    /// The conditions that delay its report.
    pub markers: Vec<Marker>,
}

/// A specification.
#[derive(Clone, Debug, Default)]
pub struct Spec {
    /// Statements before each permutation; each block is a query of its own.
    pub setup: Vec<String>,
    /// Statements after each permutation.
    pub teardown: Option<String>,
    /// The sessions.
    pub sessions: Vec<Session>,
    /// The steps of all sessions.
    pub steps: Vec<Step>,
    /// The orders in which steps are launched.
    pub permutations: Vec<Vec<Move>>,
}

impl Spec {
    /// Returns the names of the steps of a permutation, separated by spaces.
    pub fn title(&self, permutation: &[Move]) -> String {
        let names = permutation.iter().map(|step| &*self.steps[step.step].name);
        names.collect::<Vec<_>>().join(" ")
    }
}

/// Returns the specifications of a file, with the suffix of their names: one for each level that
/// the file names.
///
/// # Errors
/// The line and the mistake.
pub fn read(text: &str) -> Result<Vec<(String, Spec)>, String> {
    let levels = text.lines().find_map(|line| line.strip_prefix("# levels:"));
    let Some(levels) = levels else {
        return Ok(vec![(String::new(), parse(text)?)]);
    };
    let levels = levels.split(',').map(str::trim);
    let of = |level: &str| {
        let spec = parse(&text.replace("@LEVEL@", level))?;
        let suffix = level.to_ascii_lowercase().replace(' ', "-");
        Ok((format!("@{suffix}"), spec))
    };
    levels.map(of).collect()
}

/// Returns the statements of a block of SQL, without empty ones.
pub fn statements(sql: &str) -> Vec<String> {
    let (mut found, mut begin, mut at) = (Vec::new(), 0, 0);
    while let Some(first) = sql[at..].chars().next() {
        let rest = &sql[at..];
        at += match first {
            '\'' | '"' => rest[1..].find(first).map_or(rest.len(), |end| end + 2),
            '-' if rest.starts_with("--") => rest.find('\n').unwrap_or(rest.len()),
            '$' => quoted_by_dollars(rest),
            _ => first.len_utf8(),
        };
        if first == ';' || at == sql.len() {
            let statement = sql[begin..at].trim().trim_end_matches(';').trim_end();
            found.extend((!statement.is_empty()).then(|| statement.to_owned()));
            begin = at;
        }
    }
    found
}

/// Returns the length of the dollar-quoted text that begins here, or 1 if none does.
fn quoted_by_dollars(rest: &str) -> usize {
    let Some(end) = rest[1..].find('$') else {
        return 1;
    };
    let tag = &rest[..end + 2];
    if !tag[1..=end]
        .chars()
        .all(|c| c.is_alphanumeric() || c == '_')
    {
        return 1;
    }
    let close = rest[tag.len()..].find(tag);
    close.map_or(rest.len(), |close| close + 2 * tag.len())
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Word(String),
    Quoted(String),
    Block(String),
    Sign(char),
}

/// Returns the tokens of a specification with their lines.
fn tokens(text: &str) -> Result<Vec<(usize, Token)>, String> {
    let (mut rest, mut line, mut found) = (text, 1, Vec::new());
    while let Some(first) = rest.chars().next() {
        let (token, length) = match first {
            '\n' => {
                line += 1;
                (None, 1)
            }
            '#' => (None, rest.find('\n').unwrap_or(rest.len())),
            '{' => {
                let end = rest
                    .find('}')
                    .ok_or(format!("line {line}: no end of a block"))?;
                (Some(Token::Block(rest[1..end].trim().to_owned())), end + 1)
            }
            '"' => {
                let end = rest[1..]
                    .find('"')
                    .ok_or(format!("line {line}: no end of a name"))?;
                (Some(Token::Quoted(rest[1..=end].to_owned())), end + 2)
            }
            '(' | ')' | ',' | '*' => (Some(Token::Sign(first)), 1),
            _ if first.is_whitespace() => (None, first.len_utf8()),
            _ => {
                let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == '$' || c == '-';
                let end = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
                if end == 0 {
                    return Err(format!("line {line}: unexpected {first:?}"));
                }
                (Some(Token::Word(rest[..end].to_owned())), end)
            }
        };
        found.extend(token.map(|token| (line, token)));
        line += rest[..length].matches('\n').count() - usize::from(first == '\n');
        rest = &rest[length..];
    }
    Ok(found)
}

const KEYWORDS: [&str; 5] = ["setup", "teardown", "session", "step", "permutation"];

struct Parser {
    tokens: Vec<(usize, Token)>,
    at: usize,
}

impl Parser {
    fn fail<T>(&self, what: &str) -> Result<T, String> {
        let at = self.at.min(self.tokens.len().saturating_sub(1));
        let found = self.tokens.get(at);
        Err(found.map_or_else(
            || format!("{what} is missing"),
            |(line, token)| format!("line {line}: {what} is missing before {token:?}"),
        ))
    }

    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at).map(|(_, token)| token)
    }

    fn takes(&mut self, token: &Token) -> bool {
        let is = self.peek() == Some(token);
        self.at += usize::from(is);
        is
    }

    fn takes_word(&mut self, word: &str) -> bool {
        self.takes(&Token::Word(word.to_owned()))
    }

    fn is_name(&self) -> bool {
        match self.peek() {
            Some(Token::Quoted(_)) => true,
            Some(Token::Word(word)) => !KEYWORDS.contains(&&**word),
            _ => false,
        }
    }

    fn name(&mut self) -> Result<String, String> {
        match self.peek().cloned() {
            Some(Token::Quoted(name) | Token::Word(name)) => {
                self.at += 1;
                Ok(name)
            }
            _ => self.fail("a name"),
        }
    }

    fn block(&mut self) -> Result<String, String> {
        match self.peek().cloned() {
            Some(Token::Block(sql)) => {
                self.at += 1;
                Ok(sql)
            }
            _ => self.fail("a block of SQL"),
        }
    }

    fn optional(&mut self, word: &str) -> Result<Option<String>, String> {
        if self.takes_word(word) {
            self.block().map(Some)
        } else {
            Ok(None)
        }
    }

    fn session(&mut self, spec: &mut Spec) -> Result<(), String> {
        let mut session = Session {
            name: self.name()?,
            setup: self.optional("setup")?,
            ..Session::default()
        };
        while self.takes_word("step") {
            session.steps.push(spec.steps.len());
            let step = Step {
                name: self.name()?,
                session: spec.sessions.len(),
                sql: self.block()?,
            };
            spec.steps.push(step);
        }
        session.teardown = self.optional("teardown")?;
        spec.sessions.push(session);
        Ok(())
    }

    fn permutation(&mut self, known: &BTreeMap<String, usize>) -> Result<Vec<Move>, String> {
        let mut moves = Vec::new();
        while self.is_name() {
            let step = self.step(known)?;
            let mut markers = Vec::new();
            if self.takes(&Token::Sign('(')) {
                loop {
                    markers.push(self.marker(known)?);
                    if !self.takes(&Token::Sign(',')) {
                        break;
                    }
                }
                if !self.takes(&Token::Sign(')')) {
                    return self.fail("a closing parenthesis");
                }
            }
            moves.push(Move { step, markers });
        }
        Ok(moves)
    }

    fn step(&mut self, known: &BTreeMap<String, usize>) -> Result<usize, String> {
        let name = self.name()?;
        let step = known.get(&name).copied();
        step.ok_or_else(|| format!("there is no step {name}"))
    }

    fn marker(&mut self, known: &BTreeMap<String, usize>) -> Result<Marker, String> {
        if self.takes(&Token::Sign('*')) {
            return Ok(Marker::Once);
        }
        let step = self.step(known)?;
        if !self.takes_word("notices") {
            return Ok(Marker::Step(step));
        }
        match self.name()?.parse() {
            Ok(count) => Ok(Marker::Notices(step, count)),
            Err(_) => self.fail("a number of notices"),
        }
    }
}

fn parse(text: &str) -> Result<Spec, String> {
    let mut parser = Parser {
        tokens: tokens(text)?,
        at: 0,
    };
    let mut spec = Spec::default();
    while parser.takes_word("setup") {
        spec.setup.push(parser.block()?);
    }
    spec.teardown = parser.optional("teardown")?;
    while parser.takes_word("session") {
        parser.session(&mut spec)?;
    }
    let names = spec.steps.iter().enumerate();
    let known = names.map(|(at, step)| (step.name.clone(), at)).collect();
    while parser.takes_word("permutation") {
        let permutation = parser.permutation(&known)?;
        spec.permutations.push(permutation);
    }
    if parser.peek().is_some() {
        return parser.fail("a session or a permutation");
    }
    if spec.permutations.is_empty() {
        interleave(&spec.sessions, &mut Vec::new(), &mut spec.permutations);
    }
    Ok(spec)
}

/// Adds all orders of the steps that preserve each session's order.
fn interleave(sessions: &[Session], taken: &mut Vec<usize>, found: &mut Vec<Vec<Move>>) {
    let mut is_whole = true;
    for session in sessions {
        let done = session.steps.iter().filter(|step| taken.contains(step));
        if let Some(next) = session.steps.get(done.count()) {
            is_whole = false;
            taken.push(*next);
            interleave(sessions, taken, found);
            taken.pop();
        }
    }
    if is_whole {
        let as_move = |step: &usize| Move {
            step: *step,
            markers: Vec::new(),
        };
        found.push(taken.iter().map(as_move).collect());
    }
}

#[test]
fn specification_of_two_levels_gives_sessions_steps_and_markers() {
    let text = "# levels: READ COMMITTED, SERIALIZABLE
        setup { CREATE TABLE t (i int); } setup { VACUUM t; } # a comment
        teardown { DROP TABLE t; }
        session \"s 1\" setup { BEGIN ISOLATION LEVEL @LEVEL@; } step a { SELECT 1; } step b { }
        session s2 step c-1 { SELECT '#'; } teardown { SELECT 2; }
        permutation a c-1(*, a) b(c-1 notices 2)";
    let specs = read(text).expect("a specification");
    let names: Vec<_> = specs.iter().map(|(name, _)| &**name).collect();
    assert_eq!(names, ["@read-committed", "@serializable"]);
    let spec = &specs[1].1;
    let setup = spec.sessions[0].setup.as_deref();
    assert_eq!(setup, Some("BEGIN ISOLATION LEVEL SERIALIZABLE;"));
    assert_eq!(
        (spec.setup.len(), spec.sessions[0].name.as_str()),
        (2, "s 1")
    );
    let permutation = &spec.permutations[0];
    assert_eq!(spec.title(permutation), "a c-1 b");
    assert_eq!(permutation[1].markers, [Marker::Once, Marker::Step(0)]);
    assert_eq!(permutation[2].markers, [Marker::Notices(2, 2)]);
}

#[test]
fn specification_without_permutations_gives_all_interleavings() {
    let text = "session s1 step a { } step b { } session s2 step c { } step d { }";
    let spec = &read(text).expect("a specification")[0].1;
    let titles = spec.permutations.iter().map(|moves| spec.title(moves));
    let titles: Vec<String> = titles.collect();
    let expected = [
        "a b c d", "a c b d", "a c d b", "c a b d", "c a d b", "c d a b",
    ];
    assert_eq!(titles, expected);
}

#[test]
fn specification_error_names_its_line() {
    let failed = |text: &str| match read(text) {
        Err(why) => why,
        Ok(_) => panic!("a mistake is read: {text}"),
    };
    assert!(failed("session s1\nstep a").starts_with("line 2"));
    assert!(failed("session s1 step a { } permutation b").contains("no step b"));
    assert!(failed("setup {").contains("no end"));
}

#[test]
fn statements_end_at_semicolons_outside_of_quotes() {
    let sql = "SELECT ';' AS \"a;b\"; -- no; end\n DO $x$ BEGIN; $y$ END $x$;; SELECT $1";
    let found = statements(sql);
    let expected = [
        "SELECT ';' AS \"a;b\"",
        "-- no; end\n DO $x$ BEGIN; $y$ END $x$",
        "SELECT $1",
    ];
    assert_eq!(found, expected);
}
