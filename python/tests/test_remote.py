"""The client speaks HTTP as the server does, and meets each failure as one that its user can act on."""

import datetime as dt
import decimal
import io
import json
import os
import pathlib
import select
import shutil
import socket
import subprocess
import sys
import threading

import fakes
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import splay
from splay.remote import Client
from splay.writer import Ack

FRAME = pa.table(
    {
        "ts_event": pa.array([1, 2, 3], pa.timestamp("ns", "UTC")),
        "symbol": pa.array(["A", "B", "A"]).dictionary_encode(),
        "price": [1.5, None, 2.5],
    }
)


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch):
    monkeypatch.setattr("splay.writer._sleep", lambda seconds: None)


@pytest.fixture
def server():
    with fakes.serving() as running:
        yield running


@pytest.fixture
def client(server) -> Client:
    return splay.connect(server.url)


def stream(table: pa.Table, rows: int | None = None) -> bytes:
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table, rows)
    return sink.getvalue()


def answers(*chunks: bytes, is_whole: bool = True) -> fakes.Step:
    def step(handler: fakes.Handler) -> bool:
        handler.chunks(*chunks, is_whole=is_whole)
        return False

    return step


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def test_a_write_is_one_message(server, client):
    ack = client.write("trade", FRAME, ack="process")
    assert ack == Ack(sequence=1, ack_class="process", rows=3, duplicate=False, quarantined=0)
    ((path, query, headers, _),) = server.requests
    assert (path, query) == ("/api/v1/write", {"table": "trade", "ack": "process"})
    assert headers["Content-Type"] == "application/vnd.apache.arrow.stream"
    assert "Authorization" not in headers
    assert server.stored.table("trade").equals(FRAME)


@pytest.mark.parametrize("make", [pl.DataFrame, lambda table: table.to_pandas(), lambda table: table.to_batches()[0]])
def test_frames_of_any_library_are_written(server, client, make):
    client.write("trade", make(FRAME))
    stored = server.stored.table("trade")
    assert stored["price"].to_pylist() == [1.5, None, 2.5]
    assert stored["symbol"].to_pylist() == ["A", "B", "A"]
    with pytest.raises(TypeError, match="list has neither"):
        client.write("trade", [1])
    with pytest.raises(splay.SettingError, match="tape"):
        client.write("trade", FRAME, ack="tape")


def test_dictionaries_of_several_chunks_become_one(server, client):
    other = pa.table({**dict(zip(FRAME.schema.names, FRAME.columns)), "symbol": pa.array(["C", "A", "C"]).dictionary_encode()})
    client.write("trade", pa.concat_tables([FRAME, other]))
    assert server.stored.column("trade", "symbol") == ["A", "B", "A", "C", "A", "C"]


def test_names_with_signs_of_urls_arrive_as_they_are(server, client):
    with client.tick("trade", producer="a b&c=d/é+%41") as trades:
        trades.append(ts_event=1)
    assert server.requests[0][1]["producer"] == "a b&c=d/é+%41"


def test_the_token_goes_along(server):
    client = splay.connect(server.url, token="secret")
    server.answer = answers(stream(FRAME))
    client.write("trade", FRAME)
    client.sql("select 1").to_arrow()
    assert [headers["Authorization"] for _, _, headers, _ in server.requests] == ["Bearer secret"] * 2
    assert "secret" not in repr(client)


def test_a_writer_outlives_whatever_happens_to_its_messages(server, client):
    server.script.extend(
        [
            fakes.breaks,
            fakes.stores_and_breaks,
            fakes.fails(503, "no room for rows now: disk", code="full", retryable=True),
            fakes.stores_and_breaks,
            fakes.fails(503, "<html>a proxy</html>"),
            fakes.fails(429),
            lambda handler: True,
            fakes.fails(413, code="too_large", retryable=False),
            fakes.stores_and_breaks,
        ]
    )
    with client.tick("trade", batch_rows=10, linger_ms=None) as trades:
        for n in range(100):
            trades.append(ts_event=n, symbol="A", price=float(n))
    assert server.stored.column("trade", "price") == [float(n) for n in range(100)]
    numbers = server.stored.numbers[trades.producer]
    assert numbers == sorted(set(numbers))
    assert not server.script
    assert trades.stats.rows == 100
    assert trades.stats.resent == 7


