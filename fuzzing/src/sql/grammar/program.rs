//! Statements whose effects depend on earlier statements: PL/pgSQL, cursors, prepared statements,
//! COPY, and changes of the schema between them.

use super::{Grammar, KINDS, Kind, Scope, Table};

/// The variables of a PL/pgSQL block, which is labelled `m`.
const VARIABLES: &str = "i int := 1; s text := 'a'; n numeric := 2.5; b boolean := true; \
    d timestamp := '2024-02-29'; j jsonb := '{\"a\": 1}'; l int[] := '{1,2,3}'; r record; \
    c refcursor; e CURSOR (k int) FOR SELECT * FROM ? WHERE a >= k; w ?%ROWTYPE; t ?.a%TYPE";

/// The names of cursors. Two of them are not open at first.
const CURSORS: [&str; 4] = ["k1", "k2", "k3", "fuzz_cursor"];

/// Directions of FETCH and MOVE.
const DIRECTIONS: [&str; 14] = [
    "NEXT",
    "PRIOR",
    "FIRST",
    "LAST",
    "ABSOLUTE 2",
    "ABSOLUTE -2",
    "ABSOLUTE 0",
    "RELATIVE 0",
    "RELATIVE -1",
    "FORWARD 3",
    "BACKWARD 3",
    "FORWARD ALL",
    "BACKWARD ALL",
    "0",
];

/// Changes of a table `?` that invalidate plans, cursors and functions.
const CHANGES: [&str; 23] = [
    "ALTER TABLE ? ADD COLUMN z int DEFAULT 7",
    "ALTER TABLE ? ADD COLUMN z text",
    "ALTER TABLE ? DROP COLUMN IF EXISTS z",
    "ALTER TABLE ? DROP COLUMN IF EXISTS b CASCADE",
    "ALTER TABLE ? ALTER a TYPE bigint",
    "ALTER TABLE ? ALTER a TYPE int",
    "ALTER TABLE ? ALTER a TYPE text",
    "ALTER TABLE ? RENAME a TO aa",
    "ALTER TABLE ? RENAME aa TO a",
    "ALTER TABLE ? RENAME TO renamed",
    "ALTER TABLE renamed RENAME TO ?",
    "ALTER TABLE ? DISABLE TRIGGER ALL",
    "ALTER TABLE ? ENABLE ALWAYS TRIGGER fuzz_trigger",
    "ALTER TABLE ? ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY",
    "ALTER TABLE ? DETACH PARTITION ?_0",
    "ALTER TABLE ? ATTACH PARTITION ?_0 DEFAULT",
    "CREATE TABLE ?_2 PARTITION OF ? DEFAULT",
    "CREATE TEMP TABLE ? (a text, b int)",
    "CREATE TABLE child_of_? () INHERITS (?)",
    "DROP TABLE IF EXISTS pg_temp.?",
    "TRUNCATE ?",
    "CREATE RULE fuzz_rule AS ON INSERT TO ? DO ALSO SELECT 1",
    "DROP TRIGGER IF EXISTS fuzz_trigger ON ?",
];

/// Options of COPY.
const COPY_OPTIONS: [&str; 10] = [
    "",
    " (FORMAT csv)",
    " (FORMAT csv, HEADER match)",
    " (FORMAT csv, QUOTE 'x', ESCAPE 'a', DELIMITER '|', NULL '')",
    " (FORMAT binary)",
    " (DELIMITER ',', NULL 'a')",
    " (FORMAT csv, FORCE_NOT_NULL (a))",
    " WITH CSV HEADER",
    " (ENCODING 'LATIN1')",
    " (FREEZE)",
];

impl Grammar {
    /// Returns a statement about functions, cursors, prepared statements, COPY, or the schema.
    pub(super) fn program(&mut self) -> String {
        match self.random.below(24) {
            0..=2 => self.create_function(),
            3 => self.create_trigger(),
            4 | 5 => format!("DO $p$ {} $p$", self.block()),
            6..=8 => self.call(),
            9 | 10 => self.cursor(),
            11 | 12 => self.cursors(),
            13..=15 => self.prepared(),
            16 => self.copy(),
            17 | 18 => self.change(),
            19 => self.sql_function(),
            _ => self.several(),
        }
    }

