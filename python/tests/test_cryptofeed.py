"""The back ends make the rows they promise: of objects like Cryptofeed's, and of recorded sessions in its own playback.

The sessions are in the folder that SPLAY_REAL_DATA names, or in ../shared/data beside the repository. Coinbase's are of an
interface that Cryptofeed no longer reads; messages of today's are made up here.
"""

import asyncio
import collections
import datetime as dt
import json
import os
import pathlib
import re
import runpy
import sys
import tarfile
import time
import types
from types import SimpleNamespace

import fakes
import pyarrow as pa
import pytest
from test_clients import ports  # noqa: F401, a fixture

import splay
from splay.feeds.cryptofeed import (
    BookSplay,
    CandlesSplay,
    FundingSplay,
    L1BookSplay,
    SplayCallback,
    TickerSplay,
    TradeSplay,
    coinbase,
    nanoseconds,
)

DATA = pathlib.Path(os.environ.get("SPLAY_REAL_DATA", pathlib.Path(__file__).resolve().parents[3] / "shared" / "data"))
CAPTURES = DATA / "cryptofeed" / "captures.tar.zst"

EVENT, RECEIPT = 1_700_000_000.123456, 1_700_000_000.654321
EVENT_NS, RECEIPT_NS = 1_700_000_000_123_456_000, 1_700_000_000_654_321_000


@pytest.fixture
def database() -> fakes.MemoryDatabase:
    return fakes.MemoryDatabase()


def event(**fields) -> SimpleNamespace:
    return SimpleNamespace(**{"exchange": "COINBASE", "symbol": "BTC-USD", "timestamp": EVENT, **fields})


def trade(**fields) -> SimpleNamespace:
    return event(**{"side": "buy", "price": 37_000.5, "amount": 0.25, "id": "17", "type": "market", **fields})


class Side(list):
    """Levels as Cryptofeed's book has them: best first, by place."""

    def index(self, place):
        return self[place]


def book(bids, asks, **fields) -> SimpleNamespace:
    return event(**{"book": SimpleNamespace(bids=Side(bids), asks=Side(asks)), "sequence_number": None, **fields})


def call(callback: SplayCallback, *events, receipt=RECEIPT) -> None:
    """What a feed does: start, events, stop."""

    async def run():
        callback.start(asyncio.get_running_loop())
        for one in events:
            await callback(one, receipt)
        await callback.stop()

    asyncio.run(run())


def test_every_row_begins_alike(database):
    callbacks = {
        TradeSplay(database): trade(),
        TickerSplay(database): event(bid=1, ask=2),
        L1BookSplay(database): event(bid_price=1, bid_size=2, ask_price=3, ask_size=4),
        BookSplay(database): book([(1, 1)], [(2, 2)]),
        FundingSplay(database): event(mark_price=1, rate=1, predicted_rate=None, next_funding_time=None),
        CandlesSplay(database): event(
            start=60, stop=120, interval="1m", open=1, high=2, low=0.5, close=1, volume=9, trades=None, closed=True
        ),
    }
    for callback, one in callbacks.items():
        call(callback, one)
    assert set(database.stored.batches) == {"trade", "quote", "book", "funding", "bar"}
    for table, batches in database.stored.batches.items():
        for batch in batches:
            assert batch.schema.names[:4] == ["ts_event", "symbol", "ts_recv", "venue"]
            first = {name: batch[name].cast(pa.int64()).to_pylist() for name in ("ts_event", "ts_recv")}
            assert first == {"ts_event": [EVENT_NS], "ts_recv": [RECEIPT_NS]}, table
            assert batch["symbol"].to_pylist() == ["BTC-USD"]
            assert batch["venue"].to_pylist() == ["COINBASE"]
    assert all(writer.is_closed for writer in database.writers)


def test_trades(database):
    call(TradeSplay(database), trade(), trade(id=None, type=None, side="sell"))
    rows = database.stored.rows("trade")
    assert [row["side"] for row in rows] == ["buy", "sell"]
    assert [row["trade_id"] for row in rows] == ["17", None]
    assert [row["order_type"] for row in rows] == ["market", None]
    assert [(row["price"], row["size"]) for row in rows] == [(37_000.5, 0.25)] * 2


