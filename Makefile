# SPDX-License-Identifier: Apache-2.0
# The commands people type. Each does all that it needs, from a fresh Debian on; the work is done by
# CMake and scripts/, nothing is decided here.

SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help setup configure build demo test test-torch lint format asan sanitize bench clean

JOBS ?= $(shell nproc 2>/dev/null || echo 2)
RELEASE := build/release

help:  ## List these targets
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)$$/  make \1|\2/p' Makefile | \
	  while IFS='|' read -r target text; do printf '%-16s %s\n' "$$target" "$$text"; done

setup:  ## Install the Debian packages that the build needs (as root), or name them
	@scripts/setup.sh --nvshmem

configure: setup
	@cmake --preset release

build: configure  ## Build everything into build/release
	@cmake --build --preset release --parallel $(JOBS)

demo: configure  ## Build the command, then plan and run a skewed expert layer
	@cmake --build --preset release --parallel $(JOBS) --target moesaic_cli
	@scripts/demo.sh $(RELEASE)/tools/moesaic/moesaic

test: build  ## Build everything and run all tests
	@JOBS=$(JOBS) scripts/run_tests.sh $(RELEASE)

test-torch: build  ## Add torch and transformers to .venv (4.9 GB), run the tests of moesaic.torch
	@scripts/setup.sh --torch
	@JOBS=$(JOBS) scripts/run_tests.sh $(RELEASE) --label-regex torch

lint: configure  ## Check format, clang-tidy, layers, docs, scripts and commit messages
	@scripts/setup.sh --lint
	@JOBS=$(JOBS) scripts/check_style.sh

format:  ## Format all C++ and CUDA files in place
	@scripts/setup.sh --lint
	@scripts/check_style.sh --fix

asan: setup  ## Run the tests under AddressSanitizer and UndefinedBehaviorSanitizer
	@cmake --preset asan
	@cmake --build --preset asan --parallel $(JOBS)
	@JOBS=$(JOBS) scripts/run_tests.sh build/asan

sanitize: build  ## Run the small device tests under the tools of compute-sanitizer (needs a GPU)
	@scripts/sanitize_device.sh $(RELEASE)/tests/device/moesaic_device_test

bench: build  ## Build and run the micro-benchmarks
	@scripts/bench.sh $(RELEASE)/bench

clean:  ## Remove everything that was built
	rm -rf build
