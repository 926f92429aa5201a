"""The audit log of `splay serve`: verified and shown by the command, also after the server was killed."""

from __future__ import annotations

import json
import pathlib
import re
import signal
import stat
import subprocess
from collections.abc import Iterator

import pytest
from test_server import DAY_NS, SPLAY, Server, lines

CONFIG = '[audit]\nlog = "statements"\n'
KEY = "0123456789abcdef0123456789abcdef"


def splay(*arguments: object, key: str | None = None) -> subprocess.CompletedProcess[str]:
    environment = {"SPLAY_AUDIT_KEY": key} if key else {}
    return subprocess.run([SPLAY, *map(str, arguments)], capture_output=True, text=True, env=environment, check=False)


def shown(database: pathlib.Path, *arguments: str) -> list[dict]:
    done = splay("audit", "show", database, "--format", "json", *arguments)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def head(database: pathlib.Path, *arguments: str, key: str | None = None) -> str:
    """The head of a sound log."""
    done = splay("audit", "verify", database, *arguments, key=key)
    assert done.returncode == 0, done.stdout + done.stderr
    found = re.search(r"^head (\d+:[0-9a-f]{64})$", done.stdout, re.M)
    assert found and "sound" in done.stdout, done.stdout
    return found[1]


@pytest.fixture
def database(tmp_path: pathlib.Path) -> Iterator[pathlib.Path]:
    """A database whose server has kept a log."""
    with Server(tmp_path / "db", config=CONFIG) as server:
        assert server.send("/write", lines(0, 100))[0] == 204
        assert server.query("select count(*) from trade") == [[100]]
        server.query("insert into trade (time, sym, price) values ('2026-01-02', 'IBM', 1)")
        server.query("create view ibm as select * from trade where sym = 'IBM'")
    yield tmp_path / "db"


def test_records_are_shown_by_kind_user_and_time(database: pathlib.Path) -> None:
    records = shown(database)
    assert [record["n"] for record in records] == list(range(1, len(records) + 1))
    assert [record["kind"] for record in records][:2] == ["file", "start"] and records[-1]["kind"] == "stop"
    (read,) = shown(database, "--kind", "statement")
    assert (read["statement"], read["rows"], read["outcome"], read["role"]) == ("select count(*) from trade", 1, "ok", "open")
    changes = shown(database, "--kind", "change")
    assert [record["outcome"] for record in changes] == ["begun", "ok"] * 2
    assert changes[1]["of"] == changes[0]["n"] and changes[2]["object"] == "ibm"
    begun, ended = shown(database, "--kind", "rows")
    assert (begun["object"], ended["rows"], ended["messages"], ended["of"]) == ("trade", 100, 1, begun["n"])
    assert shown(database, "--user", "nobody") == [] and shown(database, "--until", "2026-01-01") == []
    assert shown(database, "--since", "2026-01-01 00:00") == records
    table = splay("audit", "show", database).stdout.splitlines()
    assert len(table) == len(records) + 1 and table[0].split()[:3] == ["n", "time", "user"]
    assert splay("audit", "show", database, "--since", "yesterday").returncode == 2


def test_what_was_changed_is_told_and_the_exit_code_says_so(database: pathlib.Path) -> None:
    (file,) = (database / ".audit").glob("audit-*.jsonl")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) & 0o077 == 0
    before, known = file.read_text(), head(database)
    assert head(database, "--head", known) == known
    number, _, _ = known.partition(":")
    other = splay("audit", "verify", database, "--head", f"{number}:{'0' * 64}")
    assert other.returncode == 1 and "isn't the one that was asked for" in other.stdout

    file.write_text(before.replace("select count", "select SUM"))
    told = splay("audit", "verify", database)
    assert told.returncode == 1 and re.search(r"record \d+ was changed", told.stdout), told.stdout
    assert "was changed or damaged" in told.stderr
    kept = before.splitlines(keepends=True)
    file.write_text("".join(kept[:3] + kept[4:]))
    assert "record 4 is missing" in splay("audit", "verify", database).stdout
    file.write_text("".join(kept[:-1]))
    assert "the end was cut off" in splay("audit", "verify", database).stdout
    file.write_text(before + "nonsense\n")
    assert splay("audit", "show", database).returncode == 1
    found = json.loads(splay("audit", "verify", database, "--format", "json").stdout)
    assert found["problem_count"] == 1 and found["problems"][0]["what"] == "this is no record"
    file.write_text(before)
    head(database)


