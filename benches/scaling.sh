#!/usr/bin/env bash
# What the number of lanes gains: 1 to 8 of them, and as many as dircopy chooses itself, on several devices.
#
#   benches/scaling.sh [--rows REGEX] [--rounds N] [--lanes "N …"] [--quick]
#                      [--program FILE] [--scratch DIR] [--out DIR]
#
#   --rows REGEX   only the rows whose name matches (grep -E); --list prints the names
#   --rounds N     runs of each number of lanes in each row (5)
#   --lanes "N …"  which numbers ("1 2 3 4 6 8")
#   --quick        tiny data, one round, debug build: shows that the script works
#   --program FILE measure this dircopy instead of one built here
#   --scratch DIR  where to work on the real disk ($TMPDIR or /tmp); all of it is removed at the end
#   --out DIR      where scaling.json and scaling.md go (target/scaling); draw it with
#                  benches/plots.sh target/scaling/scaling.json docs/plots/scaling
#
# A row is DEVICE/WORKLOAD/CACHE/FINISH. `tmpfs` is memory, `disk` is below the scratch directory. `ssd` and `hdd`
# are ext4 on devices that take as long as they are told to (benches/device.c; root, FUSE, loop devices, gcc):
# 500 MB/s and 100 µs for any number of requests at a time, and 150 MB/s with one head that needs 8 ms to
# get elsewhere. Source and output are both on the device, and but for tmpfs everything is made durable. On
# `ssd` and `hdd` nothing is in memory at first, and the output is removed behind the device's back. dircopy
# believes no loop device to turn, so /sys says it of another in a mount namespace of the script's own.
#
# Numbers of lanes take turns; each round starts with another one. What is told is the median. Below each row
# stands how the default compares with the best fixed number.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ "$(id -u)" = 0 ] && [ ! "${DIRCOPY_SCALING:-}" ]; then
    DIRCOPY_SCALING=private exec unshare -m --propagation slave "$0" "$@"
fi
ROWS=. ROUNDS=5 LANES="1 2 3 4 6 8" QUICK="" LIST="" DIRCOPY="" SCRATCH=${TMPDIR:-/tmp} OUT=$PWD/target/scaling
while [ $# -gt 0 ]; do
    case $1 in
    --rows) ROWS=$2 && shift ;;
    --rounds) ROUNDS=$2 && shift ;;
    --lanes) LANES=$2 && shift ;;
    --quick) QUICK=yes ;;
    --program) DIRCOPY=$(realpath "$2") && shift ;;
    --scratch) SCRATCH=$(realpath "$2") && shift ;;
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
    for workload in files-1k files-10k files-100k unchanged-1k unchanged-10k unchanged-100k unchanged-1m; do
        echo "tmpfs/$workload/warm/plain"
    done
}
[ -z "$LIST" ] || { rows && exit; }
note() { echo "scaling: $*" >&2; }
SCALE=16 PROFILE=release
[ -z "$QUICK" ] || { SCALE=1 ROUNDS=1 LANES="1 2" PROFILE=dev; }
if [ -z "$DIRCOPY" ]; then
    cargo build --quiet --locked --profile $PROFILE --bins
    DIRCOPY=${CARGO_TARGET_DIR:-$PWD/target}/${PROFILE/dev/debug}/dircopy
fi

DISK=$(mktemp -d "$SCRATCH/dircopy-scaling.XXXXXX") MEMORY=$(mktemp -d /dev/shm/dircopy-scaling.XXXXXX)
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
        head -c $(((left < $4 ? left : $4) * $3)) /dev/urandom | split -b "$3" -a 4 -d - "$dir/"
    done
}
make_source() { # workload dir
    local n deep=$2
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
    *-1k) files "$2" 1000 4096 1000 ;;
    *-10k) files "$2" 10000 4096 1000 ;;
    *-100k) files "$2" 100000 4096 1000 ;;
    *-1m) files "$2" 1000000 7 10000 ;;
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
make_device() { # workload
    detach
    rm -rf "$MEMORY/content" "$MEMORY/src"
    # Filled, so that no memory is sought for while it is measured.
    head -c 1G /dev/zero >"$MEMORY/content"
    mkfs.ext4 -q -E lazy_itable_init=0,lazy_journal_init=0,nodiscard "$MEMORY/content"
    attach && make_source "$1" "$DISK/mnt/src" && detach
}

