//! A damaged data directory: files with damaged bytes, and logs of records that no machine has
//! written but that have valid checksums.
//!
//! ```text
//! input   form (1) | edits, repeated
//! form 0  edits of the files of a single machine, with a checkpoint
//! form 1  the same for a machine of a cluster
//! form 2  edits of the log records of a single machine
//! form 3  edits of the log records of a machine of a cluster
//! edit of bytes     file (1) | place (2) | what (1) | ...
//! edit of records   record (1) | what (1) | ...
//! ```
//!
//! A machine then opens the directory, commits, ends, and opens it again. Each time it must open or
//! return an error. With damaged bytes, a directory that opened once must open again. Records with
//! valid checksums may contradict each other in a way that only a later commit shows, so they are
//! exempt from this rule.

use std::pin::pin;
use std::sync::{Arc, LazyLock};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use fencepost_cluster::ConfigurationId;
use fencepost_fabric::{Disk, Fabric, MachineId, SimDisk, SimKnobs, SimNet};
use fencepost_storage::Timestamp;
use fencepost_storage::log::{Log, LogOptions, LogRecovery, RequiredLog};
use fencepost_txn::network::disk::{Beginning, Contents, ReadmitPolicy, StoreState};
use fencepost_txn::network::{Configuration, NetworkOptions, Replication, members};
use fencepost_txn::{
    Addr, DurableStorage, Machine, MachineOptions, Mode, ObjectLocation, OpenError, Outcome,
};
use pollster::FutureExt;

use super::bytes::Bytes;

/// Forms from this one on have forged records.
const FORGED: usize = 2;

/// The maximal number of edits of one input.
const EDITS_MAX: usize = 64;

/// The maximal number of records in a log.
const RECORDS_MAX: usize = 500;

/// The size of a region, in bytes.
const REGION_BYTES: usize = 16 << 20;

/// The maximal number of times that a machine looks for other machines, which do not exist.
const LOOKS_MAX: usize = 1_000;

/// The longest time for which a commit waits for the log.
const TIME_LIMIT: Duration = Duration::from_millis(500);
const POLL_INTERVAL: Duration = Duration::from_micros(20);

/// The folder of the log.
const LOG: &str = "log";

/// Words with a meaning in records, besides those of the original log.
const WORDS: [u64; 14] = [
    0,
    1,
    2,
    3,
    1 << 20,
    (1 << 20) + 64,
    1 << 56,
    2 << 56,
    3 << 56 | 1,
    (1 << 56) | (3 << 48) | 8,
    u32::MAX as u64,
    1 << 62,
    1 << 63,
    u64::MAX,
];

/// A record: its kind and its words.
type Record = (u8, Vec<u64>);

/// The directories and log records that inputs edit.
struct Templates {
    alone: SimDisk,
    among: SimDisk,
    records_alone: Vec<Record>,
    records_among: Vec<Record>,
}

static TEMPLATES: LazyLock<Templates> = LazyLock::new(|| {
    let (alone, records_alone) = template(open_alone);
    let (among, records_among) = template(open_among);
    Templates {
        alone,
        among,
        records_alone,
        records_among,
    }
});

/// The longest time until the threads of a dropped machine have ended.
const DROPPED_WITHIN: Duration = Duration::from_secs(30);

/// A function that opens a directory.
type Open = fn(&SimDisk) -> Result<Arc<Machine>, OpenError>;

/// Runs one input.
///
/// # Panics
/// If a directory that was opened does not open again, unless its records are forged.
pub fn run(input: &[u8]) {
    let mut rest = Bytes(input);
    let templates = &*TEMPLATES;
    let form = rest.below(4);
    let (disk, open): (SimDisk, Open) = match form {
        0 => (edited(&templates.alone, &mut rest), open_alone),
        1 => (edited(&templates.among, &mut rest), open_among),
        2 => (written(&templates.records_alone, &mut rest), open_alone),
        _ => (written(&templates.records_among, &mut rest), open_among),
    };
    let opened = open(&disk).map(|machine| {
        // No real machine gets near the end of its clock.
        if machine.now().raw() < Timestamp::MAX.raw() / 2 {
            // A machine without free memory may refuse the commit.
            let _ = write(&machine, 8);
        }
        close(&machine);
    });
    if opened.is_ok() {
        let again = opened_again(&disk, open).map(|machine| close(&machine));
        let may_fail = form >= FORGED && !matches!(again, Err(OpenError::InUse(_)));
        assert!(
            again.is_ok() || may_fail,
            "the directory opens, and then does not: {again:?}"
        );
    }
}

