"""As-of joins: each trade with the quote that stood, by symbol, or by symbol and exchange.

Of quotes at one time the last to arrive stands. DuckDB takes any of them, so a slower text of its own, in which only the last
one is left, defines the answer; the fast text is timed, and the report says in how many rows it differs.
"""

from ..polars_words import VOLUME, between, column, pl
from ..question import Question
from .groups import BUSY, FIFTY, JOINS, RARE, THOUSAND, WHERE, chosen

ROW = ("Symbol", "Sequence_Number")
COLUMNS = """t.Symbol AS Symbol, t.Sequence_Number AS Sequence_Number, t.Time AS Time, t.Trade_Price AS price,
q.Sequence_Number AS quote_number, q.Bid_Price AS bid, q.Offer_Price AS offer"""


def questions(parameters) -> list[Question]:
    near_close = "Time >= $t1550 AND Time < $t1600"
    large = "Trade_Volume >= $large"
    return [
        of_symbols(79, FIFTY, "trades of 50 symbols"),
        of_symbols(80, THOUSAND, "trades of 1,000 rare symbols"),
        of_symbols(81, RARE, "trades of one rare symbol"),
        of_symbols(82, BUSY, "trades of one busy symbol"),
        of_all(83, large, lambda p: p.large <= VOLUME, "large trades of all symbols, by symbol and exchange"),
        of_all(
            84,
            near_close,
            lambda p: between(p, "1550", "1600"),
            "trades of the last ten minutes, by symbol and exchange",
        ),
    ]


def last_of_ties(keys: str, where: str) -> str:
    """Quotes of which none has the time and keys of another, for DuckDB."""
    return f"""(SELECT * FROM quote {where}
    QUALIFY row_number() OVER (PARTITION BY {keys}, Time ORDER BY Sequence_Number DESC) = 1)"""


def of_symbols(number, group, asks) -> Question:
    where = WHERE[group]
    sql = f"""SELECT {COLUMNS} FROM trade AS t ASOF JOIN quote AS q MATCH_CONDITION (t.Time >= q.Time) ON t.Symbol = q.Symbol
    WHERE t.{where}"""
    # One symbol needs no key; both sides are filtered by hand, since the filter is not carried to the right one.
    on = "t.Time >= q.Time" if group in (RARE, BUSY) else "t.Symbol = q.Symbol AND t.Time >= q.Time"
    duckdb = f"""SELECT {COLUMNS} FROM (SELECT * FROM trade WHERE {where}) AS t
    ASOF LEFT JOIN {{right}} AS q ON {on}"""

    def ask(f, p):
        by = None if group in (RARE, BUSY) else "Symbol"
        return joined(f.trade.filter(chosen(group, p)), f.quote.filter(chosen(group, p)), by)

    return Question(
        f"q{number}",
        JOINS,
        asks,
        ROW,
        sql,
        ask,
        duckdb=duckdb.format(right=f"(SELECT * FROM quote WHERE {where})"),
        reference=duckdb.format(right=last_of_ties("Symbol", f"WHERE {where}")),
    )


def of_all(number, where, polars, asks) -> Question:
    on = "t.Symbol = q.Symbol AND t.Exchange = q.Exchange"
    sql = f"""SELECT {COLUMNS} FROM (SELECT * FROM trade WHERE {where}) AS t
    ASOF JOIN quote AS q MATCH_CONDITION (t.Time >= q.Time) ON {on}"""
    duckdb = f"""SELECT {COLUMNS} FROM (SELECT * FROM trade WHERE {where}) AS t
    ASOF LEFT JOIN {{right}} AS q ON {on} AND t.Time >= q.Time"""
    return Question(
        f"q{number}",
        JOINS,
        asks,
        ROW,
        sql,
        lambda f, p: joined(f.trade.filter(polars(p)), f.quote, "both"),
        duckdb=duckdb.format(right="quote"),
        reference=duckdb.format(right=last_of_ties("Symbol, Exchange", "")),
    )


def joined(trades, quotes, by):
    """The frames joined; every frame is sorted by time within its keys. Two keys are made one number, which is faster."""
    left = trades.select("Symbol", "Exchange", "Sequence_Number", "Time", column.Trade_Price.alias("price"))
    right = quotes.select(
        "Symbol",
        "Exchange",
        "Time",
        column.Sequence_Number.alias("quote_number"),
        column.Bid_Price.alias("bid"),
        column.Offer_Price.alias("offer"),
    )
    if by is None:
        found = left.set_sorted("Time").join_asof(right.drop("Symbol", "Exchange").set_sorted("Time"), on="Time")
    elif by == "Symbol":
        found = left.join_asof(right.drop("Exchange"), on="Time", by="Symbol", check_sortedness=False)
    else:
        key = (column.Symbol.to_physical().cast(pl.Int32) * 256 + column.Exchange.to_physical().cast(pl.Int32)).alias(
            "key"
        )
        found = left.with_columns(key).join_asof(
            right.with_columns(key).drop("Symbol", "Exchange"), on="Time", by="key", check_sortedness=False
        )
    return found.select("Symbol", "Sequence_Number", "Time", "price", "quote_number", "bid", "offer")
