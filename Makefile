# On a bare machine with Python >= 3.11 each target sets up what it needs in .venv first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RESULTS ?= results
ARGS ?=
# Placements a row of the isolation bench; the table in docs/isolation.md has 200.
TRIALS ?= 5

.PHONY: certify test test-all lint bench report deploy-render clean

certify: $(VENV)/.local  ## certify this machine's communication
	$(BIN)/pytest -m communication --report-dir $(RESULTS) $(ARGS)

test: $(VENV)/.dev  ## the project's own tests, without the slow ones
	$(BIN)/pytest tests -m "not slow" -q $(ARGS)

test-all: $(VENV)/.dev  ## the project's own tests, all of them
	$(BIN)/pytest tests -q $(ARGS)

lint: $(VENV)/.dev  ## style, import contract, types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/mypy .

bench: $(VENV)/.dev  ## speed and cost, as ratios within one run
	$(BIN)/python -m bench.measure
	$(BIN)/python -m bench.collectives
	$(BIN)/python -m bench.isolation --trials $(TRIALS) --baselines

report: $(VENV)/.local node_modules  ## charts, certificate and (with npm) a single-file Allure report of $(RESULTS)
	$(BIN)/python -m reports $(RESULTS)

# Allure's generator; without npm the rest of the report is built all the same.
node_modules: package.json
	if command -v npm > /dev/null; then npm install --silent --no-fund --no-audit && touch $@; else mkdir -p $@; fi

deploy-render:  ## the manifests that `kubectl apply -k k8s/deploy` would apply
	kubectl kustomize k8s/deploy

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "clusterproof needs Python >= 3.11; make PYTHON=python3.11 …")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.local: pyproject.toml | $(VENV)/bin/python
	$(BIN)/pip install --quiet --disable-pip-version-check --editable ".[local]"
	touch $@

$(VENV)/.dev: pyproject.toml | $(VENV)/bin/python
	$(BIN)/pip install --quiet --disable-pip-version-check --editable ".[local,dev]"
	touch $@ $(VENV)/.local

clean:
	rm -rf $(VENV) $(RESULTS) .mypy_cache .ruff_cache .pytest_cache .hypothesis
