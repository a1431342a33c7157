//! Statistics of the data in tables: the numbers of rows, and the distribution of the values of
//! each column. ANALYZE collects them, `pg_stats` displays them, and the planner uses them.

use std::fmt::Debug;
use std::sync::Arc;

use crate::catalog::TableDef;
use crate::value::Value;

/// The statistics of a table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TableStatistics {
    /// The number of rows when the table was analyzed.
    pub rows: f64,
    /// The statistics of columns, in the order of `attnum`. A column may be absent.
    pub columns: Vec<ColumnStatistics>,
}

/// The distribution of the values of a column.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ColumnStatistics {
    /// The attribute number of the column, from 1.
    pub attnum: i16,
    /// The fraction of rows with NULL.
    pub null_fraction: f64,
    /// The average width of a value in bytes.
    pub width: f64,
    /// The number of distinct values; if it is negative, minus the fraction of rows that have
    /// distinct values.
    pub distinct: f64,
    /// The most common values with the fractions of rows that have them, most common first.
    pub common: Vec<(Value, f64)>,
    /// Values that divide the other values into groups of about the same number of rows, in
    /// ascending order; empty if there are not two of them.
    pub histogram: Vec<Value>,
    /// The correlation between the order of the rows in the primary index and the order of the
    /// values, from -1 to 1; `None` for a type without an order.
    pub correlation: Option<f64>,
}

impl ColumnStatistics {
    /// Returns the number of distinct values in a table of `rows` rows.
    pub fn distinct_of(&self, rows: f64) -> f64 {
        if self.distinct < 0.0 {
            return (-self.distinct * rows).max(1.0);
        }
        self.distinct.clamp(1.0, rows.max(1.0))
    }

    /// Returns the fraction of rows that have one of the most common values.
    pub fn common_fraction(&self) -> f64 {
        self.common.iter().map(|(_, fraction)| fraction).sum()
    }
}

impl TableStatistics {
    /// Returns these statistics, with those of `earlier` for the other columns.
    pub fn over(mut self, earlier: &TableStatistics) -> TableStatistics {
        for column in &earlier.columns {
            if self.column(column.attnum).is_none() {
                self.columns.push(column.clone());
            }
        }
        self.columns.sort_by_key(|column| column.attnum);
        self
    }

    /// Returns the statistics of the column with this attribute number.
    pub fn column(&self, attnum: i16) -> Option<&ColumnStatistics> {
        self.columns.iter().find(|column| column.attnum == attnum)
    }
}

/// The source of the statistics that the planner reads. Its methods neither block nor read rows.
pub trait StatisticsSource: Debug + Send + Sync {
    /// Returns the number of rows of a table; `None` if it is unknown.
    fn rows(&self, table: &TableDef) -> Option<f64>;

    /// Returns the statistics of a table, if it has been analyzed.
    fn statistics(&self, table: &TableDef) -> Option<Arc<TableStatistics>>;

    /// Replaces the statistics of a table. Columns without new statistics keep theirs.
    fn replace(&self, table: &TableDef, statistics: TableStatistics);
}
