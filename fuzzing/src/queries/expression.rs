//! Random conditions and values over the columns of relations in scope.

use super::schema::{COLUMNS, ColumnType, constant};
use crate::random::Random;

/// A column of a relation in FROM.
#[derive(Clone, Debug)]
pub struct ScopeColumn {
    /// The qualified name.
    pub name: String,
    /// Its type.
    pub ty: ColumnType,
}

/// Comparison operators.
const OPERATORS: [&str; 6] = ["=", "=", "<", "<=", ">", "<>"];
/// The depth of nested conditions.
const DEPTH_MAX: usize = 2;

/// The names that a condition may use.
pub struct Scope<'a> {
    /// The columns.
    pub columns: &'a [ScopeColumn],
    /// The number of tables.
    pub tables: usize,
}

impl Scope<'_> {
    /// Returns a random column.
    pub fn column(&self, random: &mut Random) -> ScopeColumn {
        random.pick(self.columns).cloned().unwrap_or(ScopeColumn {
            name: "1".to_owned(),
            ty: ColumnType::Int,
        })
    }

    /// Returns a random column of a type, or a constant.
    pub fn value_of(&self, random: &mut Random, ty: ColumnType) -> String {
        let all: Vec<&ScopeColumn> = self.columns.iter().filter(|of| of.ty == ty).collect();
        match random.pick(&all) {
            Some(column) if !random.is_one_in(3) => column.name.clone(),
            _ => constant(random, ty),
        }
    }

    /// Returns a random condition.
    pub fn condition(&self, random: &mut Random) -> String {
        self.nested(random, DEPTH_MAX)
    }

    fn nested(&self, random: &mut Random, depth: usize) -> String {
        if depth > 0 {
            let mut inner = || self.nested(random, depth - 1);
            let (one, other) = (inner(), inner());
            match random.below(8) {
                0 => return format!("({one} AND {other})"),
                1 | 2 => return format!("({one} OR {other})"),
                3 => return format!("NOT ({one})"),
                _ => {}
            }
        }
        self.simple(random)
    }

    fn simple(&self, random: &mut Random) -> String {
        let ScopeColumn { name, ty } = self.column(random);
        match random.below(12) {
            0 => format!("{name} IS NULL"),
            1 => format!("{name} IS NOT NULL"),
            2 => {
                let list: Vec<String> = (0..1 + random.below(4))
                    .map(|_| constant(random, ty))
                    .collect();
                let not = if random.is_one_in(4) { " NOT" } else { "" };
                format!("{name}{not} IN ({})", list.join(", "))
            }
            3 => {
                let (low, high) = (constant(random, ty), constant(random, ty));
                format!("{name} BETWEEN {low} AND {high}")
            }
            4 if ty == ColumnType::Text => {
                format!("{name} LIKE '{}'", random.word(&["a%", "%b", "_", "%"]))
            }
            5 | 6 => self.subquery_condition(random, &name, ty),
            _ => {
                let operator = random.word(&OPERATORS);
                format!("{name} {operator} {}", self.value_of(random, ty))
            }
        }
    }

    /// Returns a condition with a subquery, perhaps a correlated one.
    fn subquery_condition(&self, random: &mut Random, name: &str, ty: ColumnType) -> String {
        let table = random.below(self.tables);
        let of_type: Vec<&str> = COLUMNS
            .iter()
            .filter(|of| of.1 == ty)
            .map(|of| of.0)
            .collect();
        let column = random.word(&of_type);
        let outer = self.column(random);
        let of_outer: Vec<&str> = COLUMNS
            .iter()
            .filter(|of| of.1 == outer.ty)
            .map(|of| of.0)
            .collect();
        let correlation = match random.below(3) {
            0 => format!("s.{} < {}", COLUMNS[1].0, random.below(12)),
            _ => format!("s.{} = {}", random.word(&of_outer), outer.name),
        };
        let not = if random.is_one_in(3) { "NOT " } else { "" };
        match random.below(5) {
            0 | 1 => format!("{not}EXISTS (SELECT 1 FROM t{table} s WHERE {correlation})"),
            2 => format!("{name} {not}IN (SELECT s.{column} FROM t{table} s WHERE {correlation})"),
            3 => {
                let operator = random.word(&OPERATORS);
                let aggregate = random.word(&["min", "max"]);
                format!(
                    "{name} {operator} \
                     (SELECT {aggregate}(s.{column}) FROM t{table} s WHERE {correlation})"
                )
            }
            _ => format!(
                "(SELECT count(*) FROM t{table} s WHERE {correlation}) > {}",
                random.below(3)
            ),
        }
    }
}
