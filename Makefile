# Everything that a developer or CI runs. `make demo` and `make test` are the two that a newcomer needs.
#
# All calls that build ask for the same features of shared dependencies, so that DataFusion is compiled once
# (docs/adr/0022-one-code-unit-a-crate.md); `make lint` checks it.

CARGO ?= cargo
PYTHON ?= python3
VENV ?= target/venv
SPLAY = target/release/splay
# Notes how long a step takes in target/durations.tsv.
TIMED = .ci/timed

.PHONY: build console test-console splay demo references check test test-rust test-ticks test-oracle test-python test-clients test-feeds test-delta test-kafka test-stores test-cluster bench-kafka wheel lint lint-python deb doc bench bench-full bench-engine bench-frames bench-cliffs bench-compression bench-builds bench-changes bench-reference bench-groupings bench-relations bench-encryption bench-views bench-load bench-ingest bench-followers \
	capture-day crash-test long-tests soak fuzz fuzz-seeded fuzz-statements clippy clean

# The web console, which the builds below make part of the command. Where Node.js is missing this says so, and they go on without it.
console:
	.ci/console build

# Its modules by vitest, and its pages by Playwright in Chromium; what is missing is named.
test-console: build
	.ci/console test $(SPLAY)

# Everything: the command, the library of the Python package, and what tests need of both.
build: console
	$(TIMED) "build" $(CARGO) build --release --workspace --locked

# The command alone.
splay: console
	$(TIMED) "build the command" $(CARGO) build --release --locked -p splay-cli

demo: splay
	./examples/demo.sh $(SPLAY)

# Rewrites what docs/reference states about the program: help of the commands, functions, settings, metrics, error codes. `make test`
# compares them.
references: splay
	$(PYTHON) .ci/references.py --write

test: lint lint-python test-rust test-python test-console

# For people at work: whether the crates that don't need DataFusion compile, their tests among them. CHECK=--workspace checks all.
CHECK ?= -p splay-ipc -p splay-store -p splay-engine -p splay-import -p splay-capture -p splay-lab -p splay-mutate

check:
	CARGO_INCREMENTAL=1 $(CARGO) check --release --locked --tests $(CHECK)

lint:
	$(TIMED) "format" $(CARGO) fmt --all --check
	$(TIMED) "format of feeds" $(CARGO) fmt --all --check --manifest-path feeds/Cargo.toml
	$(TIMED) "format of stores" $(CARGO) fmt --check --manifest-path stores/Cargo.toml
	$(TIMED) "format of the cluster" $(CARGO) fmt --check --manifest-path cluster/Cargo.toml
	$(TIMED) "rules between crates" ./examples/check_dependencies.sh
	$(TIMED) "links" $(PYTHON) .ci/check_links.py

# Python: findings of ruff (ruff.toml), and the package's types at mypy's strictest.
lint-python: $(VENV)/ready
	$(TIMED) "ruff" $(VENV)/bin/ruff check --quiet .
	$(TIMED) "types of Python" $(VENV)/bin/mypy --config-file python/pyproject.toml python/splay

# Compiles the workspace and its tests in one call, so that tests are compiled where the workspace's last crates leave a core idle.
test-rust: console
	$(TIMED) "build and Rust tests' code" $(CARGO) test --release --workspace --locked --no-run
	$(TIMED) "Rust tests" $(CARGO) test --release --workspace --locked

# 200,000 generated statements, as tick plans and by DataFusion.
test-ticks:
	SPLAY_TICK_STATEMENTS=200000 $(CARGO) test --release --workspace --locked --test integration -- ticks

$(VENV)/ready: python/requirements-test.txt
	$(PYTHON) -m venv $(VENV)
	$(TIMED) "install Python packages" $(VENV)/bin/python -m pip install --quiet -r python/requirements-test.txt
	touch $@

wheel: build $(VENV)/ready
	$(VENV)/bin/python python/build_wheel.py

# The Debian package of the command and the service.
deb: build
	$(PYTHON) packaging/build_deb.py

# Files of tests by two processes; PYTEST= runs all in one.
PYTEST ?= -n 2 --dist loadfile

test-python: wheel
	$(VENV)/bin/python -m pip install --quiet --force-reinstall --no-deps target/wheels/splay-*.whl
	$(TIMED) "Python tests" $(VENV)/bin/python -m pytest -q $(PYTEST) python/tests benchmarks/tests

# Generated statements compared with DuckDB, and held to rules of their own. Lists all faults at the end.
ORACLE_STATEMENTS ?= 200000

test-oracle: wheel
	$(VENV)/bin/python -m pip install --quiet --force-reinstall --no-deps target/wheels/splay-*.whl
	SPLAY_ORACLE_STATEMENTS=$(ORACLE_STATEMENTS) SPLAY_ORACLE_ALL=1 $(VENV)/bin/python -m pytest -q -s python/tests/test_oracle.py

# The feeds with Cryptofeed itself, which comes as source and compiles for a minute; without it `test-python` skips these. And `splay-feed` with
# a venue on loopback and a real server, which compiles for a few minutes, without Kafka. What is missing is named, or fails with SPLAY_FEEDS_REQUIRED=1.
test-feeds: wheel splay
	$(TIMED) "tests of splay-feed" env SPLAY=$(abspath $(SPLAY)) $(CARGO) test $(FEEDS) -p splay-records -p splay-socket
	$(CARGO) build $(FEEDS) -p splay-socket --bins
	$(VENV)/bin/python -m pip install --quiet -r python/requirements-feeds.txt
	$(VENV)/bin/python -m pip install --quiet --force-reinstall --no-deps target/wheels/splay-*.whl
	$(VENV)/bin/python -m pytest -q python/tests/test_cryptofeed.py python/tests/test_cryptofeed_sockets.py python/tests/test_binance_recorded.py python/tests/test_serve.py

# Every client against a server, as a table: version, what was run, result. CLIENTS="psql grafana" runs some. Clients of Go compile, Cryptofeed
# comes as source; what can't be had is named.
test-clients: wheel splay
	$(VENV)/bin/python -m pip install --quiet -r python/requirements-feeds.txt || echo "Cryptofeed can't be installed here" >&2
	$(VENV)/bin/python -m pip install --quiet --force-reinstall --no-deps target/wheels/splay-*.whl
	SPLAY_CLIENTS=1 $(VENV)/bin/python python/tests/clients.py $(CLIENTS)

# Published Delta tables with all engines that read them; PySpark is large, and fetches Delta's classes from Maven Central. `test-python` skips
# the engines that aren't installed.
test-delta: wheel
	$(VENV)/bin/python -m pip install --quiet -r python/requirements-delta.txt
	$(VENV)/bin/python -m pip install --quiet --force-reinstall --no-deps target/wheels/splay-*.whl
	$(VENV)/bin/python -m pytest -q -rs python/tests/test_delta.py

# The program for Kafka with a broker of Apache and a real server, both of which are killed on the way. Apart from `make test`: it
# compiles librdkafka and OpenSSL, and the broker is Java's, from Maven. What is missing is named, or fails with SPLAY_KAFKA_REQUIRED=1.
FEEDS = --release --locked --manifest-path feeds/Cargo.toml

test-kafka: splay
	$(TIMED) "tests of Kafka" env SPLAY=$(abspath $(SPLAY)) $(CARGO) test $(FEEDS) -p splay-records -p splay-kafka

# The cloud stores, against an S3 server that the tests start (stores/README.md). Apart from `make test`: their libraries compile for minutes.
test-stores: $(VENV)/ready
	$(VENV)/bin/python -m pip install --quiet 'moto[server]' || echo "moto can't be installed here" >&2
	$(TIMED) "tests of stores" env SPLAY_MOTO=$(abspath $(VENV)/bin/moto_server) $(CARGO) test --locked --manifest-path stores/Cargo.toml -p splay-stores

# A scheduler and executors as processes, some of which are killed. Apart from `make test`: DataFusion is compiled once more, for its workspace.
test-cluster:
	$(TIMED) "tests of the cluster" $(CARGO) test --locked --manifest-path cluster/Cargo.toml

# Rows a second of JSON, Avro and Arrow from a broker into a server. KAFKA_ROWS says how many.
KAFKA_ROWS ?= 2000000

bench-kafka: splay
	$(CARGO) build $(FEEDS) -p splay-kafka --bins
	SPLAY=$(abspath $(SPLAY)) SPLAY_KAFKA_REQUIRED=1 SPLAY_KAFKA_ROWS=$(KAFKA_ROWS) $(CARGO) test $(FEEDS) -p splay-kafka --test end_to_end -- --ignored --nocapture rows_a_second

# A day of capture, 50 million rows by every way in, compared row for row with what was sent. DAY_ROWS says how many.
DAY_ROWS ?= 50000000

capture-day: wheel
	$(VENV)/bin/python -m pip install --quiet --force-reinstall --no-deps target/wheels/splay-*.whl
	SPLAY_DAY_ROWS=$(DAY_ROWS) $(VENV)/bin/python -m pytest -q -s python/tests/test_capture_day.py

