use std::sync::Arc;

use super::super::BOOT;
use super::super::layout::CHUNK_BYTES;
use super::*;
use crate::ShmFabric;
use crate::fabric::Fabric;
use crate::segment::{SegmentId, Writer};
use crate::sync::Ordering;
use crate::{Memory, MemoryStore};

const INCARNATION: u64 = 3;
const ME: MachineId = MachineId(1);
const PEER: MachineId = MachineId(2);
/// More than three chunks.
const REGION_WORDS: usize = 2 << 20;
const RING_WORDS: usize = 700;
const RING: SegmentId = SegmentId::new(SegmentId::RING, 4, 2);

fn region(number: u32) -> SegmentId {
    SegmentId::new(SegmentId::REGION, 0, number)
}

struct Host {
    directory: tempfile::TempDir,
    nvram: Nvram,
}

impl Host {
    fn new() -> Host {
        let directory = tempfile::tempdir().expect("a directory");
        let root = directory.path();
        let nvram = Nvram::saving_in(&root.join("memory"), &root.join("saves"));
        let nvram = nvram.expect("directories");
        nvram.begin(INCARNATION, b"map").expect("an incarnation");
        Host { directory, nvram }
    }

    fn path(&self, place: &str) -> PathBuf {
        self.directory.path().join(place)
    }

    /// Starts a machine, writes its memory and ends it.
    fn live(&self, machine: MachineId, word: u64) {
        let living = self.nvram.join(INCARNATION).expect("an incarnation");
        let home = self.nvram.home_in(INCARNATION, machine, [], living);
        let fabric = ShmFabric::at(home.expect("its directory")).expect("a machine");
        let provide = |segment, words, writer| {
            let memory = fabric.provide(segment, words, writer);
            memory.expect("memory")
        };
        for number in 0..2 {
            let memory = provide(region(number), REGION_WORDS, Writer::Owner);
            for at in written() {
                let value = word + u64::from(number) + at as u64;
                memory.words()[at].store(value, Ordering::Relaxed);
            }
        }
        let ring = provide(RING, RING_WORDS, Writer::Peer(PEER));
        ring.words()[RING_WORDS - 1].store(word, Ordering::Relaxed);
    }

    /// Returns whether a machine's memory exists; checks that it is as written.
    fn has(&self, machine: MachineId, word: u64) -> bool {
        let remains = self
            .nvram
            .after(INCARNATION)
            .retained(machine)
            .expect("is read");
        let value = |memory: &Memory, at: usize| memory.words()[at].load(Ordering::Relaxed);
        let Some(ring) = remains.get(RING) else {
            assert!((0..2).all(|number| remains.get(region(number)).is_none()));
            return false;
        };
        assert_eq!(ring.len(), RING_WORDS);
        assert_eq!(value(ring, RING_WORDS - 1), word);
        for number in 0..2 {
            let memory: &Arc<Memory> = remains.get(region(number)).expect("as the ring is");
            assert_eq!(memory.len(), REGION_WORDS);
            for at in written() {
                assert_eq!(value(memory, at), word + u64::from(number) + at as u64);
            }
            assert_eq!(value(memory, REGION_WORDS / 2), 0);
        }
        true
    }

    /// Simulates a boot of the host: its memory is gone.
    fn boot(&self) {
        fs::remove_dir_all(self.path("memory")).expect("it was there");
        let boot = self.nvram.record(INCARNATION).join(BOOT);
        fs::write(boot, "another").expect("is written");
        fs::create_dir_all(self.path("memory/regions")).expect("a directory");
    }

    fn load(&self, machine: MachineId) -> Result<Option<u64>, String> {
        let loaded = self.nvram.load(INCARNATION, machine);
        loaded.map_err(|error| error.to_string())
    }

    fn save(&self, machine: MachineId) -> SaveOutcome {
        self.nvram.save(INCARNATION, machine).expect("is saved")
    }
}

/// Returns the indexes of the written words of a region: more than a chunk, some grains, and the
/// last word.
fn written() -> impl Iterator<Item = usize> {
    let words = CHUNK_BYTES as usize / 8;
    let grains = (REGION_WORDS * 3 / 4..REGION_WORDS).step_by(20_000);
    (0..words + 5000).chain(grains).chain([REGION_WORDS - 1])
}

#[test]
fn memory_that_was_saved_is_there_after_the_host_has_booted() {
    let host = Host::new();
    host.live(ME, 100);
    host.live(PEER, 900);
    let SaveOutcome::Now(bytes) = host.save(ME) else {
        panic!("another process saves");
    };
    // Memory that was never written is not saved.
    assert!(bytes > 2 * CHUNK_BYTES && bytes < (2 * REGION_WORDS * 8) as u64 * 3 / 4);
    assert_eq!(host.save(ME), SaveOutcome::Before);
    // Existing memory has precedence over a save.
    assert_eq!(host.load(ME), Ok(None));
    host.boot();
    assert!(!host.has(ME, 100) && !host.has(PEER, 900));
    assert_eq!(host.load(ME), Ok(Some(bytes)));
    assert_eq!(host.load(PEER), Ok(None));
    assert!(host.has(ME, 100) && !host.has(PEER, 900));
    assert_eq!(host.load(ME), Ok(None));
    // After a second boot the loaded memory is gone, too.
    host.boot();
    assert_eq!(host.load(ME), Ok(Some(bytes)));
    assert!(host.has(ME, 100));
}

