//! Guards: objects by which a transaction detects that a table, a routine or a user-defined type
//! has changed since planning.
//!
//! ```text
//! guard   [GUARD | oid, version]    one on each machine that existed when the table was created
//! ```
//! A transaction has the guard of its own machine in its read set. So a table costs no message and
//! no one-sided read, however many machines there are. DDL on the table writes all guards (CAT-5).
//!
//! If a statement only reads a table, the guard must be valid while the statement runs
//! ([`GuardScope::Statement`]). Below serializable the commit does not validate it. So DDL that
//! does not wait for readers, such as CREATE INDEX, causes no conflict.

use std::sync::Arc;

use fencepost_storage::Addr;
use fencepost_txn::{
    Isolation, Machine, MachineId, ObjectLocation, ReadEntry, Stop, Transaction, View, Work,
};

use super::def::TableDef;
use super::user_type::TypeDef;
use super::view::ViewDef;
use crate::stop::StatementStop;

/// The time for which a guard must stay valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GuardScope {
    /// Up to the commit, at every isolation level: the statement changes rows.
    Commit,
    /// While the statement runs: the commit validates it at serializable only.
    Statement,
}

impl GuardScope {
    /// Reads a catalog object in its newest version. At repeatable read the snapshot's version is
    /// read instead, if objects read earlier have changed since.
    pub(super) async fn view<T: Send>(
        self,
        tx: &mut Transaction,
        addr: Addr,
        words: impl Fn(&View<'_>) -> T + Send + Sync,
    ) -> Result<Option<(T, ReadEntry)>, Stop> {
        match tx.view(addr, None, &words).await {
            Err(Stop::Retry(_)) if self.keeps_snapshot(tx) => {
                Box::pin(tx.seen_at(None).view(addr, None, words)).await
            }
            seen => seen,
        }
    }

    fn keeps_snapshot(self, tx: &Transaction) -> bool {
        self == GuardScope::Statement && tx.isolation() == Isolation::RepeatableRead
    }

    /// Adds the version that was read to the read set.
    #[inline]
    pub(super) fn guard(self, tx: &mut Transaction, seen: ReadEntry) {
        if self == GuardScope::Commit || tx.isolation() == Isolation::Serializable {
            tx.guard(seen);
        } else {
            tx.seen_at(None).guard(seen);
        }
    }
}

const GUARD: u64 = 0x4647_5244_0000_0000;

/// The raw addresses of the guards of a table, at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guards(Box<[u64]>);

impl Guards {
    /// Returns the guards at these raw addresses; `None` for an empty list.
    pub fn at(guards: impl Into<Box<[u64]>>) -> Option<Guards> {
        let guards = guards.into();
        (!guards.is_empty()).then_some(Guards(guards))
    }

    /// Returns the placeholder for a definition that is not stored yet.
    pub fn none() -> Guards {
        Guards([0].into())
    }

    /// Returns whether there are no guards, as for a view stored without them.
    pub fn are_none(&self) -> bool {
        self.0[..] == [0]
    }

    /// Creates the guards of the new table `id`.
    pub fn create(
        tx: &mut Transaction,
        id: u32,
        version: u64,
    ) -> Work<'_, Result<Guards, StatementStop>> {
        Box::pin(async move {
            let machine = Arc::clone(tx.machine());
            let mut guards = Vec::new();
            match machine.number() {
                0 => guards.push(tx.alloc(2, ObjectLocation::Own).await?.addr.raw()),
                _ => {
                    for member in machine.members().machines {
                        let near = ObjectLocation::Machine(MachineId(member.id));
                        guards.push(tx.alloc(2, near).await?.addr.raw());
                    }
                }
            }
            let guards = Guards(guards.into());
            guards.write(tx, id, version).await?;
            Ok(guards)
        })
    }

    /// Writes a new version of the table to all guards.
    pub(super) async fn write(
        &self,
        tx: &mut Transaction,
        id: u32,
        version: u64,
    ) -> Result<(), StatementStop> {
        for guard in self.all() {
            tx.write(guard, &[GUARD | u64::from(id), version]).await?;
        }
        Ok(())
    }

    pub(super) async fn free(&self, tx: &mut Transaction) -> Result<(), StatementStop> {
        for guard in self.all() {
            tx.free(guard).await?;
        }
        Ok(())
    }

    /// Returns the addresses of all guards.
    pub fn all(&self) -> impl Iterator<Item = Addr> {
        self.0.iter().map(|guard| Addr::from_raw(*guard))
    }

    pub(super) fn raw(&self) -> &[u64] {
        &self.0
    }

    /// Adds this machine's guard to the read set. Returns false if its version is not `version`.
    pub(super) async fn hold(
        &self,
        tx: &mut Transaction,
        id: u32,
        version: u64,
        hold: GuardScope,
    ) -> Result<bool, StatementStop> {
        let guard = self.of(tx.machine());
        guard_at(tx, (id, version), guard, hold).await
    }

    /// Returns the guard whose primary is `machine`; the first guard if there is none.
    #[inline]
    fn of(&self, machine: &Machine) -> Addr {
        let own = |guard: &Addr| {
            let primary = machine.primary_of(*guard);
            primary.is_some_and(|primary| primary.0 == machine.number())
        };
        match &self.0[..] {
            [only] => Addr::from_raw(*only),
            all => self.all().find(own).unwrap_or(Addr::from_raw(all[0])),
        }
    }
}

/// Adds the version of `table` with which the caller planned to the read set (CAT-5). Returns false
/// if the table was changed or dropped: the caller must plan again.
pub async fn guard_table(
    tx: &mut Transaction,
    table: &TableDef,
    hold: GuardScope,
) -> Result<bool, StatementStop> {
    table.guards.hold(tx, table.id, table.version, hold).await
}

/// Does the same for a type that the plan refers to.
pub async fn guard_type(
    tx: &mut Transaction,
    ty: &TypeDef,
    hold: GuardScope,
) -> Result<bool, StatementStop> {
    let id = match ty.as_composite().map(|of| of.definition()) {
        Some(of) if of.is_of_table() => of.relation,
        _ => ty.id,
    };
    ty.guards.hold(tx, id, ty.version, hold).await
}

/// Does the same for a view that the plan reads.
pub async fn guard_view(
    tx: &mut Transaction,
    view: &ViewDef,
    hold: GuardScope,
) -> Result<bool, StatementStop> {
    view.guards.hold(tx, view.id, view.version, hold).await
}

/// Returns whether all guards of `table` agree with its definition; for consistency checks.
pub async fn all_guard(tx: &mut Transaction, table: &TableDef) -> Result<bool, StatementStop> {
    for guard in table.guards.all() {
        if !guard_at(tx, (table.id, table.version), guard, GuardScope::Commit).await? {
            return Ok(false);
        }
    }
    Ok(true)
}

async fn guard_at(
    tx: &mut Transaction,
    (id, version): (u32, u64),
    guard: Addr,
    hold: GuardScope,
) -> Result<bool, StatementStop> {
    let words = |view: &View<'_>| (view.word(0), view.word(1));
    let seen = hold.view(tx, guard, words).await;
    let (words, seen) = match seen {
        Ok(Some(seen)) => seen,
        // The table was dropped; the memory of its guard may have been freed or reused since.
        Ok(None) | Err(Stop::Damaged) => return Ok(false),
        Err(stop) => return Err(stop.into()),
    };
    if words != (GUARD | u64::from(id), version) {
        return Ok(false);
    }
    hold.guard(tx, seen);
    Ok(true)
}
