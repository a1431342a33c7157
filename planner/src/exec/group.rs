//! GROUP BY and aggregates, with a hash table of groups.
//!
//! When the groups exceed their memory, rows of further groups are written to a temporary file, and
//! grouped after the groups in memory have been returned ([`spilled`]).

mod encoded;
mod first;
mod ordered;
mod spilled;

use fencepost_sql::bound::{Aggregate, AggregateKind, Expr, Grouping, Node};
use fencepost_sql::error::SqlError;
use fencepost_sql::functions::Accumulator;
use fencepost_sql::stop::StatementStop;
use fencepost_sql::value::Value;
use foldhash::HashMap;

use super::batch::Batch;
use super::collected_memory::CollectedMemory;
use super::cx::Cx;
use super::join::push_comparable;
use super::order::sort_indexes;
pub use first::FirstGroups;
pub use ordered::LastGroup;
use spilled::GroupSpill;

/// The groups: they accumulate rows first, and hold results after `finish`.
pub struct Groups {
    by_key: HashMap<Vec<u8>, u32>,
    /// The group rows: keys, followed by results.
    rows: Batch,
    /// The aggregates of each group, side by side.
    accumulators: Vec<Accumulator>,
    next: usize,
    key: Vec<u8>,
    page: Batch,
    memory: CollectedMemory,
    /// Whether new groups are added in memory. Otherwise `spill` takes their rows.
    is_open: bool,
    spill: Option<Box<GroupSpill>>,
}

impl Groups {
    /// Creates the table without groups, or with the one group if there are no keys.
    pub fn new(grouping: &Grouping, cx: &Cx<'_>) -> Groups {
        let width = grouping.keys.len() + grouping.aggregates.len();
        let mut groups = Groups {
            by_key: HashMap::default(),
            rows: Batch::new(width),
            accumulators: Vec::new(),
            next: 0,
            key: Vec::new(),
            page: Batch::new(width),
            memory: CollectedMemory::limited(cx.eval.settings.work_memory.hash_bytes()),
            is_open: true,
            spill: None,
        };
        if grouping.keys.is_empty() {
            groups.begin(grouping, &mut Vec::new());
        }
        // A grouping set without keys has one group, even over no rows.
        for (number, set) in grouping.sets.iter().enumerate() {
            if set.is_empty() {
                let mut keys = vec![Value::Null; grouping.keys.len()];
                number_set(&mut keys, number);
                groups.group_with(grouping, &mut keys);
            }
        }
        groups
    }

    fn begin(&mut self, grouping: &Grouping, keys: &mut Vec<Value>) -> u32 {
        let group = self.rows.len() as u32;
        for (slot, key) in self.rows.push().iter_mut().zip(keys.drain(..)) {
            *slot = key;
        }
        let new = grouping.aggregates.iter().map(Accumulator::new);
        self.accumulators.extend(new);
        group
    }

    /// Adds from rows to their groups.
    pub async fn add(
        &mut self,
        grouping: &Grouping,
        cx: &mut Cx<'_>,
        input: &Batch,
    ) -> Result<(), StatementStop> {
        let from = self.rows.len();
        let grows = grouping.aggregates.iter().any(grows);
        let computes = grouping.aggregates.iter().any(Aggregate::computes);
        let mut keys = Vec::with_capacity(grouping.keys.len());
        for i in 0..input.len() {
            if cx.is_due() {
                cx.pause().await?;
            }
            let row = input.row(i);
            if !grouping.sets.is_empty() {
                self.add_to_sets(grouping, cx, row).await?;
                continue;
            }
            let group = match grouping.keys.is_empty() {
                true => Some(0),
                false => self.group_of(grouping, cx, row, &mut keys).await?,
            };
            let Some(group) = group else {
                self.spill_row(None, row)?;
                continue;
            };
            let first = group as usize * grouping.aggregates.len();
            let own = &mut self.accumulators[first..][..grouping.aggregates.len()];
            let before = if grows { bytes_of(own) } else { 0 };
            for (accumulator, aggregate) in own.iter_mut().zip(&grouping.aggregates) {
                let mut update =
                    |cx: &Cx<'_>| accumulator.update(aggregate, row, cx.params(), cx.eval);
                match computes {
                    true => cx.in_parts(update).await?,
                    false => update(cx)?,
                }
            }
            if grows {
                let more = bytes_of(own).saturating_sub(before);
                self.memory.add_bytes(cx, more)?;
            }
        }
        self.count(grouping, cx, from).await
    }

