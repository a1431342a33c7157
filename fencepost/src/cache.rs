//! The plan cache: plans by the text of their statements, shared by all sessions.
//!
//! The key is the text with its literals lifted, the declared parameter types, and the settings
//! that a literal's meaning depends on. A plan whose table has changed is detected when it runs,
//! and replaced.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use foldhash::{HashMap, HashMapExt};
use parking_lot::RwLock;

use crate::prepared::PlannedStatement;

/// The largest number of plans in the cache.
const PLANS_MAX: usize = 2048;
/// The longest text, in bytes, whose plan is cached.
const TEXT_BYTES_MAX: usize = 16 * 1024;

/// The plans and when they were last used.
#[derive(Default)]
pub(crate) struct PlanCache {
    plans: RwLock<HashMap<Box<str>, Entry>>,
    /// Counts lookups that found a plan, and plans that were put in.
    clock: AtomicU64,
    misses: AtomicU64,
    puts: AtomicU64,
    /// The newest version of the catalog that a statement was planned with.
    version: AtomicU64,
}

/// Usage counters of a plan cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CacheCounts {
    /// Lookups that found a plan.
    pub hits: u64,
    /// Lookups that found none.
    pub misses: u64,
    /// Plans in the cache.
    pub plans: usize,
}

struct Entry {
    plan: Arc<PlannedStatement>,
    used: AtomicU64,
}

impl PlanCache {
    /// Returns the plan under `key`.
    pub fn get(&self, key: &str) -> Option<Arc<PlannedStatement>> {
        let plans = self.plans.read();
        let Some(entry) = plans.get(key) else {
            self.misses.fetch_add(1, Ordering::Relaxed);
            return None;
        };
        let now = self.clock.fetch_add(1, Ordering::Relaxed);
        entry.used.store(now, Ordering::Relaxed);
        Some(Arc::clone(&entry.plan))
    }

    /// Stores `plan` under `key`. If the cache is full, the least recently used plans are removed.
    pub fn put(&self, key: &str, plan: &Arc<PlannedStatement>) {
        if key.len() > TEXT_BYTES_MAX {
            return;
        }
        let now = self.clock.fetch_add(1, Ordering::Relaxed);
        self.puts.fetch_add(1, Ordering::Relaxed);
        let mut plans = self.plans.write();
        if plans.len() >= PLANS_MAX && !plans.contains_key(key) {
            let mut ages: Vec<u64> = ages(&plans);
            let middle = ages.len() / 2;
            let (_, median, _) = ages.select_nth_unstable(middle);
            let median = *median;
            plans.retain(|_, e| e.used.load(Ordering::Relaxed) >= median);
        }
        plans.insert(
            key.into(),
            Entry {
                plan: Arc::clone(plan),
                used: AtomicU64::new(now),
            },
        );
    }

    /// Clears the cache if `version` of the catalog is newer than that of earlier plans. A name in
    /// the text of a plan may resolve to another schema by now.
    pub fn follow(&self, version: u64) {
        let before = self.version.fetch_max(version, Ordering::Relaxed);
        if before != 0 && before < version {
            self.clear();
        }
    }

    /// Returns the usage counters.
    pub fn counts(&self) -> CacheCounts {
        let puts = self.puts.load(Ordering::Relaxed);
        CacheCounts {
            hits: self.clock.load(Ordering::Relaxed).saturating_sub(puts),
            misses: self.misses.load(Ordering::Relaxed),
            plans: self.plans.read().len(),
        }
    }

    /// Removes every plan.
    pub fn clear(&self) {
        *self.plans.write() = HashMap::new();
    }
}

fn ages(plans: &HashMap<Box<str>, Entry>) -> Vec<u64> {
    plans
        .values()
        .map(|e| e.used.load(Ordering::Relaxed))
        .collect()
}
