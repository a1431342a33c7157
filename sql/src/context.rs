//! The context of an evaluation, besides rows and parameters: settings, clocks, roles, the catalog.
//!
//! A context is plain data that is made for each statement. `set_config` leaves its changes in it
//! for the session to apply.

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
use crate::table_statistics::StatisticsSource;

/// The context in which expressions of a statement are evaluated.
#[derive(Debug)]
pub struct EvalContext {
    /// The session's settings when the statement began.
    pub settings: Arc<Settings>,
    /// `now()`: microseconds from 2000-01-01 UTC.
    pub transaction_start: i64,
    /// `statement_timestamp()`: microseconds from 2000-01-01 UTC.
    pub statement_start: i64,
    /// The name of the current role, except inside SECURITY DEFINER functions.
    pub user: String,
    /// The owner of the SECURITY DEFINER function that runs, if one does.
    acting: RwLock<Option<Arc<str>>>,
    /// The session user's name.
    pub session_user: String,
    /// The name of the database.
    pub database: String,
    /// `clock_timestamp()`, in the unit of `transaction_start`. Without a clock, time stands still
    /// within a statement.
    pub clock: Option<fn() -> i64>,
    /// `pg_backend_pid()`
    pub backend_pid: i32,
    /// The number of this machine.
    pub machine: u32,
    /// The catalog of the database; `None` outside a database.
    pub database_catalog: Option<Arc<Catalog>>,
    /// The catalog with the uncommitted changes of the transaction.
    private: RwLock<Option<Arc<Snapshot>>>,
    /// The schema of the session's temporary objects, once it has created one.
    temporary: RwLock<Option<Temporary>>,
    /// The search path, role and temporary schema. Together with the catalog, they determine the
    /// meaning of names in a statement.
    pub names: Arc<str>,
    /// The session's cursors.
    pub cursors: Box<[CursorInfo]>,
    /// The prepared statements of the session.
    pub prepared: HashMap<Box<str>, Arc<dyn NamedStatement>>,
    /// `txid_current()`; 0 until it is requested.
    transaction_number: AtomicI64,
    /// The state of the random number generator.
    random: AtomicU64,
    /// `pg_trigger_depth()`: the nesting depth of triggers.
    pub trigger_depth: AtomicU32,
    /// The sequence values of the session.
    pub sequences: Arc<Sequences>,
    /// The pending notifications and the listened channels of the session.
    pub notifications: Arc<Notifications>,
    /// The search path, time zone and date style of a routine that runs under other settings than
    /// the session's. They determine the meaning of names and literals.
    pub within: Option<Arc<str>>,
    /// The number of requested setting changes that `settings` already includes.
    settled: usize,
    /// `lock_timeout`: the maximum time that a statement waits for a lock; `None` is unlimited.
    pub lock_timeout: Option<Duration>,
    /// The sessions of the database.
    pub sessions: Option<Arc<dyn Sessions>>,
    /// The statistics of statements (`pg_stat_statements`).
    pub statements: Option<Arc<dyn Statements>>,
    /// The statistics counters of relations and of the database.
    pub counters: Option<Arc<dyn Counters>>,
    /// The statistics of tables, for the planner.
    pub table_statistics: Option<Arc<dyn StatisticsSource>>,
    /// The server process.
    pub server: Option<Arc<dyn Server>>,
    /// The lock manager of the session.
    pub advisory: Option<Arc<dyn AdvisoryLocks>>,
    /// The snapshots that the session exports.
    pub exports: Option<Arc<dyn Exports>>,
    /// Whether evaluations run long calls or defer them.
    pub(crate) long_calls: LongCalls,
    /// The warnings to send to the client.
    warnings: Mutex<Vec<SqlError>>,
    /// The changes that `set_config` requested: name, value, and whether only for the transaction.
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

    /// Defers long calls from now on.
    #[inline(always)]
    pub(crate) fn give_away(&self) {
        self.state.store(Self::GIVEN_AWAY, Ordering::Relaxed);
    }

