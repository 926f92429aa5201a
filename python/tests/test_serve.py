"""The client, the writers and the feeds against `splay serve` itself, also when it is killed.

The binary is the one that SPLAY_BINARY names, or that of this repository's build.
"""

import json
import os
import pathlib
import re
import signal
import subprocess
import threading
import time
import urllib.request

import pyarrow as pa
import pytest
import test_binance_recorded
import test_cryptofeed
from test_cryptofeed import captures, cryptofeed  # noqa: F401, fixtures

import splay
from splay.feeds.binance_recorded import replay

ROOT = pathlib.Path(__file__).resolve().parents[2]
BINARY = pathlib.Path(os.environ.get("SPLAY_BINARY", ROOT / "target" / "release" / "splay"))

NOW = time.time_ns()


class Served:
    """A server of a database in a process of its own, on one port for all its lives."""

    def __init__(self, folder: pathlib.Path):
        self.folder = folder
        self.address = "127.0.0.1:0"
        self.start()

    def start(self) -> None:
        command = [str(BINARY), "serve", str(self.folder / "db"), "--http", self.address, "--flight", "off", "--line", "off"]
        self.log = open(self.folder / "log", "ab")
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self.log, text=True)
        for line in self.process.stdout:
            if found := re.match(r"http\s+http://(\S+)", line):
                self.address = found[1]
                return
        pytest.fail(f"splay serve did not start: {(self.folder / 'log').read_text()[-2000:]}")

    def client(self) -> splay.remote.Client:
        return splay.connect(f"http://{self.address}")

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.wait()

    def stop(self) -> None:
        self.process.terminate()
        self.wait()

    def wait(self) -> None:
        self.process.wait(60)
        self.process.stdout.close()
        self.log.close()


@pytest.fixture
def served(tmp_path):
    if not BINARY.exists():
        pytest.skip(f"there is no {BINARY}: cargo build --release, or set SPLAY_BINARY")
    if subprocess.run([BINARY, "serve", "--help"], capture_output=True).returncode != 0:
        pytest.skip(f"{BINARY} has no `serve`")
    server = Served(tmp_path)
    yield server
    if server.process.poll() is None:
        server.stop()


def asked(client, statement: str, params=None) -> list[dict]:
    return client.sql(statement, params).to_arrow().to_pylist()


def test_rows_are_there_when_they_are_acknowledged(served):
    client = served.client()
    frame = pa.table(
        {
            "ts_event": pa.array([NOW, NOW + 1], pa.timestamp("ns", "UTC")),
            "symbol": pa.array(["A", "B"]).dictionary_encode(),
            "price": [1.5, None],
        }
    )
    for ack in ("memory", "process", "disk"):
        assert client.write("trade", frame, ack=ack).ack_class == ack
    with client.tick("trade", linger_ms=None, types={"venue": "symbol"}) as trades:
        trades.append(ts_event=NOW + 2, symbol="A", price=2.5, venue="X")
        assert trades.flush().rows == 1
        assert asked(client, "select count(*) as n from trade where symbol = $1", ["A"]) == [{"n": 4}]
    assert asked(client, "select venue, price from trade where ts_event = $at", {"at": splay_time(NOW + 2)}) == [
        {"venue": "X", "price": 2.5}
    ]


def test_a_frame_makes_the_same_table_by_both_ways(served, tmp_path):
    frame = pa.table({"time": pa.array([NOW, NOW + 1], pa.timestamp("ns", "UTC")), "sym": ["B", "A"], "price": [1.0, 2.0]})
    served.client().write("trade", frame)
    local = splay.open(tmp_path / "local")
    local.write("trade", frame)
    show = "show create table trade"
    assert asked(served.client(), show) == local.sql(show).to_arrow().to_pylist()
    with pytest.raises(splay.Error, match="rows for it would create it"), served.client().subscribe("nope") as updates:
        next(iter(updates))


def splay_time(nanoseconds: int):
    pandas = pytest.importorskip("pandas")
    return pandas.Timestamp(nanoseconds)


def test_errors_are_those_of_a_local_database(served):
    client = served.client()
    for wrong, kind in (
        ("selec 1", splay.StatementError),
        ("select 1 from nowhere", splay.NoSuchTableError),
        ("set a.b = 1", splay.ReadOnlyError),
        ("drop table nowhere", splay.NoSuchTableError),
        ("select 1 / (value - 5) from generate_series(1, 10)", splay.ExecutionError),
    ):
        with pytest.raises(kind):
            client.sql(wrong).to_arrow()
    frame = pa.table({"ts_event": pa.array([NOW], pa.timestamp("ns", "UTC")), "price": [1.5]})
    client.write("trade", frame)
    with pytest.raises(splay.RejectedError, match="price"):
        client.write("trade", frame.set_column(1, "price", [["high"]]))
    with pytest.raises(splay.RejectedError), client.tick("trade") as trades:
        trades.append(ts_event=None, price=1.0)
    with pytest.raises(splay.Error):
        client.write("../trade", frame)


def test_what_was_sent_before_is_passed_over(served):
    client = served.client()
    for rows in (20, 50):
        with client.tick("trade", producer="day", sequence=1, batch_rows=10) as trades:
            trades.append_rows({"ts_event": NOW + n, "price": float(n)} for n in range(rows))
    assert trades.stats.duplicates == 2
    served.stop()
    served.start()
    with client.tick("trade", producer="day", sequence=1, batch_rows=10) as trades:
        trades.append_rows({"ts_event": NOW + n, "price": float(n)} for n in range(60))
    assert trades.stats.duplicates == 5
    assert asked(client, "select count(*) as n, count(distinct price) as prices from trade") == [{"n": 60, "prices": 60}]


