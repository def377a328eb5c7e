# Two commands matter: `make demo` runs the main job, `make test` checks everything. While you work, `make check`
# runs what is quick.
# Both set up what they need (a virtual environment in .venv, packages, model files) and say so.

PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
BENCH_READY := .venv/.bench-ready
CHIMERA := $(BIN)/chimera

INTEGRATIONS := .venv-integrations
NUMPY := .venv-numpy
OLDEST := .venv-oldest
EXTRAS := lab parquet pandas inspect
# The hosts of live guards, each with an extra.
HOSTS := langchain claude-agent-sdk openai-agents litellm pydantic-ai opentelemetry adk smolagents autogen ag2 mcp
# What the package and its extras need, one requirement a line.
REQUIREMENTS = import sys, tomllib; project = tomllib.load(open("pyproject.toml", "rb"))["project"]; \
  print(*project["dependencies"], *(each for name in sys.argv[1:] for each in project["optional-dependencies"][name]), sep="\n")
# Exact versions, each checked by its hash, and then the package itself with its encoder compiled in place:
# $(call install,FOLDER,EXTRAS,GROUPS). An editable package has no hash, so it is installed apart; and pip comes
# first, because an old one takes no hashes from constraints.
install = sed -n '/^pip==/,/[^\\]$$/p' constraints.txt > $(1)/pip.txt \
  && $(1)/bin/python -m pip install -qq -r $(1)/pip.txt \
  && $(1)/bin/python -c '$(REQUIREMENTS)' $(2) > $(1)/requirements.txt \
  && $(1)/bin/python -m pip install -qq -c constraints.txt -r $(1)/requirements.txt --group build $(3) \
  && $(1)/bin/python -m pip install -qq --no-deps --no-build-isolation --editable . \
  && $(1)/bin/python -m pip check

# Tests start `chimera` hundreds of times; where Python may not keep what it compiled, each start compiles the
# package anew.
unexport PYTHONDONTWRITEBYTECODE

# How long the demo has taken since it was set up.
ELAPSED = echo "-- $$(( $$(date +%s) - $$(cat .venv/.demo-started) )) s since set-up was done"

# One process a core; a process that has nothing left to do takes tests from another. The laws draw the same
# examples each time, so that a run is not red by chance; `make test-all` draws new ones.
AT_ONCE := -n auto --dist worksteal
SAME_EXAMPLES := --hypothesis-profile=ci

.PHONY: help demo check test test-all quick-tests tests test-integrations test-numpy test-oldest setup lint types layers soak campaign mutants coverage bench pictures site newcomer release weights browser constraints clean

help:
	@echo "make demo      find the loops in examples, run a stress test and a small study, report both"
	@echo "make check     lint, types, layers, unit tests, laws and the examples in docstrings: two minutes"
	@echo "make test      lint, types, layers and all tests but the slow ones: eight minutes"
	@echo "make test-all  the same with the slow ones"
	@echo "make test-integrations  the tests with the packages of others, in an environment of their own"
	@echo "make test-numpy  the tests where no C compiler works, in a clone of what is committed"
	@echo "make test-oldest  the tests with the oldest versions of dependencies that are allowed"
	@echo "make soak      make test five times, and twice beside four busy processes; it can be continued"
	@echo "make campaign  fuzz, kill, damage and tamper in bulk, an hour; it can be continued"
	@echo "make mutants   check that the tests find each of a list of planted errors"
	@echo "make coverage  which lines the tests run"
	@echo "make bench     the benchmarks (installs sentence-transformers to compare with)"
	@echo "make site      the documentation as a web site, in site/"
	@echo "make newcomer  install the wheel on each Python here, and follow the README (minutes)"
	@echo "make release   build and check what is published, into dist/"
	@echo "make constraints  write constraints.txt again: the versions that everything is installed in"
	@echo "make clean     remove the virtual environment and caches"

