//! Distributed deadlock detection: cycles of waits in the row-lock queues of several machines,
//! found by probes along the waits (Chandy, Misra and Haas 1983).
//!
//! ```text
//! long waiter ─► walk here: the holders of its row ─► the rows that those wait for ─► …
//!      holder of another machine   CHASE  walk          to that machine: does the holder wait?
//!      holder here waits elsewhere CHASE  walk | row    to the row's primary: who holds the row?
//!      first holder is reached     DOOM   victim | row  to the machine whose queue has the victim
//! ```
//! If several transactions hold a row, the walk continues to each of them; branches to other
//! machines share its remaining messages. A walk that returns to its first holder has passed a
//! whole cycle. Each long waiter of a cycle begins a walk, and all walks choose the same victim.
//! The victim is a transaction that yields, if there is one, since its retry is invisible to the
//! client; otherwise a hash decides.
//!
//! # Invariants
//! * DEADLOCK-1: walks from each waiter of a cycle are repeated, so a cycle ends even if a message
//!   was lost.
//! * DEADLOCK-2: a victim waits for the row for which the walk saw it wait. The edges
//!   are read one after the other. But a transaction releases no intent before its end, so a cycle
//!   that no longer exists had a member that ended meanwhile.
//!
//! # Failure
//! If a machine cannot be asked, the walk ends. When a machine is lost, its transactions leave all
//! queues.

use std::collections::HashSet;

use fencepost_fabric::MachineId;
use fencepost_storage::{Addr, Timestamp};
use foldhash::fast::FixedState;

use super::Network;
use super::message::WordReader;
use super::remote_lock_wait::holder_at_peer;
use crate::clock::TICK_NS;
use crate::intent::{Holder, machine_of};
use crate::machine::Machine;
use crate::record::BadRecord;

/// Tags of the messages.
pub(super) const CHASE: u8 = 10;
pub(super) const ABORT_VICTIM: u8 = 11;

/// The wait, in ticks of the clock, after which a walk begins: 20 ms.
const STALLED_TICKS: u64 = 20_000_000 / TICK_NS;
/// Maximum number of messages of a walk: a walk into a cycle without its first holder would not
/// end.
const LONGEST: u64 = 1024;

/// A waiter that may be chosen as the victim. Here a holder's number includes its machine's number
/// in the upper half.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Victim {
    holder: Holder,
    row: Addr,
    /// The machine in whose queue it waits.
    at: MachineId,
    yields: bool,
}

impl Victim {
    /// Returns the rank: the waiter of highest rank is the victim. Ranks are distinct.
    fn rank(&self) -> (bool, u64, Holder) {
        // A fixed order of machines would be unfair.
        let hash = (self.holder ^ self.row.raw()).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        (self.yields, hash, self.holder)
    }
}

/// A walk along waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Walk {
    began: Holder,
    /// The holder that the walk has reached.
    who: Holder,
    /// The row for which this holder waits at the receiving machine; null if not known.
    row: Addr,
    /// Messages left for this walk.
    looks: u64,
    victim: Option<Victim>,
}

impl Walk {
    fn encode(&self) -> Vec<u64> {
        let mut words = vec![self.began, self.who, self.row.raw(), self.looks];
        if let Some(victim) = self.victim {
            let at = u64::from(victim.at.0) << 1 | u64::from(victim.yields);
            words.extend([victim.holder, victim.row.raw(), at]);
        }
        words
    }

    fn decode(words: &[u64]) -> Result<Walk, BadRecord> {
        let mut reader = WordReader(words);
        let (began, who) = (reader.word()?, reader.word()?);
        let (row, looks) = (Addr::from_raw(reader.word()?), reader.word()?);
        let victim = match reader.0 {
            [] => None,
            _ => {
                let (holder, row) = (reader.word()?, Addr::from_raw(reader.word()?));
                let at = reader.word()?;
                Some(Victim {
                    holder,
                    row,
                    at: machine(at >> 1)?,
                    yields: at & 1 != 0,
                })
            }
        };
        Ok(Walk {
            began,
            who,
            row,
            looks,
            victim,
        })
    }
}

fn machine(word: u64) -> Result<MachineId, BadRecord> {
    let number = u32::try_from(word);
    let number = number.map_err(|_| BadRecord("no machine has such a number"))?;
    Ok(MachineId(number))
}

impl Network {
    /// Begins a walk from each transaction that has waited for some time.
    pub fn detect_distributed_deadlocks(&self, machine: &Machine, now: Timestamp) {
        for waiter in machine.intents().stalled(now, STALLED_TICKS) {
            let began = self.for_all(waiter);
            let walk = Walk {
                began,
                who: began,
                row: Addr::NULL,
                looks: LONGEST,
                victim: None,
            };
            self.walk(machine, walk);
        }
    }

    /// Handles CHASE: continues the walk here.
    pub fn chased(&self, machine: &Machine, words: &[u64]) -> Result<(), BadRecord> {
        self.walk(machine, Walk::decode(words)?);
        Ok(())
    }

