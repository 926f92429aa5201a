"""HDF5 files of Vaex, copied to Arrow files, because the engine doesn't read HDF5.

A file is copied when it is scanned, slice by slice, into a folder of this process that its end removes; the same file is copied once. Its
layout: a group ``/table/columns`` with a group for each column, in it ``data`` and perhaps ``mask`` (true is null); texts have ``indices``
(where each begins) and ``null_bitmap`` (Arrow's) beside the bytes; dictionaries are two such columns.
"""

import atexit
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from splay.errors import FrameError

ENDINGS = (".hdf5", ".h5")
SLICE_ROWS = 1 << 20

_copies: dict[tuple[int, str, int, int], str] = {}
_folders: dict[int, str] = {}


def copied(path: str) -> str:
    """The path of the Arrow file with the rows of a file.

    Raises
    ------
    FrameError
        If it is no file of Vaex, or has a column that can't be a column here.
    ImportError
        If h5py is not installed.
    """
    try:
        import h5py
    except ImportError as error:
        raise ImportError("HDF5 files need h5py, which splay doesn't install: pip install h5py") from error
    place = os.path.realpath(path)
    status = os.stat(place)
    key = (os.getpid(), place, status.st_mtime_ns, status.st_size)
    if key not in _copies:
        target = os.path.join(_folder(), f"{len(_copies)}.arrow")
        with h5py.File(place, "r") as file:
            _write(file, path, target)
        _copies[key] = target
    return _copies[key]


def _folder() -> str:
    """A folder of this process; a forked one makes its own."""
    process = os.getpid()
    if process not in _folders:
        _folders[process] = tempfile.mkdtemp(prefix="splay-hdf5-")
        atexit.register(_remove, _folders[process], process)
    return _folders[process]


def _remove(folder: str, process: int) -> None:
    if os.getpid() == process:
        shutil.rmtree(folder, ignore_errors=True)


def _write(file: Any, path: str, target: str) -> None:
    import pyarrow

    columns = file.get("/table/columns")
    if columns is None or not len(columns):
        raise FrameError(f"{path} is no HDF5 file of Vaex: it has no /table/columns. Write it as Parquet or Arrow with the library that made it")
    order = columns.attrs.get("column_order")
    names = order.split(",") if isinstance(order, str) and set(order.split(",")) == set(columns) else list(columns)
    lengths = {_length(columns[name]) for name in names}
    if len(lengths) > 1:
        raise FrameError(f"columns of {path} have different lengths: {', '.join(map(str, sorted(lengths)))}")
    rows = lengths.pop()
    batches = _batches(columns, names, rows, path)
    first = next(batches)
    part = Path(target).with_suffix(".tmp")
    with pyarrow.ipc.new_file(str(part), first.schema) as writer:
        writer.write_batch(first)
        for batch in batches:
            writer.write_batch(batch)
    os.replace(part, target)


def _batches(columns: Any, names: list[str], rows: int, path: str) -> Iterator[Any]:
    import pyarrow

    for start in range(0, max(rows, 1), SLICE_ROWS):
        stop = min(rows, start + SLICE_ROWS)
        yield pyarrow.record_batch([_array(columns[name], start, stop, f"{path}: column {name}") for name in names], names)


def _length(column: Any) -> int:
    if "indices" in column and "dictionary" in column:
        return _length(column["indices"])
    return len(column["indices"]) - 1 if "indices" in column else len(column["data"])


def _array(column: Any, start: int, stop: int, what: str) -> Any:
    """Values of a column from one row to another."""
    if "dictionary" in column:
        return _decoded(column, start, stop, what)
    if "indices" in column:
        return _texts(column, start, stop, what)
    return _numbers(column, start, stop, what)


def _numbers(column: Any, start: int, stop: int, what: str) -> Any:
    import numpy
    import pyarrow

    data = column["data"]
    values = data[start:stop]
    kind = data.attrs.get("dtype")
    if isinstance(kind, str) and kind.startswith(("datetime64", "timedelta64")):
        values = values.view(kind)
    elif isinstance(kind, str) and kind != str(values.dtype):
        raise FrameError(f"{what} is {kind}, which has no type here")
    if values.ndim != 1 or values.dtype.kind not in "biufmM":
        raise FrameError(f"{what} is {values.dtype} with {values.ndim} dimensions, which has no type here")
    mask = column["mask"][start:stop].astype(bool) if "mask" in column else None
    missing = numpy.isnat(values) if values.dtype.kind in "mM" else None
    mask = missing if mask is None else mask if missing is None else mask | missing
    return pyarrow.array(values.astype(values.dtype.newbyteorder("=")), mask=mask)


def _texts(column: Any, start: int, stop: int, what: str) -> Any:
    import numpy
    import pyarrow

    # Where texts begin is counted from the first of the file; a slice of it begins anew.
    places = column["indices"][start : stop + 1].astype("int64")
    if places[0] < 0 or places[-1] < places[0] or places[-1] > len(column["data"]):
        raise FrameError(f"{what}: texts are damaged: they lie outside of the column")
    data = column["data"][places[0] : places[-1]]
    valid = None
    if "null_bitmap" in column:
        bits = numpy.unpackbits(column["null_bitmap"][start // 8 : stop // 8 + 1], bitorder="little")
        valid = pyarrow.py_buffer(numpy.packbits(bits[start % 8 : start % 8 + stop - start], bitorder="little").tobytes())
    buffers = [valid, pyarrow.py_buffer((places - places[0]).tobytes()), pyarrow.py_buffer(data.tobytes())]
    texts = pyarrow.Array.from_buffers(pyarrow.large_utf8(), stop - start, buffers)
    try:
        # Places that go back, or bytes that are no text.
        texts.validate(full=True)
    except pyarrow.ArrowInvalid as error:
        raise FrameError(f"{what}: texts are damaged: {error}") from error
    return texts.cast(pyarrow.utf8())


def _decoded(column: Any, start: int, stop: int, what: str) -> Any:
    import pyarrow
    import pyarrow.compute

    values = _array(column["dictionary"], 0, _length(column["dictionary"]), what)
    places = _array(column["indices"], start, stop, what)
    # A place outside of the dictionary is how Vaex writes null.
    inside = pyarrow.compute.and_(pyarrow.compute.greater_equal(places, 0), pyarrow.compute.less(places, len(values)))
    places = pyarrow.compute.if_else(inside, places.cast(pyarrow.int32()), pyarrow.scalar(None, pyarrow.int32()))
    return pyarrow.DictionaryArray.from_arrays(places, values)
