// postgres.js: statements described before they are bound, batches, cursors, COPY, savepoints, subscriptions to NOTIFY.
"use strict";

const postgres = require("postgres");
const { Readable } = require("node:stream");
const { pipeline } = require("node:stream/promises");
const { assert, fails, other, run, url } = require("./checks");

const quiet = { onnotice: () => {}, max: 4 };

async function connected(use, options = {}) {
    const sql = postgres(url, { ...quiet, ...options });
    try {
        return await use(sql);
    } finally {
        await sql.end({ timeout: 5 });
    }
}

run({
    async values_come_back() {
        await connected(async (sql) => {
            const day = new Date("2024-02-29T12:00:00.123Z");
            const [row] = await sql`SELECT ${1}::int AS a, ${"x"}::text AS b, ${day}::timestamptz AS c, ${[1, 2]}::int[] AS d,
                ${sql.json({ e: [1] })}::jsonb AS e, ${true}::bool AS f, ${null}::text AS g, ${"1.10"}::numeric AS h,
                ${Buffer.from([0, 255])}::bytea AS i, ${["p", 'q"', "r,s"]}::text[] AS j`;
            assert.deepEqual({ ...row }, {
                a: 1, b: "x", c: day, d: [1, 2], e: { e: [1] }, f: true, g: null, h: "1.10",
                i: Buffer.from([0, 255]), j: ["p", 'q"', "r,s"],
            });
        });
    },

    async rows_are_written_and_described() {
        await connected(async (sql) => {
            await sql`CREATE TABLE written (id serial PRIMARY KEY, name text, tags text[], doc jsonb)`;
            const rows = [{ name: "a", tags: ["x"], doc: { k: 1 } }, { name: "b", tags: [], doc: null }];
            const kept = await sql`INSERT INTO written ${sql(rows, "name", "tags", "doc")} RETURNING *`;
            assert.deepEqual(kept.map((row) => ({ ...row })), [{ id: 1, ...rows[0] }, { id: 2, ...rows[1] }]);
            await sql`UPDATE written SET ${sql({ name: "c" })} WHERE id = ${1}`;
            const found = await sql`SELECT name FROM ${sql("written")} WHERE id IN ${sql([1, 2])} ORDER BY id`;
            assert.deepEqual(found.map((row) => row.name), ["c", "b"]);
            assert.deepEqual([found.count, found.command], [2, "SELECT"]);
            const { types, columns } = await sql`SELECT * FROM written WHERE id = ${1}`.describe();
            assert.deepEqual([types, columns.map((column) => column.type)], [[23], [23, 25, 1009, 3802]]);
        });
    },

    async statements_are_pipelined() {
        await connected(async (sql) => {
            const found = await Promise.all(Array.from({ length: 500 }, (_, k) => sql`SELECT ${k}::int AS k`));
            assert.deepEqual(found.map(([row]) => row.k), Array.from({ length: 500 }, (_, k) => k));
        }, { max: 1 });
    },

    async transactions_and_savepoints() {
        await connected(async (sql) => {
            await sql`CREATE TABLE blocks (x int)`;
            await sql.begin("isolation level serializable", async (t) => {
                await t`INSERT INTO blocks VALUES (1)`;
                await fails(t.savepoint(async (s) => {
                    await s`INSERT INTO blocks VALUES (2)`;
                    await s`SELECT 1/0`;
                }), { code: "22012" });
                await t`INSERT INTO blocks VALUES (3)`;
            });
            await fails(sql.begin((t) => [t`INSERT INTO blocks VALUES (4)`, t`SELECT * FROM no_such_table`]), { code: "42P01" });
            assert.deepEqual([...await sql`SELECT x FROM blocks ORDER BY x`.values()], [[1], [3]]);
        });
    },

    async cursors() {
        await connected(async (sql) => {
            const sizes = [];
            for await (const rows of sql`SELECT generate_series(1, 250) AS x`.cursor(100)) {
                sizes.push(rows.length);
            }
            assert.deepEqual(sizes, [100, 100, 50]);
            await sql`SELECT generate_series(1, 250) AS x`.cursor(10, () => sql.CLOSE);
            let count = 0;
            await sql`SELECT generate_series(1, 250) AS x`.forEach(() => count++);
            assert.equal(count, 250);
        });
    },

    async copies() {
        await connected(async (sql) => {
            await sql`CREATE TABLE copied (x int, y text)`;
            await pipeline(Readable.from(["1\ta\n", "2\tb\n"]), await sql`COPY copied FROM STDIN`.writable());
            let text = "";
            for await (const chunk of await sql`COPY copied TO STDOUT`.readable()) {
                text += chunk;
            }
            assert.equal(text, "1\ta\n2\tb\n");
        });
    },

    async a_statement_is_cancelled() {
        await connected(async (sql) => {
            const sleeping = sql`SELECT pg_sleep(50)`.execute();
            setTimeout(() => sleeping.cancel(), 300);
            await fails(sleeping, { code: "57014" });
            assert.deepEqual([...await sql`SELECT 1 AS x`], [{ x: 1 }]);
        });
    },

    async several_statements_and_errors() {
        await connected(async (sql) => {
            const results = await sql`SELECT 1 AS a; SELECT 2 AS b`.simple();
            assert.deepEqual(results.map(([row]) => ({ ...row })), [{ a: 1 }, { b: 2 }]);
            await fails(sql`SELECT nothing`, { code: "42703", position: "8" });
            await fails(sql`SELECT ${"x"}::int`, { code: "22P02" });
            assert.equal(sql.parameters.server_encoding, "UTF8");
        }, { max: 1 });
    },

    async notifications_arrive() {
        await connected(async (sql) => {
            let heard;
            const payload = new Promise((resolve) => (heard = resolve));
            await sql.listen("news", heard);
            const neighbour = postgres(other, quiet);
            await neighbour.notify("news", "one");
            assert.equal(await payload, "one");
            await neighbour.end();
        });
    },
});