# What is quickest comes first: verdicts on logs within seconds, then the trial, then self-play.
demo: $(READY) weights
	@date +%s > .venv/.demo-started
	@echo "== 1 of 3: which of the example conversations loop, and where?"
	$(CHIMERA) detect examples --group-by condition
	@$(ELAPSED)
	@echo
	@echo "== 2 of 3: a stress test: does a wrong majority pull a subject away from what it was told? Two"
	@echo "   phantoms, one steady and one pliable, and the embedded model (about a minute; what is done is kept)"
	@mkdir -p demo && (test -f demo/stress-test/plan.toml || cp -R studies/stress-test demo/)
	$(CHIMERA) check demo/stress-test --offline
	$(CHIMERA) lock demo/stress-test
	$(CHIMERA) run demo/stress-test
	$(CHIMERA) report demo/stress-test
	@$(ELAPSED)
	@echo
	@echo "== 3 of 3: a locked self-play study on the embedded model (minutes; what is done is kept)"
	@test -f demo/study/plan.toml || $(CHIMERA) new demo/study --template selfplay
	$(CHIMERA) lock demo/study
	$(CHIMERA) run demo/study
	$(CHIMERA) detect demo/study --group-by condition
	$(CHIMERA) report demo/study
	@$(ELAPSED)
	@echo
	@echo "open demo/stress-test/report/index.html and demo/study/report/index.html,"
	@echo "or see both studies, every conversation and the examples in the browser: $(CHIMERA) view demo examples"

# The types are checked beside the tests: one core would wait otherwise.
check: lint layers weights
	@$(MAKE) --no-print-directory -j 2 types quick-tests

test: lint layers setup
	@$(MAKE) --no-print-directory -j 2 types tests

quick-tests: $(READY)
	$(BIN)/pytest $(AT_ONCE) $(SAME_EXAMPLES) -m "not slow and not model" tests/unit tests/laws src

tests: $(READY)
	$(BIN)/pytest $(AT_ONCE) $(SAME_EXAMPLES) -m "not slow and not integrations"

test-all: lint types layers setup site test-integrations test-numpy test-oldest
	$(BIN)/pytest -m "not integrations"

test-integrations: $(INTEGRATIONS)/.ready
	$(INTEGRATIONS)/bin/pytest -m integrations tests/integrations

# In a clone, because an install from this folder would find the library that was compiled here.
test-numpy:
	rm -rf $(NUMPY) && git clone -q . $(NUMPY)
	CC=/bin/false $(MAKE) -C $(NUMPY) weights
	test ! -e $(NUMPY)/src/chimeralab/embedding/libminilm.so
	cd $(NUMPY) && CC=/bin/false .venv/bin/pytest -m "not slow and not integrations and not browser" $(AT_ONCE)

# The lower bounds in pyproject.toml, taken literally. What old versions deprecate is their affair.
test-oldest: weights
	@test -x $(OLDEST)/bin/pip || $(PYTHON) -m venv $(OLDEST)
	$(OLDEST)/bin/pip install -qq --upgrade pip
	$(OLDEST)/bin/python -c '$(REQUIREMENTS)' lab parquet pandas | sed 's/>=/==/' > $(OLDEST)/requirements.txt
	$(OLDEST)/bin/pip install -qq -r $(OLDEST)/requirements.txt --group test --group build
	$(OLDEST)/bin/pip install -qq --no-deps --no-build-isolation --editable .
	$(OLDEST)/bin/pytest $(AT_ONCE) -W ignore::DeprecationWarning -W ignore::FutureWarning \
	  -m "not slow and not integrations and not browser and not model" tests/unit tests/laws tests/e2e

# Whether `make test` is green each time. SOAK="--quiet 1 --loaded 0" runs it once.
soak: $(READY)
	$(BIN)/python -m tests.soak $(SOAK)

# Whether it survives bulk attacks. CAMPAIGN="--only fuzz --cases 10000" runs a hundredth of the fuzzing.
campaign: setup
	$(BIN)/python -m tests.campaign $(CAMPAIGN)

