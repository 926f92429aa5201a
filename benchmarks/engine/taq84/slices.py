"""Rows: slices of time, filters, projections with arithmetic, stable sorts, look-ups by sequence number."""

from ..polars_words import BID, MID, OFFER, PRICE, SPREAD, VOLUME, between, column, symbol, symbols
from ..question import Question
from .groups import BUSY, FIFTY, RARE, THOUSAND, WHOLE

QUOTE = "Symbol, Sequence_Number, Time, Exchange, Bid_Price, Bid_Size, Offer_Price, Offer_Size"
TRADE = "Symbol, Sequence_Number, Time, Exchange, Trade_Price, Trade_Volume"
ROW = ("Symbol", "Sequence_Number")


def columns(names: str) -> list[str]:
    return names.split(", ")


def questions(parameters) -> list[Question]:
    return [*slices(), *projections(), *sorts(), *lookups()]


def slices() -> list[Question]:
    def quotes(number, group, asks, where, polars):
        sql = f"SELECT {QUOTE} FROM quote WHERE {where}"
        return Question(
            f"q{number:02}", group, asks, ROW, sql, lambda f, p: f.quote.filter(polars(p)).select(columns(QUOTE))
        )

    return [
        quotes(
            1,
            RARE,
            "its quotes of half an hour",
            "Symbol = $rare AND Time >= $t1000 AND Time < $t1030",
            lambda p: symbol(p.rare) & between(p, "1000", "1030"),
        ),
        quotes(
            2,
            BUSY,
            "its quotes of a minute",
            "Symbol = $busy AND Time >= $t1000 AND Time < $t1001",
            lambda p: symbol(p.busy) & between(p, "1000", "1001"),
        ),
        quotes(
            3,
            FIFTY,
            "their quotes of five minutes",
            "Symbol IN ($fifty) AND Time >= $t1430 AND Time < $t1435",
            lambda p: symbols(p.fifty) & between(p, "1430", "1435"),
        ),
        quotes(
            4,
            THOUSAND,
            "their quotes of ten minutes",
            "Symbol IN ($thousand) AND Time >= $t1100 AND Time < $t1110",
            lambda p: symbols(p.thousand) & between(p, "1100", "1110"),
        ),
        quotes(
            5, WHOLE, "all quotes of a minute", "Time >= $t1030 AND Time < $t1031", lambda p: between(p, "1030", "1031")
        ),
        Question(
            "q06",
            WHOLE,
            "all trades of ten minutes",
            ROW,
            f"SELECT {TRADE} FROM trade WHERE Time >= $t1300 AND Time < $t1310",
            lambda f, p: f.trade.filter(between(p, "1300", "1310")).select(columns(TRADE)),
        ),
    ]


def projections() -> list[Question]:
    row = list(ROW)
    notional = (PRICE * VOLUME).alias("notional")
    return [
        Question(
            "q07",
            RARE,
            "its trades with their value",
            ROW,
            f"SELECT {TRADE}, Trade_Price * Trade_Volume AS notional FROM trade WHERE Symbol = $rare",
            lambda f, p: f.trade.filter(symbol(p.rare)).select(*columns(TRADE), notional),
        ),
        Question(
            "q08",
            BUSY,
            "mid and spread of each of its quotes",
            ROW,
            """SELECT Symbol, Sequence_Number, Time, 0.5 * (Bid_Price + Offer_Price) AS mid, Offer_Price - Bid_Price AS spread
                 FROM quote WHERE Symbol = $busy""",
            lambda f, p: f.quote.filter(symbol(p.busy)).select(*row, "Time", MID.alias("mid"), SPREAD.alias("spread")),
        ),
        Question(
            "q09",
            FIFTY,
            "their trades with their value",
            ROW,
            f"SELECT {TRADE}, Trade_Price * Trade_Volume AS notional FROM trade WHERE Symbol IN ($fifty)",
            lambda f, p: f.trade.filter(symbols(p.fifty)).select(*columns(TRADE), notional),
        ),
        Question(
            "q10",
            RARE,
            "spread of each of its quotes in basis points of the mid",
            ROW,
            """SELECT Symbol, Sequence_Number, Time, 20000.0 * (Offer_Price - Bid_Price) / (Offer_Price + Bid_Price) AS points
                 FROM quote WHERE Symbol = $rare""",
            lambda f, p: f.quote.filter(symbol(p.rare)).select(
                *row, "Time", (20000.0 * SPREAD / (OFFER + BID)).alias("points")
            ),
        ),
        Question(
            "q11",
            THOUSAND,
            "their large trades with their value",
            ROW,
            f"""SELECT {TRADE}, Trade_Price * Trade_Volume AS notional FROM trade
            WHERE Symbol IN ($thousand) AND Trade_Volume >= $large""",
            lambda f, p: f.trade.filter(symbols(p.thousand) & (p.large <= VOLUME)).select(*columns(TRADE), notional),
        ),
    ]


