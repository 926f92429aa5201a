"""The fourteen queries of "Benchmarking Specialized Databases for High-frequency Data" (Barez, Bilokon, Xiong).

One meaning for each where the paper leaves room: ranges are half open, buckets start at multiples of their width since 1970,
closing values are those of the last row to arrive, volatility is the sample deviation of the logarithmic returns that end in
the bucket, one return being null.
"""

from ..ask import ask
from ..parameters import CryptoParameters
from ..polars_words import column, instant
from ..question import Question
from ..report import as_json, suite

TITLE = "crypto14: the fourteen queries of a published study, on a month of crypto trades and books"
TRADES, BOOKS, RETURNS = "trades", "books", "returns"


def run(run) -> tuple[list[str], dict]:
    """Asks them all."""
    tables = run.data.crypto()
    parameters = CryptoParameters(run.seed)
    systems = run.systems(tables)
    asked = [question for question in questions(parameters) if run.wanted(question.id)]
    outcomes = [run.tell(ask(question, parameters, systems, run.rounds)) for question in asked]
    return suite(f"{TITLE} ({run.size(tables)})", outcomes, run.names), as_json(outcomes, run.names)


def questions(parameters) -> list[Question]:
    return [
        volume("T-V1", "1 minute", "1m", "day_end", "volume by symbol, side and minute of a day"),
        volume("T-V2", "1 day", "1d", "month_end", "volume by symbol, side and day of a month"),
        vwap(),
        top_of_book(parameters),
        highest_bid("O-B1", "week_end", "highest bid of each symbol in a week"),
        highest_bid("O-B2", "month_end", "highest bid of each symbol in a month"),
        spread(),
        depth("O-V1", 1, "1 minute", "1m", "week_end", "depth of one level by symbol and minute of a week"),
        depth("O-V2", 5, "1 hour", "1h", "month_end", "depth of five levels by symbol and hour of a month"),
        best(),
        returns(),
        volatility(
            "C-VT",
            "trades",
            "price",
            column.price,
            ("5 minutes", "5m"),
            ("1 hour", "1h"),
            "day_end",
            "volatility by hour of five-minute returns of trades in a day",
        ),
        volatility(
            "C-VO1",
            "books",
            "(b1p + a1p) / 2",
            MID,
            ("5 minutes", "5m"),
            ("1 hour", "1h"),
            "day_end",
            "volatility by hour of five-minute mid returns in a day",
        ),
        volatility(
            "C-VO2",
            "books",
            "(b1p + a1p) / 2",
            MID,
            ("1 hour", "1h"),
            ("4 hours", "4h"),
            "week_end",
            "volatility by four hours of hourly mid returns in a week",
        ),
    ]


MID = (column.b1p + column.a1p) / 2


def within(parameters, end: str, start: str = "day_start"):
    return (column.timestamp >= instant(getattr(parameters, start))) & (
        column.timestamp < instant(getattr(parameters, end))
    )


def rows(frames, table: str, parameters, end: str, start: str = "day_start"):
    """A range of time for Polars: of frames that find it by themselves, otherwise by a filter."""
    if hasattr(frames, "between"):
        return frames.between(table, getattr(parameters, start), getattr(parameters, end))
    return getattr(frames, table).filter(within(parameters, end, start))


def cut(width: str):
    return column.timestamp.dt.truncate(width).alias("bucket")


def volume(id, width, short, end, asks) -> Question:
    sql = f"""SELECT symbol, side, time_bucket(INTERVAL '{width}', timestamp) AS bucket, sum(amount) AS volume FROM trades
    WHERE timestamp >= $day_start AND timestamp < ${end} GROUP BY symbol, side, bucket ORDER BY symbol, side, bucket"""
    keys = ("symbol", "side", "bucket")
    return Question(
        id,
        TRADES,
        asks,
        keys,
        sql,
        lambda f, p: (
            rows(f, "trades", p, end)
            .group_by("symbol", "side", cut(short))
            .agg(column.amount.sum().alias("volume"))
            .sort(keys)
        ),
        ordered=True,
    )


