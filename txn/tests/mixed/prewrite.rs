//! Large transactions, whose new objects are in the log before LOCK, and the writes that re-routing
//! adds.

use std::sync::Arc;

use fencepost_fabric::{CrashLoss, SimDisk};
use fencepost_txn::{
    Addr, FatPtr, Machine, Mode, NodeKind, ObjectLocation, Outcome, Refusal, RerouteFuture,
    Revalidate, Stop, Timestamp, Transaction, View,
};
use pollster::block_on;

use crate::crash::open;

/// A node kind that accepts no patch on a node that has moved. Re-routing writes the patch into a
/// new object and into an earlier new object. If the patch names an object to stamp, re-routing
/// only stamps that.
struct RejectingKind;

static RESTLESS: RejectingKind = RejectingKind;

/// Word of the root with the object that re-routing creates, and word with the first object of the
/// load.
const MADE: usize = 0;
const FIRST: usize = 2;

impl NodeKind for RejectingKind {
    fn id(&self) -> u8 {
        79
    }

    fn admits(&self, _: &View<'_>, _: Timestamp) -> bool {
        true
    }

    fn apply(&self, op: &[u64], image: &mut [u64]) -> Result<(), Refusal> {
        if image[0] != 0 {
            return Err(Refusal::Full);
        }
        image[0] = op[0];
        Ok(())
    }

    fn timestamp_word(&self) -> Option<usize> {
        Some(2)
    }

    fn stamp(&self, image: &mut [u64], w: Timestamp) {
        image[2] = w.raw();
    }

    fn revalidate(&self, _: &[u64], _: &View<'_>) -> Revalidate {
        Revalidate::Invalid
    }

    fn reroute<'a>(&'static self, tx: &'a mut Transaction, addr: Addr) -> RerouteFuture<'a> {
        Box::pin(async move {
            let taken = tx.take_patches(addr);
            for op in taken.ops() {
                if op[1] != 0 {
                    tx.stamp_with(Addr::from_raw(op[1]), &RESTLESS)?;
                    continue;
                }
                let made = tx.alloc(3, ObjectLocation::Own).await?;
                tx.write_new(made, op)?;
                let first = Addr::from_raw(op[2]);
                tx.update(first, |image| image[0] = op[0]).await?;
                let root = tx.machine().root();
                tx.update(root, |image| {
                    image[MADE..FIRST].copy_from_slice(&made.to_words())
                })
                .await?;
            }
            tx.made_anew(taken);
            Ok(())
        })
    }
}

fn node(machine: &Arc<Machine>) -> Addr {
    let mut tx = machine.coordinator().begin(Mode::ReadWrite);
    let ptr = block_on(tx.alloc(3, ObjectLocation::Own)).expect("memory");
    assert!(matches!(block_on(tx.commit()), Ok(Outcome::Committed(_))));
    ptr.addr
}

/// Creates 5000 objects and patches a node; re-routing will change or stamp the first of them.
async fn load(tx: &mut Transaction, node: Addr, stamps: bool) -> Result<Addr, Stop> {
    let mut first = FatPtr::NULL;
    for i in 0..5000 {
        let ptr = tx.alloc(12, ObjectLocation::Own).await?;
        tx.write_new(ptr, &[i; 12])?;
        if i == 0 {
            first = ptr;
        }
    }
    let root = tx.machine().root();
    tx.update(root, |image| image[FIRST] = first.addr.raw())
        .await?;
    let stamped = if stamps { first.addr.raw() } else { 0 };
    let op = [77, stamped, first.addr.raw()];
    assert_eq!(tx.patch(node, &RESTLESS, &op).await?, Ok(()));
    Ok(first.addr)
}

#[test]
fn re_routing_after_prewrite_is_logged() {
    let disk = SimDisk::new(9);
    let machine = open(&disk);
    let node = node(&machine);
    let mut tx = machine.coordinator().begin(Mode::ReadWrite);
    block_on(load(&mut tx, node, false)).expect("no conflict");
    let mut other = machine.coordinator().begin(Mode::ReadWrite);
    block_on(other.write(node, &[1])).expect("no conflict");
    assert!(matches!(
        block_on(other.commit()),
        Ok(Outcome::Committed(_))
    ));
    assert!(matches!(block_on(tx.commit()), Ok(Outcome::Committed(_))));
    disk.crash(CrashLoss::All);
    drop(machine);
    let machine = open(&disk);
    let mut tx = machine.coordinator().begin(Mode::ReadOnly);
    let mut read = |addr: Addr| {
        let mut words = Vec::new();
        assert_eq!(
            block_on(tx.read(addr, &mut words)),
            Ok(true),
            "{addr} is there"
        );
        words
    };
    let root = read(machine.root());
    assert_eq!(read(Addr::from_raw(root[MADE]))[0], 77);
    let first = read(Addr::from_raw(root[FIRST]));
    assert_eq!((first[0], first[1]), (77, 0));
    assert_eq!(read(node)[0], 1);
    assert_eq!(machine.inventory().objects.len(), 5003);
}

#[test]
fn re_routed_stamp_after_prewrite_is_logged() {
    let disk = SimDisk::new(10);
    let machine = open(&disk);
    let node = node(&machine);
    let mut tx = machine.coordinator().begin(Mode::ReadWrite);
    let first = block_on(load(&mut tx, node, true)).expect("no conflict");
    let mut other = machine.coordinator().begin(Mode::ReadWrite);
    block_on(other.write(node, &[1])).expect("no conflict");
    assert!(matches!(
        block_on(other.commit()),
        Ok(Outcome::Committed(_))
    ));
    let Ok(Outcome::Committed(w)) = block_on(tx.commit()) else {
        panic!("nothing is in its way");
    };
    disk.crash(CrashLoss::All);
    drop(machine);
    let machine = open(&disk);
    let mut words = Vec::new();
    let mut tx = machine.coordinator().begin(Mode::ReadOnly);
    assert_eq!(block_on(tx.read(first, &mut words)), Ok(true));
    assert_eq!(words[..3], [0, 0, w.raw()]);
}
