//! The assignment of clients to workers.
//!
//! ```text
//!   accept ──> the worker with the fewest clients
//!   then   ──> the worker on the processor where the client's packets arrive, if that is stable
//! ```
//! If there is a worker for each processor, each worker is pinned to its own. Packets of a client
//! on this host, or of a network queue that one processor serves, then wake a worker on the same
//! processor. Waking a thread of another processor costs more than most statements. The processor
//! of a connection is known and may change. So connections are checked periodically, and idle ones
//! move ([`ArrivalProcessor`]).
//!
//! Invariant LANE-1: after a move, a worker has at most three clients more than the worker that the
//! client came from.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use fencepost_fabric::processors;
use tokio::sync::mpsc::UnboundedSender;

use crate::worker::Command;

/// The number of requests between two checks of the processor.
const REQUESTS: u32 = 64;
/// The number of moves after which a connection is checked less often.
const MOVES_FREE: u32 = 4;
/// The largest number of times that the interval doubles.
const DOUBLINGS_MAX: u32 = 12;

/// A worker, as other workers see it.
pub(crate) struct WorkerHandle {
    pub(crate) commands: UnboundedSender<Command>,
    /// The number of its clients; the sender of a client increments it.
    pub(crate) load: Arc<AtomicUsize>,
    /// The processor to which the worker is pinned.
    pub(crate) processor: Option<usize>,
}

impl WorkerHandle {
    fn clients(&self) -> usize {
        self.load.load(Ordering::Relaxed)
    }
}

/// Returns the processor of each of `workers`; `None` for all unless there is one for each.
pub(crate) fn processors_of(workers: usize) -> Vec<Option<usize>> {
    let all = processors::usable();
    match all.len() == workers && workers > 1 {
        true => all.into_iter().map(Some).collect(),
        false => vec![None; workers],
    }
}

/// Returns the worker for a new client whose first packets arrived at `processor`. Returns `None`
/// if all workers have ended.
pub(crate) fn for_new_client(
    lanes: &[WorkerHandle],
    processor: Option<usize>,
) -> Option<&WorkerHandle> {
    let open = lanes.iter().filter(|lane| !lane.commands.is_closed());
    open.min_by_key(|lane| (lane.clients(), lane.processor != processor))
}

/// Returns the better worker for a client of worker `own` whose packets arrive at `processor`.
pub(crate) fn better(lanes: &[WorkerHandle], own: usize, processor: usize) -> Option<usize> {
    let own_lane = lanes.get(own)?;
    if own_lane.processor.is_none_or(|at| at == processor) {
        return None;
    }
    let nearer = lanes
        .iter()
        .position(|lane| lane.processor == Some(processor))?;
    let lane = &lanes[nearer];
    // LANE-1.
    (lane.clients() <= own_lane.clients() + 1 && !lane.commands.is_closed()).then_some(nearer)
}

/// The processor where the packets of a connection arrive.
pub(crate) struct ArrivalProcessor {
    /// The number of requests until the next check.
    left: u32,
    /// The processor at the last check.
    seen: Option<usize>,
    moves: u32,
}

impl ArrivalProcessor {
    /// Returns the state of a connection that has moved `moves` times.
    pub(crate) fn after(moves: u32) -> ArrivalProcessor {
        let doublings = moves.saturating_sub(MOVES_FREE).min(DOUBLINGS_MAX);
        ArrivalProcessor {
            left: REQUESTS << doublings,
            seen: None,
            moves,
        }
    }

    /// Returns the number of moves after the next move.
    pub(crate) fn moves(&self) -> u32 {
        self.moves.saturating_add(1)
    }

    /// Counts a request. At a check, returns the processor if it is the same as at the previous
    /// check.
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
        self.left = ArrivalProcessor::after(self.moves).left;
        now.filter(|now| before == Some(*now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

    fn lanes(clients: &[usize]) -> (Vec<WorkerHandle>, Vec<UnboundedReceiver<Command>>) {
        let lane = |(processor, clients): (usize, &usize)| {
            let (commands, receiver) = unbounded_channel();
            let lane = WorkerHandle {
                commands,
                load: Arc::new(AtomicUsize::new(*clients)),
                processor: Some(processor),
            };
            (lane, receiver)
        };
        clients.iter().enumerate().map(lane).unzip()
    }

    #[test]
    fn new_client_goes_to_the_worker_with_fewest_clients() {
        let (lanes, mut ends) = lanes(&[2, 1, 1]);
        let chosen = |processor| for_new_client(&lanes, processor).and_then(|lane| lane.processor);
        assert_eq!(chosen(Some(0)), Some(1));
        assert_eq!(chosen(Some(2)), Some(2));
        ends.drain(1..).for_each(drop);
        assert_eq!(chosen(Some(2)), Some(0));
        ends.clear();
        assert_eq!(chosen(None), None);
    }

    #[test]
    fn move_keeps_workers_balanced() {
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
    fn repeated_arrival_on_other_processor_is_reported() {
        let mut home = ArrivalProcessor::after(0);
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
    fn frequently_moved_connection_is_checked_less_often() {
        assert_eq!(ArrivalProcessor::after(MOVES_FREE).left, REQUESTS);
        assert_eq!(ArrivalProcessor::after(MOVES_FREE + 2).left, REQUESTS * 4);
        assert_eq!(
            ArrivalProcessor::after(u32::MAX).left,
            REQUESTS << DOUBLINGS_MAX
        );
        assert_eq!(ArrivalProcessor::after(u32::MAX).moves(), u32::MAX);
    }
}
