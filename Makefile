# make help says what there is. Everything is set up on the first call, and quick on the second.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMPS := target/stamps
# Tests of Python at a time. Most wait for processes of theirs, and for drives that take their time.
WORKERS ?= $(shell expr 1 + $$(nproc))

RUST_SOURCES := $(shell find crates -name '*.rs' -o -name '*.toml') Cargo.toml Cargo.lock
# What Rust tests and the extension under test are built of: in one command, or cargo would choose
# features for each and build arrow, parquet and ours twice.
TESTED := --workspace --lib --bins --tests
# What goes to users: the extension, and what nbdkit and SQLite load.
SHIPPED := -p flashwright-bindings -p flashwright-nbdkit -p flashwright-sqlite
# Tests that take seconds and add to others of their kind: `make test-all` runs them, too. Those of
# Python are in tests/python/thorough.txt.
THOROUGH = $(shell cat tests/rust-thorough.txt)
# Packages come over the network while the core is built.
ALL_AT_ONCE = $(MAKE) --no-print-directory --jobs=3
# On a terminal cargo shows how far it is.
QUIET := $(if $(MAKE_TERMOUT),,--quiet)
export PYO3_PYTHON := $(CURDIR)/$(BIN)/python

# Of `python -m experiments list`.
SETS := validate-placement compare-placement placement-drives validate-drive validate-drives beside-mqsim validate-replay validate-recording mqsim-loads mqsim-speed figures-models figures-prober figures-layers figures-transactions figures-replicas figures-read-tails figures-arrays figures-volumes figures-queries figures-tpcc volume-speed advice validate-sqlite-what-if wal-what-if

.PHONY: help demo wheel test test-rust test-python test-all thorough-rust thorough-python build-tested bench book $(SETS) kills interrupts mount-interrupts power-cuts bad-sectors volume-lives volume-fsx sqlite-lives hostile fio-rows neighbours soak check format build packages readme jobs clean

help: ## This list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 27

demo: ## What a database's writes do to flash, every policy beside the bound, and what to change
	@$(ALL_AT_ONCE) build
	@$(BIN)/flashwright demo
	@source=runs/demo-recording; test -f $$source/requests.parquet || \
	    source=python/flashwright/data/traces/tpcc_postgres/requests.parquet; \
	echo; $(BIN)/flashwright advise $$source

build: $(STAMPS)/release $(STAMPS)/python ## Build the Rust core into the Python package, in .venv
	@scripts/setup/install.sh release $(BIN)

build-tested: $(STAMPS)/tested $(STAMPS)/python ## Build the core with all checks on: what tests run
	@scripts/setup/install.sh debug $(BIN)

test: ## What a change should pass: all parts at least once (minutes)
	@$(ALL_AT_ONCE) build-tested packages
	@$(MAKE) --no-print-directory --jobs=2 test-rust test-python
	@echo "make test: passed; make test-all runs the rest"

test-all: test ## All tests there are (half an hour)
	@$(MAKE) --no-print-directory --jobs=2 thorough-rust thorough-python
	@echo "make test-all: all tests passed"

# Those of Rust in what those of Python leave of the processors, which wait much of the time.
test-rust: build-tested packages
	@nice cargo test $(TESTED) --quiet -- $(addprefix --skip ,$(THOROUGH))

thorough-rust: build-tested packages
	@nice cargo test $(TESTED) --quiet -- $(THOROUGH)
	env -u MAKEFLAGS -u MFLAGS nice cargo test --workspace --doc --quiet

# What tests build is not of this run of make.
test-python: build-tested packages
	env -u MAKEFLAGS -u MFLAGS $(BIN)/pytest --numprocesses=$(WORKERS) -m 'not thorough'

thorough-python: build-tested packages
	env -u MAKEFLAGS -u MFLAGS $(BIN)/pytest --numprocesses=$(WORKERS) -m thorough

wheel: build ## Build the wheel into dist/, with the recorded traces in it, and its revision
	@FLASHWRIGHT_REVISION="$$(git describe --always --dirty --abbrev=12 2>/dev/null || true)" \
	    $(BIN)/maturin build --release --quiet --out dist

bench: build ## Measure speed: simulator, trace readers, models
	cargo bench --workspace

book: build ## The five papers as a book: each claim beside ours, with a verdict (an hour the first time; kept results are taken)
	@$(BIN)/python -m experiments $@ $(ARGS)