mutants: setup
	$(BIN)/python -m tests.mutants

# With what the tests start in processes of their own.
coverage: setup
	$(BIN)/pytest $(AT_ONCE) -m "not slow and not integrations" --cov=chimeralab --cov-branch --cov-report=term:skip-covered

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)
	$(BIN)/mypy

layers: $(READY)
	$(BIN)/lint-imports

setup: $(READY) weights browser

# The pictures of the web app in docs/images, taken of a real server with a real browser.
pictures: setup
	$(BIN)/python -m tests.browser.pictures

# Packages that only the site needs are pinned like all others. It is built without a network.
site: $(READY)
	@$(BIN)/python -m pip install -qq -c constraints.txt --group docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# In empty environments, with a home of their own. PYTHONS="python3.12 …" chooses them.
newcomer: $(READY)
	$(BIN)/python tools/newcomer.py $(PYTHONS)

# Into dist/: source archive, wheel, bill of materials, checksums. Publishes nothing.
release:
	$(PYTHON) tools/release.py

bench: $(BENCH_READY) weights
	$(BIN)/python -m benchmarks

weights: $(READY)
	@$(CHIMERA) models pull minilm smollm2

# The browser tests skip, and say so, where there is no Chromium and none can be installed; those of
# accessibility need axe-core from npm, too.
AXE := axe-core@4.10.3
browser: $(READY)
	@test -s .venv/axe.min.js && exit 0; \
	(cd .venv && npm pack --silent $(AXE) >/dev/null 2>&1 && tar -xzOf axe-core-*.tgz package/axe.min.js > axe.min.js \
	  && rm axe-core-*.tgz) || { rm -f .venv/axe.min.js; echo "no axe-core from npm: the tests of accessibility will be skipped"; }
	@command -v chromium chromium-browser google-chrome >/dev/null && exit 0; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  echo "installing Chromium for the browser tests"; \
	  (apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core) >/dev/null 2>&1 \
	    || echo "Chromium can't be installed here: the browser tests will be skipped"; \
	else echo "no Chromium found: the browser tests will be skipped"; fi

BUILT_FROM := pyproject.toml src/chimeralab/version.py constraints.txt hatch_build.py src/chimeralab/embedding/build.py src/chimeralab/embedding/minilm.c

$(READY): $(BUILT_FROM)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "Chimera Lab needs Python 3.11 or later; name one with: make PYTHON=python3.12"; exit 2; }
	@echo "setting up .venv (once; a few minutes on a slow line)"
	@test -d .venv || $(PYTHON) -m venv .venv
	@$(call install,.venv,$(EXTRAS),--group test --group lint)
	@touch $@

$(INTEGRATIONS)/.ready: $(BUILT_FROM)
	@echo "setting up $(INTEGRATIONS) with the packages of others (once)"
	@test -d $(INTEGRATIONS) || $(PYTHON) -m venv $(INTEGRATIONS)
	@$(call install,$(INTEGRATIONS),$(EXTRAS) $(HOSTS) ray,--group integrations)
	@touch $@

$(BENCH_READY): $(READY)
	@echo "installing what the benchmarks compare with (PyTorch, sentence-transformers)"
	@$(BIN)/python -m pip install -qq "torch==2.13.0"
	@$(BIN)/python -m pip install -qq --group bench
	@touch $@

# The newest versions that fit pyproject.toml, for every system, with the hashes of all their files.
constraints:
	@test -x .venv/bin/uv || .venv/bin/python -m pip install -qq uv
	.venv/bin/uv pip compile pyproject.toml --upgrade --all-extras --group build --group test --group lint \
	  --group docs --group integrations --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
	  --no-emit-index-url --quiet --output-file constraints.txt

clean:
	rm -rf .venv $(INTEGRATIONS) $(NUMPY) $(OLDEST) demo site soak campaign .coverage .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
