#!/usr/bin/env bash
# What the states of large files cost while copying, and what they gain in a check.
#
#   benches/chains.sh [--rounds N] [--mib N] [--rows REGEX] [--memory DIR] [--scratch DIR] [--quick]
#
#   --rounds N     runs of each contender in each row (7)
#   --mib N        size of the one file in MiB (2048)
#   --rows REGEX   only the rows whose name matches (grep -E): check, check-simd-off, check-cold, copy, copy-verify
#   --memory DIR   where to work in memory (/dev/shm): three times the size is needed
#   --scratch DIR  where to work on the real disk ($TMPDIR or /tmp), for check-cold; all of it is removed at the end
#   --quick        32 MiB, one round, debug build: shows that the script works
#
# check            one file in memory: with its states, without them, and one SHA-256 stream of the sha2 crate
# check-simd-off   the same without vector registers
# check-cold       from the disk, nothing of it in memory: with its states, without, and dd with direct reads
# copy             one file in memory to memory, not synced: with states, and with --states none
# copy-verify      to the disk and read back: with states, and with --states none
#
# Contenders take turns, and each round starts with another one. What is told is the median with the least and the
# most, and the quotient of the medians of each contender and of the one without states.
set -euo pipefail
cd "$(dirname "$0")/.."
ROUNDS=7 MIB=2048 ROWS=. MEMORY=/dev/shm SCRATCH=${TMPDIR:-/tmp} PROFILE=release
while [ $# -gt 0 ]; do
    case $1 in
    --rounds) ROUNDS=$2 && shift ;;
    --mib) MIB=$2 && shift ;;
    --rows) ROWS=$2 && shift ;;
    --memory) MEMORY=$(realpath "$2") && shift ;;
    --scratch) SCRATCH=$(realpath "$2") && shift ;;
    --quick) ROUNDS=1 MIB=32 PROFILE=dev ;;
    *) sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "$0" >&2 && exit 2 ;;
    esac
    shift
done
cargo build --quiet --locked --profile "$PROFILE" --bins --example sha2_alone
target=${CARGO_TARGET_DIR:-$PWD/target}/${PROFILE/dev/debug}
export PATH=$target:$target/examples:$PATH
DIR=$(mktemp -d "$MEMORY/dircopy-chains.XXXXXX")
DISK=$(mktemp -d "$SCRATCH/dircopy-chains.XXXXXX")
trap 'rm -rf --one-file-system "$DIR" "$DISK"' EXIT
mkdir "$DIR/src"
head -c "${MIB}M" /dev/urandom >"$DIR/src/film"
copy() { dircopy -q -i "$DIR/src" -o "$@"; }

contenders() {
    cat <<'TABLE'
check          | without | dirverify -q --from cache "$DIR/without"
check          | with    | dirverify -q --from cache "$DIR/with"
check          | sha2    | sha2_alone "$MIB"
check-simd-off | without | dirverify -q --from cache --simd off "$DIR/without"
check-simd-off | with    | dirverify -q --from cache --simd off "$DIR/with"
check-cold     | without | dirverify -q "$DISK/without"
check-cold     | with    | dirverify -q "$DISK/with"
check-cold     | dd      | dd if="$DISK/with/film" of=/dev/null bs=1M iflag=direct status=none
copy           | without | copy "$DIR/new" --no-sync --states none
copy           | with    | copy "$DIR/new" --no-sync
copy-verify    | without | copy "$DISK/new" --verify --states none
copy-verify    | with    | copy "$DISK/new" --verify
TABLE
}
rows() { contenders | cut -d'|' -f1 | tr -d ' ' | uniq | grep -E -- "$ROWS"; }

# Everything that is measured of this row is where it belongs.
prepare() {
    rm -rf "$DIR"/with* "$DISK"/with*
    local at=$DIR
    case $1 in
    check-cold) at=$DISK ;;
    check*) ;;
    *) return ;;
    esac
    copy "$at/with" && copy "$at/without" --states none
}
before() {
    rm -rf "$DIR/new" "$DISK/new"
    case $1 in
    check-cold) find "$DISK" -type f -exec dd status=none of={} oflag=nocache conv=notrunc,fdatasync count=0 \; ;;
    copy-verify) sync -f "$DISK" ;;
    esac
}
once() { # command: seconds
    local start end
    start=$(date +%s%N)
    eval "$1" >/dev/null
    end=$(date +%s%N)
    echo $(((end - start) / 1000))
}

echo "$(nproc) processors, one file of $MIB MiB, $ROUNDS rounds, dircopy $(dircopy --version | awk '{ print $2 }')"
for row in $(rows); do
    prepare "$row"
    mapfile -t lines < <(contenders | awk -F'|' -v row="$row" '{ name = $1; gsub(/ /, "", name) } name == row')
    for ((round = 0; round < ROUNDS; round++)); do
        for ((n = 0; n < ${#lines[@]}; n++)); do
            IFS='|' read -r _ who command <<<"${lines[(n + round) % ${#lines[@]}]}"
            before "$row"
            echo "$(once "$command") $(tr -d ' ' <<<"$who")"
        done
    done | sort -k2,2 -k1,1n | awk -v row="$row" '
        { times[$2, ++count[$2]] = $1 / 1e6 }
        END {
            for (who in count) {
                n = count[who]
                median[who] = n % 2 ? times[who, (n + 1) / 2] : (times[who, n / 2] + times[who, n / 2 + 1]) / 2
            }
            for (who in count)
                printf "%-15s %-8s %7.3f s (%.3f to %.3f)  %.3f\n", row, who, median[who], times[who, 1],
                    times[who, count[who]], median[who] / median["without"]
        }' | sort
    if [ -d "$DIR/with" ]; then
        echo "$row: $(stat -c %s "$DIR"/with/*.states) bytes of states for $(stat -c %s "$DIR/with/film")"
    fi
done
