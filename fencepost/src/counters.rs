//! The counters of a machine's sessions for each database, for `pg_stat_database`,
//! `pg_stat_user_tables`, `pg_stat_conflicts` and similar views; and the conflicts of statements.
//!
//! ```text
//! Session ─► its Counting ─► pages       pg_stat_… ─► the pages of all sessions here,
//!              ▲     │ ended                          and the sums of the other machines
//!              └─ free ones: the counts of an ended session stay; the next session adds to them
//! ```
//!
//! # Failure
//! The counts of a machine are lost with it. A machine that does not answer adds nothing.

use std::fmt;
use std::sync::{Arc, Weak};

use fencepost_fabric::MachineId;
use fencepost_sql::advisory::LockFuture;
use fencepost_sql::counts::{
    self, ConflictCount, ConflictKey, Counters, DATABASE, Pages, SessionCounters, Sums, Totals,
};
use fencepost_txn::Machine;
use fencepost_txn::network::call::Answer;
use foldhash::HashMap;
use parking_lot::Mutex;

use crate::databases::Databases;
use crate::services;
use crate::session::now;

mod wire;

use wire::Request;

/// The largest number of distinct conflicts; further ones are not counted.
const CONFLICTS_MAX: usize = 2000;

/// The counts of a database on a machine.
#[derive(Default)]
pub(crate) struct Tallies {
    /// The pages of all current and ended sessions.
    pages: Mutex<Vec<Arc<Pages>>>,
    /// The counters that no session uses now.
    free: Mutex<Vec<SessionCounters>>,
    since: Mutex<ResetBaseline>,
    conflicts: Mutex<HashMap<ConflictKey, ConflictCount>>,
}

/// The time of the last reset, and the counts up to then.
#[derive(Default)]
struct ResetBaseline {
    before: Sums,
    reset: Option<i64>,
}

impl Tallies {
    /// Returns the counters for a new session.
    pub fn begin(&self) -> SessionCounters {
        if let Some(counting) = self.free.lock().pop() {
            return counting;
        }
        let counting = SessionCounters::default();
        self.pages.lock().push(Arc::clone(counting.shared()));
        counting
    }

    /// Takes the counters of an ended session back for reuse.
    pub fn end(&self, counting: SessionCounters) {
        self.free.lock().push(counting);
    }

    /// Counts a conflict of a statement.
    pub fn conflict(&self, key: ConflictKey, reported: bool) {
        let mut conflicts = self.conflicts.lock();
        if conflicts.len() >= CONFLICTS_MAX && !conflicts.contains_key(&key) {
            return;
        }
        let count = conflicts.entry(key).or_default();
        count.met += 1;
        count.reported += u64::from(reported);
        count.last = now();
    }

    /// Returns the number of the statement whose commit had this timestamp, if a session here ran
    /// it.
    pub fn statement_of(&self, timestamp: u64) -> Option<i64> {
        let pages = self.pages.lock();
        pages.iter().find_map(|pages| pages.statement_of(timestamp))
    }

    /// Returns all counts of this machine since it started.
    fn sums(&self) -> Sums {
        let mut sums = Sums::default();
        for pages in &*self.pages.lock() {
            pages.add_to(&mut sums);
        }
        sums
    }

    /// Returns the counts of this machine since the last reset.
    pub fn totals(&self) -> Totals {
        let since = self.since.lock();
        let mut counts = self.sums();
        for (id, before) in &since.before {
            counts::add(&mut counts, *id, before.map(u64::wrapping_neg));
        }
        Totals {
            counts,
            reset: since.reset,
        }
    }

    fn conflicts(&self) -> Vec<(ConflictKey, ConflictCount)> {
        let conflicts = self.conflicts.lock();
        let all = conflicts.iter();
        all.map(|(key, count)| (key.clone(), *count)).collect()
    }

    fn reset(&self, relations: Option<&[u32]>) {
        let mut since = self.since.lock();
        let sums = self.sums();
        match relations {
            Some(relations) => {
                for id in relations {
                    let sum = sums.get(id).copied().unwrap_or_default();
                    since.before.insert(*id, sum);
                }
            }
            None => {
                since.before = sums;
                since.reset = Some(now());
                self.conflicts.lock().clear();
            }
        }
    }
}

/// The counters, as functions and views use them.
pub(crate) struct Handle {
    machine: Weak<Machine>,
    databases: Arc<Databases>,
}

impl Handle {
    /// Returns a handle on the counters of these databases.
    pub fn new(machine: &Arc<Machine>, databases: &Arc<Databases>) -> Arc<Handle> {
        Arc::new(Handle {
            machine: Arc::downgrade(machine),
            databases: Arc::clone(databases),
        })
    }

