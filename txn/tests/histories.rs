//! Concurrent histories under many threads, checked for strict serializability.
//!
//! Every transaction reads some objects and overwrites some with a value that names itself. The
//! values tell which transaction each read came from, so the order of versions of each object, the
//! reads and the real-time order together form a graph; the history is strictly serializable exactly
//! if the graph has no circle. Planted anomalies show that the checker can fail.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fencepost_txn::{Addr, Machine, MachineOptions, Mode, Outcome, Stop, Timestamp};
use pollster::block_on;

/// One committed transaction as its client saw it.
#[derive(Clone, Debug)]
struct Seen {
    id: u64,
    began: u64,
    ended: u64,
    /// Object and the transaction whose value was read.
    reads: Vec<(usize, u64)>,
    writes: Vec<usize>,
    /// Where its writes stand in the order of versions.
    at: Timestamp,
}

/// Edges that follow from the history, then a search for a circle.
fn check(history: &[Seen]) -> Result<(), String> {
    let index: HashMap<u64, usize> = history.iter().enumerate().map(|(i, t)| (t.id, i)).collect();
    let mut versions: HashMap<usize, Vec<usize>> = HashMap::new();
    for (i, t) in history.iter().enumerate() {
        for object in &t.writes {
            versions.entry(*object).or_default().push(i);
        }
    }
    let mut edges: Vec<Vec<usize>> = vec![Vec::new(); history.len()];
    for order in versions.values_mut() {
        order.sort_by_key(|i| history[*i].at);
        for pair in order.windows(2) {
            edges[pair[0]].push(pair[1]);
        }
    }
    for (i, t) in history.iter().enumerate() {
        for (object, writer) in &t.reads {
            let order = versions.get(object).map_or(&[][..], Vec::as_slice);
            let next = if *writer == 0 {
                order.first()
            } else {
                let from = *index
                    .get(writer)
                    .ok_or_else(|| format!("{} read from an aborted transaction", t.id))?;
                if from != i {
                    edges[from].push(i);
                }
                let place = order
                    .iter()
                    .position(|w| *w == from)
                    .ok_or("a read of a value nobody wrote")?;
                order.get(place + 1)
            };
            if let Some(next) = next.filter(|next| **next != i) {
                edges[i].push(*next);
            }
        }
    }
    // Real time through a chain of points, so that the number of edges stays linear.
    let n = history.len();
    let mut ends: Vec<usize> = (0..n).collect();
    ends.sort_by_key(|i| history[*i].ended);
    edges.resize(2 * n, Vec::new());
    for (k, i) in ends.iter().enumerate() {
        edges[*i].push(n + k);
        if k + 1 < n {
            edges[n + k].push(n + k + 1);
        }
    }
    for (i, t) in history.iter().enumerate() {
        let before = ends.partition_point(|e| history[*e].ended < t.began);
        if before > 0 {
            edges[n + before - 1].push(i);
        }
    }
    find_circle(&edges).map_or(Ok(()), |at| {
        Err(format!("circle through transaction {:?}", history.get(at)))
    })
}

fn find_circle(edges: &[Vec<usize>]) -> Option<usize> {
    let mut incoming = vec![0usize; edges.len()];
    edges.iter().flatten().for_each(|to| incoming[*to] += 1);
    let mut ready: Vec<usize> = (0..edges.len()).filter(|i| incoming[*i] == 0).collect();
    let mut done = 0;
    while let Some(i) = ready.pop() {
        done += 1;
        for to in &edges[i] {
            incoming[*to] -= 1;
            if incoming[*to] == 0 {
                ready.push(*to);
            }
        }
    }
    (done < edges.len()).then(|| incoming.iter().position(|n| *n > 0).expect("some are left"))
}

struct World {
    machine: Arc<Machine>,
    objects: Vec<Addr>,
    clock: AtomicU64,
    ids: AtomicU64,
}

impl World {
    fn new(objects: usize) -> Self {
        let options = MachineOptions {
            region_bytes: 16 << 20,
            ..MachineOptions::default()
        };
        let machine = Machine::open(options).expect("opens");
        let mut tx = machine.coordinator().begin(Mode::ReadWrite);
        let objects = (0..objects)
            .map(|_| tx.alloc(20, Addr::NULL).expect("memory").addr)
            .collect();
        assert!(matches!(block_on(tx.commit()), Ok(Outcome::Committed(_))));
        World {
            machine,
            objects,
            clock: AtomicU64::new(1),
            ids: AtomicU64::new(1),
        }
    }

    /// Runs one random transaction; what it saw if it committed.
    fn attempt(
        &self,
        coordinator: &mut fencepost_txn::Coordinator,
        random: &mut u64,
    ) -> Option<Seen> {
        let mut draw = |n: u64| {
            *random ^= *random << 13;
            *random ^= *random >> 7;
            *random ^= *random << 17;
            *random % n
        };
        let id = self.ids.fetch_add(1, Ordering::Relaxed);
        let began = self.clock.fetch_add(1, Ordering::SeqCst);
        let read_only = draw(4) == 0;
        let mut tx = coordinator.begin(if read_only {
            Mode::ReadOnly
        } else {
            Mode::ReadWrite
        });
        let (mut reads, mut writes) = (Vec::new(), Vec::new());
        let mut step = || -> Result<(), Stop> {
            let mut words = Vec::new();
            for _ in 0..1 + draw(5) {
                let object = draw(self.objects.len() as u64) as usize;
                block_on(tx.read(self.objects[object], &mut words))?;
                // All words of an object are written together: a torn read would show here.
                assert!(words[..20].iter().all(|w| *w == words[0]), "torn object");
                if words[0] != id {
                    reads.push((object, words[0]));
                }
                if !read_only && draw(2) == 0 {
                    block_on(tx.write(self.objects[object], &[id; 20]))?;
                    writes.push(object);
                }
            }
            Ok(())
        };
        step().ok()?;
        writes.sort_unstable();
        writes.dedup();
        match block_on(tx.commit()).expect("nothing fails in the memory tier") {
            Outcome::Committed(at) => {
                let ended = self.clock.fetch_add(1, Ordering::SeqCst);
                Some(Seen {
                    id,
                    began,
                    ended,
                    reads,
                    writes,
                    at,
                })
            }
            Outcome::Aborted(_) => None,
        }
    }
}

