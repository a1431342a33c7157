//! A small grammar of schemas, changes and queries. Most of its statements succeed.

mod program;
mod schema;

use crate::random::Random;

/// A kind of values of expressions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Int,
    Numeric,
    Text,
    Bool,
    Time,
    Json,
    Ints,
}

const KINDS: [Kind; 7] = [
    Kind::Int,
    Kind::Numeric,
    Kind::Text,
    Kind::Bool,
    Kind::Time,
    Kind::Json,
    Kind::Ints,
];

impl Kind {
    fn type_name(self) -> &'static str {
        match self {
            Kind::Int => "int",
            Kind::Numeric => "numeric",
            Kind::Text => "text",
            Kind::Bool => "boolean",
            Kind::Time => "timestamp",
            Kind::Json => "jsonb",
            Kind::Ints => "int[]",
        }
    }

    fn literals(self) -> &'static [&'static str] {
        match self {
            Kind::Int => &[
                "0",
                "1",
                "2",
                "3",
                "7",
                "-5",
                "2147483647",
                "NULL",
                "length('abc')",
            ],
            Kind::Numeric => &[
                "0",
                "1.5",
                "-2.25",
                "1e20",
                "'NaN'::numeric",
                "NULL",
                "0.00001",
            ],
            Kind::Text => &[
                "''",
                "'a'",
                "'b'",
                "'abc'",
                "'ß'",
                "NULL",
                "repeat('x', 300)",
            ],
            Kind::Bool => &["true", "false", "NULL"],
            Kind::Time => &[
                "timestamp '2024-02-29 12:00'",
                "timestamp '1999-12-31'",
                "timestamp 'infinity'",
                "NULL",
            ],
            Kind::Json => &["'{}'", "'{\"a\": 1}'", "'[1, 2, \"x\"]'", "'null'", "NULL"],
            Kind::Ints => &["'{}'", "ARRAY[1, 2, 3]", "'{1,NULL}'", "NULL"],
        }
    }

    /// Returns the forms of expressions of this kind. `?i`, `?n`, `?t`, `?b`, `?d`, `?j` and `?a`
    /// stand for other expressions.
    fn forms(self) -> &'static [&'static str] {
        match self {
            Kind::Int => &[
                "?i + ?i",
                "?i - ?i",
                "?i * ?i",
                "?i / ?i",
                "?i % ?i",
                "abs(?i)",
                "length(?t)",
                "CASE WHEN ?b THEN ?i ELSE ?i END",
                "coalesce(?i, ?i)",
                "cardinality(?a)",
                "extract(year FROM ?d)::int",
                "greatest(?i, ?i)",
                "(?a)[?i]",
                "strpos(?t, ?t)",
                "(SELECT ?i)",
                "(?j ->> 'a')::int",
                "?i & ?i",
                "?i::bigint::int",
            ],
            Kind::Numeric => &[
                "?n + ?n",
                "?n * ?n",
                "?n / ?n",
                "round(?n, 2)",
                "?i::numeric",
                "mod(?n, ?n)",
                "sqrt(abs(?n))",
                "power(?n, 2)",
                "nullif(?n, ?n)",
                "trunc(?n)",
                "width_bucket(?n, 0, 10, 5)",
            ],
            Kind::Text => &[
                "?t || ?t",
                "upper(?t)",
                "substr(?t, ?i, ?i)",
                "replace(?t, ?t, ?t)",
                "?i::text",
                "?j ->> 'a'",
                "to_char(?d, 'YYYY-MM')",
                "?t COLLATE \"C\"",
                "lpad(?t, 5, ?t)",
                "array_to_string(?a, ',')",
                "concat(?t, ?i, ?b)",
                "split_part(?t, 'b', 1)",
                "md5(?t)",
                "regexp_replace(?t, 'a.', 'x', 'g')",
                "left(?t, ?i)",
            ],
            Kind::Bool => &[
                "?i = ?i",
                "?i < ?i",
                "?t LIKE 'a%'",
                "?t = ?t",
                "?b AND ?b",
                "?b OR ?b",
                "NOT ?b",
                "?i IS NULL",
                "?n > ?n",
                "?i IN (?i, ?i)",
                "?i = ANY(?a)",
                "?d < ?d",
                "?j @> ?j",
                "?i BETWEEN ?i AND ?i",
                "?t ~ 'a|b'",
                "?b IS NOT TRUE",
                "?a && ?a",
                "?j ? 'a'",
                "(?i, ?t) < (?i, ?t)",
                "?i IS DISTINCT FROM ?i",
                "?t > ANY(ARRAY[?t, ?t])",
            ],
            Kind::Time => &[
                "?d + interval '1 day'",
                "date_trunc('month', ?d)",
                "least(?d, ?d)",
                "?d - ?i * interval '1 hour'",
                "coalesce(?d, ?d)",
                "make_timestamp(2024, 1, 1, 0, 0, 0)",
            ],
            Kind::Json => &[
                "?j -> 'a'",
                "jsonb_build_object('k', ?i, 't', ?t)",
                "to_jsonb(?a)",
                "?j || ?j",
                "jsonb_set(?j, '{a}', ?j)",
                "to_jsonb(?t)",
                "?j - 'a'",
            ],
            Kind::Ints => &[
                "?a || ?i",
                "array_remove(?a, ?i)",
                "ARRAY[?i, ?i]",
                "(?a)[1:2]",
                "array_append(?a, ?i)",
            ],
        }
    }
}

