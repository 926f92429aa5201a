"""The data of the finance suite: made by ``splay gen crypto``, the same files for all engines, kept between runs."""

import json
import pathlib
import shutil
import subprocess
from dataclasses import dataclass

import pyarrow.parquet as pq

from engine.data import Data, Sizes

TABLES = ("trades", "books")


@dataclass(frozen=True)
class Finance:
    """The files of one scale."""

    folder: pathlib.Path

    @property
    def tables(self) -> dict[str, list[str]]:
        """Parquet files of the main tables, in the order of time."""
        return {table: [str(path) for path in sorted(self.folder.glob(f"{table}_*.parquet"))] for table in TABLES}

    @property
    def write_day(self) -> dict[str, pathlib.Path]:
        """CSV files of the write day."""
        return {table: self.folder / "write" / f"{table}.csv" for table in TABLES}

    @property
    def write_bytes(self) -> int:
        return sum(path.stat().st_size for path in self.write_day.values())

    @property
    def raw_bytes(self) -> int:
        """Bytes of the main tables' rows as CSV files."""
        return json.loads((self.folder / "raw.json").read_text())["csv_bytes"]

    def rows(self) -> dict[str, int]:
        return {table: sum(pq.read_metadata(path).num_rows for path in paths) for table, paths in self.tables.items()}


def finance(splay: pathlib.Path, work: pathlib.Path, scale: float, seed: int) -> Finance:
    """The files of a scale, made if they aren't there."""
    data = Data(splay, work, Sizes(symbols=0, quotes=0, scale=scale), seed)

    def make(folder: pathlib.Path) -> None:
        def generate(to: pathlib.Path, kind: str) -> None:
            data.command("gen", "crypto", "--out", to, "--scale", scale, "--format", kind, "--seed", seed)

        # The same rows as CSV, to be counted only: what a database's size is compared with.
        raw = folder / "raw"
        generate(raw, "csv")
        size = sum(path.stat().st_size for table in TABLES for path in raw.glob(f"{table}_*.csv"))
        shutil.rmtree(raw)
        generate(folder, "parquet")
        (folder / "raw.json").write_text(json.dumps({"csv_bytes": size}))

    return Finance(data.made(f"finance-{scale:g}-{seed}", make))


def reference(python: pathlib.Path, data: Finance, benchmarks: pathlib.Path) -> pathlib.Path:
    """The folder of the answers that all others are compared with, made by ``splay_bench.reference`` if it isn't there."""
    folder = data.folder / "reference"
    if not folder.exists():
        partial = data.folder / "reference.partial"
        shutil.rmtree(partial, ignore_errors=True)
        command = [python, "-m", "splay_bench.reference", data.folder, partial]
        subprocess.run(command, check=True, cwd=benchmarks)
        partial.rename(folder)
    return folder


def write_day(splay: pathlib.Path, work: pathlib.Path, scale: float, seed: int) -> Finance:
    """The files of the write day alone, of another scale than the tables."""
    made = Data(splay, work, Sizes(symbols=0, quotes=0, scale=scale), seed)

    def make(folder: pathlib.Path) -> None:
        made.command("gen", "crypto", "--out", folder, "--scale", scale, "--write-day", "--seed", seed)

    return Finance(made.made(f"write-day-{scale:g}-{seed}", make))