    /// Adds a from row to the temporary file. Its group's key was encoded last.
    fn spill_row(&mut self, set: Option<usize>, row: &[Value]) -> Result<(), SqlError> {
        match &mut self.spill {
            Some(spill) => spill.add_row(&self.key, set, row),
            None => Ok(()),
        }
    }

    /// Adds a from row to its group in each grouping set.
    async fn add_to_sets(
        &mut self,
        grouping: &Grouping,
        cx: &mut Cx<'_>,
        row: &[Value],
    ) -> Result<(), SqlError> {
        let keys = self.keys_of_sets(grouping, cx, row).await?;
        for number in 0..grouping.sets.len() {
            self.add_to_group_of_set(grouping, cx, (row, &keys), number)
                .await?;
        }
        Ok(())
    }

    /// Adds a from row to its group in one grouping set.
    async fn add_to_set(
        &mut self,
        grouping: &Grouping,
        cx: &mut Cx<'_>,
        row: &[Value],
        number: usize,
    ) -> Result<(), SqlError> {
        let keys = self.keys_of_sets(grouping, cx, row).await?;
        self.add_to_group_of_set(grouping, cx, (row, &keys), number)
            .await
    }

    /// Returns the keys of all grouping sets.
    async fn keys_of_sets(
        &self,
        grouping: &Grouping,
        cx: &mut Cx<'_>,
        row: &[Value],
    ) -> Result<Vec<Value>, SqlError> {
        let mut keys = Vec::with_capacity(grouping.keys.len());
        for key in &grouping.keys[..grouping.keys.len() - 1] {
            keys.push(cx.value(key, row).await?);
        }
        Ok(keys)
    }

    async fn add_to_group_of_set(
        &mut self,
        grouping: &Grouping,
        cx: &mut Cx<'_>,
        (row, all): (&[Value], &[Value]),
        number: usize,
    ) -> Result<(), SqlError> {
        let set = &grouping.sets[number];
        let mut keys = vec![Value::Null; grouping.keys.len()];
        for key in set {
            keys[*key] = all[*key].clone();
        }
        number_set(&mut keys, number);
        let Some(group) = self.group_with(grouping, &mut keys) else {
            return self.spill_row(Some(number), row);
        };
        let mut nulled = Vec::new();
        let has_direct = grouping.aggregates.iter().any(Aggregate::has_direct_args);
        if has_direct {
            null_keys(grouping, set, row, &mut nulled);
        }
        let rows = (row, if has_direct { nulled.as_slice() } else { row });
        let first = group as usize * grouping.aggregates.len();
        for (nth, aggregate) in grouping.aggregates.iter().enumerate() {
            let accumulator = &mut self.accumulators[first + nth];
            cx.in_parts(|cx| accumulator.update_in_set(aggregate, rows, cx.params(), cx.eval))
                .await?;
        }
        Ok(())
    }

    /// Counts the memory of the groups from `from` on. A group's key is stored in its row and in
    /// the hash table. Writes the rows of groups that do not fit to the temporary file.
    async fn count(
        &mut self,
        grouping: &Grouping,
        cx: &mut Cx<'_>,
        from: usize,
    ) -> Result<(), StatementStop> {
        self.memory.add_rows(cx, &self.rows, from)?;
        let accumulators = grouping.aggregates.len() * size_of::<Accumulator>();
        for _ in from..self.rows.len() {
            self.memory.add_entry(cx, self.key.len() + accumulators)?;
        }
        if let Some(spill) = &mut self.spill {
            Box::pin(spill.write()).await?;
        }
        if self.is_open && self.memory.is_full() && !grouping.keys.is_empty() {
            self.is_open = false;
            self.spill
                .get_or_insert_with(|| Box::new(GroupSpill::new(cx, grouping)));
        }
        Ok(())
    }

    /// Removes all groups.
    fn clear(&mut self) {
        self.by_key.clear();
        self.rows.clear();
        self.accumulators.clear();
        self.next = 0;
        self.memory.restart();
        self.is_open = true;
    }

