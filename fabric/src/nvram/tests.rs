use super::*;
use crate::ring;
use crate::{Fabric, Member, ShmFabric, TcpConfig, TcpFabric, sync::Ordering};

const LANE: u16 = 0;
const WORDS: usize = 64;

fn pair(nvram: &Nvram, incarnation: u64, regions: &[u32]) -> [Arc<dyn Fabric>; 2] {
    let members = [1, 2].map(|id| Member {
        id: MachineId(id),
        address: String::new(),
    });
    members.clone().map(|me| {
        let living = nvram.join(incarnation).expect("an incarnation");
        let home = nvram.home_in(incarnation, me.id, regions.iter().copied(), living);
        let fabric = ShmFabric::at(home.expect("its directory")).expect("a machine");
        fabric.set_members(&members).expect("a member");
        Arc::new(fabric) as _
    })
}

#[test]
fn records_that_were_not_released_are_found_when_all_have_ended() {
    let directory = tempfile::tempdir().expect("a directory");
    let nvram = Nvram::open(directory.path()).expect("a directory");
    nvram.begin(3, b"map").expect("an incarnation");
    assert_eq!(nvram.map(3).expect("a map"), b"map");
    let [one, two] = pair(&nvram, 3, &[]);
    assert!(nvram.is_alive(3).expect("a lock"));
    let mut writer = ring::send(&one, two.me(), LANE, WORDS).expect("its end");
    let mut reader = ring::receive(&two, one.me(), LANE, WORDS).expect("its end");
    let mut kept = Vec::new();
    // The records fill the ring one and a half times.
    for number in 0..20 {
        writer.push(5, &[&[number; 3]]).expect("room");
        drop(writer.flush());
        let (_, record) = reader.next(&mut Vec::new()).expect("whole").expect("one");
        kept.push(record);
        if number >= 4 {
            reader.release(kept[number as usize - 4]);
        }
    }
    // One record is released behind an unreleased one, and another one is unread.
    reader.release(kept[18]);
    writer.push(6, &[&[7]]).expect("room");
    drop(writer.flush());
    drop((writer, reader, one, two));
    assert!(!nvram.is_alive(3).expect("a lock"));
    let after = nvram.after(3);
    let [one, two] = [1, 2].map(|id| after.retained(MachineId(id)).expect("is read"));
    let word = |memory: &Memory| memory.words()[0].load(Ordering::Relaxed);
    let segment = |kind, number| SegmentId::new(kind, LANE, number);
    let head = word(two.get(segment(SegmentId::RELEASED, 1)).expect("there"));
    let reported = word(one.get(segment(SegmentId::HEAD, 2)).expect("there"));
    let rings = two.of_kind(SegmentId::RING);
    assert_eq!(rings.len(), 1);
    let left = ring::left_in(rings[0].1, (head, reported), MachineId(1)).expect("whole");
    let expected = (16..20).map(|number| (5, vec![number; 3]));
    let expected: Vec<_> = expected.chain([(6, vec![7])]).collect();
    assert_eq!(left, expected);
    let at = head as usize % WORDS;
    rings[0].1.words()[at].store(u64::MAX >> 1, Ordering::Relaxed);
    assert!(ring::left_in(rings[0].1, (head, reported), MachineId(1)).is_err());
}