def sorts() -> list[Question]:
    def volume_first(f, p, which):
        return (
            f.trade.filter(which(p)).select(columns(TRADE)).sort("Trade_Volume", descending=True, maintain_order=True)
        )

    return [
        Question(
            "q12",
            RARE,
            "its trades, largest first, equal ones as they came",
            ROW,
            f"SELECT {TRADE} FROM trade WHERE Symbol = $rare ORDER BY Trade_Volume DESC, Time, Sequence_Number",
            lambda f, p: volume_first(f, p, lambda p: symbol(p.rare)),
            ordered=True,
        ),
        Question(
            "q13",
            BUSY,
            "its trades, largest first, equal ones as they came",
            ROW,
            f"SELECT {TRADE} FROM trade WHERE Symbol = $busy ORDER BY Trade_Volume DESC, Time, Sequence_Number",
            lambda f, p: volume_first(f, p, lambda p: symbol(p.busy)),
            ordered=True,
        ),
        Question(
            "q14",
            FIFTY,
            "their trades, dearest first, equal ones as they came",
            ROW,
            f"SELECT {TRADE} FROM trade WHERE Symbol IN ($fifty) ORDER BY Trade_Price DESC, Symbol, Time, Sequence_Number",
            lambda f, p: (
                f.trade.filter(symbols(p.fifty))
                .select(columns(TRADE))
                .sort("Trade_Price", descending=True, maintain_order=True)
            ),
            ordered=True,
        ),
        Question(
            "q15",
            WHOLE,
            "the hundred largest trades of the day",
            ROW,
            f"SELECT {TRADE} FROM trade ORDER BY Trade_Volume DESC, Symbol, Time, Sequence_Number LIMIT 100",
            lambda f, p: (
                f.trade.select(columns(TRADE))
                .sort("Trade_Volume", "Symbol", "Time", "Sequence_Number", descending=[True, False, False, False])
                .limit(100)
            ),
            ordered=True,
        ),
    ]


def lookups() -> list[Question]:
    return [
        Question(
            "q16",
            WHOLE,
            "the quotes with five given sequence numbers",
            ROW,
            f"SELECT {QUOTE} FROM quote WHERE Sequence_Number IN ($sequences)",
            lambda f, p: f.quote.filter(column.Sequence_Number.is_in(p.sequences)).select(columns(QUOTE)),
        ),
        Question(
            "q17",
            BUSY,
            "its quote on each exchange at a sequence number",
            ("Exchange",),
            """SELECT Exchange, last(Time ORDER BY Time) AS since, last(Bid_Price ORDER BY Time) AS bid,
                 last(Offer_Price ORDER BY Time) AS offer
                 FROM quote WHERE Symbol = $busy AND Sequence_Number <= $sequence GROUP BY Exchange""",
            lambda f, p: (
                f.quote.filter(symbol(p.busy) & (column.Sequence_Number <= p.sequence))
                .group_by("Exchange")
                .agg(column.Time.last().alias("since"), BID.last().alias("bid"), OFFER.last().alias("offer"))
            ),
            duckdb="""SELECT Exchange, arg_max(Time, rowid) AS since, arg_max(Bid_Price, rowid) AS bid,
                 arg_max(Offer_Price, rowid) AS offer
                 FROM quote WHERE Symbol = $busy AND Sequence_Number <= $sequence GROUP BY Exchange""",
        ),
    ]
