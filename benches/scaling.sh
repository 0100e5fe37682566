#!/usr/bin/env bash
# What the number of workers gains: 1 to 8 of them, and as many as dircopy chooses itself, on several devices.
#
#   benches/scaling.sh [--rows REGEX] [--rounds N] [--workers "N …"] [--more] [--quick]
#                      [--program FILE] [--scratch DIR] [--memory DIR] [--out DIR]
#
#   --rows REGEX   only the rows whose name matches (grep -E); --list prints the names
#   --rounds N     runs of each number of workers in each row (5)
#   --workers "N …"
#                  which numbers ("1 2 4 8")
#   --more         add to what --out has already: a long series can be taken in portions
#   --quick        tiny data, one round, debug build: shows that the script works
#   --program FILE measure this dircopy instead of one built here
#   --scratch DIR  where to work on the real disk ($TMPDIR or /tmp); all of it is removed at the end
#   --memory DIR   where memory is to be had (/dev/shm)
#   --out DIR      where scaling.json and scaling.md go (target/scaling); draw it with
#                  benches/plots.sh target/scaling/scaling.json target/plots/scaling
#
# A row is DEVICE/WORKLOAD/CACHE/FINISH. `tmpfs` is memory, `disk` is below the scratch directory. `ssd` and `hdd`
# are ext4 on devices that take as long as they are told to (benches/device.c; root, FUSE, loop devices, gcc):
# 500 MB/s and 100 µs for any number of requests at a time, and 150 MB/s with one head that needs 8 ms to
# get elsewhere. Source and output are both on the device, and but for tmpfs everything is made durable. On
# `ssd` and `hdd` nothing is in memory at first, and the output is removed behind the device's back. dircopy
# believes no loop device to turn, so /sys says it of another in a mount namespace of the script's own.
#
# Numbers of workers take turns; each round starts with another one. The table tells the median and the least of each,
# and how what dircopy chooses itself compares with the best fixed number by either: the most that is asked for is 1.05.
# The best is the best of several series, which counts against the choice.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ "$(id -u)" = 0 ] && [ ! "${DIRCOPY_SCALING:-}" ]; then
    DIRCOPY_SCALING=private exec unshare -m --propagation slave "$0" "$@"
fi
ROWS=. ROUNDS=5 WORKERS="1 2 4 8" MORE="" QUICK="" LIST="" DIRCOPY="" SCRATCH=${TMPDIR:-/tmp} MEMORY=/dev/shm OUT=$PWD/target/scaling
while [ $# -gt 0 ]; do
    case $1 in
    --rows) ROWS=$2 && shift ;;
    --rounds) ROUNDS=$2 && shift ;;
    --workers) WORKERS=$2 && shift ;;
    --more) MORE=yes ;;
    --quick) QUICK=yes ;;
    --program) DIRCOPY=$(realpath "$2") && shift ;;
    --scratch) SCRATCH=$(realpath "$2") && shift ;;
    --memory) MEMORY=$(realpath "$2") && shift ;;
    --out) mkdir -p "$2" && OUT=$(realpath "$2") && shift ;;
    --list) LIST=yes ;;
    *) sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "$0" >&2 && exit 2 ;;
    esac
    shift
done
rows() {
    local device workload
    for device in tmpfs disk ssd hdd; do
        for workload in large small deep wide; do
            case $device in
            tmpfs) echo $device/$workload/warm/plain ;;
            disk) echo $device/$workload/warm/durable ;;
            *) echo $device/$workload/cold/durable ;;
            esac
        done
    done
}
[ -z "$LIST" ] || { rows && exit; }
note() { echo "scaling: $*" >&2; }
PROFILE=release
[ -z "$QUICK" ] || { ROUNDS=1 WORKERS="1 2" PROFILE=dev; }
if [ -z "$DIRCOPY" ]; then
    cargo build --quiet --locked --profile $PROFILE --bins
    DIRCOPY=${CARGO_TARGET_DIR:-$PWD/target}/${PROFILE/dev/debug}/dircopy
fi

