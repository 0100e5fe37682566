#!/bin/sh
# A copy by GNU parallel over several hosts: shards by their numbers, each tried three times.
#
#   parallel.sh PLAN HOSTS        HOSTS as parallel's --sshlogin has them: "4/node1,4/node2", or ":" for this machine
#
# Every host must see the plan, the source and the output under the same paths. It can be started again at any time: a
# shard that is done says so, and one whose record was lost makes it anew.
plan=${1:?the directory of the plan} hosts=${2:-:}

# What finish says is what counts: a shard that failed for good is named there.
find "$plan/shards" -name '*.list' -printf '%f\n' | sed 's/^0*\([0-9]\)/\1/; s/\.list$//' | sort -n |
    parallel --sshlogin "$hosts" --retries 3 --joblog "$plan/parallel.log" \
        "${DIRCOPY:-dircopy}" shard --plan "$plan" --index {}
exec "${DIRCOPY:-dircopy}" finish --plan "$plan"
