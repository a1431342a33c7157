//! A session: one user's statements, one after the other, and the transaction they are in.
//!
//! ```text
//!            statement            BEGIN                error
//!   Idle ───────────────▶ Implicit ─────▶ Block ───────────────▶ Failed
//!    ▲      sync: commit     │              │ COMMIT, ROLLBACK     │ ROLLBACK, ROLLBACK TO
//!    └───────────────────────┴──────────────┴──────────────────────┘
//! ```
//!
//! Invariants
//! - SES-1: a statement outside a block is run again unseen when it meets a conflict, as long as it
//!   is all its transaction did and the client has seen nothing of it.
//! - SES-2: a plan runs only on the versions of its tables that it was made for; the transaction has
//!   their guards in its read set.
//! - SES-3: a session that is dropped aborts its transaction.
//! - SES-4: the end of a transaction, also by ROLLBACK or an error, is told once everything it saw is
//!   durable ([`Session::settle`]), unless `synchronous_commit` is off.
//! - SES-5: a statement of a transaction that goes on ends well only while the machine has its lease: else what it
//!   has read need not be of one moment. At a commit the lease is asked for below.
//! - SES-6: a serializable block that meets a conflict is run again unseen, as long as all that its client was told comes out
//!   the same ([`replay`]).

mod block;
mod call;
mod clock;
mod conflicts;
mod constraints;
mod copy;
mod cursors;
mod explain;
mod history;
mod identity;
mod leave;
mod level;
mod named;
mod notify;
mod parts;
mod protocol;
mod replay;
mod resumed;
mod run;
mod sequences;
mod settings;
mod shipped;
mod statement;
mod system;
mod tables;
mod temporary;
#[cfg(test)]
mod tests;
mod utility;

use std::net::SocketAddr;
use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use fencepost_fabric::entropy_seed;
use fencepost_planner::{Came, CancelFlag, Cx, Deferred, DeferredMark, Notice, Scratch};
use fencepost_sql::bound::OnCommit;
use fencepost_sql::catalog::CatalogView;
use fencepost_sql::context::EvalContext;
use fencepost_sql::counts::Event;
use fencepost_sql::notify::NotifyMark;
use fencepost_sql::sequences::{SequenceMark, Sequences};
use fencepost_sql::settings::Settings;
use fencepost_sql::value::Value;
use fencepost_txn::{Coordinator, Savepoint, Transaction};
use foldhash::{HashMap, HashMapExt};

use crate::advisory::{self, LockMark, SessionLocks};
use crate::channels::Listener;
use crate::database::{DATABASE_NAME, Shared};
use crate::databases::Served;
use crate::retry_turns::Contention;
use crate::sessions::{self, Opened, Registered};
use crate::snapshots;
use crate::sweeper;
use clock::StatementClock;
use cursors::Cursors;
use history::History;
use level::Modes;
use named::Named;

pub use copy::CopyIn;
pub use protocol::Completion;
pub(crate) use run::{ATTEMPTS_MAX, back_off};
pub use statement::{Query, Statement, TransactionBody};
pub(crate) use utility::fresh_salt;

/// Microseconds from 1970-01-01 to 2000-01-01.
const EPOCH_US: i64 = 946_684_800_000_000;

/// Half of the stack of a thread that nobody has given more.
const STACK_BYTES: usize = 1 << 20;

/// Who opens a session, and with what settings.
#[derive(Clone, Debug)]
pub struct SessionOptions {
    /// The role.
    pub user: String,
    /// The database.
    pub database: String,
    /// Settings of the start-up message.
    pub settings: Vec<(String, String)>,
    /// What `pg_backend_pid()` says; 0 to be given a number.
    pub backend_pid: i32,
    /// Where its client is, if that is another process.
    pub client: Option<SocketAddr>,
    /// How much of a thread's stack functions of users may take that call each other.
    pub stack_bytes: usize,
}

impl Default for SessionOptions {
    fn default() -> SessionOptions {
        SessionOptions {
            user: "postgres".to_owned(),
            database: DATABASE_NAME.to_owned(),
            settings: Vec::new(),
            backend_pid: 0,
            client: None,
            stack_bytes: STACK_BYTES,
        }
    }
}

/// Where a session stands, as ReadyForQuery tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TxStatus {
    /// In no transaction block.
    Idle,
    /// In a transaction block.
    InBlock,
    /// In a transaction block that has failed.
    Failed,
}

/// What kind of transaction is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Block {
    /// None.
    Idle,
    /// That of the statements up to the next sync.
    Implicit,
    /// That of BEGIN.
    Explicit,
    /// That of BEGIN, failed.
    Failed,
}