#[test]
fn random_histories_of_many_threads_are_strictly_serializable() {
    for (objects, threads, each) in [(2, 4, 1500), (10, 8, 1500), (200, 6, 1500)] {
        let world = World::new(objects);
        let mut history: Vec<Seen> = std::thread::scope(|scope| {
            let run = |seed: u64| {
                let world = &world;
                scope.spawn(move || {
                    let mut coordinator = world.machine.coordinator();
                    let mut random = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
                    (0..each)
                        .filter_map(|_| world.attempt(&mut coordinator, &mut random))
                        .collect::<Vec<_>>()
                })
            };
            let handles: Vec<_> = (1..=threads).map(run).collect();
            handles
                .into_iter()
                .flat_map(|h| h.join().expect("no panic"))
                .collect()
        });
        history.sort_by_key(|t| t.began);
        assert!(
            history.len() > 100,
            "too few commits to mean anything: {}",
            history.len()
        );
        check(&history).expect("strictly serializable");
        let commits = world.machine.counters().totals();
        assert_eq!(
            commits.committed_writes + commits.committed_reads,
            history.len() as u64 + 1
        );
    }
}

fn seen(id: u64, span: (u64, u64), reads: &[(usize, u64)], writes: &[usize]) -> Seen {
    Seen {
        id,
        began: span.0,
        ended: span.1,
        reads: reads.to_vec(),
        writes: writes.to_vec(),
        at: Timestamp::from_raw(id),
    }
}

#[test]
fn the_checker_finds_the_classical_anomalies() {
    let skew = [
        seen(1, (1, 10), &[(0, 0), (1, 0)], &[0]),
        seen(2, (2, 11), &[(0, 0), (1, 0)], &[1]),
    ];
    let lost = [
        seen(1, (1, 10), &[(0, 0)], &[0]),
        seen(2, (2, 11), &[(0, 0)], &[0]),
    ];
    let fork = [
        seen(1, (1, 20), &[], &[0]),
        seen(2, (2, 21), &[], &[1]),
        seen(3, (3, 22), &[(0, 1), (1, 0)], &[]),
        seen(4, (4, 23), &[(0, 0), (1, 2)], &[]),
    ];
    let stale = [seen(1, (1, 2), &[], &[0]), seen(2, (3, 4), &[(0, 0)], &[])];
    for anomaly in [&skew[..], &lost, &fork, &stale] {
        assert!(check(anomaly).is_err(), "missed {anomaly:?}");
    }
    assert_eq!(
        check(&[
            seen(1, (1, 2), &[(0, 0)], &[0]),
            seen(2, (3, 4), &[(0, 1)], &[0])
        ]),
        Ok(())
    );
}

/// Transfers between accounts while readers add all of them up: no reader ever sees money missing,
/// even one that is going to abort.
#[test]
fn every_snapshot_adds_up() {
    const ACCOUNTS: usize = 20;
    let world = World::new(ACCOUNTS);
    let stop = std::sync::atomic::AtomicBool::new(false);
    let sum = |tx: &mut fencepost_txn::Transaction| -> Result<u64, Stop> {
        let mut words = Vec::new();
        let mut sum = 0u64;
        for addr in &world.objects {
            block_on(tx.read(*addr, &mut words))?;
            sum = sum.wrapping_add(words[0]);
        }
        Ok(sum)
    };
    std::thread::scope(|scope| {
        for seed in 1..=4u64 {
            let (world, stop) = (&world, &stop);
            scope.spawn(move || {
                let mut coordinator = world.machine.coordinator();
                let mut n = seed;
                let mut words = Vec::new();
                while !stop.load(Ordering::Relaxed) {
                    n = n.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(seed);
                    let (from, to) = ((n >> 33) as usize % ACCOUNTS, (n >> 43) as usize % ACCOUNTS);
                    if from == to {
                        continue;
                    }
                    let mut tx = coordinator.begin(Mode::ReadWrite);
                    let mut transfer = || -> Result<(), Stop> {
                        for (account, delta) in [(from, 1u64.wrapping_neg()), (to, 1)] {
                            block_on(tx.read(world.objects[account], &mut words))?;
                            block_on(
                                tx.write(world.objects[account], &[words[0].wrapping_add(delta)]),
                            )?;
                        }
                        Ok(())
                    };
                    if transfer().is_ok() {
                        let _ = block_on(tx.commit());
                    }
                }
            });
        }
        for mode in [Mode::ReadOnly, Mode::ReadWrite] {
            let mut coordinator = world.machine.coordinator();
            for _ in 0..2000 {
                let mut tx = coordinator.begin(mode);
                if let Ok(sum) = sum(&mut tx) {
                    assert_eq!(sum, 0, "money appeared or vanished in a {mode:?} snapshot");
                } else {
                    assert_eq!(
                        mode,
                        Mode::ReadWrite,
                        "a read-only transaction never aborts"
                    );
                }
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
}
