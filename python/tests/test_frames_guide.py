"""Every block of the guide of frames runs, in order, as it stands; so do the examples of docstrings."""

import doctest
import importlib
import inspect
import pathlib
import pkgutil
import re

import frame_day
import matplotlib
import pyarrow.parquet
import pytest

import splay
import splay.frames
from splay.frames.buckets import Buckets, Rolling
from splay.frames.grouped import GroupBy
from splay.frames.namespaces import TextNamespace, TimeNamespace
from splay.frames.plots import Plots

matplotlib.use("agg")
from matplotlib import pyplot  # noqa: E402

GUIDE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "guide" / "frames.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```", GUIDE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


@pytest.fixture
def market(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    db = splay.open("market")
    db.write("trade", frame_day.trades())
    db.write("quote", frame_day.quotes())
    db.write("book", frame_day.books())
    (tmp_path / "days").mkdir()
    pyarrow.parquet.write_table(frame_day.trades(), tmp_path / "days" / "2024-01-02.parquet")
    yield db
    splay.set_memory_limit(None)
    pyplot.close("all")


def test_blocks_run(market):
    assert len(BLOCKS) >= 7
    names: dict = {}
    for block in BLOCKS:
        exec(compile(block, str(GUIDE), "exec"), names)  # noqa: S102
        # Frames that the block made are run, too.
        for made in [value for value in names.values() if isinstance(value, splay.Frame)]:
            made.to_arrow()


def test_said_sql_is_what_frames_write(market):
    names: dict = {}
    said = []
    for block in BLOCKS:
        for line in block.splitlines():
            printed = re.match(r"print\((.*)\) +# (.*)$", line)
            if printed:
                said.append((printed[1], printed[2]))
        exec(compile(block, str(GUIDE), "exec"), names)  # noqa: S102
        while said:
            expression, text = said.pop()
            assert str(eval(expression, names)).replace("\n", " ") == text  # noqa: S307


MODULES = [module.name for module in pkgutil.iter_modules(splay.frames.__path__)]


@pytest.mark.parametrize("name", MODULES)
def test_examples_of_docstrings_run(name, market):
    """In them `trade`, `quote` and `book` are frames of this day, and `col` is `splay.col`."""
    given = {table: market[table] for table in market.tables()} | {"col": splay.col, "splay": splay}
    result = doctest.testmod(importlib.import_module(f"splay.frames.{name}"), extraglobs=given)
    assert result.failed == 0


def test_all_that_is_public_has_an_example():
    without = []
    for owner in (splay.Frame, splay.Expr, Plots, TextNamespace, TimeNamespace, GroupBy, Buckets, Rolling):
        for name, member in inspect.getmembers(owner):
            told = inspect.getdoc(member.fget if isinstance(member, property) else member) or ""
            if not name.startswith("_") and ">>>" not in told:
                without.append(f"{owner.__name__}.{name}")
    assert without == []