#[test]
fn only_regions_outlive_incarnation() {
    let directory = tempfile::tempdir().expect("a directory");
    let nvram = Nvram::open(directory.path()).expect("a directory");
    assert_eq!(nvram.last(9).expect("lives"), None);
    let region = |number| SegmentId::new(SegmentId::REGION, 0, number);
    let status_page = SegmentId::new(SegmentId::BOARD, 0, 0);
    for incarnation in [2, 5] {
        nvram.begin(incarnation, &[]).expect("an incarnation");
        let kept: &[u32] = if incarnation == 2 { &[] } else { &[7] };
        let [one, two] = pair(&nvram, incarnation, kept);
        assert!(nvram.has_lived(incarnation, MachineId(1)));
        for segment in [region(7), region(8), status_page] {
            let memory = one.provide(segment, 8, Writer::Owner).expect("memory");
            let before = memory.words()[0].fetch_add(incarnation, Ordering::Relaxed);
            let expected = if segment == region(7) && incarnation == 5 {
                2
            } else {
                0
            };
            assert_eq!(before, expected, "{segment:?}");
            let seen = two.map(MachineId(1), segment).expect("it is found");
            assert_eq!(
                seen.words()[0].load(Ordering::Relaxed),
                expected + incarnation
            );
        }
        // A retained region must have the requested size.
        let words = if incarnation == 2 { 16 } else { 8 };
        let torn = two.provide(region(7), words, Writer::Owner);
        assert_eq!(torn.is_ok(), incarnation == 2);
    }
    assert_eq!(nvram.last(4).expect("lives"), Some(2));
    nvram
        .forget_before(5, &[(MachineId(1), 7)])
        .expect("forgotten");
    assert_eq!(nvram.last(4).expect("lives"), None);
    let after = nvram.after(5);
    let made = after.make_region(MachineId(2), 9, 8).expect("memory");
    made.words()[3].store(4, Ordering::Relaxed);
    let left = after.retained(MachineId(2)).expect("is read");
    let there = left.get(region(9)).expect("it is there");
    assert_eq!(there.words()[3].load(Ordering::Relaxed), 4);
    assert!(left.get(region(10)).is_none());
}

#[test]
fn memory_that_was_not_saved_is_none_after_another_boot() {
    let directory = tempfile::tempdir().expect("a directory");
    let nvram = Nvram::open(directory.path()).expect("a directory");
    nvram.begin(1, &[]).expect("an incarnation");
    let [one, two] = pair(&nvram, 1, &[]);
    let region = SegmentId::new(SegmentId::REGION, 0, 7);
    for machine in [&one, &two] {
        machine.provide(region, 8, Writer::Owner).expect("memory");
    }
    // The second machine ends in good order.
    drop(two);
    let there = |id| {
        let left = nvram.after(1).retained(MachineId(id)).expect("is read");
        left.get(region).is_some()
    };
    assert!(there(1) && there(2));
    fs::write(nvram.memory_dir(1).join(BOOT), "another").expect("is written");
    assert!(!there(1) && there(2));
    drop(one);
    assert!(there(1));
}

#[test]
fn one_at_a_time_finds_out_whether_others_live() {
    let directory = tempfile::tempdir().expect("a directory");
    let nvram = Nvram::open(directory.path()).expect("a directory");
    let entered = nvram.enter().expect("no other process has entered");
    std::thread::scope(|scope| {
        let other = scope.spawn(|| nvram.enter().map(drop));
        std::thread::sleep(POLL_INTERVAL);
        assert!(!other.is_finished());
        drop(entered);
        other.join().expect("ends").expect("it was its turn");
    });
}

