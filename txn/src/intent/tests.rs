use super::*;
use Strength::{Share, Update};
use fencepost_storage::RegionId;

fn row(n: u32) -> Addr {
    Addr::new(RegionId(0), n << 6)
}

fn poll(take: &mut QueueWait<'_>) -> Poll<Result<WaitEnd, WouldDeadlock>> {
    Pin::new(take).poll(&mut Context::from_waker(Waker::noop()))
}

fn wish(strength: Strength, yields: bool) -> IntentRequest {
    IntentRequest {
        strength,
        yields,
        has_it: false,
    }
}

impl Intents {
    fn try_write(&self, row: Addr, me: Holder) -> bool {
        self.try_take(row, me, Update)
    }

    /// Waits for an update intent.
    fn write(&self, row: Addr, me: Holder, yields: bool) -> QueueWait<'_> {
        self.take(row, me, wish(Update, yields))
    }
}

#[test]
fn first_come_first_served() {
    let intents = Intents::default();
    assert!(intents.try_write(row(1), 10) && intents.try_write(row(1), 10));
    assert!(!intents.try_write(row(1), 11));
    let mut second = intents.write(row(1), 11, false);
    let mut third = intents.write(row(1), 12, false);
    assert!(poll(&mut second).is_pending() && poll(&mut third).is_pending());
    let queues = intents.queues();
    let places = queues[0]
        .1
        .iter()
        .map(|place| (place.holder, place.granted));
    assert_eq!(
        places.collect::<Vec<_>>(),
        [(10, true), (11, false), (12, false)]
    );
    intents.release(row(1), 10);
    assert!(poll(&mut third).is_pending());
    assert_eq!(poll(&mut second), Poll::Ready(Ok(WaitEnd::Taken)));
    drop(third);
    intents.release(row(1), 11);
    assert!(intents.try_write(row(1), 13));
}

#[test]
fn cycle_of_three_fails_the_closing_wait() {
    let intents = Intents::default();
    for n in 1..=3 {
        assert!(intents.try_write(row(n), u64::from(n)));
    }
    let mut a = intents.write(row(2), 1, false);
    let mut b = intents.write(row(3), 2, false);
    let mut c = intents.write(row(1), 3, false);
    assert!(poll(&mut a).is_pending() && poll(&mut b).is_pending());
    assert_eq!(poll(&mut c), Poll::Ready(Err(WouldDeadlock)));
    intents.release(row(3), 3);
    assert_eq!(poll(&mut b), Poll::Ready(Ok(WaitEnd::Taken)));
}

#[test]
fn cycle_through_any_sharing_holder_is_found() {
    let intents = Intents::default();
    for holder in 1..=3 {
        assert!(intents.try_take(row(1), holder, Share));
    }
    assert!(intents.try_write(row(2), 4) && intents.try_write(row(3), 5));
    // Holder 1 waits for a row of a holder that is in no cycle, holder 2 for the row of the holder
    // that closes the cycle.
    let mut a = intents.write(row(3), 1, true);
    let mut b = intents.write(row(2), 2, true);
    assert!(poll(&mut a).is_pending() && poll(&mut b).is_pending());
    let mut closing = intents.write(row(1), 4, false);
    assert!(poll(&mut closing).is_pending());
    assert_eq!(poll(&mut b), Poll::Ready(Err(WouldDeadlock)));
    assert!(poll(&mut a).is_pending(), "it is in no circle");
    let sharing = intents.take(row(1), 6, wish(Share, false));
    assert_eq!(pollster::block_on(sharing), Ok(WaitEnd::Taken));
}

#[test]
fn second_of_two_upgrades_of_shared_row_fails() {
    let intents = Intents::default();
    assert!(intents.try_take(row(1), 1, Share) && intents.try_take(row(1), 2, Share));
    let more = IntentRequest {
        has_it: true,
        ..wish(Update, false)
    };
    let mut first = intents.take(row(1), 1, more);
    assert!(poll(&mut first).is_pending());
    let mut second = intents.take(row(1), 2, more);
    assert_eq!(poll(&mut second), Poll::Ready(Err(WouldDeadlock)));
    drop(second);
    assert!(intents.is_others(row(1), 1, Update), "it shares it still");
    // A holder that stops waiting for a stronger lock keeps its lock.
    drop(first);
    assert!(intents.is_others(row(1), 2, Update) && !intents.is_others(row(1), 3, Share));
    let mut first = intents.take(row(1), 1, more);
    assert!(poll(&mut first).is_pending());
    intents.release(row(1), 2);
    assert_eq!(poll(&mut first), Poll::Ready(Ok(WaitEnd::Taken)));
    assert!(intents.is_others(row(1), 3, Share));
    intents.release(row(1), 1);
    assert!(intents.is_empty());
}

