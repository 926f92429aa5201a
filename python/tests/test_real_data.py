"""Real trades through a recipe agree with pandas over the raw files, and an ITCH file with its specification.

The trades are those of LEAN's repository, the messages those of RITCH, in the folder that SPLAY_REAL_DATA names, or in ../shared/data beside the
repository.
"""

import gzip
import os
import pathlib
import re
import zipfile

import pandas as pd
import pytest

import splay

DATA = pathlib.Path(os.environ.get("SPLAY_REAL_DATA", pathlib.Path(__file__).resolve().parents[3] / "shared" / "data"))
TICKS = DATA / "lean" / "equity" / "usa" / "tick"


def raw(path: pathlib.Path) -> pd.DataFrame:
    """A day of one symbol: milliseconds since midnight in New York, price in 1/10,000 dollars, size, exchange and more."""
    columns = ["ms", "price", "size", "exchange", "condition", "suspicious"]
    with zipfile.ZipFile(path) as archive:
        (member,) = archive.namelist()
        frame = pd.read_csv(archive.open(member), names=columns, dtype={"condition": str}, keep_default_na=False)
    midnight = pd.Timestamp(re.match(r"\d{8}", path.name)[0], tz="America/New_York")
    frame["time"] = (midnight + pd.to_timedelta(frame["ms"], unit="ms")).dt.tz_convert("UTC").dt.as_unit("ns")
    frame["symbol"] = path.parent.name.upper()
    frame["price"] = frame["price"] / 10_000
    return frame


@pytest.fixture
def zips() -> list[pathlib.Path]:
    found = sorted(TICKS.glob("*/*_trade.zip"))
    if not found:
        pytest.skip(f"the real data is absent: no trades in {TICKS}; set SPLAY_REAL_DATA to the folder that holds lean/")
    return found


def test_trades_agree_with_pandas(db, zips):
    report = db.load("trade", str(TICKS / "*" / "*_trade.zip"), recipe="lean-equity-trade")
    expected = pd.concat([raw(path) for path in zips], ignore_index=True)
    assert report.rows == len(expected)
    assert len(report.files) == len(zips)
    found = db.sql(
        "select symbol, date, count(*) as n, sum(size) as size, sum(price * size) as value, first(price) as first, "
        "last(price) as last, min(time) as start, max(time) as end from trade group by symbol, date order by symbol, date"
    ).to_pandas()
    expected["date"] = expected["time"].dt.tz_convert("America/New_York").dt.date
    expected["value"] = expected["price"] * expected["size"]
    grouped = expected.groupby(["symbol", "date"], sort=True)
    assert found["symbol"].tolist() == [sym for sym, _ in grouped.groups]
    assert found["date"].tolist() == [date for _, date in grouped.groups]
    assert found["n"].tolist() == grouped.size().tolist()
    assert found["size"].tolist() == grouped["size"].sum().tolist()
    assert found["first"].tolist() == pytest.approx(grouped["price"].first().tolist(), rel=1e-12)
    assert found["last"].tolist() == pytest.approx(grouped["price"].last().tolist(), rel=1e-12)
    assert found["value"].tolist() == pytest.approx(grouped["value"].sum().tolist(), rel=1e-9)
    assert found["start"].tolist() == grouped["time"].min().tolist()
    assert found["end"].tolist() == grouped["time"].max().tolist()


def test_trades_by_frame_are_the_trades_by_file(db, zips):
    db.load("by_file", [path for path in zips if path.parent.name == "aig"], recipe="lean-equity-trade")
    frames = [raw(path)[["time", "symbol", "price", "size"]] for path in zips if path.parent.name == "aig"]
    for frame in reversed(frames):
        db.write("by_frame", frame, time_zone=db.table("by_file").time_zone)
    statement = "select time, symbol, price, size from {} "
    by_file = db.sql(statement.format("by_file")).to_pandas()
    by_frame = db.sql(statement.format("by_frame")).to_pandas()
    pd.testing.assert_frame_equal(by_file, by_frame, check_dtype=False, check_categorical=False)


def test_an_itch_file_is_a_table_and_is_read_in_place(db):
    source = DATA / "ritch_itch50" / "ex20101224.TEST_ITCH_50.gz"
    if not source.exists():
        pytest.skip(f"the real data is absent: no {source}; set SPLAY_REAL_DATA to the folder that holds ritch_itch50/")
    db.load("orders", str(source))
    counts = "select message, count(*) as n, sum(shares) as shares from {} group by message order by message"
    stored = db.sql(counts.format("orders")).fetchall()
    assert [(message, n) for message, n, _ in stored] == [("A", 4997), ("D", 1745), ("E", 198), ("F", 3), ("P", 5000), ("U", 12), ("X", 45)]
    assert db.sql(counts.format(f"'{source}'")).fetchall() == stored
    assert splay.scan(str(source)).filter(symbol="BOB").shape[0] == 5163
    # Every execution has the price of its order.
    priced = """select count(*), sum(e.shares), sum(o.price * e.shares) from orders e join orders o
        on o.symbol = e.symbol and coalesce(o.new_order_id, o.order_id) = e.order_id
        where e.message = 'E' and o.message in ('A', 'F', 'U')"""
    executed, shares, value = db.sql(priced).fetchall()[0]
    assert executed == 198 and shares == {message: shares for message, _, shares in stored}["E"]
    assert value == pytest.approx(execution_value(source))


def number(message: bytes, place: int, size: int) -> int:
    return int.from_bytes(message[place : place + size], "big")


def execution_value(source: pathlib.Path) -> float:
    """Shares of all executions times the prices of their orders, by the specification alone."""
    sizes = {"S": 12, "R": 39, "H": 25, "A": 36, "F": 40, "E": 31, "X": 23, "D": 19, "U": 35, "P": 44}
    prices: dict[int, int] = {}
    executions: list[tuple[int, int]] = []
    place = 0
    data = gzip.decompress(source.read_bytes())
    while place < len(data):
        kind = chr(data[place + 2])
        message = data[place + 2 : place + 2 + sizes[kind]]
        place += 2 + sizes[kind]
        if kind in "AF":
            prices[number(message, 11, 8)] = number(message, 32, 4)
        elif kind == "U":
            prices[number(message, 19, 8)] = number(message, 31, 4)
        elif kind == "E":
            executions.append((number(message, 11, 8), number(message, 19, 4)))
    # The sample is no consistent market: some orders come after their executions.
    return sum(prices[order] * shares for order, shares in executions) / 10_000