#[test]
fn memory_of_evicted_machines_stays_for_joining_machines() {
    let directory = tempfile::tempdir().expect("a directory");
    let nvram = Nvram::open(directory.path()).expect("a directory");
    nvram.begin(1, &[]).expect("an incarnation");
    let region = SegmentId::new(SegmentId::REGION, 0, 7);
    let machine = |id| {
        let living = nvram.join(1).expect("an incarnation");
        let home = nvram.home_in(1, MachineId(id), [], living);
        let fabric = ShmFabric::at(home.expect("its directory")).expect("a machine");
        let memory = fabric.provide(region, 8, Writer::Owner).expect("memory");
        memory.words()[0].store(id.into(), Ordering::Relaxed);
        fabric
    };
    let [one, two, three, five] = [1, 2, 3, 5].map(machine);
    let left = |me, members: &[u32]| {
        let members: Vec<MachineId> = members.iter().copied().map(MachineId).collect();
        let evicted = nvram.evicted_memory(1, MachineId(me), &members);
        let word = |left: &RetainedMemory| {
            let memory = left.get(region).expect("a region");
            memory.words()[0].load(Ordering::Relaxed)
        };
        let words: Vec<u64> = evicted.left().iter().map(word).collect();
        (evicted, words)
    };
    assert!(nvram.has_process(1, MachineId(2)));
    assert_eq!(left(4, &[1, 4]).1, [0; 0], "all have their processes");
    drop((two, three));
    assert!(!nvram.has_process(1, MachineId(2)));
    assert_eq!(left(4, &[1, 3, 4]).1, [2], "others are members");
    let (evicted, words) = left(4, &[1, 4]);
    assert_eq!(words, [3, 2], "and nothing of who came later");
    // The next incarnation that begins removes the other files of a machine, except the positions
    // that other machines wrote about its logs.
    let head = SegmentId::new(SegmentId::HEAD, 0, 1);
    let name = home_of(&nvram.memory_dir(1), MachineId(2)).join(name_of(head, Writer::Owner));
    fs::write(&name, [0; 8]).expect("is written");
    let member = |id| Member {
        id: MachineId(id),
        address: String::new(),
    };
    five.clear_away(&[member(1), member(5)]).expect("cleared");
    let homes = [2, 3].map(|id| home_of(&nvram.memory_dir(1), MachineId(id)));
    assert!(homes.iter().all(|home| !home.join("control").exists()) && name.exists());
    assert_eq!(left(4, &[1, 4]).1, [3, 2]);
    evicted.forget();
    assert_eq!(left(4, &[1, 4]).1, [0; 0]);
    // A process that has mapped the memory keeps it.
    let memory = evicted.left()[0].get(region).expect("a region");
    assert_eq!(memory.words()[0].load(Ordering::Relaxed), 3);
    drop((one, five));
    assert_eq!(left(6, &[]).1, [5, 1]);
    nvram.begin(9, &[]).expect("an incarnation");
    let kept = [(MachineId(1), 7), (MachineId(1), 8)];
    nvram.forget_before(9, &kept).expect("forgotten");
    assert_eq!(left(6, &[]).1, [1]);
}

#[test]
fn network_machine_keeps_memory_in_files() {
    let directory = tempfile::tempdir().expect("a directory");
    let nvram = Nvram::open(directory.path()).expect("a directory");
    nvram.begin(1, &[]).expect("an incarnation");
    assert!(nvram.is_of_this_boot(1) && !nvram.is_of_this_boot(2));
    let config = |me| TcpConfig {
        me: MachineId(me),
        cluster: 1,
        secret: vec![7; 32],
        listen: "127.0.0.1:0".into(),
        tls: None,
        silence: None,
    };
    let home = || {
        let living = nvram.join(1).expect("an incarnation");
        let home = nvram.home_in(1, MachineId(2), [], living);
        home.expect("its directory")
    };
    assert!(TcpFabric::start_at(&config(3), home()).is_err());
    let fabric = TcpFabric::start_at(&config(2), home()).expect("it listens");
    assert!(fabric.keeps() && fabric.free_bytes().is_some());
    let members = [1, 2].map(|id| Member {
        id: MachineId(id),
        address: "127.0.0.1:1".into(),
    });
    fabric.set_members(&members).expect("a member");
    let segment = |(kind, number)| SegmentId::new(kind, LANE, number);
    // The last segment belongs to a machine that is no longer a member.
    let all = [
        (SegmentId::REGION, 1),
        (SegmentId::RING, 1),
        (SegmentId::BOARD, 1),
        (SegmentId::RING, 3),
    ];
    let all = all.map(segment);
    for (at, segment) in all.into_iter().enumerate() {
        let memory = fabric.provide(segment, 8, Writer::Owner);
        let memory = memory.expect("memory");
        memory.words()[3].store(at as u64 + 1, Ordering::Relaxed);
    }
    for segment in &all[1..] {
        fabric.withdraw(*segment);
    }
    drop(fabric);
    assert!(!nvram.is_alive(1).expect("a lock"));
    let left = nvram.after(1).retained(MachineId(2)).expect("is read");
    let word = |segment| {
        let memory: &Arc<Memory> = left.get(segment)?;
        Some(memory.words()[3].load(Ordering::Relaxed))
    };
    assert_eq!(all.map(word), [Some(1), Some(2), None, None]);
}