def test_a_producer_is_told_where_to_go_on(served):
    client = served.client()
    assert client.last_number("day") is None
    with client.tick("trade", producer="day", sequence=1, batch_rows=10) as trades:
        trades.append_rows({"ts_event": NOW + n, "price": float(n)} for n in range(30))
    assert client.last_number("day") == 3
    served.kill()
    served.start()
    assert client.last_number("day") == 3
    with client.tick("trade", producer="day", sequence=client.last_number("day") + 1, batch_rows=10) as trades:
        trades.append_rows({"ts_event": NOW + n, "price": float(n)} for n in range(30, 60))
    assert (trades.stats.duplicates, client.last_number("day")) == (0, 6)
    assert asked(client, "select count(*) as n, count(distinct price) as prices from trade") == [{"n": 60, "prices": 60}]


def test_a_table_is_made_as_wished(served):
    client = served.client()
    frame = pa.table({"at": [NOW, NOW + 1], "received": pa.array([1, 2], pa.timestamp("ns", "UTC")), "name": ["A", "B"]})
    with pytest.raises(splay.NoSuchTableError):
        client.write("trade", frame, create=False)
    client.write("trade", frame, time="at", symbol="name", time_zone="America/New_York")
    client.write("trade", frame, time="at", symbol="name", time_zone="America/New_York", create=False)
    with pytest.raises(splay.RejectedError, match='its time column is "at", not "received"'):
        client.write("trade", frame, time="received")
    described = json.loads(urllib.request.urlopen(f"http://{served.address}/tables/trade").read())
    assert (described["time"], described["symbol"], described["time_zone"]) == ("at", "name", "America/New_York")
    assert described["rows"] == 4
    client.write("plain", frame, symbol="")
    described = json.loads(urllib.request.urlopen(f"http://{served.address}/tables/plain").read())
    assert (described["time"], described["symbol"], described["time_zone"]) == ("received", None, "UTC")


def test_a_server_that_is_killed_loses_and_doubles_nothing(served):
    """Four writers go on appending while the server is killed and started again."""
    client, rows = served.client(), 10_000
    # Buffers hold two batches, so that who appends one more has had acks.
    appended = threading.Semaphore(0)
    failures, resent = [], []

    def produce(name: str) -> None:
        try:
            with client.tick("trade", batch_rows=50, buffer_rows=100, linger_ms=None) as trades:
                for n in range(rows):
                    trades.append(ts_event=NOW + n, symbol=name, price=float(n))
                    if n % 50 == 49:
                        appended.release()
            resent.append(trades.stats.resent)
        except splay.Error as error:
            failures.append(error)

    threads = [threading.Thread(target=produce, args=(name,)) for name in "ABCD"]
    for thread in threads:
        thread.start()
    for _ in range(10):
        for _ in range(50):
            assert appended.acquire(timeout=60)
        served.kill()
        served.start()
    for thread in threads:
        thread.join(60)
    assert failures == []
    assert sum(resent) > 10
    found = asked(
        client,
        "select symbol, count(*) as n, count(distinct price) as prices, sum(price) as sum from trade group by symbol order by symbol",
    )
    total = float(sum(range(rows)))
    assert found == [{"symbol": name, "n": rows, "prices": rows, "sum": total} for name in "ABCD"]


def test_recorded_sessions_of_cryptofeed(served, cryptofeed, captures):  # noqa: F811
    client = served.client()
    venues = ("BITSTAMP", "KRAKEN", "GEMINI", "BINANCE_US", "BITFINEX")
    for venue in venues:
        test_cryptofeed.playback(venue, captures, test_cryptofeed.backends(client))
    for channel, table in (("l2_book", "book"), ("trades", "trade"), ("ticker", "quote")):
        expected = {
            venue: test_cryptofeed.COUNTS[venue][channel] for venue in venues if channel in test_cryptofeed.COUNTS[venue]
        }
        found = asked(client, f"select venue, count(*) as n from {table} group by venue")
        assert {row["venue"]: row["n"] for row in found} == expected
    rows = asked(client, "select * from book where venue = 'BINANCE_US' order by symbol, sequence")
    test_cryptofeed.check_books(rows, is_numbered=True)
    assert asked(client, "select count(*) as n from book where bid_price[1] >= ask_price[1]") == [{"n": 0}]


def test_a_real_recording_of_binance_once(served):
    path = test_binance_recorded.RECORDINGS / "spot" / "ethusdt_20240808.gz"
    if not path.exists():
        pytest.skip(f"the real data is absent: no {path}; set SPLAY_REAL_DATA to the folder that holds hftbacktest/")
    client = served.client()
    for _ in range(2):
        counts = replay(client, path, ack="process")
        assert counts.gaps == 0
        found = {table: asked(client, f"select count(*) as n from {table}")[0]["n"] for table in counts.rows}
        assert found == counts.rows
    assert asked(client, "select count(*) as n from book where bid_price[1] >= ask_price[1]") == [{"n": 0}]
    assert asked(client, "select max(trade_id) - min(trade_id) + 1 = count(*) as is_whole from trade") == [{"is_whole": True}]