/// A session. One task uses it at a time; it may move between threads.
pub struct Session {
    db: Arc<Shared>,
    /// The database that it is connected to.
    served: Arc<Served>,
    coordinator: Coordinator,
    tx: Option<Transaction>,
    block: Block,
    /// Counts transactions; portals of earlier ones are closed.
    transaction: u64,
    /// Statements run in the implicit transaction.
    statements: u32,
    /// The transaction can only be rolled back as a whole.
    doomed: bool,
    /// The last transaction was given up, and what it saw may not be durable yet.
    unsettled: bool,
    modes: Modes,
    /// What transactions begin with, by the settings.
    default_modes: Modes,
    savepoints: Vec<OpenSavepoint>,
    /// The statements of a serializable block and digests of their results.
    history: History,
    /// The conflicts of the latest serializable blocks.
    contention: Contention,
    /// What the transaction has still to check.
    deferred: Deferred,
    /// Settings that outlive the transaction if it commits.
    lasting: Arc<Settings>,
    /// Settings at the start of the transaction.
    before: Option<Arc<Settings>>,
    /// Settings that the client was told of last.
    reported: Arc<Settings>,
    timeout: Option<Duration>,
    deadline: Option<Instant>,
    /// What of the settings a plan depends on.
    plan_tag: String,
    /// Statements of PREPARE and of the protocol's Parse, by name.
    named: HashMap<Box<str>, Arc<Named>>,
    /// Temporary tables that something is done to at the end of each transaction.
    on_commit: Vec<(u32, OnCommit)>,
    cursors: Cursors,
    notices: Vec<Notice>,
    cancel: CancelFlag,
    /// It runs a statement for another machine's session.
    serves: bool,
    /// What has come back of the parts of the last statement that was split.
    came: Vec<Came>,
    scratch: Scratch,
    eval: EvalContext,
    /// The role that it was opened for.
    login: String,
    locks: Arc<SessionLocks>,
    exports: Arc<snapshots::OfSession>,
    /// What it hears, once it listens.
    listener: Option<Listener>,
    /// Where others see it; not where it serves a session of another machine.
    registered: Option<Registered>,
    key: String,
    /// The number of the statement that last changed rows.
    writer: i64,
    clock: StatementClock,
    /// The settings of the server that it follows, by their number.
    configured: u64,
}

struct OpenSavepoint {
    name: String,
    /// Statements of the history before it.
    statements: usize,
    /// Where the transaction goes back to; taken when the transaction had not begun.
    point: Option<Savepoint>,
    deferred: DeferredMark,
    /// The cursors there had been, of the session and of routines.
    cursors: (u64, u64),
    locks: LockMark,
    notified: NotifyMark,
    sequences: SequenceMark,
    lasting: Arc<Settings>,
    current: Arc<Settings>,
    modes: Modes,
}

/// Ends the running statement of a session, from any thread.
#[derive(Clone, Debug)]
pub struct CancelToken(CancelFlag);

impl CancelToken {
    /// The running statement ends with 57014; nothing happens where none runs.
    pub fn cancel(&self) {
        self.0.cancel();
    }

    /// The session's statements end with 57P01 from now on.
    pub fn shut_down(&self) {
        self.0.shut_down();
    }

    /// Whether the session is to end.
    pub fn is_shut_down(&self) -> bool {
        self.0.is_shut_down()
    }

    /// Has a task of the session woken when one of these is asked for.
    pub fn watch(&self, waker: &Waker) {
        self.0.watch(waker);
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if self.serves {
            self.locks.back_to(LockMark::default());
            self.db.advisory.keep_idle(&self.locks);
        }
        if let Some(own) = self.eval.temporary() {
            sweeper::sweep(&self.db, &self.served, own);
        }
        let counting = std::mem::take(&mut self.scratch.counting);
        if let Some(registered) = &self.registered {
            let lasted = now().saturating_sub(registered.opened());
            counting.event(Event::SessionUs, u64::try_from(lasted).unwrap_or(0));
            counting.event(Event::Killed, u64::from(self.cancel.is_shut_down()));
        }
        self.served.tallies.end(counting);
    }
}

impl Session {
    pub(crate) fn new(db: &Arc<Shared>, served: Arc<Served>, options: SessionOptions) -> Session {
        let (client, cancel) = (options.client, CancelFlag::default());
        let mut session = Session::unseen(db, served, options, cancel);
        session.follow_server();
        let known = db.databases.first.catalog.newest();
        let role = known.role(&session.login).ok().flatten();
        let opened = Opened {
            session: session.eval.backend_pid,
            user: &session.login,
            superuser: role.is_some_and(|role| role.superuser),
            database: &session.eval.database,
            client,
            at: session.eval.statement_start,
        };
        session.registered = Some(db.register.enter(&opened, &session.cancel));
        session.scratch.counting.event(Event::Sessions, 1);
        session
    }

