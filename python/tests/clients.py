"""Runs the tests of each client against a server, and prints a table: client, version, what was run, with which result.

    SPLAY_CLIENTS=1 python python/tests/clients.py [NAME ...]

`make test-clients` installs what it needs before. A client that can't be had is named with the reason.
"""

from __future__ import annotations

import dataclasses
import importlib.metadata
import pathlib
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree

HERE = pathlib.Path(__file__).parent


@dataclasses.dataclass(frozen=True)
class Client:
    name: str
    version: str
    """A package of Python, a command that prints its version, or the version itself."""
    tests: tuple[str, ...]
    """Files of tests, with `::` and a part of the names of those that are the client's."""
    what: str


CLIENTS = (
    Client("psql", "psql --version", ("test_postgres.py::psql",), "statements, `\\d` and its kin, paging"),
    Client(
        "psycopg 3",
        "psycopg",
        ("test_postgres.py::not psycopg2 and not asyncpg and not jdbc and not psql and not sqlalchemy", "test_users.py::proves"),
        "all types, placeholders, `COPY`, cursors, cancellation, SCRAM",
    ),
    Client("psycopg 2", "psycopg2-binary", ("test_postgres.py::psycopg2",), "types, placeholders, pandas"),
    Client("asyncpg", "asyncpg", ("test_postgres.py::asyncpg",), "types, arrays, prepared statements, `COPY`"),
    Client("SQLAlchemy", "sqlalchemy", ("test_postgres.py::sqlalchemy", "test_sqlalchemy.py"), "reflection, queries, pandas"),
    Client("JDBC (pgjdbc)", "42.7.8", ("test_postgres.py::jdbc",), "types, placeholders, metadata, paging, `CopyManager`"),
    Client("node-postgres", "8.23.0", ("test_postgres_elsewhere.py::node",), "types, placeholders, arrays, a pool"),
    Client("pgx and lib/pq (Go)", "5.10.0, 1.10.9", ("test_postgres_elsewhere.py::go",), "types, arrays, `COPY`, batches"),
    Client("ADBC for PostgreSQL", "adbc-driver-postgresql", ("test_adbc_postgres.py",), "Arrow answers, bulk ingestion, catalogue"),
    Client(
        "ADBC for Flight SQL",
        "adbc-driver-flightsql",
        ("test_adbc.py",),
        "Arrow answers, prepared statements, ingestion, cancellation, catalogue",
    ),
    Client("JDBC for Flight SQL", "its jar", ("test_jdbc.py",), "a tool's start, queries, metadata"),
    Client("Grafana's data source", "its statements", ("test_grafana.py",), "connection test, query builder, macros, dashboards"),
    Client(
        "DBeaver, DataGrip, Metabase, Npgsql, psqlODBC, dbt, Rails, R",
        "their statements",
        ("test_postgres_clients.py",),
        "what they ask when they connect",
    ),
    Client("QuestDB's client", "questdb", ("test_clients.py::questdb", "test_line_keys.py::key or tls"), "rows and frames by TCP and HTTP, keys, TLS"),
    Client("InfluxDB's client, version 2", "influxdb-client", ("test_clients.py::influxdbs_client",), "points, batches, errors"),
    Client("InfluxDB's client, version 1", "influxdb", ("test_clients.py::version_1",), "points, precisions, gzip, frames"),
    Client("Cryptofeed", "cryptofeed", ("test_cryptofeed.py", "test_cryptofeed_sockets.py"), "its back ends over recorded sessions"),
    Client("notebooks", "ipykernel", ("test_notebooks.py",), "answers as tables, progress, interrupts"),
    Client("Narwhals", "narwhals", ("test_narwhals.py",), "frames as a plugin"),
)


def version(client: Client) -> str:
    if " --version" in client.version:
        try:
            told = subprocess.run(client.version.split(), capture_output=True, text=True, check=True).stdout
        except (OSError, subprocess.CalledProcessError):
            return "not installed"
        return re.search(r"\d[\d.]*", told)[0]
    try:
        return importlib.metadata.version(client.version)
    except importlib.metadata.PackageNotFoundError:
        return client.version if not re.fullmatch(r"[a-z0-9-]+", client.version) else "not installed"


def run(client: Client) -> tuple[int, int, list[str]]:
    """Tests that passed and failed, and the reasons why others were skipped."""
    passed, failed, skipped = 0, 0, []
    for selection in client.tests:
        file, _, names = selection.partition("::")
        with tempfile.NamedTemporaryFile(suffix=".xml") as report:
            command = [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", f"--junitxml={report.name}", str(HERE / file)]
            subprocess.run([*command, *(("-k", names) if names else ())], capture_output=True, check=False)
            for case in ElementTree.parse(report.name).iter("testcase"):
                if case.find("skipped") is not None:
                    skipped.append(case.find("skipped").get("message", ""))
                elif case.find("failure") is not None or case.find("error") is not None:
                    failed += 1
                    print(f"failed: {case.get('classname')}::{case.get('name')}", file=sys.stderr)
                else:
                    passed += 1
    return passed, failed, skipped


def main() -> int:
    wanted, is_good = sys.argv[1:], True
    print("| Client | Version | What was run | Passed | Failed | Skipped |\n| --- | --- | --- | --: | --: | --- |", flush=True)
    for client in CLIENTS:
        if wanted and not any(name.lower() in client.name.lower() for name in wanted):
            continue
        passed, failed, skipped = run(client)
        is_good &= failed == 0
        reasons = "; ".join(sorted(set(skipped))) if skipped else ""
        shown = f"{len(skipped)}: {reasons}" if skipped else ""
        print(f"| {client.name} | {version(client)} | {client.what} | {passed} | {failed} | {shown} |", flush=True)
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
