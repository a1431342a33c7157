//! A session: the statements of one user, executed one after the other, and their transaction.
//!
//! ```text
//!            statement            BEGIN                error
//!   Idle ───────────────▶ Implicit ─────▶ Block ───────────────▶ Failed
//!    ▲      sync: commit     │              │ COMMIT, ROLLBACK     │ ROLLBACK, ROLLBACK TO
//!    └───────────────────────┴──────────────┴──────────────────────┘
//! ```
//!
//! Invariants
//! - SES-1: a statement outside a block is retried transparently after a conflict. It must form a
//!   whole transaction, and the client must not have received any of its result.
//! - SES-2: a plan runs only on the versions of its tables for which it was made; the transaction
//!   has their guards in its read set.
//! - SES-3: dropping a session aborts its transaction.
//! - SES-4: the end of a transaction is reported only after all data that it has read is durable
//!   ([`Session::settle`]). That includes ROLLBACK and errors, unless `synchronous_commit` is off.
//! - SES-5: a statement of a transaction that continues succeeds only while the machine has its
//!   lease. Without the lease, its reads may not be from one snapshot. A commit checks the lease
//!   itself.
//! - SES-6: a serializable block that meets a conflict is replayed transparently, if every result
//!   that its client has received is the same again ([`replay`]).

mod analyze;
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
use fencepost_planner::{
    CancelFlag, Cx, DeferredMark, DeferredWork, Notice, PartStatistics, Scratch,
};
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
use crate::databases::DatabaseState;
use crate::retry_turns::Contention;
use crate::sessions::{self, Registration, SessionProperties};
use crate::snapshots;
use crate::sweeper;
use clock::StatementClock;
use cursors::Cursors;
use history::History;
use level::Modes;
use named::NamedPrepared;

pub use copy::CopyIn;
pub use protocol::Completion;
pub(crate) use run::{ATTEMPTS_MAX, back_off};
pub use statement::{Query, Statement, TransactionBody};
pub(crate) use utility::fresh_salt;

/// The microseconds from 1970-01-01 to 2000-01-01.
const EPOCH_US: i64 = 946_684_800_000_000;

/// The default of `stack_bytes`: half of a standard thread stack.
const STACK_BYTES: usize = 1 << 20;

/// The role, the database and the settings of a new session, for
/// [`Database::session_with`](crate::Database::session_with). The default is the superuser
/// `postgres` in the database `postgres`.
#[derive(Clone, Debug)]
pub struct SessionOptions {
    /// The role; it must have LOGIN.
    pub user: String,
    /// The database.
    pub database: String,
    /// Settings, by name, as of the start-up message: RESET goes back to these values.
    pub settings: Vec<(String, String)>,
    /// The value of `pg_backend_pid()`; 0 to let the database choose a number.
    pub backend_pid: i32,
    /// The address of the client, if it is another process; `pg_stat_activity` shows it.
    pub client: Option<SocketAddr>,
    /// The part of a thread's stack, in bytes, that nested calls of users' functions may use. The
    /// default of 1 MiB is half of the stack of a thread of Rust's library. Every thread that polls
    /// the session needs more than this.
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

/// The transaction status of a session, as ReadyForQuery reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TxStatus {
    /// In no transaction block.
    Idle,
    /// In a transaction block.
    InBlock,
    /// In a transaction block that has failed.
    Failed,
}

/// The kind of the open transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Block {
    /// No transaction.
    Idle,
    /// The implicit transaction of the statements up to the next Sync.
    Implicit,
    /// A transaction block.
    Explicit,
    /// A failed transaction block.
    Failed,
}

