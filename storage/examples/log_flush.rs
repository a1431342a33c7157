//! Measures what the disk's flushes allow, and what the log makes of them: syncs a second of bare
//! overwrites, and commits a second of 1 … 64 committers that each wait for their own.
//!
//! `cargo run --release -p fencepost-storage --example log_flush [DIR] [SECONDS]`

use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use fencepost_fabric::{Disk, OsDisk};
use fencepost_storage::log::{Log, LogOptions, LogRecovery, RequiredLog};

const BODY_BYTES: usize = 200;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let dir = arguments
        .next()
        .map_or_else(std::env::temp_dir, PathBuf::from);
    let seconds: f64 = arguments.next().map_or(Ok(2.0), |text| text.parse())?;
    let dir = tempfile::tempdir_in(dir)?;
    let disk = OsDisk::open(dir.path())?;
    for bytes in [512, 4096, 16384] {
        let rate = bare_syncs(&disk, bytes, seconds)?;
        println!("bare overwrite + fdatasync of {bytes:>5} B: {rate:>8.0}/s");
    }
    for committers in [1, 2, 4, 8, 16, 32, 64] {
        commits(disk.subdir("log")?, committers, seconds)?;
    }
    bulk(disk.subdir("bulk")?)
}

/// The disk alone: overwrite and sync allocated bytes, one after the other.
fn bare_syncs(disk: &OsDisk, bytes: usize, seconds: f64) -> Result<f64, Box<dyn Error>> {
    let file = disk.create("bare")?;
    file.zero_fill(0, 16 << 20)?;
    file.sync_all()?;
    let block = vec![7; bytes];
    let (start, mut n) = (Instant::now(), 0u64);
    while start.elapsed().as_secs_f64() < seconds {
        file.write_at(n * bytes as u64 % (16 << 20), &block)?;
        file.sync()?;
        n += 1;
    }
    let rate = n as f64 / start.elapsed().as_secs_f64();
    disk.remove("bare")?;
    Ok(rate)
}

fn open(disk: Arc<dyn Disk>) -> Result<Log, Box<dyn Error>> {
    let recovery = LogRecovery::open(disk, &LogOptions::default(), RequiredLog::default())?;
    Ok(recovery.finish(Box::new(|| 0))?.0)
}

/// The log: threads that append one record and wait until it is durable.
fn commits(disk: Arc<dyn Disk>, committers: usize, seconds: f64) -> Result<(), Box<dyn Error>> {
    let log = open(disk)?;
    thread::sleep(Duration::from_millis(100));
    let before = log.counters();
    let (stop, waited_ns) = (AtomicBool::new(false), AtomicU64::new(0));
    let start = Instant::now();
    thread::scope(|scope| {
        for _ in 0..committers {
            scope.spawn(|| {
                let body = [1u8; BODY_BYTES];
                while !stop.load(Ordering::Relaxed) {
                    let begun = Instant::now();
                    let end = log.append(&[(0, &[&body])]).expect("the disk has room");
                    log.wait_flushed_blocking(end).expect("the disk works");
                    waited_ns.fetch_add(begun.elapsed().as_nanos() as u64, Ordering::Relaxed);
                }
            });
        }
        thread::sleep(Duration::from_secs_f64(seconds));
        stop.store(true, Ordering::Relaxed);
    });
    let elapsed = start.elapsed().as_secs_f64();
    let after = log.counters();
    let commits = (after.flushed_records - before.flushed_records) as f64;
    let flushes = (after.flushes - before.flushes) as f64;
    println!(
        "{committers:>3} committers: {:>8.0} commits/s {:>7.0} flushes/s {:>5.1} commits/flush \
         {:>6.0} us/commit",
        commits / elapsed,
        flushes / elapsed,
        commits / flushes,
        waited_ns.into_inner() as f64 / commits / 1e3,
    );
    Ok(())
}

/// Appends and replays many records, without a wait for the disk after each.
fn bulk(disk: Arc<dyn Disk>) -> Result<(), Box<dyn Error>> {
    const RECORDS: u64 = 2_000_000;
    let log = open(Arc::clone(&disk))?;
    let body = [1u8; BODY_BYTES];
    let start = Instant::now();
    for _ in 0..RECORDS {
        log.append(&[(0, &[&body])])?;
    }
    log.wait_flushed_blocking(log.position())?;
    let bytes = log.position().raw() as f64;
    report("append", RECORDS, bytes, start);
    drop(log);
    let start = Instant::now();
    let mut recovery = LogRecovery::open(disk, &LogOptions::default(), RequiredLog::default())?;
    let mut records = 0;
    while let Some(chunk) = recovery.next_chunk()? {
        records += chunk
            .records()
            .map(|record| u64::from(!record.body.is_empty()))
            .sum::<u64>();
    }
    report("replay", records, bytes, start);
    Ok(())
}

fn report(what: &str, records: u64, bytes: f64, start: Instant) {
    let seconds = start.elapsed().as_secs_f64();
    println!(
        "{what} of {records} records: {:.2} M/s, {:.0} MB/s",
        records as f64 / seconds / 1e6,
        bytes / seconds / 1e6
    );
}
