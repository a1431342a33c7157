"""psycopg 3: values in text and in binary, what describes them, rows of many statements, COPY."""

import datetime as dt
import decimal
import enum
import ipaddress
import uuid

import psycopg
from psycopg import errors, sql
from psycopg.rows import dict_row, namedtuple_row
from psycopg.types.composite import CompositeInfo
from psycopg.types.enum import EnumInfo, register_enum
from psycopg.types.json import Json, Jsonb

from checks import URL, check, fails, run, same

UTC = dt.timezone.utc
D = decimal.Decimal

# A type, and values of it that come back as they went.
VALUES = {
    "bool": [True, False],
    "int2": [0, 32767, -32768],
    "int4": [0, 2**31 - 1, -(2**31)],
    "int8": [0, 2**63 - 1, -(2**63)],
    "float4": [0.0, 1.5, -0.25],
    "float8": [0.1, 1e300, -1e-300, float("inf")],
    "numeric": [D("0"), D("1.10"), D("-123456789.123456789"), D("1e20")],
    "text": ["", "a", "it's \\ \"quoted\"", "žluťoučký 🐎", "a\nb\tc"],
    "varchar(5)": ["abc", "äöü"],
    "bytea": [b"", b"\x00\xff\\'", bytes(range(256))],
    "date": [dt.date(2024, 2, 29), dt.date(1, 1, 1), dt.date(9999, 12, 31)],
    "time": [dt.time(0), dt.time(23, 59, 59, 999999)],
    "timetz": [dt.time(12, 30, tzinfo=dt.timezone(dt.timedelta(hours=2)))],
    "timestamp": [dt.datetime(2024, 2, 29, 12, 0, 0, 1), dt.datetime(1, 1, 1)],
    "timestamptz": [dt.datetime(2024, 2, 29, 12, 0, tzinfo=UTC)],
    "interval": [dt.timedelta(days=1, seconds=3661, microseconds=5), dt.timedelta(days=-1)],
    "uuid": [uuid.UUID("12345678-1234-5678-1234-567812345678")],
    "int4[]": [[], [1, 2, 3], [1, None], [[1, 2], [3, 4]]],
    "text[]": [["a", "", "NULL", None, 'quo"te', "back\\slash", "com,ma"]],
    "numeric[]": [[D("1.5"), D("-2")]],
    "timestamptz[]": [[dt.datetime(2024, 1, 1, tzinfo=UTC)]],
    "uuid[]": [[uuid.UUID(int=7)]],
}


def connect(**options):
    return psycopg.connect(URL, **options)


@check
def values_come_back_as_text_and_as_binary():
    with connect() as c:
        c.execute("SET TIME ZONE 'UTC'")
        for name, values in VALUES.items():
            for value in values:
                for placeholder in ("%t", "%b") if name not in ("varchar(5)",) else ("%t",):
                    for binary in (False, True):
                        cursor = c.cursor(binary=binary)
                        try:
                            cursor.execute(f"SELECT {placeholder}::{name}", [value])
                            found = cursor.fetchone()[0]
                        except Exception as error:
                            raise AssertionError(f"{name} {value!r} {placeholder} {binary}: {error}")
                        assert found == value, (name, value, placeholder, binary, found)


@check
def values_stored_in_columns_come_back():
    with connect() as c:
        c.execute("SET TIME ZONE 'UTC'")
        for k, (name, values) in enumerate(VALUES.items()):
            table = sql.Identifier(f"kept_{k}")
            c.execute(sql.SQL("CREATE TABLE {} (id int PRIMARY KEY, v {})").format(table, sql.SQL(name)))
            insert = sql.SQL("INSERT INTO {} VALUES (%s, %s)").format(table)
            c.cursor().executemany(insert, list(enumerate([*values, None])))
            for binary in (False, True):
                cursor = c.cursor(binary=binary)
                cursor.execute(sql.SQL("SELECT v FROM {} ORDER BY id").format(table))
                same([row[0] for row in cursor], [*values, None])


