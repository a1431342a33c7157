"""sysbench's pgsql driver: its OLTP scripts with prepared statements, and without."""

from checks import check, run, same
from tools import WHERE, called, psql

AT = (
    "--db-driver=pgsql", f"--pgsql-host={WHERE.hostname}", f"--pgsql-port={WHERE.port}", f"--pgsql-user={WHERE.username}",
    f"--pgsql-db={WHERE.path[1:]}", "--tables=2", "--table-size=2000", "--threads=1",
)


def sysbench(script, command, *options):
    return called("sysbench", script, *AT, *options, command, url=None)


def scripts(*options):
    """Every script for some transactions: none may end with an error that is not to be tried again."""
    sysbench("oltp_read_write", "prepare")
    for script in ("oltp_point_select", "oltp_read_only", "oltp_read_write", "oltp_update_index", "oltp_update_non_index",
                   "oltp_write_only", "oltp_insert", "oltp_delete", "select_random_points", "select_random_ranges"):
        said = sysbench(script, "run", "--events=200", "--time=0", *options)
        assert "total number of events:              200" in said, said
    sysbench("oltp_read_write", "cleanup")


@check
def scripts_with_prepared_statements():
    scripts()


@check
def scripts_with_texts():
    scripts("--db-ps-mode=disable")


@check
def tables_in_bulk():
    sysbench("bulk_insert", "prepare")
    sysbench("bulk_insert", "run", "--events=5000", "--time=0")
    assert int(psql("SELECT count(*) FROM sbtest1")) > 0
    sysbench("bulk_insert", "cleanup")


@check
def what_is_prepared_is_what_it_should_be():
    sysbench("oltp_read_write", "prepare", "--auto-inc=off")
    same(psql("SELECT count(*), min(id), max(id) FROM sbtest2"), "2000|1|2000\n")
    same(psql("SELECT indexdef FROM pg_indexes WHERE tablename = 'sbtest1' ORDER BY indexname"),
         "CREATE INDEX k_1 ON public.sbtest1 USING btree (k)\nCREATE UNIQUE INDEX sbtest1_pkey ON public.sbtest1 USING btree (id)\n")
    sysbench("oltp_read_write", "cleanup")


run()