DISK=$(mktemp -d "$SCRATCH/dircopy-scaling.XXXXXX") MEMORY=$(mktemp -d "$MEMORY/dircopy-scaling.XXXXXX")
LOOP=""
detach() {
    ! mountpoint -q "$DISK/mnt" || umount "$DISK/mnt"
    [ -z "$LOOP" ] || losetup -d "$LOOP"
    LOOP=""
    ! mountpoint -q "$DISK/device" || umount "$DISK/device"
}
cleanup() { set +e && detach && rm -rf --one-file-system "$DISK" "$MEMORY"; }
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
mkdir -p "$DISK/mnt" "$OUT"
touch "$DISK/device"

# Files of one size, in directories of so many.
files() { # dir count size each
    local n dir left=$2
    for ((n = 0; left > 0; n++, left -= $4)); do
        dir=$1/$n
        mkdir -p "$dir"
        head -c $(((left < $4 ? left : $4) * $3)) /dev/urandom | split -b "$3" -a 5 -d - "$dir/"
    done
}
make_source() { # workload dir device
    local n deep=$2 SCALE=16
    # So that a run takes a second or so, and no disk that turns minutes with too many workers.
    case $3/$1 in
    tmpfs/small | disk/small) SCALE=1000 ;;
    tmpfs/* | disk/large) SCALE=128 ;;
    ssd/small) SCALE=96 ;;
    ssd/large) SCALE=32 ;;
    esac
    [ -z "$QUICK" ] || SCALE=1
    mkdir -p "$2"
    case $1 in
    large) for n in 1 2 3 4 5 6 7 8; do head -c $((SCALE << 20)) /dev/urandom >"$2/$n"; done ;;
    small) files "$2" $((100 * SCALE)) 4096 100 ;;
    wide) files "$2" $((100 * SCALE)) 4096 $((100 * SCALE)) ;;
    deep)
        for ((n = 0; n < 10 * SCALE; n++)); do
            deep=$deep/d && mkdir "$deep"
            head -c 40960 /dev/urandom | split -b 4096 -a 2 -d - "$deep/"
        done
        ;;
    esac
}

# What is on the device, as quick as memory or as the device that is named.
attach() { # [ssd|hdd]
    case ${1:-} in
    "") LOOP=$(losetup -f --show "$MEMORY/content") && mount "$LOOP" "$DISK/mnt" && return ;;
    ssd) set -- 500000000 100 0 ;;
    hdd) set -- 150000000 0 8000 ;;
    esac
    chrt -f 1 "$DISK/simulate" "$MEMORY/content" "$DISK/device" "$@"
    LOOP=$(losetup -f --show --direct-io=on "$DISK/device")
    [ "$3" = 0 ] || turning "$LOOP"
    mount "$LOOP" "$DISK/mnt"
}
turning() { # device: to this script and what it starts, a disk that turns
    local number
    number=$(cat "/sys/block/${1#/dev/}/dev")
    mountpoint -q /sys/dev/block || mount -t tmpfs none /sys/dev/block
    mkdir -p "/sys/dev/block/$number/queue" && echo 1 >"/sys/dev/block/$number/queue/rotational"
}
make_device() { # workload device
    detach
    rm -rf "$MEMORY/content" "$MEMORY/src"
    # Filled, so that no memory is sought for while it is measured.
    LC_ALL=C head -c 1G /dev/zero >"$MEMORY/content"
    mkfs.ext4 -q -E lazy_itable_init=0,lazy_journal_init=0,nodiscard "$MEMORY/content"
    attach && make_source "$1" "$DISK/mnt/src" "$2" && detach
}

run() { # row workers
    local device workload start jobs=()
    IFS=/ read -r device workload _ <<<"$1"
    [ "$2" = default ] || jobs=(--jobs "$2")
    case $device in
    ssd | hdd)
        detach
        attach && rm -rf "$DISK/mnt/out" && detach
        attach "$device"
        SRC=$DISK/mnt/src DST=$DISK/mnt/out
        ;;
    disk) DST=$DISK/out/$((++RUN)) && mkdir -p "$DISK/out" ;;
    tmpfs) DST=$MEMORY/out && rm -rf "$DST" ;;
    esac
    [ "$device" != disk ] || sync
    start=$EPOCHREALTIME
    "$DIRCOPY" -q "${jobs[@]}" -i "$SRC" -o "$DST"
    jq -nc --arg row "$1" --arg name "$2" --argjson from "$start" --argjson to "$EPOCHREALTIME" \
        '{row: $row, name: $name, seconds: ($to - $from)}' >>"$OUT/runs.jsonl"
}

run_row() { # row
    local device workload numbers i round
    IFS=/ read -r device workload _ <<<"$1"
    case $device in
    ssd | hdd)
        [ "$(id -u)" = 0 ] && [ -e /dev/fuse ] && gcc -O2 -o "$DISK/simulate" benches/device.c ||
            { note "skipping $1: needs root, FUSE and gcc" && return; }
        make_device "$workload" "$device"
        ;;
    disk) SRC=$DISK/src && rm -rf "$SRC" && make_source "$workload" "$SRC" "$device" ;;
    tmpfs) detach && SRC=$MEMORY/src && rm -rf "$SRC" "$MEMORY"/{out,content} && make_source "$workload" "$SRC" "$device" ;;
    esac
    read -ra numbers <<<"$WORKERS default"
    for ((round = 0; round < ROUNDS; round++)); do
        for ((i = 0; i < ${#numbers[@]}; i++)); do
            run "$1" "${numbers[(i + round) % ${#numbers[@]}]}"
        done
    done
    jq -nc --arg row "$1" --argjson files "$(find "$SRC" -type f | wc -l)" \
        --argjson bytes "$(du -sb --apparent-size "$SRC" | cut -f1)" '{$row, $files, $bytes}' >>"$OUT/rows.jsonl"
}
RUN=0
[ -n "$MORE" ] || rm -f "$OUT"/{runs,rows}.jsonl
touch "$OUT"/{runs,rows}.jsonl
for row in $(rows | grep -E -- "$ROWS"); do run_row "$row"; done

jq -n --slurpfile rows "$OUT/rows.jsonl" --slurpfile runs "$OUT/runs.jsonl" --arg date "$(date -u +%FT%TZ)" \
    --arg cpu "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)" --argjson cores "$(nproc)" \
    --arg memory "$(awk '/MemTotal/ { printf "%.0f GiB", $2 / 1048576 }' /proc/meminfo)" \
    --arg kernel "$(uname -sr)" --arg quick "$QUICK" '
    def median: sort | (.[(length - 1) / 2 | floor] + .[length / 2 | floor]) / 2;
    {machine: {$date, $cpu, $cores, $memory, $kernel, rounds: ([$runs[] | [.row, .name]] | group_by(.) | map(length) | "\(min) to \(max)"),
            quick: ($quick != ""), beside: "one worker"},
     rows: [$rows | group_by(.row)[] | last | . as $row | . + {contenders: ([$runs[] | select(.row == $row.row)] | group_by(.name)
        | (map(select(.[0].name == "1"))[0] // .[0] | map(.seconds) | median) as $base
        | map({name: (if .[0].name == "default" then "dircopy itself" elif .[0].name == "1" then "1 worker" else .[0].name + " workers" end),
            runs: map(.seconds), median: (map(.seconds) | median), min: (map(.seconds) | min),
            max: (map(.seconds) | max), ratio: ((map(.seconds) | median) / $base)}))}]}' >"$OUT/scaling.json"
jq -r '
    def told: . * 1000 | round / 1000 | tostring;
    def short: . * 100 | round / 100 | tostring;
    def cell: if . then "\(.median | told) (\(.min | told), \(.runs | length))" else "" end;
    ([.rows[].contenders[].name | select(test("workers?$"))] | unique | sort_by(split(" ")[0] | tonumber)) as $names
    | "| work: median (least, of so many) | " + ($names | join(" | ")) + " | as chosen | beside the best: medians, least | within 1.05 |",
      "|---|" + ($names | map("--:|") | add) + "--:|--:|---|",
      (.rows[] | . as $row | def of($name): [$row.contenders[] | select(.name == $name)][0];
        of("dircopy itself") as $own
        | [.contenders[] | select(.name != "dircopy itself")] as $fixed
        | ($own.median / ([$fixed[].median] | min)) as $medians | ($own.min / ([$fixed[].min] | min)) as $least
        | "| \(.row), \(.files) files, \(.bytes / 1048576 | round) MiB | " + ($names | map(of(.) | cell) | join(" | ")) + " | \($own | cell) | "
          + "\($medians | short), \($least | short) | "
          + (if $medians <= 1.05 and $least <= 1.05 then "yes" elif $medians > 1.05 and $least > 1.05 then "**no**" else "not shown" end) + " |")' \
    "$OUT/scaling.json" | tee "$OUT/scaling.md"
note "written: $OUT/scaling.json, $OUT/scaling.md"
