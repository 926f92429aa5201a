"""Who opens a database sees every acknowledged row: beside a server, after it has stopped, after it was killed."""

import pathlib
import subprocess

import pyarrow.parquet as pq
import pytest
import test_serve
from test_capture import frame, numbers
from test_serve import served  # noqa: F401, fixture

import splay


def counted(folder: pathlib.Path, *arguments: str) -> int:
    """What the command says in a process of its own."""
    command = [test_serve.BINARY, "sql", folder, "select count(*) as n from trade", "--format", "csv", *arguments]
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()[1])


def test_commands_and_readers_see_what_a_server_acknowledged(served, tmp_path):  # noqa: F811, pytest hands it in
    folder = served.folder / "db"
    client = served.client()
    client.write("trade", frame(0, 10))
    db = splay.open(folder, create=False)
    assert counted(folder) == 10
    assert numbers(db) == list(range(10))
    assert db.table("trade").rows == 10
    client.write("trade", frame(10, 5))
    assert numbers(db) == list(range(15)), "what has come since"
    assert counted(folder, "--no-journal") == 0
    assert numbers(splay.open(folder, journal=False)) == []
    for command, said in [("tables", "15"), ("describe", "rows       15"), ("verify", "trade: 15 rows more in the journal")]:
        arguments = [folder, "trade"] if command == "describe" else [folder]
        shown = subprocess.run([test_serve.BINARY, command, *arguments], capture_output=True, text=True, check=True).stdout
        assert said in shown, shown
    subprocess.run([test_serve.BINARY, "export", folder, "trade", "--to", tmp_path / "copy"], check=True)
    assert sorted(pq.read_table(tmp_path / "copy")["n"].to_pylist()) == list(range(15))
    served.kill()
    assert counted(folder) == 15, "killed"
    assert numbers(db) == list(range(15))
    served.start()
    assert counted(folder) == 15, "started again"
    client.write("trade", frame(15, 5))
    assert numbers(db) == list(range(20))
    served.stop()
    assert counted(folder) == 20, "stopped"
    assert numbers(db) == numbers(splay.open(folder)) == list(range(20))


def test_one_that_captures_does_not_see_its_rows_twice(db):
    other = splay.open(db.path)
    for round in range(3):
        with db.capture(automatic=False) as capture:
            capture.append("trade", frame(round * 10, 10))
            expected = list(range(round * 10 + 10))
            assert numbers(db) == expected, "its own"
            assert numbers(other) == expected, "read from its journal"
        assert numbers(db) == numbers(other) == expected


def test_more_rows_than_memory_may_hold_are_an_error(db):
    with db.capture(automatic=False) as capture:
        capture.append("trade", frame(0, 10_000))
        with pytest.raises(splay.SettingError, match="journal_memory"):
            numbers(splay.open(db.path, journal_memory_bytes=100_000))
