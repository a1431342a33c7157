//! Random queries whose answers are compared: under all planner settings, and with PostgreSQL.
//!
//! ```text
//! schema ─► tables, rows, indexes ─┐
//! query ──► SELECT ────────────────┴─► servers under settings ─► rows compared ─► reduce ─► report
//! ```
//!
//! A round has new tables. The tables and queries of a round depend only on the seed and the number
//! of the round, so that a round can be repeated. Every query has one answer: a LIMIT is given only
//! with an order of all columns. Rows without an order are compared as a multiset. A difference is
//! a fault of the planner or the executor, or a query on which the servers may disagree, which the
//! generator must not make.

mod compare;
mod expression;
mod query;
mod reduce;
mod schema;
mod server;

use std::time::{Duration, Instant};

use crate::random::Random;
use compare::{Outcome, compare};
use query::Query;
use schema::Schema;
pub use server::{QueryServer, Settings};

/// The options of a run.
#[derive(Clone, Debug)]
pub struct QueryOptions {
    /// The seed of all rounds.
    pub seed: u64,
    /// The number of the first round.
    pub first_round: u64,
    /// The maximal number of queries.
    pub queries: u64,
    /// The number of queries of a round.
    pub queries_per_round: u64,
    /// The time after which no further round begins.
    pub time: Duration,
}

/// The counts of a run.
#[derive(Clone, Debug, Default)]
pub struct QuerySummary {
    /// Rounds.
    pub rounds: u64,
    /// Compared queries.
    pub compared: u64,
    /// Queries that a server refused or did not finish in time.
    pub skipped: u64,
    /// Reports of differences.
    pub differences: Vec<String>,
}

/// Compares random queries on all servers, and calls `report` for each difference.
///
/// # Errors
/// A server that ends the connection, or that cannot create the tables.
pub fn run(
    servers: &mut [QueryServer],
    options: &QueryOptions,
    mut report: impl FnMut(&str),
) -> Result<QuerySummary, String> {
    let begin = Instant::now();
    let mut summary = QuerySummary::default();
    let mut number = options.first_round;
    while begin.elapsed() < options.time && summary.compared + summary.skipped < options.queries {
        let mut random = Random::new(options.seed, number);
        let schema = Schema::random(&mut random);
        for server in servers.iter_mut() {
            server.create(&schema)?;
        }
        for _ in 0..options.queries_per_round {
            let query = Query::random(&mut random, &schema);
            match compare(servers, &query.sql())? {
                Outcome::Same => summary.compared += 1,
                Outcome::Skipped => summary.skipped += 1,
                Outcome::Different(_) => {
                    summary.compared += 1;
                    let (query, difference) = reduce::reduce(servers, query)?;
                    let text = format!(
                        "round {number} of seed {}:\n{};\n{difference}",
                        options.seed,
                        query.sql()
                    );
                    report(&text);
                    summary.differences.push(text);
                }
            }
        }
        summary.rounds += 1;
        number += 1;
    }
    Ok(summary)
}
