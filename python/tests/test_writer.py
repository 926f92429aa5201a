"""Writers store each row once, in order, in bounded memory, whatever the transport does."""

import asyncio
import datetime as dt
import decimal
import threading

import fakes
import numpy as np
import pyarrow as pa
import pytest

import splay
from splay.writer import Ack, AsyncTickWriter, TickWriter


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch):
    monkeypatch.setattr("splay.writer._sleep", lambda seconds: None)


@pytest.fixture
def stored() -> fakes.Stored:
    return fakes.Stored()


def writer(stored: fakes.Stored, *script, **settings) -> TickWriter:
    """One that sends full batches only, unless it is told otherwise."""
    return TickWriter(fakes.MemoryTransport(stored, script), "trade", **{"linger_ms": None, **settings})


def row(n: int) -> dict:
    return {"ts_event": n, "symbol": "A", "price": float(n)}


def lost() -> splay.UnreachableError:
    return splay.UnreachableError("connection reset")


def rejected() -> splay.RejectedError:
    return splay.RejectedError("price is text")


def test_batches_are_cut_by_rows_and_numbered_without_a_gap(stored):
    with writer(stored, batch_rows=4) as trades:
        for n in range(10):
            trades.append(**row(n))
    assert [len(batch) for batch in stored.batches["trade"]] == [4, 4, 2]
    assert stored.numbers == {trades.producer: [1, 2, 3]}
    assert stored.column("trade", "price") == [float(n) for n in range(10)]
    assert trades.stats == splay.WriterStats(rows=10, batches=3)
    assert trades._transport.is_closed


def test_a_row_that_lingers_is_sent_alone(stored):
    with writer(stored, linger_ms=0) as trades:
        trades.append(**row(1))
        assert trades._transport.has_called.wait(60)


def test_flush_waits_for_the_ack_and_gives_it(stored):
    with writer(stored, ack="process") as trades:
        assert trades.flush() is None
        trades.append_rows([row(1), row(2)])
        assert stored.count == 0
        assert trades.flush() == Ack(sequence=1, ack_class="process", rows=2, duplicate=False, quarantined=0)


def test_a_lost_ack_neither_loses_nor_doubles_rows(stored):
    script = [("stored", lost()), lost(), ("stored", lost()), None, splay.BusyError("disk full"), lost(), ("stored", lost())]
    with writer(stored, *script, batch_rows=1) as trades:
        trades.append_rows(map(row, range(5)))
    assert stored.column("trade", "price") == [0, 1, 2, 3, 4]
    assert stored.numbers[trades.producer] == [1, 2, 3, 4, 5]
    # Each is sent under its own number until it is acknowledged; a number is never used for other rows.
    assert [sequence for _, sequence, _ in trades._transport.calls] == [1, 1, 1, 1, 2, 2, 2, 2, 3, 4, 5]
    assert trades.stats == splay.WriterStats(rows=5, batches=5, duplicates=2, resent=6)


def test_a_writer_gives_up_in_the_end_and_says_what_is_not_acknowledged(stored):
    trades = writer(stored, lost(), batch_rows=2, retry_seconds=0)
    trades.append_rows(map(row, range(2)))
    with pytest.raises(splay.UnreachableError, match="connection reset"):
        trades.flush()
    for broken in (trades.flush, trades.close, lambda: trades.append(**row(3))):
        with pytest.raises(splay.UnreachableError):
            broken()
    trades.close()
    assert trades.stats.waiting == 2
    assert stored.count == 0


def test_what_the_server_refuses_is_raised(stored):
    with pytest.raises(splay.RejectedError, match="price is text"), writer(stored, rejected()) as trades:
        trades.append(**row(1))


def test_an_error_of_the_block_goes_before_one_of_the_writer(stored):
    with pytest.raises(ZeroDivisionError), writer(stored, rejected()) as trades:
        trades.append(**row(1))
        raise ZeroDivisionError
    with pytest.raises(ZeroDivisionError), writer(stored) as trades:
        trades.append(**row(1))
        raise ZeroDivisionError
    assert stored.column("trade", "price") == [1.0]


def test_refused_rows_can_be_taken_and_the_others_go_on(stored):
    taken = []
    with writer(stored, None, rejected(), batch_rows=2, on_reject=lambda *what: taken.append(what)) as trades:
        trades.append_rows(map(row, range(6)))
    assert stored.column("trade", "price") == [0, 1, 4, 5]
    ((error, rows),) = taken
    assert str(error) == "price is text"
    assert rows["price"].to_pylist() == [2, 3]
    assert (trades.stats.rows, trades.stats.rejected, trades.stats.waiting) == (4, 2, 0)


