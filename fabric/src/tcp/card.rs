//! The card of a lane: one thread that carries all connections of the lane.
//!
//! ```text
//! who posts ─ nudge ─► card: write what was posted ─► park until something arrives, or somebody nudges
//!                            ▲                            │
//!                            └── read, apply or answer, write ◄┘
//! ```
//! While it works, what is posted gathers, so the more there is to do the more leaves at once. Between two
//! looks at its ports it lets the attendant work on what has arrived ([`crate::Fabric::set_attendant`]); acks of it
//! leave after that, with whatever the attendant answers.
//!
//! # Invariants
//! * CARD-1: what was posted before [`Card::nudge`] is looked at before the card parks, or unparks it. The
//!   card says that it parks and then looks, the poster posts and then looks whether the card is parked.
//! * CARD-2: nothing on a card waits for a peer: a port that cannot go on says what for.
//! * CARD-3: nobody waits for room to post while the attendant is at work, which may want a lock that they
//!   hold, and it does not work while somebody waits: then it is the poller's turn.
//!
//! # Failure
//! A port that fails is ended and forgotten, the others go on. A card that is stopped ends all of them, and
//! whatever is plugged in later.

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
use crate::fabric::Attendant;

/// Key of the card's own wake-up among those of the ports.
const NUDGE: u64 = 0;
/// Events that are taken at once.
const EVENTS: usize = 64;
const AT_ONCE: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 0,
};

/// A connection on a card.
pub(super) trait Port: Send {
    /// Its stream, which does not block.
    fn stream(&self) -> &TcpStream;

    /// Goes on as far as it can without waiting, reading only if there is something; what it waits for then.
    ///
    /// # Errors
    /// Whatever ends the connection.
    fn turn(&mut self, readable: bool) -> io::Result<Wants>;

    /// Whether it could go on although nothing has arrived, where it does not wait for room.
    fn has_work(&self) -> bool;

    /// The connection is over.
    fn end(&mut self);
}

/// What a port waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wants {
    /// Something to read.
    Read,
    /// That, or room to write.
    ReadAndRoom,
}

impl Wants {
    fn flags(self) -> epoll::EventFlags {
        match self {
            Wants::Read => epoll::EventFlags::IN,
            Wants::ReadAndRoom => epoll::EventFlags::IN | epoll::EventFlags::OUT,
        }
    }
}

/// One lane's card.
#[derive(Debug)]
pub(super) struct Card {
    epoll: OwnedFd,
    nudged: OwnedFd,
    parked: AtomicBool,
    state: Mutex<State>,
    /// Rung where there is no attendant, or it may not work.
    bell: Bell,
    attendant: OnceLock<Attends>,
    /// The attendant has something to look at.
    called: AtomicBool,
    attending: AtomicBool,
    /// The card's own.
    thread: OnceLock<ThreadId>,
    /// Who waits for room to post.
    blocked: AtomicUsize,
}

struct Attends(Box<dyn Attendant>);

