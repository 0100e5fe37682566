#!/usr/bin/env bash
# dircopy beside the other copiers, as whole programs, on several file systems.
#
# A micro-benchmark says what a change did; only whole programs on whole trees say whether anybody
# should use this one. Each line of a table is a program that a user would otherwise run, and each
# table is one row: FILE-SYSTEM/WORKLOAD/CACHE/FINISH, for example `disk/many-small/warm/durable`.
#
#   benches/compare.sh [--rows REGEX] [--rounds N] [--quick] [--tree DIR] [--scratch DIR] [--out DIR]
#
#   --rows REGEX   the rows whose name matches (grep -E); --list prints all names. Without it the rows of the
#                  table in docs/performance.md, which take about 20 minutes; all (--rows .) take hours
#   --rounds N     runs of each contender in each row (3)
#   --quick        tiny data, one round, debug build, installs nothing: shows that the script works,
#                  its figures mean nothing
#   --tree DIR     the real tree to copy (~/.cargo/registry/src)
#   --scratch DIR  where to work on the real disk ($TMPDIR or /tmp); all of it is removed at the end
#   --out DIR      where compare.json and compare.md go (target/compare)
#
# What makes the figures comparable:
#   * Contenders alternate: every round runs each of them once, and each round starts with another
#     one, so that a drift of the machine or an after-effect of the neighbour meets all of them.
#   * Every run has a fresh destination, and the runs on loop devices a fresh file system. Where many
#     files were made on the real disk nothing is deleted until the script ends: ext4 avoids inodes
#     that were freed lately, so creating files after deleting many is up to ten times slower.
#   * Dirty pages are written out before each run, and `warm` means that every byte of the source
#     was read just before; `cold` means that the page cache was dropped (root only).
#   * Before a row counts, each contender copies a small tree; one that is missing, does not know its
#     options or does not copy what it was given is left out with a note. After every run the
#     destination is counted: a copier that leaves files out would be fast.
#   * Loop devices lie in memory and are filled from memory: what they show is the file system's and
#     the program's work, not a disk's. Source and destination are different file systems there, so
#     that nobody gets away with a clone. On `disk` both lie on the scratch directory's file system.
#   * `throttled` is ext4 on such a device to which no more than 271 MB a second can be written (cgroup v1,
#     blkio, root); that it holds is tried with `dd oflag=direct` first. Two rounds, and no copier that only waits.
#   * `plain` ends when the program does, `durable` when the data is on the medium.
#
# What stays different: `cp -r` and cpz keep no time stamps, xcp and rsync -a do; of them only rsync
# writes a temporary name and renames it; none but dircopy and the sha256sum line hash anything. Without
# `--cache keep` dircopy writes out what it wrote as it goes, also where it does not wait for the end.
# What is left in the page cache is the business of benches/cache.sh.

set -euo pipefail
cd "$(dirname "$0")/.."

# --- what is compared -----------------------------------------------------------------------------

XCP=0.24.9 CPZ=3.2.1

# NAME | FINISH | COMMAND. The first of each finish is what the others are compared with. Commands
# see $SRC and $DST; $DST does not exist yet, its parent does.
contenders() {
    cat <<'TABLE'
cp -r                    | plain   | cp -r "$SRC" "$DST"
dircopy                  | plain   | dircopy --no-sync -i "$SRC" -o "$DST"
dircopy --hash none      | plain   | dircopy --no-sync --hash none -i "$SRC" -o "$DST"
dircopy keep             | plain   | dircopy --no-sync --cache keep -i "$SRC" -o "$DST"
dircopy none keep        | plain   | dircopy --no-sync --cache keep --hash none -i "$SRC" -o "$DST"
cp -r --reflink=never    | plain   | cp -r --reflink=never "$SRC" "$DST"
rsync -a                 | plain   | rsync -a "$SRC/" "$DST"
xcp -r                   | plain   | xcp -r "$SRC" "$DST"
cpz                      | plain   | cpz "$SRC" "$DST"
cp -r, then sha256sum    | plain   | cp -r "$SRC" "$DST" && cd "$DST" && find . -type f -print0 | xargs -0 sha256sum > "$DST.sha256sum"
cp -r && sync -f         | durable | cp -r "$SRC" "$DST" && sync -f "$DST"
dircopy                  | durable | dircopy -i "$SRC" -o "$DST"
dircopy --hash none      | durable | dircopy --hash none -i "$SRC" -o "$DST"
dircopy keep             | durable | dircopy --cache keep -i "$SRC" -o "$DST"
rsync -a --fsync         | durable | rsync -a --fsync "$SRC/" "$DST"
xcp -r --fsync           | durable | xcp -r --fsync "$SRC" "$DST"
TABLE
}

