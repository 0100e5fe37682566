#!/usr/bin/env bash
# How time and memory grow with a tree: with the number of its files, with its depth, with its width.
#
#   benches/growth.sh [--rows REGEX] [--rounds N] [--more] [--quick]
#                     [--program FILE] [--scratch DIR] [--out DIR]
#
#   --rows REGEX   only the rows whose name matches (grep -E); --list prints the names
#   --rounds N     runs of each program in each row (3)
#   --more         add to what --out has already: a long series can be taken in portions
#   --quick        100 files at most, one round, debug build: shows that the script works
#   --program FILE measure this dircopy instead of one built here
#   --scratch DIR  where to work (/dev/shm); should be memory, all of it is removed at the end
#   --out DIR      where growth.json and growth.md go (target/growth)
#
#   files/N   N files of 4 KiB, 1000 to a directory     empty/N   N empty files (a tmpfs takes a page for each byte)
#   depth/N   10,000 files of 4 KiB in a chain of N directories, each in the one before; path/N the same, with names
#             of 20 bytes, so that paths are longer than the system allows in one call
#   width/N   10,000 files of 4 KiB in N directories beside each other
#
# Each round: a first run (--no-sync), a second one where nothing changed, `cp -r`, `rsync -a` (not with many files or deep
# trees, where it takes minutes). Time is the clock's, processor time and the largest resident size are those that
# the kernel counts (GNU time).
set -euo pipefail
cd "$(dirname "$0")/.."
ROWS=. ROUNDS=3 MORE="" QUICK="" LIST="" DIRCOPY="" SCRATCH=/dev/shm OUT=$PWD/target/growth
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
rows() { printf '%s\n' files/{1000,10000,100000} empty/{1000,10000,100000,1000000} depth/{1,100,1000} path/{1000,5000} width/{1,100,10000}; }
[ -z "$LIST" ] || { rows && exit; }
note() { echo "growth: $*" >&2; }
[ -n "$(type -P time)" ] && [ -n "$(type -P jq)" ] || { note "needs GNU time and jq" && exit 1; }
PROFILE=release MOST=1000000
[ -z "$QUICK" ] || { ROUNDS=1 PROFILE=dev MOST=100; }
if [ -z "$DIRCOPY" ]; then
    cargo build --quiet --locked --profile $PROFILE --bins
    DIRCOPY=${CARGO_TARGET_DIR:-$PWD/target}/${PROFILE/dev/debug}/dircopy
fi
WORK=$(mktemp -d "$SCRATCH/dircopy-growth.XXXXXX")
trap 'rm -rf --one-file-system "$WORK"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
SRC=$WORK/src DST=$WORK/out
mkdir -p "$OUT"
[ -n "$MORE" ] && touch "$OUT/runs.jsonl" || : >"$OUT/runs.jsonl"

fill() { # from to: files of these numbers here
    local n
    for ((n = $1; n < $2; n++)); do if [ "$SIZE" = 0 ]; then : >$n; else printf "%-${SIZE}d" $n >$n; fi; done
}
# Goes into each directory in turn, so that no path is too long.
make_source() { # kind number
    local n files=10000 dirs=$2 name
    SIZE=4096
    case $1 in
    files | empty) files=$2 dirs=$((($2 + 999) / 1000)) ;;
    path) name=twenty-bytes-of-name ;;
    *) name=d ;;
    esac
    [ "$1" != empty ] || SIZE=0
    files=$((files < MOST ? files : MOST)) dirs=$((dirs < MOST ? dirs : MOST))
    mkdir "$SRC" && cd "$SRC"
    for ((n = 0; n < dirs; n++)); do
        case $1 in
        depth | path) [ $n = 0 ] || { mkdir "$name" && cd "./$name" 2>/dev/null; } ;;
        *) mkdir "$n" && cd "./$n" ;;
        esac
        fill $((files * n / dirs)) $((files * (n + 1) / dirs))
        case $1 in depth | path) ;; *) cd .. ;; esac
    done
    cd "$WORK"
    FILES=$files
}

