//! The check that a history is strictly serializable.
//!
//! The values tell which transaction wrote each version that was read. So the versions of each
//! object, the reads and the real-time order form a graph. The history is strictly serializable
//! exactly if the graph has no cycle. An aborted transaction counts as a reader: it, too, must have
//! seen one consistent state.

use crate::history::{ObservedTransaction, SOMETIME};
use crate::versions::Versions;

/// Builds the edges of a history, then searches for a cycle.
///
/// # Errors
/// A description of the cycle.
pub fn check(history: &[ObservedTransaction]) -> Result<(), String> {
    let versions = Versions::of(history)?;
    let mut edges = dependencies(history, &versions)?;
    real_time(history, &mut edges);
    match find_circle(&edges) {
        None => Ok(()),
        Some(circle) => {
            let members = circle.iter().filter_map(|at| history.get(*at));
            let members: Vec<_> = members.map(|t| format!("\n  {t:?}")).collect();
            Err(format!("not strictly serializable:{}", members.concat()))
        }
    }
}

/// Adds the edges between transactions that follow from their reads and writes.
fn dependencies(
    history: &[ObservedTransaction],
    versions: &Versions,
) -> Result<Vec<Vec<usize>>, String> {
    let mut edges: Vec<Vec<usize>> = vec![Vec::new(); history.len()];
    for order in versions.orders() {
        for pair in order.windows(2) {
            edges[pair[0].by].push(pair[1].by);
        }
    }
    for (i, t) in history.iter().enumerate() {
        let since = (t.began == SOMETIME).then(|| ObservedTransaction {
            at: versions.last_so(t),
            ..t.clone()
        });
        let reader = since.as_ref().unwrap_or(t);
        for (object, saw) in &t.reads {
            let order = versions.order(*object);
            let met = versions.met(reader, *object, *saw)?;
            let next = met.map_or(0, |position| position + 1);
            let from = met.map(|position| order[position].by);
            if let Some(from) = from.filter(|from| *from != i) {
                edges[from].push(i);
            }
            let next = order.get(next).map(|version| version.by);
            if let Some(next) = next.filter(|next| *next != i) {
                edges[i].push(next);
            }
        }
    }
    Ok(edges)
}

/// Adds the edges of real time, from a transaction to all that began after its end. They go through
/// a chain of points, so that their number stays linear.
fn real_time(history: &[ObservedTransaction], edges: &mut Vec<Vec<usize>>) {
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
}

/// Returns the members of a cycle, if there is one.
fn find_circle(edges: &[Vec<usize>]) -> Option<Vec<usize>> {
    let mut incoming = vec![0usize; edges.len()];
    edges.iter().flatten().for_each(|to| incoming[*to] += 1);
    let mut ready: Vec<usize> = (0..edges.len()).filter(|i| incoming[*i] == 0).collect();
    while let Some(i) = ready.pop() {
        for to in &edges[i] {
            incoming[*to] -= 1;
            if incoming[*to] == 0 {
                ready.push(*to);
            }
        }
    }
    // Every remaining node has a remaining predecessor, so going back repeats a node.
    let mut before = vec![None; edges.len()];
    for (from, to) in edges.iter().enumerate() {
        if incoming[from] > 0 {
            to.iter().for_each(|to| before[*to] = Some(from));
        }
    }
    let mut at = incoming.iter().position(|n| *n > 0)?;
    let mut path = Vec::new();
    loop {
        if let Some(begin) = path.iter().position(|met| *met == at) {
            path.drain(..begin);
            path.reverse();
            return Some(path);
        }
        path.push(at);
        at = before[at]?;
    }
}
