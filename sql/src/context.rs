//! What evaluation may know besides rows and parameters: settings, clocks, who is asking.
//!
//! Plain data, made once a statement; `set_config` leaves its changes here for the session to take.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, RwLock};

use crate::advisory::AdvisoryLocks;
use crate::catalog::temporary::{self, Temporary};
use crate::catalog::{Catalog, CatalogView, Snapshot, outcomes};
use crate::counts::Counters;
use crate::cursors::CursorInfo;
use crate::error::{SqlError, SqlState};
use crate::exports::Exports;
use crate::notify::Notifications;
use crate::pg_catalog::DATABASE_OID;
use crate::sequences::Sequences;
use crate::server::Server;
use crate::sessions::Sessions;
use crate::settings::Settings;
use crate::statements::{NamedStatement, Statements};

/// The surroundings of an evaluation.
#[derive(Debug)]
pub struct EvalContext {
    /// The session's settings when the statement began.
    pub settings: Arc<Settings>,
    /// `now()`: microseconds from 2000-01-01 UTC.
    pub transaction_start: i64,
    /// `statement_timestamp()`.
    pub statement_start: i64,
    /// The name of the session's role.
    pub user: String,
    /// The role that a function of its owner's acts for, while it runs.
    acting: RwLock<Option<Arc<str>>>,
    /// The session user's name.
    pub session_user: String,
    /// The database's name.
    pub database: String,
    /// `clock_timestamp()`, as the transaction's start; without it time stands still within a statement.
    pub clock: Option<fn() -> i64>,
    /// `pg_backend_pid()`
    pub backend_pid: i32,
    /// The machine's number.
    pub machine: u32,
    /// The catalog of the database, where there is one.
    pub database_catalog: Option<Arc<Catalog>>,
    /// The catalog as the transaction has changed it.
    private: RwLock<Option<Arc<Snapshot>>>,
    /// Where the session's temporary objects are, if it has made any.
    temporary: RwLock<Option<Temporary>>,
    /// What the names in a statement depend on besides the catalog.
    pub names: Arc<str>,
    /// The session's cursors.
    pub cursors: Box<[CursorInfo]>,
    /// The statements that the session has prepared.
    pub prepared: HashMap<Box<str>, Arc<dyn NamedStatement>>,
    /// `txid_current()`, 0 until it is asked for.
    transaction_number: AtomicI64,
    /// The state of `random()`.
    random: AtomicU64,
    /// `pg_trigger_depth()`: how many triggers run within each other.
    pub trigger_depth: AtomicU32,
    /// The sequences.
    pub sequences: Arc<Sequences>,
    /// What the session tells others, and listens to.
    pub notifications: Arc<Notifications>,
    /// What names and literals mean in a routine that runs under settings other than the session's.
    pub within: Option<Arc<str>>,
    /// How many of the changes that were asked for the settings have.
    settled: usize,
    /// `lock_timeout`: how long a statement waits for a lock; `None` is for ever.
    pub lock_timeout: Option<Duration>,
    /// The sessions of the database.
    pub sessions: Option<Arc<dyn Sessions>>,
    /// What statements have cost.
    pub statements: Option<Arc<dyn Statements>>,
    /// What is counted of relations and of the database.
    pub counters: Option<Arc<dyn Counters>>,
    /// The server process.
    pub server: Option<Arc<dyn Server>>,
    /// The session's advisory locks.
    pub advisory: Option<Arc<dyn AdvisoryLocks>>,
    /// The snapshots that it exports.
    pub exports: Option<Arc<dyn Exports>>,
    /// Whether evaluations run long calls or defer them.
    pub(crate) long_calls: LongCalls,
    /// What the client is to be warned of.
    warnings: Mutex<Vec<SqlError>>,
    /// What `set_config` asked for: name, value, only for the transaction.
    changes: Mutex<Vec<(String, String, bool)>>,
}

/// Whether evaluations run long calls in place, or defer them to other threads.
#[derive(Debug, Default)]
pub(crate) struct LongCalls {
    state: AtomicU8,
}

impl LongCalls {
    const RUN: u8 = 0;
    const GIVEN_AWAY: u8 = 1;
    const MET: u8 = 2;

    /// From now on they are given away.
    #[inline(always)]
    pub(crate) fn give_away(&self) {
        self.state.store(Self::GIVEN_AWAY, Ordering::Relaxed);
    }

    /// From now on they run again.
    #[inline(always)]
    pub(crate) fn run(&self) {
        self.state.store(Self::RUN, Ordering::Relaxed);
    }

    /// Notes that one was met.
    #[inline(always)]
    pub(crate) fn note(&self) {
        self.state.store(Self::MET, Ordering::Relaxed);
    }

    /// Returns whether they are given away.
    #[inline(always)]
    pub(crate) fn are_given_away(&self) -> bool {
        self.state.load(Ordering::Relaxed) != Self::RUN
    }

    /// Returns whether one was met since [`LongCalls::give_away`].
    #[inline(always)]
    pub(crate) fn were_met(&self) -> bool {
        self.state.load(Ordering::Relaxed) == Self::MET
    }
}