WORKLOADS=(one-large large middling many-small tree)

# What is said of dircopy's speed is said of these.
TABLE='^tmpfs/(one-)?large/|^disk/(one-)?large/.*/durable|^tmpfs/middling/|^(tmpfs|ext4|xfs|btrfs)/many-small/.*/plain'
TABLE+='|^disk/(middling|many-small)/.*/durable|^disk/tree/cold/durable|^throttled'

# Of the device that writes slowly; bytes a second.
LIMIT=271000000

# A workload's source is made once on each medium. `middling` is 20 directories of 500 files of 100 KB, as
# photographs and frames are: too long to cost nothing but calls, and too short for a chain of threads. `many-small` is 50 directories of 1000 files: one
# flat directory of 50,000 measures the file system's directory index instead.
make_source() { # workload dir
    mkdir -p "$2"
    case $1 in
    one-large) random_file "$2/file" "$ONE_LARGE" ;;
    throttled-large) random_file "$2/file" "$THROTTLED" ;;
    large) for i in $(seq 16); do random_file "$2/$i" "$LARGE"; done ;;
    middling)
        for i in $(seq "$MIDDLING_DIRS"); do
            mkdir -p "$2/$i"
            head -c $((500 * 100000)) /dev/urandom | split -b 100000 -a 4 -d - "$2/$i/"
        done
        ;;
    many-small)
        # One stream cut into pieces; nobody here compares contents of one file with another's.
        for i in $(seq "$SMALL_DIRS"); do
            mkdir -p "$2/$i"
            head -c $((1000 * 4096)) /dev/urandom | split -b 4096 -a 4 -d - "$2/$i/"
        done
        ;;
    tree) cp -r "$TREE/." "$2" ;;
    esac
}

random_file() { head -c "$2" /dev/urandom >"$1"; }

rows() {
    local fs workload
    for workload in "${WORKLOADS[@]}"; do
        for fs in tmpfs ext4 xfs btrfs disk; do
            echo "$fs/$workload/warm/plain"
            [ $fs = tmpfs ] || echo "$fs/$workload/warm/durable"
        done
        echo "disk/$workload/cold/plain"
        echo "disk/$workload/cold/durable"
    done
    echo throttled/throttled-large/warm/durable
}

# --- options --------------------------------------------------------------------------------------

ROWS=$TABLE ROUNDS=3 QUICK="" LIST="" OUT=$PWD/target/compare
SCRATCH=${TMPDIR:-/tmp} TREE=${CARGO_HOME:-$HOME/.cargo}/registry/src
usage() { sed -n '2,/^$/ s/^# \{0,1\}//p' "$0"; }
while [ $# -gt 0 ]; do
    case $1 in
    --rows) ROWS=$2 && shift ;;
    --rounds) ROUNDS=$2 && shift ;;
    --quick) QUICK=yes ;;
    --tree) TREE=$(realpath "$2") && shift ;;
    --scratch) SCRATCH=$(realpath "$2") && shift ;;
    --out) mkdir -p "$2" && OUT=$(realpath "$2") && shift ;;
    --list) LIST=yes ;;
    --help | -h) usage && exit ;;
    *) usage >&2 && exit 2 ;;
    esac
    shift
