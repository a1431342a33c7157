//! The statistics of one column from a sample of rows, by PostgreSQL's estimators.

use fencepost_sql::functions::compare;
use fencepost_sql::table_statistics::ColumnStatistics;
use fencepost_sql::value::Value;

use super::sample::{SampledRow, SampledValue};

/// The maximum number of most common values and of groups of a histogram, as in PostgreSQL.
const TARGET: usize = 100;
/// The fraction of rows above which the number of distinct values counts as proportional to the
/// number of rows.
const PROPORTIONAL: f64 = 0.1;

/// A value of the sample and the position of its row.
type Placed<'a> = (&'a Value, u64);

/// A distinct value of the sample, by its first index in the sorted values, and its number.
struct Group {
    first: usize,
    count: usize,
}

/// Returns the statistics of the column at `at` of sampled rows, in a table of `total` rows.
pub(super) fn column_statistics(
    rows: &[SampledRow],
    at: usize,
    attnum: i16,
    total: f64,
) -> ColumnStatistics {
    let mut values: Vec<Placed<'_>> = Vec::new();
    let (mut nulls, mut long, mut bytes) = (0_usize, 0_usize, 0_usize);
    for row in rows {
        match &row.values[at] {
            SampledValue::Null => nulls += 1,
            SampledValue::Long(length) => {
                long += 1;
                bytes += length;
            }
            SampledValue::Short(value) => {
                bytes += width(value);
                values.push((value, row.position));
            }
        }
    }
    let present = values.len() + long;
    let mut column = ColumnStatistics {
        attnum,
        ..ColumnStatistics::default()
    };
    if rows.is_empty() {
        return column;
    }
    column.null_fraction = nulls as f64 / rows.len() as f64;
    if present == 0 {
        return column;
    }
    column.width = bytes as f64 / present as f64;
    values.sort_by(|a, b| compare(a.0, b.0).then(a.1.cmp(&b.1)));
    let groups = groups(&values);
    let once = groups.iter().filter(|group| group.count == 1).count() + long;
    let distinct = Distinct {
        sampled: groups.len() + long,
        once,
        sample: present,
        total: total * (1.0 - column.null_fraction),
    };
    let distinct = distinct.estimate();
    column.distinct = if distinct > PROPORTIONAL * total {
        -(distinct / total).min(1.0)
    } else {
        distinct
    };
    let common = common_groups(&groups, rows.len(), total, distinct, nulls);
    column.common = common
        .iter()
        .map(|group| {
            (
                values[group.first].0.clone(),
                group.count as f64 / rows.len() as f64,
            )
        })
        .collect();
    column.histogram = histogram(&values, &common);
    column.correlation = correlation(&values);
    column
}

/// Returns the number of bytes of a value, about as PostgreSQL stores it.
fn width(value: &Value) -> usize {
    match value {
        Value::Null => 0,
        Value::Bool(_) => 1,
        Value::Int2(_) => 2,
        Value::Int4(_) | Value::Float4(_) | Value::Date(_) | Value::Oid(_) => 4,
        Value::Int8(_)
        | Value::Float8(_)
        | Value::Timestamp(_)
        | Value::TimestampTz(_)
        | Value::Time(_) => 8,
        Value::Text(text) | Value::Citext(text) | Value::Json(text) | Value::Jsonb(text) => {
            text.len() + 1
        }
        other => other.bytes_apart().max(12),
    }
}

/// Returns the distinct values of sorted values.
fn groups(values: &[Placed<'_>]) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for (index, (value, _)) in values.iter().enumerate() {
        match groups.last_mut() {
            Some(last) if compare(values[last.first].0, value).is_eq() => last.count += 1,
            _ => groups.push(Group {
                first: index,
                count: 1,
            }),
        }
    }
    groups
}

/// The counts from which the number of distinct values is estimated.
struct Distinct {
    /// Distinct values in the sample.
    sampled: usize,
    /// Values that occur once in the sample.
    once: usize,
    /// Values in the sample that are not NULL.
    sample: usize,
    /// Values in the table that are not NULL.
    total: f64,
}

impl Distinct {
    /// Estimates the number of distinct values in the table (estimator Duj1 of Haas and Stokes,
    /// IBM Research Report RJ 10025).
    fn estimate(&self) -> f64 {
        let (sampled, once, sample) = (self.sampled as f64, self.once as f64, self.sample as f64);
        if self.once == self.sampled {
            return self.total;
        }
        if self.once == 0 || self.total <= sample {
            return sampled;
        }
        let estimate = sample * sampled / (sample - once + once * sample / self.total);
        estimate.clamp(sampled, self.total).round()
    }
}