/// Closes a machine. A commit that was not awaited keeps the machine until it has ended.
fn close(machine: &Machine) {
    // A log that has failed returns its error here.
    let _ = machine.close();
}

/// Opens the directory of a dropped machine. A thread of that machine may be the last owner of the
/// directory.
fn opened_again(disk: &SimDisk, open: Open) -> Result<Arc<Machine>, OpenError> {
    let begun = Instant::now();
    loop {
        match open(disk) {
            Err(OpenError::InUse(_)) if begun.elapsed() < DROPPED_WITHIN => {
                std::thread::sleep(Duration::from_millis(1));
            }
            opened => return opened,
        }
    }
}

fn durable(disk: &SimDisk) -> DurableStorage {
    DurableStorage {
        disk: Arc::new(disk.clone()),
        log: log_options(),
        checkpoint_bytes: u64::MAX,
    }
}

fn log_options() -> LogOptions {
    LogOptions {
        segment_bytes: 64 << 10,
        fill_ahead_bytes: 16 << 10,
        buffer_bytes: 64 << 10,
    }
}

/// Opens the directory of a single machine.
fn open_alone(disk: &SimDisk) -> Result<Arc<Machine>, OpenError> {
    Machine::open(MachineOptions {
        region_bytes: REGION_BYTES,
        durable: Some(durable(disk)),
        lanes: 1,
        ..MachineOptions::default()
    })
}

/// Opens the directory of a machine of a cluster, without any other machine.
fn open_among(disk: &SimDisk) -> Result<Arc<Machine>, OpenError> {
    let contents = Contents::read(&durable(disk))?;
    let initial_members = configuration();
    let net = SimNet::new(1, SimKnobs::default());
    let joined = net.join(MachineId(1));
    let fabric: Arc<dyn Fabric> = Arc::new(joined.map_err(|_| OpenError::Begun)?);
    let known = fabric.set_members(&members(&initial_members));
    known.map_err(|_| OpenError::Begun)?;
    let stored = StoreState::Last(ConfigurationId(0));
    let machines = (&initial_members, &initial_members);
    let mut beginning = Beginning::open(contents, &fabric, machines, ReadmitPolicy::Never, stored)?;
    let mut looks = 0;
    let on_disk = loop {
        if let Some(on_disk) = beginning.look().map_err(OpenError::Meet)? {
            break on_disk;
        }
        looks += 1;
        // The log names machines that do not exist.
        if looks > LOOKS_MAX {
            return Err(OpenError::Begun);
        }
        net.step();
    };
    let configuration = on_disk.configuration().clone();
    Machine::open(MachineOptions {
        region_bytes: REGION_BYTES,
        lanes: 1,
        network: Some(NetworkOptions {
            driven: true,
            disk: Some(on_disk),
            ..NetworkOptions::of(fabric, configuration, Replication::exactly(1))
        }),
        ..MachineOptions::default()
    })
}

fn configuration() -> Configuration {
    let configuration = Configuration::of_process(1);
    configuration.unwrap_or_else(|error| panic!("a configuration: {error}"))
}

/// Commits a new object of `words` words, and a change of the root.
fn write(machine: &Arc<Machine>, words: usize) -> Option<Addr> {
    let began = Instant::now();
    while !poll_soon(machine, machine.is_complete())? {
        machine.drive();
        // The machine may need other machines, which do not exist.
        if began.elapsed() > TIME_LIMIT {
            return None;
        }
    }
    let mut coordinator = machine.coordinator();
    let mut tx = coordinator.begin(Mode::ReadWrite);
    let allocated = poll_soon(machine, tx.alloc(words, ObjectLocation::Own))?.ok()?;
    tx.write_new(allocated, &vec![7; words]).ok()?;
    let mut root = Vec::new();
    poll_soon(machine, tx.read(machine.root(), &mut root))?.ok()?;
    *root.first_mut()? = allocated.addr.raw();
    poll_soon(machine, tx.write(machine.root(), &root))?.ok()?;
    match poll_soon(machine, tx.commit())? {
        Ok(Outcome::Committed(_)) => Some(allocated.addr),
        _ => None,
    }
}

