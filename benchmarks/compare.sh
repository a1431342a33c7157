#!/usr/bin/env bash
# Measures Fencepost beside PostgreSQL and a server that does nothing, on one host in one run, and
# writes the table to a Markdown file.
#
#   benchmarks/compare.sh [--seconds S] [--rounds N] [--out FILE] [--dir DIR] [--program FILE]
#                         [--postgres BIN_DIR] [--scale N] [--native-rows N] [--only PART,…]
#
# --seconds   measured time of each line (default 5)
# --rounds    each line is measured this many times, servers in turn; the median counts (default 1)
# --out       default benchmarks/results.md beside this script
# --dir       where all data directories go, so that all use one disk (default: a temporary directory)
# --program   the fencepost program (default: built here with cargo build --release)
# --postgres  directory of initdb, pg_ctl and pgbench (default: that of the newest PostgreSQL found)
# --only      wire, tpcb, hot (TPC-B at scale 1), native, start: parts to run (default: all)
#
# Both databases flush every commit to disk. PostgreSQL gets 1 GB of shared buffers and a large WAL
# so that its checkpoints do not disturb it; everything else is its default.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
seconds=5 rounds=1 out=$here/results.md dir= program= scale=10 native_rows=1000000
only=wire,tpcb,hot,native,start
postgres=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -V | tail -n 1 || true)
while [ $# -gt 0 ]; do
    case $1 in
        --seconds) seconds=$2 ;; --rounds) rounds=$2 ;; --out) out=$2 ;; --dir) dir=$2 ;;
        --program) program=$2 ;; --postgres) postgres=$2 ;; --scale) scale=$2 ;;
        --native-rows) native_rows=$2 ;; --only) only=$2 ;;
        *) echo "unknown option $1" >&2; exit 2 ;;
    esac
    shift 2
done
[ -x "$postgres/initdb" ] || { echo "PostgreSQL is not installed: no initdb in '$postgres'" >&2; exit 1; }
pgbench=$postgres/pgbench
[ -x "$pgbench" ] || pgbench=$(command -v pgbench)
if [ -z "$program" ]; then
    (cd "$here/.." && cargo build --release -p fencepost-cli)
    program=${CARGO_TARGET_DIR:-$here/../target}/release/fencepost
fi
work=$(mktemp -d "${dir:-${TMPDIR:-/tmp}}/fencepost-compare.XXXXXX")
chmod 755 "$work"

# --- Servers -------------------------------------------------------------------------------------

pg_port=56101 fp_port=56102 null_port=56103
fp_pid= null_pid=
as_postgres() { if [ "$(id -u)" = 0 ]; then runuser -u postgres -- "$@"; else "$@"; fi; }

stop_all() {
    [ -z "$fp_pid" ] || kill "$fp_pid" 2>/dev/null || true
    [ -z "$null_pid" ] || kill "$null_pid" 2>/dev/null || true
    if [ -d "$work/pg/data" ]; then
        as_postgres "$postgres/pg_ctl" -D "$work/pg/data" -m fast -w stop >/dev/null 2>&1 || true
    fi
    wait 2>/dev/null || true
    rm -rf "$work"
}
trap stop_all EXIT

start_postgres() {
    mkdir "$work/pg"
    [ "$(id -u)" != 0 ] || chown postgres "$work/pg"
    as_postgres "$postgres/initdb" -D "$work/pg/data" -U postgres -A trust >"$work/initdb.log"
    as_postgres "$postgres/pg_ctl" -D "$work/pg/data" -l "$work/pg/log" -w start -o "-p $pg_port \
        -c listen_addresses=127.0.0.1 -c unix_socket_directories=$work/pg -c shared_buffers=1GB \
        -c max_wal_size=8GB -c fsync=on -c synchronous_commit=on" >/dev/null ||
        { cat "$work/pg/log" >&2; exit 1; }
}

# start_fencepost DATA_DIR|'' : sets fp_pid; the ready line is in $work/fp.out
start_fencepost() {
    : >"$work/fp.out"
    "$program" start --listen "127.0.0.1:$fp_port" ${1:+--data-dir "$1"} >"$work/fp.out" 2>"$work/fp.err" &
    fp_pid=$!
    await "$work/fp.out" "$fp_pid" || { cat "$work/fp.err" >&2; exit 1; }
}

stop_fencepost() { kill "$fp_pid"; wait "$fp_pid" || true; fp_pid=; }

start_null() {
    "$program" bench null-server --listen "127.0.0.1:$null_port" >"$work/null.out" 2>&1 &
    null_pid=$!
    await "$work/null.out" "$null_pid"
}

# await FILE PID: until the server has said that it is ready
await() {
    for _ in $(seq 600); do
        if grep -q ready "$1"; then return 0; fi
        kill -0 "$2" 2>/dev/null || return 1
        sleep 0.1
    done
    return 1
}