def test_tickers_and_first_levels_are_quotes(database):
    call(TickerSplay(database), event(bid=1.5, ask=2.5))
    call(L1BookSplay(database), event(bid_price=1, bid_size=2, ask_price=3, ask_size=None))
    names = ["bid_price", "bid_size", "ask_price", "ask_size"]
    rows = database.stored.table("quote").select(names).to_pylist()
    assert [tuple(row.values()) for row in rows] == [(1.5, None, 2.5, None), (1, 2, 3, None)]


def test_books_are_cut_to_their_depth_and_filled_with_nulls(database):
    call(BookSplay(database, depth=2), book([(9, 1), (8, 2), (7, 3)], [(10, 4)], sequence_number=5), book([], []))
    stored = database.stored.table("book")
    assert stored.schema.field("bid_price").type == pa.list_(pa.float64(), 2)
    first, second = stored.select(["sequence", "bid_price", "bid_size", "ask_price", "ask_size"]).to_pylist()
    assert tuple(first.values()) == (5, [9, 8], [1, 2], [10, None], [4, None])
    assert tuple(second.values()) == (None, *[[None, None]] * 4)


def test_orders_of_a_level_are_added_up(database):
    call(BookSplay(database, depth=1), book([(9, {"a": 1, "b": 2.5})], [(10, {"c": 4})]))
    (row,) = database.stored.rows("book")
    assert (row["bid_size"], row["ask_size"]) == ([3.5], [4])


def test_books_are_sampled_by_symbol_and_venue(database):
    books = [
        book([(n, 1)], [], symbol=symbol, exchange=venue)
        for n in range(81)
        for symbol, venue in (("BTC-USD", "COINBASE"), ("ETH-USD", "COINBASE"), ("BTC-USD", "GEMINI"))
    ]
    call(BookSplay(database, depth=1, sample=40), *books)
    assert database.stored.column("book", "bid_price") == [[0.0]] * 3 + [[40.0]] * 3 + [[80.0]] * 3


@pytest.mark.parametrize("wrong", [{"depth": 0}, {"depth": 1025}, {"sample": 0}])
def test_settings_are_checked(database, wrong):
    with pytest.raises(splay.SettingError) as caught:
        BookSplay(database, **wrong)
    assert caught.value.setting in wrong


def test_funding_and_candles(database):
    call(FundingSplay(database), event(mark_price=1, rate=0.0001, predicted_rate=None, next_funding_time=EVENT))
    (row,) = database.stored.rows("funding")
    assert (row["mark_price"], row["rate"], row["rate_predicted"], row["ts_next"].value) == (1, 0.0001, None, EVENT_NS)
    candle = {"open": 1, "high": 4, "low": 0.5, "close": 2, "volume": 9, "trades": 3, "closed": False}
    call(CandlesSplay(database), event(start=60, stop=120, interval="1m", **candle, timestamp=None))
    (row,) = database.stored.rows("bar")
    assert (row["ts_start"].value, row["ts_end"].value) == (60 * 10**9, 120 * 10**9)
    assert row["ts_event"].value == RECEIPT_NS
    assert [row[name] for name in ("interval", "open", "high", "low", "close", "volume", "trades", "is_closed")] == [
        "1m",
        *candle.values(),
    ]


def test_times_come_in_three_forms(database):
    assert nanoseconds(EVENT) == nanoseconds(str(EVENT)) == EVENT_NS
    utc = dt.datetime(2023, 11, 14, 22, 13, 20, 123456)
    assert nanoseconds(utc) == nanoseconds(utc.replace(tzinfo=dt.UTC)) == EVENT_NS
    zone = dt.timezone(dt.timedelta(hours=-5))
    assert nanoseconds(utc.replace(hour=17, tzinfo=zone)) == EVENT_NS
    call(TradeSplay(database), trade(timestamp=0), receipt=str(RECEIPT))
    (row,) = database.stored.rows("trade")
    assert row["ts_event"].value == row["ts_recv"].value == RECEIPT_NS


