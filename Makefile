# Shardlake: `make demo` shows it, `make test` proves it. Needs Python 3.11 or newer with venv, and make.

# The pins are made for 3.11, so it is asked first; each is tried, since a name on the PATH may be an empty shim.
PYTHON ?= $(shell for p in python3.11 python3.12 python3.13 python3; do \
	$$p -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && { echo $$p; break; }; done)
BIN := .venv/bin
INSTALLED := .venv/.installed
CONFORMANCE := .conformance/.installed
BENCH := .bench/.installed
export PYTHONPATH := include

.DEFAULT_GOAL := help
.PHONY: help setup demo cluster-demo up down test quick conformance conformance-aws faults simulate soak bench \
	bench-quick lint lock clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 14

setup: $(INSTALLED) ## make .venv from requirements-dev.txt

$(INSTALLED): requirements-dev.txt pyproject.toml
	@test -n "$(PYTHON)" || { echo "make: no Python 3.11 or newer with venv was found (Debian, Ubuntu: install" \
		"python3 and python3-venv); name one with: make $(MAKECMDGOALS) PYTHON=/path/to/python3"; exit 1; } >&2
	@echo "Setting up .venv with $(PYTHON) (1.6 GB)"
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@test -x $(BIN)/uv || $(BIN)/python -m pip install --disable-pip-version-check "$$(grep '^uv==' requirements-dev.txt)"
	$(BIN)/uv pip install --python $(BIN)/python -r requirements-dev.txt
	$(BIN)/uv pip install --python $(BIN)/python --no-deps --no-build-isolation -e .
	@touch $@

demo: setup ## put real flights on a local Kinesis, ingest them with scheduled Airflow runs, check every count
	$(BIN)/python -m demo

cluster-demo: setup ## the same on an object store, PostgreSQL and a Spark cluster; kill a worker, backfill, clear a run
	$(BIN)/python -m demo cluster

up: setup ## start the demo and leave it running
	$(BIN)/python -m demo up

down: ## end what `make up` left running
	$(BIN)/python -m demo down

test: setup ## run every test
	$(BIN)/python -m pytest --durations=40

conformance: $(CONFORMANCE) ## ask other projects' stand-ins for Kinesis what the service's documentation says (needs Node 18)
	$(BIN)/python -m pytest tests/conformance/test_conformance.py tests/conformance/test_pipeline.py \
		--servers=kinesis-local,kinesalite,ministack

conformance-aws: setup ## the same of the service itself: asks first, costs money, needs AWS credentials
	$(BIN)/python -m tests.conformance.on_aws

$(CONFORMANCE): $(INSTALLED) tests/conformance/package-lock.json tests/conformance/ministack.txt
	@mkdir -p .conformance
	cp tests/conformance/package.json tests/conformance/package-lock.json .conformance/
	npm ci --prefix .conformance --omit=optional --ignore-scripts --no-audit --no-fund
	$(BIN)/uv venv --quiet --clear .conformance/ministack --python $(BIN)/python
	$(BIN)/uv pip install --quiet --python .conformance/ministack/bin/python -r tests/conformance/ministack.txt
	@touch $@

quick: setup ## run the tests that take no long
	$(BIN)/python -m pytest -m "not slow" -n auto

faults: setup ## kill every process at every boundary, go on in every way, print the table (can be resumed)
	PYTHONPATH=include:tests $(BIN)/python -m support.faults

simulate: setup ## the protocol in a simulated world, for SIMULATION_MINUTES=30
	PYTHONPATH=include:tests SIMULATION_MINUTES=$(or $(SIMULATION_MINUTES),30) $(BIN)/python -m simulation

soak: setup ## steady input with faults, kills and reshards, for MINUTES=60
	PYTHONPATH=include:tests $(BIN)/python -m soak --minutes $(or $(MINUTES),60)

bench: $(BENCH) ## measure Shardlake beside its peers: table, bench/results (up to an hour)
	$(BIN)/python -m bench

bench-quick: $(BENCH) ## the same with small sizes (some minutes)
	$(BIN)/python -m bench --quick

$(BENCH): $(INSTALLED) bench/peers.txt $(wildcard bench/peers/kinesis_asl.*)
	$(BIN)/uv venv --quiet --clear .bench --python $(BIN)/python
	$(BIN)/uv pip install --quiet --python .bench/bin/python -r bench/peers.txt
	-mvn --quiet --batch-mode --file bench/peers/kinesis_asl.xml \
		org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies \
		-DincludeScope=runtime -DoutputDirectory=$(CURDIR)/.bench/kinesis_asl
	-.bench/bin/python bench/peers/kinesis_asl.py
	@touch $@

lint: setup ## check style, types and imports
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

lock: setup ## pin requirements.txt and requirements-dev.txt anew
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 pyproject.toml -o requirements.txt
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --extra dev -c requirements.txt pyproject.toml -o requirements-dev.txt

clean: ## remove .venv, .demo and the caches
	@test ! -d .demo || test ! -x $(BIN)/python || $(BIN)/python -m demo down
	rm -rf .venv .demo .conformance .bench .faults .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis include/*.egg-info
