# Two commands matter: `make demo` runs the main job, `make test` checks everything.
# Both set up what they need (a virtual environment in .venv, packages, model files) and say so.

PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
BENCH_READY := .venv/.bench-ready
CHIMERA := $(BIN)/chimera

INTEGRATIONS := .venv-integrations
EXTRAS := lab,parquet,inspect

.PHONY: help demo test test-all test-integrations lint types layers pytest bench weights browser clean

help:
	@echo "make demo      find the loops in examples, run a small study and a stress test, report both"
	@echo "make test      lint, types, layers and all tests but the slow ones"
	@echo "make test-all  the same with the slow ones"
	@echo "make test-integrations  the tests with the packages of others, in an environment of their own"
	@echo "make bench     the benchmarks (installs sentence-transformers to compare with)"
	@echo "make clean     remove the virtual environment and caches"

demo: $(READY) weights
	@echo "== 1 of 4: which of the example conversations loop, and where?"
	$(CHIMERA) detect examples --group-by condition
	@echo
	@echo "== 2 of 4: a locked self-play study on the embedded model (minutes; what is done is kept)"
	@test -f demo/study/plan.toml || $(CHIMERA) new demo/study --template selfplay
	$(CHIMERA) lock demo/study
	$(CHIMERA) run demo/study
	$(CHIMERA) detect demo/study --group-by condition
	@echo
	@echo "== 3 of 4: its report"
	$(CHIMERA) report demo/study
	@echo
	@echo "== 4 of 4: a stress test of memory and independence, on the embedded model and two"
	@echo "   phantoms: one that resists and one that bends (minutes; what is done is kept)"
	@mkdir -p demo && (test -f demo/stress-test/plan.toml || cp -R studies/stress-test demo/)
	$(CHIMERA) lock demo/stress-test
	$(CHIMERA) run demo/stress-test
	$(CHIMERA) report demo/stress-test
	@echo
	@echo "open demo/study/report/index.html and demo/stress-test/report/index.html"

test: lint types layers pytest

test-all: lint types layers weights browser test-integrations
	$(BIN)/pytest -m "slow or not slow"

test-integrations: $(INTEGRATIONS)/.ready
	$(INTEGRATIONS)/bin/pytest -m integrations tests/integrations

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)
	$(BIN)/mypy

layers: $(READY)
	$(BIN)/lint-imports

pytest: $(READY) weights browser
	$(BIN)/pytest -m "not slow" -n 2 --dist loadfile

bench: $(BENCH_READY) weights
	$(BIN)/python -m benchmarks

weights: $(READY)
	@$(CHIMERA) models pull minilm smollm2

# The browser tests skip, and say so, where there is no Chromium and none can be installed.
browser:
	@command -v chromium chromium-browser google-chrome >/dev/null && exit 0; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  echo "installing Chromium for the browser tests"; \
	  (apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core) >/dev/null 2>&1 \
	    || echo "Chromium can't be installed here: the browser tests will be skipped"; \
	else echo "no Chromium found: the browser tests will be skipped"; fi

$(READY): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "Chimera Lab needs Python 3.11 or later; name one with: make PYTHON=python3.12"; exit 2; }
	@echo "setting up .venv (once; a few minutes on a slow line)"
	@test -d .venv || $(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install -qq --upgrade "pip>=25.1"
	@$(BIN)/python -m pip install -qq --editable ".[$(EXTRAS)]" --group test --group lint
	@touch $@

$(INTEGRATIONS)/.ready: pyproject.toml
	@echo "setting up $(INTEGRATIONS) with the packages of others (once)"
	@test -d $(INTEGRATIONS) || $(PYTHON) -m venv $(INTEGRATIONS)
	@$(INTEGRATIONS)/bin/python -m pip install -qq --upgrade "pip>=25.1"
	@$(INTEGRATIONS)/bin/python -m pip install -qq --editable ".[$(EXTRAS)]" --group integrations
	@touch $@

$(BENCH_READY): $(READY)
	@echo "installing what the benchmarks compare with (PyTorch, sentence-transformers)"
	@$(BIN)/python -m pip install -qq "torch==2.13.0"
	@$(BIN)/python -m pip install -qq --group bench
	@touch $@

clean:
	rm -rf .venv $(INTEGRATIONS) demo .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
