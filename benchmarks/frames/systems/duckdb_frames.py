"""DuckDB: relations over files. Arrow files are mapped and handed over as pyarrow tables."""

import pathlib
from types import SimpleNamespace

import duckdb
import pyarrow as pa
from frames.questions import CLOSE, OPEN, PRINT_COLUMNS

VERSION = duckdb.__version__


def frames(folder: pathlib.Path, kind: str) -> SimpleNamespace:
    connection = duckdb.connect()
    for table in ("trade", "quote"):
        if kind == "parquet":
            connection.execute(f"create view {table} as from read_parquet('{folder / table}.parquet')")
        else:
            connection.register(table, pa.ipc.open_file(pa.memory_map(str(folder / f"{table}.arrow"))).read_all())
    return SimpleNamespace(sql=lambda text: connection.sql(text).to_arrow_table())


COLUMNS = ", ".join(PRINT_COLUMNS)
PRINTS = "Symbol = 'AAPL' and contains(Sale_Condition, 'O')"


def auction(f):
    return f.sql(f"select {COLUMNS} from trade where {PRINTS} and Time between '{OPEN}' and '{CLOSE}'")


def minutes(f):
    return f.sql("select Symbol, time_bucket(interval 1 minute, Time) as minute, sum(Trade_Volume) as volume from trade group by all")


def mids(f):
    return f.sql("select Symbol, time_bucket(interval 1 hour, Time) as hour, avg(0.5 * (Offer_Price + Bid_Price)) as mid from quote group by all")


def intraday(f):
    return f.sql("select time_bucket(interval 5 minute, Time) as bucket, sum(Trade_Volume) as volume from trade where Symbol = 'AAPL' group by all")


def prints(f):
    return f.sql(f"select {COLUMNS} from trade where {PRINTS}")


def by_symbol(f):
    return f.sql("select Symbol, sum(Trade_Volume) as volume from trade group by all")


def by_exchange(f):
    return f.sql("select Symbol, Exchange, sum(Trade_Volume) as volume from trade group by all")


def union(f):
    return f.sql(
        """from (select Symbol, Exchange, avg(Offer_Price - Bid_Price) as avgspread, 0.5 * avg(Offer_Size + Bid_Size) as avgsize
                 from quote group by all) as a
           full join (select Symbol, Exchange, max(Trade_Price) as maxprice, min(Trade_Price) as minprice,
                             sum(Trade_Price * Trade_Volume) / sum(Trade_Volume) as vwap from trade group by all) as b
           using (Symbol, Exchange)"""
    )


QUESTIONS = {f.__name__: f for f in (auction, minutes, mids, intraday, prints, by_symbol, by_exchange, union)}
