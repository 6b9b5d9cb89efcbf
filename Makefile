# Everything runs in a virtual environment of its own, .venv, that each target sets up first. Needed: git, Python 3.11, make.

PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
SOURCES := $(sort $(shell find engine planner connectors -name '*.py'))

.DEFAULT_GOAL := help
.PHONY: help run test torture fuzz slt lint format types bench flink dev java clean

help: ## what there is
	@grep -E '^[a-z]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-8s %s\n", $$1, $$2}'

run: $(VENV)/.installed ## counts the words of the standard library, joins and aggregates a NEXMark corpus
	$(BIN)/python examples/main_job.py

test: $(VENV)/.test java ## all tests
	PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n 2 --dist loadfile $(ARGS)

torture: $(VENV)/.test ## kills jobs again and again, and compares what they wrote (ARGS="--minutes 60 --seed 7")
	$(BIN)/python -m tests.torture.kill_loop $(ARGS)

fuzz: $(VENV)/.test ## makes queries, statements and messages by chance, and says what is wrong (ARGS="--minutes 10 --seed 7")
	$(BIN)/python -m tests.torture.fuzz $(ARGS)

slt: $(VENV)/.test ## the SQL files alone
	$(BIN)/python -m pytest tests/slt $(ARGS)

lint: $(VENV)/.dev ## style and common faults
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: $(VENV)/.dev ## puts the style right
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: $(VENV)/.dev ## mypy over an installed copy: the folders are not called what they are imported as
	rm -rf build/lib build/typecheck
	$(BIN)/python -m pip install --quiet --no-deps --target build/typecheck .
	MYPYPATH=build/typecheck $(BIN)/mypy --config-file setup.cfg -p runnel

bench: $(VENV)/.bench ## the measurements, into benchmarks/RESULTS.md
	$(BIN)/python -m benchmarks.run $(ARGS)

flink: ## PyFlink in an environment of its own, for `make bench` to compare with
	$(PYTHON) -m venv .flink
	.flink/bin/python -m pip install --quiet 'apache-flink>=2.3,<3'

dev: $(VENV)/.dev $(VENV)/.test ## all that working on it takes

java: ## Java 17 for Spark, from the system's package manager where there is none and that can be had
	@command -v java > /dev/null || test -x "$$JAVA_HOME/bin/java" || { \
	  echo "Spark needs Java 17: installing it"; \
	  as=; test "$$(id -u)" = 0 || as="sudo -n"; \
	  if command -v apt-get > /dev/null; then $$as apt-get -q update && $$as apt-get -q -y install openjdk-17-jre-headless; \
	  elif command -v dnf > /dev/null; then $$as dnf -q -y install java-17-openjdk-headless; \
	  elif command -v apk > /dev/null; then $$as apk add -q openjdk17-jre-headless; \
	  elif command -v brew > /dev/null; then brew install -q openjdk@17; \
	  else false; fi; } || echo "Java 17 can't be installed here: install it by hand; until then the tests of Spark are skipped"

clean: ## removes what was made
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# A strict editable install links file by file, so it is made anew when a file comes or goes: .files lists them.

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.files: $(VENV)/bin/python FORCE
	@echo "$(SOURCES)" | cmp --silent - $@ || echo "$(SOURCES)" > $@

$(VENV)/.installed: setup.cfg pyproject.toml $(VENV)/.files
	$(BIN)/python -m pip install --quiet --editable . --config-settings editable_mode=strict
	@touch $@

$(VENV)/.test: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --editable '.[test]' --config-settings editable_mode=strict
	@touch $@

$(VENV)/.dev: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --editable '.[dev]' --config-settings editable_mode=strict
	@touch $@

$(VENV)/.bench: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --editable '.[bench]' --config-settings editable_mode=strict
	@touch $@

FORCE:
