#!/bin/sh
# Splits the tables of commands into one file a command: the seeds of the target `shell`.
set -eu
cd "$(dirname "$0")/../.."
mkdir -p fuzz/corpus/shell
for table in hostile harmless; do
    awk -v to="fuzz/corpus/shell/$table" '
        /^%$/ { number++; fresh = 0; next }
        { file = to "-" number; printf "%s%s", (fresh ? "\n" : ""), $0 > file; fresh = 1 }
    ' "src/policy/shell/testdata/$table.txt"
done