def test_one_wrong_value_is_one_row_refused(stored):
    taken = []
    with writer(stored, on_reject=lambda *what: taken.append(what)) as trades:
        trades.append_rows([row(1), {**row(2), "price": "high"}, row(3)])
    assert stored.column("trade", "price") == [1, 3]
    ((error, rows),) = taken
    assert isinstance(error, splay.SchemaError)
    assert rows == [{**row(2), "price": "high"}]
    with pytest.raises(splay.SchemaError, match="'price' is float64"), writer(stored) as trades:
        trades.append_rows([row(1), {**row(2), "price": "high"}])


@pytest.mark.parametrize("part", [0.5, np.float32(0.5), decimal.Decimal("0.5")])
def test_numbers_that_are_not_whole_keep_their_parts(stored, part):
    """pyarrow makes 0 of 0.5 in a column of whole numbers, which was stored."""
    with writer(stored, batch_rows=2) as trades:
        for size in (1, part, 2, part, 3, 4):
            trades.append(ts_event=1, size=size)
    assert stored.column("trade", "size") == [1, 0.5, 2, 0.5, 3, 4]
    with writer(stored) as later:
        later.append(ts_event=1, size=1)
        later.flush()
        later.append(ts_event=2, size=part)
    assert stored.column("trade", "size")[-2:] == [1, 0.5]


def test_parts_of_numbers_are_refused_where_whole_ones_were_asked_for(stored):
    with pytest.raises(splay.SchemaError, match="'size' is int64, and 0.5 would lose its part"), writer(stored, types={"size": "int64"}) as trades:
        trades.append(ts_event=1, size=0.5)
    with pytest.raises(splay.SchemaError, match="'ts_event' is timestamp, and 1.5 would lose its part"), writer(stored) as trades:
        trades.append_rows([{"ts_event": 1}, {"ts_event": 1.5}])
    with writer(stored, types={"size": "int64"}) as trades:
        trades.append(ts_event=1, size=2.0)
    assert stored.column("trade", "size") == [2]


def test_what_a_callback_raises_ends_the_writer(stored):
    def broken(*_):
        raise OSError("no log")

    with pytest.raises(splay.Error, match="no log"), writer(stored, rejected(), on_reject=broken) as trades:
        trades.append(**row(1))


def test_a_batch_that_is_too_large_is_sent_in_parts(stored):
    def at_most_three(rows):
        if rows.num_rows > 3:
            raise splay.TooLargeError("larger than 3 rows")

    with writer(stored, *[at_most_three] * 20) as trades:
        trades.append_rows(map(row, range(10)))
    assert stored.column("trade", "price") == list(range(10))
    assert [len(batch) for batch in stored.batches["trade"]] == [2, 3, 2, 3]
    assert (trades.stats.rows, trades.stats.waiting) == (10, 0)


def test_large_batches_are_sent_in_parts_from_the_start(stored, monkeypatch):
    monkeypatch.setattr("splay.writer.BATCH_BYTES_MAX", 100)
    with writer(stored, types={"symbol": "text"}) as trades:
        trades.append_rows(map(row, range(10)))
    assert stored.column("trade", "price") == list(range(10))
    assert len(stored.batches["trade"]) > 1
    assert all(batch.nbytes <= 100 for batch in stored.batches["trade"])


def test_a_batch_that_may_be_stored_is_not_sent_in_parts(stored):
    """Its parts would have other numbers, and be stored once more."""
    script = [("stored", lost()), splay.TooLargeError("the limit was lowered")]
    with pytest.raises(splay.TooLargeError), writer(stored, *script) as trades:
        trades.append_rows(map(row, range(10)))
    assert stored.column("trade", "price") == list(range(10))


def test_a_row_that_is_too_large_alone_is_refused(stored):
    taken = []
    script = [splay.TooLargeError("too large")]
    with writer(stored, *script, batch_rows=1, on_reject=lambda *what: taken.append(what)) as trades:
        trades.append_rows(map(row, range(2)))
    assert stored.column("trade", "price") == [1]
    assert len(taken) == 1


def test_rows_that_wait_are_bounded(stored):
    trades = writer(stored, batch_rows=2, buffer_rows=6)
    trades._transport.may_go.clear()
    taken = 0
    while trades.append_nowait(**row(taken)):
        taken += 1
    assert taken == trades.stats.waiting == 6
    blocked = threading.Thread(target=trades.append, kwargs=row(6))
    blocked.start()
    assert trades._transport.has_called.wait(60)
    assert stored.count == 0
    trades._transport.may_go.set()
    blocked.join(60)
    assert not blocked.is_alive()
    trades.close()
    assert stored.column("trade", "price") == list(range(7))


