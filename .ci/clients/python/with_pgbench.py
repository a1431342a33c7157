"""pgbench: what it makes, with foreign keys and with partitions, and its scripts in every mode; TPC-B's sums agree."""

import tempfile

from checks import check, run, same
from tools import called, psql


def pgbench(*arguments):
    """Runs it: nothing may have failed."""
    said = called("pgbench", *arguments, seconds=300)
    if "-i" not in arguments:
        assert "number of failed transactions: 0 (" in said, said
    return said


def made(*arguments):
    """Makes the tables; that what they hold is what it should be."""
    pgbench("-i", "-q", "-s", "1", *arguments)
    same(psql("SELECT (SELECT count(*) FROM pgbench_accounts), (SELECT count(*) FROM pgbench_tellers), "
              "(SELECT count(*) FROM pgbench_branches), (SELECT count(*) FROM pgbench_history)"), "100000|10|1|0\n")


def sums_agree():
    sums = psql("SELECT (SELECT sum(abalance) FROM pgbench_accounts), (SELECT sum(tbalance) FROM pgbench_tellers), "
                "(SELECT sum(bbalance) FROM pgbench_branches), (SELECT coalesce(sum(delta), 0) FROM pgbench_history)")
    same(len(set(sums.strip().split("|"))), 1)


@check
def scripts_in_every_mode():
    made()
    for mode in ("simple", "extended", "prepared"):
        for script in ("tpcb-like", "simple-update", "select-only"):
            pgbench("-n", "-M", mode, "-b", script, "-c", "4", "-j", "2", "-t", "50")
    sums_agree_but_for_simple_updates = psql("SELECT sum(tbalance) = (SELECT sum(bbalance) FROM pgbench_branches) FROM pgbench_tellers")
    same(sums_agree_but_for_simple_updates, "t\n")


@check
def foreign_keys():
    made("--foreign-keys")
    same(psql("SELECT count(*) FROM pg_constraint WHERE contype = 'f' AND conrelid::regclass::text LIKE 'pgbench%'"), "5\n")
    pgbench("-c", "8", "-j", "2", "-t", "50")
    sums_agree()


@check
def data_that_the_server_makes():
    made("-I", "dtGvpf")
    pgbench("-n", "-c", "2", "-t", "20")
    sums_agree()


@check
def pipelines():
    made()
    with tempfile.NamedTemporaryFile("w", suffix=".sql") as script:
        script.write("\\set aid random(1, 100000)\n\\startpipeline\nBEGIN;\nUPDATE pgbench_accounts SET abalance = abalance + 1 WHERE aid = :aid;\n"
                     "SELECT abalance FROM pgbench_accounts WHERE aid = :aid;\nEND;\n\\endpipeline\n")
        script.flush()
        for mode in ("extended", "prepared"):
            pgbench("-n", "-M", mode, "-f", script.name, "-c", "4", "-j", "2", "-t", "50")
    same(psql("SELECT sum(abalance) FROM pgbench_accounts"), "400\n")


@check
def failed_transactions_are_tried_again():
    made()
    pgbench("-n", "--max-tries", "1000", "-c", "8", "-j", "2", "-t", "25")
    sums_agree()


@check
def partitions_by_range():
    made("--partitions", "4", "--partition-method", "range")
    said = pgbench("-n", "-c", "4", "-t", "50")
    assert "partition method: range\npartitions: 4" in said, said
    sums_agree()


@check
def partitions_by_hash():
    made("--partitions", "4", "--partition-method", "hash")
    said = pgbench("-n", "-c", "4", "-t", "50")
    assert "partition method: hash\npartitions: 4" in said, said
    sums_agree()


run()