validate-placement: ## Policies against theory and each other (over twenty minutes; docs/results/placement.md has the last)
compare-placement: ## Every placement policy side by side (half an hour; docs/results/placement-side-by-side.md has the last)
placement-drives: ## Placement policies within modern drives, as transactions see them (half an hour; docs/results/placement-drives.md has the last)
validate-drive: ## The simulated drives beside the papers' figures (a minute; docs/results/drives.md has the last)
validate-drives: ## Real drives: profiles fitted to half of the measurements, the rest predicted (20 minutes on two processors)
mqsim-loads: ## Loads on MQSim and on the profile made of its configuration: make mqsim-loads ARGS='--mqsim PATH' (minutes; docs/mqsim.md has the last)
mqsim-speed: ## Speed beside MQSim's on one core: make mqsim-speed ARGS='--mqsim PATH --bench PATH' (an hour; docs/mqsim.md has the last)
figures-models: ## Draw MULTILOG's figures 1 to 3 from its models, simulated points beside them (minutes; docs/results/figures-models.md has the last numbers)
advice: ## Advice held against databases on emulated drives: make advice ARGS=advice-sqlite-tpcb-emmc-51 is one of 48 parts (root; an hour a part on an idle machine)
volume-speed: ## What the way through a volume costs (root, fio, nbdkit; minutes on an idle machine; docs/volumes.md has the last)
beside-mqsim: ## The same rows on MQSim and on the counting simulator: make beside-mqsim ARGS='--mqsim PATH --profiles-of DIR' (half an hour)
validate-replay: ## Lateness of a replay, and what the device gets (root; minutes on an idle machine; docs/results/recording-and-replay.md has the last)
validate-sqlite-what-if: ## What SQLite writes in other modes, predicted and counted (strace; minutes; docs/results/sqlite-what-if.md has the last)
wal-what-if: ## What other settings of PostgreSQL would have written, predicted from one log beside runs with them (PostgreSQL; a quarter of an hour a load; docs/results/wal-what-if.md has the last)
validate-recording: ## What recording costs a database (root; minutes on an idle machine; docs/results/recording-and-replay.md has the last)
figures-prober: ## Draw the papers' figures with the prober (minutes; docs/results/figures-prober.md has the last numbers)
figures-layers: ## Draw the papers' figures of StableBuffer and the scheduler (ten minutes on a quiet machine; docs/results/figures-layers.md has the last numbers)
figures-transactions: ## Draw REPLICATION's figures 4 to 6, and what copies of pages do (half an hour; docs/results/transactions.md has the last numbers)
figures-replicas: ## Draw REPLICATION's figure 7 and tables 3 to 5, with the layer over simulated drives (minutes; docs/results/replicas.md has the last numbers)
figures-read-tails: ## Compare techniques against the tail of reads under cleaning (half an hour; docs/results/read-tails.md has the last numbers)
figures-arrays: ## Differential RAID beside RAID 5, replication and none, on arrays of simulated drives (minutes; docs/results/arrays.md has the last numbers)
figures-tpcc: ## Draw SCHEDULER's figures 5.5 to 5.12: TPC-C on a server over emulated drives (root; half an hour on an idle machine; docs/results/tpcc.md has the last numbers)
figures-volumes: ## TPC-C on mounted volumes over emulated drives, each stack (root; more than an hour on an idle machine; docs/results/volumes.md has the last numbers)
$(SETS): build
	@$(BIN)/python -m experiments $@ $(ARGS)

kills: build ## Kill recorded benchmarks 50 times at random points: nothing may be left behind (root, minutes)
	@$(BIN)/python tests/python/kill_recording.py --kills 50

neighbours: build ## Record databases alone and beside a writer of three times their volume, on three file systems (root, minutes)
	@$(BIN)/python tests/python/neighbours.py $(ARGS)

mount-interrupts: build ## Interrupt mount and umount of a volume at each of their lines by three signals (root, an hour)
	@$(BIN)/python tests/python/mount_interrupts.py

volume-lives: build ## Kill the server of a mounted volume, and cut the power of its drive, 200 times each under SQLite (root, an hour)
	@$(BIN)/python tests/python/volume_lives.py

volume-fsx: build ## A million random operations on the file that a volume is in FUSE, beside plain bytes; fsx too, if installed (root, half an hour)
	@$(BIN)/python tests/python/volume_fsx.py

sqlite-lives: build ## Kill SQLite on a volume without a mount, and cut the power of its drive, 200 times each (half an hour)
	@$(BIN)/python tests/python/sqlite_lives.py

interrupts: build ## Stop every volume command at every step, by signals and errors: nothing may be lost (root, strace, half an hour)
	@$(BIN)/python tests/python/interrupt_matrix.py

