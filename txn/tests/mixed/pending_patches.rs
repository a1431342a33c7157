//! Pending patches whose re-routing future is dropped or fails.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use fencepost_txn::{
    AbortReason, Addr, Machine, MachineOptions, Mode, NodeKind, ObjectLocation, Outcome, Refusal,
    RerouteFuture, Revalidate, Stop, Timestamp, Transaction, View,
};
use pollster::block_on;

/// A node has a flag that it is closed, and a sum. A patch adds to the sum. It also names the node
/// that it goes to once this one is closed, and says whether its re-routing fails.
struct Sum;

static SUM: Sum = Sum;

impl NodeKind for Sum {
    fn id(&self) -> u8 {
        80
    }

    fn admits(&self, _: &View<'_>, _: Timestamp) -> bool {
        false
    }

    fn apply(&self, op: &[u64], image: &mut [u64]) -> Result<(), Refusal> {
        if image[0] != 0 {
            return Err(Refusal::Full);
        }
        image[1] += op[0];
        Ok(())
    }

    fn revalidate(&self, _: &[u64], _: &View<'_>) -> Revalidate {
        Revalidate::Invalid
    }

    fn reroute<'a>(&'static self, tx: &'a mut Transaction, addr: Addr) -> RerouteFuture<'a> {
        Box::pin(async move {
            let taken = tx.take_patches(addr);
            let mut waited = false;
            poll_fn(|_| match std::mem::replace(&mut waited, true) {
                true => Poll::Ready(()),
                false => Poll::Pending,
            })
            .await;
            for op in taken.ops() {
                if op[2] != 0 {
                    return Err(Stop::Retry(AbortReason::NodeConflict));
                }
                let done = tx.patch(Addr::from_raw(op[1]), &SUM, op).await?;
                assert_eq!(done, Ok(()));
            }
            tx.made_anew(taken);
            Ok(())
        })
    }
}

/// Two nodes that will be closed, and the node to which their patches are re-routed.
struct World {
    machine: Arc<Machine>,
    closing: [Addr; 2],
    open: Addr,
}

fn poll<T>(future: Pin<&mut impl Future<Output = T>>) -> Poll<T> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// Polls a future to its end, also if it is pending without a waker.
fn finish<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(done) = poll(future.as_mut()) {
            return done;
        }
    }
}

impl World {
    fn new() -> World {
        let options = MachineOptions {
            region_bytes: 16 << 20,
            ..MachineOptions::default()
        };
        let machine = Machine::open(options).expect("memory tier opens");
        let mut tx = machine.coordinator().begin(Mode::ReadWrite);
        let [a, b, open] = [(); 3].map(|()| {
            block_on(tx.alloc(2, ObjectLocation::Own))
                .expect("memory")
                .addr
        });
        assert!(matches!(block_on(tx.commit()), Ok(Outcome::Committed(_))));
        World {
            machine,
            closing: [a, b],
            open,
        }
    }

    /// Adds 5 to one of the nodes that will be closed, and 7 to the other.
    fn patch(&self, tx: &mut Transaction, fails: bool) {
        for (addr, amount) in self.closing.into_iter().zip([5, 7]) {
            let op = [amount, self.open.raw(), u64::from(fails)];
            assert_eq!(block_on(tx.patch(addr, &SUM, &op)), Ok(Ok(())));
        }
    }

    fn begin(&self) -> Transaction {
        self.machine.coordinator().begin(Mode::ReadWrite)
    }

    fn close(&self) {
        let mut tx = self.begin();
        for addr in self.closing {
            block_on(tx.update(addr, |image| image[0] = 1)).expect("no conflict");
        }
        assert!(matches!(block_on(tx.commit()), Ok(Outcome::Committed(_))));
    }

    fn sum(&self) -> u64 {
        let mut words = Vec::new();
        let mut tx = self.machine.coordinator().begin(Mode::ReadOnly);
        assert_eq!(block_on(tx.read(self.open, &mut words)), Ok(true));
        words[1]
    }
}

/// Drops a refresh in the middle of the first re-routing.
fn cut_off(tx: &mut Transaction) {
    assert!(poll(pin!(tx.refresh())).is_pending());
}

fn is_refused(tx: Transaction) {
    let refused = Outcome::Aborted(AbortReason::Interrupted);
    assert_eq!(finish(tx.commit()), Ok(refused));
}

#[test]
fn transaction_with_lost_patches_cannot_commit() {
    let world = World::new();
    let mut tx = world.begin();
    world.patch(&mut tx, false);
    world.close();
    cut_off(&mut tx);
    // A savepoint from after the loss does not help.
    let late = tx.savepoint();
    tx.rollback_to(&late);
    is_refused(tx);

    let world = World::new();
    let mut coordinator = world.machine.coordinator();
    let mut tx = coordinator.begin(Mode::ReadWrite);
    world.patch(&mut tx, true);
    world.close();
    let stopped = Err(Stop::Retry(AbortReason::NodeConflict));
    assert_eq!(finish(tx.refresh()), stopped);
    is_refused(tx);
    assert_eq!(world.sum(), 0);
    // The next transaction of the coordinator is not affected.
    let mut tx = coordinator.begin(Mode::ReadWrite);
    let op = [1, 0, 0];
    assert_eq!(block_on(tx.patch(world.open, &SUM, &op)), Ok(Ok(())));
    assert!(matches!(finish(tx.commit()), Ok(Outcome::Committed(_))));
    assert_eq!(world.sum(), 1);
}

#[test]
fn rollback_to_earlier_savepoint_restores_lost_patches() {
    for reads in [false, true] {
        let world = World::new();
        let mut tx = world.begin();
        world.patch(&mut tx, false);
        let savepoint = tx.savepoint();
        world.close();
        cut_off(&mut tx);
        tx.rollback_to(&savepoint);
        if reads {
            let mut words = Vec::new();
            for (addr, seen) in [(world.closing[1], [1, 0]), (world.open, [0, 12])] {
                assert_eq!(finish(tx.read(addr, &mut words)), Ok(true));
                assert_eq!(words[..2], seen);
            }
        }
        assert!(matches!(finish(tx.commit()), Ok(Outcome::Committed(_))));
        assert_eq!(world.sum(), 12, "reads: {reads}");
    }
}

#[test]
fn re_routed_patches_commit() {
    let world = World::new();
    let mut tx = world.begin();
    world.patch(&mut tx, false);
    world.close();
    assert_eq!(finish(tx.refresh()), Ok(()));
    assert!(matches!(finish(tx.commit()), Ok(Outcome::Committed(_))));
    assert_eq!(world.sum(), 12);
}
