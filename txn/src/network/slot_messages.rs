//! Messages between the machine that reserves slots ([`super::slot_reservations`]) and the primary
//! that leases them ([`super::slot_leases`]).

use fencepost_storage::Addr;
use fencepost_storage::classes::Class;
use fencepost_storage::header::Header;

use super::message::{Slot, WordReader};
use crate::record::BadRecord;

/// Tags of the messages.
pub(super) const RESERVE: u8 = 6;
pub(super) const RESERVED: u8 = 7;

/// Slots requested at once, and their bytes: most allocations cost no message.
pub(super) const AT_ONCE: usize = 16;
const BYTES_AT_ONCE: usize = 16 << 10;
/// Slots of one RESERVED.
const SLOTS_AT_ONCE: usize = 256;
/// Words of a slot in a RESERVED.
pub(super) const SLOT_WORDS: usize = 3;

/// A slot of a peer that contains no object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReservedSlot {
    pub addr: Addr,
    /// Its header, unlocked and not allocated.
    pub base: Header,
    /// The slot, with the incarnation of the next object.
    pub slot: Slot,
    /// When it left the stock, as [`super::slot_stocks::SlotReservations::since`] counts.
    pub since: u64,
}

/// A request for slots of a primary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SlotRequest {
    pub class: Class,
    pub count: usize,
    /// All of them, contiguous; otherwise as many as are free.
    pub run: bool,
    /// The address that they should be near, if not null.
    pub near: Addr,
}

impl SlotRequest {
    /// Returns the request to send when one slot is needed.
    pub fn batch(class: Class, near: Addr) -> SlotRequest {
        let fit = BYTES_AT_ONCE / (class.slot_words() * 8);
        let (count, run) = (fit.clamp(1, AT_ONCE), false);
        SlotRequest {
            class,
            count,
            run,
            near,
        }
    }

    pub(super) fn words(self, ticket: u64) -> [u64; 3] {
        let what = (u64::from(self.class.0) << 32) | (u64::from(self.run) << 31);
        [ticket, what | self.count as u64, self.near.raw()]
    }

    pub(super) fn decode(words: &[u64]) -> Result<(u64, SlotRequest), BadRecord> {
        let mut reader = WordReader(words);
        let (ticket, what) = (reader.word()?, reader.word()?);
        let near = Addr::from_raw(reader.word()?);
        let class = u8::try_from(what >> 32).map(Class);
        let class = class.map_err(|_| BadRecord("unknown size class"))?;
        let (run, count) = (what >> 31 & 1 == 1, (what & 0x7FFF_FFFF) as usize);
        let most = if run { class.slots() } else { AT_ONCE };
        if count == 0 || count > most {
            return Err(BadRecord("more slots than anybody asks for"));
        }
        let wanted = SlotRequest {
            class,
            count,
            run,
            near,
        };
        Ok((ticket, wanted))
    }
}

/// The continuation of a RESERVED.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub(super) enum Continuation {
    Nothing = 0,
    More = 1,
    /// No more; a machine that a new region needs is about to be replaced, so memory is not
    /// exhausted.
    AskAgain = 2,
}

impl Continuation {
    pub(super) fn decode(word: u64) -> Result<Continuation, BadRecord> {
        let all = [
            Continuation::Nothing,
            Continuation::More,
            Continuation::AskAgain,
        ];
        let known = all.into_iter().find(|follows| *follows as u64 == word);
        known.ok_or(BadRecord("what follows a RESERVED is unknown"))
    }
}

/// Passes to `send` the answer to a RESERVE that is to be repeated later.
pub(super) fn answer_later(ticket: u64, mut send: impl FnMut(&[u64])) {
    send(&[ticket, Continuation::AskAgain as u64]);
}

/// Passes the answer to a RESERVE to `send`.
pub(super) fn answer(ticket: u64, slots: &[ReservedSlot], mut send: impl FnMut(&[u64])) {
    let mut left = slots.chunks(SLOTS_AT_ONCE).peekable();
    loop {
        let part = left.next().unwrap_or_default();
        let follows = match left.peek() {
            Some(_) => Continuation::More,
            None => Continuation::Nothing,
        };
        let mut words = vec![ticket, follows as u64];
        let slot = |slot: &ReservedSlot| [slot.addr.raw(), slot.base.0, slot.slot.word()];
        words.extend(part.iter().flat_map(slot));
        send(&words);
        if follows == Continuation::Nothing {
            return;
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Returns different slots.
    pub fn slots(count: usize) -> Vec<ReservedSlot> {
        let slot = |at: usize| ReservedSlot {
            addr: Addr::from_raw(64 * at as u64),
            base: Header(at as u64),
            slot: Slot::from_word(at as u64),
            since: 0,
        };
        (0..count).map(slot).collect()
    }

    #[test]
    fn slot_request_round_trips() {
        let batch = SlotRequest::batch(Class(3), Addr::from_raw(77));
        assert_eq!(batch.count, AT_ONCE);
        let large = SlotRequest::batch(Class(255), Addr::NULL);
        assert_eq!(large.count, 1);
        let run = SlotRequest {
            count: Class(3).slots(),
            run: true,
            ..batch
        };
        for wanted in [batch, large, run] {
            assert_eq!(SlotRequest::decode(&wanted.words(9)), Ok((9, wanted)));
        }
        let many = SlotRequest {
            count: AT_ONCE + 1,
            ..batch
        };
        assert!(SlotRequest::decode(&many.words(9)).is_err());
        let none = SlotRequest { count: 0, ..run };
        assert!(SlotRequest::decode(&none.words(9)).is_err());
    }

    #[test]
    fn many_slots_come_in_parts_and_none_come_as_an_answer() {
        for (count, parts) in [(0, 1), (1, 1), (SLOTS_AT_ONCE, 1), (SLOTS_AT_ONCE + 1, 2)] {
            let mut sent = Vec::new();
            answer(5, &slots(count), |words| sent.push(words.to_vec()));
            let follows = sent.iter().map(|words| Continuation::decode(words[1]));
            let mut expected = vec![Ok(Continuation::More); parts];
            expected[parts - 1] = Ok(Continuation::Nothing);
            assert_eq!(follows.collect::<Vec<_>>(), expected);
            let words: usize = sent.iter().map(|words| words.len() - 2).sum();
            assert_eq!(words, count * SLOT_WORDS);
        }
    }

    proptest! {
        #[test]
        fn garbage_is_refused_and_never_panics(words in prop::collection::vec(any::<u64>(), 0..8)) {
            let _ = SlotRequest::decode(&words);
        }
    }
}
