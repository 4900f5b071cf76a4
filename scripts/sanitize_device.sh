#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs the device tests of small shapes under the tools of compute-sanitizer, a process per case, since
# racecheck needs up to a minute for one. Usage: scripts/sanitize_device.sh MOESAIC_DEVICE_TEST [TOOL ...]
# A case that was skipped (no device) or cut at CASE_LIMIT_S seconds is a failure: it proves nothing.
# JOBS cases run side by side (1 unless set): the tools keep a processor busy, not the device.
set -euo pipefail

tests="${1:?usage: scripts/sanitize_device.sh MOESAIC_DEVICE_TEST [TOOL ...]}"
shift
tools=("$@")
if [ "${#tools[@]}" -eq 0 ]; then
  tools=(memcheck synccheck initcheck racecheck)
fi
if ! command -v compute-sanitizer >/dev/null; then
  echo "scripts/sanitize_device.sh: compute-sanitizer is not on the PATH; it comes with the CUDA toolkit" >&2
  exit 3
fi

logs="$(mktemp -d)"
trap 'rm -rf "$logs"' EXIT

# Case names with their suite in front, as a filter takes them; "# GetParam()" falls away.
mapfile -t cases < <("$tests" --gtest_list_tests --gtest_filter='*Small*' |
  awk '/^[^ ]/ && /\.$/ { suite = $1 } /^  / { print suite $1 }')
if [ "${#cases[@]}" -eq 0 ]; then
  echo "scripts/sanitize_device.sh: $tests lists no case with Small in its name" >&2
  exit 2
fi

# The verdict on one case, from its exit status and what it printed.
verdict() {
  local status="$1" log="$2"
  if [ "$status" -eq 124 ]; then
    echo "cut at ${CASE_LIMIT_S:-180} s"
  elif grep -q 'SKIPPED' "$log"; then
    echo "skipped"
  elif [ "$status" -ne 0 ] || ! grep -qE '(ERROR SUMMARY: 0 errors|RACECHECK SUMMARY: 0 hazards)' "$log"; then
    echo "failed"
  else
    echo "ok"
  fi
}

# Runs one case; leaves a file .ok or .bad, which is counted at the end.
check_case() {
  local tool="$1" case="$2" log="$logs/$1-${2//\//_}" begin=$SECONDS status=0 found
  timeout --kill-after=10 "${CASE_LIMIT_S:-180}" compute-sanitizer --tool "$tool" --error-exitcode 9 \
    "$tests" --gtest_filter="$case" >"$log" 2>&1 || status=$?
  found="$(verdict "$status" "$log")"
  printf '%-10s %4d s  %-14s %s\n' "$tool" "$((SECONDS - begin))" "$found" "$case"
  if [ "$found" = ok ]; then
    touch "$log.ok"
  else
    touch "$log.bad"
    tail -n 40 "$log" | sed 's/^/    /'
  fi
}

for tool in "${tools[@]}"; do
  for case in "${cases[@]}"; do
    while [ "$(jobs -pr | wc -l)" -ge "${JOBS:-1}" ]; do
      wait -n
    done
    check_case "$tool" "$case" &
  done
done
wait
passed="$(find "$logs" -name '*.ok' | wc -l)"
failed="$(find "$logs" -name '*.bad' | wc -l)"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -eq "$((${#tools[@]} * ${#cases[@]}))" ]
