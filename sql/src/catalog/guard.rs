//! Guards: what tells a transaction that a table, a routine or a type of users' is as it was planned with.
//!
//! ```text
//! guard   [GUARD | oid, version]    one on each machine that there was when the table was made
//! ```
//! A transaction has the guard of its own machine in its read set, so a table costs no message and no one-sided
//! read however many machines there are; DDL on the table writes all of them (CAT-5).

use std::sync::Arc;

use fencepost_storage::Addr;
use fencepost_txn::{Machine, MachineId, Near, Stop, Transaction, Work};

use super::def::TableDef;
use super::user_type::TypeDef;
use super::view::ViewDef;
use crate::stop::Halt;

const GUARD: u64 = 0x4647_5244_0000_0000;

/// Raw addresses of the guards of a table, at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guards(Box<[u64]>);

impl Guards {
    /// Those at these raw addresses; `None` where there is none.
    pub fn at(guards: impl Into<Box<[u64]>>) -> Option<Guards> {
        let guards = guards.into();
        (!guards.is_empty()).then_some(Guards(guards))
    }

    /// Those of what is not stored yet.
    pub fn none() -> Guards {
        Guards([0].into())
    }

    /// Are there none, as of a view that was stored without?
    pub fn are_none(&self) -> bool {
        self.0[..] == [0]
    }

    /// Makes them for the new table `id`.
    pub fn create(tx: &mut Transaction, id: u32, version: u64) -> Work<'_, Result<Guards, Halt>> {
        Box::pin(async move {
            let machine = Arc::clone(tx.machine());
            let mut guards = Vec::new();
            match machine.number() {
                0 => guards.push(tx.alloc(2, Near::Own).await?.addr.raw()),
                _ => {
                    for member in machine.members().machines {
                        let near = Near::Machine(MachineId(member.id));
                        guards.push(tx.alloc(2, near).await?.addr.raw());
                    }
                }
            }
            let guards = Guards(guards.into());
            guards.write(tx, id, version).await?;
            Ok(guards)
        })
    }

    /// Gives the table another version.
    pub(super) async fn write(
        &self,
        tx: &mut Transaction,
        id: u32,
        version: u64,
    ) -> Result<(), Halt> {
        for guard in self.all() {
            tx.write(guard, &[GUARD | u64::from(id), version]).await?;
        }
        Ok(())
    }

    pub(super) async fn free(&self, tx: &mut Transaction) -> Result<(), Halt> {
        for guard in self.all() {
            tx.free(guard).await?;
        }
        Ok(())
    }

    /// All of them.
    pub fn all(&self) -> impl Iterator<Item = Addr> {
        self.0.iter().map(|guard| Addr::from_raw(*guard))
    }

    pub(super) fn raw(&self) -> &[u64] {
        &self.0
    }

    /// Puts this machine's into the read set; false where they are not those of `version`.
    pub(super) async fn hold(
        &self,
        tx: &mut Transaction,
        id: u32,
        version: u64,
    ) -> Result<bool, Halt> {
        let guard = self.of(tx.machine());
        guard_at(tx, (id, version), guard).await
    }

    /// That of `machine`; the first where it has none.
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

/// Puts the version of `table` that the caller planned with into the read set (CAT-5). False when
/// the table is not that version any more, or gone: plan again.
pub async fn guard_table(tx: &mut Transaction, table: &TableDef) -> Result<bool, Halt> {
    table.guards.hold(tx, table.id, table.version).await
}

/// The same of a type that the plan names.
pub async fn guard_type(tx: &mut Transaction, ty: &TypeDef) -> Result<bool, Halt> {
    let id = match ty.as_composite().map(|of| of.definition()) {
        Some(of) if of.is_of_table() => of.relation,
        _ => ty.id,
    };
    ty.guards.hold(tx, id, ty.version).await
}

/// The same of a view that the plan reads.
pub async fn guard_view(tx: &mut Transaction, view: &ViewDef) -> Result<bool, Halt> {
    view.guards.hold(tx, view.id, view.version).await
}

/// Whether all guards of `table` are those of its definition, for whoever checks.
pub async fn all_guard(tx: &mut Transaction, table: &TableDef) -> Result<bool, Halt> {
    for guard in table.guards.all() {
        if !guard_at(tx, (table.id, table.version), guard).await? {
            return Ok(false);
        }
    }
    Ok(true)
}

async fn guard_at(
    tx: &mut Transaction,
    (id, version): (u32, u64),
    guard: Addr,
) -> Result<bool, Halt> {
    let seen = tx.view(guard, None, |v| (v.word(0), v.word(1))).await;
    let (words, seen) = match seen {
        Ok(Some(seen)) => seen,
        // Dropped, maybe so long ago that its memory serves something else or nothing.
        Ok(None) | Err(Stop::Damaged) => return Ok(false),
        Err(stop) => return Err(stop.into()),
    };
    if words != (GUARD | u64::from(id), version) {
        return Ok(false);
    }
    tx.guard(seen);
    Ok(true)
}
