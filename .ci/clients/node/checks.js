// Checks of one client: functions that run one after the other, each with a line that says how it ended, as in
// ../python/checks.py.
"use strict";

const assert = require("node:assert/strict");

const [url, other = url] = process.argv.slice(2);

// A check that waits for what never comes fails, and the next ones still run.
const patienceMs = 90_000;

function tooLate() {
    return new Promise((_, reject) => {
        setTimeout(() => reject(new Error(`no end after ${patienceMs} ms`)), patienceMs).unref();
    });
}

/** The error that `promise` ends with, of which `wanted` says some properties. */
async function fails(promise, wanted) {
    let result;
    try {
        result = await promise;
    } catch (error) {
        for (const [key, value] of Object.entries(wanted)) {
            assert.deepEqual(error[key], value, `${key} of ${error.message}`);
        }
        return error;
    }
    throw new Error(`no error, but ${JSON.stringify(result)}`);
}

/** Runs the functions of `checks`. A failed one is not the script's failure: the runner knows which may fail. */
async function run(checks) {
    for (const [name, check] of Object.entries(checks)) {
        try {
            await Promise.race([check(), tooLate()]);
            console.log(`ok ${name}`);
        } catch (error) {
            console.log(`failed ${name}: ${String(error.message).replace(/\s+/g, " ")}`);
            console.log("    " + String(error.stack).replaceAll("\n", "\n    "));
        }
    }
    // What a failed check has left open would keep the process.
    process.exit(0);
}

module.exports = { assert, fails, other, run, url };