#[test]
fn memory_that_is_newer_than_a_save_is_left_alone() {
    let host = Host::new();
    host.live(ME, 100);
    host.save(ME);
    // This change after the save belongs to the same incarnation.
    let regions = host.path("memory/regions/m1");
    let name = format!("{:016x}", region(1).raw());
    let file = OpenOptions::new().write(true).open(regions.join(&name));
    let file = file.expect("it is there");
    file.write_all_at(&7u64.to_le_bytes(), 0)
        .expect("is written");
    assert_eq!(host.load(ME), Ok(None));
    let left = fs::read(regions.join(name)).expect("is read");
    assert_eq!(left[..8], 7u64.to_le_bytes());
    // The save is not loaded in a later incarnation.
    host.nvram
        .begin(INCARNATION + 1, &[])
        .expect("an incarnation");
    host.boot();
    assert_eq!(
        host.nvram.last(u64::MAX).expect("lives"),
        Some(INCARNATION + 1)
    );
    assert!(matches!(host.nvram.load(INCARNATION + 1, ME), Ok(None)));
    assert!(host.nvram.has_ever_lived(ME).expect("lives"));
    host.nvram
        .forget_before(INCARNATION + 1, &[])
        .expect("forgotten");
    assert!(!host.nvram.has_ever_lived(ME).expect("lives"));
    assert_eq!(host.load(ME), Ok(None));
}

#[test]
fn damaged_save_is_refused_with_file_and_offset() {
    let host = Host::new();
    host.live(ME, 100);
    host.save(ME);
    host.boot();
    let [memory, manifest] =
        [MEMORY, MANIFEST].map(|name| host.path("saves/incarnation-3/m1").join(name));
    let refused = |file: &Path, at: u64, why: &str| {
        let error = host.load(ME).expect_err("it is damaged");
        assert_eq!(error, format!("{}: byte {at}: {why}", file.display()));
        assert!(!host.has(ME, 100));
        assert!(!host.nvram.is_intact(INCARNATION, ME));
        // Refused memory takes no space.
        assert!(!host.path("memory/regions/m1").exists());
    };
    let bend = |path: &Path, at: u64| {
        let file = OpenOptions::new().read(true).write(true).open(path);
        let file = file.expect("it is there");
        let mut byte = [0];
        file.read_exact_at(&mut byte, at).expect("is read");
        byte[0] ^= 4;
        file.write_all_at(&byte, at).expect("is written");
    };
    let length = fs::metadata(&memory).expect("it is there").len();
    for at in [0, CHUNK_BYTES + 77, length - 4096] {
        bend(&memory, at);
        let chunk = at / CHUNK_BYTES * CHUNK_BYTES;
        refused(&memory, chunk, "the checksum is not what it was");
        bend(&memory, at);
    }
    bend(&manifest, 30);
    let error = host.load(ME).expect_err("it is damaged");
    assert!(error.contains("it is no manifest"), "{error}");
    bend(&manifest, 30);
    assert!(host.load(ME).is_ok_and(|loaded| loaded.is_some()));
    assert!(host.has(ME, 100));
    host.boot();
    // The manifest belongs to another machine.
    let other = host.path("saves/incarnation-3/m2");
    fs::create_dir_all(&other).expect("a directory");
    fs::copy(&manifest, other.join(MANIFEST)).expect("is copied");
    let error = host.load(PEER).expect_err("it is m1's");
    assert!(error.contains("another machine"), "{error}");
    let file = OpenOptions::new().write(true).open(&memory);
    let file = file.expect("it is there");
    file.set_len(length - 4096).expect("is cut");
    let last = (length - 1) / CHUNK_BYTES * CHUNK_BYTES;
    refused(&memory, last, "it ends before here");
    fs::remove_file(&memory).expect("it was there");
    refused(&memory, 0, "it is not there");
    // A save without a manifest was not completed.
    fs::remove_file(&manifest).expect("it was there");
    assert_eq!(host.load(ME), Ok(None));
    assert!(!host.has(ME, 100));
}

#[test]
fn interrupted_load_is_repeated() {
    let host = Host::new();
    host.live(ME, 100);
    host.save(ME);
    host.boot();
    host.load(ME).expect("is loaded");
    // This is the state before the end of a load.
    fs::write(host.nvram.loading(INCARNATION, ME), "").expect("is written");
    fs::remove_file(
        host.path("memory/incarnation-3/m1")
            .join(format!("{:016x}.m2", RING.raw())),
    )
    .expect("it was there");
    assert!(!host.has(ME, 100));
    assert!(host.load(ME).is_ok_and(|loaded| loaded.is_some()));
    assert!(host.has(ME, 100));
}

#[test]
fn save_excludes_other_saves_and_starts() {
    let host = Host::new();
    host.live(ME, 100);
    let place = host.path("saves/incarnation-3/m1");
    fs::create_dir_all(&place).expect("a directory");
    let other = File::create(place.join(SAVING)).expect("a file");
    other.lock().expect("no other process has the lock");
    assert_eq!(host.save(ME), SaveOutcome::ByAnother);
    // The other process was killed during the save.
    fs::write(place.join(MEMORY), [1; 10_000]).expect("is written");
    drop(other);
    assert!(matches!(host.save(ME), SaveOutcome::Now(_)));
    host.boot();
    assert!(host.load(ME).is_ok_and(|loaded| loaded.is_some()));
    assert!(host.has(ME, 100));
    let savers = [(); 2].map(|()| host.nvram.enter_to_save().expect("no process begins"));
    std::thread::scope(|scope| {
        let begins = scope.spawn(|| host.nvram.enter().map(drop));
        std::thread::sleep(super::super::POLL_INTERVAL);
        assert!(!begins.is_finished());
        drop(savers);
        begins.join().expect("ends").expect("it was its turn");
    });
}