    /// Runs long calls in place from now on.
    #[inline(always)]
    pub(crate) fn run(&self) {
        self.state.store(Self::RUN, Ordering::Relaxed);
    }

    /// Records that evaluation met a long call.
    #[inline(always)]
    pub(crate) fn note(&self) {
        self.state.store(Self::MET, Ordering::Relaxed);
    }

    /// Returns whether long calls are deferred.
    #[inline(always)]
    pub(crate) fn are_given_away(&self) -> bool {
        self.state.load(Ordering::Relaxed) != Self::RUN
    }

    /// Returns whether a long call was met since [`LongCalls::give_away`].
    #[inline(always)]
    pub(crate) fn were_met(&self) -> bool {
        self.state.load(Ordering::Relaxed) == Self::MET
    }
}

impl EvalContext {
    /// Creates a context with the given settings; all clocks show `now`.
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
            table_statistics: None,
            server: None,
            advisory: None,
            exports: None,
            long_calls: LongCalls::default(),
            warnings: Mutex::new(Vec::new()),
            changes: Mutex::new(Vec::new()),
        }
    }

    /// Returns the name of the current role.
    pub fn current_user(&self) -> String {
        match &*self.acting.read() {
            Some(role) => role.to_string(),
            None => self.user.clone(),
        }
    }

    /// Returns the owner of the SECURITY DEFINER function that runs, if one does.
    pub fn acting(&self) -> Option<Arc<str>> {
        self.acting.read().clone()
    }

    /// Returns the schema of the session's temporary objects, if `catalog` contains it.
    pub fn temporary_in(&self, catalog: &dyn CatalogView) -> Option<String> {
        let own = self.temporary()?;
        let there = catalog.schema_oid(&own.schema) == Some(own.id);
        there.then_some(own.schema)
    }

    /// Returns the schema of the session's temporary objects, if it has created one.
    pub fn temporary(&self) -> Option<Temporary> {
        self.temporary.read().clone()
    }

    /// Sets the schema of the session's temporary objects.
    pub fn set_temporary(&self, own: Option<Temporary>) {
        *self.temporary.write() = own;
    }

    /// Returns the name of the schema for the session's temporary objects, whether it exists or
    /// not.
    pub fn temporary_schema(&self) -> String {
        temporary::schema_of(self.backend_pid)
    }

    /// Sets the acting role and returns the previous one.
    pub fn act_as(&self, role: Option<Arc<str>>) -> Option<Arc<str>> {
        std::mem::replace(&mut *self.acting.write(), role)
    }

    /// Returns the next 64 random bits (splitmix64: every state is valid).
    pub fn random_bits(&self) -> u64 {
        const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
        let state = self.random.fetch_add(STEP, Ordering::Relaxed);
        let mut z = state.wrapping_add(STEP);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns the oid of the database.
    pub fn database_oid(&self) -> u32 {
        let catalog = self.database_catalog.as_ref();
        catalog.map_or(DATABASE_OID, |catalog| catalog.database())
    }

    /// Returns the catalog with the changes of the transaction, or the newest known catalog.
    pub fn catalog(&self) -> Arc<Snapshot> {
        let newest = || self.database_catalog.as_ref().map(|of| of.newest());
        let snapshot = self.private().or_else(newest);
        snapshot.unwrap_or_default()
    }

    /// Returns the catalog with the changes of the transaction; `None` if it has made none.
    pub fn private(&self) -> Option<Arc<Snapshot>> {
        self.private.read().clone()
    }

    /// Returns whether the transaction has changed the catalog.
    pub fn has_private(&self) -> bool {
        self.private.read().is_some()
    }

    /// Sets the catalog that the transaction sees; `None` is the committed catalog.
    pub fn set_private(&self, catalog: Option<Arc<Snapshot>>) {
        *self.private.write() = catalog;
    }

    /// Returns the number of requested setting changes.
    pub fn changes_mark(&self) -> usize {
        self.changes.lock().len()
    }

    /// Discards the requested setting changes since a mark.
    pub fn changes_back_to(&self, mark: usize) {
        self.changes.lock().truncate(mark);
    }

    /// Returns the number of the transaction. Assigns one if it has none.
    pub fn transaction_number(&self) -> i64 {
        if let Some(number) = self.drawn_number() {
            return number;
        }
        let number = outcomes::draw(self.clock_now(), self.machine);
        self.transaction_number.store(number, Ordering::Relaxed);
        number
    }

    /// Returns the number of the transaction, if it has been assigned.
    pub fn drawn_number(&self) -> Option<i64> {
        let number = self.transaction_number.load(Ordering::Relaxed);
        (number != 0).then_some(number)
    }

    /// Clears the transaction number, because another transaction begins.
    pub fn forget_number(&self) {
        self.transaction_number.store(0, Ordering::Relaxed);
    }

    /// Returns the current time of the clock.
    pub fn clock_now(&self) -> i64 {
        self.clock.map_or(self.statement_start, |clock| clock())
    }

    /// Restarts the random sequence from a seed.
    pub fn seed_random(&self, seed: u64) {
        self.random.store(seed, Ordering::Relaxed);
    }

    /// Returns the value of a setting, including changes that this statement has requested.
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

    /// Checks a setting change and requests it for the end of the statement. Returns the canonical
    /// value.
    pub fn change_setting(&self, name: &str, value: &str, local: bool) -> Result<String, SqlError> {
        let mut trial = Settings::clone(&self.settings);
        trial.set(name, value)?;
        let canonical = trial.get(name).unwrap_or_default().into_owned();
        self.changes
            .lock()
            .push((name.to_owned(), canonical.clone(), local));
        Ok(canonical)
    }

    /// Returns the settings with all changes that the statement has requested.
    pub fn settings_now(&self) -> Result<Settings, SqlError> {
        let mut settings = Settings::clone(&self.settings);
        for (name, value, _) in &*self.changes.lock() {
            settings.set(name, value)?;
        }
        Ok(settings)
    }

    /// Returns the same context with other settings, for a part of the statement; [`Self::resume`]
    /// ends it.
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
            table_statistics: self.table_statistics.clone(),
            server: self.server.clone(),
            advisory: self.advisory.clone(),
            exports: self.exports.clone(),
            long_calls: LongCalls::default(),
            warnings: Mutex::default(),
            changes: Mutex::default(),
        }
    }

    /// Returns whether setting changes were requested that `settings` does not include.
    pub fn is_unsettled(&self) -> bool {
        self.changes_mark() != self.settled
    }

    /// Returns the same context with the requested changes applied; [`Self::end_setting_changes`]
    /// ends it.
    pub fn apply_setting_changes(&self) -> Result<EvalContext, SqlError> {
        let changes = self.changes.lock().clone();
        let mut settled = self.under(self.settings_now()?);
        settled.settled = changes.len();
        settled.changes = Mutex::new(changes);
        Ok(settled)
    }

    /// Continues after a part that ran in the context of [`Self::apply_setting_changes`]. The
    /// requested changes are those of `inner`: it may have added or undone some.
    pub fn end_setting_changes(&self, inner: EvalContext) {
        self.changes.lock().clear();
        self.resume(inner, &[]);
    }

    /// Continues after a part that ran under other settings. Its effects on the transaction and its
    /// requested setting changes stay. The exception are local changes of the settings named in
    /// `own`: they end with the part.
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

    /// Adds a warning, which is sent to the client when the statement ends.
    pub fn warn(&self, message: impl Into<String>) {
        let warning = SqlError::new(SqlState::WARNING, message);
        self.warnings.lock().push(warning);
    }

    /// Takes the warnings.
    pub fn take_warnings(&self) -> Vec<SqlError> {
        std::mem::take(&mut *self.warnings.lock())
    }

    /// Takes the changes that `set_config` requested: name, value, and whether only for the
    /// transaction.
    pub fn take_changes(&self) -> Vec<(String, String, bool)> {
        std::mem::take(&mut *self.changes.lock())
    }
}
