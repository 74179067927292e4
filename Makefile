# onceflow: `make` lists the targets. On a fresh machine (Python 3.11, Java 17, make) each one sets up what it needs.

PYTHON ?= $(shell for each in python3.11 python3.12 python3.13 python3; do command -v $$each && break; done)
VENV := .venv
BIN := $(VENV)/bin
ARGS ?=
SETUP := $(VENV)/.ready
CHECK = command -v $(or $(PYTHON),python3) >/dev/null || { echo "onceflow needs Python 3.11 or newer; '$(PYTHON)' was not found. Set PYTHON=..."; exit 1; }; \
	$(PYTHON) requirements/check.py

.DEFAULT_GOAL := help
SEED ?=
SEEDS ?=
MINUTES ?=
.PHONY: help setup java jars demo test test-fast test-lowest faults faults-state test-brokers test-versions test-three test-clusters test-security example example-postgres example-offsets walk simulate fuzz bench bench-before bench-databases bench-executors bench-formats bench-fraud-formats bench-restart \
	bench-page peer-expiry soak machines lint types format \
	diagram settings reference rooms sql-options sql-oracle sql-rows peers-sql lock clean

help: ## List the targets
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(SETUP) ## Make .venv with the locked dependencies

$(SETUP): requirements/dev.txt pyproject.toml
	@$(CHECK)
	@echo "== Python environment in $(VENV) (once; about 1.2 GB, a minute or two)"
	@$(PYTHON) -m venv $(VENV) || { echo "Python's venv module is missing (Debian: python3-venv)."; exit 1; }
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps -r requirements/dev.txt
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

java: # Before a Python environment is made: without Java it would be of no use to these targets
	@$(CHECK) --java

.venv-lowest/.ready: requirements/lowest.txt
	@$(CHECK)
	@echo "== Environment of the oldest versions in .venv-lowest (once)"
	@$(PYTHON) -m venv .venv-lowest
	@.venv-lowest/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps -r $<
	@.venv-lowest/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

.venv-spark-%/.ready: requirements/spark-%.txt requirements/dev.txt
	@$(CHECK)
	@echo "== Environment of Spark $* in .venv-spark-$* (once; about 1.2 GB)"
	@$(PYTHON) -m venv .venv-spark-$*
	@sed '/^pyspark==/,/--hash/d' requirements/dev.txt | cat - $< > .venv-spark-$*/requirements.txt
	@.venv-spark-$*/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps -r .venv-spark-$*/requirements.txt
	@.venv-spark-$*/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

.venv-python-%/.ready: requirements/dev.txt
	@$(CHECK)
	@echo "== Environment of Python $* in .venv-python-$* (once; about 1.2 GB)"
	@$(PYTHON) -m venv .venv-python-$*
	@.venv-python-$*/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps -r $<
	@.venv-python-$*/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

jars: java $(SETUP) ## Fetch the jars of Spark's connector and of the broker, make Java's class archive (once)
	@$(BIN)/python -c 'import sys; from onceflow.local import jars; sys.exit(jars.main())'
	-@$(BIN)/onceflow class-archive

demo: jars ## The fraud job, killed three times on the way, and the verdict; ARGS="--records 20000 --no-chaos"
	@$(BIN)/onceflow demo $(ARGS)

test: jars lint types ## Everything that CI runs; ROOM=connectors/database for the tests of one room
	-@$(MAKE) --no-print-directory .fuzz/.ready
	@$(BIN)/python -m pytest -n 3 --dist loadfile --no-loadscope-reorder --durations=20 \
		$(if $(ROOM),$(wildcard tests/unit/$(ROOM) tests/integration/$(ROOM))) $(ARGS)

test-lowest: jars .venv-lowest/.ready ## Unit tests, deaths and the contract on the oldest versions that pyproject.toml allows
	@.venv-lowest/bin/python -m pytest -n 2 --dist loadfile tests/unit tests/integration/connectors/kafka/test_contract.py \
		tests/integration/execution/test_crash_points.py $(ARGS)

test-fast: $(SETUP) ## Tests without Spark and without a broker
	@$(BIN)/python -m pytest -n 2 -m "not spark and not kafka" $(ARGS)

