//! Random tables: few distinct values, many NULLs and ties, and indexes on some columns.

use std::fmt::Write;

use crate::random::Random;

/// The type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnType {
    /// integer
    Int,
    /// text
    Text,
    /// numeric(8,2)
    Numeric,
    /// date
    Date,
}

/// The columns of each table, with their types.
pub const COLUMNS: [(&str, ColumnType); 6] = [
    ("id", ColumnType::Int),
    ("a", ColumnType::Int),
    ("b", ColumnType::Int),
    ("c", ColumnType::Text),
    ("d", ColumnType::Numeric),
    ("e", ColumnType::Date),
];

/// Words of text columns.
const WORDS: [&str; 8] = ["", "a", "ab", "abc", "b", "ba", "Z", "ä"];
/// Columns of secondary indexes.
const INDEXES: [&str; 6] = ["a", "b", "c", "a, b", "d", "e, a"];
/// The number of rows of an INSERT.
const ROWS_PER_INSERT: usize = 100;

/// The tables of a round.
pub struct Schema {
    /// The statements that create them.
    pub statements: Vec<String>,
    /// The numbers of rows; the tables are named `t0`, `t1` and so on.
    pub rows: Vec<usize>,
}

impl Schema {
    /// Creates random tables.
    pub fn random(random: &mut Random) -> Schema {
        let mut schema = Schema {
            statements: Vec::new(),
            rows: Vec::new(),
        };
        for table in 0..4 + random.below(3) {
            let rows = match random.below(6) {
                0 => 0,
                1 => 1,
                2 => 300 + random.below(500),
                _ => 2 + random.below(30),
            };
            schema.add_table(random, table, rows);
        }
        schema
    }

    fn add_table(&mut self, random: &mut Random, table: usize, rows: usize) {
        self.rows.push(rows);
        self.statements
            .push(format!("DROP TABLE IF EXISTS t{table}"));
        self.statements.push(format!(
            "CREATE TABLE t{table} \
             (id int PRIMARY KEY, a int, b int, c text, d numeric(8,2), e date)"
        ));
        let ids: Vec<usize> = (0..rows).collect();
        for ids in ids.chunks(ROWS_PER_INSERT) {
            let mut insert = format!("INSERT INTO t{table} VALUES ");
            for (position, id) in ids.iter().enumerate() {
                let separator = if position == 0 { "" } else { ", " };
                let _ = write!(insert, "{separator}({id}");
                for (_, ty) in &COLUMNS[1..] {
                    let _ = write!(insert, ", {}", value(random, *ty));
                }
                insert.push(')');
            }
            self.statements.push(insert);
        }
        for (number, columns) in INDEXES.iter().enumerate() {
            if random.is_one_in(4) {
                let name = format!("t{table}_{number}");
                self.statements
                    .push(format!("CREATE INDEX {name} ON t{table} ({columns})"));
            }
        }
        if !random.is_one_in(3) {
            self.statements.push(format!("ANALYZE t{table}"));
        }
    }
}

/// Returns a random value of a type, or NULL, as SQL.
pub fn value(random: &mut Random, ty: ColumnType) -> String {
    if random.is_one_in(6) {
        return "NULL".to_owned();
    }
    constant(random, ty)
}

/// Returns a random value of a type as SQL.
pub fn constant(random: &mut Random, ty: ColumnType) -> String {
    match ty {
        ColumnType::Int => random.below(12).to_string(),
        ColumnType::Text => format!("'{}'", random.word(&WORDS)),
        ColumnType::Numeric => format!("{}.{}0", random.below(10), random.below(3)),
        ColumnType::Date => format!("date '2024-01-{:02}'", 1 + random.below(9)),
    }
}