    fn change(&mut self) -> String {
        let name = self.table().name;
        self.random.word(&CHANGES).replace('?', &name)
    }

    /// Returns several statements in one Query message.
    fn several(&mut self) -> String {
        let mut parts = Vec::new();
        for _ in 0..2 + self.random.below(4) {
            parts.push(match self.random.below(8) {
                0 | 1 => self.cursor(),
                2 => self.prepared(),
                3 => self.change(),
                4 => self.insert(),
                5 => self.update(),
                6 => self.call(),
                _ => self.query(1),
            });
        }
        let text = parts.join("; ");
        let form = self.random.word(&[
            "BEGIN; ?; COMMIT",
            "BEGIN; ?; ROLLBACK",
            "?",
            "SAVEPOINT m; ?; ROLLBACK TO m",
            "BEGIN; SAVEPOINT m; ?; ROLLBACK TO m; COMMIT",
            "?; COMMIT AND CHAIN",
        ]);
        form.replacen('?', &text, 1)
    }

    fn cursor(&mut self) -> String {
        let name = self.random.word(&CURSORS);
        let table = self.table();
        let (column, table) = (self.column(&table), table.name);
        let direction = self.random.word(&DIRECTIONS);
        match self.random.below(10) {
            0..=2 => {
                let scroll = self.random.word(&["", "SCROLL ", "NO SCROLL ", "BINARY "]);
                let hold = self.random.word(&["", " WITH HOLD", " WITH HOLD"]);
                let query = match self.random.below(3) {
                    0 => format!("SELECT * FROM {table} FOR UPDATE"),
                    1 => format!("SELECT {column}, a FROM {table} ORDER BY a"),
                    _ => self.query(1),
                };
                format!("DECLARE {name} {scroll}CURSOR{hold} FOR {query}")
            }
            3..=5 => format!("FETCH {direction} FROM {name}"),
            6 => format!("MOVE {direction} IN {name}"),
            7 => format!("UPDATE {table} SET a = a + 1 WHERE CURRENT OF {name}"),
            8 => format!("DELETE FROM {table} WHERE CURRENT OF {name} RETURNING *"),
            _ => format!("CLOSE {}", self.random.word(&[name, name, "ALL"])),
        }
    }

    /// Returns a transaction with cursors, in one Query message.
    fn cursors(&mut self) -> String {
        let mut sql = String::from("BEGIN");
        for _ in 0..4 + self.random.below(6) {
            let part = match self.random.below(8) {
                0 => self.change(),
                1 => self.update(),
                2 => self
                    .random
                    .word(&["SAVEPOINT m", "ROLLBACK TO m"])
                    .to_owned(),
                _ => self.cursor(),
            };
            sql += &format!("; {part}");
        }
        sql += self.random.word(&["; COMMIT", "; ROLLBACK", ""]);
        sql
    }

    fn prepared(&mut self) -> String {
        let name = self.random.word(&["s1", "s2", "s3"]);
        match self.random.below(8) {
            0 => {
                let table = self.table();
                let scope = vec![("t".to_owned(), table.clone())];
                let condition = self.expression(Kind::Bool, &scope, 1);
                let name_of = &table.name;
                let form = self.random.word(&[
                    "SELECT * FROM ? AS t WHERE a = $1 AND !",
                    "UPDATE ? AS t SET a = a + $1 WHERE ! RETURNING *",
                    "DELETE FROM ? AS t WHERE a > $1 AND !",
                    "SELECT $1 + a, $2 FROM ? AS t WHERE ! FOR UPDATE",
                    "SELECT t, $2 FROM ? AS t WHERE ! LIMIT $1",
                ]);
                let query = form.replace('!', &condition).replacen('?', name_of, 1);
                format!("PREPARE {name} (int, text) AS {query}")
            }
            1 => format!("PREPARE {name} AS {}", self.query(1)),
            2 => format!("PREPARE {name} AS {}", self.insert()),
            3 => format!("DEALLOCATE {name}"),
            4 => format!("EXPLAIN (ANALYZE, COSTS OFF) EXECUTE {name} (1, 'a')"),
            5 => format!("CREATE TEMP TABLE of_{name} AS EXECUTE {name}"),
            6 => format!("EXECUTE {name}"),
            _ => format!("EXECUTE {name} (1 + 1, 'a')"),
        }
    }

