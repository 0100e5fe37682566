#!/usr/bin/env bash
# What a night of a backup with a memory costs: generations and mirrors of a large tree of which little changed.
#
#   benches/history.sh [--rounds N] [--files N] [--rows REGEX] [--program FILE] [--scratch DIR] [--quick]
#
#   --rounds N     nights of each contender in each row (5)
#   --files N      files in the tree, 1000 to a directory, of 100 bytes (1000000)
#   --rows REGEX   only the rows whose name matches (grep -E): snapshots, links, mirror
#   --program FILE measure this dircopy instead of one built here
#   --scratch DIR  where images of file systems are made and mounted, and the source is (/dev/shm); root is needed
#   --quick        2000 files, one round, debug build: shows that the script works
#
# snapshots   btrfs: a generation of which 100 files changed, and the second run of a plain copy of the same   (<= 1)
# links       ext4: a generation of which 100 files changed, and `rsync -a --link-dest` of the same            (<= 1.2)
# mirror      ext4: a run with nothing to do with --mirror, and without it                                     (<= 1.05)
#
# With all files and --rounds 3 it takes about ten minutes and 17 GiB in memory; --program saves the build.
#
# Before each night 100 files are changed, the same for all contenders, which take turns; each round starts with another
# one. What is told is the median in seconds with the least and the most, and the quotient of the medians of each and of
# the one it is held against. All is synced before a night, and nothing is dropped from memory.
set -euo pipefail
cd "$(dirname "$0")/.."
ROUNDS=5 FILES=1000000 ROWS=. DIRCOPY="" SCRATCH=/dev/shm PROFILE=release
while [ $# -gt 0 ]; do
    case $1 in
    --rounds) ROUNDS=$2 && shift ;;
    --files) FILES=$2 && shift ;;
    --rows) ROWS=$2 && shift ;;
    --program) DIRCOPY=$(realpath "$2") && shift ;;
    --scratch) SCRATCH=$(realpath "$2") && shift ;;
    --quick) ROUNDS=1 FILES=2000 PROFILE=dev ;;
    *) sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "$0" >&2 && exit 2 ;;
    esac
    shift
done
if [ -z "$DIRCOPY" ]; then
    cargo build --quiet --locked --profile "$PROFILE" --bins
    DIRCOPY=${CARGO_TARGET_DIR:-$PWD/target}/${PROFILE/dev/debug}/dircopy
fi
WORK=$(mktemp -d "$SCRATCH/dircopy-history.XXXXXX")
end() {
    cd / && { ! mountpoint -q "$WORK/mnt" || umount "$WORK/mnt"; }
    rm -rf --one-file-system "$WORK"
}
trap end EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
cd "$WORK"

make_source() {
    mkdir src
    local n
    for ((n = 0; n < FILES; n += 1000)); do
        mkdir "src/$n"
        (cd "src/$n" && seq -f "file %.0f of directory $n, which has a hundred bytes or nearly so, as small files of many trees do" 1000 |
            split -l 1 -a 3 -)
    done
}
# Files of an earlier second are beyond doubt for all contenders.
change() { # number of the night
    local n
    for ((n = 0; n < 100; n++)); do
        local dir=$(((n * 7919 + $1) * 1000 % FILES / 1000 * 1000))
        echo "night $1, change $n" >>"src/$dir/xaa$(printf "\\x$(printf %x $((97 + n % 26)))")"
    done
    sleep 1.1
    sync
}
disk() { # kind
    local mib=$((FILES / 100 + 1000))
    [ "$1" != ext4 ] || mib=$((mib * 2))
    rm -f image && truncate -s "${mib}M" image && mkdir -p mnt
    case $1 in ext4) mkfs.ext4 -q -F -i 1024 image ;; btrfs) mkfs.btrfs -q image >/dev/null 2>&1 ;; esac
    mount -o loop,noatime image mnt
}

# What a contender of a row does in a night.
night() {
    case $1 in
    snapshots-generation | links-generation) "$DIRCOPY" -q --generations src mnt/generations ;;
    snapshots-copy | mirror-copy) "$DIRCOPY" -q --overwrite-policy update --keep-manifests 1 src mnt/copy ;;
    mirror-mirror) "$DIRCOPY" -q --mirror --overwrite-policy update --keep-manifests 1 src mnt/mirror ;;
    links-rsync)
        local last
        last=$(ls -d mnt/rsync/*/ 2>/dev/null | tail -1 || true)
        mkdir -p mnt/rsync
        rsync -a ${last:+--link-dest="$WORK/$last"} src/ "mnt/rsync/$(date +%s%N)/" && sync -f mnt
        ;;
    esac
}
timed() { # contender
    local since
    since=$(date +%s%N)
    night "$1"
    echo "$1 $(($(date +%s%N) - since))" >>times
}
row() { # name kind changes contender...
    local name=$1 kind=$2 changes=$3
    shift 3
    grep -Eq "$ROWS" <<<"$name" || return 0
    disk "$kind"
    local one round at number=$#
    local all=("$@")
    for one in "$@"; do night "$name-$one"; done
    # A night that is not counted: what earlier runs were is known after it.
    for one in "$@"; do night "$name-$one"; done
    for ((round = 1; round <= ROUNDS; round++)); do
        [ "$changes" = no ] || change "$round"
        for ((at = 0; at < number; at++)); do
            sync && timed "$name-${all[(at + round) % number]}"
        done
    done
    umount mnt
    local against
    against=$(told "$name-${all[1]}" | cut -d' ' -f2)
    for one in "$@"; do
        told "$name-$one" | awk -v base="$against" -v files="$FILES" \
            '{ printf "%-22s %8.3f s  (%.3f to %.3f)  %.2f\n", $1, $2, $3, $4, $2 / base }'
    done
}
told() { # contender: its name, median, least and most
    awk -v it="$1" '$1 == it { print $2 / 1e9 }' times | sort -n |
        awk -v it="$1" '{ t[NR] = $1 } END { print it, t[int((NR + 1) / 2)], t[1], t[NR] }'
}

make_source
echo "$FILES files, $ROUNDS rounds, $("$DIRCOPY" --version | head -1), $(uname -r)"
row snapshots btrfs yes generation copy
row links ext4 yes generation rsync
row mirror ext4 no mirror copy
