# Each target first sets up a virtual environment, .venv, with what it needs. Required: git, make and Python 3.11 or later.

# Python for the virtual environment: a program name or a path. If empty, the first of PYTHONS that is new enough.
PYTHON ?=
PYTHONS := python3 python $(foreach minor,11 12 13 14 15 16 17 18 19,python3.$(minor))
VENV := .venv
BIN := $(VENV)/bin
INSTALL = $(BIN)/python -m pip install --quiet --constraint constraints.txt --config-settings editable_mode=strict
SOURCES = $(sort $(shell find engine planner connectors -name '*.py'))

# Shell code that sets `python` and `version`, or explains what is missing and fails. Old Pythons are listed in `old`.
VERSION_CODE := import sys; print("%d.%d.%d" % sys.version_info[:3]); sys.exit(sys.version_info < (3, 11))
define FIND_PYTHON
old=; python=; \
for name in $(if $(PYTHON),'$(PYTHON)',$(PYTHONS)); do \
  if version=$$("$$name" -c '$(VERSION_CODE)' 2>/dev/null); then python=$$name; break; fi; \
  test -z "$$version" || old="$$old $$name ($$version)"; \
done; \
if test -z "$$python"; then \
  if test -n "$$old"; then echo "Python 3.11 or later is required; found only:$$old" >&2; \
  else echo "Python 3.11 or later is required; not found: $(if $(PYTHON),$(PYTHON),python3, python, python3.11 …)" >&2; fi; \
  echo "Install it, or name it: make PYTHON=/path/to/python3.12 …" >&2; exit 1; \
fi; \
if ! "$$python" -c 'import venv, ensurepip' 2>/dev/null; then \
  echo "$$python ($$version) has no module venv; on Debian and Ubuntu: apt-get install python3-venv" >&2; exit 1; \
fi
endef

.DEFAULT_GOAL := help
.PHONY: help python run test torture fuzz slt lint format types docs bench bench-check flink dev java clean FORCE

help: ## list the targets
	@grep -E '^[a-z]+:.*## ' $(firstword $(MAKEFILE_LIST)) | awk -F ':.*## ' '{printf "  make %-8s %s\n", $$1, $$2}'

python: ## show which Python a new .venv would use
	@$(FIND_PYTHON); echo "$$python ($$version)"

run: $(VENV)/.installed ## run the example: word count, joins and aggregates over generated data
	$(BIN)/python examples/main_job.py

test: $(VENV)/.test java ## run all tests (ARGS="-k name" passes options to pytest)
	PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n 2 --dist loadfile $(ARGS)

torture: $(VENV)/.test ## kill jobs repeatedly and compare their output (ARGS="--minutes 60 --seed 7")
	$(BIN)/python -m tests.torture.kill_loop $(ARGS)

fuzz: $(VENV)/.test ## run random queries, statements and messages (ARGS="--minutes 10 --seed 7")
	$(BIN)/python -m tests.torture.fuzz $(ARGS)

slt: $(VENV)/.test ## run only the .slt files
	$(BIN)/python -m pytest tests/slt $(ARGS)

lint: $(VENV)/.dev ## check style and formatting with ruff
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: $(VENV)/.dev ## correct style and formatting with ruff
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Checkers need an installed copy: the folders have other names than the packages.
types: $(VENV)/.dev ## check types with mypy, on an installed copy
	rm -rf build/lib build/typecheck
	$(BIN)/python -m pip install --quiet --no-deps --target build/typecheck .
	MYPYPATH=build/typecheck $(BIN)/mypy --config-file setup.cfg -p runnel

docs: $(VENV)/.docs ## build the documentation site into build/site, and check its links
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

bench: $(VENV)/.bench ## run the benchmarks and write benchmarks/RESULTS.md
	$(BIN)/python -m benchmarks.run $(ARGS)

bench-check: $(VENV)/.bench ## compare ten fast ratios with benchmarks/baseline.json, in two minutes (ARGS=--write stores them)
	$(BIN)/python -m benchmarks.check $(ARGS)

flink: ## install PyFlink into .flink, for comparison in `make bench`
	@$(FIND_PYTHON); "$$python" -m venv .flink
	.flink/bin/python -m pip install --quiet 'apache-flink>=2.3,<3'

dev: $(VENV)/.dev $(VENV)/.test ## set up .venv for development: tests, ruff, mypy

java: ## install Java 17 for Spark with the system's package manager, if Java is missing
	@command -v java > /dev/null || test -x "$$JAVA_HOME/bin/java" || { \
	  echo "Spark needs Java 17: installing it"; \
	  as=; test "$$(id -u)" = 0 || as="sudo -n"; \
	  if command -v apt-get > /dev/null; then $$as apt-get -q update && $$as apt-get -q -y install openjdk-17-jre-headless; \
	  elif command -v dnf > /dev/null; then $$as dnf -q -y install java-17-openjdk-headless; \
	  elif command -v apk > /dev/null; then $$as apk add -q openjdk17-jre-headless; \
	  elif command -v brew > /dev/null; then brew install -q openjdk@17; \
	  else false; fi; } || echo "Java 17 could not be installed. Install it by hand; until then, tests of Spark are skipped."

clean: ## remove .venv, builds and caches
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# A strict editable install links each file, so it is repeated when a file was added or removed: .files lists them.

$(VENV)/bin/python:
	@$(FIND_PYTHON); echo "Creating $(VENV) with $$python ($$version)"; "$$python" -m venv $(VENV)

$(VENV)/.files: $(VENV)/bin/python FORCE
	@echo "$(SOURCES)" | cmp --silent - $@ || { echo "$(SOURCES)" > $@.new && mv $@.new $@; }

$(VENV)/.installed: setup.cfg pyproject.toml constraints.txt $(VENV)/.files
	$(INSTALL) --editable '.[shell]'
	@touch $@

$(VENV)/.test: $(VENV)/.installed
	$(INSTALL) --editable '.[test,docs]'
	@touch $@

$(VENV)/.dev: $(VENV)/.installed
	$(INSTALL) --editable '.[dev]'
	@touch $@

$(VENV)/.docs: $(VENV)/.installed
	$(INSTALL) --editable '.[docs]'
	@touch $@

$(VENV)/.bench: $(VENV)/.installed
	$(INSTALL) --editable '.[bench]'
	@touch $@

FORCE:
