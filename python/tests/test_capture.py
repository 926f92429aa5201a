"""Capture in the process of the caller: rows are seen once they are acknowledged, and are there once."""

import time

import pyarrow as pa
import pytest

import splay
import splay.writer

NOW = 1_700_000_000_000_000_000


def frame(first: int, rows: int) -> pa.Table:
    numbers = range(first, first + rows)
    return pa.table(
        {
            "time": pa.array([NOW + number for number in numbers], pa.timestamp("ns", "UTC")),
            "sym": pa.array([f"S{number % 3}" for number in numbers]).dictionary_encode(),
            "n": pa.array(numbers, pa.int64()),
        }
    )


def numbers(db) -> list[int]:
    return db.sql("select n from trade order by n").to_arrow()["n"].to_pylist()


def test_rows_are_seen_once_they_are_acknowledged(db):
    with db.capture() as capture:
        ack = capture.append("trade", frame(0, 10))
        assert (ack.sequence, ack.rows, ack.ack_class, ack.duplicate) == (1, 10, "disk", False)
        assert numbers(db) == list(range(10))
        assert capture.append("trade", frame(10, 5), ack="process").ack_class == "process"
        assert capture.write_down("trade") == 15
        capture.append("trade", frame(15, 5))
        assert numbers(db) == list(range(20))
        assert db.sql("select sym, last(n) as n from trade group by sym order by sym").to_arrow()["n"].to_pylist() == [18, 19, 17]
        assert capture.status()["live_rows"]["trade"] == 5
    assert numbers(db) == list(range(20)), "closing writes down"
    assert numbers(splay.open(db.path)) == list(range(20))
    with pytest.raises(splay.CaptureClosedError):
        capture.append("trade", frame(0, 1))


def test_a_repeat_is_told_and_not_taken(db):
    with db.capture() as capture:
        for _ in range(3):
            ack = capture.append("trade", frame(0, 4), producer="feed", sequence=7)
        assert ack.duplicate
        assert numbers(db) == [0, 1, 2, 3]
        with pytest.raises(ValueError, match="belong together"):
            capture.append("trade", frame(0, 1), producer="feed")
    with db.capture() as capture:
        assert capture.append("trade", frame(0, 4), producer="feed", sequence=7).duplicate


def test_columns_are_watched_that_settings_name(db):
    with db.capture(quality={"trade": {"sequence": "n", "symbol": ""}}) as capture:
        capture.append("trade", frame(0, 3))
        capture.append("trade", frame(5, 3))
        told = quality(capture)
        assert {name: told[name] for name in ("rows", "gaps", "missing", "duplicates", "out_of_order")} == {
            "rows": 6, "gaps": 1, "missing": 2, "duplicates": 0, "out_of_order": 0
        }


def quality(capture) -> dict:
    """What is told of the trades' feed, once all six rows were looked at, which is after they are acknowledged."""
    deadline = time.monotonic() + 30
    while True:
        (told,) = [table["quality"] for table in capture.status()["tables"] if table["table"] == "trade"]
        if told["rows"] == 6 or time.monotonic() > deadline:
            return told
        time.sleep(0.01)


def test_there_is_one_class_of_acks(db):
    with db.capture() as capture:
        ack = capture.append("trade", frame(0, 3), ack="process", producer="feed", sequence=7)
        assert ack == splay.Ack(sequence=1, ack_class="process", rows=3, duplicate=False, quarantined=0)
        assert type(ack) is splay.Ack is splay.writer.Ack
        assert capture.last_number("feed") == 7
        assert capture.last_number("other") is None
    with db.capture() as capture:
        assert capture.last_number("feed") == 7


def test_what_does_not_fit_is_refused_whole(db):
    with db.capture(create_tables=True, late_s=5) as capture:
        capture.append("trade", frame(0, 2))
        wrong = frame(2, 2).set_column(2, "n", pa.array(["a", "b"]))
        with pytest.raises((splay.SchemaError, splay.RejectedError)):
            capture.append("trade", wrong)
        assert numbers(db) == [0, 1]
        with pytest.raises(ValueError, match="unknown field `wrong`"):
            db.capture(wrong=1)
        with pytest.raises(ValueError, match="invalid"):
            db.capture(late_s="long")
        with pytest.raises(ValueError, match="unknown field `column`"):
            db.capture(quality={"trade": {"column": "n"}})
        with pytest.raises(splay.LockedError):
            splay.open(db.path).capture()


def test_rows_that_a_second_feed_sends_are_left_out(db):
    settings = {"dedupe": {"trade": {"key": "n"}, "quote": {}}}
    with db.capture(**settings) as capture:
        assert capture.append("trade", frame(0, 5)).duplicate_rows == 0
        ack = capture.append("trade", frame(3, 4))
        assert (ack.rows, ack.duplicate_rows, ack.duplicate) == (2, 2, False)
        told = capture.status()
        assert (told["duplicate_rows"], told["uncompared_rows"]) == (2, 0)
        (dedupe,) = [table["dedupe"] for table in told["tables"]]
        assert (dedupe["duplicate_rows"], dedupe["keys"], dedupe["is_limited"]) == (2, 7, False)
    with db.capture(**settings) as capture:
        assert capture.append("trade", frame(0, 8)).duplicate_rows == 7, "also after they were written down"
        with splay.tick(capture, "quote") as quotes:
            for _ in range(2):
                quotes.append_frame(frame(0, 3))
                quotes.flush()
        assert (quotes.stats.rows, quotes.stats.duplicate_rows) == (6, 3)
    assert numbers(db) == list(range(8))
    with db.capture() as capture:
        assert capture.append("trade", frame(0, 1)).rows == 1, "without the setting equal rows stay"
    for settings, why in (
        ({"key": "price"}, "price"),
        ({"key": "time"}, "the time alone"),
        ({"window_s": 0}, "window_s is 0"),
    ):
        with pytest.raises(splay.SettingError, match=why):
            db.capture(dedupe={"trade": settings})
    with pytest.raises(ValueError, match="unknown field `window`"):
        db.capture(dedupe={"trade": {"window": 60}})
