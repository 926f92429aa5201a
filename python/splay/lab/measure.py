"""What is measured: columns of anything that is Arrow, of files, of tables and of generated lists."""

import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from splay._splay import lab_compression, lab_generate
from splay.lab.results import Results

if TYPE_CHECKING:
    import pyarrow

    Progress = Callable[[int, int, float | None, str, str], None]

ROWS = 1_000_000
"""Rows of a table that are taken."""


def generate(kind: str, count: int = 10_000, order: str = "random", seed: int = 1) -> "pyarrow.RecordBatch":
    """A list of random values, as a batch of one column.

    Parameters
    ----------
    kind
        ``longs:BOUND``, ``booleans``, ``symbols:LETTERS``, ``prices`` or ``times``.
    order
        ``random``, ``sorted``, or ``contiguous``: equal values side by side.
    """
    return lab_generate(kind, count, order, seed)


def lists(kind: str, number: int, count: int = 10_000, order: str = "random", seed: int = 1) -> "list[pyarrow.RecordBatch]":
    """Several lists of a kind, from one seed after the other. ``compression`` averages over them."""
    return [generate(kind, count, order, seed + step) for step in range(number)]


def compression(
    data: Any,
    *,
    columns: Sequence[str] = (),
    schemes: str = "all",
    codecs: "str | Sequence[str]" = (),
    scheme: str | None = None,
    times: int = 3,
    budget: float | None = None,
    results: "str | os.PathLike[str] | None" = None,
    folder: "str | os.PathLike[str] | None" = None,
    seed: int = 1,
    rows: int = ROWS,
    statement: "str | Callable[[pyarrow.RecordBatch], float | None] | None" = None,
    progress: "bool | Progress" = False,
) -> Results:
    """Measure schemes on columns: factor, times to write and to read, a block at random, memory. A result counts only if every bit came back.

    Parameters
    ----------
    data
        Rows of anything with the Arrow C interface, a column or an array, a lazy frame such as ``db["trade"]``, the path of a file, or :func:`lists`.
    columns
        Columns that are measured. Default: all.
    schemes
        ``q`` for q's grid of 532 combinations, ``today`` for encodings, pco, FSST, Parquet and Arrow, ``all`` for both.
    codecs, scheme
        Only schemes of these codecs, and those whose name contains a text.
    times
        Runs of each test, over which times are averaged.
    budget
        Seconds to spend. Schemes are then taken at random, evenly from all codecs.
    results
        A file, Parquet or CSV. A run goes on where the last one ended.
    folder
        Where files are written and read. Default: the folder of temporary files.
    rows
        Rows that are taken of a table, from the first on.
    statement
        What is measured over the rows that were read: SQL with ``{data}`` in the place of a table, or a function of a batch, which may
        return the seconds that it took.
    progress
        ``True`` for a line on standard error, or a function of tests done, all tests, seconds left, data and scheme.

    Raises
    ------
    ValueError
        No scheme has the codecs and the name; ``times`` is below 1, or ``budget`` isn't a number of seconds from 0 on.
    LabError
        A scheme gave back other values, the results are of other data, or the statement failed.
    """
    if not isinstance(times, int) or times < 1:
        raise ValueError(f"times is a whole number from 1 on, not {times!r}")
    if budget is not None and not (isinstance(budget, (int, float)) and budget >= 0):
        raise ValueError(f"budget is a number of seconds from 0 on, not {budget!r}")
    request = {
        "schemes": schemes,
        "codecs": [codecs] if isinstance(codecs, str) else list(codecs),
        "scheme": scheme,
        "times": times,
        "budget": budget,
        "results": results,
        "folder": folder,
        "seed": seed,
    }
    progress_callback = _line if progress is True else progress or None
    named = _named(data, columns, rows)
    if not isinstance(statement, str):
        measured, skipped, left = lab_compression(named, request, statement, progress_callback)
    else:
        with tempfile.TemporaryDirectory(prefix="splay-lab-", dir=folder) as where:
            measured, skipped, left = lab_compression(named, request, _runner(statement, Path(where)), progress_callback)
    if progress is True:
        print(file=sys.stderr)
    return Results(measured, skipped, left)


def _named(data: Any, columns: Sequence[str], rows: int) -> list[tuple[str, list[Any]]]:
    """Columns by name, each as lists of one column."""
    import pyarrow

    if isinstance(data, list):
        names = {one.schema.names[0] for one in data}
        if len(names) != 1:
            raise ValueError(f"lists of one kind are needed, not of {sorted(names)}")
        return [(names.pop(), data)]
    if isinstance(data, (str, os.PathLike)):
        from splay.frames.opening import scan

        data = scan(os.fspath(data))
    if hasattr(data, "limit") and hasattr(data, "to_arrow") and not hasattr(data, "to_frame"):
        data = data.limit(rows).to_arrow()
    elif not hasattr(data, "column_names"):
        data = _rows(data)
    table = pyarrow.table(data).slice(0, rows)
    return [(name, [table.select([name])]) for name in columns or table.column_names]


def _rows(data: Any) -> Any:
    """A column, which has no columns, as rows of one."""
    import pyarrow

    if isinstance(data, (pyarrow.Array, pyarrow.ChunkedArray)):
        return pyarrow.table({"values": data})
    if hasattr(data, "to_frame") and not hasattr(data, "columns"):
        return data.to_frame(data.name or "values")
    if hasattr(data, "__array__") and getattr(data, "ndim", 0) == 1 and not hasattr(data, "columns"):
        return pyarrow.table({"values": pyarrow.array(data)})
    return data


def _runner(statement: str, folder: Path) -> "Callable[[pyarrow.RecordBatch], float]":
    """Runs SQL over a batch, which it reads from an uncompressed file in the page cache."""
    import pyarrow

    from splay.frames.source import FILES

    path = folder / "data.arrow"
    text = statement.replace("{data}", "'" + str(path).replace("'", "''") + "'")

    def run(rows: "pyarrow.RecordBatch") -> float:
        with pyarrow.ipc.new_file(path, rows.schema) as writer:
            writer.write_batch(rows)
        start = time.perf_counter()
        FILES.sql(text).to_arrow()
        return time.perf_counter() - start

    return run


def _line(done: int, total: int, left: float | None, data: str, scheme: str) -> None:
    seconds = "" if left is None else f", {left:.0f} s left"
    print(f"\r{done}/{total}{seconds}  {data}: {scheme}\033[K", end="", file=sys.stderr, flush=True)
