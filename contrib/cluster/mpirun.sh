#!/bin/sh
# A copy by the ranks of mpirun (or srun, or pdsh): each takes shards until none is left, so there may be fewer ranks
# than shards, and a rank that dies is replaced by the others. No MPI is linked: a rank is only a process.
#
#   mpirun.sh PLAN [options of mpirun]
plan=${1:?the directory of the plan}
shift

mpirun "$@" "${DIRCOPY:-dircopy}" shard --plan "$plan" --claim
exec "${DIRCOPY:-dircopy}" finish --plan "$plan"
