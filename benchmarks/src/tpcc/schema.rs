//! The nine tables, defined once for both forms: columns of numbers, then columns of text.
//!
//! ```text
//! SQL      CREATE TABLE and COPY text are made from the descriptions
//! native   a row is one object:  number 0 | number 1 | ... | text 0 | text 1 | ...
//!          a text has two bytes for its length and room for its longest
//! ```
//!
//! Money is in cents, rates are in ten-thousandths, times are in microseconds; [`NULL`] represents
//! NULL.

use crate::sql::put;

/// The unit of a number, and its SQL type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Number {
    /// `smallint`.
    Small,
    /// `integer`.
    Int,
    /// `numeric(p, 2)`, in cents.
    Cents(u8),
    /// `numeric(4, 4)`, in ten-thousandths.
    Rate,
    /// `timestamp`.
    Time,
}

/// The name and the maximal length in characters of a text; with `true`, the length is fixed.
type Text = (&'static str, usize, bool);

/// The representation of NULL.
pub(super) const NULL: i64 = i64::MIN;
/// The time of all loaded events: 2026-01-01, in microseconds since 1970.
pub(super) const LOADED: i64 = 1_767_225_600_000_000;
const LOADED_TEXT: &str = "2026-01-01 00:00:00";
/// The length of the length field of a text in a native row, in bytes.
const LENGTH_BYTES: usize = 2;

/// A table.
#[derive(Debug)]
pub(super) struct Table {
    pub name: &'static str,
    /// The number of leading columns that are the primary key; 0 for the history.
    pub key: usize,
    pub numbers: &'static [(&'static str, Number)],
    pub texts: &'static [Text],
}

/// A row for the load.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Row {
    pub numbers: Vec<i64>,
    pub texts: Vec<String>,
}

impl Table {
    /// Returns the `CREATE TABLE` statement.
    pub fn ddl(&self) -> String {
        let number = |(at, (name, number)): (usize, &(&str, Number))| {
            let kind = match number {
                Number::Small => "smallint".to_string(),
                Number::Int => "integer".to_string(),
                Number::Cents(digits) => format!("numeric({digits}, 2)"),
                Number::Rate => "numeric(4, 4)".to_string(),
                Number::Time => "timestamp".to_string(),
            };
            let not_null = if at < self.key { " NOT NULL" } else { "" };
            format!("{name} {kind}{not_null}")
        };
        let text = |(name, width, fixed): &Text| {
            let kind = if *fixed { "char" } else { "varchar" };
            format!("{name} {kind}({width})")
        };
        let mut parts: Vec<String> = self.numbers.iter().enumerate().map(number).collect();
        parts.extend(self.texts.iter().map(text));
        if self.key > 0 {
            let key: Vec<&str> = self.numbers[..self.key]
                .iter()
                .map(|(name, _)| *name)
                .collect();
            parts.push(format!("PRIMARY KEY ({})", key.join(", ")));
        }
        format!("CREATE TABLE {} ({})", self.name, parts.join(", "))
    }

    /// Appends a row in the text format of COPY.
    pub fn copy(&self, out: &mut Vec<u8>, row: &Row) {
        for (at, (value, (_, number))) in row.numbers.iter().zip(self.numbers).enumerate() {
            if at > 0 {
                out.push(b'\t');
            }
            match number {
                _ if *value == NULL => put(out, format_args!("\\N")),
                Number::Small | Number::Int => put(out, format_args!("{value}")),
                Number::Cents(_) => {
                    let (sign, cents) = (if *value < 0 { "-" } else { "" }, value.abs());
                    put(
                        out,
                        format_args!("{sign}{}.{:02}", cents / 100, cents % 100),
                    );
                }
                Number::Rate => put(out, format_args!("0.{value:04}")),
                Number::Time => put(out, format_args!("{LOADED_TEXT}")),
            }
        }
        for text in &row.texts {
            put(out, format_args!("\t{text}"));
        }
        out.push(b'\n');
    }

