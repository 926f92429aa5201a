"""Vortex, a columnar file format, by its Python package: it isn't part of SplayDB, whose build it would double."""

import os
import tempfile
import time
from pathlib import Path
from typing import Any

from splay.lab.measure import ROWS, _named
from splay.lab.results import Results


def vortex(data: Any, *, columns: tuple[str, ...] = (), times: int = 3, folder: "str | os.PathLike[str] | None" = None, rows: int = ROWS) -> Results:
    """Measure Vortex files, which need ``pip install vortex-data``: factor, times to write and to read.

    Parameters are those of :func:`compression`. Files are read from the page cache. Times are those of its Python package.

    Raises
    ------
    ImportError
        The package isn't installed.
    """
    import pyarrow

    try:
        import vortex as package
    except ModuleNotFoundError as missing:
        raise ImportError("this needs Vortex, which splay doesn't install: pip install vortex-data") from missing
    from splay._splay import lab_compression

    named = _named(data, columns, rows)
    plain, _, _ = lab_compression(named, _uncompressed(folder))
    measured = []
    with tempfile.TemporaryDirectory(prefix="splay-lab-", dir=folder) as where:
        for known in pyarrow.table(plain).to_pylist():
            lists = next(lists for name, lists in named if name == known["data"])
            column = pyarrow.table(lists[0]).combine_chunks()
            measured.append(known | _measured(package, column, Path(where) / "column.vortex", times, known["plainBytes"]))
    return Results(pyarrow.Table.from_pylist(measured, schema=pyarrow.table(plain).schema))


def _uncompressed(folder: Any) -> dict[str, Any]:
    """The scheme whose results say what the data is."""
    return {
        "schemes": "q",
        "codecs": ["none"],
        "scheme": None,
        "times": 1,
        "budget": None,
        "results": None,
        "folder": folder,
        "seed": 1,
    }


def _measured(package: Any, column: Any, path: Path, times: int, plain_bytes: int) -> dict[str, Any]:
    writes, reads = [], []
    for _ in range(times):
        path.unlink(missing_ok=True)
        start = time.perf_counter()
        package.io.write(column, str(path))
        writes.append(time.perf_counter() - start)
        start = time.perf_counter()
        read = package.open(str(path)).to_arrow().read_all()
        reads.append(time.perf_counter() - start)
        if not read.cast(column.schema).combine_chunks().equals(column):
            from splay.errors import LabError

            raise LabError(f"vortex gives back other values of column {column.column_names[0]!r}")
    size = path.stat().st_size
    return {
        "lbs": None,
        "alg": None,
        "lvl": None,
        "scheme": "vortex",
        "family": "vortex",
        "codec": "vortex",
        "writeTime": sum(writes) / times * 1e3,
        "readTime": sum(reads) / times * 1e3,
        "compFactor": plain_bytes / size,
        "bytes": size,
        "blockTime": None,
        "memory": None,
        "cold": False,
        "runs": times,
    }