faults: jars ## Further faults on a real broker and real Spark, which `make test` leaves out
	@$(BIN)/python -m pytest -n 2 --dist loadfile -m faults $(ARGS)

test-brokers: jars ## What hangs on a broker's answers, on each Kafka; fetches their jars; ARGS="--only 3.7"
	@$(BIN)/python -m bench.brokers $(ARGS)

test-versions: jars .venv-spark-4.0/.ready .venv-spark-4.1/.ready .venv-spark-4.2/.ready ## What hangs on Spark, on each of its minor releases and each Python and Java that is here; ARGS="--only 4.0 java21"
	@$(BIN)/python -m bench.spark_versions $(ARGS)

test-three: jars ## Three brokers, of which some are killed or lose their disks
	@$(BIN)/python -m pytest -m three $(ARGS)

test-clusters: jars ## The same job on Spark clusters, of which executors, workers and drivers are killed; 15 minutes
	@$(BIN)/python -m pytest -m clusters $(ARGS)

test-security: jars ## What another user of the machine gets of a job; only root can become one: sudo make test-security
	@PYTHONDONTWRITEBYTECODE=1 $(BIN)/python -m pytest -p no:cacheprovider -m "faults or not faults" tests/integration/house/test_other_users.py $(ARGS)

faults-state: jars ## Each example with state killed at every crash point, an hour or two; ARGS="--only sessions"
	@$(BIN)/python -m tests.examples.deaths $(ARGS)
	@$(BIN)/python -m tests.examples.page

example: jars ## An example on a real Kafka, its output recomputed; NAME=sessions ARGS="--records 20000 --seed 7"
	@$(BIN)/python -m tests.examples $(or $(NAME),all) $(ARGS)

walk: jars ## One small job step by step: what each step leaves on the broker and in the checkpoint
	@$(BIN)/onceflow walk $(ARGS)

example-postgres: jars ## Alerts to Kafka, payments to PostgreSQL, the driver killed ten times; ARGS="--seed 7"
	@$(BIN)/python -m tests.examples.kafka_and_postgres $(ARGS)

example-offsets: jars ## Four ways to keep offsets, each killed, and what it lost and doubled
	@$(BIN)/python -m tests.examples.offsets

simulate: $(SETUP) ## The rules in a world of faults; SEEDS=100000 for more, SEED=7 to replay one with its trace
	@PYTHONPATH=src:. $(BIN)/python -m tests.simulation $(if $(SEED),--seed $(SEED),--seeds $(or $(SEEDS),10000)) $(ARGS)

.fuzz/.ready: requirements/fuzz.txt | $(SETUP)
	@echo "== The fuzzer in .fuzz (once; 35 MB; Linux on x86-64)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps --only-binary :all: --upgrade --target .fuzz/lib -r $<
	@touch $@

fuzz: java $(SETUP) .fuzz/.ready ## Coverage-guided fuzzing of all that reads what others may have made, for MINUTES=60; ARGS="--only journal"
	@PYTHONPATH=src:. $(BIN)/python -m tests.fuzz --minutes $(or $(MINUTES),60) $(ARGS)

lint: $(SETUP) ## ruff, and which room lies above which
	@$(BIN)/lint-imports --no-cache --verbose >$(VENV)/walls.txt || { cat $(VENV)/walls.txt; exit 1; }
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

types: $(SETUP) ## mypy, strict
	@$(BIN)/mypy

format: $(SETUP) ## Format and fix what ruff can
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

diagram: $(SETUP) ## Generate the state diagram in docs/ from the table
	@$(BIN)/python -c 'from onceflow.twophase import state; print(state.page(), end="")' > docs/states.md

settings: $(SETUP) ## Generate the page of settings in docs/ from the catalogue and the classes
	@$(BIN)/python -c 'import onceflow as of; from onceflow.options import catalogue; \
	  print(catalogue.page(of.Job, of.FixedDelay, of.ExponentialDelay, of.FailureRate, of.KafkaCluster, of.KafkaSource, of.KafkaSink), end="")' > docs/settings.md

sql-options: $(SETUP) ## Generate the page of SQL's options in docs/ from the tables
	@$(BIN)/python -m tools.sql_options

