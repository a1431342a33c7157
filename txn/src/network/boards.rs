//! What each machine says about itself to whoever reads it.
//!
//! ```text
//! board | what none of its transactions reads below any more | changes of the shape of its indexes
//!       | releases of blocks | how well it knows the time | peers that it calls no more 4 |
//! ```
//! Where peers' memory is mapped, their boards are read in place, and a machine says at once how far its
//! readers are. Otherwise copies of the boards are brought now and then, all at once:
//!
//! ```text
//! mine = what nobody here reads below ─► read all boards ─► all are there: a block was released?
//!        ─► forget size classes ─► copies ─► say `mine` (FAR-1)
//! ```
//! What a copy says is true for ever, and late; but for the clock, of which it says how it was.

use std::sync::atomic::Ordering;

use fencepost_fabric::{Completion, MachineId, Place, SegmentId};
use fencepost_storage::Timestamp;

use super::traffic::Posted;
use super::{Network, Peer};
use crate::clock::{Clock, ClockState};

/// What nobody on the machine reads below any more.
const OLDEST: usize = 0;
/// Changes of the shape of indexes.
const RESHAPED: usize = 1;
/// Times that blocks were released, to serve other size classes later.
const RELEASED: usize = 2;
/// Nanoseconds by which its clock is uncertain, and one; 0 where it has not said.
const CLOCK: usize = 3;
/// From here on a bit for each machine, by its number, to which the line of calls has broken. Who meets a machine whose
/// bit was that of an earlier one clears it.
const GIVEN_UP: usize = 4;
/// Words of a board.
pub(super) const WORDS: usize = 8;
/// Machines that have bits of their own.
const GIVEN_UP_BITS: u32 = 64 * (WORDS - GIVEN_UP) as u32;

/// The segment of the boards.
pub(super) const BOARD: SegmentId = SegmentId::new(SegmentId::BOARD, 0, 0);

/// Nanoseconds between the beginnings of two gatherings, at least.
const EVERY_NS: u64 = 200_000;

/// When boards may be asked for again, by this machine's own clock, and those on their way.
#[derive(Default)]
pub(super) struct Gatherings {
    next: u64,
    under_way: Option<Gathering>,
}

/// Boards on their way.
struct Gathering {
    /// What nobody here read below when the reads began.
    mine: Timestamp,
    reads: Vec<Option<Completion<Box<[u64]>>>>,
    boards: Vec<Option<Box<[u64]>>>,
}

/// Where the bit of a machine is.
fn given_up(machine: MachineId) -> (usize, u64) {
    let place = machine.0 % GIVEN_UP_BITS;
    (GIVEN_UP + place as usize / 64, 1 << (place % 64))
}

impl Network {
    /// A word of a peer's board; 0 where the peer is not there yet.
    fn board_word(&self, peer: &Peer, word: usize) -> u64 {
        let board = peer.board.get().or_else(|| {
            let board = self.fabric.map(peer.id, BOARD)?;
            Some(peer.board.get_or_init(|| board))
        });
        let word = board.and_then(|board| board.words().get(word));
        word.map_or(0, |word| word.load(Ordering::SeqCst))
    }

    /// Counts a change of the shape of an index.
    pub fn reshape(&self) {
        self.board.words()[RESHAPED].fetch_add(1, Ordering::SeqCst);
    }

    /// Such changes of all machines; `None` where that is not known at once.
    pub fn reshaped(&self) -> Option<u64> {
        if self.far {
            return None;
        }
        let mine = self.board.words()[RESHAPED].load(Ordering::SeqCst);
        let theirs = self
            .peers
            .iter()
            .map(|peer| self.board_word(peer, RESHAPED));
        Some(mine + theirs.sum::<u64>())
    }

    /// A block has been released; its size class is not to be found any more (FAR-1).
    pub fn release(&self) {
        self.board.words()[RELEASED].fetch_add(1, Ordering::SeqCst);
    }