/// Drives a machine and returns the output of a future; `None` if it waits too long.
fn poll_soon<T>(machine: &Arc<Machine>, future: impl Future<Output = T>) -> Option<T> {
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    let began = Instant::now();
    while began.elapsed() < TIME_LIMIT {
        if let Poll::Ready(value) = future.as_mut().poll(&mut context) {
            return Some(value);
        }
        if !machine.drive() {
            std::thread::sleep(POLL_INTERVAL);
        }
    }
    None
}

/// Returns the disk of a machine with several commits and a checkpoint between them, and the log
/// records from before the checkpoint.
fn template(open: Open) -> (SimDisk, Vec<Record>) {
    let disk = SimDisk::new(1);
    let machine = open(&disk).unwrap_or_else(|error| panic!("an empty directory: {error}"));
    let mut all = Vec::new();
    for words in [4, 8, 40, 300] {
        all.extend(write(&machine, words));
    }
    assert_eq!(all.len(), 4, "commits");
    if let [changed, freed, ..] = all[..] {
        let mut coordinator = machine.coordinator();
        let mut tx = coordinator.begin(Mode::ReadWrite);
        let done = tx.update(changed, |image| image[1] = 9).block_on().is_ok()
            && tx.free(freed).block_on().is_ok()
            && poll_soon(&machine, tx.commit()).is_some_and(|commit| commit.is_ok());
        assert!(done, "a change");
    }
    let records = records(&disk.fork());
    let taken = machine.checkpoint();
    assert!(matches!(taken, Ok(true)), "a checkpoint");
    let last = write(&machine, 8);
    assert!(last.is_some(), "a commit");
    drop(machine);
    (disk.fork(), records)
}

fn log_of(disk: &SimDisk) -> LogRecovery {
    let folder: Arc<dyn Disk> = Arc::new(disk.inside(LOG));
    let log = LogRecovery::open(folder, &log_options(), RequiredLog::default());
    log.unwrap_or_else(|error| panic!("the log: {error}"))
}

fn records(disk: &SimDisk) -> Vec<Record> {
    let (mut log, mut records) = (log_of(disk), Vec::new());
    while let Ok(Some(chunk)) = log.next_chunk() {
        for record in chunk.records() {
            let words = record.body.chunks_exact(8).map(|word| Bytes(word).long());
            records.push((record.kind, words.collect()));
        }
    }
    assert!(!records.is_empty(), "records in the log");
    records
}

/// Returns a copy of a disk with edited bytes.
fn edited(template: &SimDisk, rest: &mut Bytes<'_>) -> SimDisk {
    let disk = template.fork();
    let files = files(&disk);
    for _ in 0..EDITS_MAX {
        if rest.is_empty() {
            break;
        }
        let Some(name) = rest.pick(&files) else { break };
        let mut bytes = disk.bytes(name).unwrap_or_default();
        let wide = usize::from(rest.short());
        let (what, length) = (rest.byte(), bytes.len().max(1));
        // Small places reach the headers; the others reach the whole file.
        let at = match what & 0x80 {
            0 => wide % length,
            _ => wide * 61 % length,
        };
        edit_bytes(&mut bytes, at, what & 0x7F, rest);
        disk.set_bytes(name, bytes);
    }
    disk
}

fn edit_bytes(bytes: &mut Vec<u8>, at: usize, what: u8, rest: &mut Bytes<'_>) {
    match what % 6 {
        0 => bytes
            .iter_mut()
            .skip(at)
            .take(1)
            .for_each(|byte| *byte ^= 1 << rest.below(8)),
        1 => bytes
            .iter_mut()
            .skip(at)
            .take(1)
            .for_each(|byte| *byte = rest.byte()),
        2 => bytes.truncate(at),
        3 => {
            let number = rest.long().to_le_bytes();
            let to = bytes.iter_mut().skip(at & !7);
            to.zip(number).for_each(|(to, byte)| *to = byte);
        }
        4 => {
            let end = bytes.len().min(at + usize::from(rest.byte()) * 8);
            bytes[at.min(end)..end].fill(0);
        }
        _ => {
            let from = usize::from(rest.short()) % bytes.len().max(1);
            let part: Vec<u8> = bytes.iter().skip(from).take(512).copied().collect();
            let to = bytes.iter_mut().skip(at);
            to.zip(part).for_each(|(to, byte)| *to = byte);
        }
    }
}

