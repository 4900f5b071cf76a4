#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# All checks that need no test run: format, clang-tidy, layers, docs, Python syntax, commit messages.
# Runs every check and says at the end which failed. Usage: scripts/check_style.sh [--fix]
#   --fix only formats, in place.   BUILD and JOBS name the configured build folder and the job count.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

build="${BUILD:-build/release}"
jobs="${JOBS:-$(nproc)}"
failed=()

# The first of the named commands; versions differ in what they print, so 14 comes first.
first_command() {
  local name
  for name in "$@"; do
    if command -v "$name"; then
      return
    fi
  done
  echo "check_style: none of these is installed: $* (see scripts/setup.sh --lint)" >&2
  return 1
}

# Tracked and new files that still exist, NUL-separated, matching the given patterns.
source_files() {
  git ls-files -z --cached --others --exclude-standard -- "$@" |
    while IFS= read -r -d '' file; do
      if [[ -f "$file" ]]; then printf '%s\0' "$file"; fi
    done
}

format_files() {  # format_files CLANG_FORMAT_ARGUMENT…
  local clang_format version
  clang_format="$(first_command clang-format-14 clang-format)"
  version="$("$clang_format" --version)"
  if [[ "$version" != *'version 14.'* ]]; then
    echo "check_style: expected clang-format 14, got: $version" >&2
    return 1
  fi
  source_files '*.cpp' '*.hpp' '*.c' '*.h' '*.cu' '*.cuh' '*.js' | xargs -0 -r "$clang_format" "$@"
}

# The .cpp files of src/ and tools/ that the build knows, NUL-separated.
tidy_files() {
  python3 - "$build/compile_commands.json" <<'PYTHON'
import json, os, sys
for command in json.load(open(sys.argv[1], encoding="utf-8")):
    path = os.path.relpath(os.path.join(command["directory"], command["file"]))
    if path.startswith(("src/", "tools/")) and path.endswith(".cpp"):
        sys.stdout.write(path + "\0")
PYTHON
}

tidy() {
  local clang_tidy="${MOESAIC_VENV:-.venv}/bin/clang-tidy" gcc_headers
  if [[ ! -x "$clang_tidy" ]]; then
    echo "check_style: expected $clang_tidy; run scripts/setup.sh --lint" >&2
    return 1
  fi
  if [[ ! -f "$build/compile_commands.json" ]]; then
    echo "check_style: expected $build/compile_commands.json; run 'make build' first" >&2
    return 1
  fi
  # libstdc++ 12 deprecates what its own algorithms use, which clang 23 does not take for a system header's own business.
  # omp.h is the compiler's own, and stands behind all that clang brings.
  gcc_headers="$(dirname "$(c++ -print-file-name=include/omp.h)")"
  # «N warnings generated» counts what system headers suppressed: noise.
  tidy_files | xargs -0 -r -n 1 -P "$jobs" "$clang_tidy" -p "$build" --quiet \
    --extra-arg={-Wno-unknown-warning-option,-Wno-deprecated-declarations,-idirafter"$gcc_headers"} 2> >(grep -v ' warnings\? generated\.$' >&2)
}

python_syntax() {
  source_files '*.py' | PYTHONPYCACHEPREFIX="$build/pycache" xargs -0 -r python3 -m py_compile
}

check() {  # check NAME COMMAND…
  local name="$1" start=$SECONDS
  shift
  echo "== $name"
  if "$@"; then
    echo "   ok, $((SECONDS - start)) s"
  else
    failed+=("$name")
    echo "   FAILED"
  fi
}

if [[ "${1-}" == --fix ]]; then
  format_files -i
  exit
fi
check format format_files --dry-run -Werror
check layers python3 scripts/check_layers.py
check docs python3 scripts/check_docs.py
check performance python3 scripts/performance_tables.py --check
check python python_syntax
check commits python3 scripts/check_commits.py
check clang-tidy tidy
if ((${#failed[@]})); then
  echo "check_style: failed: ${failed[*]}" >&2
  exit 1
fi
