"""Cryptofeed's own back ends for TCP, UDP, Unix sockets and ZeroMQ fill tables by `splay-feed`, with the settings of docs/guide/feeds.md.

The program is feeds/target/release/splay-feed, or what SPLAY_FEED names; `make test-feeds` builds it.
"""

import asyncio
import json
import os
import pathlib
import re
import signal
import subprocess
import time
import urllib.request
from decimal import Decimal

import pytest
from test_clients import ports  # noqa: F401, a fixture

ROOT = pathlib.Path(__file__).resolve().parents[2]
FEED = pathlib.Path(os.environ.get("SPLAY_FEED", ROOT / "feeds" / "target" / "release" / "splay-feed"))

START, RECEIPT = 1_700_000_000.123456, 1_700_000_000.654321


def guide(name: str) -> str:
    """The settings of the guide that have a feed of this name."""
    text = (ROOT / "docs" / "guide" / "feeds.md").read_text()
    return next(block for block in re.findall(r"```toml\n(.*?)```", text, re.S) if f'name = "{name}"' in block)


def eventually(what: str, is_so) -> None:
    until = time.monotonic() + 180
    while not is_so():
        assert time.monotonic() < until, what
        time.sleep(0.05)


class Feed:
    """A feed by settings of the guide, at another place, and the server that it fills."""

    def __init__(self, folder: pathlib.Path, server, name: str, listen: str, more: str = ""):
        self.url = "http://{}:{}".format(*server)
        self.log = folder / "feed.log"
        settings = re.sub(r'listen = "[^"]*".*', f'listen = "{listen}"{more}', guide(name))
        head = f'name = "test"\n[server]\nurl = "{self.url}"\n[dead_letters]\nfile = "dead.jsonl"\n[metrics]\nlog_seconds = 1\n'
        (folder / "feed.toml").write_text(head + settings)
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen([FEED, folder / "feed.toml"], stderr=log)
        eventually("it listens", lambda: " listens " in self.text())

    def text(self) -> str:
        assert self.process.poll() is None, self.log.read_text()
        return self.log.read_text()

    def address(self) -> tuple[str, int]:
        host, port = re.search(r"address=([\d.]+):(\d+)", self.text()).groups()
        return host, int(port)

    def rows(self, statement: str) -> list:
        request = urllib.request.Request(f"{self.url}/query", statement.encode(), {"content-type": "text/plain"})
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return json.load(answer)["rows"]
        except urllib.error.HTTPError as error:
            # There is no table before the first row.
            assert error.code == 404 or "table" in error.read().decode(), statement
            return []

    def count(self, table: str, more: str = "") -> int:
        rows = self.rows(f"select count(*) from {table} {more}")
        return rows[0][0] if rows else 0

    def stop(self) -> str:
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(60) == 0, self.log.read_text()
        return self.log.read_text()


@pytest.fixture
def feed(tmp_path, ports):  # noqa: F811
    pytest.importorskip("cryptofeed", reason="cryptofeed is not installed: pip install cryptofeed==2.4.1")
    if not FEED.exists():
        pytest.skip(f"there is no {FEED}: make test-feeds, or set SPLAY_FEED")
    feeds = []

    def start(*given) -> Feed:
        feeds.append(Feed(tmp_path, ports.http, *given))
        return feeds[-1]

    yield start
    for one in feeds:
        one.process.kill()
        one.process.wait(60)


def trade(number: int, symbol: str = "BTC-USD", kind: str | None = None):
    from cryptofeed.types import Trade

    side, price = ("buy", "sell")[number % 2], Decimal("37000.25") + number
    return Trade("COINBASE", symbol, side, Decimal("0.5"), price, START + number, id=str(number), type=kind)


def ticker(number: int):
    from cryptofeed.types import Ticker

    # Some venues give none of their time: Cryptofeed writes its own.
    return Ticker("KRAKEN", "ETH-USD", Decimal("10.5"), Decimal("11.5") + number, None)


async def send(callback, events) -> None:
    """What a feed handler does: start, events, stop. Waits until all has left the process."""
    callback.start(asyncio.get_running_loop())
    for event in events:
        await callback(event, RECEIPT)
        await asyncio.sleep(0)
    await callback.queue.join()
    transport = getattr(callback.conn, "transport", None)
    while transport is not None and transport.get_write_buffer_size():
        await asyncio.sleep(0.01)
    await callback.stop()
    await callback.worker
    callback.conn.close()


def check_trades(feed: Feed, count: int) -> None:
    rows = feed.rows(
        "select cast(ts_event as bigint) as event, cast(ts_recv as bigint) as receipt, symbol, venue, side, price, size, trade_id, order_type "
        "from trade where symbol = 'BTC-USD' order by ts_event"
    )
    for number, row in enumerate(rows):
        event = 1_700_000_000_123_456_000 + number * 1_000_000_000
        side = ("buy", "sell")[number % 2]
        kind = "market" if number % 3 == 0 else None
        expected = [event, 1_700_000_000_654_321_000, "BTC-USD", "COINBASE", side, 37_000.25 + number, 0.5, str(number), kind]
        assert [int(row[0]), int(row[1]), *row[2:]] == expected
    assert len(rows) == count


