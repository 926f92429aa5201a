"""pyarrow: tables of the columns that a question needs, filtered and grouped by Arrow's own functions. Arrow files are mapped."""

import pathlib
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from frames.questions import CLOSE, OPEN, PRINT_COLUMNS

VERSION = pa.__version__


def frames(folder: pathlib.Path, kind: str) -> SimpleNamespace:
    def columns(table: str, names: list[str], only=None) -> pa.Table:
        if kind == "parquet":
            return pq.read_table(folder / f"{table}.parquet", columns=names, filters=only)
        rows = pa.ipc.open_file(pa.memory_map(str(folder / f"{table}.arrow"))).read_all().select(names)
        return rows if only is None else rows.filter(only)

    return SimpleNamespace(columns=columns)


APPLE = pc.field("Symbol") == "AAPL"
PRINTS = APPLE & pc.match_substring(pc.field("Sale_Condition"), "O")


def _instant(text: str) -> pa.Scalar:
    return pa.scalar(text).cast(pa.timestamp("ns"))


def _bucketed(rows: pa.Table, name: str, unit: str, multiple: int = 1) -> pa.Table:
    return rows.append_column(name, pc.floor_temporal(rows["Time"], multiple, unit))


def _grouped(rows: pa.Table, keys: list[str], aggregates: dict[str, tuple[str, str]]) -> pa.Table:
    """Groups with aggregates by name: each a column and a function."""
    found = rows.group_by(keys).aggregate(list(aggregates.values()))
    names = {f"{column}_{function}": name for name, (column, function) in aggregates.items()}
    return found.rename_columns([names.get(name, name) for name in found.column_names])


def auction(f):
    within = (pc.field("Time") >= _instant(OPEN)) & (pc.field("Time") <= _instant(CLOSE))
    return f.columns("trade", PRINT_COLUMNS, PRINTS & within)


def minutes(f):
    rows = _bucketed(f.columns("trade", ["Symbol", "Time", "Trade_Volume"]), "minute", "minute")
    return _grouped(rows, ["Symbol", "minute"], {"volume": ("Trade_Volume", "sum")})


def mids(f):
    rows = f.columns("quote", ["Symbol", "Time", "Bid_Price", "Offer_Price"])
    rows = rows.append_column("middle", pc.multiply(pc.add(rows["Bid_Price"], rows["Offer_Price"]), 0.5))
    return _grouped(_bucketed(rows, "hour", "hour"), ["Symbol", "hour"], {"mid": ("middle", "mean")})


def intraday(f):
    rows = _bucketed(f.columns("trade", ["Symbol", "Time", "Trade_Volume"], APPLE), "bucket", "minute", 5)
    return _grouped(rows, ["bucket"], {"volume": ("Trade_Volume", "sum")})


def prints(f):
    return f.columns("trade", PRINT_COLUMNS, PRINTS)


def by_symbol(f):
    return _grouped(f.columns("trade", ["Symbol", "Trade_Volume"]), ["Symbol"], {"volume": ("Trade_Volume", "sum")})


def by_exchange(f):
    keys = ["Symbol", "Exchange"]
    return _grouped(f.columns("trade", [*keys, "Trade_Volume"]), keys, {"volume": ("Trade_Volume", "sum")})


def union(f):
    keys = ["Symbol", "Exchange"]
    quote = f.columns("quote", [*keys, "Bid_Price", "Offer_Price", "Bid_Size", "Offer_Size"])
    quote = quote.append_column("spread", pc.subtract(quote["Offer_Price"], quote["Bid_Price"]))
    quote = quote.append_column("size", pc.multiply(pc.add(quote["Offer_Size"], quote["Bid_Size"]), 0.5))
    a = _grouped(quote, keys, {"avgspread": ("spread", "mean"), "avgsize": ("size", "mean")})
    trade = f.columns("trade", [*keys, "Trade_Price", "Trade_Volume"])
    trade = trade.append_column("value", pc.multiply(trade["Trade_Price"], trade["Trade_Volume"]))
    ranges = {"maxprice": ("Trade_Price", "max"), "minprice": ("Trade_Price", "min")}
    b = _grouped(trade, keys, ranges | {"value": ("value", "sum"), "volume": ("Trade_Volume", "sum")})
    b = b.append_column("vwap", pc.divide(b["value"], b["volume"])).drop_columns(["value", "volume"])
    return a.join(b, keys, join_type="full outer")


QUESTIONS = {f.__name__: f for f in (auction, minutes, mids, intraday, prints, by_symbol, by_exchange, union)}