    /// Handles DOOM: ends the wait of the victim in a queue of this machine.
    pub fn abort_victim(&self, machine: &Machine, words: &[u64]) -> Result<(), BadRecord> {
        let mut reader = WordReader(words);
        let (holder, row) = (reader.word()?, Addr::from_raw(reader.word()?));
        machine
            .intents()
            .end_cycle_at(self.local_number(holder), row);
        Ok(())
    }

    fn walk(&self, machine: &Machine, walk: Walk) {
        let mut seen = HashSet::with_hasher(FixedState::default());
        let mut leaving = Vec::new();
        let mut ahead = vec![walk];
        while let Some(mut walk) = ahead.pop() {
            if !seen.insert(walk.who) {
                continue;
            }
            let Some(step) = machine.intents().step(self.local_number(walk.who)) else {
                leaving.push(walk);
                continue;
            };
            let waiter = Victim {
                holder: walk.who,
                row: step.row,
                at: self.me,
                yields: step.yields,
            };
            let chosen = walk.victim.filter(|other| other.rank() > waiter.rank());
            walk.victim = Some(chosen.unwrap_or(waiter));
            walk.row = Addr::NULL;
            for holder in step.holders {
                walk.who = self.for_all(holder);
                if walk.who == walk.began {
                    return self.break_cycle(machine, walk);
                }
                ahead.push(walk);
            }
        }
        let looks = walk.looks.saturating_sub(1);
        let each = (looks / leaving.len().max(1) as u64).max(1);
        for mut walk in leaving.into_iter().take(looks as usize) {
            walk.looks = each;
            self.walk_elsewhere(walk);
        }
    }

    /// Continues the walk at another machine, because its holder does not wait here.
    fn walk_elsewhere(&self, mut walk: Walk) {
        if walk.row != Addr::NULL {
            // The holder has got the row since the walk was sent.
            return;
        }
        let of = MachineId(machine_of(walk.who) as u32);
        let to = match of == self.me {
            false => of,
            true => {
                let number = walk.who & u64::from(u32::MAX);
                let Some(row) = self.waits_elsewhere(number) else {
                    return;
                };
                walk.row = row;
                match self.primary(row).filter(|primary| *primary != self.me) {
                    Some(primary) => primary,
                    None => return,
                }
            }
        };
        if let Some(sender) = self.sender(to) {
            // If there is no space, the walk is repeated later.
            let _ = sender.send(CHASE, &walk.encode());
        }
    }

    fn break_cycle(&self, machine: &Machine, walk: Walk) {
        let Some(victim) = walk.victim else {
            return;
        };
        if victim.at == self.me {
            let holder = self.local_number(victim.holder);
            machine.intents().end_cycle_at(holder, victim.row);
        } else if let Some(sender) = self.sender(victim.at) {
            let _ = sender.send(ABORT_VICTIM, &[victim.holder, victim.row.raw()]);
        }
    }

    /// Returns the holder's number with its machine's number, as all machines know it.
    fn for_all(&self, holder: Holder) -> Holder {
        match machine_of(holder) {
            0 => holder_at_peer(self.me, holder),
            _ => holder,
        }
    }

    /// Returns the holder's number as this machine knows it.
    fn local_number(&self, holder: Holder) -> Holder {
        match machine_of(holder) == u64::from(self.me.0) {
            true => holder & u64::from(u32::MAX),
            false => holder,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fencepost_storage::RegionId;

    #[test]
    fn walk_round_trips_and_malformed_walk_is_refused() {
        let row = Addr::new(RegionId(3), 64);
        let mut walk = Walk {
            began: 1 << 32 | 5,
            who: 2 << 32 | 6,
            row,
            looks: 7,
            victim: None,
        };
        assert_eq!(Walk::decode(&walk.encode()), Ok(walk));
        walk.victim = Some(Victim {
            holder: 3 << 32 | 8,
            row,
            at: MachineId(3),
            yields: true,
        });
        let words = walk.encode();
        assert_eq!(Walk::decode(&words), Ok(walk));
        for len in (0..words.len()).filter(|len| *len != 4) {
            assert!(Walk::decode(&words[..len]).is_err());
        }
        let mut words = words;
        words[6] = u64::MAX;
        assert!(Walk::decode(&words).is_err());
    }

    #[test]
    fn yielding_waiter_ranks_highest_and_ranks_are_distinct() {
        // Numbers of machines and regions are often the same.
        let one = |machine: u32, yields| Victim {
            holder: u64::from(machine) << 32 | 19,
            row: Addr::new(RegionId(machine), 64),
            at: MachineId(1),
            yields,
        };
        for (a, b) in (1..50).zip(2..51) {
            assert!(one(a, true).rank() > one(b, false).rank());
            assert_ne!(one(a, false).rank(), one(b, false).rank());
        }
    }
}
