# Two commands need nothing but Python 3.11+ and make: `make reproduce` and `make test`.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed

BENCH       := .venv-bench
BENCH_STAMP := $(BENCH)/.installed
PEERS       := copt jaxopt scikit-learn celer skglm cvxpy clarabel aequilibrae
BENCH_ARGS  ?=
# Folders with networks in the TNTP format, besides the one that comes along.
NETWORKS    ?=

.PHONY: test reproduce check format bench clean

$(STAMP): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --upgrade pip
	$(BIN)/pip install --quiet --editable '.[cli,test]'
	touch $(STAMP)

# A process per core, and one thread for each: threads of BLAS beside them only wait for each other.
test: $(STAMP)
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n auto

reproduce: $(STAMP)
	$(BIN)/fwflow reproduce --out reproduction

check: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# One by one: a peer that cannot be installed is named in the tables, and does not keep the others out.
$(BENCH_STAMP): pyproject.toml
	$(PYTHON) -m venv $(BENCH)
	$(BENCH)/bin/pip install --quiet --upgrade pip
	$(BENCH)/bin/pip install --quiet --editable '.[plot,data]'
	for peer in $(PEERS); do $(BENCH)/bin/pip install --quiet $$peer || echo "$$peer cannot be installed"; done
	touch $(BENCH_STAMP)

bench: $(BENCH_STAMP)
	$(BENCH)/bin/python benchmarks/core.py
	$(BENCH)/bin/python benchmarks/flow.py
	$(BENCH)/bin/python benchmarks/choices.py
	$(BENCH)/bin/python benchmarks/networks.py $(NETWORKS)
	$(BENCH)/bin/python benchmarks/auto.py
	$(BENCH)/bin/python benchmarks/paths.py
	$(BENCH)/bin/python benchmarks/peers.py $(BENCH_ARGS)

clean:
	rm -rf $(VENV) $(BENCH) build dist reproduction
