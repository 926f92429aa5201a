"""Backups of a database that a server captures into, and what is restored of them."""

import re
import signal
import subprocess
import threading
import time

import pytest
import test_serve
from test_capture import frame, numbers

import splay

CONFIG = "[capture]\nlive_rows_max = 2000\nlate_s = 0\njournal_segment_bytes = 100000\njournal_keep_bytes = 0\n"


class Busy(test_serve.Served):
    """A server that writes rows down all the time."""

    def start(self) -> None:
        config = self.folder / "server.toml"
        config.write_text(CONFIG)
        arguments = ["--config", str(config), "--http", self.address, "--flight", "off", "--line", "off"]
        self.log = open(self.folder / "log", "ab")
        command = [str(test_serve.BINARY), "serve", str(self.folder / "db"), *arguments]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self.log, text=True)
        for line in self.process.stdout:
            if found := re.match(r"http\s+http://(\S+)", line):
                self.address = found[1]
                return
        pytest.fail((self.folder / "log").read_text()[-2000:])


def run(*arguments) -> subprocess.CompletedProcess:
    return subprocess.run([test_serve.BINARY, *arguments], capture_output=True, text=True)


@pytest.fixture
def busy(tmp_path):
    if not test_serve.BINARY.exists():
        pytest.skip(f"there is no {test_serve.BINARY}: cargo build --release, or set SPLAY_BINARY")
    server = Busy(tmp_path)
    yield server
    if server.process.poll() is None:
        server.stop()


def test_a_backup_beside_a_server_has_all_that_was_acknowledged_and_can_be_killed(busy, tmp_path):
    acknowledged, is_done = [0], threading.Event()

    def write():
        client = busy.client()
        while not is_done.is_set():
            client.write("trade", frame(acknowledged[0], 500))
            acknowledged[0] += 500

    writer = threading.Thread(target=write)
    writer.start()
    try:
        while acknowledged[0] < 10_000:
            time.sleep(0.01)
        for round in range(6):
            before = acknowledged[0]
            if round % 2 == 0:
                killed = subprocess.Popen([test_serve.BINARY, "backup", tmp_path / "db", tmp_path / "backups"])
                time.sleep(0.005 * (1 + round))
                killed.send_signal(signal.SIGKILL)
                killed.wait()
            told = run("backup", tmp_path / "db", tmp_path / "backups")
            assert told.returncode == 0, told.stderr
            again = tmp_path / f"again{round}"
            told = run("restore", tmp_path / "backups", again)
            assert told.returncode == 0, told.stderr
            found = numbers(splay.open(again))
            assert found == list(range(len(found))), "whole batches, each once"
            assert len(found) >= before and len(found) % 500 == 0
    finally:
        is_done.set()
        writer.join()
    db = splay.open(again)
    with db.capture() as capture:
        capture.append("trade", frame(len(found), 10))
    assert numbers(splay.open(again)) == list(range(len(found) + 10)), "capture goes on"
    assert run("backup", "--verify", tmp_path / "backups").returncode == 0


def test_a_backup_inside_its_database_is_refused(db, tmp_path):
    db.write("trade", frame(0, 10))
    (tmp_path / "link").symlink_to(db.path)
    before = sorted(path.name for path in db.path.iterdir())
    for inside in (db.path, db.path / "backups", db.path / "a" / "b", tmp_path / "link" / "backups", db.path.parent / "x" / ".." / db.path.name / "y"):
        told = run("backup", db.path, inside)
        assert told.returncode == 1 and "is inside the database" in told.stderr, told.stderr
    assert sorted(path.name for path in db.path.iterdir()) == before
    assert run("backup", db.path, tmp_path / f"{db.path.name}-backups").returncode == 0


def test_a_damaged_backup_and_one_that_was_never_finished_are_refused(db, tmp_path):
    db.write("trade", frame(0, 1_000))
    assert run("backup", db.path, tmp_path / "backups").returncode == 0
    segment = next((tmp_path / "backups").glob("000001/trade/date=*/*.arrow"))
    content = bytearray(segment.read_bytes())
    content[len(content) // 2] ^= 1
    segment.write_bytes(content)
    for arguments in [("backup", "--verify", tmp_path / "backups"), ("restore", tmp_path / "backups", tmp_path / "again")]:
        told = run(*arguments)
        assert told.returncode == 1 and str(segment) in told.stderr, told.stderr
    assert run("sql", tmp_path / "again", "select 1").returncode == 1, "it is no database"
    (tmp_path / "backups" / "backup.json").unlink()
    told = run("restore", tmp_path / "backups", tmp_path / "other")
    assert told.returncode == 1 and "never finished" in told.stderr
    assert run("backup", db.path, tmp_path / "backups").returncode == 0
    assert run("restore", tmp_path / "backups", tmp_path / "other").returncode == 0
    assert run("restore", tmp_path / "backups", tmp_path / "other").returncode == 1, "it has a database"
    assert numbers(splay.open(tmp_path / "other")) == list(range(1_000))