/// A session: the statements of one user, one after the other, and their transaction.
///
/// [`Database::session`](crate::Database::session) opens one. One task uses it at a time; it may
/// move between threads. Its futures need no particular runtime. They wait for locks and disks
/// without blocking the thread, and long statements yield after about a millisecond.
/// [`BlockingSession`](crate::BlockingSession) has the same calls without futures.
///
/// ```
/// use fencepost::{Database, Error, params};
///
/// async fn rename(db: &Database, id: i32, name: &str) -> Result<bool, Error> {
///     let mut session = db.session();
///     let update = "UPDATE person SET name = $2 WHERE id = $1";
///     Ok(session.execute(update, params![id, name]).await? == 1)
/// }
///
/// let db = Database::in_memory()?;
/// db.blocking().batch("CREATE TABLE person (id int PRIMARY KEY, name text)")?;
/// assert!(!pollster::block_on(rename(&db, 1, "Ada"))?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Dropping
///
/// Dropping a session rolls back its open transaction.
///
/// Dropping the future of a statement before its end may leave a part of its work in the
/// transaction. Call [`Session::fail`] before the next statement, or drop the session. `fail` rolls
/// back a statement outside a block; a block has failed then, and needs a ROLLBACK. If the future
/// was committing, the transaction may have taken effect.
///
/// # Time limits
///
/// `lock_timeout` ends a wait for a lock by itself. `statement_timeout` is checked whenever the
/// future is polled; for a statement that waits for a row, use a timer of the executor to poll it.
///
/// # For servers of protocols
///
/// [`Session::parse`], [`Session::bind`], [`Session::run`], [`Session::sync`] and the calls around
/// them are the messages of PostgreSQL's extended protocol. They also read a large result in parts:
///
/// ```
/// use fencepost::{MemorySink, Completion, Database, Error};
///
/// # let db = Database::in_memory()?;
/// # pollster::block_on(async {
/// let mut session = db.session();
/// let prepared = session.parse("SELECT * FROM generate_series(1, 2500)", &[])?;
/// let mut portal = session.bind(&prepared, Vec::new())?;
/// let mut rows = 0;
/// loop {
///     let mut part = MemorySink::default();
///     let done = session.run(&mut portal, 1000, &mut part).await?;
///     rows += part.rows.len();
///     if !matches!(done, Completion::Suspended) {
///         break;
///     }
/// }
/// session.sync().await?;
/// assert_eq!(rows, 2500);
/// # Ok::<(), Error>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Session {
    db: Arc<Shared>,
    /// The database to which the session is connected.
    served: Arc<DatabaseState>,
    coordinator: Coordinator,
    tx: Option<Transaction>,
    block: Block,
    /// The number of the current transaction; portals of earlier ones are closed.
    transaction: u64,
    /// The number of statements run in the implicit transaction.
    statements: u32,
    /// True if the transaction can only be rolled back as a whole.
    must_roll_back: bool,
    /// True if the last transaction was aborted, and data that it has read may not be durable yet.
    unsettled: bool,
    modes: Modes,
    /// The modes of new transactions, according to the settings.
    default_modes: Modes,
    savepoints: Vec<OpenSavepoint>,
    /// The statements of a serializable block and digests of their results.
    history: History,
    /// The conflict count of the latest serializable blocks.
    contention: Contention,
    /// The checks that the transaction has deferred.
    deferred: DeferredWork,
    /// The settings that stay if the transaction commits.
    lasting: Arc<Settings>,
    /// The settings at the start of the transaction.
    before: Option<Arc<Settings>>,
    /// The settings that were last reported to the client.
    reported: Arc<Settings>,
    timeout: Option<Duration>,
    deadline: Option<Instant>,
    /// The settings that plans depend on, as a part of the plan-cache key.
    plan_tag: String,
    /// The statements of PREPARE and of the protocol's Parse, by name.
    named: HashMap<Box<str>, Arc<NamedPrepared>>,
    /// Temporary tables with an ON COMMIT action.
    on_commit: Vec<(u32, OnCommit)>,
    cursors: Cursors,
    notices: Vec<Notice>,
    cancel: CancelFlag,
    /// True if the session runs a statement for another machine's session.
    serves: bool,
    /// The results of the parts of the last split statement.
    came: Vec<PartStatistics>,
    scratch: Scratch,
    eval: EvalContext,
    /// The role that opened the session.
    login: String,
    locks: Arc<SessionLocks>,
    exports: Arc<snapshots::SessionSnapshots>,
    /// The registration of its channels, once the session listens.
    listener: Option<Listener>,
    /// The public entry of the session; `None` if it serves a session of another machine.
    registered: Option<Registration>,
    key: String,
    /// The query identifier of the last statement that changed rows.
    writer: i64,
    clock: StatementClock,
    /// The generation of the server's settings that the session has adopted.
    configured: u64,
}

struct OpenSavepoint {
    name: String,
    /// The number of history statements before the savepoint.
    statements: usize,
    /// The savepoint of the underlying transaction; `None` until that begins.
    point: Option<Savepoint>,
    deferred: DeferredMark,
    /// The number of cursors of the session and of routines at the savepoint.
    cursors: (u64, u64),
    locks: LockMark,
    notified: NotifyMark,
    sequences: SequenceMark,
    lasting: Arc<Settings>,
    current: Arc<Settings>,
    modes: Modes,
}