/// Returns the names of all files, with their folders.
fn files(disk: &SimDisk) -> Vec<String> {
    let mut files: Vec<String> = Vec::new();
    for folder in ["", "log", "checkpoint"] {
        let inside = match folder {
            "" => disk.list(),
            _ => disk.inside(folder).list(),
        };
        for name in inside.unwrap_or_default() {
            let path = match folder {
                "" => name,
                _ => format!("{folder}/{name}"),
            };
            if disk.bytes(&path).is_some_and(|bytes| !bytes.is_empty()) {
                files.push(path);
            }
        }
    }
    files.sort();
    files
}

/// Returns a disk with a log of edited records.
fn written(template: &[Record], rest: &mut Bytes<'_>) -> SimDisk {
    let mut records = template.to_vec();
    for _ in 0..EDITS_MAX {
        if rest.is_empty() {
            break;
        }
        edit_records(&mut records, rest);
        records.truncate(RECORDS_MAX);
    }
    let disk = SimDisk::new(1);
    // The folders exist even in a new data directory.
    let made = disk.subdir(LOG);
    assert!(made.is_ok(), "a folder");
    if let Err(why) = append(&disk, &records) {
        panic!("the log cannot be written: {why}");
    }
    disk
}

fn append(disk: &SimDisk, records: &[Record]) -> Result<(), Box<dyn std::error::Error>> {
    let mut recovery = log_of(disk);
    while recovery.next_chunk()?.is_some() {}
    let (log, _): (Log, _) = recovery.finish(Box::new(|| 0))?;
    let mut end = log.position();
    for (kind, words) in records {
        let body: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        end = log.append(&[(*kind, &[&body])])?;
    }
    log.wait_flushed_blocking(end)?;
    log.close()?;
    Ok(())
}

fn edit_records(records: &mut Vec<Record>, rest: &mut Bytes<'_>) {
    let at = rest.below(records.len());
    let what = rest.byte();
    let Some(record) = records.get_mut(at) else {
        records.push((what, vec![word(rest); 4]));
        return;
    };
    let place = |length: usize, rest: &mut Bytes<'_>| rest.below(length.max(1));
    match what % 10 {
        0 => record.0 = rest.byte() % 48,
        1 | 2 => {
            let place = place(record.1.len(), rest);
            let word = word(rest);
            record
                .1
                .iter_mut()
                .skip(place)
                .take(1)
                .for_each(|to| *to = word);
        }
        3 => {
            let place = place(record.1.len(), rest);
            let by = rest.byte();
            let change = |to: &mut u64| *to ^= 1 << (by & 63);
            record.1.iter_mut().skip(place).take(1).for_each(change);
        }
        4 => {
            let place = place(record.1.len(), rest);
            record.1.truncate(place);
        }
        5 => {
            let place = place(record.1.len() + 1, rest);
            record.1.insert(place, word(rest));
        }
        6 => drop(records.remove(at)),
        7 => {
            let copy = record.clone();
            records.push(copy);
        }
        8 => {
            let other = rest.below(records.len());
            records.swap(at, other);
        }
        _ => {
            let (kind, count) = (rest.byte() % 48, rest.below(24));
            let words = (0..count).map(|_| word(rest)).collect();
            records.insert(at, (kind, words));
        }
    }
}

/// Reads a word: one with a meaning, a small number, or any number.
fn word(rest: &mut Bytes<'_>) -> u64 {
    match rest.byte() {
        small @ 0..0x80 => u64::from(small),
        some @ 0x80..0xC0 => WORDS[usize::from(some) % WORDS.len()],
        some @ 0xC0..0xE0 => {
            WORDS[usize::from(some) % WORDS.len()].wrapping_add(u64::from(rest.byte()))
        }
        _ => rest.long(),
    }
}

/// Returns edits of all kinds.
pub fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = vec![vec![0], vec![1], vec![2], vec![3]];
    for form in 0..2 {
        for what in 0..6 {
            for file in 0..5 {
                seeds.push(vec![form, file, 17 * what, 2, what, 5, 1, 2, 3, 4, 5, 6, 7]);
                seeds.push(vec![form, file, 3, 9, 0x80 | what, 5, 1, 2, 3, 4, 5, 6, 7]);
            }
        }
    }
    for form in 2..4 {
        for what in 0..10 {
            for record in 0..12 {
                seeds.push(vec![form, record, what, 3, 0x8A, 1, 0xC4, 9]);
            }
        }
    }
    seeds
}