def test_a_back_end_that_several_feeds_share_closes_with_the_last(database):
    callback = TradeSplay(database)

    async def run():
        for _ in range(2):
            callback.start(asyncio.get_running_loop())
        await callback(trade(id="1"), RECEIPT)
        await callback.stop()
        assert database.stored.column("trade", "trade_id") == ["1"]
        assert not database.writers[0].is_closed
        await callback(trade(id="2"), RECEIPT)
        await callback.stop()
        assert database.writers[0].is_closed
        # A message that was on its way when the feed stopped.
        await callback(trade(id="3"), RECEIPT)
        await callback.stop()

    asyncio.run(run())
    assert database.stored.column("trade", "trade_id") == ["1", "2", "3"]
    assert [writer.is_closed for writer in database.writers] == [True, True]
    assert callback.stats.rows == 1


def test_rows_that_a_table_cannot_take_are_left_out_and_the_feed_goes_on(database, caplog):
    callback = TradeSplay(database)
    call(callback, trade(), trade(id=18), trade())
    assert database.stored.column("trade", "trade_id") == ["17", "17"]
    assert callback.stats.rejected == 1
    assert "1 rows are left out: column 'trade_id'" in caplog.text


def test_the_server_is_named_by_its_address():
    with fakes.serving() as server:
        callback = BookSplay(server.url, depth=3, table="depth", token="t", ack="process")
        call(callback, book([(1, 1)], [(2, 2)]))
        assert server.stored.column("depth", "bid_price") == [[1.0, None, None]]
        ((_, query, headers, _),) = server.requests
        assert (query["ack"], headers["Authorization"]) == ("process", "Bearer t")


# What follows needs Cryptofeed, the recorded sessions, or both.


@pytest.fixture
def cryptofeed(monkeypatch):
    """Cryptofeed without network: no waiting between polls, symbols of this session only."""
    found = pytest.importorskip("cryptofeed", reason="cryptofeed is not installed: pip install cryptofeed==2.4.1")
    from cryptofeed.connection import HTTPSync
    from cryptofeed.symbols import Symbols

    sleep = asyncio.sleep
    monkeypatch.setattr(asyncio, "sleep", lambda seconds, *result: sleep(0, *result))
    monkeypatch.setattr(HTTPSync, "read", lambda *_, **__: pytest.fail("a test must not reach for the network"))
    Symbols.clear()
    yield found
    Symbols.clear()


@pytest.fixture(scope="session")
def captures(tmp_path_factory) -> pathlib.Path:
    if not CAPTURES.exists():
        pytest.skip(f"the real data is absent: no {CAPTURES}; set SPLAY_REAL_DATA to the folder that holds cryptofeed/")
    folder = tmp_path_factory.mktemp("captures")
    with pa.input_stream(CAPTURES, compression="zstd") as packed, tarfile.open(fileobj=packed, mode="r|") as archive:
        archive.extractall(folder, filter="data")
    return folder


def playback(venue: str, folder: pathlib.Path, callbacks: dict, **config) -> dict[str, int]:
    """Runs a recorded session through Cryptofeed; its own count of calls by channel."""
    from cryptofeed.raw_data_collection import playback

    files = sorted(str(path) for path in folder.glob(f"{venue}.*"))
    assert files
    return playback(venue, files, callbacks=callbacks, config={"log": {"disabled": True}, **config})["callbacks"]


def backends(database, depth: int = 20, sample: int = 1) -> dict[str, SplayCallback]:
    return {
        "trades": TradeSplay(database),
        "ticker": TickerSplay(database),
        "l2_book": BookSplay(database, depth=depth, sample=sample),
        "l3_book": BookSplay(database, depth=depth, sample=sample),
        "candles": CandlesSplay(database),
    }


TABLES = {"trades": "trade", "ticker": "quote", "l2_book": "book", "l3_book": "book", "candles": "bar"}

