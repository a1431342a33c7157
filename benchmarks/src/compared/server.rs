//! A server under test: its sessions, and single executions of items.

use std::time::{Duration, Instant};

use super::answer::CanonicalAnswer;
use super::item::{ComparedItem, MeasuredWork};
use crate::error::BenchError;
use crate::sql::{Cell, SqlFailure, SqlSession, SqlSource};

/// The SQLSTATE of a statement that `statement_timeout` has ended.
const QUERY_CANCELED: &str = "57014";

/// A server, with one session for each machine of its database.
pub struct ComparedServer {
    /// The product and its version, as `version()` returns them.
    pub label: String,
    sessions: Vec<Box<dyn SqlSession>>,
}

/// The result of one execution of an item.
pub enum Execution {
    /// The server returned all rows.
    Finished {
        elapsed: Duration,
        answer: CanonicalAnswer,
    },
    /// The time limit ended the query.
    TimedOut,
    /// The query failed.
    Failed(SqlFailure),
}

impl ComparedServer {
    /// Opens the sessions; the first one loads.
    ///
    /// # Errors
    /// A server that cannot be reached or that refuses.
    pub fn connect(source: &SqlSource) -> Result<ComparedServer, BenchError> {
        let machines = match source {
            SqlSource::Embedded(_) => 1,
            SqlSource::Pg { urls, .. } => urls.len(),
        };
        let sessions = (0..machines).map(|machine| source.session_of(machine));
        let mut sessions: Vec<_> = sessions.collect::<Result<_, _>>()?;
        let loader = sessions
            .first_mut()
            .ok_or_else(|| BenchError::Options("no server is given".to_string()))?;
        let version = loader.prepare("SELECT version()")?;
        let row = loader.row(version, &[])?;
        let label = product(row.first().and_then(Cell::text).unwrap_or("server"));
        Ok(ComparedServer { label, sessions })
    }

    /// Returns the session that loads.
    pub fn loader(&mut self) -> &mut dyn SqlSession {
        self.sessions[0].as_mut()
    }

    /// Returns the number of machines that answer queries.
    pub fn machines(&self) -> usize {
        self.sessions.len()
    }

    /// Ends each later statement that runs longer than this.
    ///
    /// # Errors
    /// Those of the server.
    pub fn limit_time(&mut self, limit: Duration) -> Result<(), SqlFailure> {
        let sql = format!("SET statement_timeout = {}", limit.as_millis());
        let mut sessions = self.sessions.iter_mut();
        sessions.try_for_each(|session| session.script(&sql))
    }

    /// Runs an item through a machine; later machines begin at the first again. Only its measured
    /// work is timed.
    pub fn execute(&mut self, machine: usize, item: &ComparedItem) -> Execution {
        let session_index = machine % self.sessions.len();
        let session = &mut *self.sessions[session_index];
        match run(session, item) {
            Ok((elapsed, answer)) => Execution::Finished { elapsed, answer },
            Err(failure) if failure.sqlstate == QUERY_CANCELED => Execution::TimedOut,
            Err(failure) => Execution::Failed(failure),
        }
    }
}

fn run(
    session: &mut dyn SqlSession,
    item: &ComparedItem,
) -> Result<(Duration, CanonicalAnswer), SqlFailure> {
    for statement in &item.before {
        session.script(statement)?;
    }
    let began = Instant::now();
    match &item.work {
        MeasuredWork::Query { sql, order_columns } => {
            let statement = session.prepare(sql)?;
            let rows = session.query(statement, &[])?;
            let elapsed = began.elapsed();
            Ok((elapsed, CanonicalAnswer::of_rows(&rows, order_columns)?))
        }
        MeasuredWork::Statements { statements, check } => {
            for statement in statements {
                session.script(statement)?;
            }
            let elapsed = began.elapsed();
            let check = session.prepare(check)?;
            let rows = session.query(check, &[])?;
            Ok((elapsed, CanonicalAnswer::of_rows(&rows, &[])?))
        }
    }
}

/// Returns the product and its version of the text of `version()`.
///
/// A compatible server names itself in parentheses after the version of PostgreSQL.
fn product(version: &str) -> String {
    let begin = version.find("Fencepost").unwrap_or(0);
    let words: Vec<&str> = version[begin..].split_whitespace().take(2).collect();
    words.join(" ").trim_end_matches([')', ',']).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn product_has_its_own_version() {
        let postgresql = "PostgreSQL 15.18 (Debian 15.18-0+deb12u1) on x86_64-pc-linux-gnu";
        assert_eq!(product(postgresql), "PostgreSQL 15.18");
        assert_eq!(
            product("PostgreSQL 15.18 (Fencepost 0.1.0)"),
            "Fencepost 0.1.0"
        );
        assert_eq!(product(""), "");
    }
}
