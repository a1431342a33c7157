//! The card of a lane: the one-sided agent of all connections of the lane. It is the thread that
//! does their I/O, as a network card would.
//!
//! ```text
//! poster ─ nudge ─► card: write posted operations ─► park until data arrives or a thread nudges
//!                            ▲                            │
//!                            └── read, apply or answer, write ◄┘
//! ```
//! While the card works, posted operations accumulate, so under more load more of them leave in one
//! write. Between two looks at its ports the card calls the attendant for the arrived data
//! ([`crate::Fabric::set_attendant`]). Acknowledgements of that data leave afterwards, together
//! with the operations that the attendant posts.
//!
//! # Invariants
//! * AGENT-1: the card sees all operations posted before [`OneSidedAgent::nudge`] before it parks,
//!   or `nudge` unparks it. The card sets its parked flag and then looks. The poster posts and then
//!   checks the flag.
//! * AGENT-2: no step of a card blocks on a peer: a port that cannot go on returns the event that
//!   it needs.
//! * AGENT-3: no thread waits for space to post while the attendant works, because the attendant
//!   may need a lock that the thread holds. The attendant does not work while a thread waits; the
//!   poller does its work then.
//!
//! # Failure
//! A port that fails is closed and removed; the others go on. A card that is stopped closes all
//! ports, and all that are added later.

use std::collections::HashMap;
use std::io;
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};
use std::sync::{Arc, OnceLock};
use std::thread::ThreadId;

use parking_lot::Mutex;
use rustix::buffer::spare_capacity;
use rustix::event::{EventfdFlags, Timespec, epoll, eventfd};
use rustix::fd::OwnedFd;
use rustix::io::Errno;

use crate::bell::Bell;
use crate::fabric::ArrivalHandler;

/// The epoll key of the card's own wake-up.
const NUDGE: u64 = 0;
/// The largest number of events taken in one call.
const EVENTS: usize = 64;
const AT_ONCE: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 0,
};

/// A connection on a card.
pub(super) trait Port: Send {
    /// Returns the port's stream, which is non-blocking.
    fn stream(&self) -> &TcpStream;

    /// Reads, if `readable`, and writes as far as possible without blocking. Returns the events
    /// that the port waits for.
    ///
    /// # Errors
    /// The error that ends the connection.
    fn do_io(&mut self, readable: bool) -> io::Result<PortInterest>;

    /// Returns whether the port could go on without an event, unless it waits for space to write.
    fn has_work(&self) -> bool;

    /// Ends the connection.
    fn end(&mut self);
}

/// The events that a port waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PortInterest {
    /// Data to read.
    Read,
    /// Data to read, or space to write.
    ReadAndWrite,
}

impl PortInterest {
    fn flags(self) -> epoll::EventFlags {
        match self {
            PortInterest::Read => epoll::EventFlags::IN,
            PortInterest::ReadAndWrite => epoll::EventFlags::IN | epoll::EventFlags::OUT,
        }
    }
}

/// The one-sided agent of one lane.
#[derive(Debug)]
pub(super) struct OneSidedAgent {
    epoll: OwnedFd,
    nudged: OwnedFd,
    parked: AtomicBool,
    state: Mutex<State>,
    /// The bell to ring if there is no attendant, or it may not work.
    bell: Bell,
    attendant: OnceLock<HandlerSlot>,
    /// Whether the attendant has new data to look at.
    called: AtomicBool,
    attending: AtomicBool,
    /// The id of the card's own thread.
    thread: OnceLock<ThreadId>,
    /// The number of threads that wait for space to post.
    blocked: AtomicUsize,
}

struct HandlerSlot(Box<dyn ArrivalHandler>);

impl std::fmt::Debug for HandlerSlot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("…")
    }
}

#[derive(Default)]
struct State {
    arriving: Vec<Box<dyn Port>>,
    stopped: bool,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State")
            .field("arriving", &self.arriving.len())
            .field("stopped", &self.stopped)
            .finish()
    }
}