    /// Says that this machine neither calls `peer` any more nor answers it.
    pub(super) fn say_given_up(&self, peer: MachineId) {
        let (word, bit) = given_up(peer);
        self.board.words()[word].fetch_or(bit, Ordering::SeqCst);
    }

    /// Says that it does, as is so unless it says otherwise.
    pub(super) fn expect_calls(&self, peer: MachineId) {
        let (word, bit) = given_up(peer);
        self.board.words()[word].fetch_and(!bit, Ordering::SeqCst);
    }

    /// Whether `peer` has said so of this machine.
    pub(super) fn has_given_up(&self, peer: &Peer) -> bool {
        let (word, bit) = given_up(self.me());
        self.board_word(peer, word) & bit != 0
    }

    /// Says how well this machine knows the time.
    pub(super) fn say_clock(&self, state: ClockState) {
        let said = state.uncertainty_ns.map_or(0, |ns| ns.saturating_add(1));
        let word = &self.board.words()[CLOCK];
        // Peers read the board in place.
        if word.load(Ordering::Relaxed) != said {
            word.store(said, Ordering::Relaxed);
        }
    }

    /// Nanoseconds by which a peer's clock is uncertain, as it said last.
    pub(super) fn uncertainty_of(&self, peer: &Peer) -> Option<u64> {
        self.board_word(peer, CLOCK).checked_sub(1)
    }

    /// What nobody on any machine reads below, where nobody here does below `mine`.
    pub fn oldest(&self, mine: Timestamp) -> Timestamp {
        if !self.far {
            self.say_oldest(mine);
        }
        let least = self
            .fellows()
            .map(|peer| self.board_word(peer, OLDEST))
            .min();
        mine.min(Timestamp::from_raw(least.unwrap_or(u64::MAX)))
    }

    fn say_oldest(&self, mine: Timestamp) {
        self.board.words()[OLDEST].fetch_max(mine.raw(), Ordering::SeqCst);
    }

    /// Brings copies of the boards that are not mapped, some of the way at each call, not more often than
    /// [`EVERY_NS`] so. Nobody here reads below `mine`.
    pub(super) fn gather_boards(&self, clock: &Clock, mine: Timestamp) {
        if !self.far {
            return;
        }
        let Some(mut gathering) = self.gathering.try_lock() else {
            return;
        };
        let Gatherings { next, under_way } = &mut *gathering;
        let Some(gathering) = under_way.as_mut() else {
            // A machine that is driven may be what moves its time on.
            let now = clock.own_ns();
            if self.driven || now >= *next {
                *next = now + EVERY_NS;
                *under_way = Some(self.post_boards(mine));
            }
            return;
        };
        for (read, board) in gathering.reads.iter_mut().zip(&mut gathering.boards) {
            if let Some(answer) = read.as_mut().and_then(Completion::take) {
                *read = None;
                *board = answer.ok();
            }
        }
        if gathering.reads.iter().all(Option::is_none)
            && let Some(done) = under_way.take()
        {
            self.take_boards(&done);
        }
    }

    fn post_boards(&self, mine: Timestamp) -> Gathering {
        let post = |peer: &Peer| {
            let at = Place {
                machine: peer.id,
                segment: BOARD,
                word: 0,
            };
            self.counting.count(Posted::Board);
            self.fabric.read(at, WORDS)
        };
        Gathering {
            mine,
            reads: self
                .peers
                .iter()
                .map(|peer| self.is_member(peer).then(|| post(peer)))
                .collect(),
            boards: self.peers.iter().map(|_| None).collect(),
        }
    }

    fn take_boards(&self, gathered: &Gathering) {
        let there = self.peers.iter().zip(&gathered.boards);
        let there = there.filter_map(|(peer, board)| Some((peer, board.as_deref()?)));
        let released =
            |(peer, board): (&Peer, &[u64])| board[RELEASED] != self.board_word(peer, RELEASED);
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
        // Whoever could not be asked may have released blocks.
        let mut all = self.peers.iter().zip(&gathered.boards);
        if all.all(|(peer, board)| board.is_some() || !self.is_member(peer)) {
            self.say_oldest(gathered.mine);
        }
    }
}