    fn copy(&mut self) -> String {
        let table = self.table();
        let (column, name) = (self.column(&table), &table.name);
        let options = self.random.word(&COPY_OPTIONS);
        match self.random.below(5) {
            0 => format!("COPY {name} TO STDOUT{options}"),
            1 => format!("COPY {name} ({column}, a) FROM STDIN{options}"),
            2 => {
                let scope = vec![(name.clone(), table.clone())];
                let condition = self.expression(Kind::Bool, &scope, 1);
                format!("COPY {name} FROM STDIN{options} WHERE {condition}")
            }
            3 => format!("COPY ({}) TO STDOUT{options}", self.query(1)),
            _ => format!("COPY (DELETE FROM {name} RETURNING *) TO STDOUT{options}"),
        }
    }

    fn sql_function(&mut self) -> String {
        let table = self.table().name;
        let number = self.random.below(4);
        let body = match self.random.below(4) {
            0 => format!("{}; SELECT x FROM {table}", self.insert()),
            1 => self.update(),
            _ => self.query(1),
        };
        let result = self
            .random
            .word(&["int", "SETOF int", "SETOF record", "void", "SETOF ?"]);
        let result = result.replace('?', &table);
        let kind = self
            .random
            .word(&["", "IMMUTABLE STRICT", "STABLE", "SECURITY DEFINER"]);
        match self.random.below(3) {
            0 => format!(
                "CREATE OR REPLACE FUNCTION p{number}(x int) RETURNS {result} {kind} \
                 BEGIN ATOMIC {body}; END"
            ),
            _ => format!(
                "CREATE OR REPLACE FUNCTION p{number}(x int) RETURNS {result} {kind} \
                 LANGUAGE sql AS $p$ {body} $p$"
            ),
        }
    }

    fn create_function(&mut self) -> String {
        let (number, table) = (self.random.below(4), self.table().name);
        let result = self.random.word(&[
            "int",
            "int",
            "SETOF int",
            "SETOF record",
            "TABLE (a int, z text)",
            "record",
            "?",
            "SETOF ?",
            "void",
            "refcursor",
        ]);
        let result = result.replace('?', &table);
        let block = self.block();
        match self.random.below(5) {
            0 => format!(
                "CREATE OR REPLACE PROCEDURE q{number}(INOUT x int) LANGUAGE plpgsql \
                 AS $p$ {block} $p$"
            ),
            1 => format!(
                "CREATE OR REPLACE FUNCTION p{number}(x int, OUT y int, INOUT z text) \
                 LANGUAGE plpgsql AS $p$ {block} $p$"
            ),
            _ => format!(
                "CREATE OR REPLACE FUNCTION p{number}(x int) RETURNS {result} LANGUAGE plpgsql \
                 AS $p$ {block} $p$"
            ),
        }
    }

    fn create_trigger(&mut self) -> String {
        let (name, block) = (self.table().name, self.block());
        let number = self.random.below(2);
        if self.random.is_one_in(2) {
            let row = self
                .random
                .word(&["NEW", "OLD", "NULL", "NEW", "ROW(1, 2)"]);
            let body = match self.random.below(3) {
                0 => format!("BEGIN NEW.a := NEW.a + 1; RETURN {row}; END"),
                1 => format!("BEGIN {block}; RETURN {row}; END"),
                _ => block,
            };
            return format!(
                "CREATE OR REPLACE FUNCTION tr{number}() RETURNS trigger LANGUAGE plpgsql \
                 AS $p$ {body} $p$"
            );
        }
        let when = self.random.word(&[
            "BEFORE INSERT OR UPDATE ON ? FOR EACH ROW",
            "AFTER INSERT OR UPDATE OR DELETE ON ? FOR EACH ROW",
            "AFTER UPDATE OF a ON ? FOR EACH STATEMENT",
            "BEFORE DELETE ON ? FOR EACH ROW WHEN (OLD.a > 2)",
            "AFTER INSERT ON ? REFERENCING NEW TABLE AS fresh FOR EACH STATEMENT",
            "AFTER UPDATE ON ? REFERENCING OLD TABLE AS o NEW TABLE AS p FOR EACH ROW",
            "INSTEAD OF UPDATE ON ? FOR EACH ROW",
            "BEFORE TRUNCATE ON ?",
        ]);
        let when = when.replace('?', &name);
        format!("CREATE OR REPLACE TRIGGER fuzz_trigger {when} EXECUTE FUNCTION tr{number}()")
    }

