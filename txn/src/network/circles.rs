//! Circles of waits for intents that go over the lines of several machines, by probes along the waits (Chandy, Misra and
//! Haas 1983).
//!
//! ```text
//! who has waited for some time ─► walk here: its row's holders ─► what those wait for ─► …
//!      a holder of another machine          CHASE  it          to that machine: does it wait elsewhere?
//!      one of this machine waits elsewhere  CHASE  it | row    to the row's primary: whom does it wait for there?
//!      whom it began with                   DOOM   victim | row    to where the victim stands in line
//! ```
//! Where several have a row a walk goes on to each of them, those that leave the machine with a part of its looks each.
//! A walk that comes back to whom it began with has passed all of a circle. Everybody in it who waits long begins one, and
//! all of them choose the same victim: one that yields, if there is one, since it is run again unseen; else by a hash.
//!
//! # Invariants
//! * CIRCLE-1: whoever is in a circle is walked from again and again, so a circle ends, also where a message was lost.
//! * CIRCLE-2: who is doomed waits for the row that it was seen to wait for. Edges are looked at one after the other; but a
//!   transaction gives back nothing before its end, so a circle that was none any more had one that ended meanwhile.
//!
//! # Failure
//! Where a machine cannot be asked a walk ends. Its transactions leave all lines when it is lost.

use std::collections::HashSet;

use fencepost_fabric::MachineId;
use fencepost_storage::{Addr, Timestamp};
use foldhash::fast::FixedState;

use super::Network;
use super::message::Reader;
use super::turns::holder_at_peer;
use crate::clock::TICK_NS;
use crate::intent::{Holder, machine_of};
use crate::machine::Machine;
use crate::record::BadRecord;

/// Tags of the messages.
pub(super) const CHASE: u8 = 10;
pub(super) const DOOM: u8 = 11;

/// How long somebody waits before it is looked at, in ticks of the clock: 20 ms.
const PATIENCE: u64 = 20_000_000 / TICK_NS;
/// Messages that a walk is, at most: one into a circle that it did not begin in would never end.
const LONGEST: u64 = 1024;

/// A waiter, who may be chosen to end the circle. Holders have their machine's number above their own here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Victim {
    holder: Holder,
    row: Addr,
    /// Where it stands in line.
    at: MachineId,
    yields: bool,
}

impl Victim {
    /// Who has the most in a circle ends it; no two have the same.
    fn rank(&self) -> (bool, u64, Holder) {
        // Always the same machine's would be unfair.
        let hash = (self.holder ^ self.row.raw()).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        (self.yields, hash, self.holder)
    }
}

/// A walk along waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Walk {
    began: Holder,
    /// Whom it has come to.
    who: Holder,
    /// The row that it is known to wait for where the walk goes; null where that is not known.
    row: Addr,
    /// Messages that it may be still.
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
        let mut reader = Reader(words);
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
    /// Walks from those who have waited for some time.
    pub fn look_for_circles(&self, machine: &Machine, now: Timestamp) {
        for waiter in machine.intents().stalled(now, PATIENCE) {
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

    /// CHASE: the walk goes on here.
    pub fn chased(&self, machine: &Machine, words: &[u64]) -> Result<(), BadRecord> {
        self.walk(machine, Walk::decode(words)?);
        Ok(())
    }

    /// DOOM: the victim of a circle stands in line here.
    pub fn doomed(&self, machine: &Machine, words: &[u64]) -> Result<(), BadRecord> {
        let mut reader = Reader(words);
        let (holder, row) = (reader.word()?, Addr::from_raw(reader.word()?));
        machine.intents().doom(self.for_here(holder), row);
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
            let Some(step) = machine.intents().step(self.for_here(walk.who)) else {
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
                    return self.end_circle(machine, walk);
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

    /// Whom the walk has come to does not wait here.
    fn walk_elsewhere(&self, mut walk: Walk) {
        if walk.row != Addr::NULL {
            // Its turn has come since it was asked.
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
        if let Some(link) = self.link(to) {
            // Where there is no room it is walked again later.
            let _ = link.send(CHASE, &walk.encode());
        }
    }

    fn end_circle(&self, machine: &Machine, walk: Walk) {
        let Some(victim) = walk.victim else {
            return;
        };
        if victim.at == self.me {
            let holder = self.for_here(victim.holder);
            machine.intents().doom(holder, victim.row);
        } else if let Some(link) = self.link(victim.at) {
            let _ = link.send(DOOM, &[victim.holder, victim.row.raw()]);
        }
    }

    /// A holder as all machines know it.
    fn for_all(&self, holder: Holder) -> Holder {
        match machine_of(holder) {
            0 => holder_at_peer(self.me, holder),
            _ => holder,
        }
    }

    /// A holder as this machine knows it.
    fn for_here(&self, holder: Holder) -> Holder {
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
    fn walks_are_told_whole_and_what_is_no_walk_is_refused() {
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
    fn whoever_yields_ends_the_circle_and_no_two_are_equal() {
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
