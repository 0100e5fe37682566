#!/usr/bin/env bash
# What it costs to copy by shards, and what many nodes gain: plan, shards and finish beside what they are made of.
#
#   benches/cluster.sh [--rows REGEX] [--rounds N] [--more] [--quick]
#                      [--program FILE] [--scratch DIR] [--out DIR]
#
#   --rows REGEX   only the rows whose name matches (grep -E); --list prints the names
#   --rounds N     runs of each contender in each row (3)
#   --more         add to what --out has already: a long series can be taken in portions
#   --quick        a thousandth of everything, one round, debug build: shows that the script works
#   --program FILE measure this dircopy instead of one built here
#   --scratch DIR  where to work (/dev/shm); should be memory, 6 GB, all of it is removed at the end
#   --out DIR      where cluster.json and cluster.md go (target/cluster)
#
#   nodes          1.6 GB in files of 1 MB, copied by 1, 2, 4 and 8 processes with --claim, each of which reads 40 MB/s at
#                  most (--limit-rate): a node whose network is what limits it, before a storage that is wider. On one
#                  machine there is nothing else that eight of them could have more of than one
#   tail           800 MB whose sizes have a long tail (log-normal, the largest 2 %), by eight such nodes: how long the
#                  last tenth of the bytes takes, in shares of the whole time
#   tail-large     the same with one file of 30 % of all bytes, which nothing divides: the time beside that of this file
#   plan           1,000,000 empty files in 1,000 directories: plan beside `find`, which looks at the same entries with one
#                  thread, and beside a dry run, which also prints each
#   finish         a plan of 10,000,000 files, made up: finish beside reading its lists and records (cat), and beside
#                  reading and hashing them, which is how it knows that they are whole (sha256sum). It has no tree: one
#                  directory, no links
#   one-small      20,000 files of 4 KB, one-many: 200,000 of them, beside which what a process costs to start is nothing,
#                  one-large: 8 files of 128 MB; plan, one process with --claim and finish beside a plain run
#
# Time is the clock's, the largest resident size that of GNU time. What works on memory alone is not what a disk shows.
set -euo pipefail
cd "$(dirname "$0")/.."
ROWS=. ROUNDS=3 MORE="" QUICK="" LIST="" DIRCOPY="" SCRATCH=/dev/shm OUT=$PWD/target/cluster
while [ $# -gt 0 ]; do
    case $1 in
    --rows) ROWS=$2 && shift ;;
    --rounds) ROUNDS=$2 && shift ;;
    --more) MORE=yes ;;
    --quick) QUICK=yes ;;
    --program) DIRCOPY=$(realpath "$2") && shift ;;
    --scratch) SCRATCH=$(realpath "$2") && shift ;;
    --out) mkdir -p "$2" && OUT=$(realpath "$2") && shift ;;
    --list) LIST=yes ;;
    *) sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "$0" >&2 && exit 2 ;;
    esac
    shift
done
rows() { printf '%s\n' nodes tail tail-large plan finish one-small one-many one-large; }
[ -z "$LIST" ] || { rows && exit; }
note() { echo "cluster: $*" >&2; }
[ -n "$(type -P time)" ] && [ -n "$(type -P jq)" ] && [ -n "$(type -P python3)" ] && [ -n "$(type -P b3sum)" ] ||
    { note "needs GNU time, jq, python3 and b3sum" && exit 1; }
PROFILE=release LESS=1
[ -z "$QUICK" ] || { ROUNDS=1 PROFILE=dev LESS=1000; }
if [ -z "$DIRCOPY" ]; then
    cargo build --quiet --locked --profile $PROFILE --bins
    DIRCOPY=${CARGO_TARGET_DIR:-$PWD/target}/${PROFILE/dev/debug}/dircopy
fi
WORK=$(mktemp -d "$SCRATCH/dircopy-cluster.XXXXXX")
trap 'rm -rf --one-file-system "$WORK"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
SRC=$WORK/src DST=$WORK/out PLAN=$WORK/plan RATE=40000000
mkdir -p "$OUT"
[ -n "$MORE" ] && touch "$OUT/runs.jsonl" || : >"$OUT/runs.jsonl"

