//! The execution of user-defined functions and procedures.
//!
//! ```text
//! expression, FROM ──▶ call.rs ──┬─ LANGUAGE sql ──▶ sql.rs ────┐
//! CALL, DO ──▶ procedure.rs ─────┼─ plpgsql ──▶ machine.rs ─────┴──▶ prepared.rs ──▶ plans
//! rows change ──▶ trigger.rs ─────┘
//! ```
//!
//! A routine runs within the statement that calls it: in its transaction and under its time limit,
//! and its rows count against the same memory. A session keeps compiled routines ([`Routines`]). A
//! replaced routine has another version, and is compiled again.
//!
//! Invariants
//! - ROUT-1: a statement of a routine runs only on the versions of its tables that it was planned
//!   with, as SES-2 requires for statements of clients.
//! - ROUT-2: handlers of blocks do not catch a conflict, because the transaction cannot continue;
//!   the conflict is reported to the caller that began the transaction. A procedure that may end
//!   transactions catches it, but can do nothing more in that transaction.
//! - ROUT-3: the depth of nested calls is limited (54001), whichever routines call each other.

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

use fencepost_sql::catalog::{PolymorphicInstance, RoutineDef};
use fencepost_sql::context::EvalContext;
use fencepost_sql::error::{SqlError, SqlState};
use foldhash::{HashMap, HashMapExt};

use crate::ddl::Notice;

pub use portals::{OpenCursor, Portals};
pub use procedure::{CallState, Procedure};
pub use trigger::{TriggerCall, call_trigger};

/// The maximal depth of nested calls.
const DEPTH_MAX: usize = 500;
/// Addresses further apart than this belong to different stacks.
const STACKS_APART: usize = 64 << 20;
/// The maximal number of compiled routines that a session keeps.
const COMPILED_MAX: usize = 512;

/// The key of compiled code: the routine's oid, the role that a SECURITY DEFINER function acts as,
/// the search path of its settings, and its polymorphic types in this call.
type RoutineKey = (
    u32,
    Option<Arc<str>>,
    Option<Arc<str>>,
    Option<Arc<PolymorphicInstance>>,
);

/// Returns the key under which the code of a routine is kept in this context.
fn known_as(routine: &RoutineDef, eval: &EvalContext) -> RoutineKey {
    let called = routine.as_called.clone();
    (routine.id, eval.acting(), eval.within.clone(), called)
}

/// The state of the routines that a session has called.
#[derive(Default)]
pub struct Routines {
    compiled: HashMap<RoutineKey, (u64, call::CompiledRoutine)>,
    /// The depth of the current call.
    depth: usize,
    /// The stack address of the outermost call.
    base: usize,
    /// The cursors that routines have opened.
    pub portals: Portals,
    /// The notices of routines for the client.
    pub notices: Vec<Notice>,
    /// Temporary tables that routines have created, and their ON COMMIT actions.
    pub on_commit: Vec<(u32, OnCommit)>,
    /// Random bytes of the session, the source of password salts.
    pub seed: u128,
    salts: u128,
    /// The stack size in bytes that calls may use.
    pub stack: usize,
    /// The oids of the tables whose triggers are running.
    in_use: Vec<u32>,
}

impl std::fmt::Debug for Routines {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} routines, {} deep", self.compiled.len(), self.depth)
    }
}

impl Routines {
    /// Discards all compiled code, because names or literals have a new meaning.
    pub fn forget(&mut self) {
        self.compiled = HashMap::new();
    }

    fn get(&self, routine: &RoutineDef, eval: &EvalContext) -> Option<call::CompiledRoutine> {
        let (version, compiled) = self.compiled.get(&known_as(routine, eval))?;
        (*version == routine.version).then(|| compiled.clone())
    }

    fn keep(&mut self, routine: &RoutineDef, eval: &EvalContext, compiled: &call::CompiledRoutine) {
        if self.compiled.len() >= COMPILED_MAX {
            self.forget();
        }
        let of = (routine.version, compiled.clone());
        self.compiled.insert(known_as(routine, eval), of);
    }

    /// Begins a statement of the client.
    pub fn begin(&mut self) {
        self.depth = 0;
        self.in_use.clear();
    }

    /// Returns a salt that no other password of the session has.
    fn fresh_salt(&mut self) -> [u8; 16] {
        self.salts += 1;
        self.seed.wrapping_add(self.salts).to_le_bytes()
    }

    /// Enters a call.
    fn enter(&mut self) -> Result<(), SqlError> {
        let local = 0u8;
        let address = std::ptr::from_ref(&local).addr();
        // The outermost call may run on another thread than the previous one.
        let within = self.depth > 0;
        let taken = self.base.checked_sub(address);
        let taken = taken.filter(|taken| within && *taken < STACKS_APART);
        if taken.is_none() {
            // This is the outermost call, or it continues on another thread.
            self.base = address;
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

/// The routine that owns the running code, for messages and permissions.
#[derive(Clone, Debug)]
struct Owner {
    /// The signature, such as `f(integer)`, or the name of a DO block.
    name: Arc<str>,
    /// Whether it may change rows.
    writes: bool,
}