# --- Measuring -----------------------------------------------------------------------------------

# ticks PID: processor time of a server, of its living children and of those it has buried
ticks() {
    local total=0 pid
    for pid in "$1" $(pgrep -P "$1" || true); do
        [ -r "/proc/$pid/stat" ] || continue
        # After the name in parentheses: utime and stime are fields 12 and 13, of children 14 and 15.
        set -- "$1" $(sed 's/^.*) //' "/proc/$pid/stat" 2>/dev/null || true)
        [ $# -gt 15 ] || continue
        total=$((total + ${13} + ${14}))
        [ "$pid" != "$1" ] || total=$((total + ${15} + ${16}))
    done
    echo "$total"
}

hz=$(getconf CLK_TCK)
declare -A rate cpu failed
database=postgres

# measure NAME SERVER STATEMENTS_PER_TRANSACTION PGBENCH_ARGUMENTS…
measure() {
    local name=$1 server=$2 statements=$3 port pid before after output tps count
    shift 3
    case $server in
        pg) port=$pg_port pid=$(head -n 1 "$work/pg/data/postmaster.pid") ;;
        fp) port=$fp_port pid=$fp_pid ;;
        null) port=$null_port pid=$null_pid ;;
    esac
    before=$(ticks "$pid")
    if ! output=$("$pgbench" -h 127.0.0.1 -p "$port" -U postgres -n -T "$seconds" "$@" "$database" 2>&1); then
        echo "$name on $server: $output" >&2
        rate[$name.$server]+=" 0" cpu[$name.$server]+=" 0" failed[$name.$server]=aborted
        return 0
    fi
    sleep 0.5
    after=$(ticks "$pid")
    tps=$(sed -n 's/^tps = \([0-9.]*\).*/\1/p' <<<"$output" | tail -n 1)
    count=$(sed -n 's/^number of transactions actually processed: \([0-9]*\).*/\1/p' <<<"$output")
    failed[$name.$server]=$(sed -n 's/^number of failed transactions: \([0-9]*\).*/\1/p' <<<"$output")
    rate[$name.$server]+=" $(awk -v t="$tps" -v s="$statements" 'BEGIN { printf "%.0f", t * s }')"
    cpu[$name.$server]+=" $(awk -v a="$before" -v b="$after" -v n="$count" -v s="$statements" -v hz="$hz" \
        'BEGIN { printf "%.2f", (b - a) / hz * 1e6 / (n * s) }')"
    echo "$name $server: ${rate[$name.$server]##* } /s, ${cpu[$name.$server]##* } us of server CPU" >&2
}

median() { tr ' ' '\n' <<<"$1" | grep . | sort -n | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }

# json FILE FIELD
json() { sed -n "s/^ *\"$2\": \"\{0,1\}\([^\",]*\)\"\{0,1\},\{0,1\}$/\1/p" "$1" | head -n 1; }

wanted() { case ,$only, in *,$1,*) return 0 ;; *) return 1 ;; esac; }

rows=()
# row NAME TEXT TARGET: one line of the wire table
row() {
    local name=$1 pg fp null
    pg=$(median "${rate[$name.pg]:-0}") fp=$(median "${rate[$name.fp]:-0}") null=$(median "${rate[$name.null]:-0}")
    rows+=("$(awk -v text="$2" -v pg="$pg" -v fp="$fp" -v null="$null" -v target="$3" \
        -v pgcpu="$(median "${cpu[$name.pg]:-0}")" -v fpcpu="$(median "${cpu[$name.fp]:-0}")" 'BEGIN {
            printf("| %s | %d | %s | %d | %s | %s | %s | %s | %s | %s |", text, pg, null ? null : "–", fp,
                pg ? sprintf("%.2f", fp / pg) : "–", null ? sprintf("%.0f %%", 100 * fp / null) : "–",
                pgcpu, fpcpu, (pgcpu > 0) ? sprintf("%.0f %%", 100 * fpcpu / pgcpu) : "–", target)
        }')")
}

pipeline() { printf '\\startpipeline\n'; for _ in $(seq 16); do printf '%s\n' "$1"; done; printf '\\endpipeline\n'; }

# --- Parts ---------------------------------------------------------------------------------------

echo 'SELECT 1;' >"$work/one.sql"
pipeline 'SELECT 1;' >"$work/one16.sql"
# What pgbench -S runs; the null server does not know the tables that -S itself asks for.
point='SELECT abalance FROM pgbench_accounts WHERE aid = :aid;'
draw='\set aid random(1, 100000 * :scale)'
printf '%s\n' "$draw" "$point" >"$work/point.sql"
{ printf '%s\n' "$draw"; pipeline "$point"; } >"$work/point16.sql"
chmod -R a+rX "$work"