run() { # row name command …
    local row=$1 name=$2 start end counted
    shift 2
    start=$EPOCHREALTIME
    command time -q -f '%U %S %M' -o "$WORK/time" "$@" >/dev/null 2>&1 || { note "$row: $name fails" && return; }
    end=$EPOCHREALTIME
    read -ra counted <"$WORK/time"
    jq -nc --arg row "$row" --arg name "$name" --argjson files "$FILES" --argjson from "$start" --argjson to "$end" \
        --argjson user "${counted[0]}" --argjson system "${counted[1]}" --argjson kib "${counted[2]}" \
        '{$row, $name, $files, seconds: ($to - $from), cpu: ($user + $system), $kib}' >>"$OUT/runs.jsonl"
}
run_row() { # row
    local round
    rm -rf "$SRC" && make_source "${1%/*}" "${1#*/}"
    for ((round = 0; round < ROUNDS; round++)); do
        rm -rf "$DST" && run "$1" "dircopy" "$DIRCOPY" -q --no-sync -i "$SRC" -o "$DST"
        run "$1" "second run" "$DIRCOPY" -q --no-sync -i "$SRC" -o "$DST"
        rm -rf "$DST" && run "$1" "cp -r" cp -r "$SRC" "$DST"
        case $1 in
        */1000000 | depth/1000 | path/*) ;;
        *) rm -rf "$DST" && run "$1" "rsync -a" rsync -a "$SRC/" "$DST" ;;
        esac
    done
    rm -rf "$DST"
}
for row in $(rows | grep -E -- "$ROWS"); do run_row "$row"; done

jq -s --arg date "$(date -u +%FT%TZ)" \
    --arg cpu "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)" --argjson cores "$(nproc)" \
    --arg memory "$(awk '/MemTotal/ { printf "%.0f GiB", $2 / 1048576 }' /proc/meminfo)" \
    --arg kernel "$(uname -sr)" --arg quick "$QUICK" '
    def median: sort | (.[(length - 1) / 2 | floor] + .[length / 2 | floor]) / 2;
    {machine: {$date, $cpu, $cores, $memory, $kernel, quick: ($quick != "")},
     rows: [group_by(.row)[] | . as $runs | {row: .[0].row, files: .[0].files, contenders: [
        group_by(.name)[] | {name: .[0].name, runs: map(.seconds), median: (map(.seconds) | median), min: (map(.seconds) | min),
            max: (map(.seconds) | max), cpu: (map(.cpu) | median), kib: (map(.kib) | max)}]}]}' \
    "$OUT/runs.jsonl" >"$OUT/growth.json"
# For each program: µs of the clock for each file (the median; least), of the processors, and the most memory of all runs.
{
    echo "| tree | dircopy, µs a file | processor | memory | second run | processor | memory | cp -r | processor | rsync -a | processor |"
    echo "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|"
    jq -r '
        def told: . * 10 | round / 10 | tostring;
        .rows | sort_by((.row | split("/")[0]), (.row | split("/")[1] | tonumber))[] | . as $row
        | def of($name): [$row.contenders[] | select(.name == $name)][0];
          def clock($c): if $c then "\($c.median / $row.files * 1e6 | told) (\($c.min / $row.files * 1e6 | told))" else "" end;
          def cpu($c): if $c then $c.cpu / $row.files * 1e6 | told else "" end;
          def memory($c): if $c then "\($c.kib / 1024 | told) MiB" else "" end;
          of("dircopy") as $one | of("second run") as $two | of("cp -r") as $cp | of("rsync -a") as $rsync
        | [$row.row, clock($one), cpu($one), memory($one), clock($two), cpu($two), memory($two),
           clock($cp), cpu($cp), clock($rsync), cpu($rsync)] | "| " + join(" | ") + " |"' "$OUT/growth.json"
} | tee "$OUT/growth.md"
note "written: $OUT/growth.json, $OUT/growth.md"
