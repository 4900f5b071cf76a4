#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs a command as N ranks on this host, one GPU each, and ends with the first failure of any.
# Usage: scripts/run_ranks.sh [--one-dies] [--without-gpus] N COMMAND [ARGUMENT…]
#   Each process has RANK, LOCAL_RANK, WORLD_SIZE and MOESAIC_RENDEZVOUS, a folder that they share, and
#   its part of the processors, unless OMP_NUM_THREADS is set.
#   --one-dies       MOESAIC_DYING_RANK is the last rank, which may end as it likes.
#   --without-gpus   for commands that need none: no look for GPUs.
#   LIMIT_S (600)    seconds until all ranks are ended; GRACE_S (30) until the others are ended once one
#                    has failed. Both count as failures.
# Once a rank has failed, the file «failed» in that folder says which: the others need not wait for it.
# Lines begin with the rank in brackets. With fewer than N GPUs it prints «SKIPPED: …» and ends with 0.
set -euo pipefail

usage() {
  echo "usage: scripts/run_ranks.sh [--one-dies] [--without-gpus] N COMMAND [ARGUMENT…]" >&2
  exit 2
}

one_dies=no gpus=yes
while [[ "${1-}" == --* ]]; do
  case "$1" in
    --one-dies) one_dies=yes ;;
    --without-gpus) gpus=no ;;
    *) usage ;;
  esac
  shift
done
[[ "${1-}" =~ ^[1-9][0-9]*$ && $# -ge 2 ]] || usage
ranks="$1"
shift

if [[ "$gpus" == yes ]]; then
  here="$(nvidia-smi -L 2>/dev/null | grep -c '^GPU ' || true)"
  if ((here < ranks)); then
    echo "SKIPPED: $ranks ranks need $ranks GPUs, this machine has $here"
    exit 0
  fi
fi

folder="$(mktemp -d)"
pids=()
finish() {
  local pid
  for pid in "${pids[@]}"; do kill -KILL -- "-$pid" 2>/dev/null || true; done
  rm -rf "$folder"
}
trap finish EXIT
trap 'exit 130' INT TERM
mkdir "$folder/rendezvous" "$folder/status"

export WORLD_SIZE="$ranks" MOESAIC_RENDEZVOUS="$folder/rendezvous"
if [[ -z "${OMP_NUM_THREADS-}" ]]; then
  here="$(nproc)"
  export OMP_NUM_THREADS=$((here > ranks ? here / ranks : 1))
fi
if [[ "$one_dies" == yes ]]; then export MOESAIC_DYING_RANK=$((ranks - 1)); fi
# Each rank is a process group of its own, so that what it starts can be ended with it.
set -m
for ((rank = 0; rank < ranks; ++rank)); do
  (
    set +e
    RANK="$rank" LOCAL_RANK="$rank" "$@" </dev/null 2>&1 | sed -u "s/^/[$rank] /"
    echo "${PIPESTATUS[0]}" >"$folder/status/.$rank"
    mv "$folder/status/.$rank" "$folder/status/$rank"
  ) &
  pids+=("$!")
done
set +m

end=$((SECONDS + ${LIMIT_S:-600})) failed=no
while :; do
  running=0
  for ((rank = 0; rank < ranks; ++rank)); do
    if [[ ! -e "$folder/status/$rank" ]]; then
      ((running += 1))
    elif [[ "$failed" == no && "$(<"$folder/status/$rank")" != 0 ]] &&
      ! [[ "$one_dies" == yes && "$rank" -eq $((ranks - 1)) ]]; then
      words="rank $rank ended with status $(<"$folder/status/$rank")"
      echo "run_ranks: $words" >&2
      failed=yes
      # A rank that could has said more.
      [[ -s "$folder/rendezvous/failed" ]] || echo "$words" >"$folder/rendezvous/failed"
      if ((end > SECONDS + ${GRACE_S:-30})); then end=$((SECONDS + ${GRACE_S:-30})); fi
    fi
  done
  if ((running == 0)); then break; fi
  if ((SECONDS >= end)); then
    echo "run_ranks: $running rank(s) did not end in time" >&2
    exit 1
  fi
  sleep 0.1
done
[[ "$failed" == no ]]