    fn call(&mut self) -> String {
        let (number, table) = (self.random.below(4), self.table().name);
        let form = self.random.word(&[
            "SELECT p!(1)",
            "SELECT p!(a) FROM ? LIMIT 5",
            "SELECT * FROM p!(2)",
            "SELECT * FROM p!(2) AS f(a int, z text)",
            "SELECT (p!(1)).*",
            "SELECT f, f.* FROM ? AS t, LATERAL p!(t.a) AS f LIMIT 5",
            "SELECT * FROM ROWS FROM (p!(1), p!(2)) WITH ORDINALITY",
            "CALL q!(1)",
            "CALL q!(NULL)",
            "UPDATE ? SET a = p!(a)",
            "DROP FUNCTION IF EXISTS p!(int) CASCADE",
            "ALTER TABLE ? ADD CHECK (p!(a) IS NOT NULL) NOT VALID",
            "CREATE INDEX ON ? ((p!(a)))",
            "SELECT p!(1, 'a')",
        ]);
        form.replace('!', &number.to_string()).replace('?', &table)
    }

    /// Returns a PL/pgSQL block.
    fn block(&mut self) -> String {
        let table = self.table();
        let kinds = ["i", "n", "s", "b", "d", "j", "l"].iter();
        let columns = kinds
            .zip(KINDS)
            .map(|(name, kind)| ((*name).to_owned(), kind));
        let variables = Table {
            name: "none".into(),
            columns: columns.collect(),
            has_key: false,
            made_by: String::new(),
        };
        let scope = vec![("m".to_owned(), variables)];
        let declared = VARIABLES.replace('?', &table.name);
        let body = self.body(&scope, &table, 3);
        let end = self.random.word(&[
            "RETURN;",
            "RETURN i;",
            "RETURN NEXT i; RETURN;",
            "RETURN r;",
            "RETURN w;",
            "RETURN NULL;",
            "RETURN QUERY SELECT 1; RETURN;",
            "",
        ]);
        format!("<<m>> DECLARE {declared}; BEGIN {body} {end} END")
    }

    fn body(&mut self, scope: &Scope, table: &Table, depth: usize) -> String {
        let count = 1 + self.random.below(4);
        let lines: Vec<String> = (0..count).map(|_| self.line(scope, table, depth)).collect();
        lines.join(" ")
    }

