# Two commands need nothing but Python 3.11+ and make: `make reproduce` and `make test`.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed

.PHONY: test test-slow reproduce check format bench clean

$(STAMP): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --upgrade pip
	$(BIN)/pip install --quiet --editable '.[cli,test]'
	touch $(STAMP)

test: $(STAMP)
	$(BIN)/python -m pytest -n auto -m "not slow"

test-slow: $(STAMP)
	$(BIN)/python -m pytest -n auto -m slow

reproduce: $(STAMP)
	$(BIN)/fwflow reproduce --out reproduction

check: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(STAMP)
	$(BIN)/python benchmarks/core.py

clean:
	rm -rf $(VENV) build dist reproduction