@check
def json_comes_back():
    document = {"a": [1, 2.5, None, True], "ž": {"b": "c"}}
    with connect() as c:
        for wrapped, name in ((Json(document), "json"), (Jsonb(document), "jsonb")):
            for binary in (False, True):
                cursor = c.cursor(binary=binary)
                cursor.execute(f"SELECT %s::{name}", [wrapped])
                same(cursor.fetchone(), (document,))
        same(c.execute("SELECT %s->'a'->>1", [Jsonb(document)]).fetchone(), ("2.5",))


@check
def addresses_come_back():
    with connect() as c:
        for value in (ipaddress.ip_address("10.0.0.1"), ipaddress.ip_network("10.0.0.0/8")):
            same(c.execute("SELECT %s", [value]).fetchone(), (value,))


@check
def parameters_without_types_get_them_from_where_they_stand():
    with connect() as c:
        c.execute("CREATE TABLE typed (id int2, name varchar(10), at date, price numeric(8,2))")
        c.execute("INSERT INTO typed VALUES (%s, %s, %s, %s)", [1, "one", "2024-01-02", "3.456"])
        same(
            c.execute("SELECT * FROM typed WHERE id = %s AND name = %s", [1, "one"]).fetchone(),
            (1, "one", dt.date(2024, 1, 2), D("3.46")),
        )
        same(c.execute("SELECT %s || 'x', %s + 1", ["a", 2]).fetchone(), ("ax", 3))
        fails(errors.UndefinedFunction, c.execute, "SELECT nothing_of_the_kind(%s)", [1])


@check
def columns_are_described():
    with connect() as c:
        cursor = c.execute("SELECT 1::int AS a, 'x'::varchar(7) AS b, 1.5::numeric(10,3) AS c, now() AS d")
        found = [(d.name, d.type_code, d.display_size, d.precision, d.scale) for d in cursor.description]
        same(found[0], ("a", 23, None, None, None))
        same(found[1], ("b", 1043, 7, None, None))
        same(found[2], ("c", 1700, None, 10, 3))
        same(found[3][:2], ("d", 1184))
        c.execute("CREATE TABLE described (x int, y text)")
        cursor = c.execute("SELECT y, x, x + 1 FROM described")
        table = c.execute("SELECT 'described'::regclass::oid").fetchone()[0]
        same([cursor.pgresult.ftable(k) for k in range(3)], [table, table, 0])
        same([cursor.pgresult.ftablecol(k) for k in range(3)], [2, 1, 0])


@check
def rows_come_in_the_form_that_is_wanted():
    with connect(row_factory=dict_row) as c:
        same(c.execute("SELECT 1 AS a, 'b' AS b").fetchall(), [{"a": 1, "b": "b"}])
        row = c.cursor(row_factory=namedtuple_row).execute("SELECT 1 AS a").fetchone()
        same(row.a, 1)


@check
def many_rows_of_one_statement():
    with connect() as c:
        c.execute("CREATE TABLE many (id serial PRIMARY KEY, x int UNIQUE)")
        cursor = c.cursor()
        cursor.executemany("INSERT INTO many (x) VALUES (%s) RETURNING id, x", [(k,) for k in range(500)], returning=True)
        rows = [cursor.fetchone()]
        while cursor.nextset():
            rows.append(cursor.fetchone())
        same(rows, [(k + 1, k) for k in range(500)])
        cursor.executemany("UPDATE many SET x = -x WHERE id = %s", [(1,), (2,), (999,)])
        same(cursor.rowcount, 2)
        same(c.execute("DELETE FROM many WHERE x = ANY(%s)", [[3, 4, 5, 1000]]).rowcount, 3)


@check
def several_statements_of_one_text():
    with connect(autocommit=True) as c:
        cursor = c.execute("CREATE TABLE texts (x int); INSERT INTO texts VALUES (1), (2); SELECT x FROM texts ORDER BY x; ")
        same(cursor.statusmessage, "CREATE TABLE")
        cursor.nextset()
        same((cursor.statusmessage, cursor.rowcount), ("INSERT 0 2", 2))
        cursor.nextset()
        same(cursor.fetchall(), [(1,), (2,)])
        fails(errors.DivisionByZero, c.execute, "INSERT INTO texts VALUES (3); SELECT 1/0")
        same(c.execute("SELECT count(*) FROM texts").fetchone(), (2,))
        c.execute("")
        fails(errors.SyntaxError, c.execute, "SELECT %s; SELECT %s", [1, 2])


