"""Sessions, bars of five minutes, weighted sums, deviations, correlations, medians."""

from ..polars_words import BID, BID_SIZE, OFFER, OFFER_SIZE, PRICE, SPREAD, VOLUME, bucket, column, instant, pl
from ..question import Question
from .groups import BUSY, FIFTY, RARE, THOUSAND, WHOLE, rows, scope

SESSIONS = [
    ("0930", "pre-market"),
    ("1000", "open"),
    ("1200", "morning"),
    ("1400", "midday"),
    ("1530", "afternoon"),
    ("1600", "close"),
]
"""Sessions by the time before which they end; after the last is ``after-hours``."""
AFTER = "after-hours"


def questions(parameters) -> list[Question]:
    sessions_ = [
        sessions(63, BUSY, ["session"]),
        sessions(64, FIFTY, ["Symbol", "session"]),
        sessions(65, WHOLE, ["session"]),
    ]
    return [
        *sessions_,
        *(bars(66 + place, group) for place, group in enumerate((RARE, BUSY, FIFTY, WHOLE))),
        *statistics(),
    ]


def sessions(number, group, keys) -> Question:
    """Trades, volume and VWAP by session: buckets of unequal length."""
    cases = " ".join(f"WHEN Time < $t{end} THEN '{name}'" for end, name in SESSIONS)
    names = ", ".join(keys)
    text = """SELECT {names}, count(*) AS trades, sum(Trade_Volume){cast} AS volume, {vwap} AS vwap
    FROM (SELECT Symbol, Trade_Price, Trade_Volume, CASE {cases} ELSE '{after}' END AS session FROM trade {where}) AS cut
    GROUP BY {names} ORDER BY {names}"""
    fill = {"names": names, "cases": cases, "after": AFTER, "where": scope(group)}
    sql = text.format(**fill, cast="", vwap="vwap(Trade_Price, Trade_Volume)")
    duckdb = text.format(**fill, cast="::BIGINT", vwap="sum(Trade_Price * Trade_Volume) / sum(Trade_Volume)")

    def ask(f, p):
        names = pl.Enum(sorted([name for _, name in SESSIONS] + [AFTER]))
        session = pl.lit(AFTER, dtype=names)
        for end, name in reversed(SESSIONS):
            session = pl.when(column.Time < instant(p.time(end))).then(pl.lit(name, dtype=names)).otherwise(session)
        return (
            rows(f.trade, group, p)
            .with_columns(session.alias("session"))
            .group_by(keys)
            .agg(trades=pl.len().cast(pl.Int64), volume=VOLUME.sum(), vwap=(PRICE * VOLUME).sum() / VOLUME.sum())
            .sort(keys)
        )

    return Question(
        f"q{number}",
        group,
        f"trades, volume and VWAP by {' and '.join(keys)}".lower(),
        tuple(keys),
        sql,
        ask,
        duckdb=duckdb,
        ordered=True,
    )


def bars(number, group) -> Question:
    """Open, high, low, close and volume of five minutes."""
    text = """SELECT Symbol, time_bucket(INTERVAL '5 minutes', Time) AS bucket, {first} AS open, max(Trade_Price) AS high,
    min(Trade_Price) AS low, {last} AS close, sum(Trade_Volume) AS volume
    FROM trade {where} GROUP BY Symbol, bucket ORDER BY Symbol, bucket"""
    sql = text.format(
        first="first(Trade_Price ORDER BY Time)", last="last(Trade_Price ORDER BY Time)", where=scope(group)
    )
    duckdb = text.format(
        first="arg_min(Trade_Price, rowid)", last="arg_max(Trade_Price, rowid)", where=scope(group)
    ).replace("sum(Trade_Volume)", "sum(Trade_Volume)::BIGINT")

    def ask(f, p):
        return (
            rows(f.trade, group, p)
            .group_by("Symbol", bucket("5m"))
            .agg(open=PRICE.first(), high=PRICE.max(), low=PRICE.min(), close=PRICE.last(), volume=VOLUME.sum())
            .sort("Symbol", "bucket")
        )

    return Question(
        f"q{number}", group, "bars of five minutes", ("Symbol", "bucket"), sql, ask, duckdb=duckdb, ordered=True
    )


def grouped(number, group, table, key, value, polars, asks, duckdb=None) -> Question:
    """One value by one key."""
    text = f"SELECT {key}, {{}} AS value FROM {table} {scope(group)} GROUP BY {key} ORDER BY {key}"

    def ask(f, p):
        return rows(getattr(f, table), group, p).group_by(key).agg(polars().alias("value")).sort(key)

    return Question(
        f"q{number}",
        group,
        asks,
        (key,),
        text.format(value),
        ask,
        duckdb=text.format(duckdb) if duckdb else None,
        ordered=True,
    )


def statistics() -> list[Question]:
    median_spread = """SELECT time_bucket(INTERVAL '10 minutes', Time) AS bucket, {}(Offer_Price - Bid_Price) AS value
    FROM quote WHERE Symbol = $busy GROUP BY bucket ORDER BY bucket"""
    return [
        grouped(
            70,
            FIFTY,
            "trade",
            "Symbol",
            "wsum(Trade_Volume, Trade_Price)",
            lambda: (PRICE * VOLUME).sum(),
            "value traded by symbol",
            duckdb="sum(Trade_Price * Trade_Volume)",
        ),
        grouped(
            71,
            THOUSAND,
            "trade",
            "Symbol",
            "sdev(Trade_Price)",
            PRICE.std,
            "sample deviation of the price by symbol",
            duckdb="stddev_samp(Trade_Price)",
        ),
        grouped(
            72,
            BUSY,
            "quote",
            "Exchange",
            "corr(Bid_Price, Offer_Price)",
            lambda: pl.corr(BID, OFFER),
            "correlation of bid and offer by exchange",
        ),
        grouped(
            73,
            WHOLE,
            "quote",
            "Symbol",
            "corr(Bid_Size, Offer_Size)",
            lambda: pl.corr(BID_SIZE, OFFER_SIZE),
            "correlation of the sizes by symbol",
        ),
        grouped(
            74,
            RARE,
            "quote",
            "Exchange",
            "corr(Bid_Price, Offer_Price)",
            lambda: pl.corr(BID, OFFER),
            "correlation of bid and offer by exchange",
        ),
        grouped(
            75,
            WHOLE,
            "trade",
            "Exchange",
            "med(Trade_Volume)",
            VOLUME.median,
            "median volume by exchange",
            duckdb="median(Trade_Volume)",
        ),
        grouped(
            76,
            FIFTY,
            "trade",
            "Symbol",
            "med(Trade_Price)",
            PRICE.median,
            "median price by symbol",
            duckdb="median(Trade_Price)",
        ),
        Question(
            "q77",
            BUSY,
            "median spread by ten minutes",
            ("bucket",),
            median_spread.format("med"),
            lambda f, p: (
                rows(f.quote, BUSY, p).group_by(bucket("10m")).agg(SPREAD.median().alias("value")).sort("bucket")
            ),
            duckdb=median_spread.format("median"),
            ordered=True,
        ),
        grouped(
            78,
            THOUSAND,
            "trade",
            "Symbol",
            "med(Trade_Volume)",
            VOLUME.median,
            "median volume by symbol",
            duckdb="median(Trade_Volume)",
        ),
    ]
