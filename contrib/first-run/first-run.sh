#!/bin/sh
# Tries from a clone, with Rust (https://rustup.rs), how far dircopy gets on a Mac or another Unix where it was never run, and
# writes result.txt beside this file.
#
#   sh contrib/first-run/first-run.sh          tests in the directory for temporary files
#   sh contrib/first-run/first-run.sh /Volumes/STICK
#
# It makes directories of its own there, removes them, and touches nothing else. docs/release-checklist.md has the rest.
here=$(cd "$(dirname "$0")" && pwd) && cd "$here/../.." || exit 2
result=$here/result.txt
[ $# -eq 0 ] || TMPDIR=$1
export TMPDIR="${TMPDIR:-/tmp}" CARGO_TERM_COLOR=never

part() { # heading command...
    echo "$1 ..."
    printf '=== %s\n' "$1" >>"$result"
    shift
    "$@" >>"$result" 2>&1
    code=$?
    echo "exit code $code" >>"$result"
    return $code
}
judged() {
    try=$(mktemp -d) && target/debug/dircopy docs "$try" --verify && target/debug/dirverify "$try" &&
        (cd "$try" && (sha256sum -c dircopy-*.sha256sum || shasum -a 256 -c dircopy-*.sha256sum))
    code=$?
    rm -r "$try"
    return $code
}

echo "dircopy: first run on $(uname -srm)" >"$result"
part "system" sh -c 'sw_vers 2>/dev/null; rustc --version --verbose; df "$TMPDIR"; mount | grep -i "on / \|/Volumes"'
part "check" cargo check --locked
if part "build" cargo build --locked; then
    part "units" cargo test --locked --lib
    part "a copy, judged by the system" judged
    part "promises" cargo test --locked --no-fail-fast --test it -- copy:: verify:: records::
fi
echo "=== end" >>"$result"
echo "Please read $result and send it back: it names directories of this machine, and no file of yours."
