"""pandas: each question reads the columns that it needs from the file, since pandas has no lazy frames."""

import pathlib
from types import SimpleNamespace

import pandas as pd
import pyarrow as pa
from frames.questions import CLOSE, OPEN, PRINT_COLUMNS

VERSION = pd.__version__


def frames(folder: pathlib.Path, kind: str) -> SimpleNamespace:
    def columns(table: str, names: list[str]) -> pd.DataFrame:
        if kind == "parquet":
            return pd.read_parquet(folder / f"{table}.parquet", columns=names)
        return pa.ipc.open_file(pa.memory_map(str(folder / f"{table}.arrow"))).read_all().select(names).to_pandas()

    return SimpleNamespace(columns=columns)


def _table(frame: pd.DataFrame) -> pa.Table:
    return pa.Table.from_pandas(frame, preserve_index=False)


def _prints(f):
    trade = f.columns("trade", PRINT_COLUMNS)
    apple = trade[trade["Symbol"] == "AAPL"]
    return apple[apple["Sale_Condition"].str.contains("O", regex=False)]


def auction(f):
    found = _prints(f)
    return _table(found[found["Time"].between(pd.Timestamp(OPEN), pd.Timestamp(CLOSE))])


def minutes(f):
    trade = f.columns("trade", ["Symbol", "Time", "Trade_Volume"])
    groups = trade.groupby(["Symbol", trade["Time"].dt.floor("min").rename("minute")], sort=False)
    return _table(groups["Trade_Volume"].sum().rename("volume").reset_index())


def mids(f):
    quote = f.columns("quote", ["Symbol", "Time", "Bid_Price", "Offer_Price"])
    quote["mid"] = 0.5 * (quote["Offer_Price"] + quote["Bid_Price"])
    return _table(quote.groupby(["Symbol", quote["Time"].dt.floor("h").rename("hour")], sort=False)["mid"].mean().reset_index())


def intraday(f):
    trade = f.columns("trade", ["Symbol", "Time", "Trade_Volume"])
    apple = trade[trade["Symbol"] == "AAPL"]
    return _table(apple.groupby(apple["Time"].dt.floor("5min").rename("bucket"))["Trade_Volume"].sum().rename("volume").reset_index())


def prints(f):
    return _table(_prints(f))


def by_symbol(f):
    return _table(f.columns("trade", ["Symbol", "Trade_Volume"]).groupby("Symbol", sort=False)["Trade_Volume"].sum().rename("volume").reset_index())


def by_exchange(f):
    trade = f.columns("trade", ["Symbol", "Exchange", "Trade_Volume"])
    return _table(trade.groupby(["Symbol", "Exchange"], sort=False)["Trade_Volume"].sum().rename("volume").reset_index())


def union(f):
    keys = ["Symbol", "Exchange"]
    quote = f.columns("quote", [*keys, "Bid_Price", "Offer_Price", "Bid_Size", "Offer_Size"])
    quote["avgspread"] = quote["Offer_Price"] - quote["Bid_Price"]
    quote["avgsize"] = 0.5 * (quote["Offer_Size"] + quote["Bid_Size"])
    a = quote.groupby(keys, sort=False)[["avgspread", "avgsize"]].mean().reset_index()
    trade = f.columns("trade", [*keys, "Trade_Price", "Trade_Volume"])
    trade["value"] = trade["Trade_Price"] * trade["Trade_Volume"]
    b = trade.groupby(keys, sort=False).agg(
        maxprice=("Trade_Price", "max"), minprice=("Trade_Price", "min"), value=("value", "sum"), volume=("Trade_Volume", "sum")
    )
    b["vwap"] = b["value"] / b["volume"]
    return _table(a.merge(b.drop(columns=["value", "volume"]).reset_index(), how="outer", on=keys))


QUESTIONS = {f.__name__: f for f in (auction, minutes, mids, intraday, prints, by_symbol, by_exchange, union)}
