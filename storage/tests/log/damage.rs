//! Cut anywhere, flipped anywhere, missing anything: a prefix of whole records, or a refusal
//! that says where.

use fencepost_fabric::{Disk, Random, SimDisk};
use fencepost_storage::log::{LogError, Lsn, RequiredLog};

use crate::support::{RecoveredRecord, SEGMENT_BYTES, from, open, read, segment_files, written};

/// The LSN range of the file with this index.
fn place(index: usize, offset: u64) -> u64 {
    index as u64 * SEGMENT_BYTES + offset
}

#[test]
fn truncated_log_keeps_every_whole_record() {
    let (disk, all) = written(1, 60);
    let files = segment_files(&disk);
    let (last, bytes) = last_used(&disk, &files, &all);
    for cut in 0..=bytes {
        let cut_disk = disk.fork();
        for beyond in &files[last + 1..] {
            cut_disk.remove(beyond).expect("the file is there");
        }
        cut_disk.cut(&files[last], cut);
        let (found, report) =
            read(&cut_disk, RequiredLog::default()).expect("a cut is no corruption");
        let whole = all
            .iter()
            .filter(|record| record.end() <= place(last, cut))
            .count();
        assert_eq!(found, all[..whole], "cut at {cut}");
        assert!(
            report.end.raw() <= place(last, cut).max(4096),
            "cut at {cut}"
        );
    }
}

#[test]
fn truncated_log_continues_after_last_whole_record() {
    let (disk, all) = written(2, 40);
    let files = segment_files(&disk);
    let (last, bytes) = last_used(&disk, &files, &all);
    for cut in (0..=bytes).step_by(97) {
        let disk = disk.fork();
        for beyond in &files[last + 1..] {
            disk.remove(beyond).expect("the file is there");
        }
        disk.cut(&files[last], cut);
        for incarnation in 0..3u8 {
            let (log, before) =
                open(&disk, RequiredLog::default()).expect("a cut is no corruption");
            let end = log
                .append(&[(100 + incarnation, &[b"after", b"wards"])])
                .expect("there is room");
            log.wait_flushed_blocking(end).expect("the disk is well");
            drop(log);
            let (found, report) = read(&disk, RequiredLog::default()).expect("the log is whole");
            assert_eq!(found[..before.len()], before, "cut at {cut}");
            assert_eq!(
                (found.len(), report.end),
                (before.len() + 1, end),
                "cut at {cut}"
            );
            assert_eq!(found[before.len()].body, b"afterwards");
        }
    }
}

#[test]
fn flipped_byte_is_reported_unless_in_last_batch_or_padding() {
    let (disk, all) = written(3, 50);
    let files = segment_files(&disk);
    let (last, bytes) = last_used(&disk, &files, &all);
    let last_batch = last_batch_start(&disk, &files[last], last);
    let mut random = Random::new(3);
    let (mut named, mut torn, mut harmless) = (0, 0, 0);
    for (index, file) in files[..=last].iter().enumerate() {
        let end = if index == last { bytes } else { SEGMENT_BYTES };
        for at in 0..end {
            let bad = disk.fork();
            bad.flip(file, at, 1 << random.below(8));
            match read(&bad, RequiredLog::default()) {
                Err(LogError::Corrupt {
                    file: reported,
                    offset,
                    ..
                }) => {
                    named += 1;
                    assert_eq!(&reported, file, "flip at {at}");
                    assert!(offset <= at, "flip at {at}, told {offset}");
                    let far = at - offset;
                    assert!(far < 4096, "flip at {at}, told {offset}");
                }
                Err(other) => panic!("flip in {file} at {at}: {other}"),
                Ok((found, _)) if found == all => harmless += 1,
                Ok((found, _)) => {
                    torn += 1;
                    assert!(
                        place(index, at) >= last_batch,
                        "flip in {file} at {at} went unseen"
                    );
                    let kept = all.iter().filter(|record| record.lsn < last_batch).count();
                    assert!(found.len() >= kept, "flip at {at} lost records before it");
                    assert_eq!(found, all[..found.len()], "flip at {at}");
                }
            }
        }
    }
    assert!(
        named > 10_000 && torn > 50 && harmless > 1_000,
        "{named} {torn} {harmless}"
    );
}

#[test]
fn missing_parts_of_the_log_are_refused() {
    let (disk, all) = written(4, 80);
    let files = segment_files(&disk);
    let without = |index: usize| {
        let disk = disk.fork();
        disk.remove(&files[index]).expect("the file is there");
        disk
    };
    let missing = read(&without(0), RequiredLog::default()).expect_err("the beginning is gone");
    assert!(missing.to_string().contains(&files[0]), "{missing}");
    let gap = read(&without(1), RequiredLog::default()).expect_err("the middle is gone");
    assert!(matches!(gap, LogError::Corrupt { .. }), "{gap}");
    // Replay from behind the hole does not need what is gone.
    let begin = all
        .iter()
        .find(|record| record.lsn >= place(2, 0))
        .expect("a third segment");
    let needed = from(Lsn::from_raw(begin.lsn));
    let (found, _) = read(&without(0), needed).expect("the rest is whole");
    assert_eq!(found.first(), Some(begin));
    // A log that ends before what is known to have been durable has lost something.
    let through = RequiredLog {
        from: Lsn::ZERO,
        through: Lsn::from_raw(all[all.len() - 1].end() + 1),
    };
    assert!(matches!(
        read(&disk, through),
        Err(LogError::Corrupt { .. })
    ));
    let nothing = read(&SimDisk::new(1), needed).expect_err("there is no log at all");
    assert!(matches!(nothing, LogError::Missing { .. }), "{nothing}");
}

#[test]
fn replay_may_begin_at_any_record() {
    let (disk, all) = written(5, 60);
    for (i, record) in all.iter().enumerate() {
        let (found, report) =
            read(&disk, from(Lsn::from_raw(record.lsn))).expect("the log is whole");
        assert_eq!(found, all[i..]);
        assert_eq!(report.records, (all.len() - i) as u64);
    }
}

/// The last segment with records in it, and how far it is used.
fn last_used(disk: &SimDisk, files: &[String], all: &[RecoveredRecord]) -> (usize, u64) {
    let end = all[all.len() - 1].end();
    let last = (end / SEGMENT_BYTES) as usize;
    assert!(
        last >= 2 && last < files.len(),
        "the test wants some segments"
    );
    let len = disk
        .bytes(&files[last])
        .map_or(0, |bytes| bytes.len() as u64);
    (last, len.min(end % SEGMENT_BYTES + 600))
}

/// Where the last batch begins: the last 512-byte boundary with its magic.
fn last_batch_start(disk: &SimDisk, file: &str, index: usize) -> u64 {
    let bytes = disk.bytes(file).expect("the file is there");
    let starts = (4096..bytes.len()).step_by(512);
    let mut batches = starts.filter(|&at| bytes[at..].starts_with(b"FencBat\x01"));
    place(index, batches.next_back().expect("a batch") as u64)
}
