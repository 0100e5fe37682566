#!/usr/bin/env bash
# Streams beside GNU cat, tee and pv, and beside loops of one system call.
#
#   benches/streams.sh [--rounds N] [--mib N] [--scratch DIR] [--rows REGEX]
#
#   --rounds N     runs of each contender in each row (7)
#   --mib N        size of the source in MiB (1024)
#   --scratch DIR  where to work, in memory (/dev/shm); all of it is removed at the end
#   --rows REGEX   only the rows whose name matches
#
# Contenders take turns, and what is told is the median with the least and the most. At the other end of a
# pipe is a program that splices to /dev/null, so that the reader is no bottleneck; what is fed into one
# comes from a program that splices from the file. The files that are written to are new each time.
set -euo pipefail
cd "$(dirname "$0")/.."
ROUNDS=7 MIB=1024 SCRATCH=/dev/shm ROWS=.
while [ $# -gt 0 ]; do
    case $1 in
    --rounds) ROUNDS=$2 ;;
    --mib) MIB=$2 ;;
    --scratch) SCRATCH=$2 ;;
    --rows) ROWS=$2 ;;
    *) sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "$0" >&2 && exit 2 ;;
    esac
    shift 2
done
cargo build --quiet --locked --release --bins --example sha2_alone
target=${CARGO_TARGET_DIR:-$PWD/target}/release
DIR=$(mktemp -d "$SCRATCH/dircopy-streams.XXXXXX")
trap 'rm -rf --one-file-system "$DIR"' EXIT
export PATH=$target:$target/examples:$DIR:$PATH F=$DIR/source MIB
export XDG_RUNTIME_DIR=$DIR
head -c "${MIB}M" /dev/urandom >"$F"

# Loops of one system call, 1 MiB at a time, with the pipe as large as the user may have it.
cat >"$DIR/loop" <<'PY'
#!/usr/bin/python3 -S
import fcntl, os, sys
how, size = sys.argv[1], 1 << 20
for fd in (0, 1):
    try:
        fcntl.fcntl(fd, 1031, size)  # F_SETPIPE_SZ
    except OSError:
        pass
if how == "sendfile":
    while os.sendfile(1, 0, None, size):
        pass
elif how == "splice":
    while os.splice(0, 1, size):
        pass
else:
    null = os.open("/dev/null", os.O_WRONLY)
    while os.splice(0, null, size):
        pass
PY
chmod +x "$DIR/loop"

contenders() {
    cat <<'TABLE'
file-pipe  | cat             | cat "$F" | loop drain
file-pipe  | sendfile loop   | loop sendfile <"$F" | loop drain
file-pipe  | splice loop     | loop splice <"$F" | loop drain
file-pipe  | pv -q           | pv -q "$F" | loop drain
file-pipe  | dircopy none    | dircopy -q --hash none -i "$F" -o - | loop drain
pipe-pipe  | cat             | loop splice <"$F" | cat | loop drain
pipe-pipe  | pv -q           | loop splice <"$F" | pv -q | loop drain
pipe-pipe  | splice loop     | loop splice <"$F" | loop splice | loop drain
pipe-pipe  | dircopy none    | loop splice <"$F" | dircopy -q --hash none -i - -o - | loop drain
pipe-files | tee             | loop splice <"$F" | tee "$A" >"$B"
pipe-files | dircopy none    | loop splice <"$F" | dircopy -q --no-sync --hash none -i - -o "$A" -o "$B"
hashed     | sha2 alone      | sha2_alone "$MIB"
hashed     | dircopy to pipe | dircopy -q -i "$F" -o - | loop drain
hashed     | dircopy p to p  | loop splice <"$F" | dircopy -q -i - -o - | loop drain
hashed     | sha256sum       | sha256sum "$F"
TABLE
}

seconds() { # command
    A=$DIR/a.$RANDOM B=$DIR/b.$RANDOM
    local start=$EPOCHREALTIME
    A=$A B=$B bash -c "set -o pipefail; $1" >/dev/null
    local end=$EPOCHREALTIME
    rm -f "$A"* "$B"*
    echo "$end - $start" | bc -l
}

for row in $(contenders | cut -d' ' -f1 | uniq | grep -E "$ROWS"); do
    mapfile -t lines < <(contenders | grep "^$row ")
    rm -f "$DIR"/times.*
    for round in $(seq "$ROUNDS"); do
        for i in $(seq "${#lines[@]}"); do
            at=$(((i + round) % ${#lines[@]}))
            seconds "$(cut -d'|' -f3- <<<"${lines[$at]}")" >>"$DIR/times.$at"
        done
    done
    for at in "${!lines[@]}"; do
        sort -n "$DIR/times.$at" | awk -v row="$row" -v name="$(cut -d'|' -f2 <<<"${lines[$at]}")" -v mib="$MIB" '
            { t[NR] = $1 }
            END { m = t[int((NR + 1) / 2)]
                  printf "%-10s %-17s %.3f s (%.3f to %.3f)  %.2f GiB/s\n", row, name, m, t[1], t[NR], mib / 1024 / m }'
    done
done