@check
def rows_are_copied_in_and_out_as_text():
    rows = [(k, f"row {k}\t\\N\n", None if k % 3 else k / 2) for k in range(2000)]
    with connect() as c:
        c.execute("CREATE TABLE copied (id int PRIMARY KEY, t text, f float8)")
        with c.cursor().copy("COPY copied (id, t, f) FROM STDIN") as copy:
            for row in rows:
                copy.write_row(row)
        with c.cursor().copy("COPY (SELECT * FROM copied ORDER BY id) TO STDOUT") as copy:
            copy.set_types(["int4", "text", "float8"])
            same(list(copy.rows()), rows)
        with c.cursor().copy("COPY copied TO STDOUT WITH (FORMAT csv, HEADER, NULL 'nil')") as copy:
            text = b"".join(copy).decode()
        assert text.startswith("id,t,f\n"), text[:50]


@check
def rows_are_copied_in_and_out_as_binary():
    rows = [(k, f"row {k}", D(k) / 4, dt.datetime(2024, 1, 1, tzinfo=UTC), [k, None]) for k in range(2000)]
    with connect() as c:
        c.execute("SET TIME ZONE 'UTC'")
        c.execute("CREATE TABLE copied_binary (id int8 PRIMARY KEY, t text, n numeric, at timestamptz, a int4[])")
        types = ["int8", "text", "numeric", "timestamptz", "int4[]"]
        with c.cursor().copy("COPY copied_binary FROM STDIN (FORMAT binary)") as copy:
            copy.set_types(types)
            for row in rows:
                copy.write_row(row)
        with c.cursor().copy("COPY (SELECT * FROM copied_binary ORDER BY id) TO STDOUT (FORMAT binary)") as copy:
            copy.set_types(types)
            same(list(copy.rows()), rows)


@check
def a_copy_that_fails_leaves_nothing():
    with connect(autocommit=True) as c:
        c.execute("CREATE TABLE half (id int PRIMARY KEY)")

        def broken():
            with c.cursor().copy("COPY half FROM STDIN") as copy:
                copy.write("1\n2\nthree\n")

        error = fails(errors.InvalidTextRepresentation, broken)
        assert "COPY half, line 3, column id" in error.diag.context, error.diag.context

        def given_up():
            with c.cursor().copy("COPY half FROM STDIN") as copy:
                copy.write("1\n")
                raise ZeroDivisionError

        fails(ZeroDivisionError, given_up)
        same(c.execute("SELECT count(*) FROM half").fetchone(), (0,))

        def twice():
            with c.cursor().copy("COPY half FROM STDIN") as copy:
                copy.write("1\n1\n")

        same(fails(errors.UniqueViolation, twice).diag.constraint_name, "half_pkey")


@check
def enums_are_registered():
    class Mood(enum.Enum):
        SAD = "sad"
        HAPPY = "happy"

    with connect(autocommit=True) as c:
        c.execute("CREATE TYPE mood AS ENUM ('sad', 'happy')")
        info = EnumInfo.fetch(c, "mood")
        same(list(info.labels), ["sad", "happy"])
        register_enum(info, c, Mood, mapping={Mood.SAD: "sad", Mood.HAPPY: "happy"})
        c.execute("CREATE TABLE moods (m mood, all_of_them mood[])")
        for placeholder in ("%t", "%b"):
            c.execute(f"INSERT INTO moods VALUES ({placeholder}, {placeholder})", [Mood.HAPPY, [Mood.SAD, Mood.HAPPY]])
        for binary in (False, True):
            cursor = c.cursor(binary=binary)
            cursor.execute("SELECT * FROM moods WHERE m = %s", [Mood.HAPPY])
            same(cursor.fetchall(), [(Mood.HAPPY, [Mood.SAD, Mood.HAPPY])] * 2)
        fails(errors.InvalidTextRepresentation, c.execute, "INSERT INTO moods VALUES ('angry')")


@check
def composites_are_registered():
    with connect(autocommit=True) as c:
        c.execute("CREATE TYPE point_of AS (x int, name text)")
        info = CompositeInfo.fetch(c, "point_of")
        same(list(info.field_names), ["x", "name"])


run()