    /// Adds partial results of other machines: keys, followed by partial aggregates, side by side.
    pub async fn merge(
        &mut self,
        grouping: &Grouping,
        cx: &mut Cx<'_>,
        (values, width): (&[Value], usize),
    ) -> Result<(), StatementStop> {
        let from = self.rows.len();
        let mut keys = Vec::with_capacity(grouping.keys.len());
        for row in values.chunks_exact(width.max(1)) {
            cx.breathe().await?;
            let (key, mut parts) = row.split_at(grouping.keys.len());
            keys.clear();
            keys.extend_from_slice(key);
            let group = match keys.is_empty() {
                true => Some(0),
                false => self.group_with(grouping, &mut keys),
            };
            let Some(group) = group else {
                if let Some(spill) = &mut self.spill {
                    spill.add_partial(&self.key, row)?;
                }
                continue;
            };
            let first = group as usize * grouping.aggregates.len();
            for accumulator in &mut self.accumulators[first..][..grouping.aggregates.len()] {
                let (part, rest) = parts.split_at(accumulator.partial_width().min(parts.len()));
                accumulator.merge(part)?;
                parts = rest;
            }
        }
        self.count(grouping, cx, from).await
    }

    /// Passes the partial result of each group to `give`, for [`Groups::merge`].
    pub async fn partial(
        &mut self,
        grouping: &Grouping,
        cx: &mut Cx<'_>,
        mut give: impl FnMut(&[Value]) -> Result<(), SqlError> + Send,
    ) -> Result<u64, StatementStop> {
        let (keys, aggregates) = (grouping.keys.len(), grouping.aggregates.len());
        let mut row = Vec::new();
        let mut given = 0;
        loop {
            for group in 0..self.rows.len() {
                cx.breathe().await?;
                row.clear();
                row.extend_from_slice(&self.rows.row(group)[..keys]);
                let first = group * aggregates;
                for accumulator in &self.accumulators[first..first + aggregates] {
                    accumulator.partial(&mut row);
                }
                give(&row)?;
            }
            given += self.rows.len() as u64;
            if !self.next_partition(grouping, cx).await? {
                return Ok(given);
            }
        }
    }

    /// Returns the group of a row. Returns `None` if it is not in memory.
    #[inline]
    async fn group_of(
        &mut self,
        grouping: &Grouping,
        cx: &mut Cx<'_>,
        row: &[Value],
        keys: &mut Vec<Value>,
    ) -> Result<Option<u32>, SqlError> {
        keys.clear();
        if self.encode_columns(grouping, row) {
            if let Some(group) = self.by_key.get(&self.key) {
                return Ok(Some(*group));
            }
            let columns = grouping.keys.iter().filter_map(column_of);
            keys.extend(columns.map(|slot| row[slot].clone()));
            return Ok(self.begin_keyed(grouping, keys));
        }
        for key in &grouping.keys {
            keys.push(cx.value(key, row).await?);
        }
        Ok(self.group_with(grouping, keys))
    }

    /// Encodes the keys of a row, if all of them are columns.
    #[inline]
    fn encode_columns(&mut self, grouping: &Grouping, row: &[Value]) -> bool {
        self.key.clear();
        for key in &grouping.keys {
            match column_of(key) {
                Some(slot) => push_comparable(&row[slot], &mut self.key),
                None => return false,
            }
        }
        true
    }

    /// Returns the group with these keys. A new group takes the keys out of `keys`. Returns `None`
    /// if the group is not in memory.
    fn group_with(&mut self, grouping: &Grouping, keys: &mut Vec<Value>) -> Option<u32> {
        self.key.clear();
        for key in keys.iter() {
            push_comparable(key, &mut self.key);
        }
        if let Some(group) = self.by_key.get(&self.key) {
            return Some(*group);
        }
        self.begin_keyed(grouping, keys)
    }

    /// Begins the group whose keys, encoded, are in `key`. Returns `None` if the memory is full.
    fn begin_keyed(&mut self, grouping: &Grouping, keys: &mut Vec<Value>) -> Option<u32> {
        if !self.is_open {
            return None;
        }
        let group = self.begin(grouping, keys);
        self.by_key.insert(self.key.clone(), group);
        Some(group)
    }