# Calls of each channel, as Cryptofeed 2.4.1 makes them of the recorded sessions.
COUNTS = {
    "ASCENDEX": {"l2_book": 279, "trades": 4},
    "BEQUANT": {"candles": 4040, "ticker": 1235, "l2_book": 978, "trades": 4040},
    "BINANCE": {"l2_book": 176, "ticker": 84, "trades": 2, "candles": 2},
    "BINANCE_DELIVERY": {"ticker": 2240, "l2_book": 1798, "trades": 51, "candles": 33},
    "BINANCE_FUTURES": {"ticker": 613, "l2_book": 756, "candles": 67, "trades": 91},
    "BINANCE_US": {"l2_book": 336, "ticker": 128, "trades": 11, "candles": 5},
    "BITFINEX": {"ticker": 21, "trades": 210, "l2_book": 1600},
    "BITFLYER": {"trades": 162, "ticker": 249, "l2_book": 749},
    "BITGET": {"l2_book": 637, "trades": 555, "ticker": 345, "candles": 10060},
    "BITMEX": {"ticker": 436, "trades": 27, "l2_book": 1979},
    "BITSTAMP": {"l2_book": 627, "trades": 10},
    "DYDX": {"l2_book": 4663, "trades": 1026},
    "GEMINI": {"l2_book": 655, "trades": 16},
    "HITBTC": {"candles": 4000, "trades": 4000, "l2_book": 527, "ticker": 812},
    "HUOBI_SWAP": {"trades": 25, "l2_book": 2862},
    "INDEPENDENT_RESERVE": {"l3_book": 1631},
    "KRAKEN": {"trades": 10, "ticker": 18, "l2_book": 4279},
    "KRAKEN_FUTURES": {"l2_book": 7024, "ticker": 107, "trades": 3},
    "OKX": {"ticker": 28, "trades": 74, "l2_book": 290},
    "PHEMEX": {"l2_book": 1337, "trades": 10025, "candles": 10041},
    "UPBIT": {"trades": 304, "l2_book": 145},
}

# Venues that number their book messages so that Cryptofeed hands the numbers on, in ascending order for each symbol.
NUMBERED = {"ASCENDEX", "BINANCE", "BINANCE_DELIVERY", "BINANCE_FUTURES", "BINANCE_US", "KRAKEN_FUTURES"}


@pytest.mark.parametrize("venue", COUNTS)
def test_recorded_sessions_come_through_whole(database, cryptofeed, captures, venue):
    counts = playback(venue, captures, backends(database))
    assert counts == COUNTS[venue]
    expected = collections.Counter()
    for channel, count in counts.items():
        expected[TABLES[channel]] += count
    assert {table: database.stored.table(table).num_rows for table in database.stored.batches} == expected
    # Batches of each writer are numbered without a gap.
    assert sum(map(len, database.stored.numbers.values())) == sum(map(len, database.stored.batches.values()))
    for numbers in database.stored.numbers.values():
        assert numbers == list(range(1, len(numbers) + 1))
    books = database.stored.rows("book")
    check_books(books, is_numbered=venue in NUMBERED)
    assert {row["venue"] for row in books} == {venue}
    for row in database.stored.rows("trade") if "trade" in expected else ():
        assert row["price"] > 0
        assert row["size"] > 0
        assert row["side"] in ("buy", "sell")


def check_books(rows, *, is_numbered: bool) -> None:
    """Best bid below best ask, levels sorted and without holes, sizes positive, numbers ascending."""
    both, last = 0, {}
    for row in rows:
        sides = {}
        for side, sign in (("bid", -1), ("ask", 1)):
            prices, sizes = row[f"{side}_price"], row[f"{side}_size"]
            there = [price for price in prices if price is not None]
            assert prices[: len(there)] == there
            assert [size is None for size in sizes] == [price is None for price in prices]
            assert all(sign * a < sign * b for a, b in zip(there, there[1:]))
            assert all(size > 0 for size in sizes if size is not None)
            sides[side] = there
        if sides["bid"] and sides["ask"]:
            both += 1
            assert sides["bid"][0] < sides["ask"][0]
        if is_numbered:
            assert row["sequence"] >= last.get(row["symbol"], 0)
            last[row["symbol"]] = row["sequence"]
    assert both > 0.9 * len(rows) > 0


def levels(stored: fakes.Stored) -> dict[tuple[str, str], list[list]]:
    """Books of each venue and symbol, without times: in playback the snapshots of REST interfaces are received now."""
    found = collections.defaultdict(list)
    for row in stored.rows("book"):
        sides = [row[f"{side}_{what}"] for side in ("bid", "ask") for what in ("price", "size")]
        found[row["venue"], row["symbol"]].append(sides)
    return found


