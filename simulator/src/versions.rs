//! The versions of every object in the order of their timestamps, and the version that each read
//! saw.

use std::collections::BTreeMap;

use fencepost_txn::Timestamp;

use crate::history::{Object, ObservedTransaction, ReadVersion};

/// A version that a transaction of a history wrote.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Version {
    pub at: Timestamp,
    /// The index of the transaction in the history.
    pub by: usize,
    pub stays: bool,
}

/// The versions of all objects of a history, and the transactions by their numbers.
pub(crate) struct Versions {
    of: BTreeMap<Object, Vec<Version>>,
    numbers: BTreeMap<u64, (usize, Timestamp)>,
}

/// The position of a version in the order; `None` for the initial version.
pub(crate) type Position = Option<usize>;

impl Versions {
    /// Orders the versions, and checks the condition of every write.
    pub fn of(history: &[ObservedTransaction]) -> Result<Versions, String> {
        let mut of: BTreeMap<Object, Vec<Version>> = BTreeMap::new();
        let numbers = history.iter().enumerate().map(|(by, t)| (t.id, (by, t.at)));
        for (by, t) in history.iter().enumerate() {
            for write in &t.writes {
                of.entry(write.object).or_default().push(Version {
                    at: t.at,
                    by,
                    stays: write.stays,
                });
            }
        }
        for (object, order) in &mut of {
            order.sort_by_key(|version| version.at);
            if let Some(twins) = order.windows(2).find(|pair| pair[0].at == pair[1].at) {
                let [a, b] = [0, 1].map(|i| history[twins[i].by].id);
                return Err(format!(
                    "{a} and {b} wrote {object} at the same {:?}",
                    twins[0].at
                ));
            }
        }
        let numbers = numbers.collect();
        let versions = Versions { of, numbers };
        versions.conditions(history)?;
        Ok(versions)
    }

    /// Returns all versions of an object, in order.
    pub fn order(&self, object: Object) -> &[Version] {
        self.of.get(&object).map_or(&[], Vec::as_slice)
    }

    /// Returns the ordered versions of each object.
    pub fn orders(&self) -> impl Iterator<Item = &[Version]> {
        self.of.values().map(Vec::as_slice)
    }

    /// Returns the newest version before a time.
    pub fn newest_before(&self, object: Object, at: Timestamp) -> Position {
        let order = self.order(object);
        order
            .partition_point(|version| version.at < at)
            .checked_sub(1)
    }

    /// Returns the version that a transaction's timestamp requires: at or below R for a reader,
    /// below W for a writer, whose reads were validated at W.
    pub fn due(&self, t: &ObservedTransaction, object: Object) -> Position {
        let order = self.order(object);
        let due = match t.writes.is_empty() {
            true => order.partition_point(|version| version.at <= t.at),
            false => order.partition_point(|version| version.at < t.at),
        };
        due.checked_sub(1)
    }

    /// Returns another writer's version with the timestamp of a writer: either may be the first.
    pub fn tied(&self, t: &ObservedTransaction, object: Object) -> Position {
        let next = self.due(t, object).map_or(0, |due| due + 1);
        let me = self.numbers.get(&t.id).map(|(by, _)| *by);
        let tied = |version: &&Version| version.at == t.at && Some(version.by) != me;
        self.order(object).get(next).filter(tied).map(|_| next)
    }

    /// Returns whether an object exists in a version; an object that is written conditionally does
    /// not exist initially.
    pub fn is_there(&self, object: Object, position: Position) -> bool {
        position.is_some_and(|position| self.order(object)[position].stays)
    }

    /// Returns the version that a read saw. A read of a missing object matches any version without
    /// the object: the one that its reader's timestamp requires, or the nearest one.
    pub fn met(
        &self,
        t: &ObservedTransaction,
        object: Object,
        saw: ReadVersion,
    ) -> Result<Position, String> {
        let order = self.order(object);
        match saw {
            ReadVersion::By(0) => Ok(None),
            ReadVersion::By(writer) => {
                let position = self.numbers.get(&writer).and_then(|(by, at)| {
                    let position = order.binary_search_by_key(at, |version| version.at);
                    let his = |at: &usize| order[*at].by == *by && order[*at].stays;
                    position.ok().filter(his)
                });
                position.map(Some).ok_or_else(|| {
                    format!(
                        "{} read {object} of {writer}, which did not commit it",
                        t.id
                    )
                })
            }
            ReadVersion::Absent => {
                let (due, tied) = (self.due(t, object), self.tied(t, object));
                if self.is_there(object, due) && tied.is_some() && !self.is_there(object, tied) {
                    return Ok(tied);
                }
                let earlier = &order[..due.map_or(0, |due| due + 1)];
                Ok(earlier.iter().rposition(|version| !version.stays))
            }
        }
    }

    /// Returns the newest time, not after its own, at which all reads of a transaction without
    /// effect were current. The timestamp of such a transaction means nothing
    /// ([`crate::history::SOMETIME`]). Returns its own time if there is none.
    pub fn last_so(&self, t: &ObservedTransaction) -> Timestamp {
        let just_before =
            |version: &Version| Timestamp::from_raw(version.at.raw().saturating_sub(1));
        let orders = t.reads.iter().map(|(object, _)| self.order(*object));
        let mut times: Vec<Timestamp> = orders.flatten().map(just_before).collect();
        times.retain(|time| *time < t.at);
        times.push(t.at);
        times.sort_unstable();
        let was_so = |time: &&Timestamp| {
            let mut reads = t.reads.iter();
            reads.all(|(object, saw)| self.was_so(*object, *saw, **time))
        };
        times.iter().rev().find(was_so).copied().unwrap_or(t.at)
    }

    /// Returns whether a reader at `time` sees this version.
    fn was_so(&self, object: Object, saw: ReadVersion, time: Timestamp) -> bool {
        let order = self.order(object);
        let newest = order.partition_point(|version| version.at <= time);
        let newest = newest.checked_sub(1).map(|position| order[position]);
        match (saw, newest) {
            (ReadVersion::Absent, newest) => newest.is_none_or(|version| !version.stays),
            (ReadVersion::By(0), newest) => newest.is_none(),
            (ReadVersion::By(writer), newest) => newest.is_some_and(|version| {
                let his = self
                    .numbers
                    .get(&writer)
                    .is_some_and(|(by, _)| *by == version.by);
                his && version.stays
            }),
        }
    }

    /// Checks the condition of each write: the object existed, or did not, when the write took
    /// effect.
    fn conditions(&self, history: &[ObservedTransaction]) -> Result<(), String> {
        for t in history {
            for write in &t.writes {
                let before = self.newest_before(write.object, t.at);
                let there = self.is_there(write.object, before);
                if write.needs.is_some_and(|needs| needs != there) {
                    let was = if there { "was there" } else { "was not there" };
                    return Err(format!(
                        "{} {was} when {} wrote it: {t:?}",
                        write.object, t.id
                    ));
                }
            }
        }
        Ok(())
    }
}
