//! The locks of statements. They are noted in the session alone, while no session requests a mode
//! that conflicts with them.
//!
//! [`super::marks`] explains why no conflict is missed.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use fencepost_fabric::MachineId;
use fencepost_sql::advisory::{LockKey, LockScope};
use fencepost_sql::error::SqlError;
use fencepost_sql::table_locks::TableUse;

use super::Advisory;
use super::home::NotLockManager;
use super::own::Lock;
use super::session::SessionLocks;
use super::table::Owner;
use super::wire::{Request, RequestKind};
use crate::cancels::machine_of;
use crate::services;

impl SessionLocks {
    /// Takes the locks of a statement on tables of `database`, if no lock needs a wait. Returns
    /// whether the session has them all.
    #[inline]
    pub fn use_at_once(self: &Arc<Self>, database: u32, uses: &[TableUse]) -> bool {
        if uses.is_empty() {
            return true;
        }
        self.join();
        let mark = {
            let mut own = self.own.lock();
            let mark = own.mark();
            let lock = |used: &TableUse| (LockKey::Table(database, used.table), used.mode);
            own.take_all_here(uses.iter().map(lock));
            mark
        };
        self.advisory.marks.are_none() || self.are_unmarked(database, uses, mark)
    }

    /// Returns whether another session may hold a lock that conflicts with those of a statement.
    #[inline]
    pub fn waits_for(&self, database: u32, uses: &[TableUse]) -> bool {
        !self.advisory.marks.are_none() && self.are_marked(database, uses)
    }

    #[cold]
    fn are_marked(&self, database: u32, uses: &[TableUse]) -> bool {
        let marked = |used: &TableUse| {
            let key = LockKey::Table(database, used.table);
            self.advisory.marks.are_on(key, self.owner)
        };
        uses.iter().any(marked)
    }

    #[cold]
    fn are_unmarked(&self, database: u32, uses: &[TableUse], mark: usize) -> bool {
        let unmarked = !self.are_marked(database, uses);
        if !unmarked {
            self.own.lock().take_back_here(mark);
        }
        unmarked
    }

    /// Takes the locks of a statement on tables of `database`, one after the other.
    ///
    /// # Errors
    /// 40P01 if this request closes a cycle of waits; 55P03 after `lock_timeout`; 57P03 if this
    /// machine is no longer a member.
    pub async fn use_tables(
        self: &Arc<Self>,
        database: u32,
        uses: &[TableUse],
    ) -> Result<(), SqlError> {
        self.advisory.learn_marks().await?;
        for used in uses {
            let lock = (LockKey::Table(database, used.table), used.mode);
            let mark = {
                let mut own = self.own.lock();
                let mark = own.mark();
                if !own.take_here(lock) {
                    continue;
                }
                mark
            };
            if self.advisory.marks.are_on(lock.0, self.owner) {
                {
                    let mut own = self.own.lock();
                    own.take_back_here(mark);
                    if own.is_known(lock) {
                        // Another session's mark has reported this lock to the lock manager
                        // meanwhile.
                        continue;
                    }
                }
                self.lock(lock, LockScope::Transaction, true).await?;
            }
        }
        Ok(())
    }

    /// Reports the locks on `key` that only the session knows to the lock manager.
    fn hand_over(&self, key: LockKey) {
        self.asked.store(true, Ordering::Relaxed);
        let hand_over_one = || {
            let lock = self.own.lock().move_to_manager(key);
            let ask = lock.map(|(key, mode)| self.ask(RequestKind::Put, key, mode));
            (lock.is_some(), ask)
        };
        while self.advisory.tell_after(hand_over_one) {}
    }
}

impl Advisory {
    /// Sets a mark on all machines. After that the lock manager knows all statement locks on the
    /// table. Returns the number of the configuration whose members have the mark.
    pub(super) async fn mark_everywhere(
        self: &Arc<Self>,
        owner: Owner,
        lock: Lock,
    ) -> Result<u64, NotLockManager> {
        let machine = self.machine.upgrade().ok_or(NotLockManager)?;
        let configuration = machine.configuration();
        let request = Request::Mark(owner, lock).encode();
        let call = |id| machine.call(MachineId(id), services::ADVISORY, &request);
        let calls: Vec<_> = self.other_members().into_iter().map(call).collect();
        self.mark_here(owner, lock);
        for call in calls {
            call.await.map_err(|_| NotLockManager)?;
        }
        Ok(configuration)
    }

    /// Removes a mark on all machines.
    pub(super) fn unmark_everywhere(self: &Arc<Self>, owner: Owner, lock: Lock) {
        self.marks.remove(owner, lock);
        let Some(machine) = self.machine.upgrade() else {
            return;
        };
        let request = Request::Unmark(owner, lock).encode();
        for id in self.other_members() {
            let call = machine.call(MachineId(id), services::ADVISORY, &request);
            self.spawn(async move {
                let _ = call.await;
            });
        }
    }

    /// Returns the number of the current configuration; 0 if the machine has stopped.
    pub(super) fn configuration(&self) -> u64 {
        let machine = self.machine.upgrade();
        machine.map_or(0, |machine| machine.configuration())
    }

    fn other_members(&self) -> Vec<u32> {
        match self.machine.upgrade() {
            Some(machine) if machine.number() != 0 => {
                let me = machine.number();
                let members = machine.members().machines.into_iter();
                members.map(|m| m.id).filter(|id| *id != me).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Sets a mark on this machine, and reports this machine's locks on the table to the lock
    /// manager.
    pub(super) fn mark_here(&self, owner: Owner, lock: Lock) {
        self.marks.set(owner, lock);
        let sessions: Vec<Arc<SessionLocks>> = {
            let local = self.local.lock();
            let others = local.sessions.iter().filter(|(other, _)| **other != owner);
            others
                .filter_map(|(_, session)| session.upgrade())
                .collect()
        };
        for session in sessions {
            session.hand_over(lock.0);
        }
    }

    /// Does the same as [`Self::mark_here`], for a session of another machine. Returns once the
    /// lock manager has applied all that was reported.
    ///
    /// # Errors
    /// 57P03 if this machine is no longer a member.
    pub(super) async fn mark_for(
        self: &Arc<Self>,
        owner: Owner,
        lock: Lock,
    ) -> Result<(), SqlError> {
        self.mark_here(owner, lock);
        while self.wait_until_applied(owner).await.is_err() {
            self.pause().await?;
        }
        Ok(())
    }

    /// Learns the marks that were set before this machine joined.
    async fn learn_marks(self: &Arc<Self>) -> Result<(), SqlError> {
        while !self.marks.are_known() {
            match self.states().await {
                Ok(states) => {
                    for state in states {
                        if let LockKey::Table(..) = state.key
                            && state.mode.conflicts_with_statements()
                        {
                            self.mark_here(state.session, (state.key, state.mode));
                        }
                    }
                    self.marks.note_all();
                }
                Err(NotLockManager) => self.pause().await?,
            }
        }
        self.part_with_lost_marks();
        Ok(())
    }

    /// Removes the marks of machines that are no longer members.
    fn part_with_lost_marks(&self) {
        let Some(machine) = self.machine.upgrade().filter(|m| m.number() != 0) else {
            return;
        };
        let members = machine.members().machines;
        self.marks.part_with(|owner| {
            let mut members = members.iter();
            !members.any(|member| member.id == machine_of(owner))
        });
    }
}
