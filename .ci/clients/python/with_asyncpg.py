"""asyncpg, which is binary alone and looks types up in the catalog: values, records, cursors, COPY, pools, listeners."""

import asyncio
import datetime as dt
import decimal
import functools
import io
import uuid

import asyncpg

from checks import OTHER, URL, check, run, same

UTC = dt.timezone.utc
D = decimal.Decimal

VALUES = {
    "bool": [True, False],
    "int2": [32767, -32768],
    "int4": [2**31 - 1, -(2**31)],
    "int8": [2**63 - 1, -(2**63)],
    "float4": [1.5],
    "float8": [0.1, 1e300],
    "numeric": [D("0"), D("1.10"), D("-123456789.123456789")],
    "numeric(8,2)": [D("123456.78")],
    "text": ["", "žluť 🐎"],
    "varchar(5)": ["abc"],
    "char(3)": ["abc"],
    "name": ["a name"],
    '"char"': [b"r"],
    "bytea": [bytes(range(256))],
    "date": [dt.date(2024, 2, 29)],
    "time": [dt.time(23, 59, 59, 999999)],
    "timetz": [dt.time(12, 30, tzinfo=dt.timezone(dt.timedelta(hours=2)))],
    "timestamp": [dt.datetime(2024, 2, 29, 12, 0, 0, 1)],
    "timestamptz": [dt.datetime(2024, 2, 29, 12, 0, tzinfo=UTC)],
    "interval": [dt.timedelta(days=40, seconds=3661, microseconds=5)],
    "uuid": [uuid.UUID("12345678-1234-5678-1234-567812345678")],
    "json": ['{"a": 1}'],
    "jsonb": ['{"a": 1}'],
    "oid": [4294967295],
    "int4[]": [[], [1, None, 3], [[1, 2], [3, 4]]],
    "text[]": [["a", "", None, "c,d"]],
    "numeric[]": [[D("1.5")]],
    "timestamptz[]": [[dt.datetime(2024, 1, 1, tzinfo=UTC)]],
}


def checked(function):
    """A check that has a connection."""

    @functools.wraps(function)
    def with_connection():
        async def whole():
            connection = await asyncpg.connect(URL)
            try:
                await asyncio.wait_for(function(connection), 50)
            finally:
                await connection.close(timeout=5)

        asyncio.run(whole())

    return check(with_connection)


async def fails(kind, awaitable):
    """The exception that `awaitable` ends with, which must be of `kind`."""
    try:
        result = await awaitable
    except kind as error:
        return error
    raise AssertionError(f"no error, but {result!r}")


@checked
async def connecting_tells_the_server_s_parameters(c):
    same(c.get_server_version().major, 15)
    settings = c.get_settings()
    same((settings.server_encoding, settings.integer_datetimes), ("UTF8", "on"))
    await c.execute("SET TIME ZONE 'Asia/Tokyo'")
    same(c.get_settings().TimeZone, "Asia/Tokyo")


@checked
async def settings_may_be_given_at_the_start(_):
    other = await asyncpg.connect(URL, server_settings={"application_name": "some", "search_path": "elsewhere"})
    same(await other.fetchval("SHOW search_path"), "elsewhere")
    same(await other.fetchval("SELECT current_setting('application_name')"), "some")
    await other.close()


@checked
async def values_come_back(c):
    for name, values in VALUES.items():
        for value in [*values, None]:
            try:
                found = await c.fetchval(f"SELECT $1::{name}", value)
            except Exception as error:
                raise AssertionError(f"{name} {value!r}: {error}") from error
            assert found == value, (name, value, found)


@checked
async def values_stored_in_columns_come_back(c):
    for k, (name, values) in enumerate(VALUES.items()):
        await c.execute(f"CREATE TABLE kept_{k} (id int PRIMARY KEY, v {name})")
        await c.executemany(f"INSERT INTO kept_{k} VALUES ($1, $2)", list(enumerate([*values, None])))
        rows = await c.fetch(f"SELECT v FROM kept_{k} ORDER BY id")
        same([row["v"] for row in rows], [*values, None])


