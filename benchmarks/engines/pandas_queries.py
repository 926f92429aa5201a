"""The fourteen queries in pandas: for pandas itself, and for engines that read columns and leave the rest to pandas.

Each takes ``tables["trades"]`` and ``tables["books"]``, frames in the order of arrival, so that times rise and a range of time
is a slice. The pieces below take frames that hold the range already.
"""

import numpy as np

KEYS = {"observed": True, "sort": True}
"""Categories that don't occur give no rows; answers come in the order of their keys."""


def between(frame, start, end):
    return frame.iloc[slice(*frame["timestamp"].searchsorted([start, end]))]


def bucket(times, width: str):
    """The start of each time's bucket, under the name ``bucket``."""
    return times.dt.floor(width).rename("bucket")


def volume(trades, width: str):
    keys = [trades["symbol"], trades["side"], bucket(trades["timestamp"], width)]
    return trades["amount"].groupby(keys, **KEYS).sum().rename("volume").reset_index()


def vwap(trades, width: str):
    """Of one symbol's trades."""
    sums = (
        trades.assign(value=trades["price"] * trades["amount"])[["value", "amount"]]
        .groupby(bucket(trades["timestamp"], width), **KEYS)
        .sum()
    )
    return (sums["value"] / sums["amount"]).rename("vwap").reset_index()


def depth(books, levels: int, width: str):
    sizes = {
        f"{name}_depth": sum(books[f"{side}{level}s"] for level in range(1, levels + 1))
        for name, side in (("bid", "b"), ("ask", "a"))
    }
    keys = [books["symbol"], bucket(books["timestamp"], width)]
    return books.assign(**sizes)[list(sizes)].groupby(keys, **KEYS).mean().reset_index()


def returns(frame, value, width: str):
    """Logarithmic returns of closing values by symbol and bucket; ``value`` is a column of the frame."""
    keys = [frame["symbol"], bucket(frame["timestamp"], width)]
    closes = np.log(value.groupby(keys, **KEYS).last()).rename("ret").reset_index()
    closes["ret"] = closes["ret"] - closes.groupby("symbol", observed=True)["ret"].shift()
    return closes[closes["ret"].notna()]


def volatility(found, width: str):
    """The sample deviation of returns by coarse bucket."""
    coarse = found["bucket"].dt.floor(width).rename("coarse")
    return found["ret"].groupby([found["symbol"], coarse], **KEYS).std().rename("volatility").reset_index()


def mid(books):
    return (books["b1p"] + books["a1p"]) / 2


def day(tables, p, table):
    return between(tables[table], p.day_start, p.day_end)


def week(tables, p, table):
    return between(tables[table], p.day_start, p.week_end)


def month(tables, p, table):
    return between(tables[table], p.day_start, p.month_end)


def highest_bid(books):
    return books.groupby("symbol", **KEYS)["b1p"].max().rename("max_bid").reset_index()


def best(books):
    return books.groupby("symbol", **KEYS).agg(best_bid=("b1p", "max"), best_ask=("a1p", "min")).reset_index()


def spread(books):
    return books[["symbol", "timestamp"]].assign(spread=books["a1p"] - books["b1p"])


def top_of_book(tables, p, symbol, instant):
    books = tables["books"]
    end = books["timestamp"].searchsorted(instant, side="right")
    # Back from the end until the symbol is found: a few thousand rows are enough for any of three.
    for start in (max(0, end - 4_096), 0):
        rows = books.iloc[start:end]
        found = rows[rows["symbol"] == symbol].iloc[-1:]
        if len(found):
            break
    return found[["timestamp", "b1p", "b1s", "a1p", "a1s"]]


def btc(trades):
    return trades[trades["symbol"] == "BTC-USD"]


def mid_returns(books, width: str):
    return returns(books, mid(books), width)


def price_returns(trades, width: str):
    return returns(trades, trades["price"], width)


QUERIES = {
    "T-V1": lambda t, p: volume(day(t, p, "trades"), "1min"),
    "T-V2": lambda t, p: volume(month(t, p, "trades"), "1D"),
    "T-VWAP": lambda t, p: vwap(btc(day(t, p, "trades")), "1min"),
    "O-T": top_of_book,
    "O-B1": lambda t, p: highest_bid(week(t, p, "books")),
    "O-B2": lambda t, p: highest_bid(month(t, p, "books")),
    "O-S": lambda t, p: spread(day(t, p, "books")),
    "O-V1": lambda t, p: depth(week(t, p, "books"), 1, "1min"),
    "O-V2": lambda t, p: depth(month(t, p, "books"), 5, "1h"),
    "O-NBBO": lambda t, p: best(between(t["books"], p.nbbo_start, p.nbbo_end)),
    "C-R": lambda t, p: mid_returns(day(t, p, "books"), "5min"),
    "C-VT": lambda t, p: volatility(price_returns(day(t, p, "trades"), "5min"), "1h"),
    "C-VO1": lambda t, p: volatility(mid_returns(day(t, p, "books"), "5min"), "1h"),
    "C-VO2": lambda t, p: volatility(mid_returns(week(t, p, "books"), "1h"), "4h"),
}