def vwap() -> Question:
    text = """SELECT time_bucket(INTERVAL '1 minute', timestamp) AS bucket, {} AS vwap FROM trades
    WHERE symbol = 'BTC-USD' AND timestamp >= $day_start AND timestamp < $day_end GROUP BY bucket ORDER BY bucket"""
    return Question(
        "T-VWAP",
        TRADES,
        "VWAP of one symbol by minute of a day",
        ("bucket",),
        text.format("vwap(price, amount)"),
        lambda f, p: (
            rows(f, "trades", p, "day_end")
            .filter(column.symbol == "BTC-USD")
            .group_by(cut("1m"))
            .agg(((column.price * column.amount).sum() / column.amount.sum()).alias("vwap"))
            .sort("bucket")
        ),
        duckdb=text.format("sum(price * amount) / sum(amount)"),
        ordered=True,
    )


def top_of_book(parameters) -> Question:
    columns = ["timestamp", "b1p", "b1s", "a1p", "a1s"]
    # Books of one instant are told apart by their arrival, so the last one is asked for, not the top of a sort.
    last = ", ".join(f"last({name} ORDER BY timestamp) AS {name}" for name in columns)
    sql = f"SELECT {last} FROM books WHERE symbol = $symbol AND timestamp <= $instant"
    # DuckDB reads a day at most: the data has a row there, as a client would know. A top of one beats five `arg_max` fourfold.
    duckdb = f"""SELECT {", ".join(columns)} FROM books WHERE symbol = $symbol AND timestamp <= $instant
    AND timestamp > $instant - INTERVAL 1 DAY ORDER BY timestamp DESC, rowid DESC LIMIT 1"""
    return Question(
        "O-T",
        BOOKS,
        "best bid and offer of a symbol at an instant",
        ("timestamp",),
        sql,
        lambda f, p, symbol, instant: (
            f.latest("books", symbol, instant, columns)
            if hasattr(f, "latest")
            else f.books.filter((column.symbol == symbol) & (column.timestamp <= at(instant))).select(columns).last()
        ),
        duckdb=duckdb,
        variants=tuple(parameters.instants),
    )


at = instant


def highest_bid(id, end, asks) -> Question:
    sql = f"""SELECT symbol, max(b1p) AS max_bid FROM books
    WHERE timestamp >= $day_start AND timestamp < ${end} GROUP BY symbol ORDER BY symbol"""
    return Question(
        id,
        BOOKS,
        asks,
        ("symbol",),
        sql,
        lambda f, p: (
            rows(f, "books", p, end).group_by("symbol").agg(column.b1p.max().alias("max_bid")).sort("symbol")
        ),
        ordered=True,
    )


def spread() -> Question:
    sql = "SELECT symbol, timestamp, a1p - b1p AS spread FROM books WHERE timestamp >= $day_start AND timestamp < $day_end"
    # Books of a symbol may have equal times.
    return Question(
        "O-S",
        BOOKS,
        "spread of every book of a day",
        ("symbol", "timestamp"),
        sql,
        bag=True,
        polars=lambda f, p: rows(f, "books", p, "day_end").select(
            "symbol", "timestamp", (column.a1p - column.b1p).alias("spread")
        ),
    )


def depth(id, levels, width, short, end, asks) -> Question:
    def total(side):
        return "+".join(f"{side}{level}s" for level in range(1, levels + 1))

    def summed(side):
        names = [column(f"{side}{level}s") for level in range(1, levels + 1)]
        result = names[0]
        for name in names[1:]:
            result = result + name
        return result

    sql = f"""SELECT symbol, time_bucket(INTERVAL '{width}', timestamp) AS bucket, avg({total("b")}) AS bid_depth,
    avg({total("a")}) AS ask_depth FROM books
    WHERE timestamp >= $day_start AND timestamp < ${end} GROUP BY symbol, bucket ORDER BY symbol, bucket"""
    keys = ("symbol", "bucket")
    return Question(
        id,
        BOOKS,
        asks,
        keys,
        sql,
        lambda f, p: (
            rows(f, "books", p, end)
            .group_by("symbol", cut(short))
            .agg(bid_depth=summed("b").mean(), ask_depth=summed("a").mean())
            .sort(keys)
        ),
        ordered=True,
    )


