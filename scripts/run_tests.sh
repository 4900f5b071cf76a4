#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs the tests of a build folder; the last line says how many passed and failed. No test run is a
# failure. Usage: scripts/run_tests.sh [BUILD_FOLDER [CTEST_ARGUMENT…]]
set -euo pipefail

scripts="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
build="${1:-$scripts/../build/release}"
shift || true
if [[ ! -f "$build/CTestTestfile.cmake" ]]; then
  echo "run_tests: $build holds no configured build with tests; run 'make build' first" >&2
  exit 1
fi
report="$(cd "$build" && pwd)/test_report.xml"
rm -f "$report"

status=0
ctest --test-dir "$build" --output-junit "$report" --no-tests=error --progress \
  --parallel "${JOBS:-$(nproc)}" --test-output-size-failed 4000000 "$@" </dev/null || status=$?
exec python3 "$scripts/junit_summary.py" --ctest-status "$status" "$report"
