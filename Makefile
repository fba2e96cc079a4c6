# `make demo` and `make test` need Python >= 3.10 (with venv), nothing else:
# the environment is made from requirements.lock when it is missing or older than it.
PYTHON ?= python3
VENV ?= .venv
PY := $(VENV)/bin/python

export PIP_DISABLE_PIP_VERSION_CHECK := 1

# Installs in seconds what takes pip minutes: it fetches side by side and compiles no module that is
# not imported. It comes from the lock, with its hash, and takes pip's package index.
UV := $(if $(PIP_INDEX_URL),UV_DEFAULT_INDEX='$(PIP_INDEX_URL)') $(VENV)/bin/uv

NEEDS := kerneltrack needs Python 3.10 or newer with venv
ADVICE := name one with `make PYTHON=/path/to/python ...`

# Of `make live-demo`: so many times as fast as the recording.
SPEED ?= 8
# Of `make fuzz`: crafted states of each piece of state, and which pieces (all).
TRIALS ?= 10000
ONLY ?=
# Of `make test` and `make sanitize`: which lane of the tests, of the contracts.
TESTS ?= not nightly
LANE ?= sanitized and not nightly
# Of `make typecheck`: what `make check` looks at; all of it otherwise.
PRODUCT := kerneltrack transforms pipelines
# Of `make bench`: --keep, or --only NAME ...
BENCH ?=

# Of `make test-shuffled`: the order's seed (another one each time).
ORDER ?=

# Of `make simulate`: of the first life, and how many steps there are to be.
SEED ?= 0
STEPS ?= 20000

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help env spark demo docs picture watch-demo live-demo test test-fast test-shuffled test-nightly sanitize fuzz simulate lint format typecheck check bench lock sbom clean

help: ## list the targets
	@sed -nE 's/^([a-z-]+):.*## (.*)/  make \1\t\2/p' Makefile | expand -t 18

env: $(VENV)/.installed ## make or update the environment in .venv/

$(VENV)/.locked: requirements.lock
	@command -v '$(PYTHON)' >/dev/null || { echo '$(NEEDS), and there is no $(PYTHON): $(ADVICE)' >&2; exit 1; }
	@'$(PYTHON)' -c 'import sys; sys.exit(sys.version_info < (3, 10))' \
		|| { echo "$(NEEDS), and $(PYTHON) is $$('$(PYTHON)' -V 2>&1): "'$(ADVICE)' >&2; exit 1; }
	@echo 'Making $(VENV)/ from requirements.lock: this takes a minute or so.'
	@'$(PYTHON)' -m venv --clear $(VENV)
	@sed -n '/^uv==/,/[^\]$$/p' requirements.lock >$(VENV)/uv.txt
	@$(PY) -m pip install --quiet --require-hashes --requirement $(VENV)/uv.txt
	@$(UV) pip install --quiet --python $(PY) --require-hashes --requirement requirements.lock || { \
		echo 'uv could not install them: now pip does, which takes longer.' >&2; \
		$(PY) -m pip install --quiet --require-hashes --requirement requirements.lock; }
	@touch $@

# The row loops are C. Where there is no compiler a package of PyPI brings one (80 MB).
ZIG := ziglang==0.15.1
zig-cc := $(if $(shell command -v $(CC)),,$(VENV)/bin/zig-cc)

$(VENV)/bin/zig-cc: $(VENV)/.locked
	@echo 'There is no C compiler ($(CC)): installing $(ZIG).'
	@$(PY) -m pip install --quiet '$(ZIG)'
	@printf '#!/bin/sh\nexec "%s" -m ziglang cc -mcpu=baseline "$$@"\n' '$(CURDIR)/$(PY)' >$@
	@chmod +x $@