/// A table or a view.
#[derive(Clone, Debug)]
struct Table {
    name: String,
    columns: Vec<(String, Kind)>,
    has_key: bool,
    /// The statement that creates it.
    made_by: String,
}

/// A generator of statements about the tables that it has created.
pub struct Grammar {
    random: Random,
    tables: Vec<Table>,
    made: usize,
}

/// The tables whose columns an expression may use, each with its alias.
type Scope = Vec<(String, Table)>;

impl Grammar {
    /// Returns a grammar without tables.
    pub fn new(random: Random) -> Grammar {
        Grammar {
            random,
            tables: Vec::new(),
            made: 0,
        }
    }

    /// Returns the next statement.
    pub fn statement(&mut self) -> String {
        if self.tables.len() < 3 {
            return self.create_table();
        }
        match self.random.below(60) {
            0 if self.tables.len() < 8 => self.create_table(),
            1 if self.tables.len() < 10 => self.create_view(),
            // The transaction that created it may have been rolled back.
            0 | 1 => self.table().made_by,
            2 | 3 => self.create_index(),
            4 | 5 => self.alter_table(),
            6 => self.maintain(),
            7..=15 => self.insert(),
            16..=19 => self.update(),
            20 | 21 => self.delete(),
            22 => self.merge(),
            23..=44 => self.query(2),
            _ => self.program(),
        }
    }

    fn table(&mut self) -> Table {
        let table = self.random.pick(&self.tables).cloned();
        table.unwrap_or(Table {
            name: "none".into(),
            columns: vec![("a".into(), Kind::Int)],
            has_key: false,
            made_by: String::new(),
        })
    }

    fn column(&mut self, table: &Table) -> String {
        let column = self.random.pick(&table.columns);
        column.map_or_else(|| "a".into(), |(name, _)| name.clone())
    }

    fn insert(&mut self) -> String {
        let table = self.table();
        let names: Vec<&str> = table.columns.iter().map(|(name, _)| &**name).collect();
        let names = names.join(", ");
        let source = if self.random.is_one_in(4) {
            let other = self.table();
            let scope = vec![("s".to_owned(), other.clone())];
            let items = self.items(&table, &scope);
            format!("SELECT {items} FROM {} AS s LIMIT 50", other.name)
        } else {
            let mut rows = Vec::new();
            for _ in 0..=self.random.below(6) {
                let row = format!("({})", self.items(&table, &Vec::new()));
                let key = format!("({}", self.random.below(40));
                let rest = row.split_once(", ").map_or("", |(_, rest)| rest);
                rows.push(if self.random.is_one_in(5) {
                    row
                } else {
                    format!("{key}, {rest}")
                });
            }
            format!("VALUES {}", rows.join(", "))
        };
        let column = self.column(&table);
        let conflict = self.random.word(&[
            "",
            "",
            " ON CONFLICT DO NOTHING",
            " ON CONFLICT (a) DO UPDATE SET ? = excluded.?",
            " ON CONFLICT (a) DO NOTHING",
            " ON CONFLICT (a) DO UPDATE SET a = ROW(excluded.a + 1) WHERE true",
        ]);
        let conflict = conflict.replace('?', &column);
        let returning = self
            .random
            .word(&["", "", " RETURNING *", " RETURNING a + 1"]);
        format!(
            "INSERT INTO {} ({names}) {source}{conflict}{returning}",
            table.name
        )
    }

