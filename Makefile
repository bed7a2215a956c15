# The whole project by a few commands; `.venv` is made from pyproject.toml alone.
SHELL := bash
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
# A law of each package, to run between two edits: a minute of one idle core.
QUICK := tests/test_levels.py tests/test_private_names.py tests/ir/test_properties.py tests/eval/test_programs.py \
  tests/arith/test_index_arithmetic.py tests/script/test_parser_laws.py tests/te/test_relations.py tests/tir/test_loop_partition.py \
  tests/cinn/test_enumeration.py tests/ascend/test_elementwise.py tests/codegen/test_llvm_text.py tests/runtime/test_arguments.py \
  tests/notation/test_affine.py tests/operators/test_arrays.py tests/explain/test_rows.py tests/tune/test_database.py \
  tests/compat/test_topi_indexing.py tests/notebook/test_mistakes.py tests/cases
# The package whose tests `make quick` runs without tvmagic/compat; `make soak` runs all of them so.
CORE := tests/ir
unexport PYTHONDONTWRITEBYTECODE
# What is installed in `.venv`: what a demo needs, JupyterLab also, or everything. More includes less.
DEMO := $(VENV)/.demo
LAB := $(VENV)/.lab
STAMP := $(VENV)/.installed
TARGETS := $(VENV)/.targets
# Only the modules that are used are compiled, when they are first used; of pip's output, what takes its time is shown.
INSTALL := set -o pipefail; $(BIN)/python -m pip install --no-compile --disable-pip-version-check --editable
PROGRESS := | { grep --line-buffered -E '^ *(Downloading|Installing collected)' || true; } | cut -c 1-110

STYLE = $(BIN)/ruff check . && $(BIN)/ruff format --check .
# Half a minute of one core: the tests run meanwhile, and what it says stands after theirs.
TYPES = $(BIN)/pyright --pythonpath $(BIN)/python

# Of the plain text cases, those that are refused cells.
QUICK_CASES := not cases or cells or described

.PHONY: help venv demo quick test tools firefox lint package lab soak bench docs notebooks clean

help:  ## what there is to make
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/ -/'

venv: $(STAMP)  ## the virtual environment with everything installed

$(BIN)/python:
	@echo "Making a virtual environment in $(VENV)"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "tvmagic needs Python 3.11 or newer: make PYTHON=python3.12 ...")'
	@$(PYTHON) -m venv $(VENV)

$(DEMO): pyproject.toml | $(BIN)/python
	@echo "Installing tvmagic and what the first tutorial uses (about 70 packages, 130 MB to download if pip has not kept them)"
	@$(INSTALL) '.[demo]' $(PROGRESS)
	@touch $@

$(LAB): pyproject.toml | $(BIN)/python
	@echo "Installing tvmagic, JupyterLab and what the tutorials use"
	@$(INSTALL) '.[notebooks]' $(PROGRESS)
	@touch $(DEMO) $@

$(STAMP): pyproject.toml | $(BIN)/python
	@echo "Installing everything, with what the tests and the documentation use"
	@$(INSTALL) '.[$(EXTRAS)]' $(PROGRESS)
	@touch $(DEMO) $(LAB) $@

$(TARGETS): pyproject.toml | $(STAMP)
	@$(INSTALL) '.[targets]' $(PROGRESS)
	@touch $@

demo: $(DEMO)  ## run the first tutorial without a browser: accuracy, difference to scikit-learn, times
	@$(BIN)/python notebooks/run.py notebooks/01_first_steps.ipynb --results
	@echo "Open that page in a browser to step through it; \`make lab\` opens all tutorials in JupyterLab."

firefox: $(STAMP)  ## the browser tests in Firefox (`make test` has them in Chromium)
	TVMAGIC_BROWSER=firefox $(BIN)/python -m pytest tests/notebook/test_browser.py tests/notebook/test_pages.py -m "browser and not soak"

lint: $(STAMP)  ## style and types
	$(STYLE)
	$(TYPES)

quick: $(STAMP)  ## one law per package, in a minute
	$(BIN)/python -m pytest -n $(WORKERS) -m "not soak" -k "$(QUICK_CASES)" $(QUICK)
	$(BIN)/python tests/support/without_compat.py -q -n $(WORKERS) -m "not soak" $(CORE)

test: $(STAMP)  ## style, types and every test; on x86-64 some of them as code for older processors, too
	$(STYLE)
	@mkdir -p .cache; failed=; $(TYPES) >.cache/types 2>&1 & types=$$!; \
	  $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile -m "not soak" || failed=1; \
	  wait $$types || failed=1; cat .cache/types; [ -z "$$failed" ]
	@case $$(uname -m) in x86_64) for cpu in $(OLDER); do \
	  echo "the same for code of $$cpu:"; \
	  TVMAGIC_TARGET="llvm -mcpu=$$cpu" $(BIN)/python -m pytest -n $(WORKERS) $(REPRESENTATIVE) || exit 1; \
	done;; esac

tools: $(TARGETS)  ## the tests that use optional tools: with the tools hidden, then with those installed
	TVMAGIC_HIDE_TOOLS=all $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile -m "tools and not soak"
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile -m "tools and not soak"

package: $(STAMP)  ## build the wheel and the sdist, and try both in empty environments
	$(BIN)/python -m pytest tests/test_package.py

lab: $(LAB)  ## the tutorials in JupyterLab
	$(BIN)/jupyter lab --notebook-dir=notebooks

notebooks: $(STAMP)  ## write the puzzles' notebooks, run every notebook and save its outputs
	$(BIN)/python notebooks/make_puzzles.py
	$(BIN)/python notebooks/run.py notebooks/*.ipynb notebooks/puzzles/*.ipynb --in-place

soak: $(STAMP)  ## long random runs, and every test of the core without tvmagic/compat
	$(BIN)/python -m pytest -m soak -n $(WORKERS)
	$(BIN)/python tests/support/without_compat.py -n $(WORKERS) --dist loadfile -m "not soak"

bench: $(STAMP)  ## what is measured
	$(BIN)/python -m benchmarks

docs: $(STAMP)  ## every notebook as a page, and the API reference in build/site
	$(BIN)/python notebooks/run.py notebooks/*.ipynb notebooks/puzzles/*.ipynb
	$(BIN)/python docs/reference.py build/reference
	$(BIN)/mkdocs build --strict  # with --quiet it would not see its warnings

clean:
	rm -rf $(VENV) build dist .pytest_cache .ruff_cache .hypothesis
