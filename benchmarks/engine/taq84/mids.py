"""Mids: by ten minutes, weighted by the liquidity of both sides, pivoted with the last value carried on; first sizes a minute."""

from ..polars_words import BID, BID_SIZE, MID, OFFER_SIZE, WEIGHTED_MID, bucket, column
from ..question import Question
from .groups import BUSY, FIFTY, RARE, THOUSAND, WHERE, WHOLE, chosen, rows, scope

EXCHANGES = ["N", "P", "Z", "K"]
"""Exchanges that are pivoted; every simulated symbol is quoted on the first three."""


def questions(parameters) -> list[Question]:
    weighted = [weighted_mid(18 + place, group) for place, group in enumerate((RARE, BUSY, FIFTY, THOUSAND))]
    plain = [plain_mid(22 + place, group) for place, group in enumerate((RARE, BUSY, FIFTY, WHOLE))]
    pivots = [pivot_by_exchange(26, RARE), pivot_by_exchange(27, BUSY), pivot_by_symbol(28, parameters)]
    first = [first_sizes(29 + place, group) for place, group in enumerate((RARE, BUSY, FIFTY))]
    return [*weighted, *plain, *pivots, *first]


def by_bucket(number, group, asks, value, polars) -> Question:
    """An average by symbol and ten minutes."""
    where = scope(group)
    sql = f"""SELECT Symbol, time_bucket(INTERVAL '10 minutes', Time) AS bucket, avg({value}) AS mid
    FROM quote {where} GROUP BY Symbol, bucket ORDER BY Symbol, bucket"""

    def ask(f, p):
        return (
            rows(f.quote, group, p)
            .group_by("Symbol", bucket("10m"))
            .agg(polars.mean().alias("mid"))
            .sort("Symbol", "bucket")
        )

    return Question(f"q{number}", group, asks, ("Symbol", "bucket"), sql, ask, ordered=True)


def weighted_mid(number, group) -> Question:
    value = "(Bid_Price * Offer_Size + Offer_Price * Bid_Size) / (Bid_Size + Offer_Size)"
    return by_bucket(number, group, "liquidity-weighted mid by ten minutes", value, WEIGHTED_MID)


def plain_mid(number, group) -> Question:
    return by_bucket(number, group, "average mid by ten minutes", "0.5 * (Bid_Price + Offer_Price)", MID)


def pivot_by_exchange(number, group) -> Question:
    """The last bid of a minute on each of four exchanges, a column each; minutes without one repeat the one before."""
    names = [f"bid_{exchange.lower()}" for exchange in EXCHANGES]
    where = WHERE[group]
    filled = ", ".join(f"fills({name}) OVER (ORDER BY bucket) AS {name}" for name in names)
    last = ", ".join(
        f"last(Bid_Price ORDER BY Time) FILTER (WHERE Exchange = '{code}') AS {name}"
        for code, name in zip(EXCHANGES, names)
    )
    sql = f"""SELECT bucket, {filled} FROM (
      SELECT time_bucket(INTERVAL '1 minute', Time) AS bucket, {last} FROM quote WHERE {where} GROUP BY bucket
    ) AS minutes ORDER BY bucket"""
    filled = ", ".join(f"last_value({name} IGNORE NULLS) OVER (ORDER BY bucket) AS {name}" for name in names)
    last = ", ".join(
        f"arg_max(Bid_Price, rowid) FILTER (WHERE Exchange = '{code}') AS {name}"
        for code, name in zip(EXCHANGES, names)
    )
    duckdb = f"""SELECT bucket, {filled} FROM (
      SELECT time_bucket(INTERVAL '1 minute', Time) AS bucket, {last} FROM quote WHERE {where} GROUP BY bucket
    ) ORDER BY bucket"""

    def ask(f, p):
        last = [BID.filter(column.Exchange == code).last().alias(name) for code, name in zip(EXCHANGES, names)]
        return (
            f.quote.filter(chosen(group, p))
            .group_by(bucket("1m"))
            .agg(last)
            .sort("bucket")
            .with_columns(column(name).forward_fill() for name in names)
        )

    return Question(
        f"q{number}",
        group,
        "last bid by minute, an exchange a column, gaps filled from before",
        ("bucket",),
        sql,
        ask,
        duckdb=duckdb,
        ordered=True,
    )


