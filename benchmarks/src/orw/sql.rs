//! `orw` over SQL: the five words of a value are five columns. Keys to be updated are locked when
//! they are read, as in FaSST.

use fencepost_fabric::random::Random;

use super::{BROKEN, OrwOptions, Request, VALUE_WORDS, lost};
use crate::error::BenchError;
use crate::harness::{Attempt, Client, Workload};
use crate::sql::{
    Arg, Cell, Isolation, SqlFailure, SqlSession, SqlSource, StatementHandle, copy_numbered, put,
};
use crate::tally::{ClientSums, Tally};
use crate::versioned::{value, version};

const TABLE: &str = "CREATE TABLE orw (id bigint NOT NULL PRIMARY KEY, number bigint NOT NULL, \
     version bigint NOT NULL, checksum bigint NOT NULL, rest_1 bigint NOT NULL, \
     rest_2 bigint NOT NULL)";
const READ: &str = "SELECT number, version, checksum, rest_1, rest_2 FROM orw WHERE id = $1";
const UPDATE: &str =
    "UPDATE orw SET version = $1, checksum = $2, rest_1 = $3, rest_2 = $4 WHERE id = $5";
/// The number of keys that the check reads at once.
const PIECE: u64 = 10_000;

/// `orw` on an SQL database. The load drops and creates its table.
pub struct OrwSql {
    source: SqlSource,
    isolation: Isolation,
    options: OrwOptions,
    updates: Tally<1>,
}

impl OrwSql {
    /// Creates the workload on sessions of `source`.
    pub fn new(source: SqlSource, isolation: Isolation, options: OrwOptions) -> OrwSql {
        OrwSql {
            source,
            isolation,
            options,
            updates: Tally::new(),
        }
    }
}

#[derive(Clone, Copy)]
struct Statements {
    read: StatementHandle,
    read_to_update: StatementHandle,
    update: StatementHandle,
}

/// The session of one client.
pub struct OrwClient<'a> {
    session: Box<dyn SqlSession>,
    statements: Statements,
    options: OrwOptions,
    updates: ClientSums<'a, 1>,
}

/// Returns the version of a row whose five words begin at `cells[0]`, if the value is valid.
fn version_in(key: u64, cells: &[Cell]) -> Option<u64> {
    let mut words = [0; VALUE_WORDS];
    for (word, cell) in words.iter_mut().zip(cells) {
        *word = cell.int()? as u64;
    }
    version(key, &words)
}

impl Workload for OrwSql {
    type Client<'a> = OrwClient<'a>;

    fn name(&self) -> &'static str {
        "orw"
    }

    fn prepare(&self, say: &dyn Fn(&str)) -> Result<(), BenchError> {
        let mut session = self.source.session()?;
        session.script("DROP TABLE IF EXISTS orw")?;
        session.script(TABLE)?;
        copy_numbered(
            session.as_mut(),
            "orw",
            self.options.keys,
            say,
            |text, key| {
                let [a, b, c, d, e] = value(key, 0).map(|word| word as i64);
                put(text, format_args!("{key}\t{a}\t{b}\t{c}\t{d}\t{e}\n"));
            },
        )?;
        session.script("VACUUM ANALYZE")?;
        Ok(())
    }

    fn client(&self, thread: usize) -> Result<OrwClient<'_>, BenchError> {
        let mut session = self.source.session_at(self.isolation, thread)?;
        Ok(OrwClient {
            statements: Statements {
                read: session.prepare(READ)?,
                read_to_update: session.prepare(&format!("{READ} FOR UPDATE"))?,
                update: session.prepare(UPDATE)?,
            },
            session,
            options: self.options,
            updates: self.updates.share(),
        })
    }

    fn verify(&self) -> Result<Option<String>, BenchError> {
        self.source.verify(|session| self.verify_through(session))
    }
}

impl OrwSql {
    fn verify_through(&self, session: &mut dyn SqlSession) -> Result<Option<String>, BenchError> {
        let read = session.prepare(
            "SELECT id, number, version, checksum, rest_1, rest_2 FROM orw \
             WHERE id BETWEEN $1 AND $2 ORDER BY id",
        )?;
        let (mut versions, mut from) = (0, 1);
        while from <= self.options.keys {
            let to = self.options.keys.min(from + PIECE - 1);
            let rows = session.query(read, &[Arg::Int8(from as i64), Arg::Int8(to as i64)])?;
            let mut rows = rows.iter().peekable();
            for key in from..=to {
                let own = |row: &&Vec<Cell>| row[0].int() == Some(key as i64);
                let Some(row) = rows.next_if(own) else {
                    return Ok(Some(format!("key {key} is gone")));
                };
                match version_in(key, &row[1..]) {
                    Some(version) => versions += version as i64,
                    None => return Ok(Some(format!("key {key} has a broken value"))),
                }
            }
            from = to + 1;
        }
        let [updates] = self.updates.sums();
        Ok(lost(versions, updates))
    }
}

impl Client for OrwClient<'_> {
    type Request = Request;

    fn generate(&mut self, random: &mut Random) -> Request {
        self.options.draw(random)
    }

    async fn execute(&mut self, request: &Request) -> Result<Attempt, BenchError> {
        let statements = self.statements;
        let ended = self
            .session
            .attempt(|session| run(session, statements, request))?;
        if ended == Attempt::Committed {
            self.updates.add([request.updates()]);
        }
        Ok(ended)
    }
}

fn run(
    session: &mut dyn SqlSession,
    statements: Statements,
    request: &Request,
) -> Result<Attempt, SqlFailure> {
    for (key, update) in request.keys() {
        let id = Arg::Int8(key as i64);
        let read = if update {
            statements.read_to_update
        } else {
            statements.read
        };
        let rows = session.query(read, &[id])?;
        let found = rows.first().and_then(|row| version_in(key, row));
        let Some(version) = found else {
            return Ok(Attempt::Failed(BROKEN));
        };
        if update {
            let [_, b, c, d, e] = value(key, version + 1).map(|word| Arg::Int8(word as i64));
            session.execute(statements.update, &[b, c, d, e, id])?;
        }
    }
    Ok(Attempt::Committed)
}
