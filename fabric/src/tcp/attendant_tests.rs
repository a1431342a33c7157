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

impl Attendant for Counts {
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
fn what_arrives_is_attended_to_on_the_card() {
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
    let on_card = || called.recv().expect("it is called");
    // It is called once for the bell, and as often as it asks for.
    for _ in 0..3 {
        assert_eq!(on_card().as_deref(), Some("card m2"));
    }
    assert_eq!(memory.words()[0].load(Ordering::Acquire), 7);
    b.ring_bell(b.me());
    assert_eq!(on_card().as_deref(), Some("card m2"));
}

#[test]
fn while_somebody_waits_for_room_it_is_the_pollers_turn() {
    let a = start(&config(1));
    let (attends, called) = attendant(0);
    assert!(a.set_attendant(attends));
    let card = &a.shared.cards[ORDINARY];
    assert!(card.may_wait());
    let armed = a.bell().arm();
    a.ring_bell(a.me());
    // Without the bell this wait would not end.
    a.bell().wait(armed, Duration::from_secs(600));
    assert!(called.try_recv().is_err());
    card.has_waited();
    a.ring_bell(a.me());
    called.recv().expect("it is called");
}

#[test]
fn nobody_waits_for_room_while_it_is_at_work() {
    struct Tries(Arc<OnceCard>, Sender<bool>);
    type OnceCard = std::sync::OnceLock<Arc<OneSidedAgent>>;
    impl Attendant for Tries {
        fn attend(&self) -> bool {
            let card = self.0.get().expect("set before it is called");
            let _ = self.1.send(card.may_wait());
            false
        }
    }
    let a = start(&config(1));
    let (may, heard) = channel();
    let card = Arc::new(OnceCard::new());
    assert!(card.set(Arc::clone(&a.shared.cards[ORDINARY])).is_ok());
    assert!(a.set_attendant(Box::new(Tries(card, may))));
    a.ring_bell(a.me());
    assert!(!heard.recv().expect("it is called"));
    let card = &a.shared.cards[ORDINARY];
    until(|| {
        let may = card.may_wait();
        if may {
            card.has_waited();
        }
        may
    });
}