    /// Registers the handler for requests from other machines.
    pub fn serve(&self, machine: &Machine) {
        let databases = Arc::clone(&self.databases);
        let handler = move |_, request: Vec<u8>, answer: Answer| {
            let Some((database, request)) = Request::decode(&request) else {
                return;
            };
            let served = databases.known(database);
            let tallies = served.as_ref().map(|served| &served.tallies);
            match request {
                Request::Totals => {
                    let totals = tallies.map(Tallies::totals).unwrap_or_default();
                    answer.send(&wire::encode_totals(&totals));
                }
                Request::Conflicts => {
                    let all = tallies.map(Tallies::conflicts).unwrap_or_default();
                    answer.send(&wire::encode_conflicts(&all));
                }
                Request::Reset(relations) => {
                    if let Some(tallies) = tallies {
                        tallies.reset(relations.as_deref());
                    }
                    answer.send(&[]);
                }
            }
        };
        machine.serve(services::COUNTERS, Arc::new(handler));
    }

    /// Sends a request about a database to all other machines. Skips machines that do not
    /// answer. Returns the replies.
    async fn ask(&self, database: u32, request: &Request) -> Vec<Vec<u8>> {
        let Some(machine) = self.machine.upgrade().filter(|m| m.number() != 0) else {
            return Vec::new();
        };
        let members = machine.members().machines.into_iter();
        let others = members.filter(|member| member.id != machine.number());
        let request = request.encode(database);
        let ask = |id| machine.call(MachineId(id), services::COUNTERS, &request);
        let calls: Vec<_> = others.map(|member| ask(member.id)).collect();
        let mut answers = Vec::new();
        for call in calls {
            answers.extend(call.await);
        }
        answers
    }

    /// Returns a value from the counters of a database, or the default if it is not open here.
    fn local<T: Default>(&self, database: u32, of: impl Fn(&Tallies) -> T) -> T {
        let served = self.databases.known(database);
        served.map_or_else(T::default, |served| of(&served.tallies))
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the counts of all databases")
    }
}

impl Counters for Handle {
    fn totals(&self, database: u32) -> LockFuture<'_, Totals> {
        Box::pin(async move {
            let mut totals = self.local(database, Tallies::totals);
            for answer in self.ask(database, &Request::Totals).await {
                let Some(other) = wire::decode_totals(&answer) else {
                    continue;
                };
                for (id, cells) in other.counts {
                    counts::add(&mut totals.counts, id, cells);
                }
                totals.reset = totals.reset.max(other.reset);
            }
            totals.counts.entry(DATABASE).or_default();
            Ok(totals)
        })
    }

    fn conflicts(&self, database: u32) -> LockFuture<'_, Vec<(ConflictKey, ConflictCount)>> {
        Box::pin(async move {
            let local = self.local(database, Tallies::conflicts);
            let mut all: HashMap<ConflictKey, ConflictCount> = local.into_iter().collect();
            for answer in self.ask(database, &Request::Conflicts).await {
                for (key, other) in wire::decode_conflicts(&answer).unwrap_or_default() {
                    let count = all.entry(key).or_default();
                    count.met += other.met;
                    count.reported += other.reported;
                    count.last = count.last.max(other.last);
                }
            }
            Ok(all.into_iter().collect())
        })
    }

    fn machine(&self) -> Option<Arc<Machine>> {
        self.machine.upgrade()
    }

    fn reset(&self, database: u32, relations: Option<Vec<u32>>) -> LockFuture<'_, ()> {
        Box::pin(async move {
            self.local(database, |tallies| tallies.reset(relations.as_deref()));
            self.ask(database, &Request::Reset(relations)).await;
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use fencepost_sql::counts::{Count, Event};

    use super::*;

    #[test]
    fn counts_of_ended_sessions_stay_until_reset() {
        let tallies = Tallies::default();
        let (mut a, mut b) = (tallies.begin(), tallies.begin());
        a.of(7).add(Count::Inserted, 2);
        b.of(7).add(Count::Inserted, 3);
        b.event(Event::Commits, 1);
        tallies.end(a);
        let mut c = tallies.begin();
        c.of(7).add(Count::Inserted, 1);
        assert_eq!(tallies.pages.lock().len(), 2);
        assert_eq!(tallies.totals().of(7, Count::Inserted), 6);
        tallies.reset(Some(&[7]));
        assert_eq!(tallies.totals().of(7, Count::Inserted), 0);
        assert_eq!(tallies.totals().event(Event::Commits), 1);
        c.of(7).add(Count::Inserted, 4);
        assert_eq!(tallies.totals().of(7, Count::Inserted), 4);
        tallies.reset(None);
        assert_eq!(tallies.totals().event(Event::Commits), 0);
        assert!(tallies.totals().reset.is_some());
    }

    #[test]
    fn conflicts_are_counted_by_kind() {
        let tallies = Tallies::default();
        let key = ConflictKey {
            table: 5,
            ..ConflictKey::default()
        };
        tallies.conflict(key.clone(), false);
        tallies.conflict(key.clone(), true);
        let all = tallies.conflicts();
        assert_eq!((all.len(), all[0].1.met, all[0].1.reported), (1, 2, 1));
    }
}
