"""PostgreSQL's clients of other languages, unmodified, against `splay serve --postgres`: node-postgres, and with SPLAY_CLIENTS=1 pgx and lib/pq."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import subprocess
from collections.abc import Iterator

import pytest
from test_postgres import Postgres
from test_server import ROOT, lines

NODE_POSTGRES = "8.23.0"
HERE = pathlib.Path(__file__).parent


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Postgres]:
    with Postgres(tmp_path_factory.mktemp("elsewhere") / "db") as running:
        assert running.send("/write", lines(0, 1000))[0] == 204
        yield running


def fetched(command: list[str], folder: pathlib.Path) -> None:
    """Runs what fetches a client; without a registry the test is skipped."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode != 0:
        pytest.skip(f"{command[0]} can't fetch the client: {done.stderr.strip()[-300:]}")


def test_node_postgres_reads_and_binds(server: Postgres) -> None:
    if shutil.which("npm") is None:
        pytest.skip("there is no Node.js")
    folder = ROOT / "target" / "downloads" / f"node-postgres-{NODE_POSTGRES}"
    if not (folder / "node_modules" / "pg").exists():
        folder.mkdir(parents=True, exist_ok=True)
        fetched(["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(folder), f"pg@{NODE_POSTGRES}"], folder)
    command = ["node", str(HERE / "node" / "ask_postgres.cjs"), "127.0.0.1", str(server.port)]
    environment = os.environ | {"NODE_PATH": str(folder / "node_modules"), "TZ": "UTC"}
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=environment)
    assert ran.returncode == 0, ran.stderr
    told = [(line.split(" ", 1)[0], json.loads(line.split(" ", 1)[1])) for line in ran.stdout.splitlines()]
    assert told == [
        ("columns", ["time", "sym", "price", "size"]),
        (
            "rows",
            [
                {"time": "2026-01-01T00:00:00.000Z", "sym": "AIG", "price": 0.5, "size": "0"},
                {"time": "2026-01-01T00:00:00.000Z", "sym": "IBM", "price": 1.5, "size": "1"},
            ],
        ),
        ("counted", [{"n": "5"}]),
        ("among", ["AIG", "IBM"]),
        ("named", [{"sym": "IBM"}]),
        ("named", [{"sym": "AIG"}]),
        ("named", [{"sym": "IBM"}]),
        ("within", [{"two": "2"}]),
        ("refused", "42703"),
        ("after", [{"none": None, "yes": True}]),
        ("pooled", [2 * n for n in range(20)]),
    ]


@pytest.mark.skipif("SPLAY_CLIENTS" not in os.environ, reason="make test-clients runs it: the clients compile for half a minute")
def test_clients_of_go_read_bind_and_copy(server: Postgres) -> None:
    if shutil.which("go") is None:
        pytest.skip("there is no Go")
    folder = ROOT / "target" / "downloads" / "go-clients"
    folder.mkdir(parents=True, exist_ok=True)
    fetched(["go", "build", "-o", str(folder / "ask"), "."], HERE / "go")
    ran = subprocess.run([str(folder / "ask"), f"127.0.0.1:{server.port}"], capture_output=True, text=True, timeout=120, check=False)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines() == [
        "pgx row 2026-01-01T00:00:00Z IBM 7.5 7",
        "pgx among 500",
        "pgx copied 2 2",
        "pgx batch 1",
        "pgx batch 2",
        "pgx batch 3",
        "pgx refused true 42703",
        "pq among 5",
        "pq row AIG 0.5",
        "pq row IBM 1.5",
    ]
