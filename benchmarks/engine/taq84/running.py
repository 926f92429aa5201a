"""Rolling means, running sums, running VWAP, runs of equal price.

Ties in time are in the order of arrival, which is that of the table: SplayDB's texts order by time alone, DuckDB's by rowid.
"""

from ..polars_words import MID, PRICE, VOLUME, column
from ..question import Question
from .groups import BUSY, FIFTY, RARE, THOUSAND, WHERE, WHOLE, chosen, rows, scope

ROW = ("Symbol", "Sequence_Number")


def questions(parameters) -> list[Question]:
    return [
        rolling(44, RARE, "trade", "Trade_Price", PRICE, 20, "mean price of its last 20 trades, at each"),
        rolling(45, FIFTY, "trade", "Trade_Price", PRICE, 20, "mean price of a symbol's last 20 trades, at each"),
        rolling(46, BUSY, "quote", "0.5 * (Bid_Price + Offer_Price)", MID, 5, "mean mid of its last 5 quotes, at each"),
        rolling(47, WHOLE, "trade", "Trade_Price", PRICE, 5, "mean price of a symbol's last 5 trades, at each"),
        running_sum(48, BUSY),
        running_sum(49, THOUSAND),
        running_vwap(50, RARE),
        running_vwap(51, FIFTY),
        price_runs(52, RARE),
        price_runs(53, BUSY),
    ]


def by_symbol(group, text) -> tuple[str, str]:
    """SplayDB's and DuckDB's text of a window by symbol; where there is one symbol it need not be named."""
    where = scope(group)
    by = "" if group in (RARE, BUSY) else "PARTITION BY Symbol "
    return tuple(text.format(where=where, by=f"{by}ORDER BY {order}") for order in ("Time", "rowid"))


def rolling(number, group, table, value, polars, width, asks) -> Question:
    sql, duckdb = by_symbol(
        group,
        f"""SELECT Symbol, Sequence_Number, Time,
    avg({value}) OVER ({{by}} ROWS BETWEEN {width - 1} PRECEDING AND CURRENT ROW) AS mean FROM {table} {{where}}""",
    )

    def ask(f, p):
        mean = polars.rolling_mean(width, min_samples=1)
        mean = mean if group in (RARE, BUSY) else mean.over("Symbol")
        return rows(getattr(f, table), group, p).select(*ROW, "Time", mean.alias("mean"))

    return Question(f"q{number}", group, asks, ROW, sql, ask, duckdb=duckdb)


def running_sum(number, group) -> Question:
    sql, duckdb = by_symbol(
        group,
        """SELECT Symbol, Sequence_Number, Time,
    sum(Trade_Volume) OVER ({by} ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS volume FROM trade {where}""",
    )

    def ask(f, p):
        total = VOLUME.cum_sum() if group == BUSY else VOLUME.cum_sum().over("Symbol")
        return rows(f.trade, group, p).select(*ROW, "Time", total.alias("volume"))

    return Question(f"q{number}", group, "volume so far, at each trade", ROW, sql, ask, duckdb=duckdb)


def running_vwap(number, group) -> Question:
    sql, duckdb = by_symbol(
        group,
        """SELECT Symbol, Sequence_Number, Time,
    sum(Trade_Price * Trade_Volume) OVER ({by} ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)
    / sum(Trade_Volume) OVER ({by} ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS vwap FROM trade {where}""",
    )

    def ask(f, p):
        value, volume = (PRICE * VOLUME).cum_sum(), VOLUME.cum_sum()
        vwap = value / volume if group == RARE else value.over("Symbol") / volume.over("Symbol")
        return rows(f.trade, group, p).select(*ROW, "Time", vwap.alias("vwap"))

    return Question(f"q{number}", group, "VWAP so far, at each trade", ROW, sql, ask, duckdb=duckdb)


def price_runs(number, group) -> Question:
    """Volume of each run of trades at one price."""
    where = WHERE[group]
    sql = f"""SELECT run, min(Time) AS since, min(Trade_Price) AS price, sum(Trade_Volume) AS volume FROM (
      SELECT Time, Trade_Price, Trade_Volume,
        sum(CASE WHEN changed THEN 1 ELSE 0 END) OVER (ORDER BY Time ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS run
      FROM (
        SELECT Time, Trade_Price, Trade_Volume, differ(Trade_Price) OVER (ORDER BY Time) AS changed
        FROM trade WHERE {where}
      ) AS marked
    ) AS numbered GROUP BY run ORDER BY run"""
    duckdb = f"""SELECT run::BIGINT AS run, min(Time) AS since, min(Trade_Price) AS price, sum(Trade_Volume)::BIGINT AS volume
    FROM (
      SELECT Time, Trade_Price, Trade_Volume, sum(changed::INT) OVER (ORDER BY number ROWS UNBOUNDED PRECEDING) AS run
      FROM (SELECT Time, Trade_Price, Trade_Volume, rowid AS number,
        Trade_Price IS DISTINCT FROM lag(Trade_Price) OVER (ORDER BY rowid) AS changed FROM trade WHERE {where})
    ) GROUP BY run ORDER BY run"""

    def ask(f, p):
        return (
            f.trade.filter(chosen(group, p))
            .group_by((PRICE.rle_id().cast(int) + 1).alias("run"))
            .agg(since=column.Time.min(), price=PRICE.min(), volume=VOLUME.sum())
            .sort("run")
        )

    return Question(
        f"q{number}",
        group,
        "volume of each run of trades at one price",
        ("run",),
        sql,
        ask,
        duckdb=duckdb,
        ordered=True,
    )