    /// Returns the offset in bytes of text `which` from the start of the texts.
    fn offset(&self, which: usize) -> usize {
        let width = |(_, longest, _): &Text| LENGTH_BYTES + longest;
        self.texts[..which].iter().map(width).sum()
    }

    /// Encodes a native row.
    pub fn pack(&self, row: &Row) -> Vec<u64> {
        let bytes = self.offset(self.texts.len());
        let mut words = vec![0; self.numbers.len() + bytes.div_ceil(8)];
        for (word, number) in words.iter_mut().zip(&row.numbers) {
            *word = *number as u64;
        }
        for (which, text) in row.texts.iter().enumerate() {
            self.set_text(&mut words, which, text.as_bytes());
        }
        words
    }

    /// Returns text `which` of a native row.
    pub fn text<'a>(&self, words: &'a [u64], which: usize) -> &'a [u8] {
        let bytes: &[u8] = bytemuck::cast_slice(words.get(self.numbers.len()..).unwrap_or(&[]));
        let at = self.offset(which);
        let length = bytes.get(at..at + LENGTH_BYTES).map_or(0, |length| {
            usize::from(u16::from_le_bytes([length[0], length[1]]))
        });
        let from = at + LENGTH_BYTES;
        bytes.get(from..from + length).unwrap_or(&[])
    }

    /// Overwrites text `which` of a native row, truncated to its maximal length.
    pub fn set_text(&self, words: &mut [u64], which: usize, text: &[u8]) {
        let at = self.offset(which);
        let length = text.len().min(self.texts[which].1);
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut words[self.numbers.len()..]);
        bytes[at..at + LENGTH_BYTES].copy_from_slice(&(length as u16).to_le_bytes());
        bytes[at + LENGTH_BYTES..][..length].copy_from_slice(&text[..length]);
    }
}

use Number::{Cents, Int, Rate, Small, Time};

pub(super) static WAREHOUSE: Table = Table {
    name: "warehouse",
    key: 1,
    numbers: &[("w_id", Int), ("w_tax", Rate), ("w_ytd", Cents(12))],
    texts: &[
        ("w_name", 10, false),
        ("w_street_1", 20, false),
        ("w_street_2", 20, false),
        ("w_city", 20, false),
        ("w_state", 2, true),
        ("w_zip", 9, true),
    ],
};

pub(super) static DISTRICT: Table = Table {
    name: "district",
    key: 2,
    numbers: &[
        ("d_w_id", Int),
        ("d_id", Small),
        ("d_tax", Rate),
        ("d_ytd", Cents(12)),
        ("d_next_o_id", Int),
    ],
    texts: &[
        ("d_name", 10, false),
        ("d_street_1", 20, false),
        ("d_street_2", 20, false),
        ("d_city", 20, false),
        ("d_state", 2, true),
        ("d_zip", 9, true),
    ],
};

pub(super) static CUSTOMER: Table = Table {
    name: "customer",
    key: 3,
    numbers: &[
        ("c_w_id", Int),
        ("c_d_id", Small),
        ("c_id", Int),
        ("c_discount", Rate),
        ("c_credit_lim", Cents(12)),
        ("c_balance", Cents(12)),
        ("c_ytd_payment", Cents(12)),
        ("c_payment_cnt", Int),
        ("c_delivery_cnt", Int),
        ("c_since", Time),
    ],
    texts: &[
        ("c_first", 16, false),
        ("c_middle", 2, true),
        ("c_last", 16, false),
        ("c_street_1", 20, false),
        ("c_street_2", 20, false),
        ("c_city", 20, false),
        ("c_state", 2, true),
        ("c_zip", 9, true),
        ("c_phone", 16, true),
        ("c_credit", 2, true),
        ("c_data", 500, false),
    ],
};

pub(super) static HISTORY: Table = Table {
    name: "history",
    key: 0,
    numbers: &[
        ("h_c_w_id", Int),
        ("h_c_d_id", Small),
        ("h_c_id", Int),
        ("h_w_id", Int),
        ("h_d_id", Small),
        ("h_amount", Cents(6)),
        ("h_date", Time),
    ],
    texts: &[("h_data", 24, false)],
};