    /// Returns an expression for each column of the table.
    fn items(&mut self, table: &Table, scope: &Scope) -> String {
        let items = table
            .columns
            .iter()
            .map(|(_, kind)| self.expression(*kind, scope, 1));
        items.collect::<Vec<String>>().join(", ")
    }

    fn update(&mut self) -> String {
        let (table, other) = (self.table(), self.table());
        let mut scope = vec![("t".to_owned(), table.clone())];
        let from = match self.random.below(3) {
            0 => {
                scope.push(("o".to_owned(), other.clone()));
                format!(" FROM {} AS o", other.name)
            }
            _ => String::new(),
        };
        let (column, kind) = table.columns[self.random.below(table.columns.len())].clone();
        let value = self.expression(kind, &scope, 2);
        let condition = self.expression(Kind::Bool, &scope, 2);
        let returning = self.random.word(&["", " RETURNING t.*", " RETURNING t"]);
        format!(
            "UPDATE {} AS t SET {column} = {value}{from} WHERE {condition}{returning}",
            table.name
        )
    }

    fn delete(&mut self) -> String {
        let (table, other) = (self.table(), self.table());
        let scope = vec![
            ("t".to_owned(), table.clone()),
            ("o".to_owned(), other.clone()),
        ];
        let condition = self.expression(Kind::Bool, &scope, 2);
        let using = format!("USING {} AS o WHERE t.a = 3 AND", other.name);
        format!(
            "DELETE FROM {} AS t {using} {condition} RETURNING *",
            table.name
        )
    }

    fn merge(&mut self) -> String {
        let (table, other) = (self.table(), self.table());
        let scope = vec![
            ("t".to_owned(), table.clone()),
            ("o".to_owned(), other.clone()),
        ];
        let condition = self.expression(Kind::Bool, &scope, 1);
        let source = vec![("o".to_owned(), other.clone())];
        let items = self.items(&table, &source);
        format!(
            "MERGE INTO {} AS t USING {} AS o ON t.a = o.a AND {condition} \
             WHEN MATCHED AND t.a > 5 THEN DELETE WHEN MATCHED THEN UPDATE SET a = t.a + 100 \
             WHEN NOT MATCHED THEN INSERT VALUES ({items})",
            table.name, other.name
        )
    }

    fn query(&mut self, depth: usize) -> String {
        let (from, scope) = self.from(depth);
        let kind = self.random.pick(&KINDS).copied().unwrap_or(Kind::Int);
        let (one, two) = (
            self.expression(kind, &scope, 3),
            self.expression(Kind::Int, &scope, 2),
        );
        let condition = self.expression(Kind::Bool, &scope, 3);
        let items = match self.random.below(9) {
            0 => "*".to_owned(),
            1 => format!("count(*), max({two}), array_agg({one} ORDER BY {two})"),
            2 => format!(
                "{one} AS p, {two} AS q, row_number() OVER (PARTITION BY {one} ORDER BY {two})"
            ),
            3 => format!("{one} AS p, sum({two}) OVER (ORDER BY {one} RANGE UNBOUNDED PRECEDING)"),
            4 => format!("DISTINCT {one} AS p, {two} AS q"),
            5 => format!("DISTINCT ON ({one}) {one} AS p, {two} AS q"),
            _ => format!("{one} AS p, {two} AS q"),
        };
        let plain = format!("SELECT {items} FROM {from} WHERE {condition}");
        match self.random.below(16) {
            0 => format!(
                "SELECT {one}, count(*), sum({two}) FROM {from} GROUP BY {one} HAVING count(*) > 0"
            ),
            1 => format!(
                "SELECT {one}, {two}, count(*) FROM {from} GROUP BY ROLLUP ({one}, {two}) \
                 ORDER BY 1, 2"
            ),
            2 => format!(
                "SELECT {two} FROM {from} UNION ALL SELECT {two} FROM {from} ORDER BY 1 LIMIT 5"
            ),
            3 => format!(
                "SELECT {one} FROM {from} EXCEPT SELECT {one} FROM {from} WHERE {condition}"
            ),
            4 => format!("WITH w AS ({plain}) SELECT count(*) FROM w, w AS x"),
            5 => format!("{plain} ORDER BY {two} DESC NULLS FIRST, 1 OFFSET 1 LIMIT 7"),
            6 => format!("EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) {plain}"),
            7 => format!("SELECT * FROM {from} WHERE {condition} FOR UPDATE SKIP LOCKED"),
            8 => format!("SELECT {one} FROM {from} GROUP BY GROUPING SETS (({one}), ())"),
            _ => plain,
        }
    }

