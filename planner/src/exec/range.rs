//! The keys of an access path, computed when a scan opens: points or byte ranges. If the index is
//! partitioned, each has its partition.

use std::ops::Bound;
use std::sync::Arc;

use fencepost_sql::error::SqlError;
use fencepost_sql::key::{KeyCodec, successor};
use fencepost_sql::types::TypeKind;
use fencepost_sql::value::Value;
use fencepost_storage::FatPtr;

use super::cx::Cx;
use super::pointer::pointer_of;
use super::routed::{leaf, routed_keys};
use crate::access::{Access, KeyBounds, KeyTerm};
use crate::plan::Scan;
use crate::terms::is_array;

/// The keys that a scan reads.
#[derive(Debug)]
pub enum Keys {
    /// Whole keys.
    Points(Vec<Prefix>),
    /// Ranges in index order that do not overlap.
    Ranges(Vec<KeyRange>),
    /// No keys: the address of one row.
    Place(Option<FatPtr>),
}

/// A whole key, or a prefix of keys.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Prefix {
    /// Its bytes.
    pub key: Vec<u8>,
    /// The partition that has it, once the partition column is part of it.
    pub partition: u32,
}

/// Keys from `lower` on, up to but not including `upper`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeyRange {
    lower: Vec<u8>,
    upper: Option<Vec<u8>>,
    /// The partition whose tree is read; `None` means all partitions, merged.
    pub partition: Option<u32>,
    /// If the partitions are merged: only these of them.
    among: Option<Arc<[u32]>>,
}

impl KeyRange {
    /// Returns the range of all keys.
    pub fn all() -> KeyRange {
        KeyRange {
            lower: Vec::new(),
            upper: None,
            partition: Some(0),
            among: None,
        }
    }

    /// Returns the same range in these partitions, merged.
    pub fn among(self, partitions: Arc<[u32]>) -> KeyRange {
        KeyRange {
            partition: None,
            among: Some(partitions),
            ..self
        }
    }

    /// Returns the same range in one partition.
    pub fn of_partition(self, partition: u32) -> KeyRange {
        KeyRange {
            partition: Some(partition),
            ..self
        }
    }

    /// Returns whether the merge includes a partition.
    pub fn merges(&self, partition: u32, cx: &Cx<'_>) -> bool {
        match &self.among {
            Some(among) => among.contains(&partition),
            None => cx.reads(partition),
        }
    }

    /// Extends the range by `next`, which begins at or after it. Returns false, and changes
    /// nothing, if there are keys between the two, or if they are in different partitions.
    fn absorb(&mut self, next: &mut KeyRange) -> bool {
        let reaches = self.upper.as_ref().is_none_or(|upper| *upper >= next.lower);
        if !reaches || self.partition != next.partition || self.among != next.among {
            return false;
        }
        if self.upper.is_some() && (next.upper.is_none() || next.upper > self.upper) {
            self.upper = next.upper.take();
        }
        true
    }

    /// Returns whether its partition must be read.
    fn is_read(&self, cx: &Cx<'_>) -> bool {
        self.partition.is_none_or(|partition| cx.reads(partition))
    }

    /// Returns the lower bound.
    pub fn lower(&self) -> Bound<&[u8]> {
        match self.lower.is_empty() {
            true => Bound::Unbounded,
            false => Bound::Included(&self.lower),
        }
    }

    /// Returns the upper bound.
    pub fn upper(&self) -> Bound<&[u8]> {
        match &self.upper {
            None => Bound::Unbounded,
            Some(key) => Bound::Excluded(key),
        }
    }
}

/// The position of a value relative to the value range of a key column.
pub enum Fit {
    /// The value is in the range.
    Value(Value),
    /// The value is less than all values of the range.
    Below,
    /// The value is greater than all values of the range.
    Above,
    /// NULL: no comparison holds.
    Null,
}

/// Converts a value to the type of a key column. Comparisons accept integers of any width, but a
/// key holds the column's width.
pub fn fit(value: Value, kind: TypeKind) -> Fit {
    if value.is_null() {
        return Fit::Null;
    }
    let Some(wide) = value.as_int().filter(|_| kind.is_integer()) else {
        return Fit::Value(value);
    };
    let narrow = match kind {
        TypeKind::Int2 => i16::try_from(wide).ok().map(Value::Int2),
        TypeKind::Int4 => i32::try_from(wide).ok().map(Value::Int4),
        _ => Some(Value::Int8(wide)),
    };
    match narrow {
        Some(value) => Fit::Value(value),
        None if wide < 0 => Fit::Below,
        None => Fit::Above,
    }
}

