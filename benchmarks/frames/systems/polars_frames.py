"""Polars: lazy frames over files, collected."""

import datetime
import pathlib
from types import SimpleNamespace

import polars as pl
from frames.questions import CLOSE, OPEN, PRINT_COLUMNS
from polars import col

VERSION = pl.__version__


def frames(folder: pathlib.Path, kind: str) -> SimpleNamespace:
    scan = pl.scan_ipc if kind == "arrow" else pl.scan_parquet
    return SimpleNamespace(**{table: scan(folder / f"{table}.{kind}") for table in ("trade", "quote")})


def auction(f):
    wanted = _prints() & col("Time").is_between(*map(datetime.datetime.fromisoformat, (OPEN, CLOSE)))
    return f.trade.filter(wanted).select(PRINT_COLUMNS).collect().to_arrow()


def _prints():
    return (col("Symbol") == "AAPL") & col("Sale_Condition").str.contains("O", literal=True)


def minutes(f):
    return f.trade.group_by("Symbol", col("Time").dt.truncate("1m").alias("minute")).agg(col("Trade_Volume").sum().alias("volume")).collect().to_arrow()


def mids(f):
    mid = (0.5 * (col("Offer_Price") + col("Bid_Price"))).mean().alias("mid")
    return f.quote.group_by("Symbol", col("Time").dt.truncate("1h").alias("hour")).agg(mid).collect().to_arrow()


def intraday(f):
    apple = f.trade.filter(col("Symbol") == "AAPL")
    return apple.group_by(col("Time").dt.truncate("5m").alias("bucket")).agg(col("Trade_Volume").sum().alias("volume")).collect().to_arrow()


def prints(f):
    return f.trade.filter(_prints()).select(PRINT_COLUMNS).collect().to_arrow()


def by_symbol(f):
    return f.trade.group_by("Symbol").agg(col("Trade_Volume").sum().alias("volume")).collect().to_arrow()


def by_exchange(f):
    return f.trade.group_by("Symbol", "Exchange").agg(col("Trade_Volume").sum().alias("volume")).collect().to_arrow()


def union(f):
    keys = ["Symbol", "Exchange"]
    a = f.quote.group_by(keys).agg(
        (col("Offer_Price") - col("Bid_Price")).mean().alias("avgspread"),
        (0.5 * (col("Offer_Size") + col("Bid_Size")).mean()).alias("avgsize"),
    )
    price, volume = col("Trade_Price"), col("Trade_Volume")
    b = f.trade.group_by(keys).agg(
        price.max().alias("maxprice"), price.min().alias("minprice"), ((price * volume).sum() / volume.sum()).alias("vwap")
    )
    return a.join(b, on=keys, how="full", coalesce=True).collect().to_arrow()


QUESTIONS = {f.__name__: f for f in (auction, minutes, mids, intraday, prints, by_symbol, by_exchange, union)}