    fn from(&mut self, depth: usize) -> (String, Scope) {
        let (mut text, mut scope) = (String::new(), Scope::new());
        for at in 0..=self.random.below(3) {
            let table = self.table();
            let alias = format!("t{depth}{at}");
            let source = match self.random.below(10) {
                0 if depth > 0 => {
                    let names: Vec<&str> = table.columns.iter().map(|(name, _)| &**name).collect();
                    let inner = vec![("i".to_owned(), table.clone())];
                    let condition = self.expression(Kind::Bool, &inner, depth);
                    let names = names.join(", ");
                    format!(
                        "(SELECT {names} FROM {} AS i WHERE {condition} LIMIT 20)",
                        table.name
                    )
                }
                1 if at > 0 => {
                    let condition = self.expression(Kind::Bool, &scope, 1);
                    format!(
                        "LATERAL (SELECT * FROM {} AS l WHERE {condition} LIMIT 5)",
                        table.name
                    )
                }
                _ => table.name.clone(),
            };
            scope.push((alias.clone(), table));
            if at == 0 {
                text = format!("{source} AS {alias}");
                continue;
            }
            let join = self
                .random
                .word(&["JOIN", "LEFT JOIN", "FULL JOIN", "RIGHT JOIN", "CROSS"]);
            let (previous, first) = (format!("t{depth}{}", at - 1), "a");
            let rest = match self.random.below(3) {
                0 if source.starts_with("LATERAL") => " ON true".to_owned(),
                0 => format!(" ON {}", self.expression(Kind::Bool, &scope, 1)),
                _ => format!(" ON {previous}.{first} = {alias}.{first}"),
            };
            text += &match join {
                "CROSS" => format!(" CROSS JOIN {source} AS {alias}"),
                _ => format!(" {join} {source} AS {alias}{rest}"),
            };
        }
        (text, scope)
    }

    fn expression(&mut self, kind: Kind, scope: &Scope, depth: usize) -> String {
        let columns = scope.iter().flat_map(|(alias, table)| {
            let of_kind = table.columns.iter().filter(|(_, of)| *of == kind);
            of_kind.map(move |(name, _)| format!("{alias}.{name}"))
        });
        let columns: Vec<String> = columns.collect();
        if depth == 0 || self.random.is_one_in(4) {
            let column = self
                .random
                .pick(&columns)
                .filter(|_| !self.random.clone().is_one_in(5));
            let literal = self.random.word(kind.literals());
            return match column {
                Some(column) => column.clone(),
                None if literal == "NULL" => format!("NULL::{}", kind.type_name()),
                None => format!("({literal})::{}", kind.type_name()),
            };
        }
        if kind == Kind::Bool && !scope.is_empty() && self.random.is_one_in(12) {
            return self.subquery(scope, depth - 1);
        }
        let form = self.random.word(kind.forms());
        let mut text = String::from("(");
        let mut characters = form.chars().peekable();
        while let Some(c) = characters.next() {
            let hole = characters
                .peek()
                .and_then(|next| hole(*next))
                .filter(|_| c == '?');
            match hole {
                Some(kind) => {
                    characters.next();
                    text += &self.expression(kind, scope, depth - 1);
                }
                None => text.push(c),
            }
        }
        text.push(')');
        text
    }

    fn subquery(&mut self, scope: &Scope, depth: usize) -> String {
        let table = self.table();
        let mut inner = scope.clone();
        inner.push(("s".to_owned(), table.clone()));
        let condition = self.expression(Kind::Bool, &inner, depth);
        let outer = self.expression(Kind::Int, scope, 0);
        let name = &table.name;
        match self.random.below(4) {
            0 => format!("EXISTS (SELECT FROM {name} AS s WHERE {condition})"),
            1 => format!("{outer} NOT IN (SELECT s.a FROM {name} AS s WHERE {condition})"),
            2 => format!("{outer} > ALL (SELECT s.a FROM {name} AS s WHERE {condition})"),
            _ => format!("{outer} = (SELECT max(s.a) FROM {name} AS s WHERE {condition})"),
        }
    }
}

fn hole(letter: char) -> Option<Kind> {
    Some(match letter {
        'i' => Kind::Int,
        'n' => Kind::Numeric,
        't' => Kind::Text,
        'b' => Kind::Bool,
        'd' => Kind::Time,
        'j' => Kind::Json,
        'a' => Kind::Ints,
        _ => return None,
    })
}