pub(super) static NEW_ORDER: Table = Table {
    name: "new_order",
    key: 3,
    numbers: &[("no_w_id", Int), ("no_d_id", Small), ("no_o_id", Int)],
    texts: &[],
};

pub(super) static ORDERS: Table = Table {
    name: "orders",
    key: 3,
    numbers: &[
        ("o_w_id", Int),
        ("o_d_id", Small),
        ("o_id", Int),
        ("o_c_id", Int),
        ("o_carrier_id", Small),
        ("o_ol_cnt", Small),
        ("o_all_local", Small),
        ("o_entry_d", Time),
    ],
    texts: &[],
};

pub(super) static ORDER_LINE: Table = Table {
    name: "order_line",
    key: 4,
    numbers: &[
        ("ol_w_id", Int),
        ("ol_d_id", Small),
        ("ol_o_id", Int),
        ("ol_number", Small),
        ("ol_i_id", Int),
        ("ol_supply_w_id", Int),
        ("ol_quantity", Small),
        ("ol_amount", Cents(6)),
        ("ol_delivery_d", Time),
    ],
    texts: &[("ol_dist_info", 24, true)],
};

pub(super) static ITEM: Table = Table {
    name: "item",
    key: 1,
    numbers: &[("i_id", Int), ("i_im_id", Int), ("i_price", Cents(5))],
    texts: &[("i_name", 24, false), ("i_data", 50, false)],
};

pub(super) static STOCK: Table = Table {
    name: "stock",
    key: 2,
    numbers: &[
        ("s_w_id", Int),
        ("s_i_id", Int),
        ("s_quantity", Small),
        ("s_ytd", Int),
        ("s_order_cnt", Int),
        ("s_remote_cnt", Int),
    ],
    texts: &[
        ("s_dist_01", 24, true),
        ("s_dist_02", 24, true),
        ("s_dist_03", 24, true),
        ("s_dist_04", 24, true),
        ("s_dist_05", 24, true),
        ("s_dist_06", 24, true),
        ("s_dist_07", 24, true),
        ("s_dist_08", 24, true),
        ("s_dist_09", 24, true),
        ("s_dist_10", 24, true),
        ("s_data", 50, false),
    ],
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn native_row_round_trips() {
        let row = Row {
            numbers: vec![3, 1234, -5],
            texts: vec!["Name".into(), String::new(), "x".repeat(20), "City".into()],
        };
        let mut words = WAREHOUSE.pack(&row);
        assert_eq!(words[..3], [3, 1234, (-5i64) as u64]);
        assert_eq!(WAREHOUSE.text(&words, 0), b"Name");
        assert_eq!(WAREHOUSE.text(&words, 1), b"");
        assert_eq!(WAREHOUSE.text(&words, 2), [b'x'; 20]);
        assert_eq!(WAREHOUSE.text(&words, 3), b"City");
        WAREHOUSE.set_text(&mut words, 2, &[b'y'; 30]);
        assert_eq!(WAREHOUSE.text(&words, 2), [b'y'; 20]);
        assert_eq!(WAREHOUSE.text(&words, 3), b"City");
        assert_eq!(WAREHOUSE.text(&[], 3), b"");
    }

    #[test]
    fn rows_are_text_that_copy_understands() {
        let row = Row {
            numbers: vec![1, 2, 3, 4, 5, -12_305, NULL],
            texts: vec!["data".into()],
        };
        let mut text = Vec::new();
        HISTORY.copy(&mut text, &row);
        assert_eq!(text, b"1\t2\t3\t4\t5\t-123.05\t\\N\tdata\n");
        assert_eq!(
            NEW_ORDER.ddl(),
            "CREATE TABLE new_order (no_w_id integer NOT NULL, no_d_id smallint NOT NULL, \
             no_o_id integer NOT NULL, PRIMARY KEY (no_w_id, no_d_id, no_o_id))"
        );
    }
}
