"""pg_dump: what it writes of a schema and its data, restored by psql or pg_restore, gives the same dump again."""

import re
import tempfile

from checks import URL, check, run, same
from tools import called, psql

TABLES = r"""
CREATE TABLE author (
    id serial PRIMARY KEY,
    name varchar(40) NOT NULL CONSTRAINT author_name UNIQUE,
    born date DEFAULT '2000-01-01' CHECK (born > '0001-01-01'),
    rate numeric(8,2) DEFAULT 1.50 NOT NULL,
    made timestamptz DEFAULT now(),
    tags text[] DEFAULT '{}'::text[],
    "Odd Name" int DEFAULT (1 + 2)
);
CREATE TABLE book (
    id bigint GENERATED ALWAYS AS IDENTITY (START WITH 10 INCREMENT BY 5) PRIMARY KEY,
    author int NOT NULL REFERENCES author ON DELETE CASCADE ON UPDATE SET NULL,
    other int REFERENCES author DEFERRABLE INITIALLY DEFERRED,
    title text COLLATE "C",
    price numeric(10,4),
    twice numeric GENERATED ALWAYS AS (price * 2) STORED,
    doc jsonb, raw bytea, took interval, key uuid, flag boolean, ratio float8, small int2, kind char(3), at time,
    UNIQUE (author, title),
    CONSTRAINT book_price CHECK (price >= 0 AND (title <> '' OR price = 0))
);
CREATE TABLE empty (a int, b text, PRIMARY KEY (b, a));
CREATE INDEX book_price_desc ON book (price DESC NULLS LAST, title);
CREATE UNIQUE INDEX book_key ON book (key) WHERE flag;
CREATE INDEX book_with ON book (author) INCLUDE (title);
CREATE SEQUENCE free INCREMENT 3 MINVALUE 5 MAXVALUE 500 CACHE 2 CYCLE;
CREATE VIEW cheap AS SELECT b.id, b.title, a.name AS author FROM book b JOIN author a ON a.id = b.author WHERE b.price < 10;
CREATE VIEW counted AS SELECT author, count(*) AS n, sum(price) FILTER (WHERE flag) AS s FROM book GROUP BY author HAVING count(*) > 0;
CREATE VIEW of_views AS SELECT c.title FROM cheap c WHERE c.author IN (SELECT name FROM author) ORDER BY c.title LIMIT 5;
COMMENT ON TABLE book IS 'what was written; it''s \ odd';
COMMENT ON COLUMN book.price IS 'in euros';
INSERT INTO author (name, born, tags, "Odd Name") VALUES ('Ada', '1815-12-10', '{a,"b c",NULL}', NULL), (E'tab\tand \\ back', NULL, NULL, 5);
INSERT INTO author (name) SELECT 'author ' || k FROM generate_series(1, 500) k;
INSERT INTO book (author, other, title, price, doc, raw, took, key, flag, ratio, small, kind, at) VALUES
    (1, 2, 'žluť', 1.5, '{"a": [1, null], "b": "x"}', '\x00ff27', '1 mon 2 days 03:04:05.6', '12345678-1234-5678-1234-567812345678', true, 0.1, -5, 'ab', '12:30:01.5'),
    (2, NULL, E'new\nline', NULL, NULL, '', '-1 day', NULL, false, 'NaN', NULL, NULL, NULL),
    (2, 1, '', 0, '[]', NULL, NULL, NULL, NULL, '-Infinity', 32767, 'abc', '24:00');
SELECT nextval('free'), nextval('free');
"""

TRIGGERS = """
CREATE FUNCTION touched() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NEW; END $$;
CREATE TRIGGER touch AFTER UPDATE ON author FOR EACH ROW EXECUTE FUNCTION touched();
CREATE TABLE part (x int PRIMARY KEY, author int REFERENCES author) PARTITION BY RANGE (x);
CREATE TABLE part_1 PARTITION OF part FOR VALUES FROM (0) TO (10);
CREATE MATERIALIZED VIEW names AS SELECT name FROM author;
CREATE INDEX names_name ON names (name);
INSERT INTO part VALUES (1, 1);
"""

# Entries of a dump that read rows, and the entries that pg_restore has to wait for.
WAITS = {
    "CONSTRAINT author author_pkey": ["TABLE author"],
    "CONSTRAINT author author_name": ["TABLE author"],
    "CONSTRAINT book book_pkey": ["TABLE book"],
    "CONSTRAINT book book_author_title_key": ["TABLE book"],
    "CONSTRAINT empty empty_pkey": ["TABLE empty"],
    "CONSTRAINT part_1 part_1_pkey": ["TABLE part_1", "CONSTRAINT part part_pkey"],
    "INDEX book_price_desc": ["TABLE book"],
    "INDEX book_key": ["TABLE book"],
    "INDEX book_with": ["TABLE book"],
    "INDEX names_name": ["MATERIALIZED VIEW names"],
    "FK CONSTRAINT book book_author_fkey": ["TABLE book", "TABLE author", "CONSTRAINT author author_pkey"],
    "FK CONSTRAINT book book_other_fkey": ["TABLE book", "TABLE author", "CONSTRAINT author author_pkey"],
    "FK CONSTRAINT part part_author_fkey": ["TABLE part", "TABLE author", "CONSTRAINT author author_pkey"],
    "TRIGGER author touch": ["TABLE author", "FUNCTION touched()"],
    "VIEW cheap": ["TABLE book", "TABLE author"],
    "VIEW of_views": ["VIEW cheap", "TABLE author"],
    "MATERIALIZED VIEW DATA names": ["MATERIALIZED VIEW names"],
    "TABLE DATA author": ["TABLE author"],
}

