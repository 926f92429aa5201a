"""The benchmark's tools: environments, page cache, processors, memory, servers by address."""

import contextlib
import http.server
import pathlib
import sys
import threading
import types

import pyarrow as pa
import pytest

import engines
from engines.clickhouse_server_engine import Client, Engine
from splay_bench import caches, environment, install, quiet
from splay_bench.settings import Settings
from splay_bench.worker import Worker


def test_engines_that_want_the_same_share_an_environment():
    venvs = pathlib.Path("/venvs")
    folders = {name: environment.folder_of(name, venvs, "ours.whl") for name in engines.NAMES}
    assert folders["splay-memory"] == folders["splay"] == venvs / "splay"
    assert folders["influxdb"] == folders["influxdb2"] == folders["clickhouse-server"] != folders["splay"]
    assert folders["clickhouse"] == folders["clickhouse-zstd"] and folders["splay-http"] == folders["splay"]
    assert folders["polars-parquet"] == folders["polars"] and folders["duckdb"] == venvs / "duckdb"


def test_everything_is_got_once_before_anything_is_measured(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(environment, "ensure", lambda folder, wanted, log: asked.append(folder.name))
    monkeypatch.setattr(install.inside, "python", lambda settings: asked.append("suites"))
    for name in engines.NAMES:
        monkeypatch.setattr(engines.load(name), "fetch", classmethod(lambda cls, cache, told: asked.append(cls.name)))
    given = Settings(["splay", "splay-memory", "polars", "polars-parquet"], work=tmp_path, wheel=tmp_path / "a.whl")
    install.ahead(given, ["finance", "taq"])
    both = ["polars", "polars-parquet", "splay", "splay-memory"]
    assert sorted(asked) == sorted(["splay", "polars", "suites", *both])
    asked.clear()

    def fails(folder, wanted, log):
        raise RuntimeError("no network")

    monkeypatch.setattr(environment, "ensure", fails)
    install.ahead(given, ["finance"])
    assert sorted(asked) == both, "what fails is left to its engine"


def test_programs_are_held_and_data_is_not(tmp_path):
    import os

    data = tmp_path / "rows.parquet"
    data.write_bytes(b"rows")
    with open(data, "rb"):
        found = caches.programs([os.getpid()])
    assert pathlib.Path(sys.executable).resolve() in found
    assert any(".so" in path.name for path in found) and data not in found
    held, code, empty = caches.Held(), tmp_path / "a.pyc", tmp_path / "empty.py"
    code.write_bytes(b"code")
    empty.touch()
    held.add([code, empty, tmp_path / "missing.so"])
    held.add([code])
    assert held.bytes == 4
    held.close()
    assert held.bytes == 0


def test_others_are_what_is_busy_beyond_the_own(monkeypatch):
    busy, own, clock = iter([100.0, 103.0]), iter([10.0, 12.0]), iter([0.0, 2.0])
    monkeypatch.setattr(quiet, "busy_seconds", lambda: next(busy))
    monkeypatch.setattr(quiet, "own_seconds", lambda: next(own))
    monkeypatch.setattr(quiet, "time", types.SimpleNamespace(monotonic=lambda: next(clock)))
    with quiet.watched() as others:
        assert others.cores is None
    assert others.cores == 0.5


def test_the_own_seconds_count_those_that_ended():
    import subprocess

    before = quiet.own_seconds()
    subprocess.run([sys.executable, "-c", "import time\nwhile time.process_time() < 0.3: pass"], check=True)
    assert quiet.own_seconds() - before >= 0.25


class Counting:
    """An engine that notes which runs it was asked for."""

    def __init__(self):
        self.runs = []

    def prepare(self, question, parameters, variant):
        return lambda: self.runs.append(variant)

    def engine_ms(self):
        return None


def test_a_slice_warms_each_variant_that_it_times():
    engine = Counting()
    found = Worker(engine).do_time("O-T", first=4, rounds=2, rounds_max=2, for_seconds=0, warm_seconds=0)
    assert len(found["client_ms"]) == 2 and found["engine_ms"] == []
    assert len(engine.runs) == 4 and engine.runs[:2] == engine.runs[2:] and engine.runs[0] != engine.runs[1]


class ClickHouse(http.server.BaseHTTPRequestHandler):
    """Answers what it is told to, and ends the first connection when its first statement was answered."""

    protocol_version = "HTTP/1.1"

    def do_POST(self):
        length = int(self.headers["Content-Length"])
        body = self.rfile.read(length)
        self.server.asked.append((self.path, dict(self.headers), body))
        status, content = self.server.answers.pop(0)
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)
        # Without a word, as servers do with connections that rest.
        self.close_connection = len(self.server.asked) == 1

    def log_message(self, *words):
        pass


@contextlib.contextmanager
def clickhouse(*answers):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), ClickHouse)
    server.asked, server.answers = [], list(answers)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server, f"http://reader:a%40b@127.0.0.1:{server.server_port}/bench"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_clickhouse_server_is_asked_over_http():
    rows = b'{"data": [["25.8"]]}'
    with clickhouse((200, rows), (200, rows), (500, b"Code: 62. Syntax error")) as (server, address):
        client = Client(address, 2)
        assert client.rows("SELECT version()") == [["25.8"]]
        # The server has ended the connection meanwhile.
        assert client.rows("SELECT 1") == [["25.8"]]
        with pytest.raises(RuntimeError, match="Syntax error"):
            client.post("SELEC 1")
        client.connection.close()
    path, headers, body = server.asked[0]
    assert body == b"SELECT version() FORMAT JSONCompact" and "database=bench" in path and "max_threads=2" in path
    assert headers["X-ClickHouse-User"] == "reader" and headers["X-ClickHouse-Key"] == "a@b"


def test_rows_go_to_a_clickhouse_server_as_files(tmp_path):
    stream = pa.BufferOutputStream()
    answer = pa.table({"max_bid": [1.5]})
    with pa.ipc.new_stream(stream, answer.schema) as writer:
        writer.write_table(answer)
    file = tmp_path / "trades.csv"
    file.write_text("timestamp,symbol\n")
    with clickhouse((200, b""), (200, b""), (200, stream.getvalue().to_pybytes())) as (server, address):
        engine = Engine(tmp_path, 2, {"clickhouse": address})
        engine.run("SELECT 1")
        engine.write({"trades": file})
        question = next(iter(Worker(engine).questions.values()))
        assert engine.prepare(question, Worker(engine).parameters, question.variant(0))().equals(answer)
        engine.close()
    path, headers, body = server.asked[1]
    assert body == file.read_bytes() and headers["Content-Length"] == str(len(body))
    assert "INSERT+INTO+trades" in path and "FORMAT+CSVWithNames" in path and "CODEC" not in path
    assert server.asked[2][2].endswith(b" FORMAT ArrowStream")
