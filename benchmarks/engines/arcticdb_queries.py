"""The fourteen queries on ArcticDB: what its processing pipeline can do there, the rest in pandas."""

from . import pandas_queries as plain
from .rows import CODES

NANOSECOND = 1
SIZES = {"bid": [f"b{level}s" for level in range(1, 6)], "ask": [f"a{level}s" for level in range(1, 6)]}


def naive(instant):
    """A time as ArcticDB's index has it: UTC without saying so."""
    import pandas as pd

    return pd.Timestamp(instant).tz_convert("UTC").tz_localize(None)


class Reader:
    """Reads columns of a range, symbol by symbol."""

    def __init__(self, library, symbols: list[str]):
        self.library = library
        self.symbols = symbols

    def one(self, table: str, symbol: str, start, end, columns=None, builder=None):
        """A symbol's rows in [start, end); indexed by time."""
        import pandas as pd

        # Ranges of ArcticDB hold both ends.
        within = (naive(start), naive(end) - pd.Timedelta(NANOSECOND, "ns"))
        return self.library.read(f"{table}/{symbol}", date_range=within, columns=columns, query_builder=builder).data

    def all(self, table: str, start, end, columns=None, builder=None):
        """The same of all symbols, with their name as a category and the time as a column."""
        import numpy as np
        import pandas as pd

        frames = [self.one(table, symbol, start, end, columns, builder) for symbol in self.symbols]
        frame = pd.concat(frames)
        codes = np.repeat(np.arange(len(frames)), list(map(len, frames)))
        frame.insert(0, "symbol", pd.Categorical.from_codes(codes, self.symbols))
        return frame.rename_axis("timestamp").reset_index()

    def buckets(self, table: str, start, end, width: str, aggregates, prepare=None):
        """Buckets by ArcticDB itself; empty ones don't appear. ``prepare`` adds columns before.

        It reads the columns that it needs; they can't be named besides.
        """
        from arcticdb import QueryBuilder

        builder = QueryBuilder()
        if prepare:
            builder = prepare(builder)
        frame = self.all(table, start, end, None, builder.resample(width).agg(aggregates))
        return frame.rename(columns={"timestamp": "bucket"})


def add_depth(builder):
    """Columns of the cumulative size of five levels."""
    from arcticdb import col

    for name, columns in SIZES.items():
        total = col(columns[0])
        for column in columns[1:]:
            total = total + col(column)
        builder = builder.apply(f"{name}_depth", total)
    return builder


def add_mid(builder):
    from arcticdb import col

    return builder.apply("mid", (col("b1p") + col("a1p")) / 2)


def extremes(read, start, end, columns: dict[str, tuple[str, str]]):
    """Greatest or least values of each symbol's range: no frame of all symbols is needed for them."""
    import pandas as pd

    wanted = list(dict.fromkeys(of for of, _ in columns.values()))
    parts = {symbol: read.one("books", symbol, start, end, wanted) for symbol in read.symbols}
    rows = [
        {"symbol": symbol} | {name: getattr(part[of], how)() for name, (of, how) in columns.items()}
        for symbol, part in parts.items()
        if len(part)
    ]
    return pd.DataFrame(rows)


def volume(read, p, end, width: str):
    import pandas as pd

    frame = read.all("trades", p.day_start, end, ["side", "amount"])
    frame["side"] = pd.Categorical.from_codes(frame["side"], CODES["side"])
    return plain.volume(frame, width)


def vwap(read, p):
    frame = read.one("trades", "BTC-USD", p.day_start, p.day_end, ["price", "amount"]).rename_axis("timestamp")
    return plain.vwap(frame.reset_index(), "1min")


def top_of_book(read, p, symbol, instant):
    import datetime

    columns = ["b1p", "b1s", "a1p", "a1s"]
    day = datetime.timedelta(days=1)
    # One microsecond more: the range is half open, and the instant belongs to it.
    end = instant + datetime.timedelta(microseconds=1)
    return read.one("books", symbol, instant - day, end, columns).iloc[-1:].rename_axis("timestamp").reset_index()


def depth(read, p):
    means = {"bid_depth": ("b1s", "mean"), "ask_depth": ("a1s", "mean")}
    frame = read.buckets("books", p.day_start, p.week_end, "1min", means)
    return frame[["symbol", "bucket", "bid_depth", "ask_depth"]]


def deep(read, p):
    means = {"bid_depth": "mean", "ask_depth": "mean"}
    frame = read.buckets("books", p.day_start, p.month_end, "1h", means, add_depth)
    return frame[["symbol", "bucket", "bid_depth", "ask_depth"]]


def returns(read, p, end, width: str, table: str = "books"):
    """Closing values by ArcticDB, their returns by pandas."""
    import numpy as np

    if table == "books":
        frame = read.buckets(table, p.day_start, end, width, {"mid": "last"}, add_mid)
    else:
        frame = read.buckets(table, p.day_start, end, width, {"price": "last"})
    value = np.log(frame["mid" if table == "books" else "price"])
    frame["ret"] = value - value.groupby(frame["symbol"], observed=True).shift()
    return frame.loc[frame["ret"].notna(), ["symbol", "bucket", "ret"]]


QUERIES = {
    "T-V1": lambda r, p: volume(r, p, p.day_end, "1min"),
    "T-V2": lambda r, p: volume(r, p, p.month_end, "1D"),
    "T-VWAP": vwap,
    "O-T": top_of_book,
    "O-B1": lambda r, p: extremes(r, p.day_start, p.week_end, {"max_bid": ("b1p", "max")}),
    "O-B2": lambda r, p: extremes(r, p.day_start, p.month_end, {"max_bid": ("b1p", "max")}),
    "O-S": lambda r, p: plain.spread(r.all("books", p.day_start, p.day_end, ["b1p", "a1p"])),
    "O-V1": depth,
    "O-V2": deep,
    "O-NBBO": lambda r, p: extremes(
        r, p.nbbo_start, p.nbbo_end, {"best_bid": ("b1p", "max"), "best_ask": ("a1p", "min")}
    ),
    "C-R": lambda r, p: returns(r, p, p.day_end, "5min"),
    "C-VT": lambda r, p: plain.volatility(returns(r, p, p.day_end, "5min", "trades"), "1h"),
    "C-VO1": lambda r, p: plain.volatility(returns(r, p, p.day_end, "5min"), "1h"),
    "C-VO2": lambda r, p: plain.volatility(returns(r, p, p.week_end, "1h"), "4h"),
}
