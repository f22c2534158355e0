#!/bin/bash
# Eight shards, four at a time on each of two hosts that share this directory. The same call again continues: the journal
# knows what is done, so --resume is not needed.
set -euo pipefail
seq 0 7 | parallel -j4 -S a,b --workdir . --env QWEN_API_KEY \
  QWEN_SHARD_INDEX={} QWEN_SHARD_TOTAL=8 qwen batch --recipe ./classify.yaml --items tickets.jsonl --shard auto --out out
qwen batch merge out --out merged
