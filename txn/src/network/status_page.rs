//! Status pages: the state that each machine publishes for its peers.
//!
//! ```text
//! page | timestamp below which none of its transactions reads | changes of its indexes' shape
//!      | releases of blocks | clock uncertainty | peers that it calls no more 4 |
//! ```
//! Where peers' memory is mapped, their pages are read in place, and a machine publishes its oldest
//! read timestamp at once. Otherwise copies of all pages are read together, periodically:
//!
//! ```text
//! mine = oldest read timestamp here ─► read all pages ─► all are there: a block was released?
//!        ─► forget size classes ─► copies ─► publish `mine` (FAR-1)
//! ```
//! A copy may be old but its statements remain true, except that of the clock.

use std::sync::atomic::Ordering;

use fencepost_fabric::{Completion, MachineId, Place, SegmentId};
use fencepost_storage::Timestamp;

use super::traffic::PostKind;
use super::{Network, Peer};
use crate::clock::{Clock, ClockState};

/// The word of the timestamp below which no transaction of the machine reads any more.
const OLDEST: usize = 0;
/// The word that counts changes of the shape of indexes.
const RESHAPED: usize = 1;
/// The word that counts releases of blocks, which serve other size classes later.
const RELEASED: usize = 2;
/// The word of the clock uncertainty in nanoseconds, plus one; 0 if not published.
const CLOCK: usize = 3;
/// The first word of the bits of machines, by number, to which calls have broken off. A machine
/// that meets a new peer clears the bit, which may be that of an earlier peer.
const GIVEN_UP: usize = 4;
/// Words of a status page.
pub(super) const WORDS: usize = 8;
/// Number of machines that have bits of their own.
const GIVEN_UP_BITS: u32 = 64 * (WORDS - GIVEN_UP) as u32;

/// The segment of the status pages.
pub(super) const STATUS_PAGE: SegmentId = SegmentId::new(SegmentId::BOARD, 0, 0);

/// Minimum nanoseconds between the beginnings of two gatherings.
const EVERY_NS: u64 = 200_000;

/// When the pages may be read again, by this machine's own clock, and the reads in flight.
#[derive(Default)]
pub(super) struct PageReads {
    next: u64,
    under_way: Option<PageRead>,
}

/// A gathering in progress: one read of each status page.
struct PageRead {
    /// The oldest read timestamp of this machine when the reads began.
    mine: Timestamp,
    reads: Vec<Option<Completion<Box<[u64]>>>>,
    status_pages: Vec<Option<Box<[u64]>>>,
}

/// Returns the word and the bit of a machine.
fn given_up(machine: MachineId) -> (usize, u64) {
    let place = machine.0 % GIVEN_UP_BITS;
    (GIVEN_UP + place as usize / 64, 1 << (place % 64))
}

impl Network {
    /// Returns a word of a peer's status page; 0 if the peer is not there yet.
    fn page_word(&self, peer: &Peer, word: usize) -> u64 {
        let status_page = peer.board.get().or_else(|| {
            let board = self.fabric.map(peer.id, STATUS_PAGE)?;
            Some(peer.board.get_or_init(|| board))
        });
        let word = status_page.and_then(|board| board.words().get(word));
        word.map_or(0, |word| word.load(Ordering::SeqCst))
    }

    /// Counts a change of the shape of an index.
    pub fn reshape(&self) {
        self.board.words()[RESHAPED].fetch_add(1, Ordering::SeqCst);
    }

    /// Returns the number of such changes on all machines; `None` if they cannot be read without
    /// waiting.
    pub fn reshaped(&self) -> Option<u64> {
        if self.far {
            return None;
        }
        let mine = self.board.words()[RESHAPED].load(Ordering::SeqCst);
        let theirs = self.peers.iter().map(|peer| self.page_word(peer, RESHAPED));
        Some(mine + theirs.sum::<u64>())
    }

    /// Counts the release of a block, whose size class must not be used any more (FAR-1).
    pub fn release(&self) {
        self.board.words()[RELEASED].fetch_add(1, Ordering::SeqCst);
    }

    /// Publishes that this machine neither calls `peer` any more nor answers it.
    pub(super) fn say_given_up(&self, peer: MachineId) {
        let (word, bit) = given_up(peer);
        self.board.words()[word].fetch_or(bit, Ordering::SeqCst);
    }