    /// Computes the results of the groups in memory.
    pub async fn finish(&mut self, grouping: &Grouping, cx: &mut Cx<'_>) -> Result<(), SqlError> {
        let aggregates = grouping.aggregates.len();
        let accumulators = std::mem::take(&mut self.accumulators);
        for (i, accumulator) in accumulators.into_iter().enumerate() {
            cx.breathe().await?;
            let result = result(accumulator, &grouping.aggregates[i % aggregates], cx).await?;
            let slot = grouping.keys.len() + i % aggregates;
            self.rows.row_mut(i / aggregates)[slot] = result;
        }
        self.by_key = HashMap::default();
        Ok(())
    }

    /// Returns up to `max` of the remaining group rows, and whether more follow.
    ///
    /// # Errors
    /// Those of the temporary file and of the aggregates.
    pub async fn next_rows(
        &mut self,
        grouping: &Grouping,
        cx: &mut Cx<'_>,
        max: usize,
    ) -> Result<(&Batch, bool), StatementStop> {
        if self.next == self.rows.len()
            && self.spill.is_some()
            && Box::pin(self.next_partition(grouping, cx)).await?
        {
            Box::pin(self.finish(grouping, cx)).await?;
        }
        self.page.clear();
        let end = self.rows.len().min(self.next + max);
        for i in self.next..end {
            for (to, from) in self.page.push().iter_mut().zip(self.rows.row_mut(i)) {
                *to = std::mem::take(from);
            }
        }
        self.next = end;
        let waits = self
            .spill
            .as_ref()
            .is_some_and(|spill| spill.has_partition());
        Ok((&self.page, end < self.rows.len() || waits))
    }
}

/// Returns the slot of a group key that is a column.
fn column_of(key: &Expr) -> Option<usize> {
    match key.node {
        Node::Column(slot) => Some(slot),
        _ => None,
    }
}

/// Returns whether the state of an aggregate grows with its rows.
fn grows(aggregate: &Aggregate) -> bool {
    aggregate.distinct
        || !aggregate.order_by.is_empty()
        || matches!(
            aggregate.kind,
            AggregateKind::StringAgg
                | AggregateKind::ArrayAgg
                | AggregateKind::JsonAgg
                | AggregateKind::JsonbAgg
                | AggregateKind::JsonObjectAgg
                | AggregateKind::JsonbObjectAgg
        )
}

fn bytes_of(accumulators: &[Accumulator]) -> usize {
    accumulators.iter().map(Accumulator::bytes).sum()
}

/// The number of rows of one aggregate that are sorted or accumulated without a pause.
const AT_ONCE: usize = 1024;

/// Returns the result of an aggregate. If it has retained many rows, they are sorted and
/// accumulated in pieces.
async fn result(
    mut accumulator: Accumulator,
    aggregate: &Aggregate,
    cx: &mut Cx<'_>,
) -> Result<Value, SqlError> {
    let retained = accumulator.retained_rows();
    if retained <= AT_ONCE {
        return accumulator.finish(aggregate);
    }
    let mut order: Vec<u32> = (0..retained as u32).collect();
    let (known, heads) = (&accumulator, accumulator.retained_heads(aggregate));
    sort_indexes(&mut order, cx, |a, b| {
        let by_head = heads[a as usize].cmp(&heads[b as usize]);
        by_head.then_with(|| known.compare_retained(aggregate, a, b))
    })
    .await?;
    if matches!(aggregate.kind, AggregateKind::OrderedSet(_)) {
        return accumulator.finish_ordered(aggregate, &order);
    }
    let mut before = None;
    for piece in order.chunks(AT_ONCE) {
        accumulator.add_retained(aggregate, before, piece)?;
        before = piece.last().copied();
        cx.pause().await?;
    }
    accumulator.forget_retained();
    accumulator.finish(aggregate)
}

/// Sets the last key to the number of the grouping set.
fn number_set(keys: &mut [Value], number: usize) {
    if let Some(last) = keys.last_mut() {
        *last = Value::Int4(i32::try_from(number).unwrap_or(i32::MAX));
    }
}

/// Copies a from row to `nulled`, with NULL in the columns that are keys of other grouping sets
/// only.
fn null_keys(grouping: &Grouping, set: &[usize], row: &[Value], nulled: &mut Vec<Value>) {
    nulled.clear();
    nulled.extend_from_slice(row);
    for (at, key) in grouping.keys.iter().enumerate() {
        if let Node::Column(slot) = key.node
            && !set.contains(&at)
            && let Some(value) = nulled.get_mut(slot)
        {
            *value = Value::Null;
        }
    }
}
