# Two commands do everything on a fresh machine: `make validate` (the main job) and `make test`.
# The virtual environment is made on first use and remade when the dependencies change.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
OUT    ?= results/validate

.PHONY: validate quick test lint typecheck imports pytest sass picture bench thorough clean

validate: $(VENV)/.installed
	$(BIN)/smlab validate --out $(OUT)

quick: $(VENV)/.installed
	$(BIN)/smlab validate --quick --out $(OUT)

test: lint typecheck imports pytest

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

typecheck: $(VENV)/.installed-dev
	$(BIN)/mypy

imports: $(VENV)/.installed-dev
	$(BIN)/lint-imports

pytest: $(VENV)/.installed-dev
	$(BIN)/pytest -q -n 2

# The CUDA benchmarks' machine code, for all architectures, with no GPU. Apart from `make test`, since the compiler and the
# disassembler take some 2 GB of disk; triton is installed for the nvdisasm in its wheel alone.
sass: $(VENV)-cuda/.installed
	$(VENV)-cuda/bin/python -m pytest -q tests/hw_bench/sass tests/hw_bench/cuda
	$(VENV)-cuda/bin/smlab bench sass

$(VENV)-cuda/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)-cuda
	$(VENV)-cuda/bin/python -m pip install --quiet --constraint constraints.txt --editable '.[dev,cuda12]'
	$(VENV)-cuda/bin/python -m pip install --quiet --no-deps triton==3.3.1
	touch $@

# The README's picture, from the report.
picture: validate
	cp $(OUT)/figures/hardware.svg docs/hardware.svg

# Speeds, as ratios within one run; kept under .benchmarks/ and compared with the last run.
bench: $(VENV)/.installed-dev
	$(BIN)/python -m pytest benchmarks -q -o addopts=--import-mode=importlib -W default --benchmark-autosave --benchmark-group-by=group \
	    --benchmark-columns=min,median,rounds --benchmark-sort=mean \
	    $$(ls -d .benchmarks/*/* >/dev/null 2>&1 && echo --benchmark-compare)
	$(BIN)/python -m benchmarks.engines

# The long profiles, by hand.
thorough: $(VENV)/.installed-dev
	$(BIN)/pytest -q -n 2 --thorough

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable .
	touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) results build *.egg-info
