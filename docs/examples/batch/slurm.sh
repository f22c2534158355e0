#!/bin/bash
#SBATCH --job-name=qwen --array=0-7%4 --requeue --open-mode=append --signal=B:TERM@60 --output=qwen-%A_%a.log
# Then: sbatch --dependency=afterany:JOB --wrap 'qwen batch merge out --out merged'
export QWEN_SHARD_TOTAL=8          # so that one task can be sent again by itself: sbatch --array=3
qwen batch --recipe ./classify.yaml --items tickets.jsonl --shard auto --out out --drain 45s &
child=$!
trap 'kill -TERM "$child"' TERM    # the batch shell gets the signal, not its child
wait "$child"; code=$?
[ "$code" -gt 128 ] && { wait "$child"; code=$?; }
if [ "$code" = 75 ] && [ "${SLURM_RESTART_COUNT:-0}" -lt 3 ]; then
  scontrol requeue "${SLURM_ARRAY_JOB_ID}_${SLURM_ARRAY_TASK_ID}"
fi
exit "$code"
