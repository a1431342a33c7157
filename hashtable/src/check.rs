//! Checking a whole table in one snapshot, while writers may run.

use std::collections::HashSet;

use fencepost_storage::{Addr, View};
use fencepost_txn::{Problem, Stop, Transaction, Work};

use crate::grow::Shard;
use crate::hash;
use crate::image;
use crate::layout::{Bucket, Root, low_bits};
use crate::table::{HashTable, MAX_CHAIN};

/// The result of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The inconsistencies that were found; empty if there are none.
    pub problems: Vec<Problem>,
    /// Number of keys.
    pub entries: u64,
    /// Number of keys in overflow blocks.
    pub chained: u64,
    /// Number of overflow blocks.
    pub blocks: u64,
    /// Number of shards.
    pub shards: u64,
    /// Number of keys in percent of the slots of all homes.
    pub occupancy_percent: u64,
    /// Addresses of all objects of the table.
    pub addresses: Vec<Addr>,
}

/// Most problems that are reported one by one.
const MAX_PROBLEMS: usize = 1000;

/// The properties of a bucket that are compared with its neighbour.
struct PreviousBucket {
    forward: u16,
    away: u16,
    /// Number of its keys that were found outside it.
    met: u16,
}

impl HashTable {
    /// Walks every bucket and block and checks the table. Each key must be in its shard, and in its
    /// home, the next bucket or the home's chain. No key may exist twice. Joint versions and counts
    /// must agree, and all objects must be on one machine. Inconsistencies are in the report; they
    /// are no errors.
    ///
    /// # Errors
    /// As [`Transaction::view`]; [`Stop::Damaged`] if no table is at the root.
    pub fn check<'a>(&'a self, tx: &'a mut Transaction) -> Work<'a, Result<Report, Stop>> {
        Box::pin(async move {
            let mut report = Report::default();
            let (root, shards) = self.shards(tx).await?;
            report.addresses.extend([self.root, root.directory]);
            report.shards = shards.len() as u64;
            let share: f64 = shards
                .iter()
                .map(|shard| 0.5f64.powi(i32::from(shard.depth)))
                .sum();
            if (share - 1.0).abs() > 1e-9 {
                report.note(root.directory, "the shards do not cover every hash once");
            }
            for shard in &shards {
                self.check_shard(tx, &root, shard, &mut report).await?;
            }
            let home = tx.machine().primary_of(self.root);
            // After a failure the objects may be on several machines.
            let first = tx.machine().members().configuration == 1;
            for i in 0..report.addresses.len() {
                let at = report.addresses[i];
                if first && tx.machine().primary_of(at) != home {
                    report.note(at, "it is not on the machine of the table");
                }
            }
            let slots = report.shards * (root.buckets * root.shape.slots) as u64;
            report.occupancy_percent = (report.entries * 100).checked_div(slots).unwrap_or(0);
            Ok(report)
        })
    }

    async fn check_shard(
        &self,
        tx: &mut Transaction,
        root: &Root,
        shard: &Shard,
        report: &mut Report,
    ) -> Result<(), Stop> {
        let mut keys = HashSet::new();
        let mut before = PreviousBucket {
            forward: 0,
            away: 0,
            met: 0,
        };
        for index in 0..=root.buckets {
            let at = root.bucket(shard.first, index);
            let (image, _) = self.copy(tx, at).await?;
            report.addresses.push(at);
            let versions = image::versions(&image);
            let mut current = PreviousBucket {
                forward: versions.forward,
                away: versions.away,
                met: 0,
            };
            let whole = image::with(&image, self.root, |bucket| {
                (bucket.depth, bucket.prefix(), bucket.index())
                    == (shard.depth, shard.prefix, index)
                    && !bucket.is_block
            });
            if whole != Some(true) {
                report.note(at, "is not the bucket that it should be");
            }
            if index > 0 && versions.backward != before.forward {
                report.note(at, "has another joint version than the bucket before it");
            }
            for key in keys_of(&image, self.root) {
                let home = root.home(hash::hash(&key));
                if home + 1 == index {
                    before.met += 1;
                } else if home != index {
                    report.note(at, format!("has key {key:02x?} of bucket {home}"));
                }
                report.take(at, shard, &mut keys, key);
            }
            if index > 0 && before.away != before.met {
                report.note(
                    at,
                    format!(
                        "{} keys of the bucket before it are elsewhere, not {}",
                        before.met, before.away
                    ),
                );
            }
            let mut block = image::chain(&image);
            for _ in 0..MAX_CHAIN {
                if block.is_null() {
                    break;
                }
                let (image, _) = self.copy(tx, block.addr).await?;
                report.addresses.push(block.addr);
                report.blocks += 1;
                let inside = keys_of(&image, self.root);
                if inside.is_empty() {
                    report.note(block.addr, "is an empty overflow block");
                }
                for key in inside {
                    if root.home(hash::hash(&key)) != index {
                        report.note(block.addr, format!("has key {key:02x?} of another bucket"));
                    }
                    current.met += 1;
                    report.chained += 1;
                    report.take(block.addr, shard, &mut keys, key);
                }
                block = image::chain(&image);
            }
            before = current;
        }
        Ok(())
    }
}

fn keys_of(image: &[u64], root: Addr) -> Vec<Vec<u8>> {
    let view = View::Own(image);
    let Some(bucket) = Bucket::open(&view, root) else {
        return Vec::new();
    };
    let used = (0..bucket.shape.slots).filter(|slot| !bucket.is_free(*slot));
    used.map(|slot| {
        let mut key = Vec::new();
        bucket.append_key(slot, &mut key);
        key
    })
    .collect()
}

impl Report {
    fn note(&mut self, node: Addr, what: impl Into<String>) {
        if self.problems.len() < MAX_PROBLEMS {
            self.problems.push(Problem {
                node,
                what: what.into(),
            });
        }
    }

    fn take(&mut self, at: Addr, shard: &Shard, keys: &mut HashSet<Vec<u8>>, key: Vec<u8>) {
        self.entries += 1;
        if low_bits(hash::hash(&key), shard.depth) != shard.prefix {
            self.note(at, format!("has key {key:02x?} of another shard"));
        }
        if let Some(twice) = keys.replace(key) {
            self.note(at, format!("has key {twice:02x?} a second time"));
        }
    }
}
