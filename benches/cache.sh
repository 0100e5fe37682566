#!/usr/bin/env bash
# What a copy does to the page cache: how much of source and output is in it afterwards, and whether
# what another program had there still is.
#
#   benches/cache.sh [--gib N] [--scratch DIR] [DIRCOPY-OPTIONS…]
#
#   --gib N        size of the source, in files of 256 MiB (8)
#   --scratch DIR  where to work, on a real disk ($TMPDIR or /tmp); all of it is removed at the end
#
# A file of 1 GiB that is no part of the copy is read first, so it is in memory. Source and output
# are not. Then dircopy and `cp -r && sync -f` copy, one after the other, each to a fresh directory;
# `fincore` tells what is in memory. Machines may let go of memory by themselves (a virtual one whose host wants
# it back: /sys/kernel/mm/damon), so in a further round nothing is done for as long as a copy took: what the
# other file loses there is not the copy's doing.
set -euo pipefail
cd "$(dirname "$0")/.."
GIB=8 SCRATCH=${TMPDIR:-/tmp}
while [ $# -gt 0 ]; do
    case $1 in
    --gib) GIB=$2 && shift 2 ;;
    --scratch) SCRATCH=$2 && shift 2 ;;
    *) break ;;
    esac
done
cargo build --quiet --locked --release --bins
dircopy=${CARGO_TARGET_DIR:-$PWD/target}/release/dircopy
DIR=$(mktemp -d "$SCRATCH/dircopy-cache.XXXXXX")
trap 'rm -rf --one-file-system "$DIR"' EXIT
mkdir "$DIR/src"
for i in $(seq $((GIB * 4))); do head -c 256M /dev/urandom >"$DIR/src/$i"; done
head -c 1G /dev/urandom >"$DIR/other"

in_memory() { find "$@" -type f -exec fincore --bytes -n -o RES {} + | awk '{ s += $1 } END { printf "%d\n", s / 1048576 }'; }
forget() {
    sync
    find "$DIR" -type f -exec dd status=none of={} oflag=nocache conv=notrunc,fdatasync count=0 \;
    cat "$DIR/other" >/dev/null
}
round() { # name command…
    local name=$1 start
    shift
    forget
    local before other
    before=$(in_memory "$DIR/src") other=$(in_memory "$DIR/other")
    start=$(date +%s.%N)
    "$@" >/dev/null
    TOOK=$(echo "$(date +%s.%N) - $start" | bc)
    printf '%-12s %7.2f s  source %+d MiB, output %d MiB, other file %d of %d MiB\n' "$name" \
        "$TOOK" $(($(in_memory "$DIR/src") - before)) \
        "$([ ! -d "$DIR/out" ] || in_memory "$DIR/out")" "$(in_memory "$DIR/other")" "$other"
    rm -rf "$DIR/out"
}
cp_durable() { cp -r "$DIR/src" "$DIR/out" && sync -f "$DIR/out"; }
round dircopy "$dircopy" "$@" -q -i "$DIR/src" -o "$DIR/out"
round nothing sleep "$TOOK"
round cp cp_durable
round dircopy "$dircopy" "$@" -q -i "$DIR/src" -o "$DIR/out"
round cp cp_durable
