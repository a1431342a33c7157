//! Random queries, kept in parts so that a query with a difference can be made smaller.

use super::expression::{Scope, ScopeColumn};
use super::schema::{COLUMNS, ColumnType, Schema};
use crate::random::Random;

/// The number of relations in FROM.
const RELATIONS_MAX: usize = 8;
/// The number of rows of a join, by estimate, beyond which a table is replaced by a smaller one.
const JOINED_ROWS_MAX: usize = 2_000_000;

/// A relation in FROM, with the way in which it is joined with those before it.
#[derive(Clone, Debug)]
pub struct Relation {
    /// `CROSS JOIN`, `JOIN`, `LEFT JOIN` and so on.
    pub join: &'static str,
    /// The relation with its alias.
    pub text: String,
    /// The conjuncts of the join condition; `None` for CROSS JOIN.
    pub on: Option<Vec<String>>,
}

/// A query.
#[derive(Clone, Debug, Default)]
pub struct Query {
    /// DISTINCT.
    pub distinct: bool,
    /// The select list.
    pub targets: Vec<String>,
    /// FROM.
    pub from: Vec<Relation>,
    /// The conjuncts of WHERE.
    pub filter: Vec<String>,
    /// GROUP BY.
    pub groups: Vec<String>,
    /// HAVING.
    pub having: Option<String>,
    /// A query that is combined with this one by a set operation.
    pub set: Option<(&'static str, Box<Query>)>,
    /// LIMIT with an order of all columns, and OFFSET.
    pub limit: Option<(usize, usize)>,
}

impl Query {
    /// Creates a random query over the tables of a schema.
    pub fn random(random: &mut Random, schema: &Schema) -> Query {
        let mut query = Query::default();
        let mut columns = Vec::new();
        let count = match random.below(4) {
            0 => 1,
            1 => 1 + random.below(RELATIONS_MAX),
            _ => 2 + random.below(3),
        };
        let mut rows = 1;
        for number in 0..count {
            query.add_relation(random, schema, (number, &mut rows), &mut columns);
        }
        let scope = Scope {
            columns: &columns,
            tables: schema.rows.len(),
        };
        for _ in 0..random.below(4) {
            query.filter.push(scope.condition(random));
        }
        query.select(random, &scope);
        if query.targets.len() == 1 && random.is_one_in(6) {
            query.combine(random, schema);
        }
        query.distinct |= random.is_one_in(8);
        if random.is_one_in(4) {
            query.limit = Some((random.below(12), random.below(3)));
        }
        query
    }

    /// Adds a relation with its join condition, and its columns to the scope.
    fn add_relation(
        &mut self,
        random: &mut Random,
        schema: &Schema,
        (number, joined): (usize, &mut usize),
        columns: &mut Vec<ScopeColumn>,
    ) {
        let mut table = random.below(schema.rows.len());
        for _ in 0..schema.rows.len() {
            if *joined * schema.rows[table].max(1) <= JOINED_ROWS_MAX {
                break;
            }
            table = (table + 1) % schema.rows.len();
        }
        let alias = format!("r{number}");
        let text = match random.below(10) {
            0 => format!("(SELECT * FROM t{table} WHERE a IS NOT NULL) {alias}"),
            1 => format!("(SELECT DISTINCT ON (a) * FROM t{table} ORDER BY a, id) {alias}"),
            2 => format!(
                "(SELECT min(id) AS id, a, count(b)::int AS b, max(c) AS c, \
                 sum(d) AS d, max(e) AS e FROM t{table} GROUP BY a) {alias}"
            ),
            _ => format!("t{table} {alias}"),
        };
        let own: Vec<ScopeColumn> = COLUMNS
            .iter()
            .map(|(name, ty)| ScopeColumn {
                name: format!("{alias}.{name}"),
                ty: *ty,
            })
            .collect();
        let join = match number {
            0 => "",
            _ => random.word(&[
                "CROSS JOIN",
                "CROSS JOIN",
                "JOIN",
                "JOIN",
                "JOIN",
                "LEFT JOIN",
                "LEFT JOIN",
                "RIGHT JOIN",
                "FULL JOIN",
            ]),
        };
        let equality = equality(random, columns, &own);
        *joined = if equality.is_some() {
            // An equality keeps about one in five pairs.
            (*joined * schema.rows[table].max(5) / 5).max(1)
        } else {
            *joined * schema.rows[table].max(1)
        };
        let outer = join.contains("LEFT") || join.contains("RIGHT") || join.contains("FULL");
        let mut on: Vec<String> = equality.into_iter().collect();
        columns.extend(own);
        if (outer || join == "JOIN") && random.is_one_in(4) && join != "FULL JOIN" {
            let scope = Scope {
                columns,
                tables: schema.rows.len(),
            };
            on.push(scope.condition(random));
        }
        let on = match join {
            "" => None,
            "CROSS JOIN" => {
                self.filter.extend(on);
                None
            }
            _ if on.is_empty() => Some(vec!["true".to_owned()]),
            _ => Some(on),
        };
        self.from.push(Relation { join, text, on });
    }

