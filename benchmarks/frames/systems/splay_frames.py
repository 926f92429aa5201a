"""SplayDB: lazy frames over a database, or over files."""

import pathlib
from types import SimpleNamespace

import splay
from frames.questions import CLOSE, OPEN, PRINT_COLUMNS
from splay import col

VERSION = splay.__version__


def frames(folder: pathlib.Path, kind: str) -> SimpleNamespace:
    if kind == "database":
        db = splay.open(folder / "db")
        return SimpleNamespace(trade=db["trade"], quote=db["quote"])
    return SimpleNamespace(**{table: splay.scan(folder / f"{table}.{kind}") for table in ("trade", "quote")})


def auction(f):
    wanted = (col("Symbol") == "AAPL", col("Sale_Condition").str.contains("O", literal=True), col("Time").between(_time(OPEN), _time(CLOSE)))
    return f.trade.filter(*wanted).select(PRINT_COLUMNS).to_arrow()


def minutes(f):
    return f.trade.bucket("1m", "Symbol").agg(volume=col("Trade_Volume").sum()).rename({"Time": "minute"}).to_arrow()


def mids(f):
    mid = (0.5 * (col("Offer_Price") + col("Bid_Price"))).mean()
    return f.quote.bucket("1h", "Symbol").agg(mid=mid).rename({"Time": "hour"}).to_arrow()


def intraday(f):
    apple = f.trade.filter(col("Symbol") == "AAPL")
    return apple.bucket("5m", []).agg(volume=col("Trade_Volume").sum()).rename({"Time": "bucket"}).to_arrow()


def prints(f):
    return f.trade.filter(col("Symbol") == "AAPL", col("Sale_Condition").str.contains("O", literal=True)).select(PRINT_COLUMNS).to_arrow()


def by_symbol(f):
    return f.trade.group_by("Symbol").agg(volume=col("Trade_Volume").sum()).to_arrow()


def by_exchange(f):
    return f.trade.group_by("Symbol", "Exchange").agg(volume=col("Trade_Volume").sum()).to_arrow()


def union(f):
    keys = ["Symbol", "Exchange"]
    a = f.quote.group_by(*keys).agg(
        avgspread=(col("Offer_Price") - col("Bid_Price")).mean(), avgsize=0.5 * (col("Offer_Size") + col("Bid_Size")).mean()
    )
    b = f.trade.group_by(*keys).agg(
        maxprice=col("Trade_Price").max(), minprice=col("Trade_Price").min(), vwap=col("Trade_Price").wavg("Trade_Volume")
    )
    return a.join(b, keys, how="full").to_arrow()


def _time(text: str):
    import datetime

    return datetime.datetime.fromisoformat(text).replace(tzinfo=datetime.UTC)


QUESTIONS = {f.__name__: f for f in (auction, minutes, mids, intraday, prints, by_symbol, by_exchange, union)}