/// Computes the keys of `scan`. `row` has the slots that its key terms read.
pub fn keys(scan: &Scan, cx: &Cx<'_>, row: &[Value]) -> Result<Keys, SqlError> {
    if let Some(place) = &scan.place {
        return Ok(Keys::Place(pointer_of(&cx.value_here(place, row)?)));
    }
    if let Some(tree) = scan.table.def.tree() {
        return routed_keys(scan, tree, cx, row);
    }
    match &scan.access {
        Access::Full => Ok(Keys::Ranges(everywhere(scan, cx, KeyRange::all()))),
        Access::Points(terms) => Ok(Keys::Points(prefixes(scan, terms, cx, row)?)),
        Access::Ranges(branches) => {
            let mut ranges = Vec::new();
            for bounds in branches {
                add_ranges(scan, bounds, (cx, row), &mut ranges)?;
            }
            Ok(Keys::Ranges(disjoint(ranges, branches)))
        }
    }
}

/// Appends the ranges of one branch to `out`.
fn add_ranges(
    scan: &Scan,
    bounds: &KeyBounds,
    (cx, row): (&Cx<'_>, &[Value]),
    out: &mut Vec<KeyRange>,
) -> Result<(), SqlError> {
    for key in prefixes(scan, &bounds.prefix, cx, row)? {
        match range(scan, bounds, key, cx, row)? {
            Some(range) if bounds.prefix.is_empty() => out.extend(everywhere(scan, cx, range)),
            range => out.extend(range.filter(|range| range.is_read(cx))),
        }
    }
    Ok(())
}

/// Returns the ranges of several branches in index order, with ranges that overlap or touch merged.
/// The ranges of a single branch are in order and disjoint already.
pub fn disjoint(mut ranges: Vec<KeyRange>, branches: &[KeyBounds]) -> Vec<KeyRange> {
    if branches.len() < 2 {
        return ranges;
    }
    ranges.sort_unstable_by(|a, b| (a.partition, &a.lower).cmp(&(b.partition, &b.lower)));
    ranges.dedup_by(|next, last| last.absorb(next));
    ranges
}

/// Returns a range for each partition, for a range that does not determine the partition.
fn everywhere(scan: &Scan, cx: &Cx<'_>, range: KeyRange) -> Vec<KeyRange> {
    let trees = scan.table.index_def(scan.index).roots.all().len() as u32;
    if scan.merged || (trees == 1 && cx.reads(0)) {
        let partition = (!scan.merged).then_some(0);
        return vec![KeyRange { partition, ..range }];
    }
    let read = (0..trees).filter(|partition| cx.reads(*partition));
    let each = read.map(|partition| KeyRange {
        partition: Some(partition),
        ..range.clone()
    });
    each.collect()
}

/// Writes the single key of a point access to `out` and returns its partition. Returns `None` if no
/// row can have the key.
pub fn point_key(
    scan: &Scan,
    terms: &[KeyTerm],
    cx: &Cx<'_>,
    row: &[Value],
    out: &mut Vec<u8>,
) -> Result<Option<u32>, SqlError> {
    out.clear();
    let partition = push_terms(scan, terms, cx, row, out)?;
    match scan.table.def.tree() {
        Some(tree) if partition.is_some() => leaf(scan, tree, cx, row),
        _ => Ok(partition),
    }
}

/// Appends the key prefix of terms with one value each, and returns its partition. Returns `None`
/// if no row can have the prefix.
fn push_terms(
    scan: &Scan,
    terms: &[KeyTerm],
    cx: &Cx<'_>,
    row: &[Value],
    out: &mut Vec<u8>,
) -> Result<Option<u32>, SqlError> {
    let mut partition = 0;
    for (position, term) in terms.iter().enumerate() {
        let KeyTerm::One(expr) = term else {
            return Err(SqlError::internal("a key prefix with several values"));
        };
        match fit(cx.value_here(expr, row)?, key_kind(scan, position)) {
            Fit::Value(value) => {
                if position == 0 {
                    partition = partition_of(scan, &value, out);
                }
                codec(scan).push(position, &value, out);
            }
            Fit::Below | Fit::Above | Fit::Null => return Ok(None),
        }
    }
    Ok(Some(partition))
}

/// Returns the partition of the keys that begin with `value`.
#[inline]
fn partition_of(scan: &Scan, value: &Value, scratch: &mut Vec<u8>) -> u32 {
    match &scan.table.def.partitioning {
        Some(by) if scan.table.index_def(scan.index).roots.are_partitioned() => {
            by.of_value(value, scratch)
        }
        _ => 0,
    }
}

/// Returns every key prefix that the terms allow, sorted and without duplicates.
pub fn prefixes(
    scan: &Scan,
    terms: &[KeyTerm],
    cx: &Cx<'_>,
    row: &[Value],
) -> Result<Vec<Prefix>, SqlError> {
    if terms.iter().all(|term| matches!(term, KeyTerm::One(_))) {
        let mut key = Vec::new();
        let partition = push_terms(scan, terms, cx, row, &mut key)?;
        let prefix = partition.map(|partition| Prefix { key, partition });
        return Ok(prefix.into_iter().collect());
    }
    let mut keys = vec![Prefix::default()];
    for (position, term) in terms.iter().enumerate() {
        let kind = key_kind(scan, position);
        let (single, many);
        let values: &[Value] = match term {
            KeyTerm::One(expr) => {
                single = [cx.value_here(expr, row)?];
                &single
            }
            KeyTerm::Any(list) if is_array(list) => {
                many = elements(cx.value_here(&list[0], row)?);
                &many
            }
            KeyTerm::Any(list) => {
                let values = list.iter().map(|expr| cx.value_here(expr, row));
                many = values.collect::<Result<_, _>>()?;
                &many
            }
            KeyTerm::Members(condition) => cx.members(condition),
        };
        let mut longer = Vec::with_capacity(keys.len() * values.len());
        for value in values {
            if let Fit::Value(value) = fit(value.clone(), kind) {
                for key in &keys {
                    let mut longer_key = key.clone();
                    if position == 0 {
                        let scratch = &mut longer_key.key;
                        longer_key.partition = partition_of(scan, &value, scratch);
                    }
                    codec(scan).push(position, &value, &mut longer_key.key);
                    longer.push(longer_key);
                }
            }
        }
        keys = longer;
    }
    keys.sort();
    keys.dedup();
    Ok(keys)
}

/// Returns the elements of an array; none for NULL.
pub fn elements(value: Value) -> Vec<Value> {
    match value {
        Value::Array(array) => array.values,
        _ => Vec::new(),
    }
}

/// Returns the range after a prefix between the bounds of the next key column; `None` if it is
/// empty.
pub fn range(
    scan: &Scan,
    bounds: &KeyBounds,
    Prefix {
        key: prefix,
        partition,
    }: Prefix,
    cx: &Cx<'_>,
    row: &[Value],
) -> Result<Option<KeyRange>, SqlError> {
    let position = bounds.prefix.len();
    let (lower, upper) = (&bounds.lower, &bounds.upper);
    let whole_prefix = lower.is_none() && upper.is_none();
    if whole_prefix {
        return Ok(Some(KeyRange {
            upper: past(prefix.clone()),
            lower: prefix,
            partition: Some(partition),
            among: None,
        }));
    }
    let kind = key_kind(scan, position);
    let mut low = None;
    let mut high = None;
    if let Some((expr, included)) = lower {
        match fit(cx.value_here(expr, row)?, kind) {
            Fit::Value(value) => low = Some((value, *included)),
            Fit::Below => {}
            Fit::Above | Fit::Null => return Ok(None),
        }
    }
    if let Some((expr, included)) = upper {
        match fit(cx.value_here(expr, row)?, kind) {
            Fit::Value(value) => high = Some((value, *included)),
            Fit::Above => {}
            Fit::Below | Fit::Null => return Ok(None),
        }
    }
    let codec = codec(scan);
    if codec.is_desc(position) {
        std::mem::swap(&mut low, &mut high);
    }
    // Every value other than NULL lies between these two keys.
    let mut values = prefix;
    codec.push_not_null(position, &mut values);
    let stem = values.len() - usize::from(codec.is_marked(position));
    let from = match low {
        None => values.clone(),
        Some((value, included)) => {
            let mut key = values[..stem].to_vec();
            codec.push(position, &value, &mut key);
            if !included && !successor(&mut key) {
                return Ok(None);
            }
            key
        }
    };
    let to = match high {
        None => past(values),
        Some((value, included)) => {
            let mut key = values[..stem].to_vec();
            codec.push(position, &value, &mut key);
            if included { past(key) } else { Some(key) }
        }
    };
    let empty = to.as_ref().is_some_and(|to| *to <= from);
    Ok((!empty).then_some(KeyRange {
        lower: from,
        upper: to,
        partition: Some(partition),
        among: None,
    }))
}

fn past(mut key: Vec<u8>) -> Option<Vec<u8>> {
    successor(&mut key).then_some(key)
}

fn codec(scan: &Scan) -> &KeyCodec {
    &scan.table.keys[scan.index]
}

fn key_kind(scan: &Scan, position: usize) -> TypeKind {
    let index = scan.table.index_def(scan.index);
    index
        .type_of(&scan.table.def, index.columns[position].column)
        .kind
}
