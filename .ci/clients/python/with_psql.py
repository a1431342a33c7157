"""psql: what its commands do with a session. What \\d and its kin show is compared with PostgreSQL by the tests of pgserver."""

import tempfile
from pathlib import Path

from checks import check, run, same
from tools import psql, psql_says


@check
def variables_and_conditions():
    same(psql("SELECT 5 AS five, NULL AS nothing \\gset\n\\echo :five :{?nothing}\nSELECT :'five' || 'x', :five + 1;"), "5 FALSE\n5x|6\n")
    same(psql("\\set name 'it''s'\nSELECT :'name';\n\\if :{?name}\nSELECT 'yes';\n\\else\nSELECT 'no';\n\\endif"), "it's\nyes\n")


@check
def statements_made_of_rows():
    same(psql("SELECT format('CREATE TABLE g%s (x int)', k) FROM generate_series(1, 3) k \\gexec\n"
              "SELECT count(*) FROM pg_class WHERE relname ~ '^g[0-9]$';"), "3\n")


@check
def results_are_described():
    same(psql("SELECT 1 AS a, 'x'::varchar(5) AS b, now() AS c, 1.5::numeric(8,2) AS d, '{1}'::int[] AS e \\gdesc"),
         "a|integer\nb|character varying(5)\nc|timestamp with time zone\nd|numeric(8,2)\ne|integer[]\n")


@check
def prepared_statements():
    same(psql("PREPARE p (int) AS SELECT $1 + 1;\nEXECUTE p(5);\nDEALLOCATE p;"), "6\n")


@check
def rows_of_a_crosstab_and_expanded():
    same(psql_says("VALUES ('a', 'x', 1), ('a', 'y', 2), ('b', 'x', 3) \\crosstabview"),
         " column1 | x | y \n---------+---+---\n a       | 1 | 2\n b       | 3 |  \n(2 rows)\n\n")
    same(psql_says("\\x\nSELECT 1 AS a, 'long' AS b;", "-q"), "-[ RECORD 1 ]\na | 1\nb | long\n\n")
    same(psql("SELECT 'a' AS x, NULL AS y;", "--csv", "-P", "null=nil"), "a,nil\n")


@check
def errors_are_shown():
    said = psql_says("CREATE TABLE wrong (x int PRIMARY KEY);\nINSERT INTO wrong VALUES (1), (1);\n\\errverbose\nSELECT *\nFROM wrong\nWHERE žluť = 1;", "-q")
    for wanted in ('ERROR:  duplicate key value violates unique constraint "wrong_pkey"', "DETAIL:  Key (x)=(1) already exists.",
                   "ERROR:  23505: duplicate", "CONSTRAINT NAME:  wrong_pkey", 'column "žluť" does not exist\nLINE 3: WHERE žluť = 1;\n              ^'):
        assert wanted in said, (wanted, said)


@check
def statements_that_fail_in_a_block_are_taken_back():
    said = psql_says("\\set ON_ERROR_ROLLBACK on\nCREATE TABLE tries (x int);\nBEGIN;\nINSERT INTO tries VALUES (1);\nSELECT 1/0;\n"
                     "INSERT INTO tries VALUES (2);\nCOMMIT;\nSELECT count(*) FROM tries;", "-q", "-A", "-t")
    assert said.endswith("\n2\n") and "division by zero" in said, said
    same(psql("\\set AUTOCOMMIT off\nINSERT INTO tries VALUES (3);\nROLLBACK;\nSELECT count(*) FROM tries;"), "2\n")
    said = psql_says("CREATE TABLE whole (x int);\nINSERT INTO whole VALUES (1);\nSELECT 1/0;", "-q", "-1", "-v", "ON_ERROR_STOP=1")
    assert "division by zero" in said, said
    same(psql("SELECT count(*) FROM pg_class WHERE relname = 'whole';"), "0\n")


@check
def rows_are_copied_from_and_to_files():
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "rows"
        file.write_text("1,a\n2,\"b,c\"\n")
        same(psql(f"CREATE TABLE copied (x int, y text);\n\\copy copied FROM '{file}' (FORMAT csv)\n"
                  f"\\copy (SELECT * FROM copied ORDER BY x DESC) TO '{file}'\nCOPY copied FROM STDIN;\n3\t\\N\n\\.\nSELECT * FROM copied ORDER BY x;"),
             "1|a\n2|b,c\n3|\n")
        same(file.read_text(), "2\tb,c\n1\ta\n")


@check
def rows_a_few_at_a_time():
    same(psql("\\set FETCH_COUNT 100\nSELECT generate_series(1, 1050);").splitlines(), [str(k) for k in range(1, 1051)])


@check
def a_statement_again_and_again():
    same(psql("CREATE SEQUENCE again;\nSELECT nextval('again') AS n \\g /dev/null\nSELECT nextval('again');"), "2\n")
    same(psql_says("SELECT 1 \\; SELECT 2;", "-q", "-A", "-t"), "1\n2\n")


@check
def sources_of_views():
    same(psql("CREATE VIEW seen AS SELECT 1 AS one;\n\\sv seen"), "CREATE OR REPLACE VIEW public.seen AS\n SELECT 1 AS one\n")


@check
def sources_of_functions():
    said = psql("CREATE FUNCTION twice(x int) RETURNS int LANGUAGE sql AS 'SELECT x * 2';\n\\sf twice\nSELECT twice(4);")
    same(said, "CREATE OR REPLACE FUNCTION public.twice(x integer)\n RETURNS integer\n LANGUAGE sql\nAS $function$SELECT x * 2$function$\n8\n")


@check
def lists_of_what_there_is():
    psql("CREATE SCHEMA lists; CREATE TABLE lists.t (id serial PRIMARY KEY, x text); CREATE VIEW lists.v AS SELECT * FROM lists.t;")
    same(psql("\\dt lists.*\n\\dv lists.*\n\\ds lists.*\n\\di lists.*"),
         "lists|t|table|postgres\nlists|v|view|postgres\nlists|t_id_seq|sequence|postgres\nlists|t_pkey|index|postgres|t\n")
    same(psql("\\dn lists"), "lists|postgres\n")
    assert "postgres|Superuser" in psql("\\du postgres"), psql("\\du postgres")
    assert psql("\\l").count("|UTF8|") >= 1
    assert "pg_catalog|abs|integer|integer|func" in psql("\\df abs")
    said = psql_says("\\d lists.t", "-q")
    for wanted in ("id     | integer |           | not null | nextval('lists.t_id_seq'::regclass)", '"t_pkey" PRIMARY KEY, btree (id)'):
        assert wanted in said, (wanted, said)
    assert psql_says("\\d nothing").endswith('Did not find any relation named "nothing".\n')


run()