wire() {
    local round server
    for round in $(seq "$rounds"); do
        for server in pg null fp; do
            measure one $server 1 -c 8 -j 2 -M prepared -f "$work/one.sql"
            measure one16 $server 16 -c 8 -j 2 -M prepared -f "$work/one16.sql"
            measure point_simple $server 1 -c 8 -j 2 -M simple -f "$work/point.sql" -s "$scale"
            measure point $server 1 -c 8 -j 2 -M prepared -f "$work/point.sql" -s "$scale"
            measure point16 $server 16 -c 8 -j 2 -M prepared -f "$work/point16.sql" -s "$scale"
        done
    done
    row one '`SELECT 1`, prepared, 8 clients' ''
    row one16 '`SELECT 1`, prepared, 8 clients, pipelined ×16' '≥ 1.8 × PostgreSQL'
    row point_simple '`pgbench -S -M simple`, 8 clients' ''
    row point '`pgbench -S -M prepared`, 8 clients' '≥ 1.7 × PostgreSQL, ≥ 75 % of null, CPU ≤ 45 %'
    row point16 '`pgbench -S`, prepared, 8 clients, pipelined ×16' '≥ 1.8 × PostgreSQL'
}

tpcb() {
    local round server
    for round in $(seq "$rounds"); do
        for server in pg fp; do
            measure tpcb8 $server 1 -c 8 -j 2 -M prepared
            measure tpcb $server 1 -c 32 -j 2 -M prepared
        done
    done
    row tpcb8 'TPC-B, prepared, 8 clients' ''
    row tpcb 'TPC-B, prepared, 32 clients' '≥ 1.5 × PostgreSQL'
    notes+=("Failed TPC-B transactions (32 clients): PostgreSQL ${failed[tpcb.pg]:-?}, Fencepost ${failed[tpcb.fp]:-?}.")
    local sums of
    sums=$(for of in accounts:abalance tellers:tbalance branches:bbalance history:delta; do
        sql $fp_port "SELECT coalesce(sum(${of#*:}), 0) FROM pgbench_${of%:*}"
    done | sort -u | wc -l)
    if [ "$sums" = 1 ]; then
        notes+=("Afterwards the sums of accounts, tellers, branches and history agree.")
    else
        notes+=("**Afterwards the sums of accounts, tellers, branches and history do not agree.**")
    fi
}

# Sixteen clients that all want the one branch.
hot() {
    local round server port
    for port in $pg_port $fp_port; do
        sql $port 'CREATE DATABASE hot' >/dev/null
        "$pgbench" -h 127.0.0.1 -p $port -U postgres -q -i -s 1 hot >/dev/null 2>"$work/load.err" ||
            { cat "$work/load.err" >&2; exit 1; }
    done
    database=hot
    for round in $(seq "$rounds"); do
        for server in pg fp; do
            measure hot $server 1 -c 16 -j 2 -M prepared
        done
    done
    database=postgres
    row hot 'TPC-B at scale 1, prepared, 16 clients' '≥ PostgreSQL, none failed'
    notes+=("Failed TPC-B transactions (scale 1, 16 clients): PostgreSQL ${failed[hot.pg]:-?}, Fencepost ${failed[hot.fp]:-?}.")
}

native() {
    local kind threads arguments
    for kind in kv-uniform kv-zipf kv-updates tatp; do
        for threads in 1 2; do
            case $kind in
                kv-uniform) arguments=(kv) ;;
                kv-zipf) arguments=(kv --zipf 0.99) ;;
                kv-updates) arguments=(kv --update-percent 5) ;;
                tatp) arguments=(tatp) ;;
            esac
            "$program" bench "${arguments[@]}" --via native --rows "$native_rows" --threads "$threads" \
                --seconds "$seconds" --warmup 1 --json "$work/$kind.$threads.json" >&2 || true
        done
        local one=$work/$kind.1.json two=$work/$kind.2.json
        [ -s "$one" ] && [ -s "$two" ] || continue
        native_rows_table+=("$(awk -v kind="${arguments[*]}" -v a="$(json "$one" committed_per_s)" \
            -v b="$(json "$two" committed_per_s)" -v p50="$(json "$one" p50)" -v p99="$(json "$one" p99)" \
            -v tried="$(json "$one" attempted_per_s)" -v reads="$(json "$one" reads)" \
            -v check="$(json "$two" check)" 'BEGIN {
                printf "| `%s` | %d | %d | %d | %.2f | %s | %s | %s | %s |", kind, a, tried, b, b / a, p50, p99, reads, check }')")
    done
}

