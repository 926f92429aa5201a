"""Recordings of Binance become trades, quotes, changes and books; books are rebuilt without a gap and never cross.

The real recordings are in the folder that SPLAY_REAL_DATA names, or in ../shared/data beside the repository.
"""

import gzip
import json
import os
import pathlib

import fakes
import pytest

import splay
from splay.feeds.binance_recorded import Book, Change, Counts, Recording, replay

DATA = pathlib.Path(os.environ.get("SPLAY_REAL_DATA", pathlib.Path(__file__).resolve().parents[3] / "shared" / "data"))
RECORDINGS = DATA / "hftbacktest"

SNAPSHOT = {"bids": [(99, 1), (98, 2)], "asks": [(101, 1), (102, 2)]}


def change(first, last, before=None, bids=(), asks=()) -> Change:
    return Change(last, first, last, before, list(bids), list(asks))


def best(book: Book) -> tuple:
    levels = book.levels(1)
    return levels["bid_price"][0], levels["bid_size"][0], levels["ask_price"][0], levels["ask_size"][0]


def known(sequence: int = 10) -> Book:
    book = Book()
    assert book.reset(1, sequence, SNAPSHOT["bids"], SNAPSHOT["asks"])
    return book


def test_levels_are_set_replaced_and_removed():
    book = known()
    assert book.apply(change(11, 12, bids=[(100, 5), (98, 0), (97, 0)], asks=[(101, 0), (102, 9)]))
    assert book.levels(3) == {
        "bid_price": [100, 99, None],
        "bid_size": [5, 1, None],
        "ask_price": [102, None, None],
        "ask_size": [9, None, None],
    }
    assert (book.sequence, book.when) == (12, 12)


def test_changes_that_the_snapshot_has_are_passed_over():
    book = known()
    assert book.apply(change(5, 10, bids=[(100, 5)]))
    assert best(book) == (99, 1, 101, 1)
    assert book.apply(change(9, 11, bids=[(100, 5)]))
    assert best(book) == (100, 5, 101, 1)


def test_changes_before_the_snapshot_came_are_applied_to_it():
    book = Book()
    assert book.apply(change(1, 9, bids=[(100, 5)]))
    assert book.apply(change(10, 12, bids=[(100, 7)]))
    assert book.sequence is None
    assert book.reset(1, 10, SNAPSHOT["bids"], SNAPSHOT["asks"])
    assert (best(book), book.sequence, book.when) == ((100, 7, 101, 1), 12, 12)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (change(12, 13), None),
        (change(12, 13, before=11), None),
        (change(11, 12), change(14, 15)),
        (change(11, 12, before=9), change(20, 21, before=13)),
    ],
)
def test_a_gap_makes_the_book_unknown_until_the_next_snapshot(first, second):
    book = known()
    if second:
        assert book.apply(first)
    assert not book.apply(second or first)
    assert book.sequence is None
    assert book.apply(change(22, 23))
    assert book.sequence is None
    assert book.reset(1, 30, SNAPSHOT["bids"], SNAPSHOT["asks"])
    assert best(book) == (99, 1, 101, 1)


def test_numbers_of_futures_may_leave_some_out():
    book = known()
    assert book.apply(change(12, 15, before=10))
    assert book.apply(change(31, 40, before=15))
    assert book.sequence == 40


def line(received: int, stream: str | None = None, **message) -> str:
    if stream is None:
        return f"{received} {json.dumps(message)}\n"
    return f"{received} {json.dumps({'stream': f'btcusdt@{stream}', 'data': {'s': 'BTCUSDT', **message}})}\n"


LINES = [
    line(1_000_000_007, "depth@100ms", E=1001, U=1, u=3, b=[["99.5", "1.5"]], a=[]),
    line(1_000_000_008, lastUpdateId=2, bids=[["98", "2"]], asks=[["101", "1"]]),
    line(1_000_000_009, "trade", E=1002, T=1001, t=7, p="100", q="0.25", m=True),
    line(1_000_000_010, "trade", E=1002, T=1001, t=8, p="101", q="0.5", m=False, X="MARKET"),
    line(1_000_000_011, "bookTicker", u=5, b="99.5", B="1.5", a="101", A="1"),
    line(1_000_000_012, "depth@100ms", E=1003, U=4, u=6, b=[["99.5", "0"]], a=[["100", "3"]]),
    line(1_000_000_013, "kline_1m", E=1004),
]


@pytest.fixture
def recording(tmp_path) -> pathlib.Path:
    folder = tmp_path / "spot"
    folder.mkdir()
    path = folder / "btcusdt_20240808.gz"
    path.write_bytes(gzip.compress("".join(LINES).encode()))
    return path


def rows(path: pathlib.Path, **settings) -> dict[str, list[dict]]:
    recording = Recording(**{"depth": 2, **settings})
    return {table: frame.to_pylist() for table, frame in recording.frames(path)}


