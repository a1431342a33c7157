//! The channel of calls to one peer: pending messages, and calls that wait for an answer.
//!
//! # Invariants
//! * QUEUE-1: a message is queued as a whole and written to its end before the next begins. The
//!   thread that queues it never waits for space in the ring. The poller continues the write when
//!   the peer has made space.
//! * QUEUE-2: a peer has at most [`OPEN_MAX`] unanswered requests, including those whose callers
//!   wait no more.
//! * QUEUE-3: a broken channel stays broken, and its waiters are told.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::Waker;

use fencepost_fabric::ring;
use fencepost_fabric::{Completer, Completion, Fabric, FabricError, MachineId, RingWriter};
use foldhash::HashMap;
use parking_lot::Mutex;

use super::message::{AnswerStatus, Kind, Outgoing};
use super::{CallError, CallResult};
use crate::network::traffic::{PostKind, TrafficCounters};

/// Lane of the calls' rings.
pub(in crate::network) const CALLS: u16 = 2;
/// Words of such a ring.
pub(in crate::network) const CALL_WORDS: usize = 1 << 14;
/// Maximum number of unanswered requests to one peer.
pub(super) const OPEN_MAX: usize = 1024;
/// Bytes of pending messages above which further requests must wait.
const QUEUED_BYTES_MAX: usize = 32 << 20;

/// The channel to one peer.
pub(in crate::network) struct CallChannel {
    counting: Arc<TrafficCounters>,
    state: Mutex<State>,
    /// Whether the peer is known to have its receiving end: nothing is written before.
    ready: Arc<AtomicBool>,
    broken: AtomicBool,
    /// Whether a message waits for space or for its ack.
    busy: AtomicBool,
    /// Number of requests of the peer that are not answered yet.
    unanswered: AtomicUsize,
}

struct State {
    ring: RingWriter,
    queue: VecDeque<Outgoing>,
    queued_bytes: usize,
    /// Writes without an ack so far.
    acks: VecDeque<Completion<()>>,
    last_ticket: u64,
    /// Unanswered calls; `None` if the caller waits no more.
    open: HashMap<u64, Option<Completer<CallResult>>>,
    /// Callers that wait to queue a request.
    waiting: Vec<Waker>,
}

/// Results to deliver once the state is unlocked.
#[derive(Default)]
struct Deliveries {
    ended: Vec<(Completer<CallResult>, CallError)>,
    woken: Vec<Waker>,
}

impl Deliveries {
    fn deliver(self) {
        for (waiting, error) in self.ended {
            waiting.complete(Ok(Err(error)));
        }
        self.woken.into_iter().for_each(Waker::wake);
    }
}

/// The result of an attempt to queue a request.
pub(super) enum QueueOutcome {
    /// The request is queued under this ticket.
    Yes(u64, Completion<CallResult>),
    /// Too many requests are open: the waker will be woken.
    Later,
    /// The channel is broken.
    Never,
}

impl CallChannel {
    pub fn new(
        fabric: &Arc<dyn Fabric>,
        counting: &Arc<TrafficCounters>,
        peer: MachineId,
        ready: Arc<AtomicBool>,
    ) -> Result<CallChannel, FabricError> {
        Ok(CallChannel {
            counting: Arc::clone(counting),
            ready,
            state: Mutex::new(State {
                ring: ring::send(fabric, peer, CALLS, CALL_WORDS)?,
                queue: VecDeque::new(),
                queued_bytes: 0,
                acks: VecDeque::new(),
                last_ticket: 0,
                open: HashMap::default(),
                waiting: Vec::new(),
            }),
            broken: AtomicBool::new(false),
            busy: AtomicBool::new(false),
            unanswered: AtomicUsize::new(0),
        })
    }

    pub fn is_broken(&self) -> bool {
        self.broken.load(Ordering::Acquire)
    }

    /// Returns whether no message and no request is pending on either side.
    pub fn is_at_rest(&self) -> bool {
        let state = self.state.lock();
        let none_pending = state.queue.is_empty() && state.open.is_empty();
        none_pending && self.unanswered.load(Ordering::Acquire) == 0
    }

    /// Queues a request, or wakes `waker` later when that may succeed.
    pub(super) fn request(
        &self,
        service: u8,
        request: &[u8],
        waker: Option<&Waker>,
    ) -> QueueOutcome {
        let mut state = self.state.lock();
        if self.is_broken() {
            return QueueOutcome::Never;
        }
        if state.open.len() >= OPEN_MAX || state.queued_bytes >= QUEUED_BYTES_MAX {
            state.waiting.extend(waker.cloned());
            return QueueOutcome::Later;
        }
        state.last_ticket += 1;
        let ticket = state.last_ticket;
        let (completer, ended) = Completion::pending();
        state.open.insert(ticket, Some(completer));
        state.queue(Outgoing::new(ticket, Kind::Request(service), request));
        self.counting.count(PostKind::Request);
        let deliveries = self.write(&mut state);
        drop(state);
        deliveries.deliver();
        QueueOutcome::Yes(ticket, ended)
    }

