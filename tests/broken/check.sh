#!/usr/bin/env bash
# Who tests the tests? Each defect test has to pass against a copier that is right and to fail
# against the same copier with that very defect; and the tests of faults and power cuts have to find
# what is wrong with builds of the program from which something is missing. Takes the arguments of
# `cargo build` and `cargo test`, such as -j1.
set -euo pipefail
cd "$(dirname "$0")/../.."
export DIRCOPY_TEST_ARGS='' DIRCOPY_TEST_ALL=1
status=0

cargo test "$@" --quiet --test it --no-run
tests() { # program tests...
    DIRCOPY_BIN=$1 cargo test "${arguments[@]}" --test it -- "${@:2}" 2>&1
}
arguments=("$@")

copier=$PWD/tests/broken/copier.py
if ! said=$(BROKEN=0 tests "$copier" defects::); then
    echo "the copier without a defect fails:"
    echo "$said"
    exit 1
fi
for number in {1..9}; do
    said=$(BROKEN=$number tests "$copier" "defects::defect_${number}_") && caught=no || caught=yes
    # A test that did not run, or was skipped, caught nothing.
    [[ $said == *"1 failed"* ]] || caught=no
    echo "defect $number: caught: $caught"
    [[ $caught == yes ]] || status=1
done

# A copy of the program's source, changed by one expression for sed, and built.
mutant() { # what, file, expression, tests that must fail...
    local what=$1 file=$2 expression=$3 test said
    shift 3
    local at=target/broken/source
    rm -rf $at
    mkdir -p $at
    cp -r Cargo.toml Cargo.lock src benches $at
    sed -i "$expression" "$at/$file"
    if cmp -s "$file" "$at/$file"; then
        echo "$what: $file is not what it was: change the expression"
        status=1
        return
    fi
    cargo build "${arguments[@]}" --quiet --bin dircopy \
        --manifest-path $at/Cargo.toml --target-dir target/broken
    said=$(tests "$PWD/target/broken/debug/dircopy" --exact "$@") || true
    for test; do
        if [[ $said == *"test $test ... FAILED"* ]]; then
            echo "$what: caught by $test"
        else
            echo "$what: NOT caught by $test"
            status=1
        fi
    done
    grep -E '^[0-9]+ violations' <<<"$said" || true
}

mutant "no sync before the rename" src/copy/commit/mod.rs \
    's/&& let Err(error) = root.persist_all()$/\&\& let Err(error) = io::Result::Ok(())/' \
    powercut::{ext4,xfs,btrfs}_grouped
mutant "no sync of a file before its rename" src/part/mod.rs \
    's/|content| sys::persist_file(content.file()))?/|_| Ok(()))?/' \
    powercut::{ext4,xfs,btrfs}_each
mutant "a line before its name is durable" src/copy/commit/mod.rs \
    's/if self.context.options.durability == (Durability::Grouped { at_once: false }) {/if true {/' \
    powercut::btrfs_grouped
mutant "a failed write ignored" src/part/content.rs \
    's/self.pages.write_all(&self.file, bytes)$/self.pages.write_all(\&self.file, bytes).or(Ok(()))/' \
    sweep::write mirror::every_call_on_a_part_file_may_fail \
    mirror::an_output_that_is_full_after_so_many_bytes
mutant "a failed sync ignored" src/copy/commit/mod.rs \
    's/&& let Err(error) = root.persist_all()$/\&\& let Err(error) = root.persist_all().or(io::Result::Ok(()))/' \
    sweep::sync
mutant "a failed rename ignored" src/part/mod.rs \
    's/Some(dir) => dir.publish(&part.name, name, replaces),/Some(dir) => dir.publish(\&part.name, name, replaces).or(Ok(())),/' \
    sweep::rename
mutant "a failed close ignored" src/sys/unix/volume.rs \
    's/closed => Ok(closed?),/_ => Ok(()),/' \
    mirror::every_call_on_a_part_file_may_fail sweep::closing_a_written_file_is_not_taken_lightly
exit $status
