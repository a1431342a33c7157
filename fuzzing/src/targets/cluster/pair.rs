//! Two machines, one of which sends invalid records.
//!
//! Both run on a simulated network in one thread and do the same work for every input: they create,
//! change and free objects on both machines, and call each other. Edits change records in transit:
//! the tag of a record, or a word. The length of a record stays, because the writer has reserved
//! that much space in the ring.
//!
//! ```text
//! edit   record (2) | what (1) | word (1) | a value
//! ```
//!
//! A machine may distrust the other one, and then waits for it. It is only required to continue to
//! run.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use fencepost_fabric::{Fabric, MachineId, Place, SegmentId, SimKnobs, SimNet, TapVerdict};
use fencepost_txn::network::call::Answer;
use fencepost_txn::network::{Configuration, NetworkOptions, Replication, members};
use fencepost_txn::{Addr, Machine, MachineOptions, Mode, ObjectLocation, Outcome};

use crate::targets::bytes::Bytes;

const IDS: [MachineId; 2] = [MachineId(1), MachineId(2)];

/// The maximal number of edits of one input.
const EDITS_MAX: usize = 32;

/// The maximal number of times that the machines are driven for one step of the work.
const DRIVES_MAX: usize = 3_000;

/// A service that reverses bytes.
const SERVICE: u8 = 7;

/// The number of bits of a record's header for its length in words.
const LENGTH_BITS: u32 = 56;

/// A change of a record.
#[derive(Clone, Copy, Debug)]
struct Edit {
    record: u16,
    what: u8,
    word: u8,
    value: u64,
}

/// Two machines and their network.
struct Pair {
    net: SimNet,
    machines: [Arc<Machine>; 2],
}

/// Runs one input.
pub fn run(mut rest: Bytes<'_>) {
    let mut edits = Vec::new();
    while !rest.is_empty() && edits.len() < EDITS_MAX {
        edits.push(Edit {
            record: rest.short(),
            what: rest.byte(),
            word: rest.byte(),
            value: value(&mut rest),
        });
    }
    let Some(pair) = Pair::open() else { return };
    pair.tap(edits);
    let _ = pair.work();
    pair.end();
}

/// Reads a value: a small number, a power of two or a mask, or any number.
fn value(rest: &mut Bytes<'_>) -> u64 {
    match rest.byte() {
        small @ 0..0x80 => u64::from(small),
        bit @ 0x80..0xC0 => 1 << (bit & 63),
        bit @ 0xC0..0xF0 => (1_u64 << (bit & 63)).wrapping_sub(1),
        _ => rest.long(),
    }
}

impl Pair {
    /// Opens both machines as peers.
    fn open() -> Option<Pair> {
        let net = SimNet::new(3, SimKnobs::default());
        let configuration = Configuration::of_process(2).ok()?;
        let known = members(&configuration);
        let mut fabrics: Vec<Arc<dyn Fabric>> = Vec::new();
        for id in IDS {
            fabrics.push(Arc::new(net.join(id).ok()?));
        }
        let mut machines = Vec::new();
        for fabric in fabrics {
            fabric.set_members(&known).ok()?;
            let network = NetworkOptions {
                clock: Arc::new(net.clone()),
                driven: true,
                ..NetworkOptions::of(fabric, configuration.clone(), Replication::exactly(2))
            };
            let machine = Machine::open(MachineOptions {
                region_bytes: 16 << 20,
                lanes: 1,
                network: Some(network),
                ..MachineOptions::default()
            });
            machines.push(machine.ok()?);
        }
        let machines = machines.try_into().ok()?;
        let pair = Pair { net, machines };
        for machine in &pair.machines {
            while !pair.end_of(machine.is_complete())? {
                pair.drive();
            }
            machine.serve(
                SERVICE,
                Arc::new(|_, mut request: Vec<u8>, answer: Answer| {
                    request.reverse();
                    answer.send(&request);
                }),
            );
        }
        Some(pair)
    }

    fn drive(&self) {
        self.net.step();
        for machine in &self.machines {
            machine.drive();
        }
    }

    /// Returns the output of a future; `None` if it waits too long.
    fn end_of<T>(&self, future: impl Future<Output = T>) -> Option<T> {
        let mut future = pin!(future);
        let mut context = Context::from_waker(Waker::noop());
        for _ in 0..DRIVES_MAX {
            if let Poll::Ready(value) = future.as_mut().poll(&mut context) {
                return Some(value);
            }
            self.drive();
        }
        None
    }

