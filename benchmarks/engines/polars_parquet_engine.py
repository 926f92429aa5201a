"""Polars lazily on Parquet: a file for each day, sorted by symbol, time and arrival, scanned by each query.

A file a day lets a range of time pass over the other files; the order within passes over row groups of other symbols by their
statistics. zstd at its lowest level is what Polars writes by default. The queries are those of Polars in memory.
"""

import shutil
from types import SimpleNamespace

from .base import sync
from .polars_engine import Engine as InMemory

ROW_GROUP_ROWS = 65_536
"""Small groups: a day's rows of one symbol are a few of them at scale 1."""


class Engine(InMemory):
    name = "polars-parquet"
    title = "Polars, lazily on Parquet"
    stores = "disk"
    best = (
        "Parquet, a file a day, sorted by symbol, time and arrival within, zstd, row groups of 65,536 rows: scans pass over "
        "files by date and over row groups by symbol."
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
        import polars as pl
        from engine.systems.polars_frames import System

        self.system = System()
        scans = {table: pl.scan_parquet(self.folder / table / "*.parquet") for table in ("trades", "books")}
        self.system.frames = SimpleNamespace(**scans)

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