/// Returns the most common values, most common first: all values if the sample has all of the
/// table, else those that are more common than the others by more than chance.
fn common_groups(
    groups: &[Group],
    sample: usize,
    total: f64,
    distinct: f64,
    nulls: usize,
) -> Vec<Group> {
    let mut common: Vec<Group> = groups
        .iter()
        .filter(|group| group.count > 1)
        .map(|group| Group { ..*group })
        .collect();
    common.sort_by_key(|group| std::cmp::Reverse(group.count));
    let has_all =
        groups.len() <= TARGET && common.len() == groups.len() && distinct <= TARGET as f64;
    common.truncate(TARGET);
    if has_all {
        return common;
    }
    let sample = sample as f64;
    while let Some(last) = common.last() {
        let sum: usize = common.iter().map(|group| group.count).sum();
        let others = distinct - (common.len() - 1) as f64;
        let rest = (sample - nulls as f64 - (sum - last.count) as f64).max(0.0);
        let expected = rest / others.max(1.0);
        // The standard deviation of the count of a value in a sample without replacement.
        let all = total * last.count as f64 / sample;
        let variance = if total > sample {
            let outside = (total - all) * (total - sample);
            sample * all * outside / (total * total * (total - 1.0))
        } else {
            0.0
        };
        if last.count as f64 > expected + 2.0 * variance.max(0.0).sqrt() + 0.5 {
            break;
        }
        common.pop();
    }
    common
}

/// Returns the bounds of groups of about the same number of values, without the most common values.
fn histogram(values: &[Placed<'_>], common: &[Group]) -> Vec<Value> {
    let is_common = |index: usize| {
        let mut common = common.iter();
        common.any(|group| (group.first..group.first + group.count).contains(&index))
    };
    let rest: Vec<&Value> = if common.is_empty() {
        values.iter().map(|(value, _)| *value).collect()
    } else {
        let indexes = (0..values.len()).filter(|index| !is_common(*index));
        indexes.map(|index| values[index].0).collect()
    };
    let (Some(first), Some(last)) = (rest.first(), rest.last()) else {
        return Vec::new();
    };
    if compare(first, last).is_eq() {
        return Vec::new();
    }
    let bounds = TARGET.min(rest.len() - 1);
    let at = |bound: usize| bound * (rest.len() - 1) / bounds;
    (0..=bounds).map(|bound| rest[at(bound)].clone()).collect()
}

/// Returns the correlation between the order of sorted values and the order of their rows.
fn correlation(values: &[Placed<'_>]) -> Option<f64> {
    let count = values.len() as f64;
    if values.len() < 2 {
        return None;
    }
    let mut places: Vec<usize> = (0..values.len()).collect();
    places.sort_by_key(|index| values[*index].1);
    let product: f64 = places
        .iter()
        .enumerate()
        .map(|(place, index)| place as f64 * *index as f64)
        .sum();
    let sum = count * (count - 1.0) / 2.0;
    let squares = (count - 1.0) * count * (2.0 * count - 1.0) / 6.0;
    Some((count * product - sum * sum) / (count * squares - sum * sum))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(values: impl Iterator<Item = Value>) -> Vec<SampledRow> {
        let row = |(position, value): (usize, Value)| SampledRow {
            position: position as u64,
            values: vec![match value {
                Value::Null => SampledValue::Null,
                value => SampledValue::Short(value),
            }],
        };
        values.enumerate().map(row).collect()
    }

    #[test]
    fn unique_column_is_proportional_to_its_table() {
        let rows = rows((0..1_000).map(Value::Int4));
        let column = column_statistics(&rows, 0, 1, 1_000_000.0);
        assert_eq!(column.distinct, -1.0);
        assert!(column.common.is_empty());
        assert_eq!(column.histogram.len(), TARGET + 1);
        assert_eq!(column.histogram[50], Value::Int4(499));
        assert_eq!(column.correlation, Some(1.0));
    }

    #[test]
    fn few_values_are_all_common() {
        let rows = rows((0..1_000).map(|row| match row % 4 {
            0 => Value::Null,
            other => Value::Int4(other),
        }));
        let column = column_statistics(&rows, 0, 1, 1_000_000.0);
        assert_eq!(column.null_fraction, 0.25);
        assert_eq!(column.distinct, 3.0);
        assert_eq!(column.common.len(), 3);
        assert!(column.histogram.is_empty());
        assert_eq!(column.common_fraction(), 0.75);
    }

    #[test]
    fn frequent_value_among_rare_ones_is_common() {
        let rows = rows((0..10_000).map(|row| match row % 2 {
            0 => Value::Int4(-1),
            _ => Value::Int4(row),
        }));
        let column = column_statistics(&rows, 0, 1, 1_000_000.0);
        let common: Vec<_> = column
            .common
            .iter()
            .map(|(value, _)| value.clone())
            .collect();
        assert_eq!(common, [Value::Int4(-1)]);
        // Half of the sample are 5,000 values that occur once.
        let distinct = column.distinct;
        assert!((9_800.0..10_000.0).contains(&distinct), "{distinct}");
    }

    #[test]
    fn falling_values_have_negative_correlation() {
        let rows = rows((0..500).rev().map(Value::Int4));
        let correlation = column_statistics(&rows, 0, 1, 500.0)
            .correlation
            .expect("a number");
        assert!((correlation + 1.0).abs() < 1e-9, "{correlation}");
    }
}
