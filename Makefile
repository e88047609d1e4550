# Two commands need nothing but Python 3.11+ and make: `make reproduce` and `make test`.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
CLI_STAMP  := $(VENV)/.command
DOCS_STAMP := $(VENV)/.documented

SMOKE  := .venv-smoke

NEIGHBOURS       := .venv-neighbours
NEIGHBOURS_STAMP := $(NEIGHBOURS)/.installed

BENCH       := .venv-bench
BENCH_STAMP := $(BENCH)/.installed
PEERS       := copt jaxopt scikit-learn celer skglm cvxpy clarabel aequilibrae
BENCH_ARGS  ?=
# Folders with networks in the TNTP format, besides the one that comes along.
NETWORKS    ?=

.PHONY: test test-slow test-neighbours reproduce check format docs bench dist clean

# The command line needs far less than the tests do, so that `make reproduce` starts early.
$(CLI_STAMP): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --upgrade pip
	$(BIN)/pip install --quiet --editable '.[cli]'
	touch $(CLI_STAMP)

$(STAMP): $(CLI_STAMP)
	$(BIN)/pip install --quiet --editable '.[cli,test]'
	touch $(STAMP)

# A process per core, and one thread for each: threads of BLAS beside them only wait for each other.
test: $(STAMP)
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n auto

# The tests that `make test` leaves out.
test-slow: $(STAMP)
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n auto -m slow

# PyTorch and optax are large, so that they have an environment of their own.
$(NEIGHBOURS_STAMP): pyproject.toml
	$(PYTHON) -m venv $(NEIGHBOURS)
	$(NEIGHBOURS)/bin/pip install --quiet --upgrade pip
	$(NEIGHBOURS)/bin/pip install --quiet --editable '.[torch,optax,sklearn,plot]' 'pytest>=8' 'pytest-timeout>=2.4'
	touch $(NEIGHBOURS_STAMP)

test-neighbours: $(NEIGHBOURS_STAMP)
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(NEIGHBOURS)/bin/python -m pytest tests/neighbours

reproduce: $(CLI_STAMP)
	$(BIN)/fwflow reproduce --out reproduction

check: $(STAMP)
	! git grep -nE '^(<{7}|>{7})( |$$)'
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

$(DOCS_STAMP): $(STAMP)
	$(BIN)/pip install --quiet --editable '.[docs]'
	touch $(DOCS_STAMP)

# Checks the spelling, the examples of docstrings, and every link and anchor. Warnings are errors.
docs: $(DOCS_STAMP)
	$(BIN)/codespell
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -q -n auto src docs/_ext
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m sphinx -W --keep-going -n -q \
		-d docs/_build/doctrees docs docs/_build/html
	$(BIN)/python docs/check_links.py docs/_build/html README.md CONTRIBUTING.md
	@echo "docs/_build/html/index.html"

# One by one: a peer that cannot be installed is named in the tables, and does not keep the others out.
$(BENCH_STAMP): pyproject.toml
	$(PYTHON) -m venv $(BENCH)
	$(BENCH)/bin/pip install --quiet --upgrade pip
	$(BENCH)/bin/pip install --quiet --editable '.[plot,data,dask,jax,sklearn]'
	for peer in $(PEERS); do $(BENCH)/bin/pip install --quiet $$peer || echo "$$peer cannot be installed"; done
	touch $(BENCH_STAMP)

bench: $(BENCH_STAMP)
	$(BENCH)/bin/python benchmarks/core.py
	$(BENCH)/bin/python benchmarks/bare.py
	$(BENCH)/bin/python benchmarks/flow.py
	$(BENCH)/bin/python benchmarks/choices.py
	$(BENCH)/bin/python benchmarks/networks.py $(NETWORKS)
	$(BENCH)/bin/python benchmarks/semidefinite.py
	$(BENCH)/bin/python benchmarks/auto.py
	$(BENCH)/bin/python benchmarks/paths.py
	$(BENCH)/bin/python benchmarks/variants.py
	$(BENCH)/bin/python benchmarks/accelerator.py
	$(BENCH)/bin/python benchmarks/cluster.py
	$(BENCH)/bin/python benchmarks/peers.py $(BENCH_ARGS)

# Wheel and source, checked, and the wheel tried where nothing else is installed: the core alone, then the command line.
dist: $(STAMP)
	rm -rf dist $(SMOKE)
	$(BIN)/pip install --quiet build twine check-wheel-contents
	$(BIN)/python -m build --outdir dist
	$(BIN)/twine check --strict dist/*
	$(BIN)/check-wheel-contents dist/*.whl
	$(PYTHON) -m venv $(SMOKE)
	$(SMOKE)/bin/pip install --quiet dist/*.whl
	cd $(SMOKE) && bin/python ../.ci/smoke.py
	$(SMOKE)/bin/pip install --quiet "$$(ls dist/*.whl)[cli]"
	cd $(SMOKE) && bin/python ../.ci/smoke.py cli

clean:
	rm -rf $(VENV) $(BENCH) $(SMOKE) $(NEIGHBOURS) build dist reproduction docs/_build docs/gallery docs/api/generated docs/figures/sets