# Lints at their strictest: clippy in the compiler's place for the workspace's own crates. Dependencies are those of the build,
# where `cargo clippy` would compile DataFusion's metadata once more.
clippy:
	CLIPPY_ARGS=-Dwarnings__CLIPPY_HACKERY__ RUSTC_WORKSPACE_WRAPPER=$$(rustc --print sysroot)/bin/clippy-driver \
		$(CARGO) build --release --workspace --locked

doc:
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --release --workspace --no-deps --locked

# The benchmark in the box (benchmarks/README.md): every engine that can be installed, answers checked before anything is timed.
# BENCH takes options: make bench BENCH="--engines splay,duckdb". Results stay in target/bench/results and are gone on with.
SPLAY_BENCH = PYTHONPATH=benchmarks $(VENV)/bin/python -m splay_bench
RESULTS ?= target/bench/results

# Meant for less than ten minutes: four queries have cold runs, each of which starts an engine anew, and there is one pass, which starts each engine twice.
bench: wheel
	$(SPLAY_BENCH) run all --size smoke --scale 0.005 --clients 1,4 --cold --warm --cold-rounds 1 --client-seconds 1 \
		--cold-queries T-V2,O-T,O-B2,C-VO2 --passes 1 --paced-rounds 2 --short-seconds 0.05 --splay $(SPLAY) \
		--out $(RESULTS)/smoke $(BENCH)
	$(SPLAY_BENCH) report --results $(RESULTS)/smoke

# InfluxDB 2.7 is in no registry as a program: `build` compiles it, where Go and Cargo are at hand. Cold runs are of the larger scale.
bench-full: wheel
	$(SPLAY_BENCH) build influxdb2
	$(SPLAY_BENCH) run all --size full --scale 0.02,0.1 --clients 1,4,16 --cold --warm --short-seconds 0.3 --write-scale 1 \
		--cold-queries T-V2,O-T,O-B2,O-S,C-VO2 --splay $(SPLAY) --out $(RESULTS)/full $(BENCH)
	$(SPLAY_BENCH) report --results $(RESULTS)/full

# What the foundation promises: load, opening, memory of a load.
bench-load: build $(VENV)/ready
	$(VENV)/bin/python benchmarks/load.py --splay $(SPLAY)

# What deletions, replacements and undos cost in a table of 3,000 dates.
bench-changes: wheel
	$(VENV)/bin/python -m pip install --quiet --force-reinstall --no-deps target/wheels/splay-*.whl
	$(VENV)/bin/python benchmarks/changes.py

# Joins to reference tables beside DuckDB's, and changes of them.
bench-reference: wheel
	$(VENV)/bin/python -m pip install --quiet --force-reinstall --no-deps target/wheels/splay-*.whl
	$(VENV)/bin/python benchmarks/reference_tables.py

# The groupings of h2o.ai's db-benchmark, and others by keys that aren't the symbol, beside DuckDB's.
bench-groupings: wheel
	$(VENV)/bin/python -m pip install --quiet --force-reinstall --no-deps target/wheels/splay-*.whl
	$(VENV)/bin/python benchmarks/groupings.py

# Joins and sub-queries over five related tables beside DuckDB's.
bench-relations: wheel
	$(VENV)/bin/python -m pip install --quiet --force-reinstall --no-deps target/wheels/splay-*.whl
	$(VENV)/bin/python benchmarks/relations.py

# Statements and loads of an encrypted database beside one that isn't.
bench-encryption: wheel
	$(VENV)/bin/python -m pip install --quiet --force-reinstall --no-deps target/wheels/splay-*.whl
	$(VENV)/bin/python benchmarks/encryption.py

# Statements on a materialized view of minute bars, and what refreshing it costs.
bench-views: wheel
	$(VENV)/bin/python -m pip install --quiet --force-reinstall --no-deps target/wheels/splay-*.whl
	$(VENV)/bin/python benchmarks/views.py

# Questions side by side with DuckDB and Polars. ENGINE takes options: make bench-engine ENGINE="--full --suite taq84".
bench-engine: wheel
	$(VENV)/bin/python -m pip install --quiet --force-reinstall --no-deps target/wheels/splay-*.whl
	PYTHONPATH=benchmarks $(VENV)/bin/python -m engine --splay $(SPLAY) $(ENGINE)

# Generated statements, and where SplayDB is slower than DuckDB or Polars. CLIFFS takes options: make bench-cliffs CLIFFS="--share form=windows".
bench-cliffs: wheel
	$(VENV)/bin/python -m pip install --quiet --force-reinstall --no-deps target/wheels/splay-*.whl
	PYTHONPATH=benchmarks $(VENV)/bin/python -m cliffs --splay $(SPLAY) $(CLIFFS)

