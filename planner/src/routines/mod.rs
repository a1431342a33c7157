//! Functions and procedures of users at work.
//!
//! ```text
//!   expression, FROM ──▶ call.rs ──┬─ LANGUAGE sql ──▶ sql.rs ────────┐
//!   CALL, DO ──▶ procedure.rs ─────┼─ plpgsql ──▶ machine.rs, ops ────┴──▶ prepared.rs ──▶ plans of their statements
//!   rows change ──▶ trigger.rs ─────┘
//! ```
//! A routine runs within the statement that calls it: in its transaction, under its time limit, and its rows count
//! against the same memory. What a session has compiled it keeps ([`Routines`]); a routine that is replaced has another
//! version, and is compiled again.
//!
//! Invariants
//! - ROUT-1: a statement of a routine runs only on the versions of its tables that it was planned with, as SES-2 says
//!   of those of clients.
//! - ROUT-2: a conflict is not for the handlers of blocks: the transaction cannot go on, and whoever has begun it is told.
//!   A procedure that may end transactions is told of it, and does nothing more in that one.
//! - ROUT-3: calls nest so deep and no deeper (54001), whatever calls what.

mod assign;
mod assign_part;
mod call;
mod cursor;
mod handlers;
mod loops;
mod machine;
mod portals;
mod prepared;
mod procedure;
mod raise;
mod returned;
mod returns;
mod rows;
mod settings;
mod sql;
mod statements;
mod trigger;
mod utility;
mod variables;

use std::sync::Arc;

use fencepost_sql::bound::OnCommit;

use fencepost_sql::catalog::{AsCalled, RoutineDef};
use fencepost_sql::context::EvalContext;
use fencepost_sql::error::{SqlError, SqlState};
use foldhash::{HashMap, HashMapExt};

use crate::ddl::Notice;

pub use portals::{Opened, Portals};
pub use procedure::{Paused, Procedure};
pub use trigger::{TriggerCall, call_trigger};

/// How deep calls may nest.
const DEPTH_MAX: usize = 500;
/// What is further apart than this is not of one stack.
const STACKS_APART: usize = 64 << 20;
/// Routines that a session keeps compiled.
const COMPILED_MAX: usize = 512;

/// A routine by its oid, the role that a function of its owner's acts for, what names mean under its settings, and what
/// its stand-ins are in the call.
type Known = (
    u32,
    Option<Arc<str>>,
    Option<Arc<str>>,
    Option<Arc<AsCalled>>,
);

/// Under which name the code of a routine is kept that runs in these surroundings.
fn known_as(routine: &RoutineDef, eval: &EvalContext) -> Known {
    let called = routine.as_called.clone();
    (routine.id, eval.acting(), eval.within.clone(), called)
}

/// What a session knows of the routines that it has called.
#[derive(Default)]
pub struct Routines {
    compiled: HashMap<Known, (u64, call::Compiled)>,
    /// How deep the call in hand is.
    depth: usize,
    /// Where the stack was at the outermost call.
    base: usize,
    /// The cursors that routines have opened.
    pub portals: Portals,
    /// What routines have told the client.
    pub notices: Vec<Notice>,
    /// Temporary tables that routines have made, and their ON COMMIT.
    pub on_commit: Vec<(u32, OnCommit)>,
    /// Random bytes of the session, from which the salts of passwords are made.
    pub seed: u128,
    salts: u128,
    /// How much of the stack calls may take.
    pub stack: usize,
    /// The oids of the tables whose triggers run.
    in_use: Vec<u32>,
}

impl std::fmt::Debug for Routines {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} routines, {} deep", self.compiled.len(), self.depth)
    }
}

impl Routines {
    /// What names and literals mean has changed: all is compiled again.
    pub fn forget(&mut self) {
        self.compiled = HashMap::new();
    }

    fn get(&self, routine: &RoutineDef, eval: &EvalContext) -> Option<call::Compiled> {
        let (version, compiled) = self.compiled.get(&known_as(routine, eval))?;
        (*version == routine.version).then(|| compiled.clone())
    }

    fn keep(&mut self, routine: &RoutineDef, eval: &EvalContext, compiled: &call::Compiled) {
        if self.compiled.len() >= COMPILED_MAX {
            self.forget();
        }
        let of = (routine.version, compiled.clone());
        self.compiled.insert(known_as(routine, eval), of);
    }

    /// A statement of the client begins.
    pub fn begin(&mut self) {
        self.depth = 0;
        self.in_use.clear();
    }

    /// A salt that no other password of the session has.
    fn fresh_salt(&mut self) -> [u8; 16] {
        self.salts += 1;
        self.seed.wrapping_add(self.salts).to_le_bytes()
    }

    /// One call deeper.
    fn enter(&mut self) -> Result<(), SqlError> {
        let here = 0u8;
        let here = std::ptr::from_ref(&here).addr();
        // The outermost call may be of another thread than the one before.
        let within = self.depth > 0;
        let taken = self.base.checked_sub(here);
        let taken = taken.filter(|taken| within && *taken < STACKS_APART);
        if taken.is_none() {
            // It is the outermost one, or goes on in another thread.
            self.base = here;
        }
        if self.depth >= DEPTH_MAX || taken.is_some_and(|taken| taken > self.stack) {
            return Err(SqlError::new(
                SqlState::STATEMENT_TOO_COMPLEX,
                "stack depth limit exceeded",
            )
            .detail(format!("Functions call each other {} deep.", self.depth)));
        }
        self.depth += 1;
        Ok(())
    }

    fn leave(&mut self) {
        self.depth = self.depth.saturating_sub(1);
    }
}

/// Whose code runs: for messages, and for what it may do.
#[derive(Clone, Debug)]
struct Owner {
    /// `f(integer)`, or what a DO is called.
    name: Arc<str>,
    /// It may change rows.
    writes: bool,
}