def test_who_waits_for_room_hears_of_a_failure(stored):
    trades = writer(stored, rejected(), batch_rows=1, buffer_rows=1)
    trades._transport.may_go.clear()
    trades.append(**row(0))
    heard = []

    def append():
        with pytest.raises(splay.RejectedError) as caught:
            trades.append(**row(1))
        heard.append(caught.value)

    blocked = threading.Thread(target=append)
    blocked.start()
    assert trades._transport.has_called.wait(60)
    trades._transport.may_go.set()
    blocked.join(60)
    assert len(heard) == 1


def test_threads_share_a_writer(stored):
    with writer(stored, batch_rows=7, buffer_rows=14) as trades:
        threads = [
            threading.Thread(target=trades.append_rows, args=([{**row(n), "symbol": name} for n in range(500)],))
            for name in "ABCD"
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    rows = stored.rows("trade")
    for name in "ABCD":
        assert [found["price"] for found in rows if found["symbol"] == name] == list(range(500))
    assert stored.numbers[trades.producer] == list(range(1, len(stored.batches["trade"]) + 1))


def test_a_name_that_another_uses_is_told_and_not_passed_over(stored):
    with writer(stored, producer="feed", sequence=10**18) as first:
        first.append(**row(1))
    with pytest.raises(splay.ProducerError, match="'feed'") as caught, writer(stored, producer="feed") as second:
        second.append(**row(2))
    assert caught.value.producer == "feed"
    assert caught.value.sequence < 10**18
    assert second.stats.waiting == 1


def test_a_name_can_be_used_again_later(stored):
    for n in range(3):
        with writer(stored, producer="feed") as trades:
            trades.append(**row(n))
    assert stored.column("trade", "price") == [0, 1, 2]


def test_a_replay_stores_what_is_not_there_yet(stored):
    for rows in (25, 60):
        with writer(stored, producer="day", sequence=1, batch_rows=10, linger_ms=0) as trades:
            trades.append_rows(map(row, range(rows // 10 * 10)))
    assert stored.column("trade", "price") == list(range(60))
    assert (trades.stats.batches, trades.stats.duplicates) == (6, 2)


def test_closed_is_closed(stored):
    trades = writer(stored)
    trades.close()
    trades.close()
    assert trades.is_closed
    with pytest.raises(splay.ClosedError):
        trades.append(**row(1))


def test_close_can_be_given_a_time(stored):
    trades = writer(stored)
    trades._transport.may_go.clear()
    trades.append(**row(1))
    with pytest.raises(TimeoutError, match="not acknowledged"):
        trades.flush(timeout=0)
    with pytest.raises(TimeoutError, match="not acknowledged"):
        trades.close(timeout=0)
    trades._transport.may_go.set()
    trades._thread.join(60)
    assert stored.count == 1


@pytest.mark.parametrize(
    "wrong",
    [
        {"ack": "tape"},
        {"batch_rows": 0},
        {"batch_rows": 9, "buffer_rows": 8},
        {"sequence": 1},
        {"producer": ""},
        {"producer": 129 * "é"},
        {"types": {"price": "varchar"}},
        {"types": {"book": "levels(0)"}},
    ],
)
def test_settings_are_checked(stored, wrong):
    with pytest.raises(splay.SettingError) as caught:
        writer(stored, **wrong)
    assert caught.value.setting in wrong


def test_values_say_the_types_and_keep_them(stored):
    at = dt.datetime(2024, 1, 2, tzinfo=dt.UTC)
    with writer(stored, batch_rows=1, types={"venue": "symbol", "ratio": "decimal(9,4)"}) as trades:
        trades.append(note=None, price=decimal.Decimal("1.5"), book=[1.0, None], venue="X", size=3, symbol="A", ts_event=at)
        trades.append(
            note="late", price=2, book=None, venue=None, size=None, symbol="B", ts_event=5, ratio=decimal.Decimal("0.1")
        )
    first, second = stored.batches["trade"]
    assert first.schema.names == ["ts_event", "symbol", "price", "book", "venue", "size"]
    symbol = pa.dictionary(pa.int32(), pa.string())
    assert first.schema.types == [
        pa.timestamp("ns", "UTC"),
        symbol,
        pa.float64(),
        pa.list_(pa.float64(), 2),
        symbol,
        pa.int64(),
    ]
    assert second.schema.field("price").type == pa.float64()
    assert second.schema.field("note").type == pa.string()
    assert second.schema.field("ratio").type == pa.decimal128(9, 4)
    assert second.schema.field("book").type == pa.list_(pa.float64(), 2)
    assert second["ts_event"].cast(pa.int64()).to_pylist() == [5]


def test_the_time_of_the_event_and_the_symbol_come_first(stored):
    with writer(stored) as trades:
        trades.append(price=1.0, venue="X", ts_recv=2, symbol="A", ts_event=1)
    assert stored.table("trade").schema.names == ["ts_event", "symbol", "ts_recv", "price", "venue"]


def test_frames_go_as_they_are_and_in_their_turn(stored):
    frame = pa.table({"ts_event": pa.array(range(5), pa.timestamp("ns", "UTC")), "price": [float(n) for n in range(5)]})
    with writer(stored, batch_rows=2) as trades:
        trades.append(ts_event=9, price=9.0)
        trades.append_frame(frame)
        trades.append_frame(frame.to_batches()[0])
        trades.append(ts_event=8, price=8.0)
        with pytest.raises(TypeError, match="list has neither"):
            trades.append_frame([1])
    assert stored.column("trade", "price") == [9, 0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 8]
    assert [len(batch) for batch in stored.batches["trade"]] == [1, 2, 2, 1, 2, 2, 1, 1]


def test_coroutines_wait_for_room_and_keep_their_order(stored):
    async def produce(trades, name):
        for n in range(200):
            await trades.append(**{**row(n), "symbol": name})

    async def run():
        async with AsyncTickWriter(writer(stored, batch_rows=3, buffer_rows=6)) as trades:
            await asyncio.gather(*(produce(trades, name) for name in "AB"))
            await trades.append_rows([{**row(n), "symbol": "C"} for n in range(10)])
            assert (await trades.flush()).ack_class == "disk"
            assert trades.stats.rows == 410
        assert trades.is_closed

    asyncio.run(run())
    rows = stored.rows("trade")
    for name, count in (("A", 200), ("B", 200), ("C", 10)):
        assert [found["price"] for found in rows if found["symbol"] == name] == list(range(count))


def test_a_coroutine_that_waits_leaves_the_others_running(stored):
    trades = writer(stored, batch_rows=1, buffer_rows=1)

    async def run():
        trades._transport.may_go.clear()
        waiting = AsyncTickWriter(trades)
        await waiting.append(**row(0))
        blocked = asyncio.create_task(waiting.append(**row(1)))
        await asyncio.sleep(0)
        assert not blocked.done()
        trades._transport.may_go.set()
        await blocked
        await waiting.close()

    asyncio.run(run())
    assert stored.column("trade", "price") == [0, 1]


def test_a_writer_into_the_journal_of_this_process(db):
    with db.capture() as capture:
        with splay.tick(capture, "trade", batch_rows=100) as trades:
            trades.append_rows(map(row, range(1_000)))
            assert trades.flush().ack_class == "disk"
        assert trades.stats.batches == 10
        with splay.tick(capture, "trade", producer="day", sequence=1, batch_rows=10) as trades:
            trades.append_rows(map(row, range(50)))
        with splay.tick(capture, "trade", producer="day", sequence=1, batch_rows=10) as trades:
            trades.append_rows(map(row, range(60)))
        assert trades.stats.duplicates == 5
        with pytest.raises(splay.SchemaError), splay.tick(capture, "trade") as trades:
            trades.append(ts_event=1, price="high")
        found = db.sql("select count(*) as n, sum(price) as sum from trade").to_arrow().to_pylist()
        assert found == [{"n": 1_060, "sum": sum(range(1_000)) + sum(range(60))}]


def test_a_database_has_writers_of_its_own(db):
    """Capture begins with the first, is shared, and ends with the last, which writes the rows to files."""
    trades, quotes = db.tick("trade", batch_rows=100), db.tick("quote", ack="process")
    with pytest.raises(splay.LockedError):
        splay.open(db.path).capture()
    trades.append_rows(map(row, range(250)))
    assert trades.flush() == Ack(3, "disk", 50, False, 0)
    assert db.sql("select count(*) as n from trade").to_arrow().to_pylist() == [{"n": 250}]
    trades.close()
    quotes.append(**row(1))
    assert quotes.flush().ack_class == "process"
    with pytest.raises(splay.SettingError):
        db.tick("trade", batch_rows=0)
    quotes.close()
    with db.capture():
        pass
    again = splay.open(db.path)
    assert (again.table("trade").rows, again.table("quote").rows) == (250, 1)
    with splay.tick(db, "trade") as trades:
        trades.append(**row(250))
    assert db.table("trade").rows == 251


def test_a_database_of_which_writers_wait_shares_room_and_errors(db):
    with db.tick("trade", batch_rows=10, buffer_rows=10, producer="feed", sequence=1) as trades:
        trades.append_rows(map(row, range(1_000)))
    assert trades.stats.rows == 1_000
    with db.tick("trade", producer="feed", sequence=100) as trades:
        trades.append_rows(map(row, range(1_000, 1_010)))
    assert trades.stats.duplicates == 1, "number 100 was there before"
    with pytest.raises(splay.SchemaError), db.tick("trade") as trades:
        trades.append(ts_event=1, price="high")
    # After a failure, too, capture has ended.
    with db.capture() as capture:
        assert capture.last_number("feed") == 100
        assert capture.last_number("nobody") is None
