//! Tests of the attendant on a card's thread.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

use super::tests::{config, connected, join, start, until, wait};
use super::*;

/// An attendant that reports each call with its thread, and asks for `more` further calls.
struct Counts {
    calls: Sender<Option<String>>,
    more: AtomicU32,
}

impl ArrivalHandler for Counts {
    fn attend(&self) -> bool {
        let name = std::thread::current().name().map(str::to_owned);
        let _ = self.calls.send(name);
        let left = |more: u32| more.checked_sub(1);
        self.more
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, left)
            .is_ok()
    }
}

fn attendant(more: u32) -> (Box<Counts>, Receiver<Option<String>>) {
    let (calls, called) = channel();
    let more = AtomicU32::new(more);
    (Box::new(Counts { calls, more }), called)
}

#[test]
fn arrived_data_is_handled_by_the_agent() {
    let (a, b) = (start(&config(1)), start(&config(2)));
    let segment = SegmentId::new(1, 0, 0);
    let memory = b.provide(segment, 8, Writer::Peer(a.me()));
    let memory = memory.expect("memory");
    let (attends, called) = attendant(2);
    assert!(b.set_attendant(attends));
    assert!(!b.set_attendant(attendant(0).0), "there is one");
    join(&[&a, &b]);
    until(|| connected(&a, &b));
    let place = Place {
        machine: b.me(),
        segment,
        word: 0,
    };
    wait(a.write(place, &[7])).expect("connected");
    a.ring_bell(b.me());
    let on_agent = || called.recv().expect("it is called");
    // It is called once for the bell, and as often as it asks for.
    for _ in 0..3 {
        assert_eq!(on_agent().as_deref(), Some("card m2"));
    }
    assert_eq!(memory.words()[0].load(Ordering::Acquire), 7);
    b.ring_bell(b.me());
    assert_eq!(on_agent().as_deref(), Some("card m2"));
}

#[test]
fn handler_is_not_called_while_a_post_waits_for_space() {
    let a = start(&config(1));
    let (attends, called) = attendant(0);
    assert!(a.set_attendant(attends));
    let agent = &a.shared.lane_agents[ORDINARY];
    assert!(agent.may_wait());
    let armed = a.bell().arm();
    a.ring_bell(a.me());
    // Without the bell this wait would not end.
    a.bell().wait(armed, Duration::from_secs(600));
    assert!(called.try_recv().is_err());
    agent.has_waited();
    a.ring_bell(a.me());
    called.recv().expect("it is called");
}

#[test]
fn no_post_waits_for_space_in_the_handler() {
    struct Tries(Arc<AgentCell>, Sender<bool>);
    type AgentCell = std::sync::OnceLock<Arc<OneSidedAgent>>;
    impl ArrivalHandler for Tries {
        fn attend(&self) -> bool {
            let agent = self.0.get().expect("set before it is called");
            let _ = self.1.send(agent.may_wait());
            false
        }
    }
    let a = start(&config(1));
    let (may, heard) = channel();
    let agent = Arc::new(AgentCell::new());
    assert!(
        agent
            .set(Arc::clone(&a.shared.lane_agents[ORDINARY]))
            .is_ok()
    );
    assert!(a.set_attendant(Box::new(Tries(agent, may))));
    a.ring_bell(a.me());
    assert!(!heard.recv().expect("it is called"));
    let agent = &a.shared.lane_agents[ORDINARY];
    until(|| {
        let may = agent.may_wait();
        if may {
            agent.has_waited();
        }
        may
    });
}