def test_books_of_recorded_sessions_are_sampled_and_cut(database, cryptofeed, captures):
    """Twenty levels, one update in forty of each symbol, of five venues: the collection of a published study."""
    every = fakes.MemoryDatabase()
    for venue in ("BITSTAMP", "KRAKEN", "GEMINI", "BINANCE_US", "BITFINEX"):
        playback(venue, captures, {"l2_book": BookSplay(every, depth=20)})
        playback(venue, captures, {"l2_book": BookSplay(database, depth=20, sample=40)})
    whole, sampled = levels(every.stored), levels(database.stored)
    assert sampled == {key: rows[::40] for key, rows in whole.items()}
    assert sum(map(len, whole.values())) == 627 + 4279 + 655 + 336 + 1600


def test_recorded_sessions_are_asked_by_sql(tmp_path, cryptofeed, captures):
    pytest.importorskip("splay._splay", reason="the compiled module is not installed")
    db = splay.open(tmp_path / "db", threads=1)
    database = fakes.LocalDatabase(db)
    venues = ("BITSTAMP", "KRAKEN", "GEMINI", "BINANCE_US", "BITFINEX")
    for venue in venues:
        playback(venue, captures, backends(database))
    expected = sorted((venue, COUNTS[venue]["l2_book"]) for venue in venues)
    found = db.sql("select venue, count(*) as n from book group by venue order by venue").to_arrow().to_pylist()
    assert [(row["venue"], row["n"]) for row in found] == expected
    crossed = db.sql("select count(*) as n from book where bid_price[1] >= ask_price[1]").to_arrow().to_pylist()
    assert crossed == [{"n": 0}]
    trades = db.sql("select count(*) as n, min(ts_recv - ts_event) as least from trade").to_arrow().to_pylist()
    assert trades[0]["n"] == sum(COUNTS[venue]["trades"] for venue in venues)
    assert db.table("book").schema["bid_price"] == "levels(20)"
    assert (db.table("trade").time, db.table("trade").symbol) == ("ts_event", "symbol")


def coinbase_session(folder: pathlib.Path) -> None:
    """A session of Coinbase's interface of today, with made-up prices: a snapshot, two changes, and three trades."""
    products = {
        "products": [
            {"base_currency_id": "BTC", "quote_currency_id": "USD", "quote_increment": "0.01", "product_id": "BTC-USD"}
        ]
    }
    levels = [("bid", 100 - n, 1 + n) for n in range(30)] + [("offer", 101 + n, 1 + n) for n in range(30)]

    def depth(kind: str, levels: list) -> dict:
        updates = [{"side": side, "price_level": str(price), "new_quantity": str(size)} for side, price, size in levels]
        time = "2024-08-08T10:00:00.123456Z"
        return {
            "channel": "l2_data",
            "timestamp": time,
            "events": [{"type": kind, "product_id": "BTC-USD", "updates": updates}],
        }

    def trades(*ids: int) -> dict:
        made = [
            {
                "trade_id": str(n),
                "product_id": "BTC-USD",
                "price": "100.5",
                "size": "0.5",
                "side": "BUY",
                "time": "2024-08-08T10:00:00.5Z",
            }
            for n in ids
        ]
        return {"channel": "market_trades", "events": [{"type": "update", "trades": made}]}

    messages = [
        depth("snapshot", levels),
        depth("update", [("bid", 100, 0), ("offer", 101, 7)]),
        trades(1, 2),
        depth("update", [("bid", 100.5, 3)]),
        trades(3),
    ]
    subscription = {"l2_book": ["BTC-USD"], "trades": ["BTC-USD"]}
    (folder / "COINBASE.0").write_text(
        f"https://api.coinbase.com -> 1723111200.0: {json.dumps(products)}\nconfiguration: {json.dumps(subscription)}\n"
    )
    lines = [f"{1723111200 + n / 8}: {json.dumps(message)}\n" for n, message in enumerate(messages)]
    (folder / "COINBASE.ws.1.0").write_text("".join(lines))