    /// Notes that the caller does not wait for the answer any more.
    pub(super) fn forget(&self, ticket: u64) {
        let mut state = self.state.lock();
        let forgotten = state.open.get_mut(&ticket).and_then(Option::take);
        drop(state);
        drop(forgotten);
    }

    /// Counts a request of the peer. Returns `false` if it has too many open.
    pub(super) fn asked(&self) -> bool {
        self.unanswered.fetch_add(1, Ordering::AcqRel) < OPEN_MAX
    }

    /// Queues the answer to a request of the peer.
    pub(super) fn answer(&self, ticket: u64, how: AnswerStatus, answer: &[u8]) {
        let mut state = self.state.lock();
        self.unanswered.fetch_sub(1, Ordering::AcqRel);
        if self.is_broken() {
            return;
        }
        state.queue(Outgoing::new(ticket, Kind::Answer(how), answer));
        self.counting.count(PostKind::Answer);
        let deliveries = self.write(&mut state);
        drop(state);
        deliveries.deliver();
    }

    /// Delivers an answer of the peer; answers to unknown or abandoned calls are ignored.
    pub(super) fn answered(&self, ticket: u64, ended: CallResult) {
        let mut state = self.state.lock();
        let waiting = state.open.remove(&ticket).flatten();
        let woken = std::mem::take(&mut state.waiting);
        drop(state);
        if let Some(waiting) = waiting {
            waiting.complete(Ok(ended));
        }
        woken.into_iter().for_each(Waker::wake);
    }

    /// Writes as much as there is space for. Returns whether messages remain.
    pub fn pump(&self) -> bool {
        if !self.busy.load(Ordering::Acquire) {
            return false;
        }
        let mut state = self.state.lock();
        let deliveries = self.write(&mut state);
        let waits = !state.queue.is_empty();
        drop(state);
        deliveries.deliver();
        waits
    }

    fn write(&self, state: &mut State) -> Deliveries {
        let mut deliveries = Deliveries::default();
        let mut written = false;
        if !self.ready.load(Ordering::Acquire) {
            self.busy.store(true, Ordering::Release);
            return deliveries;
        }
        while let Some(message) = state.queue.front_mut() {
            let (tag, head, words) = message.part();
            if state.ring.push(tag, &[head.words(), words]).is_err() {
                break;
            }
            written = true;
            if message.written() {
                state.queued_bytes -= message.bytes();
                state.queue.pop_front();
            }
        }
        if written {
            state.acks.push_back(state.ring.flush());
            if state.queued_bytes < QUEUED_BYTES_MAX {
                deliveries.woken.append(&mut state.waiting);
            }
        }
        while let Some(ack) = state.acks.front_mut() {
            match ack.take() {
                None => break,
                Some(Ok(())) => drop(state.acks.pop_front()),
                Some(Err(_)) => {
                    self.break_off_locked(state, &mut deliveries);
                    break;
                }
            }
        }
        let busy = !state.queue.is_empty() || !state.acks.is_empty();
        self.busy.store(busy, Ordering::Release);
        deliveries
    }

    /// Breaks the channel: nothing more is sent to the peer or expected from it.
    pub fn break_off(&self) {
        let mut deliveries = Deliveries::default();
        self.break_off_locked(&mut self.state.lock(), &mut deliveries);
        deliveries.deliver();
    }

    fn break_off_locked(&self, state: &mut State, deliveries: &mut Deliveries) {
        self.broken.store(true, Ordering::Release);
        // A request of which no part was written has had no effect.
        let unwritten = |ticket: &u64| {
            let mut queue = state.queue.iter();
            queue.any(|message| {
                let request = matches!(message.kind, Kind::Request(_));
                request && message.ticket == *ticket && !message.begun
            })
        };
        for (ticket, waiting) in &mut state.open {
            if let Some(waiting) = waiting.take() {
                let error = match unwritten(ticket) {
                    true => CallError::Unreachable,
                    false => CallError::Lost,
                };
                deliveries.ended.push((waiting, error));
            }
        }
        state.open.clear();
        state.queue.clear();
        state.queued_bytes = 0;
        state.acks.clear();
        deliveries.woken.append(&mut state.waiting);
    }
}

impl State {
    fn queue(&mut self, message: Outgoing) {
        self.queued_bytes += message.bytes();
        self.queue.push_back(message);
    }
}