#[test]
fn waiter_that_leaves_when_granted_passes_intent_on() {
    let intents = Intents::default();
    assert!(intents.try_write(row(1), 1));
    let mut a = intents.write(row(1), 2, false);
    let mut b = intents.write(row(1), 3, false);
    assert!(poll(&mut a).is_pending() && poll(&mut b).is_pending());
    intents.release(row(1), 1);
    drop(a);
    assert_eq!(poll(&mut b), Poll::Ready(Ok(WaitEnd::Taken)));
    assert!(intents.waits.lock().is_empty());
}

#[test]
fn cycle_ends_at_yielding_waiter() {
    let intents = Intents::default();
    assert!(intents.try_write(row(1), 1) && intents.try_write(row(2), 2));
    let mut statement = intents.write(row(1), 2, true);
    assert!(poll(&mut statement).is_pending());
    let mut block = intents.write(row(2), 1, false);
    assert!(poll(&mut block).is_pending(), "the other goes");
    assert_eq!(poll(&mut statement), Poll::Ready(Err(WouldDeadlock)));
    intents.release(row(2), 2);
    assert_eq!(poll(&mut block), Poll::Ready(Ok(WaitEnd::Taken)));

    // If the wait that closes the cycle yields, that wait itself fails.
    assert!(intents.try_write(row(3), 3));
    let mut block = intents.write(row(3), 1, false);
    assert!(poll(&mut block).is_pending());
    let mut statement = intents.write(row(1), 3, true);
    assert_eq!(poll(&mut statement), Poll::Ready(Err(WouldDeadlock)));
    assert!(poll(&mut block).is_pending());
}

#[test]
fn long_waiter_is_reported_at_growing_intervals() {
    let intents = Intents::default();
    let at = Timestamp::from_raw;
    assert!(intents.try_write(row(1), 1));
    let mut second = intents.write(row(1), 2, false);
    assert!(poll(&mut second).is_pending());
    let named = |now| intents.stalled(at(now), 10) == [2];
    let times: Vec<u64> = (100..1000).filter(|now| named(*now)).collect();
    assert_eq!(times, [110, 130, 170, 250, 410, 570, 730, 890]);
}

#[test]
fn deadlock_victim_leaves_only_the_queue_of_its_wait() {
    let intents = Intents::default();
    let far = (7 << 32) | 1;
    assert!(intents.try_write(row(1), far) && intents.try_write(row(2), 3));
    let mut second = intents.write(row(1), 2, true);
    assert!(poll(&mut second).is_pending());
    let step = Step {
        row: row(1),
        yields: true,
        holders: vec![far],
    };
    assert_eq!(intents.step(2), Some(step));
    assert_eq!(intents.step(far), None);
    intents.end_cycle_at(2, row(2));
    assert!(poll(&mut second).is_pending(), "it waits for another row");
    intents.end_cycle_at(2, row(1));
    assert_eq!(intents.step(2), None);
    assert_eq!(poll(&mut second), Poll::Ready(Err(WouldDeadlock)));
    intents.end_cycle_at(2, row(1));
    let mut third = intents.write(row(1), 4, false);
    assert!(poll(&mut third).is_pending() && intents.step(4).is_some());
    intents.release(row(1), far);
    assert_eq!(intents.step(4), None, "its turn has come");
}

#[test]
fn free_row_is_seen_without_locking_the_queue() {
    let intents = Intents::default();
    let held = intents.shards[0].rows.lock();
    assert!(
        !intents.is_others(row(64), 1, Update),
        "it would hang otherwise"
    );
    drop(held);
    assert!(intents.try_write(row(64), 2));
    assert!(intents.is_others(row(64), 1, Update) && !intents.is_others(row(64), 2, Update));
    intents.release(row(64), 2);
    assert!(!intents.is_others(row(64), 1, Update));
}