run() { # row lanes
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
    tmpfs) DST=$MEMORY/out && [[ $workload = unchanged-* ]] || rm -rf "$DST" ;;
    esac
    if [[ $workload = unchanged-* ]] && [ ! -d "$DST" ]; then "$DIRCOPY" -q -i "$SRC" -o "$DST"; fi
    [ "$device" != disk ] || sync
    start=$EPOCHREALTIME
    "$DIRCOPY" -q "${jobs[@]}" -i "$SRC" -o "$DST"
    jq -nc --arg row "$1" --arg name "$2" --argjson from "$start" --argjson to "$EPOCHREALTIME" \
        '{row: $row, name: $name, seconds: ($to - $from)}' >>"$DISK/runs.jsonl"
}

run_row() { # row
    local device workload numbers i round
    IFS=/ read -r device workload _ <<<"$1"
    case $device in
    ssd | hdd)
        [ "$(id -u)" = 0 ] && [ -e /dev/fuse ] && gcc -O2 -o "$DISK/simulate" benches/device.c ||
            { note "skipping $1: needs root, FUSE and gcc" && return; }
        make_device "$workload"
        ;;
    disk) SRC=$DISK/src && rm -rf "$SRC" && make_source "$workload" "$SRC" ;;
    tmpfs) detach && SRC=$MEMORY/src && rm -rf "$SRC" "$MEMORY"/{out,content} && make_source "$workload" "$SRC" ;;
    esac
    read -ra numbers <<<"$LANES default"
    for ((round = 0; round < ROUNDS; round++)); do
        for ((i = 0; i < ${#numbers[@]}; i++)); do
            run "$1" "${numbers[(i + round) % ${#numbers[@]}]}"
        done
    done
    jq -n --arg row "$1" --argjson files "$(find "$SRC" -type f | wc -l)" \
        --argjson bytes "$(du -sb --apparent-size "$SRC" | cut -f1)" '{$row, $files, $bytes}' >>"$DISK/rows.jsonl"
    jq -rs --arg row "$1" '
        def median: sort | (.[(length - 1) / 2 | floor] + .[length / 2 | floor]) / 2;
        def told: (. * 1000 | round / 1000 | tostring);
        [.[] | select(.row == $row)] | group_by(.name) | map({name: .[0].name, median: map(.seconds) | median})
        | (map(select(.name == "default"))[0].median) as $own | map(select(.name != "default"))
        | min_by(.median) as $best
        | $row + ": " + (map(.name + ": " + (.median | told)) | join(", ")) + "; default " + ($own | told)
          + ", " + ($own / $best.median | told) + " of the best (" + $best.name + ")"' "$DISK/runs.jsonl" | tee -a "$OUT/scaling.md"
}
RUN=0
: >"$DISK/runs.jsonl" && : >"$DISK/rows.jsonl" && : >"$OUT/scaling.md"
for row in $(rows | grep -E -- "$ROWS"); do run_row "$row"; done

jq -n --slurpfile rows "$DISK/rows.jsonl" --slurpfile runs "$DISK/runs.jsonl" --arg date "$(date -u +%FT%TZ)" \
    --arg cpu "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)" --argjson cores "$(nproc)" \
    --arg memory "$(awk '/MemTotal/ { printf "%.0f GiB", $2 / 1048576 }' /proc/meminfo)" \
    --arg kernel "$(uname -sr)" --argjson rounds "$ROUNDS" --arg quick "$QUICK" '
    def median: sort | (.[(length - 1) / 2 | floor] + .[length / 2 | floor]) / 2;
    {machine: {$date, $cpu, $cores, $memory, $kernel, $rounds, quick: ($quick != ""), beside: "one lane"},
     rows: [$rows[] | . as $row | . + {contenders: ([$runs[] | select(.row == $row.row)] | group_by(.name)
        | (map(select(.[0].name == "1"))[0] // .[0] | map(.seconds) | median) as $base
        | map({name: (if .[0].name == "default" then "dircopy itself" else .[0].name + " lanes" end),
            runs: map(.seconds), median: (map(.seconds) | median), min: (map(.seconds) | min),
            max: (map(.seconds) | max), ratio: ((map(.seconds) | median) / $base)}))}]}' >"$OUT/scaling.json"
note "written: $OUT/scaling.json, $OUT/scaling.md"