start() {
    # An empty database, then 100,000 × scale rows from disk.
    start_fencepost "$work/fp-empty"
    notes+=("Start of an empty database: $(started) ms.")
    stop_fencepost
    start_fencepost ''
    local create
    create=$({ echo '\timing on'; for k in $(seq 20); do echo "CREATE TABLE made_$k (id int PRIMARY KEY, t text);"; done; } |
        "$postgres/psql" -h 127.0.0.1 -p $fp_port -U postgres -X -q -d postgres |
        sed -n 's/^Time: \([0-9.]*\) ms.*/\1/p')
    notes+=("CREATE TABLE in the memory tier (psql, median of 20): $(median "$create") ms.")
    stop_fencepost
}

started() { sed -n 's/.*started in \([0-9]*\) ms.*/\1/p' "$work/fp.out"; }
resident_mb() { awk '/^VmRSS/ { printf "%.0f", $2 / 1024 }' "/proc/$1/status"; }
sql() { "$postgres/psql" -h 127.0.0.1 -p "$1" -U postgres -X -A -t -d postgres -c "$2"; }

# --- The run -------------------------------------------------------------------------------------

notes=() native_rows_table=()
flushes=$(cd "$here/.." && cargo run -q --release -p fencepost-storage --example log_flush "$work" 1 2>/dev/null |
    sed -n 's/^bare overwrite + fdatasync of  4096 B: *\([0-9]*\).*/\1/p' || true)
[ -z "$flushes" ] || notes+=("The disk: $flushes flushes of 4 KiB a second, one after the other; with 32 clients that share them at most $((flushes * 32)) commits/s.")
if wanted wire || wanted tpcb || wanted hot; then
    start_postgres
    start_null
    start_fencepost "$work/fp"
    empty=$(resident_mb "$fp_pid")
    for port in $pg_port $fp_port; do
        "$pgbench" -h 127.0.0.1 -p $port -U postgres -q -i -s "$scale" postgres >/dev/null 2>"$work/load.err" ||
            { cat "$work/load.err" >&2; exit 1; }
    done
    size=$(sql $pg_port "SELECT pg_total_relation_size('pgbench_accounts') / 1048576")
    ! wanted wire || wire
    # Not right after the load: the allocator gives the memory of a statement back a moment later.
    loaded=$(resident_mb "$fp_pid")
    notes+=("$((scale * 100000)) pgbench accounts: PostgreSQL's table and index $size MB; Fencepost's resident memory grew from $empty MB to $loaded MB.")
    ! wanted tpcb || tpcb
    ! wanted hot || hot
    if wanted start; then
        stop_fencepost
        start_fencepost "$work/fp"
        notes+=("Restart with $((scale * 100000)) accounts and the TPC-B history, after a clean stop: $(started) ms.")
        kill -9 "$fp_pid"; wait "$fp_pid" 2>/dev/null || true
        start_fencepost "$work/fp"
        notes+=("The same after kill -9: $(started) ms.")
    fi
    stop_fencepost
    kill "$null_pid"; wait "$null_pid" 2>/dev/null || true; null_pid=
    as_postgres "$postgres/pg_ctl" -D "$work/pg/data" -m fast -w stop >/dev/null
fi
! wanted start || start
! wanted native || native

{
    echo "# Speed beside PostgreSQL"
    echo
    echo "Made by \`benchmarks/compare.sh --seconds $seconds --rounds $rounds\` on $(date -u +%F):"
    echo "$(nproc) cores ($(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)), shared with the client;"
    echo "$("$postgres/postgres" --version); $("$program" --version)."
    echo "Every commit of both is flushed to the same disk. The null server answers from constants, with a"
    echo "thread for each connection. It shows the cost of the wire on this host."
    if [ ${#rows[@]} -gt 0 ]; then
        echo
        echo "| statements or transactions a second | PostgreSQL | null server | Fencepost | ÷ PostgreSQL | of null | PostgreSQL CPU, µs | Fencepost CPU, µs | CPU ratio | to reach |"
        echo "|---|--:|--:|--:|--:|--:|--:|--:|--:|---|"
        printf '%s\n' "${rows[@]}"
    fi
    if [ ${#native_rows_table[@]} -gt 0 ]; then
        echo
        echo "Native, memory tier, $native_rows keys or subscribers (to reach with one thread: kv lookups 3 M/s, TATP"
        echo "700 k/s committed; two threads 1.8 × one; 1.05 one-sided reads a lookup):"
        echo
        echo "| \`fencepost bench\` | committed/s, 1 thread | tried/s | committed/s, 2 threads | 2 ÷ 1 | p50, µs | p99, µs | one-sided reads | check |"
        echo "|---|--:|--:|--:|--:|--:|--:|--:|---|"
        printf '%s\n' "${native_rows_table[@]}"
    fi
    if [ ${#notes[@]} -gt 0 ]; then
        echo
        printf -- '- %s\n' "${notes[@]}"
    fi
} >"$out"
cat "$out"
