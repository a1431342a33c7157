// node-postgres: values, parameters, prepared statements, pools, cursors, streams, COPY, cancelling, errors.
"use strict";

const { pipeline } = require("node:stream/promises");
const { Readable } = require("node:stream");
const pg = require("pg");
const Cursor = require("pg-cursor");
const QueryStream = require("pg-query-stream");
const copy = require("pg-copy-streams");
const { assert, fails, other, run, url } = require("./checks");

/** Calls `use` with a client that is connected to `where`. */
async function connected(use, options = {}, where = url) {
    const client = new pg.Client({ connectionString: where, ...options });
    await client.connect();
    try {
        return await use(client);
    } finally {
        await client.end();
    }
}

async function value(client, text, values) {
    const { rows } = await client.query({ text, values, rowMode: "array" });
    return rows[0][0];
}

run({
    async connecting() {
        await connected(
            async (c) => {
                assert.equal(await value(c, "SHOW application_name"), "checks");
                assert.equal(await value(c, "SHOW statement_timeout"), "30s");
                assert.match(await value(c, "SELECT version()"), /^PostgreSQL 15\./);
                assert.ok(c.processID > 0);
            },
            { application_name: "checks", statement_timeout: 30_000 },
        );
    },

    async values_come_back() {
        await connected(async (c) => {
            const day = new Date("2024-02-29T12:00:00.123Z");
            for (const [type, given, found = given] of [
                ["bool", true],
                ["int2", -5],
                ["int4", 2147483647],
                ["int8", "9223372036854775807"],
                ["float4", 1.5],
                ["float8", 0.1],
                ["numeric", "1.10"],
                ["text", "it's \\ žluť 🐎"],
                ["varchar(4)", "abcd"],
                ["bytea", Buffer.from([0, 255, 39, 92])],
                ["timestamptz", day],
                ["uuid", "12345678-1234-5678-1234-567812345678"],
                ["json", { a: [1, null] }],
                ["jsonb", { a: [1, null] }],
                ["int4[]", [1, null, 3]],
                ["text[]", ["a", 'b"c', "", "d,e", null]],
                ["int4[]", [[1, 2], [3, 4]]],
                ["time", "12:30:00"],
                ["text", null],
            ]) {
                assert.deepEqual({ ...[await value(c, `SELECT $1::${type}`, [given])] }, { ...[found] }, type);
            }
            assert.equal((await value(c, "SELECT $1::interval", ["1 day 02:00:00"])).toPostgres(), "2 hours 1 days");
        });
    },

    async results_in_binary() {
        await connected(async (c) => {
            const { rows } = await c.query({ text: "SELECT $1::int AS a, $2::text AS b, true AS c", values: [7, "x"], binary: true });
            assert.deepEqual(rows, [{ a: 7, b: "x", c: true }]);
        });
    },

    async fields_are_described() {
        await connected(async (c) => {
            await c.query("CREATE TABLE described (a int, b varchar(7), c numeric(10,3))");
            const { fields, rowCount, command } = await c.query("SELECT a, b, c, 1 AS d FROM described");
            const table = await value(c, "SELECT 'described'::regclass::oid");
            assert.deepEqual(
                fields.map((f) => [f.name, f.dataTypeID, f.dataTypeSize, f.dataTypeModifier, f.tableID, f.columnID]),
                [
                    ["a", 23, 4, -1, table, 1],
                    ["b", 1043, -1, 11, table, 2],
                    ["c", 1700, -1, 655367, table, 3],
                    ["d", 23, 4, -1, 0, 0],
                ],
            );
            assert.deepEqual([rowCount, command], [0, "SELECT"]);
        });
    },

    async parameters_take_their_types_from_where_they_stand() {
        await connected(async (c) => {
            await c.query("CREATE TABLE typed (id serial PRIMARY KEY, a int2, b numeric(8,2), c date, d jsonb, e text[])");
            const { rows } = await c.query(
                "INSERT INTO typed (a, b, c, d, e) VALUES ($1, $2, $3, $4, $5) RETURNING id, b, c::text, d, e",
                ["5", "1.239", "2024-01-02", JSON.stringify({ x: 1 }), ["p", "q"]],
            );
            assert.deepEqual(rows, [{ id: 1, b: "1.24", c: "2024-01-02", d: { x: 1 }, e: ["p", "q"] }]);
            assert.equal(await value(c, "SELECT count(*) FROM typed WHERE a = ANY($1)", [[5, 6]]), "1");
            await fails(c.query("SELECT $1::int", ["five"]), { code: "22P02" });
            await fails(c.query("SELECT $1::int, $2::int", [1]), { code: "08P01" });
        });
    },

    async several_statements_of_one_text() {
        await connected(async (c) => {
            const results = await c.query("CREATE TABLE texts (x int); INSERT INTO texts VALUES (1), (2); SELECT * FROM texts");
            assert.deepEqual(results.map((r) => [r.command, r.rowCount]), [["CREATE", null], ["INSERT", 2], ["SELECT", 2]]);
            await fails(c.query("INSERT INTO texts VALUES (3); SELECT 1/0"), { code: "22012" });
            assert.equal(await value(c, "SELECT count(*) FROM texts"), "2");
            await c.query("");
            await fails(c.query("SELECT $1::int; SELECT 2", [1]), { code: "42601" });
        });
    },

    async transactions_and_savepoints() {
        await connected(async (c) => {
            await c.query("CREATE TABLE blocks (x int)");
            await c.query("BEGIN ISOLATION LEVEL SERIALIZABLE");
            await c.query("INSERT INTO blocks VALUES (1)");
            await c.query("SAVEPOINT s");
            await fails(c.query("SELECT * FROM no_such_table"), { code: "42P01" });
            await fails(c.query("SELECT 1"), { code: "25P02" });
            await c.query("ROLLBACK TO SAVEPOINT s");
            await c.query("RELEASE SAVEPOINT s");
            assert.equal((await c.query("COMMIT")).command, "COMMIT");
            await c.query("BEGIN");
            await fails(c.query("SELECT 1/0"), { code: "22012" });
            assert.equal((await c.query("COMMIT")).command, "ROLLBACK");
            assert.equal(await value(c, "SELECT count(*) FROM blocks"), "1");
        });
    },

    async prepared_statements_have_names() {
        await connected(async (c) => {
            const prepared = (x) => c.query({ name: "some", text: "SELECT $1::int + 1 AS y", values: [x] });
            for (let k = 0; k < 5; k++) {
                assert.deepEqual((await prepared(k)).rows, [{ y: k + 1 }]);
            }
            await fails(prepared("x"), { code: "22P02" });
            assert.deepEqual((await prepared(7)).rows, [{ y: 8 }]);
            assert.equal(await value(c, "SELECT name FROM pg_prepared_statements"), "some");
            await c.query("CREATE TABLE changing (a int)");
            const everything = { name: "all", text: "SELECT * FROM changing" };
            await c.query(everything);
            await connected((d) => d.query("ALTER TABLE changing ADD COLUMN b int"), {}, other);
            await fails(c.query(everything), { code: "0A000", message: "cached plan must not change result type" });
        });
    },

    async queries_wait_in_line() {
        await connected(async (c) => {
            const results = await Promise.all(Array.from({ length: 200 }, (_, k) => value(c, "SELECT $1::int * 2", [k])));
            assert.deepEqual(results, Array.from({ length: 200 }, (_, k) => k * 2));
            const ends = await Promise.allSettled([c.query("SELECT 1"), c.query("SELECT 1/0"), c.query("SELECT 3")]);
            assert.deepEqual(ends.map((e) => e.status), ["fulfilled", "rejected", "fulfilled"]);
        });
    },

    async a_pool_of_clients() {
        const pool = new pg.Pool({ connectionString: url, max: 5 });
        await pool.query("CREATE TABLE pooled (x int PRIMARY KEY, n int)");
        await pool.query("INSERT INTO pooled VALUES (1, 0)");
        await Promise.all(Array.from({ length: 100 }, () => pool.query("UPDATE pooled SET n = n + 1 WHERE x = $1", [1])));
        assert.deepEqual((await pool.query("SELECT n FROM pooled")).rows, [{ n: 100 }]);
        await pool.end();
    },

    async cursors() {
        await connected(async (c) => {
            const cursor = c.query(new Cursor("SELECT x FROM generate_series(1, $1::int) AS g(x)", [250]));
            let count = 0;
            for (;;) {
                const rows = await cursor.read(100);
                count += rows.length;
                if (rows.length === 0) {
                    break;
                }
            }
            assert.equal(count, 250);
            await cursor.close();
            const left = c.query(new Cursor("SELECT generate_series(1, 1000) AS x"));
            assert.deepEqual(await left.read(2), [{ x: 1 }, { x: 2 }]);
            await left.close();
            const wrong = c.query(new Cursor("SELECT 1/x AS y FROM (VALUES (1), (0)) AS v(x)"));
            await fails(wrong.read(10), { code: "22012" });
            assert.equal(await value(c, "SELECT 1"), 1);
        });
    },

    async streams_of_rows() {
        await connected(async (c) => {
            let total = 0;
            for await (const { x } of c.query(new QueryStream("SELECT generate_series(1, 3000) AS x", [], { batchSize: 70 }))) {
                total += x;
            }
            assert.equal(total, (3000 * 3001) / 2);
        });
    },

    async copies() {
        await connected(async (c) => {
            await c.query("CREATE TABLE copied (x int PRIMARY KEY, y text)");
            const lines = Array.from({ length: 5000 }, (_, k) => `${k}\trow ${k}\n`);
            const into = c.query(copy.from("COPY copied FROM STDIN"));
            await pipeline(Readable.from(lines), into);
            assert.equal(into.rowCount, 5000);
            let text = "";
            for await (const chunk of c.query(copy.to("COPY (SELECT * FROM copied ORDER BY x) TO STDOUT"))) {
                text += chunk;
            }
            assert.equal(text, lines.join(""));
            await fails(pipeline(Readable.from(["x\ty\n"]), c.query(copy.from("COPY copied FROM STDIN"))), { code: "22P02" });
            assert.equal(await value(c, "SELECT count(*) FROM copied"), "5000");
        });
    },

    async a_statement_that_takes_too_long_is_cancelled() {
        await connected(
            async (c) => {
                await fails(c.query("SELECT pg_sleep(50)"), { code: "57014", message: "canceling statement due to statement timeout" });
                await c.query("SET statement_timeout = 0");
                const pid = await value(c, "SELECT pg_backend_pid()");
                const sleeping = fails(c.query("SELECT pg_sleep(50)"), {
                    code: "57014",
                    message: "canceling statement due to user request",
                });
                await connected(
                    async (d) => {
                        // Until it sleeps there is nothing to cancel.
                        const asleep = "SELECT count(*) FROM pg_stat_activity WHERE pid = $1 AND state = 'active'";
                        while ((await value(d, asleep, [pid])) !== "1");
                        assert.equal(await value(d, "SELECT pg_cancel_backend($1)", [pid]), true);
                    },
                    {},
                    other,
                );
                await sleeping;
            },
            { statement_timeout: 200 },
        );
    },

    async errors_say_where_and_what() {
        await connected(async (c) => {
            await c.query("CREATE TABLE wrong (x int CONSTRAINT wrong_x UNIQUE, y int CHECK (y > 0))");
            await c.query("INSERT INTO wrong VALUES (1, 1)");
            await fails(c.query("INSERT INTO wrong VALUES ($1, 2)", [1]), {
                code: "23505",
                severity: "ERROR",
                detail: "Key (x)=(1) already exists.",
                schema: "public",
                table: "wrong",
                constraint: "wrong_x",
            });
            await fails(c.query("INSERT INTO wrong VALUES (2, 0)"), { code: "23514", constraint: "wrong_y_check" });
            await fails(c.query("SELECT žluť FROM wrong"), { code: "42703", position: "8" });
            await fails(c.query("SELECT x y z FROM wrong"), { code: "42601", position: "12" });
        });
    },

    async notices_are_told() {
        await connected(async (c) => {
            const notices = [];
            c.on("notice", (n) => notices.push([n.severity, n.code, n.message]));
            await c.query("CREATE TABLE IF NOT EXISTS twice (x int)");
            await c.query("CREATE TABLE IF NOT EXISTS twice (x int)");
            assert.deepEqual(notices, [["NOTICE", "42P07", 'relation "twice" already exists, skipping']]);
        });
    },

    async notifications_arrive() {
        await connected(async (c) => {
            const heard = new Promise((resolve) => c.on("notification", (n) => resolve([n.channel, n.payload])));
            await c.query("LISTEN news");
            await connected((d) => d.query("SELECT pg_notify('news', $1)", ["one"]), {}, other);
            assert.deepEqual(await heard, ["news", "one"]);
        });
    },
});
