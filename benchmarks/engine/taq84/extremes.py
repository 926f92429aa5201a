"""Rows equal to the extreme of their group, the first row that reaches it, smallest prices."""

from ..polars_words import BID, OFFER, PRICE, column, pl
from ..question import Question
from .groups import BUSY, FIFTY, RARE, THOUSAND, WHERE, WHOLE, chosen, rows, scope

COLUMNS = "Symbol, Sequence_Number, Time, Exchange, Trade_Price, Trade_Volume"
ROW = ("Symbol", "Sequence_Number")


def questions(parameters) -> list[Question]:
    return [
        at_extreme(54, FIFTY, "Trade_Price", "max", "Symbol", "the trades at a symbol's high of the day"),
        at_extreme(55, THOUSAND, "Trade_Price", "min", "Symbol", "the trades at a symbol's low of the day"),
        at_extreme(56, WHOLE, "Trade_Volume", "max", "Symbol", "the largest trades of each symbol"),
        at_extreme(57, BUSY, "Trade_Volume", "max", "Exchange", "the largest trades on each exchange"),
        at_extreme(
            58,
            FIFTY,
            "Trade_Price",
            "min",
            "Symbol",
            "the trades at a symbol's low, in order of time",
            "Time, Symbol, Sequence_Number",
        ),
        first_reach(59, RARE),
        first_reach(60, BUSY),
        smallest(61, THOUSAND),
        smallest(62, WHOLE),
    ]


def at_extreme(number, group, value, extreme, key, asks, order=None) -> Question:
    """Rows in which a value is the extreme of its group."""
    where = scope(group)
    last = f"ORDER BY {order}" if order else ""
    sql = f"SELECT {COLUMNS} FROM trade {where} QUALIFY {value} = {extreme}({value}) OVER (PARTITION BY {key}) {last}"
    # A group and a join: no window has to be sorted.
    duckdb = f"""WITH chosen AS (SELECT {COLUMNS} FROM trade {where})
    SELECT {COLUMNS} FROM chosen SEMI JOIN (SELECT {key}, {extreme}({value}) AS {value} FROM chosen GROUP BY {key}) AS extreme
    USING ({key}, {value}) {last}"""

    def ask(f, p):
        found = (
            rows(f.trade, group, p)
            .select(COLUMNS.split(", "))
            .filter(column(value) == getattr(column(value), extreme)().over(key))
        )
        return found.sort(order.split(", ")) if order else found

    return Question(f"q{number}", group, asks, ROW, sql, ask, duckdb=duckdb, ordered=order is not None)


def first_reach(number, group) -> Question:
    """The first quote on each exchange that reaches the day's high bid, and the one that reaches the low offer."""
    where = WHERE[group]
    ranked = """SELECT '{tag}' AS tag, Exchange, Time, Sequence_Number, {price} AS price,
      row_number() OVER (PARTITION BY Exchange ORDER BY {price} {direction}, Time, Sequence_Number) AS place
      FROM quote WHERE {where}"""
    high = ranked.format(tag="high bid", price="Bid_Price", direction="DESC", where=where)
    low = ranked.format(tag="low offer", price="Offer_Price", direction="ASC", where=where)
    sql = f"""SELECT tag, Exchange, Time, Sequence_Number, price FROM ({high} UNION ALL {low}) AS ranked
    WHERE place = 1 ORDER BY tag, Exchange"""
    reached = """SELECT '{tag}' AS tag, Exchange, arg_min(Time, number) AS Time,
      arg_min(Sequence_Number, number) AS Sequence_Number, min({price}) AS price FROM chosen JOIN extreme USING (Exchange) WHERE {price} = {extreme} GROUP BY Exchange"""
    duckdb = f"""WITH chosen AS (
      SELECT Exchange, Time, Sequence_Number, Bid_Price, Offer_Price, rowid AS number FROM quote WHERE {where}
    ),
    extreme AS (SELECT Exchange, max(Bid_Price) AS high, min(Offer_Price) AS low FROM chosen GROUP BY Exchange)
    {reached.format(tag="high bid", price="Bid_Price", extreme="high")} UNION ALL
    {reached.format(tag="low offer", price="Offer_Price", extreme="low")} ORDER BY tag, Exchange"""

    def ask(f, p):
        chosen_rows = f.quote.filter(chosen(group, p))

        def reach(tag, price, extreme):
            return (
                chosen_rows.filter(price == extreme.over("Exchange"))
                .group_by("Exchange")
                .agg(column.Time.first(), column.Sequence_Number.first(), price.first().alias("price"))
                .select(pl.lit(tag).alias("tag"), "Exchange", "Time", "Sequence_Number", "price")
            )

        return pl.concat([reach("high bid", BID, BID.max()), reach("low offer", OFFER, OFFER.min())]).sort(
            "tag", "Exchange"
        )

    return Question(
        f"q{number}",
        group,
        "first quote on each exchange at the day's high bid and low offer",
        ("tag", "Exchange"),
        sql,
        ask,
        duckdb=duckdb,
        ordered=True,
    )


def smallest(number, group) -> Question:
    where = scope(group)
    sql = f"SELECT Symbol, min(Trade_Price) AS low FROM trade {where} GROUP BY Symbol ORDER BY Symbol"
    return Question(
        f"q{number}",
        group,
        "lowest price of each symbol",
        ("Symbol",),
        sql,
        lambda f, p: rows(f.trade, group, p).group_by("Symbol").agg(PRICE.min().alias("low")).sort("Symbol"),
        ordered=True,
    )
