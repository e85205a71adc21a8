# Every target makes its own environment first. `make help` lists them.
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
BENCHES := partition filter rebuild conflicts plan

.PHONY: help setup demo test check fix bench soak docs lock clean
.DEFAULT_GOAL := help

help:  ## this list
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 10

$(READY): requirements.lock pyproject.toml scripts/setup.sh
	@sh scripts/setup.sh $(VENV)

setup: $(READY)  ## make .venv with the locked requirements

demo: $(READY)  ## a guided tour of real choices (ARGS=--once: check every promise and end)
	@$(BIN)/linkwise demo $(ARGS)

test: $(READY)  ## all tests that need nothing but Python
	$(BIN)/pytest --numprocesses auto $(ARGS)

check: $(READY)  ## lint, types, layers, documentation
	$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy && $(BIN)/lint-imports
	$(BIN)/pytest tests/architecture tests/docs

fix: $(READY)  ## mend what can be mended by machine
	$(BIN)/ruff check --fix . && $(BIN)/ruff format .

bench: $(READY)  ## speed of choosing, filter, a start from nothing and clashes of binds, each beside its bar
	@code=0; for part in $(BENCHES); do $(BIN)/python bench/$$part.py $(ARGS) || code=1; done; exit $$code

soak: $(READY)  ## fuzz the readers of tool outputs, shake brokers (SECONDS=600)
	$(BIN)/python scripts/soak.py $(or $(SECONDS),600)

docs: $(READY)  ## write the generated pages and pictures anew
	$(BIN)/python scripts/docs.py

lock: pyproject.toml  ## resolve the requirements anew (needs uv)
	uv pip compile pyproject.toml --group dev --universal --generate-hashes --upgrade \
	  --python-version 3.11 --custom-compile-command "make lock" -o requirements.lock

clean:  ## remove what the other targets made
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache dist
