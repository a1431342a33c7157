"""psycopg 3: sessions, transactions, cursors, pipelines, cancelling, errors and what others tell."""

import asyncio
import threading

import psycopg
from psycopg import errors

from checks import OTHER, URL, check, fails, run, same


def connect(**options):
    return psycopg.connect(URL, **options)


@check
def connecting_tells_the_server_s_parameters():
    with connect(application_name="checks") as c:
        same(c.info.server_version // 10000, 15)
        same(c.info.encoding, "utf-8")
        same(c.info.parameter_status("standard_conforming_strings"), "on")
        same(c.info.parameter_status("integer_datetimes"), "on")
        same(c.info.parameter_status("application_name"), "checks")
        c.execute("SET application_name = 'other'")
        same(c.info.parameter_status("application_name"), "other")
        c.execute("SET TIME ZONE 'Asia/Tokyo'")
        same(c.info.parameter_status("TimeZone"), "Asia/Tokyo")
        same(c.info.timezone.key, "Asia/Tokyo")


@check
def options_of_the_start_are_settings():
    with connect(options="-c statement_timeout=12345 -c search_path=elsewhere,public") as c:
        same(c.execute("SHOW statement_timeout").fetchone(), ("12345ms",))
        same(c.execute("SHOW search_path").fetchone(), ("elsewhere,public",))


@check
def blocks_commit_and_roll_back():
    with connect() as c:
        c.execute("CREATE TABLE blocks (x int)")
    with connect() as c:
        try:
            with c.transaction():
                c.execute("INSERT INTO blocks VALUES (1)")
                try:
                    with c.transaction():
                        c.execute("INSERT INTO blocks VALUES (2)")
                        c.execute("SELECT 1/0")
                except errors.DivisionByZero:
                    pass
                with c.transaction("named"):
                    c.execute("INSERT INTO blocks VALUES (3)")
                same(c.info.transaction_status.name, "INTRANS")
            same(c.info.transaction_status.name, "IDLE")
        finally:
            c.rollback()
        same(c.execute("SELECT x FROM blocks ORDER BY x").fetchall(), [(1,), (3,)])
        c.rollback()
        with c.transaction(force_rollback=True):
            c.execute("DELETE FROM blocks")
        same(c.execute("SELECT count(*) FROM blocks").fetchone(), (2,))


@check
def a_failed_block_refuses_until_it_ends():
    with connect() as c:
        fails(errors.UndefinedTable, c.execute, "SELECT * FROM no_such_table")
        same(c.info.transaction_status.name, "INERROR")
        fails(errors.InFailedSqlTransaction, c.execute, "SELECT 1")
        c.rollback()
        same(c.execute("SELECT 1").fetchone(), (1,))


@check
def kinds_of_transactions_are_told():
    with connect() as c:
        c.isolation_level = psycopg.IsolationLevel.SERIALIZABLE
        c.read_only = True
        c.deferrable = True
        same(c.execute("SHOW transaction_isolation").fetchone(), ("serializable",))
        same(c.execute("SHOW transaction_read_only").fetchone(), ("on",))
        same(c.execute("SHOW transaction_deferrable").fetchone(), ("on",))
        error = fails(errors.ReadOnlySqlTransaction, c.execute, "CREATE TABLE never (x int)")
        same(error.diag.sqlstate, "25006")
    with connect(autocommit=True) as c:
        fails(errors.ActiveSqlTransaction, c.execute, "BEGIN; VACUUM")


@check
def cursors_of_the_server():
    with connect() as c:
        with c.cursor("some") as cursor:
            cursor.itersize = 100
            cursor.execute("SELECT x FROM generate_series(1, %s) AS g(x)", [1050])
            same(sum(row[0] for row in cursor), 1050 * 1051 // 2)
        with c.cursor("scrolls", scrollable=True) as cursor:
            cursor.execute("SELECT x FROM generate_series(1, 10) AS g(x)")
            same(cursor.fetchmany(3), [(1,), (2,), (3,)])
            cursor.scroll(-2)
            same(cursor.fetchone(), (2,))
            cursor.scroll(9, mode="absolute")
            same(cursor.fetchall(), [(10,)])
        with c.cursor("forward", scrollable=False) as cursor:
            cursor.execute("SELECT 1")
            fails(psycopg.errors.ObjectNotInPrerequisiteState, cursor.scroll, -1)
        c.rollback()
        cursor = c.cursor("held", withhold=True)
        cursor.execute("SELECT x FROM generate_series(1, 10) AS g(x)")
        c.commit()
        same(len(cursor.fetchall()), 10)
        cursor.close()


@check
def rows_are_streamed():
    with connect() as c:
        cursor = c.cursor()
        total = 0
        for (x,) in cursor.stream("SELECT generate_series(1, 5000)"):
            total += x
        same(total, 5000 * 5001 // 2)


@check
def pipelines():
    with connect(autocommit=True) as c:
        c.execute("CREATE TABLE piped (x int PRIMARY KEY)")
        with c.pipeline() as pipeline:
            cursors = [c.execute("INSERT INTO piped VALUES (%s) RETURNING x", [k]) for k in range(100)]
            pipeline.sync()
            same([cursor.fetchone()[0] for cursor in cursors], list(range(100)))

        def fails_in_the_middle():
            with c.pipeline():
                c.execute("INSERT INTO piped VALUES (100)")
                c.execute("INSERT INTO piped VALUES (1)")
                c.execute("INSERT INTO piped VALUES (101)")

        fails((errors.UniqueViolation, errors.PipelineAborted), fails_in_the_middle)
        same(c.execute("SELECT count(*) FROM piped").fetchone(), (100,))
        with c.pipeline(), c.transaction():
            c.execute("DELETE FROM piped WHERE x < 50")
            c.execute("DELETE FROM piped WHERE x < 60")
        same(c.execute("SELECT count(*) FROM piped").fetchone(), (40,))


@check
def prepared_statements_survive_changes_of_their_tables():
    with connect(autocommit=True) as c:
        c.prepare_threshold = 0
        c.execute("CREATE TABLE changing (x int, y text)")
        c.execute("INSERT INTO changing VALUES (1, 'a')")
        for _ in range(3):
            same(c.execute("SELECT y FROM changing WHERE x = %s", [1]).fetchone(), ("a",))
        c.execute("ALTER TABLE changing ADD COLUMN z int DEFAULT 5")
        same(c.execute("SELECT y FROM changing WHERE x = %s", [1]).fetchone(), ("a",))
        same(c.execute("SELECT * FROM changing WHERE x = %s", [1]).fetchone(), (1, "a", 5))
    with connect(autocommit=True) as c, psycopg.connect(OTHER, autocommit=True) as other:
        c.prepare_threshold = 0
        everything = "SELECT * FROM changing WHERE x = %s"
        for _ in range(3):
            same(c.execute(everything, [1]).fetchone(), (1, "a", 5))
        other.execute("ALTER TABLE changing DROP COLUMN y")
        error = fails(errors.FeatureNotSupported, c.execute, everything, [1])
        same(error.diag.message_primary, "cached plan must not change result type")
        c.execute("DEALLOCATE ALL")
        same(c.execute(everything, [1], prepare=False).fetchone(), (1, 5))
        same(c.execute("SELECT count(*) FROM pg_prepared_statements", prepare=False).fetchone(), (0,))


@check
def a_statement_is_cancelled():
    with connect(autocommit=True) as c:
        timer = threading.Timer(0.3, c.cancel_safe)
        timer.start()
        error = fails(errors.QueryCanceled, c.execute, "SELECT pg_sleep(50)")
        timer.join()
        same(error.diag.message_primary, "canceling statement due to user request")
        same(c.execute("SELECT 1").fetchone(), (1,))


@check
def a_statement_that_takes_too_long_is_cancelled():
    with connect(autocommit=True) as c:
        c.execute("SET statement_timeout = '200ms'")
        error = fails(errors.QueryCanceled, c.execute, "SELECT pg_sleep(50)")
        same(error.diag.message_primary, "canceling statement due to statement timeout")
        c.execute("RESET statement_timeout")


@check
def a_lock_that_is_waited_for_too_long():
    with connect() as c:
        c.execute("CREATE TABLE locked (x int PRIMARY KEY, y int)")
        c.execute("INSERT INTO locked VALUES (1, 1)")
        c.commit()
        c.execute("UPDATE locked SET y = 2 WHERE x = 1")
        with psycopg.connect(OTHER) as other:
            other.execute("SET lock_timeout = '200ms'")
            error = fails(errors.LockNotAvailable, other.execute, "UPDATE locked SET y = 3 WHERE x = 1")
            same(error.diag.message_primary, "canceling statement due to lock timeout")
            other.rollback()
            nowait = "SELECT * FROM locked WHERE x = 1 FOR UPDATE NOWAIT"
            same(fails(errors.LockNotAvailable, other.execute, nowait).diag.sqlstate, "55P03")
            other.rollback()
            same(other.execute("SELECT * FROM locked FOR UPDATE SKIP LOCKED").fetchall(), [])


@check
def two_that_wait_for_each_other():
    with connect() as a, psycopg.connect(OTHER) as b:
        a.execute("CREATE TABLE circle (x int PRIMARY KEY, y int)")
        a.execute("INSERT INTO circle VALUES (1, 0), (2, 0)")
        a.commit()
        a.execute("UPDATE circle SET y = 1 WHERE x = 1")
        b.execute("UPDATE circle SET y = 2 WHERE x = 2")
        lost = []

        def other_way_round():
            try:
                b.execute("UPDATE circle SET y = 2 WHERE x = 1")
                b.commit()
            except (errors.DeadlockDetected, errors.SerializationFailure) as error:
                lost.append(error)
                b.rollback()

        thread = threading.Thread(target=other_way_round)
        thread.start()
        try:
            a.execute("UPDATE circle SET y = 1 WHERE x = 2")
            a.commit()
        except (errors.DeadlockDetected, errors.SerializationFailure) as error:
            lost.append(error)
            a.rollback()
        thread.join()
        same(len(lost), 1)


@check
def notices_are_told():
    with connect(autocommit=True) as c:
        notices = []
        c.add_notice_handler(lambda n: notices.append((n.severity, n.sqlstate, n.message_primary)))
        c.execute("DROP TABLE IF EXISTS never_was")
        same(notices, [("NOTICE", "00000", 'table "never_was" does not exist, skipping')])
        notices.clear()
        c.execute("SET client_min_messages = 'error'")
        c.execute("DROP TABLE IF EXISTS never_was")
        same(notices, [])
        c.execute("RESET client_min_messages")
        c.execute("COMMIT")
        same(notices, [("WARNING", "25P01", "there is no transaction in progress")])


@check
def messages_of_blocks_of_code():
    with connect(autocommit=True) as c:
        notices = []
        c.add_notice_handler(lambda n: notices.append((n.message_primary, n.message_hint)))
        c.execute("DO $$ BEGIN RAISE NOTICE 'said %', 1 USING HINT = 'a hint'; END $$")
        same(notices, [("said 1", "a hint")])
        error = fails(errors.RaiseException, c.execute, "DO $$ BEGIN RAISE 'no'; END $$")
        assert "PL/pgSQL function inline_code_block line 1 at RAISE" in error.diag.context, error.diag.context


@check
def errors_say_where_and_what():
    with connect(autocommit=True) as c:
        c.execute("CREATE TABLE parents (id int PRIMARY KEY)")
        c.execute("""CREATE TABLE children (id int CONSTRAINT children_id UNIQUE, name varchar(3) NOT NULL,
                     parent int CONSTRAINT of_a_parent REFERENCES parents, age int CONSTRAINT of_age CHECK (age > 17))""")
        c.execute("INSERT INTO children VALUES (1, 'a', NULL, 18)")

        def diagnostics(statement):
            d = fails(psycopg.Error, c.execute, statement).diag
            return (d.sqlstate, d.message_primary, d.message_detail, d.schema_name, d.table_name, d.column_name,
                    d.constraint_name, d.statement_position)

        same(diagnostics("INSERT INTO children VALUES (1, 'b')"),
             ("23505", 'duplicate key value violates unique constraint "children_id"', "Key (id)=(1) already exists.",
              "public", "children", None, "children_id", None))
        same(diagnostics("INSERT INTO children VALUES (2, NULL)"),
             ("23502", 'null value in column "name" of relation "children" violates not-null constraint',
              "Failing row contains (2, null, null, null).", "public", "children", "name", None, None))
        same(diagnostics("INSERT INTO children VALUES (2, 'b', 7)"),
             ("23503", 'insert or update on table "children" violates foreign key constraint "of_a_parent"',
              'Key (parent)=(7) is not present in table "parents".', "public", "children", None, "of_a_parent", None))
        same(diagnostics("INSERT INTO children VALUES (2, 'b', NULL, 3)"),
             ("23514", 'new row for relation "children" violates check constraint "of_age"',
              "Failing row contains (2, b, null, 3).", "public", "children", None, "of_age", None))
        same(diagnostics("INSERT INTO children VALUES (2, 'long')"),
             ("22001", "value too long for type character varying(3)", None, None, None, None, None, None))
        same(diagnostics("SELECT nothing FROM children"),
             ("42703", 'column "nothing" does not exist', None, None, None, None, None, "8"))
        same(diagnostics("SELECT 1 FROM nothing"),
             ("42P01", 'relation "nothing" does not exist', None, None, None, None, None, "15"))
        same(diagnostics("SELECT 'žluť', * FORM children"),
             ("42601", 'syntax error at or near "FORM"', None, None, None, None, None, "18"))
        same(diagnostics("SELECT 1 + 'x'"),
             ("22P02", 'invalid input syntax for type integer: "x"', None, None, None, None, None, "12"))
        same(diagnostics("SELECT 2147483647 + 1"), ("22003", "integer out of range", None, None, None, None, None, None))
        d = fails(errors.UndefinedFunction, c.execute, "SELECT lower(1, 2)").diag
        same((d.message_primary, d.statement_position), ("function lower(integer, integer) does not exist", "8"))
        same(d.message_hint,
             "No function matches the given name and argument types. You might need to add explicit type casts.")


@check
def notifications_arrive():
    with connect(autocommit=True) as c, psycopg.connect(OTHER) as other:
        c.execute("LISTEN news")
        other.execute("NOTIFY news, 'first'")
        other.execute("SELECT pg_notify('news', 'second')")
        other.execute("NOTIFY elsewhere")
        other.commit()
        found = [(n.channel, n.payload, n.pid) for n in c.notifies(timeout=10, stop_after=2)]
        same(found, [("news", "first", other.info.backend_pid), ("news", "second", other.info.backend_pid)])
        other.execute("NOTIFY news, 'never'")
        other.rollback()
        c.execute("UNLISTEN *")


@check
def advisory_locks_keep_others_out():
    with connect() as c, psycopg.connect(OTHER) as other:
        c.execute("SELECT pg_advisory_lock(7)")
        same(other.execute("SELECT pg_try_advisory_lock(7), pg_try_advisory_lock(8)").fetchone(), (False, True))
        same(c.execute("SELECT pg_advisory_unlock(7)").fetchone(), (True,))
        same(other.execute("SELECT pg_try_advisory_xact_lock(7)").fetchone(), (True,))
        other.rollback()
        same(c.execute("SELECT pg_try_advisory_xact_lock(7)").fetchone(), (True,))


@check
def another_session_is_ended():
    with connect(autocommit=True) as c, psycopg.connect(OTHER, autocommit=True) as other:
        same(c.execute("SELECT pg_terminate_backend(%s)", [other.info.backend_pid]).fetchone(), (True,))
        error = fails(psycopg.OperationalError, other.execute, "SELECT pg_sleep(50)")
        assert error.sqlstate in ("57P01", None), error
        same(other.closed, True)


@check
def asynchronous_clients():
    async def clients():
        async with await psycopg.AsyncConnection.connect(URL, autocommit=True) as c:
            await c.execute("CREATE TABLE at_once (x int PRIMARY KEY, n int)")
            await c.execute("INSERT INTO at_once VALUES (1, 0)")

        async def one():
            async with await psycopg.AsyncConnection.connect(OTHER, autocommit=True) as c:
                for _ in range(25):
                    await c.execute("UPDATE at_once SET n = n + 1 WHERE x = 1")

        await asyncio.gather(*(one() for _ in range(8)))
        async with await psycopg.AsyncConnection.connect(URL) as c:
            same(await (await c.execute("SELECT n FROM at_once")).fetchone(), (200,))

    asyncio.run(clients())


run()
