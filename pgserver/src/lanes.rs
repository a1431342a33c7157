//! Which worker serves which client.
//!
//! ```text
//!   accept ──> the worker with the fewest clients
//!   then   ──> the worker on the processor where the client's packets come in, if that is where they always come in
//! ```
//! Where there is a worker for each processor, each keeps to its own. A client on this host, or packets that the network card
//! hands to one processor, then wake a worker where they are: waking a thread of another processor costs more than most
//! statements do. Which processor that is is known of each connection, and may change; so connections are looked at now and
//! then, and those that rest move ([`Home`]).
//!
//! Invariant LANE-1: no move leaves a worker with more than three clients more than the one that it came from.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use fencepost_fabric::processors;
use tokio::sync::mpsc::UnboundedSender;

use crate::worker::Command;

/// After so many requests it is looked at where the last one came in.
const REQUESTS: u32 = 64;
/// How often a connection may move before it is looked at less often each time.
const MOVES_FREE: u32 = 4;
/// How often that may double.
const DOUBLINGS_MAX: u32 = 12;

/// A worker as others see it.
pub(crate) struct Lane {
    pub(crate) commands: UnboundedSender<Command>,
    /// Its clients; who sends one adds it.
    pub(crate) load: Arc<AtomicUsize>,
    /// The processor that it keeps to.
    pub(crate) processor: Option<usize>,
}

impl Lane {
    fn clients(&self) -> usize {
        self.load.load(Ordering::Relaxed)
    }
}

/// The processor of each of `workers`: none unless there is one for each.
pub(crate) fn processors_of(workers: usize) -> Vec<Option<usize>> {
    let all = processors::usable();
    match all.len() == workers && workers > 1 {
        true => all.into_iter().map(Some).collect(),
        false => vec![None; workers],
    }
}

/// The worker for a new client whose first packets came in on `processor`; none when all have ended.
pub(crate) fn for_newcomer(lanes: &[Lane], processor: Option<usize>) -> Option<&Lane> {
    let open = lanes.iter().filter(|lane| !lane.commands.is_closed());
    open.min_by_key(|lane| (lane.clients(), lane.processor != processor))
}

/// The worker that a client of worker `own` had better be with, as its packets come in on `processor`.
pub(crate) fn better(lanes: &[Lane], own: usize, processor: usize) -> Option<usize> {
    let here = lanes.get(own)?;
    if here.processor.is_none_or(|at| at == processor) {
        return None;
    }
    let there = lanes
        .iter()
        .position(|lane| lane.processor == Some(processor))?;
    let lane = &lanes[there];
    // LANE-1.
    (lane.clients() <= here.clients() + 1 && !lane.commands.is_closed()).then_some(there)
}

/// Where the requests of a connection come in.
pub(crate) struct Home {
    /// Requests until it is looked at.
    left: u32,
    /// The processor where it came in last time.
    seen: Option<usize>,
    moves: u32,
}

impl Home {
    /// A connection that has moved so many times.
    pub(crate) fn after(moves: u32) -> Home {
        let doublings = moves.saturating_sub(MOVES_FREE).min(DOUBLINGS_MAX);
        Home {
            left: REQUESTS << doublings,
            seen: None,
            moves,
        }
    }

    /// How often it will have moved when it has moved once more.
    pub(crate) fn moves(&self) -> u32 {
        self.moves.saturating_add(1)
    }

    /// Counts a request. Every now and then says where its packets come in, if that is where they came in the time before.
    #[inline]
    pub(crate) fn count(&mut self, comes_in: impl FnOnce() -> Option<usize>) -> Option<usize> {
        self.left -= 1;
        match self.left {
            0 => self.look(comes_in()),
            _ => None,
        }
    }

    #[cold]
    fn look(&mut self, now: Option<usize>) -> Option<usize> {
        let before = std::mem::replace(&mut self.seen, now);
        self.left = Home::after(self.moves).left;
        now.filter(|now| before == Some(*now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

    fn lanes(clients: &[usize]) -> (Vec<Lane>, Vec<UnboundedReceiver<Command>>) {
        let lane = |(processor, clients): (usize, &usize)| {
            let (commands, receiver) = unbounded_channel();
            let lane = Lane {
                commands,
                load: Arc::new(AtomicUsize::new(*clients)),
                processor: Some(processor),
            };
            (lane, receiver)
        };
        clients.iter().enumerate().map(lane).unzip()
    }

    #[test]
    fn a_newcomer_goes_where_there_are_fewest() {
        let (lanes, mut ends) = lanes(&[2, 1, 1]);
        let chosen = |processor| for_newcomer(&lanes, processor).and_then(|lane| lane.processor);
        assert_eq!(chosen(Some(0)), Some(1));
        assert_eq!(chosen(Some(2)), Some(2));
        ends.drain(1..).for_each(drop);
        assert_eq!(chosen(Some(2)), Some(0));
        ends.clear();
        assert_eq!(chosen(None), None);
    }

    #[test]
    fn a_move_leaves_no_worker_with_many_more() {
        for (clients, expected) in [
            ([1, 0], Some(1)),
            ([1, 2], Some(1)),
            ([1, 3], None),
            ([4, 5], Some(1)),
        ] {
            let (lanes, _ends) = lanes(&clients);
            assert_eq!(better(&lanes, 0, 1), expected, "{clients:?}");
            assert_eq!(better(&lanes, 0, 0), None);
            assert_eq!(better(&lanes, 0, 7), None);
        }
        let (mut lanes, ends) = lanes(&[1, 0]);
        drop(ends);
        assert_eq!(better(&lanes, 0, 1), None, "it has ended");
        lanes[0].processor = None;
        assert_eq!(better(&lanes, 0, 1), None, "it keeps to no processor");
    }

    #[test]
    fn what_comes_in_elsewhere_twice_is_said() {
        let mut home = Home::after(0);
        let mut said = |times: u32, at: usize| {
            let answers = (0..times).filter_map(|_| home.count(|| Some(at)));
            answers.collect::<Vec<_>>()
        };
        assert!(said(REQUESTS, 1).is_empty());
        assert!(said(REQUESTS, 0).is_empty());
        assert!(said(REQUESTS - 1, 0).is_empty());
        assert_eq!(said(1, 0), [0]);
        assert_eq!(said(REQUESTS, 0), [0]);
    }

    #[test]
    fn who_moves_often_is_looked_at_less() {
        assert_eq!(Home::after(MOVES_FREE).left, REQUESTS);
        assert_eq!(Home::after(MOVES_FREE + 2).left, REQUESTS * 4);
        assert_eq!(Home::after(u32::MAX).left, REQUESTS << DOUBLINGS_MAX);
        assert_eq!(Home::after(u32::MAX).moves(), u32::MAX);
    }
}
