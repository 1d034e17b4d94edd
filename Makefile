# Two commands do everything on a fresh machine: `make validate` (the main job) and `make test`.
# The virtual environment is made on first use and remade when the dependencies change.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
OUT    ?= results/validate

# A module is compiled once, not in each of the thousand processes that the tests start, whatever the environment says.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: types validate quick test static engine baseline lint typecheck imports pytest contract sass picture look docs reading tutorial bench wheel wheel-check \
    thorough lock clean

validate: $(VENV)/.installed
	$(BIN)/smlab validate --out $(OUT)

quick: $(VENV)/.installed
	$(BIN)/smlab validate --quick --out $(OUT)

# First, beside each other, what keeps one core busy; the tests then have both.
test: $(VENV)/.installed-dev
	$(MAKE) --no-print-directory --jobs=2 --output-sync=target static engine contract baseline
	$(MAKE) --no-print-directory pytest
	$(MAKE) --no-print-directory sass

static: lint typecheck imports

# What the tests need compiled, once; else the first processes of the tests would wait for each other.
engine: $(VENV)/.installed-dev
	$(BIN)/python -c "from smlab.sim.object_code.loading import ready; ready('engine', 'machine_code', 'trace')"

# What docs/how-to/continuous-integration.md shows, on the kernel that ships: a run is kept, and the reference engine must take
# as many cycles and compute the same.
baseline: engine
	mkdir -p results/baseline
	$(BIN)/smlab run --example --json > results/baseline/kept.json
	$(BIN)/smlab run --example --engine simpy --baseline results/baseline/kept.json --tolerance 0% \
	    --junit results/baseline/junit.xml --markdown results/baseline/summary.md > results/baseline/printed.txt \
	    || { cat results/baseline/printed.txt; exit 1; }

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

typecheck: $(VENV)/.installed-dev types
	$(BIN)/mypy

imports: $(VENV)/.installed-dev types
	cd types && $(abspath $(BIN))/lint-imports --config ../pyproject.toml

# The packages as one tree of links, for tools that cannot follow the mapping in pyproject.toml.
types:
	rm -rf types && mkdir -p types/smlab
	for room in hw_bench models sim validation; do ln -s ../../$$room types/smlab/$$room; done
	for part in smlab/*; do case $$part in */__pycache__) ;; *) ln -s ../../$$part types/smlab/;; esac; done

pytest: $(VENV)/.installed-dev
	$(BIN)/pytest -q -n 2 --dist worksteal

# The CUDA benchmarks' machine code, for all architectures, with no GPU: a part of `make test`. The compiler has an environment of
# its own (1.3 GB), over the packages of the first one. Where it cannot be installed, this fails; nothing is skipped.
# Of a file whose other tests ran in the first environment, only those are named that need the compiler.
# `contract` goes first: it compiles on all cores what the tests then find in the cache.
contract: $(VENV)-cuda/.installed
	$(VENV)-cuda/bin/python -m smlab.cli bench sass

sass: contract
	$(VENV)-cuda/bin/python -m pytest -q -n 2 --dist worksteal tests/hw_bench/sass tests/hw_bench/cuda/test_cuda_contract.py \
	    tests/hw_bench/cuda/test_cuda_dependence.py tests/sim/isa/test_compiled_kernels.py \
	    tests/sim/isa/test_common_kernels.py tests/sim/isa/test_tensor_cores.py tests/sim/isa/test_product_loops.py tests/sim/isa/test_product_steps.py \
	    tests/sim/isa/test_ordinary_kernels.py tests/sim/isa/test_compiled_histogram.py \
	    tests/sim/isa/test_asynchronous_units.py tests/sim/isa/test_clusters.py tests/sim/isa/test_hopper_units.py tests/sim/isa/test_random_clusters.py \
	    tests/sim/isa/test_bulk_reductions.py tests/sim/isa/test_arrivals_behind_copies.py tests/sim/isa/test_copy_passes.py tests/sim/isa/test_swept_kernels.py \
	    tests/sim/isa/test_structures.py tests/sim/isa/test_product_queues.py tests/sim/isa/test_tensor_memory.py tests/sim/isa/test_tensor_copies.py \
	    tests/sim/isa/test_bfloat16.py tests/sim/isa/test_calls.py \
	    tests/sim/isa/test_cooperative_groups.py tests/sim/isa/test_masks.py tests/sim/isa/test_wild_addresses.py::test_a_wild_address_in_cuda_c_is_one_line \
	    tests/sim/isa/test_printing.py tests/sim/frontends tests/smlab/test_mutated_structure.py::test_hostile_kernels_are_run_or_refused \
	    "tests/docs/test_documents.py::test_python_blocks_run" \
	    tests/smlab/test_source_versions.py tests/smlab/test_rewrites.py tests/smlab/test_advice_on_products.py tests/smlab/test_run_mutated.py::test_mutated_files_are_run_or_refused \
	    tests/validation/calibrate/test_calibration_trials.py tests/hw_bench/cuda/test_cuda_failures.py::test_a_numpy_that_numba_does_not_know_yet_ends_no_compilation \
	    tests/hw_bench/cuda/test_cuda_harness.py --deselect tests/hw_bench/cuda/test_cuda_harness.py::test_every_other_benchmark_gives_its_columns \
	    tests/hw_bench/cuda/test_cuda_on_simulator.py tests/hw_bench/cuda/test_cuda_driver.py \
	    tests/validation/campaigns/test_samples_of_grids.py tests/validation/campaigns/test_synchronization.py tests/validation/campaigns/test_tensor_cores.py tests/validation/campaigns/test_access_latency.py tests/validation/campaigns/test_worklogs.py \
	    tests/validation/campaigns/test_executed_rows.py tests/validation/campaigns/test_hopper.py \
	    tests/validation/campaigns/test_advisor_pairs.py \
	    tests/validation/campaigns/test_published_products.py tests/validation/campaigns/test_tensor_memory_times.py \
	    tests/validation/tuning/test_compiled_spaces.py

