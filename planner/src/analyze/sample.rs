//! A random sample of the rows of a table.

use fencepost_sql::value::Value;

/// The number of rows of a sample: 300 for each of 100 groups of a histogram, as in PostgreSQL.
const ROWS_MAX: usize = 30_000;
/// Bytes of the longest value that a sample keeps; of longer ones it keeps the number of bytes.
const VALUE_BYTES_MAX: usize = 256;

/// A value in a sample.
#[derive(Clone, Debug)]
pub(super) enum SampledValue {
    /// NULL.
    Null,
    /// A value that is short enough.
    Short(Value),
    /// A longer value, by its number of bytes.
    Long(usize),
}

/// A row in a sample, with its position in the order of the scan.
pub(super) struct SampledRow {
    /// The number of rows before it.
    pub position: u64,
    /// Its values.
    pub values: Vec<SampledValue>,
}

impl SampledRow {
    fn bytes(&self) -> usize {
        let apart = self.values.iter().map(|value| match value {
            SampledValue::Short(value) => value.bytes_apart(),
            SampledValue::Null | SampledValue::Long(_) => 0,
        });
        apart.sum::<usize>() + size_of::<SampledRow>() + size_of_val(self.values.as_slice())
    }
}

/// Rows that are chosen with equal probability from all rows that were seen (algorithm R of Vitter,
/// "Random Sampling with a Reservoir", 1985).
pub(super) struct Sample {
    rows: Vec<SampledRow>,
    seen: u64,
    random: fastrand::Rng,
}

impl Sample {
    /// Creates an empty sample.
    pub fn new(seed: u64) -> Sample {
        Sample {
            rows: Vec::new(),
            seen: 0,
            random: fastrand::Rng::with_seed(seed),
        }
    }

    /// Adds a row, perhaps in place of another one. Returns about the number of bytes by which the
    /// sample has grown.
    pub fn add(&mut self, row: &[Value]) -> usize {
        let position = self.seen;
        self.seen += 1;
        let at = if self.rows.len() < ROWS_MAX {
            self.rows.len()
        } else {
            self.random.u64(0..self.seen) as usize
        };
        if at >= ROWS_MAX {
            return 0;
        }
        let row = SampledRow {
            position,
            values: row.iter().map(sampled).collect(),
        };
        if let Some(replaced) = self.rows.get_mut(at) {
            *replaced = row;
            return 0;
        }
        let bytes = row.bytes();
        self.rows.push(row);
        bytes
    }

    /// Returns the number of rows that were seen.
    pub fn seen(&self) -> u64 {
        self.seen
    }

    /// Returns the rows in the order of the scan.
    pub fn into_rows(mut self) -> Vec<SampledRow> {
        self.rows.sort_by_key(|row| row.position);
        self.rows
    }
}

fn sampled(value: &Value) -> SampledValue {
    let bytes = value.bytes_apart();
    match value {
        Value::Null => SampledValue::Null,
        _ if bytes > VALUE_BYTES_MAX => SampledValue::Long(bytes),
        value => SampledValue::Short(value.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_table_is_sampled_evenly() {
        let mut sample = Sample::new(7);
        let rows = 10 * ROWS_MAX as u64;
        let bytes: usize = (0..rows)
            .map(|row| sample.add(&[Value::Int8(row as i64)]))
            .sum();
        assert!(bytes >= ROWS_MAX * size_of::<Value>());
        assert_eq!(sample.seen(), rows);
        let kept = sample.into_rows();
        assert_eq!(kept.len(), ROWS_MAX);
        let mean = kept.iter().map(|row| row.position as f64).sum::<f64>() / ROWS_MAX as f64;
        let middle = rows as f64 / 2.0;
        assert!((mean - middle).abs() < middle / 20.0, "{mean}");
        assert!(kept.is_sorted_by_key(|row| row.position));
    }

    #[test]
    fn long_value_is_kept_by_its_length() {
        let mut sample = Sample::new(7);
        sample.add(&[Value::text("x".repeat(1_000)), Value::Null]);
        let rows = sample.into_rows();
        assert!(matches!(rows[0].values[0], SampledValue::Long(1_000..)));
        assert!(matches!(rows[0].values[1], SampledValue::Null));
    }
}
