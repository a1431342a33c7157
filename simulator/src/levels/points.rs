//! The points of executions, and the edges between them.

use fencepost_txn::Isolation;

use super::orders::ListOrders;
use super::{Execution, writer_of};
use crate::history::{Object, SOMETIME};
use crate::lists::Contents;

/// The reason why a point comes before another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reason {
    /// The execution has the points in this order.
    Own,
    /// The second writes the next version.
    WriteWrite(Object),
    /// The second reads the version.
    WriteRead(Object),
    /// The second writes the version after the one that the first, at this level, has read.
    ReadWrite(Object, Isolation),
    /// The second began after the first had ended.
    Time,
}

/// An edge that leads to a point.
#[derive(Clone, Copy, Debug)]
pub(super) struct Edge {
    /// The point to which the edge leads.
    pub to: usize,
    /// The reason for the edge.
    pub reason: Reason,
}

/// A point in time of an execution.
#[derive(Clone, Copy, Debug)]
struct Point {
    /// The place of the execution in the history.
    place: usize,
    began: u64,
    ended: u64,
}

/// The points of an execution.
#[derive(Clone, Debug, Default)]
struct ExecutionPoints {
    /// The point to which the reads of each statement belong.
    reads: Vec<usize>,
    /// The point to which its writes belong, if it took effect.
    commit: Option<usize>,
    /// The point by which the versions that it overwrites must have been committed.
    base: Option<usize>,
}

/// All points of a history.
pub(super) struct Points {
    points: Vec<Point>,
    /// The edges that leave each point, followed by those that leave each instant between ends of
    /// points.
    pub edges: Vec<Vec<Edge>>,
}

impl Points {
    /// Builds the graph of a history.
    pub(super) fn of(history: &[Execution], orders: &ListOrders<'_>) -> Points {
        let mut points = Points {
            points: Vec::new(),
            edges: Vec::new(),
        };
        let places = history.iter().enumerate();
        let own: Vec<ExecutionPoints> = places
            .map(|(place, execution)| points.add_execution(place, execution))
            .collect();
        points.add_writes(orders, &own);
        for (place, execution) in history.iter().enumerate() {
            points.add_reads((place, execution), orders, &own);
        }
        points.add_real_time();
        points
    }

    /// Returns the place in the history of the execution that has the point; `None` for an instant.
    pub(super) fn place(&self, node: usize) -> Option<usize> {
        self.points.get(node).map(|point| point.place)
    }

    fn add_point(&mut self, place: usize, (began, ended): (u64, u64)) -> usize {
        self.points.push(Point {
            place,
            began,
            ended,
        });
        self.edges.push(Vec::new());
        self.points.len() - 1
    }

    fn add_edge(&mut self, from: usize, to: usize, reason: Reason) {
        if from != to {
            self.edges[from].push(Edge { to, reason });
        }
    }

    fn add_execution(&mut self, place: usize, execution: &Execution) -> ExecutionPoints {
        let span = (execution.began, execution.ended);
        let statements = execution.statements.len();
        let mut own = ExecutionPoints::default();
        if execution.isolation == Isolation::ReadCommitted {
            for statement in &execution.statements {
                let began = match execution.began {
                    SOMETIME => SOMETIME,
                    _ => statement.began,
                };
                let read = self.add_point(place, (began, statement.ended));
                if let Some(before) = own.reads.last() {
                    self.add_edge(*before, read, Reason::Own);
                }
                own.reads.push(read);
            }
        } else {
            let snapshot = self.add_point(place, span);
            own.reads = vec![snapshot; statements];
            own.base = Some(snapshot);
        }
        if !execution.committed {
            return own;
        }
        if execution.isolation == Isolation::Serializable {
            own.commit = own.base;
            return own;
        }
        let commit = self.add_point(place, (execution.commits, execution.ended));
        if let Some(before) = own.reads.last().copied().or(own.base) {
            self.add_edge(before, commit, Reason::Own);
        }
        own.commit = Some(commit);
        own.base = own.base.or(own.commit);
        own
    }

    fn add_writes(&mut self, orders: &ListOrders<'_>, own: &[ExecutionPoints]) {
        for (list, elements) in orders.all() {
            for pair in elements.windows(2) {
                let [first, second] = [pair[0], pair[1]].map(|element| orders.place_of(element));
                if first == second {
                    continue;
                }
                if let (Some(from), Some(to)) = (own[first].commit, own[second].base) {
                    self.add_edge(from, to, Reason::WriteWrite(list));
                }
            }
        }
    }

    fn add_reads(
        &mut self,
        (place, execution): (usize, &Execution),
        orders: &ListOrders<'_>,
        own: &[ExecutionPoints],
    ) {
        let mine = &own[place];
        // A commit that writes nothing does not validate its locks.
        let locks = mine.commit.filter(|_| !execution.appended.is_empty());
        for (statement, read) in execution.statements.iter().zip(&mine.reads) {
            for contents in &statement.seen {
                self.add_read((*read, execution), contents, orders, own);
            }
            for contents in &statement.locked {
                if let Some(commit) = locks {
                    self.add_read((commit, execution), contents, orders, own);
                }
            }
        }
    }

    /// Adds the edges of a read that belongs to a point.
    fn add_read(
        &mut self,
        (at, reader): (usize, &Execution),
        contents: &Contents,
        orders: &ListOrders<'_>,
        own: &[ExecutionPoints],
    ) {
        let Contents { list, numbers } = contents;
        let commit_of = |element: &u64| own[orders.place_of(*element)].commit;
        if let Some(from) = numbers.last().and_then(commit_of) {
            self.add_edge(from, at, Reason::WriteRead(*list));
        }
        let next = orders.elements(*list).get(numbers.len());
        let next = next.filter(|element| writer_of(**element) != reader.id);
        if let Some(to) = next.and_then(commit_of) {
            self.add_edge(at, to, Reason::ReadWrite(*list, reader.isolation));
        }
    }

    /// Adds edges from each point to all points that began after its end, through a chain of
    /// instants, so that their number stays linear.
    fn add_real_time(&mut self) {
        let count = self.points.len();
        let mut by_end: Vec<usize> = (0..count).collect();
        by_end.sort_by_key(|at| self.points[*at].ended);
        self.edges.resize(2 * count, Vec::new());
        for (nth, at) in by_end.iter().enumerate() {
            self.add_edge(*at, count + nth, Reason::Time);
            if nth + 1 < count {
                self.add_edge(count + nth, count + nth + 1, Reason::Time);
            }
        }
        for at in 0..count {
            let began = self.points[at].began;
            let before = by_end.partition_point(|other| self.points[*other].ended < began);
            if before > 0 {
                self.add_edge(count + before - 1, at, Reason::Time);
            }
        }
    }
}
