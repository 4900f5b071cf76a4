#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs every benchmark program of a folder in turn. Usage: scripts/bench.sh FOLDER [ARGUMENT…]
set -euo pipefail

folder="${1:?usage: scripts/bench.sh FOLDER [ARGUMENT…]}"
shift
programs=()
while IFS= read -r program; do
  programs+=("$program")
done < <(find "$folder" -type f -name '*_bench' -perm -u+x | sort)
if ((${#programs[@]} == 0)); then
  echo "bench: no program named *_bench in $folder" >&2
  exit 1
fi
for program in "${programs[@]}"; do
  echo "== ${program##*/}"
  "$program" "$@"
done
