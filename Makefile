# onceflow: `make` lists the targets. On a fresh machine (Python 3.11, Java 17, make) each one sets up what it needs.

PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
ARGS ?=
SETUP := $(VENV)/.ready

.DEFAULT_GOAL := help
SEED ?=
SEEDS ?=
.PHONY: help setup jars demo test test-fast faults test-brokers test-three simulate bench bench-page peer-expiry lint types format \
	diagram settings lock clean

help: ## List the targets
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(SETUP) ## Make .venv with the locked dependencies

$(SETUP): requirements/dev.txt pyproject.toml
	@command -v $(PYTHON) >/dev/null || { echo "onceflow needs Python 3.11 or newer; '$(PYTHON)' was not found. Set PYTHON=..."; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "onceflow needs Python 3.11 or newer; $(PYTHON) is older. Set PYTHON=..."; exit 1; }
	@echo "== Python environment in $(VENV) (once; about 700 MB, a minute or two)"
	@$(PYTHON) -m venv $(VENV) || { echo "Python's venv module is missing (Debian: python3-venv)."; exit 1; }
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps -r requirements/dev.txt
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

jars: $(SETUP) ## Fetch the jars of Spark's connector and of the broker, make Java's class archive (once)
	@$(BIN)/python -c 'import sys; from onceflow.local import jars; sys.exit(jars.main())'
	-@$(BIN)/onceflow class-archive

demo: jars ## The fraud job, killed three times on the way, and the verdict; ARGS="--records 20000 --no-chaos"
	@$(BIN)/onceflow demo $(ARGS)

test: jars lint types ## Everything that CI runs
	@$(BIN)/python -m pytest -n 2 --dist loadfile $(ARGS)

test-fast: $(SETUP) ## Tests without Spark and without a broker
	@$(BIN)/python -m pytest -n 2 -m "not spark and not kafka" $(ARGS)

faults: jars ## Further faults on a real broker and real Spark, which `make test` leaves out
	@$(BIN)/python -m pytest -n 2 --dist loadfile -m faults $(ARGS)

test-brokers: jars ## What hangs on a broker's answers, on each Kafka; fetches their jars; ARGS="--only 3.7"
	@$(BIN)/python -m bench.brokers $(ARGS)

test-three: jars ## Three brokers, of which some are killed or lose their disks
	@$(BIN)/python -m pytest -m three $(ARGS)

simulate: $(SETUP) ## The rules in a world of faults; SEEDS=100000 for more, SEED=7 to replay one with its trace
	@PYTHONPATH=src:. $(BIN)/python -m tests.simulation $(if $(SEED),--seed $(SEED),--seeds $(or $(SEEDS),10000))

lint: $(SETUP) ## ruff
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

types: $(SETUP) ## mypy, strict
	@$(BIN)/mypy

format: $(SETUP) ## Format and fix what ruff can
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

diagram: $(SETUP) ## Generate the state diagram in docs/ from the table
	@$(BIN)/python -c 'from onceflow.twophase import state; print(state.page(), end="")' > docs/states.md

settings: $(SETUP) ## Generate the page of settings in docs/ from the catalogue
	@$(BIN)/python -c 'from onceflow.options import catalogue; print(catalogue.page(), end="")' > docs/settings.md

lock: $(SETUP) ## Lock the dependencies again, with hashes
	@$(BIN)/python -m pip install --quiet uv
	@$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links --extra cli --group dev pyproject.toml -o requirements/dev.txt

clean: ## Remove what the targets made here (not the jars)
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis dist build

# -- figures beside the peers, each in an environment of its own; nothing here is part of `make test` --------------------

.venv-%/.ready: bench/requirements-%.txt | $(SETUP)
	@echo "== Environment of the peer $* in .venv-$* (once)"
	@$(PYTHON) -m venv .venv-$*
	@.venv-$*/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps -r $<
	@touch $@

bench: jars .venv-flink/.ready .venv-quix/.ready ## Figures beside Spark's sink, Flink and Quix Streams; ARGS="--help"
	@$(BIN)/python -m bench $(ARGS)

peer-expiry: jars .venv-flink/.ready ## Killed between decision and commit, transactions expire, started again: onceflow and Flink
	@$(BIN)/python -m bench.expiry $(ARGS)

bench-page: $(SETUP) ## docs/benchmarks.md and its plots, from bench/results/latest.json
	@$(BIN)/python -m bench.page
