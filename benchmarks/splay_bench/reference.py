"""The answers that all engines are compared with, by DuckDB over tables in memory, as QUERIES.md defines them.

    python -m splay_bench.reference DATA OUT

Closing values are those of the row that arrived last (``arg_max`` by ``rowid``). The keys of each answer are checked to name
its rows. The write day's totals are counted by Arrow, by whoever compares them.
"""

import pathlib
import sys

import pyarrow as pa
import pyarrow.compute as pc

from engine.compare import check_unique, normal
from engine.parameters import CryptoParameters
from engine.suites import crypto14
from engine.tables import Tables
from engines import rows

from .data import Finance
from .worker import SEED


def answers(data: Finance, out: pathlib.Path) -> None:
    """Writes ``<query>-<run>.arrow`` for each query and each of its variants."""
    from engine.systems.duckdb_memory import System

    system = System()
    system.open(Tables(data.folder, {table: list(map(pathlib.Path, paths)) for table, paths in data.tables.items()}))
    parameters = CryptoParameters(SEED)
    for question in crypto14.questions(parameters):
        for run, variant in enumerate(question.variants):
            table = system.reference(question, parameters, variant)
            if not question.bag:
                check_unique(normal(table), question.keys)
            path = str(out / f"{question.id}-{run}.arrow")
            with pa.OSFile(path, "wb") as file, pa.ipc.new_stream(file, table.schema) as writer:
                writer.write_table(table)


def totals(data: Finance) -> dict[str, float]:
    """Counts and sums of the write day."""
    found = {}
    for table, column in (("trades", "amount"), ("books", "a20s")):
        parts = [(part.num_rows, pc.sum(part[column]).as_py()) for part in rows.from_csv(data.write_day[table])]
        found[table], found[column] = sum(count for count, _ in parts), sum(value for _, value in parts)
    return found


def main() -> None:
    data, out = Finance(pathlib.Path(sys.argv[1])), pathlib.Path(sys.argv[2])
    out.mkdir(parents=True)
    answers(data, out)


if __name__ == "__main__":
    main()
