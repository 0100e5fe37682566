#!/usr/bin/env bash
# Who tests the tests? Each defect test has to pass against a copier that is right and to fail
# against the same copier with that very defect. Takes the arguments of `cargo test`, such as -j1.
set -euo pipefail
cd "$(dirname "$0")/../.."

cargo test "$@" --quiet --test it --no-run
defects() { DIRCOPY_TEST_ARGS='' DIRCOPY_BIN=$PWD/tests/broken/copier.py cargo test "$@" 2>&1; }

if ! said=$(BROKEN=0 defects "$@" --quiet --test it -- defects::); then
    echo "the copier without a defect fails:"
    echo "$said"
    exit 1
fi
status=0
for number in {1..9}; do
    said=$(BROKEN=$number defects "$@" --quiet --test it -- "defects::defect_${number}_") && caught=no || caught=yes
    # A test that did not run, or was skipped, caught nothing.
    [[ $said == *"1 failed"* ]] || caught=no
    echo "defect $number: caught: $caught"
    [[ $caught == yes ]] || status=1
done
exit $status
