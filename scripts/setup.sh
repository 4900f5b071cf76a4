#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes a machine ready to build moesaic. On Debian: root installs the packages that are missing, a
# user is told the one line to run. Elsewhere: says what is missing. Makes .venv for the Python tests,
# with plotly.js for the pages of `moesaic report` and the reader of compiled kernels where there is a
# CUDA compiler. Nothing missing, nothing done.
# Usage: scripts/setup.sh [--lint] [--torch] [--browser] [--nvshmem]
#   --lint adds clang and clang-format, and clang-tidy to .venv;
#   --torch adds torch, transformers and nvidia-ml-py to .venv;
#   --browser adds Chromium, and playwright to .venv, which the tests of pages need;
#   --nvshmem adds NVSHMEM to .venv where there is a CUDA compiler, unless NVSHMEM_HOME names one
set -euo pipefail

# ocl-icd-opencl-dev: oneDNN's CMake package asks for OpenCL, and libdnnl-dev does not depend on it.
# Debian package | what it brings, looked for where there is no dpkg: a command, or a <header>
build_needs=(
  'make|make' 'git|git' 'g++|c++' 'cmake|cmake' 'ninja-build|ninja' 'python3|python3' 'python3-venv|'
  'libdnnl-dev|<dnnl.hpp>' 'ocl-icd-opencl-dev|' 'libcli11-dev|<CLI/CLI.hpp>'
  'nlohmann-json3-dev|<nlohmann/json.hpp>' 'zlib1g-dev|<zlib.h>' 'libgtest-dev|<gtest/gtest.h>'
  'libbenchmark-dev|<benchmark/benchmark.h>'
)
# libomp-dev: clang looks for omp.h there, where g++ brings its own.
lint_needs=('clang|clang++' 'clang-format|clang-format' 'libomp-dev|')
# Debian's version 14 looks into system headers too, and takes three times as long. Others know other checks.
tidy_package='clang-tidy==23.1.4'
# torch.compile on the CPU builds Python extensions.
torch_needs=('python3-dev|')
# A browser without a font draws boxes.
browser_needs=('chromium|chromium' 'fonts-dejavu-core|')
# One torch for CPU and CUDA: 4.9 GB with what it depends on, which it cannot be loaded without.
# The version that torch brings too: a process can hold only one.
nvshmem_package='nvidia-nvshmem-cu13==3.4.5'
# nvidia-ml-py: rows of scripts/compare_torch.py and torch_arm.py say clocks by it.
torch_packages=('torch==2.11.0' 'transformers==5.24.0' 'nvidia-ml-py==13.580.126')

venv="${MOESAIC_VENV:-${BASH_SOURCE[0]%/*}/../.venv}"

is_installed() {
  [[ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" == installed ]]
}

is_usable() {
  case "$1" in
    '') return 0 ;;
    '<'*) c++ -x c++ -std=c++20 -E - >/dev/null 2>&1 <<<"#include $1" ;;
    *) command -v "$1" >/dev/null ;;
  esac
}

install_packages() {
  local log
  log="$(mktemp)"
  echo "setup: installing $*" >&2
  if ! { apt-get -q update && DEBIAN_FRONTEND=noninteractive \
    apt-get -q -y --no-install-recommends install "$@"; } >"$log" 2>&1 </dev/null; then
    cat "$log" >&2
    rm -f "$log"
    echo "setup: apt-get could not install: $*" >&2
    exit 1
  fi
  rm -f "$log"
}

# In the checkout of another user nothing can be built, which CMake says at length.
require_build_folder() {
  local root="${BASH_SOURCE[0]%/*}/.." folder
  for folder in "$root" "$root/build" "$root/build/release"; do
    if [[ -e "$folder" && ! (-d "$folder" && -w "$folder") ]]; then
      # A build/ that is there and can be written needs nothing of the folder above.
      if [[ "$folder" == "$root" && -d "$root/build" ]]; then continue; fi
      echo "setup: build/ cannot be written here; clone the repository to a folder of your own" >&2
      exit 1
    fi
  done
}

# Without network pip retries for seconds and fails; for a day after that nobody waits for it again.
# The file lies in the folder of .venv, which may be removed to try at once.
failed_lately() {  # failed_lately VENV WHAT
  local now
  [[ -f "$1/failed_$2" ]] || return 1
  printf -v now '%(%s)T' -1
  ((now - $(<"$1/failed_$2") < 86400))
}

note_failure() {  # note_failure VENV WHAT
  if [[ -d "$1" && -w "$1" ]]; then printf '%(%s)T' -1 >"$1/failed_$2"; fi
}

