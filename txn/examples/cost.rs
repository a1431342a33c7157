//! The cost of the steps of a transaction on this machine: `cargo run --release -p fencepost-txn
//! --example cost`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use fencepost_txn::{FatPtr, Machine, MachineOptions, Mode, ObjectLocation, Stop};
use pollster::block_on;

const OBJECTS: usize = 1_000_000;
const WORDS: usize = 5;
const COUNT: usize = 1_000_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // One future for everything: entering an executor costs as much as a small transaction.
    block_on(measure(Machine::open(MachineOptions::default())?)).map_err(Into::into)
}

async fn measure(machine: Arc<Machine>) -> Result<(), Stop> {
    let mut coordinator = machine.coordinator();
    let mut objects: Vec<FatPtr> = Vec::with_capacity(OBJECTS);
    let began = Instant::now();
    while objects.len() < OBJECTS {
        let mut tx = coordinator.begin(Mode::ReadWrite);
        for _ in 0..1000 {
            let ptr = tx.alloc(WORDS, ObjectLocation::Own).await?;
            tx.write_new(ptr, &[objects.len() as u64; WORDS])?;
            objects.push(ptr);
        }
        tx.commit().await?;
    }
    report("allocate (1,000 a transaction)", OBJECTS, began.elapsed());

    let mut out = Vec::new();
    let mut next = draws();
    let began = Instant::now();
    for _ in 0..COUNT {
        block_on(machine.read_lockfree(objects[next()], &mut out)).expect("reached");
    }
    report("read lock-free", COUNT, began.elapsed());

    for (what, mode, reads, writes) in [
        ("begin, commit", Mode::ReadOnly, 0, 0),
        ("begin, read 1, commit (read-only)", Mode::ReadOnly, 1, 0),
        ("begin, read 1, write it, commit", Mode::ReadWrite, 1, 1),
        ("begin, read 4, write 2, commit", Mode::ReadWrite, 4, 2),
    ] {
        let began = Instant::now();
        for _ in 0..COUNT {
            let mut tx = coordinator.begin(mode);
            for i in 0..reads {
                let addr = objects[next()].addr;
                tx.read(addr, &mut out).await?;
                if i < writes {
                    tx.write(addr, &[1; WORDS]).await?;
                }
            }
            tx.commit().await?;
        }
        report(what, COUNT, began.elapsed());
    }
    Ok(())
}

fn draws() -> impl FnMut() -> usize {
    let mut state = 88_172_645_463_325_252u64;
    move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % OBJECTS as u64) as usize
    }
}

fn report(what: &str, count: usize, took: Duration) {
    println!(
        "{what:<36} {:>8.0} ns {:>10.2} M/s",
        took.as_nanos() as f64 / count as f64,
        count as f64 / took.as_secs_f64() / 1e6
    );
}