impl std::fmt::Debug for Attends {
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

struct Plugged {
    port: Box<dyn Port>,
    wants: Wants,
}

impl Plugged {
    /// Whether it goes on at once.
    fn has_work(&self) -> bool {
        self.wants == Wants::Read && self.port.has_work()
    }
}

impl Card {
    /// A card without ports; somebody has to [`Self::run`] it.
    ///
    /// # Errors
    /// Where the system has no descriptor left.
    pub(super) fn new(bell: &Bell) -> io::Result<Arc<Self>> {
        let nudged = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let key = epoll::EventData::new_u64(NUDGE);
        epoll::add(&epoll, &nudged, key, epoll::EventFlags::IN)?;
        Ok(Arc::new(Card {
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

    /// Carries a connection from now on, until it ends.
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

    /// There is something to do (CARD-1).
    #[inline]
    pub(super) fn nudge(&self) {
        fence(Ordering::SeqCst);
        if self.parked.load(Ordering::Relaxed) && self.parked.swap(false, Ordering::Relaxed) {
            self.unpark();
        }
    }

    fn unpark(&self) {
        // It fails only where it was woken very often already.
        let _ = rustix::io::write(&self.nudged, &1u64.to_ne_bytes());
    }

    /// Has `attendant` called from now on, unless there is one.
    pub(super) fn set_attendant(&self, attendant: Box<dyn Attendant>) -> bool {
        self.attendant.set(Attends(attendant)).is_ok()
    }

    /// Something has arrived, or somebody wants the attendant, or the poller, to look.
    pub(super) fn call(&self) {
        if self.attendant.get().is_none() {
            return self.bell.ring();
        }
        // The attendant at work sees what it calls itself for.
        let own = || self.thread.get() == Some(&std::thread::current().id());
        if !self.attending.load(Ordering::Relaxed) || !own() {
            self.called.store(true, Ordering::Release);
            self.nudge();
        }
    }

    /// Whether the attendant works after this turn of the ports; for the card's own thread.
    pub(super) fn is_to_attend(&self) -> bool {
        self.attendant.get().is_some() && self.called.load(Ordering::Relaxed)
    }

    /// Whether somebody may wait for room to post, who says so then with [`Self::has_waited`] (CARD-3).
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

    /// Lets the attendant work if it was called.
    fn attend(&self) {
        let Some(Attends(attendant)) = self.attendant.get() else {
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

    /// Ends it and its ports, for good.
    pub(super) fn stop(&self) {
        self.state.lock().stopped = true;
        self.nudge();
    }

    /// The card's life, until it is stopped.
    pub(super) fn run(&self) {
        let mut ports: HashMap<u64, Plugged> = HashMap::new();
        let mut next = NUDGE + 1;
        let mut events = Vec::with_capacity(EVENTS);
        let _ = self.thread.set(std::thread::current().id());
        while let Some(arrived) = self.arrivals() {
            for mut port in arrived {
                let (key, wants) = (epoll::EventData::new_u64(next), Wants::Read);
                if epoll::add(&self.epoll, port.stream(), key, wants.flags()).is_err() {
                    port.end();
                    continue;
                }
                let mut plugged = Plugged { port, wants };
                // The peer may have written already.
                if self.turn((next, &mut plugged), true) {
                    ports.insert(next, plugged);
                }
                next += 1;
            }
            // Before what waits for it leaves.
            self.attend();
            ports.retain(|key, plugged| !plugged.has_work() || self.turn((*key, plugged), false));
            self.park(&ports, &mut events);
            for event in events.drain(..) {
                let key = event.data.u64();
                if key == NUDGE {
                    // Whether there was a number in it or not, it is zero now.
                    let _ = rustix::io::read(&self.nudged, &mut [0; 8]);
                    continue;
                }
                let flags = event.flags;
                let readable = flags != epoll::EventFlags::OUT;
                if let Some(plugged) = ports.get_mut(&key)
                    && !self.turn((key, plugged), readable)
                {
                    ports.remove(&key);
                }
            }
        }
        for plugged in ports.values_mut() {
            self.end(plugged);
        }
    }

    /// What was plugged in since it was last looked; `None` once the card is stopped.
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

    /// Waits until there is something to do.
    fn park(&self, ports: &HashMap<u64, Plugged>, events: &mut Vec<epoll::Event>) {
        self.parked.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let busy = ports.values().any(Plugged::has_work)
            || self.has_news()
            || self.called.load(Ordering::Relaxed);
        let timeout = busy.then_some(&AT_ONCE);
        match epoll::wait(&self.epoll, spare_capacity(events), timeout) {
            Ok(_) | Err(Errno::INTR) => {}
            // The descriptors are its own and open; whatever it is, the processor is not kept busy with it.
            Err(_) => std::thread::yield_now(),
        }
        self.parked.store(false, Ordering::Relaxed);
    }

    fn has_news(&self) -> bool {
        let state = self.state.lock();
        state.stopped || !state.arriving.is_empty()
    }

    /// A port's turn; whether it goes on.
    fn turn(&self, (key, plugged): (u64, &mut Plugged), readable: bool) -> bool {
        let stream_wants = plugged.port.turn(readable).and_then(|wants| {
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

    fn end(&self, plugged: &mut Plugged) {
        // Others may have duplicates of the descriptor.
        let _ = epoll::delete(&self.epoll, plugged.port.stream());
        plugged.port.end();
    }
}