impl EvalContext {
    /// A context with the given settings; the clocks stand at `now`.
    pub fn new(settings: Arc<Settings>, now: i64, random_seed: u64) -> EvalContext {
        EvalContext {
            settings,
            transaction_start: now,
            statement_start: now,
            user: "postgres".to_owned(),
            acting: RwLock::default(),
            session_user: "postgres".to_owned(),
            database: "postgres".to_owned(),
            clock: None,
            backend_pid: 0,
            machine: 0,
            database_catalog: None,
            private: RwLock::default(),
            temporary: RwLock::default(),
            names: Arc::from(""),
            cursors: Box::default(),
            prepared: HashMap::new(),
            transaction_number: AtomicI64::new(0),
            random: AtomicU64::new(random_seed),
            trigger_depth: AtomicU32::new(0),
            sequences: Arc::default(),
            notifications: Arc::default(),
            within: None,
            settled: 0,
            lock_timeout: None,
            sessions: None,
            statements: None,
            counters: None,
            server: None,
            advisory: None,
            exports: None,
            long_calls: LongCalls::default(),
            warnings: Mutex::new(Vec::new()),
            changes: Mutex::new(Vec::new()),
        }
    }

    /// The current role's name.
    pub fn current_user(&self) -> String {
        match &*self.acting.read() {
            Some(role) => role.to_string(),
            None => self.user.clone(),
        }
    }

    /// The role that a function of its owner's acts for, if one does.
    pub fn acting(&self) -> Option<Arc<str>> {
        self.acting.read().clone()
    }

    /// The schema of the session's temporary objects, where `catalog` has it.
    pub fn temporary_in(&self, catalog: &dyn CatalogView) -> Option<String> {
        let own = self.temporary()?;
        let there = catalog.schema_oid(&own.schema) == Some(own.id);
        there.then_some(own.schema)
    }

    /// Returns the schema of the session's temporary objects, if it has made one.
    pub fn temporary(&self) -> Option<Temporary> {
        self.temporary.read().clone()
    }

    /// Sets the schema of the session's temporary objects.
    pub fn set_temporary(&self, own: Option<Temporary>) {
        *self.temporary.write() = own;
    }

    /// The schema that the session's temporary objects are in, or will be.
    pub fn temporary_schema(&self) -> String {
        temporary::schema_of(self.backend_pid)
    }

    /// From now on it is this role that acts; the one before.
    pub fn act_as(&self, role: Option<Arc<str>>) -> Option<Arc<str>> {
        std::mem::replace(&mut *self.acting.write(), role)
    }

