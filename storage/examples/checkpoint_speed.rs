//! Measures how fast a checkpoint of a million objects is written and loaded.
//!
//! `cargo run --release -p fencepost-storage --example checkpoint_speed [DIR] [OBJECTS]`

use std::error::Error;
use std::path::PathBuf;
use std::time::Instant;

use fencepost_fabric::{Disk, OsDisk};
use fencepost_storage::checkpoint::{Plan, load, read_manifest, write};
use fencepost_storage::classes::Class;
use fencepost_storage::header::{Header, LinkWord, OldVersionPtr};
use fencepost_storage::lanes::{LaneResources, Lanes};
use fencepost_storage::log::{LogOptions, LogRecovery, RequiredLog};
use fencepost_storage::region::Regions;
use fencepost_storage::{Account, Addr, Timestamp};

const PAYLOAD_WORDS: usize = 16;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let dir = arguments
        .next()
        .map_or_else(std::env::temp_dir, PathBuf::from);
    let objects: u64 = arguments
        .next()
        .map_or(Ok(1_000_000), |text| text.parse())?;
    let dir = tempfile::tempdir_in(dir)?;
    let disk = OsDisk::open(dir.path())?;
    let checkpoints = disk.subdir("checkpoint")?;
    let recovery = LogRecovery::open(
        disk.subdir("log")?,
        &LogOptions::default(),
        RequiredLog::default(),
    )?;
    let (log, _) = recovery.finish(Box::new(|| 0))?;
    let regions = Regions::new(1 << 30);
    furnish(&regions, objects)?;
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    let plan = Plan {
        begin: log.position(),
        clock: &|| Timestamp::from_raw(objects),
        threads,
        bytes_per_second: None,
        stop: &|| false,
    };
    let start = Instant::now();
    let manifest = write(&*checkpoints, &regions, &log, &plan)?;
    report("write", objects, manifest.bytes, start);
    for _ in 0..3 {
        let start = Instant::now();
        let manifest = read_manifest(&*checkpoints)?.ok_or("the checkpoint is there")?;
        let regions = Regions::new(1 << 30);
        let loaded = load(&*checkpoints, &manifest, &regions, threads, &|_| true)?;
        report("load", loaded, manifest.bytes, start);
    }
    Ok(())
}

fn furnish(regions: &Regions, objects: u64) -> Result<(), Box<dyn Error>> {
    let (lanes, account) = (Lanes::new(1), Account::new(64 << 30));
    let class = Class::for_payload(PAYLOAD_WORDS).ok_or("a class for small objects")?;
    let mut lane = lanes.enter(0);
    let supply = LaneResources {
        regions,
        account: &account,
        oldest: &|| Timestamp::ZERO,
        may_reuse_blocks: &|| true,
    };
    for i in 1..=objects {
        let addr = lane.alloc(supply, class, Addr::NULL)?;
        let object = regions.object(addr).ok_or("the slot is there")?;
        object.put(0, &[i; PAYLOAD_WORDS]);
        let header = Header(0).succeed(Timestamp::from_raw(i), true);
        object.finish_install(header, LinkWord::new(1, OldVersionPtr::NONE));
    }
    Ok(())
}

fn report(what: &str, objects: u64, bytes: u64, start: Instant) {
    let seconds = start.elapsed().as_secs_f64();
    println!(
        "{what} {objects} objects, {} MB: {:.0} ms, {:.0} MB/s",
        bytes / 1_000_000,
        seconds * 1e3,
        bytes as f64 / seconds / 1e6
    );
}