files() { # count size a-directory
    python3 - "$SRC" "$@" <<'PYTHON'
import os, sys
root, count, size, each = sys.argv[1], *map(int, sys.argv[2:])
for number in range(count):
    dir = f"{root}/{number // each:05}"
    if number % each == 0:
        os.makedirs(dir)
    with open(f"{dir}/{number:09}", "wb") as file:
        left = size
        while left > 0:
            left -= file.write(os.urandom(min(left, 1 << 20)))
PYTHON
}
long_tail() { # bytes share-of-the-large-one
    python3 - "$SRC" "$@" <<'PYTHON'
import os, random, sys
root, total, share = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
random.seed(1)
large, left = int(total * share), total * (1 - share)
sizes = [large] if large else []
while left > 0:
    sizes.append(int(min(random.lognormvariate(11, 2), total // 50, left) + 1))
    left -= sizes[-1]
for number, size in enumerate(sizes):
    dir = f"{root}/{number // 100:05}"
    os.makedirs(dir, exist_ok=True)
    with open(f"{dir}/{number:09}", "wb") as file:
        while size > 0:
            size -= file.write(os.urandom(min(size, 1 << 20)))
PYTHON
}
# A plan of so many files, done, from one of an empty tree: lists, records and the seal as dircopy writes them.
made_up() { # files
    python3 - "$PLAN" "$1" 200000 <<'PYTHON'
import hashlib, json, pathlib, subprocess, sys
plan, count, each = pathlib.Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
seal = json.loads((plan / "SEALED").read_text())
sums, shards, bytes_of = b"", -(-count // each), bytes.fromhex


def b3sum(text):
    return subprocess.run(["b3sum"], input=text, stdout=subprocess.PIPE, check=True).stdout[:64].decode()


def write(path, end, head, records, bytes):
    text = b"".join(record + end for record in [head, *records]) + f"# end {len(records)} {bytes} ".encode()
    sum = b3sum(text)
    path.write_bytes(text + sum.encode() + end)
    return bytes_of(sum)


for shard in range(shards):
    numbers = range(shard * each, min((shard + 1) * each, count))
    names = [b"%05d/some-directory/a-name-of-a-file-%09d" % (shard, number) for number in numbers]
    digest = hashlib.sha256(b"").hexdigest().encode()
    kind = f"6 {seal['plan']:08x} {shard}"
    listed = [b"[1000,[1700000000,123456789],%d,[420,0,0,[1700000001,987654321],false],[0,0]]\n%s" % (number, name) for number, name in zip(numbers, names)]
    sums += write(plan / f"shards/{shard:04}.list", b"\0", f"# dircopy shard {kind}".encode(), listed, 1000 * len(names))
    lines = [digest + b"  " + name for name in names]
    write(plan / f"done/{shard:04}.sha256sum", b"\n", f"# dircopy done {kind}".encode(), lines, 1000 * len(names))
seal.update(shards=shards, files=count, bytes=1000 * count, shards_sum=b3sum(sums))
(plan / "SEALED").write_text(json.dumps(seal))
for token in (plan / "open").iterdir():
    token.unlink()
PYTHON
}

plan() { rm -rf "$DST" "$PLAN" && "$DIRCOPY" plan -q "$SRC" "$DST" --plan "$PLAN" "$@"; }
by_nodes() { # number: processes that share the work
    local node pids=()
    for ((node = 0; node < $1; node++)); do
        "$DIRCOPY" shard -q --plan "$PLAN" --claim --limit-rate $RATE & pids+=($!)
    done
    for node in "${pids[@]}"; do wait "$node" || return; done
}
by_shards() { plan && "$DIRCOPY" shard -q --plan "$PLAN" --claim && "$DIRCOPY" finish -q --plan "$PLAN"; }
plain() { rm -rf "$DST" && "$DIRCOPY" -q "$SRC" "$DST"; }
# Only what is a program of its own has a memory of its own.
run() { # row name command…
    local row=$1 name=$2 start end kib=null
    shift 2
    rm -f "$WORK/kib"
    [ "$(type -t "$1")" != file ] || set -- command time -q -f %M -o "$WORK/kib" "$@"
    start=$EPOCHREALTIME
    "$@" >/dev/null || { note "$row: $name fails" && return 1; }
    end=$EPOCHREALTIME
    [ ! -s "$WORK/kib" ] || kib=$(tail -n 1 "$WORK/kib")
    jq -nc --arg row "$row" --arg name "$name" --argjson from "$start" --argjson to "$end" --argjson kib "$kib" \
        '{$row, $name, seconds: ($to - $from), $kib}' >>"$OUT/runs.jsonl"
}
# By when which shards were done: what the last tenth of the bytes took, in shares of the whole.
last_tenth() { # row start
    find "$PLAN/done" -name '*.sha256sum' -printf '%T@ %p\n' | sort -n | while read -r at path; do
        echo "$at $(tail -n 1 "$path" | cut -d ' ' -f 4)"
    done | awk -v start="$2" '{ at[NR] = $1; sum += $2; bytes[NR] = sum }
        END { for (i = 1; bytes[i] < 0.9 * sum; i++); printf "%f\n", (at[NR] - at[i]) / (at[NR] - start) }' |
        jq -c --arg row "$1" '{$row, name: "last tenth, share of the time", seconds: ., kib: null}' >>"$OUT/runs.jsonl"
}

run_row() { # row
    local round nodes start largest
    rm -rf "$SRC" "$DST" "$PLAN" && mkdir "$SRC"
    case $1 in
    nodes) files $((1600 / LESS + 16)) $((1000000 / LESS + 1000)) 10 ;;
    tail) long_tail $((800000000 / LESS)) 0 ;;
    tail-large) long_tail $((800000000 / LESS)) 0.3 ;;
    plan) files $((1000000 / LESS)) 0 1000 ;;
    one-small) files $((20000 / LESS)) 4096 100 ;;
    one-many) files $((200000 / LESS)) 4096 100 ;;
    one-large) files 8 $((134217728 / LESS)) 8 ;;
    esac
    for ((round = 0; round < ROUNDS; round++)); do
        case $1 in
        nodes)
            for nodes in 1 2 4 8; do
                plan --shard-bytes $((25000000 / LESS + 1000)) && run "$1" "$nodes nodes" by_nodes $nodes
            done
            ;;
        tail | tail-large)
            plan --shard-bytes $((10000000 / LESS))
            start=$EPOCHREALTIME
            run "$1" "8 nodes" by_nodes 8
            [ "$1" != tail ] || last_tenth "$1" "$start"
            # What no scheduling is quicker than: the largest file by one node, or everything by all.
            largest=$(find "$SRC" -type f -printf '%s\n' | sort -n | tail -n 1)
            jq -nc --arg row "$1" --argjson all "$(du -sb --apparent-size "$SRC" | cut -f 1)" --argjson largest "$largest" \
                --argjson rate $RATE '{$row, name: "the bound", seconds: ([$all / (8 * $rate), $largest / $rate] | max), kib: null}' \
                >>"$OUT/runs.jsonl"
            ;;
        plan)
            rm -rf "$DST" "$PLAN" && run "$1" plan "$DIRCOPY" plan -q "$SRC" "$DST" --plan "$PLAN"
            rm -rf "$DST" && run "$1" "dry run" "$DIRCOPY" -q --dry-run "$SRC" "$DST"
            run "$1" find find "$SRC" -printf '%s %T@ %i %P\n'
            ;;
        finish)
            plan && made_up $((10000000 / LESS))
            run "$1" cat cat "$PLAN"/shards/*.list "$PLAN"/done/*.sha256sum
            run "$1" sha256sum sha256sum "$PLAN"/shards/*.list "$PLAN"/done/*.sha256sum
            run "$1" finish "$DIRCOPY" finish -q --plan "$PLAN"
            [ "$(wc -l <"$(find "$DST" -maxdepth 1 -name '*.sha256sum')")" = $((10000000 / LESS)) ] ||
                { note "the manifest has not all lines" && return 1; }
            ;;
        one-*) run "$1" "plain run" plain && run "$1" "plan, shards, finish" by_shards ;;
        esac
    done
}
for row in $(rows | grep -E -- "$ROWS"); do run_row "$row"; done

jq -s --arg date "$(date -u +%FT%TZ)" \
    --arg cpu "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)" --argjson cores "$(nproc)" \
    --arg memory "$(awk '/MemTotal/ { printf "%.0f GiB", $2 / 1048576 }' /proc/meminfo)" \
    --arg kernel "$(uname -sr)" --arg quick "$QUICK" '
    def median: sort | (.[(length - 1) / 2 | floor] + .[length / 2 | floor]) / 2;
    {machine: {$date, $cpu, $cores, $memory, $kernel, quick: ($quick != "")},
     rows: [group_by(.row)[] | {row: .[0].row, contenders: [group_by(.name)[] | {name: .[0].name, runs: map(.seconds),
        median: (map(.seconds) | median), min: (map(.seconds) | min), max: (map(.seconds) | max), kib: (map(.kib) | max)}]}]}' \
    "$OUT/runs.jsonl" >"$OUT/cluster.json"
# Seconds (or the share that the name says): the median, the least and the number of runs; and beside what each is held.
jq -r '
    def told: . * 1000 | round / 1000 | tostring;
    {"nodes": "1 nodes", "tail": "the bound", "tail-large": "the bound", "plan": "find", "finish": "sha256sum",
     "one-small": "plain run", "one-many": "plain run", "one-large": "plain run"} as $beside
    | "| row | | median (least, of so many) | beside | memory |", "|---|---|--:|--:|--:|",
      (.rows[] | . as $row | ([.contenders[] | select(.name == $beside[$row.row])][0].median) as $base | .contenders[]
        | "| \($row.row) | \(.name) | \(.median | told) (\(.min | told), \(.runs | length)) | "
          + (if .name | test("share") then "" else "\(.median / $base | told) × \($beside[$row.row])" end)
          + " | " + (if .kib then "\(.kib / 1024 | told) MiB" else "" end) + " |")' "$OUT/cluster.json" | tee "$OUT/cluster.md"
note "written: $OUT/cluster.json, $OUT/cluster.md"
