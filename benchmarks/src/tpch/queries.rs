//! The 22 queries, with the validation parameters of the specification.

/// The variable of the 11th query: the share of the stock that makes a part important.
const FRACTION: &str = ":fraction";

/// The share at scale 1. The specification divides it by the scale.
const FRACTION_AT_SCALE_1: f64 = 0.0001;

/// A query of TPC-H.
#[derive(Clone, Copy, Debug)]
pub(super) struct TpchQuery {
    /// The number in the specification, from 1.
    pub number: u8,
    text: &'static str,
    /// The positions of the columns in ORDER BY. Rows that are equal in these columns have no
    /// order.
    pub order_columns: &'static [usize],
}

impl TpchQuery {
    /// Returns the name in reports: `q01` to `q22`.
    pub fn name(&self) -> String {
        format!("q{:02}", self.number)
    }

    /// Returns the SQL text for data of this scale.
    pub fn sql(&self, scale: f64) -> String {
        let fraction = format!("{:.10}", FRACTION_AT_SCALE_1 / scale);
        self.text.replace(FRACTION, &fraction)
    }
}

macro_rules! query {
    ($number:literal, $file:literal, $order_columns:expr) => {
        TpchQuery {
            number: $number,
            text: include_str!(concat!("queries/", $file, ".sql")),
            order_columns: &$order_columns,
        }
    };
}

/// All queries, in the order of the specification.
pub(super) const QUERIES: [TpchQuery; 22] = [
    query!(1, "q01", [0, 1]),
    query!(2, "q02", [0, 2, 1, 3]),
    query!(3, "q03", [1, 2]),
    query!(4, "q04", [0]),
    query!(5, "q05", [1]),
    query!(6, "q06", []),
    query!(7, "q07", [0, 1, 2]),
    query!(8, "q08", [0]),
    query!(9, "q09", [0, 1]),
    query!(10, "q10", [2]),
    query!(11, "q11", [1]),
    query!(12, "q12", [0]),
    query!(13, "q13", [1, 0]),
    query!(14, "q14", []),
    query!(15, "q15", [0]),
    query!(16, "q16", [3, 0, 1, 2]),
    query!(17, "q17", []),
    query!(18, "q18", [4, 3]),
    query!(19, "q19", []),
    query!(20, "q20", [0]),
    query!(21, "q21", [1, 0]),
    query!(22, "q22", [0]),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_numbered_from_1_and_each_is_one_statement() {
        for (query, number) in QUERIES.iter().zip(1..) {
            assert_eq!(query.number, number);
            let sql = query.sql(1.0);
            assert!(sql.starts_with("-- "), "{}", query.name());
            assert!(!sql.contains([';', ':']), "{}", query.name());
        }
    }

    #[test]
    fn fraction_of_q11_depends_on_the_scale() {
        assert!(QUERIES[10].sql(1.0).contains("* 0.0001000000\n"));
        assert!(QUERIES[10].sql(0.01).contains("* 0.0100000000\n"));
    }
}