    /// The next 64 random bits (splitmix64: any state is a good one).
    pub fn random_bits(&self) -> u64 {
        const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
        let state = self.random.fetch_add(STEP, Ordering::Relaxed);
        let mut z = state.wrapping_add(STEP);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// The oid of the database.
    pub fn database_oid(&self) -> u32 {
        let catalog = self.database_catalog.as_ref();
        catalog.map_or(DATABASE_OID, |catalog| catalog.database())
    }

    /// The catalog as the transaction has changed it, or else the newest that is known.
    pub fn catalog(&self) -> Arc<Snapshot> {
        let newest = || self.database_catalog.as_ref().map(|of| of.newest());
        let snapshot = self.private().or_else(newest);
        snapshot.unwrap_or_default()
    }

    /// The catalog as the transaction has changed it, if it has.
    pub fn private(&self) -> Option<Arc<Snapshot>> {
        self.private.read().clone()
    }

    /// Has the transaction changed the catalog?
    pub fn has_private(&self) -> bool {
        self.private.read().is_some()
    }

    /// The catalog is this to the transaction; `None`: as it is to all.
    pub fn set_private(&self, catalog: Option<Arc<Snapshot>>) {
        *self.private.write() = catalog;
    }

    /// How many settings have been asked to change.
    pub fn changes_mark(&self) -> usize {
        self.changes.lock().len()
    }

    /// Forgets the changes of settings since a mark.
    pub fn changes_back_to(&self, mark: usize) {
        self.changes.lock().truncate(mark);
    }

    /// The number of the transaction, which has one from now on.
    pub fn transaction_number(&self) -> i64 {
        if let Some(number) = self.drawn_number() {
            return number;
        }
        let number = outcomes::draw(self.clock_now(), self.machine);
        self.transaction_number.store(number, Ordering::Relaxed);
        number
    }

    /// The number of the transaction, if it has been asked for.
    pub fn drawn_number(&self) -> Option<i64> {
        let number = self.transaction_number.load(Ordering::Relaxed);
        (number != 0).then_some(number)
    }

    /// Another transaction begins.
    pub fn forget_number(&self) {
        self.transaction_number.store(0, Ordering::Relaxed);
    }

    /// The clock's time now.
    pub fn clock_now(&self) -> i64 {
        self.clock.map_or(self.statement_start, |clock| clock())
    }

    /// Starts the random sequence again.
    pub fn seed_random(&self, seed: u64) {
        self.random.store(seed, Ordering::Relaxed);
    }

    /// The value of a setting, changes of this statement included.
    pub fn setting(&self, name: &str) -> Option<String> {
        let changed = self.changes.lock();
        if let Some((_, value, _)) = changed
            .iter()
            .rev()
            .find(|(n, _, _)| n.eq_ignore_ascii_case(name))
        {
            return Some(value.clone());
        }
        self.settings.get(name).map(|value| value.into_owned())
    }

    /// Asks the session to change a setting after the statement; checks it now.
    pub fn change_setting(&self, name: &str, value: &str, local: bool) -> Result<String, SqlError> {
        let mut trial = Settings::clone(&self.settings);
        trial.set(name, value)?;
        let canonical = trial.get(name).unwrap_or_default().into_owned();
        self.changes
            .lock()
            .push((name.to_owned(), canonical.clone(), local));
        Ok(canonical)
    }

    /// The settings as they are by now, with what the statement has asked to change.
    pub fn settings_now(&self) -> Result<Settings, SqlError> {
        let mut settings = Settings::clone(&self.settings);
        for (name, value, _) in &*self.changes.lock() {
            settings.set(name, value)?;
        }
        Ok(settings)
    }

    /// The same surroundings under other settings, for a part of the statement; [`Self::resume`] ends it.
    pub fn under(&self, settings: Settings) -> EvalContext {
        let meant = ["search_path", "TimeZone", "DateStyle"];
        let meant = meant.map(|name| settings.get(name).unwrap_or_default().into_owned());
        EvalContext {
            settings: Arc::new(settings),
            transaction_start: self.transaction_start,
            statement_start: self.statement_start,
            user: self.user.clone(),
            acting: RwLock::new(self.acting()),
            session_user: self.session_user.clone(),
            database: self.database.clone(),
            clock: self.clock,
            backend_pid: self.backend_pid,
            machine: self.machine,
            database_catalog: self.database_catalog.clone(),
            private: RwLock::new(self.private()),
            temporary: RwLock::new(self.temporary()),
            names: Arc::clone(&self.names),
            cursors: self.cursors.clone(),
            prepared: self.prepared.clone(),
            transaction_number: AtomicI64::new(self.transaction_number.load(Ordering::Relaxed)),
            random: AtomicU64::new(self.random.load(Ordering::Relaxed)),
            trigger_depth: AtomicU32::new(self.trigger_depth.load(Ordering::Relaxed)),
            sequences: Arc::clone(&self.sequences),
            notifications: Arc::clone(&self.notifications),
            within: Some(meant.join("\0").into()),
            settled: 0,
            lock_timeout: self.lock_timeout,
            sessions: self.sessions.clone(),
            statements: self.statements.clone(),
            counters: self.counters.clone(),
            server: self.server.clone(),
            advisory: self.advisory.clone(),
            exports: self.exports.clone(),
            long_calls: LongCalls::default(),
            warnings: Mutex::default(),
            changes: Mutex::default(),
        }
    }

    /// Have settings been asked to change that these surroundings do not have?
    pub fn is_unsettled(&self) -> bool {
        self.changes_mark() != self.settled
    }

    /// The same surroundings with the changes that were asked for; [`Self::unsettle`] ends it.
    pub fn settle(&self) -> Result<EvalContext, SqlError> {
        let changes = self.changes.lock().clone();
        let mut settled = self.under(self.settings_now()?);
        settled.settled = changes.len();
        settled.changes = Mutex::new(changes);
        Ok(settled)
    }

    /// Goes on behind what ran with the changes: it has asked for others, or some were taken back.
    pub fn unsettle(&self, inner: EvalContext) {
        self.changes.lock().clear();
        self.resume(inner, &[]);
    }

    /// Goes on behind what ran under other settings: what that has done to the transaction stays, and what it has set, but
    /// for what was set within it alone: the settings of these names, where that was said to be local.
    pub fn resume(&self, inner: EvalContext, own: &[(String, String)]) {
        self.set_private(inner.private());
        let number = inner.transaction_number.load(Ordering::Relaxed);
        self.transaction_number.store(number, Ordering::Relaxed);
        let random = inner.random.load(Ordering::Relaxed);
        self.random.store(random, Ordering::Relaxed);
        self.warnings.lock().append(&mut inner.take_warnings());
        let is_own = |name: &str| own.iter().any(|(of, _)| of.eq_ignore_ascii_case(name));
        let mut changes = inner.take_changes();
        changes.retain(|(name, _, local)| !(*local && is_own(name)));
        self.changes.lock().append(&mut changes);
    }

    /// Warns the client, once the statement has ended.
    pub fn warn(&self, message: impl Into<String>) {
        let warning = SqlError::new(SqlState::WARNING, message);
        self.warnings.lock().push(warning);
    }

    /// The warnings.
    pub fn take_warnings(&self) -> Vec<SqlError> {
        std::mem::take(&mut *self.warnings.lock())
    }

    /// The changes `set_config` asked for: name, value, only for the transaction.
    pub fn take_changes(&self) -> Vec<(String, String, bool)> {
        std::mem::take(&mut *self.changes.lock())
    }
}
