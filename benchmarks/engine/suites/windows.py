"""Window and horizon joins of a busy symbol: what was quoted around each trade, and what the price did after it."""

from .. import parameters
from ..ask import ask
from ..polars_words import BID, OFFER, PRICE, column, pl, symbol
from ..question import Question
from ..report import as_json, suite

TITLE = "windows: quotes around each trade, and prices after it"
GROUP = "window and horizon joins"
SECOND = 1_000_000_000
OFFSETS = range(-1, 11)


def run(run) -> tuple[list[str], dict]:
    """Asks them all."""
    tables = run.data.taq()
    drawn = parameters.draw(tables, run.seed)
    systems = run.systems(tables)
    asked = [question for question in (around(), after()) if run.wanted(question.id)]
    outcomes = [run.tell(ask(question, drawn, systems, run.rounds)) for question in asked]
    return suite(f"{TITLE} ({run.size(tables)})", outcomes, run.names), as_json(outcomes, run.names)


def around() -> Question:
    """A window join. DuckDB and Polars join by two inequalities and group what comes of it."""
    sql = """SELECT t.Symbol AS Symbol, t.Sequence_Number AS Sequence_Number, count(*) AS quotes, avg(q.Bid_Price) AS bid,
    max(q.Offer_Price) AS offer FROM trade t WINDOW JOIN quote q ON t.Symbol = q.Symbol
    AND q.Time BETWEEN t.Time - INTERVAL '1 second' AND t.Time + INTERVAL '1 second' WHERE t.Symbol = $busy"""
    # Rows of the same second and its neighbours are joined by equality: DuckDB takes the symbol for a rare one, and would compare all
    # pairs in a join by two inequalities.
    duckdb = f"""WITH t AS (SELECT Sequence_Number, epoch_ns(Time) AS ns FROM trade WHERE Symbol = $busy),
    q AS (SELECT epoch_ns(Time) AS ns, Bid_Price, Offer_Price FROM quote WHERE Symbol = $busy),
    w AS (SELECT Sequence_Number, count(*) AS quotes, avg(Bid_Price) AS bid, max(Offer_Price) AS offer
        FROM (SELECT Sequence_Number, ns, ns // {SECOND} + unnest([-1, 0, 1]) AS second FROM t) AS t
        JOIN q ON q.ns // {SECOND} = t.second AND q.ns BETWEEN t.ns - {SECOND} AND t.ns + {SECOND} GROUP BY Sequence_Number)
    SELECT Symbol, Sequence_Number, coalesce(quotes, 0) AS quotes, bid, offer FROM trade LEFT JOIN w USING (Sequence_Number)
    WHERE Symbol = $busy"""

    def ask_polars(f, p):
        second = pl.duration(seconds=1, time_unit="ns")
        trades = f.trade.filter(symbol(p.busy)).select("Symbol", "Sequence_Number", "Time")
        quotes = f.quote.filter(symbol(p.busy)).select(column.Time.alias("at"), BID, OFFER)
        bounded = trades.with_columns(begin=column.Time - second, end=column.Time + second)
        pairs = bounded.join_where(quotes, column.at >= column.begin, column.at <= column.end)
        found = pairs.group_by("Sequence_Number").agg(quotes=pl.len(), bid=BID.mean(), offer=OFFER.max())
        joined = trades.select("Symbol", "Sequence_Number").join(found, on="Sequence_Number", how="left")
        return joined.with_columns(column.quotes.fill_null(0).cast(pl.Int64))

    return Question(
        "window",
        GROUP,
        "quotes within a second of each trade: their number, mean bid and greatest offer",
        ("Symbol", "Sequence_Number"),
        sql,
        ask_polars,
        duckdb=duckdb,
    )


def after() -> Question:
    """A horizon join. Of quotes at one instant the last to arrive counts, so DuckDB leaves out the others first."""
    sql = f"""SELECT date_part('epoch', h.offset) AS away, count(q.Bid_Price) AS known, avg(q.Bid_Price - t.Trade_Price) AS markout
    FROM trade t HORIZON JOIN quote q ON t.Symbol = q.Symbol AND t.Time >= q.Time RANGE FROM {OFFSETS[0]}s TO {OFFSETS[-1]}s STEP 1s AS h
    WHERE t.Symbol = $busy GROUP BY h.offset"""
    duckdb = f"""SELECT CAST(t.away AS DOUBLE) AS away, count(q.Bid_Price) AS known, avg(q.Bid_Price - t.Trade_Price) AS markout
    FROM (SELECT epoch_ns(Time) + h.away * {SECOND} AS at, Trade_Price, h.away AS away
        FROM trade, (SELECT unnest(range({OFFSETS[0]}, {OFFSETS[-1] + 1})) AS away) AS h WHERE Symbol = $busy) AS t
    ASOF LEFT JOIN (SELECT epoch_ns(Time) AS at, arg_max(Bid_Price, Sequence_Number) AS Bid_Price FROM quote
        WHERE Symbol = $busy GROUP BY Time) AS q ON t.at >= q.at GROUP BY t.away"""

    def ask_polars(f, p):
        trades = f.trade.filter(symbol(p.busy)).select("Time", PRICE)
        quotes = f.quote.filter(symbol(p.busy)).select("Time", BID).set_sorted("Time")
        each = []
        for away in OFFSETS:
            moved = trades.with_columns(column.Time + pl.duration(seconds=away, time_unit="ns")).set_sorted("Time")
            found = moved.join_asof(quotes, on="Time")
            each.append(found.select(away=pl.lit(float(away)), known=BID.count().cast(pl.Int64), markout=(BID - PRICE).mean()))
        return pl.concat(each)

    return Question(
        "horizon",
        GROUP,
        f"mean bid less the price of each trade, from {-OFFSETS[0]} s before to {OFFSETS[-1]} s after it",
        ("away",),
        sql,
        ask_polars,
        duckdb=duckdb,
    )
