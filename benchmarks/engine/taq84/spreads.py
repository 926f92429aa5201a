"""Spreads by exchange, codes mapped to names before grouping, distinct pairs."""

from ..polars_words import BID_SIZE, OFFER_SIZE, SPREAD, VOLUME, column, pl
from ..question import Question
from .groups import BUSY, FIFTY, RARE, THOUSAND, WHOLE, rows, scope

FAMILIES = {
    "NYSE": "NAPCM",
    "Nasdaq": "QTBX",
    "Cboe": "JKYZW",
    "FINRA": "D",
    "IEX": "V",
    "MIAX": "H",
    "MEMX": "U",
    "LTSE": "L",
    "ISE": "I",
    "CTS": "S",
}
"""Owners of the exchanges by code."""
FAMILY_OF = {code: family for family, codes in FAMILIES.items() for code in codes}


def questions(parameters) -> list[Question]:
    return [
        statistics(32, RARE, ["Exchange"]),
        statistics(33, BUSY, ["Exchange"]),
        statistics(34, FIFTY, ["Symbol", "Exchange"]),
        statistics(35, THOUSAND, ["Exchange"]),
        statistics(36, WHOLE, ["Exchange"]),
        weighted(37),
        family(38, BUSY, "quote", "count(*)", column.Bid_Price.len(), "quotes by owner of the exchange", []),
        family(
            39,
            FIFTY,
            "trade",
            "sum(Trade_Volume)",
            VOLUME.sum(),
            "volume by symbol and owner of the exchange",
            ["Symbol"],
        ),
        family(40, WHOLE, "trade", "sum(Trade_Volume)", VOLUME.sum(), "volume by owner of the exchange", []),
        *distinct(),
    ]


def statistics(number, group, keys) -> Question:
    """Average, weighted average, deviation, largest and smallest spread."""
    names = ", ".join(keys)
    text = """SELECT {names}, avg(Offer_Price - Bid_Price) AS average,
    {weighted} AS weighted, stddev(Offer_Price - Bid_Price) AS deviation,
    max(Offer_Price - Bid_Price) AS widest, min(Offer_Price - Bid_Price) AS narrowest
    FROM quote {where} GROUP BY {names} ORDER BY {names}"""
    sql = text.format(names=names, where=scope(group), weighted="wavg(Bid_Size + Offer_Size, Offer_Price - Bid_Price)")
    duckdb = text.format(
        names=names,
        where=scope(group),
        weighted="sum((Bid_Size + Offer_Size) * (Offer_Price - Bid_Price)) / sum(Bid_Size + Offer_Size)",
    )

    def ask(f, p):
        size = BID_SIZE + OFFER_SIZE
        return (
            rows(f.quote, group, p)
            .group_by(keys)
            .agg(
                average=SPREAD.mean(),
                weighted=(size * SPREAD).sum() / size.sum(),
                deviation=SPREAD.std(),
                widest=SPREAD.max(),
                narrowest=SPREAD.min(),
            )
            .sort(keys)
        )

    return Question(
        f"q{number}",
        group,
        f"spread statistics by {' and '.join(keys)}".lower(),
        tuple(keys),
        sql,
        ask,
        duckdb=duckdb,
        ordered=True,
    )


def weighted(number) -> Question:
    """Spread weighted by size alone."""
    text = """SELECT Symbol, Exchange, {weighted} AS spread
    FROM quote WHERE Symbol IN ($fifty) GROUP BY Symbol, Exchange ORDER BY Symbol, Exchange"""

    def ask(f, p):
        size = BID_SIZE + OFFER_SIZE
        return (
            rows(f.quote, FIFTY, p)
            .group_by("Symbol", "Exchange")
            .agg(spread=(size * SPREAD).sum() / size.sum())
            .sort("Symbol", "Exchange")
        )

    return Question(
        f"q{number}",
        FIFTY,
        "spread weighted by size, by symbol and exchange",
        ("Symbol", "Exchange"),
        text.format(weighted="wavg(Bid_Size + Offer_Size, Offer_Price - Bid_Price)"),
        ask,
        ordered=True,
        duckdb=text.format(
            weighted="sum((Bid_Size + Offer_Size) * (Offer_Price - Bid_Price)) / sum(Bid_Size + Offer_Size)"
        ),
    )


def family(number, group, table, value, polars, asks, keys) -> Question:
    """A value by the owner of the exchange: the code is mapped by a small table."""
    names = ", ".join([*keys, "family"])
    values = ", ".join(f"('{code}', '{name}')" for code, name in FAMILY_OF.items())
    sql = f"""SELECT {names}, {value} AS total
    FROM {table} JOIN (VALUES {values}) AS venue (code, family) ON {table}.Exchange = venue.code
    {scope(group)} GROUP BY {names} ORDER BY {names}"""
    # A CASE over the ENUM beats the join, which would compare texts.
    cases = " ".join(f"WHEN '{code}' THEN '{name}'" for code, name in FAMILY_OF.items())
    duckdb = f"""SELECT {names}, {value}::BIGINT AS total
    FROM (SELECT *, CASE Exchange {cases} END AS family FROM {table} {scope(group)}) GROUP BY {names} ORDER BY {names}"""

    def ask(f, p):
        frame = getattr(f, table)
        known = {code: FAMILY_OF[code] for code in frame.collect_schema()["Exchange"].categories}
        named = column.Exchange.replace_strict(known, return_dtype=pl.Enum(sorted(FAMILIES))).alias("family")
        return (
            rows(frame, group, p)
            .with_columns(named)
            .group_by([*keys, "family"])
            .agg(polars.cast(pl.Int64).alias("total"))
            .sort([*keys, "family"])
        )

    return Question(f"q{number}", group, asks, (*keys, "family"), sql, ask, duckdb=duckdb, ordered=True)


def distinct() -> list[Question]:
    pair = ("Symbol", "Exchange")
    return [
        Question(
            "q41",
            RARE,
            "pairs of exchange and sale condition that occur",
            ("Exchange", "Sale_Condition"),
            "SELECT DISTINCT Exchange, Sale_Condition FROM trade WHERE Symbol = $rare",
            lambda f, p: rows(f.trade, RARE, p).select("Exchange", "Sale_Condition").unique(),
        ),
        Question(
            "q42",
            FIFTY,
            "pairs of symbol and exchange that are quoted",
            pair,
            "SELECT DISTINCT Symbol, Exchange FROM quote WHERE Symbol IN ($fifty)",
            lambda f, p: rows(f.quote, FIFTY, p).select(pair).unique(),
        ),
        Question(
            "q43",
            WHOLE,
            "pairs of symbol and exchange that trade, each symbol's in the order in which they came",
            pair,
            """SELECT Symbol, Exchange FROM trade GROUP BY Symbol, Exchange ORDER BY Symbol, min(Sequence_Number)""",
            lambda f, p: f.trade.select(pair).unique(maintain_order=True),
            ordered=True,
        ),
    ]