def best() -> Question:
    sql = """SELECT symbol, max(b1p) AS best_bid, min(a1p) AS best_ask FROM books
    WHERE timestamp >= $nbbo_start AND timestamp < $nbbo_end GROUP BY symbol ORDER BY symbol"""
    return Question(
        "O-NBBO",
        BOOKS,
        "best bid and offer of a day over five exchanges",
        ("symbol",),
        sql,
        lambda f, p: (
            rows(f, "books", p, "nbbo_end", "nbbo_start")
            .group_by("symbol")
            .agg(best_bid=column.b1p.max(), best_ask=column.a1p.min())
            .sort("symbol")
        ),
        ordered=True,
    )


CLOSES = """SELECT symbol, time_bucket(INTERVAL '{width}', timestamp) AS bucket, {close} AS close FROM {table}
WHERE timestamp >= $day_start AND timestamp < ${end} GROUP BY symbol, time_bucket(INTERVAL '{width}', timestamp)"""
RETURN = "ln(close) - ln(lag(close) OVER (PARTITION BY symbol ORDER BY bucket)) AS ret"


def closes(table, value, width, end) -> tuple[str, str]:
    """Closing values by bucket: SplayDB's and DuckDB's text."""
    return tuple(
        CLOSES.format(width=width, close=close, table=table, end=end)
        for close in (f"last({value} ORDER BY timestamp)", f"arg_max({value}, rowid)")
    )


def polars_returns(frame, value, width):
    """Returns of closing values; the first of each symbol is null."""
    log = column.close.log()
    return (
        frame.group_by("symbol", cut(width))
        .agg(value.last().alias("close"))
        .sort("symbol", "bucket")
        .select("symbol", "bucket", (log - log.shift().over("symbol")).alias("ret"))
    )


def returns() -> Question:
    text = f"""SELECT symbol, bucket, ret FROM (SELECT symbol, bucket, {RETURN} FROM ({{}}) AS closes) AS returns
    WHERE ret IS NOT NULL ORDER BY symbol, bucket"""
    sql, duckdb = (text.format(inner) for inner in closes("books", "(b1p + a1p) / 2", "5 minutes", "day_end"))
    return Question(
        "C-R",
        RETURNS,
        "five-minute mid returns of a day",
        ("symbol", "bucket"),
        sql,
        lambda f, p: polars_returns(rows(f, "books", p, "day_end"), MID, "5m").filter(column.ret.is_not_null()),
        duckdb=duckdb,
        ordered=True,
    )


def volatility(id, table, value, polars, fine, coarse, end, asks) -> Question:
    text = f"""SELECT symbol, time_bucket(INTERVAL '{coarse[0]}', bucket) AS coarse, stddev_samp(ret) AS volatility
    FROM (SELECT symbol, bucket, {RETURN} FROM ({{}}) AS closes) AS returns
    WHERE ret IS NOT NULL GROUP BY symbol, coarse ORDER BY symbol, coarse"""
    sql, duckdb = (text.format(inner) for inner in closes(table, value, fine[0], end))

    def ask(f, p):
        found = polars_returns(rows(f, table, p, end), polars, fine[1])
        return (
            found.filter(column.ret.is_not_null())
            .group_by("symbol", column.bucket.dt.truncate(coarse[1]).alias("coarse"))
            .agg(volatility=column.ret.std())
            .sort("symbol", "coarse")
        )

    return Question(id, RETURNS, asks, ("symbol", "coarse"), sql, ask, duckdb=duckdb, ordered=True)
