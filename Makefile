# Everything needs only Python 3.11 or later and make; the rest is installed into .venv.
# Another interpreter: make setup PYTHON=/path/to/python3.12

SHELL    := /bin/sh
VENV     := .venv
BIN      := $(VENV)/bin
PART     :=
SOAK     := build/soak.jsonl
RUN_DONE := $(VENV)/.installed
DEV_DONE := $(VENV)/.installed-dev

.DEFAULT_GOAL := help
.PHONY: help setup demo test soak check format bench clean

help: ## List the targets
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(DEV_DONE) ## Create .venv with everything for developing; then say what to do next
	@echo "Ready. Next: make demo, make test, or: source $(BIN)/activate && atoll --help"

demo: $(RUN_DONE) ## Run the main job on an auction stream, live in the terminal, for a minute
	@$(BIN)/atoll demo $(ARGS)

test: $(DEV_DONE) ## Run the tests (ARGS="-k name" chooses)
	$(BIN)/python -m pytest --numprocesses 3 --dist loadfile --no-loadscope-reorder $(ARGS)

soak: $(DEV_DONE) ## The fault tests with their full figures (2 hours; PART=spark or PART=test_kills.py runs a part)
	@mkdir -p $(dir $(SOAK)) $(if $(PART),,&& rm -f $(SOAK))
	@ATOLL_SOAK=1 ATOLL_SOAK_REPORT=$(abspath $(SOAK)) \
		$(BIN)/python -m pytest -q -s tests/faults/$(PART) $(if $(PART),,tests/cli/test_real_input.py) $(ARGS); status=$$?; \
		$(BIN)/python scripts/soak_table.py $(SOAK) && exit $$status

check: $(DEV_DONE) ## Lint, format, types and layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(DEV_DONE) ## Format the code and fix what can be fixed
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(DEV_DONE) ## Run the benchmarks (hours; PART=nexmark runs one)
	@set -e; for name in $(or $(PART),keyed_sum latency point_reads rescale cluster_gaps recovery outer_joins sorted_index backfill pipelining kafka nexmark); do echo "== $$name"; $(BIN)/python "bench/$$name.py" $(ARGS); done

clean: ## Remove .venv and everything generated
	rm -rf $(VENV) build dist .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache spark-warehouse
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The stamp files make a second run instant; a change of pyproject.toml installs again.
$(VENV)/bin/python:
	@PYTHON="$(PYTHON)" sh scripts/make-venv.sh $(VENV)

$(RUN_DONE): pyproject.toml | $(VENV)/bin/python
	@echo "Installing Atoll and Spark into $(VENV) (Spark is a 450 MB download, built once; a few minutes) ..."
	@$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	@$(BIN)/python -m pip install --quiet --editable .
	@touch $@

$(DEV_DONE): $(RUN_DONE) pyproject.toml
	@$(BIN)/python -m pip install --quiet --editable ".[all]" --group dev
	@touch $@
