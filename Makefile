# Everything that one does with this checkout. `make` alone lists it.
# Nothing is written outside the checkout, its .venv and the package managers.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

VENV ?= .venv
BIN ?= $(VENV)/bin
DATA ?= .demo
ARGS ?=
# A test that hangs shows where, and ends the run instead of the reader's patience.
PYTEST = $(BIN)/python -m pytest -p no:cacheprovider -o faulthandler_timeout=300 -o faulthandler_exit_on_timeout=true
# Compiled modules are kept in the checkout: what the tests start by the hundred starts a quarter faster.
unexport PYTHONDONTWRITEBYTECODE
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: help venv format lint quick unit test proto fault soak bench demo run wheel clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

venv: $(VENV)/.installed ## make .venv with hermesd and its tools (installs what is missing, or says what)

$(VENV)/.installed: pyproject.toml tools/bootstrap
	@tools/bootstrap system git=git
	@tools/bootstrap venv $(VENV)

format: venv ## rewrite the sources in the one format
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

lint: venv ## format check, ruff, mypy, layers, sizes, promises, words, documentation
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/python -m tools.check_sizes
	$(BIN)/python -m tools.check_promises
	$(BIN)/python -m tools.check_words
	$(BIN)/python -m tools.check_docs

unit: venv
	$(PYTEST) -q tests/unit $(ARGS)

quick: lint unit ## all gates and the unit tests, within two minutes

proto: ## lint the API and compare it with what was published (needs npm)
	@if tools/bootstrap buf; then \
	  node_modules/.bin/buf lint proto && \
	  node_modules/.bin/buf breaking proto --against proto/baseline.binpb && echo "proto: ok"; \
	elif [ -n "$${CI:-}" ]; then \
	  echo "proto: NOT CHECKED, and in CI it must be: install npm" >&2; exit 1; \
	else \
	  echo "*** proto: NOT CHECKED: buf needs npm (apt-get install npm) ***" >&2; \
	fi

test: lint proto ## everything but faults and soak, within twelve minutes
	$(PYTEST) -m "not fault and not soak" tests $(ARGS)

fault: venv ## kill, fill, hang and feed garbage to real processes (FUZZ_SECONDS=60 for each target)
	$(PYTEST) -m fault tests $(ARGS)

soak: venv ## run for long and watch threads, descriptors and memory
	$(PYTEST) -m soak tests $(ARGS)

bench: venv ## measure; results in benchmarks/results/
	$(BIN)/python -m benchmarks $(ARGS)

demo: venv ## show the main job on real input, then stop
	$(BIN)/python -m examples.demo $(ARGS)

run: venv ## serve in the foreground, with its data and socket in .demo/
	@mkdir -p $(DATA)
	exec $(BIN)/hermesd serve --data-dir $(DATA)/data --listen unix:$(abspath $(DATA))/hermesd.sock $(ARGS)

wheel: venv ## build dist/*.whl
	$(BIN)/python -m build --wheel

clean: ## remove what the targets made (not .venv: delete it yourself)
	rm -rf dist build node_modules $(DATA) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .coverage
	find . -name __pycache__ -not -path './.venv/*' -prune -exec rm -rf {} +
