//! A small database over storage alone: locks, a log of whole objects, replay by version.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fencepost_fabric::SimDisk;
use fencepost_storage::checkpoint::{self, CheckpointError, Manifest, Plan};
use fencepost_storage::classes::Class;
use fencepost_storage::header::{Header, LinkWord, OldVersionPtr};
use fencepost_storage::lanes::{LaneResources, Lanes};
use fencepost_storage::log::{Log, LogError, LogOptions, LogRecovery, Lsn, RequiredLog};
use fencepost_storage::region::{BlockId, MIN_REGION_BYTES, Regions};
use fencepost_storage::{Account, Addr, Timestamp};

/// Every object that was ever written, with its payload, or `None` once it is freed.
pub type Model = BTreeMap<Addr, Option<Vec<u64>>>;

pub struct TestStore {
    pub disk: SimDisk,
    pub regions: Regions,
    pub lanes: Lanes,
    pub account: Account,
    pub clock: AtomicU64,
    pub log: Log,
    /// Objects loaded from a checkpoint when it was opened.
    pub loaded: u64,
}

pub fn options() -> LogOptions {
    LogOptions {
        segment_bytes: 256 << 10,
        fill_ahead_bytes: 64 << 10,
        ..LogOptions::default()
    }
}

impl TestStore {
    /// Opens what is on the disk.
    pub fn open(disk: &SimDisk) -> Result<TestStore, CheckpointError> {
        let regions = Regions::new(MIN_REGION_BYTES);
        let disk = disk.boot();
        let checkpoints = disk.inside("checkpoint");
        let manifest = checkpoint::read_manifest(&checkpoints)?;
        let (mut newest, mut loaded, mut needed) = (0, 0, RequiredLog::default());
        if let Some(manifest) = manifest {
            loaded = checkpoint::load(&checkpoints, &manifest, &regions, 3, &|_| true)?;
            (newest, needed) = (manifest.clock.raw(), manifest.needed());
        }
        let mut recovery = LogRecovery::open(Arc::new(disk.inside("log")), &options(), needed)?;
        while let Some(chunk) = recovery.next_chunk()? {
            for record in chunk.records() {
                let words: &[u64] = bytemuck::cast_slice(record.body);
                newest = newest.max(words[1]);
                replay(&regions, record.kind, words);
            }
        }
        let (log, _) = recovery.finish(Box::new(|| 0))?;
        let lanes = Lanes::new(4);
        let account = Account::new(1 << 30);
        regions.adopt_blocks(&lanes, &account);
        Ok(TestStore {
            disk,
            regions,
            lanes,
            account,
            clock: AtomicU64::new(newest),
            log,
            loaded,
        })
    }

    pub fn alloc(&self, lane: usize, words: usize) -> Addr {
        let class = Class::for_payload(words).expect("small");
        let mut lane = self.lanes.enter(lane);
        let supply = LaneResources {
            regions: &self.regions,
            account: &self.account,
            oldest: &|| Timestamp::ZERO,
            may_reuse_blocks: &|| true,
        };
        lane.alloc(supply, class, Addr::NULL)
            .expect("there is room")
    }

    /// Commits one write: lock, timestamp, log, install. `None` frees the object.
    pub fn write(&self, addr: Addr, payload: Option<&[u64]>) -> Result<Lsn, LogError> {
        let object = self.regions.object(addr).expect("a slot");
        let seen = loop {
            let seen = object.header().unlocked();
            if object.try_lock(seen).is_ok() {
                break seen;
            }
            std::thread::yield_now();
        };
        let now = self.clock.fetch_add(1, Ordering::SeqCst) + 1;
        let class = self.regions.class_of(addr).expect("a block");
        let head = [addr.raw(), now, u64::from(class.0)];
        let parts: [&[u8]; 2] = [
            bytemuck::cast_slice(&head),
            bytemuck::cast_slice(payload.unwrap_or_default()),
        ];
        let logged = self.log.append(&[(u8::from(payload.is_some()), &parts)]);
        if logged.is_err() {
            object.unlock(seen);
            return logged;
        }
        object.begin_install();
        object.clear();
        object.put(0, payload.unwrap_or_default());
        let header = seen.succeed(Timestamp::from_raw(now), payload.is_some());
        object.finish_install(header, LinkWord::new(7, OldVersionPtr::NONE));
        logged
    }

    pub fn checkpoint(&self) -> Result<Manifest, CheckpointError> {
        let plan = Plan {
            begin: self.log.position(),
            clock: &|| Timestamp::from_raw(self.clock.load(Ordering::SeqCst)),
            threads: 3,
            bytes_per_second: None,
            stop: &|| false,
        };
        checkpoint::write(
            &self.disk.inside("checkpoint"),
            &self.regions,
            &self.log,
            &plan,
        )
    }

    /// Compares every object that was ever written.
    pub fn check(&self, model: &Model) {
        for (addr, payload) in model {
            let object = self.regions.object(*addr).expect("the block is back");
            assert_eq!(object.header().is_allocated(), payload.is_some(), "{addr}");
            let Some(payload) = payload else { continue };
            let mut words = vec![0; object.len()];
            object.copy(0, &mut words);
            assert_eq!(&words[..payload.len()], payload, "{addr}");
            assert!(
                words[payload.len()..].iter().all(|word| *word == 0),
                "{addr}"
            );
            assert_eq!(object.link().incarnation(), 7);
        }
    }
}

fn replay(regions: &Regions, kind: u8, words: &[u64]) {
    let (addr, now) = (Addr::from_raw(words[0]), Timestamp::from_raw(words[1]));
    regions
        .restore_block(BlockId::of(addr), Class(words[2] as u8))
        .expect("fits");
    let object = regions.object(addr).expect("the block is there");
    if object.header().timestamp() < now {
        object.clear();
        object.put(0, &words[3..]);
        object.finish_install(
            Header(0).succeed(now, kind == 1),
            LinkWord::new(7, OldVersionPtr::NONE),
        );
    }
}