    /// A session that others do not see.
    pub(crate) fn unseen(
        db: &Arc<Shared>,
        served: Arc<Served>,
        options: SessionOptions,
        cancel: CancelFlag,
    ) -> Session {
        let settings = Arc::new(Settings::new());
        let pid = match options.backend_pid {
            0 => db.next_pid(),
            pid => pid,
        };
        let stack = options.stack_bytes;
        let mut eval = EvalContext::new(Arc::clone(&settings), now(), entropy_seed());
        eval.user = options.user.clone();
        eval.session_user = options.user;
        eval.database = options.database;
        eval.backend_pid = pid;
        eval.clock = Some(now);
        eval.machine = db.machine.number();
        eval.database_catalog = Some(Arc::clone(&served.catalog));
        eval.sequences = Arc::new(Sequences::of(&served.catalog.ranges()));
        let login = eval.user.clone();
        eval.statements = Some(Arc::clone(&served.statistics) as _);
        eval.counters = Some(Arc::clone(&db.counters) as _);
        eval.server = Some(Arc::clone(&db.configuration) as _);
        eval.sessions = Some(Arc::new(sessions::Handle(Arc::clone(&db.register))));
        let locks = SessionLocks::new(&db.advisory, pid);
        eval.advisory = Some(Arc::new(advisory::Handle(Arc::clone(&locks))));
        let exports = snapshots::OfSession::new(
            &db.snapshots,
            db.machine.number(),
            served.catalog.database(),
        );
        eval.exports = Some(Arc::clone(&exports) as _);
        let mut session = Session {
            db: Arc::clone(db),
            served,
            coordinator: db.machine.coordinator(),
            tx: None,
            block: Block::Idle,
            transaction: 0,
            statements: 0,
            doomed: false,
            unsettled: false,
            modes: Modes::default(),
            default_modes: Modes::default(),
            savepoints: Vec::new(),
            history: History::default(),
            contention: Contention::default(),
            deferred: Deferred::default(),
            lasting: Arc::clone(&settings),
            before: None,
            reported: settings,
            timeout: None,
            deadline: None,
            plan_tag: String::new(),
            named: HashMap::new(),
            on_commit: Vec::new(),
            cursors: Cursors::default(),
            notices: Vec::new(),
            cancel,
            serves: false,
            came: Vec::new(),
            scratch: Scratch::default(),
            eval,
            login,
            locks,
            exports,
            listener: None,
            registered: None,
            key: String::new(),
            writer: 0,
            clock: StatementClock::default(),
            configured: 0,
        };
        session.scratch.counting = session.served.tallies.begin();
        session.scratch.routines.stack = stack;
        session.scratch.routines.seed =
            u128::from(entropy_seed()) << 64 | u128::from(entropy_seed());
        session.settings_changed();
        session
    }

    /// Where the session stands.
    pub fn status(&self) -> TxStatus {
        match self.block {
            Block::Idle | Block::Implicit => TxStatus::Idle,
            Block::Explicit => TxStatus::InBlock,
            Block::Failed => TxStatus::Failed,
        }
    }

    /// The settings.
    pub fn settings(&self) -> &Arc<Settings> {
        &self.eval.settings
    }

    /// The token that ends this session's running statement.
    pub fn cancel_token(&self) -> CancelToken {
        CancelToken(self.cancel.clone())
    }

    /// The notices since the last call, as far as `client_min_messages` wants them.
    pub fn take_notices(&mut self) -> Vec<Notice> {
        let mut notices = std::mem::take(&mut self.notices);
        if !notices.is_empty() {
            let least = self.eval.settings.get("client_min_messages");
            let least = settings::rank(least.as_deref().unwrap_or_default());
            notices.retain(|notice| settings::rank(notice.severity) >= least);
        }
        notices
    }

    /// The settings that the client is to be told of: those that changed since the last call.
    pub fn take_parameter_changes(&mut self) -> Vec<(String, String)> {
        if Arc::ptr_eq(&self.reported, &self.eval.settings) {
            return Vec::new();
        }
        let old = self.reported.reported();
        let new = self.eval.settings.reported();
        self.reported = Arc::clone(&self.eval.settings);
        new.into_iter()
            .zip(old)
            .filter(|(new, old)| new != old)
            .map(|((name, value), _)| (name.to_owned(), value))
            .collect()
    }

    /// How long the last statement took that has run to its end, its commit included where it ended its transaction.
    #[inline]
    pub fn last_duration(&self) -> Duration {
        self.clock.took()
    }

    /// Makes `locks` those of the session, which has none yet.
    fn set_locks(&mut self, locks: Arc<SessionLocks>) {
        self.eval.advisory = Some(Arc::new(advisory::Handle(Arc::clone(&locks))));
        self.locks = locks;
    }

    /// The number of the session, as `pg_backend_pid()` tells it.
    pub fn backend_pid(&self) -> i32 {
        self.eval.backend_pid
    }
}

/// Microseconds from 2000-01-01 UTC to now.
pub(crate) fn now() -> i64 {
    let since_1970 = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |d| i64::try_from(d.as_micros()).unwrap_or(i64::MAX));
    since_1970 - EPOCH_US
}

/// What running a plan needs, from the parts of a session that it may borrow.
fn cx<'a>(
    tx: &'a mut Transaction,
    params: &'a [Value],
    eval: &'a EvalContext,
    cancel: &'a CancelFlag,
    scratch: &'a mut Scratch,
    deadline: Option<Instant>,
    intents: bool,
) -> Cx<'a> {
    scratch.pace.restart();
    Cx {
        tx,
        params,
        eval,
        cancel,
        intents,
        scratch,
        deadline,
        held: 0,
        deferred: None,
        part: None,
        parts: None,
        queries: None,
        before: None,
    }
}
