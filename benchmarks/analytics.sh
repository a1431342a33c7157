#!/usr/bin/env bash
# A join of a million rows with a hundred thousand, grouped, on each of Fencepost's executors and on PostgreSQL with its
# default settings: alone, and while pgbench runs. benchmarks/analytics.md has the figures.
#
#   benchmarks/analytics.sh [FENCEPOST [POSTGRES_BIN_DIR]]     needs psql and pgbench; ROUNDS=7 SECONDS_OF_PGBENCH=10
set -euo pipefail
cd "$(dirname "$0")/.."
fencepost=${1:-target/release/fencepost}
postgres=${2:-$(ls -d /usr/lib/postgresql/*/bin | sort -V | tail -n 1)}
rounds=${ROUNDS:-7} seconds=${SECONDS_OF_PGBENCH:-10}
fp_port=56202 pg_port=56201
work=$(mktemp -d)
chmod 755 "$work"
fp_pid=
as_postgres() { if [ "$(id -u)" = 0 ]; then runuser -u postgres -- "$@"; else "$@"; fi; }
stop_all() {
    [ -z "$fp_pid" ] || kill "$fp_pid" 2>/dev/null || true
    as_postgres "$postgres/pg_ctl" -D "$work/pg/data" -m fast -w stop >/dev/null 2>&1 || true
    wait 2>/dev/null || true
    rm -rf "$work"
}
trap stop_all EXIT

sql() { psql -X -q -At -h 127.0.0.1 -p "$1" -U postgres "${@:2}"; }

mkdir "$work/pg"
[ "$(id -u)" != 0 ] || chown postgres "$work/pg"
as_postgres "$postgres/initdb" -D "$work/pg/data" -U postgres -A trust >"$work/initdb.log"
as_postgres "$postgres/pg_ctl" -D "$work/pg/data" -l "$work/pg/log" -w start -o "-p $pg_port \
    -c listen_addresses=127.0.0.1 -c unix_socket_directories=$work/pg" >/dev/null
"$fencepost" start --listen "127.0.0.1:$fp_port" >"$work/fp.out" 2>"$work/fp.err" &
fp_pid=$!
until sql $fp_port -c 'SELECT 1' >/dev/null 2>&1; do
    kill -0 $fp_pid || { cat "$work/fp.err"; exit 1; }
    sleep 0.1
done

for port in $fp_port $pg_port; do
    sql $port >/dev/null <<'SQL'
CREATE TABLE customers (id int PRIMARY KEY, region text NOT NULL);
CREATE TABLE orders (id bigint PRIMARY KEY, customer int NOT NULL, amount numeric(10,2) NOT NULL, at timestamp NOT NULL);
INSERT INTO customers SELECT g, 'region ' || g % 25 FROM generate_series(1, 100000) g;
INSERT INTO orders SELECT g, 1 + g::bigint * 7919 % 100000, (g * 31 % 100000) / 100.0, timestamp '2020-01-01' + g * interval '1 minute'
    FROM generate_series(1, 1000000) g;
SQL
    PGHOST=127.0.0.1 PGPORT=$port PGUSER=postgres "$postgres/pgbench" -q -i -s 10 postgres >/dev/null 2>&1
done
sql $pg_port -c 'VACUUM ANALYZE'

query="SELECT c.region, count(*), sum(o.amount), max(o.at) FROM orders o JOIN customers c ON o.customer = c.id GROUP BY c.region ORDER BY 1"

# median PORT SETTING: the median time of the query in ms, after a run that is not counted
median() {
    { echo "SET fencepost.analytics = $2; $query;"; echo '\timing on'
      for _ in $(seq "$rounds"); do echo "$query;"; done; } |
        psql -X -q -At -h 127.0.0.1 -p "$1" -U postgres | sed -n 's/^Time: \([0-9.]*\) ms.*/\1/p' |
        sort -n | sed -n "$(((rounds + 1) / 2))p"
}

bench() { PGHOST=127.0.0.1 PGPORT=$1 PGUSER=postgres "$postgres/pgbench" -n -M prepared -S -c 4 -T "$seconds" postgres 2>/dev/null |
    sed -n 's/^tps = \([0-9]*\).*/\1/p'; }

# beside PORT SETTING: the query's median while pgbench -S runs, and pgbench's transactions a second meanwhile
beside() {
    (while [ ! -e "$work/over" ]; do median "$1" "$2" >>"$work/times"; done) &
    local loop=$! tps
    tps=$(bench "$1")
    touch "$work/over"
    wait $loop
    echo "$(sort -n "$work/times" | sed -n '1p') $tps"
    rm "$work/over" "$work/times"
}

same=$(for port in $fp_port $pg_port; do sql $port -c "SET fencepost.analytics = on" -c "$query" | md5sum; done | sort -u | wc -l)
[ "$same" = 1 ] || { echo "the answers differ" >&2; exit 1; }
sql $fp_port -c "EXPLAIN $query" | grep -q DataFusion || { echo "DataFusion was not chosen" >&2; exit 1; }

echo "| | alone, ms | beside pgbench -S, ms | pgbench -S, tps, alone | beside the query |"
echo "|---|--:|--:|--:|--:|"
line() {
    local ms tps both
    ms=$(median "$2" "$3") tps=$(bench "$2") both=$(beside "$2" "$3")
    echo "| $1 | $ms | ${both% *} | $tps | ${both#* } |"
}
line "Fencepost, DataFusion" $fp_port auto
line "Fencepost, its own executor" $fp_port off
line "$("$postgres/postgres" --version | sed 's/postgres (PostgreSQL)/PostgreSQL/; s/ (.*//')" $pg_port auto