done
[ -z "$LIST" ] || { rows && exit; }

note() { echo "compare: $*" >&2; }
for tool in hyperfine jq; do
    command -v $tool >/dev/null || { note "needs $tool" && exit 2; }
done

ONE_LARGE=$((2 << 30)) LARGE=$((128 << 20)) SMALL_DIRS=50 MIDDLING_DIRS=20 THROTTLED=$((3 << 30)) PROFILE=release SHA2_MIB=2048
if [ "$QUICK" ]; then
    ONE_LARGE=$((8 << 20)) LARGE=$((1 << 20)) SMALL_DIRS=1 MIDDLING_DIRS=1 THROTTLED=$((64 << 20)) ROUNDS=1 PROFILE=dev SHA2_MIB=16
    TREE=$PWD/src
fi

# --- the place to work, and leaving it as it was --------------------------------------------------

DISK=$(mktemp -d "$SCRATCH/dircopy-compare.XXXXXX")
MEMORY=$([ ! -d /dev/shm ] || mktemp -d /dev/shm/dircopy-compare.XXXXXX)
MOUNT=$DISK/mnt
LOOP=""
detach() {
    ! mountpoint -q "$MOUNT" || umount "$MOUNT"
    [ -z "$LOOP" ] || { throttle 0 && losetup -d "$LOOP"; }
    LOOP="" && rm -f "${MEMORY:-$DISK}/image"
}
# A new loop device, of so many bytes in memory. Who mounts it by `-o loop` meets it go away by itself.
attach() { # bytes
    rm -f "$MEMORY/image" && truncate -s "$1" "$MEMORY/image"
    LOOP=$(losetup -f --show "$MEMORY/image")
}
throttle() { # bytes a second, or 0
    [ ! -w $BLKIO ] || echo "$(cat "/sys/block/${LOOP#/dev/}/dev") $1" >$BLKIO
}
BLKIO=/sys/fs/cgroup/blkio/blkio.throttle.write_bps_device
cleanup() {
    set +e
    detach
    rm -rf --one-file-system "$DISK" ${MEMORY:+"$MEMORY"}
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
mkdir -p "$MOUNT" "$OUT"
: >"$DISK/runs.jsonl"

# --- programs -------------------------------------------------------------------------------------

cargo build --quiet --locked --profile $PROFILE --bins --example sha2_alone
target=${CARGO_TARGET_DIR:-$PWD/target}/${PROFILE/dev/debug}
peers=${XDG_CACHE_HOME:-$HOME/.cache}/dircopy-compare
PATH=$target:$peers/bin:$PATH
[ "$QUICK" ] || cargo install --quiet --locked --root "$peers" xcp@$XCP cpz@$CPZ ||
    note "xcp or cpz could not be installed"

# --- one run --------------------------------------------------------------------------------------

FILES='find . -type f ! -name "*.sha256sum" -printf "%s\n"'
count() { (cd "$1" && eval "$FILES" | awk '{ bytes += $1 } END { printf "%d %.0f\n", NR, bytes }'); }

# Sets DST to a path that does not exist, on the row's file system, made new where that is possible.
fresh_destination() { # fs
    case $1 in
    disk) DST=$DISK/out/$((++RUN)) ;;
    tmpfs) DST=$MEMORY/out/$((++RUN)) ;;
    *)
        attach "$IMAGE_SIZE"
        # Without the lazy parts: a kernel thread that finishes them would run beside the contender.
        case $1 in
        ext4 | throttled) mkfs.ext4 -q -E lazy_itable_init=0,lazy_journal_init=0 "$LOOP" ;;
        xfs) mkfs.xfs -q "$LOOP" ;;
        btrfs) mkfs.btrfs -q "$LOOP" >/dev/null 2>&1 ;; # -q still explains itself
        esac
        mount "$LOOP" "$MOUNT" && DST=$MOUNT/out/$((++RUN))
        [ "$1" != throttled ] || throttle $LIMIT
        ;;
    esac
    mkdir -p "$(dirname "$DST")"
}
RUN=0