struct RegisteredPort {
    port: Box<dyn Port>,
    wants: PortInterest,
}

impl RegisteredPort {
    /// Returns whether the port can go on without an event.
    fn has_work(&self) -> bool {
        self.wants == PortInterest::Read && self.port.has_work()
    }
}

impl OneSidedAgent {
    /// Returns a card without ports; a thread must call [`Self::run`].
    ///
    /// # Errors
    /// If the system has no descriptors left.
    pub(super) fn new(bell: &Bell) -> io::Result<Arc<Self>> {
        let nudged = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let key = epoll::EventData::new_u64(NUDGE);
        epoll::add(&epoll, &nudged, key, epoll::EventFlags::IN)?;
        Ok(Arc::new(OneSidedAgent {
            epoll,
            nudged,
            parked: AtomicBool::new(false),
            state: Mutex::default(),
            bell: bell.clone(),
            attendant: OnceLock::new(),
            called: AtomicBool::new(false),
            attending: AtomicBool::new(false),
            thread: OnceLock::new(),
            blocked: AtomicUsize::new(0),
        }))
    }

    /// Adds a connection, which the card serves until it ends.
    pub(super) fn plug(&self, mut port: Box<dyn Port>) {
        let mut state = self.state.lock();
        if state.stopped {
            drop(state);
            return port.end();
        }
        state.arriving.push(port);
        drop(state);
        self.nudge();
    }

    /// Wakes the card because there is work (AGENT-1).
    #[inline]
    pub(super) fn nudge(&self) {
        fence(Ordering::SeqCst);
        if self.parked.load(Ordering::Relaxed) && self.parked.swap(false, Ordering::Relaxed) {
            self.unpark();
        }
    }

    fn unpark(&self) {
        // The write fails only if the counter is full, so that the card is woken anyway.
        let _ = rustix::io::write(&self.nudged, &1u64.to_ne_bytes());
    }

    /// Sets the attendant, unless there is one.
    pub(super) fn set_attendant(&self, attendant: Box<dyn ArrivalHandler>) -> bool {
        self.attendant.set(HandlerSlot(attendant)).is_ok()
    }

    /// Makes the attendant, or the poller, look for new data.
    pub(super) fn call(&self) {
        if self.attendant.get().is_none() {
            return self.bell.ring();
        }
        // A call by the working attendant itself needs no wake-up, because the attendant looks
        // again.
        let own = || self.thread.get() == Some(&std::thread::current().id());
        if !self.attending.load(Ordering::Relaxed) || !own() {
            self.called.store(true, Ordering::Release);
            self.nudge();
        }
    }

    /// Returns whether the attendant works after this turn of the ports; only for the card's own
    /// thread.
    pub(super) fn is_to_attend(&self) -> bool {
        self.attendant.get().is_some() && self.called.load(Ordering::Relaxed)
    }

    /// Returns whether a thread may wait for space to post. If so, the thread must call
    /// [`Self::has_waited`] afterwards (AGENT-3).
    pub(super) fn may_wait(&self) -> bool {
        self.blocked.fetch_add(1, Ordering::SeqCst);
        let may = !self.attending.load(Ordering::SeqCst);
        if !may {
            self.has_waited();
        }
        may
    }

    pub(super) fn has_waited(&self) {
        self.blocked.fetch_sub(1, Ordering::SeqCst);
    }

    /// Calls the attendant if it has new data.
    fn attend(&self) {
        let Some(HandlerSlot(attendant)) = self.attendant.get() else {
            return;
        };
        if !self.called.swap(false, Ordering::Acquire) {
            return;
        }
        self.attending.store(true, Ordering::SeqCst);
        let more = match self.blocked.load(Ordering::SeqCst) {
            0 => attendant.attend(),
            _ => {
                self.bell.ring();
                false
            }
        };
        self.attending.store(false, Ordering::SeqCst);
        if more {
            self.called.store(true, Ordering::Release);
        }
    }