    /// Applies the edits to the records that are written from now on.
    fn tap(&self, edits: Vec<Edit>) {
        let mut written = 0;
        self.net
            .tap(Box::new(move |_, place: Place, words: &mut [u64]| {
                if place.segment.kind() == SegmentId::RING {
                    edit_all(words, &edits, &mut written);
                }
                TapVerdict::Goes
            }));
    }

    /// Creates, changes and frees objects, and makes calls. Ends early if a step does not complete.
    fn work(&self) -> Option<()> {
        let mut objects: Vec<Addr> = Vec::new();
        for (at, machine) in self.machines.iter().enumerate() {
            for words in [8, 60 + at, 2_000] {
                objects.extend(self.make(machine, words)?);
            }
        }
        for machine in &self.machines {
            self.change(machine, &objects)?;
        }
        let request = vec![5; 20_000];
        let (first, second) = (&self.machines[0], &self.machines[1]);
        let _ = self.end_of(first.call(IDS[1], SERVICE, &request))?;
        let _ = self.end_of(second.call(IDS[0], SERVICE, b"x"))?;
        let mut coordinator = second.coordinator();
        let mut tx = coordinator.begin(Mode::ReadWrite);
        for object in &objects {
            let _ = self.end_of(tx.free(*object))?;
        }
        let _ = self.end_of(tx.commit())?;
        Some(())
    }

    /// Creates an object of a machine.
    fn make(&self, machine: &Arc<Machine>, words: usize) -> Option<Option<Addr>> {
        let mut coordinator = machine.coordinator();
        let mut tx = coordinator.begin(Mode::ReadWrite);
        let Ok(made) = self.end_of(tx.alloc(words, ObjectLocation::Own))? else {
            return Some(None);
        };
        let written = tx.write_new(made, &vec![1; words]);
        let committed = self.end_of(tx.commit())?;
        let stays = written.is_ok() && matches!(committed, Ok(Outcome::Committed(_)));
        Some(stays.then_some(made.addr))
    }

    /// Reads all objects and changes some, in one transaction.
    fn change(&self, machine: &Arc<Machine>, objects: &[Addr]) -> Option<()> {
        let mut coordinator = machine.coordinator();
        let mut tx = coordinator.begin(Mode::ReadWrite);
        let mut words = Vec::new();
        for (at, object) in objects.iter().enumerate() {
            let _ = self.end_of(tx.read(*object, &mut words))?;
            if at % 2 == 0 {
                let _ = self.end_of(tx.update(*object, |image| image[0] += 1))?;
            }
        }
        let _ = self.end_of(tx.commit())?;
        Some(())
    }

    /// Ends both machines at once, so that neither waits for the other.
    fn end(self) {
        IDS.iter().for_each(|id| self.net.crash(*id));
        drop(self.machines);
    }
}

/// Edits the records of one write, which are numbered from `written` on.
fn edit_all(words: &mut [u64], edits: &[Edit], written: &mut u16) {
    let mut rest = words;
    while let Some((header, behind)) = rest.split_first_mut() {
        let length = (*header & ((1 << LENGTH_BITS) - 1)) as usize;
        let Some((record, next)) = length
            .checked_sub(1)
            .and_then(|words| behind.split_at_mut_checked(words))
        else {
            return;
        };
        for edit in edits.iter().filter(|edit| edit.record == *written) {
            apply(*edit, header, record);
        }
        *written = written.wrapping_add(1);
        rest = next;
    }
}

fn apply(edit: Edit, header: &mut u64, record: &mut [u64]) {
    let length = record.len().max(1);
    let at = usize::from(edit.word) % length;
    match edit.what % 5 {
        0 => {
            let words = *header & ((1 << LENGTH_BITS) - 1);
            *header = words | (edit.value & 63) << LENGTH_BITS;
        }
        1 => record
            .iter_mut()
            .skip(at)
            .take(1)
            .for_each(|word| *word = edit.value),
        2 => record
            .iter_mut()
            .skip(at)
            .take(1)
            .for_each(|word| *word ^= edit.value),
        3 => record
            .iter_mut()
            .skip(at)
            .for_each(|word| *word = edit.value),
        _ => {
            let added = |word: &mut u64| *word = word.wrapping_add(edit.value);
            record.iter_mut().skip(at).take(1).for_each(added);
        }
    }
}

/// Returns all kinds of edits of the first records.
pub fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = vec![Vec::new()];
    for record in 0..60 {
        for what in 0..5 {
            seeds.push(vec![record, 0, what, record % 7, 1 + what + record % 40]);
        }
    }
    seeds
}