_names = iter(range(100))


def dump(*arguments):
    """What pg_dump writes, without the key that newer ones guard their lines for psql with, which is another one each time."""
    text = called("pg_dump", "--no-owner", *arguments)
    return re.sub(r"^\\(un)?restrict .*\n", "", text, flags=re.MULTILINE)


def round_trip(statements, *arguments):
    """Makes a schema of statements, dumps it, drops it, restores it, and dumps it again; what was dumped."""
    schema = f"trip_{next(_names)}"
    psql(f"CREATE SCHEMA {schema}; SET search_path = {schema};\n{statements}")
    first = dump("-n", schema, *arguments)
    psql(f"DROP SCHEMA {schema} CASCADE;")
    psql(first)
    same(dump("-n", schema, *arguments), first)
    return first


def waits_of(archive):
    """The dependencies of each entry of an archive, by kind and name without the schema, as `pg_restore -l -v` has them."""
    names, waits, last = {}, {}, None
    for line in called("pg_restore", "-l", "-v", archive, url=None).splitlines():
        if entry := re.match(r"(\d+); \d+ \d+ ([A-Z ]+) \S+ (.+) \S*$", line):
            last = entry[1]
            names[last] = f"{entry[2]} {entry[3]}"
            waits[last] = []
        elif depends := re.match(r";\s+depends on: ([\d ]+)$", line):
            waits[last] = depends[1].split()
    return {names[entry]: {names[on] for on in all if on in names} for entry, all in waits.items()}


@check
def a_schema_and_its_data():
    text = round_trip(TABLES)
    for wanted in ("CREATE TABLE trip_0.book", "GENERATED ALWAYS AS ((price * (2)::numeric)) STORED", "ADD GENERATED ALWAYS AS IDENTITY",
                   "ON UPDATE SET NULL ON DELETE CASCADE", "DEFERRABLE INITIALLY DEFERRED", "INCLUDE (title)", "WHERE flag",
                   "SELECT pg_catalog.setval('trip_0.free', ", "COMMENT ON COLUMN trip_0.book.price", "COPY trip_0.author ("):
        assert wanted in text, (wanted, text)


@check
def a_schema_alone_and_data_alone():
    text = round_trip(TABLES, "--schema-only")
    assert "COPY" not in text and "setval" not in text, text
    psql("CREATE SCHEMA parts; SET search_path = parts; CREATE TABLE t (x int PRIMARY KEY, y text); INSERT INTO t VALUES (1, 'a'), (2, NULL);")
    data = dump("--data-only", "-t", "parts.t")
    assert "CREATE" not in data, data
    psql("TRUNCATE parts.t;" + data)
    same(psql("TABLE parts.t;"), "1|a\n2|\n")


@check
def rows_as_statements():
    assert "INSERT INTO trip_" in round_trip(TABLES, "--column-inserts")
    assert "ON CONFLICT DO NOTHING" in round_trip(TABLES, "--inserts", "--rows-per-insert=100", "--on-conflict-do-nothing")


@check
def restored_over_what_is_there():
    psql("CREATE SCHEMA over; SET search_path = over;" + TABLES)
    arguments = ("-n", "over", "--clean", "--if-exists")
    first = dump(*arguments)
    psql("DELETE FROM over.book;")
    psql(first, "-1")
    same(dump(*arguments), first)


@check
def a_dump_of_its_own_format():
    psql("CREATE SCHEMA formats; SET search_path = formats;" + TABLES)
    first = dump("-n", "formats")
    with tempfile.NamedTemporaryFile(suffix=".dump") as file:
        called("pg_dump", "--no-owner", "-Fc", "-n", "formats", "-f", file.name)
        psql("DROP SCHEMA formats CASCADE;")
        called("pg_restore", "--exit-on-error", "--single-transaction", "-d", URL, file.name, url=None)
        same(dump("-n", "formats"), first)
        psql("DROP SCHEMA formats CASCADE;")
        called("pg_restore", "--exit-on-error", "-j", "2", "-d", URL, file.name, url=None)
        same(dump("-n", "formats"), first)