def test_each_message_becomes_rows(recording):
    found = rows(recording)
    for table in found.values():
        for row in table:
            for name in ("ts_event", "ts_recv"):
                row[name] = row[name].value
    assert found["trade"] == [
        {
            "ts_event": 1001 * 10**6,
            "symbol": "BTCUSDT",
            "ts_recv": 1_000_000_009,
            "venue": "BINANCE",
            "side": "sell",
            "price": 100.0,
            "size": 0.25,
            "trade_id": 7,
            "order_type": None,
        },
        {
            "ts_event": 1001 * 10**6,
            "symbol": "BTCUSDT",
            "ts_recv": 1_000_000_010,
            "venue": "BINANCE",
            "side": "buy",
            "price": 101.0,
            "size": 0.5,
            "trade_id": 8,
            "order_type": "market",
        },
    ]
    # Quotes of the spot market have no time of their own.
    assert [
        (row["ts_event"], row["ts_recv"], row["bid_price"], row["ask_size"], row["sequence"]) for row in found["quote"]
    ] == [(1_000_000_011, 1_000_000_011, 99.5, 1.0, 5)]
    names = ("ts_event", "side", "price", "size", "sequence_first", "sequence", "sequence_before")
    assert [tuple(row[name] for name in names) for row in found["change"]] == [
        (1001 * 10**6, "bid", 99.5, 1.5, 1, 3, None),
        (1003 * 10**6, "bid", 99.5, 0.0, 4, 6, None),
        (1003 * 10**6, "ask", 100.0, 3.0, 4, 6, None),
    ]
    names = ("ts_event", "ts_recv", "sequence", "bid_price", "bid_size", "ask_price", "ask_size")
    assert [tuple(row[name] for name in names) for row in found["book"]] == [
        (1001 * 10**6, 1_000_000_008, 3, [99.5, 98.0], [1.5, 2.0], [101.0, None], [1.0, None]),
        (1003 * 10**6, 1_000_000_012, 6, [98.0, None], [2.0, None], [100.0, 101.0], [3.0, 1.0]),
    ]


def test_tables_depth_and_sample_can_be_chosen(recording):
    assert set(rows(recording, tables=["trade"])) == {"trade"}
    (book,) = rows(recording, tables=["book"], depth=1, sample=2)["book"]
    assert book["bid_price"] == [99.5]
    with pytest.raises(splay.SettingError, match="no table 'trades'"):
        Recording(tables=["trades"])


@pytest.mark.parametrize("wrong", ["x {}\n", "1 {\n", '1 {"stream": "a@trade", "data": {}}\n', "1 []\n", '1 {"data": 1}\n'])
def test_a_damaged_line_is_named(tmp_path, wrong):
    path = tmp_path / "btcusdt_20240808.txt"
    path.write_text(LINES[0] + wrong)
    with pytest.raises(splay.DamagedFileError, match="line 2") as caught:
        rows(path)
    assert caught.value.file == str(path)


@pytest.mark.parametrize(
    "lines",
    [
        ['1 {"topic": "publicTrade.BTCUSDT", "type": "snapshot", "ts": 1, "data": [{"T": 1, "s": "BTCUSDT", "S": "Buy"}]}'],
        ['1 {"arg": {"channel": "trades", "instId": "BTC-USDT"}, "data": [{"instId": "BTC-USDT", "px": "1"}]}'],
        ['1 {"channel": "market_trades", "sequence_num": 1, "events": []}'],
        ['1 {"stream": "trades@XYZ", "data": {}}'] * 3,
        ['1 {"stream": 7, "data": {}}'],
        ['{"stream": "btcusdt@trade", "data": {}}'],
        ['1 [341, "te", [401597395, 1, 0.005, 7245]]'],
        ["time,price,size", "2024-01-01,1,2"],
    ],
)
def test_recordings_of_other_venues_are_refused(tmp_path, lines):
    path = tmp_path / "btcusdt_20240101"
    path.write_text("\n".join(lines) + "\n")
    with pytest.raises(splay.DamagedFileError, match="isn't a recording of Binance's streams") as caught:
        list(Recording().frames(path))
    assert repr(lines[0][:60])[1:-1] in str(caught.value) and caught.value.file == str(path)


def test_unknown_streams_in_a_recording_are_counted(tmp_path):
    path = tmp_path / "btcusdt_20240101"
    other = '1 {"stream": "btcusdt@aggTrade", "data": {}}\n'
    quote = '2 {"stream": "btcusdt@bookTicker", "data": {"s": "BTCUSDT", "b": "1", "B": "1", "a": "2", "A": "1", "u": 1}}\n'
    path.write_text(other + quote + other)
    recorded = Recording()
    assert [(table, len(frame)) for table, frame in recorded.frames(path)] == [("quote", 1)]
    assert (recorded.counts.messages, recorded.counts.unknown) == (3, 2)
    path.write_text("")
    assert list(Recording().frames(path)) == []


def test_a_file_that_is_cut_short_is_damaged(recording):
    recording.write_bytes(recording.read_bytes()[:-20])
    with pytest.raises(splay.DamagedFileError):
        rows(recording)


