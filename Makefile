# One environment (.venv), one install, and the commands that use them. `make help` lists the targets.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
DEMO_ARGS ?=
PYTEST_ARGS ?=
MCP_CLIENTS ?= python node

# More threads than cores make small models slower, and warnings about a missing accelerator are noise here.
export OMP_NUM_THREADS ?= 1
export DS_ACCELERATOR ?= cpu
export TOKENIZERS_PARALLELISM ?= false

.PHONY: help venv demo test test-slow test-mcp test-vllm test-eval test-lm eval-baseline eval-gate check format clean

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

venv: $(INSTALLED)  ## create .venv and install the project with what training and development need

# torch comes first and pinned: left to choose, pip takes the newest CUDA build. DeepSpeed's operators are compiled
# when first used, not at installation.
$(INSTALLED): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; v = sys.version_info[:2]; sys.exit(0 if (3, 11) <= v < (3, 13) else f"Python {v[0]}.{v[1]} found; wanted 3.11 or 3.12: make PYTHON=/path/to/python3.11")'
	@command -v g++ >/dev/null || command -v c++ >/dev/null || { echo "no C++ compiler found: DeepSpeed needs one (on Debian: apt-get install g++)"; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --disable-pip-version-check --quiet -c constraints.txt torch==2.13.0
	DS_BUILD_OPS=0 $(BIN)/python -m pip install --disable-pip-version-check --quiet -c constraints.txt -e '.[train,agents,sandbox,eval,pools,corpus,ray,dev]'
	@touch $@

demo: $(INSTALLED)  ## run the whole self-play loop from the shipped model and name its report
	$(BIN)/spade demo $(DEMO_ARGS)

test: $(INSTALLED)  ## run the tests that take minutes
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "not slow" $(PYTEST_ARGS)

test-slow: $(INSTALLED)  ## run the tests that take longer
	$(BIN)/python -m pytest -m slow $(PYTEST_ARGS)

test-mcp: $(INSTALLED)  ## play environments with real MCP clients, installed under .cache (MCP_CLIENTS=python for a few)
	$(BIN)/python tests/tools/clients/install.py $(MCP_CLIENTS)
	$(BIN)/python -m pytest $(MCP_CLIENTS:%=tests/tools/clients/check_%.py) $(PYTEST_ARGS)

# MODEL=DIR is a trained checkpoint, which then must also play through `spade agent run`.
# vLLM's CPU build asks for the local CPU build of torch, as `make venv` does, and takes some 2 GB of disk.
test-vllm: $(INSTALLED)  ## serve a real model by vLLM, installed under .cache: rollouts, log-probabilities, weight syncs
	$(BIN)/python tests/vllm/install.py
	$(BIN)/python -m pytest -s tests/vllm/check_vllm.py tests/vllm/check_agent.py tests/vllm/check_eval.py $(PYTEST_ARGS)

# DATA holds ACEBench's data and files like it; evalscope's dialogues and checker are the oracle, in a folder of their own.
# bfcl-eval, in its own environment, brings its data along. Without DATA not everything is decided and the command ends
# with 3, which make tells as "Error 3": its own exit code is 2 whatever a command ended with.
test-eval: $(INSTALLED)  ## instrument checks against other checkers: make test-eval DATA=DIR
	$(BIN)/python tests/evals/instruments.py $(if $(DATA),--data "$(DATA)") $(PYTEST_ARGS)

# lm-eval's own pins are apart from ours, and so is the environment that its tasks are tried in.
LM := .cache/lm

test-lm:  ## try lm-eval's tasks in an environment of their own, made under .cache
	test -x $(LM)/bin/python || $(PYTHON) -m venv $(LM)
	$(LM)/bin/python -m pip install --disable-pip-version-check --quiet -e '.[eval,lm]' pytest pytest-asyncio pytest-timeout
	$(LM)/bin/python -m pytest tests/evals/suites/test_lm.py tests/evals/test_hostile.py -k "lm or sums" $(PYTEST_ARGS)

# Plays of held-out programs, each instance fixed: the same weights give the same plays, but for rounding.
GATE := --model nano --suite "environments:spade_agents.nano.heldout:heldout_specs(known)" --n 4 --max-tokens 64
BASELINE := benchmarks/baselines/nano

eval-baseline: $(INSTALLED)  ## write the log that eval-gate holds the shipped model against
	rm -rf $(BASELINE)
	$(BIN)/spade-eval run $(GATE) --no-transcripts --out $(BASELINE)
	rm -f $(BASELINE)/.lock

eval-gate: $(INSTALLED)  ## evaluate the shipped model and compare it with the committed baseline
	rm -rf build/eval-gate
	$(BIN)/spade-eval run $(GATE) --no-transcripts --out build/eval-gate
	$(BIN)/spade-eval compare $(BASELINE) build/eval-gate --max-drop 0.02 --junit build/eval-gate.xml

check: $(INSTALLED)  ## formatting, lint, types, layers and dependencies
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/deptry spade_agents tools evals environments

format: $(INSTALLED)  ## mend formatting and what lint can mend
	$(BIN)/ruff check --fix --quiet || true
	$(BIN)/ruff format

clean:  ## remove caches and build output; .venv and runs stay
	rm -rf build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	find spade_agents tools evals environments tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +
