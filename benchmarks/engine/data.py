"""Data: made by ``splay gen``, loaded by ``splay load``, exported by ``splay export`` for the others. Kept between runs.

A data set is a folder named after its size. What is in it is whole: it is made beside and renamed.
"""

import pathlib
import shutil
import subprocess
import sys
from dataclasses import dataclass

import pyarrow.parquet as pq

from . import derived
from .tables import Tables

TRADE_COLUMNS = ["Time", "Exchange", "Symbol", "Sale_Condition", "Trade_Volume", "Trade_Price", "Sequence_Number"]
QUOTE_COLUMNS = ["Time", "Exchange", "Symbol", "Bid_Price", "Bid_Size", "Offer_Price", "Offer_Size", "Sequence_Number"]
TRADES_PER_QUOTE = 10
"""Quotes for each trade of a day."""


@dataclass(frozen=True)
class Sizes:
    """How much data."""

    symbols: int
    quotes: int
    scale: float

    @property
    def trades(self) -> int:
        return self.quotes // TRADES_PER_QUOTE


QUICK = Sizes(symbols=200, quotes=2_000_000, scale=0.02)
FULL = Sizes(symbols=2_000, quotes=20_000_000, scale=0.1)


class Data:
    """The data sets of a run."""

    def __init__(self, splay: pathlib.Path, work: pathlib.Path, sizes: Sizes, seed: int):
        self.splay = splay
        self.work = work
        self.sizes = sizes
        self.seed = seed

    def command(self, *arguments) -> None:
        """Runs the ``splay`` command; its failure ends the benchmark."""
        print("splay", *arguments, file=sys.stderr, flush=True)
        done = subprocess.run([self.splay, *map(str, arguments)], capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"splay {arguments[0]} failed: {done.stderr}")

    def made(self, name: str, make) -> pathlib.Path:
        """The folder of a data set, made if it isn't there."""
        folder = self.work / name
        if not folder.exists():
            partial = self.work / f"{name}.partial"
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir(parents=True)
            make(partial)
            partial.rename(folder)
        return folder

    def taq(self, quotes: int | None = None, only: tuple[str, ...] = ("trade", "quote")) -> Tables:
        """A day of US equities: tables ``trade`` and ``quote``, and those of ``derived`` if they are asked for."""
        quotes = quotes or self.sizes.quotes
        symbols = self.sizes.symbols

        def make(folder: pathlib.Path) -> None:
            self.command(
                "gen",
                "taq",
                "--out",
                folder / "files",
                "--symbols",
                symbols,
                "--quotes",
                quotes,
                "--trades",
                quotes // TRADES_PER_QUOTE,
                "--seed",
                self.seed,
            )
            self.command(
                "load", folder / "db", "trade", f"{folder}/files/EQY_US_ALL_TRADE_*.gz", "--recipe", "nyse-taq-trade"
            )
            self.command(
                "load", folder / "db", "quote", f"{folder}/files/SPLITS_US_ALL_BBO_*.gz", "--recipe", "nyse-taq-quote"
            )
            shutil.rmtree(folder / "files")
            for table in ("trade", "quote"):
                self.command("export", folder / "db", table, "--to", folder / table)
            for table, rows in derived.tables(folder).items():
                path = folder / table / "rows.parquet"
                path.parent.mkdir()
                pq.write_table(rows, path)
                symbol, time = rows.column_names[:2]
                self.command(
                    "load",
                    folder / "db",
                    table,
                    path,
                    "--time",
                    time,
                    "--symbol",
                    symbol,
                    "--time-zone",
                    "America/New_York",
                )

        folder = self.made(f"taq-{symbols}-{quotes}-{self.seed}", make)
        paths = {table: sorted((folder / table).rglob("*.parquet")) for table in only}
        return Tables(folder / "db", paths, {"trade": TRADE_COLUMNS, "quote": QUOTE_COLUMNS})

    def crypto(self) -> Tables:
        """A month of crypto trades and books, and the day of books on five exchanges: tables ``trades`` and ``books``."""

        def make(folder: pathlib.Path) -> None:
            self.command(
                "gen",
                "crypto",
                "--out",
                folder / "files",
                "--scale",
                self.sizes.scale,
                "--format",
                "parquet",
                "--seed",
                self.seed,
            )
            shutil.rmtree(folder / "files" / "write", ignore_errors=True)
            for table in ("trades", "books"):
                self.command(
                    "load",
                    folder / "db",
                    table,
                    f"{folder}/files/{table}_*.parquet",
                    "--time",
                    "timestamp",
                    "--symbol",
                    "symbol",
                )

        folder = self.made(f"crypto-{self.sizes.scale}-{self.seed}", make)
        paths = {table: sorted((folder / "files").glob(f"{table}_*.parquet")) for table in ("trades", "books")}
        return Tables(folder / "db", paths, by_time=True)