def test_a_replay_to_a_server_can_be_started_again(recording):
    with fakes.serving() as server:
        client = splay.connect(server.url)
        server.script.extend([lambda handler: True, fakes.fails(400, "out of order", code="rejected")])
        with pytest.raises(splay.RejectedError):
            replay(client, recording, depth=2)
        for _ in range(2):
            counts = replay(client, [recording], depth=2)
        expected = {"trade": 2, "quote": 1, "change": 3, "book": 2}
        assert counts == Counts(messages=7, rows=expected, snapshots=1, gaps=0, unknown=1)
        assert {table: server.stored.table(table).num_rows for table in server.stored.batches} == expected
        # Other settings make other books, and those are stored beside.
        replay(client, recording, depth=1, tables=["book"])
        assert len(server.stored.batches["book"]) == 2


def test_a_replay_into_this_process_is_stored_once(tmp_path, recording):
    pytest.importorskip("splay._splay", reason="the compiled module is not installed")
    db = splay.open(tmp_path / "db")

    def replay_into(place):
        counts = replay(place, recording, depth=2)
        assert {table: db.sql(f"select count(*) as n from {table}").to_arrow()["n"][0].as_py() for table in counts.rows} == counts.rows

    with db.capture() as capture:
        for _ in range(2):
            replay_into(capture)
    # The database itself begins capture for as long as the replay lasts.
    for _ in range(2):
        replay_into(db)


# Rows of the real recordings, and what shows that they are whole.

COUNTS = Counts(
    messages=307_661,
    rows={"trade": 44_143, "quote": 182_373, "change": 1_527_849, "book": 81_085},
    snapshots=5,
    gaps=0,
    unknown=0,
)


@pytest.fixture(scope="module")
def real(tmp_path_factory):
    files = sorted(RECORDINGS.glob("*/*.gz"))
    if not files:
        pytest.skip(
            f"the real data is absent: no recordings in {RECORDINGS}; set SPLAY_REAL_DATA to the folder that holds hftbacktest/"
        )
    pytest.importorskip("splay._splay", reason="the compiled module is not installed")
    db = splay.open(tmp_path_factory.mktemp("binance") / "db")
    return db, replay(db, files)


def asked(db, statement: str) -> list[dict]:
    return db.sql(statement).to_arrow().to_pylist()


def test_real_recordings_are_stored_whole(real):
    db, counts = real
    assert counts == COUNTS
    assert {table: db.table(table).rows for table in db.tables()} == counts.rows
    assert db.table("book").schema["ask_size"] == "levels(20)"
    assert [(db.table(table).time, db.table(table).symbol) for table in db.tables()] == [("ts_event", "symbol")] * 4


def test_real_trades_are_numbered_without_a_gap(real):
    db, _ = real
    found = asked(
        db, "select venue, symbol, count(*) as n, max(trade_id) - min(trade_id) + 1 as span from trade group by venue, symbol"
    )
    assert len(found) == 5
    assert [row["span"] for row in found] == [row["n"] for row in found]


def test_real_books_never_cross_and_are_sorted(real):
    db, _ = real
    levels = range(1, 20)
    unsorted = " or ".join(f"bid_price[{n}] <= bid_price[{n + 1}] or ask_price[{n}] >= ask_price[{n + 1}]" for n in levels)
    (found,) = asked(
        db,
        "select sum(case when bid_price[1] >= ask_price[1] then 1 else 0 end) as crossed, "
        f"sum(case when {unsorted} then 1 else 0 end) as unsorted, "
        "sum(case when bid_size[1] <= 0 or ask_size[20] <= 0 or bid_price[20] is null or ask_price[20] is null then 1 else 0 end) "
        "as holes from book",
    )
    assert found == {"crossed": 0, "unsorted": 0, "holes": 0}


def test_real_books_agree_with_the_quotes_of_the_venue(real):
    """A quote and a book with one number are two views of one moment."""
    db, _ = real
    found = asked(
        db,
        "select b.venue, count(*) as n, sum(case when b.bid_price[1] = q.bid_price and b.bid_size[1] = q.bid_size "
        "and b.ask_price[1] = q.ask_price and b.ask_size[1] = q.ask_size then 1 else 0 end) as agree "
        "from book b join quote q on b.venue = q.venue and b.symbol = q.symbol and b.sequence = q.sequence "
        "group by b.venue order by b.venue",
    )
    assert found == [
        {"venue": "BINANCE", "n": 1_141, "agree": 1_141},
        {"venue": "BINANCE_DELIVERY", "n": 3_230, "agree": 3_230},
        {"venue": "BINANCE_FUTURES", "n": 629, "agree": 629},
    ]


def test_real_times_are_kept_as_they_are(real):
    """The recorder's clock was 1.27 s behind the venue's, so every receipt with an event's time precedes it."""
    db, _ = real
    (found,) = asked(db, "select count(*) as n from trade where ts_recv >= ts_event")
    assert found == {"n": 0}
    (found,) = asked(db, "select count(distinct date) as dates from trade where venue = 'BINANCE_DELIVERY'")
    assert found == {"dates": 2}