@checked
async def statements_are_described(c):
    await c.execute("CREATE TABLE described (a int, b varchar(7), c numeric(10,3))")
    statement = await c.prepare("SELECT * FROM described WHERE a = $1 AND b = $2")
    same([(p.name, p.kind) for p in statement.get_parameters()], [("int4", "scalar"), ("text", "scalar")])
    same([(a.name, a.type.name) for a in statement.get_attributes()], [("a", "int4"), ("b", "varchar"), ("c", "numeric")])
    same(await statement.fetch(1, "x"), [])
    same(statement.get_statusmsg(), "SELECT 0")
    record = await c.fetchrow("SELECT 1 AS a, 'x' AS b")
    same((dict(record), record["b"], record[0]), ({"a": 1, "b": "x"}, "x", 1))


@checked
async def records_without_a_type_come_back(c):
    same(await c.fetchval("SELECT ROW(1, 'a'::text, NULL)"), (1, "a", None))
    rows = await c.fetchval("SELECT array_agg(t) FROM (VALUES (1, 'x'::text), (2, 'y')) AS t(a, b)")
    same([tuple(row) for row in rows], [(1, "x"), (2, "y")])


@checked
async def rows_of_a_table_are_records(c):
    await c.execute("CREATE TABLE recorded (a int, b text[], c numeric)")
    await c.execute("INSERT INTO recorded VALUES (1, '{x,y}', 1.5)")
    record = await c.fetchval("SELECT recorded FROM recorded")
    same(dict(record), {"a": 1, "b": ["x", "y"], "c": D("1.5")})


@checked
async def enums_are_looked_up(c):
    await c.execute("CREATE TYPE mood AS ENUM ('sad', 'happy')")
    same(await c.fetchval("SELECT $1::mood", "happy"), "happy")
    same(await c.fetchval("SELECT $1::mood[]", ["happy", "sad"]), ["happy", "sad"])
    await fails(asyncpg.InvalidTextRepresentationError, c.fetchval("SELECT $1::mood", "angry"))


@checked
async def domains_are_looked_up(c):
    await c.execute("CREATE DOMAIN positive AS int CHECK (VALUE > 0)")
    same(await c.fetchval("SELECT $1::positive", 5), 5)
    error = await fails(asyncpg.CheckViolationError, c.fetchval("SELECT $1::positive", -5))
    same(error.constraint_name, "positive_check")


@checked
async def composites_are_looked_up(c):
    await c.execute("CREATE TYPE pair AS (x int, y text)")
    same(tuple(await c.fetchval("SELECT $1::pair", (1, "a"))), (1, "a"))


@checked
async def types_are_introspected(c):
    await c.set_type_codec("json", encoder=str, decoder=lambda text: ("json", text), schema="pg_catalog")
    same(await c.fetchval("SELECT '1'::json"), ("json", "1"))
    await c.reset_type_codec("json", schema="pg_catalog")


@checked
async def wrong_values_are_refused_before_they_are_sent(c):
    await fails(asyncpg.DataError, c.fetchval("SELECT $1::int", "one"))
    await fails(asyncpg.DataError, c.fetchval("SELECT $1::int2", 40000))
    same(await c.fetchval("SELECT 1"), 1)


@checked
async def transactions_and_savepoints(c):
    await c.execute("CREATE TABLE blocks (x int)")
    async with c.transaction(isolation="serializable"):
        await c.execute("INSERT INTO blocks VALUES (1)")
        try:
            async with c.transaction():
                await c.execute("INSERT INTO blocks VALUES (2)")
                await c.execute("SELECT 1/0")
        except asyncpg.DivisionByZeroError:
            pass
        async with c.transaction():
            await c.execute("INSERT INTO blocks VALUES (3)")
        same(c.is_in_transaction(), True)
    same(await c.fetch("SELECT x FROM blocks ORDER BY x"), [(1,), (3,)])
    async with c.transaction(isolation="serializable", readonly=True, deferrable=True):
        await fails(asyncpg.ReadOnlySQLTransactionError, c.execute("INSERT INTO blocks VALUES (4)"))
    t = c.transaction()
    await t.start()
    await fails(asyncpg.UndefinedTableError, c.fetch("SELECT * FROM no_such_table"))
    await fails(asyncpg.InFailedSQLTransactionError, c.fetch("SELECT 1"))
    await t.rollback()