def pivot_by_symbol(number, parameters) -> Question:
    """The last mid of five minutes, a symbol a column."""
    names = {symbol: f"mid_{place}" for place, symbol in enumerate(parameters.fifty)}
    quoted = {symbol: symbol.replace("'", "''") for symbol in names}
    filled = ", ".join(f"fills({name}) OVER (ORDER BY bucket) AS {name}" for name in names.values())
    last = ", ".join(
        f"last(0.5 * (Bid_Price + Offer_Price) ORDER BY Time) FILTER (WHERE Symbol = '{quoted[symbol]}') AS {name}"
        for symbol, name in names.items()
    )
    sql = f"""SELECT bucket, {filled} FROM (
      SELECT time_bucket(INTERVAL '5 minutes', Time) AS bucket, {last} FROM quote WHERE Symbol IN ($fifty) GROUP BY bucket
    ) AS pivoted ORDER BY bucket"""
    filled = ", ".join(f"last_value({name} IGNORE NULLS) OVER (ORDER BY bucket) AS {name}" for name in names.values())
    last = ", ".join(f"max(mid) FILTER (WHERE Symbol = '{quoted[symbol]}') AS {name}" for symbol, name in names.items())
    duckdb = f"""SELECT bucket, {filled} FROM (
      SELECT bucket, {last} FROM (
        SELECT Symbol, time_bucket(INTERVAL '5 minutes', Time) AS bucket, arg_max(0.5 * (Bid_Price + Offer_Price), rowid) AS mid
        FROM quote WHERE Symbol IN ($fifty) GROUP BY ALL
      ) GROUP BY bucket
    ) ORDER BY bucket"""

    def ask(f, p):
        last = f.quote.filter(chosen(FIFTY, p)).group_by("Symbol", bucket("5m")).agg(MID.last().alias("mid"))
        columns = [column.mid.filter(column.Symbol == symbol).first().alias(name) for symbol, name in names.items()]
        return (
            last.group_by("bucket")
            .agg(columns)
            .sort("bucket")
            .with_columns(column(name).forward_fill() for name in names.values())
        )

    return Question(
        f"q{number}",
        FIFTY,
        "last mid by five minutes, a symbol a column, gaps filled from before",
        ("bucket",),
        sql,
        ask,
        duckdb=duckdb,
        ordered=True,
    )


def first_sizes(number, group) -> Question:
    """First sizes of each minute and their imbalance."""
    sql = f"""SELECT Symbol, bucket, bid_size, offer_size,
      (bid_size - offer_size) / CAST(bid_size + offer_size AS DOUBLE) AS imbalance
    FROM (
      SELECT Symbol, time_bucket(INTERVAL '1 minute', Time) AS bucket, first(Bid_Size ORDER BY Time) AS bid_size,
        first(Offer_Size ORDER BY Time) AS offer_size
      FROM quote WHERE {WHERE[group]} GROUP BY Symbol, bucket
    ) AS minutes ORDER BY Symbol, bucket"""
    duckdb = f"""SELECT Symbol, bucket, bid_size, offer_size,
      (bid_size - offer_size) / (bid_size + offer_size)::DOUBLE AS imbalance
    FROM (
      SELECT Symbol, time_bucket(INTERVAL '1 minute', Time) AS bucket, arg_min(Bid_Size, rowid) AS bid_size,
        arg_min(Offer_Size, rowid) AS offer_size
      FROM quote WHERE {WHERE[group]} GROUP BY ALL
    ) ORDER BY Symbol, bucket"""

    def ask(f, p):
        first = (
            f.quote.filter(chosen(group, p))
            .group_by("Symbol", bucket("1m"))
            .agg(BID_SIZE.first().alias("bid_size"), OFFER_SIZE.first().alias("offer_size"))
            .sort("Symbol", "bucket")
        )
        return first.with_columns(
            imbalance=(column.bid_size - column.offer_size) / (column.bid_size + column.offer_size)
        )

    return Question(
        f"q{number}",
        group,
        "first sizes of each minute and their imbalance",
        ("Symbol", "bucket"),
        sql,
        ask,
        duckdb=duckdb,
        ordered=True,
    )