@check
def a_dump_by_several_jobs():
    psql("CREATE SCHEMA jobs; SET search_path = jobs;" + TABLES + TRIGGERS)
    first = dump("-n", "jobs")
    with tempfile.TemporaryDirectory() as directory:
        written = directory + "/dump"
        called("pg_dump", "--no-owner", "-Fd", "-j", "2", "-n", "jobs", "-f", written)
        # Jobs run beside each other what does not wait: a missing dependency fails only on a busy host.
        waits = waits_of(written)
        for entry, wanted in WAITS.items():
            missing = set(wanted) - waits.get(entry, set())
            assert not missing, f"{entry} does not wait for {sorted(missing)}, but for {sorted(waits.get(entry, []))}"
        psql("DROP SCHEMA jobs CASCADE;")
        called("pg_restore", "--exit-on-error", "-j", "2", "-d", URL, written, url=None)
        same(dump("-n", "jobs"), first)


@check
def a_dump_of_everything():
    text = dump()
    assert "-- PostgreSQL database dump complete" in text, text[-500:]
    assert "CREATE DATABASE" in dump("--create", "--schema-only")


@check
def comments_on_all_kinds_of_things():
    round_trip("""CREATE TABLE t (x int CONSTRAINT above CHECK (x > 0), y int); CREATE INDEX i ON t (y); CREATE VIEW v AS SELECT x FROM t;
                  CREATE SEQUENCE s; COMMENT ON VIEW v IS 'a view'; COMMENT ON COLUMN v.x IS 'a column'; COMMENT ON INDEX i IS 'an index';
                  COMMENT ON CONSTRAINT above ON t IS 'not below'; COMMENT ON SEQUENCE s IS 'for all'; COMMENT ON SCHEMA public IS 'a schema';""")


@check
def owners():
    psql("CREATE SCHEMA owned; CREATE TABLE owned.t (x int); CREATE VIEW owned.v AS SELECT x FROM owned.t; CREATE SEQUENCE owned.s;")
    text = called("pg_dump", "-n", "owned")
    assert "ALTER SCHEMA owned OWNER TO" in text and "ALTER TABLE owned.t OWNER TO" in text, text
    psql("DROP SCHEMA owned CASCADE;" + text)


@check
def indexes_on_expressions():
    round_trip("CREATE TABLE t (x text, y int); CREATE INDEX t_lower ON t (lower(x), (y + 1) DESC); CREATE UNIQUE INDEX u ON t ((y * 2)) WHERE x > 'a';")


@check
def enums_and_domains():
    round_trip("""CREATE TYPE mood AS ENUM ('sad', 'it''s ok', 'happy'); CREATE DOMAIN positive AS int DEFAULT 5 CHECK (VALUE > 0);
                  CREATE TABLE t (m mood DEFAULT 'sad', n mood[], p positive NOT NULL);
                  COMMENT ON TYPE mood IS 'how one is'; INSERT INTO t VALUES ('happy', '{sad,"it''s ok"}', 7);""")


@check
def composites():
    round_trip("CREATE TYPE pair AS (x int, y text); CREATE TABLE t (p pair); INSERT INTO t VALUES ('(1,\"a b\")');")


@check
def materialized_views():
    # With a key: rows of a table without one come in an order that nobody promises.
    round_trip("""CREATE TABLE t (x int PRIMARY KEY); INSERT INTO t VALUES (1), (2); CREATE MATERIALIZED VIEW m AS SELECT x, x * 2 AS y FROM t;
                  CREATE UNIQUE INDEX m_x ON m (x);""")


@check
def partitions():
    round_trip("""CREATE TABLE t (x int, y text, PRIMARY KEY (x)) PARTITION BY RANGE (x); CREATE INDEX t_y ON t (y);
                  CREATE TABLE t_1 PARTITION OF t FOR VALUES FROM (MINVALUE) TO (10); CREATE TABLE t_2 PARTITION OF t DEFAULT;
                  INSERT INTO t VALUES (1, 'a'), (11, 'b');""")


@check
def functions_and_triggers():
    round_trip("""CREATE TABLE t (x int, at int);
                  CREATE FUNCTION twice(x int) RETURNS int LANGUAGE sql IMMUTABLE STRICT AS 'SELECT x * 2';
                  CREATE FUNCTION touched() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.at := coalesce(OLD.at, 0) + 1; RETURN NEW; END $$;
                  CREATE TRIGGER touch BEFORE INSERT OR UPDATE OF x ON t FOR EACH ROW WHEN (NEW.x > 0) EXECUTE FUNCTION touched();
                  CREATE PROCEDURE p(INOUT x int) LANGUAGE plpgsql AS $$ BEGIN x := x + 1; END $$; INSERT INTO t VALUES (1);""")


@check
def privileges():
    psql("DROP ROLE IF EXISTS fencepost_reader; CREATE ROLE fencepost_reader;")
    text = round_trip("CREATE TABLE t (x int, y int); GRANT SELECT, INSERT ON t TO fencepost_reader; GRANT UPDATE (y) ON t TO PUBLIC; REVOKE DELETE ON t FROM postgres;")
    assert "GRANT SELECT,INSERT ON TABLE" in text, text


run()