def test_coinbase(database, cryptofeed, tmp_path, monkeypatch):
    monkeypatch.setitem(cryptofeed.exchanges.EXCHANGE_MAP, "COINBASE", coinbase())
    coinbase_session(tmp_path)
    assert playback("COINBASE", tmp_path, backends(database)) == {"l2_book": 3, "trades": 3}
    rows = database.stored.rows("book")
    check_books(rows, is_numbered=False)
    assert [(row["bid_price"][0], row["ask_price"][0], row["ask_size"][0]) for row in rows] == [
        (100, 101, 1),
        (99, 101, 7),
        (100.5, 101, 7),
    ]
    assert len(rows[0]["bid_price"]) == 20
    # Coinbase says a snapshot no time, and Cryptofeed gives a change's as a datetime.
    assert rows[0]["ts_event"] == rows[0]["ts_recv"]
    assert rows[1]["ts_event"].isoformat() == "2024-08-08T10:00:00.123456+00:00"
    assert database.stored.column("trade", "trade_id") == ["1", "2", "3"]


def test_cryptofeeds_own_coinbase_has_no_asks_in_snapshots(database, cryptofeed, tmp_path):
    """When this fails, a release reads them, and the mended class has one reason less."""
    coinbase_session(tmp_path)
    keys = {"coinbase": {"key_id": "made", "key_secret": "up"}}
    playback("COINBASE", tmp_path, backends(database), **keys)
    assert database.stored.column("book", "ask_price")[0] == [None] * 20


def test_coinbase_is_asked_without_keys(cryptofeed):
    from cryptofeed.symbols import Symbols

    Symbols.set("COINBASE", {"BTC-USD": "BTC-USD"}, {"instrument_type": {}})
    feed = coinbase()(symbols=["BTC-USD"], channels=["trades", "l2_book"], config={"log": {"disabled": True}})
    assert feed.rest_endpoints[0].route("instruments") == "https://api.coinbase.com/api/v3/brokerage/market/products"
    sent = []

    class Connection:
        async def write(self, message):
            sent.append(json.loads(message))

    asyncio.run(feed.subscribe(Connection()))
    assert {message["channel"] for message in sent} == {"market_trades", "level2", "heartbeats"}
    assert all(set(message) == {"type", "channel", "product_ids"} for message in sent)


EXAMPLE = pathlib.Path(__file__).resolve().parents[2] / "examples" / "collect_crypto.py"


def test_the_example_collects_from_five_venues(database, cryptofeed):
    from cryptofeed.symbols import Symbols

    example = runpy.run_path(str(EXAMPLE))
    for venue in example["VENUES"]:
        Symbols.set(venue, {symbol: symbol.replace("-", "") for symbol in example["SYMBOLS"]}, {"instrument_type": {}})
    handler = example["collector"](database, depth=20, sample=40)
    assert [feed.id for feed in handler.feeds] == ["COINBASE", "BITSTAMP", "KRAKEN", "GEMINI", "BINANCE_US"]
    for feed in handler.feeds:
        assert sorted(feed._feed_config) == ["l2_book", "trades"]
        assert sorted(feed.normalized_symbols) == sorted(example["SYMBOLS"])
    # One writer for each table, whatever the number of venues.
    (books,) = {id(feed.callbacks["l2_book"][0]) for feed in handler.feeds}
    backend = handler.feeds[0].callbacks["l2_book"][0]
    assert (id(backend), backend.depth, backend.sample) == (books, 20, 40)
    given = example["arguments"](["--seconds", "5", "--server", "http://127.0.0.1:1"])
    assert (given.seconds, given.server, given.depth, given.sample) == (5, "http://127.0.0.1:1", 20, 40)


def test_the_example_ends_with_a_sentence_where_no_venue_can_be_reached(database, monkeypatch):
    """Needs no Cryptofeed: classes that can't connect stand in for it."""

    class Unreachable:
        @classmethod
        def symbol_mapping(cls):
            raise ConnectionError("no route to host")

    modules = {
        "cryptofeed": {"FeedHandler": lambda config: SimpleNamespace(feeds=[])},
        "cryptofeed.defines": {"L2_BOOK": "l2_book", "TRADES": "trades"},
        "cryptofeed.exchanges": dict.fromkeys(["BinanceUS", "Bitstamp", "Gemini", "Kraken"], Unreachable),
    }
    for name, names in modules.items():
        module = types.ModuleType(name)
        vars(module).update(names)
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr("splay.feeds.cryptofeed.coinbase", lambda: Unreachable)
    example = runpy.run_path(str(EXAMPLE))
    with pytest.raises(SystemExit, match="none of COINBASE, BITSTAMP, KRAKEN, GEMINI, BINANCE_US can be reached"):
        example["collector"](database, depth=20, sample=40)


