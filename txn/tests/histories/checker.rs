//! Whether a history is strictly serializable.
//!
//! The values tell which transaction each read came from, so the order of versions of each object, the
//! reads and the real-time order together form a graph; the history is strictly serializable exactly
//! if the graph has no circle. Planted anomalies show that the checker can fail.

use std::collections::HashMap;

use fencepost_txn::Timestamp;

/// One committed transaction as its client saw it.
#[derive(Clone, Debug)]
pub struct Seen {
    pub id: u64,
    pub began: u64,
    pub ended: u64,
    /// Object and the transaction whose value was read.
    pub reads: Vec<(usize, u64)>,
    pub writes: Vec<usize>,
    /// Where its writes stand in the order of versions.
    pub at: Timestamp,
}

/// Edges that follow from the history, then a search for a circle.
pub fn check(history: &[Seen]) -> Result<(), String> {
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
