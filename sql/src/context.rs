//! What evaluation may know besides rows and parameters: settings, clocks, who is asking.
//!
//! Plain data, made once a statement; `set_config` leaves its changes here for the session to take.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::catalog::{Catalog, Snapshot, outcomes};
use crate::error::SqlError;
use crate::sequences::Sequences;
use crate::settings::Settings;

/// The surroundings of an evaluation.
#[derive(Debug)]
pub struct EvalContext {
    /// The session's settings when the statement began.
    pub settings: Arc<Settings>,
    /// `now()`: microseconds from 2000-01-01 UTC.
    pub transaction_start: i64,
    /// `statement_timestamp()`.
    pub statement_start: i64,
    /// The session user's name.
    pub user: String,
    /// The database's name.
    pub database: String,
    /// A monotonic clock in nanoseconds, for `clock_timestamp()`.
    pub elapsed: fn() -> u64,
    /// What `elapsed` gave when the statement began.
    pub elapsed_at_start: u64,
    /// `pg_backend_pid()`
    pub backend_pid: i32,
    /// The machine's number.
    pub machine: u32,
    /// The catalog of the database, where there is one.
    pub database_catalog: Option<Arc<Catalog>>,
    /// The catalog as the transaction has changed it.
    pub private: Option<Arc<Snapshot>>,
    /// `txid_current()`, 0 until it is asked for.
    transaction_number: AtomicI64,
    /// The state of `random()`.
    random: AtomicU64,
    /// The sequences.
    pub sequences: Sequences,
    /// What `set_config` asked for: name, value, only for the transaction.
    changes: Mutex<Vec<(String, String, bool)>>,
}

impl EvalContext {
    /// A context with the given settings; the clocks stand at `now`.
    pub fn new(settings: Arc<Settings>, now: i64, random_seed: u64) -> EvalContext {
        EvalContext {
            settings,
            transaction_start: now,
            statement_start: now,
            user: "postgres".to_owned(),
            database: "postgres".to_owned(),
            elapsed: || 0,
            elapsed_at_start: 0,
            backend_pid: 0,
            machine: 0,
            database_catalog: None,
            private: None,
            transaction_number: AtomicI64::new(0),
            random: AtomicU64::new(random_seed),
            sequences: Sequences::default(),
            changes: Mutex::new(Vec::new()),
        }
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

    /// The catalog as the transaction has changed it, or else the newest that is known.
    pub fn catalog(&self) -> Arc<Snapshot> {
        let newest = || self.database_catalog.as_ref().map(|of| of.newest());
        let snapshot = self.private.clone().or_else(newest);
        snapshot.unwrap_or_default()
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
        let passed = (self.elapsed)().saturating_sub(self.elapsed_at_start);
        let passed_us = i64::try_from(passed / 1000).unwrap_or(i64::MAX);
        self.statement_start.saturating_add(passed_us)
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

    /// The changes `set_config` asked for: name, value, only for the transaction.
    pub fn take_changes(&self) -> Vec<(String, String, bool)> {
        std::mem::take(&mut *self.changes.lock())
    }
}