def test_a_feed_handler_runs_and_stops(database, cryptofeed, captures, monkeypatch):
    """Cryptofeed connects to a venue on this machine, which sends what Kraken sent; then all is stored and closed."""
    from cryptofeed.connection import WebsocketEndpoint
    from cryptofeed.exchanges import Kraken
    from cryptofeed.symbols import Symbols
    from websockets.asyncio.client import connect
    from websockets.asyncio.server import serve

    # Cryptofeed takes addresses with TLS only.
    plain = lambda address, **settings: connect(address.replace("wss:", "ws:"), **settings)  # noqa: E731
    monkeypatch.setattr(cryptofeed.connection, "connect", plain)
    example = runpy.run_path(str(EXAMPLE))
    messages = []
    for path in sorted(captures.glob("KRAKEN.ws.*")):
        lines = path.read_text().splitlines()
        messages += [line.split(": ", 1)[1] for line in lines if line and not line.startswith("wss")]
    products = json.loads((captures / "KRAKEN.0").read_text().splitlines()[0].split(": ", 1)[1])
    symbols, info = Kraken._parse_symbol_data(products)
    Symbols.set("KRAKEN", symbols, info)
    wanted = json.loads(re.search(r"configuration: (.*)", (captures / "KRAKEN.0").read_text())[1])
    books = BookSplay(database, depth=20)
    callbacks = {"trades": TradeSplay(database), "l2_book": books}
    counts = {TABLES[channel]: COUNTS["KRAKEN"][channel] for channel in callbacks}

    async def venue(connection):
        await connection.recv()
        for message in messages:
            await connection.send(message)
        await connection.wait_closed()

    async def run():
        async with serve(venue, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]

            class Here(Kraken):
                websocket_endpoints = [WebsocketEndpoint(f"wss://127.0.0.1:{port}")]

            config = {"log": {"disabled": True}, "uvloop": False}
            handler = cryptofeed.FeedHandler(config=config)
            subscription = {channel: wanted[channel] for channel in callbacks}
            handler.add_feed(Here(subscription=subscription, callbacks=callbacks, config=config))
            collecting = asyncio.create_task(example["collect"](handler, None))
            deadline = time.monotonic() + 60
            while sum(callback.stats.rows + callback.stats.waiting for callback in callbacks.values()) < sum(counts.values()):
                assert time.monotonic() < deadline and not collecting.done(), [
                    callback.stats for callback in callbacks.values()
                ]
                await asyncio.sleep(0)
            collecting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await collecting

    asyncio.run(run())
    assert {table: database.stored.table(table).num_rows for table in database.stored.batches} == counts
    assert all(writer.is_closed for writer in database.writers)
    check_books(database.stored.rows("book"), is_numbered=False)


class Replayed:
    """One of Cryptofeed's own back ends, unmodified, fed by its playback.

    Playback gives times of receipt as texts, where a feed gives numbers; and it ends without waiting for what a back end has in its
    queue, so each event is waited for.
    """

    def __init__(self, backend):
        self.backend, self.events, self.is_started = backend, [], False

    async def __call__(self, event, receipt) -> None:
        if not self.is_started:
            self.backend.start(asyncio.get_running_loop())
            self.is_started = True
        if isinstance(event.timestamp, str):
            # Tickers without a time of the venue's have that of receipt.
            event = type(event)(event.exchange, event.symbol, event.bid, event.ask, float(event.timestamp))
        self.events.append((event, float(receipt)))
        await self.backend(event, float(receipt))
        written = asyncio.ensure_future(self.backend.queue.join())
        await asyncio.wait({written, self.backend.worker}, return_when=asyncio.FIRST_COMPLETED)
        if self.backend.worker.done():
            self.backend.worker.result()
            pytest.fail("the back end's writer ended")
        if connection := getattr(self.backend, "conn", None):
            connection.transport.set_write_buffer_limits(0)
            await connection.drain()