    /// Stops the card and ends its ports, for good.
    pub(super) fn stop(&self) {
        self.state.lock().stopped = true;
        self.nudge();
    }

    /// Runs the card until it is stopped.
    pub(super) fn run(&self) {
        let mut ports: HashMap<u64, RegisteredPort> = HashMap::new();
        let mut next = NUDGE + 1;
        let mut events = Vec::with_capacity(EVENTS);
        let _ = self.thread.set(std::thread::current().id());
        while let Some(arrived) = self.arrivals() {
            for mut port in arrived {
                let (key, wants) = (epoll::EventData::new_u64(next), PortInterest::Read);
                if epoll::add(&self.epoll, port.stream(), key, wants.flags()).is_err() {
                    port.end();
                    continue;
                }
                let mut plugged = RegisteredPort { port, wants };
                // The peer may have written already.
                if self.run_port((next, &mut plugged), true) {
                    ports.insert(next, plugged);
                }
                next += 1;
            }
            // The attendant works before acknowledgements leave that may wait for its operations.
            self.attend();
            ports.retain(|key, plugged| {
                !plugged.has_work() || self.run_port((*key, plugged), false)
            });
            self.park(&ports, &mut events);
            for event in events.drain(..) {
                let key = event.data.u64();
                if key == NUDGE {
                    // Reading resets the counter, and an error means that it is zero already.
                    let _ = rustix::io::read(&self.nudged, &mut [0; 8]);
                    continue;
                }
                let flags = event.flags;
                let readable = flags != epoll::EventFlags::OUT;
                if let Some(plugged) = ports.get_mut(&key)
                    && !self.run_port((key, plugged), readable)
                {
                    ports.remove(&key);
                }
            }
        }
        for plugged in ports.values_mut() {
            self.end(plugged);
        }
    }

    /// Returns the ports added since the last call; `None` once the card is stopped.
    fn arrivals(&self) -> Option<Vec<Box<dyn Port>>> {
        let mut state = self.state.lock();
        let mut arrived = std::mem::take(&mut state.arriving);
        let stopped = state.stopped;
        drop(state);
        if stopped {
            arrived.iter_mut().for_each(|port| port.end());
        }
        (!stopped).then_some(arrived)
    }

    /// Waits until there is work.
    fn park(&self, ports: &HashMap<u64, RegisteredPort>, events: &mut Vec<epoll::Event>) {
        self.parked.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let busy = ports.values().any(RegisteredPort::has_work)
            || self.has_news()
            || self.called.load(Ordering::Relaxed);
        let timeout = busy.then_some(&AT_ONCE);
        match epoll::wait(&self.epoll, spare_capacity(events), timeout) {
            Ok(_) | Err(Errno::INTR) => {}
            // The descriptors are valid, so no lasting error is expected; yielding avoids a busy
            // loop.
            Err(_) => std::thread::yield_now(),
        }
        self.parked.store(false, Ordering::Relaxed);
    }

    fn has_news(&self) -> bool {
        let state = self.state.lock();
        state.stopped || !state.arriving.is_empty()
    }

    /// Lets a port read and write; returns whether it stays open.
    fn run_port(&self, (key, plugged): (u64, &mut RegisteredPort), readable: bool) -> bool {
        let stream_wants = plugged.port.do_io(readable).and_then(|wants| {
            if wants != plugged.wants {
                let (key, stream) = (epoll::EventData::new_u64(key), plugged.port.stream());
                epoll::modify(&self.epoll, stream, key, wants.flags())?;
            }
            Ok(wants)
        });
        match stream_wants {
            Ok(wants) => plugged.wants = wants,
            Err(_) => self.end(plugged),
        }
        stream_wants.is_ok()
    }

    fn end(&self, plugged: &mut RegisteredPort) {
        // The descriptor may have duplicates, so closing it would not remove it from epoll.
        let _ = epoll::delete(&self.epoll, plugged.port.stream());
        plugged.port.end();
    }
}
