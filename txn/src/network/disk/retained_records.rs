//! The state that a machine needs before the log behind its checkpoint: its number, and its
//! regions.
//!
//! It is a file of the data directory, written under another name and renamed before each
//! checkpoint counts. Its content may be newer than the checkpoint: then the log repeats it.

use std::io;

use fencepost_cluster::Wire;
use fencepost_cluster::seal::{seal, unseal};
use fencepost_fabric::{Disk, MachineId};
use fencepost_storage::checkpoint::CheckpointError;

use super::record::{self, IncarnationRecord, RegionRecord, RegionsRecord, put_bytes};
use crate::network::message::WordReader;
use crate::record::BadRecord;

const NAME: &str = "MACHINE";
const DRAFT: &str = "MACHINE.tmp";
const MAGIC: [u8; 4] = *b"FpMa";
const VERSION: u16 = 1;

/// The identity of a machine, and its regions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetainedRecords {
    /// Its number; `None` in files of an earlier format.
    pub me: Option<MachineId>,
    pub begun: IncarnationRecord,
    pub holdings: RegionsRecord,
}

impl RetainedRecords {
    /// Writes the file; the previous one stays until the new one is durable.
    pub fn write(&self, disk: &dyn Disk) -> io::Result<()> {
        let mut words = self.begun.encode();
        words.push(self.holdings.held.len() as u64);
        for held in self.holdings.held.values() {
            put_bytes(&mut words, &held.mapping.encode());
        }
        self.holdings.put(&mut words);
        words.extend(self.me.map(|me| u64::from(me.0)));
        let sealed = seal(MAGIC, VERSION, bytemuck::cast_slice(&words));
        let file = disk.create(DRAFT)?;
        file.write_at(0, &sealed)?;
        file.sync_all()?;
        disk.rename(DRAFT, NAME)?;
        disk.sync_dir()
    }

    /// Reads the file; `None` if there is none.
    pub fn read(disk: &dyn Disk) -> Result<Option<RetainedRecords>, CheckpointError> {
        let path = disk.path(NAME);
        let file = match disk.open(NAME) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(CheckpointError::Io { file: path, error }),
        };
        let read = || -> io::Result<Vec<u8>> {
            let mut sealed = vec![0; file.len()? as usize];
            let read = file.read_at(0, &mut sealed)?;
            sealed.truncate(read);
            Ok(sealed)
        };
        let sealed = match read() {
            Ok(sealed) => sealed,
            Err(error) => return Err(CheckpointError::Io { file: path, error }),
        };
        match RetainedRecords::decode(&sealed) {
            Some(retained) => Ok(Some(retained)),
            None => Err(CheckpointError::Corrupt {
                file: path,
                offset: 0,
                what: "what the machine has written down of itself is damaged",
            }),
        }
    }

    fn decode(sealed: &[u8]) -> Option<RetainedRecords> {
        let bytes = unseal(MAGIC, VERSION, sealed).ok()?;
        let words: Vec<u64> = bytes
            .chunks_exact(8)
            .map(|word| u64::from_le_bytes(word.try_into().unwrap_or_default()))
            .collect();
        RetainedRecords::take(&mut WordReader(&words)).ok()
    }

    fn take(reader: &mut WordReader<'_>) -> Result<RetainedRecords, BadRecord> {
        let begun = IncarnationRecord::take(reader)?;
        let count = reader.word()?;
        let one = |_| {
            let mapping = record::take_mapping(reader)?;
            let whole = true;
            Ok((mapping.region, RegionRecord { mapping, whole }))
        };
        let held = (0..count).map(one).collect::<Result<_, BadRecord>>()?;
        // A file of an earlier format ends here.
        let holdings = match reader.0.is_empty() {
            true => RegionsRecord {
                configuration: begun.configuration.clone(),
                held,
            },
            false => RegionsRecord::take(reader)?,
        };
        let me = match reader.0.is_empty() {
            true => None,
            false => u32::try_from(reader.word()?).ok().map(MachineId),
        };
        Ok(RetainedRecords {
            me,
            begun,
            holdings,
        })
    }
}

/// Returns whether a data directory belongs to a machine in a cluster, as far as that is written
/// down.
pub fn is_of_others(disk: &dyn Disk) -> Result<bool, CheckpointError> {
    RetainedRecords::read(disk).map(|retained| retained.is_some())
}

#[cfg(test)]
mod tests {
    use fencepost_cluster::Configuration;
    use fencepost_cluster::few::FewMap;
    use fencepost_fabric::{CrashLoss, SimDisk};
    use fencepost_storage::Timestamp;

    use super::*;

    fn retained(cluster: u64) -> RetainedRecords {
        let configuration = Configuration::of_process(3).expect("machines");
        RetainedRecords {
            me: Some(MachineId(2)),
            begun: IncarnationRecord {
                cluster,
                region_bytes: 16 << 20,
                newest: Timestamp::from_raw(7),
                committed: Vec::new(),
                configuration: configuration.clone(),
            },
            holdings: RegionsRecord {
                configuration,
                held: FewMap::new(),
            },
        }
    }

    #[test]
    fn damaged_retained_records_are_refused() {
        let disk = SimDisk::new(1);
        assert_eq!(RetainedRecords::read(&disk).expect("nothing"), None);
        retained(1).write(&disk).expect("is written");
        retained(2).write(&disk).expect("is written");
        disk.crash(CrashLoss::All);
        assert_eq!(
            RetainedRecords::read(&disk).expect("whole"),
            Some(retained(2))
        );
        let bytes = disk.bytes(NAME).expect("there").len() as u64;
        for at in 0..bytes {
            let bent = disk.fork();
            bent.flip(NAME, at, 4);
            assert!(RetainedRecords::read(&bent).is_err(), "byte {at}");
            let torn = disk.fork();
            torn.cut(NAME, at);
            assert!(RetainedRecords::read(&torn).is_err(), "{at} bytes");
        }
    }
}
