//! Opening logs on simulated disks, and bodies that can be told apart.

use std::sync::Arc;

use fencepost_fabric::{Random, SimDisk};
use fencepost_storage::log::{
    Log, LogError, LogOptions, LogRecovery, Lsn, RecoveryReport, RequiredLog,
};

/// One record as recovery gives it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecoveredRecord {
    pub lsn: u64,
    pub kind: u8,
    pub body: Vec<u8>,
}

impl RecoveredRecord {
    /// Where the record ends.
    pub fn end(&self) -> u64 {
        self.lsn + 16 + self.body.len().next_multiple_of(8) as u64
    }
}

pub const SEGMENT_BYTES: u64 = 16 << 10;

pub fn small() -> LogOptions {
    LogOptions {
        segment_bytes: SEGMENT_BYTES,
        fill_ahead_bytes: 4096,
        ..LogOptions::default()
    }
}

/// Reads a log without opening it for writing.
pub fn read(
    disk: &SimDisk,
    needed: RequiredLog,
) -> Result<(Vec<RecoveredRecord>, RecoveryReport), LogError> {
    let mut recovery = LogRecovery::open(Arc::new(disk.boot()), &small(), needed)?;
    let found = collect(&mut recovery)?;
    Ok((found, recovery.report()))
}

/// Recovers a log, and opens it.
pub fn open(disk: &SimDisk, needed: RequiredLog) -> Result<(Log, Vec<RecoveredRecord>), LogError> {
    let mut recovery = LogRecovery::open(Arc::new(disk.boot()), &small(), needed)?;
    let found = collect(&mut recovery)?;
    let (log, _) = recovery.finish(Box::new(|| 0))?;
    Ok((log, found))
}

pub fn from(lsn: Lsn) -> RequiredLog {
    RequiredLog {
        from: lsn,
        through: lsn,
    }
}

fn collect(recovery: &mut LogRecovery) -> Result<Vec<RecoveredRecord>, LogError> {
    let mut found = Vec::new();
    while let Some(chunk) = recovery.next_chunk()? {
        assert_eq!(chunk.len(), chunk.records().count() as u64);
        for record in chunk.records() {
            assert_eq!(record.body.as_ptr() as usize % 8, 0, "bodies are aligned");
            found.push(RecoveredRecord {
                lsn: record.lsn.raw(),
                kind: record.kind,
                body: record.body.to_vec(),
            });
        }
    }
    Ok(found)
}

/// A random body of up to `most` bytes.
pub fn body(random: &mut Random, most: u64) -> Vec<u8> {
    let mut bytes = vec![0; random.below(most + 1) as usize];
    random.fill(&mut bytes);
    bytes
}

/// A closed log of some segments, each append flushed on its own; with what is in it.
pub fn written(seed: u64, appends: usize) -> (SimDisk, Vec<RecoveredRecord>) {
    let (disk, mut random) = (SimDisk::new(seed), Random::new(seed));
    let (log, _) = open(&disk, RequiredLog::default()).expect("a fresh log opens");
    for _ in 0..appends {
        let bodies: Vec<Vec<u8>> = (0..=random.below(4))
            .map(|_| body(&mut random, 300))
            .collect();
        let parts: Vec<[&[u8]; 1]> = bodies.iter().map(|body| [body.as_slice()]).collect();
        let records: Vec<(u8, &[&[u8]])> = parts
            .iter()
            .enumerate()
            .map(|(i, parts)| (i as u8, parts.as_slice()))
            .collect();
        let end = log.append(&records).expect("the disk is well");
        log.wait_flushed_blocking(end).expect("the disk is well");
    }
    log.close().expect("the disk is well");
    drop(log);
    let (found, report) = read(&disk, RequiredLog::default()).expect("the log is whole");
    assert_eq!((report.torn, report.records), (None, found.len() as u64));
    (disk, found)
}

/// Names of the segment files, oldest first.
pub fn segment_files(disk: &SimDisk) -> Vec<String> {
    use fencepost_fabric::Disk;
    let names = disk.list().expect("listing works");
    names
        .into_iter()
        .filter(|name| name.starts_with("log-"))
        .collect()
}