    /// Returns a PL/pgSQL statement.
    fn line(&mut self, scope: &Scope, table: &Table, depth: usize) -> String {
        if depth > 0 && self.random.is_one_in(3) {
            return self.nested(scope, table, depth - 1);
        }
        let at = self.random.below(KINDS.len());
        let (variable, kind) = scope[0].1.columns[at].clone();
        let value = self.expression(kind, scope, 2);
        let condition = self.expression(Kind::Bool, scope, 1);
        let form = self.random.word(&[
            "$v := $x;",
            "$v := $x;",
            "l[i] := i;",
            "w.a := i;",
            "r.a := i;",
            "w := NULL;",
            "r := ROW(i, s);",
            "r := w;",
            "SELECT * INTO r FROM $t;",
            "SELECT * INTO STRICT w FROM $t WHERE a = i;",
            "SELECT a INTO i FROM $t ORDER BY a LIMIT 1;",
            "INSERT INTO $t (a) VALUES (i) ON CONFLICT DO NOTHING;",
            "UPDATE $t SET a = a + 1 WHERE a = i RETURNING a INTO i;",
            "DELETE FROM $t WHERE a = i;",
            "PERFORM * FROM $t WHERE $c;",
            "EXECUTE 'SELECT a FROM $t WHERE a = $1' INTO i USING i;",
            "EXECUTE format('INSERT INTO %I (a) VALUES (%L)', '$t', i);",
            "EXECUTE 'ALTER TABLE $t ADD COLUMN IF NOT EXISTS z int';",
            "EXECUTE 'ALTER TABLE $t DROP COLUMN IF EXISTS z';",
            "ALTER TABLE $t ALTER a TYPE bigint;",
            "CREATE TEMP TABLE IF NOT EXISTS of_block AS SELECT i AS a;",
            "DROP TABLE IF EXISTS of_block;",
            "OPEN c FOR SELECT * FROM $t;",
            "OPEN c SCROLL FOR EXECUTE 'SELECT * FROM $t WHERE a > $1' USING i;",
            "OPEN e(1);",
            "FETCH c INTO r;",
            "FETCH e INTO w;",
            "MOVE LAST IN c;",
            "UPDATE $t SET a = a WHERE CURRENT OF e;",
            "CLOSE c;",
            "CLOSE e;",
            "c := 'k1';",
            "GET DIAGNOSTICS i = ROW_COUNT;",
            "GET DIAGNOSTICS s = PG_CONTEXT;",
            "RAISE NOTICE '% %', $x, r;",
            "RAISE EXCEPTION 'e %', s USING ERRCODE = 'P0099', HINT = s;",
            "RAISE division_by_zero;",
            "RETURN NEXT i;",
            "RETURN NEXT w;",
            "RETURN QUERY SELECT * FROM $t;",
            "RETURN QUERY EXECUTE 'SELECT a FROM $t';",
            "COMMIT;",
            "ROLLBACK;",
            "ASSERT $c, 's';",
            "CALL q1(i);",
            "i := p1(i);",
            "IF x > 0 THEN i := p2(x - 1); END IF;",
            "EXIT WHEN $c;",
            "CONTINUE WHEN $c;",
        ]);
        let form = form.replace("$t", &table.name).replace("$v", &variable);
        form.replace("$x", &value).replace("$c", &condition)
    }

    /// Returns a PL/pgSQL statement that contains other statements.
    fn nested(&mut self, scope: &Scope, table: &Table, depth: usize) -> String {
        let condition = self.expression(Kind::Bool, scope, 1);
        let (one, two) = (
            self.body(scope, table, depth),
            self.body(scope, table, depth),
        );
        let form = self.random.word(&[
            "IF $c THEN $1 ELSE $2 END IF;",
            "CASE i WHEN 1, 2 THEN $1 ELSE $2 END CASE;",
            "CASE WHEN $c THEN $1 END CASE;",
            "FOR k IN 1..3 LOOP i := k; $1 END LOOP;",
            "FOR k IN REVERSE 9..1 BY 3 LOOP $1 END LOOP;",
            "FOR r IN SELECT * FROM $t LIMIT 5 LOOP $1 END LOOP;",
            "FOR w IN SELECT * FROM $t LIMIT 3 LOOP $1 END LOOP;",
            "FOR q IN e(1) LOOP $1 EXIT; END LOOP;",
            "FOR r IN EXECUTE 'SELECT a FROM $t LIMIT 3' LOOP $1 END LOOP;",
            "FOREACH i IN ARRAY l LOOP $1 EXIT; END LOOP;",
            "FOREACH l SLICE 1 IN ARRAY ARRAY[l, l] LOOP $1 EXIT; END LOOP;",
            "LOOP i := i + 1; EXIT WHEN i > 5; $1 END LOOP;",
            "BEGIN $1 EXCEPTION WHEN others THEN $2 END;",
            "BEGIN $1 EXCEPTION WHEN division_by_zero OR unique_violation THEN $2 END;",
            "BEGIN $1 EXCEPTION WHEN others THEN GET STACKED DIAGNOSTICS s = MESSAGE_TEXT; \
             RAISE; END;",
            "DECLARE i text := 'x'; r record; BEGIN $1 END;",
        ]);
        let form = form.replace("$c", &condition).replace("$t", &table.name);
        form.replacen("$1", &one, 1).replacen("$2", &two, 1)
    }
}
