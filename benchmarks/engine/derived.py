"""Tables derived from a day: thinned sides for as-of joins, and bars."""

import pathlib

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

FEW = 100
"""One row in so many is kept of a thinned table."""
EARLY_MINUTES = 5
"""Minutes of the regular session's start whose quotes are all there is in ``quote_early``."""
BARS = 100_000
"""Bars at most."""

TABLES = ("trade_few", "quote_few", "quote_early", "bar")


def tables(folder: pathlib.Path) -> dict[str, pa.Table]:
    """The derived tables by name.

    - ``trade_few``, ``quote_few``: one row in FEW
    - ``quote_early``: the quotes of a few minutes, so that a later trade's quote is long ago
    - ``bar``: one-minute bars of the mid
    """
    trades, quotes = (read(folder / table) for table in ("trade", "quote"))
    return {
        "trade_few": thinned(
            trades.select(["Symbol", "Time", "Exchange", "Trade_Price", "Trade_Volume", "Sequence_Number"])
        ),
        "quote_few": thinned(quotes),
        "quote_early": early(quotes),
        "bar": bars(quotes),
    }


def read(folder: pathlib.Path) -> pa.Table:
    names = [
        "Symbol",
        "Time",
        "Exchange",
        "Bid_Price",
        "Bid_Size",
        "Offer_Price",
        "Offer_Size",
        "Trade_Price",
        "Trade_Volume",
        "Sequence_Number",
    ]
    paths = sorted(folder.rglob("*.parquet"))
    present = [name for name in names if name in pq.read_schema(paths[0]).names]
    return pa.concat_tables(pq.read_table(path, columns=present) for path in paths).unify_dictionaries()


def thinned(rows: pa.Table) -> pa.Table:
    return rows.take(pa.array(range(0, rows.num_rows, FEW), pa.int64()))


def early(quotes: pa.Table) -> pa.Table:
    """The quotes from 13:30 UTC, which is 09:30 in New York on the simulated day."""
    minutes = pc.add(pc.multiply(pc.hour(quotes["Time"]), 60), pc.minute(quotes["Time"]))
    start = 13 * 60 + 30
    return quotes.filter(pc.and_(pc.greater_equal(minutes, start), pc.less(minutes, start + EARLY_MINUTES)))


def bars(quotes: pa.Table) -> pa.Table:
    """Open, high, low, close of the mid and the size quoted, by symbol and minute."""
    rows = pa.table(
        {
            "sym": quotes["Symbol"],
            "ts": pc.floor_temporal(quotes["Time"], unit="minute"),
            "mid": pc.multiply(pc.add(quotes["Bid_Price"], quotes["Offer_Price"]), 0.5),
            "volume": pc.add(quotes["Bid_Size"], quotes["Offer_Size"]),
        }
    )
    found = rows.group_by(["sym", "ts"], use_threads=False).aggregate(
        [("mid", "first"), ("mid", "max"), ("mid", "min"), ("mid", "last"), ("volume", "sum")]
    )
    return found.rename_columns(["sym", "ts", "open", "high", "low", "close", "volume"]).slice(0, BARS)