power-cuts: $(STAMPS)/tools ## Cut the power below every stack of layers a million times, and hand recovery mutilated images (minutes; docs/layers.md has the last)
	cargo run --release -p flashwright-faults --example campaign -- cuts=1000000 fails=8
	cargo run --release -p flashwright-faults --example campaign -- cuts=500000 drawn=1000
	cargo run --release -p flashwright-faults --example fuzz -- images=300000

bad-sectors: $(STAMPS)/tools ## Damage each sector and each structure of a small volume of every stack: what opens, and what is lost (minutes; target/bad-sectors has each case)
	cargo run --release -p flashwright-faults --example bad_sectors -- out=target/bad-sectors doc=docs/formats/bad-sectors.md
	cargo test --release -p flashwright-servers --lib -- --ignored bad_sectors --nocapture

hostile: build ## Volumes changed on purpose, and clients of NBD that keep to nothing (an hour)
	cargo run --release -p flashwright-servers --example hostile -- volumes=20000
	@$(BIN)/python tests/python/hostile_nbd.py target --seconds 2400

fio-rows: build ## Rows of fio's JSON beside what fio prints of the same runs, 27 kinds of jobs (fio, two minutes)
	@folder=$$(mktemp -d /var/tmp/fio-rows.XXXXXX); $(BIN)/python tests/python/fio_beside_text.py $$folder; \
	code=$$?; rm -r $$folder; exit $$code

soak: kills interrupts mount-interrupts volume-lives volume-fsx sqlite-lives power-cuts bad-sectors hostile ## All long campaigns: kills, cuts, images, and the prober against drives whose inside is known (an hour)
	cargo run --release -p flashwright-prober --example truth -- drives=200 campaign=1
	cargo run --release -p flashwright-prober --example hybrids -- drives=270 campaign=1
	cargo test --release -p flashwright-prober --lib -- --ignored campaign

# `cargo fmt` does not find modules that a macro declares: policies are such.
RUSTFMT := rustfmt --edition 2024 $(filter %.rs,$(RUST_SOURCES))

check: build-tested ## Format, clippy, ruff, mypy and the stub of the core, warnings denied
	@echo rustfmt --check; $(RUSTFMT) --check
	cargo clippy --workspace --all-targets -- -D warnings
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/stubtest flashwright._core --ignore-disjoint-bases --concise --allowlist <(echo flashwright._core.__all__)
	@echo "make check: clean"

readme: build-tested ## Bring the generated tables of docs and the manual pages up to date
	$(BIN)/python scripts/setup/readme.py
	$(BIN)/python scripts/setup/man.py

jobs: build-tested ## Write the Python classes of jobs' settings and outcomes from what Rust declares
	$(BIN)/python scripts/setup/jobs.py

format: $(STAMPS)/python ## Format all code
	@$(RUSTFMT)
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

clean: ## Remove what was built (not the cargo cache, not runs/)
	rm -rf $(VENV) target

# What cannot be installed into the tree is looked for first, and named if it is missing.
$(STAMPS)/tools: scripts/setup/tools.sh
	@mkdir -p $(STAMPS)
	@PYTHON="$(PYTHON)" scripts/setup/tools.sh
	@touch $@

packages: $(STAMPS)/packages

$(STAMPS)/packages: scripts/setup/packages.sh
	@mkdir -p $(STAMPS)
	@scripts/setup/packages.sh
	@touch $@

$(BIN)/python: | $(STAMPS)/tools
	@$(PYTHON) -m venv $(VENV)

# Not compiled: of all their modules a run imports few, and compiles those.
$(STAMPS)/python: requirements-dev.txt | $(BIN)/python
	@mkdir -p $(STAMPS)
	@if [ "$$(cat $@ 2>/dev/null)" != "$$(sha256sum < requirements-dev.txt)" ]; then \
	    echo "Installing the Python packages into $(VENV)"; \
	    $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile \
	        -r requirements-dev.txt; fi
	@sha256sum < requirements-dev.txt > $@

$(STAMPS)/release: $(RUST_SOURCES) | $(BIN)/python
	@echo "Building the Rust core: about ten minutes the first time on two processors"
	@cargo build --release $(QUIET) $(SHIPPED)
	@touch $@

$(STAMPS)/tested: $(RUST_SOURCES) | $(BIN)/python
	@echo "Building the Rust core with its tests: about ten minutes the first time on two processors"
	@cargo build $(QUIET) $(TESTED)
	@touch $@
