//! GROUP BY and aggregates, by a hash table of groups.

use fencepost_sql::bound::{Aggregate, Expr, Grouping};
use fencepost_sql::error::SqlError;
use fencepost_sql::functions::Accumulator;
use fencepost_sql::stop::Halt;
use fencepost_sql::value::Value;
use foldhash::{HashMap, HashSet};

use super::batch::Batch;
use super::cx::Cx;
use super::join::push_comparable;
use super::sort::compare_values;

/// The groups: first the accumulating, then the finished.
pub struct Groups {
    by_key: HashMap<Vec<u8>, u32>,
    /// The group rows: keys, then results.
    rows: Batch,
    states: Vec<State>,
    next: usize,
    key: Vec<u8>,
    args: Vec<Value>,
    page: Batch,
}

/// One aggregate of one group.
struct State {
    accumulator: Accumulator,
    distinct: HashSet<Vec<u8>>,
    /// Arguments and sort keys of an aggregate with ORDER BY, sorted when it is finished.
    ordered: Vec<(Vec<Value>, Vec<Value>)>,
}

impl Groups {
    /// No groups yet; or the one group, where there are no keys.
    pub fn new(grouping: &Grouping) -> Groups {
        let width = grouping.keys.len() + grouping.aggregates.len();
        let mut groups = Groups {
            by_key: HashMap::default(),
            rows: Batch::new(width),
            states: Vec::new(),
            next: 0,
            key: Vec::new(),
            args: Vec::new(),
            page: Batch::new(width),
        };
        if grouping.keys.is_empty() {
            groups.begin(grouping, Vec::new());
        }
        groups
    }

    fn begin(&mut self, grouping: &Grouping, keys: Vec<Value>) -> u32 {
        let group = self.rows.len() as u32;
        for (slot, key) in self.rows.push().iter_mut().zip(keys) {
            *slot = key;
        }
        self.states.extend(grouping.aggregates.iter().map(|a| State {
            accumulator: Accumulator::new(a),
            distinct: HashSet::default(),
            ordered: Vec::new(),
        }));
        group
    }

    /// Adds from rows.
    pub fn add(&mut self, grouping: &Grouping, cx: &Cx<'_>, input: &Batch) -> Result<(), Halt> {
        let mut keys = Vec::with_capacity(grouping.keys.len());
        for i in 0..input.len() {
            let row = input.row(i);
            let group = if grouping.keys.is_empty() {
                0
            } else {
                self.key.clear();
                for key in &grouping.keys {
                    let value = cx.value(key, row)?;
                    push_comparable(&value, &mut self.key);
                    keys.push(value);
                }
                match self.by_key.get(&self.key) {
                    Some(group) => *group,
                    None => {
                        let group = self.begin(grouping, keys.split_off(0));
                        self.by_key.insert(self.key.clone(), group);
                        group
                    }
                }
            };
            keys.clear();
            let first = group as usize * grouping.aggregates.len();
            for (nth, aggregate) in grouping.aggregates.iter().enumerate() {
                let state = &mut self.states[first + nth];
                add_row(state, aggregate, cx, row, &mut self.args, &mut self.key)?;
            }
        }
        Ok(())
    }

    /// Computes the results.
    pub fn finish(&mut self, grouping: &Grouping) -> Result<(), SqlError> {
        let aggregates = grouping.aggregates.len();
        if aggregates == 0 {
            return Ok(());
        }
        for (i, state) in self.states.iter_mut().enumerate() {
            let aggregate = &grouping.aggregates[i % aggregates];
            if !aggregate.order_by.is_empty() {
                let order = &aggregate.order_by;
                state.ordered.sort_by(|(_, a), (_, b)| {
                    order
                        .iter()
                        .zip(a.iter().zip(b))
                        .map(|((_, desc, nulls), (a, b))| compare_values(a, b, *desc, *nulls))
                        .find(|o| o.is_ne())
                        .unwrap_or(std::cmp::Ordering::Equal)
                });
                for (args, _) in &state.ordered {
                    state.accumulator.add(args)?;
                }
            }
            let slot = grouping.keys.len() + i % aggregates;
            self.rows.row_mut(i / aggregates)[slot] = state.accumulator.finish()?;
        }
        self.states = Vec::new();
        self.by_key = HashMap::default();
        Ok(())
    }

    /// Up to `max` of the group rows that were not given yet, and whether there are more.
    pub fn rows(&mut self, max: usize) -> (&Batch, bool) {
        self.page.clear();
        let end = self.rows.len().min(self.next + max);
        for i in self.next..end {
            for (to, from) in self.page.push().iter_mut().zip(self.rows.row_mut(i)) {
                *to = std::mem::take(from);
            }
        }
        self.next = end;
        (&self.page, end < self.rows.len())
    }
}

fn add_row(
    state: &mut State,
    aggregate: &Aggregate,
    cx: &Cx<'_>,
    row: &[Value],
    args: &mut Vec<Value>,
    key: &mut Vec<u8>,
) -> Result<(), SqlError> {
    if !cx.holds(aggregate.filter.as_ref(), row)? {
        return Ok(());
    }
    values(&aggregate.args, cx, row, args)?;
    if aggregate.distinct {
        key.clear();
        args.iter().for_each(|value| push_comparable(value, key));
        if state.distinct.contains(key.as_slice()) {
            return Ok(());
        }
        state.distinct.insert(key.clone());
    }
    if aggregate.order_by.is_empty() {
        return state.accumulator.add(args);
    }
    let mut keys = Vec::with_capacity(aggregate.order_by.len());
    for (expr, _, _) in &aggregate.order_by {
        keys.push(cx.value(expr, row)?);
    }
    state.ordered.push((args.clone(), keys));
    Ok(())
}

fn values(exprs: &[Expr], cx: &Cx<'_>, row: &[Value], out: &mut Vec<Value>) -> Result<(), SqlError> {
    out.clear();
    for expr in exprs {
        out.push(cx.value(expr, row)?);
    }
    Ok(())
}
