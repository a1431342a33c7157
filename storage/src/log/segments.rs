//! The segment files: their names, their creation, their reuse.
//!
//! *Picture.*
//!
//! ```text
//!   spare-K.seg ──header, space, sync──► log-N.seg ──checkpoint passed──► spare-K.seg or removed
//! ```
//!
//! *Invariants.* LOG-5: a file has a `log-` name only once its header is durable, so a bad header
//! under that name is damage.
//!
//! *Concurrency.* The filler makes segments, the checkpointer retires them, and the flusher opens
//! them. One mutex guards the list; no file is made under it.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use fencepost_fabric::{Disk, DiskFile};
use parking_lot::Mutex;

use super::error::LogError;
use super::format::{SEGMENT_HEADER_BYTES, SegmentHeader};

const LOG_PREFIX: &str = "log-";
const SPARE_PREFIX: &str = "spare-";
const SUFFIX: &str = ".seg";
/// Most retired segments that are kept for reuse; further ones are removed.
const SPARES_MAX: usize = 4;

pub(super) fn segment_name(number: u64) -> String {
    format!("{LOG_PREFIX}{number:012}{SUFFIX}")
}

/// Returns the number in a segment file's name.
pub(super) fn segment_number(name: &str) -> Option<u64> {
    name.strip_prefix(LOG_PREFIX)?
        .strip_suffix(SUFFIX)?
        .parse()
        .ok()
}

fn spare_number(name: &str) -> Option<u64> {
    name.strip_prefix(SPARE_PREFIX)?
        .strip_suffix(SUFFIX)?
        .parse()
        .ok()
}

/// All segment files of an open log.
pub(super) struct Segments {
    disk: Arc<dyn Disk>,
    pub log_id: u64,
    pub segment_bytes: u64,
    list: Mutex<List>,
}

#[derive(Default)]
struct List {
    live: BTreeMap<u64, Arc<dyn DiskFile>>,
    spares: Vec<String>,
    spares_named: u64,
}

impl Segments {
    pub fn new(disk: Arc<dyn Disk>, log_id: u64, segment_bytes: u64) -> Self {
        Self {
            disk,
            log_id,
            segment_bytes,
            list: Mutex::default(),
        }
    }

    /// Takes over the files of a recovered log: those in `live` stay, other segments become spares.
    pub fn adopt(&self, live: BTreeMap<u64, Arc<dyn DiskFile>>) -> Result<(), LogError> {
        let names = self.disk.list().map_err(LogError::io(self.disk.path("")))?;
        let spares: Vec<String> = names
            .iter()
            .filter(|name| spare_number(name).is_some())
            .cloned()
            .collect();
        let highest = spares.iter().filter_map(|name| spare_number(name)).max();
        let mut list = self.list.lock();
        list.spares_named = highest.map_or(0, |number| number.saturating_add(1));
        list.spares = spares;
        drop(list);
        let dead = names
            .iter()
            .rev()
            .filter(|name| segment_number(name).is_some_and(|number| !live.contains_key(&number)));
        for name in dead {
            self.retire(name)?;
        }
        self.disk
            .sync_dir()
            .map_err(LogError::io(self.disk.path("")))?;
        self.list.lock().live = live;
        Ok(())
    }

    /// Returns the file of a segment that was made and not retired.
    pub fn file(&self, number: u64) -> Option<Arc<dyn DiskFile>> {
        self.list.lock().live.get(&number).cloned()
    }

    /// Makes the next segment, with at least `space` bytes allocated. Returns the number of
    /// allocated bytes. Stale bytes of the file's earlier use may follow the header.
    pub fn make(&self, number: u64, space: u64) -> io::Result<u64> {
        let spare = self.list.lock().spares.pop();
        let (name, used) = match spare {
            Some(name) => (name, true),
            None => (self.new_spare_name(), false),
        };
        match self.prepare(&name, used, number, space) {
            Ok((file, allocated)) => {
                self.list.lock().live.insert(number, file);
                Ok(allocated)
            }
            Err(error) => {
                // The file is half-made: keep it for the next attempt.
                self.list.lock().spares.push(name);
                Err(error)
            }
        }
    }

    fn prepare(
        &self,
        name: &str,
        used: bool,
        number: u64,
        space: u64,
    ) -> io::Result<(Arc<dyn DiskFile>, u64)> {
        let file = match if used {
            self.disk.open(name)
        } else {
            self.disk.create(name)
        } {
            Err(error) if used && error.kind() == io::ErrorKind::NotFound => {
                self.disk.create(name)?
            }
            opened => opened?,
        };
        let (log_id, segment_bytes) = (self.log_id, self.segment_bytes);
        let page = SegmentHeader {
            log_id,
            segment_bytes,
            number,
        }
        .encode();
        file.write_at(0, &page)?;
        let mut allocated =
            file.len()?.min(segment_bytes) / SEGMENT_HEADER_BYTES * SEGMENT_HEADER_BYTES;
        if allocated < space {
            file.zero_fill(allocated, space)?;
            allocated = space;
        }
        file.sync_all()?;
        self.disk.rename(name, &segment_name(number))?;
        self.disk.sync_dir()?;
        Ok((file, allocated))
    }

    /// Retires every segment below `number`.
    pub fn retire_below(&self, number: u64) -> Result<(), LogError> {
        let mut list = self.list.lock();
        let live = list.live.split_off(&number);
        let dead = std::mem::replace(&mut list.live, live);
        drop(list);
        if dead.is_empty() {
            return Ok(());
        }
        for number in dead.keys() {
            self.retire(&segment_name(*number))?;
        }
        self.disk
            .sync_dir()
            .map_err(LogError::io(self.disk.path("")))
    }

    fn retire(&self, name: &str) -> Result<(), LogError> {
        let disposed = if self.list.lock().spares.len() < SPARES_MAX {
            let spare = self.new_spare_name();
            let renamed = self.disk.rename(name, &spare);
            if renamed.is_ok() {
                self.list.lock().spares.push(spare);
            }
            renamed
        } else {
            self.disk.remove(name)
        };
        disposed.map_err(LogError::io(self.disk.path(name)))
    }

    fn new_spare_name(&self) -> String {
        let mut list = self.list.lock();
        list.spares_named += 1;
        format!("{SPARE_PREFIX}{}{SUFFIX}", list.spares_named - 1)
    }
}