$(VENV)-cuda/.installed: .ci/locked/toolchain.txt | $(VENV)/.installed-dev
	$(BIN)/python -m venv --clear $(VENV)-cuda
	echo "import site; site.addsitedir('$$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')')" \
	    > $$($(VENV)-cuda/bin/python -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')/base.pth
	$(VENV)-cuda/bin/python -m pip install --quiet --no-compile --no-deps --require-hashes --requirement $<
	touch $@

# How the report looks: screenshots at 1280 and 420 pixels by headless Chromium, where it is installed. Fails where the page
# scrolls sideways, the browser reports an error, a picture is missing or the page has more than 12 screens as it opens.
look: $(VENV)/.installed
	@test -f $(OUT)/report.html || $(MAKE) validate
	$(BIN)/python .ci/look.py $(OUT)/report.html --out results/look

# The README's picture, from the report.
picture: validate
	cp $(OUT)/figures/hardware.svg docs/hardware.svg

# The documentation as a site, which needs no network to be read; a broken link or a warning is an error. The reference of the Python
# names, from their docstrings, lies in its folder api; a docstring that cannot be shown is an error.
docs: $(VENV)/.installed-docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet --strict
	$(BIN)/python -W error -m pdoc --docformat google --no-show-source --output-directory build/docs/api \
	    smlab '!smlab.cli' '!smlab.commands' '!smlab.examples'

# How easily README and documents read: Flesch reading ease by page, at least 45 asked. A number to know, no gate of the tests.
reading: $(VENV)/.installed-docs
	$(BIN)/python .ci/reading_ease.py README.md CONTRIBUTING.md $$(find docs -name '*.md')

# What is printed in the README and the tutorials, and the example profile that it reads, made anew.
tutorial: $(VENV)/.installed-dev
	$(BIN)/python -m smlab.examples
	$(BIN)/python docs/console.py README.md docs/tutorials/first-hour.md docs/tutorials/porting.md

# Speeds, as ratios within one run; kept under .benchmarks/ and compared with the last run. Those of machine code go into the
# README and the page on speed by `python -m benchmarks.machine_code --write`.
bench: $(VENV)/.installed-dev $(VENV)-cuda/.installed
	$(BIN)/python -m pytest benchmarks -q -o addopts=--import-mode=importlib -W default --benchmark-autosave --benchmark-group-by=group \
	    --benchmark-columns=min,median,rounds --benchmark-sort=mean \
	    $$(ls -d .benchmarks/*/* >/dev/null 2>&1 && echo --benchmark-compare)
	$(BIN)/python -m benchmarks.engines
	$(VENV)-cuda/bin/python -m benchmarks.machine_code

# The wheel, with machine code made ahead for the processors that sim/object_code/loading.py lists, in dist/.
wheel: $(VENV)/.installed
	$(BIN)/python .ci/wheel_build.py dist

# The wheel, alone in a fresh environment, runs the commands in a folder with packages of our rooms' names.
wheel-check: $(VENV)/.installed
	$(BIN)/python .ci/wheel_check.py

# The long profiles, by hand. Hostile input once more where the CUDA compiler is: cubins and CUDA C too.
thorough: $(VENV)/.installed-dev $(VENV)-cuda/.installed
	$(BIN)/pytest -q -n 2 --thorough
	$(VENV)-cuda/bin/python -m pytest -q --thorough tests/smlab/test_mutated_structure.py tests/sim/isa/test_random_clusters.py

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

# Nothing is installed but the releases whose digests stand in .ci/locked; what builds the package is among them.
# Python compiles a module when it is first imported; to compile all of them takes longer than the rest of the installation.
$(VENV)/.installed: pyproject.toml .ci/locked/run.txt | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --no-compile --require-hashes --requirement .ci/locked/run.txt
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	touch $@

$(VENV)/.installed-dev: .ci/locked/dev.txt $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --no-compile --require-hashes --requirement $<
	touch $@

$(VENV)/.installed-docs: .ci/locked/docs.txt $(VENV)/.installed-dev
	$(BIN)/python -m pip install --quiet --no-compile --require-hashes --requirement $<
	touch $@

# The locked requirements from constraints.txt, .ci/toolchain.txt and pyproject.toml, by uv.
lock:
	$(PYTHON) .ci/lock.py

clean:
	rm -rf $(VENV) $(VENV)-cuda results types build *.egg-info