    /// Withdraws the statement of [`Self::say_given_up`] about `peer`.
    pub(super) fn expect_calls(&self, peer: MachineId) {
        let (word, bit) = given_up(peer);
        self.board.words()[word].fetch_and(!bit, Ordering::SeqCst);
    }

    /// Returns whether `peer` has published this about this machine.
    pub(super) fn has_given_up(&self, peer: &Peer) -> bool {
        let (word, bit) = given_up(self.me());
        self.page_word(peer, word) & bit != 0
    }

    /// Publishes the uncertainty of this machine's clock.
    pub(super) fn say_clock(&self, state: ClockState) {
        let said = state.uncertainty_ns.map_or(0, |ns| ns.saturating_add(1));
        let word = &self.board.words()[CLOCK];
        // Peers read the page in place: do not dirty the cache line without need.
        if word.load(Ordering::Relaxed) != said {
            word.store(said, Ordering::Relaxed);
        }
    }

    /// Returns the uncertainty of a peer's clock in nanoseconds, as last published.
    pub(super) fn uncertainty_of(&self, peer: &Peer) -> Option<u64> {
        self.page_word(peer, CLOCK).checked_sub(1)
    }

    /// Returns the cluster-wide low-water mark: the smallest read timestamp in use on any machine,
    /// given this machine's.
    pub fn oldest(&self, mine: Timestamp) -> Timestamp {
        if !self.far {
            self.say_oldest(mine);
        }
        let least = self
            .member_peers()
            .map(|peer| self.page_word(peer, OLDEST))
            .min();
        mine.min(Timestamp::from_raw(least.unwrap_or(u64::MAX)))
    }

    fn say_oldest(&self, mine: Timestamp) {
        self.board.words()[OLDEST].fetch_max(mine.raw(), Ordering::SeqCst);
    }

    /// Gathers copies of the status pages that are not mapped, one step at each call, and at most
    /// every [`EVERY_NS`]. No transaction here reads below `mine`.
    pub(super) fn gather_status_pages(&self, clock: &Clock, mine: Timestamp) {
        if !self.far {
            return;
        }
        let Some(mut gathering) = self.gathering.try_lock() else {
            return;
        };
        let PageReads { next, under_way } = &mut *gathering;
        let Some(gathering) = under_way.as_mut() else {
            // The time of a driven machine may advance only through its actions.
            let now = clock.own_ns();
            if self.driven || now >= *next {
                *next = now + EVERY_NS;
                *under_way = Some(self.request_status_pages(mine));
            }
            return;
        };
        for (read, board) in gathering.reads.iter_mut().zip(&mut gathering.status_pages) {
            if let Some(answer) = read.as_mut().and_then(Completion::take) {
                *read = None;
                *board = answer.ok();
            }
        }
        if gathering.reads.iter().all(Option::is_none)
            && let Some(done) = under_way.take()
        {
            self.take_status_pages(&done);
        }
    }

    fn request_status_pages(&self, mine: Timestamp) -> PageRead {
        let post = |peer: &Peer| {
            let at = Place {
                machine: peer.id,
                segment: STATUS_PAGE,
                word: 0,
            };
            self.counting.count(PostKind::Board);
            self.fabric.read(at, WORDS)
        };
        PageRead {
            mine,
            reads: self
                .peers
                .iter()
                .map(|peer| self.is_member(peer).then(|| post(peer)))
                .collect(),
            status_pages: self.peers.iter().map(|_| None).collect(),
        }
    }

    fn take_status_pages(&self, gathered: &PageRead) {
        let there = self.peers.iter().zip(&gathered.status_pages);
        let there = there.filter_map(|(peer, board)| Some((peer, board.as_deref()?)));
        let released =
            |(peer, board): (&Peer, &[u64])| board[RELEASED] != self.page_word(peer, RELEASED);
        if there.clone().any(released) {
            self.blocks.forget();
        }
        for (peer, board) in there {
            let copy = peer.board.get().map_or(&[][..], |copy| copy.words());
            for (at, (word, value)) in copy.iter().zip(board).enumerate() {
                match at {
                    CLOCK | GIVEN_UP.. => word.store(*value, Ordering::Relaxed),
                    _ => drop(word.fetch_max(*value, Ordering::SeqCst)),
                }
            }
        }
        // A machine whose page could not be read may have released blocks.
        let mut all = self.peers.iter().zip(&gathered.status_pages);
        if all.all(|(peer, board)| board.is_some() || !self.is_member(peer)) {
            self.say_oldest(gathered.mine);
        }
    }
}
