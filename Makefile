# `make train` and `make test` do all their own set-up: Python 3.11 or newer and make are enough.
PYTHON ?= python3
OUT ?= runs/quick
BIN := .venv/bin
READY := .venv/.ready

.PHONY: env train test test-all lint format lock

env: $(READY)

train: env
	$(BIN)/python meta_train.py --preset quick --out $(OUT) --resume

test: env
	$(BIN)/python -m pytest -m "not slow"

test-all: env
	$(BIN)/python -m pytest

lint: env
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/basedpyright

format: env
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Renews the pinned versions; everything else only reads them.
lock: env
	$(BIN)/pip install --quiet uv
	$(BIN)/uv pip compile pyproject.toml --quiet --universal --python-version 3.11 \
	  --extra train --extra data --extra dev --generate-hashes --upgrade \
	  --custom-compile-command "make lock" --output-file requirements.lock

$(READY): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Python 3.11 or newer is needed; name one with make PYTHON=python3.12 …"; exit 1; }
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --require-hashes --requirement requirements.lock
	$(BIN)/pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $(READY)
