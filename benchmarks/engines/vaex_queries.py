"""The fourteen queries in Vaex. Frames are in the order of symbol, time and arrival; codes and times are integers."""

import numpy as np

from .rows import CODES

SYMBOLS = CODES["symbol"]
WIDTHS = {"1min": 60, "5min": 300, "1h": 3_600, "4h": 14_400, "1D": 86_400}


def nanoseconds(instant) -> int:
    """Exact, where a float of seconds is not."""
    import pandas as pd

    return pd.Timestamp(instant).value


def bounds(frame, code: int, start: int, end: int) -> tuple[int, int]:
    """The rows of a symbol in [start, end), by binary search in the mapped columns."""
    symbols, times = (frame.columns[name] for name in ("symbol", "timestamp"))
    first, last = np.searchsorted(symbols, [code, code + 1])
    low, high = np.searchsorted(times[first:last], [start, end])
    return int(first + low), int(first + high)


def slices(frame, start, end) -> list:
    """Each symbol's rows of a range, with its code; symbols without rows are left out."""
    start, end = nanoseconds(start), nanoseconds(end)
    found = []
    for code in range(len(SYMBOLS)):
        low, high = bounds(frame, code, start, end)
        if high > low:
            found.append((code, frame[low:high]))
    return found


def bucketed(part, width: str):
    """The rows with their bucket, a whole number of widths since 1970."""
    part = part.copy()
    part["bucket"] = part.timestamp // (WIDTHS[width] * 1_000_000_000)
    return part


def grouped(found, keys: list[str], aggregates, width: str | None = None):
    """Groups of each symbol by Vaex, put together by pandas: codes as text, buckets as times, in the order of the keys."""
    import pandas as pd

    frames = []
    for code, part in found:
        part = bucketed(part, width) if width else part
        frame = part.groupby(keys, agg=aggregates, sort=True).to_pandas_df()
        frame.insert(0, "symbol", SYMBOLS[code])
        frames.append(frame)
    frame = pd.concat(frames, ignore_index=True)
    if "side" in keys:
        frame["side"] = np.array(CODES["side"])[frame["side"]]
    if width:
        frame["bucket"] = pd.to_datetime(frame["bucket"].astype("int64") * WIDTHS[width] * 1_000_000_000, utc=True)
    return frame.sort_values(["symbol", *keys], kind="stable", ignore_index=True)


def volume(f, p, end, width: str):
    import vaex

    found = grouped(
        slices(f["trades"], p.day_start, end), ["side", "bucket"], {"volume": vaex.agg.sum("amount")}, width
    )
    return found[["symbol", "side", "bucket", "volume"]]


def vwap(f, p):
    import vaex

    found = [(code, part) for code, part in slices(f["trades"], p.day_start, p.day_end) if SYMBOLS[code] == "BTC-USD"]
    sums = {"value": vaex.agg.sum("price * amount"), "amount": vaex.agg.sum("amount")}
    frame = grouped(found, ["bucket"], sums, "1min")
    return frame.assign(vwap=frame["value"] / frame["amount"])[["bucket", "vwap"]]


def top_of_book(f, p, symbol, instant):
    import pandas as pd

    code = SYMBOLS.index(symbol)
    _, high = bounds(f["books"], code, 0, nanoseconds(instant) + 1)
    # One row of mapped columns: a frame of it would be a pass of Vaex.
    found = {name: f["books"].columns[name][high - 1 : high] for name in ("timestamp", "b1p", "b1s", "a1p", "a1s")}
    return pd.DataFrame(found | {"timestamp": pd.to_datetime(found["timestamp"], utc=True)})


def extremes(f, start, end, columns: dict[str, tuple[str, str]]):
    """Greatest or least values of a range for each symbol."""
    import pandas as pd

    rows = []
    for code, part in slices(f["books"], start, end):
        rows.append(
            {"symbol": SYMBOLS[code]} | {name: float(getattr(part, how)(of)) for name, (how, of) in columns.items()}
        )
    return pd.DataFrame(rows)


def spread(f, p):
    import pandas as pd

    # Every row of the range is wanted: slices of the mapped columns, without a pass of Vaex, and symbols as a category.
    books, start, end = f["books"].columns, nanoseconds(p.day_start), nanoseconds(p.day_end)
    parts = [slice(*bounds(f["books"], code, start, end)) for code in range(len(SYMBOLS))]
    codes = np.repeat(np.arange(len(SYMBOLS)), [part.stop - part.start for part in parts])
    times = np.concatenate([books["timestamp"][part] for part in parts])
    spreads = np.concatenate([books["a1p"][part] - books["b1p"][part] for part in parts])
    symbols = pd.Categorical.from_codes(codes, SYMBOLS)
    return pd.DataFrame({"symbol": symbols, "timestamp": pd.to_datetime(times, utc=True), "spread": spreads})


def depth(f, levels: int, start, end, width: str):
    import vaex

    sums = [" + ".join(f"{side}{level}s" for level in range(1, levels + 1)) for side in "ba"]
    means = {"bid_depth": vaex.agg.mean(sums[0]), "ask_depth": vaex.agg.mean(sums[1])}
    return grouped(slices(f["books"], start, end), ["bucket"], means, width)[["symbol", "bucket", *means]]


def returns(f, table: str, value: str, start, end, width: str):
    """Closing values are those of the greatest row number; logarithms of the few that result are pandas' work."""
    import vaex

    last = {"close": vaex.agg.last(value, "n")}
    frame = grouped(slices(f[table], start, end), ["bucket"], last, width)
    logs = np.log(frame["close"])
    frame["ret"] = logs - logs.groupby(frame["symbol"]).shift()
    return frame.loc[frame["ret"].notna(), ["symbol", "bucket", "ret"]]


def volatility(found, width: str):
    from .pandas_queries import volatility

    return volatility(found, width)


MID = "(b1p + a1p) / 2"
BEST = {"best_bid": ("max", "b1p"), "best_ask": ("min", "a1p")}

QUERIES = {
    "T-V1": lambda f, p: volume(f, p, p.day_end, "1min"),
    "T-V2": lambda f, p: volume(f, p, p.month_end, "1D"),
    "T-VWAP": vwap,
    "O-T": top_of_book,
    "O-B1": lambda f, p: extremes(f, p.day_start, p.week_end, {"max_bid": ("max", "b1p")}),
    "O-B2": lambda f, p: extremes(f, p.day_start, p.month_end, {"max_bid": ("max", "b1p")}),
    "O-S": spread,
    "O-V1": lambda f, p: depth(f, 1, p.day_start, p.week_end, "1min"),
    "O-V2": lambda f, p: depth(f, 5, p.day_start, p.month_end, "1h"),
    "O-NBBO": lambda f, p: extremes(f, p.nbbo_start, p.nbbo_end, BEST),
    "C-R": lambda f, p: returns(f, "books", MID, p.day_start, p.day_end, "5min"),
    "C-VT": lambda f, p: volatility(returns(f, "trades", "price", p.day_start, p.day_end, "5min"), "1h"),
    "C-VO1": lambda f, p: volatility(returns(f, "books", MID, p.day_start, p.day_end, "5min"), "1h"),
    "C-VO2": lambda f, p: volatility(returns(f, "books", MID, p.day_start, p.week_end, "1h"), "4h"),
}
