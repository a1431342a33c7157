#!/usr/bin/env bash
# How fast memory is saved to a disk and loaded from it, beside what dd gets from that disk: three machines with their memory
# on a tmpfs, SIGTERM, all memory gone, the same command again. benchmarks/saves.md has the figures.
#
#   benchmarks/saves.sh DIR [ROWS]      DIR on the disk; 1 kB a row and replica. Needs root (caches are dropped) and psql.
set -euo pipefail
cd "$(dirname "$0")/.."
disk=${1:?a directory on the disk}
rows=${2:-1000000}
fencepost=${FENCEPOST:-target/release/fencepost}
port=${PORT:-15433}

memory=$(mktemp -d /dev/shm/fencepost-saves-XXXXXX)
saves=$(mktemp -d "$disk/fencepost-saves-XXXXXX")
machines=
trap 'kill $machines 2>/dev/null || true; rm -rf "$memory" "$saves"' EXIT
sql() { psql -X -q -h 127.0.0.1 -p "$port" -U postgres -At "$@"; }

start() {
    "$fencepost" dev-cluster --durability nvram --replicas 3 --directory "$memory" --save-dir "$saves" \
        --memory-limit 4G --listen "127.0.0.1:$port" >"$saves/out" 2>"$saves/$1" &
    machines=$!
    until grep -qs "3 machines ready" "$saves/out"; do
        kill -0 "$machines" || { cat "$saves/$1"; exit 1; }
        sleep 0.1
    done
}

end() {
    kill -TERM "$machines"
    wait "$machines"
    machines=
}

# All that was said of `saved` or `loaded`: machines work at the same time.
rate() {
    awk -v what="$1" '$2 == what { mb += $3; if ($6 > s) s = $6 }
        END { printf "%-7s %6d MB in %6.2f s: %4d MB/s\n", what, mb, s, mb / s }' "$saves/$2"
}

timed() {
    local began ended
    began=$(date +%s%N)
    "${@:3}"
    ended=$(date +%s%N)
    awk -v what="$1" -v mb="$2" -v ns=$((ended - began)) \
        'BEGIN { s = ns / 1e9; printf "%-7s %6d MB in %6.2f s: %4d MB/s\n", what, mb, s, mb / s }'
}

start first
sql -c "CREATE TABLE t (a int PRIMARY KEY, b text)"
batch=20000
for ((from = 1; from <= rows; from += batch)); do
    seq "$from" $((from + batch - 1)) | awk '{ printf "%d\t%01000d\n", $1, $1 * 7919 }' | sql -c "COPY t FROM STDIN"
done
rows=$((from - 1))
end
rate saved first
# What dd makes of as many bytes, from memory to the disk and back: one after the other, and one for each machine at once.
files=("$saves"/nvram/incarnation-*/m*/memory)
bytes=$(stat -c %s "${files[@]}" | awk '{ all += $1 } END { print int(all / 1000000) }')
cp "${files[0]}" "$memory/copy"
write() {
    dd if="$memory/copy" of="$saves/dd$1" bs=4M oflag=direct conv=fdatasync status=none
}
read_back() {
    dd if="$saves/dd$1" of=/dev/null bs=4M iflag=direct status=none
}
in_turn() {
    local i
    for i in "${!files[@]}"; do "$1" "$i"; done
}
at_once() {
    local i all=()
    for i in "${!files[@]}"; do
        "$1" "$i" &
        all+=($!)
    done
    wait "${all[@]}"
}
mb=$(($(stat -c %s "${files[0]}") * ${#files[@]} / 1000000))
for way in in_turn at_once; do
    echo "dd, $way:"
    rm -f "$saves"/dd*
    timed to "$mb" "$way" write
    echo 3 >/proc/sys/vm/drop_caches
    timed from "$mb" "$way" read_back
done
rm -rf "$saves"/dd* "$memory"
mkdir "$memory"
echo "saved: $bytes MB, memory is gone, caches are dropped"
echo 3 >/proc/sys/vm/drop_caches
start second
rate loaded second
[ "$(sql -c "SELECT count(*) FROM t")" = "$rows" ] || { echo "rows are missing"; exit 1; }
end
