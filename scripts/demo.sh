#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Shows what moesaic is for on one skewed expert layer: what its routing costs, then the layer itself
# on the best backend here, beside the padded and the looped way. Usage: scripts/demo.sh MOESAIC
set -euo pipefail

plan_arguments=(zipf:1.2 --rows 8192 --experts 32 --seed 1 --shape 'd=1024,h=1024')
run_arguments=(zipf:1.2 --rows 4096 --experts 32 --seed 1 --shape 'd=512,h=512'
  --pass forward --strategy all)

moesaic="${1:?usage: scripts/demo.sh MOESAIC (the path of the built command)}"

show() {
  printf '\n$ moesaic %s\n' "$*"
  "$moesaic" "$@"
}

show plan "${plan_arguments[@]}"
show run "${run_arguments[@]}"