@checked
async def cursors_with_rows_at_a_time(c):
    async with c.transaction():
        total = 0
        async for record in c.cursor("SELECT x FROM generate_series(1, $1::int) AS g(x)", 1050, prefetch=100):
            total += record["x"]
        same(total, 1050 * 1051 // 2)
        first = await c.cursor("SELECT x FROM generate_series(1, 100) AS g(x)")
        second = await c.cursor("SELECT -x FROM generate_series(1, 100) AS g(x)")
        same(await first.fetch(2), [(1,), (2,)])
        same(await second.fetch(2), [(-1,), (-2,)])
        same(await first.forward(10), 10)
        same(await first.fetchrow(), (13,))
        # Others run statements between the rows.
        await c.execute("CREATE TABLE between_rows (x int)")
        same(await second.fetchrow(), (-3,))


@checked
async def many_rows_of_one_statement(c):
    await c.execute("CREATE TABLE many (x int PRIMARY KEY, y text)")
    await c.executemany("INSERT INTO many VALUES ($1, $2)", [(k, str(k)) for k in range(2000)])
    # All or nothing.
    await fails(asyncpg.UniqueViolationError, c.executemany("INSERT INTO many VALUES ($1, $2)", [(5000, ""), (1, "")]))
    same(await c.fetchval("SELECT count(*) FROM many"), 2000)
    same(await c.fetchval("SELECT sum(x) FROM many WHERE x = ANY($1)", [1, 2, 3, 9999]), 6)
    rows = await c.fetch("SELECT a, b FROM unnest($1::int[], $2::text[]) AS u(a, b)", [1, 2], ["x", None])
    same(rows, [(1, "x"), (2, None)])
    same(await c.execute("DELETE FROM many WHERE x < $1", 100), "DELETE 100")
    same(await c.fetchmany("INSERT INTO many VALUES ($1, $2) RETURNING x", [(-1, "a"), (-2, "b")]), [(-1,), (-2,)])


@checked
async def rows_are_copied(c):
    await c.execute("CREATE TABLE copied (id int PRIMARY KEY, t text, n numeric, at timestamptz)")
    rows = [(k, f"row {k}", D(k) / 4, dt.datetime(2024, 1, 1, tzinfo=UTC)) for k in range(2000)]
    same(await c.copy_records_to_table("copied", records=rows), "COPY 2000")
    out = io.BytesIO()
    same(await c.copy_from_table("copied", output=out, format="csv", header=True, columns=["id", "t"]), "COPY 2000")
    same(out.getvalue().splitlines()[:2], [b"id,t", b"0,row 0"])
    out = io.BytesIO()
    await c.copy_from_query("SELECT id + $1 FROM copied ORDER BY id LIMIT 2", 10, output=out)
    same(out.getvalue(), b"10\n11\n")
    same(await c.copy_to_table("copied", source=io.BytesIO(b"-1,a,1,2024-01-01\n"), format="csv"), "COPY 1")
    error = await fails(asyncpg.UniqueViolationError, c.copy_records_to_table("copied", records=rows[:1]))
    same(error.constraint_name, "copied_pkey")
    out = io.BytesIO()
    await c.copy_from_query("SELECT id, n FROM copied", output=out, format="binary")
    same(out.getvalue()[:11], b"PGCOPY\n\xff\r\n\x00")


@checked
async def prepared_statements_survive_changes_of_their_tables(c):
    other = await asyncpg.connect(OTHER)
    await c.execute("CREATE TABLE changing (x int, y text); INSERT INTO changing VALUES (1, 'a')")
    same(await c.fetchrow("SELECT * FROM changing WHERE x = $1", 1), (1, "a"))
    await other.execute("ALTER TABLE changing ADD COLUMN z int DEFAULT 5")
    # It is prepared again unseen.
    same(await c.fetchrow("SELECT * FROM changing WHERE x = $1", 1), (1, "a", 5))
    async with c.transaction():
        await other.execute("ALTER TABLE changing ADD COLUMN w int")
        await fails(asyncpg.InvalidCachedStatementError, c.fetchrow("SELECT * FROM changing WHERE x = $1", 1))
    await other.close()


@checked
async def a_statement_that_takes_too_long_is_cancelled(c):
    await fails(asyncio.TimeoutError, c.execute("SELECT pg_sleep(50)", timeout=0.3))
    same(await c.fetchval("SELECT 1"), 1)
    task = asyncio.create_task(c.fetch("SELECT pg_sleep(50)"))
    await asyncio.sleep(0.2)
    task.cancel()
    await fails(asyncio.CancelledError, task)
    same(await c.fetchval("SELECT 1"), 1)
    await c.execute("SET statement_timeout = 200")
    await fails(asyncpg.QueryCanceledError, c.fetch("SELECT pg_sleep(50)"))


@checked
async def errors_say_where_and_what(c):
    await c.execute("CREATE TABLE parents (id int PRIMARY KEY)")
    await c.execute("CREATE TABLE children (parent int CONSTRAINT of_a_parent REFERENCES parents)")
    error = await fails(asyncpg.ForeignKeyViolationError, c.execute("INSERT INTO children VALUES ($1)", 7))
    same((error.sqlstate, error.constraint_name, error.table_name, error.schema_name, error.detail),
         ("23503", "of_a_parent", "children", "public", 'Key (parent)=(7) is not present in table "parents".'))
    error = await fails(asyncpg.UndefinedColumnError, c.fetch("SELECT nothing"))
    same(error.position, "8")
    await fails(asyncpg.PostgresSyntaxError, c.fetch("SELEC 1"))
    await fails(asyncpg.AmbiguousFunctionError, c.fetch("SELECT '1' + '2'"))


@checked
async def messages_of_the_server(c):
    messages = []
    c.add_log_listener(lambda _, message: messages.append((message.severity, message.message)))
    await c.execute("DROP TABLE IF EXISTS never_was")
    await asyncio.sleep(0)
    same(messages, [("NOTICE", 'table "never_was" does not exist, skipping')])


@checked
async def a_pool_resets_what_it_takes_back(_):
    async with asyncpg.create_pool(URL, min_size=2, max_size=4) as pool:
        await pool.execute("CREATE TABLE pooled (x int PRIMARY KEY, n int); INSERT INTO pooled VALUES (1, 0)")

        async def worker():
            async with pool.acquire() as c:
                await c.execute("SET statement_timeout = '30s'")
                for _ in range(20):
                    await c.execute("UPDATE pooled SET n = n + 1 WHERE x = $1", 1)

        await asyncio.gather(*(worker() for _ in range(8)))
        same(await pool.fetchval("SELECT n FROM pooled"), 160)
        same(await pool.fetchval("SHOW statement_timeout"), "0")


@checked
async def notifications_arrive(c):
    other = await asyncpg.connect(OTHER)
    heard = asyncio.Queue()
    await c.add_listener("news", lambda _, pid, channel, payload: heard.put_nowait((pid, channel, payload)))
    async with other.transaction():
        await other.execute("NOTIFY news, 'first'")
        await other.execute("SELECT pg_notify('news', $1)", "second")
    pid = other.get_server_pid()
    same([await heard.get(), await heard.get()], [(pid, "news", "first"), (pid, "news", "second")])
    await c.reset()
    await other.close()


@checked
async def advisory_locks_end_with_their_session(c):
    other = await asyncpg.connect(OTHER)
    await other.execute("SELECT pg_advisory_lock(1, 2)")
    same(await c.fetchval("SELECT pg_try_advisory_lock(1, 2)"), False)
    await other.close()
    await c.execute("SELECT pg_advisory_lock(1, 2)")
    same(await c.fetchval("SELECT pg_advisory_unlock(1, 2)"), True)


run()