sql-oracle: jars ## The corpus of SQL before Flink's own parser; fetches its jars
	@$(BIN)/python -m pytest -m oracle tests/sql $(ARGS)

reference: $(SETUP) ## Generate the reference pages in docs/ from the docstrings
	@$(BIN)/python -m tools.reference

rooms: $(SETUP) ## Generate the page of rooms in docs/ from the first lines of the files
	@$(BIN)/python -m tools.rooms

lock: $(SETUP) ## Lock the dependencies again, with hashes
	@$(BIN)/python -m pip install --quiet uv
	@$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links --extra cli --extra postgres --extra mysql --extra sqlite --extra iceberg --extra delta --extra metrics --extra s3 --extra registry --extra protobuf --extra sql --group dev --group walls pyproject.toml -o requirements/dev.txt
	@$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --resolution lowest-direct --generate-hashes --no-emit-index-url --no-emit-find-links --extra cli --extra postgres --extra mysql --extra sqlite --extra iceberg --extra delta --extra metrics --extra s3 --extra registry --extra protobuf --extra sql --group dev pyproject.toml -o requirements/lowest.txt
	@$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links --group pyproject.toml:fuzz -o requirements/fuzz.txt

clean: ## Remove what the targets made here (not the jars)
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .fuzz dist build

# -- figures beside the peers, each in an environment of its own; nothing here is part of `make test` --------------------

.venv-%/.ready: bench/requirements-%.txt | $(SETUP)
	@echo "== Environment of the peer $* in .venv-$* (once)"
	@$(PYTHON) -m venv .venv-$*
	@.venv-$*/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps -r $<
	@touch $@

bench: jars .venv-flink/.ready .venv-quix/.ready ## Figures beside Spark's sink, Flink and Quix Streams, 85 minutes; ARGS="--help"
	@$(BIN)/python -m bench $(ARGS)

peer-expiry: jars .venv-flink/.ready ## Killed between decision and commit, transactions expire, started again: onceflow and Flink
	@$(BIN)/python -m bench.expiry $(ARGS)

bench-restart: jars ## Seconds from a failure to the first epoch behind it, in the process, on the stateful fraud job; 5 minutes
	@$(BIN)/python -m bench.restart $(ARGS)

peers-sql: jars .venv-flink/.ready ## The same script of SQL by Flink and by onceflow: are the rows the same? ARGS="--seed 2"
	@$(BIN)/python -m bench.peers_sql $(ARGS)

sql-rows: jars .venv-flink/.ready ## Ask Flink for the rows that tests/sql/rows_data has no answers to; ARGS="--all"
	@$(BIN)/python -m tests.sql.ask_flink $(ARGS)

bench-databases: jars ## Rows a second into PostgreSQL, beside Spark's JDBC writer, and into PostgreSQL and Kafka in one commit; 15 minutes
	@$(BIN)/python -m bench.databases $(ARGS)

bench-formats: jars ## CPU that reading a million payments costs as JSON, Avro and Protobuf; 3 minutes
	@$(BIN)/python -m bench.formats $(ARGS)

bench-fraud-formats: jars .venv-flink/.ready ## The fraud job in JSON and in Avro by a registry, ours and Flink's; 8 minutes
	@$(BIN)/python -m bench.fraud_formats $(ARGS)

bench-executors: jars ## A copy on a standalone cluster of one executor and of two; 6 minutes
	@$(BIN)/python -m bench.executors $(ARGS)

bench-before: jars ## Epochs of few records by the code before tasks took groups of partitions, and by this one, in turns; 20 minutes
	@$(BIN)/python -m bench.before $(or $(ARGS),9084581)

soak: jars ## Two jobs side by side, killed at random, for HOURS=48 or HOURS=0.5: what grows without end? ARGS="--seed 2"
	@$(BIN)/python -m bench.soak $(or $(HOURS),1) $(ARGS)

machines: jars ## State machines on real systems, for HOURS=8; ARGS="--only Delta --seed 7"; ARGS=--mutants undoes mends
	@$(BIN)/python -m bench.machines $(or $(HOURS),1) $(ARGS)

bench-page: $(SETUP) ## docs/benchmarks.md and its plots, from bench/results/latest.json
	@$(BIN)/python -m bench.page