def test_the_database_does_not_trip_over_its_log(database: pathlib.Path, tmp_path: pathlib.Path) -> None:
    listed = splay("tables", database).stdout
    assert "trade" in listed and "audit" not in listed
    assert splay("verify", database).returncode == 0
    assert splay("describe", database, "trade").returncode == 0
    assert splay("backup", database, tmp_path / "backup").returncode == 0
    assert splay("restore", tmp_path / "backup", tmp_path / "again").returncode == 0
    assert not (tmp_path / "again" / ".audit").exists()
    assert splay("audit", "verify", tmp_path / "again").returncode == 1
    assert "no audit log" in splay("audit", "show", tmp_path / "again").stderr


def test_a_killed_server_leaves_a_log_that_goes_on(tmp_path: pathlib.Path) -> None:
    for life in range(3):
        server = Server(tmp_path / "db", config=CONFIG)
        assert "line" in server.said, server.logged()
        assert server.send("/write", f"trade,sym=IBM price=1 {DAY_NS + life}\n".encode())[0] == 204
        server.query(f"insert into trade (time, sym, price) values ('2026-01-0{life + 1} 09:30:00', 'AIG', 2)")
        server.process.send_signal(signal.SIGKILL)
        server.process.wait(30)
        server.log.close()
        # Whatever was acknowledged has its record.
        begun = [record for record in shown(tmp_path / "db", "--kind", "change") if record["outcome"] == "begun"]
        assert len(begun) == life + 1
    file = sorted((tmp_path / "db" / ".audit").glob("audit-*.jsonl"))[-1]
    with file.open("a") as torn:
        torn.write('{"n":99,"time":"2026')
    with Server(tmp_path / "db", config=CONFIG):
        pass
    head(tmp_path / "db")
    recovered = shown(tmp_path / "db", "--kind", "recovered")[-1]
    assert recovered["torn"]["bytes"] == 20


def test_a_key_keeps_others_from_making_the_log_anew(tmp_path: pathlib.Path) -> None:
    (tmp_path / "key").write_text(KEY + "\n")
    config = CONFIG + f'folder = "{tmp_path}/log"\nkey_file = "key"\n'
    with Server(tmp_path / "db", config=config) as server:
        assert server.query("select 1") == [[1]]
    assert not (tmp_path / "db" / ".audit").exists()
    without = splay("audit", "verify", tmp_path / "log")
    assert without.returncode == 1 and "are sealed with a key" in without.stderr
    assert head(tmp_path / "log", "--key-file", str(tmp_path / "key")) == head(tmp_path / "log", key=KEY)
    assert splay("audit", "verify", tmp_path / "log", key=KEY[::-1]).returncode == 1
    assert KEY not in "".join(path.read_text() for path in (tmp_path / "log").iterdir())
    # The same from the environment, and not from both.
    with Server(tmp_path / "db", config=config.replace('key_file = "key"\n', ""), environment={"SPLAY_AUDIT_KEY": KEY}):
        pass
    head(tmp_path / "log", key=KEY)
    short = Server(tmp_path / "db", config=CONFIG, environment={"SPLAY_AUDIT_KEY": "short"})
    assert short.process.wait(30) == 1 and "at least 32 bytes" in short.logged()
    both = Server(tmp_path / "db", config=config, environment={"SPLAY_AUDIT_KEY": KEY})
    assert both.process.wait(30) == 1 and "audit.key_file" in both.logged()
