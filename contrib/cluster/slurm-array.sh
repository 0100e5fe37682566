#!/bin/bash
# A copy by a Slurm array: one task for each shard.
#
#   dircopy plan /scratch/run7 /archive/run7 --plan /shared/plan7
#   sbatch --array=0-$(($(ls /shared/plan7/shards | wc -l) - 1)) slurm-array.sh /shared/plan7
#   dircopy finish --plan /shared/plan7         (as a job with --dependency=afterany:ID, for one)
#
#SBATCH --job-name=dircopy
#SBATCH --requeue
#SBATCH --open-mode=append
plan=${1:?the directory of the plan}

# The task's own number says which shard: SLURM_ARRAY_TASK_ID.
"${DIRCOPY:-dircopy}" shard --plan "$plan"
code=$?

case $code in
1 | 3 | 137) # Files failed, or the output did, or memory ran out: again, but not for ever.
    if [ "${SLURM_RESTART_COUNT:-0}" -lt 3 ]; then
        scontrol requeue "${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID"
    fi ;;
129 | 130 | 143) # Preempted: Slurm requeues it by itself.
    ;;
esac
exit $code