def microseconds(receipt: float) -> int:
    return int(receipt * 1_000_000)


def test_cryptofeeds_own_back_end_for_questdb(ports, cryptofeed, captures):  # noqa: F811
    from cryptofeed.backends.quest import BookQuest, CandlesQuest, TickerQuest, TradeQuest

    host, port = ports.line
    kinds = {"trades": TradeQuest, "ticker": TickerQuest, "candles": CandlesQuest}
    replayed = {channel: Replayed(kind(host=host, port=port)) for channel, kind in kinds.items()}
    replayed["l2_book"] = Replayed(BookQuest(host=host, port=port, depth=3))
    counts = playback("BINANCE_US", captures, dict(replayed))
    assert counts == COUNTS["BINANCE_US"]
    for channel, table in (("trades", "trades"), ("ticker", "ticker"), ("candles", "candles"), ("l2_book", "book")):
        ports.await_rows(f'"{table}-BINANCE_US"', counts[channel])
        assert ports.rows(f'select count(*) as n from "{table}-BINANCE_US"') == [{"n": counts[channel]}]
    trades = ports.rows('select * from "trades-BINANCE_US" order by receipt_timestamp, id')
    events = sorted(replayed["trades"].events, key=lambda event: (microseconds(event[1]), str(event[0].id)))
    for name, of in (
        ("symbol", lambda trade: trade.symbol),
        ("side", lambda trade: trade.side),
        ("price", lambda trade: float(trade.price)),
        ("amount", lambda trade: float(trade.amount)),
        ("id", lambda trade: str(trade.id)),
    ):
        found = [str(row[name]) if name == "id" else row[name] for row in trades]
        assert found == [of(trade) for trade, _ in events], name
    received = [row["n"] for row in ports.rows('select cast(receipt_timestamp as bigint) as n from "trades-BINANCE_US" order by receipt_timestamp')]
    assert received == [microseconds(receipt) * 1_000 for _, receipt in events]
    books = ports.rows('select bid_0_price, bid_2_price, ask_0_price from "book-BINANCE_US"')
    assert all(row["bid_2_price"] < row["bid_0_price"] < row["ask_0_price"] for row in books)


def test_cryptofeeds_own_back_end_for_influxdb(ports, cryptofeed, captures):  # noqa: F811
    from cryptofeed.backends.influxdb import BookInflux, CandlesInflux, TickerInflux, TradeInflux

    settings = {"addr": "http://{}:{}".format(*ports.http), "org": "o", "bucket": "b", "token": "none"}
    kinds = {"trades": TradeInflux, "ticker": TickerInflux, "candles": CandlesInflux, "l2_book": BookInflux}
    replayed = {channel: Replayed(kind(**settings)) for channel, kind in kinds.items()}
    counts = playback("BINANCE_US", captures, dict(replayed))
    assert counts == COUNTS["BINANCE_US"]
    for channel, table in (("trades", "trades"), ("ticker", "ticker"), ("candles", "candles"), ("l2_book", "book")):
        assert ports.rows(f'select count(*) as n from "{table}-BINANCE_US"') == [{"n": counts[channel]}], table
    trades = ports.rows('select symbol, side, price, amount, id, type from "trades-BINANCE_US" order by id')
    events = sorted((event for event, _ in replayed["trades"].events), key=lambda trade: str(trade.id))
    expected = [(t.symbol, t.side, float(t.price), float(t.amount), str(t.id), str(t.type)) for t in events]
    assert [tuple(row.values()) for row in trades] == expected
    # Books come as JSON within quotes, with quotes of its own.
    books = ports.rows('select delta, bid, ask from "book-BINANCE_US"')
    assert {row["delta"] for row in books} <= {True, False}
    # A snapshot's side is an object by price, a change's a list of pairs.
    sides = [json.loads(row[side]) for row in books for side in ("bid", "ask")]
    prices = [float(price) for side in sides for price in (side if isinstance(side, dict) else [level[0] for level in side])]
    assert prices and min(prices) > 0
