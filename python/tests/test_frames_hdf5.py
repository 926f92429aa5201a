"""HDF5 files in the layout of Vaex are frames; other ones are refused."""

import pathlib

import h5py
import numpy as np
import pytest

import splay
from splay.frames import hdf5

ROWS = 20
TEXTS = [None if row % 7 == 3 else "é" * (row % 4) + str(row) for row in range(ROWS)]


def text_column(group, values) -> None:
    """Texts as Vaex stores them."""
    parts = [b"" if value is None else value.encode() for value in values]
    group["data"] = np.frombuffer(b"".join(parts) or b"\0", "S1")
    group["indices"] = np.cumsum([0, *map(len, parts)]).astype("i4")
    group["null_bitmap"] = np.packbits([value is not None for value in values], bitorder="little")


@pytest.fixture
def file(tmp_path) -> pathlib.Path:
    path = tmp_path / "day.hdf5"
    with h5py.File(path, "w") as made:
        columns = made.create_group("table/columns")
        columns.attrs["column_order"] = "time,symbol,price,size,flag,note"
        columns["price/data"] = np.arange(ROWS) / 4
        columns["price/mask"] = np.arange(ROWS) % 5 == 2
        columns["size/data"] = np.arange(ROWS, dtype=">i4")
        columns["flag/data"] = np.arange(ROWS) % 2 == 0
        columns["time/data"] = 1_700_000_000_000_000_000 + np.arange(ROWS)
        columns["time/data"].attrs["dtype"] = "datetime64[ns]"
        text_column(columns.create_group("note"), TEXTS)
        symbol = columns.create_group("symbol")
        symbol.attrs["type"] = "dictionary_encoded"
        text_column(symbol.create_group("dictionary"), ["A", "B"])
        symbol["indices/data"] = np.array([-1 if row == 4 else row % 2 for row in range(ROWS)], "i4")
    return path


@pytest.mark.parametrize("slice_rows", [3, 1 << 20])
def test_columns_are_those_of_the_file(file, monkeypatch, slice_rows):
    monkeypatch.setattr(hdf5, "SLICE_ROWS", slice_rows)
    monkeypatch.setattr(hdf5, "_copies", {})
    frame = splay.scan(file)
    assert frame.columns == ["time", "symbol", "price", "size", "flag", "note"]
    assert (frame.time_column, frame.symbol_column) == ("time", "symbol")
    rows = frame.sort("size").to_arrow()
    assert rows["note"].to_pylist() == TEXTS
    assert rows["price"].to_pylist() == [None if row % 5 == 2 else row / 4 for row in range(ROWS)]
    assert rows["size"].to_pylist() == list(range(ROWS))
    assert rows["flag"].to_pylist() == [row % 2 == 0 for row in range(ROWS)]
    assert rows["symbol"].to_pylist() == [None if row == 4 else "AB"[row % 2] for row in range(ROWS)]
    assert rows["time"].cast("int64").to_pylist() == [1_700_000_000_000_000_000 + row for row in range(ROWS)]
    sums = frame.group_by("symbol").agg(splay.col("size").sum()).sort("symbol").fetchall()
    assert [row[1] for row in sums] == [86, 100, 4]


def test_a_file_is_copied_once_and_anew_when_it_has_changed(file):
    assert hdf5.copied(str(file)) == hdf5.copied(str(file))
    before = hdf5.copied(str(file))
    with h5py.File(file, "a") as changed:
        del changed["table/columns/note"]
    assert splay.scan(file).columns == ["time", "symbol", "price", "size", "flag"] or before != hdf5.copied(str(file))
    assert len(splay.scan([file, file])) == 2 * ROWS
    assert len(splay.scan(str(file.parent / "*.hdf5"))) == ROWS


def test_other_files_are_refused(tmp_path):
    with h5py.File(tmp_path / "other.h5", "w") as made:
        made["x"] = [1, 2]
    with pytest.raises(splay.FrameError, match="no HDF5 file of Vaex"):
        splay.scan(tmp_path / "other.h5")
    with h5py.File(tmp_path / "odd.h5", "w") as made:
        made["table/columns/x/data"] = np.zeros((2, 3))
    with pytest.raises(splay.FrameError, match="column x"):
        splay.scan(tmp_path / "odd.h5")
    with pytest.raises(splay.NoMatchError):
        splay.scan(str(tmp_path / "none-*.hdf5"))
    with pytest.raises(splay.NoMatchError):
        splay.scan(tmp_path / "absent.hdf5")
    for places in ([0, 1, 9], [0, 2, 1], [-1, 0, 1]):
        with h5py.File(tmp_path / "damaged.h5", "w") as made:
            made["table/columns/x/data"] = np.frombuffer(b"ab", "S1")
            made["table/columns/x/indices"] = np.array(places, "i4")
        with pytest.raises(splay.FrameError, match="damaged"):
            splay.scan(tmp_path / "damaged.h5")