    /// Makes the select list, perhaps with grouping or window functions.
    fn select(&mut self, random: &mut Random, scope: &Scope<'_>) {
        match random.below(6) {
            0 => {
                self.targets = vec!["count(*)".to_owned()];
                self.add_aggregates(random, scope);
            }
            1 | 2 => {
                for _ in 0..1 + random.below(2) {
                    self.groups.push(scope.column(random).name);
                }
                self.targets = self.groups.clone();
                self.add_aggregates(random, scope);
                if random.is_one_in(3) {
                    self.having = Some(format!("count(*) > {}", random.below(3)));
                }
            }
            3 => {
                let (by, of) = (scope.column(random), scope.column(random));
                let call = random.word(&["rank()", "dense_rank()", "count(*)"]);
                self.targets = vec![
                    by.name.clone(),
                    format!(
                        "{call} OVER (PARTITION BY {} ORDER BY {})",
                        by.name, of.name
                    ),
                ];
            }
            _ => {
                for _ in 0..1 + random.below(3) {
                    self.targets.push(scope.column(random).name);
                }
                if random.is_one_in(4) {
                    let condition = scope.condition(random);
                    self.targets
                        .push(format!("CASE WHEN {condition} THEN 1 ELSE 0 END"));
                }
            }
        }
    }

    fn add_aggregates(&mut self, random: &mut Random, scope: &Scope<'_>) {
        for _ in 0..random.below(3) {
            let ScopeColumn { name, ty } = scope.column(random);
            self.targets.push(match (random.below(5), ty) {
                (0, ColumnType::Int | ColumnType::Numeric) => format!("sum({name})"),
                (1, ColumnType::Int | ColumnType::Numeric) => format!("avg({name})"),
                (2, _) => format!("count(DISTINCT {name})"),
                (3, _) => format!("min({name})"),
                (4, _) => format!("max({name}) FILTER (WHERE {})", scope.condition(random)),
                _ => format!("count({name})"),
            });
        }
    }

    /// Combines the query with another one of one column by a set operation.
    fn combine(&mut self, random: &mut Random, schema: &Schema) {
        let operation: &[&'static str] =
            &["UNION", "UNION ALL", "INTERSECT", "EXCEPT", "EXCEPT ALL"];
        let Some(operation) = random.pick(operation) else {
            return;
        };
        let table = random.below(schema.rows.len());
        for target in &mut self.targets {
            *target = format!("({target})::text");
        }
        let other = Query {
            targets: vec![format!("{}::text", random.word(&["a", "b", "c", "d", "e"]))],
            from: vec![Relation {
                join: "",
                text: format!("t{table}"),
                on: None,
            }],
            ..Query::default()
        };
        self.set = Some((operation, Box::new(other)));
    }

    /// Returns the query as SQL.
    pub fn sql(&self) -> String {
        let mut sql = self.without_limit();
        if let Some((limit, offset)) = self.limit {
            let order: Vec<String> = (1..=self.targets.len()).map(|at| at.to_string()).collect();
            sql = format!(
                "{sql} ORDER BY {} LIMIT {limit} OFFSET {offset}",
                order.join(", ")
            );
        }
        sql
    }

    fn without_limit(&self) -> String {
        let distinct = if self.distinct { "DISTINCT " } else { "" };
        let mut sql = format!("SELECT {distinct}{} FROM", self.targets.join(", "));
        for relation in &self.from {
            sql.push_str(&format!(" {} {}", relation.join, relation.text).replace("  ", " "));
            if let Some(on) = &relation.on {
                sql.push_str(&format!(" ON {}", on.join(" AND ")));
            }
        }
        if !self.filter.is_empty() {
            sql.push_str(&format!(" WHERE {}", self.filter.join(" AND ")));
        }
        if !self.groups.is_empty() {
            sql.push_str(&format!(" GROUP BY {}", self.groups.join(", ")));
        }
        if let Some(having) = &self.having {
            sql.push_str(&format!(" HAVING {having}"));
        }
        match &self.set {
            Some((operation, other)) => format!("{sql} {operation} {}", other.sql()),
            None => sql,
        }
    }
}

/// Returns an equality between a column of one of the earlier relations and one of `own`.
fn equality(random: &mut Random, earlier: &[ScopeColumn], own: &[ScopeColumn]) -> Option<String> {
    if random.is_one_in(8) {
        return None;
    }
    let column = random.pick(own)?;
    let same: Vec<&ScopeColumn> = earlier.iter().filter(|of| of.ty == column.ty).collect();
    let other = random.pick(&same)?;
    Some(format!("{} = {}", other.name, column.name))
}
