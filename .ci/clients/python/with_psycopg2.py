"""psycopg2, which writes values into the text of statements: what quoted literals become, COPY, cursors, errors."""

import datetime as dt
import decimal
import io
import select
import uuid

import psycopg2
from psycopg2 import errorcodes, errors, extensions, extras

from checks import OTHER, URL, check, fails, run, same

D = decimal.Decimal
extras.register_uuid()


def connect(url=URL, **options):
    return psycopg2.connect(url, **options)


def value(connection, statement, arguments=None):
    with connection.cursor() as cursor:
        cursor.execute(statement, arguments)
        return cursor.fetchone()[0]


@check
def values_written_as_literals_come_back():
    zone = dt.timezone(dt.timedelta(hours=2))
    values = [True, 1, 2**40, D("1.5"), 0.1, "it's \\ a 'text' %", dt.date(2024, 2, 29), dt.time(1, 2, 3),
              dt.datetime(2024, 2, 29, 12, 0, 0, 5), dt.datetime(2024, 2, 29, 12, 0, tzinfo=zone),
              dt.timedelta(days=3, seconds=5), uuid.UUID(int=5), [1, 2], ["a", None], None]
    with connect() as c:
        for wanted in values:
            found = value(c, "SELECT %s", (wanted,))
            if isinstance(wanted, float):
                found = float(found)
            same(found, wanted)
        same(bytes(value(c, "SELECT %s", (psycopg2.Binary(bytes(range(256))),))), bytes(range(256)))
        same(value(c, "SELECT %s", (extras.Json({"a": [1]}),)), '{"a": [1]}')
        same(value(c, "SELECT %s::jsonb", (extras.Json({"a": [1]}),)), {"a": [1]})


@check
def literals_take_the_types_of_columns():
    with connect() as c, c.cursor() as cursor:
        cursor.execute("CREATE TABLE literal (id serial PRIMARY KEY, a date, b numeric(8,2), c int[], d varchar(5))")
        cursor.execute("INSERT INTO literal (a, b, c, d) VALUES (%s, %s, %s, %s)", ("2024-01-02", "1.239", "{1,2}", "abc"))
        cursor.execute("SELECT a, b, c, d FROM literal WHERE a = %s AND b > %s AND d IN %s", ("2024-01-02", "1", ("abc", "x")))
        same(cursor.fetchall(), [(dt.date(2024, 1, 2), D("1.24"), [1, 2], "abc")])
        cursor.execute("UPDATE literal SET a = NULL, b = b + 1")
        same(cursor.rowcount, 1)


@check
def many_rows_of_one_text():
    with connect() as c, c.cursor() as cursor:
        cursor.execute("CREATE TABLE many (x int PRIMARY KEY, y text)")
        extras.execute_values(cursor, "INSERT INTO many VALUES %s", [(k, str(k)) for k in range(1000)])
        ids = extras.execute_values(
            cursor, "INSERT INTO many VALUES %s RETURNING x", [(-k, None) for k in range(1, 300)], fetch=True)
        same(len(ids), 299)
        extras.execute_batch(cursor, "UPDATE many SET y = %s WHERE x = %s", [("new", k) for k in range(300)])
        cursor.execute("SELECT count(*) FROM many WHERE y = 'new'")
        same(cursor.fetchone(), (300,))


