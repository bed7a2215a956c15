# The whole project by a few commands; `.venv` is made from pyproject.toml alone.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
WORKERS ?= 2
EXTRAS ?= dev,notebooks,docs
# Processors without AVX-512, and the tests that are run for each of them besides all tests for this machine.
OLDER := x86-64-v2 haswell
REPRESENTATIVE := tests/codegen/test_numerics.py tests/codegen/test_kernels.py tests/codegen/test_calls.py \
  tests/codegen/test_target.py tests/runtime/test_running.py tests/runtime/test_arguments.py \
  tests/runtime/test_bounds.py tests/operators/test_cell.py tests/operators/test_operator.py
STAMP := $(VENV)/.installed

.PHONY: help venv demo test lint lab soak bench docs notebooks clean

help:  ## what there is to make
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/ -/'

venv: $(STAMP)  ## the virtual environment with everything installed

$(STAMP): pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet -e '.[$(EXTRAS)]'
	touch $@

demo: $(STAMP)  ## run the first notebook headless: accuracy, difference to scikit-learn, times
	$(BIN)/python notebooks/run.py notebooks/01_first_steps.ipynb --results

lint: $(STAMP)  ## style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright --pythonpath $(BIN)/python

test: lint  ## style, types and every test; on x86-64 some of them as code for older processors, too
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup -m "not soak"
	@case $$(uname -m) in x86_64) for cpu in $(OLDER); do \
	  echo "the same for code of $$cpu:"; \
	  TVMAGIC_TARGET="llvm -mcpu=$$cpu" $(BIN)/python -m pytest -n $(WORKERS) $(REPRESENTATIVE) || exit 1; \
	done;; esac

lab: $(STAMP)  ## the tutorials in JupyterLab
	$(BIN)/jupyter lab --notebook-dir=notebooks

notebooks: $(STAMP)  ## run every notebook and save its outputs
	$(BIN)/python notebooks/run.py notebooks/*.ipynb --in-place

soak: $(STAMP)  ## long random runs
	$(BIN)/python -m pytest -m soak -n $(WORKERS)

bench: $(STAMP)  ## what is measured
	$(BIN)/python -m benchmarks

docs: $(STAMP)  ## every notebook as a page, and the API reference in build/site
	$(BIN)/python notebooks/run.py notebooks/*.ipynb
	$(BIN)/python docs/reference.py build/reference
	$(BIN)/mkdocs build --strict  # with --quiet it would not see its warnings

clean:
	rm -rf $(VENV) build dist .pytest_cache .ruff_cache .hypothesis
