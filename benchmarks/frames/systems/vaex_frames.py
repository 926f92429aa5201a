"""Vaex: frames over files. It has no weighted mean and joins by one column, so two sums are divided, and pandas joins the few rows that
result, as the articles did it.
"""

import pathlib
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pyarrow as pa
import vaex
from frames.questions import CLOSE, OPEN, PRINT_COLUMNS

VERSION = vaex.__version__["vaex-core"]


def frames(folder: pathlib.Path, kind: str) -> SimpleNamespace:
    return SimpleNamespace(**{table: vaex.open(str(folder / f"{table}.{kind}")) for table in ("trade", "quote")})


def _prints(f):
    apple = f.trade[f.trade.Symbol == "AAPL"]
    return apple[apple.Sale_Condition.str.contains("O", regex=False)]


def _table(frame) -> pa.Table:
    return frame.to_arrow_table()


def _grouped(frame, scale: int, name: str, aggregates: dict, by: list[str]) -> pa.Table:
    """Groups by whole numbers of buckets, made times again."""
    frame = frame.copy()
    nanoseconds = frame.Time.astype("int64")
    frame[name] = nanoseconds // scale
    table = _table(frame.groupby([*by, name], agg=aggregates))
    starts = pa.array(np.asarray(table[name]) * scale).cast(pa.timestamp("ns"))
    return table.set_column(table.column_names.index(name), name, starts)


def auction(f):
    found = _prints(f)
    found = found[(found.Time >= np.datetime64(OPEN)) & (found.Time <= np.datetime64(CLOSE))]
    return _table(found[PRINT_COLUMNS])


def minutes(f):
    return _grouped(f.trade, 60_000_000_000, "minute", {"volume": vaex.agg.sum("Trade_Volume")}, ["Symbol"])


def mids(f):
    quote = f.quote.copy()
    quote["mid"] = 0.5 * (quote.Offer_Price + quote.Bid_Price)
    return _grouped(quote, 3_600_000_000_000, "hour", {"mid": vaex.agg.mean("mid")}, ["Symbol"])


def intraday(f):
    apple = f.trade[f.trade.Symbol == "AAPL"]
    return _grouped(apple, 300_000_000_000, "bucket", {"volume": vaex.agg.sum("Trade_Volume")}, [])


def prints(f):
    return _table(_prints(f)[PRINT_COLUMNS])


def by_symbol(f):
    return _table(f.trade.groupby("Symbol", agg={"volume": vaex.agg.sum("Trade_Volume")}))


def by_exchange(f):
    return _table(f.trade.groupby(["Symbol", "Exchange"], agg={"volume": vaex.agg.sum("Trade_Volume")}))


def union(f):
    keys = ["Symbol", "Exchange"]
    quote, trade = f.quote.copy(), f.trade.copy()
    quote["spread"] = quote.Offer_Price - quote.Bid_Price
    quote["size"] = 0.5 * (quote.Offer_Size + quote.Bid_Size)
    a = quote.groupby(keys, agg={"avgspread": vaex.agg.mean("spread"), "avgsize": vaex.agg.mean("size")})
    trade["value"] = trade.Trade_Price * trade.Trade_Volume
    sums = {"value": vaex.agg.sum("value"), "volume": vaex.agg.sum("Trade_Volume")}
    b = trade.groupby(keys, agg={"maxprice": vaex.agg.max("Trade_Price"), "minprice": vaex.agg.min("Trade_Price"), **sums})
    b["vwap"] = b.value / b.volume
    b = b[[*keys, "maxprice", "minprice", "vwap"]]
    return pa.Table.from_pandas(pd.merge(a.to_pandas_df(), b.to_pandas_df(), how="outer", on=keys), preserve_index=False)


QUESTIONS = {f.__name__: f for f in (auction, minutes, mids, intraday, prints, by_symbol, by_exchange, union)}
