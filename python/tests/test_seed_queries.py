"""The seven questions of examples/queries on a simulated TAQ day, against DuckDB over the raw files."""

import pathlib
import subprocess

import duckdb
import pytest

import splay
from test_differential import is_close, rows_of

ROOT = pathlib.Path(__file__).resolve().parents[2]
QUERIES = ROOT / "examples" / "queries"
BINARY = ROOT / "target" / "release" / "splay"

# HHMMSSnnnnnnnnn of New York on 2019-10-07, which is UTC-4 that day, in nanoseconds since 1970.
EPOCH = """(epoch_ns(timestamp '2019-10-07 04:00:00')
    + ((left({0}, 2)::bigint * 60 + substr({0}, 3, 2)::bigint) * 60 + substr({0}, 5, 2)::bigint) * 1000000000
    + substr({0}, 7)::bigint)"""


@pytest.fixture(scope="module")
def engines(tmp_path_factory):
    folder = tmp_path_factory.mktemp("taq")
    subprocess.run(
        [BINARY, "gen", "taq", "--out", folder, "--symbols", "20", "--quotes", "60000", "--trades", "12000", "--seed", "7"],
        check=True,
        capture_output=True,
    )
    database = splay.open(folder / "db")
    database.load("trade", [str(folder / "EQY_US_ALL_TRADE_*.gz")], recipe="nyse-taq-trade")
    database.load("quote", [str(folder / "SPLITS_US_ALL_BBO_*.gz")], recipe="nyse-taq-quote")
    rival = duckdb.connect()
    options = "delim='|', header=true, all_varchar=true, quote='', normalize_names=true, null_padding=true"
    rival.execute(
        f"""create table trade as select {EPOCH.format('time')} as t, symbol, exchange, sale_condition,
            trade_volume::bigint as trade_volume, trade_price::double as trade_price,
            sequence_number::bigint as sequence_number
        from read_csv('{folder}/EQY_US_ALL_TRADE_*.gz', {options}) where time <> 'END'"""
    )
    rival.execute(
        f"""create table quote as select {EPOCH.format('time')} as t, symbol, exchange, bid_price::double as bid_price,
            bid_size::bigint as bid_size, offer_price::double as offer_price, offer_size::bigint as offer_size
        from read_csv('{folder}/SPLITS_US_ALL_BBO_*.gz', {options}) where time <> 'END'"""
    )
    return database, rival


def ours(database, number):
    (path,) = QUERIES.glob(f"{number}-*.sql")
    text = "\n".join(line for line in path.read_text().splitlines() if not line.startswith("--"))
    return database.sql(text.strip().rstrip(";")).to_arrow()


def assert_equal(left, right):
    assert len(left) == len(right)
    for one, other in zip(left, right):
        assert all(map(is_close, one, other)), f"{one}\n{other}"


def test_rows_are_all_there(engines):
    database, rival = engines
    for table, expected in (("trade", 12_000), ("quote", 60_000)):
        assert rival.execute(f"select count(*) from {table}").fetchone() == (expected,)
        assert rows_of(database.sql(f"select count(*) from {table}").to_arrow()) == [(expected,)]


def test_opening_prints_of_aapl(engines):
    database, rival = engines
    for number, window in (
        (1, "and t between epoch_ns(timestamp '2019-10-07 13:30:00') and epoch_ns(timestamp '2019-10-07 20:00:00')"),
        (4, ""),
    ):
        found = ours(database, number).sort_by([("Sequence_Number", "ascending")])
        expected = rival.execute(
            f"""select t, trade_price, trade_volume from trade
            where symbol = 'AAPL' and sale_condition like '%O%' {window} order by sequence_number"""
        ).to_arrow_table()
        assert expected.num_rows > 0
        assert_equal(rows_of(found.select(["Time", "Trade_Price", "Trade_Volume"])), rows_of(expected))


def test_groups(engines):
    database, rival = engines
    minute, hour = 60_000_000_000, 3_600_000_000_000
    expected = {
        2: f"select symbol, t // {minute} * {minute} m, sum(trade_volume)::bigint from trade group by all order by all",
        3: f"select symbol, t // {hour} * {hour} h, avg(0.5 * (bid_price + offer_price)) from quote group by 1, 2 order by 1, 2",
        5: "select symbol, sum(trade_volume)::bigint from trade group by 1 order by 1",
        6: "select symbol, exchange, sum(trade_volume)::bigint from trade group by 1, 2 order by 1, 2",
        7: """with a as (select symbol, exchange, avg(offer_price - bid_price) s, 0.5 * avg(offer_size + bid_size) z
                from quote group by 1, 2),
              b as (select symbol, exchange, max(trade_price) hi, min(trade_price) lo,
                sum(trade_price * trade_volume) / sum(trade_volume) v from trade group by 1, 2)
              select coalesce(a.symbol, b.symbol) x, coalesce(a.exchange, b.exchange) y, s, z, hi, lo, v
              from a full join b on a.symbol = b.symbol and a.exchange = b.exchange order by 1, 2""",
    }
    for number, text in expected.items():
        left = sorted(rows_of(ours(database, number)), key=lambda row: tuple(map(str, row[:2])))
        right = sorted(rows_of(rival.execute(text).to_arrow_table()), key=lambda row: tuple(map(str, row[:2])))
        assert_equal(left, right)
