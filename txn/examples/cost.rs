//! What the steps of a transaction cost on this machine: `cargo run --release -p fencepost-txn
//! --example cost`.

use std::time::{Duration, Instant};

use fencepost_txn::{Addr, FatPtr, Machine, MachineOptions, Mode};
use pollster::block_on;

const OBJECTS: usize = 1_000_000;
const WORDS: usize = 5;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let machine = Machine::open(MachineOptions::default())?;
    let mut coordinator = machine.coordinator();
    let mut objects: Vec<FatPtr> = Vec::with_capacity(OBJECTS);
    let began = Instant::now();
    while objects.len() < OBJECTS {
        let mut tx = coordinator.begin(Mode::ReadWrite);
        for _ in 0..1000 {
            let ptr = tx.alloc(WORDS, Addr::NULL)?;
            tx.write_new(ptr, &[objects.len() as u64; WORDS])?;
            objects.push(ptr);
        }
        block_on(tx.commit())?;
    }
    report("allocate (1,000 a transaction)", OBJECTS, began.elapsed());

    let mut out = Vec::new();
    let mut next = draws();
    run("read lock-free", || {
        machine.read_lockfree(objects[next()], &mut out);
        Ok(())
    })?;
    run("begin, read 1, commit (read-only)", || {
        let mut tx = coordinator.begin(Mode::ReadOnly);
        block_on(tx.read(objects[next()].addr, &mut out))?;
        block_on(tx.commit()).map(drop)
    })?;
    run("begin, read 1, write it, commit", || {
        let mut tx = coordinator.begin(Mode::ReadWrite);
        let addr = objects[next()].addr;
        block_on(tx.read(addr, &mut out))?;
        block_on(tx.write(addr, &[1; WORDS]))?;
        block_on(tx.commit()).map(drop)
    })?;
    run("begin, read 4, write 2, commit", || {
        let mut tx = coordinator.begin(Mode::ReadWrite);
        for i in 0..4 {
            let addr = objects[next()].addr;
            block_on(tx.read(addr, &mut out))?;
            if i < 2 {
                block_on(tx.write(addr, &[1; WORDS]))?;
            }
        }
        block_on(tx.commit()).map(drop)
    })?;
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

fn run(what: &str, mut f: impl FnMut() -> Result<(), fencepost_txn::Stop>) -> Result<(), fencepost_txn::Stop> {
    const COUNT: usize = 1_000_000;
    let began = Instant::now();
    for _ in 0..COUNT {
        f()?;
    }
    report(what, COUNT, began.elapsed());
    Ok(())
}

fn report(what: &str, count: usize, took: Duration) {
    println!("{what:<36} {:>8.0} ns {:>10.2} M/s", took.as_nanos() as f64 / count as f64, count as f64 / took.as_secs_f64() / 1e6);
}