# The tests of the Python package need NumPy and ml_dtypes (BF16), `moesaic report` needs plotly.js;
# .venv has them. Without network the rest works all the same: those tests say that they were skipped,
# and `report` says what it lacks. MOESAIC_VENV names another place for it.
make_python() {
  if ! "$venv/bin/python3" -c 'import ml_dtypes, numpy, plotly' 2>/dev/null; then
    if failed_lately "$venv" numpy; then
      echo "setup: the NumPy tests will be skipped; .venv is incomplete (remove it to try again now)" >&2
      return
    fi
    echo "setup: making .venv with numpy, ml_dtypes and plotly" >&2
    if ! { python3 -m venv "$venv" && "$venv/bin/python3" -m pip install -q numpy ml_dtypes plotly; } >&2; then
      note_failure "$venv" numpy
      echo "setup: .venv is not complete; the NumPy tests of the Python package will be skipped" >&2
      return
    fi
  fi
  if command -v nvcc >/dev/null && ! command -v cuobjdump >/dev/null &&
    ! compgen -G "$venv/lib/python3*/site-packages/nvidia/*/bin/cuobjdump" >/dev/null; then
    add_cuobjdump "$venv"
  fi
}

# Not every CUDA installation has cuobjdump, by which the tests read the machine code of kernels.
add_cuobjdump() {
  if failed_lately "$1" cuobjdump; then return; fi
  echo "setup: adding cuobjdump to .venv" >&2
  if ! "$1/bin/python3" -m pip install -q nvidia-cuda-cuobjdump nvidia-cuda-nvdisasm >&2; then
    note_failure "$1" cuobjdump
    echo "setup: no cuobjdump; the tests of the kernels' machine code will be skipped" >&2
  fi
}

# By NVSHMEM ranks on several GPUs exchange rows. Without it the library is built without that.
add_nvshmem() {
  command -v nvcc >/dev/null || return 0
  if [[ -n "${NVSHMEM_HOME:-}" ]] || failed_lately "$venv" nvshmem ||
    compgen -G "$venv/lib/python3*/site-packages/nvidia/nvshmem/include/nvshmem.h" >/dev/null; then
    return 0
  fi
  echo "setup: adding $nvshmem_package to .venv" >&2
  if ! "$venv/bin/python3" -m pip install -q "$nvshmem_package" >&2; then
    note_failure "$venv" nvshmem
    echo "setup: no NVSHMEM; moesaic is built without expert parallelism between GPUs" >&2
  fi
}

has_package() {  # has_package VENV NAME==VERSION
  "$1/bin/python3" -c 'import importlib.metadata, sys
name, version = sys.argv[1].split("==")
sys.exit(importlib.metadata.version(name) != version)' "$2" 2>/dev/null
}

add_clang_tidy() {
  if has_package "$venv" "$tidy_package"; then return; fi
  echo "setup: adding $tidy_package to .venv" >&2
  "$venv/bin/python3" -m pip install -q "$tidy_package" >&2 ||
    echo "setup: no clang-tidy; the check of that name will fail" >&2
}

# Whoever asks for torch waits for it; without network its tests say that they were skipped.
add_torch() {
  local package
  for package in "${torch_packages[@]}"; do
    has_package "$venv" "$package" && continue
    echo "setup: adding ${torch_packages[*]} to .venv" >&2
    "$venv/bin/python3" -m pip install -q "${torch_packages[@]}" >&2 ||
      echo "setup: no torch; the tests of moesaic.torch will be skipped" >&2
    return
  done
}

# Whoever asks for the browser gets what drives it; without network its tests say that they were skipped.
add_playwright() {
  if "$venv/bin/python3" -c 'import playwright' 2>/dev/null; then return; fi
  echo "setup: adding playwright to .venv" >&2
  "$venv/bin/python3" -m pip install -q playwright >&2 ||
    echo "setup: no playwright; the tests of pages will be skipped" >&2
}

# What no package brings.
finish() {
  make_python
  if [[ "$lint" == yes ]]; then add_clang_tidy; fi
  if [[ "$nvshmem" == yes ]]; then add_nvshmem; fi
  if [[ "$browser" == yes ]]; then add_playwright; fi
  if [[ "$torch" == yes ]]; then add_torch; fi
}

main() {
  local needs=("${build_needs[@]}") missing=() need lint=no torch=no nvshmem=no browser=no
  for need in "$@"; do
    case "$need" in
      --lint) needs+=("${lint_needs[@]}") lint=yes ;;
      --browser) needs+=("${browser_needs[@]}") browser=yes ;;
      --torch) needs+=("${torch_needs[@]}") torch=yes ;;
      --nvshmem) nvshmem=yes ;;
      *)
        echo "setup: expected nothing, --lint, --torch, --browser or --nvshmem, got '$need'" >&2
        exit 2
        ;;
    esac
  done

  require_build_folder
  if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
    for need in "${needs[@]}"; do
      is_usable "${need#*|}" || missing+=("${need#*|}")
    done
    if ((${#missing[@]})); then
      echo "setup: this is not a Debian system; install by hand what is missing: ${missing[*]}" >&2
      exit 1
    fi
    finish
    return
  fi

  for need in "${needs[@]}"; do
    is_installed "${need%%|*}" || missing+=("${need%%|*}")
  done
  if ((${#missing[@]} == 0)); then
    finish
    return
  fi
  if [[ "$(id -u)" != 0 ]]; then
    echo "setup: packages are missing; install them with this line, then try again:" >&2
    echo "sudo apt-get install -y ${missing[*]}" >&2
    exit 1
  fi
  install_packages "${missing[@]}"
  finish
}

main "$@"