@check
def transactions():
    c = connect()
    same((c.server_version // 10000, c.autocommit), (15, False))
    c.set_session(isolation_level="SERIALIZABLE", readonly=False)
    with c, c.cursor() as cursor:
        cursor.execute("CREATE TABLE blocks (x int)")
    same(c.get_transaction_status(), extensions.TRANSACTION_STATUS_IDLE)

    def broken():
        with c, c.cursor() as cursor:
            cursor.execute("INSERT INTO blocks VALUES (1)")
            cursor.execute("SELECT 1/0")

    fails(errors.DivisionByZero, broken)
    same(value(c, "SELECT count(*) FROM blocks"), 0)
    same(value(c, "SHOW transaction_isolation"), "serializable")
    c.rollback()
    c.set_session(readonly=True, autocommit=True)
    fails(errors.ReadOnlySqlTransaction, value, c, "INSERT INTO blocks VALUES (1) RETURNING x")
    c.close()


@check
def copies():
    with connect() as c, c.cursor() as cursor:
        cursor.execute("CREATE TABLE copied (x int, y text)")
        cursor.copy_from(io.StringIO("1\ta\n2\t\\N\n"), "copied")
        cursor.copy_expert("COPY copied FROM STDIN WITH CSV HEADER", io.StringIO('x,y\n3,"a ""b"""\n'))
        out = io.StringIO()
        cursor.copy_to(out, "copied", sep="|", null="nil")
        same(sorted(out.getvalue().splitlines()), ["1|a", "2|nil", '3|a "b"'])
        error = fails(errors.BadCopyFileFormat, cursor.copy_from, io.StringIO("1\n"), "copied")
        assert 'missing data for column "y"' in str(error), error


@check
def rows_as_dictionaries_and_tuples_with_names():
    with connect() as c:
        with c.cursor(cursor_factory=extras.RealDictCursor) as cursor:
            cursor.execute("SELECT 1 AS a, 2 AS b")
            same(dict(cursor.fetchone()), {"a": 1, "b": 2})
        with c.cursor(cursor_factory=extras.NamedTupleCursor) as cursor:
            cursor.execute("SELECT 1 AS a")
            same(cursor.fetchone().a, 1)


@check
def cursors_of_the_server():
    with connect() as c:
        with c.cursor("some") as cursor:
            cursor.itersize = 50
            cursor.execute("SELECT generate_series(1, 220)")
            same(sum(x for (x,) in cursor), 220 * 221 // 2)
        with c.cursor("scrolls", scrollable=True) as cursor:
            cursor.execute("SELECT generate_series(1, 10)")
            cursor.fetchmany(5)
            cursor.scroll(-3)
            same(cursor.fetchone(), (3,))
    c = connect()
    c.autocommit = True
    with c.cursor("held", withhold=True) as cursor:
        cursor.execute("SELECT generate_series(1, 10)")
        same(len(cursor.fetchall()), 10)
    c.close()


@check
def errors_say_what_was_wrong():
    c = connect()
    with c, c.cursor() as cursor:
        cursor.execute("CREATE TABLE wrong (x int CONSTRAINT wrong_x UNIQUE)")
        cursor.execute("INSERT INTO wrong VALUES (1)")
    error = fails(errors.UniqueViolation, value, c, "INSERT INTO wrong VALUES (1)")
    same((error.pgcode, error.diag.constraint_name), (errorcodes.UNIQUE_VIOLATION, "wrong_x"))
    c.rollback()
    error = fails(errors.SyntaxError, value, c, "SELECT 1 FROM FROM")
    same(error.diag.statement_position, "15")
    c.rollback()
    c.notices.clear()
    with c.cursor() as cursor:
        cursor.execute("DROP TABLE IF EXISTS never_was")
    same(c.notices, ['NOTICE:  table "never_was" does not exist, skipping\n'])
    c.close()


@check
def composites_are_registered():
    with connect() as c, c.cursor() as cursor:
        cursor.execute("CREATE TYPE pair AS (x int, y text)")
        extras.register_composite("pair", c)
        cursor.execute("SELECT (1, 'a')::pair")
        same(tuple(cursor.fetchone()[0]), (1, "a"))


@check
def notifications_arrive():
    c, other = connect(), connect(OTHER)
    c.autocommit = other.autocommit = True
    c.cursor().execute("LISTEN news")
    other.cursor().execute("NOTIFY news, 'one'")
    while not c.notifies:
        same(select.select([c], [], [], 10)[0], [c])
        c.poll()
    same([(n.channel, n.payload) for n in c.notifies], [("news", "one")])
    c.close()
    other.close()


run()
