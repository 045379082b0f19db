# Two commands are enough on a fresh machine: `make run` and `make test`. Everything installs into .venv.

PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/.installed

GAME ?= chess
MINUTES ?= 0
RUN ?=
ARGS ?=
BENCH ?= all

.PHONY: help install lock run test test-nightly test-oracles check style types imports docs format bench hostile faults gpu-check clean

install: $(INSTALLED)

$(INSTALLED): pyproject.toml requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "azselfplay needs Python 3.11 or newer, and $(PYTHON) is older or missing: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@echo "Installing azselfplay and its packages into .venv: about 2.4 GB, a few minutes; later starts skip this."
	@echo "On a machine where pip takes PyTorch for NVIDIA GPUs, several GB more (docs/install.md says how to avoid that)."
	$(PYTHON) -m venv .venv
	deploy/install.sh $(BIN)/python dev editable
	touch $@

# requirements.lock anew, with the newest versions that pyproject.toml allows.
lock:
	$(PYTHON) -m venv build/lock
	build/lock/bin/pip install --quiet --disable-pip-version-check uv==0.13.9
	PATH=build/lock/bin:$$PATH deploy/lock.py build/lock/bin/uv

# The whole loop on this machine: server, trainer, and a client if asked for. MINUTES=0 runs until Ctrl-C.
run: $(INSTALLED)
	$(BIN)/azrun --game $(GAME) --minutes $(MINUTES) $(if $(RUN),--run $(RUN)) $(ARGS)

# Test files side by side, on as many cores as there are, at most four: each worker takes 2 GB. In the order of
# tests/longest_first.py; pytest-xdist would begin with the files of most tests, and end with those of minutes.
PYTEST := $(BIN)/python -m pytest -n auto --maxprocesses 4 --dist loadfile --no-loadscope-reorder

# With every index of compiled code checked, also in the processes that tests start: so it is compiled only once.
test: $(INSTALLED)
	NUMBA_BOUNDSCHECK=1 $(PYTEST) $(ARGS)

# Everything, with compiled code as users run it, with more examples for hypothesis from a new seed each time, which is printed.
test-nightly: $(INSTALLED)
	$(PYTEST) -m 'not oracle' --hypothesis-profile nightly $(ARGS)

# Against other programs, such as gnugo; what is not installed is skipped, and said.
test-oracles: $(INSTALLED)
	$(PYTEST) -m oracle -rs $(ARGS)

# Two of its parts at once.
check: $(INSTALLED)
	@$(MAKE) --no-print-directory --jobs 2 --output-sync=target docs style types imports

style: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(INSTALLED)
	$(BIN)/mypy

imports: $(INSTALLED)
	$(BIN)/lint-imports

# The documentation as a site in build/docs, with settings.md and decisions/index.md written anew; any link that leads nowhere is an error.
docs: $(INSTALLED)
	$(BIN)/python -m azselfplay.lab.generated_pages
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet
	@echo 'build/docs/index.html; with search: $(BIN)/python -m http.server --directory build/docs'

format: $(INSTALLED)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# A proof that it learns: trained for a fixed time, judged, written to results/NAME. Names: python -m azselfplay.lab.experiments --help
learn-%: $(INSTALLED)
	$(BIN)/python -m azselfplay.lab.experiments $(subst -,_,$*) $(ARGS)

# Variants of a recipe at equal wall clock, three seeds each, written to results/ablation-NAME; hours.
ablation-%: $(INSTALLED)
	$(BIN)/python -m azselfplay.lab.experiments.ablation $(subst -,_,$*) $(ARGS)

# One benchmark: `make bench BENCH=search`. Names: python -m bench --help
bench: $(INSTALLED)
	$(BIN)/python -m bench $(BENCH)

# Attacks over the network on a real azserver: it lives, serves honest clients, and keeps little memory.
hostile: $(INSTALLED)
	$(PYTEST) tests/hostile -m nightly $(ARGS)

# What kills, cuts, lost messages and damaged bytes do: nothing, if all is well.
faults: $(INSTALLED)
	$(PYTEST) tests/faults -m 'not oracle' --hypothesis-profile nightly $(ARGS)

# On a machine with a GPU: its answers and a training step against the CPU's first, then what it serves.
gpu-check: $(INSTALLED)
	$(BIN)/python -m bench.gpu_check

clean:
	rm -rf .venv build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis

help:
	@echo "make install  everything into .venv: about 2.4 GB, a few minutes; the other targets do it by themselves"
	@echo "make lock     renew requirements.lock: all packages, one version each, with hashes"
	@echo "make run      install, then self-play and training on this machine (GAME=chess MINUTES=0 RUN= ARGS=; games: .venv/bin/azrun --help)"
	@echo "make test     tests; rules and search with bounds checks in compiled code (ARGS='-k search')"
	@echo "make test-nightly  also faults, attacks, full disks, the wheel; ten times the examples of hypothesis, a new seed"
	@echo "make test-oracles  rules compared with other programs (gnugo, cshogi); minutes"
	@echo "make check    ruff, mypy, import-linter, documentation"
	@echo "make docs     the documentation as a site, in build/docs"
	@echo "make bench    benchmarks (BENCH=all, or one of .venv/bin/python -m bench --help)"
	@echo "make learn-NAME  proof that it learns, such as tic-tac-toe; names: python -m azselfplay.lab.experiments --help (ARGS='--seeds 1 --minutes 5')"
	@echo "make ablation-NAME  settings compared at equal wall clock, such as krk (ARGS='--out /tmp/mine'); names: experiments/ablations"
	@echo "make hostile  attacks on a real azserver: does it survive them, and in how much memory (ARGS='-k unread')"
	@echo "make faults   the fault plan: simulation, crash points, fuzzing (ARGS='-k fuzz')"
	@echo "make gpu-check  with a GPU: its answers against the CPU's, then what azserver serves and what a training step takes; ten minutes at most"
	@echo "make format   format the code"
	@echo "make clean    remove .venv and caches"
