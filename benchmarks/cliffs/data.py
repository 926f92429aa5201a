"""The tables: a day of equities and a month of crypto by the product's own simulator, with columns of every type.

``quote`` and ``trade`` are the day, ``tick`` and ``book`` the month. SplayDB has them as loaded, the others from Parquet files of the
same rows.
"""

import pathlib

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from engine.data import Data
from engine.tables import Tables

from .derived import TYPES, typed
from .profile import Profile, profile

UNITS = 1_000
"""Sizes of the month are in thousandths, since its coins are traded in fractions."""


class CliffTables(Tables):
    """Tables of the search: symbols and venues are codes, notes are text."""

    def codes_of(self, table: str) -> list[str]:
        return ["symbol", "venue"]


def bases(data: Data) -> dict[str, pa.Table]:
    """The simulator's rows by table, in the six columns that the others are derived from."""
    day, month = data.taq(), data.crypto()
    quote = day.read("quote", ["Time", "Symbol", "Exchange", "Bid_Price", "Offer_Price", "Bid_Size"])
    trade = day.read("trade", ["Time", "Symbol", "Exchange", "Trade_Price", "Trade_Volume"])
    tick = month.read("trades", ["timestamp", "symbol", "side", "price", "amount"])
    book = month.read("books", ["timestamp", "symbol", "exchange", "b1p", "a1p", "b1s"])
    return {
        "quote": named(*quote.columns),
        "trade": named(*trade.columns[:4], pc.round(trade["Trade_Price"]), trade["Trade_Volume"]),
        "tick": named(*tick.columns[:4], pc.round(tick["price"]), pc.multiply(tick["amount"], UNITS)),
        "book": named(*book.columns[:5], pc.multiply(book["b1s"], UNITS)),
    }


def named(time, symbol, venue, price, level, size) -> pa.Table:
    return pa.table(
        {
            "time": time.cast(pa.timestamp("ns")),
            "symbol": symbol.cast(pa.string()),
            "venue": venue.cast(pa.string()),
            "price": price,
            "level": level,
            "size": size,
        }
    )


def make(data: Data) -> CliffTables:
    """The tables, made if they aren't there."""

    def fill(folder: pathlib.Path) -> None:
        import splay

        database = splay.open(folder / "db")
        for table, base in bases(data).items():
            rows = typed(base, data.seed)
            pq.write_table(rows, folder / f"{table}.parquet")
            database.write(table, rows, time="time", symbol="symbol", types=TYPES)

    sizes = data.sizes
    folder = data.made(f"cliffs-{sizes.symbols}-{sizes.quotes}-{sizes.scale}-{data.seed}", fill)
    return tables(folder)


def tables(folder: pathlib.Path) -> CliffTables:
    """The tables of a folder."""
    return CliffTables(folder / "db", {path.stem: [path] for path in sorted(folder.glob("*.parquet"))})


def profiles(tables: Tables) -> dict[str, Profile]:
    """What constants are drawn from."""
    return {table: profile(table, pq.read_table(tables.files(table)[0])) for table in tables.names}
