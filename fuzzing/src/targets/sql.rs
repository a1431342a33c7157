//! The texts of statements: the lexer, the parser, the binder and the planner; for queries also the
//! deparser.
//!
//! No statement of the text is executed. A query becomes a view in a transaction that is rolled
//! back. The definition of that view must itself be a valid query for a view.

use std::cell::RefCell;

use fencepost::{BlockingSession, Database, Error, Session, SqlState, Value};
use fencepost_sql::parser;

use super::database;
use crate::sql::{Corpus, corpus_folder};

/// The maximal length of a text, in bytes.
const TEXT_BYTES_MAX: usize = 4 << 10;

/// The maximal number of statements of a text that are planned.
const STATEMENTS_MAX: usize = 4;

/// The number of inputs after which a new database is opened, to limit the growth of its caches.
const INPUTS_MAX: u32 = 20_000;

/// The maximal length of a statement used as a seed, in bytes.
const SEED_BYTES_MAX: usize = 600;

/// The keywords with which a query begins.
const QUERIES: [&str; 5] = ["select", "values", "with", "table", "("];

/// Objects that the texts may name.
const OBJECTS: &str = "
    CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');
    CREATE TYPE pair AS (x int, y text);
    CREATE DOMAIN posint AS int CHECK (VALUE > 0);
    CREATE SEQUENCE s;
    CREATE TABLE t (a int PRIMARY KEY, b text, c numeric(10, 2), d date, e timestamptz, f float8,
        g int[], h jsonb, i mood, j pair, k interval, l time, m bytea, n uuid, o boolean);
    CREATE TABLE u (id bigint GENERATED ALWAYS AS IDENTITY, a int REFERENCES t, \
      v varchar(20), w posint);
    CREATE INDEX ON u (a) WHERE v IS NOT NULL;
    CREATE VIEW v AS SELECT t.a, t.b, u.v FROM t LEFT JOIN u USING (a);
    CREATE FUNCTION twice(n int) RETURNS int LANGUAGE sql AS 'SELECT 2 * n'";

/// A database, and the number of its inputs so far.
struct Planning {
    database: Database,
    inputs: u32,
}

thread_local! {
    static PLANNING: RefCell<Option<Planning>> = const { RefCell::new(None) };
}

/// Runs one input.
///
/// # Panics
/// If planning ends with an internal error, or if the definition of a view changes when a view is
/// created from it.
pub fn run(input: &[u8]) {
    let input = &input[..input.len().min(TEXT_BYTES_MAX)];
    let text = String::from_utf8_lossy(input);
    let _ = parser::lift(&text);
    if parser::parse(&text).is_err() {
        return;
    }
    PLANNING.with_borrow_mut(|planning| {
        if planning
            .as_ref()
            .is_some_and(|planning| planning.inputs >= INPUTS_MAX)
        {
            *planning = None;
        }
        let planning = planning.get_or_insert_with(|| Planning {
            database: database::open(OBJECTS),
            inputs: 0,
        });
        planning.inputs += 1;
        plan(&mut planning.database.session(), &text);
        if is_query(&text) {
            define(&mut planning.database.blocking(), &text);
        }
    });
}

/// Plans the statements, as simple queries and as one prepared statement.
fn plan(session: &mut Session, text: &str) {
    let check = |error| database::check(&text, &error);
    match session.split(text) {
        Ok(statements) => {
            for statement in statements.into_iter().take(STATEMENTS_MAX) {
                drop(session.prepare_parsed(statement).map_err(check));
            }
        }
        Err(error) => check(error),
    }
    drop(session.parse(text, &[]).map_err(check));
}

/// Returns whether a text may be a single query.
fn is_query(text: &str) -> bool {
    let text = text.trim_start();
    QUERIES.iter().any(|word| {
        let begins = text.get(..word.len());
        begins.is_some_and(|begins| begins.eq_ignore_ascii_case(word))
    })
}

/// Creates a view of a query, a second one from the definition of the first, and a third one from
/// that of the second. The definitions of the last two must be equal. The first definition may have
/// other column names, as in PostgreSQL.
fn define(session: &mut BlockingSession, text: &str) {
    let mut made = || -> Result<(), Error> {
        session.execute("BEGIN", &[])?;
        session.execute(&format!("CREATE VIEW fuzz_1 AS {text}"), &[])?;
        let first = definition(session, "fuzz_1")?;
        let Some(second) = again(session, ("fuzz_2", &first), text)? else {
            return Ok(());
        };
        let third = again(session, ("fuzz_3", &second), text)?;
        assert_eq!(Some(second), third, "definitions of {text:?}");
        Ok(())
    };
    if let Err(error) = made() {
        database::check(&text, error.report());
    }
    let ended = session.execute("ROLLBACK", &[]);
    assert!(ended.is_ok(), "{ended:?} after {text:?}");
}

/// Creates a view from a definition and returns the new view's definition. Returns `None` if the
/// view is not supported: the parser rejects a query without columns inside another statement.
fn again(
    session: &mut BlockingSession,
    (view, of): (&str, &str),
    text: &str,
) -> Result<Option<String>, Error> {
    match session.execute(&format!("CREATE VIEW {view} AS {of}"), &[]) {
        Ok(_) => definition(session, view).map(Some),
        Err(error) if error.code() == SqlState::FEATURE_NOT_SUPPORTED => Ok(None),
        Err(error) => panic!("{error}: a view of the definition {of:?} of {text:?}"),
    }
}

/// Returns the definition of a view.
fn definition(session: &mut BlockingSession, view: &str) -> Result<String, Error> {
    let query = format!("SELECT pg_get_viewdef('{view}'::regclass)");
    let row = session.query_one(&query, &[])?;
    match row.values().first() {
        Some(Value::Text(definition)) => Ok(definition.to_string()),
        other => panic!("the definition of a view is {other:?}"),
    }
}

/// Returns the shorter statements of the compatibility files.
pub fn seeds() -> Vec<Vec<u8>> {
    let corpus = Corpus::read(&corpus_folder());
    let corpus = corpus.unwrap_or_else(|error| panic!("the compatibility files: {error}"));
    let statements = corpus.files.into_iter().flat_map(|file| file.statements);
    let short = statements.filter(|statement| statement.len() <= SEED_BYTES_MAX);
    short.map(String::into_bytes).collect()
}