# Lazy frames side by side with Vaex, Polars, DuckDB and pandas, and what they promise by themselves; 100 million rows take 4 GB of disk.
# FRAMES takes options: make bench-frames FRAMES="compare --quotes 20000000".
bench-frames: wheel
	$(VENV)/bin/python -m pip install --quiet --force-reinstall --no-deps target/wheels/splay-*.whl
	PYTHONPATH=benchmarks $(VENV)/bin/python -m frames --splay $(SPLAY) $(FRAMES)

# What a row takes and how fast it is read and written: our tiers, Arrow, Parquet, DuckDB and ClickHouse, on simulated days and on files of
# yours. One core. Writes target/bench/compression/compression.md and .svg. COMPRESSION takes options:
# make bench-compression COMPRESSION="--size smoke --data trades.parquet --data quotes/"
bench-compression: wheel
	$(SPLAY_BENCH) run compression --threads 1 --splay $(SPLAY) --out $(RESULTS)/compression $(COMPRESSION)
	PYTHONPATH=benchmarks $(VENV)/bin/python -m splay_bench.compression_page $(RESULTS)/compression target/bench/compression

# Two builds side by side, each a wheel: make bench-builds BEFORE=old.whl AFTER=new.whl. BUILDS takes options.
bench-builds: $(VENV)/ready
	PYTHONPATH=benchmarks $(VENV)/bin/python -m engine.builds $(BEFORE) $(AFTER) $(BUILDS)

# What capture takes in and what that costs, beside QuestDB. INGEST takes options: make bench-ingest INGEST="--full".
bench-ingest: wheel
	$(VENV)/bin/python -m pip install --quiet --force-reinstall --no-deps target/wheels/splay-*.whl
	PYTHONPATH=benchmarks $(VENV)/bin/python -m ingest --splay $(SPLAY) $(INGEST)

# How far a follower is behind its leader, and how long a promotion takes. FOLLOWERS takes options.
bench-followers: splay
	python3 benchmarks/followers.py --splay $(SPLAY) $(FOLLOWERS)

# 1,000 kills of a process under four producers, ten times as many crash images, 10,000 of each kind of commit, and histories with power cuts, damages and changes of columns.
crash-test:
	SPLAY_KILLS=1000 SPLAY_CRASH_IMAGES=40 SPLAY_COMMIT_IMAGES=10000 SPLAY_HISTORIES=2000 SPLAY_POWER_HISTORIES=2500 SPLAY_DAMAGES=5000 SPLAY_DRIFTS=1000 \
		$(CARGO) test --release --workspace --locked --test integration --test kill -- kill crash model power rot drift

# The long tests of docs/reliability.md, part by part; what is recorded of this commit isn't run again. LONG says which:
# make long-tests LONG="kills fuzz-journal". Hours: run it by `nice`, and end it at any time.
long-tests: wheel
	$(VENV)/bin/python python/tests/long_tests.py run $(LONG)

# Two hours of ingest, statements, rolls and restarts. SOAK takes options: make soak SOAK="--seed 2 --restart-seconds 3600".
SOAK_FOLDER ?= target/long/soak

soak: wheel
	$(VENV)/bin/python python/tests/soak.py --folder $(SOAK_FOLDER) $(SOAK)

# Fuzzing by coverage, a minute a target; needs a C++ compiler (fuzz/README.md). FUZZ takes options of libFuzzer:
# make fuzz TARGETS=journal FUZZ="-runs=10000000".
TARGETS ?= line line_oracle journal rows conform ipc dense sealed
FUZZ ?= -max_total_time=60

fuzz:
	fuzz/run $(TARGETS) -- $(FUZZ)

# The same by seed, with the stable compiler, and the protocols of the server; `make test` runs fewer inputs of it.
INPUTS ?= 1000000
SEED ?= 1

fuzz-seeded:
	SPLAY_FUZZ_INPUTS=$(INPUTS) SPLAY_FUZZ_SEED=$(SEED) $(CARGO) test --release --workspace --locked --lib -- fuzz any_bytes

# Statements by seed, each within its memory and its time.
fuzz-statements:
	SPLAY_FUZZ_INPUTS=$(INPUTS) SPLAY_FUZZ_SEED=$(SEED) $(CARGO) test --release --locked -p splay-sql --test statements -- fuzz --nocapture

clean:
	$(CARGO) clean