$(VENV)/.installed: $(VENV)/.locked pyproject.toml kerneltrack/__init__.py CMakeLists.txt $(zig-cc) \
		$(wildcard kerneltrack/native/*.c kerneltrack/native/*.h)
	@$(if $(zig-cc),CC='$(CURDIR)/$(zig-cc)') \
		$(PY) -m pip install --quiet --no-deps --no-build-isolation --editable .
	@# What jobs import is compiled here, also where Python is told to write none of it down.
	@env -u PYTHONDONTWRITEBYTECODE $(PY) -c 'import pipelines.files.pipeline, pipelines.live.stream'
	@touch $@

# 450 MB that one example and its test need: by itself, with a lock of its own.
spark: env ## install pyspark, for examples/on_spark.py (Java 17)
	@$(UV) pip install --quiet --python $(PY) --require-hashes --requirement requirements-spark.lock

demo: env ## find the broken ones among 240 pumps; leaves a report in build/demo/
	$(PY) samples/fleet.py build/fleet
	$(VENV)/bin/kerneltrack track build/fleet/rows.parquet --model-id device --time time \
		--reference first --learner auto --labels build/fleet/labels.parquet --label-wait 600 \
		--output build/demo --overwrite
	@echo 'The report, to open in a browser: $(CURDIR)/build/demo/report.html'

picture: demo ## make the README's picture of the demo's report, light and dark (chromium), and detection.md's
	$(PY) docs/site/episode.py
	$(foreach each,1:report.png 0:report_dark.png, \
		chromium --headless --no-sandbox --hide-scrollbars --window-size=1120,740 \
		--blink-settings=preferredColorScheme=$(firstword $(subst :, ,$(each))) \
		--virtual-time-budget=8000 --screenshot=docs/images/$(lastword $(subst :, ,$(each))) \
		'file://$(CURDIR)/build/demo/report.html' &&) true

watch-demo: env ## track, measure and learn on a real recording; leaves a report in build/watch/
	$(VENV)/bin/kerneltrack track samples/watch.parquet --model-id model_id --time time --label label \
		--learner ridge --window 60 --drift --output build/watch --overwrite
	@echo 'The report, to open in a browser: $(CURDIR)/build/watch/report.html'

live-demo: env ## track a replayed recording on a local Flink and Kafka (Java 17 and Maven); SPEED=8
	$(PY) -m pipelines.live.demo --speed $(SPEED)

# Its theme's maker says on each run that there is a successor.
docs: env ## build the site of the documentation in build/site/; broken links are errors
	@NO_MKDOCS_2_WARNING=1 $(VENV)/bin/mkdocs build --quiet --strict

# Tests run side by side on all processors: threads of BLAS would only wait for each other.
test test-fast test-shuffled test-nightly: export OPENBLAS_NUM_THREADS := 1

test: env ## run the tests of each change, side by side
	$(PY) -m pytest -m '$(TESTS)' --numprocesses auto --maxprocesses 4

# Among them is an example's for Spark; types of tests and benchmarks are checked, too.
test-nightly: spark typecheck ## run those that take long, and prove what changes seldom break
	$(PY) -m pytest -m nightly --numprocesses auto --maxprocesses 4

test-fast: env ## run the unit and stream tests that need no cluster and no data sets
	$(PY) -m pytest kerneltrack tests/unit tests/stream -m 'not live and not data and not nightly' \
		--numprocesses auto --maxprocesses 4

test-shuffled: export ALL_EXAMPLES := 1
test-shuffled: env ## run those that need no cluster and no data sets in an order drawn from a seed; ORDER=7
	$(PY) -m pytest -m 'not live and not data and not nightly' --numprocesses auto --maxprocesses 4 \
		--random-order $(ORDER:%=--random-order-seed=%)

# What the row loops have to hold. With each change the sanitizers see those marked `sanitized`, each
# night all: what goes over many rows takes them eight times as long.
CONTRACTS := $(addprefix tests/unit/test_,crafted_states.py tracker_contract.py trackers_together.py \
	learners_contract.py reference.py reference_moving.py reference_rest.py reference_false.py \
	reference_windows.py periods.py native.py)

# Loops whose every address and conversion is checked, under states and rows that mean harm.
SANITIZED := build/sanitized

SANITIZED_BUILD = $(shell $(PY) -c 'from kerneltrack.native import binding; print(binding.build())')
SANITIZED_LOOPS = LD_PRELOAD="$$(cc -print-file-name=libasan.so) $$(cc -print-file-name=libubsan.so)" \
	ASAN_OPTIONS=detect_leaks=0 KERNELTRACK_NATIVE=$(SANITIZED_BUILD) \
	KERNELTRACK_NATIVE_FOLDER=$(CURDIR)/$(SANITIZED)/lib

.PHONY: sanitized
sanitized: env
	@$(VENV)/bin/cmake -S . -B $(SANITIZED) -G Ninja -DCMAKE_MAKE_PROGRAM=$(CURDIR)/$(VENV)/bin/ninja \
		-DKERNELTRACK_SANITIZE=ON -DKERNELTRACK_OUTPUT=$(CURDIR)/$(SANITIZED)/lib >/dev/null
	@$(VENV)/bin/cmake --build $(SANITIZED) --target $(SANITIZED_BUILD) >/dev/null

sanitize: sanitized ## run the contracts and crafted states with the address and undefined-behaviour sanitizers
	$(SANITIZED_LOOPS) $(PY) -m pytest $(CONTRACTS) -m '$(LANE)' --numprocesses 2

fuzz: sanitized ## crafted states under the sanitizers, more than an hour; TRIALS=10000 ONLY=auto
	$(SANITIZED_LOOPS) $(PY) -m tests.crafted_states --trials $(TRIALS) --only '$(ONLY)'

simulate: env ## lives of a live job's keyed step with faults, against the core; SEED=0 STEPS=20000
	OPENBLAS_NUM_THREADS=1 $(PY) -m tests.simulation --seed $(SEED) --steps $(STEPS)

lint: env ## check style and format
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .

format: env ## put the sources into the project's format
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .

typecheck: env ## check types
	$(VENV)/bin/mypy $(TYPED)

# Tests wait for clusters now and then: types are checked, sanitizers run and the site is built
# beside them. What is marked `sanitized` runs there alone: test_native.py and test_replay.py show
# that all builds have the same bits. Collected once, tests and what they import are compiled: each
# process that runs them would do it over again.
check: lint ## run all that CI runs
	@mkdir -p build
	@nice $(MAKE) --no-print-directory typecheck docs sanitize TYPED='$(PRODUCT)' \
			>build/beside.log 2>&1 & beside=$$!; \
		$(MAKE) --no-print-directory test TESTS='not nightly and not sanitized'; tests=$$?; \
		wait $$beside; beside=$$?; cat build/beside.log; \
		[ $$tests -eq 0 ] && [ $$beside -eq 0 ]

bench: env ## run short forms of all benchmarks, 20 minutes; names what moved (BENCH=--keep takes it over)
	$(PY) -m benchmarks.short $(BENCH)

LOCKED := --universal --python-version 3.10 --generate-hashes --no-emit-index-url \
	--no-emit-find-links --no-annotate --custom-compile-command 'make lock'

lock: ## write the locks anew from pyproject.toml (newer versions: LOCK_FLAGS=--upgrade)
	@'$(PYTHON)' -m venv build/lock
	@build/lock/bin/python -m pip install --quiet 'uv>=0.9,<1'
	build/lock/bin/uv pip compile --quiet $(LOCKED) --all-extras \
		$(LOCK_FLAGS) --output-file requirements.lock pyproject.toml
	build/lock/bin/uv pip compile --quiet $(LOCKED) --group spark --constraint requirements.lock \
		$(LOCK_FLAGS) --output-file requirements-spark.lock

sbom: env ## write build/sbom.json: all that requirements.lock installs, in CycloneDX's form
	@mkdir -p build
	$(VENV)/bin/cyclonedx-py requirements --no-validate --output-reproducible \
		--pyproject pyproject.toml --output-file build/sbom.json requirements.lock

clean: ## remove what was built, but not the environment
	rm -rf build dist *.egg-info .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find benchmarks kerneltrack pipelines tests transforms -name __pycache__ -prune -exec rm -rf {} +