def test_one_connection_serves_many_batches_and_a_refusal_leaves_it(server, client):
    seen = set()

    def note(handler: fakes.Handler) -> bool:
        seen.add(handler.client_address)
        return True

    refuse = fakes.fails(400, 'table "trade": no', code="rejected", retryable=False)
    server.script.extend([note, note, refuse, note])
    taken = []
    with client.tick("trade", batch_rows=1, on_reject=lambda *what: taken.append(what)) as trades:
        trades.append_rows({"ts_event": n} for n in range(4))
    assert len(seen) == 1
    ((error, rows),) = taken
    assert (type(error), error.table) == (splay.RejectedError, "trade")
    assert rows["ts_event"].cast(pa.int64()).to_pylist() == [2]


class Callers:
    """Steps that note from where requests come."""

    def __init__(self, server):
        self.seen = []
        self._server = server

    def expect(self, *then) -> None:
        def note(handler: fakes.Handler) -> bool:
            self.seen.append(handler.client_address)
            return then[0](handler) if then else True

        self._server.script.append(note)


def test_a_client_uses_its_connection_again(server, client):
    callers = Callers(server)
    server.answer = answers(stream(FRAME))
    for call in [
        lambda: client.write("trade", FRAME),
        lambda: client.sql("select 1").to_arrow(),
        lambda: client.write("trade", FRAME),
    ]:
        callers.expect()
        call()
    assert len(set(callers.seen)) == 1
    client.close()
    callers.expect()
    client.write("trade", FRAME)
    assert len(set(callers.seen)) == 2


def test_a_connection_that_the_server_closed_is_not_used_again(server, client):
    callers = Callers(server)

    def last(handler: fakes.Handler) -> bool:
        # As a server ends a connection that stood idle: without a word in the answer.
        handler.close_connection = True
        return True

    for then in [(last,), (last,), ()]:
        callers.expect(*then)
        client.write("trade", FRAME)
        # The end has come before the next message goes.
        for _, idle in client._connections._idle:
            assert not then or select.select([idle.sock], [], [], 30)[0]
    assert len(set(callers.seen)) == 3
    assert server.stored.table("trade").num_rows == 9


def test_an_answer_that_is_left_in_the_middle_closes_its_connection(server, client):
    callers = Callers(server)
    content = stream(pa.concat_tables([FRAME] * 4), rows=3)
    server.answer = answers(content)
    for read in [lambda answer: next(iter(answer)), lambda answer: answer.to_arrow()]:
        callers.expect()
        read(client.sql("select 1"))
    callers.expect()
    client.sql("select 1").to_arrow()
    assert callers.seen[0] != callers.seen[1] == callers.seen[2]


def test_a_refusal_leaves_the_connection_and_a_failure_does_not(server, client):
    callers = Callers(server)
    callers.expect(fakes.fails(400, "no", code="rejected", retryable=False))
    callers.expect(fakes.fails(503, "later", code="full", retryable=True))
    callers.expect()
    with pytest.raises(splay.RejectedError):
        client.write("trade", FRAME)
    with pytest.raises(splay.FullError):
        client.write("trade", FRAME)
    client.write("trade", FRAME)
    assert callers.seen[0] == callers.seen[1] != callers.seen[2]


def test_threads_and_processes_have_connections_of_their_own(server, client):
    callers = Callers(server)
    both = threading.Barrier(2, timeout=30)

    def together(_handler: fakes.Handler) -> bool:
        both.wait()
        return True

    for _ in range(2):
        callers.expect(together)
    threads = [threading.Thread(target=client.write, args=("trade", FRAME)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(callers.seen)) == 2
    child = os.fork()
    if child == 0:
        is_new = client._connections.take().sock is None
        os._exit(0 if is_new else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.parametrize("rows", [1, 100_000])
def test_messages_of_any_length_arrive_whole(server, client, rows):
    frame = pa.table({"ts_event": pa.array(range(rows), pa.timestamp("ns", "UTC")), "n": pa.array(range(rows))})
    client.write("trade", frame)
    assert server.stored.table("trade").equals(frame)


def test_a_server_that_is_not_there_is_unreachable():
    client = splay.connect(f"http://127.0.0.1:{free_port()}")
    with pytest.raises(splay.UnreachableError, match="no answer from http://127.0.0.1") as caught:
        client.sql("select 1")
    assert isinstance(caught.value, ConnectionError)
    with pytest.raises(splay.UnreachableError):
        client.write("trade", FRAME)
    with pytest.raises(splay.UnreachableError), client.tick("trade", retry_seconds=0) as trades:
        trades.append(ts_event=1)


def test_an_ack_that_is_none_is_not_taken_for_one(server, client):
    server.script.append(lambda handler: handler.plain(200, b"welcome"))
    with pytest.raises(splay.UnreachableError, match="no ack of a SplayDB server"):
        client.write("trade", FRAME)


@pytest.mark.parametrize(
    ("status", "told", "kind"),
    [
        (400, {"code": "statement"}, splay.StatementError),
        (403, {"code": "read_only"}, splay.ReadOnlyError),
        (401, {"code": "unauthorized"}, splay.AccessError),
        (403, {}, splay.AccessError),
        (400, {}, splay.RejectedError),
        (400, {"code": "bad_request"}, splay.ServerError),
        (404, {"code": "not_found", "error": 'no table "trade"'}, splay.NoSuchTableError),
        (404, {"code": "not_found", "error": "nothing is at /query"}, splay.ServerError),
        (413, {}, splay.TooLargeError),
        (422, {"code": "memory"}, splay.MemoryLimitError),
        (422, {"code": "time"}, splay.CancelledError),
        (422, {"code": "rows"}, splay.ServerError),
        (500, {"code": "execution"}, splay.ExecutionError),
        (500, {"code": "new", "retryable": True}, splay.BusyError),
        (503, {}, splay.BusyError),
        (503, {"code": "full"}, splay.FullError),
    ],
)
def test_each_refusal_has_its_class(server, client, status, told, kind):
    told = {"error": "the reason", "retryable": False, **told}
    server.answer = lambda handler: handler.json(status, told)
    with pytest.raises(splay.Error, match=told["error"]) as caught:
        client.sql("select 1")
    assert type(caught.value) is kind
    assert getattr(caught.value, "retryable", False) == (kind in (splay.BusyError, splay.FullError))


def test_answers_are_read_once_in_any_form(server, client):
    server.answer = answers(stream(FRAME, 2)[:70], stream(FRAME, 2)[70:])
    assert client.sql("select 1").to_arrow().equals(FRAME)
    pd.testing.assert_frame_equal(client.sql("select 1").to_pandas(), FRAME.to_pandas())
    assert client.sql("select 1").to_polars()["symbol"].to_list() == ["A", "B", "A"]
    assert pl.DataFrame(client.sql("select 1"))["price"].to_list() == [1.5, None, 2.5]
    assert [batch.num_rows for batch in client.sql("select 1")] == [2, 1]
    answer = client.sql("select 1")
    assert answer.columns == ["ts_event", "symbol", "price"]
    assert pa.schema(answer) == answer.schema == FRAME.schema
    assert answer.to_arrow().num_rows == 3
    with pytest.raises(splay.ConsumedError):
        answer.to_arrow()


@pytest.mark.parametrize("kept", ["all batches", "one batch", "half a batch", "nothing"])
def test_half_an_answer_is_none(server, client, kept):
    whole = stream(FRAME, 1)
    end = {"all batches": len(whole) - 8, "one batch": len(whole) // 2, "half a batch": len(whole) - 60, "nothing": 0}[kept]
    server.answer = answers(whole[:end] or b"\xff", is_whole=False)
    with pytest.raises(splay.UnreachableError, match="broke off"):
        client.sql("select 1").to_arrow()


def test_parameters_go_as_json(server, client):
    server.answer = answers(stream(FRAME))
    zone = dt.timezone(dt.timedelta(hours=2))
    given = {
        "null": None,
        "yes": True,
        "n": np.int64(3),
        "x": np.float64(0.5),
        "price": decimal.Decimal("1.25"),
        "day": dt.date(2024, 1, 2),
        "at": dt.datetime(2024, 1, 2, 14, tzinfo=zone),
        "stamp": pd.Timestamp("2024-01-02 15:00:00.000000001"),
        "symbol": "é",
        "numpy": np.datetime64("2024-01-02T15:00:00.000000001"),
        "none": pd.NaT,
        "nothing": pd.NA,
        "no time": np.datetime64("NaT"),
        "nan": float("nan"),
        "endless": -np.float64("inf"),
        "large": 2**64 - 1,
    }
    client.sql("select $n", given).to_arrow()
    client.sql("select $1, $2", (1, "a")).to_arrow()
    first, second = (json.loads(body) for _, _, _, body in server.requests)
    assert first["sql"] == "select $n"
    assert first["format"] == "arrow"
    assert first["params"] == {
        "null": None,
        "yes": True,
        "n": 3,
        "x": 0.5,
        "price": 1.25,
        "day": "2024-01-02",
        "at": "2024-01-02T12:00:00",
        "stamp": "2024-01-02T15:00:00.000000001",
        "symbol": "é",
        "numpy": "2024-01-02T15:00:00.000000001",
        "none": None,
        "nothing": None,
        "no time": None,
        "nan": "nan",
        "endless": "-inf",
        "large": 2**64 - 1,
    }
    assert second["params"] == [1, "a"]
    for wrong in (b"bytes", dt.timedelta(1), [1]):
        with pytest.raises(TypeError, match=r"\$x"):
            client.sql("select $x", {"x": wrong})
    for several in ([1], (1, 2), np.array([1, 2]), pd.Series([1])):
        with pytest.raises(TypeError, match=r"\$1 .*x IN \(\$1, \$2\)"):
            client.sql("select $1", [several])
    with pytest.raises(OverflowError, match=r"\$1: the int is beyond 64 bits"):
        client.sql("select $1", [2**64])
    with pytest.raises(TypeError, match="not one str"):
        client.sql("select $1", "AAPL")


@pytest.mark.parametrize("url", ["127.0.0.1:7750", "ftp://127.0.0.1", "http://"])
def test_an_address_is_one_of_http(url):
    with pytest.raises(splay.SettingError, match="no address"):
        splay.connect(url)


def test_a_path_before_ours_is_kept(server):
    server.answer = answers(stream(FRAME))
    splay.connect(server.url + "/ticks/").sql("select 1")
    assert server.requests[0][0] == "/ticks/query"


def test_a_client_needs_no_compiled_module(tmp_path):
    package = pathlib.Path(splay.__file__).parent
    shutil.copytree(package, tmp_path / "splay", ignore=shutil.ignore_patterns("_splay*.so", "__pycache__"))
    program = """
import splay, splay.feeds.cryptofeed, splay.feeds.binance_recorded
splay.connect("http://127.0.0.1:7750")
try:
    splay.open
except ImportError as error:
    assert "needs the compiled part" in str(error), error
else:
    raise SystemExit("splay.open is there")
assert not hasattr(splay, "nothing")
"""
    subprocess.run([sys.executable, "-c", program], check=True, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(tmp_path)})