/// A token that ends the running statement of a session, from any thread. Clones are of the same
/// session; a token may outlive it.
#[derive(Clone, Debug)]
pub struct CancelToken(CancelFlag);

impl CancelToken {
    /// Ends the running statement with 57014; does nothing if none runs. Returns at once: the
    /// statement ends within about a millisecond of work, or when its waiting task is woken.
    pub fn cancel(&self) {
        self.0.cancel();
    }

    /// Lets all statements of the session fail with 57P01 from now on, the running one included.
    pub fn shut_down(&self) {
        self.0.shut_down();
    }

    /// Returns whether the session has to end.
    pub fn is_shut_down(&self) -> bool {
        self.0.is_shut_down()
    }

    /// Registers a waker that is called for each of these requests. It replaces the waker that was
    /// registered before, also that of a running statement. Check for a request once more
    /// afterwards.
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
    pub(crate) fn new(
        db: &Arc<Shared>,
        served: Arc<DatabaseState>,
        options: SessionOptions,
    ) -> Session {
        let (client, cancel) = (options.client, CancelFlag::default());
        let mut session = Session::unseen(db, served, options, cancel);
        session.follow_server();
        let known = db.databases.first.catalog.newest();
        let role = known.role(&session.login).ok().flatten();
        let opened = SessionProperties {
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

    /// Returns a session that other sessions cannot see.
    pub(crate) fn unseen(
        db: &Arc<Shared>,
        served: Arc<DatabaseState>,
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
        eval.table_statistics = Some(served.table_statistics(&db.machine));
        eval.server = Some(Arc::clone(&db.configuration) as _);
        eval.sessions = Some(Arc::new(sessions::Handle(Arc::clone(&db.register))));
        let locks = SessionLocks::new(&db.advisory, pid);
        eval.advisory = Some(Arc::new(advisory::Handle(Arc::clone(&locks))));
        let exports = snapshots::SessionSnapshots::new(
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
            must_roll_back: false,
            unsettled: false,
            modes: Modes::default(),
            default_modes: Modes::default(),
            savepoints: Vec::new(),
            history: History::default(),
            contention: Contention::default(),
            deferred: DeferredWork::default(),
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

    /// Returns the transaction status. Statements between [`Session::run`] and [`Session::sync`] do
    /// not form a block.
    pub fn status(&self) -> TxStatus {
        match self.block {
            Block::Idle | Block::Implicit => TxStatus::Idle,
            Block::Explicit => TxStatus::InBlock,
            Block::Failed => TxStatus::Failed,
        }
    }

    /// Returns the settings as they are now, with those of SET LOCAL.
    pub fn settings(&self) -> &Arc<Settings> {
        &self.eval.settings
    }

    /// Returns a token that ends this session's running statement, for another thread or task.
    pub fn cancel_token(&self) -> CancelToken {
        CancelToken(self.cancel.clone())
    }

    /// Returns the notices and warnings since the last call, filtered by `client_min_messages`.
    /// They stay in memory until this call.
    pub fn take_notices(&mut self) -> Vec<Notice> {
        let mut notices = std::mem::take(&mut self.notices);
        if !notices.is_empty() {
            let least = self.eval.settings.get("client_min_messages");
            let least = settings::rank(least.as_deref().unwrap_or_default());
            notices.retain(|notice| settings::rank(notice.severity) >= least);
        }
        notices
    }

    /// Returns the settings that changed since the last call and have to be reported to the client:
    /// names and values of ParameterStatus messages.
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

    /// Returns the duration of the last completed statement. It includes the commit if the
    /// statement ended its transaction.
    #[inline]
    pub fn last_duration(&self) -> Duration {
        self.clock.took()
    }

    /// Sets the lock owner of the session, which has none yet.
    fn set_locks(&mut self, locks: Arc<SessionLocks>) {
        self.eval.advisory = Some(Arc::new(advisory::Handle(Arc::clone(&locks))));
        self.locks = locks;
    }

    /// Returns the number of the session, the value of `pg_backend_pid()`.
    pub fn backend_pid(&self) -> i32 {
        self.eval.backend_pid
    }
}

/// Returns the current time in microseconds from 2000-01-01 UTC.
pub(crate) fn now() -> i64 {
    let since_1970 = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |d| i64::try_from(d.as_micros()).unwrap_or(i64::MAX));
    since_1970 - EPOCH_US
}

/// Returns the context for running a plan, from the parts of a session that it may borrow.
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
        only_reads: false,
        before: None,
    }
}