@pytest.mark.parametrize("kind", ["tcp", "udp", "uds"])
def test_socket_back_ends(feed, tmp_path, kind):
    listen = f"unix:{tmp_path / 'feed.sock'}" if kind == "uds" else f"{kind}://127.0.0.1:0"
    running = feed("cryptofeed-tcp", listen)
    from cryptofeed.backends.socket import TickerSocket, TradeSocket

    if kind == "uds":
        place, port = f"uds://{tmp_path / 'feed.sock'}", None
    else:
        host, port = running.address()
        place = f"{kind}://{host}"
    trades = [trade(number, kind="market" if number % 3 == 0 else None) for number in range(100)]
    asyncio.run(send(TradeSocket(place, port=port), trades))
    asyncio.run(send(TickerSocket(place, port=port), [ticker(number) for number in range(10)]))
    eventually("all is stored", lambda: running.count("trade") == 100 and running.count("quote") == 10)
    check_trades(running, 100)
    rows = running.rows("select cast(ts_event as bigint) as event, symbol, bid_price, ask_price from quote order by ask_price")
    assert [int(rows[3][0]), *rows[3][1:]] == [1_700_000_000_654_321_000, "ETH-USD", 10.5, 14.5]
    assert "dropped=0 missing=0" in running.stop()
    assert not (tmp_path / "dead.jsonl").read_text()


def test_books_are_no_rows_and_are_told(feed, tmp_path):
    from cryptofeed.backends.socket import BookSocket
    from cryptofeed.types import OrderBook

    running = feed("cryptofeed-tcp", "tcp://127.0.0.1:0")
    host, port = running.address()
    book = OrderBook("COINBASE", "BTC-USD", bids={Decimal("9"): Decimal("1")}, asks={Decimal("10"): Decimal("2")})
    book.timestamp = START
    asyncio.run(send(BookSocket(f"tcp://{host}", port=port), [book]))
    dead = tmp_path / "dead.jsonl"
    eventually("the book is a dead letter", lambda: dead.read_text().endswith("\n"))
    letter = json.loads(dead.read_text())
    assert (letter["feed"], json.loads(letter["value"])["type"]) == ("cryptofeed-tcp", "book")
    assert "no table takes it" in letter["reason"]


def test_lost_datagrams_are_seen_by_the_venues_numbers(feed):
    from cryptofeed.backends.socket import TradeSocket

    running = feed("cryptofeed-tcp", "udp://127.0.0.1:0")
    # The guide's line for UDP, in the first table.
    settings = running.log.parent / "feed.toml"
    line = re.search(r"`(sequence = \{ field = \"id\", by = \[\"symbol\"\] \})`", (ROOT / "docs/guide/feeds.md").read_text())
    running.stop()
    text = settings.read_text().replace("time_unit", f"{line[1]}\ntime_unit", 1)
    settings.write_text(text)
    with open(running.log, "wb") as log:
        running.process = subprocess.Popen([FEED, settings], stderr=log)
    eventually("it listens", lambda: " listens " in running.text())
    host, port = running.address()
    numbers = [number for number in range(100) if not 40 <= number < 50]
    asyncio.run(send(TradeSocket(f"udp://{host}", port=port), [trade(number) for number in numbers]))
    eventually("all is stored", lambda: running.count("trade") == 90)
    log = running.stop()
    assert "missing=10" in log
    assert "numbers are missing" in log


@pytest.mark.parametrize("is_key_dynamic", [True, False])
def test_zeromq_back_end(feed, is_key_dynamic):
    pytest.importorskip("zmq", reason="pyzmq is not installed: pip install pyzmq")
    from cryptofeed.backends.zmq import TradeZMQ

    running = feed("cryptofeed-zmq", "zmq://127.0.0.1:0")
    if not is_key_dynamic:
        settings = running.log.parent / "feed.toml"
        settings.write_text(settings.read_text().replace('"*-trades-*"', '"trades"'))
        running.stop()
        with open(running.log, "wb") as log:
            running.process = subprocess.Popen([FEED, settings], stderr=log)
        eventually("it listens", lambda: " listens " in running.text())
    host, port = running.address()

    async def publish():
        callback = TradeZMQ(host=host, port=port, dynamic_key=is_key_dynamic)
        callback.start(asyncio.get_running_loop())
        # What a publisher sends before somebody has subscribed is dropped.
        until = time.monotonic() + 180
        while not await asyncio.to_thread(running.count, "trade", "where symbol = 'WARM-UP'"):
            assert time.monotonic() < until
            await callback(trade(0, "WARM-UP"), RECEIPT)
            await asyncio.sleep(0.1)
        for number in range(500):
            await callback(trade(number, kind="market" if number % 3 == 0 else None), RECEIPT)
        await callback.queue.join()
        await callback.stop()
        await callback.worker
        await asyncio.to_thread(eventually, "all is stored", lambda: running.count("trade", "where symbol = 'BTC-USD'") == 500)

    asyncio.run(publish())
    check_trades(running, 500)
    assert "dropped=0" in running.stop()
