//! The search for a cycle of points, and the name of its anomaly.

use std::collections::VecDeque;

use fencepost_txn::Isolation;

use super::points::{Edge, Points, Reason};
use super::{Anomaly, Execution, Violation};

/// The sets of edges that searches follow, fewest first, so that an anomaly that the weakest level
/// forbids is found first.
const SEARCHES: [fn(Reason) -> bool; 4] = [
    |reason| matches!(reason, Reason::Own | Reason::WriteWrite(_)),
    |reason| !matches!(reason, Reason::ReadWrite(..) | Reason::Time),
    |reason| reason != Reason::Time,
    |_| true,
];

/// A cycle: each node with the edge that leaves it.
type Cycle = Vec<(usize, Edge)>;

/// Returns the anomaly of a history, if there is one.
pub(super) fn find_violation(points: &Points, history: &[Execution]) -> Option<Violation> {
    let mut searches = SEARCHES.iter();
    let cycle = searches.find_map(|follows| shortest_cycle(&points.edges, *follows))?;
    let (anomaly, isolation) = name(&cycle);
    let mut evidence = String::new();
    for (node, edge) in &cycle {
        if let Some(execution) = points.place(*node).and_then(|place| history.get(place)) {
            evidence += &format!("\n  {execution:?}, {:?}", edge.reason);
        }
    }
    Some(Violation {
        anomaly,
        isolation,
        evidence,
    })
}

/// Names a cycle, and the weakest level that forbids it.
fn name(cycle: &Cycle) -> (Anomaly, Isolation) {
    let reasons = || cycle.iter().map(|(_, edge)| edge.reason);
    let mut readers = Vec::new();
    let mut read = Vec::new();
    for reason in reasons() {
        if let Reason::ReadWrite(list, isolation) = reason {
            readers.push(isolation);
            read.push(list);
        }
    }
    let weakest = [Isolation::ReadCommitted, Isolation::RepeatableRead];
    let weakest = weakest.into_iter().find(|level| readers.contains(level));
    let isolation = if readers.is_empty() {
        Isolation::ReadCommitted
    } else {
        weakest.unwrap_or(Isolation::Serializable)
    };
    let overwrites = |reason| match reason {
        Reason::WriteWrite(list) => read == [list],
        Reason::Own | Reason::ReadWrite(..) => true,
        Reason::WriteRead(_) | Reason::Time => false,
    };
    let anomaly = if reasons().any(|reason| reason == Reason::Time) {
        Anomaly::RealTime
    } else if read.len() > 1 {
        Anomaly::WriteSkew
    } else if read.len() == 1 && reasons().all(overwrites) {
        Anomaly::LostUpdate
    } else if read.len() == 1 {
        Anomaly::ReadSkew
    } else if reasons().any(|reason| matches!(reason, Reason::WriteRead(_))) {
        Anomaly::CyclicFlow
    } else {
        Anomaly::WriteCycle
    };
    (anomaly, isolation)
}

/// Returns a shortest cycle of followed edges.
fn shortest_cycle(edges: &[Vec<Edge>], follows: fn(Reason) -> bool) -> Option<Cycle> {
    let left = on_cycles(edges, follows);
    let starts = (0..edges.len()).filter(|node| left[*node]);
    let cycles = starts.filter_map(|start| cycle_through(start, edges, &left, follows));
    cycles.min_by_key(Vec::len)
}

/// Returns for each node whether it remains when nodes without incoming edges are removed
/// repeatedly.
fn on_cycles(edges: &[Vec<Edge>], follows: fn(Reason) -> bool) -> Vec<bool> {
    let followed = |node: usize| edges[node].iter().filter(|edge| follows(edge.reason));
    let mut incoming = vec![0usize; edges.len()];
    for node in 0..edges.len() {
        followed(node).for_each(|edge| incoming[edge.to] += 1);
    }
    let mut ready: Vec<usize> = (0..edges.len()).filter(|at| incoming[*at] == 0).collect();
    while let Some(node) = ready.pop() {
        for edge in followed(node) {
            incoming[edge.to] -= 1;
            if incoming[edge.to] == 0 {
                ready.push(edge.to);
            }
        }
    }
    incoming.iter().map(|count| *count > 0).collect()
}

/// Returns a shortest cycle through a node, over remaining nodes.
fn cycle_through(
    start: usize,
    edges: &[Vec<Edge>],
    left: &[bool],
    follows: fn(Reason) -> bool,
) -> Option<Cycle> {
    let mut before: Vec<Option<(usize, Edge)>> = vec![None; edges.len()];
    let mut queue = VecDeque::from([start]);
    while let Some(node) = queue.pop_front() {
        for edge in edges[node].iter().filter(|edge| follows(edge.reason)) {
            if !left[edge.to] || before[edge.to].is_some() {
                continue;
            }
            before[edge.to] = Some((node, *edge));
            if edge.to == start {
                return Some(trace(start, &before));
            }
            queue.push_back(edge.to);
        }
    }
    None
}

/// Follows the path back from a node to itself.
fn trace(start: usize, before: &[Option<(usize, Edge)>]) -> Cycle {
    let mut cycle = Cycle::new();
    let mut at = start;
    while let Some((node, edge)) = before[at] {
        cycle.push((node, edge));
        at = node;
        if at == start {
            break;
        }
    }
    cycle.reverse();
    cycle
}
