//! Statements that create, change and maintain tables, views and indexes.

use super::{Grammar, KINDS, Kind, Table};

impl Grammar {
    pub(super) fn create_table(&mut self) -> String {
        self.made += 1;
        let name = format!("g{}", self.made);
        let mut columns = vec![("a".to_owned(), Kind::Int)];
        for column in ["b", "c", "d", "e", "f"]
            .iter()
            .take(1 + self.random.below(5))
        {
            let kind = self.random.pick(&KINDS).copied().unwrap_or(Kind::Int);
            columns.push(((*column).to_owned(), kind));
        }
        let has_key = self.random.below(3) > 0;
        let partitions = self.random.word(&[
            " PARTITION BY RANGE (a)",
            " PARTITION BY LIST (a)",
            " PARTITION BY HASH (a)",
            "",
            "",
            "",
        ]);
        let mut items = Vec::new();
        for (at, (column, kind)) in columns.iter().enumerate() {
            let detail = match self.random.below(8) {
                _ if at == 0 && has_key => " PRIMARY KEY".to_owned(),
                0 => format!(" DEFAULT {}", self.random.word(kind.literals())),
                1 => " NOT NULL".to_owned(),
                2 if *kind == Kind::Int => " GENERATED ALWAYS AS (a % 5) STORED".to_owned(),
                3 if *kind == Kind::Int => format!(" CHECK ({column} < 1000000)"),
                4 if *kind != Kind::Json && partitions.is_empty() => " UNIQUE".to_owned(),
                _ => String::new(),
            };
            items.push(format!("{column} {}{detail}", kind.type_name()));
        }
        let keyed: Vec<&Table> = self.tables.iter().filter(|table| table.has_key).collect();
        if let Some(other) = self.random.pick(&keyed)
            && self.random.is_one_in(2)
        {
            let action = self.random.word(&[
                "CASCADE",
                "SET NULL",
                "SET DEFAULT",
                "NO ACTION DEFERRABLE INITIALLY DEFERRED",
                "RESTRICT",
            ]);
            let column = &columns[1].0;
            if columns[1].1 == Kind::Int {
                items.push(format!(
                    "FOREIGN KEY ({column}) REFERENCES {} ON DELETE {action}",
                    other.name
                ));
            }
        }
        let mut sql = format!("CREATE TABLE {name} ({}){partitions}", items.join(", "));
        let bounds: &[&str] = match partitions.as_bytes().get(14) {
            None => &[],
            Some(b'R') => &["FROM (MINVALUE) TO (3)", "FROM (3) TO (100)"],
            Some(b'L') => &["IN (0, 1, 2)", "IN (3, NULL)"],
            Some(_) => &[
                "WITH (MODULUS 2, REMAINDER 0)",
                "WITH (MODULUS 2, REMAINDER 1)",
            ],
        };
        for (at, bound) in bounds.iter().enumerate() {
            sql += &format!("; CREATE TABLE {name}_{at} PARTITION OF {name} FOR VALUES {bound}");
        }
        self.tables.push(Table {
            name,
            columns,
            has_key,
            made_by: sql.clone(),
        });
        sql
    }

    pub(super) fn create_view(&mut self) -> String {
        self.made += 1;
        let name = format!("v{}", self.made);
        let table = self.table();
        let scope = vec![("x".to_owned(), table.clone())];
        let names: Vec<&str> = table.columns.iter().map(|(name, _)| &**name).collect();
        let condition = self.expression(Kind::Bool, &scope, 2);
        let sql = format!(
            "CREATE VIEW {name} AS SELECT {} FROM {} AS x WHERE {condition}",
            names.join(", "),
            table.name
        );
        let has_key = false;
        self.tables.push(Table {
            name,
            has_key,
            made_by: sql.clone(),
            ..table
        });
        sql
    }

    pub(super) fn create_index(&mut self) -> String {
        let table = self.table();
        let scope = vec![(table.name.clone(), table.clone())];
        let column = self.column(&table);
        let kind = self.random.pick(&KINDS).copied().unwrap_or(Kind::Int);
        let key = match self.random.below(4) {
            0 => format!("({})", self.expression(kind, &scope, 1)),
            1 => format!("{column} DESC NULLS LAST, a"),
            2 => format!("{column}) INCLUDE (a"),
            _ => column,
        };
        let condition = match self.random.below(4) {
            0 => format!(" WHERE {}", self.expression(Kind::Bool, &scope, 1)),
            _ => String::new(),
        };
        let unique = self.random.word(&["", "", "", "UNIQUE "]);
        format!("CREATE {unique}INDEX ON {} ({key}){condition}", table.name)
    }

    pub(super) fn alter_table(&mut self) -> String {
        let table = self.table();
        let (column, name) = (self.column(&table), &table.name);
        match self.random.below(9) {
            0 => {
                let kind = self.random.pick(&KINDS).copied().unwrap_or(Kind::Int);
                let literal = self.random.word(kind.literals());
                let new = format!("n{}", self.random.below(5));
                format!(
                    "ALTER TABLE {name} ADD {new} {} DEFAULT {literal}",
                    kind.type_name()
                )
            }
            1 => format!(
                "ALTER TABLE {name} DROP COLUMN n{} CASCADE",
                self.random.below(5)
            ),
            2 => format!("ALTER TABLE {name} ALTER {column} TYPE text USING {column}::text"),
            3 => format!("ALTER TABLE {name} ALTER {column} SET NOT NULL"),
            4 => format!("ALTER TABLE {name} ADD UNIQUE ({column}, a) DEFERRABLE"),
            5 => format!("ALTER TABLE {name} ALTER {column} DROP DEFAULT, ADD CHECK (a < 500)"),
            6 => format!("ALTER TABLE {name} ALTER a TYPE bigint"),
            7 => {
                let sql = format!("DROP TABLE IF EXISTS {name} CASCADE");
                self.tables.retain(|other| other.name != *name);
                sql
            }
            _ => format!("ALTER TABLE {name} RENAME {column} TO {column}"),
        }
    }

    pub(super) fn maintain(&mut self) -> String {
        let name = self.table().name;
        let form = self.random.word(&[
            "ANALYZE ?",
            "VACUUM ?",
            "TRUNCATE ? CASCADE",
            "REINDEX TABLE ?",
            "CLUSTER ?",
            "LOCK TABLE ? IN SHARE ROW EXCLUSIVE MODE",
            "COPY ? TO STDOUT",
            "COPY ? FROM STDIN",
            "COPY ? FROM STDIN (FORMAT csv)",
            "COMMENT ON TABLE ? IS 'x'",
            "TABLE ?",
        ]);
        form.replace('?', &name)
    }
}
