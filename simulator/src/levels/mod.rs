//! The check that a history of transactions of different isolation levels shows only anomalies that
//! each level permits.
//!
//! ```text
//! executions ─► orders.rs   version order of each list (longest contents) ─► G1a, G1b, lost append
//!            ─► points.rs   points in time of each transaction, their edges  ─► graph.rs: a cycle
//! ```
//! The inference is that of Elle over list appends: each element is unique, so the contents of a
//! list say which versions came before. Where Elle looks for cycles of transactions, this checker
//! looks for cycles of their points:
//!
//! | level | points | reads belong to | an anti-dependency leaves |
//! |---|---|---|---|
//! | READ COMMITTED | one per statement, then the commit | their statement's point | that point |
//! | REPEATABLE READ | the snapshot, then the commit | the snapshot | the snapshot |
//! | SERIALIZABLE | one | the point | the point |
//!
//! A dependency (ww, wr) leaves the commit of the writer. A wr edge arrives where the read belongs,
//! a ww edge at the commit, but at REPEATABLE READ at the snapshot: the first updater wins. A read
//! under a lock also belongs to the commit.
//!
//! A cycle of points is Adya's cycle of the mixed serialization graph, without the
//! anti-dependencies that the level of their reader permits. At REPEATABLE READ a cycle with two
//! consecutive anti-dependencies is not a cycle of points, because snapshot isolation permits it.
//! Two statements of a READ COMMITTED transaction may see different states, but each of them sees
//! one.
//!
//! Edges of real time lead from each point to those that began after it had ended. So the order of
//! real time holds for each statement, each snapshot, and strictly between SERIALIZABLE
//! transactions.
//!
//! # Invariants
//! * An element is appended once, and a list begins empty. A list without a row is an empty one, so
//!   phantoms are edges, too.
//! * All committed elements are read by some execution, best by one that reads all lists at the
//!   end.

mod graph;
mod orders;
mod points;

use std::fmt;

use fencepost_txn::Isolation;

use crate::history::{NEVER, Object, SOMETIME};
use crate::lists::Contents;

/// Bits of an element below the number of its transaction.
const NTH_BITS: u32 = 16;

/// Returns the element that a transaction appends as its `nth`.
pub const fn element(id: u64, nth: u64) -> u64 {
    id << NTH_BITS | nth
}

/// Returns the number of the transaction that has appended an element.
pub const fn writer_of(element: u64) -> u64 {
    element >> NTH_BITS
}

/// A statement of an execution, or a part of one that has a snapshot of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    /// The logical time before it began.
    pub began: u64,
    /// The logical time after it ended; [`crate::history::NEVER`] if it did not end.
    pub ended: u64,
    /// The contents in the snapshot of the statement, without elements of its own transaction.
    pub seen: Vec<Contents>,
    /// The newest contents that were read under a lock, without elements of its own transaction.
    pub locked: Vec<Contents>,
}

impl Default for Statement {
    fn default() -> Statement {
        Statement {
            began: SOMETIME,
            ended: NEVER,
            seen: Vec::new(),
            locked: Vec::new(),
        }
    }
}

/// One execution of a transaction at an isolation level, as its client saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Execution {
    /// The number of the transaction, which is not 0.
    pub id: u64,
    /// The level.
    pub isolation: Isolation,
    /// The logical time before it began, or [`crate::history::SOMETIME`].
    pub began: u64,
    /// The logical time before its commit began.
    pub commits: u64,
    /// The logical time after its client learned the outcome; [`crate::history::NEVER`] if the
    /// client did not.
    pub ended: u64,
    /// Whether the transaction took effect.
    pub committed: bool,
    /// Its statements, in their order.
    pub statements: Vec<Statement>,
    /// The elements that it appended, in their order.
    pub appended: Vec<(Object, u64)>,
    /// The number of elements that it has drawn, including those that ROLLBACK TO took back.
    pub drawn: u64,
}

impl Execution {
    /// Begins the execution of a transaction.
    pub fn begin(id: u64, isolation: Isolation, began: u64) -> Execution {
        Execution {
            id,
            isolation,
            began,
            commits: began,
            ended: NEVER,
            committed: false,
            statements: Vec::new(),
            appended: Vec::new(),
            drawn: 0,
        }
    }
}

/// A phenomenon, by its name in the literature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Anomaly {
    /// G0, a cycle of writes.
    WriteCycle,
    /// G1a, a read of an element that was not committed.
    AbortedRead,
    /// G1b, a read of a version that its writer has replaced.
    IntermediateRead,
    /// G1c, a cycle of dependencies.
    CyclicFlow,
    /// A lost append: a later version lacks an element, or a row was read, overwritten and then
    /// written.
    LostUpdate,
    /// G-single, a cycle with one anti-dependency.
    ReadSkew,
    /// G2, a cycle with several anti-dependencies.
    WriteSkew,
    /// A cycle with an edge of real time.
    RealTime,
}

impl fmt::Display for Anomaly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Anomaly::WriteCycle => "G0 (write cycle)",
            Anomaly::AbortedRead => "G1a (aborted read)",
            Anomaly::IntermediateRead => "G1b (intermediate read)",
            Anomaly::CyclicFlow => "G1c (cyclic information flow)",
            Anomaly::LostUpdate => "lost update",
            Anomaly::ReadSkew => "G-single (read skew)",
            Anomaly::WriteSkew => "G2 (write skew)",
            Anomaly::RealTime => "order against real time",
        })
    }
}

/// An anomaly of a history, and the weakest level that forbids it there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The anomaly.
    pub anomaly: Anomaly,
    /// The weakest level that forbids the anomaly.
    pub isolation: Isolation,
    /// The executions that show it.
    pub evidence: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let level = match self.isolation {
            Isolation::ReadCommitted => "READ COMMITTED",
            Isolation::RepeatableRead => "REPEATABLE READ",
            Isolation::Serializable => "SERIALIZABLE",
        };
        let (anomaly, evidence) = (self.anomaly, &self.evidence);
        write!(
            f,
            "isolation levels: {anomaly}, forbidden at {level}: {evidence}"
        )
    }
}

impl Violation {
    /// Builds the violation of a promise that every level makes.
    fn of_every_level(anomaly: Anomaly, evidence: String) -> Violation {
        Violation {
            anomaly,
            isolation: Isolation::ReadCommitted,
            evidence,
        }
    }
}

/// Looks for anomalies that the levels of a history forbid.
///
/// # Errors
/// The first anomaly, the one that the weakest level forbids before others.
pub fn check_levels(history: &[Execution]) -> Result<(), Violation> {
    let orders = orders::ListOrders::of(history)?;
    let points = points::Points::of(history, &orders);
    match graph::find_violation(&points, history) {
        None => Ok(()),
        Some(violation) => Err(violation),
    }
}
