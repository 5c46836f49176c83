# Every target does its own set-up: a Python 3.11 or newer is all that must be there.
# `make` and `make help` list them.

BIN := .venv/bin
RUN := scripts/python scripts/setup.py run
DEV := scripts/python scripts/setup.py dev
PYTEST := $(BIN)/python -m pytest --numprocesses auto --dist loadgroup
DEMO :=
BENCH :=
TESTS := tests

# The tests start hundreds of processes; without it each would compile the package anew.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup demo test check format-check format lint types mypy pyright layers tidy fast soak bench docs pin

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: ## the main job, live: three replicas, 200 customers, one email each (DEMO="--html page.html")
	@$(RUN)
	@$(BIN)/onejob demo $(DEMO)

test: setup ## all tests but the soak; starts the servers they need (TESTS=tests/core)
	$(PYTEST) $(TESTS)

check: format-check lint types layers fast ## format, lint, types, layers, fast tests: before each commit

format-check: setup
	$(BIN)/ruff format --check .

lint: setup
	$(BIN)/ruff check .

types: mypy pyright

mypy: setup
	$(BIN)/mypy

pyright: setup
	$(BIN)/pyright --warnings

layers: setup
	$(BIN)/lint-imports

tidy: setup ## the rules of the house that no linter knows
	$(BIN)/python -m pytest tests/tidy

fast: setup
	$(PYTEST) -m "not slow and not soak" tests

format: setup ## write the format, and what the linter can repair
	$(BIN)/ruff check --fix --quiet . || true
	$(BIN)/ruff format .

soak: setup ## many seeds of the demo's last act and the long runs: a quarter of an hour
	$(BIN)/python -m pytest -m soak $(TESTS)

bench: setup ## ours beside its peers (BENCH="drain --json": one, JSON lines)
	@test -d benchmarks || { echo "no benchmarks in this version yet" >&2; exit 1; }
	$(BIN)/python -m benchmarks $(BENCH)

docs: setup ## build the documentation into site/, without a warning, and run its examples
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	$(BIN)/python -m pytest tests/docs

pin: ## write constraints.txt anew: the newest versions that pyproject.toml allows
	@scripts/python scripts/setup.py pin

setup:
	@$(DEV)
