# `make help` lists what there is.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help demo test soak contract lint types docs bench clean

help:  ## list the targets
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | sort | expand -t 12

$(STAMP): setup.cfg pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[dev,docs,progress,report,requests,impersonate,selenium]'
	touch $@

demo: $(STAMP)  ## crawl the bundled demo site both ways and print the table
	$(BIN)/scrapy-threadpool demo

test: $(STAMP)  ## run the tests
	$(BIN)/python -m pytest -n auto --dist worksteal

soak: $(STAMP)  ## crawl 20,000 pages of an unruly server, and end 200 crawls by force
	$(BIN)/python -m tests.soak

contract: $(STAMP)  ## run Scrapy's own download handler tests against ours, in every event-loop mode
	$(BIN)/python tests/contract/run.py

lint: $(STAMP)  ## check style
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP)  ## check types
	$(BIN)/mypy

docs: $(STAMP)  ## build the documentation into docs/_build/html
	$(BIN)/sphinx-build -W --keep-going -q -b html docs docs/_build/html

bench: $(STAMP)  ## measure against Scrapy's own and other handlers, and write the tables of the docs
	$(BIN)/python -m pip install --quiet --requirement benchmarks/requirements.txt
	$(BIN)/python -m benchmarks
	$(BIN)/python -m benchmarks.handoff
	$(BIN)/python -m benchmarks.growth

clean:  ## remove what the other targets made
	rm -rf $(VENV) build dist docs/_build *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