drop_destination() { # fs workload
    case $1/$2 in
    disk/middling | disk/many-small | disk/tree) ;; # see the top of this file
    disk/* | tmpfs/*) rm -rf "$DST" "$DST.sha256sum" ;;
    *) detach ;;
    esac
}

prepare_cache() { # cache
    sync
    case $1 in
    warm) find "$SRC" -type f -exec cat {} + >/dev/null ;;
    cold) echo 3 >/proc/sys/vm/drop_caches ;;
    esac
}

# Appends a line to runs.jsonl; a contender that fails has a line without a time.
run() { # row name command
    local fs workload cache finish times=$DISK/hyperfine.json
    IFS=/ read -r fs workload cache finish <<<"$1"
    fresh_destination "$fs"
    export SRC DST
    prepare_cache "$cache"
    rm -f "$times"
    timeout 1800 hyperfine --runs 1 --style none --export-json "$times" "$3" >/dev/null 2>&1 ||
        rm -f "$times"
    if [ -f "$times" ] && [ "$(count "$DST")" != "$SRC_COUNT" ]; then
        note "$1: $2: the copy is not complete"
        rm -f "$times"
    fi
    [ -f "$times" ] || echo '{"results":[{}]}' >"$times"
    jq -c --arg row "$1" --arg name "$2" --arg command "$3" \
        '.results[0] | {row: $row, name: $name, command: $command, seconds: .mean, user, system}' \
        "$times" >>"$DISK/runs.jsonl"
    drop_destination "$fs" "$workload"
}

# --- who takes part -------------------------------------------------------------------------------

# Who copies a small tree completely takes part; FIELD has its lines as FINISH|NAME|COMMAND.
choose_contenders() {
    local name finish command why
    FIELD=()
    SRC=$DISK/trial
    mkdir -p "$SRC/d" "$DISK/trial-out"
    cp -r src "$SRC/d" && echo a >"$SRC/a"
    while IFS='|' read -r name finish command; do
        name=$(xargs <<<"$name") finish=$(xargs <<<"$finish") command=${command# }
        DST=$DISK/trial-out/$((++RUN))
        export SRC DST
        if ! why=$(timeout 60 sh -c "$command" 2>&1 >/dev/null); then
            note "without $name ($finish): $(head -n 1 <<<"${why:-it failed}")"
        elif ! why=$(diff -rq -x '*.sha256sum' "$SRC" "$DST" 2>&1); then
            note "without $name ($finish): it did not copy: $(head -n 1 <<<"$why")"
        else
            FIELD+=("$finish|$name|$command")
        fi
    done < <(contenders)
}

# --- rows -----------------------------------------------------------------------------------------

# Says why a row cannot be run here, or nothing.
hindrance() { # fs workload cache
    if [ "$2" = tree ] && [ ! -d "$TREE" ]; then echo "no tree $TREE"; fi
    if [ "$1" != disk ] && [ -z "$MEMORY" ]; then echo "no /dev/shm"; fi
    if [ "$3" = cold ] && [ ! -w /proc/sys/vm/drop_caches ]; then echo "only root drops caches"; fi
    case $1 in
    ext4 | xfs | btrfs)
        [ "$(id -u)" = 0 ] || echo "only root mounts"
        command -v "mkfs.$1" >/dev/null || echo "no mkfs.$1"
        ;;
    throttled) throttle_holds ;;
    esac
}

# Says why no device can be throttled here, or nothing.
throttle_holds() {
    local rate
    [ "$(id -u)" = 0 ] || { echo "only root mounts" && return; }
    [ -w $BLKIO ] || { echo "no $BLKIO" && return; }
    LC_ALL=C head -c 800M /dev/zero >"$MEMORY/image" # filled, so that dd waits for no memory
    LOOP=$(losetup -f --show "$MEMORY/image")
    throttle $LIMIT
    rate=$(LC_ALL=C dd if=/dev/zero of="$LOOP" bs=1M count=800 oflag=direct 2>&1 |
        awk '/copied/ { for (i = 1; i < NF; i++) if ($i == "copied,") printf "%d", 838860800 / $(i + 1) }')
    detach
    note "dd oflag=direct writes $((rate / 1000000)) MB/s to the throttled device"
    [ "$rate" -gt $((LIMIT * 97 / 100)) ] && [ "$rate" -lt $((LIMIT * 103 / 100)) ] ||
        echo "the limit does not hold: $rate bytes a second"
}

# Bytes that a row fills at its worst: everything that is not deleted between its runs.
need() { # fs workload
    case $1/$2 in
    disk/middling | disk/many-small | disk/tree) echo $((SRC_BYTES * ROUNDS * ${#NAMES[@]} * 3 / 2)) ;;
    disk/* | tmpfs/*) echo $((SRC_BYTES * 3 / 2)) ;;
    *) echo "$IMAGE_SIZE" ;;
    esac
}

run_row() { # row
    local fs workload cache finish medium why round rounds=$ROUNDS i k
    IFS=/ read -r fs workload cache finish <<<"$1"
    why=$(hindrance "$fs" "$workload" "$cache" | head -n 1)
    [ -z "$why" ] || { note "skipping $1: $why" && return; }
    NAMES=() COMMANDS=()
    for i in "${FIELD[@]}"; do
        [ "${i%%|*}" = "$finish" ] || continue
        if [ "$fs" = throttled ]; then
            case $i in *rsync* | *xcp* | *keep*) continue ;; esac
            rounds=$((ROUNDS < 2 ? ROUNDS : 2))
        fi
        i=${i#*|} NAMES+=("${i%%|*}") COMMANDS+=("${i#*|}")
    done

    [ "$fs" = disk ] && medium=$DISK || medium=$MEMORY
    SRC=$medium/src/$workload
    # Memory holds one source at a time: together they would leave little for images and cache.
    [ -d "$SRC" ] || { [ "$fs" = disk ] || rm -rf "$MEMORY/src" && make_source "$workload" "$SRC"; }
    SRC_COUNT=$(count "$SRC") SRC_BYTES=$(du -s --block-size=1 "$SRC" | cut -f1)
    # btrfs wants room for its own; xfs refuses anything below 300 MiB.
    IMAGE_SIZE=$((SRC_BYTES * 2 + (512 << 20)))
    if [ "$(df --output=avail -B1 "$medium" | tail -n 1)" -lt "$(need "$fs" "$workload")" ]; then
        note "skipping $1: not enough room in $medium"
        return
    fi

    note "$1 (row $((++ROW)) of $(rows | grep -cE -- "$ROWS"), after $SECONDS s)"
    for ((round = 0; round < rounds; round++)); do
        for ((i = 0; i < ${#NAMES[@]}; i++)); do
            k=$(((i + round) % ${#NAMES[@]}))
            run "$1" "${NAMES[k]}" "${COMMANDS[k]}"
        done
    done
    jq -n --arg row "$1" --arg count "$SRC_COUNT" '{row: $row, bytes: ($count / " ")[1] | tonumber,
        files: ($count / " ")[0] | tonumber}' >>"$DISK/rows.jsonl"
}

# --- what was found -------------------------------------------------------------------------------

version() { if command -v "$1" >/dev/null; then "$1" --version 2>/dev/null | head -n 1; fi; }

machine() {
    jq -n --arg date "$(date -u +%FT%TZ)" \
        --arg commit "$(git describe --always --dirty 2>/dev/null || true)" \
        --arg cpu "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)" \
        --arg features "$(grep -owE 'sha_ni|avx2|avx512f|sha2' /proc/cpuinfo | sort -u | xargs)" \
        --argjson cores "$(nproc)" \
        --arg memory "$(awk '/MemTotal/ { printf "%.0f GiB", $2 / 1048576 }' /proc/meminfo)" \
        --arg kernel "$(uname -sr)" \
        --arg disk "$(findmnt -no FSTYPE,OPTIONS -T "$DISK" | xargs)" \
        --argjson rounds "$ROUNDS" --argjson limit "$LIMIT" --arg quick "$QUICK" \
        --argjson sha2 "$SHA2" \
        --arg versions "$(for p in dircopy cp rsync xcp cpz hyperfine; do version $p; done)" \
        '{date: $date, commit: $commit, cpu: $cpu, cpu_features: $features, cores: $cores,
          memory: $memory, kernel: $kernel, disk: $disk, rounds: $rounds, limit: $limit, quick: ($quick != ""),
          sha2_alone_seconds_for_2_gib: $sha2, versions: ($versions / "\n" | map(select(. != "")))}'
}

SHA2=$(for _ in 1 2 3; do "$target/examples/sha2_alone" $SHA2_MIB; done | sort -n |
    awk -v mib=$SHA2_MIB 'NR == 2 { print $1 * 2048 / mib }')

choose_contenders
ROW=0
: >"$DISK/rows.jsonl"
for row in $(rows | grep -E -- "$ROWS"); do run_row "$row"; done

jq -n --argjson machine "$(machine)" --slurpfile rows "$DISK/rows.jsonl" \
    --slurpfile runs "$DISK/runs.jsonl" '
    def median: sort | if length == 0 then null
        else (.[(length - 1) / 2 | floor] + .[length / 2 | floor]) / 2 end;
    def times(f): map(f | values);
    {machine: $machine, rows: [$rows[] | . as $row | . + {contenders: (
        [$runs[] | select(.row == $row.row)]
        | [.[0].name] as $reference
        | group_by(.name) | map({
            name: .[0].name, command: .[0].command, runs: map(.seconds),
            failed: map(select(.seconds == null)) | length,
            median: times(.seconds) | median, min: times(.seconds) | min,
            max: times(.seconds) | max,
            cpu: times(if .seconds then .user + .system else null end) | median})
        | (map(select([.name] == $reference)) | .[0].median) as $base
        | map(. + {ratio: (if .median and $base > 0 then .median / $base else null end)})
        | sort_by(.median // infinite))}]}' >"$OUT/compare.json"

jq -r '
    def fixed: if . == null then "–" else
        (. * 1000 | round | tostring) as $n | (4 - ($n | length)) as $pad
        | (if $pad > 0 then "0" * $pad + $n else $n end) | .[:-3] + "." + .[-3:] end;
    .machine as $m |
    "\($m.date), \($m.commit), \($m.cores) × \($m.cpu) (\($m.cpu_features)), \($m.memory), \($m.kernel)  ",
    "disk: \($m.disk)  ", "\($m.versions | join(", "))  ",
    "medians of \($m.rounds) rounds; × is relative to the first cp line"
        + (if $m.quick then "; **quick: these figures mean nothing**" else "" end),
    (.rows[] | "", "### \(.row)", "",
    "\(.files) files, \(.bytes) bytes; SHA-256 of as many bytes on one core: \(.bytes / 2147483648 * $m.sha2_alone_seconds_for_2_gib | fixed) s"
        + (if .row | startswith("throttled") then "; at the rate of the device: \(.bytes / $m.limit | fixed) s" else "" end), "",
    "| | s | min–max | × | CPU s |", "|---|--:|--:|--:|--:|",
    (.contenders[] | "| \(.name) | \(.median | fixed) | \(.min | fixed)–\(.max | fixed) | \(.ratio | fixed) | \(.cpu | fixed) |"
        + (if .failed > 0 then " failed \(.failed) times" else "" end)))
    ' "$OUT/compare.json" | tee "$OUT/compare.md"
note "written: $OUT/compare.json, $OUT/compare.md"
