"""Polars lazily on Parquet: a file for each day, sorted by symbol, time and arrival, scanned by each query.

A query names the files of its days, as users of such a folder do: a scan of all files opens each of them first. The order within
passes over row groups of other symbols by their statistics. zstd at its lowest level is what Polars writes by default. The queries
are those of Polars in memory.
"""

import datetime
import shutil

from .base import sync
from .polars_engine import Engine as InMemory

ROW_GROUP_ROWS = 65_536
"""Small groups: a day's rows of one symbol are a few of them at scale 1."""


class Days:
    """The files of each day; what Polars' queries ask for ranges of time."""

    def __init__(self, folder):
        self.files = {
            table: {datetime.date.fromisoformat(path.stem[-10:]): path for path in (folder / table).glob("*.parquet")}
            for table in ("trades", "books")
        }

    def scan(self, table: str, first: datetime.date, last: datetime.date):
        import polars as pl

        return pl.scan_parquet([path for day, path in sorted(self.files[table].items()) if first <= day <= last])

    def between(self, table: str, start, end):
        from engine.polars_words import column, instant

        last = (end - datetime.timedelta(microseconds=1)).date()
        return self.scan(table, start.date(), last).filter(
            (column.timestamp >= instant(start)) & (column.timestamp < instant(end))
        )

    def latest(self, table: str, symbol: str, at, columns: list[str]):
        """The last row of a symbol up to an instant: of its day, or else of the day before."""
        from engine.polars_words import column, instant

        for day in (at.date(), at.date() - datetime.timedelta(days=1)):
            found = self.scan(table, day, day).filter((column.symbol == symbol) & (column.timestamp <= instant(at)))
            answer = found.select(columns).last().collect()
            if answer.height:
                break
        return answer


class Engine(InMemory):
    name = "polars-parquet"
    title = "Polars, lazily on Parquet"
    stores = "disk"
    best = (
        "Parquet, a file a day, sorted by symbol, time and arrival within, zstd, row groups of 65,536 rows: scans name the "
        "files of their days and pass over row groups by symbol."
    )

    def load(self, tables) -> None:
        import polars as pl

        for table, paths in tables.items():
            folder = self.folder / table
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            for path in paths:
                self.store(pl.read_parquet(path), folder / path.name)
        sync()

    @staticmethod
    def store(frame, path) -> None:
        frame = frame.sort("symbol", "timestamp", maintain_order=True)
        frame.write_parquet(path, row_group_size=ROW_GROUP_ROWS)

    def open(self) -> None:
        from engine.systems.polars_frames import System

        self.system = System()
        self.system.frames = Days(self.folder)

    def write(self, files) -> None:
        import polars as pl

        for table, path in files.items():
            folder = self.folder / table
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            # The first row of a column may look whole: all numbers but the id are floats.
            frame = pl.read_csv(path, infer_schema_length=100)
            floats = [name for name in frame.columns if name not in ("timestamp", "symbol", "exchange", "side", "id")]
            frame = frame.with_columns(
                pl.col("timestamp").str.to_datetime("%Y-%m-%dT%H:%M:%S%.fZ", time_unit="ns", time_zone="UTC"),
                pl.col(floats).cast(pl.Float64),
            )
            self.store(frame, folder / "2022-06-01.parquet")
        sync()

    def totals(self):
        import polars as pl

        trades, books = (pl.scan_parquet(self.folder / table / "*.parquet") for table in ("trades", "books"))
        return {
            "trades": trades.select(pl.len()).collect().item(),
            "amount": trades.select(pl.col("amount").sum()).collect().item(),
            "books": books.select(pl.len()).collect().item(),
            "a20s": books.select(pl.col("a20s").sum()).collect().item(),
        }
